//! Tests draining a runtime: no new work starts, running work may finish, and then the runs are
//! left to another process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use agentflow::error::FailureKind;
use agentflow::event::EventKind;
use agentflow::prelude::*;
use agentflow::runtime::{Drained, RuntimeBuilder};
use agentflow::serde_json::json;
use agentflow::store::RunStatus;
use agentflow::{Error, RunId};
use agentflow_testing::{ScriptedModel, TestClock, Turn, check_events, test_runtime};
use agentflow_tests::ProcessStore;
use tokio::time::Instant;

const SECOND: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(30);

fn process(store: ProcessStore, clock: &TestClock) -> RuntimeBuilder {
    test_runtime().clock(clock.clone()).store(store)
}

fn ids(runs: &[&RunId]) -> Vec<RunId> {
    runs.iter().map(|run| (*run).clone()).collect()
}

/// Returns the nodes of a run that have started.
async fn begun(runtime: &Runtime, run: &RunId) -> Vec<String> {
    let events = runtime.run(run).journal().await.unwrap();
    let started = events.iter().filter(|event| matches!(event.kind, EventKind::NodeStarted { .. }));
    started.map(|event| event.path.to_string()).collect()
}

async fn step(seconds: u64) -> Result<u64> {
    tokio::time::sleep(SECOND * u32::try_from(seconds).unwrap_or(u32::MAX)).await;
    Ok(seconds)
}

#[workflow]
async fn two_steps(seconds: u64) -> Result<u64> {
    let first = step(seconds).await?;
    let second = step(first).await?;
    Ok(first + second)
}

#[workflow]
async fn one_step(seconds: u64) -> Result<u64> {
    let only = step(seconds).await?;
    Ok(only * 10)
}

#[workflow]
async fn asks_and_waits(seconds: u64) -> Result<u64> {
    let approval = gate!("continue?", seconds).await?;
    let waited =
        step(if matches!(approval, Approval::Granted { .. }) { seconds } else { 0 }).await?;
    Ok(waited)
}

#[tokio::test(start_paused = true)]
async fn running_steps_finish_and_no_other_begins() {
    let (store, clock) = (ProcessStore::new(), TestClock::new());
    let runtime = process(store.clone(), &clock).build();
    let two = runtime.start(two_steps::workflow(), 5).await.unwrap();
    let one = runtime.start(one_step::workflow(), 7).await.unwrap();
    let asking = runtime.start(asks_and_waits::workflow(), 1).await.unwrap();
    tokio::time::sleep(SECOND).await;
    let began = Instant::now();
    let drained = runtime.drain(LONG).await;
    assert_eq!(began.elapsed().as_secs(), 6, "as long as the last running step, and no longer");
    let mut left = ids(&[two.run_id(), asking.run_id()]);
    left.sort();
    assert_eq!(
        (&drained.ended, &drained.left, drained.cancelled.len()),
        (&ids(&[one.run_id()]), &left, 0)
    );
    assert_eq!(one.result().await.unwrap(), 70, "it ended");
    assert_eq!(begun(&runtime, two.run_id()).await, ["first"]);
    for (run, status) in [(two.run_id(), RunStatus::Running), (asking.run_id(), RunStatus::Paused)]
    {
        let record = runtime.run(run).record().await.unwrap();
        assert_eq!(record.status, status);
        let events = runtime.run(run).journal().await.unwrap();
        let ended = events.iter().any(|event| event.kind.ends_run());
        assert!(
            !ended && record.pause_reason != Some(agentflow::event::PauseReason::Operator),
            "{events:?}"
        );
    }
    let error = two.result().await.unwrap_err();
    assert_eq!(error.kind(), FailureKind::Fenced, "{error}");
    assert!(error.to_string().contains("its runtime was drained; it can be resumed"), "{error}");
    // The first process is still alive, but its runs are free. Completed steps do not run again.
    let second = process(store.process(2), &clock).build();
    let recovered = second.recover().await.unwrap();
    assert_eq!(
        (recovered.resumed.len(), recovered.left.len(), recovered.elsewhere.len()),
        (2, 0, 0)
    );
    second.run(asking.run_id()).approve("approval", Approval::granted(), "ada").await.unwrap();
    for run in &recovered.resumed {
        let expected = if run.run_id() == two.run_id() { "10" } else { "1" };
        assert_eq!(run.result().await.unwrap().as_str(), expected);
        check_events(&second.run(run.run_id()).journal().await.unwrap()).unwrap();
    }
    assert_eq!(begun(&second, two.run_id()).await, ["first", "second"]);
}

#[tokio::test(start_paused = true)]
async fn at_the_deadline_what_is_running_is_interrupted() {
    let (store, clock) = (ProcessStore::new(), TestClock::new());
    let runtime = process(store.clone(), &clock).build();
    let run = runtime.start(one_step::workflow(), 100).await.unwrap();
    tokio::time::sleep(SECOND).await;
    let began = Instant::now();
    let drained = runtime.drain(10 * SECOND).await;
    assert_eq!((began.elapsed().as_secs(), drained.left), (10, ids(&[run.run_id()])));
    let events = runtime.run(run.run_id()).journal().await.unwrap();
    assert!(matches!(events.last().unwrap().kind, EventKind::NodeStarted { .. }), "{events:?}");
    let second = process(store.process(2), &clock).build();
    let resumed = second.recover().await.unwrap().resumed.remove(0);
    assert_eq!(resumed.result().await.unwrap().as_str(), "1000");
}

#[tokio::test(start_paused = true)]
async fn a_drained_runtime_begins_nothing() {
    let (store, clock) = (ProcessStore::new(), TestClock::new());
    let agent = || Agent::new(ScriptedModel::from_fn(|_| Turn::text("x"))).name("drained-clerk");
    let runtime = process(store.clone(), &clock).agent(&agent()).build();
    let other = process(store.process(2), &clock).build();
    let waiting = other.start(asks_and_waits::workflow(), 1).await.unwrap();
    assert_eq!(runtime.drain(LONG).await, Drained::default());
    let error = runtime.start(one_step::workflow(), 1).await.unwrap_err();
    assert!(matches!(error, Error::Draining), "{error}");
    assert_eq!(
        error.to_string(),
        "the runtime is being drained, so nothing was started; start the run in another process"
    );
    assert!(matches!(agent().runtime(&runtime).start("go"), Err(Error::Draining)));
    assert!(matches!(agent().runtime(&runtime).run("go").await, Err(Error::Draining)));
    assert!(matches!(one_step::workflow().run(&runtime, 1).await, Err(Error::Draining)));
    assert!(matches!(runtime.recover().await, Err(Error::Draining)));
    waiting.abandon();
    tokio::task::yield_now().await;
    store.process(2).die();
    assert!(matches!(runtime.run(&RunId::new("run-1")).resume().await, Err(Error::Draining)));
    // Runs can still be inspected and operated.
    runtime
        .run(&RunId::new("run-1"))
        .approve("approval", Approval::granted(), "ada")
        .await
        .unwrap();
    assert_eq!(runtime.run(&RunId::new("run-1")).record().await.unwrap().status, RunStatus::Queued);
    // A second drain has no work to do.
    assert_eq!(runtime.drain(Duration::ZERO).await, Drained::default());
}

#[tokio::test(start_paused = true)]
async fn a_run_without_a_store_has_until_the_deadline() {
    let runtime = test_runtime().build();
    let short = runtime.start(two_steps::workflow(), 4).await.unwrap();
    let long = runtime.start(two_steps::workflow(), 400).await.unwrap();
    let agent =
        Agent::new(ScriptedModel::new([Turn::stall()])).runtime(&runtime).start("go").unwrap();
    tokio::time::sleep(SECOND).await;
    let began = Instant::now();
    let drained = runtime.drain(10 * SECOND).await;
    assert_eq!(began.elapsed().as_secs(), 10);
    assert_eq!((drained.ended, drained.left.len()), (ids(&[short.run_id()]), 0));
    let mut cancelled = ids(&[long.run_id(), agent.run_id()]);
    cancelled.sort();
    assert_eq!(drained.cancelled, cancelled);
    assert_eq!(short.result().await.unwrap(), 8);
    for error in [long.result().await.unwrap_err(), agent.result().await.unwrap_err()] {
        assert_eq!(error.kind(), FailureKind::Cancelled);
        assert!(error.to_string().contains("was drained, and it has no store"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn two_drains_end_at_the_earlier_deadline() {
    let runtime = process(ProcessStore::new(), &TestClock::new()).build();
    let run = runtime.start(one_step::workflow(), 100).await.unwrap();
    let began = Instant::now();
    let (first, second) = tokio::join!(runtime.drain(50 * SECOND), runtime.drain(5 * SECOND));
    assert_eq!(began.elapsed().as_secs(), 5);
    assert_eq!((first.left, second.left), (ids(&[run.run_id()]), ids(&[run.run_id()])));
    // Dropping the future of a drain does not revert it.
    let runtime = process(ProcessStore::new(), &TestClock::new()).build();
    let run = runtime.start(two_steps::workflow(), 10).await.unwrap();
    assert!(tokio::time::timeout(SECOND, runtime.drain(LONG)).await.is_err());
    assert!(matches!(runtime.start(one_step::workflow(), 1).await, Err(Error::Draining)));
    assert_eq!(run.result().await.unwrap_err().kind(), FailureKind::Fenced);
    assert_eq!(
        runtime.run(run.run_id()).journal().await.unwrap().len(),
        3,
        "its first step has its end"
    );
}

/// Look it up.
#[tool(effects = "read")]
async fn look_up(seconds: u64) -> String {
    tokio::time::sleep(SECOND * u32::try_from(seconds).unwrap_or(u32::MAX)).await;
    format!("it took {seconds}")
}

/// Look things up.
#[agent(tools = [look_up])]
async fn librarian(cx: &Context, question: String) -> Result<String>;

#[workflow]
async fn research(cx: &Context, question: String) -> Result<String> {
    let answer = librarian(cx, question).await?;
    Ok(answer)
}

/// Ask somebody who asks the library.
#[tool(idempotent)]
async fn delegate(cx: &Context, question: String) -> Result<String> {
    librarian(cx, question).await
}

/// Returns a model that calls its tool and then answers. The tool takes `seconds`.
fn looking(seconds: u64, calls: &Arc<AtomicU32>) -> ScriptedModel {
    let calls = Arc::clone(calls);
    ScriptedModel::from_fn(move |request| {
        calls.fetch_add(1, Ordering::SeqCst);
        let last =
            request.messages.last().map(|message| format!("{message:?}")).unwrap_or_default();
        let delegates = request.tools.definitions().iter().any(|tool| &*tool.name == "delegate");
        match last.contains("it took") || last.contains("found") {
            true => Turn::text("found"),
            false if delegates => Turn::call("delegate", json!({"question": "where?"})),
            false => Turn::call("look_up", json!({"seconds": seconds})),
        }
    })
}

#[tokio::test(start_paused = true)]
async fn agents_stop_between_their_calls() {
    let (store, clock, calls) = (ProcessStore::new(), TestClock::new(), Arc::default());
    let model = looking(8, &calls);
    let clerk = || Agent::new(model.clone()).name("drained-clerk").tools(tools![look_up]);
    let chief = || Agent::new(model.clone()).name("chief").tools(tools![delegate]);
    let runtime = process(store.clone(), &clock).model(model.clone()).build();
    // An agent, an agent in a workflow step, and an agent in another agent's tool. Each is waiting
    // for its tool.
    let own = clerk().runtime(&runtime).start("where?").unwrap();
    let nested = runtime.start(research::workflow(), "where?".to_owned()).await.unwrap();
    let in_tool = chief().runtime(&runtime).start("where?").unwrap();
    // This agent is polled by its caller.
    let (here, of_runtime) = (clerk(), runtime.clone());
    let called = tokio::spawn(async move { here.runtime(&of_runtime).run("where?").await });
    tokio::time::sleep(SECOND).await;
    assert_eq!(calls.load(Ordering::SeqCst), 5);
    let began = Instant::now();
    let drained = runtime.drain(LONG).await;
    assert_eq!(began.elapsed().as_secs(), 7, "as long as the tools");
    assert_eq!((drained.left.len(), drained.ended.len(), drained.cancelled.len()), (4, 0, 0));
    assert_eq!(calls.load(Ordering::SeqCst), 5, "no model was asked");
    assert_eq!(called.await.unwrap().unwrap_err().kind(), FailureKind::Fenced);
    for run in [own.run_id(), nested.run_id(), in_tool.run_id()] {
        let events = runtime.run(run).journal().await.unwrap();
        assert!(
            events.iter().any(|event| matches!(event.kind, EventKind::ToolCompleted { .. })),
            "{events:?}"
        );
        assert!(!events.iter().any(|event| event.kind.ends_run()), "{events:?}");
    }
    let second = process(store.process(2), &clock)
        .model(model.clone())
        .agent(&clerk())
        .agent(&chief())
        .build();
    let recovered = second.recover().await.unwrap();
    assert_eq!((recovered.resumed.len(), recovered.left.len()), (4, 0), "{:?}", recovered.left);
    let began = Instant::now();
    for run in &recovered.resumed {
        assert_eq!(run.result().await.unwrap().as_str(), r#""found""#);
        check_events(&second.run(run.run_id()).journal().await.unwrap()).unwrap();
    }
    assert_eq!(began.elapsed().as_secs(), 0, "no tool was called again");
    assert_eq!(calls.load(Ordering::SeqCst), 10);
}

#[workflow]
async fn asks_within(n: u64) -> Result<u64> {
    let inner = asks_and_waits(n).await?;
    Ok(inner)
}

#[tokio::test(start_paused = true)]
async fn what_asks_a_person_is_left_at_once() {
    let (store, clock) = (ProcessStore::new(), TestClock::new());
    let runtime = process(store.clone(), &clock).build();
    let run = runtime.start(asks_within::workflow(), 3).await.unwrap();
    tokio::time::sleep(SECOND).await;
    run.pause().await.unwrap();
    let began = Instant::now();
    assert_eq!(runtime.drain(LONG).await.left, ids(&[run.run_id()]));
    assert_eq!(began.elapsed().as_secs(), 0);
    let second = process(store.process(2), &clock).build();
    let resumed = second.recover().await.unwrap().resumed.remove(0);
    second.run(run.run_id()).approve("inner/approval", Approval::granted(), "ada").await.unwrap();
    assert_eq!(
        second.run(run.run_id()).record().await.unwrap().status,
        RunStatus::Paused,
        "an operator holds it"
    );
    second.run(run.run_id()).unpause().await.unwrap();
    assert_eq!(resumed.result().await.unwrap().as_str(), "3");
}

//! Tests access to runs by their id: attached handles in the same and in another process, events,
//! outputs; and agent runs that are recovered, paused, retried and answered like runs of workflows.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use agentflow::agent::Limits;
use agentflow::error::ControlErrorKind;
use agentflow::event::{EventKind, PauseReason};
use agentflow::model::ModelErrorKind;
use agentflow::prelude::*;
use agentflow::schemars::JsonSchema;
use agentflow::serde::{Deserialize, Serialize};
use agentflow::serde_json::json;
use agentflow::store::{RunFilter, RunStatus, Store};
use agentflow::tool::{FnTool, ToolPolicy};
use agentflow::{Error, Event, RunId};
use agentflow_testing::{ScriptedModel, TestClock, Turn, check_events, test_runtime};
use agentflow_tests::ProcessStore;
use futures_util::StreamExt;

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

async fn slow(n: u32) -> Result<u32> {
    pass(10).await;
    Ok(n + 1)
}

#[workflow(name = "chain-of-by-id")]
async fn chain(n: u32) -> Result<u32> {
    let a = slow(n).await?;
    let b = slow(a).await?;
    let c = slow(b).await?;
    Ok(c)
}

fn id() -> RunId {
    RunId::new("run-1")
}

#[derive(Deserialize, JsonSchema)]
#[serde(crate = "agentflow::serde")]
#[schemars(crate = "agentflow::schemars")]
struct Nothing {}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(crate = "agentflow::serde")]
#[schemars(crate = "agentflow::schemars")]
struct Risk {
    level: u8,
}

/// Judge this change.
#[agent(max_steps = 9)]
async fn judge(cx: &Context, change: String) -> Result<Risk>;

/// Returns an agent whose tool takes ten seconds.
fn waiter(model: &ScriptedModel, waits: &Arc<AtomicU32>) -> Agent {
    let waits = Arc::clone(waits);
    let wait = FnTool::new("wait", "Waits.", move |_, _: Nothing| {
        waits.fetch_add(1, Ordering::SeqCst);
        async {
            pass(10).await;
            Ok::<_, String>(1)
        }
    });
    let limits = Limits::default().timeout(Duration::from_secs(60));
    Agent::new(model.clone())
        .name("waiter")
        .tools([wait.policy(ToolPolicy::default().idempotent())])
        .settings(limits)
}

fn runtime(store: impl Store, clock: &TestClock) -> agentflow::runtime::RuntimeBuilder {
    test_runtime().clock(clock.clone()).store(store)
}

async fn status(store: &impl Store) -> (RunStatus, Option<PauseReason>) {
    let record = store.record(&id()).await.unwrap().unwrap();
    (record.status, record.pause_reason)
}

async fn journal(store: &impl Store) -> Vec<Event> {
    let events = store.read(&id(), 0, 10_000).await.unwrap();
    check_events(&events).unwrap();
    events
}

fn names(events: &[Event]) -> Vec<&str> {
    events.iter().map(Event::name).collect()
}

#[tokio::test(start_paused = true)]
async fn a_run_is_attached_to_wherever_it_is_executed() {
    let (store, clock) = (ProcessStore::new(), TestClock::new());
    let first = runtime(store.clone(), &clock).build();
    let started = first.start(chain::workflow(), 1).await.unwrap();
    let elsewhere = runtime(store.process(2), &clock).build();
    pass(15).await;
    for runtime in [&first, &elsewhere] {
        let run = runtime.run(&id()).attach().await.unwrap();
        assert_eq!(run.run_id(), &id());
        let (typed, untyped, events) = (run.typed::<u32>(), run.clone(), run.events());
        drop(run);
        let seen = tokio::spawn(async move { events.collect::<Vec<_>>().await });
        let (typed, untyped) = (
            tokio::spawn(async move { typed.result().await }),
            tokio::spawn(async move { untyped.result().await }),
        );
        pass(1).await;
        assert!(!seen.is_finished() && !typed.is_finished());
        if std::ptr::eq(runtime, &elsewhere) {
            assert_eq!(started.result().await.unwrap(), 4);
            assert_eq!(started.clone().untyped().result().await.unwrap().as_str(), "4");
        } else {
            // Dropping handles does not stop the run.
            seen.abort();
            continue;
        }
        assert_eq!(typed.await.unwrap().unwrap(), 4);
        assert_eq!(untyped.await.unwrap().unwrap().as_str(), "4");
        assert_eq!(names(&seen.await.unwrap()), names(&journal(&store).await));
    }
    // After the run has ended, its events can be read from any position.
    let all = journal(&store).await;
    for after in [0, 3, all.len() as u64 - 1, all.len() as u64] {
        let rest: Vec<Event> = elsewhere.run(&id()).events(after).await.unwrap().collect().await;
        assert_eq!(rest, all[usize::try_from(after).unwrap()..], "after {after}");
    }
    assert_eq!(elsewhere.run(&id()).output().await.unwrap().as_str(), "4");
    let wrong =
        elsewhere.run(&id()).attach().await.unwrap().typed::<String>().result().await.unwrap_err();
    assert!(
        wrong.to_string().contains(
            "the output of the run `run-1` is not what was asked for: `alloc::string::String` cannot be read from it"
        ),
        "{wrong}"
    );
    let missing = elsewhere.run(&RunId::new("run-9")).attach().await.unwrap_err();
    assert_eq!(missing.kind(), "not_found");
    let memory = Runtime::default().run(&id()).attach().await.unwrap_err();
    assert!(memory.to_string().contains("has no store"), "{memory}");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_nobody_executes_has_its_end_when_it_is_resumed() {
    let (store, clock) = (ProcessStore::new(), TestClock::new());
    let first = runtime(store.clone(), &clock).build().start(chain::workflow(), 1).await.unwrap();
    pass(15).await;
    first.abandon();
    tokio::task::yield_now().await;
    store.die();
    let second = runtime(store.process(2), &clock).build();
    let waiting = second.run(&id()).attach().await.unwrap();
    let events = waiting.events();
    pass(100).await;
    assert_eq!(second.recover().await.unwrap().resumed.len(), 1);
    assert_eq!(waiting.typed::<u32>().result().await.unwrap(), 4);
    assert_eq!(names(&events.collect::<Vec<_>>().await), names(&journal(&store.process(3)).await));
}

#[workflow(name = "asks-of-by-id")]
async fn asks(n: u32) -> Result<u32> {
    let approval = gate!("count {n}?", n).await?;
    Ok(if approval.is_granted() { n } else { 0 })
}

/// Measures in virtual time how long an answer takes to reach another process.
#[tokio::test(start_paused = true)]
async fn an_answer_given_in_another_process_arrives_within_50_ms() {
    for wait_ms in [1, 7, 30, 39, 41, 100, 1_003] {
        let (store, clock) = (ProcessStore::new(), TestClock::new());
        let run = runtime(store.clone(), &clock).build().start(asks::workflow(), 3).await.unwrap();
        run.events().any(|event| async move { event.name() == "run.paused" }).await;
        let elsewhere = runtime(store.process(2), &clock).build();
        tokio::time::sleep(Duration::from_millis(wait_ms)).await;
        let asked = tokio::time::Instant::now();
        let ended = async {
            assert_eq!(run.result().await.unwrap(), 3);
            asked.elapsed()
        };
        let run_id = id();
        let (answered, took) = tokio::join!(
            elsewhere.run(&run_id).approve("approval", Approval::granted(), "ada"),
            ended
        );
        answered.unwrap();
        assert!(took <= Duration::from_millis(50), "{took:?} after {wait_ms} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn the_failure_and_the_cancellation_of_another_process() {
    for cancelled in [false, true] {
        let (store, clock) = (ProcessStore::new(), TestClock::new());
        let model = ScriptedModel::new([if cancelled {
            Turn::stall()
        } else {
            Turn::fails(ModelErrorKind::Auth)
        }]);
        let first = runtime(store.clone(), &clock).build();
        let run = Agent::new(model).runtime(&first).start("go").unwrap();
        pass(1).await;
        let run_id = run.run_id().clone();
        let elsewhere = runtime(store.process(2), &clock).build();
        let attached = elsewhere.run(&run_id).attach().await.unwrap();
        if cancelled {
            attached.cancel("enough").await.unwrap();
        }
        let (here, there) = (run.result().await.unwrap_err(), attached.result().await.unwrap_err());
        assert_eq!((here.kind(), here.to_string()), (there.kind(), there.to_string()));
    }
}

#[tokio::test(start_paused = true)]
async fn recover_resumes_agents() {
    for linked in [true, false] {
        let (store, clock, waits) = (ProcessStore::new(), TestClock::new(), Arc::default());
        let model = match linked {
            true => ScriptedModel::new([Turn::stall(), Turn::text(r#"{"level": 3}"#)]),
            false => ScriptedModel::new([Turn::call("wait", json!({})), Turn::text("done")]),
        };
        let agent = waiter(&model, &waits);
        let process =
            |store: ProcessStore| runtime(store, &clock).model(model.clone()).agent(&agent).build();
        let first = process(store.clone());
        let cx = first.context();
        let run = tokio::spawn({
            let agent = agent.clone().runtime(&first);
            async move {
                match linked {
                    true => {
                        judge(&cx, "the change".to_owned()).await.map(|risk| risk.level.to_string())
                    }
                    false => agent.run("go").await.map(|result| result.into_output()),
                }
            }
        });
        pass(1).await;
        run.abort();
        tokio::task::yield_now().await;
        store.die();
        let second = process(store.process(2));
        let recovered = second.recover().await.unwrap();
        assert!(recovered.left.is_empty(), "{:?}", recovered.left);
        let output = recovered.resumed[0].result().await.unwrap();
        assert_eq!(output.as_str(), if linked { r#"{"level": 3}"# } else { r#""done""# });
        if linked {
            assert_eq!(
                second.run(&id()).attach().await.unwrap().typed::<Risk>().result().await.unwrap(),
                Risk { level: 3 }
            );
        } else {
            let again =
                second.run(&id()).attach_agent(&agent).await.unwrap().result().await.unwrap();
            assert_eq!(
                (again.output().as_str(), again.conversation().messages().len()),
                ("done", 4)
            );
        }
        model.finish();
        journal(&store.process(3)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_agent_is_paused_over_a_restart_and_its_time_stands_still() {
    let (store, clock, waits) = (ProcessStore::new(), TestClock::new(), Arc::default());
    let model = ScriptedModel::new([
        Turn::call("wait", json!({})),
        Turn::call("wait", json!({})),
        Turn::text("done"),
    ]);
    let agent = waiter(&model, &waits);
    let first = runtime(store.clone(), &clock).agent(&agent).build();
    let run = agent.clone().runtime(&first).start("go").unwrap();
    pass(1).await;
    run.pause().await.unwrap();
    pass(3600).await;
    assert_eq!(status(&store).await, (RunStatus::Paused, Some(PauseReason::Operator)));
    assert_eq!(
        waits.load(Ordering::SeqCst),
        1,
        "what had begun runs to its end, and nothing begins"
    );
    run.abandon();
    tokio::task::yield_now().await;
    store.die();

    let second = runtime(store.process(2), &clock).agent(&agent).build();
    let recovered = second.recover().await.unwrap();
    pass(3600).await;
    assert_eq!(waits.load(Ordering::SeqCst), 1);
    assert_eq!(status(&store.process(3)).await, (RunStatus::Paused, Some(PauseReason::Operator)));
    let operator = runtime(store.process(4), &clock).build();
    let operated = operator.run(&id()).attach().await.unwrap();
    tokio::join!(async { operated.unpause().await.unwrap() }, async { pass(5).await });
    assert_eq!(recovered.resumed[0].result().await.unwrap().as_str(), r#""done""#);
    assert_eq!(operated.result().await.unwrap().as_str(), r#""done""#);
    assert_eq!(waits.load(Ordering::SeqCst), 2);
    journal(&store.process(5)).await;
}

#[tokio::test(start_paused = true)]
async fn the_time_of_an_agent_ends_though_it_was_paused() {
    let (store, clock) = (ProcessStore::new(), TestClock::new());
    let model = ScriptedModel::from_fn(|_| Turn::call("wait", json!({})));
    let agent = waiter(&model, &Arc::default());
    let first = runtime(store.clone(), &clock).build();
    let began = tokio::time::Instant::now();
    let run = agent.runtime(&first).start("go").unwrap();
    pass(5).await;
    run.pause().await.unwrap();
    pass(1000).await;
    run.unpause().await.unwrap();
    let error = run.result().await.unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    assert_eq!(began.elapsed().as_secs(), 1060);
    journal(&store).await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_model_call_is_retried() {
    for by_handle in [true, false] {
        let (store, clock) = (ProcessStore::new(), TestClock::new());
        let turns =
            [Turn::call("wait", json!({})), Turn::fails(ModelErrorKind::Auth), Turn::text("done")];
        let model = ScriptedModel::new(turns);
        let waits = Arc::default();
        let agent = waiter(&model, &waits);
        let first = runtime(store.clone(), &clock).agent(&agent).build();
        let run = agent.clone().runtime(&first).start("go").unwrap();
        assert_eq!(run.result().await.unwrap_err().kind(), "auth");
        let report = first.run(&id()).inspect().await.unwrap();
        let steps: Vec<_> =
            report.nodes.iter().map(|node| (node.name.as_str(), node.status.as_str())).collect();
        assert_eq!(
            steps,
            [("model#1", "success"), ("tool#1.wait", "success"), ("model#2", "failed")]
        );
        for wrong in ["model#1", "tool#1.wait"] {
            let refused = first.run(&id()).retry(wrong, "ada").await.unwrap_err();
            assert!(
                refused.to_string().contains("only a failed model call is retried"),
                "{refused}"
            );
        }
        match by_handle {
            true => {
                run.retry("model#2", "ada").await.unwrap();
                assert_eq!(run.result().await.unwrap().output(), "done");
            }
            false => {
                let second = runtime(store.process(2), &clock).agent(&agent).build();
                second.run(&id()).retry("model#2", "ada").await.unwrap();
                assert_eq!(second.run(&id()).output().await.unwrap().as_str(), r#""done""#);
            }
        }
        assert_eq!(waits.load(Ordering::SeqCst), 1);
        model.finish();
        let all = journal(&store.process(3)).await;
        assert!(
            all.iter()
                .any(|event| matches!(&event.kind, EventKind::NodeReset { by } if **by == *"ada"))
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_reached_a_limit_is_not_retried() {
    let (store, clock) = (ProcessStore::new(), TestClock::new());
    let model = ScriptedModel::from_fn(|_| Turn::call("wait", json!({})));
    let agent = waiter(&model, &Arc::default()).settings(Limits::default().max_steps(1));
    let first = runtime(store.clone(), &clock).agent(&agent).build();
    let run = agent.runtime(&first).start("go").unwrap();
    run.result().await.unwrap_err();
    let refused = run.retry("model#1", "ada").await.unwrap_err();
    let Error::Control(control) = &refused else { panic!("{refused}") };
    assert_eq!(control.kind(), ControlErrorKind::WrongState);
    assert_eq!(
        refused.to_string(),
        "the step `model#1` of the agent cannot be retried: the run failed as `max_steps_reached`, and only a failed \
         model call is retried; begin a new run with the conversation of this one"
    );
    assert_eq!(status(&store).await.0, RunStatus::Failed);
}

/// A run that cannot be resumed is reported by `recover` with the reason.
#[tokio::test(start_paused = true)]
async fn an_agent_that_is_not_known_is_left() {
    let (store, clock) = (ProcessStore::new(), TestClock::new());
    let model = ScriptedModel::new([Turn::stall()]);
    let first = runtime(store.clone(), &clock).build();
    let run = Agent::new(model).name("juge").runtime(&first).start("go").unwrap();
    pass(1).await;
    run.abandon();
    tokio::task::yield_now().await;
    store.die();
    let second = runtime(store.process(2), &clock).build();
    let recovered = second.recover().await.unwrap();
    assert_eq!(
        recovered.left[0].1.to_string(),
        "the run `run-1` is one of the agent `juge`, which is not known here; give it to the runtime with \
         `Runtime::builder().agent(..)`, or resume the run with `Agent::resume`; did you mean `judge`?"
    );
    assert_eq!(second.runs().list(RunFilter::unfinished()).await.unwrap().len(), 1);
}

/// A retried run is running again, and its previous failure does not matter.
#[tokio::test(start_paused = true)]
async fn an_agent_that_was_retried_is_running() {
    let (store, clock) = (ProcessStore::new(), TestClock::new());
    let model = ScriptedModel::new([Turn::fails(ModelErrorKind::Auth), Turn::stall()]);
    let agent = waiter(&model, &Arc::default());
    let first = runtime(store.clone(), &clock).agent(&agent).build();
    let run = agent.clone().runtime(&first).start("go").unwrap();
    run.result().await.unwrap_err();
    run.retry("model#1", "ada").await.unwrap();
    pass(1).await;
    let refused = run.retry("model#1", "ada").await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the run of an agent is retried when it has failed; it is running"
    );
    run.cancel("enough").await.unwrap();
}

/// An attached handle follows the run when another process resumes it.
#[tokio::test(start_paused = true)]
async fn an_attached_run_is_followed_into_another_process() {
    let (store, clock) = (ProcessStore::new(), TestClock::new());
    let first = runtime(store.clone(), &clock).build();
    let run = first.start(chain::workflow(), 1).await.unwrap();
    let attached = first.run(&id()).attach().await.unwrap();
    pass(15).await;
    run.abandon();
    tokio::task::yield_now().await;
    assert_eq!(runtime(store.process(2), &clock).build().recover().await.unwrap().resumed.len(), 1);
    assert_eq!(attached.typed::<u32>().result().await.unwrap(), 4);
}

//! Tests control requests at difficult moments: the run's process ends, another one resumes it, two
//! runtimes have it, it belongs to an agent, or a part of it waits. The journal contains every
//! request that was granted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use agentflow::agent::{Limits, RunRequest};
use agentflow::error::ControlErrorKind;
use agentflow::event::{EventKind, PauseReason};
use agentflow::serde_json::json;
use agentflow::store::{MemoryStore, RunFilter, RunStatus, Store, StoreErrorKind};
use agentflow::tool::{FnTool, ToolPolicy};
use agentflow::workflow::{Handle, Node, NodePolicy, OnError, StopPolicy};
use agentflow::{Agent, Approval, Context, Error, Event, RunHandle, RunId, Runtime, Workflow};
use agentflow_testing::{ScriptedModel, TestClock, Turn, check_events, test_runtime, within};
use agentflow_tests::ProcessStore;

type Step<T> = Result<T, String>;

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

async fn slow(n: u32) -> Step<u32> {
    pass(10).await;
    Ok(n + 1)
}

fn chain() -> Workflow<(u32,), u32> {
    Workflow::build("chain", ["n"], |b, (n,)| {
        let a = b.node("a", (n,), |_, (n,)| slow(n));
        let c = b.node("c", (a,), |_, (n,)| slow(n));
        b.node("e", (c,), |_, (n,)| slow(n))
    })
    .unwrap()
}

fn gate(name: &str) -> Workflow<(u32,), u32> {
    Workflow::build(name, ["n"], |b, (n,)| {
        let ok: Handle<Approval> =
            b.gate("ok", (n,), |(n,)| Step::Ok((format!("is {n} right?"), n)));
        b.value("end", (ok, n), |(_, n)| Step::Ok(n + 1))
    })
    .unwrap()
}

/// Returns a workflow with two nested workflows that each wait for an approval at the same time.
fn two_gates() -> Workflow<(u32,), u32> {
    let nested = |name: &'static str| {
        let flow = gate(name);
        move |cx: Context, (n,): (u32,)| {
            let flow = flow.clone();
            async move { flow.run_in(&cx, n).await }
        }
    };
    Workflow::build("two_gates", ["n"], |b, (n,)| {
        let left = b.node("left", (n,), nested("left"));
        let right = b.node("right", (n,), nested("right"));
        b.value("sum", (left, right), |(x, y)| Step::Ok(x + y))
    })
    .unwrap()
}

fn id() -> RunId {
    RunId::new("run-1")
}

fn process(store: impl Store, clock: &TestClock) -> Runtime {
    test_runtime()
        .clock(clock.clone())
        .store(store)
        .workflow(&chain())
        .workflow(&payments())
        .workflow(&two_gates())
        .workflow(&gate("gate"))
        .build()
}

async fn status(store: &impl Store) -> (RunStatus, Option<PauseReason>) {
    let record = store.record(&id()).await.unwrap().unwrap();
    (record.status, record.pause_reason)
}

async fn events(store: &impl Store) -> Vec<Event> {
    let events = store.read(&id(), 0, 10_000).await.unwrap();
    check_events(&events).unwrap();
    events
}

fn count(events: &[Event], name: &str) -> usize {
    events.iter().filter(|event| event.name() == name).count()
}

#[track_caller]
fn refused<T>(result: Result<T, Error>, kind: ControlErrorKind, text: &str) {
    match result {
        Err(Error::Control(error)) => {
            assert_eq!((error.kind(), error.to_string().as_str()), (kind, text));
        }
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it should have been refused: {text}"),
    }
}

async fn end<T>(handle: RunHandle<T>, store: &ProcessStore) {
    handle.abandon();
    tokio::task::yield_now().await;
    store.die();
}

use ControlErrorKind::{NoResponse, WrongState};

#[tokio::test(start_paused = true)]
async fn cancel_returns_when_the_end_is_kept() {
    let (store, clock) = (ProcessStore::new(), TestClock::new());
    let first = process(store.clone(), &clock);
    let handle = first.start(chain(), 1).await.unwrap();
    pass(1).await;
    first.run(&id()).cancel("enough").await.unwrap();
    assert_eq!(status(&store).await.0, RunStatus::Cancelled);
    handle.result().await.unwrap_err();

    // The same from another process.
    let handle = first.start(chain(), 1).run_id(RunId::new("run-2")).await.unwrap();
    pass(1).await;
    let second = process(store.process(2), &clock);
    second.run(&RunId::new("run-2")).cancel("enough").await.unwrap();
    assert_eq!(
        store.record(&RunId::new("run-2")).await.unwrap().unwrap().status,
        RunStatus::Cancelled
    );
    drop(handle);
    events(&store).await;
}

#[tokio::test(start_paused = true)]
async fn a_run_that_ends_by_itself_was_not_cancelled() {
    let (store, clock) = (ProcessStore::new(), TestClock::new());
    // The run ends before it polls for requests again.
    let flow = Workflow::<(u32,), u32>::build("short", ["n"], |b, (n,)| {
        b.node("a", (n,), |_, (n,)| async move {
            tokio::time::sleep(Duration::from_millis(10)).await;
            Step::Ok(n)
        })
    })
    .unwrap();
    let handle = process(store.clone(), &clock).start(flow, 1).await.unwrap();
    let second = process(store.process(2), &clock);
    refused(
        second.run(&id()).cancel("late").await,
        WrongState,
        "the run cannot be cancelled: it is over (success)",
    );
    assert_eq!(handle.result().await.unwrap(), 1);
    assert_eq!(count(&events(&store).await, "run.cancelled"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_request_outlives_the_process_it_was_left_for() {
    let (store, clock) = (ProcessStore::new(), TestClock::new());
    let handle = process(store.clone(), &clock).start(chain(), 1).await.unwrap();
    pass(1).await;
    let second = process(store.process(2), &clock);
    let run = id();
    let (asked, ()) = tokio::join!(second.run(&run).cancel("enough"), async {
        // The first process ends before it polls for the request.
        tokio::time::sleep(Duration::from_millis(10)).await;
        end(handle, &store).await;
    });
    asked.unwrap();
    assert_eq!(status(&store).await.0, RunStatus::Cancelled);
    events(&store).await;
}

#[tokio::test(start_paused = true)]
async fn what_was_left_is_taken_before_the_first_step_of_the_next_process() {
    let (store, clock) = (ProcessStore::new(), TestClock::new());
    let handle = process(store.clone(), &clock).start(chain(), 1).await.unwrap();
    pass(1).await;
    let second = process(store.process(2), &clock);
    // The operator's process stops waiting before the request is answered.
    let run = id();
    let asked = tokio::time::timeout(Duration::from_millis(10), second.run(&run).pause()).await;
    assert!(asked.is_err());
    end(handle, &store).await;
    let third = process(store.process(3), &clock);
    let handle = third.run(&id()).resume().await.unwrap();
    pass(100).await;
    assert_eq!(status(&store).await, (RunStatus::Paused, Some(PauseReason::Operator)));
    assert_eq!(
        count(&handle.recorded(), "workflow.node.started"),
        1,
        "nothing began in the third process"
    );
    drop(handle);
}

/// Returns a workflow with two concurrent steps that must not be repeated without a decision.
fn payments() -> Workflow<(u32,), u32> {
    let once = |name: &'static str| Node::new(name).policy(NodePolicy::default().repeatable(false));
    Workflow::build("payments", ["n"], |b, (n,)| {
        let y = b.node(once("y"), (n,), |_, (n,)| slow(n));
        let z = b.node(once("z"), (n,), |_, (n,)| slow(n));
        b.value("sum", (y, z), |(y, z)| Step::Ok(y + z))
    })
    .unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_retry_that_was_left_hides_no_step_that_was_lost_beside_it() {
    let (store, clock) = (ProcessStore::new(), TestClock::new());
    let handle = process(store.clone(), &clock).start(payments(), 1).await.unwrap();
    pass(1).await;
    end(handle, &store).await;
    // Both steps were interrupted. `z` is retried and interrupted again while the retry of `y` is
    // pending.
    let of_second = store.process(2);
    let second = process(of_second.clone(), &clock);
    let handle = second.run(&id()).resume().await.unwrap();
    pass(1).await;
    assert_eq!(status(&store).await, (RunStatus::Paused, Some(PauseReason::Interrupted)));
    second.run(&id()).retry("z", "ann").await.unwrap();
    pass(1).await;
    // The process ends before it polls for requests.
    of_second.fail_looks(u32::MAX);
    let operator = process(store.process(3), &clock);
    let run = id();
    let asked =
        tokio::time::timeout(Duration::from_millis(10), operator.run(&run).retry("y", "bob")).await;
    assert!(asked.is_err());
    end(handle, &of_second).await;
    let third = process(store.process(4), &clock);
    let handle = third.run(&id()).resume().await.unwrap();
    pass(100).await;
    assert_eq!(status(&store).await, (RunStatus::Paused, Some(PauseReason::Interrupted)));
    assert_eq!(count(&handle.recorded(), "workflow.node.completed"), 1, "`y` was run again");
    third.run(&id()).retry("z", "ann").await.unwrap();
    assert_eq!(handle.result().await.unwrap().as_str(), "4");
    events(&store).await;
}

#[tokio::test(start_paused = true)]
async fn a_process_that_does_not_respond() {
    let (store, clock) = (ProcessStore::new(), TestClock::new());
    let first = process(store.clone(), &clock);
    let handle = first.start(chain(), 1).await.unwrap();
    store.fail_looks(u32::MAX);
    let second = process(store.process(2), &clock);
    refused(
        second.run(&id()).pause().await,
        NoResponse,
        "the process that executes the run `run-1` did not respond within 30s; the request is withdrawn, unless that \
         process has just read it: look at the run before you ask again",
    );
    store.fail_looks(0);
    assert_eq!(handle.result().await.unwrap(), 4);
    assert_eq!(count(&events(&store).await, "run.paused"), 0, "it was taken back");
}

#[tokio::test(start_paused = true)]
async fn a_look_that_fails_is_not_the_last() {
    let (store, clock) = (ProcessStore::new(), TestClock::new());
    let handle = process(store.clone(), &clock).start(chain(), 1).await.unwrap();
    store.fail_looks(3);
    pass(1).await;
    let second = process(store.process(2), &clock);
    second.run(&id()).pause().await.unwrap();
    assert_eq!(status(&store).await, (RunStatus::Paused, Some(PauseReason::Operator)));
    second.run(&id()).unpause().await.unwrap();
    assert_eq!(status(&store).await, (RunStatus::Running, None));
    refused(
        second.run(&id()).unpause().await,
        WrongState,
        "the run cannot be unpaused: it is running, not paused",
    );
    drop(handle);
}

#[tokio::test(start_paused = true)]
async fn an_ended_run_is_not_opened() {
    let (store, clock) = (ProcessStore::new(), TestClock::new());
    let first = process(store.clone(), &clock);
    let handle = first.start(chain(), 1).await.unwrap();
    handle.result().await.unwrap();
    let error = store.process(2).open(&id()).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Ended);
    let second = process(store.process(2), &clock);
    refused(
        second.run(&id()).resume().await.map(drop),
        WrongState,
        "the run cannot be resumed: it is over (success)",
    );
    assert_eq!(count(&events(&store).await, "run.resumed"), 0);
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Plan {
    n: u32,
}

fn agent(model: &ScriptedModel, runtime: &Runtime) -> Agent {
    let wait = FnTool::new("wait", "Waits.", |_, _: Nothing| async {
        pass(10).await;
        Ok::<_, String>(1)
    });
    Agent::new(model.clone())
        .name("waiter")
        .tools([wait.policy(ToolPolicy::default().idempotent())])
        .runtime(runtime)
}

#[tokio::test(start_paused = true)]
async fn runs_of_agents_are_found_by_their_id() {
    for started in [true, false] {
        let (store, clock) = (ProcessStore::new(), TestClock::new());
        let first = process(store.clone(), &clock);
        let model = ScriptedModel::from_fn(|_| Turn::call("wait", json!({})));
        let agent = agent(&model, &first);
        let run = tokio::spawn(async move {
            match started {
                true => agent.start("go").unwrap().result().await.map(drop),
                false => agent.run("go").await.map(drop),
            }
        });
        pass(1).await;
        let other = process(store.process(2), &clock);
        for runtime in [&first, &other] {
            runtime.run(&id()).pause().await.unwrap();
            refused(
                runtime.run(&id()).pause().await,
                WrongState,
                "the run cannot be paused: it is paused already",
            );
            runtime.run(&id()).unpause().await.unwrap();
            refused(
                runtime.run(&id()).retry("x", "ada").await,
                ControlErrorKind::UnknownNode,
                "the run has no node `x` that has begun, asks or was skipped",
            );
            refused(
                runtime.run(&id()).retry("model#1", "ada").await,
                WrongState,
                "the run of an agent is retried when it has failed; it is running",
            );
        }
        pass(20).await;
        assert!(!run.is_finished(), "nobody opened it");
        other.run(&id()).cancel("enough").await.unwrap();
        assert_eq!(status(&store).await.0, RunStatus::Cancelled);
        assert_eq!(run.await.unwrap().unwrap_err().to_string(), "the run was cancelled: enough");
        events(&store).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_second_start_under_the_id_of_a_live_run_changes_nothing() {
    let (store, clock) = (ProcessStore::new(), TestClock::new());
    let runtime = process(store.clone(), &clock);
    let model = ScriptedModel::from_fn(|_| Turn::call("wait", json!({})));
    let agent = agent(&model, &runtime);
    let first = agent.start("go").unwrap();
    pass(1).await;
    let second = agent.run(RunRequest::new("go").run_id(id())).await.unwrap_err();
    assert!(
        matches!(&second, Error::Store(error) if error.kind() == StoreErrorKind::Exists),
        "{second}"
    );
    let workflow = runtime.start(chain(), 1).run_id(id()).await.unwrap_err();
    assert!(
        matches!(&workflow, Error::Store(error) if error.kind() == StoreErrorKind::Exists),
        "{workflow}"
    );
    runtime.run(&id()).cancel("enough").await.unwrap();
    first.result().await.unwrap_err();
    assert_eq!(count(&events(&store).await, "run.cancelled"), 1);
}

#[tokio::test(start_paused = true)]
async fn two_runtimes_over_one_store_see_each_others_runs() {
    let (store, clock) = (MemoryStore::new(), TestClock::new());
    let (first, second) = (process(store.clone(), &clock), process(store.clone(), &clock));
    let handle = first.start(chain(), 1).await.unwrap();
    pass(1).await;
    assert_eq!(
        second.run(&id()).resume().await.unwrap().run_id(),
        &id(),
        "it is running in this process"
    );
    assert!(second.recover().await.unwrap().resumed.is_empty());
    second.run(&id()).pause().await.unwrap();
    pass(100).await;
    second.run(&id()).unpause().await.unwrap();
    assert_eq!(handle.result().await.unwrap(), 4);
    events(&store).await;
}

#[tokio::test(start_paused = true)]
async fn recovering_twice_at_once_interrupts_nothing() {
    let (store, clock) = (MemoryStore::new(), TestClock::new());
    let flow = Workflow::<(u32,), u32>::build("pays", ["n"], |b, (n,)| {
        let slow_one = b.node("first", (n,), |_, (n,)| slow(n));
        b.node(
            Node::new("pay").policy(NodePolicy::default().repeatable(false)),
            (slow_one,),
            |_, (n,)| slow(n),
        )
    })
    .unwrap();
    let runtime =
        || test_runtime().clock(clock.clone()).store(store.clone()).workflow(&flow).build();
    let mut runs = Vec::new();
    for n in 0..20 {
        let handle =
            runtime().start(flow.clone(), n).run_id(RunId::new(format!("run-{n}"))).await.unwrap();
        runs.push(handle.run_id().clone());
        handle.abandon();
    }
    pass(1).await;
    let (one, two) = (runtime(), runtime());
    let (first, second, third) = tokio::join!(one.recover(), two.recover(), one.recover());
    let mut resumed = Vec::new();
    for recovered in [first, second, third] {
        let recovered = recovered.unwrap();
        assert!(recovered.left.is_empty() && recovered.elsewhere.is_empty(), "{recovered:?}");
        resumed.extend(recovered.resumed);
    }
    assert_eq!(resumed.len(), 20, "each by one of them");
    for handle in &mut resumed {
        handle.result().await.unwrap();
    }
    for run in runs {
        let events = store.read(&run, 0, 1000).await.unwrap();
        assert_eq!(count(&events, "workflow.node.failed"), 0, "{events:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn answers_while_the_runs_are_recovered() {
    let (store, clock) = (ProcessStore::new(), TestClock::new());
    let first = process(store.clone(), &clock);
    let mut handles = Vec::new();
    for n in 0..60_u32 {
        handles.push(
            first.start(gate("gate"), n).run_id(RunId::new(format!("run-{n}"))).await.unwrap(),
        );
    }
    pass(1).await;
    handles.into_iter().for_each(RunHandle::abandon);
    tokio::task::yield_now().await;
    store.die();
    let second = process(store.process(2), &clock);
    let answer = |n: u32, of: Runtime| async move {
        tokio::time::sleep(Duration::from_millis(u64::from(n % 7))).await;
        of.run(&RunId::new(format!("run-{n}")))
            .approve("ok", Approval::granted(), "ada")
            .await
            .unwrap();
    };
    // The answers come from the same runtime, from another runtime of the process, and from another
    // process.
    let others =
        [second.clone(), process(store.process(2), &clock), process(store.process(3), &clock)];
    let answers: Vec<_> =
        (0..60).map(|n| tokio::spawn(answer(n, others[n as usize % 3].clone()))).collect();
    tokio::time::sleep(Duration::from_millis(3)).await;
    let recovered = second.recover().await.unwrap();
    assert!(recovered.left.is_empty() && recovered.elsewhere.is_empty(), "{recovered:?}");
    for answer in answers {
        answer.await.unwrap();
    }
    pass(10).await;
    for run in store.list(RunFilter::new()).await.unwrap() {
        assert_eq!(run.status, RunStatus::Success, "{}", run.run_id);
    }
}

#[tokio::test(start_paused = true)]
async fn runs_of_agents_and_of_other_processes_are_listed_by_recover() {
    let (store, clock) = (ProcessStore::new(), TestClock::new());
    let first = process(store.clone(), &clock);
    let model = ScriptedModel::from_fn(|_| Turn::call("wait", json!({})));
    let agents = agent(&model, &first).start("go").unwrap();
    let kept = process(store.process(2), &clock)
        .start(chain(), 1)
        .run_id(RunId::new("kept"))
        .await
        .unwrap();
    let of_agent = process(store.process(2), &clock);
    let kept_agent = agent(&model, &of_agent)
        .start(RunRequest::new("go").run_id(RunId::new("kept-agent")))
        .unwrap();
    pass(1).await;
    end(agents, &store).await;
    let third = process(store.process(3), &clock);
    let recovered = third.recover().await.unwrap();
    assert!(recovered.resumed.is_empty());
    let left: Vec<String> =
        recovered.left.iter().map(|(run, error)| format!("{run}: {error}")).collect();
    let problem = "run-1: the run `run-1` is one of the agent `waiter`, which is not known here; give it to the runtime \
         with `Runtime::builder().agent(..)`, or resume the run with `Agent::resume`";
    assert_eq!(left, [problem]);
    assert_eq!(recovered.elsewhere, [RunId::new("kept"), RunId::new("kept-agent")]);
    drop((kept, kept_agent));
}

/// Checks that `recover` resumes all runs and lists in `waiting` those with an open question.
#[tokio::test(start_paused = true)]
async fn runs_that_wait_for_a_person_are_named_by_recover() {
    let (store, clock) = (ProcessStore::new(), TestClock::new());
    let first = process(store.clone(), &clock);
    let mut handles = Vec::new();
    for run in ["asks", "answered"] {
        handles.push(first.start(two_gates(), 1).run_id(RunId::new(run)).await.unwrap());
    }
    handles.push(first.start(chain(), 1).run_id(RunId::new("works")).await.unwrap());
    pass(1).await;
    for handle in handles {
        end(handle, &store).await;
    }
    let second = process(store.process(2), &clock);
    let asked = second.runs().questions(RunFilter::new()).await.unwrap();
    for question in asked.iter().filter(|question| question.run == RunId::new("answered")) {
        second.run(&question.run).approve(&question.id, Approval::granted(), "ada").await.unwrap();
    }
    let third = process(store.process(3), &clock);
    let recovered = third.recover().await.unwrap();
    let mut resumed: Vec<&str> =
        recovered.resumed.iter().map(|run| run.run_id().as_str()).collect();
    resumed.sort_unstable();
    assert_eq!(resumed, ["answered", "asks", "works"]);
    assert_eq!(recovered.waiting, [RunId::new("asks")]);
}

#[tokio::test(start_paused = true)]
async fn a_run_is_paused_until_the_last_of_its_workflows_is_answered() {
    for restarted in [false, true] {
        let (store, clock) = (ProcessStore::new(), TestClock::new());
        let mut runtime = process(store.clone(), &clock);
        let mut handle = runtime.start(two_gates(), 1).await.unwrap();
        pass(1).await;
        let waits = (RunStatus::Paused, Some(PauseReason::Approval));
        assert_eq!(status(&store).await, waits);
        if restarted {
            // The answer arrives while no process executes the run.
            end(handle, &store).await;
            let second = store.process(2);
            runtime = process(second.clone(), &clock);
            runtime.run(&id()).approve("left/ok", Approval::granted(), "ada").await.unwrap();
            assert_eq!(status(&store).await, waits, "the other one still asks");
            handle = runtime.run(&id()).resume_as(&two_gates()).await.unwrap();
        } else {
            runtime.run(&id()).approve("left/ok", Approval::granted(), "ada").await.unwrap();
        }
        pass(1).await;
        assert_eq!(status(&store).await, waits, "the other one still asks");
        runtime.run(&id()).approve("right/ok", Approval::granted(), "ada").await.unwrap();
        assert_eq!(handle.result().await.unwrap(), 4);
        events(&store).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_for_a_workflow_that_has_not_begun_again_blocks_nothing() {
    for from_elsewhere in [false, true] {
        let (store, clock) = (ProcessStore::new(), TestClock::new());
        let handle = process(store.clone(), &clock).start(two_gates(), 1).await.unwrap();
        pass(1).await;
        handle.pause().await.unwrap();
        end(handle, &store).await;
        let second = process(store.process(2), &clock);
        let handle = second.run(&id()).resume_as(&two_gates()).await.unwrap();
        let operator = if from_elsewhere { process(store.process(3), &clock) } else { second };
        operator.run(&id()).approve("left/ok", Approval::granted(), "ada").await.unwrap();
        refused(
            operator.run(&id()).approve("left/ok", Approval::granted(), "bob").await,
            WrongState,
            "the node `left/ok` waits for no answer: it is done",
        );
        refused(
            operator.run(&id()).answer("right/ok", &7, "bob").await,
            ControlErrorKind::WrongAnswer,
            "the answer does not fit what `right/ok` asks for: invalid type: integer `7`, expected internally tagged \
             enum Approval at line 1 column 1; write `{\"decision\": \"granted\"}` or `{\"decision\": \"denied\", \
             \"comment\": \"..\"}`, which are `Approval::granted()` and `Approval::denied(..)`; `7` was given",
        );
        assert_eq!(status(&store).await, (RunStatus::Paused, Some(PauseReason::Operator)));
        operator.run(&id()).unpause().await.unwrap();
        pass(1).await;
        assert_eq!(status(&store).await, (RunStatus::Paused, Some(PauseReason::Approval)));
        operator.run(&id()).approve("right/ok", Approval::granted(), "ada").await.unwrap();
        assert_eq!(handle.result().await.unwrap(), 4);
        let all = events(&store).await;
        assert_eq!(count(&all, "approval.requested"), 2, "nobody was asked twice");
        assert_eq!(count(&all, "approval.resolved"), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_of_a_failed_step_is_retried_with_the_step() {
    let (store, clock) = (ProcessStore::new(), TestClock::new());
    let inner = Workflow::<(u32,), u32>::build("inner", ["n"], |b, (n,)| {
        b.node("bad", (n,), |_, (n,)| async move {
            if n > 9 { Ok(n) } else { Err("too small".to_owned()) }
        })
    })
    .unwrap();
    let outer = Workflow::<(u32,), u32>::build("outer", ["n"], |b, (n,)| {
        b.node("nested", (n,), move |cx, (n,)| {
            let inner = inner.clone();
            async move { inner.run_in(&cx, n).await }
        })
    })
    .unwrap();
    let runtime = test_runtime().clock(clock.clone()).store(store.clone()).workflow(&outer).build();
    let handle = runtime.start(outer, 1).await.unwrap();
    handle.result().await.unwrap_err();
    refused(
        runtime.run(&id()).retry("nested/bad", "ada").await,
        WrongState,
        "`nested/bad` cannot be retried by itself: the step it belongs to has failed; retry `nested`",
    );
    // The step runs again under a new path prefix. The node of the first attempt cannot be retried
    // any more.
    runtime.run(&id()).retry("nested", "ada").await.unwrap();
    refused(
        runtime.run(&id()).retry("nested/bad", "ada").await,
        WrongState,
        "the node `nested/bad` cannot be retried: the workflow that it belongs to has ended",
    );
    let again = runtime.run(&id()).attach().await.unwrap();
    assert!(again.result().await.unwrap_err().to_string().contains("too small"));
    assert_eq!(count(&events(&store).await, "workflow.failed"), 2);
}

/// Returns a workflow with two nodes that fail. The first failure is the cause, and the second node
/// is stopped because of it.
fn failing(stop: StopPolicy, tries: &Arc<AtomicU32>) -> Workflow<(), u32> {
    let tries = Arc::clone(tries);
    Workflow::build("failing", [], move |b, ()| {
        b.stop_policy(stop);
        let first: Handle<u32> = b.node("first", (), |_, ()| async {
            pass(1).await;
            Err("first failed".to_owned())
        });
        let second: Handle<u32> =
            b.node(Node::new("second").on_error(OnError::Fail), (), move |_, ()| {
                let tries = tries.fetch_add(1, Ordering::SeqCst);
                async move {
                    pass(2).await;
                    if tries == 0 { Err("second failed".to_owned()) } else { Ok(1) }
                }
            });
        b.value("sum", (first, second), |(x, y)| Step::Ok(x + y))
    })
    .unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_run_keeps_the_cause_of_its_failure_when_another_node_is_retried() {
    let (store, clock, tries) = (MemoryStore::new(), TestClock::new(), Arc::default());
    let flow = failing(StopPolicy::BestEffort, &tries);
    let runtime = test_runtime().clock(clock.clone()).store(store.clone()).workflow(&flow).build();
    let handle = runtime.start(flow.clone(), ()).await.unwrap();
    assert_eq!(
        handle.result().await.unwrap_err().to_string(),
        "the step `first` failed: first failed"
    );
    runtime.run(&id()).retry("second", "ada").await.unwrap();
    let handle = runtime.run(&id()).attach().await.unwrap();
    assert_eq!(
        handle.result().await.unwrap_err().to_string(),
        "the step `first` failed: first failed"
    );
    assert_eq!(tries.load(Ordering::SeqCst), 2, "what was retried ran again");
    events(&store).await;
}

#[tokio::test(start_paused = true)]
async fn what_was_stopped_in_the_middle_and_may_not_be_repeated_waits_for_a_word() {
    for restarted in [false, true] {
        let (store, clock, tries, paid) = (
            MemoryStore::new(),
            TestClock::new(),
            Arc::new(AtomicU32::new(0)),
            Arc::new(AtomicU32::new(0)),
        );
        let flow = {
            let (tries, paid) = (Arc::clone(&tries), Arc::clone(&paid));
            Workflow::<(), u32>::build("pays", [], move |b, ()| {
                let service: Handle<u32> = b.node("service", (), move |_, ()| {
                    let first = tries.fetch_add(1, Ordering::SeqCst) == 0;
                    async move {
                        pass(1).await;
                        if first { Err("no service".to_owned()) } else { Ok(1) }
                    }
                });
                let pay = Node::new("pay").policy(NodePolicy::default().repeatable(false));
                let pay: Handle<u32> = b.node(pay, (), move |_, ()| {
                    paid.fetch_add(1, Ordering::SeqCst);
                    async {
                        pass(5).await;
                        Step::Ok(2)
                    }
                });
                b.value("sum", (service, pay), |(x, y)| Step::Ok(x + y))
            })
            .unwrap()
        };
        let runtime =
            || test_runtime().clock(clock.clone()).store(store.clone()).workflow(&flow).build();
        runtime().start(flow.clone(), ()).await.unwrap().result().await.unwrap_err();
        runtime().run(&id()).retry("service", "ada").await.unwrap();
        let mut handle = runtime().run(&id()).resume_as(&flow).await.unwrap();
        pass(60).await;
        if restarted {
            handle.abandon();
            handle = runtime().run(&id()).resume_as(&flow).await.unwrap();
            pass(60).await;
        }
        assert_eq!(status(&store).await, (RunStatus::Paused, Some(PauseReason::Interrupted)));
        assert_eq!(paid.load(Ordering::SeqCst), 1, "nobody said that it may run again");
        runtime().run(&id()).retry("pay", "ada").await.unwrap();
        assert_eq!(handle.result().await.unwrap(), 3);
        let all = events(&store).await;
        assert_eq!(
            all.iter().filter(|event| event.name() == "workflow.node.failed").count(),
            3,
            "{all:#?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_report_says_how_often_a_node_began_and_what_was_stopped() {
    let (store, clock, tries) = (MemoryStore::new(), TestClock::new(), Arc::default());
    let flow = failing(StopPolicy::FailFast, &tries);
    let runtime = test_runtime().clock(clock.clone()).store(store.clone()).workflow(&flow).build();
    runtime.start(flow.clone(), ()).await.unwrap().result().await.unwrap_err();
    let report = runtime.run(&id()).inspect().await.unwrap();
    let nodes: Vec<String> = report
        .nodes
        .iter()
        .map(|node| {
            format!("{} {} {} {}", node.name, node.status, node.attempts.len(), node.on_resume)
        })
        .collect();
    assert_eq!(
        nodes,
        [
            "first failed 1 is not run again unless it is retried",
            "second cancelled 1 runs again when the node that failed is retried",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_pause_holds_what_begins_later() {
    let (store, clock) = (MemoryStore::new(), TestClock::new());
    let inner = chain();
    let model = ScriptedModel::from_fn(|request| match request.messages.len() {
        1 => Turn::call("wait", json!({})),
        _ => Turn::text("done"),
    });
    let waiter = agent(&model, &test_runtime().build());
    let flow = Workflow::<(u32,), String>::build("whole", ["n"], |b, (n,)| {
        let nested = b.node("nested", (n,), move |cx, (n,)| {
            let inner = inner.clone();
            async move {
                pass(5).await;
                inner.run_in(&cx, n).await
            }
        });
        let asked = b.node(Node::new("asked"), (n,), move |cx: Context, (_,): (u32,)| {
            let waiter =
                waiter.clone().settings(Limits::default().timeout(Duration::from_secs(60)));
            async move {
                pass(5).await;
                Ok::<_, Error>(waiter.run_in(&cx, "go").await?.output().clone())
            }
        });
        b.value("end", (nested, asked), |(n, said): (u32, String)| Step::Ok(format!("{n} {said}")))
    })
    .unwrap();
    let runtime = test_runtime().clock(clock.clone()).store(store.clone()).workflow(&flow).build();
    let handle = runtime.start(flow, 1).await.unwrap();
    pass(1).await;
    handle.pause().await.unwrap();
    pass(100).await;
    let held = events_so_far(&handle);
    assert_eq!(count(&held, "workflow.node.started"), 2, "{held:?}");
    assert_eq!(count(&held, "model.started"), 0, "{held:?}");
    handle.unpause().await.unwrap();
    pass(5).await;
    // The pause arrives during a tool call. The call finishes, and the next model call does not
    // start.
    handle.pause().await.unwrap();
    pass(1000).await;
    assert_eq!(count(&events_so_far(&handle), "model.started"), 1);
    assert_eq!(count(&events_so_far(&handle), "tool.completed"), 1);
    handle.unpause().await.unwrap();
    assert_eq!(handle.result().await.unwrap(), "4 done", "the time limit of the agent stood still");
    events(&store).await;
}

fn events_so_far<T>(handle: &RunHandle<T>) -> Vec<Event> {
    handle.recorded()
}

#[tokio::test(start_paused = true)]
async fn a_resumed_agent_keeps_its_limits_its_grants_and_its_time() {
    let (store, clock) = (MemoryStore::new(), TestClock::new());
    let runtime = || test_runtime().clock(clock.clone()).store(store.clone()).build();
    let model = ScriptedModel::from_fn(|_| Turn::call("wait", json!({})));
    let guarded = |runtime: &Runtime| {
        let wait = FnTool::new("wait", "Waits.", |_, _: Nothing| async {
            pass(10).await;
            Ok::<_, String>(1)
        });
        let policy = ToolPolicy::default().idempotent().scopes(["admin"]);
        Agent::new(model.clone()).name("waiter").tools([wait.policy(policy)]).runtime(runtime)
    };
    // The limit of turns and the scopes.
    let request =
        RunRequest::new("go").max_steps(3).grant(["admin"]).timeout(Duration::from_secs(1000));
    let handle = guarded(&runtime()).start(request).unwrap();
    pass(15).await;
    handle.abandon();
    let second = runtime();
    let handle = guarded(&second).runtime(&second).resume(&id()).await.unwrap();
    assert_eq!(handle.result().await.unwrap_err().kind(), "max_steps_reached");
    let all = events(&store).await;
    assert_eq!(count(&all, "tool.completed"), 3, "{all:?}");

    // Time in which no process executes the run does not count. Time before that does.
    let run = RunId::new("timed");
    let request =
        RunRequest::new("go").run_id(run.clone()).grant(["admin"]).timeout(Duration::from_secs(35));
    let first = runtime();
    let handle = guarded(&first).start(request).unwrap();
    pass(25).await;
    handle.abandon();
    pass(3600).await;
    let second = runtime();
    let resumed = tokio::time::Instant::now();
    let handle = guarded(&second).runtime(&second).resume(&run).await.unwrap();
    assert_eq!(handle.result().await.unwrap_err().kind(), "timeout");
    // The first process recorded its last event at second 20.
    assert_eq!(resumed.elapsed(), Duration::from_secs(15));
}

#[tokio::test(start_paused = true)]
async fn a_gate_in_a_workflow_in_a_tool_of_an_agent_is_answered_wherever_the_run_is() {
    for at_rest in [false, true] {
        let (store, clock) = (ProcessStore::new(), TestClock::new());
        let model = ScriptedModel::from_fn(|request| match request.messages.len() {
            1 => Turn::call("plan", json!({"n": 3})),
            _ => Turn::text("done"),
        });
        let planner = |runtime: &Runtime| {
            let flow = gate("gate");
            let plan = FnTool::new("plan", "Plans.", move |cx: Context, Plan { n }: Plan| {
                let flow = flow.clone();
                async move { flow.run_in(&cx, n).await.map_err(|error| error.to_string()) }
            });
            Agent::new(model.clone())
                .name("planner")
                .tools([plan.policy(ToolPolicy::default().idempotent())])
                .runtime(runtime)
        };
        let first = process(store.clone(), &clock);
        let mut handle = planner(&first).start("go").unwrap();
        pass(1).await;
        assert_eq!(status(&store).await, (RunStatus::Paused, Some(PauseReason::Approval)));
        let second = process(store.process(2), &clock);
        if at_rest {
            end(handle, &store).await;
            second.run(&id()).approve("tool#1.plan/ok", Approval::granted(), "ada").await.unwrap();
            assert_eq!(status(&store).await, (RunStatus::Queued, None));
            handle = planner(&second).runtime(&second).resume(&id()).await.unwrap();
        } else {
            second.run(&id()).approve("tool#1.plan/ok", Approval::granted(), "ada").await.unwrap();
        }
        assert_eq!(handle.result().await.unwrap().output(), "done");
        let all = events(&store).await;
        assert_eq!(count(&all, "approval.requested"), 1);
        assert_eq!(
            all.iter().filter(|event| matches!(event.kind, EventKind::RunCompleted(_))).count(),
            1
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_two_starts_under_one_id_at_once_the_one_that_is_kept_is_found() {
    let store = MemoryStore::new();
    let runtime = Runtime::builder().store(store.clone()).build();
    let model = ScriptedModel::from_fn(|_| Turn::stall());
    let agent = Agent::new(model).runtime(&runtime);
    for at in 0..50 {
        let id = RunId::new(format!("run-{at}"));
        let ask = || RunRequest::from("Go on.").run_id(id.clone());
        let (one, other) = (agent.start(ask()).unwrap(), agent.start(ask()).unwrap());
        assert_eq!(other.result().await.unwrap_err().kind(), "exists");
        within("the run to be stored", async {
            while store.record(&id).await.unwrap().is_none() {
                tokio::task::yield_now().await;
            }
        })
        .await;
        assert_eq!(agent.clone().runtime(&runtime).resume(&id).await.unwrap().run_id(), &id);
        runtime.run(&id).cancel("enough").await.unwrap();
        assert_eq!(one.result().await.unwrap_err().kind(), "cancelled");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn requests_to_an_agent_are_granted_or_refused_whatever_it_records_meanwhile() {
    let store = MemoryStore::new();
    let runtime = Runtime::builder().store(store.clone()).build();
    let model = ScriptedModel::from_fn(|_| Turn::call("next", json!({})));
    let next = FnTool::new("next", "Does nothing.", |_, _: Nothing| async { Step::Ok(1) });
    let limits = Limits::default().max_steps(u32::MAX).max_llm_calls(u32::MAX);
    let agent =
        Agent::new(model).tools([next.policy(ToolPolicy::default().idempotent())]).settings(limits);
    let run = agent.runtime(&runtime).start(RunRequest::from("go").run_id(id())).unwrap();
    within("the run to be stored", async {
        while store.record(&id()).await.unwrap().is_none() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    for _ in 0..100 {
        runtime.run(&id()).pause().await.unwrap();
        refused(
            runtime.run(&id()).pause().await,
            WrongState,
            "the run cannot be paused: it is paused already",
        );
        runtime.run(&id()).unpause().await.unwrap();
        refused(
            runtime.run(&id()).unpause().await,
            WrongState,
            "the run cannot be unpaused: it is running, not paused",
        );
    }
    runtime.run(&id()).cancel("enough").await.unwrap();
    run.result().await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_named_without_what_it_is_in_is_found_for_the_operator() {
    let (store, clock) = (ProcessStore::new(), TestClock::new());
    let handle = process(store.clone(), &clock).start(two_gates(), 1).await.unwrap();
    pass(1).await;
    end(handle, &store).await;
    refused(
        process(store.process(2), &clock)
            .run(&id())
            .approve("ok", Approval::granted(), "ada")
            .await,
        ControlErrorKind::UnknownNode,
        "the run has no node `ok` that has begun, asks or was skipped; did you mean `left/ok`?; open questions: `left/ok`, `right/ok`",
    );
}

//! Tests control of runs: through the handle, by id, after a restart, and while no process executes
//! the run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use agentflow::error::ControlErrorKind;
use agentflow::event::{EventKind, PauseReason};
use agentflow::store::{MemoryStore, RunStatus, Store, StoreErrorKind};
use agentflow::workflow::{Branch, Handle, Node, NodePolicy, OnError, StopPolicy};
use agentflow::{Approval, Error, Event, RunHandle, RunId, Runtime, Workflow};
use agentflow_testing::{TestClock, check_events, test_runtime};

type Step<T> = Result<T, String>;

const DAY: Duration = Duration::from_secs(24 * 3600);

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

/// Takes ten seconds and adds one.
async fn slow(n: u32) -> Step<u32> {
    pass(10).await;
    Ok(n + 1)
}

fn chain() -> Workflow<(u32,), u32> {
    Workflow::build("chain", ["n"], |b, (n,)| {
        let a = b.node("a", (n,), |_, (n,)| slow(n));
        b.node("c", (a,), |_, (n,)| slow(n))
    })
    .unwrap()
}

fn asking() -> Workflow<(u32,), String> {
    Workflow::build("asking", ["n"], |b, (n,)| {
        let a = b.node("a", (n,), |_, (n,)| slow(n));
        let merge: Handle<Approval> =
            b.gate("merge", (a,), |(n,)| Step::Ok((format!("merge {n}?"), n)));
        let sum: Handle<u32> = b.gate("sum", (a,), |(n,)| Step::Ok(("how much?".to_owned(), n)));
        b.value("end", (merge, sum), |(merge, sum)| Step::Ok(format!("{merge:?} {sum}")))
    })
    .unwrap()
}

/// Returns a runtime for a new process with the same store and clock.
fn process(store: &MemoryStore, clock: &TestClock) -> Runtime {
    test_runtime()
        .clock(clock.clone())
        .store(store.clone())
        .workflow(&chain())
        .workflow(&asking())
        .build()
}

fn runtime(store: &MemoryStore) -> Runtime {
    process(store, &TestClock::new())
}

fn id() -> RunId {
    RunId::new("run-1")
}

/// Ends the process of the run. Later runtimes belong to another process.
async fn restart<T>(handle: RunHandle<T>) {
    handle.abandon();
    tokio::task::yield_now().await;
}

async fn status(store: &MemoryStore) -> (RunStatus, Option<PauseReason>) {
    let record = store.record(&id()).await.unwrap().unwrap();
    (record.status, record.pause_reason)
}

async fn events(store: &MemoryStore) -> Vec<Event> {
    store.read(&id(), 0, 10_000).await.unwrap()
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

use ControlErrorKind::{UnknownNode, WrongAnswer, WrongState};

#[tokio::test(start_paused = true)]
async fn a_paused_run_starts_nothing_until_it_is_resumed() {
    for by_id in [false, true] {
        let store = MemoryStore::new();
        let runtime = runtime(&store);
        let handle = runtime.start(chain(), 1).await.unwrap();
        pass(1).await;
        match by_id {
            true => runtime.run(&id()).pause().await.unwrap(),
            false => handle.pause().await.unwrap(),
        }
        let paused_twice =
            if by_id { runtime.run(&id()).pause().await } else { handle.pause().await };
        refused(paused_twice, WrongState, "the run cannot be paused: it is paused already");
        pass(3600).await;
        assert_eq!(status(&store).await, (RunStatus::Paused, Some(PauseReason::Operator)));
        let started = |events: &[Event]| {
            events.iter().filter(|event| event.name() == "workflow.node.started").count()
        };
        assert_eq!(
            started(&events(&store).await),
            1,
            "`a` continued to its end, `c` did not begin"
        );
        match by_id {
            true => runtime.run(&id()).unpause().await.unwrap(),
            false => handle.unpause().await.unwrap(),
        }
        assert_eq!(status(&store).await, (RunStatus::Running, None));
        refused(
            handle.unpause().await,
            WrongState,
            "the run cannot be unpaused: it is running, not paused",
        );
        assert_eq!(handle.result().await.unwrap(), 3);
        refused(handle.pause().await, WrongState, "the run cannot be paused: it is over (success)");
        refused(
            runtime.run(&id()).pause().await,
            WrongState,
            "the run cannot be paused: it is over (success)",
        );
        refused(
            runtime.run(&id()).unpause().await,
            WrongState,
            "the run cannot be unpaused: it is over (success)",
        );
        refused(
            runtime.run(&id()).cancel("late").await,
            WrongState,
            "the run cannot be cancelled: it is over (success)",
        );
        refused(
            runtime.run(&id()).retry("a", "me").await,
            WrongState,
            "the run cannot be retried: it is over (success)",
        );
        refused(
            runtime.run(&id()).resume().await.map(drop),
            WrongState,
            "the run cannot be resumed: it is over (success)",
        );
        check_events(&events(&store).await).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_paused_run_stays_paused_over_a_restart() {
    let (store, clock) = (MemoryStore::new(), TestClock::new());
    let handle = process(&store, &clock).start(chain(), 1).await.unwrap();
    pass(1).await;
    handle.pause().await.unwrap();
    restart(handle).await;

    // The resumed run is still paused.
    let second = process(&store, &clock);
    let mut recovered = second.recover().await.unwrap();
    assert!(recovered.left.is_empty(), "{:?}", recovered.left);
    assert_eq!(recovered.resumed.len(), 1);
    pass(3600).await;
    assert_eq!(status(&store).await, (RunStatus::Paused, Some(PauseReason::Operator)));
    assert_eq!(
        second.run(&id()).resume().await.unwrap().run_id(),
        &id(),
        "it is running in this process"
    );
    restart(recovered.resumed.remove(0)).await;

    // The run is unpaused while no process executes it, and continues when it is resumed.
    let third = process(&store, &clock);
    refused(
        third.run(&id()).pause().await,
        WrongState,
        "the run cannot be paused: it is paused already",
    );
    third.run(&id()).unpause().await.unwrap();
    refused(
        third.run(&id()).unpause().await,
        WrongState,
        "the run cannot be unpaused: it is running, not paused",
    );
    pass(3600).await;
    assert_eq!(status(&store).await, (RunStatus::Queued, None), "nobody executes it");
    let handle = third.run(&id()).resume().await.unwrap();
    assert_eq!(handle.result().await.unwrap().as_str(), "3");
    check_events(&events(&store).await).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_run_that_nobody_executes_can_be_paused_and_cancelled() {
    let (store, clock) = (MemoryStore::new(), TestClock::new());
    let handle = process(&store, &clock).start(chain(), 1).await.unwrap();
    pass(1).await;
    restart(handle).await;
    let second = process(&store, &clock);
    second.run(&id()).pause().await.unwrap();
    assert_eq!(status(&store).await, (RunStatus::Paused, Some(PauseReason::Operator)));
    second.run(&id()).cancel("not wanted").await.unwrap();
    assert_eq!(status(&store).await.0, RunStatus::Cancelled);
    let all = events(&store).await;
    check_events(&all).unwrap();
    let EventKind::RunCancelled { reason, .. } = &all.last().unwrap().kind else {
        panic!("{all:?}")
    };
    assert_eq!(&**reason, "not wanted");
    refused(
        second.run(&id()).cancel("again").await,
        WrongState,
        "the run cannot be cancelled: it is over (cancelled)",
    );
    refused(
        second.run(&id()).resume().await.map(drop),
        WrongState,
        "the run cannot be resumed: it is over (cancelled)",
    );
    assert!(second.recover().await.unwrap().resumed.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_running_run_is_cancelled() {
    for by_id in [false, true] {
        let store = MemoryStore::new();
        let runtime = runtime(&store);
        let handle = runtime.start(chain(), 1).await.unwrap();
        pass(1).await;
        match by_id {
            true => runtime.run(&id()).cancel("enough").await.unwrap(),
            false => handle.cancel("enough").await.unwrap(),
        }
        assert_eq!(handle.result().await.unwrap_err().to_string(), "the run was cancelled: enough");
        assert_eq!(status(&store).await.0, RunStatus::Cancelled);
        check_events(&events(&store).await).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn what_there_is_not() {
    let store = MemoryStore::new();
    let with = runtime(&store);
    let Err(Error::Store(error)) = with.run(&RunId::new("nope")).pause().await else {
        panic!("there is no such run")
    };
    assert_eq!(error.kind(), StoreErrorKind::NotFound);
    assert_eq!(error.to_string(), "there is no run `nope` in this store");
    let without = test_runtime().build();
    let Err(Error::Store(error)) = without.run(&id()).pause().await else {
        panic!("there is no store")
    };
    assert!(error.to_string().starts_with("this runtime has no store"), "{error}");
    let handle = without.start(chain(), 1).await.unwrap();
    pass(1).await;
    // Without a store, only the handle can control the run.
    handle.pause().await.unwrap();
    handle.unpause().await.unwrap();
    assert_eq!(handle.result().await.unwrap(), 3);
}

#[tokio::test(start_paused = true)]
async fn answers_through_the_handle_and_by_id() {
    let store = MemoryStore::new();
    let runtime = runtime(&store);
    let handle = runtime.start(asking(), 1).await.unwrap();
    refused(
        handle.approve("merge", Approval::granted(), "ada").await,
        WrongState,
        "the node `merge` waits for no answer: it is pending",
    );
    pass(60).await;
    assert_eq!(status(&store).await, (RunStatus::Paused, Some(PauseReason::Approval)));
    refused(
        handle.unpause().await,
        WrongState,
        "the run cannot be unpaused: it is waiting for an approval; answer it instead",
    );
    refused(
        handle.approve("murge", Approval::granted(), "ada").await,
        UnknownNode,
        "the workflow `asking` has no node `murge`; did you mean `merge`?",
    );
    refused(
        runtime.run(&id()).answer("sum", &"many".to_owned(), "ada").await,
        WrongAnswer,
        "the answer does not fit what `sum` asks for: invalid type: string \"many\", expected u32 at line 1 column 6; \
         `\"many\"` was given",
    );
    refused(
        runtime.run(&id()).retry("merge", "ada").await,
        WrongState,
        "the node `merge` cannot be retried: it is waiting for an approval; only a failed or interrupted one can",
    );
    handle.approve("merge", Approval::denied("not on a Friday"), "ada").await.unwrap();
    refused(
        handle.approve("merge", Approval::granted(), "bob").await,
        WrongState,
        "the node `merge` waits for no answer: it is done",
    );
    runtime.run(&id()).answer("sum", &7_u32, "bob").await.unwrap();
    assert_eq!(handle.result().await.unwrap(), r#"Denied { comment: Some("not on a Friday") } 7"#);
    let all = events(&store).await;
    check_events(&all).unwrap();
    let who: Vec<String> = all
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::ApprovalResolved { answer, by } => {
                Some(format!("{} {by} {answer}", event.path))
            }
            _ => None,
        })
        .collect();
    assert_eq!(
        who,
        [r#"merge ada {"decision":"denied","comment":"not on a Friday"}"#, "sum bob 7"]
    );
    refused(
        runtime.run(&id()).answer("sum", &7_u32, "bob").await,
        WrongState,
        "the run cannot be answered: it is over (success)",
    );
}

#[tokio::test(start_paused = true)]
async fn answers_survive_restarts() {
    let (store, clock) = (MemoryStore::new(), TestClock::new());
    let handle = process(&store, &clock).start(asking(), 1).await.unwrap();
    pass(60).await;
    handle.approve("merge", Approval::granted(), "ada").await.unwrap();
    restart(handle).await;

    // Without a process that executes the run, answers are checked and written to the journal.
    let second = process(&store, &clock);
    refused(
        second.run(&id()).approve("merge", Approval::granted(), "bob").await,
        WrongState,
        "the node `merge` waits for no answer: it is done",
    );
    refused(
        second.run(&id()).approve("summ", Approval::granted(), "bob").await,
        UnknownNode,
        "the run has no node `summ` that has begun, asks or was skipped; did you mean `sum`?; open questions: `sum`",
    );
    refused(
        second.run(&id()).answer("sum", &"many".to_owned(), "bob").await,
        WrongAnswer,
        "the answer does not fit what `sum` asks for: invalid type: string \"many\", expected u32 at line 1 column 6; \
         `\"many\"` was given",
    );
    second.run(&id()).answer("sum", &7_u32, "bob").await.unwrap();
    let handle = second.run(&id()).resume_as(&asking()).await.unwrap();
    assert_eq!(handle.result().await.unwrap(), "Granted { comment: None, arguments: None } 7");
    check_events(&events(&store).await).unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_operator_pauses_a_run_that_waits_for_an_answer() {
    let (store, clock) = (MemoryStore::new(), TestClock::new());
    let handle = process(&store, &clock).start(asking(), 1).await.unwrap();
    pass(60).await;
    handle.pause().await.unwrap();
    assert_eq!(status(&store).await, (RunStatus::Paused, Some(PauseReason::Operator)));
    handle.approve("merge", Approval::granted(), "ada").await.unwrap();
    assert_eq!(status(&store).await, (RunStatus::Paused, Some(PauseReason::Operator)));
    restart(handle).await;
    let second = process(&store, &clock);
    second.run(&id()).answer("sum", &7_u32, "bob").await.unwrap();
    let handle = second.run(&id()).resume_as(&asking()).await.unwrap();
    pass(60).await;
    assert_eq!(status(&store).await.0, RunStatus::Paused);
    second.run(&id()).unpause().await.unwrap();
    assert_eq!(handle.result().await.unwrap(), "Granted { comment: None, arguments: None } 7");
    check_events(&events(&store).await).unwrap();
}

/// Returns a workflow with a gate that waits for a week.
fn patient() -> Workflow<(), u32> {
    Workflow::build("patient", [], |b, ()| {
        b.gate(Node::new("ok").timeout(7 * DAY), (), |()| Step::Ok(("in time?".to_owned(), 0)))
    })
    .unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_gate_whose_time_is_over() {
    let store = MemoryStore::new();
    let runtime = test_runtime().store(store.clone()).workflow(&patient()).build();
    let began = tokio::time::Instant::now();
    let handle = runtime.start(patient(), ()).await.unwrap();
    let error = handle.result().await.unwrap_err();
    assert_eq!(error.to_string(), "the step `ok` failed: nobody answered within 604800s");
    assert_eq!(began.elapsed(), 7 * DAY);
    check_events(&events(&store).await).unwrap();

    // The retried gate is answered in time.
    runtime.run(&id()).retry("ok", "ada").await.unwrap();
    let handle = runtime.run(&id()).resume_as(&patient()).await.unwrap();
    pass(1).await;
    runtime.run(&id()).answer("ok", &5_u32, "ada").await.unwrap();
    assert_eq!(handle.result().await.unwrap(), 5);
    check_events(&events(&store).await).unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_gate_passes_while_nobody_executes_the_run() {
    let store = MemoryStore::new();
    let clock = TestClock::new();
    let runtime =
        || test_runtime().clock(clock.clone()).store(store.clone()).workflow(&patient()).build();
    let handle = runtime().start(patient(), ()).await.unwrap();
    tokio::time::sleep(3 * DAY).await;
    restart(handle).await;
    tokio::time::sleep(2 * DAY).await;
    let began = tokio::time::Instant::now();
    let handle = runtime().run(&id()).resume_as(&patient()).await.unwrap();
    handle.result().await.unwrap_err();
    assert_eq!(began.elapsed(), 2 * DAY);
}

/// A workflow whose node `bad` fails until `works` is set. Its sibling `slow` takes thirty seconds,
/// and its sibling `done` has ended by then.
struct Broken {
    works: Arc<AtomicBool>,
    ran: Arc<[AtomicU32; 3]>,
    flow: Workflow<(), u32>,
}

fn broken(stop: StopPolicy) -> Broken {
    let works = Arc::new(AtomicBool::new(false));
    let ran: Arc<[AtomicU32; 3]> = Arc::default();
    let (switch, counts) = (Arc::clone(&works), Arc::clone(&ran));
    let flow = Workflow::<(), u32>::build("broken", [], move |b, ()| {
        b.stop_policy(stop);
        let sibling = |b: &mut agentflow::workflow::Builder,
                       at: usize,
                       name: &str,
                       seconds: u64|
         -> Handle<u32> {
            let counts = Arc::clone(&counts);
            b.node(name, (), move |_, ()| {
                let counts = Arc::clone(&counts);
                async move {
                    counts[at].fetch_add(1, Ordering::SeqCst);
                    pass(seconds).await;
                    Step::Ok(1)
                }
            })
        };
        let done = sibling(b, 0, "done", 1);
        let slow = sibling(b, 1, "slow", 30);
        let one: Handle<Vec<u32>> = b.value("items", (), |()| Step::Ok(vec![0, 1, 2]));
        let mapped: Handle<Vec<u32>> = b.map("bad", one, (), move |_, n: u32, ()| {
            let works = switch.load(Ordering::SeqCst);
            let counts = Arc::clone(&counts);
            async move {
                pass(u64::from(n) * 5).await;
                match n {
                    1 if !works => Err("broken".to_owned()),
                    _ => {
                        counts[2].fetch_add(1, Ordering::SeqCst);
                        Ok(n)
                    }
                }
            }
        });
        let after = b.node("after", (slow,), |_, (n,)| async move { Step::Ok(n) });
        b.value("sum", (done, after, mapped), |(x, y, z)| Step::Ok(x + y + z.iter().sum::<u32>()))
    })
    .unwrap();
    Broken { works, ran, flow }
}

#[tokio::test(start_paused = true)]
async fn a_failed_run_is_retried() {
    for stop in [StopPolicy::FailFast, StopPolicy::BestEffort] {
        for in_between in [false, true] {
            let Broken { works, ran, flow } = broken(stop);
            let (store, clock) = (MemoryStore::new(), TestClock::new());
            let runtime =
                || test_runtime().clock(clock.clone()).store(store.clone()).workflow(&flow).build();
            let first = runtime();
            let handle = first.start(flow.clone(), ()).await.unwrap();
            let error = handle.result().await.unwrap_err();
            assert_eq!(error.to_string(), "the step `bad` failed: broken");
            assert_eq!(status(&store).await.0, RunStatus::Failed);
            check_events(&events(&store).await).unwrap();
            refused(
                first.run(&id()).resume().await.map(drop),
                WrongState,
                "the run cannot be resumed: it is failed; retry the node that failed first",
            );
            refused(
                first.run(&id()).retry("done", "ada").await,
                WrongState,
                "the node `done` cannot be retried: it is done; only a failed or interrupted one can",
            );
            refused(
                first.run(&id()).retry("bad[1]", "ada").await,
                WrongState,
                "`bad[1]` cannot be retried by itself; retry the node `bad`, whose other items keep their outcomes",
            );
            assert!(first.recover().await.unwrap().resumed.is_empty());
            works.store(true, Ordering::SeqCst);
            first.run(&id()).retry("bad", "ada").await.unwrap();
            let second = runtime();
            let mut handle = second.run(&id()).resume_as(&flow).await.unwrap();
            if in_between {
                pass(2).await;
                restart(handle).await;
                handle = runtime().run(&id()).resume_as(&flow).await.unwrap();
            }
            assert_eq!(handle.result().await.unwrap(), 1 + 1 + 3);
            check_events(&events(&store).await).unwrap();
            assert_eq!(ran[0].load(Ordering::SeqCst), 1, "`done` was done");
            // With fail-fast the failure stopped the sibling, so it runs again. With best effort it
            // had finished.
            let again = match stop {
                StopPolicy::FailFast => 2 + u32::from(in_between),
                _ => 1,
            };
            assert_eq!(ran[1].load(Ordering::SeqCst), again, "{stop:?} {in_between}");
            assert_eq!(ran[2].load(Ordering::SeqCst), 3, "each item was done once");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_is_retried_while_its_run_continues() {
    let works = Arc::new(AtomicBool::new(false));
    let switch = Arc::clone(&works);
    let flow = Workflow::<(), u32>::build("continues", [], move |b, ()| {
        b.stop_policy(StopPolicy::BestEffort);
        let bad: Handle<u32> = b.node("bad", (), move |_, ()| {
            let works = switch.load(Ordering::SeqCst);
            async move { if works { Ok(1) } else { Err("broken".to_owned()) } }
        });
        let optional: Handle<u32> =
            b.node(Node::new("optional").on_error(OnError::Skip), (), |_, ()| async {
                Err("never".to_owned())
            });
        let _reads = b.node("reads", (optional,), |_, (n,)| async move { Step::Ok(n) });
        let next = b.node("next", (bad,), |_, (n,)| async move { Step::Ok(n) });
        let slow = b.node("slow", (), |_, ()| slow(0));
        b.value("sum", (next, slow), |(x, y)| Step::Ok(x + y))
    })
    .unwrap();
    let store = MemoryStore::new();
    let runtime = test_runtime().store(store.clone()).build();
    let handle = runtime.start(flow, ()).await.unwrap();
    pass(1).await;
    refused(
        handle.retry("slow", "ada").await,
        WrongState,
        "the node `slow` cannot be retried: it is running; only a failed or interrupted one can",
    );
    refused(
        handle.retry("next", "ada").await,
        WrongState,
        "the node `next` cannot be retried: it is skipped; only a failed or interrupted one can",
    );
    works.store(true, Ordering::SeqCst);
    handle.retry("bad", "ada").await.unwrap();
    assert_eq!(handle.result().await.unwrap(), 2);
    check_events(&events(&store).await).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_denied_node_is_asked_about_again() {
    let flow = Workflow::<(), u32>::build("denied", [], |b, ()| {
        b.node(Node::new("send").policy(NodePolicy::default().approve("send it?")), (), |_, ()| {
            slow(0)
        })
    })
    .unwrap();
    let store = MemoryStore::new();
    let runtime = test_runtime().store(store.clone()).workflow(&flow).build();
    let handle = runtime.start(flow.clone(), ()).await.unwrap();
    pass(1).await;
    handle.approve("send", Approval::denied("no"), "ada").await.unwrap();
    assert_eq!(
        handle.result().await.unwrap_err().to_string(),
        "the step `send` failed: approval denied: no"
    );
    runtime.run(&id()).retry("send", "ada").await.unwrap();
    let handle = runtime.run(&id()).resume_as(&flow).await.unwrap();
    pass(1).await;
    runtime.run(&id()).approve("send", Approval::granted(), "ada").await.unwrap();
    assert_eq!(handle.result().await.unwrap(), 1);
    check_events(&events(&store).await).unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_step_waits_for_a_decision() {
    let flow = Workflow::<(), u32>::build("pays", [], |b, ()| {
        b.node(Node::new("pay").policy(NodePolicy::default().repeatable(false)), (), |_, ()| {
            slow(0)
        })
    })
    .unwrap();
    let (store, clock) = (MemoryStore::new(), TestClock::new());
    let runtime =
        || test_runtime().clock(clock.clone()).store(store.clone()).workflow(&flow).build();
    let handle = runtime().start(flow.clone(), ()).await.unwrap();
    pass(1).await;
    restart(handle).await;
    let second = runtime();
    let handle = second.run(&id()).resume_as(&flow).await.unwrap();
    pass(60).await;
    assert_eq!(status(&store).await, (RunStatus::Paused, Some(PauseReason::Interrupted)));
    refused(
        handle.unpause().await,
        WrongState,
        "the run cannot be unpaused: it is waiting for a decision on an interrupted step; retry the step, or cancel the \
         run",
    );
    restart(handle).await;
    // The operator decides while no process executes the run.
    let third = runtime();
    refused(
        third.run(&id()).unpause().await,
        WrongState,
        "the run cannot be unpaused: it is waiting for a decision on an interrupted step; retry the step, or cancel the \
         run",
    );
    third.run(&id()).retry("pay", "ada").await.unwrap();
    let handle = third.run(&id()).resume_as(&flow).await.unwrap();
    assert_eq!(handle.result().await.unwrap(), 1);
    check_events(&events(&store).await).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_pause_reaches_the_workflows_that_are_steps() {
    let step = |millis: u64| {
        move |_: agentflow::Context, (n,): (u32,)| async move {
            tokio::time::sleep(Duration::from_millis(millis)).await;
            Ok::<_, String>(n + 1)
        }
    };
    let part = Workflow::<(u32,), u32>::build("part", ["n"], |b, (n,)| {
        let first = b.node("first", (n,), step(10));
        b.node("second", (first,), step(10))
    })
    .unwrap();
    let whole = Workflow::<(u32,), u32>::build("whole", ["n"], |b, (n,)| {
        b.node("nested", (n,), move |cx, (n,)| {
            let part = part.clone();
            async move { part.run_in(&cx, n).await }
        })
    })
    .unwrap();
    let run = test_runtime().build().start(whole, 1).await.unwrap();
    tokio::time::sleep(Duration::from_millis(5)).await;
    run.pause().await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let began = |name: &str| run.recorded().iter().any(|event| event.path.to_string() == name);
    assert!(began("nested/first") && !began("nested/second"));
    run.unpause().await.unwrap();
    assert_eq!(run.result().await.unwrap(), 3);
}

/// Fails as often as the resource says.
async fn open_shop(cx: &agentflow::Context) -> agentflow::Result<u32> {
    pass(10).await;
    let failures = cx.inject::<AtomicU32>()?;
    match failures.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)) {
        Ok(_) => Err(Error::Lost { reason: "it is closed".to_owned() }),
        Err(_) => Ok(1),
    }
}

/// Sends the goods.
#[agentflow::tool]
async fn ship(n: u32) -> u32 {
    n
}

#[agentflow::workflow]
async fn shipment(cx: &agentflow::Context, n: u32) -> agentflow::Result<u32> {
    #[node(write)]
    let opened = open_shop(cx).await?;
    let shipped = ship(n).await;
    Ok(opened + shipped)
}

#[tokio::test(start_paused = true)]
async fn a_write_below_a_step_that_is_retried_waits_for_it() {
    let (store, clock) = (MemoryStore::new(), TestClock::new());
    let process = |failures| {
        test_runtime()
            .clock(clock.clone())
            .store(store.clone())
            .resource(AtomicU32::new(failures))
            .build()
    };
    let handle = process(1).start(shipment::workflow(), 1).run_id(id()).await.unwrap();
    handle.result().await.unwrap_err();
    for failures in [1, 0] {
        let runtime = process(failures);
        runtime.run(&id()).retry("opened", "ada").await.unwrap();
        let handle = runtime.run(&id()).resume_as(&shipment::workflow()).await.unwrap();
        assert_eq!(handle.result().await.is_err(), failures > 0);
        let events = store.read(&id(), 0, usize::MAX).await.unwrap();
        check_events(&events).unwrap();
        let begun = |event: &Event| event.path.to_string() == "shipped";
        assert_eq!(
            events.iter().any(begun),
            failures == 0,
            "what is below a failed step has not begun"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_branch_that_failed_is_not_repeated_for_one_that_was_interrupted() {
    let (store, clock, tried) = (MemoryStore::new(), TestClock::new(), Arc::new(AtomicU32::new(0)));
    let counted = Arc::clone(&tried);
    let flow = Workflow::<(u32,), u32>::build("falls", ["n"], |b, (n,)| {
        let first = Branch::new("first", (n,), move |_, (_,): (u32,)| {
            counted.fetch_add(1, Ordering::Relaxed);
            async {
                pass(10).await;
                Err("it is closed".to_owned())
            }
        });
        let second = Branch::new("second", (n,), |_, (n,)| slow(n));
        b.fallback(
            Node::new("fallen").policy(NodePolicy::default().repeatable(false)),
            [first, second],
        )
    })
    .unwrap();
    let handle = process(&store, &clock).start(flow.clone(), 1).run_id(id()).await.unwrap();
    pass(15).await;
    restart(handle).await;
    let second = process(&store, &clock);
    let handle = second.run(&id()).resume_as(&flow).await.unwrap();
    pass(1).await;
    second.run(&id()).retry("fallen", "ada").await.unwrap();
    assert_eq!(handle.result().await.unwrap(), 2);
    assert_eq!(tried.load(Ordering::Relaxed), 1);
    check_events(&store.read(&id(), 0, usize::MAX).await.unwrap()).unwrap();
}

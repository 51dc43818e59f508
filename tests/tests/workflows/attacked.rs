//! Runs under several attacks at once: an operator, a crash, a changed definition and a snapshot.
//! An accepted request keeps its effect, and no process holds a run that it does not execute.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentflow::error::ControlErrorKind;
use agentflow::event::{EventKind, PauseReason};
use agentflow::runtime::NodeReport;
use agentflow::store::{
    Append, Epoch, MemoryStore, MessageId, MessageStore, RunFilter, RunList, RunRecord, RunStatus,
    Snapshot, Store, StoreError, StoreErrorKind, StoreMessage,
};
use agentflow::workflow::{Branch, Builder, Handle, Node, NodePolicy, StopPolicy};
use agentflow::{
    Agent, Approval, Context, Error, Event, RunHandle, RunId, Runtime, Workflow, async_trait,
};
use agentflow_testing::{ScriptedModel, TestClock, Turn, check_events, test_runtime};
use agentflow_tests::ProcessStore;
use futures_util::future::BoxFuture;

type Step<T> = Result<T, String>;

async fn pass(milliseconds: u64) {
    tokio::time::sleep(Duration::from_millis(milliseconds)).await;
}

/// A store and a clock that successive processes use.
struct World {
    store: MemoryStore,
    clock: TestClock,
}

impl World {
    fn new() -> Self {
        Self { store: MemoryStore::new(), clock: TestClock::new() }
    }

    /// Starts a process.
    fn process(&self) -> Runtime {
        test_runtime().clock(self.clock.clone()).store(self.store.clone()).build()
    }

    async fn status(&self, run: &RunId) -> (RunStatus, Option<PauseReason>) {
        status(&self.store, run).await
    }

    async fn events(&self, run: &RunId) -> Vec<Event> {
        let events = self.store.read(run, 0, 1_000_000).await.unwrap();
        check_events(&events).unwrap();
        events
    }

    async fn length(&self, run: &RunId) -> usize {
        self.store.read(run, 0, 1_000_000).await.unwrap().len()
    }

    async fn has_snapshot(&self, run: &RunId) -> bool {
        self.store.snapshot(run).await.unwrap().is_some()
    }
}

async fn status(store: &impl Store, run: &RunId) -> (RunStatus, Option<PauseReason>) {
    let record = store.record(run).await.unwrap().unwrap();
    (record.status, record.pause_reason)
}

/// Ends the process of a run.
async fn end<T>(handle: RunHandle<T>) -> RunId {
    let run = handle.run_id().clone();
    handle.abandon();
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    run
}

#[track_caller]
fn refused<T>(result: Result<T, Error>, text: &str) {
    match result {
        Err(Error::Control(error)) => {
            assert_eq!(
                (error.kind(), error.to_string().as_str()),
                (ControlErrorKind::WrongState, text)
            );
        }
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it should have been refused: {text}"),
    }
}

fn count(events: &[Event], path: &str, name: &str) -> usize {
    events.iter().filter(|event| event.path.to_string() == path && event.name() == name).count()
}

async fn report(runtime: &Runtime, run: &RunId, node: &str) -> NodeReport {
    let report = runtime.run(run).inspect().await.unwrap();
    report.nodes.into_iter().find(|report| report.name == node).expect("the node is in the report")
}

async fn line(runtime: &Runtime, run: &RunId, node: &str) -> String {
    let report = report(runtime, run, node).await;
    format!("{} {}", report.status, report.on_resume)
}

fn items(count: u32) -> Vec<u32> {
    (0..count).collect()
}

fn failing_while(
    fails: &Arc<AtomicBool>,
    after: u64,
) -> impl Future<Output = Step<u32>> + Send + use<> {
    let fails = Arc::clone(fails);
    async move {
        pass(after).await;
        if fails.load(Ordering::SeqCst) { Err("no service".to_owned()) } else { Ok(1) }
    }
}

/// Builds `x`, which fails, and a long `y` that runs concurrently.
fn stopped_in_the_middle(fails: &Arc<AtomicBool>) -> Workflow<(Vec<u32>,), u32> {
    let fails = Arc::clone(fails);
    Workflow::build("stopped", ["items"], |b, (items,)| {
        let x: Handle<u32> = b.node("x", (), move |_, ()| failing_while(&fails, 100));
        let y: Handle<Vec<u32>> =
            b.map(Node::new("y").concurrency(4), items, (), |_, n: u32, ()| async move {
                pass(10).await;
                Step::Ok(n)
            });
        b.value("sum", (x, y), |(x, y): (u32, Vec<u32>)| Step::Ok(x + y.len() as u32))
    })
    .unwrap()
}

/// Builds nodes that all wait for `x`, which fails, except `items`. `z` also waits for all of `y`.
fn skipped_behind(fails: &Arc<AtomicBool>) -> Workflow<(Vec<u32>,), u32> {
    let fails = Arc::clone(fails);
    Workflow::build("skipped", ["items"], |b, (items,)| {
        b.stop_policy(StopPolicy::BestEffort);
        let x: Handle<u32> = b.node("x", (), move |_, ()| failing_while(&fails, 1));
        let late =
            b.node(
                "late",
                (x, items),
                |_, (_, items): (u32, Vec<u32>)| async move { Step::Ok(items) },
            );
        let y: Handle<Vec<u32>> =
            b.map(Node::new("y").concurrency(4), late, (), |_, n: u32, ()| async move {
                pass(10).await;
                Step::Ok(n)
            });
        b.node(
            "z",
            (y, x),
            |_, (y, x): (Vec<u32>, u32)| async move { Step::Ok(x + y.len() as u32) },
        )
    })
    .unwrap()
}

/// A node fails and is retried, a snapshot is stored while the others run, and the process ends.
async fn retried_kept_and_ended(flow: impl Fn(&Arc<AtomicBool>) -> Workflow<(Vec<u32>,), u32>) {
    let (world, fails) = (World::new(), Arc::new(AtomicBool::new(true)));
    let flow = flow(&fails);
    let handle = world.process().start(flow.clone(), items(2000)).await.unwrap();
    let run = handle.run_id().clone();
    assert_eq!(handle.result().await.unwrap_err().to_string(), "the step `x` failed: no service");
    drop(handle);
    fails.store(false, Ordering::SeqCst);
    let second = world.process();
    second.run(&run).retry("x", "ada").await.unwrap();
    let handle = second.run(&run).resume_as(&flow).await.unwrap();
    pass(3500).await;
    assert!(world.has_snapshot(&run).await, "there is a snapshot to resume from");
    end(handle).await;
    let handle = world.process().run(&run).resume_as(&flow).await.unwrap();
    assert_eq!(handle.result().await.unwrap(), 2001);
    world.events(&run).await;
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_keeps_that_what_was_stopped_runs_again_after_a_retry() {
    retried_kept_and_ended(stopped_in_the_middle).await;
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_keeps_that_what_was_skipped_has_its_turn_after_a_retry() {
    retried_kept_and_ended(skipped_behind).await;
}

#[tokio::test(start_paused = true)]
async fn what_was_stopped_runs_again_when_the_node_that_failed_is_mended_and_retried() {
    for is_stopped in [true, false] {
        let world = World::new();
        let flow = |mended: bool| {
            Workflow::<(u32,), u32>::build("mended", ["n"], move |b, (n,)| {
                let x = Node::new("x").calls(if mended { "new" } else { "old" });
                let x = b.node(x, (n,), move |_, (n,): (u32,)| async move {
                    pass(10).await;
                    if mended { Ok(n) } else { Err("a bug".to_owned()) }
                });
                let y = b.node("y", (n,), move |_, (n,): (u32,)| async move {
                    pass(if is_stopped { 1000 } else { 1 }).await;
                    Step::Ok(n)
                });
                b.value("sum", (x, y), |(x, y): (u32, u32)| Step::Ok(x + y))
            })
            .unwrap()
        };
        let handle = world.process().start(flow(false), 1).await.unwrap();
        let run = handle.run_id().clone();
        assert_eq!(handle.result().await.unwrap_err().to_string(), "the step `x` failed: a bug");
        let second = world.process();
        second.run(&run).retry("x", "ada").await.unwrap();
        let handle = second
            .with_changes(agentflow::runtime::Changes::AcceptAll)
            .run(&run)
            .resume_as(&flow(true))
            .await
            .unwrap();
        assert_eq!(handle.result().await.unwrap(), 2);
        world.events(&run).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_payment_of_a_changed_node_is_not_repeated_after_a_snapshot() {
    let (world, paid) = (World::new(), Arc::new(AtomicU32::new(0)));
    let flow =
        |calls: &'static str, takes: u64, repeatable: bool| {
            let paid = Arc::clone(&paid);
            Workflow::<(Vec<u32>,), u32>::build("pays", ["items"], move |b, (items,)| {
                let pay = Node::new("pay").calls(calls).repeatable(repeatable);
                let pay: Handle<u32> = b.node(pay, (), move |_, ()| {
                    paid.fetch_add(1, Ordering::SeqCst);
                    async move {
                        pass(takes).await;
                        Step::Ok(1)
                    }
                });
                let m: Handle<Vec<u32>> =
                    b.map(Node::new("m").concurrency(4), items, (), |_, n: u32, ()| async move {
                        pass(100).await;
                        Step::Ok(n)
                    });
                b.node("end", (m, pay), |_, (m, _): (Vec<u32>, u32)| async move {
                    Step::Ok(m.len() as u32)
                })
            })
            .unwrap()
        };
    // An interrupted node that must not be repeated keeps its record. A payment may be made only
    // after it.
    let handle = world.process().start(flow("old", 10, true), items(4000)).await.unwrap();
    pass(1000).await;
    let run = end(handle).await;
    let new = flow("new", 10_000_000, false);
    let handle = world
        .process()
        .with_changes(agentflow::runtime::Changes::AcceptAll)
        .run(&run)
        .resume_as(&new)
        .await
        .unwrap();
    pass(60_000).await;
    end(handle).await;
    assert!(world.has_snapshot(&run).await);
    assert_eq!(paid.load(Ordering::SeqCst), 2, "once by each definition");
    let handle = world.process().run(&run).resume_as(&new).await.unwrap();
    pass(300_000).await;
    assert_eq!(paid.load(Ordering::SeqCst), 2, "nobody said that it may run again");
    assert_eq!(world.status(&run).await, (RunStatus::Paused, Some(PauseReason::Interrupted)));
    end(handle).await;
    let error = world
        .process()
        .with_changes(agentflow::runtime::Changes::AcceptAll)
        .run(&run)
        .resume_as(&flow("newer", 10, false))
        .await
        .unwrap_err();
    assert!(matches!(&error, Error::WriteForgotten { nodes, .. } if *nodes == ["pay"]), "{error}");
    assert_eq!(paid.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_keeps_what_the_items_of_a_changed_node_have_done() {
    let world = World::new();
    let ran: Arc<Mutex<BTreeMap<u32, u32>>> = Arc::default();
    let flow = |calls: &'static str| {
        let ran = Arc::clone(&ran);
        Workflow::<(Vec<u32>,), u32>::build("maps", ["items"], move |b, (items,)| {
            let m = Node::new("m").calls(calls).concurrency(4);
            let m: Handle<Vec<u32>> = b.map(m, items, (), move |_, n: u32, ()| {
                let ran = Arc::clone(&ran);
                async move {
                    pass(10).await;
                    *ran.lock().unwrap().entry(n).or_default() += 1;
                    Step::Ok(n)
                }
            });
            b.node("end", (m,), |_, (m,): (Vec<u32>,)| async move {
                pass(10_000_000).await;
                Step::Ok(m.len() as u32)
            })
        })
        .unwrap()
    };
    let handle = world.process().start(flow("old"), items(3000)).await.unwrap();
    pass(20_000).await;
    let run = end(handle).await;
    assert_eq!(std::mem::take(&mut *ran.lock().unwrap()).len(), 3000);
    let handle = world
        .process()
        .with_changes(agentflow::runtime::Changes::AcceptAll)
        .run(&run)
        .resume_as(&flow("new"))
        .await
        .unwrap();
    pass(7000).await;
    end(handle).await;
    assert!(world.has_snapshot(&run).await);
    let before = ran.lock().unwrap().len();
    assert!((1..3000).contains(&before), "{before} items of the new definition");
    let handle = world.process().run(&run).resume_as(&flow("new")).await.unwrap();
    pass(20_000).await;
    {
        let ran = ran.lock().unwrap();
        assert_eq!(ran.len(), 3000);
        assert!(ran.values().all(|times| *times == 1), "what was done is not done again");
    }
    drop(handle);
}

/// Runs a workflow as a step.
fn step_of(
    inner: &Workflow<(u32,), u32>,
) -> impl Fn(Context, (u32,)) -> BoxFuture<'static, Result<u32, Error>> + use<> {
    let inner = inner.clone();
    move |cx, (n,)| {
        let inner = inner.clone();
        Box::pin(async move { inner.run_in(&cx, n).await })
    }
}

#[tokio::test(start_paused = true)]
async fn a_workflow_in_a_step_that_a_change_forgot_begins_anew() {
    let world = World::new();
    let inner = Workflow::<(u32,), u32>::build("inner", ["n"], |b, (n,)| {
        let one = b.node("one", (n,), |_, (n,): (u32,)| async move { Step::Ok(n * 10) });
        b.node("two", (one,), |_, (n,): (u32,)| async move {
            pass(5000).await;
            Step::Ok(n + 1)
        })
    })
    .unwrap();
    let flow = |adds: u32, calls: &'static str| {
        Workflow::<(u32,), u32>::build("outer", ["n"], |b, (n,)| {
            let x = b.node(Node::new("x").calls(calls), (n,), move |_, (n,): (u32,)| async move {
                Step::Ok(n + adds)
            });
            b.node("in", (x,), step_of(&inner))
        })
        .unwrap()
    };
    let handle = world.process().start(flow(0, "old"), 1).await.unwrap();
    pass(1000).await;
    let run = end(handle).await;
    let second = world.process();
    let error = second.run(&run).resume_as(&flow(100, "new")).await.unwrap_err();
    assert_eq!(error.kind(), "definition_changed");
    let handle = second
        .with_changes(agentflow::runtime::Changes::AcceptAll)
        .run(&run)
        .resume_as(&flow(100, "new"))
        .await
        .unwrap();
    assert_eq!(handle.result().await.unwrap(), 1011);
    assert_eq!(
        count(&world.events(&run).await, "in/one", "workflow.node.completed"),
        2,
        "with each input once"
    );
}

#[tokio::test(start_paused = true)]
async fn an_agent_in_a_step_that_a_change_forgot_is_asked_anew() {
    let (world, asked) = (World::new(), Arc::new(Mutex::new(Vec::<String>::new())));
    let flow = |question: &'static str, then: u64| {
        let asked = Arc::clone(&asked);
        let model = ScriptedModel::from_fn(move |request| {
            let last = request.messages.last().map(|message| message.text().into_owned());
            asked.lock().unwrap().extend(last);
            Turn::text("answer")
        });
        Workflow::<(u32,), String>::build("outer", ["n"], move |b, (n,)| {
            let x =
                b.node(Node::new("x").calls(question), (n,), move |_, (_,): (u32,)| async move {
                    Step::Ok(question.to_owned())
                });
            b.node("asks", (x,), move |cx: Context, (text,): (String,)| {
                let agent = Agent::new(model.clone()).name("a");
                async move {
                    let said = agent.run_in(&cx, text.as_str()).await?.output().clone();
                    pass(then).await;
                    Ok::<_, Error>(format!("{text}: {said}"))
                }
            })
        })
        .unwrap()
    };
    let handle = world.process().start(flow("old question", 1_000_000), 1).await.unwrap();
    pass(1000).await;
    let run = end(handle).await;
    let handle = world
        .process()
        .with_changes(agentflow::runtime::Changes::AcceptAll)
        .run(&run)
        .resume_as(&flow("new question", 1))
        .await
        .unwrap();
    assert_eq!(handle.result().await.unwrap(), "new question: answer");
    assert_eq!(*asked.lock().unwrap(), ["old question", "new question"]);
    world.events(&run).await;
}

#[tokio::test(start_paused = true)]
async fn a_workflow_in_a_step_that_has_changed_asks_before_it_runs_anew() {
    let world = World::new();
    let inner = |changed: bool| {
        Workflow::<(u32,), u32>::build("inner", ["n"], move |b, (n,)| {
            let zero = match changed {
                true => b.node("zero", (n,), |_, (n,): (u32,)| async move { Step::Ok(n + 1000) }),
                false => n,
            };
            let one = b.node("one", (zero,), |_, (n,): (u32,)| async move { Step::Ok(n * 10) });
            b.node("two", (one,), |_, (n,): (u32,)| async move {
                pass(5000).await;
                Step::Ok(n + 1)
            })
        })
        .unwrap()
    };
    let flow = |changed: bool| {
        Workflow::<(u32,), u32>::build("outer", ["n"], |b, (n,)| {
            b.node("in", (n,), step_of(&inner(changed)))
        })
        .unwrap()
    };
    let handle = world.process().start(flow(false), 1).await.unwrap();
    pass(1000).await;
    let run = end(handle).await;
    let second = world.process();
    let handle = second.run(&run).resume_as(&flow(true)).await.unwrap();
    pass(10_000).await;
    second.run(&run).retry("in", "ada").await.unwrap();
    assert_eq!(handle.result().await.unwrap(), 10011, "all of the new definition");
    let failures: Vec<String> = world
        .events(&run)
        .await
        .into_iter()
        .filter_map(|event| match (event.path.to_string() == "in", event.kind) {
            (true, EventKind::NodeFailed { error, .. }) => {
                Some(format!("{}: {}", error.kind.as_str(), error.message))
            }
            _ => None,
        })
        .collect();
    assert_eq!(
        failures,
        [
            "interrupted: the workflow `inner` at `in` has changed since it began; resume the run with the program that it \
          began in, or retry the step that it runs in, so that it runs anew"
        ]
    );
}

/// A step that fails because another run was cancelled.
async fn cancelled_elsewhere() -> Result<u32, Error> {
    let flow = Workflow::<(u32,), u32>::build("elsewhere", ["n"], |b, (n,)| {
        b.node("x", (n,), |_, (n,): (u32,)| async move {
            pass(1000).await;
            Step::Ok(n)
        })
    })?;
    let handle = test_runtime().build().start(flow, 1).await?;
    pass(10).await;
    handle.cancel("not needed").await?;
    handle.result().await
}

fn gives_up(_: Context, _: (u32,)) -> impl Future<Output = Result<u32, Error>> + Send + 'static {
    cancelled_elsewhere()
}

/// Runs a workflow with a single node and the input 1, and returns its result.
async fn own_error(flow: Workflow<(u32,), u32>, node: &str) -> Result<u32, String> {
    let world = World::new();
    let runtime = world.process();
    let handle = runtime.start(flow.clone(), 1).await.unwrap();
    let run = handle.run_id().clone();
    let outcome = tokio::time::timeout(Duration::from_secs(3600), handle.result())
        .await
        .expect("it has an end");
    let events = world.events(&run).await;
    let ends = count(&events, node, "workflow.node.completed")
        + count(&events, node, "workflow.node.failed");
    assert_eq!(ends, 1, "`{node}` has an end: {events:#?}");
    drop(handle);
    if outcome.is_err() {
        runtime.run(&run).retry(node, "ada").await.unwrap();
    }
    outcome.map_err(|error| error.to_string())
}

#[tokio::test(start_paused = true)]
async fn a_step_whose_own_error_is_a_cancellation_has_failed() {
    let flow: Workflow<(u32,), u32> =
        Workflow::build("one", ["n"], |b, (n,)| b.node("s", (n,), gives_up)).unwrap();
    let error = own_error(flow, "s").await.unwrap_err();
    assert_eq!(error, "the step `s` failed: the run was cancelled: not needed");
}

#[tokio::test(start_paused = true)]
async fn an_item_whose_own_error_is_a_cancellation_fails_its_map() {
    let flow = Workflow::build("one", ["n"], |b, (n,)| {
        let items = b.value("items", (n,), |(n,): (u32,)| Step::Ok(vec![n, n + 1]));
        let m: Handle<Vec<u32>> = b.map("m", items, (), |_, n: u32, ()| async move {
            if n == 1 { cancelled_elsewhere().await } else { Ok(n) }
        });
        b.value("size", (m,), |(m,): (Vec<u32>,)| Step::Ok(m.len() as u32))
    })
    .unwrap();
    let error = own_error(flow, "m").await.unwrap_err();
    assert!(error.contains("the run was cancelled: not needed"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn branches_whose_own_errors_are_cancellations_fail_their_race() {
    let flow = Workflow::build("one", ["n"], |b, (n,)| {
        b.race("r", [Branch::new("a", (n,), gives_up), Branch::new("b", (n,), gives_up)])
    })
    .unwrap();
    let error = own_error(flow, "r").await.unwrap_err();
    assert!(error.contains("the run was cancelled: not needed"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_branch_whose_own_error_is_a_cancellation_gives_way_to_the_next() {
    let flow = Workflow::build("one", ["n"], |b, (n,)| {
        let other = |_: Context, (n,): (u32,)| async move { Step::Ok(n + 41) };
        b.fallback("f", [Branch::new("a", (n,), gives_up), Branch::new("b", (n,), other)])
    })
    .unwrap();
    assert_eq!(own_error(flow, "f").await, Ok(42));
}

fn gate(name: &str) -> Workflow<(u32,), u32> {
    Workflow::build(name, ["n"], |b, (n,)| {
        let ok: Handle<Approval> =
            b.gate("ok", (n,), |(n,)| Step::Ok((format!("is {n} right?"), n)));
        b.value("end", (n, ok), |(n, _): (u32, Approval)| Step::Ok(n))
    })
    .unwrap()
}

/// Builds a race that a branch with a gate loses, followed by a long step or by another gate.
fn loser_asks(asks_again: bool) -> Workflow<(u32,), u32> {
    Workflow::build("outer", ["n"], |b, (n,)| {
        let asks = step_of(&gate("inner"));
        let fast = |_: Context, (n,): (u32,)| async move {
            pass(50).await;
            Step::Ok(n)
        };
        let r = b.race("r", [Branch::new("asks", (n,), asks), Branch::new("fast", (n,), fast)]);
        if asks_again {
            let g: Handle<Approval> =
                b.gate("g", (r,), |(n,)| Step::Ok((format!("is {n} right?"), n)));
            return b.value("end", (n, g), |(n, _): (u32, Approval)| Step::Ok(n));
        }
        b.node("long", (r,), |_, (n,): (u32,)| async move {
            pass(100_000).await;
            Step::Ok(n)
        })
    })
    .unwrap()
}

const LOSER: &str = "the node `r/asks/ok` waits for no answer: it is cancelled";

#[tokio::test(start_paused = true)]
async fn the_gate_of_a_branch_that_lost_its_race_asks_no_more() {
    let (world, flow) = (World::new(), loser_asks(false));
    let runtime = world.process();
    let handle = runtime.start(flow.clone(), 1).await.unwrap();
    let run = handle.run_id().clone();
    pass(1000).await;
    assert_eq!(world.status(&run).await, (RunStatus::Running, None));
    let stopped = "cancelled is not run: what it belongs to has ended";
    assert_eq!(line(&runtime, &run, "r/asks/ok").await, stopped);
    let before = world.length(&run).await;
    refused(runtime.run(&run).approve("r/asks/ok", Approval::granted(), "ada").await, LOSER);
    assert_eq!(world.length(&run).await, before, "nothing is written");
    // The same without an executing process.
    end(handle).await;
    let second = world.process();
    refused(second.run(&run).approve("r/asks/ok", Approval::granted(), "ada").await, LOSER);
    second.run(&run).pause().await.unwrap();
    second.run(&run).unpause().await.unwrap();
    assert_eq!(world.status(&run).await, (RunStatus::Queued, None), "nobody is asked");
    refused(second.run(&run).approve("r/asks/ok", Approval::granted(), "ada").await, LOSER);
    let handle = second.run(&run).resume_as(&flow).await.unwrap();
    refused(second.run(&run).approve("r/asks/ok", Approval::granted(), "ada").await, LOSER);
    assert_eq!(handle.result().await.unwrap(), 1);
    assert_eq!(
        line(&second, &run, "r/asks/ok").await,
        "cancelled is not run again: the run has ended"
    );
    world.events(&run).await;
}

#[tokio::test(start_paused = true)]
async fn the_gate_of_an_attempt_that_gave_up_asks_no_more_until_the_next_one() {
    let world = World::new();
    let asks = step_of(&gate("inner"));
    let flow = Workflow::<(u32,), u32>::build("outer", ["n"], move |b, (n,)| {
        // A time limit would be suspended during the question, so the step gives up on its own.
        b.node(Node::new("s").retry(3), (n,), move |cx, n| {
            let asked = asks(cx, n);
            async move {
                tokio::select! {
                    answer = asked => answer.map_err(|error| error.to_string()),
                    () = pass(10_000) => Err("nobody answers".to_owned()),
                }
            }
        })
    })
    .unwrap();
    let runtime = world.process();
    let handle = runtime.start(flow, 1).await.unwrap();
    let run = handle.run_id().clone();
    pass(10_200).await;
    assert_eq!(world.status(&run).await, (RunStatus::Running, None));
    assert_eq!(report(&runtime, &run, "s/ok").await.status.to_string(), "cancelled");
    refused(
        runtime.run(&run).approve("s/ok", Approval::granted(), "ada").await,
        "the node `s/ok` waits for no answer: it is cancelled",
    );
    // The next attempt continues the nested workflow, which asks again.
    pass(1_800).await;
    assert_eq!(world.status(&run).await, (RunStatus::Paused, Some(PauseReason::Approval)));
    assert_eq!(report(&runtime, &run, "s/ok").await.status.to_string(), "awaiting_approval");
    runtime.run(&run).approve("s/ok", Approval::granted(), "ada").await.unwrap();
    assert_eq!(handle.result().await.unwrap(), 1);
    world.events(&run).await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_for_a_gate_that_asks_no_more_leaves_a_waiting_run_as_it_is() {
    let world = World::new();
    let runtime = world.process();
    let handle = runtime.start(loser_asks(true), 1).await.unwrap();
    let run = handle.run_id().clone();
    pass(1000).await;
    refused(runtime.run(&run).approve("r/asks/ok", Approval::granted(), "ada").await, LOSER);
    pass(3_600_000).await;
    assert_eq!(world.status(&run).await, (RunStatus::Paused, Some(PauseReason::Approval)));
    runtime.run(&run).approve("g", Approval::granted(), "ada").await.unwrap();
    assert_eq!(handle.result().await.unwrap(), 1);
    world.events(&run).await;
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_run_asks_nobody() {
    let world = World::new();
    let runtime = world.process();
    let handle = runtime.start(gate("gate"), 1).await.unwrap();
    let run = handle.run_id().clone();
    pass(10).await;
    assert_eq!(line(&runtime, &run, "ok").await, "awaiting_approval waits for the answer");
    handle.cancel("enough").await.unwrap();
    let ok = report(&runtime, &run, "ok").await;
    assert_eq!((ok.status.to_string().as_str(), ok.question), ("cancelled", None));
    assert_eq!(world.status(&run).await, (RunStatus::Cancelled, None));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_waits_for_a_decision_still_does_after_a_pause() {
    let world = World::new();
    let flow = Workflow::<(u32,), u32>::build("once", ["n"], |b, (n,)| {
        b.node(Node::new("once").repeatable(false), (n,), |_, (n,): (u32,)| async move {
            pass(5000).await;
            Step::Ok(n)
        })
    })
    .unwrap();
    let interrupted = (RunStatus::Paused, Some(PauseReason::Interrupted));
    let operator = (RunStatus::Paused, Some(PauseReason::Operator));
    let handle = world.process().start(flow.clone(), 1).await.unwrap();
    pass(1000).await;
    let run = end(handle).await;
    let second = world.process();
    let handle = second.run(&run).resume_as(&flow).await.unwrap();
    pass(100).await;
    assert_eq!(world.status(&run).await, interrupted);
    end(handle).await;
    second.run(&run).pause().await.unwrap();
    assert_eq!(world.status(&run).await, operator);
    second.run(&run).unpause().await.unwrap();
    assert_eq!(world.status(&run).await, interrupted);
    // The same while the run is executed.
    let handle = second.run(&run).resume_as(&flow).await.unwrap();
    pass(100).await;
    assert_eq!(world.status(&run).await, interrupted);
    handle.pause().await.unwrap();
    assert_eq!(world.status(&run).await, operator);
    handle.unpause().await.unwrap();
    assert_eq!(world.status(&run).await, interrupted);
    second.run(&run).retry("once", "ada").await.unwrap();
    assert_eq!(handle.result().await.unwrap(), 1);
    world.events(&run).await;
}

#[tokio::test(start_paused = true)]
async fn a_step_that_was_answered_at_rest_has_not_run_yet() {
    let world = World::new();
    let flow = Workflow::<(u32,), u32>::build("sends", ["n"], |b, (n,)| {
        b.node(Node::new("send").approve("send?"), (n,), |_, (n,): (u32,)| async move {
            pass(10).await;
            Step::Ok(n)
        })
    })
    .unwrap();
    let runtime = world.process();
    for granted in [true, false] {
        let handle = runtime.start(flow.clone(), 1).await.unwrap();
        pass(10).await;
        let run = end(handle).await;
        let answer = if granted { Approval::granted() } else { Approval::Denied { comment: None } };
        runtime.run(&run).approve("send", answer, "ada").await.unwrap();
        assert_eq!(
            line(&runtime, &run, "send").await,
            "pending goes by the answer that it was given"
        );
        let handle = runtime.run(&run).resume_as(&flow).await.unwrap();
        assert_eq!(handle.result().await.is_ok(), granted);
        let ended = report(&runtime, &run, "send").await.status.to_string();
        assert_eq!(ended, if granted { "success" } else { "failed" });
        world.events(&run).await;
    }
}

fn long() -> Workflow<(u64,), u64> {
    Workflow::build("long", ["n"], |b, (n,)| {
        let a = b.node("a", (n,), |_, (n,): (u64,)| async move {
            pass(1000).await;
            Step::Ok(n)
        });
        b.node("b", (a,), |_, (n,): (u64,)| async move {
            pass(n).await;
            Step::Ok(n + 1)
        })
    })
    .unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_run_that_another_process_took_is_operated_there() {
    let world = World::new();
    let first = world.process();
    let other = world.store.as_another_process();
    let second = test_runtime().clock(world.clock.clone()).store(other).build();
    let handle = first.start(long(), 1_000_000).await.unwrap();
    let run = handle.run_id().clone();
    pass(10).await;
    let taken = second.run(&run).resume_as(&long()).await.unwrap();
    assert_eq!(handle.result().await.unwrap_err().kind(), "fenced");
    let hour = Duration::from_secs(3600);
    tokio::time::timeout(hour, handle.pause()).await.expect("it has an outcome").unwrap();
    tokio::time::timeout(hour, handle.cancel("enough")).await.expect("it has an outcome").unwrap();
    assert_eq!(
        taken.result().await.unwrap_err().kind(),
        "fenced",
        "this store does not know who is alive"
    );
    assert_eq!(world.status(&run).await.0, RunStatus::Cancelled);
    let late = tokio::time::timeout(hour, handle.cancel("enough"))
        .await
        .expect("it has an outcome")
        .unwrap_err();
    assert_eq!(late.to_string(), "the run cannot be cancelled: it is over (cancelled)");
}

/// The removed gate is in the workflow itself or in a nested one.
#[tokio::test(start_paused = true)]
async fn a_gate_that_a_change_took_away_asks_no_more() {
    for nested in [false, true] {
        let world = World::new();
        let flow = |old: bool| {
            Workflow::<(u32,), u32>::build("outer", ["n"], |b, (n,)| {
                let x = match (old, nested) {
                    (true, false) => {
                        let g: Handle<Approval> =
                            b.gate("g", (n,), |(n,)| Step::Ok((format!("is {n} right?"), n)));
                        b.value("x", (n, g), |(n, _): (u32, Approval)| Step::Ok(n))
                    }
                    (true, true) => b.node("in", (n,), step_of(&gate("inner"))),
                    (false, false) => b.value("x", (n,), |(n,): (u32,)| Step::Ok(n)),
                    (false, true) => {
                        b.node(Node::new("in").calls("plain"), (n,), |_, (n,): (u32,)| async move {
                            pass(1000).await;
                            Step::Ok(n)
                        })
                    }
                };
                b.node("long", (x,), |_, (n,): (u32,)| async move {
                    pass(1_000_000).await;
                    Step::Ok(n)
                })
            })
            .unwrap()
        };
        let handle = world.process().start(flow(true), 1).await.unwrap();
        pass(100).await;
        let run = end(handle).await;
        assert_eq!(world.status(&run).await, (RunStatus::Paused, Some(PauseReason::Approval)));
        let runtime = world.process();
        let handle = runtime
            .with_changes(agentflow::runtime::Changes::AcceptAll)
            .run(&run)
            .resume_as(&flow(false))
            .await
            .unwrap();
        pass(10_000).await;
        assert_eq!(
            world.status(&run).await,
            (RunStatus::Running, None),
            "`long` runs, and nobody is asked"
        );
        refused(
            runtime.run(&run).unpause().await,
            "the run cannot be unpaused: it is running, not paused",
        );
        let gone = if nested { "in/ok" } else { "g" };
        runtime.run(&run).approve(gone, Approval::granted(), "ada").await.unwrap_err();
        assert_eq!(handle.result().await.unwrap(), 1);
        world.events(&run).await;
    }
}

/// A slow store. It waits before each operation and again before it returns.
#[derive(Clone, Debug)]
struct Slow {
    kept: ProcessStore,
    before: u64,
    after: u64,
}

impl Slow {
    async fn slowly<T>(&self, act: impl Future<Output = T> + Send) -> T {
        pass(self.before).await;
        let done = act.await;
        if self.after > 0 {
            pass(self.after).await;
        }
        done
    }
}

#[async_trait]
impl agentflow::store::StoreLayer for Slow {
    fn inner(&self) -> &dyn Store {
        &self.kept
    }

    async fn create(&self, run: &RunId, events: Vec<Event>) -> Result<Epoch, StoreError> {
        self.slowly(self.inner().create(run, events)).await
    }

    async fn open(&self, run: &RunId) -> Result<Epoch, StoreError> {
        self.slowly(self.inner().open(run)).await
    }

    async fn close(&self, run: &RunId, epoch: Epoch) -> Result<(), StoreError> {
        self.slowly(self.inner().close(run, epoch)).await
    }

    async fn append(&self, run: &RunId, epoch: Epoch, append: Append) -> Result<(), StoreError> {
        self.slowly(self.inner().append(run, epoch, append)).await
    }

    async fn amend(&self, run: &RunId, after: u64, events: Vec<Event>) -> Result<(), StoreError> {
        self.slowly(self.inner().amend(run, after, events)).await
    }

    async fn read(&self, run: &RunId, after: u64, limit: usize) -> Result<Vec<Event>, StoreError> {
        self.slowly(self.inner().read(run, after, limit)).await
    }

    async fn snapshot(&self, run: &RunId) -> Result<Option<Snapshot>, StoreError> {
        self.slowly(self.inner().snapshot(run)).await
    }

    async fn record(&self, run: &RunId) -> Result<Option<RunRecord>, StoreError> {
        self.slowly(self.inner().record(run)).await
    }

    async fn list_with_unreadable(&self, filter: RunFilter) -> Result<RunList, StoreError> {
        self.slowly(self.inner().list_with_unreadable(filter)).await
    }

    async fn put_definition(&self, hash: &str, graph: String) -> Result<(), StoreError> {
        self.slowly(self.inner().put_definition(hash, graph)).await
    }

    async fn definition(&self, hash: &str) -> Result<Option<String>, StoreError> {
        self.slowly(self.inner().definition(hash)).await
    }

    fn messages(&self) -> Option<&dyn MessageStore> {
        Some(self)
    }
}

#[async_trait]
impl MessageStore for Slow {
    async fn send(&self, run: &RunId, message: String) -> Result<MessageId, StoreError> {
        self.kept.send(run, message).await
    }

    async fn receive(&self, run: &RunId, epoch: Epoch) -> Result<Vec<StoreMessage>, StoreError> {
        self.slowly(self.kept.receive(run, epoch)).await
    }

    async fn inbox(&self) -> Result<Vec<StoreMessage>, StoreError> {
        self.kept.inbox().await
    }

    async fn outcome(&self, message: MessageId) -> Result<Option<String>, StoreError> {
        self.kept.outcome(message).await
    }

    async fn withdraw(&self, message: MessageId) -> Result<Option<String>, StoreError> {
        self.kept.withdraw(message).await
    }
}

/// Two processes with a common store; the store of the first is slow.
struct Two {
    store: ProcessStore,
    first: Runtime,
    second: Runtime,
}

impl Two {
    fn new(before: u64, after: u64) -> Self {
        let (store, clock) = (ProcessStore::new(), TestClock::new());
        let builder = || test_runtime().clock(clock.clone()).workflow(&gate("gate"));
        let first = builder().store(Slow { kept: store.clone(), before, after }).build();
        let second = builder().store(store.process(2)).build();
        Self { store, first, second }
    }

    /// Creates a run that waits for its answer and whose process has ended.
    async fn at_rest(&self, run: &RunId) {
        let handle = self.first.start(gate("gate"), 1).run_id(run.clone()).await.unwrap();
        pass(1000).await;
        end(handle).await;
        pass(1000).await;
    }

    /// Checks that no process holds the run without executing it: a request of the second process
    /// takes effect.
    async fn is_taken_care_of(&self, run: &RunId, dropped_after: u64) {
        pass(1000).await;
        match self.second.run(run).pause().await {
            Ok(()) => {}
            Err(Error::Store(error)) if error.kind() == StoreErrorKind::NotFound => {}
            Err(error) => panic!("dropped after {dropped_after} ms: {error}"),
        }
    }
}

/// Longer than any of the operations, in milliseconds.
const LONGEST: u64 = 400;

#[tokio::test(start_paused = true)]
async fn a_start_that_is_dropped_midway_leaves_no_run_that_nobody_executes() {
    let mut midway = 0;
    for after in (0..LONGEST).step_by(5) {
        for told_after in [0, 10] {
            let two = Two::new(10, told_after);
            let run = RunId::new("run-1");
            let started = two.first.start(gate("gate"), 1).run_id(run.clone());
            midway += u32::from(
                tokio::time::timeout(Duration::from_millis(after), started).await.is_err(),
            );
            two.is_taken_care_of(&run, after).await;
        }
    }
    assert!(midway > 4, "{midway}");
}

#[tokio::test(start_paused = true)]
async fn a_resume_that_is_dropped_midway_leaves_no_run_that_nobody_executes() {
    let mut midway = 0;
    for after in (0..LONGEST).step_by(5) {
        let two = Two::new(10, 0);
        let run = RunId::new("run-1");
        two.at_rest(&run).await;
        let resumed = two.first.run(&run).resume();
        midway +=
            u32::from(tokio::time::timeout(Duration::from_millis(after), resumed).await.is_err());
        two.is_taken_care_of(&run, after).await;
    }
    assert!(midway > 4, "{midway}");
}

#[tokio::test(start_paused = true)]
async fn a_recovery_that_is_dropped_midway_leaves_no_run_that_nobody_executes() {
    let mut midway = 0;
    for after in (0..LONGEST).step_by(5) {
        let two = Two::new(10, 0);
        let runs: Vec<RunId> = (0..3).map(|at| RunId::new(format!("run-{at}"))).collect();
        for run in &runs {
            two.at_rest(run).await;
        }
        midway += u32::from(
            tokio::time::timeout(Duration::from_millis(after), two.first.recover()).await.is_err(),
        );
        for run in &runs {
            two.is_taken_care_of(run, after).await;
        }
    }
    assert!(midway > 4, "{midway}");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_ends_while_others_are_recovered_is_not_left() {
    let short = |takes: u64| {
        Workflow::<(u32,), u32>::build("gate", ["n"], |b, (n,)| {
            b.node("step", (n,), move |_, (n,): (u32,)| async move {
                pass(takes).await;
                Step::Ok(n)
            })
        })
        .unwrap()
    };
    let mut ended = 0;
    for takes in 0..60 {
        let two = Two::new(10, 0);
        let _handle = two.second.start(short(takes), 1).await.unwrap();
        let recovered = two.first.recover().await.unwrap();
        assert!(recovered.left.is_empty(), "after {takes} ms: {:?}", recovered.left);
        assert!(recovered.resumed.is_empty());
        ended += u32::from(recovered.elsewhere.is_empty());
        pass(1000).await;
        let run = RunId::new("run-1");
        assert_eq!(status(&two.store, &run).await, (RunStatus::Success, None));
    }
    assert!((1..60).contains(&ended), "{ended}");
}

#[test]
fn requests_of_other_processes_reach_runs_on_every_tokio_runtime() {
    for first_ends in [true, false] {
        let store = ProcessStore::new();
        let runtime = Runtime::builder().store(store.clone()).build();
        let second = Runtime::builder().store(store.process(2)).build();
        let idle = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let busy = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let elsewhere = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        // The first run is on a tokio runtime that ends or is no longer polled.
        let first = idle
            .block_on(runtime.start(gate("gate"), 1).run_id(RunId::new("run-1")).into_future())
            .unwrap();
        let handle = busy
            .block_on(runtime.start(gate("gate"), 1).run_id(RunId::new("run-2")).into_future())
            .unwrap();
        let idle = (!first_ends).then_some(idle);
        let asked = elsewhere.block_on(async {
            tokio::time::timeout(Duration::from_secs(20), second.run(handle.run_id()).pause()).await
        });
        asked.expect("it has an outcome").unwrap();
        drop((first, idle));
    }
}

/// Makes a request while the run stops at some moment. A refused request must have no effect.
async fn asked_while_it_stops<A: Future<Output = Result<(), Error>> + Send + 'static>(
    ask: impl Fn(Runtime, RunId) -> A,
    is_effect: impl Fn(&EventKind) -> bool,
    of_a_paused_run: bool,
) {
    for after in 0..80 {
        let two = Two::new(10, 10);
        let run = RunId::new("run-1");
        let handle = two.first.start(gate("gate"), 1).run_id(run.clone()).await.unwrap();
        pass(1000).await;
        if of_a_paused_run {
            handle.pause().await.unwrap();
        }
        let asked = tokio::spawn(ask(two.first.clone(), run.clone()));
        pass(after).await;
        handle.abandon();
        let outcome = tokio::time::timeout(Duration::from_secs(3600), asked)
            .await
            .expect("it has an outcome")
            .unwrap();
        let events = two.store.read(&run, 0, 1000).await.unwrap();
        let effects = events.iter().filter(|event| is_effect(&event.kind)).count();
        assert!(
            outcome.is_ok(),
            "stopped after {after} ms: {outcome:?}, with {effects} in the journal"
        );
        assert_eq!(effects, 1, "stopped after {after} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_meets_the_end_of_its_process_is_not_refused() {
    asked_while_it_stops(
        |runtime, run| async move { runtime.run(&run).approve("ok", Approval::granted(), "ada").await },
        |kind| matches!(kind, EventKind::ApprovalResolved { .. }),
        false,
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_pause_that_meets_the_end_of_its_process_is_not_refused() {
    asked_while_it_stops(
        |runtime, run| async move { runtime.run(&run).pause().await },
        |kind| matches!(kind, EventKind::RunPaused { reason: PauseReason::Operator, .. }),
        false,
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_cancel_that_meets_the_end_of_its_process_is_not_refused() {
    asked_while_it_stops(
        |runtime, run| async move { runtime.run(&run).cancel("enough").await },
        |kind| matches!(kind, EventKind::RunCancelled { .. }),
        false,
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_word_to_continue_that_meets_the_end_of_its_process_is_not_refused() {
    asked_while_it_stops(
        |runtime, run| async move { runtime.run(&run).unpause().await },
        |kind| matches!(kind, EventKind::RunResumed { recovered: false, .. }),
        true,
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_resume_that_is_dropped_midway_leaves_no_run_that_nobody_executes() {
    let other = Workflow::<(u32,), u32>::build("gate", ["n"], |b, (n,)| {
        b.node("plain", (n,), |_, (n,): (u32,)| async move { Step::Ok(n) })
    })
    .unwrap();
    let mut midway = 0;
    for after in (0..LONGEST).step_by(5) {
        let two = Two::new(10, 0);
        let run = RunId::new("run-1");
        two.at_rest(&run).await;
        match tokio::time::timeout(
            Duration::from_millis(after),
            two.first.run(&run).resume_as(&other),
        )
        .await
        {
            Ok(refused) => assert_eq!(refused.unwrap_err().kind(), "definition_changed"),
            Err(_) => midway += 1,
        }
        two.is_taken_care_of(&run, after).await;
    }
    assert!(midway > 4, "{midway}");
}

#[tokio::test(start_paused = true)]
async fn a_resume_that_is_dropped_while_the_store_tells_it_leaves_no_run_that_nobody_executes() {
    for after in (0..LONGEST).step_by(5) {
        let two = Two::new(10, 10);
        let run = RunId::new("run-1");
        two.at_rest(&run).await;
        drop(
            tokio::time::timeout(Duration::from_millis(after), two.first.run(&run).resume()).await,
        );
        two.is_taken_care_of(&run, after).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_step_whose_own_error_is_a_cancellation_is_shown_as_failed() {
    let world = World::new();
    let flow = Workflow::build("one", ["n"], |b, (n,)| b.node("s", (n,), gives_up)).unwrap();
    let runtime = world.process();
    let handle = runtime.start(flow, 1).await.unwrap();
    let run = handle.run_id().clone();
    handle.result().await.unwrap_err();
    assert_eq!(line(&runtime, &run, "s").await, "failed is not run again unless it is retried");
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_gate_a_change_took_away_is_not_said_to_wait_for_it() {
    let world = World::new();
    let flow = |old: bool| {
        Workflow::<(u32,), u32>::build("outer", ["n"], |b, (n,)| {
            let x = match old {
                true => {
                    let g: Handle<Approval> =
                        b.gate("g", (n,), |(n,)| Step::Ok((format!("is {n} right?"), n)));
                    b.value("x", (n, g), |(n, _): (u32, Approval)| Step::Ok(n))
                }
                false => b.value("x", (n,), |(n,): (u32,)| Step::Ok(n)),
            };
            b.node("long", (x,), |_, (n,): (u32,)| async move {
                pass(1_000_000).await;
                Step::Ok(n)
            })
        })
        .unwrap()
    };
    let handle = world.process().start(flow(true), 1).await.unwrap();
    pass(100).await;
    let run = end(handle).await;
    let runtime = world.process();
    let handle = runtime
        .with_changes(agentflow::runtime::Changes::AcceptAll)
        .run(&run)
        .resume_as(&flow(false))
        .await
        .unwrap();
    pass(10_000).await;
    end(handle).await;
    let mut wrong = Vec::new();
    let asking = runtime.run(&run).inspect().await.unwrap().nodes;
    if asking.iter().any(|node| node.question.is_some()) {
        wrong.push(format!("inspect: {asking:?}"));
    }
    runtime.run(&run).pause().await.unwrap();
    runtime.run(&run).unpause().await.unwrap();
    if world.status(&run).await != (RunStatus::Queued, None) {
        wrong.push(format!("pause and unpause at rest: {:?}", world.status(&run).await));
    }
    if let Ok(()) = runtime.run(&run).approve("g", Approval::granted(), "ada").await {
        wrong.push(format!("approve at rest was granted; {:?}", world.status(&run).await));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_recovery_that_is_dropped_while_the_store_tells_it() {
    for after in (0..LONGEST).step_by(5) {
        let two = Two::new(10, 10);
        let run = RunId::new("run-1");
        two.at_rest(&run).await;
        drop(tokio::time::timeout(Duration::from_millis(after), two.first.recover()).await);
        two.is_taken_care_of(&run, after).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_removed_workflow_with_a_gate() {
    let world = World::new();
    let flow = |old: bool| {
        Workflow::<(u32,), u32>::build("outer", ["n"], |b, (n,)| {
            let x = match old {
                true => b.node("in", (n,), step_of(&gate("inner"))),
                false => n,
            };
            b.node("long", (x,), |_, (n,): (u32,)| async move {
                pass(1_000_000).await;
                Step::Ok(n)
            })
        })
        .unwrap()
    };
    let handle = world.process().start(flow(true), 1).await.unwrap();
    pass(100).await;
    let run = end(handle).await;
    let runtime = world.process();
    let handle = runtime
        .with_changes(agentflow::runtime::Changes::AcceptAll)
        .run(&run)
        .resume_as(&flow(false))
        .await
        .unwrap();
    pass(10_000).await;
    let live = world.status(&run).await;
    end(handle).await;
    runtime.run(&run).pause().await.unwrap();
    runtime.run(&run).unpause().await.unwrap();
    assert_eq!(
        (live, world.status(&run).await),
        ((RunStatus::Running, None), (RunStatus::Queued, None))
    );
}

/// Builds one version of a router with a step in each arm.
fn routed(version: &'static str, arm: usize) -> Workflow<(u32,), u32> {
    Workflow::build("routed", ["n"], move |b, (n,)| {
        let router = b
            .route(Node::new("r").calls(version), ["x", "y"], (n,), move |_: (u32,)| Step::Ok(arm));
        let step = |b: &mut Builder, name: &str| -> Handle<u32> {
            b.node(name, (n,), |_, (n,): (u32,)| async move {
                tokio::time::sleep(Duration::from_millis(50)).await;
                Step::Ok(n)
            })
        };
        let ends = [b.arm(router, 0, |b| step(b, "sx")), b.arm(router, 1, |b| step(b, "sy"))];
        b.join(router, ends)
    })
    .unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_router_that_has_changed_ends_nothing_in_its_arms() {
    for arm in [0, 1] {
        let store = MemoryStore::new();
        let runtime = || test_runtime().store(store.clone()).build();
        let id = RunId::new("run-1");
        let pass = || tokio::time::sleep(Duration::from_millis(10));
        let handle = runtime().start(routed("v1", 1), 1).await.unwrap();
        pass().await;
        handle.abandon();
        let handle = runtime()
            .with_changes(agentflow::runtime::Changes::AcceptAll)
            .run(&id)
            .resume_as(&routed("v2", arm))
            .await
            .unwrap();
        pass().await;
        handle.abandon();
        let handle = runtime().run(&id).resume_as(&routed("v2", arm)).await.unwrap();
        assert_eq!(handle.result().await.unwrap(), 1);
        check_events(&store.read(&id, 0, 1000).await.unwrap()).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn running_steps_of_a_node_that_a_change_removes_have_an_end() {
    let flow = |both: bool| {
        Workflow::<(u32,), u32>::build("two", ["n"], move |b, (n,)| {
            let step = |_: Context, (n,): (u32,)| async move {
                tokio::time::sleep(Duration::from_millis(50)).await;
                Step::Ok(n)
            };
            if both {
                let _: Handle<u32> = b.node("gone", (n,), step);
            }
            b.node("a", (n,), step)
        })
        .unwrap()
    };
    let store = MemoryStore::new();
    let runtime = || test_runtime().store(store.clone()).build();
    let id = RunId::new("run-1");
    let handle = runtime().start(flow(true), 1).await.unwrap();
    tokio::time::sleep(Duration::from_millis(10)).await;
    handle.abandon();
    let handle = runtime()
        .with_changes(agentflow::runtime::Changes::AcceptAll)
        .run(&id)
        .resume_as(&flow(false))
        .await
        .unwrap();
    assert_eq!(handle.result().await.unwrap(), 1);
    check_events(&store.read(&id, 0, 1000).await.unwrap()).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_payment_in_a_workflow_in_a_step_that_was_stopped_is_not_repeated_when_a_sibling_is_retried()
 {
    for mapped in [false, true] {
        stopped_after_a_payment(mapped).await;
    }
}

/// If `mapped`, the step runs once per item of a list.
async fn stopped_after_a_payment(mapped: bool) {
    let paid = Arc::new(AtomicU32::new(0));
    let fails = Arc::new(AtomicBool::new(true));
    let flow = {
        let (paid, fails) = (Arc::clone(&paid), Arc::clone(&fails));
        let inner = Workflow::<(u32,), u32>::build("inner", ["n"], move |b, (n,)| {
            let pay = Node::new("pay").policy(NodePolicy::default().repeatable(false));
            b.node(pay, (n,), move |_, (n,): (u32,)| {
                paid.fetch_add(1, Ordering::SeqCst);
                async move {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    Step::Ok(n)
                }
            })
        })
        .unwrap();
        Workflow::<(u32,), u32>::build("outer", ["n"], move |b, (n,)| {
            let nested = match mapped {
                false => b.node("nested", (n,), move |cx, (n,): (u32,)| {
                    let inner = inner.clone();
                    async move { inner.run_in(&cx, n).await }
                }),
                true => {
                    let items = b.value("items", (n,), |(n,)| Step::Ok(vec![n]));
                    let all: Handle<Vec<u32>> =
                        b.map("nested", items, (), move |cx, n: u32, ()| {
                            let inner = inner.clone();
                            async move { inner.run_in(&cx, n).await }
                        });
                    b.value("all", (all,), |(all,)| Step::Ok(all.iter().sum::<u32>()))
                }
            };
            let bad = b.node("bad", (n,), move |_, (n,): (u32,)| {
                let fails = fails.load(Ordering::SeqCst);
                async move {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    if fails { Err("broken".to_owned()) } else { Ok(n) }
                }
            });
            b.value("sum", (nested, bad), |(x, y)| Step::Ok(x + y))
        })
        .unwrap()
    };
    let (store, clock) = (MemoryStore::new(), TestClock::new());
    let runtime =
        || test_runtime().clock(clock.clone()).store(store.clone()).workflow(&flow).build();
    let id = RunId::new("run-1");
    runtime().start(flow.clone(), 1).await.unwrap().result().await.unwrap_err();
    fails.store(false, Ordering::SeqCst);
    runtime().run(&id).retry("bad", "ada").await.unwrap();
    let operator = runtime();
    let handle = operator.run(&id).resume_as(&flow).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(
        store.record(&id).await.unwrap().unwrap().pause_reason,
        Some(PauseReason::Interrupted)
    );
    assert_eq!(paid.load(Ordering::SeqCst), 1, "nobody said that it may be done again");
    operator.run(&id).retry("nested", "ada").await.unwrap();
    assert_eq!(handle.result().await.unwrap(), 2);
    assert_eq!(paid.load(Ordering::SeqCst), 2);
    check_events(&store.read(&id, 0, 1000).await.unwrap()).unwrap();
}

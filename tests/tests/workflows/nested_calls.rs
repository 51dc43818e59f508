//! An agent or workflow that a step starts is identified by its kind, its name and its input when
//! the step runs again after a crash, independent of the order in which they start. A different one
//! at the same place is reported and does not reuse a record.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use agentflow::error::FailureKind;
use agentflow::event::{EventKind, PauseReason};
use agentflow::prelude::*;
use agentflow::store::{MemoryStore, RunStatus, Store};
use agentflow::workflow::{Builder, Handle};
use agentflow::{Event, RunId, Runtime, Workflow};
use agentflow_testing::{CrashTest, EffectLog, ScriptedModel, Turn, check_events, test_runtime};
use serde_json::json;

/// Number of processes so far.
#[derive(Clone, Default)]
struct Lives(Arc<AtomicU32>);

impl Lives {
    /// Returns `true` if this process starts calls in the written order.
    fn in_order(&self) -> bool {
        self.0.load(Ordering::SeqCst) % 2 == 1
    }
}

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

/// Builds an agent that repeats its input after some time.
fn echo(name: &str) -> Agent {
    let model = ScriptedModel::from_fn(|request| {
        let asked = request.messages.last().unwrap().text().into_owned();
        Turn::text(format!("<{asked}>")).after(Duration::from_secs(2))
    });
    Agent::new(model).name(name)
}

/// Runs two futures concurrently, started in this order or in the reverse one.
async fn both<A, B>(
    in_order: bool,
    a: impl Future<Output = A>,
    b: impl Future<Output = B>,
) -> (A, B) {
    if in_order {
        tokio::join!(biased; a, b)
    } else {
        let (b, a) = tokio::join!(biased; b, a);
        (a, b)
    }
}

#[tokio::test(start_paused = true)]
async fn agents_that_begin_in_another_order_after_a_crash_find_their_own_records() {
    let lives = Lives::default();
    let of_step = lives.clone();
    let flow = Workflow::<(u32,), String>::build("echoes", ["n"], move |b, (n,)| {
        b.node("both", (n,), move |cx, (n,): (u32,)| {
            let in_order = of_step.in_order();
            async move {
                // The same agent twice, and another agent with the same input.
                let (one, (two, three)) = both(
                    in_order,
                    echo("echo").run_in(&cx, format!("{n}")),
                    both(
                        in_order,
                        echo("echo").run_in(&cx, "two"),
                        echo("other").run_in(&cx, "two"),
                    ),
                )
                .await;
                Ok::<_, agentflow::Error>(format!("{}{}{}", one?, two?, three?))
            }
        })
    })
    .unwrap();
    let report = CrashTest::new(&flow, || 1)
        .runtime(move |builder| {
            lives.0.fetch_add(1, Ordering::SeqCst);
            builder
        })
        .twice()
        .run()
        .await;
    assert!(report.to_string().contains("both"), "{report}");
}

/// Builds a workflow that reads and then has a single side effect.
fn pays(effects: &EffectLog, name: &str) -> Workflow<(u32,), u32> {
    let effects = effects.clone();
    Workflow::build(name, ["n"], move |b: &mut Builder, (n,)| {
        let looked: Handle<u32> = b.node("look", (n,), |_, (n,): (u32,)| async move {
            pass(2).await;
            Ok::<_, String>(n)
        });
        b.node("pay", (looked,), move |cx, (n,): (u32,)| {
            let effects = effects.clone();
            async move {
                effects.note(&cx);
                pass(2).await;
                Ok::<_, String>(n * 10)
            }
        })
    })
    .unwrap()
}

#[tokio::test(start_paused = true)]
async fn workflows_that_begin_in_another_order_after_a_crash_find_their_own_records() {
    let (lives, effects) = (Lives::default(), EffectLog::new());
    let (of_step, part, other) = (lives.clone(), pays(&effects, "part"), pays(&effects, "other"));
    let flow = Workflow::<(u32,), Vec<u32>>::build("parts", ["n"], move |b, (n,)| {
        b.node("both", (n,), move |cx, (n,): (u32,)| {
            let (in_order, part, other) = (of_step.in_order(), part.clone(), other.clone());
            async move {
                let (one, (two, three)) = both(
                    in_order,
                    part.run_in(&cx, n),
                    both(in_order, part.run_in(&cx, n + 1), other.run_in(&cx, n)),
                )
                .await;
                Ok::<_, agentflow::Error>(vec![one?, two?, three?])
            }
        })
    })
    .unwrap();
    CrashTest::new(&flow, || 1)
        .runtime(move |builder| {
            lives.0.fetch_add(1, Ordering::SeqCst);
            builder
        })
        .effects(&effects)
        .twice()
        .run()
        .await;
}

/// Calls two agents concurrently, in the order of this process.
async fn nested_calls_ask(cx: &Context, n: u32) -> Result<String> {
    let in_order = cx.resource::<Lives>().expect("the test gives it").in_order();
    let (one, two) = both(
        in_order,
        echo("echo").run_in(cx, format!("{n}")),
        echo("echo").run_in(cx, format!("{}", n + 1)),
    )
    .await;
    Ok(format!("{}{}", one?, two?))
}

#[workflow]
async fn nested_calls_flow(cx: &Context, n: u32) -> Result<String> {
    let asked = nested_calls_ask(cx, n).await?;
    Ok(asked)
}

#[tokio::test(start_paused = true)]
async fn the_same_in_a_workflow_of_the_macro() {
    let lives = Lives::default();
    CrashTest::new(&nested_calls_flow::workflow(), || 1)
        .runtime(move |builder| {
            lives.0.fetch_add(1, Ordering::SeqCst);
            builder.resource(lives.clone())
        })
        .twice()
        .run()
        .await;
}

/// Builds a workflow of a single step. It runs `first` in the first process, then waits, and runs
/// `later` in later processes.
fn turning<A, B>(
    first: impl Fn(Context) -> A + Clone + Send + Sync + 'static,
    later: impl Fn(Context) -> B + Clone + Send + Sync + 'static,
) -> impl Fn(bool) -> Workflow<(), String>
where
    A: Future<Output = Result<String>> + Send + 'static,
    B: Future<Output = Result<String>> + Send + 'static,
{
    move |is_first| {
        let (first, later) = (first.clone(), later.clone());
        Workflow::<(), String>::build("turning", [], move |b, ()| {
            b.node("step", (), move |cx, ()| {
                let (first, later) = (first.clone(), later.clone());
                async move {
                    if is_first {
                        first(cx.clone()).await?;
                        std::future::pending::<()>().await;
                    }
                    later(cx).await
                }
            })
        })
        .unwrap()
    }
}

fn process(store: &MemoryStore) -> Runtime {
    test_runtime().store(store.clone()).build()
}

/// Ends the first process of a run, resumes it in a second one, and lets that one run as far as it
/// can.
async fn resumed(flow: &impl Fn(bool) -> Workflow<(), String>) -> (MemoryStore, Runtime, RunId) {
    let store = MemoryStore::new();
    let handle = process(&store).start(flow(true), ()).await.unwrap();
    let run = handle.run_id().clone();
    pass(60).await;
    handle.abandon();
    tokio::task::yield_now().await;
    let second = process(&store);
    drop(second.run(&run).resume_as(&flow(false)).await.unwrap());
    pass(60).await;
    (store, second, run)
}

async fn events(store: &MemoryStore, run: &RunId) -> Vec<Event> {
    store.read(run, 0, 1000).await.unwrap()
}

/// Checks that the run waits for an operator because its step made a different call. Returns the
/// error.
async fn mismatch(store: &MemoryStore, run: &RunId) -> String {
    let record = store.record(run).await.unwrap().unwrap();
    assert_eq!(
        (record.status, record.pause_reason),
        (RunStatus::Paused, Some(PauseReason::Interrupted))
    );
    let failed = |event: Event| match event.kind {
        EventKind::NodeFailed { error, .. } => Some(error),
        _ => None,
    };
    let error =
        events(store, run).await.into_iter().rev().find_map(failed).expect("the step failed");
    assert_eq!(error.kind, FailureKind::Interrupted);
    error.message.clone()
}

#[tokio::test(start_paused = true)]
async fn another_callee_takes_nothing_over_and_both_are_named() {
    let asks = |name: &'static str| {
        move |cx: Context| async move { Ok(echo(name).run_in(&cx, "hello").await?.to_string()) }
    };
    let flow = turning(asks("first"), asks("second"));
    let (store, runtime, run) = resumed(&flow).await;
    assert_eq!(
        mismatch(&store, &run).await,
        "at `step` this run began the agent `first` with \"hello\", and now the step calls the agent `second` with \
         \"hello\" in its place; retry the step, so that it runs anew, or cancel the run. Let times, random numbers and \
         ids in an input come from a step of their own, which is recorded"
    );
    // The call started at a different path.
    let begun: Vec<String> = events(&store, &run)
        .await
        .iter()
        .filter(|event| matches!(event.kind, EventKind::AgentStarted(_)))
        .map(|event| event.path.to_string())
        .collect();
    assert_eq!(begun, ["step", "step/call#2"]);

    runtime.run(&run).retry("step", "ada").await.unwrap();
    pass(60).await;
    let output = runtime.run(&run).attach().await.unwrap().result().await.unwrap();
    assert_eq!(output.decode::<String>().unwrap(), "<hello>");
    check_events(&events(&store, &run).await).unwrap();
}

static ORDERS: AtomicUsize = AtomicUsize::new(0);

/// Orders something.
#[tool(idempotent)]
async fn nested_calls_order(what: String) -> String {
    ORDERS.fetch_add(1, Ordering::SeqCst);
    what
}

#[tokio::test(start_paused = true)]
async fn another_input_of_an_agent_that_had_an_effect_begins_nothing() {
    let orders = |what: &'static str| {
        move |cx: Context| async move {
            let model = ScriptedModel::from_fn(|request| match request.messages.len() {
                1 => Turn::call(
                    "nested_calls_order",
                    json!({"what": request.messages.messages()[0].text()}),
                ),
                _ => Turn::text("done"),
            });
            let agent = Agent::new(model).name("buyer").tools(tools![nested_calls_order]);
            Ok(agent.run_in(&cx, what).await?.to_string())
        }
    };
    let flow = turning(orders("tea"), orders("coffee"));
    let (store, _, run) = resumed(&flow).await;
    let said = mismatch(&store, &run).await;
    assert!(
        said.contains("began the agent `buyer` with \"tea\", and now the step calls the agent `buyer` with \"coffee\"")
    );
    assert_eq!(ORDERS.load(Ordering::SeqCst), 1, "nothing is ordered twice");
}

#[tokio::test(start_paused = true)]
async fn another_input_of_a_nested_workflow_is_reported_and_the_same_is_continued() {
    let effects = EffectLog::new();
    let pay = |n: u32| {
        let part = pays(&effects, "part");
        move |cx: Context| {
            let part = part.clone();
            async move { Ok(part.run_in(&cx, n).await?.to_string()) }
        }
    };
    let flow = turning(pay(1), pay(2));
    let (store, _, run) = resumed(&flow).await;
    let said = mismatch(&store, &run).await;
    assert!(
        said.contains(
            "began the workflow `part` with {\"n\":1}, and now the step calls the workflow `part` with {\"n\":2}"
        ),
        "{said}"
    );

    let flow = turning(pay(1), pay(1));
    let (store, runtime, run) = resumed(&flow).await;
    let output = runtime.run(&run).attach().await.unwrap().result().await.unwrap();
    assert_eq!(output.decode::<String>().unwrap(), "10");
    let events = events(&store, &run).await;
    check_events(&events).unwrap();
    let begun = events.iter().filter(|event| event.name() == "workflow.started").count();
    assert_eq!(begun, 1, "what was done is not done again");
}

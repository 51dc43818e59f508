//! Tests workers that are drained at each batch of events: started calls finish there, the
//! remaining calls run when the step continues on another worker, and no call is repeated or needs
//! a decision. Also drains a runtime at each event.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentflow::event::{EventSink, ModelDelta};
use agentflow::executor::{
    ExecutorError, StepBatch, StepCall, StepExecutor, StepHost, StepOutcome, StepRecorder,
    StepSignal,
};
use agentflow::path::StepPath;
use agentflow::prelude::*;
use agentflow::runtime::RuntimeBuilder;
use agentflow::serde_json::json;
use agentflow::store::{Append, Epoch, MemoryStore, Store, StoreError};
use agentflow::value::NodeValue;
use agentflow::{Event, RunId, Workflow, async_trait};
use agentflow_testing::{ScriptedModel, Turn, check_events, test_runtime, trace, within};
use tokio::sync::Notify;

use super::elsewhere_lost::Boxed;

/// The effects, in order.
#[derive(Clone, Default)]
struct Deeds(Arc<Mutex<Vec<String>>>);

impl Deeds {
    fn note(&self, deed: String) {
        self.0.lock().unwrap().push(deed);
    }
}

/// Ships something.
#[tool(compensate = drained_return)]
async fn drained_ship(deeds: Inject<Deeds>, item: String) -> String {
    deeds.note(format!("ship {item}"));
    format!("{item}!")
}

/// Takes it back.
#[tool]
async fn drained_return(deeds: Inject<Deeds>, item: String, output: String) -> bool {
    deeds.note(format!("return {item}"));
    output.len() > item.len()
}

/// Pack {item}.
#[agent(tools = [drained_ship], model = "none/none")]
async fn drained_packer(item: String) -> Result<String>;

#[workflow]
async fn drained_pair(cx: &Context, item: String) -> Boxed<String> {
    let first = drained_ship(cx.inject()?, item).await;
    let second = drained_ship(cx.inject()?, first).await;
    let third = drained_ship(cx.inject()?, second).await;
    Ok(third)
}

#[workflow]
async fn drained_nested(cx: &Context, item: String) -> Boxed<String> {
    let pair = drained_pair(cx, item).await?;
    let last = drained_ship(cx.inject()?, pair).await;
    Ok(last)
}

#[workflow]
async fn drained_agent(item: String) -> Boxed<String> {
    let said = drained_packer(item).await?;
    Ok(said)
}

#[workflow]
async fn drained_agents(cx: &Context, item: String) -> Boxed<String> {
    let said = sent(cx, item).await?;
    Ok(said)
}

/// Ships through an agent that has another agent as its tool.
async fn sent(cx: &Context, item: String) -> Boxed<String> {
    let model = ScriptedModel::from_fn(|request| {
        let turn = match request
            .messages
            .messages()
            .iter()
            .flat_map(|message| message.results())
            .count()
        {
            0 => Turn::call("packs", json!({"request": "Pack it."})),
            _ => Turn::text("sent"),
        };
        turn.after(Duration::from_millis(5))
    });
    let deeds = cx.inject::<Deeds>()?;
    let packer =
        Agent::new(packer()).name("packs").instruct("You pack.").tools(tools![drained_ship]);
    let packer = packer.resource(Deeds::clone(&deeds));
    let sender = Agent::new(model).name("drained-sender").tools(packer);
    Ok(sender.run_in(cx, format!("Send {item}.")).await?.output().clone())
}

#[workflow]
async fn drained_beside(cx: &Context, item: String) -> Boxed<String> {
    let both = beside(cx, item).await?;
    Ok(both)
}

async fn beside(cx: &Context, item: String) -> Boxed<String> {
    let (pair, said) = tokio::join!(drained_pair(cx, item.clone()), drained_packer(item));
    Ok(format!("{} {}", pair?, said?))
}

#[workflow]
async fn drained_items(cx: &Context, item: String) -> Boxed<Vec<String>> {
    let items = vec![item, "hat".to_owned()];
    let all = map!(items, |item| drained_pair(cx, item)).await?;
    Ok(all)
}

#[workflow]
async fn drained_fails(cx: &Context, item: String) -> Boxed<String> {
    let pair = drained_pair(cx, item).await?;
    let said = drained_packer(pair).await?;
    let over = is_over(said).await?;
    Ok(over)
}

async fn is_over(said: String) -> Result<String, String> {
    Err(format!("it is over after {said}"))
}

/// Returns a model that ships twice in its first turn and once in the second.
fn packer() -> ScriptedModel {
    let ship = |item: &str| ("drained_ship", json!({"item": item}));
    ScriptedModel::from_fn(move |request| {
        let turn = match request
            .messages
            .messages()
            .iter()
            .flat_map(|message| message.results())
            .count()
        {
            0 => Turn::calls([ship("box"), ship("bag")]),
            2 => Turn::calls([ship("bow")]),
            _ => Turn::text("packed"),
        };
        turn.after(Duration::from_millis(5))
    })
}

/// Returns the configuration of both sides.
fn described(deeds: &Deeds) -> RuntimeBuilder {
    test_runtime().agent_model("drained_packer", packer()).resource(deeds.clone())
}

/// Executes each step on a new worker, and drains one worker at a given batch.
struct DrainingExecutor {
    deeds: Deeds,
    at: usize,
    batches: Arc<AtomicUsize>,
}

struct Connection {
    host: StepHost,
    at: usize,
    batches: Arc<AtomicUsize>,
    drained: Arc<Notify>,
}

#[async_trait]
impl StepRecorder for Connection {
    async fn record(&self, batch: StepBatch) -> Result<(), ExecutorError> {
        if self.batches.fetch_add(1, Ordering::SeqCst) == self.at {
            self.drained.notify_one();
        }
        // The connection has a delay in both directions.
        tokio::time::sleep(Duration::from_millis(1)).await;
        let kept = self.host.record(batch).await;
        tokio::time::sleep(Duration::from_millis(1)).await;
        kept
    }

    fn delta(&self, path: &StepPath, delta: ModelDelta) {
        self.host.delta(path, delta);
    }

    async fn signal(&self) -> StepSignal {
        self.host.signal().await
    }
}

#[async_trait]
impl StepExecutor for DrainingExecutor {
    async fn execute(&self, call: StepCall, host: StepHost) -> Result<StepOutcome, ExecutorError> {
        let (worker, drained) = (described(&self.deeds).build(), Arc::new(Notify::new()));
        let (at, batches) = (self.at, Arc::clone(&self.batches));
        let connection = Connection { host, at, batches, drained: Arc::clone(&drained) };
        let leaves = async {
            within("`drained`", drained.notified()).await;
            worker.drain(Duration::from_secs(3600)).await;
            std::future::pending::<()>().await;
        };
        tokio::select! {
            biased;
            outcome = worker.execute_step(call, connection) => Ok(outcome),
            () = leaves => unreachable!("it waits for ever"),
        }
    }
}

/// The effects of a run and its result.
#[derive(Debug, PartialEq)]
struct Done {
    /// The shipped items, and the returned items in order.
    shipped: BTreeSet<String>,
    returned: Vec<String>,
    result: Result<String, String>,
}

fn done<Out: std::fmt::Debug>(deeds: &Deeds, result: Result<Out>, events: &[Event]) -> Done {
    let result = result.map(|out| format!("{out:?}")).map_err(|error| error.to_string());
    check_events(events).unwrap();
    let all = deeds.0.lock().unwrap().clone();
    let (shipped, returned): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|deed| deed.starts_with("ship"));
    let done = Done { shipped: shipped.iter().cloned().collect(), returned, result };
    assert_eq!(done.shipped.len(), shipped.len(), "something was shipped twice: {shipped:?}");
    done
}

/// Runs the workflow once for each batch. Returns how often another worker continued a step.
async fn drained_everywhere<Out: NodeValue + std::fmt::Debug>(
    flow: fn() -> Workflow<(String,), Out>,
) -> usize {
    let expected = drained_at(flow, usize::MAX).await.0;
    assert!(!expected.shipped.is_empty(), "{expected:?}");
    let mut left = 0;
    for at in 0.. {
        let (done, batches, attempts, trace) = drained_at(flow, at).await;
        if batches <= at {
            return left;
        }
        assert_eq!(done, expected, "drained at {at}: {trace:#?}");
        left += attempts;
    }
    unreachable!("a run has an end")
}

async fn drained_at<Out: NodeValue + std::fmt::Debug>(
    flow: fn() -> Workflow<(String,), Out>,
    at: usize,
) -> (Done, usize, usize, Vec<String>) {
    let (deeds, batches) = (Deeds::default(), Arc::new(AtomicUsize::new(0)));
    let leaving = DrainingExecutor { deeds: deeds.clone(), at, batches: Arc::clone(&batches) };
    let runtime = described(&deeds).store(MemoryStore::new()).executor(leaving).build();
    let handle = runtime
        .start(flow(), "kettle".to_owned())
        .run_id(RunId::new("r"))
        .compensate()
        .await
        .unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(600), handle.result()).await;
    assert!(ended.is_ok(), "the run hangs, drained at {at}: {:#?}", trace(handle.recorded()));
    let events = handle.recorded();
    let again =
        |event: &&Event| matches!(event.kind, agentflow::event::EventKind::NodeRetrying { .. });
    let attempts = events.iter().filter(again).count();
    (
        done(&deeds, handle.result().await, &events),
        batches.load(Ordering::SeqCst),
        attempts,
        trace(&events),
    )
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_drained_at_every_batch() {
    assert!(drained_everywhere(drained_nested::workflow).await > 0);
    assert!(drained_everywhere(drained_agent::workflow).await > 0);
    assert!(drained_everywhere(drained_agents::workflow).await > 0);
    assert!(drained_everywhere(drained_beside::workflow).await > 0);
    assert!(drained_everywhere(drained_items::workflow).await > 0);
    assert!(drained_everywhere(drained_fails::workflow).await > 0);
}

/// A store with a delay.
#[derive(Debug)]
struct Slow(MemoryStore);

#[async_trait]
impl agentflow::store::StoreLayer for Slow {
    fn inner(&self) -> &dyn Store {
        &self.0
    }

    async fn append(&self, run: &RunId, epoch: Epoch, append: Append) -> Result<(), StoreError> {
        tokio::time::sleep(Duration::from_millis(1)).await;
        self.inner().append(run, epoch, append).await
    }
}

/// Notifies after the given number of events.
struct At(Arc<AtomicUsize>, Arc<Notify>);

impl EventSink for At {
    fn emit(&self, event: &Event) {
        if event.is_recorded() && self.0.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.1.notify_one();
        }
    }
}

/// Drains a runtime at the given event and resumes its run in another runtime. Returns the effects,
/// and `true` if the drain left the run unfinished.
async fn drain_at_event<Out: NodeValue + std::fmt::Debug>(
    flow: fn() -> Workflow<(String,), Out>,
    at: usize,
) -> (Done, bool) {
    let (deeds, store, left) = (Deeds::default(), MemoryStore::new(), Arc::new(Notify::new()));
    let sink = At(Arc::new(AtomicUsize::new(at)), Arc::clone(&left));
    let first = described(&deeds).store(Slow(store.as_another_process())).sink(sink).build();
    let handle = first
        .start(flow(), "kettle".to_owned())
        .run_id(RunId::new("r"))
        .compensate()
        .await
        .unwrap();
    tokio::select! {
        biased;
        () = left.notified() => {}
        _ = handle.result() => {}
    }
    let drained =
        tokio::time::timeout(Duration::from_secs(3600), first.drain(Duration::from_secs(600)))
            .await;
    let was_left = !drained.expect("it ends by itself").left.is_empty();
    drop((handle, first));
    let second =
        described(&deeds).store(Slow(store.as_another_process())).workflow(&flow()).build();
    let handle = match was_left {
        true => second.run(&RunId::new("r")).resume().await.unwrap(),
        false => second.run(&RunId::new("r")).attach().await.unwrap(),
    };
    let result = handle.result().await;
    let events = second.run(&RunId::new("r")).journal().await.unwrap();
    (done(&deeds, result, &events), was_left)
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_is_drained_at_every_event() {
    for flow in [
        drained_nested::workflow as fn() -> Workflow<(String,), String>,
        drained_agent::workflow,
        drained_agents::workflow,
        drained_beside::workflow,
        drained_fails::workflow,
    ] {
        let (expected, _) = drain_at_event(flow, usize::MAX).await;
        assert!(!expected.shipped.is_empty(), "{expected:?}");
        let mut last = 0;
        for at in 1.. {
            let (done, was_left) = drain_at_event(flow, at).await;
            assert_eq!(done, expected, "drained at {at}");
            last = if was_left { at } else { last };
            if at > last + 10 {
                break;
            }
        }
        assert!(last > 5, "{last}");
    }
}

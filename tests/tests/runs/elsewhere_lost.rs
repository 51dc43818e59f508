//! Tests executors that lose steps: recorded outcomes count, an interrupted write needs a decision
//! as after a crash, and reads are retried by their policy.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use agentflow::error::FailureKind;
use agentflow::event::EventKind;
use agentflow::executor::{ExecutorError, StepCall, StepExecutor, StepHost, StepOutcome};
use agentflow::prelude::*;
use agentflow::run::RunHandle;
use agentflow::serde_json::{self, json};
use agentflow::store::{MemoryStore, Store};
use agentflow::value::NodeValue;
use agentflow::{Event, RunId, Workflow, async_trait};
use agentflow_testing::{ScriptedModel, Turn, check_events, test_runtime, within};
use futures_util::StreamExt;
use tokio::sync::Notify;

/// Records the effects, and stops the executing process or worker once at a given effect.
#[derive(Clone, Default)]
pub(crate) struct Shop(Arc<Open>);

#[derive(Default)]
struct Open {
    done: Mutex<Vec<String>>,
    stops_at: Mutex<Option<String>>,
    stopped: Notify,
}

impl Shop {
    fn stopping(at: &str) -> Self {
        let shop = Self::default();
        *shop.0.stops_at.lock().unwrap() = Some(at.to_owned());
        shop
    }

    fn done(&self) -> Vec<String> {
        self.0.done.lock().unwrap().clone()
    }

    async fn does(&self, what: String) -> Result<String, String> {
        self.0.done.lock().unwrap().push(what.clone());
        if self.0.stops_at.lock().unwrap().take_if(|at| *at == what).is_some() {
            self.0.stopped.notify_one();
            std::future::pending::<()>().await;
        }
        if what.ends_with("nothing") {
            Err("there is nothing to pay".to_owned())
        } else {
            Ok(format!("{what}!"))
        }
    }
}

/// Charges for something.
#[tool(compensate = lost_refund)]
async fn lost_charge(shop: Inject<Shop>, item: String) -> Result<String, String> {
    shop.does(format!("charge {item}")).await
}

/// Gives the money back.
#[tool(idempotent)]
async fn lost_refund(shop: Inject<Shop>, item: String, output: String) -> Result<String, String> {
    shop.does(format!("refund {item} of {output}")).await
}

/// Looks for something.
#[tool(effects = "read")]
async fn lost_look(shop: Inject<Shop>, item: String) -> Result<String, String> {
    shop.does(format!("look {item}")).await
}

/// Buy {item}.
#[agent(tools = [lost_charge, lost_look], model = "none/none")]
async fn lost_buyer(cx: &Context, item: String) -> Result<String>;

pub(crate) type Boxed<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

async fn bought(cx: &Context, item: &str) -> Boxed<String> {
    let seen = lost_look(cx.inject()?, item.to_owned()).await?;
    let before = lost_charge(cx.inject()?, format!("bag for {item}")).await?;
    let paid = lost_charge(cx.inject()?, item.to_owned()).await?;
    let after = lost_charge(cx.inject()?, format!("ribbon for {item}")).await?;
    Ok([seen, before, paid, after].join(" "))
}

#[workflow]
pub(crate) async fn lost_in_calls(cx: &Context, item: String) -> Boxed<String> {
    let all = bought(cx, &item).await?;
    Ok(all)
}

#[workflow]
pub(crate) async fn lost_in_calls_again(cx: &Context, item: String) -> Boxed<String> {
    #[node(retry = 2)]
    let all = bought(cx, &item).await?;
    Ok(all)
}

#[workflow]
pub(crate) async fn lost_direct(cx: &Context, item: String) -> Boxed<String> {
    let paid = lost_charge(cx.inject()?, item).await?;
    let more = lost_charge(cx.inject()?, format!("bow for {paid}")).await?;
    Ok(more)
}

#[workflow]
async fn lost_result(cx: &Context, item: String) -> Boxed<String> {
    let paid = lost_charge(cx.inject()?, item).await;
    let text = format!("{paid:?}");
    Ok(text)
}

#[workflow]
pub(crate) async fn lost_in_workflow(cx: &Context, item: String) -> Boxed<String> {
    let inner = lost_direct(cx, item).await?;
    let more = lost_charge(cx.inject()?, format!("box for {inner}")).await?;
    Ok(more)
}

#[workflow]
pub(crate) async fn lost_in_agent(cx: &Context, item: String) -> Boxed<String> {
    let said = lost_buyer(cx, item).await?;
    Ok(said)
}

#[workflow]
pub(crate) async fn lost_in_items(cx: &Context, item: String) -> Boxed<Vec<String>> {
    let items = vec!["hat".to_owned(), item];
    let all = map!(items, |item| lost_charge(cx.inject()?, item)).await?;
    Ok(all)
}

#[workflow]
pub(crate) async fn lost_in_rounds(cx: &Context, item: String) -> Boxed<String> {
    let all = repeat!(item, max = 1, |item| bought_again(cx, item)).await?;
    Ok(all)
}

async fn bought_again(cx: &Context, item: String) -> Boxed<String> {
    bought(cx, &item).await
}

/// Returns the configuration of both sides.
pub(crate) fn described(shop: &Shop) -> agentflow::runtime::RuntimeBuilder {
    let model = ScriptedModel::from_fn(|request| {
        let results = request.messages.messages().iter().flat_map(|message| message.results());
        let results: Vec<String> = results.map(|result| result.text().into_owned()).collect();
        match results.len() {
            0 => Turn::call("lost_charge", json!({"item": "hat"})),
            1 => Turn::call("lost_charge", json!({"item": "kettle"})),
            _ => Turn::text(results.join(" and ")),
        }
    });
    test_runtime().model(model).resource(shop.clone())
}

/// The moment when an executor loses a step.
#[derive(Clone, Copy, PartialEq)]
enum Loses {
    Never,
    /// When the worker stops during the step.
    WhenStopped,
    /// After the worker has finished the first attempt of this step.
    AfterEnd(&'static str),
    /// The same, but the outcome arrives with an output of another type.
    Garbled(&'static str),
    /// When the worker stops. Later steps are lost before a worker gets them.
    ForEver,
}

struct LosingExecutor {
    worker: Runtime,
    shop: Shop,
    loses: Loses,
    gone: AtomicBool,
}

#[async_trait]
impl StepExecutor for LosingExecutor {
    async fn execute(&self, call: StepCall, host: StepHost) -> Result<StepOutcome, ExecutorError> {
        let (path, attempt) = (call.path.to_string(), call.attempt);
        if self.gone.load(Ordering::SeqCst) && self.loses == Loses::ForEver {
            return Err(ExecutorError::lost("there is no worker"));
        }
        let executed = self.worker.execute_step(call, host);
        let outcome = match self.loses {
            Loses::WhenStopped | Loses::ForEver => tokio::select! {
                outcome = executed => outcome,
                () = self.shop.0.stopped.notified() => {
                    self.gone.store(true, Ordering::SeqCst);
                    return Err(ExecutorError::lost("the worker has left"));
                }
            },
            _ => executed.await,
        };
        match self.loses {
            Loses::AfterEnd(at) if path == at && attempt == 1 => {
                Err(ExecutorError::lost("the answer is gone"))
            }
            Loses::Garbled(at) if path == at && attempt == 1 => {
                let mut outcome = serde_json::to_value(&outcome)?;
                outcome["end"] = json!({"completed": {"output": {"x": [1]}}});
                Ok(serde_json::from_str(&outcome.to_string())?)
            }
            _ => Ok(outcome),
        }
    }
}

/// Returns a process that shares this store and executes its steps on a worker.
fn process(shop: &Shop, store: &MemoryStore, loses: Loses) -> Runtime {
    let loser = LosingExecutor {
        worker: described(shop).build(),
        shop: shop.clone(),
        loses,
        gone: AtomicBool::new(false),
    };
    described(shop).store(store.clone()).executor(loser).build()
}

pub(crate) async fn read_of(store: &MemoryStore, run: &RunId) -> Vec<Event> {
    store.read(run, 0, usize::MAX).await.unwrap()
}

/// Reads and checks the events of a run that has ended.
pub(crate) async fn all_of(store: &MemoryStore, run: &RunId) -> Vec<Event> {
    let events = read_of(store, run).await;
    check_events(&events).unwrap();
    events
}

/// Returns the interrupted steps that need a decision, with their messages.
pub(crate) fn questions(events: &[Event]) -> Vec<(String, String)> {
    let of = |event: &Event| match &event.kind {
        EventKind::NodeFailed { error, .. } if error.kind == FailureKind::Interrupted => {
            Some((event.path.to_string(), error.message.clone()))
        }
        _ => None,
    };
    events.iter().filter_map(of).collect()
}

/// The outcome of a run whose operator retries every interrupted step.
#[derive(Debug, PartialEq)]
pub(crate) struct Ran {
    pub(crate) asked: Vec<String>,
    done_before: Vec<String>,
    pub(crate) done: Vec<String>,
    pub(crate) result: Result<String, String>,
}

/// Retries every interrupted step until the run has ended. Returns the outcome and the questions.
pub(crate) async fn answered<Out: NodeValue + std::fmt::Debug>(
    runtime: &Runtime,
    store: &MemoryStore,
    shop: &Shop,
    handle: RunHandle<Out>,
) -> (Ran, Vec<(String, String)>) {
    let run = handle.run_id().clone();
    let mut events = handle.events();
    let mut asked = Vec::new();
    let mut done_before = Vec::new();
    while let Some(event) = within("the next event", events.next()).await {
        let questions = questions(&read_of(store, &run).await);
        if matches!(event.kind, EventKind::RunPaused { .. }) && questions.len() > asked.len() {
            for (path, _) in &questions[asked.len()..] {
                done_before = shop.done();
                // Items and rounds are retried through their node.
                if !path.ends_with(']') {
                    runtime.run(&run).retry(path, "ada").await.unwrap();
                }
            }
            asked = questions;
        }
    }
    let result =
        handle.result().await.map(|out| format!("{out:?}")).map_err(|error| error.to_string());
    all_of(store, &run).await;
    let ran = Ran {
        asked: asked.iter().map(|(path, _)| path.clone()).collect(),
        done_before,
        done: shop.done(),
        result,
    };
    (ran, asked)
}

/// Runs the workflow twice: first the process stops within a write, then only its worker.
async fn compare_crash_and_loss<Out: NodeValue + std::fmt::Debug>(
    flow: fn() -> Workflow<(String,), Out>,
    stops_at: &str,
) -> [(Ran, Vec<(String, String)>); 2] {
    let (shop, store) = (Shop::stopping(stops_at), MemoryStore::new());
    let first = process(&shop, &store, Loses::Never);
    let handle = first.start(flow(), "kettle".to_owned()).run_id(RunId::new("r")).await.unwrap();
    within("`shop.0.stopped`", shop.0.stopped.notified()).await;
    handle.abandon();
    tokio::task::yield_now().await;
    let second = process(&shop, &store, Loses::Never);
    let handle = second.run(&RunId::new("r")).resume_as(&flow()).await.unwrap();
    let killed = answered(&second, &store, &shop, handle).await;

    let (shop, store) = (Shop::stopping(stops_at), MemoryStore::new());
    let runtime = process(&shop, &store, Loses::WhenStopped);
    let handle = runtime.start(flow(), "kettle".to_owned()).run_id(RunId::new("r")).await.unwrap();
    let lost = answered(&runtime, &store, &shop, handle).await;
    [killed, lost]
}

/// Removes reads, which a further attempt repeats.
fn writes(ran: Ran) -> Ran {
    let only =
        |done: Vec<String>| done.into_iter().filter(|what| !what.starts_with("look")).collect();
    Ran { done: only(ran.done), done_before: only(ran.done_before), ..ran }
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_dies_within_a_write_is_as_a_killed_process() {
    let [(killed, asked), (lost, asked_too)] =
        compare_crash_and_loss(lost_in_calls::workflow, "charge kettle").await;
    assert_eq!(asked, asked_too, "the same question with the same words");
    assert_eq!(asked.len(), 1);
    assert!(asked[0].1.contains("`all/tool#2.lost_charge`"), "{asked:?}");
    let (killed, lost) = (writes(killed), writes(lost));
    assert_eq!(killed, lost);
    assert_eq!(
        lost.done_before,
        ["charge bag for kettle", "charge kettle"],
        "nothing is repeated before the answer"
    );
    assert_eq!(lost.done[2..], ["charge kettle", "charge ribbon for kettle"]);

    let [(killed, _), (lost, _)] =
        compare_crash_and_loss(lost_in_calls_again::workflow, "charge kettle").await;
    assert_eq!(writes(killed), writes(lost));

    let [(killed, _), (lost, _)] =
        compare_crash_and_loss(lost_direct::workflow, "charge kettle").await;
    assert_eq!(killed, lost);
    assert_eq!(lost.asked, ["paid"]);

    let [(killed, _), (lost, _)] =
        compare_crash_and_loss(lost_in_workflow::workflow, "charge kettle").await;
    assert_eq!(killed, lost);
    assert_eq!(lost.asked, ["inner/paid"], "it is asked where it was interrupted");

    let [(killed, _), (lost, _)] =
        compare_crash_and_loss(lost_in_agent::workflow, "charge kettle").await;
    assert_eq!(killed.asked, lost.asked);
    assert_eq!(killed.done, lost.done);
    assert_eq!(lost.asked, [""; 0], "its model learns of it");
    assert_eq!(lost.done, ["charge hat", "charge kettle"]);
    assert!(lost.result.unwrap().contains("whether it had its effect is unknown"));

    let [(killed, _), (lost, _)] =
        compare_crash_and_loss(lost_in_items::workflow, "charge kettle").await;
    assert_eq!(killed, lost);
    assert_eq!(lost.done.iter().filter(|what| *what == "charge hat").count(), 1);

    let [(killed, _), (lost, _)] =
        compare_crash_and_loss(lost_in_rounds::workflow, "charge kettle").await;
    assert_eq!(writes(killed), writes(lost));
}

#[tokio::test(start_paused = true)]
async fn an_operator_who_is_asked_may_let_it_be_lost_again() {
    // The retry is interrupted too, so the run needs a second decision.
    let (shop, store) = (Shop::stopping("charge kettle"), MemoryStore::new());
    let runtime = process(&shop, &store, Loses::WhenStopped);
    let handle = runtime
        .start(lost_in_calls::workflow(), "kettle".to_owned())
        .run_id(RunId::new("r"))
        .await
        .unwrap();
    let mut events = handle.events();
    let mut asked = 0;
    while let Some(event) = within("the next event", events.next()).await {
        if matches!(event.kind, EventKind::RunPaused { .. }) {
            asked += 1;
            if asked == 1 {
                *shop.0.stops_at.lock().unwrap() = Some("charge kettle".to_owned());
            }
            runtime.run(&RunId::new("r")).retry("all", "ada").await.unwrap();
        }
    }
    assert!(handle.result().await.is_ok());
    assert_eq!(asked, 2);
    assert_eq!(shop.done().iter().filter(|what| *what == "charge kettle").count(), 3);
    assert_eq!(shop.done().iter().filter(|what| *what == "charge bag for kettle").count(), 1);
}

#[tokio::test(start_paused = true)]
async fn nobody_is_there_who_could_ask() {
    // No worker is left. The run itself asks for a decision about the step.
    let (shop, store) = (Shop::stopping("charge kettle"), MemoryStore::new());
    let runtime = process(&shop, &store, Loses::ForEver);
    let handle = runtime
        .start(lost_in_calls::workflow(), "kettle".to_owned())
        .run_id(RunId::new("r"))
        .await
        .unwrap();
    let mut events = handle.events();
    while let Some(event) = within("the next event", events.next()).await {
        if matches!(event.kind, EventKind::RunPaused { .. }) {
            break;
        }
    }
    let [(path, why)] = &questions(&read_of(&store, handle.run_id()).await)[..] else {
        panic!("one question")
    };
    assert_eq!(path, "all");
    assert_eq!(
        why,
        "the program or the step was stopped in the middle of `all/tool#2.lost_charge`; whether it had its effect is unknown: \
         find out, then retry the node or cancel the run"
    );
    assert_eq!(shop.done().iter().filter(|what| *what == "charge kettle").count(), 1);
    let id = handle.run_id().clone();
    handle.cancel("enough").await.unwrap();
    handle.result().await.unwrap_err();
    all_of(&store, &id).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_recorded_as_success_is_success() {
    for loses in [Loses::AfterEnd("paid"), Loses::Garbled("paid")] {
        let (shop, store) = (Shop::default(), MemoryStore::new());
        let runtime = process(&shop, &store, loses);
        let run = runtime.start(lost_direct::workflow(), "kettle".to_owned()).await.unwrap();
        let id = run.run_id().clone();
        assert_eq!(run.result().await.unwrap(), "charge bow for charge kettle!!");
        assert_eq!(shop.done(), ["charge kettle", "charge bow for charge kettle!"]);
        all_of(&store, &id).await;
        // The output is a `Result`, whose JSON differs from the recorded output of the tool.
        for (item, result) in [
            ("kettle", r#"Ok("charge kettle!")"#),
            ("nothing", r#"Err("there is nothing to pay")"#),
        ] {
            let shop = Shop::default();
            let runtime = process(&shop, &MemoryStore::new(), loses);
            let run = runtime.start(lost_result::workflow(), item.to_owned()).await.unwrap();
            assert_eq!(run.result().await.unwrap(), result);
            assert_eq!(shop.done().len(), 1);
        }
    }
    // The same for an item of a list.
    let (shop, store) = (Shop::default(), MemoryStore::new());
    let runtime = process(&shop, &store, Loses::AfterEnd("all[1]"));
    let run = runtime.start(lost_in_items::workflow(), "kettle".to_owned()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), ["charge hat!", "charge kettle!"]);
    assert_eq!(shop.done().len(), 2);
    // A recorded failure is the outcome of the step.
    let (shop, store) = (Shop::default(), MemoryStore::new());
    let runtime = process(&shop, &store, Loses::AfterEnd("paid"));
    let run = runtime.start(lost_direct::workflow(), "nothing".to_owned()).await.unwrap();
    let error = run.result().await.unwrap_err();
    assert_eq!(error.to_string(), "the step `paid` failed: there is nothing to pay");
    assert_eq!((error.kind(), shop.done().len()), (FailureKind::Error, 1));
}

#[tokio::test(start_paused = true)]
async fn what_is_undone_was_done_once() {
    let (shop, store) = (Shop::default(), MemoryStore::new());
    let runtime = process(&shop, &store, Loses::AfterEnd("paid"));
    let run =
        runtime.start(lost_undone::workflow(), "kettle".to_owned()).compensate().await.unwrap();
    run.result().await.unwrap_err();
    assert_eq!(shop.done(), ["charge kettle", "refund kettle of charge kettle!"]);
}

#[workflow]
async fn lost_undone(cx: &Context, item: String) -> Boxed<String> {
    let paid = lost_charge(cx.inject()?, item).await?;
    let never = refused(paid).await?;
    Ok(never)
}

async fn refused(_: String) -> Result<String, String> {
    Err("no".to_owned())
}

#[tokio::test(start_paused = true)]
async fn an_output_of_another_type_fails_its_own_step() {
    let (shop, store) = (Shop::default(), MemoryStore::new());
    let runtime = process(&shop, &store, Loses::Garbled("all"));
    let run = runtime.start(lost_in_calls::workflow(), "kettle".to_owned()).await.unwrap();
    let id = run.run_id().clone();
    let error = run.result().await.unwrap_err();
    assert_eq!(error.kind(), FailureKind::UnreadableOutcome, "{error}");
    assert_eq!(
        error.to_string(),
        "the step `all` failed: the output of `all` that came back is not the `alloc::string::String` that the step gives: \
         invalid type: map, expected a string at line 1 column 0"
    );
    // The step is retried, and its completed calls are not repeated.
    runtime.run(&id).retry("all", "ada").await.unwrap();
    let run = runtime.run(&id).attach().await.unwrap();
    assert!(run.result().await.is_ok());
    assert_eq!(
        writes_of(&shop),
        ["charge bag for kettle", "charge kettle", "charge ribbon for kettle"]
    );
    all_of(&store, &id).await;

    // Items have their own type, and their policy retries them.
    let numbers = Workflow::<(), Vec<u32>>::build("lost_numbers", [], |b, ()| {
        let list = b.value("list", (), |()| Ok::<_, String>(vec![1_u32, 2]));
        let node = agentflow::workflow::Node::new("each").retry(1);
        b.map(node, list, (), |_, n: u32, ()| async move { Ok::<_, String>(n + 1) })
    })
    .unwrap();
    let worker = Runtime::builder().workflow(&numbers).build();
    let gone = AtomicBool::new(false);
    let loser = LosingExecutor { worker, shop, loses: Loses::Garbled("each[1]"), gone };
    let runtime = test_runtime().executor(loser).store(store.clone()).build();
    let run = runtime.start(numbers, ()).run_id(RunId::new("numbers")).await.unwrap();
    let id = run.run_id().clone();
    assert_eq!(run.result().await.unwrap(), [2, 3]);
    let events = all_of(&store, &id).await;
    let retried = events.iter().find_map(|event| match &event.kind {
        EventKind::NodeRetrying { error, .. } => {
            Some((event.path.to_string(), error.message.clone()))
        }
        _ => None,
    });
    let (path, why) = retried.unwrap();
    assert_eq!(path, "each[1]");
    assert!(why.starts_with("the output of `each[1]` that came back is not the `u32`"), "{why}");
}

fn writes_of(shop: &Shop) -> Vec<String> {
    shop.done().into_iter().filter(|what| !what.starts_with("look")).collect()
}

#[tokio::test(start_paused = true)]
async fn what_only_reads_is_repeated_by_its_policy() {
    let lost = |flow: fn() -> Workflow<(String,), String>| async move {
        let (shop, store) = (Shop::stopping("look kettle"), MemoryStore::new());
        let runtime = process(&shop, &store, Loses::WhenStopped);
        let run = runtime.start(flow(), "kettle".to_owned()).await.unwrap();
        let id = run.run_id().clone();
        let result = run.result().await;
        all_of(&store, &id).await;
        (shop.done(), result)
    };
    let (done, result) = lost(lost_in_calls::workflow).await;
    assert_eq!(
        (done, result.unwrap_err().kind()),
        (vec!["look kettle".to_owned()], FailureKind::Lost)
    );
    let (done, result) = lost(lost_in_calls_again::workflow).await;
    assert!(result.is_ok());
    assert_eq!(done.iter().filter(|what| *what == "look kettle").count(), 2);
    assert_eq!(done.len(), 5);
}

//! Tests steps that were interrupted in one call and are retried by an operator. All other calls
//! with an outcome keep it, including failures. If the step itself has failed, its failed calls run
//! again.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentflow::error::FailureKind;
use agentflow::event::EventKind;
use agentflow::message::Message;
use agentflow::middleware::{AgentStep, Flow, Middleware};
use agentflow::model::ModelErrorKind;
use agentflow::prelude::*;
use agentflow::runtime::RuntimeBuilder;
use agentflow::store::{MemoryStore, Store};
use agentflow::{Error, Result, RunId, Workflow, async_trait};
use agentflow_testing::{ScriptedModel, Turn, check_events, test_runtime, trace, within};
use futures_util::StreamExt;
use serde_json::json;
use tokio::sync::Notify;

/// State that all processes share: the effects in order.
#[derive(Clone, Default)]
pub(super) struct World(Arc<Seen>);

#[derive(Default)]
struct Seen {
    done: Mutex<Vec<String>>,
    /// The effect that stops the process once.
    stops_at: Mutex<Option<String>>,
    stopped: Notify,
    /// The effects that fail.
    fails: Mutex<Vec<String>>,
    process: Mutex<u32>,
}

impl World {
    pub(super) fn new(stops_at: &str, fails: &[&str]) -> Self {
        let world = Self::default();
        *world.0.stops_at.lock().unwrap() = Some(stops_at.to_owned());
        *world.0.fails.lock().unwrap() = fails.iter().map(|what| (*what).to_owned()).collect();
        world
    }

    pub(super) fn note(&self, what: &str) {
        self.0.done.lock().unwrap().push(what.to_owned());
    }

    pub(super) fn done(&self) -> Vec<String> {
        self.0.done.lock().unwrap().clone()
    }

    pub(super) fn is_process(&self, number: u32) {
        *self.0.process.lock().unwrap() = number;
    }

    /// Waits until the process has stopped.
    pub(super) async fn stopped(&self) {
        within("`self.0.stopped`", self.0.stopped.notified()).await;
    }

    pub(super) fn works_again(&self) {
        self.0.fails.lock().unwrap().clear();
    }

    pub(super) async fn act(&self, what: String) -> Result<u32, String> {
        self.note(&what);
        if self.0.stops_at.lock().unwrap().take_if(|at| *at == what).is_some() {
            self.0.stopped.notify_one();
            std::future::pending::<()>().await;
        }
        match self.0.fails.lock().unwrap().contains(&what) {
            true => Err(format!("no answer to: {what}")),
            false => Ok(1),
        }
    }
}

/// Pays somebody.
#[tool]
async fn pay(world: Inject<World>, who: String) -> Result<u32, String> {
    world.act(format!("pay {who}")).await
}

/// An error like `anyhow::Error`: its alternate form shows the cause, and it has no JSON form.
#[derive(Debug)]
pub(super) struct Behind(String, Option<String>);

impl std::fmt::Display for Behind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.1 {
            Some(cause) if f.alternate() => write!(f, "{}: {cause}", self.0),
            _ => f.write_str(&self.0),
        }
    }
}

impl From<Error> for Behind {
    fn from(error: Error) -> Self {
        Self(error.to_string(), std::error::Error::source(&error).map(ToString::to_string))
    }
}

impl From<String> for Behind {
    fn from(problem: String) -> Self {
        Self(problem, None)
    }
}

/// Takes something from a shelf.
#[tool]
async fn take(world: Inject<World>, what: String) -> Result<u32, Behind> {
    let taken = world.act(format!("take {what}")).await;
    taken.map_err(|_| Behind("taking".to_owned(), Some(format!("the shelf of {what} is empty"))))
}

/// Returns the number of the process.
pub(super) fn process(world: &World) -> u32 {
    *world.0.process.lock().unwrap()
}

const RUN: &str = "run-1";

/// Runs a workflow until its process stops, resumes it in another process and retries the waiting
/// step. Returns the journal and the result.
pub(super) async fn retried<Out: agentflow::value::NodeValue>(
    workflow: &Workflow<(Vec<String>,), Out>,
    world: &World,
    input: &[&str],
) -> (Vec<String>, Result<Out>) {
    run_with_retry_and_settings(workflow, world, input, |runtime| runtime).await
}

/// The same with further settings of the runtimes.
pub(super) async fn run_with_retry_and_settings<Out: agentflow::value::NodeValue>(
    workflow: &Workflow<(Vec<String>,), Out>,
    world: &World,
    input: &[&str],
    describe: impl Fn(RuntimeBuilder) -> RuntimeBuilder,
) -> (Vec<String>, Result<Out>) {
    let (store, run) = (MemoryStore::new(), RunId::new(RUN));
    let process = |number: u32| {
        *world.0.process.lock().unwrap() = number;
        describe(test_runtime().resource(world.clone()).store(store.clone())).build()
    };
    let input: Vec<String> = input.iter().map(|text| (*text).to_owned()).collect();
    let first = process(1);
    let handle = first.start(workflow.clone(), input).run_id(run.clone()).await.unwrap();
    within("`world.0.stopped`", world.0.stopped.notified()).await;
    handle.abandon();
    tokio::task::yield_now().await;
    let second = process(2);
    let handle = second.run(&run).resume_as(workflow).await.unwrap();
    let mut events = handle.events();
    let mut interrupted = None;
    while let Some(event) = within("the next event", events.next()).await {
        match event.kind {
            EventKind::NodeFailed { error, .. } if error.kind == FailureKind::Interrupted => {
                interrupted = Some((event.path.to_string(), error.message.clone()));
            }
            EventKind::RunPaused { .. } => break,
            _ => {}
        }
    }
    let lines = || async {
        let events = store.read(&run, 0, usize::MAX).await.unwrap();
        check_events(&events).unwrap();
        trace(&events)
    };
    let Some((step, why)) = interrupted else { panic!("no step waits: {:#?}", lines().await) };
    // The question is noted among the effects, so that tests see what happened before and after it.
    world.note(&format!("[{why}]"));
    second.run(&run).retry(&step, "ada").await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(3600), handle.result()).await;
    let Ok(ended) = ended else { panic!("it does not end: {:#?}", lines().await) };
    (lines().await, ended)
}

/// Returns the effects, with `retry` for each question to the operator.
pub(super) fn around_retry(world: &World) -> Vec<String> {
    let done = world.done().into_iter();
    done.map(|what| if what.starts_with('[') { "retry".to_owned() } else { what }).collect()
}

pub(super) fn pays(cx: &Context) -> Result<Inject<World>, Behind> {
    Ok(cx.inject()?)
}

async fn pay_everyone(cx: &Context, names: &[String]) -> Result<u32, Behind> {
    let mut paid = 0;
    for name in names {
        paid += pay(pays(cx)?, name.clone()).await.unwrap_or(0);
    }
    Ok(paid)
}

#[workflow(name = "payday")]
async fn payday(cx: &Context, names: Vec<String>) -> Result<u32, Behind> {
    let paid = pay_everyone(cx, &names).await?;
    Ok(paid)
}

#[workflow(name = "payday-in-for")]
async fn payday_in_for(cx: &Context, names: Vec<String>) -> Result<u32, Behind> {
    for name in names {
        let paid = pay(cx.inject()?, name).await.unwrap_or(0);
        look_at(paid).await;
    }
    Ok(1)
}

async fn look_at(_paid: u32) {}

#[tokio::test(start_paused = true)]
async fn a_failed_call_is_kept_when_another_one_was_interrupted() {
    let names = ["ada", "bob", "eve"];
    let expected = ["pay ada", "pay bob", "retry", "pay bob", "pay eve"];
    let world = World::new("pay bob", &["pay ada"]);
    let (lines, ended) = retried(&payday::workflow(), &world, &names).await;
    assert_eq!(ended.unwrap(), 2, "{lines:#?}");
    assert_eq!(around_retry(&world), expected, "{lines:#?}");
    let world = World::new("pay bob", &["pay ada"]);
    let (lines, ended) = retried(&payday_in_for::workflow(), &world, &names).await;
    assert_eq!(ended.unwrap(), 1, "{lines:#?}");
    assert_eq!(around_retry(&world), expected, "{lines:#?}");
}

async fn pay_all(cx: &Context, names: &[String]) -> Result<u32, Behind> {
    let mut failed = Vec::new();
    for name in names {
        if pay(pays(cx)?, name.clone()).await.is_err() {
            failed.push(name.as_str());
        }
    }
    match &*failed {
        [] => Ok(1),
        failed => Err(format!("{} were not paid", failed.len()).into()),
    }
}

#[workflow(name = "pays-all")]
async fn pays_all(cx: &Context, names: Vec<String>) -> Result<u32, Behind> {
    let paid = pay_all(cx, &names).await?;
    Ok(paid)
}

#[workflow(name = "pays-all-again")]
async fn pays_all_again(cx: &Context, names: Vec<String>) -> Result<u32, Behind> {
    #[node(retry = 1)]
    let paid = pay_all(cx, &names).await?;
    Ok(paid)
}

/// Runs the workflow until it fails, removes the cause and retries the step.
async fn run_repaired(world: &World, before: &[&str]) -> Result<u32> {
    let store = MemoryStore::new();
    let runtime = test_runtime().resource(world.clone()).store(store.clone()).build();
    let names: Vec<String> = before.iter().map(|name| (*name).to_owned()).collect();
    let run = RunId::new(RUN);
    runtime
        .start(pays_all::workflow(), names)
        .run_id(run.clone())
        .await
        .unwrap()
        .result()
        .await
        .unwrap_err();
    world.note("retry");
    world.works_again();
    runtime.run(&run).retry("paid", "ada").await.unwrap();
    runtime.run(&run).resume_as(&pays_all::workflow()).await.unwrap().result().await
}

#[tokio::test(start_paused = true)]
async fn a_step_that_failed_of_its_calls_retries_them() {
    let world = World::new("never", &["pay bob"]);
    assert_eq!(run_repaired(&world, &["ada", "bob", "eve"]).await.unwrap(), 1);
    assert_eq!(world.done(), ["pay ada", "pay bob", "pay eve", "retry", "pay bob"]);
}

#[tokio::test(start_paused = true)]
async fn a_nodes_own_retry_repeats_failed_calls() {
    let world = World::new("never", &["pay bob"]);
    let runtime = test_runtime().resource(world.clone()).store(MemoryStore::new()).build();
    let names = ["ada", "bob", "eve"].map(str::to_owned).to_vec();
    let ended = runtime.start(pays_all_again::workflow(), names).await.unwrap().result().await;
    assert!(ended.unwrap_err().to_string().contains("1 were not paid"));
    assert_eq!(world.done(), ["pay ada", "pay bob", "pay eve", "pay bob"]);
}

#[tokio::test(start_paused = true)]
async fn a_failed_call_that_was_kept_is_retried_when_the_step_fails_of_it() {
    let world = World::new("pay bob", &["pay ada"]);
    let store = MemoryStore::new();
    let run = RunId::new(RUN);
    let flow = pays_all::workflow();
    let process = || test_runtime().resource(world.clone()).store(store.clone()).build();
    let handle = process()
        .start(flow.clone(), vec!["ada".to_owned(), "bob".to_owned()])
        .run_id(run.clone())
        .await
        .unwrap();
    within("`world.0.stopped`", world.0.stopped.notified()).await;
    handle.abandon();
    tokio::task::yield_now().await;
    let second = process();
    let handle = second.run(&run).resume_as(&flow).await.unwrap();
    let mut events = handle.events();
    while let Some(event) = within("the next event", events.next()).await {
        if matches!(event.kind, EventKind::RunPaused { .. }) {
            break;
        }
    }
    second.run(&run).retry("paid", "ada").await.unwrap();
    assert!(handle.result().await.unwrap_err().to_string().contains("1 were not paid"));
    assert_eq!(world.done(), ["pay ada", "pay bob", "pay bob"]);
    world.works_again();
    second.run(&run).retry("paid", "ada").await.unwrap();
    assert_eq!(second.run(&run).resume_as(&flow).await.unwrap().result().await.unwrap(), 1);
    assert_eq!(world.done(), ["pay ada", "pay bob", "pay bob", "pay ada"]);
}

// The arguments depend on an earlier error and on the process.

async fn take_all(cx: &Context, names: &[String]) -> Result<u32, Behind> {
    let mut taken = 0;
    for name in names {
        match take(pays(cx)?, name.clone()).await {
            Ok(one) => taken += one,
            Err(error) => taken += pay(pays(cx)?, format!("for {error:#}")).await?,
        }
    }
    Ok(taken)
}

#[workflow(name = "takes-all")]
async fn takes(cx: &Context, names: Vec<String>) -> Result<u32, Behind> {
    let taken = take_all(cx, &names).await?;
    Ok(taken)
}

#[tokio::test(start_paused = true)]
async fn what_was_behind_a_failed_call_is_read_back() {
    let audit = "pay for taking: the shelf of rare is empty";
    let world = World::new(audit, &["take rare"]);
    let (lines, ended) = retried(&takes::workflow(), &world, &["tea", "rare"]).await;
    assert_eq!(ended.unwrap(), 2, "{lines:#?}");
    assert_eq!(
        around_retry(&world),
        ["take tea", "take rare", audit, "retry", audit],
        "{lines:#?}"
    );
}

async fn pay_by_process(cx: &Context) -> Result<u32, Behind> {
    let world = pays(cx)?;
    let number = process(&world);
    pay(world, format!("in process {number}")).await.map_err(Behind::from)
}

#[workflow(name = "pays-by-process")]
async fn pays_by_process(cx: &Context, _names: Vec<String>) -> Result<u32, Behind> {
    let paid = pay_by_process(cx).await?;
    Ok(paid)
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_call_is_asked_for_before_one_with_other_arguments() {
    let world = World::new("pay in process 1", &[]);
    let (lines, ended) = retried(&pays_by_process::workflow(), &world, &[]).await;
    assert_eq!(ended.unwrap(), 1, "{lines:#?}");
    assert_eq!(
        around_retry(&world),
        ["pay in process 1", "retry", "pay in process 2"],
        "{lines:#?}"
    );
    let why = &world.done()[1];
    assert!(
        why.contains("in the middle of `paid/tool#1.pay`; whether it had its effect is unknown"),
        "{why}"
    );
}

async fn pay_both(cx: &Context) -> Result<u32, Behind> {
    let (first, second) = tokio::join!(pay(pays(cx)?, "first".to_owned()), async {
        pay(pays(cx)?, "second".to_owned()).await.map_err(Behind::from)
    });
    Ok(first? + second?)
}

#[workflow(name = "pays-both")]
async fn pays_both(cx: &Context, _names: Vec<String>) -> Result<u32, Behind> {
    let paid = pay_both(cx).await?;
    Ok(paid)
}

#[tokio::test(start_paused = true)]
async fn an_operator_learns_of_each_call_that_a_retry_repeats() {
    let world = World::new("pay second", &[]);
    // The first call is interrupted too.
    let (lines, ended) = retried(&slow_pays_both::workflow(), &world, &[]).await;
    assert_eq!(ended.unwrap(), 2, "{lines:#?}");
    assert_eq!(
        around_retry(&world),
        ["pay slow", "pay second", "retry", "pay slow", "pay second"],
        "{lines:#?}"
    );
    let why = &world.done()[2];
    assert!(
        why.contains("in the middle of `paid/tool#1.pay_slowly`, `paid/tool#1.pay`; which had"),
        "{why}"
    );
    let world = World::new("pay second", &[]);
    let (lines, ended) = retried(&pays_both::workflow(), &world, &[]).await;
    assert_eq!(ended.unwrap(), 2, "{lines:#?}");
    assert_eq!(
        around_retry(&world),
        ["pay first", "pay second", "retry", "pay second"],
        "{lines:#?}"
    );
}

/// Pays at leisure.
#[tool]
async fn pay_slowly(world: Inject<World>) -> Result<u32, String> {
    let paid = world.act("pay slow".to_owned()).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    paid
}

async fn slowly_both(cx: &Context) -> Result<u32, Behind> {
    let (first, second) = tokio::join!(pay_slowly(pays(cx)?), pay(pays(cx)?, "second".to_owned()));
    Ok(first? + second?)
}

#[workflow(name = "slow-pays-both")]
async fn slow_pays_both(cx: &Context, _names: Vec<String>) -> Result<u32, Behind> {
    let paid = slowly_both(cx).await?;
    Ok(paid)
}

// Agents and nested workflows that had ended when the step was interrupted.

/// Pay who has worked.
#[agent(tools = [pay])]
async fn paymaster(cx: &Context, who: String) -> Result<String>;

/// Pays in a helper function, which is not part of the workflow's plan.
async fn pay_hidden(cx: &Context, who: &str) -> Result<u32, Behind> {
    Ok(pay(pays(cx)?, format!("inner {who}")).await?)
}

#[workflow(name = "inner-pays")]
async fn inner_pays(cx: &Context, who: String) -> Result<u32, Behind> {
    let paid = pay_hidden(cx, &who).await?;
    Ok(paid)
}

async fn pay_through_agent(cx: &Context) -> Result<String, Behind> {
    let first = paymaster(cx, "zoe".to_owned()).await?;
    pay(pays(cx)?, "bob".to_owned()).await?;
    let second = paymaster(cx, "zoe".to_owned()).await?;
    Ok(format!("{first}, {second}"))
}

#[workflow(name = "pays-through-agent")]
async fn pays_through_agent(cx: &Context, _names: Vec<String>) -> Result<String, Behind> {
    let paid = pay_through_agent(cx).await?;
    Ok(paid)
}

async fn pay_through_workflow(cx: &Context) -> Result<u32, Behind> {
    let first = inner_pays(cx, "zoe".to_owned()).await.unwrap_or(0);
    let bob = pay(pays(cx)?, "bob".to_owned()).await?;
    let second = inner_pays(cx, "kim".to_owned()).await?;
    Ok(first + bob + second)
}

#[workflow(name = "pays-through-workflow")]
async fn pays_through_workflow(cx: &Context, _names: Vec<String>) -> Result<u32, Behind> {
    let paid = pay_through_workflow(cx).await?;
    Ok(paid)
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_has_ended_is_kept_when_another_call_was_interrupted() {
    let world = World::new("pay bob", &[]);
    let pays = |who: &str| Turn::call("pay", json!({"who": who}));
    let model = ScriptedModel::new([
        pays("zoe"),
        Turn::text("once"),
        pays("zoe again"),
        Turn::text("twice"),
    ]);
    let (lines, ended) =
        run_with_retry_and_settings(&pays_through_agent::workflow(), &world, &[], |runtime| {
            runtime.model(model.clone())
        })
        .await;
    assert_eq!(ended.unwrap(), "once, twice", "{lines:#?}");
    let expected = ["pay zoe", "pay bob", "retry", "pay bob", "pay zoe again"];
    assert_eq!(around_retry(&world), expected, "{lines:#?}");
    model.finish();
}

/// Rests for a while.
#[tool(effects = "none")]
async fn rest() -> String {
    tokio::time::sleep(Duration::from_secs(60)).await;
    "rested".to_owned()
}

/// Pay who has worked, at leisure.
#[agent(tools = [pay, rest])]
async fn slow_paymaster(cx: &Context, who: String) -> Result<String>;

async fn pay_beside_agent(cx: &Context) -> Result<String, Behind> {
    let beside = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        pay(pays(cx)?, "bob".to_owned()).await.map_err(Behind::from)
    };
    let (said, paid) = tokio::join!(slow_paymaster(cx, "zoe".to_owned()), beside);
    Ok(format!("{}, {}", said?, paid?))
}

#[workflow(name = "pays-beside-agent")]
async fn pays_beside_agent(cx: &Context, _names: Vec<String>) -> Result<String, Behind> {
    let paid = pay_beside_agent(cx).await?;
    Ok(paid)
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_was_stopped_continues_when_a_call_beside_it_is_retried() {
    let world = World::new("pay bob", &[]);
    let first = Turn::call("pay", json!({"who": "zoe"}));
    let model = ScriptedModel::new([
        first,
        Turn::call("rest", json!({})),
        Turn::call("pay", json!({"who": "kim"})).expect_text("rested"),
        Turn::text("all paid"),
    ]);
    let flow = pays_beside_agent::workflow();
    let (lines, ended) =
        run_with_retry_and_settings(&flow, &world, &[], |runtime| runtime.model(model.clone()))
            .await;
    assert_eq!(ended.unwrap(), "all paid, 1", "{lines:#?}");
    let mut done = around_retry(&world);
    assert_eq!(done[..3], ["pay zoe", "pay bob", "retry"], "{lines:#?}");
    done[3..].sort();
    assert_eq!(done[3..], ["pay bob", "pay kim"], "{lines:#?}");
    model.finish();
}

/// Adds the number of the process to each conversation at its start.
struct RewritingMiddleware(World);

#[async_trait]
impl Middleware for RewritingMiddleware {
    fn name(&self) -> &str {
        "rewrites"
    }

    async fn before_agent(&self, step: &mut AgentStep) -> Result<Flow<Message>> {
        let number = process(&self.0);
        step.conversation.push(Message::user(format!("this is process {number}")));
        Ok(Flow::Continue)
    }
}

#[tokio::test(start_paused = true)]
async fn an_agent_is_known_by_what_its_caller_gave() {
    let world = World::new("pay bob", &[]);
    let model = ScriptedModel::new([
        Turn::call("pay", json!({"who": "zoe"})),
        Turn::text("once"),
        Turn::call("pay", json!({"who": "zoe again"})),
        Turn::text("twice"),
    ]);
    let hook = world.clone();
    let (lines, ended) =
        run_with_retry_and_settings(&pays_through_agent::workflow(), &world, &[], |runtime| {
            runtime.model(model.clone()).with(RewritingMiddleware(hook.clone()))
        })
        .await;
    assert_eq!(ended.unwrap(), "once, twice", "{lines:#?}");
    model.finish();
}

async fn pay_for_failure(cx: &Context) -> Result<u32, Behind> {
    let why = match paymaster(cx, "zoe".to_owned()).await {
        Ok(answer) => answer,
        Err(error) => error.to_string(),
    };
    pay(pays(cx)?, format!("because of {why}")).await.map_err(Behind::from)
}

#[workflow(name = "pays-for-failure")]
async fn pays_for_failure(cx: &Context, _names: Vec<String>) -> Result<u32, Behind> {
    let paid = pay_for_failure(cx).await?;
    Ok(paid)
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_has_failed_is_kept_when_another_call_was_interrupted() {
    let failure = "because of model call failed (auth): the script says that this call fails";
    let paid = format!("pay {failure}");
    let world = World::new(&paid, &[]);
    let model = ScriptedModel::new([Turn::fails(ModelErrorKind::Auth)]);
    let flow = pays_for_failure::workflow();
    let (lines, ended) =
        run_with_retry_and_settings(&flow, &world, &[], |runtime| runtime.model(model.clone()))
            .await;
    assert_eq!(ended.unwrap(), 1, "{lines:#?}");
    assert_eq!(around_retry(&world), [&*paid, "retry", &*paid], "{lines:#?}");
    model.finish();
}

#[tokio::test(start_paused = true)]
async fn a_workflow_that_has_ended_is_kept_when_another_call_was_interrupted() {
    let expected = ["pay inner zoe", "pay bob", "retry", "pay bob", "pay inner kim"];
    for (fails, paid) in [(&[][..], 3), (&["pay inner zoe"][..], 2)] {
        let world = World::new("pay bob", fails);
        let (lines, ended) = retried(&pays_through_workflow::workflow(), &world, &[]).await;
        assert_eq!(ended.unwrap(), paid, "{lines:#?}");
        assert_eq!(around_retry(&world), expected, "{lines:#?}");
    }
}

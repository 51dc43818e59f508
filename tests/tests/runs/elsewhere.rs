//! Tests steps on a worker: another runtime, reached through bytes. Every form of a workflow must
//! behave as it does locally.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use agentflow::error::FailureKind;
use agentflow::event::EventKind;
use agentflow::executor::StepExecutor;
use agentflow::prelude::*;
use agentflow::runtime::RuntimeBuilder;
use agentflow::serde_json::json;
use agentflow::store::{MemoryStore, RunStatus};
use agentflow::{Error, Event, RunId};
use agentflow_testing::{CrashTest, EffectLog, ScriptedModel, Turn, check_events, within};
use agentflow_tests::Elsewhere;

/// Twice a number.
#[tool(effects = "none")]
async fn elsewhere_twice(n: u32) -> u32 {
    2 * n
}

/// One more, at once.
#[tool(effects = "none")]
fn elsewhere_next(n: u32) -> u32 {
    n + 1
}

/// Pays, once.
#[tool(approve)]
async fn elsewhere_pay(cx: &Context, log: Inject<EffectLog>, cents: u32) -> u32 {
    log.note(cx);
    cents
}

/// Sends a letter.
#[tool]
pub(crate) async fn elsewhere_send(cx: &Context, log: Inject<EffectLog>, to: String) -> String {
    log.note(cx);
    format!("sent to {to}")
}

/// Say what is the matter with the {thing}.
#[agent(tools = [elsewhere_send], model = "none/none")]
pub(crate) async fn elsewhere_clerk(cx: &Context, thing: String) -> Result<String>;

type Boxed = Box<dyn std::error::Error + Send + Sync>;

async fn failing(n: u32) -> Result<u32, String> {
    match n {
        0 => Err("it is nothing".to_owned()),
        n => Ok(n),
    }
}

#[workflow]
async fn elsewhere_inner(n: u32) -> Result<u32> {
    let approval = gate!("is {n} right?", n).await?;
    let next = elsewhere_next(n);
    let all = elsewhere_twice(if approval.is_granted() { next } else { n }).await;
    Ok(all)
}

#[workflow]
async fn elsewhere_forms(numbers: Vec<u32>) -> Result<String, Boxed> {
    let doubled = map!(numbers, |n| elsewhere_twice(n)).await?;
    let sum: u32 = doubled.iter().sum();
    let next = elsewhere_next(sum);
    let first = race!(elsewhere_twice(next), std::future::pending::<u32>()).await?;
    let fallen = fallback!(failing(0), failing(first)).await?;
    let grown = repeat!(fallen, max = 20, until = |n| *n > 100, |n| elsewhere_twice(n)).await?;
    let size = if grown > 150 { elsewhere_next(grown) } else { elsewhere_twice(grown).await };
    for n in doubled.clone() {
        let one = elsewhere_twice(n).await;
        elsewhere_twice(one).await;
    }
    Ok(format!("{doubled:?} {next} {first} {fallen} {grown} {size}"))
}

/// Returns the paths and names of the events, which are equal in every run.
fn shape(events: &[Event]) -> Vec<String> {
    let mut shape: Vec<String> =
        events.iter().map(|event| format!("{} {}", event.path, event.name())).collect();
    // Concurrent steps end in any order.
    shape.sort();
    shape
}

fn with(executor: impl StepExecutor + 'static) -> RuntimeBuilder {
    Runtime::builder().executor(executor)
}

#[tokio::test]
async fn every_form_does_the_same() {
    let here =
        Runtime::builder().build().start(elsewhere_forms::workflow(), vec![1, 2, 3]).await.unwrap();
    let far = with(Elsewhere::on_thread(Runtime::builder().build())).build();
    let there = far.start(elsewhere_forms::workflow(), vec![1, 2, 3]).await.unwrap();
    let (mut events_here, mut events_there) = (here.events(), there.events());
    let (here, there) = (here.result().await.unwrap(), there.result().await.unwrap());
    assert_eq!(here, there);
    assert_eq!(shape(&all(&mut events_here).await), shape(&all(&mut events_there).await));
}

async fn all(events: &mut agentflow::run::Events) -> Vec<Event> {
    use futures_util::StreamExt;
    let mut seen = Vec::new();
    while let Some(event) = within("the next event", events.next()).await {
        if event.is_recorded() {
            seen.push(event);
        }
    }
    check_events(&seen).unwrap();
    seen
}

#[workflow]
async fn elsewhere_terms(cx: &Context) -> Result<Vec<String>> {
    let said = terms_of(cx).await?;
    Ok(said)
}

async fn terms_of(cx: &Context) -> Result<Vec<String>> {
    let tags = cx.tags().iter().map(|(key, value)| format!("{key}={value}"));
    Ok([
        cx.caller().map_or("nobody", agentflow::Caller::name).to_owned(),
        cx.idempotency_key(),
        cx.path().to_string(),
    ]
    .into_iter()
    .chain(tags)
    .collect())
}

#[tokio::test]
async fn a_step_knows_its_run() {
    let far =
        with(Elsewhere::on_thread(Runtime::builder().build())).store(MemoryStore::new()).build();
    let run = far
        .start(elsewhere_terms::workflow(), ())
        .run_id(RunId::new("r"))
        .caller("ada")
        .tag("tenant", "acme");
    let said = run.await.unwrap().result().await.unwrap();
    assert_eq!(said, ["ada", "r/said", "said", "tenant=acme"]);
}

#[workflow]
async fn elsewhere_paid(cx: &Context, cents: u32) -> Result<u32> {
    let half = elsewhere_twice(cents).await;
    let paid = paid_in_parts(cx, half).await?;
    Ok(paid)
}

async fn paid_in_parts(cx: &Context, cents: u32) -> Result<u32> {
    let first = elsewhere_pay(cx, cx.inject()?, cents).await;
    Ok(first + 1)
}

async fn until_asked(runtime: &Runtime, run: &RunId, node: &str) {
    let mut events = runtime.run(run).events(0).await.unwrap();
    use futures_util::StreamExt;
    while let Some(event) = within("the next event", events.next()).await {
        if matches!(event.kind, EventKind::ApprovalRequested(_)) && event.path.to_string() == node {
            return;
        }
    }
    panic!("`{node}` was never asked");
}

#[tokio::test]
async fn a_person_is_asked_within_a_step() {
    let effects = EffectLog::new();
    let worker = Runtime::builder().resource(effects.clone()).build();
    let store = MemoryStore::new();
    let far = with(Elsewhere::on_thread(worker)).store(store.clone()).build();
    let run = far.start(elsewhere_paid::workflow(), 50).await.unwrap();
    let question = "paid/tool#1.elsewhere_pay";
    until_asked(&far, run.run_id(), question).await;
    assert_eq!(effects.counts().len(), 0, "nothing is paid before the answer");
    assert_eq!(far.run(run.run_id()).record().await.unwrap().status, RunStatus::Paused);
    // The worker refuses an answer of the wrong type, and accepts a valid answer once.
    let wrong = far.run(run.run_id()).answer(question, &1, "ada").await.unwrap_err();
    assert_eq!(wrong.kind(), "wrong_answer", "{wrong}");
    far.run(run.run_id()).approve(question, Approval::granted(), "ada").await.unwrap();
    let id = run.run_id().clone();
    assert_eq!(run.result().await.unwrap(), 101);
    assert_eq!(effects.count(question), 1);
    let late = far.run(&id).approve(question, Approval::granted(), "bob").await.unwrap_err();
    assert_eq!(late.kind(), "wrong_state", "{late}");
    check_events(&far.run(&id).journal().await.unwrap()).unwrap();
}

#[workflow]
async fn elsewhere_outer(n: u32) -> Result<u32> {
    let inner = elsewhere_inner(n).await?;
    let all = elsewhere_next(inner);
    Ok(all)
}

#[tokio::test]
async fn a_workflow_within_a_step_is_paused_answered_and_cancelled() {
    let executor = || Elsewhere::on_thread(Runtime::builder().build());
    let far = with(executor()).store(MemoryStore::new()).build();
    let run = far.start(elsewhere_outer::workflow(), 4).await.unwrap();
    until_asked(&far, run.run_id(), "inner/approval").await;
    run.pause().await.unwrap();
    far.run(run.run_id()).approve("inner/approval", Approval::granted(), "ada").await.unwrap();
    let begun = |events: Vec<Event>| {
        events.iter().any(|event| {
            event.path.to_string() == "inner/all" && event.name() == "workflow.node.started"
        })
    };
    assert!(
        !begun(far.run(run.run_id()).journal().await.unwrap()),
        "nothing begins in a paused run"
    );
    run.unpause().await.unwrap();
    let id = run.run_id().clone();
    assert_eq!(run.result().await.unwrap(), 11);
    check_events(&far.run(&id).journal().await.unwrap()).unwrap();

    let run = far.start(elsewhere_outer::workflow(), 4).await.unwrap();
    until_asked(&far, run.run_id(), "inner/approval").await;
    far.run(run.run_id()).cancel("enough").await.unwrap();
    let id = run.run_id().clone();
    assert_eq!(run.result().await.unwrap_err().kind(), FailureKind::Cancelled);
    check_events(&far.run(&id).journal().await.unwrap()).unwrap();
}

#[tokio::test]
async fn a_run_that_waits_within_a_step_is_left_and_resumed() {
    let store = MemoryStore::new();
    let first = with(Elsewhere::on_thread(Runtime::builder().build())).store(store.clone()).build();
    let run = first.start(elsewhere_outer::workflow(), 4).await.unwrap();
    let id = run.run_id().clone();
    until_asked(&first, &id, "inner/approval").await;
    let drained = first.drain(Duration::from_secs(600)).await;
    assert_eq!(drained.left, std::slice::from_ref(&id), "it does not wait for the deadline");
    drop(run);
    let second = with(Elsewhere::on_thread(Runtime::builder().build()))
        .store(store.as_another_process())
        .build();
    second.run(&id).approve("inner/approval", Approval::granted(), "ada").await.unwrap();
    let run = second.run(&id).resume().await.unwrap();
    assert_eq!(run.result().await.unwrap().decode::<u32>().unwrap(), 11);
    check_events(&second.run(&id).journal().await.unwrap()).unwrap();
}

#[workflow]
async fn elsewhere_asked(cx: &Context, thing: String) -> Result<String> {
    let said = elsewhere_clerk(cx, thing).await?;
    Ok(said)
}

#[tokio::test]
async fn an_agent_within_a_step_has_the_models_of_the_worker() {
    let effects = EffectLog::new();
    let model = ScriptedModel::new([
        Turn::call("elsewhere_send", json!({"to": "ada"})),
        Turn::text("nothing"),
    ]);
    let worker = Runtime::builder().model(model).resource(effects.clone()).build();
    let far = with(Elsewhere::on_thread(worker)).store(MemoryStore::new()).build();
    let run = far.start(elsewhere_asked::workflow(), "kettle".to_owned()).await.unwrap();
    let mut events = run.events();
    let id = run.run_id().clone();
    assert_eq!(run.result().await.unwrap(), "nothing");
    let mut text = String::new();
    use futures_util::StreamExt;
    while let Some(event) = within("the next event", events.next()).await {
        if let EventKind::ModelDelta(agentflow::event::ModelDelta::Text(more)) = &event.kind {
            text.push_str(more);
        }
    }
    assert_eq!(text, "nothing", "deltas come along");
    assert_eq!(effects.count("said/tool#1.elsewhere_send"), 1);
    let journal = far.run(&id).journal().await.unwrap();
    check_events(&journal).unwrap();
    assert_eq!(journal.iter().filter(|event| event.name() == "model.completed").count(), 2);
}

#[tokio::test]
async fn limits_of_model_calls_count_what_the_run_spent_before() {
    let model = ScriptedModel::from_fn(|_| Turn::text("fine"));
    let worker = Runtime::builder().model(model).resource(EffectLog::new()).build();
    let far = with(Elsewhere::on_thread(worker)).build();
    let run = far.start(elsewhere_thrice::workflow(), "kettle".to_owned()).max_llm_calls(2);
    let error = run.await.unwrap().result().await.unwrap_err();
    assert_eq!(error.kind(), FailureKind::LlmCallLimit, "{error}");
    assert!(error.to_string().starts_with("the step `third` failed"), "{error}");
}

#[workflow]
async fn elsewhere_thrice(cx: &Context, thing: String) -> Result<String> {
    let first = elsewhere_clerk(cx, thing).await?;
    let second = elsewhere_clerk(cx, first).await?;
    let third = elsewhere_clerk(cx, second).await?;
    Ok(third)
}

#[workflow]
async fn elsewhere_fails(n: u32) -> Result<u32, Boxed> {
    let got = failing(n).await?;
    Ok(got)
}

#[workflow]
async fn elsewhere_panics(n: u32) -> Result<u32> {
    let got = panicking(n).await?;
    Ok(got)
}

async fn panicking(n: u32) -> Result<u32> {
    assert!(n > 7, "{n} is too little");
    Ok(n)
}

#[tokio::test]
async fn failures_are_the_same() {
    let far = with(Elsewhere::on_thread(Runtime::builder().build())).build();
    let here = Runtime::builder().build();
    let failed = |runtime: Runtime| async move {
        let one = runtime
            .start(elsewhere_fails::workflow(), 0)
            .await
            .unwrap()
            .result()
            .await
            .unwrap_err();
        let two = runtime
            .start(elsewhere_panics::workflow(), 0)
            .await
            .unwrap()
            .result()
            .await
            .unwrap_err();
        [one, two].map(|error| (error.kind(), error.to_string()))
    };
    let (here, there) = (failed(here).await, failed(far).await);
    assert_eq!(here, there);
    assert_eq!(here[1].0, FailureKind::Panicked);
}

static RUNNING: AtomicU32 = AtomicU32::new(0);

/// Counts the running bodies.
struct Running;

impl Running {
    fn begin() -> Self {
        RUNNING.fetch_add(1, Ordering::SeqCst);
        Self
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        RUNNING.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn for_ever(begun: Arc<tokio::sync::Notify>) -> Result<u32, String> {
    let _running = Running::begin();
    begun.notify_one();
    std::future::pending().await
}

#[tokio::test(start_paused = true)]
async fn time_limits_and_cancellation_reach_the_worker() {
    let begun = Arc::new(tokio::sync::Notify::new());
    let (for_flow, limit) = (Arc::clone(&begun), Duration::from_secs(60));
    let flow = agentflow::Workflow::<(), u32>::build("elsewhere_long", [], |b, ()| {
        b.node(agentflow::workflow::Node::new("long").timeout(limit), (), move |_, ()| {
            for_ever(Arc::clone(&for_flow))
        })
    })
    .unwrap();
    let worker = Runtime::builder().workflow(&flow).build();
    let far = with(Elsewhere::on_task(worker)).store(MemoryStore::new()).build();
    let run = far.start(flow.clone(), ()).await.unwrap();
    let error = run.result().await.unwrap_err();
    assert_eq!(error.kind(), FailureKind::Timeout, "{error}");
    within("`begun`", begun.notified()).await;
    until_idle().await;

    let run = far.start(flow.clone(), ()).await.unwrap();
    within("`begun`", begun.notified()).await;
    assert_eq!(RUNNING.load(Ordering::SeqCst), 1);
    let id = run.run_id().clone();
    run.cancel("enough").await.unwrap();
    assert_eq!(run.result().await.unwrap_err().kind(), FailureKind::Cancelled);
    until_idle().await;
    check_events(&far.run(&id).journal().await.unwrap()).unwrap();

    // The time limit of the run.
    let run = far.start(flow.clone(), ()).timeout(Duration::from_secs(1)).await.unwrap();
    assert!(matches!(run.result().await, Err(Error::Timeout { .. })));
    until_idle().await;
}

async fn until_idle() {
    within("all steps to end", async {
        while RUNNING.load(Ordering::SeqCst) > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

struct Stock(String);

async fn stock_of(cx: &Context) -> Result<String> {
    Ok(cx.inject::<Stock>()?.0.clone())
}

/// Where the goods are.
#[tool(effects = "none")]
async fn elsewhere_stock(stock: Inject<Stock>) -> String {
    stock.0.clone()
}

#[workflow]
async fn elsewhere_resource(cx: &Context) -> Result<String> {
    let hidden = stock_of(cx).await?;
    let seen = elsewhere_stock(cx.inject()?).await;
    Ok(format!("{hidden} and {seen}"))
}

#[tokio::test]
async fn resources_are_those_of_the_worker() {
    let worker = Runtime::builder()
        .run_resource(|began| match began.tags().get("tenant") {
            Some(tenant) => Ok(Stock(format!("the stock of {tenant}"))),
            None => Err("it has no tag `tenant`"),
        })
        .build();
    let far = with(Elsewhere::on_thread(worker)).build();
    let run = far.start(elsewhere_resource::workflow(), ()).tag("tenant", "acme").await.unwrap();
    assert_eq!(run.result().await.unwrap(), "the stock of acme and the stock of acme");
    // The worker's factory fails without the tag.
    let error =
        far.start(elsewhere_resource::workflow(), ()).await.unwrap().result().await.unwrap_err();
    assert_eq!(error.kind(), FailureKind::MissingResource, "{error}");
    assert!(error.to_string().contains("it has no tag `tenant`"), "{error}");
    // A value of this process cannot be sent to the worker.
    let error = far
        .start(elsewhere_resource::workflow(), ())
        .resource(Stock("here".into()))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::RunResource { .. }), "{error}");
    assert!(
        error.to_string().contains("Stock") && error.to_string().contains("run_resource"),
        "{error}"
    );
    // The worker has no factory for the resource.
    let far = with(Elsewhere::on_thread(Runtime::builder().build())).build();
    let error =
        far.start(elsewhere_resource::workflow(), ()).await.unwrap().result().await.unwrap_err();
    assert_eq!(error.kind(), FailureKind::MissingResource, "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_every_write() {
    let effects = EffectLog::new();
    let noted = effects.clone();
    let part = agentflow::Workflow::<(u32,), u32>::build("elsewhere_part", ["n"], {
        let effects = effects.clone();
        move |b, (n,)| {
            let (one, two) = (effects.clone(), effects.clone());
            let x = b.node("x", (n,), move |cx, (n,)| noted_step(one.clone(), cx, n));
            let approval: agentflow::workflow::Handle<Approval> =
                b.gate("ok", (x,), |(n,)| Ok::<_, String>(("continue?".to_owned(), n)));
            let once = agentflow::workflow::Node::new("pay").repeatable(false);
            let pay = b.node(once, (x, approval), move |cx, (n, _)| noted_step(two.clone(), cx, n));
            b.value("sum", (x, pay), |(x, y)| Ok::<_, String>(x + y))
        }
    })
    .unwrap();
    let flow = agentflow::Workflow::<(u32,), (u32, Vec<u32>)>::build(
        "elsewhere_crash",
        ["n"],
        move |b, (n,)| {
            let (one, two) = (noted.clone(), noted.clone());
            let first = b.node("first", (n,), move |cx, (n,)| noted_step(one.clone(), cx, n));
            let nested = b.node("nested", (first,), move |cx, (n,)| {
                let part = part.clone();
                async move { part.run_in(&cx, n).await }
            });
            let items = b.value("items", (n,), |(n,): (u32,)| Ok::<_, String>(vec![n, n + 1]));
            let policy = agentflow::workflow::NodePolicy::default().repeatable(false);
            let each = b.map(
                agentflow::workflow::Node::new("each").policy(policy),
                items,
                (),
                move |cx, n: u32, ()| noted_step(two.clone(), cx, n),
            );
            b.value("both", (nested, each), Ok::<_, String>)
        },
    )
    .unwrap();
    let far = flow.clone();
    let report = CrashTest::new(&flow, || 1)
        .effects(&effects)
        .runtime(move |runtime| {
            runtime.executor(Elsewhere::on_task(Runtime::builder().workflow(&far).build()))
        })
        .answer("nested/ok", Approval::granted())
        .run()
        .await;
    assert!(report.step("nested/x").unwrap().interrupted() == 0, "{report}");
    assert!(report.step("nested/pay").unwrap().interrupted() > 0, "{report}");
    assert!(report.step("each[1]").unwrap().interrupted() > 0, "{report}");
}

async fn noted_step(effects: EffectLog, cx: Context, n: u32) -> Result<u32, String> {
    effects.note(&cx);
    tokio::time::sleep(Duration::from_millis(5)).await;
    Ok(n + 1)
}

#[tokio::test(start_paused = true)]
async fn an_agent_and_calls_of_tools_crash_at_every_write() {
    let effects = EffectLog::new();
    let noted = effects.clone();
    let report = CrashTest::new(&elsewhere_office::workflow(), || "kettle".to_owned())
        .effects(&effects)
        .runtime(move |runtime| {
            let worker = office_worker(&noted);
            runtime.executor(Elsewhere::on_task(worker))
        })
        .answer("both/tool#1.elsewhere_pay", Approval::granted())
        .run()
        .await;
    let sent = report.step("said/tool#1.elsewhere_send").unwrap();
    assert_eq!(sent.began(), 1, "{report}");
    assert!(sent.interrupted() > 0, "{report}");
    assert_eq!(effects.count("both/tool#1.elsewhere_pay"), 1);
}

/// Returns the worker for the office workflow.
pub(crate) fn office_worker(effects: &EffectLog) -> Runtime {
    let model = ScriptedModel::from_fn(|request| {
        match request.messages.messages().iter().flat_map(|message| message.results()).count() {
            0 => Turn::call("elsewhere_send", json!({"to": "ada"})),
            _ => Turn::text("done"),
        }
    });
    Runtime::builder().model(model).resource(effects.clone()).build()
}

#[workflow]
async fn elsewhere_office(cx: &Context, thing: String) -> Result<String> {
    let said = elsewhere_clerk(cx, thing).await?;
    let both = pays_and_sends(cx, &said).await?;
    Ok(both)
}

async fn pays_and_sends(cx: &Context, to: &str) -> Result<String> {
    let paid = elsewhere_pay(cx, cx.inject()?, 5).await;
    let sent = elsewhere_send(cx, cx.inject()?, to.to_owned()).await;
    Ok(format!("{paid} {sent}"))
}

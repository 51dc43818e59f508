//! Tests tools whose body calls another tool that needs an approval or a scope. The outer tool is
//! called by a model or by name.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentflow::agent::RunRequest;
use agentflow::event::EventKind;
use agentflow::message::{ToolCall, ToolStatus};
use agentflow::prelude::*;
use agentflow::runtime::{RuntimeBuilder, UndoStatus};
use agentflow::serde_json::json;
use agentflow::store::{RunFilter, Store};
use agentflow::tool::{FnTool, ToolError};
use agentflow::{Event, RunId};
use agentflow_testing::{ScriptedModel, Turn, check_events, test_runtime, within};
use agentflow_tests::ProcessStore;

/// The payments that were made.
#[derive(Clone, Default)]
struct Payments(Arc<Mutex<Vec<String>>>);

impl Payments {
    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

/// Pays a person.
#[tool(approve)]
async fn inner_pay(cx: &Context, who: String, cents: u32) -> String {
    note(cx, who, cents)
}

/// Pays a person at once.
#[tool(approve)]
fn inner_pay_now(cx: &Context, who: String, cents: u32) -> String {
    note(cx, who, cents)
}

/// Pays a person from the till.
#[tool(scopes("till"))]
async fn inner_till(cx: &Context, who: String, cents: u32) -> String {
    note(cx, who, cents)
}

fn note(cx: &Context, who: String, cents: u32) -> String {
    let line = format!("{cents} to {who}");
    cx.inject::<Payments>().unwrap().0.lock().unwrap().push(line.clone());
    line
}

/// Settles a bill.
#[tool(idempotent)]
async fn outer_settle(cx: &Context, who: String) -> String {
    format!("settled: {}", inner_pay(cx, who, 500).await)
}

/// Settles a bill once.
#[tool]
async fn outer_once(cx: &Context, who: String) -> String {
    inner_pay(cx, who, 500).await
}

/// Settles a bill through a helper, and tries twice.
#[tool(idempotent, retry = 1)]
async fn outer_retried(cx: &Context, who: String) -> Result<String, ToolError> {
    let paid = helper(cx, &who).await;
    match cx.attempt() {
        1 if who == "eve" => Err(ToolError::new("the line is busy")),
        _ => Ok(paid),
    }
}

async fn helper(cx: &Context, who: &str) -> String {
    inner_pay(cx, who.to_owned(), 7).await
}

/// Settles a bill at once.
#[tool(idempotent)]
async fn outer_now(cx: &Context, who: String) -> String {
    inner_pay_now(cx, who, 500)
}

/// Settles a bill on a thread for blocking work.
#[tool(idempotent, blocking)]
fn outer_blocking(cx: &Context, who: String) -> String {
    inner_pay_now(cx, who, 500)
}

/// Settles a bill from the till.
#[tool(idempotent)]
async fn outer_till(cx: &Context, who: String) -> String {
    inner_till(cx, who, 500).await
}

/// Settles two bills at once, within a second.
#[tool(idempotent, timeout = "1s")]
async fn outer_two(cx: &Context, who: String) -> String {
    let (one, other) = tokio::join!(inner_pay(cx, who.clone(), 1), outer_within(cx, who));
    format!("{one}, {other}")
}

/// A tool without an approval between the two.
#[tool(idempotent)]
async fn outer_within(cx: &Context, who: String) -> String {
    inner_pay(cx, who, 2).await
}

/// Settle all bills.
#[agent(tools = [outer_settle, outer_once, outer_two, outer_retried, outer_now, outer_blocking, outer_till])]
async fn outer_clerk(cx: &Context, what: String) -> Result<String>;

fn id() -> RunId {
    RunId::new("run-1")
}

fn runtime(store: impl Store, model: &ScriptedModel, payments: &Payments) -> RuntimeBuilder {
    test_runtime().store(store).model(model.clone()).resource(payments.clone())
}

fn begin(runtime: &Runtime) -> agentflow::RunHandle<agentflow::run::RunResult<String>> {
    outer_clerk::agent("settle".into())
        .runtime(runtime)
        .start(RunRequest::default().run_id(id()))
        .unwrap()
}

async fn journal(store: &impl Store) -> Vec<Event> {
    store.read(&id(), 0, usize::MAX).await.unwrap()
}

async fn pass() {
    tokio::time::sleep(Duration::from_secs(1)).await;
}

fn settle(tool: &'static str) -> Turn {
    Turn::call(tool, json!({"who": "ada"}))
}

#[tokio::test(start_paused = true)]
async fn the_call_asks_with_its_own_arguments_and_takes_changed_ones() {
    let (store, payments) = (ProcessStore::new(), Payments::default());
    let model = ScriptedModel::new([
        settle("outer_settle"),
        Turn::text("done").expect_text("settled: 3 to ada"),
    ]);
    let here = runtime(store.clone(), &model, &payments).build();
    let run = begin(&here);
    pass().await;
    assert!(payments.all().is_empty());
    let asked = here.runs().questions(RunFilter::new()).await.unwrap();
    let asked: Vec<_> =
        asked.iter().map(|one| (one.path.to_string(), one.message.to_string())).collect();
    let question = r#"call `inner_pay(cents: 500, who: "ada")`?"#;
    assert_eq!(asked, [("tool#1.outer_settle/tool#1.inner_pay".to_owned(), question.to_owned())]);
    let less = Approval::granted_with(json!({"who": "ada", "cents": 3}));
    here.run(&id()).approve(&asked[0].0, less, "bob").await.unwrap();
    assert_eq!(within("the run", run.result()).await.unwrap().output(), "done");
    assert_eq!(payments.all(), ["3 to ada"]);
    check_events(&journal(&store).await).unwrap();
    model.finish();
}

#[tokio::test(start_paused = true)]
async fn a_denial_is_the_answer_of_the_outer_tool() {
    for tool in ["outer_settle", "outer_once"] {
        let (store, payments) = (ProcessStore::new(), Payments::default());
        let model = ScriptedModel::new([
            settle(tool),
            Turn::text("kept").expect_text("denied: not on a Friday"),
        ]);
        let here = runtime(store.clone(), &model, &payments).build();
        let run = begin(&here);
        pass().await;
        let path = format!("tool#1.{tool}/tool#1.inner_pay");
        here.run(&id()).approve(&path, Approval::denied("not on a Friday"), "bob").await.unwrap();
        assert_eq!(within("the run", run.result()).await.unwrap().output(), "kept");
        assert!(payments.all().is_empty());
        let events = journal(&store).await;
        check_events(&events).unwrap();
        let ended = events.iter().find_map(|event| match &event.kind {
            EventKind::ToolFailed { result, .. } => Some(result.status),
            _ => None,
        });
        assert_eq!(ended, Some(ToolStatus::Unauthorized));
    }
}

#[tokio::test(start_paused = true)]
async fn two_calls_of_a_turn_have_a_question_each() {
    let (store, payments) = (ProcessStore::new(), Payments::default());
    let turn = Turn::calls([
        ("outer_settle", json!({"who": "ada"})),
        ("outer_retried", json!({"who": "bob"})),
    ]);
    let model = ScriptedModel::new([turn, Turn::text("done")]);
    let here = runtime(store.clone(), &model, &payments).build();
    let run = begin(&here);
    pass().await;
    here.run(&id())
        .approve("tool#1.outer_retried/tool#1.inner_pay", Approval::granted(), "bob")
        .await
        .unwrap();
    pass().await;
    assert_eq!(payments.all(), ["7 to bob"]);
    here.run(&id())
        .approve("tool#1.outer_settle/tool#1.inner_pay", Approval::denied("no"), "bob")
        .await
        .unwrap();
    assert_eq!(within("the run", run.result()).await.unwrap().output(), "done");
    assert_eq!(payments.all(), ["7 to bob"]);
    check_events(&journal(&store).await).unwrap();
}

#[tokio::test(start_paused = true)]
async fn each_call_of_a_body_asks_and_the_time_of_the_tool_is_not_counted() {
    let (store, payments) = (ProcessStore::new(), Payments::default());
    let model = ScriptedModel::new([
        settle("outer_two"),
        Turn::text("done").expect_text("1 to ada, 2 to ada"),
    ]);
    let here = runtime(store.clone(), &model, &payments).build();
    let run = begin(&here);
    for (number, paid) in [("tool#2.inner_pay", "2 to ada"), ("tool#1.inner_pay", "1 to ada")] {
        tokio::time::sleep(Duration::from_secs(60)).await;
        let path = format!("tool#1.outer_two/{number}");
        here.run(&id()).approve(&path, Approval::granted(), "bob").await.unwrap();
        pass().await;
        assert_eq!(payments.all().last().unwrap(), paid);
    }
    assert_eq!(within("the run", run.result()).await.unwrap().output(), "done");
    check_events(&journal(&store).await).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_second_attempt_of_the_outer_tool_does_not_pay_again() {
    let (store, payments) = (ProcessStore::new(), Payments::default());
    let turn = Turn::call("outer_retried", json!({"who": "eve"}));
    let model = ScriptedModel::new([turn, Turn::text("done").expect_text("7 to eve")]);
    let here = runtime(store.clone(), &model, &payments).build();
    let run = begin(&here);
    pass().await;
    for question in here.runs().questions(RunFilter::new()).await.unwrap() {
        here.run(&id()).approve(&question.path, Approval::granted(), "bob").await.unwrap();
    }
    let ended = within("the run", run.result()).await;
    assert_eq!(ended.unwrap().output(), "done");
    assert_eq!(payments.all(), ["7 to eve"]);
    check_events(&journal(&store).await).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_question_survives_its_process() {
    for (tool, answered_between) in
        [("outer_settle", false), ("outer_settle", true), ("outer_once", false)]
    {
        let (store, payments) = (ProcessStore::new(), Payments::default());
        let expected = if tool == "outer_once" { "whether" } else { "500 to ada" };
        let model = ScriptedModel::new([settle(tool), Turn::text("done").expect_text(expected)]);
        let first = runtime(store.clone(), &model, &payments).build();
        let begun = begin(&first);
        pass().await;
        begun.abandon();
        pass().await;
        let path = format!("tool#1.{tool}/tool#1.inner_pay");
        let second = runtime(store.process(2), &model, &payments).build();
        if answered_between {
            second.run(&id()).approve(&path, Approval::granted(), "bob").await.unwrap();
        }
        let run = second.run(&id()).resume().await.unwrap();
        pass().await;
        if tool == "outer_settle" && !answered_between {
            assert!(payments.all().is_empty());
            second.run(&id()).approve(&path, Approval::granted(), "bob").await.unwrap();
        }
        within("the run", run.result()).await.unwrap();
        // A call without idempotency must not be repeated. The model learns that the outcome is
        // unknown.
        assert_eq!(payments.all().len(), usize::from(tool == "outer_settle"), "{tool}");
        assert!(second.runs().questions(RunFilter::new()).await.unwrap().is_empty(), "{tool}");
        let events = journal(&store).await;
        let asked = events
            .iter()
            .filter(|event| matches!(event.kind, EventKind::ApprovalRequested(_)))
            .count();
        assert_eq!(asked, 1, "{tool}");
        check_events(&events).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_cannot_wait_is_refused() {
    for tool in ["outer_now", "outer_blocking"] {
        let (store, payments) = (ProcessStore::new(), Payments::default());
        let model =
            ScriptedModel::new([settle(tool), Turn::text("done").expect_text("make it `async`")]);
        let here = runtime(store.clone(), &model, &payments).build();
        within("the run", begin(&here).result()).await.unwrap();
        assert!(payments.all().is_empty());
        check_events(&journal(&store).await).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_without_a_store_makes_no_such_call() {
    let payments = Payments::default();
    let refusal = "`inner_pay` needs a person's approval, and";
    let model =
        ScriptedModel::new([settle("outer_settle"), Turn::text("kept").expect_text(refusal)]);
    let here = test_runtime().model(model.clone()).resource(payments.clone()).build();
    let agent = outer_clerk::agent("settle".into()).runtime(&here);
    assert_eq!(within("the run", agent.run(RunRequest::default())).await.unwrap().output(), "kept");
    assert!(payments.all().is_empty());
}

#[tokio::test(start_paused = true)]
async fn grants_of_the_run_make_the_call_a_plain_one() {
    for (tool, grant, needed) in [
        ("outer_settle", "approve:inner_pay", None),
        ("outer_till", "till", Some("`inner_till` needs the scope `till`")),
    ] {
        for granted in [true, false] {
            let (store, payments) = (ProcessStore::new(), Payments::default());
            let expected = if granted { "500 to ada" } else { needed.unwrap_or_default() };
            let asks = !granted && needed.is_none();
            let turns = [settle(tool), Turn::text("done").expect_text(expected)];
            let model = ScriptedModel::new(turns.into_iter().take(if asks { 1 } else { 2 }));
            let here = runtime(store.clone(), &model, &payments).build();
            let request = RunRequest::default().run_id(id());
            let request = if granted { request.grant([grant]) } else { request };
            let run = outer_clerk::agent("settle".into()).runtime(&here).start(request).unwrap();
            if asks {
                pass().await;
                run.cancel("enough").await.unwrap();
                assert!(within("the run", run.result()).await.is_err());
            } else {
                within("the run", run.result()).await.unwrap();
            }
            assert_eq!(payments.all().len(), usize::from(granted), "{tool}");
            let events = journal(&store).await;
            let calls = events
                .iter()
                .filter(|event| matches!(event.kind, EventKind::ToolStarted { .. }))
                .count();
            // A refused call is recorded below the outer one.
            let refused = usize::from(!granted && !asks);
            assert_eq!(calls, 1 + refused, "{tool}");
            check_events(&events).unwrap();
        }
    }
}

/// A tool can also be a closure.
#[tokio::test(start_paused = true)]
async fn a_closure_of_a_tool_asks() {
    let (store, payments) = (ProcessStore::new(), Payments::default());
    let closure =
        FnTool::new("outer_closure", "Settles a bill.", |cx: Context, (): ()| async move {
            Ok::<_, ToolError>(inner_pay(&cx, "ada".to_owned(), 9).await)
        });
    let model = ScriptedModel::new([
        Turn::call("outer_closure", json!({})),
        Turn::text("done").expect_text("9 to ada"),
    ]);
    let here = runtime(store.clone(), &model, &payments).build();
    let agent = Agent::new(model.clone()).name("closure_clerk").tools(closure).runtime(&here);
    let run = agent.start(RunRequest::new("settle").run_id(id())).unwrap();
    pass().await;
    assert!(payments.all().is_empty());
    here.run(&id())
        .approve("tool#1.outer_closure/tool#1.inner_pay", Approval::granted(), "bob")
        .await
        .unwrap();
    within("the run", run.result()).await.unwrap();
    assert_eq!(payments.all(), ["9 to ada"]);
}

/// Calls outside of a run cannot ask a person.
#[tokio::test(start_paused = true)]
async fn a_call_of_the_catalogue_needs_the_grant() {
    let payments = Payments::default();
    let here = test_runtime().resource(payments.clone()).build();
    for (tool, grant) in [
        ("outer_settle", "approve:inner_pay"),
        ("outer_till", "till"),
        ("outer_now", "approve:inner_pay_now"),
    ] {
        let call = ToolCall::new("1", tool, r#"{"who": "ada"}"#);
        let refused = here.invoke(&call, &[]).await.unwrap();
        assert_ne!(refused.status, ToolStatus::Success, "{tool}: {}", refused.output);
        assert!(payments.all().is_empty(), "{tool}");
        let made = here.invoke(&call, &[grant.into()]).await.unwrap();
        assert_eq!(made.status, ToolStatus::Success, "{tool}: {}", made.output);
        assert_eq!(payments.0.lock().unwrap().split_off(0), ["500 to ada"], "{tool}");
    }
}

/// Books a table.
#[tool(compensate = outer_unbook)]
async fn outer_book(who: String) -> String {
    format!("a table for {who}")
}

/// Cancels the table for a fee.
#[tool(idempotent)]
async fn outer_unbook(cx: &Context, who: String, output: String) -> bool {
    assert_eq!(output, format!("a table for {who}"));
    !inner_pay(cx, who, 40).await.is_empty()
}

async fn outer_fails(_: String) -> Result<String, String> {
    Err("the kitchen is closed".to_owned())
}

#[workflow]
async fn outer_dinner(who: String) -> Result<String, Box<dyn std::error::Error + Send + Sync>> {
    let table = outer_book(who).await;
    let meal = outer_fails(table).await?;
    Ok(meal)
}

#[tokio::test(start_paused = true)]
async fn a_compensating_tool_asks_about_the_calls_in_its_body() {
    for answer in [Approval::granted(), Approval::denied("keep it")] {
        let granted = answer.is_granted();
        let (store, payments) = (ProcessStore::new(), Payments::default());
        let here = test_runtime().store(store.clone()).resource(payments.clone()).build();
        let run = here
            .start(outer_dinner::workflow(), "ada".to_owned())
            .run_id(id())
            .compensate()
            .await
            .unwrap();
        pass().await;
        assert!(payments.all().is_empty());
        let questions = here.runs().questions(RunFilter::new()).await.unwrap();
        let [question] = &questions[..] else { panic!("{questions:#?}") };
        assert!(question.path.to_string().ends_with("/tool#1.inner_pay"), "{}", question.path);
        here.run(&id()).approve(&question.path, answer, "bob").await.unwrap();
        assert!(within("the run", run.result()).await.is_err());
        assert_eq!(payments.all().len(), usize::from(granted));
        let report = here.run(&id()).inspect().await.unwrap().compensation.unwrap();
        let expected = if granted { UndoStatus::Undone } else { UndoStatus::NotUndone };
        assert_eq!(report.calls.iter().map(|call| call.status).collect::<Vec<_>>(), [expected]);
        check_events(&journal(&store).await).unwrap();
    }
}

//! Tests compensation of failed runs: completed calls are undone in reverse order, each once, for
//! every kind of caller and after crashes.

use std::sync::Arc;
use std::time::Duration;

use agentflow::agent::RunRequest;
use agentflow::error::FailureKind;
use agentflow::event::EventKind;
use agentflow::prelude::*;
use agentflow::store::{MemoryStore, RunFilter, RunStatus};
use agentflow::tool::{FnTool, ToolError, ToolPolicy};
use agentflow_testing::{
    Call, Calls, CrashTest, EffectLog, Mocks, ScriptedModel, Turn, calls_of, check_events,
    happened_before, test_runtime, trace,
};
use serde_json::json;

use crate::deeds::{Boxed, Deeds};

/// Books something.
#[tool(compensate = kit_unbook)]
async fn kit_book(deeds: Inject<Deeds>, what: String) -> Result<u32> {
    deeds.note(format!("book {what}"));
    Ok(u32::try_from(what.len()).unwrap())
}

/// Takes a booking back.
#[tool(idempotent)]
async fn kit_unbook(deeds: Inject<Deeds>, what: String, output: u32) -> Result<(), ToolError> {
    deeds.note(format!("unbook {what} {output}"));
    match what.as_str() {
        "the sea" => Err(ToolError::new("the sea is not given back")),
        _ => Ok(()),
    }
}

/// Takes money.
#[tool(compensate = kit_pay_back)]
async fn kit_pay(cx: &Context, log: Inject<EffectLog>, cents: u32) -> u32 {
    log.note(cx);
    cents
}

/// Gives it back.
#[tool(retry = 2)]
async fn kit_pay_back(cx: &Context, log: Inject<EffectLog>, cents: u32, output: u32) -> bool {
    assert!(!cx.is_cancelled(), "what undoes a cancelled run is not cancelled");
    log.note(cx);
    cents == output
}

async fn kit_fail(_: u32) -> Result<u32, ToolError> {
    Err(ToolError::new("it is over"))
}

/// Book what is asked for.
#[agent(model = "openai/gpt-5-mini", tools = [kit_book])]
async fn kit_booker(what: String) -> Result<String>;

#[workflow(name = "kit-inner-trip")]
async fn kit_inner_trip(cx: &Context, place: String) -> Result<u32> {
    let hotel = kit_book(cx.inject()?, place).await?;
    Ok(hotel)
}

async fn two_at_once(cx: &Context) -> Result<u32> {
    let first = kit_book(cx.inject()?, "a car".to_owned()).await?;
    let second = kit_book(cx.inject()?, "a boat".to_owned()).await?;
    Ok(first + second)
}

#[workflow(name = "kit-trip")]
async fn kit_trip(cx: &Context, place: String) -> Boxed<u32> {
    let flight = kit_book(cx.inject()?, "a flight".to_owned()).await?;
    let both = two_at_once(cx).await?;
    let hotel = kit_inner_trip(cx, place).await?;
    let said = kit_booker(format!("a tent for {hotel}")).await?;
    let over = kit_fail(flight + both).await?;
    Ok(over + u32::try_from(said.len()).unwrap())
}

fn booker() -> ScriptedModel {
    ScriptedModel::from_fn(|request| {
        match request.messages.messages().iter().any(|one| one.results().next().is_some()) {
            false => Turn::call("kit_book", json!({"what": "a tent"})),
            true => Turn::text("booked"),
        }
    })
}

#[tokio::test(start_paused = true)]
async fn what_was_done_is_undone_in_reverse_wherever_it_was_called() {
    let deeds = Deeds::default();
    let runtime =
        test_runtime().resource(deeds.clone()).agent_model("kit_booker", booker()).build();
    let run = runtime.start(kit_trip::workflow(), "a hotel".to_owned()).compensate().await.unwrap();
    let error = run.result().await.unwrap_err();
    assert_eq!(error.to_string(), "the step `over` failed: it is over", "all is undone");
    let did = ["book a flight", "book a car", "book a boat", "book a hotel", "book a tent"];
    let undid = [
        "unbook a tent 6",
        "unbook a hotel 7",
        "unbook a boat 6",
        "unbook a car 5",
        "unbook a flight 8",
    ];
    assert_eq!(deeds.take(), [did, undid].concat());
    let events = run.recorded();
    check_events(&events).unwrap();
    let undone = calls_of(&events, "kit_unbook");
    assert_eq!(undone[1].path.to_string(), "hotel/hotel/tool#1.kit_book/undo#1/tool#1.kit_unbook");
    assert_eq!(undone[1].arguments, json!({"what": "a hotel", "output": 7}));
    assert!(
        happened_before(&events, "run.compensating ..", "run.compensated 5 undone, 0 not"),
        "{:#?}",
        trace(&events)
    );
    // A run without `compensate` undoes no call.
    let deeds = Deeds::default();
    let runtime =
        test_runtime().resource(deeds.clone()).agent_model("kit_booker", booker()).build();
    let run = runtime.start(kit_trip::workflow(), "a hotel".to_owned()).await.unwrap();
    assert!(run.result().await.is_err());
    assert_eq!(deeds.take(), did);
}

#[tokio::test(start_paused = true)]
async fn a_compensation_that_fails_is_named_and_the_others_happen() {
    let deeds = Deeds::default();
    let runtime =
        test_runtime().resource(deeds.clone()).agent_model("kit_booker", booker()).build();
    let run = runtime.start(kit_trip::workflow(), "the sea".to_owned()).compensate().await.unwrap();
    let error = run.result().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the step `over` failed: it is over; these calls are not undone: `hotel/hotel/tool#1.kit_book` (the sea is not given \
         back)"
    );
    assert!(!error.is_retryable());
    assert_eq!(deeds.take().len(), 10);
    let events = run.recorded();
    let left = events.iter().find_map(|event| match &event.kind {
        EventKind::RunCompensated { undone: 4, left, .. } => Some(left.clone()),
        _ => None,
    });
    assert_eq!(left.unwrap()[0].path.to_string(), "hotel/hotel/tool#1.kit_book");
}

#[workflow(name = "kit-pays")]
async fn kit_pays(cx: &Context, cents: u32) -> Boxed<u32> {
    let first = kit_pay(cx, cx.inject()?, cents).await;
    let second = kit_pay(cx, cx.inject()?, first + 1).await;
    let over = kit_fail(second).await?;
    Ok(over)
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_every_write_undoes_each_once() {
    let effects = EffectLog::new();
    let given = effects.clone();
    let report = CrashTest::new(&kit_pays::workflow(), || 5)
        .compensating()
        .fails()
        .may_differ_when_interrupted()
        .runtime(move |runtime| runtime.resource(given.clone()))
        .effects(&effects)
        .twice()
        .run()
        .await;
    assert!(report.step("first/tool#1.kit_pay/undo#1/tool#1.kit_pay_back").is_some());
    // Idempotent calls are compensated after any number of crashes.
    let deeds = Deeds::default();
    let report = CrashTest::new(&kit_trip::workflow(), || "a hotel".to_owned())
        .compensating()
        .fails()
        .may_differ_when_interrupted()
        .runtime(move |runtime| runtime.resource(deeds.clone()).agent_model("kit_booker", booker()))
        .run()
        .await;
    assert!(report.crashes() > 40, "{report}");
}

#[tokio::test(start_paused = true)]
async fn what_was_interrupted_in_the_middle_is_not_undone_silently() {
    #[workflow(name = "kit-slow-pay")]
    async fn kit_slow_pay(cx: &Context, cents: u32) -> Result<u32> {
        let paid = async { Ok::<_, agentflow::Error>(kit_slow(cents).await) }.await?;
        Ok(paid)
    }
    let mocks = Mocks::new()
        .tool("kit_slow", Call::any().returns(1).after(Duration::from_secs(60)))
        .tool("kit_slow_back", Calls::never());
    let run =
        mocks.runtime().build().start(kit_slow_pay::workflow(), 5).compensate().await.unwrap();
    let error = run.result().await.unwrap_err().to_string();
    assert!(
        error.contains(
            "not undone: `paid/tool#1.kit_slow` (it ended as timeout, so whether it had its effect is unknown"
        ),
        "{error}"
    );
    mocks.finish();
}

/// Slow.
#[tool(timeout = "1s", compensate = kit_slow_back)]
async fn kit_slow(cents: u32) -> u32 {
    cents
}

/// Back.
#[tool]
async fn kit_slow_back(cents: u32, output: u32) -> u32 {
    cents + output
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_run_is_undone_here_and_by_whoever_resumes_it() {
    #[workflow(name = "kit-waits")]
    async fn kit_waits(cx: &Context, cents: u32) -> Result<u32> {
        let paid = kit_pay(cx, cx.inject()?, cents).await;
        let more: u32 = gate!("more?", paid).await?;
        Ok(more)
    }
    let effects = EffectLog::new();
    let store = MemoryStore::new();
    let build =
        |store: &MemoryStore| test_runtime().resource(effects.clone()).store(store.clone()).build();
    let runtime = build(&store);
    let run = runtime.start(kit_waits::workflow(), 5).compensate().await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    run.cancel("enough").await.unwrap();
    assert_eq!(run.result().await.unwrap_err().kind(), FailureKind::Cancelled);
    let events = run.recorded();
    check_events(&events).unwrap();
    assert_eq!(calls_of(&events, "kit_pay_back").len(), 1);
    assert!(runtime.run(run.run_id()).inspect().await.unwrap().compensation.is_some());
    let refused = runtime.run(run.run_id()).retry("more", "ada").await.unwrap_err().to_string();
    assert!(refused.contains("cannot be retried"), "{refused}");

    // The run is not executed. The request is stored, and the process that resumes the run
    // compensates and ends it.
    let elsewhere = MemoryStore::new();
    let first = build(&elsewhere);
    let run = first.start(kit_waits::workflow(), 5).compensate().await.unwrap();
    let id = run.run_id().clone();
    tokio::time::sleep(Duration::from_secs(1)).await;
    first.drain(Duration::ZERO).await;
    drop((run, first));
    let second = build(&elsewhere);
    second.run(&id).cancel("enough").await.unwrap();
    let ended = second.run(&id).attach().await.unwrap().result().await.unwrap_err();
    assert_eq!(ended.kind(), FailureKind::Cancelled);
    let events = second.run(&id).journal().await.unwrap();
    check_events(&events).unwrap();
    assert_eq!(calls_of(&events, "kit_pay_back").len(), 1);
    let runs = second.runs().list(RunFilter::new()).await.unwrap();
    assert_eq!(runs[0].status, RunStatus::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn a_failed_run_that_was_undone_is_not_retried() {
    let effects = EffectLog::new();
    let runtime = test_runtime().resource(effects.clone()).store(MemoryStore::new()).build();
    let run = runtime.start(kit_pays::workflow(), 5).compensate().await.unwrap();
    assert!(run.result().await.is_err());
    let refused = runtime.run(run.run_id()).retry("over", "ada").await.unwrap_err().to_string();
    assert!(
        refused.contains(
            "the node `over` cannot be retried: a run that undoes what it had done does not run again; start a new run"
        ),
        "{refused}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_run_of_an_agent_is_undone_too() {
    let deeds = Deeds::default();
    let model = ScriptedModel::new([
        Turn::calls([("kit_book", json!({"what": "a"})), ("kit_book", json!({"what": "bc"}))]),
        Turn::fails(agentflow::model::ModelErrorKind::BadRequest),
    ]);
    let runtime = test_runtime().resource(deeds.clone()).build();
    let agent = Agent::new(model.clone()).tools(tools![kit_book]).runtime(&runtime);
    let run = agent.start(RunRequest::new("Book.").compensate()).unwrap();
    assert!(run.result().await.is_err());
    assert_eq!(deeds.take(), ["book a", "book bc", "unbook bc 2", "unbook a 1"]);
    check_events(&run.recorded()).unwrap();
    model.finish();
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_is_data_names_its_compensation() {
    let deeds = Deeds::default();
    let (does, undoes) = (deeds.clone(), deeds.clone());
    let name = FnTool::new("kit-name", "Names it.", move |_: Context, given: KitName| {
        does.note(format!("name {}", given.it));
        async move { Ok::<_, String>(given.it.len()) }
    })
    .policy(ToolPolicy::default().compensate("kit-unname"));
    let unname =
        FnTool::new("kit-unname", "Takes the name away.", move |_: Context, given: KitUnname| {
            undoes.note(format!("unname {} {}", given.it, given.output));
            async move { Ok::<_, String>(()) }
        });
    let model = ScriptedModel::new([
        Turn::call("kit-name", json!({"it": "Rex"})),
        Turn::fails(agentflow::model::ModelErrorKind::BadRequest),
    ]);
    let runtime = test_runtime().tools(unname).build();
    let agent = Agent::new(model.clone()).tools(name).runtime(&runtime);
    assert!(agent.run(RunRequest::new("Name it.").compensate()).await.is_err());
    assert_eq!(deeds.take(), ["name Rex", "unname Rex 3"]);
    model.finish();
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct KitName {
    it: String,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct KitUnname {
    it: String,
    output: usize,
}

#[tokio::test(start_paused = true)]
async fn a_crash_of_an_agent_undoes_each_once() {
    let deeds = Deeds::default();
    let model = || {
        ScriptedModel::from_fn(|request| {
            let is_asked = |one: &Arc<Message>| one.results().next().is_some();
            match request.messages.messages().iter().any(is_asked) {
                false => Turn::calls([
                    ("kit_book", json!({"what": "a"})),
                    ("kit_book", json!({"what": "bc"})),
                ]),
                true => Turn::fails(agentflow::model::ModelErrorKind::BadRequest),
            }
        })
    };
    let agent = Agent::new(model()).tools(tools![kit_book]);
    let report = CrashTest::agent(&agent, || RunRequest::new("Book.").compensate())
        .fails()
        .may_differ_when_interrupted()
        .runtime(move |runtime| runtime.resource(deeds.clone()))
        .run()
        .await;
    assert!(report.crashes() > 10, "{report}");
    let undone =
        report.steps().filter(|(path, _)| path.ends_with("undo#1/tool#1.kit_unbook")).count();
    assert_eq!(undone, 2, "{report}");
}

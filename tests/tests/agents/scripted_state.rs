//! Scripted answers that set state and send events, as seen by tools, steps, sessions and
//! subscribers, also after a crash.

use agentflow::agent::RunRequest;
use agentflow::event::EventKind;
use agentflow::middleware::redact;
use agentflow::prelude::*;
use agentflow::serde_json::json;
use agentflow::state::StateKey;
use agentflow::store::MemoryStore;
use agentflow::views::AgentEvents;
use agentflow_testing::{CrashTest, ScriptedModel, Turn, check_events, test_runtime, within};
use futures_util::StreamExt;

static INTENT: StateKey<String> = StateKey::session("intent");
static ROUNDS: StateKey<u32> = StateKey::session("rounds");

/// Return the intent of the user.
#[tool(effects = "read")]
async fn intent_of_run(cx: &Context) -> Result<Option<String>> {
    cx.state(&INTENT).await
}

/// Decide.
#[agent(tools = [intent_of_run])]
async fn scripted_classifier(cx: &Context) -> Result<String>;

async fn rounds_in_step(cx: &Context, said: String) -> Result<String> {
    let (intent, rounds) = (cx.state(&INTENT).await?, cx.state(&ROUNDS).await?);
    Ok(format!("{said}: {} after {}", intent.unwrap_or_default(), rounds.unwrap_or_default()))
}

#[workflow]
async fn classified(cx: &Context) -> Result<String> {
    let said = scripted_classifier(cx).await?;
    // The step reads the answer, so it also sees the state that the agent set.
    let seen = rounds_in_step(cx, said).await?;
    Ok(seen)
}

/// Scripts two turns that set state: a call of the tool, and an answer with its result.
fn script() -> ScriptedModel {
    ScriptedModel::from_fn(|request| {
        let told = request.messages.messages().iter().find_map(|message| message.results().next());
        match told {
            None => Turn::call("intent_of_run", json!({}))
                .state(&INTENT, &"refund".to_owned())
                .state(&ROUNDS, &1),
            Some(told) => Turn::text(told.output.trim_matches('"')).state(&ROUNDS, &2),
        }
    })
}

#[tokio::test(start_paused = true)]
async fn state_of_an_answer_is_seen_by_its_tools_and_by_what_follows() {
    let runtime = test_runtime().store(MemoryStore::new()).model(script()).build();
    let run = runtime.start(classified::workflow(), ()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), "refund: refund after 2");
    check_events(&run.recorded()).unwrap();

    let agent = Agent::new(script()).tools(tools![intent_of_run]).runtime(&runtime);
    let run = agent.start(RunRequest::new("I want my money back.").session("s")).unwrap();
    assert_eq!(run.result().await.unwrap().output(), "refund");
    let state = runtime.run(run.run_id()).state().await.unwrap();
    assert_eq!(
        (state.get(&INTENT).unwrap().as_deref(), state.get(&ROUNDS).unwrap()),
        (Some("refund"), Some(2))
    );
    let changed = AgentEvents::of(&run.recorded())
        .into_iter()
        .find(|event| !event.state_delta.is_empty())
        .unwrap();
    assert_eq!(changed.state_delta["intent"], "refund");
    // The next run of the session starts with this state.
    let model = ScriptedModel::new([
        Turn::call("intent_of_run", json!({})),
        Turn::text("Yes.").expect_result("intent_of_run", json!("refund")),
    ]);
    let next = Agent::new(model).tools(tools![intent_of_run]).runtime(&runtime);
    next.run(RunRequest::new("And now?").session("s")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn state_of_an_answer_survives_a_crash_at_every_write() {
    let report = CrashTest::new(&classified::workflow(), || ())
        .runtime(|runtime| runtime.model(script()))
        .twice()
        .run();
    let report = report.await;
    assert!(report.crashes() > 10, "{report}");
    let agent = Agent::new(script()).name("classifier").tools(tools![intent_of_run]);
    let report =
        CrashTest::agent(&agent, || RunRequest::new("I want my money back.")).twice().run().await;
    assert!(report.crashes() > 5, "{report}");
}

#[tokio::test(start_paused = true)]
async fn secrets_in_the_state_of_an_answer_are_not_recorded() {
    let model =
        ScriptedModel::new([Turn::text("Noted.").state(&INTENT, &"call 555-0100-7".to_owned())]);
    let runtime =
        test_runtime().store(MemoryStore::new()).with(redact().secret("555-0100-7")).build();
    let run = Agent::new(model).runtime(&runtime).start("Hi.").unwrap();
    run.result().await.unwrap();
    let state = runtime.run(run.run_id()).state().await.unwrap();
    assert_eq!(state.get(&INTENT).unwrap().as_deref(), Some("call [redacted]"));
}

#[tokio::test(start_paused = true)]
async fn events_of_an_answer_are_shown_in_order_and_not_recorded() {
    let turn =
        Turn::text("One, ").event(json!({"searched": "tea"})).and_text("two.").event("almost done");
    let agent = Agent::new(ScriptedModel::new([turn])).runtime(&test_runtime().build());
    let mut stream = agent.stream("Count.").unwrap();
    let mut shown = Vec::new();
    while let Some(event) = within("the next event", stream.next()).await {
        match &event.kind {
            EventKind::ModelDelta(delta) => shown.push(format!("{delta:?}")),
            EventKind::StepProgress { value } => shown.push(format!("{} {value}", event.path)),
            _ => {}
        }
    }
    let searched = r#"model#1 {"searched":"tea"}"#;
    assert_eq!(
        shown,
        [r#"Text("One, ")"#, searched, r#"Text("two.")"#, r#"model#1 "almost done""#]
    );
    let result = stream.result().await.unwrap();
    assert_eq!(result.output(), "One, two.");
    assert!(
        !result.events().iter().any(|event| matches!(event.kind, EventKind::StepProgress { .. }))
    );
}

//! The agent of an `#[agent]` function: streaming, grants, limits, hooks and resources of one call.

use agentflow::agent::{AgentSettings, Limits};
use agentflow::error::FailureKind;
use agentflow::event::EventKind;
use agentflow::prelude::*;
use agentflow::run::RunStream;
use agentflow::serde_json::json;
use agentflow::store::MemoryStore;
use agentflow_testing::{ScriptedModel, Turn, test_runtime, within};
use futures_util::StreamExt;

/// Resource that `publish` reads.
struct Audience(&'static str);

/// Publish a text.
#[tool(effects = "read", scopes("press"))]
fn publish(audience: Inject<Audience>, text: String) -> String {
    format!("{text}, to {}", audience.0)
}

/// You write for {app:paper}.
///
/// Write about {subject}.
#[agent(tools = [publish])]
async fn write(cx: &Context, subject: String, words: u32) -> Result<String>;

/// How many words are in {text}?
#[agent(model = "openai/gpt-5-mini")]
async fn count(text: String) -> Result<u32>;

fn asked(model: &ScriptedModel, at: usize) -> Vec<String> {
    let messages = model.requests()[at].messages.clone();
    messages
        .messages()
        .iter()
        .map(|message| format!("{:?}: {}", message.role(), message.text()))
        .collect()
}

#[tokio::test]
async fn it_asks_what_the_function_asks() {
    let model = ScriptedModel::new([Turn::text("one"), Turn::text("two")]).capturing();
    let runtime = test_runtime()
        .model(model.clone())
        .app("paper", "The Times")
        .resource(Audience("all"))
        .build();
    write(&runtime.context(), "tea".into(), 3).await.unwrap();
    let result = write::agent("tea".into(), 3).runtime(&runtime).run(()).await.unwrap();
    assert_eq!(result.output(), "two");
    let expected = ["System: You write for The Times.", "User: Write about tea.\n\n{\"words\":3}"];
    assert_eq!(asked(&model, 0), expected);
    assert_eq!(asked(&model, 1), expected);
}

#[tokio::test]
async fn its_options_are_those_of_an_agent() {
    let call = Turn::call("publish", json!({"text": "Tea"}));
    let model = ScriptedModel::new([call, Turn::text("done")]);
    let runtime = test_runtime().model(model).app("paper", "The Times").build();
    let agent = write::agent("tea".into(), 3)
        .runtime(&runtime)
        .resource(Audience("some"))
        .settings(AgentSettings::new().grant(["press"]));
    let mut run: RunStream<String> = agent.stream(()).unwrap();
    let mut answers = Vec::new();
    while let Some(event) = within("the next event", run.next()).await {
        if let EventKind::ToolCompleted { result, .. } = &event.kind {
            answers.push(result.output.clone());
        }
    }
    assert_eq!(run.result().await.unwrap().output(), "done");
    assert_eq!(answers, [r#""Tea, to some""#]);

    let model = ScriptedModel::from_fn(|_| Turn::call("publish", json!({"text": "Tea"})));
    let runtime =
        test_runtime().model(model).app("paper", "The Times").resource(Audience("all")).build();
    let agent =
        write::agent("tea".into(), 3).runtime(&runtime).settings(Limits::default().max_steps(2));
    assert_eq!(agent.run(()).await.unwrap_err().kind(), FailureKind::MaxStepsReached);
}

#[tokio::test]
async fn its_answer_has_the_type_of_the_function() {
    let model = ScriptedModel::new([Turn::text(r#"{"value": 3}"#), Turn::text(r#"{"value": 4}"#)]);
    let runtime = test_runtime().model(model).build();
    let agent = count::agent("a b c".into()).runtime(&runtime);
    let result = agent.run(()).await.unwrap();
    let three: u32 = *result.output();
    assert_eq!(three, 3);
    // A conversation can be passed instead of the first question.
    let mut conversation = result.conversation().clone();
    conversation.push(Message::user("And with d?"));
    assert_eq!(*agent.run(conversation).await.unwrap().output(), 4);
}

#[tokio::test]
async fn what_it_lacks_is_reported_when_it_is_built() {
    let model = ScriptedModel::new([]);
    let error = write::agent("tea".into(), 3)
        .runtime(&test_runtime().model(model).resource(Audience("")).build());
    assert!(error.build().unwrap_err().to_string().contains("it shows `{app:paper}`"));
    let runtime = test_runtime().app("paper", "The Times").resource(Audience("")).build();
    let error = write::agent("tea".into(), 3).runtime(&runtime).build().unwrap_err().to_string();
    assert!(error.contains("it has no model"), "{error}");
}

/// Asks the agent in a step, with the step's own runtime.
#[workflow]
async fn report(cx: &Context, subject: String) -> Result<String> {
    let text =
        write::agent(subject, 3).resource(Audience("staff")).run_in(cx, ()).await?.into_output();
    Ok(text)
}

#[tokio::test]
async fn in_a_step_it_has_the_runtime_of_the_step() {
    let model =
        ScriptedModel::new([Turn::call("publish", json!({"text": "Tea"})), Turn::text("done")])
            .capturing();
    let runtime =
        test_runtime().model(model.clone()).app("paper", "The Times").grant(["press"]).build();
    assert_eq!(report(&runtime.context(), "tea".into()).await.unwrap(), "done");
    let answer =
        model.requests()[1].messages.last().unwrap().results().next().unwrap().output.clone();
    assert_eq!(answer, r#""Tea, to staff""#);
}

#[tokio::test]
async fn a_run_is_resumed_with_what_it_began_with() {
    let store = MemoryStore::new();
    let runtime = |store: MemoryStore, model: ScriptedModel| {
        let agent = write::agent("another".into(), 9).resource(Audience("given"));
        test_runtime().store(store).model(model).app("paper", "The Times").agent(&agent).build()
    };
    let call = || Turn::call("publish", json!({"text": "Tea"}));
    let first = runtime(store.clone(), ScriptedModel::new([call(), Turn::stall()]));
    let agent = write::agent("tea".into(), 3).resource(Audience("given")).runtime(&first);
    let run = agent.start(agentflow::agent::RunRequest::from(()).grant(["press"])).unwrap();
    let mut events = run.events();
    while let Some(event) = within("the next event", events.next()).await {
        if matches!(&event.kind, EventKind::ModelStarted { .. })
            && event.path.to_string() == "model#2"
        {
            break;
        }
    }
    let id = run.run_id().clone();
    run.abandon();
    let model = ScriptedModel::new([Turn::text("done")]).capturing();
    let second = runtime(store.as_another_process(), model.clone());
    let recovered = second.recover().await.unwrap();
    assert!(recovered.left.is_empty(), "{recovered:?}");
    assert_eq!(recovered.resumed.len(), 1);
    for run in recovered.resumed {
        assert_eq!(
            (&run.run_id().clone(), run.result().await.unwrap().as_str()),
            (&id, r#""done""#)
        );
    }
    assert_eq!(
        asked(&model, 0)[..2],
        ["System: You write for The Times.", "User: Write about tea.\n\n{\"words\":3}"]
    );
}

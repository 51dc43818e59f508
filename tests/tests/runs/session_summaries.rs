//! Tests summaries of sessions: turns outside of the window are summarized once for many runs, also
//! across a crash. A run whose summary fails continues without one.

use std::sync::Arc;

use agentflow::agent::RunRequest;
use agentflow::event::EventKind;
use agentflow::message::Role;
use agentflow::model::{Model, ModelRef, SecretProvider};
use agentflow::prelude::*;
use agentflow::serde_json;
use agentflow::session::{Session, SessionWindow, Summary};
use agentflow::store::{MemoryStore, Store};
use agentflow::{Error, Event, RunId};
use agentflow_testing::{Call, Mocks, ScriptedModel, Turn, check_events, test_runtime};

use super::sessions_crash::{ask_remaining, ends_at_every_write};

/// Returns a model that repeats the user's texts. A request for a summary gets the questions of the
/// conversation.
fn listener() -> ScriptedModel {
    ScriptedModel::from_fn(|request| {
        let messages = request.messages.messages();
        let users: Vec<_> =
            messages.iter().filter(|message| message.role() == Role::User).collect();
        if !messages[0].text().contains("Write a summary") {
            return Turn::text(
                users.iter().map(|it| it.text().replace('\n', " ")).collect::<Vec<_>>().join("|"),
            );
        }
        let text = users[0].text();
        let said =
            text.lines().filter_map(|line| line.strip_prefix("User: ").or(line.strip_prefix('(')));
        Turn::text(format!("({}", said.collect::<Vec<_>>().join(" ")))
    })
    .capturing()
}

/// The text that precedes a summary in the model's input.
const BEFORE: &str = "Summary of our conversation before this: ";

fn window(runs: u32) -> Session {
    Session::from("s").window(SessionWindow::default().runs(runs)).summarized(Summary::default())
}

fn on(store: &(impl Store + Clone)) -> Runtime {
    test_runtime().store(store.clone()).build()
}

fn clerk(model: &ScriptedModel) -> Agent {
    Agent::new(model.clone()).name("summed_clerk").instruct("Be kind.")
}

async fn ask(agent: &Agent, text: &str, session: Session) -> String {
    let request = RunRequest::new(text).run_id(RunId::new(text)).session(session);
    agent.run(request).await.unwrap().into_output()
}

/// Returns the summaries that a run recorded.
async fn summaries(runtime: &Runtime, run: &str) -> Vec<(String, Option<String>)> {
    let journal = runtime.run(&RunId::new(run)).journal().await.unwrap();
    check_events(&journal).unwrap();
    let of = |event: &Event| match &event.kind {
        EventKind::SessionSummarized(it) => {
            Some((it.up_to.to_string(), it.text.as_deref().map(ToOwned::to_owned)))
        }
        _ => None,
    };
    journal.iter().filter_map(of).collect()
}

#[tokio::test]
async fn what_a_window_has_no_room_for_is_summed_up_once_in_many_runs() {
    let (model, runtime) = (listener(), on(&MemoryStore::new()));
    let clerk = clerk(&model).runtime(&runtime);
    for text in ["1", "2", "3", "4"] {
        ask(&clerk, text, window(4)).await;
    }
    assert_eq!(model.requests().len(), 4);
    // The two newest runs are not summarized.
    assert_eq!(ask(&clerk, "5", window(4)).await, "1|2|3|4|5");
    assert_eq!(ask(&clerk, "6", window(4)).await, format!("{BEFORE}(1 2 3|4|5|6"));
    assert_eq!(summaries(&runtime, "6").await, [("3".to_owned(), Some("(1 2 3".to_owned()))]);
    assert_eq!(ask(&clerk, "7", window(4)).await, format!("{BEFORE}(1 2 3|4|5|6|7"));
    assert_eq!(ask(&clerk, "8", window(4)).await, format!("{BEFORE}(1 2 3|4|5|6|7|8"));
    assert_eq!(model.requests().len(), 9);
    assert_eq!(ask(&clerk, "9", window(4)).await, format!("{BEFORE}(1 2 3 4 5 6|7|8|9"));
    assert_eq!(model.requests().len(), 11);
    // The history is unchanged.
    let history = runtime.sessions().history("s", 20).await.unwrap();
    assert_eq!(history.len(), 9);
    assert!(history.iter().all(|run| run.messages.len() == 2));
    // A branch uses the summary of the run that it continues, and no later one. A branch before the
    // first summary has none.
    let behind = |run: &str| window(4).after(RunId::new(run));
    assert_eq!(ask(&clerk, "other", behind("7")).await, format!("{BEFORE}(1 2 3|4|5|6|7|other"));
    assert_eq!(ask(&clerk, "first", behind("2")).await, "1|2|first");
    // Without summaries the model gets only the window.
    let plain = Session::from("s").window(SessionWindow::default().runs(2)).after(RunId::new("9"));
    assert_eq!(ask(&clerk, "plain", plain).await, "8|9|plain");
}

#[tokio::test]
async fn tokens_and_tool_results_are_summed_up_too() {
    let (model, runtime) = (listener(), on(&MemoryStore::new()));
    let clerk = clerk(&model).runtime(&runtime);
    let session = |tokens| {
        let window = SessionWindow::default().tokens(tokens);
        Session::from("s").window(window).summarized(Summary::default().tokens(40))
    };
    let long = |name: &str| format!("{name} {}", "word ".repeat(100));
    for name in ["a", "b", "c"] {
        agent_ask(&clerk, &long(name), session(2_000)).await;
    }
    // In the smaller window, two questions with their answers do not fit.
    let answer = agent_ask(&clerk, "d", session(700)).await;
    assert!(answer.starts_with(BEFORE) && answer.contains("left out]"), "{answer}");
    assert!(answer.len() < 2_800, "{} bytes", answer.len());
    // A limit of 40 tokens allows 160 bytes, even if the model returns more.
    let requests = model.requests();
    let summed_up = &requests[requests.len() - 2];
    assert!(summed_up.messages.messages()[0].text().contains("at most 30 words"), "{summed_up:?}");
    let summary = answer.strip_prefix(BEFORE).unwrap().split(" [").next().unwrap();
    assert_eq!(summary.len(), 160, "{summary}");
}

async fn agent_ask(agent: &Agent, text: &str, session: Session) -> String {
    agent.run(RunRequest::new(text).session(session)).await.unwrap().into_output()
}

#[tokio::test]
async fn a_summary_that_fails_is_left_out_and_tried_again_by_the_next_run() {
    let store = MemoryStore::new();
    let mocks = Mocks::new().agent("session_summary", [Call::any().fails("the model is away")]);
    let failing = mocks.runtime().store(store.clone()).build();
    let (model, runtime) = (listener(), on(&store));
    let clerk = clerk(&model);
    for text in ["1", "2", "3"] {
        ask(&clerk.clone().runtime(&failing), text, window(2)).await;
    }
    assert_eq!(ask(&clerk.clone().runtime(&failing), "4", window(2)).await, "2|3|4");
    assert_eq!(summaries(&runtime, "4").await, [("2".to_owned(), None)]);
    assert_eq!(ask(&clerk.runtime(&runtime), "5", window(2)).await, format!("{BEFORE}(1 2 3|4|5"));
    mocks.finish();
}

#[tokio::test]
async fn another_model_sums_up_and_is_checked_when_the_run_begins() {
    let (model, cheap) =
        (listener(), ScriptedModel::new([Turn::text("in short").expect_text("User: 1")]));
    let house = move |_: &ModelRef, _: &Arc<dyn SecretProvider>| {
        Ok(Arc::new(cheap.clone()) as Arc<dyn Model>)
    };
    let runtime = test_runtime().store(MemoryStore::new()).model_provider("house", house).build();
    let clerk = clerk(&model).runtime(&runtime);
    let by = |name: &str| {
        let summary = Summary::default().model(name).instructions("Sum up.");
        Session::from("s").window(SessionWindow::default().runs(1)).summarized(summary)
    };
    let refused =
        clerk.run(RunRequest::new("1").session(by("hosue/small"))).await.unwrap_err().to_string();
    assert!(refused.ends_with("no adapter is called `hosue`; did you mean `house`?"), "{refused}");
    let nothing = Session::from("s").summarized(Summary::default().tokens(0));
    let refused = clerk.run(RunRequest::new("1").session(nothing)).await.unwrap_err().to_string();
    assert_eq!(
        refused,
        "the agent `summed_clerk` cannot be built: the summary of its session has 0 tokens; give it more, or leave `summarized` out"
    );
    assert!(
        runtime.sessions().list(agentflow::session::SessionFilter::new()).await.unwrap().is_empty()
    );
    for text in ["1", "2"] {
        ask(&clerk, text, by("house/small")).await;
    }
    assert_eq!(ask(&clerk, "3", by("house/small")).await, format!("{BEFORE}in short|2|3"));
}

#[tokio::test]
async fn a_summary_counts_as_a_call_of_the_run() {
    let (model, runtime) = (listener(), on(&MemoryStore::new()));
    let clerk = clerk(&model).runtime(&runtime);
    for text in ["1", "2"] {
        ask(&clerk, text, window(1)).await;
    }
    let one_call = RunRequest::new("3").session(window(1)).max_llm_calls(1);
    let error = clerk.run(one_call).await.unwrap_err();
    assert!(matches!(error, Error::LlmCallLimit { .. }), "{error}");
    // A failed run adds no message and no summary to the session.
    assert_eq!(ask(&clerk, "4", window(1)).await, format!("{BEFORE}(1|2|4"));
}

async fn chat(store: impl Store) -> Result<(), Error> {
    ask_remaining(&clerk(&listener()), &["1", "2", "3", "4", "5"], &window(2), store).await
}

#[tokio::test(start_paused = true)]
async fn a_process_that_ends_at_any_write_sums_up_once() {
    let check = async |store: MemoryStore, what: String| {
        let runtime = on(&store);
        let history = runtime.sessions().history("s", 10).await.unwrap();
        let answers: Vec<_> =
            history.iter().map(|run| run.messages.last().unwrap().text().into_owned()).collect();
        let expected =
            ["1", "1|2", "1|2|3", &format!("{BEFORE}(1 2|3|4"), &format!("{BEFORE}(1 2|3|4|5")];
        assert_eq!(answers, expected, "{what}");
        assert_eq!(summaries(&runtime, "4").await.len(), 1, "{what}");
        let journal =
            serde_json::to_string(&runtime.run(&RunId::new("4")).journal().await.unwrap()).unwrap();
        assert_eq!(journal.matches("\"name\":\"agent.completed\"").count(), 1, "{what}: {journal}");
    };
    ends_at_every_write(chat, check).await;
}

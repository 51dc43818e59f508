//! Requests to the four providers in a session. At every prefix of its journal the request matches
//! the types of the provider's SDK, and every call has its result.
//!
//! A prefix simulates a process that ended there. The interrupted run is cancelled or resumed, and
//! the next question follows.

use std::sync::Arc;

use agentflow::agent::RunRequest;
use agentflow::model::{ModelInfo, ModelRef, ModelRequest, ModelStream, SecretProvider};
use agentflow::prelude::*;
use agentflow::session::{Session, SessionWindow, Summary};
use agentflow::store::{Append, MemoryStore, Store};
use agentflow::{Event, RunId, schemars, serde};
use agentflow_testing::{ScriptedModel, Turn, test_runtime};
use agentflow_tests::{Replay, sdk_types, wire_cases};
use serde_json::{Value, json};

use super::provider_change::{ANTHROPIC, CHAT, GEMINI, RESPONSES, calls_and_results, model, turns};

/// Look something up.
#[tool(effects = "none")]
pub(super) fn sess_lookup(what: String) -> String {
    format!("{what} is found")
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(crate = "agentflow::serde")]
#[schemars(crate = "agentflow::schemars")]
pub(super) struct Note {
    pub(super) text: String,
}

/// A model that gives typed answers through a tool.
pub(super) struct ByTool(pub(super) ScriptedModel);

impl Model for ByTool {
    fn info(&self) -> &ModelInfo {
        self.0.info()
    }

    fn stream(&self, request: ModelRequest) -> ModelStream {
        self.0.stream(request)
    }
}

const RUNS: [&str; 3] = ["one", "two", "three"];

/// Executes three runs: one with two parallel calls, one with a tool-based answer after an invalid
/// one, and one with a call before the answer.
async fn session() -> Vec<Vec<Event>> {
    let store = MemoryStore::new();
    let runtime = test_runtime().store(store.clone()).build();
    let ask =
        |run: &str| RunRequest::new(format!("question {run}")).session("s").run_id(RunId::new(run));
    let agent = |turns: Vec<Turn>| {
        Agent::new(ByTool(ScriptedModel::new(turns))).tools(tools![sess_lookup]).runtime(&runtime)
    };
    let both =
        Turn::calls([("sess_lookup", json!({"what": "a"})), ("sess_lookup", json!({"what": "b"}))]);
    agent(vec![both, Turn::text("found both")]).run(ask(RUNS[0])).await.unwrap();
    let wrong = Turn::call("final_answer", json!({"words": 1}));
    let right = Turn::call("final_answer", json!({"text": "noted"}));
    let noted = agent(vec![wrong, right]).output::<Note>().run(ask(RUNS[1])).await.unwrap();
    assert_eq!(noted.output().text, "noted");
    let one = Turn::call("sess_lookup", json!({"what": "long ".repeat(2000)}));
    agent(vec![one, Turn::text("found it")]).run(ask(RUNS[2])).await.unwrap();
    let mut journals = Vec::new();
    for run in RUNS {
        journals.push(store.read(&RunId::new(run), 0, usize::MAX).await.unwrap());
    }
    journals
}

/// Creates a store with the first events of the session.
async fn prefix(journals: &[Vec<Event>], mut events: usize) -> (MemoryStore, Option<RunId>) {
    let store = MemoryStore::new();
    let mut last = None;
    for journal in journals {
        let taken = journal.len().min(events);
        if taken == 0 {
            break;
        }
        let run = journal[0].run_id.clone();
        let epoch = store.create(&run, journal[..1].to_vec()).await.unwrap();
        store.append(&run, epoch, Append::new(1, journal[1..taken].to_vec())).await.unwrap();
        last = (taken < journal.len()).then_some(run);
        events -= taken;
    }
    (store, last)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_prefix_of_a_session_is_a_request_that_providers_take() {
    let (Some(_), Some(replay)) = (wire_cases(""), Replay::start()) else { return };
    let journals = session().await;
    let all: usize = journals.iter().map(Vec::len).sum();
    let (mut seen, mut with_summary) = (0, 0);
    for (events, resumed) in (1..=all).flat_map(|events| [(events, false), (events, true)]) {
        let (store, stopped) = prefix(&journals, events).await;
        let house = |_: &ModelRef, _: &Arc<dyn SecretProvider>| {
            Ok(Arc::new(ScriptedModel::from_fn(|_| Turn::text("a summary"))) as Arc<dyn Model>)
        };
        let runtime = test_runtime().store(store).model_provider("house", house).build();
        match stopped {
            Some(run) if resumed => {
                // The request of the resumed run contains its history, too.
                let scripted = ScriptedModel::from_fn(|request| {
                    assert!(request.messages.open_calls().is_empty());
                    Turn::text("resumed")
                });
                let agent = Agent::new(scripted).tools(tools![sess_lookup]).runtime(&runtime);
                drop(agent.resume(&run).await.unwrap().result().await);
            }
            Some(run) => runtime.run(&run).cancel("enough").await.unwrap(),
            None if resumed => continue,
            None => {}
        }
        for (format, name) in [
            (CHAT, "gpt-5-mini"),
            (RESPONSES, "gpt-5-mini"),
            (ANTHROPIC, "claude-sonnet-4-5"),
            (GEMINI, "gemini-2.5-flash"),
        ] {
            let window = SessionWindow::default().runs(2).tokens(300);
            let [all, some] =
                [SessionWindow::default(), window].map(|window| Session::from("s").window(window));
            // A second model summarizes the turns that do not fit.
            let summed_up = Session::from("s")
                .window(window.runs(1))
                .summarized(Summary::default().model("house/small"));
            let sessions = [(all, "all"), (some, "some"), (summed_up, "summed-up")];
            // Summaries are made between runs, so it is enough to test some prefixes of a run with
            // one.
            for (session, what) in sessions.into_iter().take(if events % 4 == 0 { 3 } else { 2 }) {
                let key = format!("{}~{format}-{events}-{resumed}-{what}", turns(format)[0]);
                // The agent that continues may have no tools.
                let tools = if resumed { tools![] } else { tools![sess_lookup] };
                let agent = Agent::new(model(&replay, format, name, &key))
                    .tools(tools)
                    .instruct("Be kind.")
                    .runtime(&runtime);
                let next = RunRequest::new("next").session(session).max_steps(1);
                // The run is limited to one turn, so it adds no answer to the session.
                let ended = agent.run(next).await;
                let body = replay.log_of(&key)[0]["body"].clone();
                let (calls, results) = calls_and_results(format, &body);
                let ids: Vec<&String> = results.iter().map(|(id, _)| id).collect();
                assert_eq!(calls.iter().collect::<Vec<_>>(), ids, "{key}: {body:#}");
                assert_eq!(body.to_string().matches("Be kind.").count(), 1, "{key}: {body:#}");
                assert!(text_of(&body).ends_with("next"), "{key}: {body:#}");
                with_summary += usize::from(body.to_string().contains("a summary"));
                assert!(ended.is_err(), "{key}");
                seen += 1;
            }
        }
    }
    assert!(seen > 100 && with_summary > 3, "{seen}, {with_summary}");
    if let Some(python) = sdk_types() {
        replay.validate(&python);
    }
}

/// Returns the last text of a request's conversation.
fn text_of(body: &Value) -> String {
    let entries = [&body["messages"], &body["input"], &body["contents"]]
        .into_iter()
        .find_map(Value::as_array)
        .unwrap();
    let last = entries.last().unwrap();
    let text = |value: &Value| value.as_str().map(ToOwned::to_owned);
    let content = if last["content"].is_null() { &last["parts"] } else { &last["content"] };
    text(content).or_else(|| text(&content.as_array()?.last()?["text"])).unwrap_or_default()
}

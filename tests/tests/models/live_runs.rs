//! Requests to the four providers in a live run whose answers are given by a tool. At every prefix
//! of the journal the request matches the types of the provider's SDK, and no question follows the
//! result of an answer.

use std::sync::Arc;

use agentflow::agent::RunRequest;
use agentflow::event::EventKind;
use agentflow::message::{Message, Part, Role};
use agentflow::model::{ModelInfo, ModelRequest, ModelStream};
use agentflow::prelude::*;
use agentflow::session::{Session, SessionWindow};
use agentflow::store::{Append, MemoryStore, Store};
use agentflow::{Event, RunId};
use agentflow_testing::{ScriptedModel, Turn, check_events, test_runtime, within};
use agentflow_tests::{Replay, sdk_types, wire_cases};
use futures_util::{StreamExt, stream};
use serde_json::json;
use tokio::sync::Semaphore;

use super::provider_change::{ANTHROPIC, CHAT, GEMINI, RESPONSES, calls_and_results, model, turns};
use super::sessions::{ByTool, Note, sess_lookup};

fn id() -> RunId {
    RunId::new("live")
}

fn noted(text: &str) -> (&'static str, serde_json::Value) {
    ("final_answer", json!({"text": text}))
}

/// Turns of the run: an answer, an answer next to a call, an answer after an invalid one, and an
/// answer after a message within a turn.
fn script() -> Vec<Turn> {
    let lookup = || ("sess_lookup", json!({"what": "a"}));
    vec![
        Turn::calls([noted("first")]),
        Turn::calls([lookup(), noted("second")]),
        Turn::calls([("final_answer", json!({"words": 1}))]),
        Turn::calls([lookup()]),
        Turn::calls([noted("third")]),
        Turn::calls([noted("fourth")]),
    ]
}

/// A model that delays the turn after the invalid answer until the message was sent, so that the
/// run reads the message after that turn.
struct Held {
    model: ByTool,
    sent: Arc<Semaphore>,
}

impl Model for Held {
    fn info(&self) -> &ModelInfo {
        self.model.info()
    }

    fn stream(&self, request: ModelRequest) -> ModelStream {
        let wrong = request
            .messages
            .last()
            .is_some_and(|last| last.results().any(|result| !result.status.is_success()));
        let (sent, turn) = (self.sent.clone(), self.model.stream(request));
        let held = async move {
            if wrong {
                within("the message to be sent", sent.acquire()).await.unwrap().forget();
            }
            turn
        };
        ModelStream::new(stream::once(held).flatten())
    }
}

/// Executes a live run in a session with a history.
async fn live_run(session: &Session) -> Vec<Vec<Event>> {
    let store = MemoryStore::new();
    let runtime = test_runtime().store(store.clone()).build();
    let message_sent = Arc::new(Semaphore::new(0));
    let agent = |turns: Vec<Turn>| {
        let model = Held { model: ByTool(ScriptedModel::new(turns)), sent: message_sent.clone() };
        let agent = Agent::new(model).instruct("Be kind.").output::<Note>();
        agent.tools(tools![sess_lookup]).runtime(&runtime)
    };
    let before = RunRequest::new("before").session(session.clone()).run_id(RunId::new("before"));
    agent(vec![Turn::calls([noted("earlier")])]).run(before).await.unwrap();
    let request = RunRequest::new("question one").session(session.clone()).run_id(id()).live();
    let run = agent(script()).start(request).unwrap();
    let mut events = run.events();
    let mut sent = 0;
    while let Some(event) = within("the next event", events.next()).await {
        let answers = |event: &Event| matches!(&event.kind, EventKind::RunPaused { .. });
        let wrong = |event: &Event| matches!(&event.kind, EventKind::ToolFailed { .. });
        if wrong(&event) {
            run.send_message("in the middle").await.unwrap();
            message_sent.add_permits(1);
        } else if answers(&event) {
            sent += 1;
            match sent {
                4 => run.close().await.unwrap(),
                _ => run.send_message(format!("question {sent}")).await.unwrap(),
            }
        }
    }
    assert_eq!(run.result().await.unwrap().output().text, "fourth");
    let mut journals = Vec::new();
    for run in [RunId::new("before"), id()] {
        journals.push(store.read(&run, 0, 10_000).await.unwrap());
    }
    check_events(&journals[1]).unwrap();
    journals
}

/// Checks that no user message follows the result of an answer, and that every call has its result.
#[track_caller]
fn check_order(messages: &[Arc<Message>]) {
    for pair in messages.windows(2) {
        let answered = pair[0]
            .results()
            .any(|result| result.name == "final_answer" && result.status.is_success());
        assert!(!(answered && pair[1].role() == Role::User), "{messages:#?}");
    }
    let calls = messages.iter().flat_map(|message| message.tool_calls()).map(|call| &call.id);
    let results =
        messages.iter().flat_map(|message| message.results()).map(|result| &result.call_id);
    assert_eq!(calls.collect::<Vec<_>>(), results.collect::<Vec<_>>());
}

async fn prefix(journals: &[Vec<Event>], events: usize) -> MemoryStore {
    let store = MemoryStore::new();
    for (journal, taken) in journals.iter().zip([journals[0].len(), events]) {
        let run = &journal[0].run_id;
        let epoch = store.create(run, journal[..1].to_vec()).await.unwrap();
        store.append(run, epoch, Append::new(1, journal[1..taken].to_vec())).await.unwrap();
    }
    store
}

#[tokio::test(flavor = "multi_thread")]
async fn every_prefix_of_a_live_run_is_a_request_that_providers_take() {
    let (Some(_), Some(replay)) = (wire_cases(""), Replay::start()) else { return };
    let journals = live_run(&Session::from("s").window(SessionWindow::default().runs(2))).await;
    let mut seen = 0;
    for events in 1..journals[1].len() {
        let journal = &journals[1][..events];
        check_order(agentflow::message::Conversation::from_events(journal).messages());
        let (format, name) = [
            (CHAT, "gpt-5-mini"),
            (RESPONSES, "gpt-5-mini"),
            (ANTHROPIC, "claude-sonnet-4-5"),
            (GEMINI, "gemini-2.5-flash"),
        ][events % 4];
        // Resumes the run itself, with a question that was not answered before.
        let runtime = test_runtime().store(prefix(&journals, events).await).build();
        let scripted = ByTool(ScriptedModel::from_fn(|request| {
            check_order(request.messages.messages());
            Turn::calls([noted("resumed")])
        }));
        let agent =
            Agent::new(scripted).instruct("Be kind.").output::<Note>().tools(tools![sess_lookup]);
        let run = agent.runtime(&runtime).resume(&id()).await.unwrap();
        let sent = run.send_message("one more").await.is_ok();
        drop(run.close().await);
        let result = run.result().await.unwrap();
        check_order(result.conversation().messages());
        assert_eq!(
            sent,
            result.conversation().messages().iter().any(|message| message.text() == "one more")
        );
        // Another run continues the conversation of the prefix, with one of the four formats in
        // turn.
        for (conversation, what) in [
            (agentflow::message::Conversation::from_events(journal), "stopped"),
            (result.conversation().clone(), "ended"),
        ] {
            let key = format!("{}~live-{format}-{events}-{what}", turns(format)[0]);
            let mut conversation = conversation;
            conversation.push(Message::user("next"));
            check_order(conversation.messages());
            let agent = Agent::new(model(&replay, format, name, &key)).tools(tools![sess_lookup]);
            let ended = agent.run(RunRequest::new(conversation).max_steps(1)).await;
            let body = replay.log_of(&key)[0]["body"].clone();
            let (calls, results) = calls_and_results(format, &body);
            assert_eq!(
                calls,
                results.into_iter().map(|(id, _)| id).collect::<Vec<_>>(),
                "{key}: {body:#}"
            );
            assert!(ended.is_err(), "{key}");
            seen += 1;
        }
    }
    assert!(seen > 50, "{seen}");
    if let Some(python) = sdk_types() {
        replay.validate(&python);
    }
}

#[tokio::test]
async fn a_typed_answer_by_a_tool_is_said_before_the_conversation_continues() {
    let model = ByTool(ScriptedModel::new([Turn::calls([noted("first")])]));
    let result = Agent::new(model).output::<Note>().run("go").await.unwrap();
    let last = result.conversation().last().unwrap();
    assert_eq!((last.role(), &*last.text()), (Role::Assistant, r#"{"text":"first"}"#));
    assert!(last.parts().iter().all(|part| matches!(part, Part::Text { .. })));
    let again = agentflow::message::Conversation::from_events(&result.events());
    assert_eq!(again.messages(), result.conversation().messages());
}

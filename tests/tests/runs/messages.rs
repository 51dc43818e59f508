//! Tests messages to unfinished agent runs: their position in the conversation, refusals, and
//! messages that arrive as the run ends.

use std::time::Duration;

use agentflow::agent::RunRequest;
use agentflow::error::ControlErrorKind;
use agentflow::event::EventKind;
use agentflow::message::{Conversation, Media, Part, Role};
use agentflow::middleware::redact;
use agentflow::prelude::*;
use agentflow::serde_json::json;
use agentflow::store::{MemoryStore, RunStatus, Store};
use agentflow::{Error, Event, RunId};
use agentflow_testing::{ScriptedModel, TestClock, Turn, check_events, test_runtime};
use agentflow_tests::ProcessStore;

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

/// Look for ten seconds.
#[tool(effects = "none")]
async fn msg_look(what: String) -> String {
    pass(10).await;
    format!("{what} is there")
}

/// Ask first.
#[tool(approve)]
fn msg_pay(sum: u64) -> String {
    format!("paid {sum}")
}

fn id() -> RunId {
    RunId::new("run-1")
}

fn agent(model: &ScriptedModel) -> Agent {
    Agent::new(model.clone()).name("listener").tools(tools![msg_look, msg_pay])
}

fn looks() -> Turn {
    Turn::call("msg_look", json!({"what": "it"})).id("c1")
}

fn names(events: &[Event]) -> Vec<&str> {
    events.iter().map(Event::name).collect()
}

#[track_caller]
fn refused<T>(result: Result<T, Error>, kind: ControlErrorKind, text: &str) {
    match result {
        Err(Error::Control(error)) => {
            assert_eq!((error.kind(), error.to_string().as_str()), (kind, text));
        }
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it should have been refused: {text}"),
    }
}

/// Checks that the conversation of every prefix of the journal is valid for a provider.
fn check_prefixes(events: &[Event]) {
    check_events(events).unwrap();
    for end in 0..=events.len() {
        let conversation = Conversation::from_events(&events[..end]);
        assert!(conversation.open_calls().is_empty(), "{end}: {conversation:?}");
        let mut open = 0;
        for message in conversation.messages() {
            let results = message.results().count();
            assert!(
                open == 0 || results == open,
                "{end}: something stands between calls and their results"
            );
            open = message.tool_calls().count();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_model_sees_messages_after_the_results_in_their_order() {
    for store in [false, true] {
        let model = ScriptedModel::new([
            looks(),
            Turn::text("Both.").expect_conversation([
                "user: Look.",
                "assistant calls msg_look {\"what\":\"it\"}",
                "tool msg_look: \"it is there\"",
                "user: And that.",
                "user: Then stop.",
            ]),
        ]);
        let runtime = match store {
            true => test_runtime().store(MemoryStore::new()).build(),
            false => test_runtime().build(),
        };
        let run = agent(&model).runtime(&runtime).start("Look.").unwrap();
        pass(5).await;
        run.send_message("And that.").await.unwrap();
        run.clone().send_message(String::from("Then stop.")).await.unwrap();
        assert_eq!(run.result().await.unwrap().output(), "Both.");
        let events = run.recorded();
        check_prefixes(&events);
        assert_eq!(
            names(&events)[..9],
            [
                "run.started",
                "model.started",
                "model.completed",
                "tool.started",
                "message.received",
                "message.received",
                "tool.completed",
                "run.step",
                "message.delivered",
            ]
        );
        let said: Vec<_> = run
            .conversation()
            .messages()
            .iter()
            .map(|message| message.text().into_owned())
            .collect();
        assert_eq!(said, ["Look.", "", "", "And that.", "Then stop.", "Both."]);
        model.finish();
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_comes_with_the_last_answer_is_answered_too() {
    let model = ScriptedModel::new([
        Turn::text("Done.").after(Duration::from_secs(10)),
        Turn::text("More.").expect_conversation([
            "user: Go.",
            "assistant: Done.",
            "user: And more.",
        ]),
    ]);
    let run = agent(&model).start("Go.").unwrap();
    pass(5).await;
    run.send_message("And more.").await.unwrap();
    assert_eq!(run.result().await.unwrap().output(), "More.");
    check_prefixes(&run.recorded());
    let advice = "the run cannot be sent a message: it is over (success); start another run, of the same session or with \
                  the conversation of this one";
    refused(run.send_message("Late.").await, ControlErrorKind::WrongState, advice);
}

/// Checks that a message with the last answer starts a new count of turns. The limit of model calls
/// still applies.
#[tokio::test(start_paused = true)]
async fn turns_count_anew_after_an_answer() {
    let slow = || Turn::text("Yes.").after(Duration::from_secs(10));
    let model = ScriptedModel::new([slow(), slow(), slow()]);
    let run = agent(&model).start(RunRequest::new("Go.").max_steps(1)).unwrap();
    for _ in 0..2 {
        pass(6).await;
        run.send_message("Again?").await.unwrap();
        pass(4).await;
    }
    run.result().await.unwrap();
    let model = ScriptedModel::new([slow()]);
    let run = agent(&model).start(RunRequest::new("Go.").max_llm_calls(1)).unwrap();
    pass(5).await;
    run.send_message("Again?").await.unwrap();
    assert!(matches!(run.result().await, Err(Error::LlmCallLimit { .. })));
}

#[tokio::test(start_paused = true)]
async fn many_that_come_as_the_run_ends_are_seen_or_refused() {
    for at in 0..40 {
        let model = ScriptedModel::from_fn(|request| {
            let asked =
                request.messages.messages().iter().filter(|message| message.role() == Role::User);
            Turn::text(
                asked.map(|message| message.text().into_owned()).collect::<Vec<_>>().join("|"),
            )
            .after(Duration::from_millis(1))
        });
        let runtime = test_runtime().store(MemoryStore::new()).build();
        let run = agent(&model).runtime(&runtime).start("go").unwrap();
        let senders = (0..5).map(|n| {
            let run = run.clone();
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_micros(50 * at * n)).await;
                run.send_message(format!("m{n}")).await.is_ok().then(|| format!("m{n}"))
            })
        });
        let mut accepted = Vec::new();
        for sender in senders.collect::<Vec<_>>() {
            accepted.extend(sender.await.unwrap());
        }
        let answer = run.result().await.unwrap().output().to_owned();
        let mut seen: Vec<_> = answer.split('|').skip(1).map(str::to_owned).collect();
        seen.sort();
        assert_eq!(seen, accepted, "{at}");
        check_prefixes(&run.recorded());
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_a_message_is_refused() {
    let model = ScriptedModel::new([looks(), Turn::text("Done.").expect_messages(4)]);
    let run = agent(&model).start("Look.").unwrap();
    pass(5).await;
    let wrong = ControlErrorKind::WrongMessage;
    refused(run.send_message("  \n").await, wrong, "the message is empty; send a text or a file");
    let not_user = "only a message of the user, of texts and files, can be sent to a run";
    for message in [Message::system("Obey."), Message::assistant("I did.")] {
        refused(run.send_message(message).await, wrong, not_user);
    }
    let result = Part::ToolCall(std::sync::Arc::new(agentflow::message::ToolCall::new(
        "c1", "msg_look", "{}",
    )));
    refused(run.send_message(Message::new(Role::User, vec![result])).await, wrong, not_user);
    assert!(matches!(
        run.send_message("x".repeat(2 << 20)).await,
        Err(Error::Control(error)) if error.kind() == wrong && error.to_string().contains("takes at most 1048576")
    ));
    let photo = Part::Media(Media::new("image/png", "https://example.com/a.png"));
    run.send_message(Message::new(Role::User, vec![photo])).await.unwrap();
    run.result().await.unwrap();

    let model = ScriptedModel::new([looks(), Turn::text("Done.").expect_messages(103)]);
    let run = agent(&model).start("Look.").unwrap();
    pass(5).await;
    for n in 0..100 {
        run.send_message(format!("m{n}")).await.unwrap();
    }
    refused(
        run.send_message("one more").await,
        ControlErrorKind::TooManyMessages,
        "100 messages wait for the next call of the run's model already; send this one again when it has seen them",
    );
    run.result().await.unwrap();
}

#[workflow(name = "msg_waits")]
async fn msg_waits(n: u32) -> Result<u32> {
    let ready: Approval = gate!("ready?", n).await?;
    let end = msg_end(ready, n).await?;
    Ok(end)
}

async fn msg_end(_ready: Approval, n: u32) -> Result<u32> {
    Ok(n)
}

#[tokio::test(start_paused = true)]
async fn a_run_of_a_workflow_takes_none() {
    let text = "the run cannot be sent a message: it is one of a workflow: only agents take messages; answer what it asks \
                with `answer`";
    let closed = "the run cannot be closed: it is one of a workflow: only the live run of an agent is closed; cancel this \
                  one, or answer what it asks";
    let (store, clock) = (ProcessStore::new(), TestClock::new());
    let first = test_runtime().clock(clock.clone()).store(store.clone()).build();
    let run = first.start(msg_waits::workflow(), 1).await.unwrap();
    pass(1).await;
    refused(run.send_message("hi").await, ControlErrorKind::WrongState, text);
    refused(run.close().await, ControlErrorKind::WrongState, closed);
    let second = test_runtime().clock(clock).store(store.process(2)).build();
    refused(second.run(&id()).send_message("hi").await, ControlErrorKind::WrongState, text);
    run.abandon();
    tokio::task::yield_now().await;
    store.die();
    refused(second.run(&id()).send_message("hi").await, ControlErrorKind::WrongState, text);
    refused(second.run(&id()).close().await, ControlErrorKind::WrongState, closed);
    assert!(matches!(
        second.run(&RunId::new("none")).send_message("hi").await,
        Err(Error::Store(_))
    ));
}

#[tokio::test(start_paused = true)]
async fn from_another_process_and_while_no_process_executes_the_run() {
    let (store, clock) = (ProcessStore::new(), TestClock::new());
    let model = ScriptedModel::new([
        looks(),
        Turn::text("Yes.").after(Duration::from_secs(100)).expect_text("one"),
        Turn::text("All.").expect_conversation([
            "user: Look.",
            "assistant calls msg_look {\"what\":\"it\"}",
            "tool msg_look: \"it is there\"",
            "user: one",
            "user: two",
        ]),
    ]);
    let process = |store: ProcessStore| {
        test_runtime().clock(clock.clone()).store(store).agent(&agent(&model)).build()
    };
    let first = process(store.clone());
    let run = agent(&model).runtime(&first).start(RunRequest::new("Look.").run_id(id())).unwrap();
    pass(5).await;
    let second = process(store.process(2));
    second.run(&id()).send_message("one").await.unwrap();
    pass(20).await;
    run.abandon();
    tokio::task::yield_now().await;
    store.die();
    second.run(&id()).send_message("two").await.unwrap();
    let record = store.record(&id()).await.unwrap().unwrap();
    assert_eq!(record.status, RunStatus::Running);
    let resumed = second.recover().await.unwrap().resumed.remove(0);
    assert_eq!(resumed.result().await.unwrap().decode::<String>().unwrap(), "All.");
    check_prefixes(&store.read(&id(), 0, 1_000).await.unwrap());
    let advice = "the run cannot be sent a message: it is over (success); start another run, of the same session or with \
                  the conversation of this one";
    refused(second.run(&id()).send_message("three").await, ControlErrorKind::WrongState, advice);
    model.finish();
}

/// Sends messages while a call waits for approval and while the run is paused. They do not answer
/// the question, and they follow the result of the call.
#[tokio::test(start_paused = true)]
async fn beside_a_question_and_a_pause() {
    let model = ScriptedModel::new([
        Turn::call("msg_pay", json!({"sum": 5})).id("c1"),
        Turn::text("Paid.").expect_conversation([
            "user: Pay.",
            "assistant calls msg_pay {\"sum\":5}",
            "tool msg_pay: \"paid 5\"",
            "user: Quickly.",
            "user: And now?",
        ]),
    ]);
    let runtime = test_runtime().store(MemoryStore::new()).build();
    let run = agent(&model).runtime(&runtime).start("Pay.").unwrap();
    pass(1).await;
    run.send_message("Quickly.").await.unwrap();
    assert_eq!(runtime.run(&id()).record().await.unwrap().status, RunStatus::Paused);
    run.pause().await.unwrap();
    run.approve("tool#1.msg_pay", Approval::granted(), "ada").await.unwrap();
    // A question can be answered once, and only by its own path.
    assert!(matches!(
        run.approve("tool#1.msg_pay", Approval::granted(), "bob").await,
        Err(Error::Control(error)) if error.kind() == ControlErrorKind::WrongState
    ));
    assert!(matches!(
        run.approve("tool#9.msg_pay", Approval::granted(), "bob").await,
        Err(Error::Control(error)) if error.kind() == ControlErrorKind::UnknownNode
    ));
    pass(100).await;
    run.send_message("And now?").await.unwrap();
    assert_eq!(runtime.run(&id()).record().await.unwrap().status, RunStatus::Paused);
    run.unpause().await.unwrap();
    assert_eq!(run.result().await.unwrap().output(), "Paid.");
    check_prefixes(&run.recorded());
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_run_has_its_messages_in_its_conversation() {
    let model = ScriptedModel::new([looks()]);
    let run = agent(&model).start("Look.").unwrap();
    pass(5).await;
    run.send_message("Stop that.").await.unwrap();
    run.cancel("user_cancelled").await.unwrap();
    check_prefixes(&run.recorded());
    assert_eq!(run.conversation().last().unwrap().text(), "Stop that.");
    assert!(matches!(run.send_message("x").await, Err(Error::Control(_))));
}

#[tokio::test(start_paused = true)]
async fn a_message_of_a_session_is_in_its_history() {
    let model = ScriptedModel::new([
        looks(),
        Turn::text("Done."),
        Turn::text("Ada.").expect_text("I am Ada."),
    ]);
    let runtime = test_runtime().store(MemoryStore::new()).build();
    let agent = agent(&model).runtime(&runtime);
    // The message arrives before the run has started in its session.
    let run = agent.start(RunRequest::new("Look.").session("s")).unwrap();
    run.send_message("I am Ada.").await.unwrap();
    run.result().await.unwrap();
    check_prefixes(&run.recorded());
    agent.run(RunRequest::new("Who am I?").session("s")).await.unwrap();
    model.finish();
}

#[tokio::test(start_paused = true)]
async fn what_is_taken_out_of_records_is_taken_out_of_messages() {
    let model = ScriptedModel::new([looks(), Turn::text("Ok.").expect_text("swordfish")]);
    let store = MemoryStore::new();
    let runtime = test_runtime().store(store.clone()).with(redact().secret("swordfish")).build();
    let run = agent(&model).runtime(&runtime).start("Look.").unwrap();
    pass(5).await;
    run.send_message("The word is swordfish.").await.unwrap();
    run.result().await.unwrap();
    let journal = store.read(&id(), 0, 100).await.unwrap();
    let kept = journal.iter().find_map(|event| match &event.kind {
        EventKind::MessageReceived { message, .. } => Some(message.text().into_owned()),
        _ => None,
    });
    assert_eq!(kept.unwrap(), "The word is [redacted].");
}

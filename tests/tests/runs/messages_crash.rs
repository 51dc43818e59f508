//! Crash tests of messages and live runs. The process ends at each write to the store in turn. Each
//! accepted message must be in the conversation once, and in order.

use agentflow::agent::RunRequest;
use agentflow::event::EventKind;
use agentflow::message::Role;
use agentflow::prelude::*;
use agentflow::serde_json::json;
use agentflow::store::{MemoryStore, RunStatus, Store};
use agentflow::{Error, Event, RunId};
use agentflow_testing::{CrashTest, ScriptedModel, Turn, check_events, test_runtime};

use super::sessions_crash::{Ending, ends_at_each_of};

/// Note something.
#[tool(effects = "none")]
async fn mcrash_note(what: String) -> String {
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    format!("noted {what}")
}

const MESSAGES: [&str; 3] = ["one", "two", "three"];

fn id() -> RunId {
    RunId::new("live")
}

fn clerk() -> Agent {
    let model = ScriptedModel::from_fn(|request| {
        let last = request.messages.last().expect("somebody asks");
        if last.role() == Role::User {
            return Turn::call("mcrash_note", json!({"what": last.text()}));
        }
        let asked =
            request.messages.messages().iter().filter(|message| message.role() == Role::User);
        Turn::text(asked.map(|message| message.text().into_owned()).collect::<Vec<_>>().join("|"))
    });
    Agent::new(model).name("mcrash_clerk").tools(tools![mcrash_note])
}

fn received(events: &[Event]) -> Vec<String> {
    let message = |event: &Event| match &event.kind {
        EventKind::MessageReceived { message, .. } => Some(message.text().into_owned()),
        _ => None,
    };
    events.iter().filter_map(message).collect()
}

/// Runs the program again: resumes the run of an earlier process and sends the messages that are
/// not in the journal.
async fn talk(store: impl Store, live: bool) -> Result<(), Error> {
    let runtime = test_runtime().store(store).agent(&clerk()).build();
    let recovered = runtime.recover().await?;
    if let Some((_, error)) = recovered.left.into_iter().next() {
        return Err(error);
    }
    let run = match recovered.resumed.into_iter().next() {
        Some(run) => run,
        None => match runtime.run(&id()).record().await {
            Ok(record) if record.status == RunStatus::Success => return Ok(()),
            _ => {
                let request = RunRequest::new("zero").run_id(id());
                runtime
                    .start_agent("mcrash_clerk", if live { request.live() } else { request })
                    .await?
            }
        },
    };
    for message in MESSAGES {
        if !received(&run.recorded()).iter().any(|sent| sent == message) {
            run.send_message(message).await?;
        }
        if live {
            tokio::time::sleep(std::time::Duration::from_millis(700)).await;
        }
    }
    if live {
        run.close().await?;
    }
    run.result().await.map(drop)
}

async fn check(store: MemoryStore, what: String) {
    let events = store.read(&id(), 0, 10_000).await.unwrap();
    check_events(&events).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(received(&events), MESSAGES, "{what}");
    let answer = events.iter().rev().find_map(|event| match &event.kind {
        EventKind::RunCompleted(completed) => {
            completed.agent().map(|answer| answer.text().into_owned())
        }
        _ => None,
    });
    assert_eq!(answer.as_deref(), Some("zero|one|two|three"), "{what}");
}

#[tokio::test(start_paused = true)]
async fn a_process_that_ends_at_any_write_loses_and_repeats_no_message() {
    ends_at_each_of(8, async |store: Ending<MemoryStore>| talk(store, false).await, check).await;
}

#[tokio::test(start_paused = true)]
async fn the_same_of_a_live_run() {
    ends_at_each_of(12, async |store: Ending<MemoryStore>| talk(store, true).await, check).await;
}

/// Crashes each run twice: while messages are sent, while they are answered, and while the run is
/// resumed.
#[tokio::test(start_paused = true)]
async fn with_a_second_crash_the_conversation_is_the_same() {
    let live =
        CrashTest::agent(&clerk(), || RunRequest::new("zero").live()).message("one").message("two");
    let report = live.twice().run().await;
    assert!(report.crashes() > 500, "{report}");
    let during = CrashTest::agent(&clerk(), || RunRequest::new("zero"))
        .message_during("tool#1.mcrash_note", "one");
    let report = during.message_during("tool#2.mcrash_note", "two").twice().run().await;
    assert!(report.crashes() > 500, "{report}");
    let both =
        CrashTest::agent(&clerk(), || RunRequest::new("zero").session("s").live()).message("two");
    both.message_during("tool#1.mcrash_note", "one").run().await;
}

#[tokio::test(start_paused = true)]
async fn a_live_run_that_nobody_writes_to_is_closed() {
    CrashTest::agent(&clerk(), || RunRequest::new("zero").live()).run().await;
}

#[tokio::test(start_paused = true)]
#[should_panic(
    expected = "the agent: the run never waits for the message `one`: only a live run does; what begins is `model#1`"
)]
async fn a_message_to_a_run_that_waits_for_none_fails_the_test() {
    CrashTest::agent(&clerk(), || RunRequest::new("zero")).message("one").run().await;
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "no step `tool#7` begins, so that the message `one` is never sent")]
async fn a_message_during_a_step_that_never_begins_fails_the_test() {
    CrashTest::agent(&clerk(), || RunRequest::new("zero"))
        .message_during("tool#7", "one")
        .run()
        .await;
}

#[tokio::test]
async fn a_run_whose_id_its_host_has_is_in_the_store() {
    for request in [
        RunRequest::new("zero"),
        RunRequest::new("zero").session("s"),
        RunRequest::new("zero").live(),
    ] {
        let store = MemoryStore::new();
        let runtime = test_runtime().store(store.clone()).agent(&clerk()).build();
        let run = runtime.start_agent("mcrash_clerk", request.clone().run_id(id())).await.unwrap();
        // `start_agent` has stored the run when it returns.
        assert!(store.record(&id()).await.unwrap().is_some());
        let again = runtime.start_agent("mcrash_clerk", request.run_id(id())).await.err().unwrap();
        assert!(again.to_string().contains("there is a run `live` in this store"), "{again}");
        run.cancel("enough").await.unwrap();
    }
    // A run that waits for its session starts later.
    let runtime = test_runtime().store(MemoryStore::new()).agent(&clerk()).build();
    let first = runtime
        .start_agent("mcrash_clerk", RunRequest::new("zero").session("s").live())
        .await
        .unwrap();
    let waits = RunRequest::new("one").session(agentflow::session::Session::from("s").waiting());
    let second = runtime.start_agent("mcrash_clerk", waits).await.unwrap();
    assert!(second.recorded().is_empty());
    first.cancel("enough").await.unwrap();
    second.result().await.unwrap();
}

//! Tests live runs: after an answer they wait for the next message, until they are closed or the
//! idle timeout ends.

use std::time::Duration;

use agentflow::agent::RunRequest;
use agentflow::error::ControlErrorKind;
use agentflow::event::{EventKind, PauseReason};
use agentflow::message::Role;
use agentflow::prelude::*;
use agentflow::runtime::EntryKind;
use agentflow::store::{MemoryStore, RunStatus, Store};
use agentflow::{Error, Event, RunId, Workflow};
use agentflow_testing::{ScriptedModel, TestClock, Turn, check_events, test_runtime, within};
use agentflow_tests::ProcessStore;
use futures_util::StreamExt;

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

fn id() -> RunId {
    RunId::new("run-1")
}

/// Returns an agent that repeats all user messages, after a second.
fn echo() -> Agent {
    let model = ScriptedModel::from_fn(|request| {
        let asked =
            request.messages.messages().iter().filter(|message| message.role() == Role::User);
        let said = asked.map(|message| message.text().into_owned()).collect::<Vec<_>>().join("|");
        Turn::text(said).after(Duration::from_secs(1))
    });
    Agent::new(model).name("echo")
}

fn process(store: impl Store, clock: &TestClock) -> Runtime {
    test_runtime().clock(clock.clone()).store(store).agent(&echo()).build()
}

async fn status(store: &impl Store) -> (RunStatus, Option<PauseReason>) {
    let record = store.record(&id()).await.unwrap().unwrap();
    (record.status, record.pause_reason)
}

async fn journal(store: &impl Store) -> Vec<Event> {
    store.read(&id(), 0, 10_000).await.unwrap()
}

fn live() -> RunRequest {
    RunRequest::new("zero").run_id(id()).live()
}

#[track_caller]
fn refused<T>(result: Result<T, Error>, text: &str) {
    match result {
        Err(Error::Control(error)) => {
            assert_eq!(
                (error.kind(), error.to_string().as_str()),
                (ControlErrorKind::WrongState, text)
            );
        }
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it should have been refused: {text}"),
    }
}

const WAITS: (RunStatus, Option<PauseReason>) = (RunStatus::Paused, Some(PauseReason::Message));
const CLOSED: &str = "the run cannot be sent a message: it is closed; start another run, of the same session if it has one";

#[tokio::test(start_paused = true)]
async fn it_waits_for_messages_until_it_is_closed() {
    for durable in [true, false] {
        let (store, clock) = (MemoryStore::new(), TestClock::new());
        let runtime = match durable {
            true => process(store.clone(), &clock),
            false => test_runtime().clock(clock.clone()).build(),
        };
        let run = echo().runtime(&runtime).start(live().timeout(Duration::from_secs(60))).unwrap();
        let answers = run.events().filter_map(async |event| match &event.kind {
            EventKind::ModelCompleted(response) => Some(response.text().into_owned()),
            _ => None,
        });
        let mut answers = std::pin::pin!(answers);
        assert_eq!(answers.next().await.unwrap(), "zero");
        for (message, answer) in [("one", "zero|one"), ("two", "zero|one|two")] {
            // The time limit does not run while the run waits.
            pass(3600).await;
            if durable {
                assert_eq!(status(&store).await, WAITS);
            }
            run.send_message(message).await.unwrap();
            if durable {
                assert_eq!(status(&store).await, (RunStatus::Running, None));
            }
            assert_eq!(answers.next().await.unwrap(), answer);
        }
        run.send_message("three").await.unwrap();
        run.close().await.unwrap();
        run.close().await.unwrap();
        refused(run.send_message("four").await, CLOSED);
        assert_eq!(run.result().await.unwrap().output(), "zero|one|two|three");
        run.close().await.unwrap();
        refused(run.send_message("four").await, OVER);
        check_events(&run.recorded()).unwrap();
    }
}

const OVER: &str = "the run cannot be sent a message: it is over (success); start another run, of the same session or with \
                    the conversation of this one";

#[tokio::test(start_paused = true)]
async fn it_survives_its_process() {
    let (store, clock) = (ProcessStore::new(), TestClock::new());
    let first = process(store.clone(), &clock);
    let run = first.start_agent("echo", live()).await.unwrap();
    pass(5).await;
    run.abandon();
    tokio::task::yield_now().await;
    store.die();
    assert_eq!(status(&store).await, WAITS);
    // The resumed run waits again.
    let second = process(store.process(2), &clock);
    let run = second.recover().await.unwrap().resumed.remove(0);
    pass(50).await;
    assert_eq!(status(&store).await, WAITS);
    // A message from another process.
    process(store.process(3), &clock).run(&id()).send_message("one").await.unwrap();
    pass(5).await;
    assert_eq!(status(&store).await, WAITS);
    run.abandon();
    tokio::task::yield_now().await;
    store.process(2).die();
    // A message to a run that no process executes puts the run into the queue.
    let third = process(store.process(3), &clock);
    third.run(&id()).send_message("two").await.unwrap();
    assert_eq!(status(&store).await, (RunStatus::Queued, None));
    third.run(&id()).close().await.unwrap();
    third.run(&id()).close().await.unwrap();
    refused(third.run(&id()).send_message("three").await, CLOSED);
    let run = third.run(&id()).resume().await.unwrap();
    assert_eq!(run.result().await.unwrap().decode::<String>().unwrap(), "zero|one|two");
    check_events(&journal(&store).await).unwrap();
    third.run(&id()).close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_drained_program_leaves_it_waiting() {
    let (store, clock) = (MemoryStore::new(), TestClock::new());
    let first = process(store.clone(), &clock);
    let _run = first.start_agent("echo", live()).await.unwrap();
    pass(5).await;
    first.drain(Duration::from_secs(10)).await;
    assert_eq!(status(&store).await, WAITS);
    let second = process(store.clone(), &clock);
    let run = second.recover().await.unwrap().resumed.remove(0);
    run.close().await.unwrap();
    assert_eq!(run.result().await.unwrap().decode::<String>().unwrap(), "zero");
}

#[tokio::test(start_paused = true)]
async fn its_idle_timeout_closes_it() {
    let hour = Duration::from_secs(3600);
    let (store, clock) = (MemoryStore::new(), TestClock::new());
    let runtime = process(store.clone(), &clock);
    let run = runtime.start_agent("echo", live().idle_timeout(hour)).await.unwrap();
    pass(1 + 3599).await;
    run.send_message("one").await.unwrap();
    pass(1 + 3598).await;
    assert_eq!(status(&store).await, WAITS);
    run.abandon();
    tokio::task::yield_now().await;
    // The idle timeout counts from the recorded event.
    pass(10).await;
    let run = process(store.clone(), &clock).recover().await.unwrap().resumed.remove(0);
    let began = tokio::time::Instant::now();
    assert_eq!(run.result().await.unwrap().decode::<String>().unwrap(), "zero|one");
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    let events = journal(&store).await;
    check_events(&events).unwrap();
    assert!(
        events.iter().any(|event| matches!(event.kind, EventKind::RunClosed { idle: true, .. }))
    );
}

#[tokio::test(start_paused = true)]
async fn an_operator_holds_it() {
    let (store, clock) = (MemoryStore::new(), TestClock::new());
    let runtime = process(store.clone(), &clock);
    let run =
        runtime.start_agent("echo", live().idle_timeout(Duration::from_secs(60))).await.unwrap();
    pass(5).await;
    refused(
        run.unpause().await,
        "the run cannot be unpaused: it is waiting for a message; send it one, or close it",
    );
    run.pause().await.unwrap();
    pass(600).await;
    assert_eq!(status(&store).await, (RunStatus::Paused, Some(PauseReason::Operator)));
    run.unpause().await.unwrap();
    pass(1).await;
    assert_eq!(status(&store).await, WAITS);
    run.pause().await.unwrap();
    run.send_message("one").await.unwrap();
    pass(10).await;
    assert_eq!(status(&store).await, (RunStatus::Paused, Some(PauseReason::Operator)));
    run.unpause().await.unwrap();
    pass(5).await;
    assert_eq!(status(&store).await, WAITS);
    run.cancel("user_cancelled").await.unwrap();
    assert!(
        matches!(run.result().await, Err(Error::Cancelled { reason }) if &*reason == "user_cancelled")
    );
    check_events(&journal(&store).await).unwrap();
    refused(run.close().await, "the run cannot be closed: it is over (cancelled)");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_not_live_is_not_closed() {
    let run = echo().start("zero").unwrap();
    let text = "the run cannot be closed: it is not a live run, and ends with its answer; cancel it to stop it before that";
    pass(0).await;
    refused(run.close().await, text);
    run.result().await.unwrap();
}

/// Checks that a run without a store ends when its last handle is dropped, since no caller could
/// send it a message.
#[tokio::test(start_paused = true)]
async fn in_memory_it_ends_with_its_last_handle() {
    let run = echo().start(RunRequest::new("zero").live()).unwrap();
    let mut events = run.events();
    pass(5).await;
    drop(run);
    let mut last = None;
    while let Some(event) = within("the next event", events.next()).await {
        last = Some(event);
    }
    assert!(matches!(last.unwrap().kind, EventKind::RunCancelled { .. }));
}

/// Checks that a live run without a handle ends with its answer, also within a step.
#[tokio::test(start_paused = true)]
async fn without_a_handle_it_ends_with_its_answer() {
    assert_eq!(echo().run(RunRequest::new("zero").live()).await.unwrap().output(), "zero");
    let cx = Context::detached();
    assert_eq!(echo().run_in(&cx, RunRequest::new("zero").live()).await.unwrap().output(), "zero");
    let nested = Workflow::<(u32,), String>::build("live_nested", ["n"], |b, (n,)| {
        b.node("ask", (n,), |cx, (_,)| async move {
            echo()
                .run_in(&cx, RunRequest::new("zero").live())
                .await
                .map(|answer| answer.output().to_owned())
        })
    });
    assert_eq!(nested.unwrap().run(&test_runtime().build(), 1).await.unwrap(), "zero");
}

#[tokio::test]
async fn the_catalogue_says_what_can_be_live() {
    let runtime = process(MemoryStore::new(), &TestClock::new());
    let catalogue = runtime.catalogue().snapshot().await;
    let entry = catalogue.entries().iter().find(|entry| &*entry.name == "echo").unwrap();
    assert!(entry.kind.supports_live());
    assert!(!EntryKind::Workflow.supports_live());
}

/// Resumes a long run from a snapshot, which replaces the events of its turns and keeps the
/// messages in its conversation.
#[tokio::test(start_paused = true)]
async fn a_long_one_is_resumed_from_a_snapshot() {
    let (store, clock) = (MemoryStore::new(), TestClock::new());
    let runtime = process(store.clone(), &clock);
    let run = runtime.start_agent("echo", live()).await.unwrap();
    let mut said = vec!["zero".to_owned()];
    for n in 0..240 {
        // Two of three messages are sent while the run waits.
        pass(u64::from(n % 3 > 0) * 5).await;
        run.send_message(format!("m{n}")).await.unwrap();
        said.push(format!("m{n}"));
    }
    pass(5).await;
    run.abandon();
    tokio::task::yield_now().await;
    let snapshot = store.snapshot(&id()).await.unwrap().expect("there are more than 1000 events");
    let waits = |event: &&Event| {
        matches!(event.kind, EventKind::RunPaused { .. } | EventKind::MessageReceived { .. })
    };
    assert!(snapshot.events.iter().filter(waits).count() < 3, "{:?}", snapshot.events);
    let run = process(store.clone(), &clock).recover().await.unwrap().resumed.remove(0);
    run.send_message("last").await.unwrap();
    run.close().await.unwrap();
    said.push("last".to_owned());
    assert_eq!(run.result().await.unwrap().decode::<String>().unwrap(), said.join("|"));
    check_events(&journal(&store).await).unwrap();
}

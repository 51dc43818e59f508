//! Forward compatibility of stored formats: a golden line for every kind of event, and the behavior
//! of an older release with events of a newer one. Such events are kept, shown and passed on
//! unchanged, but the run is not resumed.

use std::collections::BTreeSet;

use agentflow::event::EventKind;
use agentflow::store::{MemoryStore, RunFilter, RunStatus, SqliteStore, Store, StoreErrorKind};
use agentflow::{Agent, Error, Event, RunId, Runtime};
use agentflow_testing::{ScriptedModel, Turn, test_runtime};
use serde_json::{Value, json};

/// A line for each event kind and for each value of its enums, with all fields.
const KINDS: &str = include_str!("../../golden/event-kinds.jsonl");

/// An enum value that no release defines.
const WORD: &str = "of_another_release";

fn read(line: &str) -> Event {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

#[test]
fn every_kind_has_a_golden_line_that_is_read_and_written_the_same() {
    let mut seen = BTreeSet::new();
    for line in KINDS.lines() {
        let event = read(line);
        assert!(!matches!(event.kind, EventKind::Unknown(_)), "{line}");
        assert_eq!(serde_json::to_string(&event).unwrap(), line);
        seen.insert(event.name().to_owned());
    }
    let all: BTreeSet<String> =
        EventKind::shapes().iter().map(|shape| shape.name.to_owned()).collect();
    assert_eq!(seen, all, "`event-kinds.jsonl` has a line for each kind, with all of its fields");
}

/// A question that was recorded before questions had ids.
const WITHOUT_ID: &str = include_str!("../../golden/question-without-id.jsonl");

#[test]
fn a_question_that_has_no_id_gets_that_of_its_place() {
    let question = |event: &Event| match &event.kind {
        EventKind::ApprovalRequested(question) => question.id.to_string(),
        kind => panic!("{kind:?}"),
    };
    let event = read(WITHOUT_ID.trim());
    assert_eq!(question(&event), "00000019");
    // The id survives a round trip.
    assert_eq!(question(&read(&serde_json::to_string(&event).unwrap())), "00000019");
    let mut later: Value = serde_json::from_str(WITHOUT_ID).unwrap();
    later["seq"] = json!(26);
    assert_eq!(question(&read(&later.to_string())), "0000001a");
}

#[test]
fn a_field_of_a_newer_release_is_passed_over() {
    for line in KINDS.lines() {
        let mut newer: Value = serde_json::from_str(line).unwrap();
        newer[WORD] = json!([1]);
        if let Some(payload) = newer["payload"].as_object_mut() {
            payload.insert(WORD.to_owned(), json!({"a": 1}));
        }
        // The payload of an externally tagged enum has no room for additional keys.
        let is_one_of = ["run.completed", "model.delta"].contains(&newer["name"].as_str().unwrap());
        match is_one_of {
            true => assert!(serde_json::from_value::<Value>(newer).is_ok()),
            false => assert_eq!(read(&newer.to_string()).kind, read(line).kind, "{line}"),
        }
    }
}

/// Keys whose value is an enum.
const WORDS: [&str; 9] =
    ["status", "effects", "reason", "waiting", "role", "type", "stop_reason", "answer", "kind"];

/// Returns copies of the line that each replace one enum value or one variant key.
fn with_other_words(line: &Value) -> Vec<Value> {
    let mut all = Vec::new();
    let mut places = vec![String::from("/payload")];
    while let Some(place) = places.pop() {
        match line.pointer(&place) {
            Some(Value::Object(object)) => {
                for (key, value) in object {
                    let at = format!("{place}/{key}");
                    if WORDS.contains(&key.as_str()) && value.is_string() {
                        let mut other = line.clone();
                        *other.pointer_mut(&at).unwrap() = WORD.into();
                        all.push(other);
                    }
                    places.push(at);
                }
                if object.len() == 1
                    && object
                        .keys()
                        .any(|key| ["agent", "workflow", "text"].contains(&key.as_str()))
                {
                    let mut other = line.clone();
                    let value = object.values().next().unwrap().clone();
                    *other.pointer_mut(&place).unwrap() = json!({ WORD: value });
                    all.push(other);
                }
            }
            Some(Value::Array(list)) => {
                places.extend((0..list.len()).map(|at| format!("{place}/{at}")));
            }
            _ => {}
        }
    }
    all
}

#[test]
fn a_word_of_a_newer_release_is_kept_wherever_it_stands() {
    let mut replaced = BTreeSet::new();
    for line in KINDS.lines() {
        let known: Value = serde_json::from_str(line).unwrap();
        for newer in with_other_words(&known) {
            let event = read(&newer.to_string());
            assert_eq!(event.name(), known["name"].as_str().unwrap());
            assert_eq!(serde_json::to_value(&event).unwrap(), newer, "it is written as it was");
            assert!(event.line().to_string().contains(event.name()));
            assert!(event.id().starts_with("golden:"));
            replaced.insert((event.name().to_owned(), matches!(event.kind, EventKind::Unknown(_))));
        }
    }
    // These fields are free text: the kind of a failure, or a reason.
    for name in ["run.failed", "run.cancelled", "workflow.node.skipped"] {
        assert!(replaced.contains(&(name.to_owned(), false)), "{name}: {replaced:?}");
    }
    for name in [
        "run.started",
        "run.paused",
        "run.completed",
        "model.completed",
        "tool.started",
        "tool.failed",
    ] {
        assert!(replaced.contains(&(name.to_owned(), true)), "{name}: {replaced:?}");
    }
}

fn teller() -> Agent {
    Agent::new(ScriptedModel::from_fn(|_| Turn::text("Once."))).name("teller")
}

/// Builds the journal of an unfinished agent run, as a newer release may write it.
fn newer(run: &str) -> Vec<Event> {
    let lines = [
        json!({"name": "run.started", "path": "", "payload": {
            "version": 1, "body": {"agent": {"name": "teller", "input": [
                {"role": "user", "parts": [{"type": "text", "text": "Tell a story."}]}
            ]}}
        }}),
        json!({"name": "memory.recalled", "path": "memory#1", "payload": {"keys": ["a"], "score": 0.5}}),
        json!({"name": "model.started", "path": "model#1", "payload": {"provider": "script", "model": "scripted"}}),
    ];
    let event = |(at, mut line): (usize, Value)| {
        (line["run_id"], line["seq"], line["time"]) =
            (run.into(), (at + 1).into(), 1_767_225_600_000_u64.into());
        read(&line.to_string())
    };
    lines.into_iter().enumerate().map(event).collect()
}

async fn a_run_of_a_newer_release(store: impl Store + Clone) {
    let run = RunId::new("newer");
    let epoch = store.create(&run, newer("newer")).await.unwrap();
    store.close(&run, epoch).await.unwrap();
    let agent = teller();
    let runtime: Runtime = test_runtime().store(store.clone()).agent(&agent).build();

    // The run is listed, read, exported and inspected.
    let before = runtime.run(&run).journal().await.unwrap();
    assert_eq!(before, newer("newer"));
    let exported = serde_json::to_value(&before[1]).unwrap();
    assert_eq!(exported["name"], "memory.recalled");
    assert_eq!(exported["payload"], json!({"keys": ["a"], "score": 0.5}));
    assert_eq!(
        before[1].line().to_string(),
        "newer memory.recalled memory#1 of a newer release: \"{\\\"keys\\\":[\\\"a\\\"],\\\"score\\\":0.5}\""
    );
    assert_eq!(runtime.runs().list(RunFilter::unfinished()).await.unwrap().len(), 1);
    assert_eq!(runtime.run(&run).inspect().await.unwrap().run.events, 3);

    // The run is not resumed, and nothing is written.
    let error = runtime.run(&run).resume().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "event 2 of the run `newer`, `memory.recalled`, was recorded by a newer release and means something that this \
         one does not know, so the run is not resumed here; update agentflow, or cancel the run"
    );
    assert!(matches!(&error, Error::Store(error) if error.kind() == StoreErrorKind::NewerVersion));
    let recovered = runtime.recover().await.unwrap();
    assert_eq!((recovered.resumed.len(), recovered.left.len()), (0, 1));
    assert_eq!(runtime.run(&run).journal().await.unwrap(), before);

    // The run can be cancelled and deleted.
    runtime.run(&run).cancel("nobody waits any more").await.unwrap();
    assert_eq!(runtime.run(&run).record().await.unwrap().status, RunStatus::Cancelled);
    assert_eq!(runtime.run(&run).journal().await.unwrap()[1], before[1]);
    runtime.run(&run).delete().await.unwrap();
    assert!(runtime.runs().list(RunFilter::new()).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_run_of_a_newer_release_in_memory() {
    a_run_of_a_newer_release(MemoryStore::new()).await;
}

#[tokio::test]
async fn a_run_of_a_newer_release_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    a_run_of_a_newer_release(SqliteStore::open(folder.path().join("runs.db")).await.unwrap()).await;
}

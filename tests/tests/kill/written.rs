//! Kill test of one workflow, written as `#[workflow]`, with operators, and in three document
//! forms. The forms that are data have the same graph, all have the same journal apart from names,
//! and all have the same result wherever the process is killed.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use agentflow::event::EventKind;
use agentflow::store::{SqliteStore, Store};
use agentflow::{Event, RunId, serde_json};
use agentflow_testing::KillTest;
use serde_json::Value;

const WAYS: [&str; 5] = ["code", "operators", "tree", "tools", "graph"];

const RESULT: &str = r#""6 5 4 3 2 1 it!!!!!!""#;

/// Default number of kills.
const KILLS: usize = 10;
const ROUNDS: usize = 4;

fn command(way: &str, store: &Path, effects: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kill-written"));
    command.arg(way).arg(store).arg(effects);
    command
}

/// Reads the events of a run.
fn journal(store: &Path) -> Vec<Event> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = SqliteStore::open(store).await.unwrap();
        store.read(&RunId::new("run"), 0, usize::MAX).await.unwrap()
    })
}

/// Returns the kinds of events with their paths and the outputs of nodes.
fn steps(journal: &[Event]) -> Vec<String> {
    let output = |event: &Event| match &event.kind {
        EventKind::NodeCompleted { output, .. } => output.to_string(),
        _ => String::new(),
    };
    journal
        .iter()
        .map(|event| format!("{} {} {}", event.kind.name(), event.path, output(event)))
        .collect()
}

/// Returns the full events without times and without fields that differ in each run.
fn all(journal: &[Event]) -> Vec<Value> {
    fn without_times(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.retain(|name, _| {
                    !["time", "duration_ms", "trace_id"].contains(&name.as_str())
                });
                fields.values_mut().for_each(without_times);
            }
            Value::Array(items) => items.iter_mut().for_each(without_times),
            _ => {}
        }
    }
    let said = |event: &Event| {
        let mut said = serde_json::to_value(event).unwrap();
        without_times(&mut said);
        said
    };
    journal.iter().map(said).collect()
}

#[test]
fn one_workflow_has_one_journal_however_it_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let (mut journals, mut hashes) = (Vec::new(), Vec::new());
    for way in WAYS {
        let (store, effects) = (folder.path().join(format!("{way}.db")), folder.path().join(way));
        let output = command(way, &store, &effects).output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        let (result, hash) = printed.trim_end_matches('\n').rsplit_once(' ').unwrap();
        assert_eq!(result, RESULT, "{way}: {}", String::from_utf8_lossy(&output.stderr));
        hashes.push(hash.to_owned());
        journals.push(journal(&store));
    }
    assert!(journals[0].len() > 12, "{:#?}", journals[0]);
    for (way, (journal, hash)) in WAYS.iter().zip(journals.iter().zip(&hashes)).skip(1) {
        assert_eq!(steps(journal), steps(&journals[0]), "{way}");
        // The forms that are data also have the same names.
        assert_eq!(all(journal), all(&journals[1]), "{way}");
        assert_eq!((hash, hash.is_empty()), (&hashes[1], false), "{way}");
    }
}

/// `AGENTFLOW_WRITTEN_KILLS` sets the number of kills.
#[test]
#[allow(clippy::print_stderr, reason = "a test of chance says what it tried")]
fn one_workflow_has_one_result_however_it_is_written_and_killed() {
    let wanted = std::env::var("AGENTFLOW_WRITTEN_KILLS")
        .ok()
        .and_then(|kills| kills.parse().ok())
        .unwrap_or(KILLS);
    let folder = tempfile::tempdir().unwrap();
    let (mut kills, mut hashes) = (0, BTreeSet::new());
    for batch in 0..100 {
        for way in WAYS {
            let of = |round: usize, what: &str| {
                folder.path().join(format!("{way}.{batch}.{round}.{what}"))
            };
            let report =
                KillTest::new(|round| command(way, &of(round, "db"), &of(round, "effects")))
                    .rounds(ROUNDS)
                    .kills(2)
                    .check(|round| super::check(&of(round, "db"), &of(round, "effects")))
                    .run();
            let (result, hash) = report.output().trim_end_matches('\n').rsplit_once(' ').unwrap();
            assert_eq!(result, RESULT, "{way}");
            hashes.extend((way != "code").then(|| hash.to_owned()));
            kills += report.kills();
            eprintln!("{way}: {report}");
        }
        if kills >= wanted {
            assert_eq!(hashes.len(), 1, "{hashes:?}");
            eprintln!("{kills} processes were killed");
            return;
        }
    }
    panic!("only {kills} processes were killed in time");
}

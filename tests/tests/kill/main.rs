//! Kills real processes with SIGKILL at random moments and restarts them. The result is
//! the same each time, no finished step is repeated, and no effect happens twice without a recorded
//! decision.
//!
//! These tests have their own program because they keep the machine busy, which would break the
//! deadlines of other tests.

mod documents;
mod forms;
mod graph;
mod invariants;
mod kill_kit;
mod worker_program;
mod workers;
mod written;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use agentflow::event::EventKind;
use agentflow::store::{SqliteStore, Store};
use agentflow::{Event, RunId};
use agentflow_testing::{KillTest, check_events};

/// Required number of kills. Some attempts do not count because the process has already ended.
const KILLS: usize = 200;
const ROUNDS: usize = 60;

#[test]
fn a_process_is_killed_two_hundred_times() {
    let folder = tempfile::tempdir().unwrap();
    let store = |round: usize| folder.path().join(format!("{round}.db"));
    let effects = |round: usize| folder.path().join(format!("{round}.effects"));
    let (mut kills, mut reports) = (0, String::new());
    for batch in 0..40 {
        let report = KillTest::new(|round| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_kill-worker"));
            let round = batch * ROUNDS + round;
            command.arg(store(round)).arg(effects(round));
            command
        })
        .rounds(ROUNDS)
        .kills(2)
        .check(|round| check(&store(batch * ROUNDS + round), &effects(batch * ROUNDS + round)))
        .run();
        kills += report.kills();
        reports += &format!("\n{report}");
        if kills >= KILLS {
            return;
        }
    }
    panic!("only {kills} processes were killed in time: {reports}");
}

/// `AGENTFLOW_KILLS` sets the number of kills. A campaign reports its progress and continues after
/// a failure. `AGENTFLOW_KILL_KEEP` names a folder that keeps the files of failed rounds.
#[test]
fn hosts_and_operators_of_all_forms_are_killed() {
    forms::campaign();
}

fn check(store: &Path, effects: &Path) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let events = runtime.block_on(async {
        let store = SqliteStore::open(store).await.unwrap();
        store.read(&RunId::new("run"), 0, usize::MAX).await.unwrap()
    });
    check_events(&events).map_err(|problems| problems.to_string())?;
    finished_steps_are_not_repeated(&events)?;
    let done = std::fs::read_to_string(effects).unwrap();
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    done.lines().for_each(|line| *times.entry(line).or_default() += 1);
    for (effect, times) in times {
        let (what, path) = effect.split_once(' ').unwrap();
        // An idempotent tool may be called again with the same key.
        if what == "book" {
            continue;
        }
        let allowed = 1 + events.iter().filter(|event| is_retry_of(event, path)).count();
        if times > allowed {
            return Err(format!(
                "`{effect}` happened {times} times, and the journal allows {allowed}"
            ));
        }
    }
    Ok(())
}

/// Returns `true` if the event records that an operator retried the step.
fn is_retry_of(event: &Event, path: &str) -> bool {
    matches!(event.kind, EventKind::NodeReset { .. }) && path == event.path.to_string()
}

fn finished_steps_are_not_repeated(events: &[Event]) -> Result<(), String> {
    let mut done = std::collections::BTreeSet::new();
    for event in events {
        let path = event.path.to_string();
        match &event.kind {
            EventKind::NodeCompleted { .. }
            | EventKind::ToolCompleted { .. }
            | EventKind::ModelCompleted(_) => {
                done.insert(path);
            }
            EventKind::NodeStarted { .. }
            | EventKind::ToolStarted { .. }
            | EventKind::ModelStarted { .. }
                if done.contains(&path) =>
            {
                return Err(format!("`{path}` was done and began again"));
            }
            _ => {}
        }
    }
    Ok(())
}

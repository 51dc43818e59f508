//! Tests the kill test itself, with a real process that is killed at random moments and restarted.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use agentflow::event::EventKind;
use agentflow::{Event, serde_json};
use agentflow_testing::{KillTest, check_events};

fn counts(lines: impl Iterator<Item = String>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    lines.for_each(|line| *counts.entry(line).or_default() += 1);
    counts
}

#[test]
fn a_killed_process_is_started_again() {
    let folder = tempfile::tempdir().unwrap();
    let of_round = |round: usize| folder.path().join(round.to_string());
    let report = KillTest::new(|round| {
        fs::create_dir_all(of_round(round)).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_kill-host"));
        command.arg(of_round(round));
        command
    })
    .rounds(25)
    .kills(3)
    .check(|round| {
        let journal = fs::read_to_string(of_round(round).join("run.jsonl")).map_err(|error| error.to_string())?;
        let events: Vec<Event> =
            journal.lines().flat_map(|line| serde_json::from_str::<Vec<Event>>(line).unwrap()).collect();
        check_events(&events).map_err(|error| error.to_string())?;
        let starts = |event: &&Event| matches!(event.kind, EventKind::NodeStarted { .. });
        let started = counts(events.iter().filter(starts).map(|event| event.path.to_string()));
        let said =
            |event: &&Event| matches!(&event.kind, EventKind::NodeFailed { error, .. } if error.kind == "interrupted");
        let interrupted = counts(events.iter().filter(said).map(|event| event.path.to_string()));
        let effects = fs::read_to_string(of_round(round).join("effects")).map_err(|error| error.to_string())?;
        for (path, effects) in counts(effects.lines().map(ToOwned::to_owned)) {
            let most = match path.starts_with("pay") {
                true => 1 + interrupted.get(&path).copied().unwrap_or(0),
                false => started.get(&path).copied().unwrap_or(0),
            };
            if effects > most {
                return Err(format!("`{path}` had its effect {effects} times; the journal accounts for {most}"));
            }
        }
        Ok(())
    })
    .run();
    assert!(report.kills() > 0, "{report}");
    assert_eq!(report.output().lines().count(), 1, "{report}");
}

/// The very first process may read from a cold disk and take far longer than the later ones.
#[cfg(unix)]
#[test]
fn the_moments_follow_the_time_that_a_process_takes() {
    let report = KillTest::new(|round| {
        let mut command = Command::new("sh");
        command.args(["-c", if round == 0 { "sleep 3" } else { "sleep 0.02" }]);
        command
    })
    .rounds(30)
    .seed(1)
    .run();
    assert!(report.kills() > 5, "{report}");
}

/// The kill test itself must be able to fail.
#[cfg(unix)]
#[test]
fn what_fails_a_kill_test() {
    let shell = |script: &'static str| {
        move |round: usize| {
            let mut command = Command::new("sh");
            command.args(["-c", script]).env("ROUND", round.to_string());
            command
        }
    };
    let message = |script: &'static str| {
        let test = std::panic::AssertUnwindSafe(|| {
            KillTest::new(shell(script))
                .rounds(1)
                .kills(0)
                .seed(7)
                .limit(std::time::Duration::from_millis(500))
                .run()
        });
        *std::panic::catch_unwind(test).unwrap_err().downcast::<String>().unwrap()
    };
    assert!(
        message("echo $ROUND")
            .contains("round 1 of seed 7, without a kill: it printed something else")
    );
    assert!(
        message("echo oh >&2; exit 3").contains("the process ended with exit status: 3\n\noh\n")
    );
    assert!(message("exec sleep 9").contains("the process had no end after 500ms"));
}

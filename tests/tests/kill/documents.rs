//! Kill test of documents that are replaced. A killed run is completed with the version it started
//! with, and a new run uses the new version. No effect happens twice unless an operator retried the
//! step.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use agentflow::RunId;
use agentflow::event::EventKind;
use agentflow::store::{SqliteStore, Store};
use agentflow_testing::{KillTest, check_events};

/// Default number of kills.
const KILLS: usize = 12;
const ROUNDS: usize = 12;

/// `AGENTFLOW_DOCUMENT_KILLS` sets the number of kills.
#[test]
#[allow(clippy::print_stderr, reason = "a test of chance says what it tried")]
fn a_process_is_killed_and_its_documents_are_replaced() {
    let wanted = std::env::var("AGENTFLOW_DOCUMENT_KILLS")
        .ok()
        .and_then(|kills| kills.parse().ok())
        .unwrap_or(KILLS);
    let folder = tempfile::tempdir().unwrap();
    let of = |round: usize, what: &str| folder.path().join(format!("{round}.{what}"));
    let mut kills = 0;
    for batch in 0..100 {
        let round_of = |round: usize| batch * (ROUNDS + 1) + round;
        let report = KillTest::new(|round| {
            let round = round_of(round);
            let mut command = Command::new(env!("CARGO_BIN_EXE_kill-documents"));
            command.arg(of(round, "db")).arg(of(round, "effects")).arg(of(round, "documents"));
            command
        })
        .rounds(ROUNDS)
        .kills(2)
        .check(|round| {
            let round = round_of(round);
            check(&of(round, "db"), &of(round, "effects"))
        })
        .run();
        // Six nodes of the first version add 1 each. Five nodes of the second version add 100 each.
        assert_eq!(report.output().trim(), "6 500");
        kills += report.kills();
        eprintln!("{report}");
        if kills >= wanted {
            return;
        }
    }
    panic!("only {kills} processes were killed in time");
}

fn check(store: &Path, effects: &Path) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let done = std::fs::read_to_string(effects).map_err(|error| error.to_string())?;
    for (run, steps) in [("old", 6), ("new", 5)] {
        let events = runtime.block_on(async {
            let store = SqliteStore::open(store).await.unwrap();
            store.read(&RunId::new(run), 0, usize::MAX).await.unwrap()
        });
        check_events(&events).map_err(|problems| format!("{run}: {problems}"))?;
        super::finished_steps_are_not_repeated(&events)?;
        let mut times: BTreeMap<&str, usize> = BTreeMap::new();
        let of_run = done.lines().filter_map(|line| line.strip_prefix(&format!("add {run} ")));
        of_run
            .filter_map(|line| line.split(' ').next())
            .for_each(|path| *times.entry(path).or_default() += 1);
        if times.len() != steps {
            return Err(format!("{run}: {steps} steps, and not {times:?}"));
        }
        for (path, times) in times {
            let lets = |event: &&agentflow::Event| {
                matches!(event.kind, EventKind::NodeReset { .. })
                    && path.starts_with(&event.path.to_string())
            };
            let allowed = 1 + events.iter().filter(lets).count();
            if times > allowed {
                return Err(format!(
                    "{run}: `{path}` happened {times} times, and the journal allows {allowed}"
                ));
            }
        }
    }
    Ok(())
}

//! Kill test of a workflow that is data. The result is the same for every kill, and no effect
//! happens twice unless an operator retried the step.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use agentflow_testing::KillTest;

/// Default number of kills.
const KILLS: usize = 12;
const ROUNDS: usize = 12;

/// `AGENTFLOW_GRAPH_KILLS` sets the number of kills.
#[test]
#[allow(clippy::print_stderr, reason = "a test of chance says what it tried")]
fn a_process_that_executes_a_graph_is_killed() {
    let wanted = std::env::var("AGENTFLOW_GRAPH_KILLS")
        .ok()
        .and_then(|kills| kills.parse().ok())
        .unwrap_or(KILLS);
    let folder = tempfile::tempdir().unwrap();
    let store = |round: usize| folder.path().join(format!("{round}.db"));
    let effects = |round: usize| folder.path().join(format!("{round}.effects"));
    let mut kills = 0;
    for batch in 0..100 {
        let report = KillTest::new(|round| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_kill-graph"));
            let round = batch * (ROUNDS + 1) + round;
            command.arg(store(round)).arg(effects(round));
            command
        })
        .rounds(ROUNDS)
        .kills(2)
        .check(|round| {
            let round = batch * (ROUNDS + 1) + round;
            check(&store(round), &effects(round))
        })
        .run();
        let (problem, output) = report.output().split_once('\n').unwrap();
        let expected = "the workflow `order` cannot be built: the router `way` has no arm `expres`, which leads to \
                        `courier`; did you mean `express`?";
        assert_eq!(problem, expected);
        let receipt: serde_json::Value = serde_json::from_str(output).unwrap();
        assert_eq!(receipt["sent"], serde_json::json!(["by courier", "with a red ribbon", null]));
        assert_eq!((&receipt["price"], &receipt["words"]), (&400.into(), &"Thank you.".into()));
        kills += report.kills();
        eprintln!("{report}");
        if kills >= wanted {
            return;
        }
    }
    panic!("only {kills} processes were killed in time");
}

fn check(store: &Path, effects: &Path) -> Result<(), String> {
    // Calls of tools in nodes follow the same rules as in a workflow written in code.
    super::check(store, effects)?;
    let done = std::fs::read_to_string(effects).map_err(|error| error.to_string())?;
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    done.lines().for_each(|line| *times.entry(line).or_default() += 1);
    let of =
        |what: &str| times.iter().filter(|(line, _)| line.starts_with(what)).collect::<Vec<_>>();
    // The server of an idempotent tool deduplicates by key, so each key appears once even after
    // several calls.
    let reserved = of("reserve ");
    if reserved.len() != 3 || reserved.iter().any(|(_, times)| **times != 1) {
        return Err(format!("three reservations, each once, and not {reserved:?}"));
    }
    let shipped: Vec<&str> = of("ship ").iter().map(|(line, _)| **line).collect();
    if shipped != ["ship courier", "ship ribbon"] {
        return Err(format!(
            "by courier and with a ribbon, and nothing by letter, and not {shipped:?}"
        ));
    }
    Ok(())
}

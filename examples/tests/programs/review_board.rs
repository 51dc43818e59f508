//! The review board: as a program, offline, and with a process that ends at every write of its
//! journal.

#[path = "../../src/bin/review_board/board.rs"]
mod board;
#[path = "../../src/bin/review_board/stand_in.rs"]
mod stand_in;

use std::collections::BTreeMap;
use std::process::Command;

use agentflow::store::MemoryStore;
use agentflow_testing::{CrashTest, check_events, test_runtime};

use self::board::{Report, Specialist, review_board};

const CACHE: &str = "Cache the price list.";
const TODAY: &str = "Cache the price list today.";

/// Returns the report of a proposal, the number of artifacts by name, and the text of the report.
async fn reviewed(proposal: &str) -> (Report, BTreeMap<String, usize>, String) {
    let runtime = stand_in::scripted(test_runtime()).store(MemoryStore::new()).build();
    let run = runtime.start(review_board::workflow(), proposal.to_owned()).await.unwrap();
    let report = run.result().await.unwrap();
    check_events(&run.recorded()).unwrap();
    let handoffs =
        run.recorded().iter().filter(|event| event.kind.name() == "agent.handoff").count();
    // An unmet criterion leads to a handoff to the owner, who answers.
    assert_eq!(handoffs, usize::from(!report.unmet.is_empty()));
    let mut worked = BTreeMap::new();
    for artifact in runtime.run(run.run_id()).artifacts().await.unwrap() {
        *worked.entry(artifact.name.to_string()).or_default() += 1;
    }
    let text = runtime.run(run.run_id()).artifact("report.md", None).await.unwrap().unwrap();
    assert!(
        runtime
            .run(run.run_id())
            .state()
            .await
            .unwrap()
            .iter()
            .all(|(_, value)| value.to_string().contains("Unmet"))
    );
    (report, worked, text.text().unwrap().to_owned())
}

fn counts(of: &[(&str, usize)]) -> BTreeMap<String, usize> {
    of.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
}

#[tokio::test]
async fn what_failed_goes_back_until_the_criteria_are_met() {
    let (report, worked, text) = reviewed(CACHE).await;
    assert!(report.decision.accept, "{report:?}");
    assert_eq!(report.accepted.len(), 2);
    assert!(report.accepted.iter().all(|work| work.opinion.in_favour), "{report:?}");
    assert!(report.unmet.is_empty());
    assert_eq!(
        worked,
        counts(&[("opinion-research.txt", 2), ("opinion-coding.txt", 2), ("report.md", 1)])
    );
    assert_eq!(
        report.artifacts,
        ["opinion-research.txt v2", "opinion-coding.txt v2", "report.md v1"]
    );
    assert_eq!(
        text,
        "accepted: all criteria are met\n\n\
         ## research\n4 of 5 shops cache it. A counterexample would change my mind.\n\n\
         ## coding\nIt is 40 lines in 2 files. A third writer would change my mind.\n\n\
         ## remarks\ncoding: the list has 2 writers\n"
    );
}

#[tokio::test]
async fn what_no_round_reaches_is_in_the_report() {
    let (report, worked, _) = reviewed(TODAY).await;
    assert!(!report.decision.accept);
    assert_eq!(report.decision.why, "an opinion was not good enough");
    let unmet: Vec<_> =
        report.unmet.iter().map(|unmet| (unmet.by, &*unmet.criterion, &*unmet.why)).collect();
    let reason = "it says what would change its mind";
    assert_eq!(unmet, [(Specialist::Qa, reason, "it says nothing of that")]);
    // Accepted opinions are not requested again, and the number of rounds is limited.
    let expected = [
        ("opinion-research.txt", 2),
        ("opinion-qa.txt", 3),
        ("opinion-coding.txt", 2),
        ("report.md", 1),
    ];
    assert_eq!(worked, counts(&expected));
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_every_write_changes_nothing() {
    for proposal in [CACHE, TODAY] {
        let report = CrashTest::new(&review_board::workflow(), move || proposal.to_owned())
            .runtime(stand_in::scripted)
            .run()
            .await;
        assert!(report.crashes() > 50, "{report}");
    }
}

#[test]
fn the_program_prints_the_report_and_continues_with_a_stored_one() {
    let program = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_review_board"));
        let output = command.args(arguments).env_remove("AGENTFLOW_MODEL").output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("runs.db");
    for arguments in [&[][..], &["--store", store.to_str().unwrap()]] {
        let (code, stdout, stderr) = program(arguments);
        assert_eq!(code, Some(0), "{stderr}");
        assert!(stdout.starts_with("accepted: all criteria are met\n"), "{stdout}");
        assert!(
            stdout.ends_with(
                "made of: opinion-research.txt v2, opinion-coding.txt v2, report.md v1\n"
            ),
            "{stdout}"
        );
    }
    let (_, stdout, _) = program(&["--store", store.to_str().unwrap(), TODAY]);
    assert!(stdout.contains("not met by Qa: it says what would change its mind\n"), "{stdout}");
    for (arguments, problem) in [
        (&["--stor"][..], "there is no option --stor"),
        (&["--store"], "--store needs a file"),
        (&["a", "b"], "put the proposal into quotes"),
    ] {
        let (code, stdout, stderr) = program(arguments);
        assert_eq!((code, &*stdout), (Some(2), ""), "{stderr}");
        assert!(stderr.contains(problem), "{stderr}");
    }
}

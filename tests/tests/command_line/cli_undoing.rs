//! Compensation on the command line: while another process executes the run and waits for a person,
//! after that process has ended, and after the run.

use std::path::Path;

use crate::cli_workflows::{Other, Place, agentwf};

use agentflow_testing::wait_until;

/// Error for a retry in a run that is being compensated or was compensated.
const NO_RETRY: &str = "the node `found` cannot be retried: a run that undoes what it had done does not run again; start a new run";

const STOPPED: &str = "signed/tool#1.sign: the program stopped while `annul` waited for the answer to \
                       `signed/tool#1.sign/undo#1/tool#1.annul/approval`, and `annul` may not be called a second time; what \
                       it had undone before that question is unknown: find out";

const ASKED: &str = "signed/tool#1.sign/undo#1/tool#1.annul/approval";

/// Starts another process whose run compensates and waits for a person.
fn asked(place: &Place) -> Other {
    let (store, file) = (place.store(), place.path("flag"));
    let other = Other::start(agentwf(&["begin-deal", &store, "r", &file]));
    // The file appears before it is a valid store.
    wait_until("the question", || {
        let asks =
            || agentwf(&["runs", "questions", "--store", &store]).run().stdout.contains(ASKED);
        (Path::new(&store).exists() && asks()).then_some(())
    });
    other
}

/// Checks the error messages of these commands.
fn said(place: &Place, cases: &[(&[&str], &str)]) {
    let said: Vec<String> = cases.iter().map(|(command, _)| place.wrong(command)).collect();
    let expected: Vec<&str> = cases.iter().map(|(_, expected)| *expected).collect();
    assert_eq!(said, expected);
}

#[test]
fn while_another_process_undoes_and_waits_for_a_person() {
    let place = Place::new();
    let mut other = asked(&place);
    let listed = place.runs(&["list"]).stdout;
    assert!(listed.contains("compensating"), "{listed}");
    let shown = place.runs(&["show", "r"]).stdout;
    for line in [
        format!("undo: running     signed/tool#1.sign by annul, waits for the answer to {ASKED}"),
        "undo: owed        lent/tool#1.lend by take_back".to_owned(),
    ] {
        assert!(shown.contains(&line), "{line}\n{shown}");
    }
    let undoes = |what: &str| {
        let now = format!(
            "it is undoing what it had done, and ends after that; `{ASKED}` waits for an answer now"
        );
        format!("the run cannot be {what}: {now}")
    };
    let cancel = "the run cannot be cancelled: it is undoing what it had done already, and ends after that; cancel it again \
                  to give up the compensation that it waits for";
    let (answered, paused) = (undoes("answered"), undoes("paused"));
    said(
        &place,
        &[
            (&["retry", "r", "found"], NO_RETRY),
            (&["approve", "r", "found"], &answered),
            (&["approve", "r", "nobody"], &answered),
            (&["pause", "r"], &paused),
            (&["cancel", "r"], cancel),
        ],
    );
    place.runs(&["approve", "r", ASKED]);
    other.wait_for("there is no");
    let shown = place.runs(&["show", "r"]).stdout;
    assert!(shown.contains("undo: undone      signed/tool#1.sign by annul"), "{shown}");
    assert!(shown.contains("undo: undone      lent/tool#1.lend by take_back"), "{shown}");
    let over = |what: &str| format!("the run cannot be {what}: it is over (failed)");
    let (answered, cancelled) = (over("answered"), over("cancelled"));
    said(
        &place,
        &[
            (&["retry", "r", "found"], NO_RETRY),
            (&["approve", "r", ASKED], &answered),
            (&["cancel", "r"], &cancelled),
        ],
    );
}

#[test]
fn when_the_process_ended_while_it_waited() {
    let place = Place::new();
    drop(asked(&place));
    assert_eq!(place.status("r"), "compensating");
    let shown = place.runs(&["show", "r"]).stdout;
    let waits =
        format!("undo: running     signed/tool#1.sign by annul, waits for the answer to {ASKED}");
    assert!(shown.contains(&waits) && !shown.contains("executed by"), "{shown}");
    let answered = format!(
        "the run cannot be answered: it is undoing what it had done, and ends after that; `{ASKED}` waits for an answer now"
    );
    said(&place, &[(&["retry", "r", "found"], NO_RETRY), (&["approve", "r", "found"], &answered)]);
    let resumed = agentwf(&["runs", "resume", "r", "--store", &place.store()]).run();
    assert_eq!(resumed.code, Some(1), "{resumed:#?}");
    let (call, why) = STOPPED.split_once(": ").unwrap();
    assert!(resumed.stderr.contains(&format!("`{call}` ({why})")), "{}", resumed.stderr);
    let shown = place.runs(&["show", "r"]).stdout;
    assert!(shown.contains(&format!("undo: not undone  {call} by annul: {why}")), "{shown}");
    assert!(shown.contains("undo: undone      lent/tool#1.lend by take_back"), "{shown}");
}

#[test]
fn cancelling_a_run_that_nobody_executes_and_that_had_asked() {
    let place = Place::new();
    drop(asked(&place));
    let cancelled = agentwf(&["runs", "cancel", "r", "--store", &place.store()]).run();
    assert_eq!(cancelled.code, Some(1), "{cancelled:#?}");
    let over = "error: the run cannot be cancelled: it was over (failed) but for undoing what it had done, and that has \
                ended now";
    assert_eq!(
        cancelled.stderr.lines().collect::<Vec<_>>(),
        [format!("not undone: {STOPPED}").as_str(), over]
    );
    assert_eq!(place.status("r"), "failed");
}

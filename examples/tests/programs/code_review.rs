//! Runs the code review as a program, offline: its verdicts, its question, its store, and the
//! diagram on its page.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use agentflow_testing::wait_until;

/// The README must be short enough to be read completely.
#[test]
fn the_readme_stays_short() {
    let lines = fs::read_to_string(repository().join("README.md")).unwrap().lines().count();
    assert!(lines <= 150, "{lines} lines");
}

/// A temporary file, removed at the end of the test.
struct File {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl File {
    fn new(name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        Self { _folder: folder, path }
    }

    fn path(&self) -> &str {
        self.path.to_str().unwrap()
    }
}

/// Runs the program with text on standard input.
fn code_review(arguments: &[&str], typed: &str) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_code_review"))
        .args(arguments)
        .env_remove("AGENTFLOW_MODEL")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The program may end without reading its input.
    let _ = program.stdin.take().unwrap().write_all(typed.as_bytes());
    wait_until("the program to end", || program.try_wait().unwrap());
    program.wait_with_output().unwrap()
}

fn said(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

const NOTES: &str = "- src/payment.rs: what becomes of a negative amount?\n- tests/payment.rs: is the zero among the cases?\n";

#[test]
fn a_person_has_the_last_word() {
    for (arguments, typed, outcome) in [
        (&["--approve"][..], "", "merged: 2 files changed\n"),
        (&["--deny", "not on a Friday"], "", "not merged: 2 files changed: not on a Friday\n"),
        (&[], "yes\n", "merged: 2 files changed\n"),
        (&[], "too risky\n", "not merged: 2 files changed: too risky\n"),
    ] {
        let (code, stdout, stderr) = said(&code_review(arguments, typed));
        assert_eq!(
            (code, stdout),
            (Some(0), format!("{outcome}{NOTES}")),
            "{arguments:?}: {stderr}"
        );
        assert!(stderr.contains("issues: 1\n"), "{stderr}");
        assert!(stderr.contains("calls search_incidents {\"part\":\"payment\"}"), "{stderr}");
        assert!(
            stderr.contains("summary: \"a change to payments, 3 lines more and 1 less\""),
            "{stderr}"
        );
        assert!(stderr.contains("approval: {\"decision\":"), "{stderr}");
    }
}

#[test]
fn without_an_answer_nothing_is_done() {
    let (code, stdout, stderr) = said(&code_review(&[], ""));
    assert_eq!((code, stdout.as_str()), (Some(1), ""), "{stderr}");
    assert!(stderr.contains("nobody answered; use --approve or --deny"), "{stderr}");
}

#[test]
fn a_stored_review_waits_and_continues_without_asking_a_model_again() {
    let store = File::new("runs.db");
    for call in 0..2 {
        let (code, stdout, stderr) = said(&code_review(&["--store", store.path()], ""));
        assert_eq!((code, stdout.as_str()), (Some(0), ""), "{stderr}");
        assert!(stderr.contains("the review waits in"), "{stderr}");
        assert_eq!(stderr.contains("summary"), call == 0, "{stderr}");
    }
    let (code, stdout, stderr) = said(&code_review(&["--store", store.path(), "--approve"], ""));
    assert_eq!((code, stdout), (Some(0), format!("merged: 2 files changed\n{NOTES}")), "{stderr}");
    assert!(stderr.contains("\ncontinuing with the review"), "{stderr}");
    assert!(stderr.contains("merge: \"merged") && !stderr.contains("summary"), "{stderr}");
    // The previous run has ended, so this starts a new one.
    let (_, _, stderr) = said(&code_review(&["--store", store.path(), "--approve"], ""));
    assert!(stderr.contains("summary") && !stderr.contains("running"), "{stderr}");
}

#[test]
fn a_diff_of_ones_own() {
    let diff = File::new("change.diff");
    fs::write(&diff.path, "--- a/x.rs\n+++ b/x.rs\n+fn x() {}\n").unwrap();
    let (code, stdout, stderr) = said(&code_review(&["--approve", diff.path()], ""));
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(stdout, "merged: 1 files changed\n- x.rs: what becomes of a negative amount?\n");
    assert!(stderr.contains("issues: 0\n") && stderr.contains("\"level\":1"), "{stderr}");
}

#[test]
fn mistakes_are_reported() {
    let empty = File::new("empty.diff");
    fs::write(&empty.path, "nothing\n").unwrap();
    for (arguments, code, problem) in [
        (&["--aprove"][..], 2, "there is no option --aprove"),
        (&["--deny"], 2, "--deny needs a comment"),
        (&["--store"], 2, "--store needs a file"),
        (&["a", "b"], 2, "`b` is too much"),
        (&["nowhere.diff"], 1, "nowhere.diff: "),
        (&[empty.path()], 1, "there is no file in the diff"),
    ] {
        let (ended, stdout, stderr) = said(&code_review(arguments, ""));
        assert_eq!((ended, stdout.as_str()), (Some(code), ""), "{arguments:?}: {stderr}");
        assert!(stderr.contains(problem), "{arguments:?}: {stderr}");
    }
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

#[test]
fn the_page_shows_the_picture_of_this_workflow() {
    let page = fs::read_to_string(repository().join("examples/pages/code_review.md")).unwrap();
    let picture = said(&code_review(&["--graph"], "")).1;
    assert!(
        page.contains(&format!("```mermaid\n{picture}```\n")),
        "the picture of the page is not:\n{picture}"
    );
}

#[test]
fn the_readme_shows_this_workflow() {
    let readme = fs::read_to_string(repository().join("README.md")).unwrap();
    let source =
        fs::read_to_string(repository().join("examples/src/bin/code_review/flow.rs")).unwrap();
    let body = source.split("pub(crate) async fn review").nth(1).unwrap();
    let dense = |text: &str| -> String { text.split_whitespace().collect() };
    assert!(
        dense(&readme).contains(&format!("asyncfnreview{}", dense(body))),
        "the README's workflow is not:\n{body}"
    );
}

#[test]
fn the_message_in_the_readme_is_the_compilers() {
    let readme = fs::read_to_string(repository().join("README.md")).unwrap();
    let shown = readme
        .split("```text\nerror[E0277]")
        .nth(1)
        .and_then(|rest| rest.split("```").next())
        .unwrap();
    let told = fs::read_to_string(
        repository().join("tests/tests/ui/workflow_output_not_serializable.stderr"),
    )
    .unwrap();
    assert!(told.contains(shown.trim_end()), "the README's message is not:\n{told}");
}

//! Runs the fan-out research as a program, offline, in Rust and as a document. Both write the same
//! report, pages are fetched concurrently, and each citation is correct.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn program(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_web_research"))
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap()
}

/// Returns the report, and the message about concurrent fetches.
fn report(arguments: &[&str]) -> (String, String) {
    let folder = tempfile::tempdir().unwrap();
    let output = program(folder.path(), arguments);
    assert!(output.status.success(), "{output:?}");
    let text = fs::read_to_string(folder.path().join("report.md")).unwrap();
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        format!("report.md has {} bytes\n", text.len())
    );
    (text, String::from_utf8(output.stderr).unwrap())
}

#[test]
fn rust_and_the_document_give_one_report_of_pages_that_are_fetched_side_by_side() {
    let (of_rust, fetched) = report(&[]);
    assert_eq!(fetched, "3 pages were fetched, up to 3 at once\n");
    let (of_document, fetched) = report(&["--document"]);
    assert_eq!(fetched, "3 pages were fetched, up to 3 at once\n");
    assert_eq!(of_rust, of_document);
    assert!(of_rust.starts_with("# How do tides work?\n\n- "), "{of_rust}");
}

#[test]
fn each_citation_is_true() {
    let pages = include_str!("../../src/bin/web_research/web.rs");
    for question in ["How do tides work?", "What makes dough rise?"] {
        let (text, _) = report(&[question, "--store", "runs.db"]);
        let (notes, sources) = text.split_once("\n## Sources\n\n").unwrap();
        let notes: Vec<&str> = notes.lines().filter(|line| line.starts_with("- ")).collect();
        assert!(notes.len() >= 2 && notes.len() == sources.lines().count(), "{text}");
        for note in notes {
            let (said, number) = note.strip_prefix("- ").unwrap().rsplit_once(" [").unwrap();
            let number: usize = number.trim_end_matches(']').parse().unwrap();
            let source = sources.lines().nth(number - 1).unwrap();
            let url = source
                .strip_prefix(&format!("{number}. ["))
                .unwrap()
                .split_once("](")
                .unwrap()
                .1
                .trim_end_matches(')');
            // The sentence is on the page of its source.
            let page = pages
                .split(&format!("\"{url}\""))
                .nth(1)
                .unwrap()
                .split("https://")
                .next()
                .unwrap();
            assert!(page.contains(said), "{note}: {page}");
        }
    }
}

#[test]
fn what_is_nowhere_is_said_and_options_are_checked() {
    let (text, fetched) = report(&["Who painted the window?"]);
    assert_eq!(text, "# Who painted the window?\n\nNothing was found.\n");
    assert_eq!(fetched, "0 pages were fetched, up to 0 at once\n");
    let folder = tempfile::tempdir().unwrap();
    for (arguments, problem) in [
        (&["--stor"][..], "there is no option --stor"),
        (&["--store"], "--store needs a file"),
        (&["a", "b"], "`b` is too much"),
    ] {
        let output = program(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains(problem), "{output:?}");
    }
}

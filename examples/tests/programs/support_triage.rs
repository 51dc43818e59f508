//! Runs the sorting of letters as a program, offline: three letters, its diagram, and a letter that
//! waits for a person.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use agentflow_testing::wait_until;

fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_support_triage"));
    command.args(arguments).current_dir(folder).env_remove("AGENTFLOW_MODEL");
    command
}

fn program(folder: &Path, arguments: &[&str]) -> Output {
    command(folder, arguments).output().unwrap()
}

fn printed(folder: &Path, arguments: &[&str]) -> String {
    let output = program(folder, arguments);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn letters_are_sorted_and_answered() {
    let folder = tempfile::tempdir().unwrap();
    let said = printed(folder.path(), &[]);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 6, "{said}");
    assert!(lines[1].contains("ticket B-"), "{said}");
    assert!(lines[3].contains("ticket F-"), "{said}");
    assert!(lines[5].ends_with("We look into it: Do you ship to Norway?"), "{said}");
    let picture =
        printed(folder.path(), &["workflow", "show", "support_triage", "--format", "mermaid"]);
    assert!(picture.contains("create_ticket"), "{picture}");
}

#[test]
fn a_letter_that_nobody_is_sure_of_waits_for_a_person() {
    let folder = tempfile::tempdir().unwrap();
    let input = r#"{"input": "Hello there."}"#;
    let run = [
        "workflow",
        "run",
        "support_triage",
        "--input",
        input,
        "--store",
        "runs.db",
        "--run-id",
        "letter",
    ];
    let mut waits =
        command(folder.path(), &run).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let approve = ["runs", "approve", "letter", "gate", "--store", "runs.db", "--by", "ada"];
    // Answers the question as soon as it is asked.
    let asked = (0..600)
        .any(|_| program(folder.path(), &approve).status.success() || has_ended(&mut waits));
    assert!(asked, "nobody was asked");
    wait_until("the run to end", || waits.try_wait().unwrap());
    let answer = String::from_utf8(waits.wait_with_output().unwrap().stdout).unwrap();
    assert!(answer.contains("We look into it: Hello there."), "{answer}");
}

fn has_ended(child: &mut Child) -> bool {
    child.try_wait().unwrap().is_some()
}

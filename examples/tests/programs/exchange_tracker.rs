//! Runs the workflows of the example's documents as a program, offline. Also writes a document in
//! an empty folder, like a new user.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn program(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_exchange_tracker"));
    command.args(arguments).current_dir(folder).env_remove("AGENTFLOW_MODEL").output().unwrap()
}

fn printed(folder: &Path, arguments: &[&str]) -> String {
    let output = program(folder, arguments);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_rates_are_found_and_explained() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(
        printed(folder.path(), &[]),
        "\"Whoever travels gets 160.0 JPY and 1.25 USD for one unit.\"\n"
    );
    let input = r#"{"message": "How much is USD in EUR?"}"#;
    let run = ["workflow", "run", "exchange_tracker", "--input", input, "--store", "runs.db"];
    assert_eq!(printed(folder.path(), &run), "\"Whoever travels gets 0.8 EUR for one unit.\"\n");
    assert!(folder.path().join("runs.db").exists());
}

#[test]
fn a_report_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let run = ["workflow", "run", "research_report", "--input", r#"{"task": "Rust"}"#];
    assert_eq!(printed(folder.path(), &run), "61\n");
    let report = fs::read_to_string(folder.path().join("report.md")).unwrap();
    assert_eq!(report, "# Rust\n\n- Rust: what it is.\n- Rust: what people use it for.\n\n");
    let shown =
        printed(folder.path(), &["workflow", "show", "research_report", "--format", "dry-run"]);
    assert!(shown.contains("synthesize_notes"), "{shown}");
}

/// Five mistakes in a first document. Each is reported with its line and a fix.
#[test]
fn a_newcomers_document_is_corrected() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.yaml");
    let mistaken = "id: mine\nnode:\n  - id: rates\n    tool: exchange_rate\n";
    fs::write(&file, mistaken).unwrap();
    let errors = |text: &str| {
        fs::write(&file, text).unwrap();
        let output = program(folder.path(), &["workflow", "validate", "mine.yaml"]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let says = |text: &str, lines: &[&str]| {
        let errors = errors(text);
        for line in lines {
            assert!(errors.contains(line), "{line}\n{errors}");
        }
    };
    let none = "error: the document has none of the known forms; ";
    says(
        mistaken,
        &[none, "`node` belongs to none of them; did you mean `nodes`?", "mine.yaml:2:1"],
    );
    let named = mistaken.replace("node:", "nodes:");
    says(
        &named,
        &["has no tool `exchange_rate`; did you mean `exchange_rates`?", "mine.yaml:4:11"],
    );
    let right_tool = named.replace("exchange_rate", "exchange_rates");
    says(
        &right_tool,
        &["the tool `exchange_rates` needs `base`", "the tool `exchange_rates` needs `quotes`"],
    );
    let wrong_type = format!(
        "{right_tool}    args_template: {{base: \"{{from}}\", quotes: EUR, date: today}}\n"
    );
    says(&wrong_type, &["has no argument `date`", "mine.yaml:5:"]);
    let one_brace = wrong_type.replace(", date: today", "").replace("{from}", "{from");
    says(&one_brace, &["write `{{` for a brace", "mine.yaml:5:"]);
    let tabs = "id: mine\nnodes:\n\t- id: rates\n";
    says(
        tabs,
        &[
            "this line is indented with a tab, and YAML is indented with spaces; write spaces",
            "mine.yaml:3:1",
        ],
    );

    fs::write(&file, "id: mine\nnodes:\n  - id: rates\n    tool: exchange_rates\n    args_template: {base: '{from}', quotes: [EUR]}\n").unwrap();
    let run =
        ["workflow", "run", "mine", "--document", "mine.yaml", "--input", r#"{"from": "USD"}"#];
    assert_eq!(printed(folder.path(), &run), "{\"EUR\":0.8}\n");
}

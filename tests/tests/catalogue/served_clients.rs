//! A program that serves its tools, used by third-party clients that are installed for these tests.

use std::process::Command;

use agentflow::serde_json::{self, Value};
use agentflow_tests::{Process, mcp_inspector, mcp_python};

const HOST: &str = env!("CARGO_BIN_EXE_agentwf-host");

/// Runs a client to its end and returns its output.
fn succeeds(mut client: Command) -> String {
    let ended = client.output().unwrap();
    let (said, problem) =
        (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success(), "{client:?}\n{said}\n{problem}");
    said.into_owned()
}

#[test]
fn the_official_python_client_uses_it_in_both_eras() {
    let Some(python) = mcp_python() else { return };
    let mut client = python.command();
    client.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/catalogue/served_client.py"));
    client.args([HOST, "mcp", "serve", "--workflow", "quick"]);
    let said = succeeds(client);
    let modes: Vec<&str> = said.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(modes, ["legacy", "auto", "2026-07-28"]);
}

/// Lists a server's tools with the official inspector. Its settings go to a temporary folder.
fn inspected(target: &[&str]) -> Option<String> {
    let mut inspector = mcp_inspector()?;
    let home = tempfile::tempdir().unwrap();
    inspector.env("HOME", home.path()).args(target).args(["--method", "tools/list", "--strict"]);
    let ended = inspector.output().unwrap();
    let (said, notes) =
        (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success() && notes.contains("0 errors"), "{said}\n{notes}");
    Some(said.into_owned())
}

#[test]
fn the_official_inspector_finds_no_error_in_the_tools() {
    let Some(said) = inspected(&[HOST, "mcp", "serve", "--workflow", "quick"]) else { return };
    let listed: Value = serde_json::from_str(&said).unwrap();
    let names: Vec<&str> = listed["tools"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|tool| tool["name"].as_str())
        .collect();
    assert!(names.contains(&"add") && names.contains(&"quick"), "{names:?}");

    let mut command = Command::new(HOST);
    command.args(["mcp", "serve", "--workflow", "quick", "--http", "127.0.0.1:0"]);
    let mut server = Process::start(&mut command).unwrap();
    let url = server.wait_until("its address", |process| {
        process
            .output()
            .lines()
            .find_map(|line| line.strip_prefix("listening on ").map(str::to_owned))
    });
    assert_eq!(inspected(&[&url]), Some(said));
}

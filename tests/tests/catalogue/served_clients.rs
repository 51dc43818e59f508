//! A program that serves its tools, used by clients of others, each installed for these tests.

use std::process::Command;

use agentflow_tests::mcp_python;

const HOST: &str = env!("CARGO_BIN_EXE_agentwf-host");

/// Runs a client to its end.
fn succeeds(mut client: Command) -> String {
    let ended = client.output().unwrap();
    let (said, problem) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
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

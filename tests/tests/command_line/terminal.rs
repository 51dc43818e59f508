//! `agentwf chat` on a terminal: a person interrupts it, another process answers its question, and
//! its terminal is closed.
//!
//! The terminal is a pseudo-terminal of Python's `pty`. Without Python the test is skipped.

use std::process::Command;

#[test]
#[cfg(unix)]
#[allow(clippy::print_stderr, reason = "a test that is skipped says so")]
fn a_person_at_a_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/command_line/terminal_chat.py");
    let ended = Command::new("python3")
        .args([script, env!("CARGO_BIN_EXE_agentwf-host")])
        .arg(folder.path())
        .output();
    let ended = match ended {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("skipped: there is no python3, whose pseudo-terminals this needs");
            return;
        }
        ended => ended.unwrap(),
    };
    let (out, err) =
        (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success(), "{out}{err}");
    assert_eq!(out.lines().count(), 3, "{out}");
}

//! Runs the coding agent as a program, offline: it repairs the program, and forbidden calls are
//! refused.

#![cfg(unix)]

use std::process::Command;

#[test]
fn it_repairs_the_folder_and_reaches_nothing_else() {
    let output = Command::new(env!("CARGO_BIN_EXE_coding_agent")).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    let answers: Vec<&str> = said.lines().filter(|line| line.starts_with("  ")).collect();
    assert_eq!(answers.len(), 9, "{said}");
    assert!(answers[0].contains(r#"["src/sum.sh","tests/all.sh"]"#), "{said}");
    assert!(answers[2].contains(r#""output":"failed: 2 + 3 is -1\n""#), "{said}");
    assert!(answers[3].contains("`../secret` leads out of the storage"), "{said}");
    assert!(
        answers[4]
            .contains("`tests/all.sh` may not be written; files may be written below `src` alone"),
        "{said}"
    );
    assert!(answers[5].contains("`$1 * $2` is not in `src/sum.sh` exactly once"), "{said}");
    assert!(answers[3..6].iter().all(|line| !line.starts_with("  success")), "{said}");
    assert!(answers[7].contains(r#""output":"ok: 2 + 3\n""#), "{said}");
    assert!(answers[8].contains("src/sum.sh: 1 removed, 1 added"), "{said}");
    assert!(said.contains("the tests pass."), "{said}");
    // The tests ran twice. The call of an unknown program saved no artifact.
    assert!(said.contains("kept: tests.json (version 2, application/json"), "{said}");
    assert!(!said.contains("(version 3"), "{said}");
}

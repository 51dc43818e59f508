//! Runs the example with external code as a program, offline: the node is retried with the same
//! key, and not called again by the process that resumes the run.

use std::process::Command;

#[test]
fn foreign_code_is_retried_under_one_key_and_not_repeated() {
    let output = Command::new(env!("CARGO_BIN_EXE_opaque")).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        "the first process: 2 calls, 1 entries\n\
         the second process: Thank you for the tea.\n\
         in the end: 2 calls, 1 entries\n"
    );
}

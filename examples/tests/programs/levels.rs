//! Runs the levels as a program, offline: all of them, one of them, and a level that does not
//! exist.

use std::process::{Command, Output};

fn levels(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_levels")).args(arguments).output().unwrap()
}

#[test]
fn each_level_says_its_line() {
    let output = levels(&[]);
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(
        lines,
        [
            "level 0: Oslo.",
            "level 1: In Oslo it is 4 degrees.",
            "level 2: a coat with an umbrella",
            "level 3: You take the 8:05 to Bergen and the Grand in Bergen.",
            "level 4: paid 700 cents",
            "level 5: GOOD MORNING.",
        ]
    );
}

#[test]
fn a_level_runs_alone() {
    let output = levels(&["4"]);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "level 4: paid 700 cents\n");
    let output = levels(&["6"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("from 0 to 5"));
}

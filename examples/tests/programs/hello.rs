//! Runs the first program of the README: the texts are equal, and without a key the program
//! explains how to set one.

use std::process::Command;

/// Removes white space, because the README's formatting is denser than rustfmt's.
fn dense(program: &str) -> String {
    program.split_whitespace().collect()
}

#[test]
fn it_is_the_program_of_the_readme() {
    let readme = include_str!("../../../README.md");
    let program = dense(include_str!("../../src/bin/hello.rs"));
    assert!(dense(readme).contains(&program), "README.md and examples/src/bin/hello.rs differ");
}

#[test]
fn without_a_key_it_says_which_variable_to_set() {
    let output = Command::new(env!("CARGO_BIN_EXE_hello"))
        .env_remove("OPENAI_API_KEY")
        .env_remove("OPENAI_BASE_URL")
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(errors.contains("OPENAI_API_KEY"), "{errors}");
    assert!(output.stdout.is_empty());
}

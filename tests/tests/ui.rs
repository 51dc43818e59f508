//! The compiler's messages about each mistake with our macros; see `ui/README.md`.
//!
//! Compilers word them differently, so the test compares under the minor version that the `.stderr` files were blessed
//! with, and says `skipped` under any other. `AGENTFLOW_UI=1` compares all the same.
//!
//! A program of its own, since it runs cargo in the project's target folder for minutes.

use std::env;
use std::process::Command;

use agentflow_tests::skipped;

/// The minor version of the compiler whose messages are in the `.stderr` files.
const BLESSED: &str = "1.95";

#[test]
fn ui() {
    let version = rustc_version();
    if version.starts_with(&format!("{BLESSED}.")) || env::var_os("AGENTFLOW_UI").is_some() {
        trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
    } else {
        skipped(format_args!("blessed with rustc {BLESSED}, this is {version}; AGENTFLOW_UI=1 compares all the same"));
    }
}

/// `1.95.0`, of the compiler that cargo uses for the programs that the test has compiled.
fn rustc_version() -> String {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("--version").output().expect("there is a rustc");
    let text = String::from_utf8(output.stdout).expect("a version is text");
    text.split_whitespace().nth(1).expect("`rustc VERSION`").to_owned()
}

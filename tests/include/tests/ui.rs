//! The compiler's messages about each mistake with a document in the program.
//!
//! Compilers word them differently, so the test compares under the minor version that the `.stderr` files were blessed
//! with, and says `skipped` under any other. `AGENTFLOW_UI=1` compares all the same.
//!
//! A program of its own, since it runs cargo in the project's target folder for minutes. It does not depend on the package
//! of the other tests, with which cargo would compile all features once more.

use std::io::Write;

#[path = "../../src/blessed.rs"]
#[allow(unreachable_pub, reason = "it is public in the package that it stands in")]
mod blessed;

/// As the other tests say it.
fn skipped(why: impl std::fmt::Display) {
    assert!(std::env::var_os("AGENTFLOW_NO_SKIP").is_none(), "skipped although AGENTFLOW_NO_SKIP is set: {why}");
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

#[test]
fn ui() {
    if blessed::words_are_blessed() {
        trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
    }
}

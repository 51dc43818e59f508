//! Compares the compiler's messages for each mistake in an included document.
//!
//! The messages differ between compiler versions. The test compares them only under the minor
//! version that wrote the `.stderr` files, and prints `skipped` under other versions.
//! `AGENTFLOW_UI=1` forces the comparison.
//!
//! This is a separate test program because it runs cargo in the project's target folder for
//! minutes. It does not depend on the package of the other tests, since cargo would then compile
//! all features once more.

use std::io::Write;

#[path = "../../src/blessed.rs"]
#[allow(unreachable_pub, reason = "it is public in the package that it stands in")]
mod blessed;

/// Prints the reason for skipping the test. Panics if `AGENTFLOW_NO_SKIP` is set.
fn skipped(why: impl std::fmt::Display) {
    assert!(
        std::env::var_os("AGENTFLOW_NO_SKIP").is_none(),
        "skipped although AGENTFLOW_NO_SKIP is set: {why}"
    );
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

#[test]
fn ui() {
    if blessed::words_are_blessed() {
        trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
    }
}

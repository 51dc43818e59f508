//! Compares the compiler's messages for each mistake with the macros; see `ui/README.md`.
//!
//! The messages differ between compiler versions. The test compares them only under the minor
//! version that wrote the `.stderr` files, and prints `skipped` under other versions.
//! `AGENTFLOW_UI=1` forces the comparison.
//!
//! This is a separate test program, since it runs cargo in the project's target folder for minutes.

use agentflow_tests::words_are_blessed;

#[test]
fn ui() {
    if words_are_blessed() {
        trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
    }
}

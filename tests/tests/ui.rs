//! The compiler's messages about each mistake with our macros; see `ui/README.md`.
//!
//! Compilers word them differently, so the test compares under the minor version that the `.stderr` files were blessed
//! with, and says `skipped` under any other. `AGENTFLOW_UI=1` compares all the same.
//!
//! A program of its own, since it runs cargo in the project's target folder for minutes.

use agentflow_tests::words_are_blessed;

#[test]
fn ui() {
    if words_are_blessed() {
        trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
    }
}

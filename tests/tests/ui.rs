//! What the compiler says about each mistake with our macros; see `ui/README.md`.

use std::process::Command;

/// The compiler whose words are in the `.stderr` files.
const RUSTC: &str = "rustc 1.95.";

#[test]
#[allow(clippy::print_stderr, reason = "a test that is skipped says so")]
fn ui() {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc).arg("--version").output().expect("there is a rustc");
    let version = String::from_utf8_lossy(&version.stdout).into_owned();
    if !version.starts_with(RUSTC) {
        eprintln!("skipped: the messages are those of {RUSTC}x, and this is {}", version.trim());
        return;
    }
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}

//! Compares the compiler with the version that produced the expected messages of the ui tests.

use std::env;
use std::process::Command;

use crate::skipped;

/// Minor version of the compiler that produced the `.stderr` files.
const BLESSED: &str = "1.95";

/// Returns `true` if this compiler's messages match the `.stderr` files. Otherwise prints
/// `skipped`.
///
/// # Panics
/// Without a compiler.
pub fn words_are_blessed() -> bool {
    let version = rustc_version();
    if version.starts_with(&format!("{BLESSED}.")) || env::var_os("AGENTFLOW_UI").is_some() {
        return true;
    }
    skipped(format_args!(
        "blessed with rustc {BLESSED}, this is {version}; AGENTFLOW_UI=1 compares all the same"
    ));
    false
}

/// Returns the version of cargo's compiler, such as `1.95.0`.
fn rustc_version() -> String {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("--version").output().expect("there is a rustc");
    let text = String::from_utf8(output.stdout).expect("a version is text");
    text.split_whitespace().nth(1).expect("`rustc VERSION`").to_owned()
}

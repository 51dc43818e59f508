//! Which compiler the blessed messages of the ui tests are from. It compares none.

use std::env;
use std::process::Command;

use crate::skipped;

/// The minor version of the compiler whose messages are in the `.stderr` files.
const BLESSED: &str = "1.95";

/// Whether this compiler words its messages as the `.stderr` files have them; says `skipped` where it does not.
///
/// # Panics
/// Without a compiler.
pub fn words_are_blessed() -> bool {
    let version = rustc_version();
    if version.starts_with(&format!("{BLESSED}.")) || env::var_os("AGENTFLOW_UI").is_some() {
        return true;
    }
    skipped(format_args!("blessed with rustc {BLESSED}, this is {version}; AGENTFLOW_UI=1 compares all the same"));
    false
}

/// `1.95.0`, of the compiler that cargo uses for the programs that the test has compiled.
fn rustc_version() -> String {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("--version").output().expect("there is a rustc");
    let text = String::from_utf8(output.stdout).expect("a version is text");
    text.split_whitespace().nth(1).expect("`rustc VERSION`").to_owned()
}

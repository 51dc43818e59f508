//! The command line with the tools of `tests/graphs/called_tools.rs`, which `every_caller.rs` calls by their names.

use std::process::ExitCode;

#[path = "../../tests/graphs/called_tools.rs"]
#[allow(dead_code, unreachable_pub, missing_docs, reason = "it is written for a test program")]
mod called_tools;

fn main() -> ExitCode {
    agentflow::cli::run()
}

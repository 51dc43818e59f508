//! The command line, linked with the tools of `tests/graphs/called_tools.rs`. `every_caller.rs`
//! calls them by name.

use std::process::ExitCode;

#[path = "../../tests/graphs/called_tools.rs"]
#[allow(dead_code, unreachable_pub, missing_docs, reason = "it is written for a test program")]
mod called_tools;

fn main() -> ExitCode {
    agentflow::cli::run()
}

//! The binary `agentwf`: the command line of `cli/` without tools of a host, and with those of the library that change nothing.
//! It holds no logic.

use agentflow::tools::{HttpRequest, condition, transform};

fn main() -> std::process::ExitCode {
    let runtime = agentflow::Runtime::builder();
    let runtime = runtime.tools(condition()).tools(transform()).tools(HttpRequest::new().tool());
    agentflow::cli::run_from(runtime)
}

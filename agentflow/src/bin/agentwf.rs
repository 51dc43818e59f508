//! The binary `agentwf`: the command line of `cli/` with those built-in tools that only read data.
//! A configuration can add more tools.

use agentflow::tools::{HttpRequest, condition, transform};

fn main() -> std::process::ExitCode {
    let runtime = agentflow::Runtime::builder();
    let runtime = runtime.tools(condition()).tools(transform()).tools(HttpRequest::new().tool());
    agentflow::cli::run_from(runtime)
}

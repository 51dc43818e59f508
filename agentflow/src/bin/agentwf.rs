//! The binary `agentwf`: the command line of `cli/` without tools of a host, with tools of the library that only
//! read. A configuration gives it more. It holds no logic.

use agentflow::tools::{HttpRequest, condition, transform};

fn main() -> std::process::ExitCode {
    let runtime = agentflow::Runtime::builder();
    let runtime = runtime.tools(condition()).tools(transform()).tools(HttpRequest::new().tool());
    agentflow::cli::run_from(runtime)
}

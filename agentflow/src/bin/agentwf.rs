//! The binary `agentwf`: the command line of `cli/` without tools of a host. It holds no logic.

fn main() -> std::process::ExitCode {
    agentflow::cli::run()
}

//! The command line without tools of a host's own. It holds no logic.

fn main() -> std::process::ExitCode {
    agentflow::cli::run()
}

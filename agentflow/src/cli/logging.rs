//! Shows the logs of the command line on standard error. The library writes them with `tracing`; this module sets their levels
//! and their format.

use clap::{Args, ValueEnum};
use tracing_subscriber::EnvFilter;

use super::print::Stop;

/// Which logs are shown.
#[derive(Debug, Args)]
pub(super) struct LogArgs {
    /// Show warnings; -vv also information, -vvv also debug messages. RUST_LOG selects levels in detail
    #[arg(short, long, action = clap::ArgAction::Count, global = true)]
    verbose: u8,
    /// The format of logs
    #[arg(long, value_name = "FORM", global = true, default_value = "text")]
    log_format: LogFormat,
}

/// The format of a log line.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum LogFormat {
    /// A line of text.
    Text,
    /// A JSON object in a line, with the fields of the enclosing spans, such as the run.
    Json,
}

/// Shows logs on standard error, with the levels of the variable `RUST_LOG`, or else of the options. Without either, no logs
/// are shown. A subscriber that the program has installed is kept.
pub(super) fn install(args: &LogArgs) -> Result<(), Stop> {
    let by_option = match args.verbose {
        0 => None,
        1 => Some("warn"),
        2 => Some("info,agentflow=info"),
        _ => Some("info,agentflow=debug"),
    };
    let variable = std::env::var("RUST_LOG").ok().filter(|directives| !directives.is_empty());
    let Some(directives) = variable.as_deref().or(by_option) else { return Ok(()) };
    let filter = EnvFilter::builder().parse(directives).map_err(|error| {
        Stop::failed(
            "logs",
            format!("RUST_LOG is not a list of levels: {error}; write `info` or `agentflow=debug,warn`"),
        )
    })?;
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false);
    // It fails if the program has a subscriber already, which then shows the logs.
    let _ = match args.log_format {
        LogFormat::Text => logs.try_init(),
        LogFormat::Json => logs.json().try_init(),
    };
    Ok(())
}

//! Shows the logs of the command line on standard error. The library writes them with `tracing`; this module sets their levels
//! and their format.

use clap::{Args, ValueEnum};
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, filter::FilterExt as _};

use super::print::Stop;

/// The field of spans that has the id of their run.
const RUN: &str = "agentflow.run.id";

/// Which logs are shown.
#[derive(Debug, Args)]
pub(super) struct LogArgs {
    /// Show warnings; -vv also information, -vvv also debug messages. RUST_LOG selects levels in detail
    #[arg(short, long, action = clap::ArgAction::Count, global = true)]
    verbose: u8,
    /// The format of logs
    #[arg(long, value_name = "FORM", global = true, default_value = "text")]
    log_format: LogFormat,
    /// Show the logs of one run alone, by its id; without -v or RUST_LOG also information
    #[arg(long, value_name = "RUN", global = true)]
    log_run: Option<String>,
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
        0 => args.log_run.as_ref().map(|_| "info,agentflow=info"),
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
    let of_run = args.log_run.as_deref().map(of_run).transpose()?;
    // With all details, also how long each step, model call and tool call took. A filter by run sees the fields of a span too
    // late to leave out its end.
    let spans = if args.verbose >= 3 && args.log_run.is_none() { FmtSpan::CLOSE } else { FmtSpan::NONE };
    let logs = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(false).with_span_events(spans);
    let logs = match args.log_format {
        LogFormat::Text => logs.boxed(),
        LogFormat::Json => logs.json().boxed(),
    };
    let logs = match of_run {
        Some(of_run) => logs.with_filter(filter.and(of_run)).boxed(),
        None => logs.with_filter(filter).boxed(),
    };
    // It fails if the program has a subscriber already, which then shows the logs.
    let _ = tracing_subscriber::registry().with(logs).try_init();
    Ok(())
}

/// Shows the logs within the spans of a run.
fn of_run(run: &str) -> Result<EnvFilter, Stop> {
    let unusable = || Stop::failed("logs", format!("`{run}` cannot be the id of a run; write --log-run ID"));
    if run.contains(['"', '\\', '{', '}', '[', ']', ',', '=']) {
        return Err(unusable());
    }
    // Without regular expressions a text is compared as `Debug` writes it.
    let directive = format!("[{{{RUN}=\"{run}\"}}]=trace");
    EnvFilter::builder().with_regex(false).parse(directive).map_err(|_| unusable())
}

//! Shows logs on standard error. The library writes them with `tracing`; this module sets levels
//! and format.

use clap::{Args, ValueEnum};
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, filter::FilterExt as _};

use super::print::Stop;

/// Span field with the id of the run.
const RUN: &str = "agentflow.run.id";

/// Options for logs.
#[derive(Debug, Args)]
pub(super) struct LogArgs {
    /// Show warnings; -vv adds information, -vvv adds debug messages. RUST_LOG selects levels in
    /// detail
    #[arg(short, long, action = clap::ArgAction::Count, global = true)]
    verbose: u8,
    /// The format of logs
    #[arg(long, value_name = "FORM", global = true, default_value = "text")]
    log_format: LogFormat,
    /// Show only the logs of the run with this id; without -v or RUST_LOG, includes information
    #[arg(long, value_name = "RUN", global = true)]
    log_run: Option<String>,
}

/// Format of logs.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum LogFormat {
    /// A line of text.
    Text,
    /// A JSON object in a line, with the fields of the enclosing spans, such as the run.
    Json,
}

/// Shows logs on standard error. Levels come from the variable `RUST_LOG`, or else from the
/// options. Without either, no logs are shown. A subscriber that the program has installed is kept.
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
            format!(
                "RUST_LOG is not a list of levels: {error}; write `info` or `agentflow=debug,warn`"
            ),
        )
    })?;
    let of_run = args.log_run.as_deref().map(of_run).transpose()?;
    // At the most detailed level, also show how long each step, model call and tool call took. A
    // filter by run cannot do this: it evaluates the fields of a span too late to filter the close
    // event.
    let spans =
        if args.verbose >= 3 && args.log_run.is_none() { FmtSpan::CLOSE } else { FmtSpan::NONE };
    let logs = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_span_events(spans);
    let logs = match args.log_format {
        LogFormat::Text => logs.boxed(),
        LogFormat::Json => logs.json().boxed(),
    };
    let logs = match of_run {
        Some(of_run) => logs.with_filter(filter.and(of_run)).boxed(),
        None => logs.with_filter(filter).boxed(),
    };
    // Fails if the program has already installed a subscriber, which then shows the logs.
    let _ = tracing_subscriber::registry().with(logs).try_init();
    Ok(())
}

/// Creates a filter for the spans of one run.
fn of_run(run: &str) -> Result<EnvFilter, Stop> {
    let unusable =
        || Stop::failed("logs", format!("`{run}` cannot be the id of a run; write --log-run ID"));
    if run.contains(['"', '\\', '{', '}', '[', ']', ',', '=']) {
        return Err(unusable());
    }
    // Without regular expressions, the filter compares the value with its `Debug` output.
    let directive = format!("[{{{RUN}=\"{run}\"}}]=trace");
    EnvFilter::builder().with_regex(false).parse(directive).map_err(|_| unusable())
}

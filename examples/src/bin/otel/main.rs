//! Runs an agent and prints its OpenTelemetry spans and metrics.
//!
//! `otel [CITY]`; `AGENTFLOW_MODEL` names the model, without it a stand-in answers. With
//! `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true` the spans hold the messages.

mod agent;
mod print;
mod telemetry;

use agentflow::Runtime;
use agentflow::telemetry::MetricsSink;
use tracing_subscriber::util::SubscriberInitExt;

use crate::telemetry::Telemetry;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Your program gives it the exporters of `opentelemetry-otlp`; nothing else changes.
    let telemetry = Telemetry::new(print::Spans, print::Metrics);
    telemetry.subscriber().try_init()?;
    let content = std::env::var("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT").is_ok_and(|yes| yes == "true");
    let runtime = Runtime::builder().sink(MetricsSink::new(&telemetry.meter())).trace_content(content).build();

    let city = std::env::args().nth(1).unwrap_or_else(|| "Oslo".to_owned());
    let result = agent::forecaster().runtime(&runtime).run(format!("Do I need an umbrella in {city}?")).await;
    // Batches that are under way are sent before the program ends, also when the run failed.
    telemetry.flush()?;
    println!("{}", result?);
    Ok(())
}

//! Runs an agent and prints its OpenTelemetry spans and metrics.
//!
//! Usage: `otel [CITY]`. `AGENTFLOW_MODEL` names the model; without it a stand-in answers. With
//! `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true` the spans contain the messages.

mod agent;
mod print;
mod telemetry;

use agentflow::Runtime;
use agentflow::telemetry::MetricsSink;
use tracing_subscriber::util::SubscriberInitExt;

use crate::telemetry::Telemetry;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A real program passes the exporters of `opentelemetry-otlp` here. The rest is the same.
    let telemetry = Telemetry::new(print::Spans, print::Metrics);
    telemetry.subscriber().try_init()?;
    let content = std::env::var("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT")
        .is_ok_and(|yes| yes == "true");
    let runtime = Runtime::builder()
        .sink(MetricsSink::new(&telemetry.meter()))
        .trace_content(content)
        .build();

    let city = std::env::args().nth(1).unwrap_or_else(|| "Oslo".to_owned());
    let result = agent::forecaster()
        .runtime(&runtime)
        .run(format!("Do I need an umbrella in {city}?"))
        .await;
    // Pending batches are sent before the program ends, also after a failed run.
    telemetry.flush()?;
    println!("{}", result?);
    Ok(())
}

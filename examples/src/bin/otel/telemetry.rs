//! Connects `tracing` spans and events to OpenTelemetry. This is the complete setup of a program;
//! the exporters decide where the data goes.

use opentelemetry::metrics::{Meter, MeterProvider};
use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanExporter};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{Layer, Registry};

/// The trace and metric pipelines of a program.
#[derive(Debug)]
pub(crate) struct Telemetry {
    spans: SdkTracerProvider,
    metrics: SdkMeterProvider,
}

impl Telemetry {
    pub(crate) fn new(
        spans: impl SpanExporter + 'static,
        metrics: impl PushMetricExporter,
    ) -> Self {
        Self {
            spans: SdkTracerProvider::builder().with_batch_exporter(spans).build(),
            metrics: SdkMeterProvider::builder().with_periodic_exporter(metrics).build(),
        }
    }

    /// Returns a subscriber that exports agentflow's spans to OpenTelemetry. Add the layers of your
    /// logs to it.
    pub(crate) fn subscriber(&self) -> impl tracing_subscriber::util::SubscriberInitExt + use<> {
        let layer = tracing_opentelemetry::layer().with_tracer(self.spans.tracer("agentflow"));
        let spans_only =
            Targets::new().with_target("agentflow", tracing_subscriber::filter::LevelFilter::INFO);
        Registry::default().with(layer.with_filter(spans_only))
    }

    pub(crate) fn meter(&self) -> Meter {
        self.metrics.meter("agentflow")
    }

    /// Sends pending data.
    pub(crate) fn flush(&self) -> OTelSdkResult {
        self.spans.force_flush()?;
        self.metrics.force_flush()
    }
}

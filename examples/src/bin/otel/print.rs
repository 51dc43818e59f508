//! Exporters that print to standard error, so that the example needs no collector.

use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::Temporality;
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData, ResourceMetrics};
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};

#[derive(Debug)]
pub(crate) struct Spans;

impl SpanExporter for Spans {
    async fn export(&self, mut batch: Vec<SpanData>) -> OTelSdkResult {
        batch.sort_by_key(|span| span.start_time);
        for span in batch {
            let took = span.end_time.duration_since(span.start_time).unwrap_or_default();
            eprintln!("span {} ({:?}, {took:?})", span.name, span.span_kind);
            for KeyValue { key, value, .. } in
                span.attributes.iter().filter(|kv| kv.key.as_str().starts_with("gen_ai."))
            {
                eprintln!("    {key} = {value}");
            }
        }
        Ok(())
    }
}

#[derive(Debug)]
pub(crate) struct Metrics;

impl PushMetricExporter for Metrics {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        for metric in metrics.scope_metrics().flat_map(|scope| scope.metrics()) {
            match metric.data() {
                AggregatedMetrics::F64(MetricData::Histogram(histogram)) => {
                    for point in histogram.data_points() {
                        let (name, unit) = (metric.name(), metric.unit());
                        eprintln!("metric {name}: {} times, {} {unit}", point.count(), point.sum());
                    }
                }
                AggregatedMetrics::U64(MetricData::Histogram(histogram)) => {
                    for point in histogram.data_points() {
                        let (name, unit) = (metric.name(), metric.unit());
                        eprintln!("metric {name}: {} times, {} {unit}", point.count(), point.sum());
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }

    fn temporality(&self) -> Temporality {
        Temporality::Cumulative
    }
}

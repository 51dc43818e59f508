//! Metrics in the words of OpenTelemetry's GenAI conventions, from the events of runs.
//!
//! Whatever is measured is in the events, so this is a sink and nothing else knows about it. It records no content.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Histogram, Meter};

use super::provider_name;
use crate::event::{Event, EventKind, EventSink, RunId};
use crate::model::Usage;
use crate::path::StepPath;
use crate::time::Timestamp;

/// The buckets of durations, in seconds.
const SECONDS: [f64; 14] = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
/// The buckets of tokens.
const TOKENS: [f64; 14] = [
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    1_024.0,
    4_096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
];

/// Records metrics of all runs with an OpenTelemetry meter, as the GenAI conventions name them:
///
/// | histogram | of | attributes |
/// | --- | --- | --- |
/// | `gen_ai.client.operation.duration` | each model call, s | operation, provider, request and response model, `error.type` |
/// | `gen_ai.client.token.usage` | input and output of each answer, {token} | the same, and `gen_ai.token.type` |
/// | `gen_ai.execute_tool.duration` | each tool call, s | operation, tool, `error.type` |
/// | `gen_ai.invoke_agent.duration` | each run, s; its count is the number of runs | operation, agent, `error.type` |
///
/// Durations are those of the events, by the runtime's clock and to a millisecond. An answer whose provider says nothing
/// about tokens has no usage. A run that was cancelled has the error type `cancelled`.
///
/// ```
/// use agentflow::{MetricsSink, Runtime, opentelemetry};
///
/// // With no provider installed nothing is measured.
/// let meter = opentelemetry::global::meter("agentflow");
/// let runtime = Runtime::builder().sink(MetricsSink::new(&meter)).build();
/// # let _ = runtime;
/// ```
pub struct MetricsSink {
    operation: Histogram<f64>,
    tokens: Histogram<u64>,
    tool: Histogram<f64>,
    agent: Histogram<f64>,
    open: Mutex<HashMap<RunId, OpenRun>>,
}

/// What is known of a run that is going on.
struct OpenRun {
    agent: Arc<str>,
    since: Timestamp,
    calls: Vec<OpenCall>,
}

/// A model call that is going on.
struct OpenCall {
    path: StepPath,
    since: Timestamp,
    provider: Arc<str>,
    model: Arc<str>,
}

impl MetricsSink {
    /// A sink that records with a meter of the host's own, such as `opentelemetry::global::meter("agentflow")`.
    pub fn new(meter: &Meter) -> Self {
        let seconds = |name: &'static str, what: &'static str| {
            meter.f64_histogram(name).with_unit("s").with_description(what).with_boundaries(SECONDS.to_vec()).build()
        };
        Self {
            operation: seconds("gen_ai.client.operation.duration", "How long a model call took"),
            tool: seconds("gen_ai.execute_tool.duration", "How long a tool call took"),
            agent: seconds("gen_ai.invoke_agent.duration", "How long a run of an agent took"),
            tokens: meter
                .u64_histogram("gen_ai.client.token.usage")
                .with_unit("{token}")
                .with_description("Tokens read and written by a model call")
                .with_boundaries(TOKENS.to_vec())
                .build(),
            open: Mutex::default(),
        }
    }

    fn run_ended(&self, event: &Event, error: Option<&str>) {
        let run = self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&event.run_id);
        let Some(run) = run else { return };
        let mut attributes =
            vec![KeyValue::new("gen_ai.operation.name", "invoke_agent"), KeyValue::new("gen_ai.agent.name", run.agent)];
        attributes.extend(error_type(error));
        self.agent.record(seconds(event.time.since(run.since)), &attributes);
    }

    fn call_ended(&self, event: &Event, response: Option<(&str, &Usage)>, error: Option<&str>) {
        let call = {
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(run) = open.get_mut(&event.run_id) else { return };
            let Some(at) = run.calls.iter().position(|call| call.path == event.path) else { return };
            run.calls.swap_remove(at)
        };
        let mut attributes = vec![
            KeyValue::new("gen_ai.operation.name", "chat"),
            KeyValue::new("gen_ai.provider.name", provider_name(&call.provider).to_owned()),
            KeyValue::new("gen_ai.request.model", call.model),
        ];
        if let Some((model, _)) = response.filter(|(model, _)| !model.is_empty()) {
            attributes.push(KeyValue::new("gen_ai.response.model", model.to_owned()));
        }
        if let Some((_, usage)) = response.filter(|(_, usage)| usage.input_tokens > 0 || usage.output_tokens > 0) {
            for (kind, tokens) in [("input", usage.input_tokens), ("output", usage.output_tokens)] {
                attributes.push(KeyValue::new("gen_ai.token.type", kind));
                self.tokens.record(tokens, &attributes);
                attributes.pop();
            }
        }
        attributes.extend(error_type(error));
        self.operation.record(seconds(event.time.since(call.since)), &attributes);
    }

    fn tool_ended(&self, tool: &str, duration_ms: u64, error: Option<&str>) {
        let mut attributes = vec![
            KeyValue::new("gen_ai.operation.name", "execute_tool"),
            KeyValue::new("gen_ai.tool.name", tool.to_owned()),
            KeyValue::new("gen_ai.tool.type", "function"),
        ];
        attributes.extend(error_type(error));
        self.tool.record(seconds(Duration::from_millis(duration_ms)), &attributes);
    }
}

fn error_type(error: Option<&str>) -> Option<KeyValue> {
    error.map(|kind| KeyValue::new("error.type", kind.to_owned()))
}

fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64()
}

impl EventSink for MetricsSink {
    fn emit(&self, event: &Event) {
        match &event.kind {
            EventKind::RunStarted(started) => {
                let run = OpenRun { agent: Arc::clone(&started.agent), since: event.time, calls: Vec::new() };
                self.open.lock().unwrap_or_else(PoisonError::into_inner).insert(event.run_id.clone(), run);
            }
            EventKind::ModelStarted { provider, model } => {
                let (provider, model) = (Arc::clone(provider), Arc::clone(model));
                let call = OpenCall { path: event.path.clone(), since: event.time, provider, model };
                let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(run) = open.get_mut(&event.run_id) {
                    run.calls.push(call);
                }
            }
            EventKind::ModelCompleted(response) => {
                self.call_ended(event, Some((&response.model, &response.usage)), None);
            }
            EventKind::ModelFailed { error } => self.call_ended(event, None, Some(&error.kind)),
            EventKind::ToolCompleted { result, duration_ms } => self.tool_ended(&result.name, *duration_ms, None),
            EventKind::ToolFailed { result, duration_ms } => {
                self.tool_ended(&result.name, *duration_ms, Some(result.status.as_str()));
            }
            EventKind::RunCompleted(_) => self.run_ended(event, None),
            EventKind::RunFailed { error } => self.run_ended(event, Some(&error.kind)),
            EventKind::RunCancelled { .. } => self.run_ended(event, Some("cancelled")),
            _ => {}
        }
    }
}

impl fmt::Debug for MetricsSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetricsSink").finish_non_exhaustive()
    }
}

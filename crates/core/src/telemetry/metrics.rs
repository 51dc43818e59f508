//! [`MetricsSink`]: an event sink that records OpenTelemetry's GenAI metrics.
//!
//! All measured values come from events, so no other part of agentflow depends on metrics. Contents
//! are not recorded.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Histogram, Meter};

use crate::event::{Edge, Event, EventKind, EventSink, RunBody, RunId, Shape, Subject};
use crate::model::{MAX_TOKENS, Usage, telemetry_name};
use crate::path::StepPath;
use crate::time::Timestamp;

/// Bucket boundaries of durations, in seconds.
const SECONDS: [f64; 14] =
    [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
/// Bucket boundaries of tokens.
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

/// Records metrics of all runs with an OpenTelemetry meter, with the names of the GenAI
/// conventions:
///
/// | histogram | measures | attributes |
/// | --- | --- | --- |
/// | `gen_ai.client.operation.duration` | each model call, s | operation, provider, request and response model, `error.type` |
/// | `gen_ai.client.token.usage` | input and output of each response, {token} | the same, and `gen_ai.token.type` |
/// | `gen_ai.execute_tool.duration` | each tool call, s | operation, tool, `error.type` |
/// | `agentflow.tool.output_size` | the output of each tool call, By | the same |
/// | `gen_ai.invoke_agent.duration` | each agent, s; its count is the number of runs | operation, agent, `error.type` |
/// | `gen_ai.workflow.duration` | each workflow, s | operation, workflow, `error.type` |
///
/// Runs that were started `without_metrics` are omitted in the process that starts them.
///
/// Durations are differences of event times, by the runtime's clock and in milliseconds. A response
/// without token counts does not record usage. A cancelled run has the error type `cancelled`.
///
/// ```
/// use agentflow::{Runtime, opentelemetry};
/// use agentflow::telemetry::MetricsSink;
///
/// // Without an installed provider, nothing is measured.
/// let meter = opentelemetry::global::meter("agentflow");
/// let runtime = Runtime::builder().sink(MetricsSink::new(&meter)).build();
/// # let _ = runtime;
/// ```
pub struct MetricsSink {
    operation: Histogram<f64>,
    tokens: Histogram<u64>,
    tool: Histogram<f64>,
    tool_output: Histogram<u64>,
    agent: Histogram<f64>,
    workflow: Histogram<f64>,
    open: Mutex<HashMap<RunId, Vec<OpenStep>>>,
    /// Runs without metrics, until they end.
    unmetered: Mutex<HashSet<RunId>>,
}

/// A running step, or the run itself.
struct OpenStep {
    path: StepPath,
    since: Timestamp,
    what: MeasuredStep,
}

enum MeasuredStep {
    Agent(Arc<str>),
    Workflow(Arc<str>),
    Model {
        provider: Arc<str>,
        model: Arc<str>,
    },
    /// A workflow node that is a tool call.
    Tool(Arc<str>),
}

impl MetricsSink {
    /// Creates a sink for a meter of the host, such as `opentelemetry::global::meter("agentflow")`.
    pub fn new(meter: &Meter) -> Self {
        let seconds = |name: &'static str, what: &'static str| {
            meter
                .f64_histogram(name)
                .with_unit("s")
                .with_description(what)
                .with_boundaries(SECONDS.to_vec())
                .build()
        };
        Self {
            operation: seconds("gen_ai.client.operation.duration", "How long a model call took"),
            tool: seconds("gen_ai.execute_tool.duration", "How long a tool call took"),
            agent: seconds("gen_ai.invoke_agent.duration", "How long an agent took"),
            workflow: seconds("gen_ai.workflow.duration", "How long a workflow took"),
            tokens: meter
                .u64_histogram("gen_ai.client.token.usage")
                .with_unit("{token}")
                .with_description("Tokens read and written by a model call")
                .with_boundaries(TOKENS.to_vec())
                .build(),
            tool_output: meter
                .u64_histogram("agentflow.tool.output_size")
                .with_unit("By")
                .with_description("Size of a tool's answer")
                .with_boundaries(TOKENS.to_vec())
                .build(),
            open: Mutex::default(),
            unmetered: Mutex::default(),
        }
    }

    fn begin(&self, event: &Event, what: MeasuredStep) {
        let step = OpenStep { path: event.path.clone(), since: event.time, what };
        self.open
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .entry(event.run_id.clone())
            .or_default()
            .push(step);
    }

    /// Returns true if an event belongs to a run without metrics.
    fn is_left_out(&self, event: &Event) -> bool {
        let mut unmetered = self.unmetered.lock().unwrap_or_else(PoisonError::into_inner);
        if let EventKind::RunStarted(started) = &event.kind
            && started.terms().unmetered
        {
            unmetered.insert(event.run_id.clone());
        }
        match event.kind.ends_run() {
            // The last event of the run is left out too.
            true => unmetered.remove(&event.run_id),
            false => !unmetered.is_empty() && unmetered.contains(&event.run_id),
        }
    }

    /// Records the end of a step. If the start of the step was not seen, such as after a crash, no
    /// duration is recorded.
    fn end(&self, event: &Event, response: Option<(&str, &Usage)>, error: Option<&str>) {
        let step = {
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(steps) = open.get_mut(&event.run_id) else { return };
            let step = steps
                .iter()
                .position(|step| step.path == event.path)
                .map(|at| steps.swap_remove(at));
            if event.kind.ends_run() {
                open.remove(&event.run_id);
            }
            step
        };
        let Some(OpenStep { since, what, .. }) = step else { return };
        let took = seconds(event.time.since(since));
        let (histogram, operation, key, name) = match what {
            MeasuredStep::Agent(name) => (&self.agent, "invoke_agent", "gen_ai.agent.name", name),
            MeasuredStep::Workflow(name) => {
                (&self.workflow, "invoke_workflow", "gen_ai.workflow.name", name)
            }
            MeasuredStep::Model { provider, model } => {
                return self.call_ended(took, &provider, model, response, error);
            }
            MeasuredStep::Tool(name) => {
                return self.tool_ended(&name, took, error, event.kind.output_size());
            }
        };
        let mut attributes =
            vec![KeyValue::new("gen_ai.operation.name", operation), KeyValue::new(key, name)];
        attributes.extend(error_type(error));
        histogram.record(took, &attributes);
    }

    fn call_ended(
        &self,
        took: f64,
        provider: &str,
        model: Arc<str>,
        response: Option<(&str, &Usage)>,
        error: Option<&str>,
    ) {
        let mut attributes = vec![
            KeyValue::new("gen_ai.operation.name", "chat"),
            KeyValue::new("gen_ai.provider.name", telemetry_name(provider).to_owned()),
            KeyValue::new("gen_ai.request.model", model),
        ];
        if let Some((model, _)) = response.filter(|(model, _)| !model.is_empty()) {
            attributes.push(KeyValue::new("gen_ai.response.model", model.to_owned()));
        }
        if let Some((_, usage)) =
            response.filter(|(_, usage)| usage.input_tokens > 0 || usage.output_tokens > 0)
        {
            for (kind, tokens) in [("input", usage.input_tokens), ("output", usage.output_tokens)] {
                attributes.push(KeyValue::new("gen_ai.token.type", kind));
                // A backend that sums up tokens may not expect more than a model can reach.
                self.tokens.record(tokens.min(MAX_TOKENS), &attributes);
                attributes.pop();
            }
        }
        attributes.extend(error_type(error));
        self.operation.record(took, &attributes);
    }

    fn tool_ended(&self, tool: &str, took: f64, error: Option<&str>, bytes: Option<u64>) {
        let mut attributes = vec![
            KeyValue::new("gen_ai.operation.name", "execute_tool"),
            KeyValue::new("gen_ai.tool.name", tool.to_owned()),
            KeyValue::new("gen_ai.tool.type", "function"),
        ];
        attributes.extend(error_type(error));
        self.tool.record(took, &attributes);
        if let Some(bytes) = bytes {
            self.tool_output.record(bytes, &attributes);
        }
    }
}

fn error_type(error: Option<&str>) -> Option<KeyValue> {
    error.map(|kind| KeyValue::new("error.type", kind.to_owned()))
}

fn millis(millis: u64) -> f64 {
    seconds(Duration::from_millis(millis))
}

fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64()
}

impl EventSink for MetricsSink {
    fn emit(&self, event: &Event) {
        if self.is_left_out(event) {
            return;
        }
        let Shape { subject, edge, .. } = event.kind.shape();
        match &event.kind {
            // Events of tool calls contain their duration, so they need no entry in `open`.
            EventKind::ToolCompleted { result, duration_ms, .. } => {
                self.tool_ended(&result.name, millis(*duration_ms), None, event.kind.output_size());
            }
            EventKind::ToolFailed { result, duration_ms, .. } => {
                let status = result.status.as_str();
                self.tool_ended(
                    &result.name,
                    millis(*duration_ms),
                    Some(status),
                    event.kind.output_size(),
                );
            }
            kind if edge == Edge::Opens => {
                if let Some(what) = MeasuredStep::from_event(kind) {
                    self.begin(event, what);
                }
            }
            kind if edge.ends_attempt()
                && matches!(
                    subject,
                    Subject::Run
                        | Subject::Agent
                        | Subject::Workflow
                        | Subject::Model
                        | Subject::Node
                ) =>
            {
                let response = match kind {
                    EventKind::ModelCompleted(response) => {
                        Some((&*response.model, &response.usage))
                    }
                    _ => None,
                };
                let error = match kind {
                    EventKind::RunCancelled { .. } => Some("cancelled"),
                    kind => kind.error().map(|error| error.kind.as_str()),
                };
                self.end(event, response, error);
            }
            _ => {}
        }
    }
}

impl MeasuredStep {
    /// Returns the subject that an event starts, if its duration is measured.
    fn from_event(kind: &EventKind) -> Option<Self> {
        Some(match kind {
            EventKind::RunStarted(started) => match &started.body {
                RunBody::Agent(agent) => Self::Agent(Arc::clone(&agent.name)),
                RunBody::Workflow(workflow) => Self::Workflow(Arc::clone(&workflow.name)),
            },
            EventKind::AgentStarted(agent) => Self::Agent(Arc::clone(&agent.name)),
            EventKind::WorkflowStarted(workflow) => Self::Workflow(Arc::clone(&workflow.name)),
            EventKind::ModelStarted { provider, model } => {
                Self::Model { provider: Arc::clone(provider), model: Arc::clone(model) }
            }
            EventKind::NodeStarted { tool: Some(tool), .. } => Self::Tool(Arc::clone(tool)),
            _ => return None,
        })
    }
}

impl fmt::Debug for MetricsSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetricsSink").finish_non_exhaustive()
    }
}

//! Maps the events of a workflow's run to [`ScreenEvent`]s, server-sent events for a screen.

use std::collections::HashSet;
use std::fmt;

use agentflow_core::__private::{is_reserved, state_of};
use agentflow_core::event::{Edge, Event, EventKind, RunCompleted};
use agentflow_core::path::StepPath;
use agentflow_core::value::Encoded;
use serde_json::{Map, Value, json};

/// A server-sent event for a screen that shows a workflow: `node_start`, `awaiting_approval`,
/// `node_complete`, `node_failed`, `workflow_complete`, or one of the additional events (see
/// [`is_added`](Self::is_added)).
///
/// `Display` writes the event in the wire format. Its id is the number of the run's event, so a
/// client can continue with `Last-Event-ID`.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> agentflow::Result<()> {
/// use agentflow::prelude::*;
/// use agentflow::views::ScreenEvents;
/// use agentflow_testing::test_runtime;
///
/// /// Double a number.
/// #[tool]
/// async fn double(n: u32) -> u32 {
///     2 * n
/// }
///
/// #[workflow]
/// async fn twice(n: u32) -> Result<u32> {
///     let doubled = double(n).await;
///     Ok(doubled)
/// }
///
/// let run = test_runtime().build().start(twice::workflow(), 4).await?;
/// run.result().await?;
/// let mut screen = ScreenEvents::default();
/// let names: Vec<_> = run.recorded().iter().filter_map(|event| screen.next(event)).map(|event| event.name).collect();
/// assert_eq!(names, ["node_start", "node_complete", "workflow_complete"]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ScreenEvent {
    /// Number of the event in its run.
    pub id: u64,
    /// Name of the event, such as `node_start`.
    pub name: &'static str,
    /// The data: an object whose field `event` is the name. `awaiting_approval` has the `id` of the
    /// question, for [`RunRef::answer`](agentflow_core::runtime::RunRef::answer). `workflow_complete` has
    /// the `output` of the run. [`ScreenEvents`] adds the `state` of the run to
    /// `workflow_complete`.
    pub data: Value,
}

impl ScreenEvent {
    /// Maps one event. Returns `None` if a screen does not show it.
    ///
    /// Values that the workflow computes between its steps have an end event but no start event,
    /// and this function maps the end event. [`ScreenEvents`] omits them, so that every node has a
    /// start and an end.
    pub fn of(event: &Event) -> Option<Self> {
        let node_id = || event.path.to_string();
        let (name, data) = match &event.kind {
            EventKind::NodeStarted { attempt, .. } => {
                ("node_start", json!({"node_id": node_id(), "attempt": attempt}))
            }
            EventKind::NodeCompleted { output, .. } => {
                ("node_complete", json!({"node_id": node_id(), "output": output}))
            }
            EventKind::NodeFailed { attempt, error } => (
                "node_failed",
                json!({"node_id": node_id(), "error": error.message, "attempt": attempt}),
            ),
            EventKind::NodeSkipped { reason } => {
                ("node_skipped", json!({"node_id": node_id(), "reason": reason}))
            }
            EventKind::NodeRetrying { attempt, error, delay_ms } => (
                "node_retrying",
                json!({"node_id": node_id(), "attempt": attempt, "error": error.message, "delay_ms": delay_ms}),
            ),
            EventKind::ApprovalRequested(request) => {
                let id = request.id_at(&event.path);
                (
                    "awaiting_approval",
                    json!({"node_id": node_id(), "id": id, "comment": request.message}),
                )
            }
            EventKind::ApprovalResolved { answer, by } => {
                ("approval_resolved", json!({"node_id": node_id(), "answer": answer, "by": by}))
            }
            EventKind::RunCompleted(completed) => match &**completed {
                RunCompleted::Workflow(workflow) => {
                    ("workflow_complete", json!({"output": workflow.output}))
                }
                RunCompleted::Agent(answer) => {
                    ("workflow_complete", json!({"output": answer.text()}))
                }
                _ => ("workflow_complete", json!({"output": null})),
            },
            EventKind::RunFailed { error } => ("workflow_failed", json!({"error": error.message})),
            EventKind::RunPaused { reason, .. } => ("run_paused", json!({"reason": reason})),
            EventKind::RunResumed { .. } => ("run_resumed", json!({})),
            EventKind::RunCancelled { reason, .. } => ("run_cancelled", json!({"reason": reason})),
            _ => return None,
        };
        Some(Self { id: event.seq, name, data }.with("event", name))
    }

    /// Adds a field to the data.
    fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        if let Value::Object(data) = &mut self.data {
            data.insert(key.to_owned(), value.into());
        }
        self
    }

    /// Returns true if the event is not one of the five events that every client knows.
    pub fn is_added(&self) -> bool {
        !matches!(
            self.name,
            "node_start"
                | "awaiting_approval"
                | "node_complete"
                | "node_failed"
                | "workflow_complete"
        )
    }
}

impl fmt::Display for ScreenEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "id: {}\nevent: {}\ndata: {}\n\n", self.id, self.name, self.data)
    }
}

/// Maps the events of a run so that each shown node has one start and one end per attempt.
///
/// Values that the workflow computes between its steps are not shown. `workflow_complete` has the
/// [state](agentflow_core::state) of the run, because this type has seen the earlier events.
///
/// Map all events of the run, starting with the first. For a client that reconnects with
/// `Last-Event-ID`, send only the results with a greater [`id`](ScreenEvent::id).
#[derive(Debug, Default)]
pub struct ScreenEvents {
    begun: HashSet<StepPath>,
    /// Events from which the state of the run is computed.
    saved: Vec<Event>,
}

impl ScreenEvents {
    /// Maps the next event. Returns `None` if a screen does not show it.
    pub fn next(&mut self, event: &Event) -> Option<ScreenEvent> {
        match &event.kind {
            // A node that only asks for an approval has no start event, but its end must be shown.
            EventKind::NodeStarted { .. } | EventKind::ApprovalRequested(_) => {
                self.begun.insert(event.path.clone());
            }
            EventKind::NodeCompleted { .. } | EventKind::NodeFailed { .. }
                if !self.begun.remove(&event.path) =>
            {
                return None;
            }
            _ => {}
        }
        if self.is_of_state(event) {
            self.saved.push(event.clone());
        }
        // Events of the state are collected even if a screen does not show them.
        let shown = ScreenEvent::of(event)?;
        match &event.kind {
            EventKind::RunCompleted(_) => Some(shown.with("state", self.state())),
            _ => Some(shown),
        }
    }

    fn is_of_state(&self, Event { path, kind, .. }: &Event) -> bool {
        let saves = |kind: &EventKind| kind.saved().is_some();
        match kind {
            EventKind::RunStarted(_)
            | EventKind::RunCompleted(_)
            | EventKind::RunResumed { .. } => true,
            // A step that runs again discards the values that its earlier attempt saved.
            kind if kind.shape().edge == Edge::Opens => {
                self.saved.iter().any(|before| before.path == *path && saves(&before.kind))
            }
            kind => saves(kind),
        }
    }

    /// Returns the state after the events so far, as an object. The library's own keys are omitted.
    fn state(&self) -> Value {
        let values = state_of(&self.saved);
        let shown = values.iter().filter(|(key, _)| !is_reserved(key));
        let read = |value: &Encoded| serde_json::from_str(value.as_str()).unwrap_or_default();
        shown.map(|(key, value)| (key.to_owned(), read(value))).collect::<Map<_, _>>().into()
    }
}

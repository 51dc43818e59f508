//! Maps the events of a run to [`AgentEvent`]s: the output and the actions of agents, each with its
//! author.

use std::collections::BTreeMap;
use std::sync::Arc;

use agentflow_core::__private::{EXIT, is_reserved};
use agentflow_core::error::Error;
use agentflow_core::event::{Event, EventKind, ModelDelta, RunCompleted};
use agentflow_core::message::{ToolCall, ToolResult};
use agentflow_core::path::StepPath;
use agentflow_core::state::SavedByStep;
use agentflow_core::value::Encoded;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// A message or an action of an agent or a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct AgentEvent {
    /// Name of the agent or the node. `user` for events outside any agent.
    pub author: String,
    /// The text.
    pub content: Option<String>,
    /// State keys that were set, with their values. A removed key has the value `null`.
    pub state_delta: Map<String, Value>,
    /// The saved artifacts and their versions.
    pub artifact_delta: BTreeMap<String, u64>,
    /// The agent that takes over the conversation (a handoff).
    pub transfer_to: Option<String>,
    /// `true` if the author ends the enclosing loop with `exit_loop`.
    pub escalate: bool,
    /// The started tool calls: `id`, `name`, `args`.
    pub tool_calls: Vec<Map<String, Value>>,
    /// The tool results: `id`, `name`, `status`, `response`.
    pub tool_responses: Vec<Map<String, Value>>,
    /// `true` if the run ends with this event.
    pub is_final: bool,
    /// The id of the run.
    pub invocation_id: Option<String>,
    /// Path of the enclosing step. `None` for events directly in the run.
    pub branch: Option<String>,
    /// The error message, if a step or the run failed or was cancelled.
    pub error: Option<String>,
    /// The canonical name of the event (`event`), its sequence number (`seq`) and, for an event
    /// with an output, the size of the output in bytes (`output_size`).
    pub metadata: Map<String, Value>,
}

/// Returns the text of the last final event that has text, or an empty string.
pub fn final_text<'e>(events: impl IntoIterator<Item = &'e AgentEvent>) -> &'e str {
    let finals = events.into_iter().filter(|event| event.is_final);
    finals.filter_map(|event| event.content.as_deref()).last().unwrap_or_default()
}

/// Maps the events of one run to [`AgentEvent`]s. It remembers which agent executes which part of
/// the run.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> agentflow::Result<()> {
/// use agentflow::prelude::*;
/// use agentflow::views::{AgentEvents, final_text};
/// use agentflow_testing::{ScriptedModel, Turn, test_runtime};
///
/// let desk = Agent::new(ScriptedModel::new([Turn::text("Hello.")])).name("desk");
/// let run = desk.runtime(&test_runtime().build()).start("Hi.")?;
/// run.result().await?;
/// let events = AgentEvents::of(&run.recorded());
/// assert_eq!(final_text(&events), "Hello.");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct AgentEvents {
    /// The agents that have started, by their paths.
    agents: BTreeMap<StepPath, Arc<str>>,
}

impl AgentEvents {
    /// Returns the mapped events of a run, in order.
    pub fn of<'e>(events: impl IntoIterator<Item = &'e Event>) -> Vec<AgentEvent> {
        let mut view = Self::default();
        events.into_iter().filter_map(|event| view.next(event)).collect()
    }

    /// Maps the next event of the run. Returns `None` for an event that concerns no agent. Each
    /// piece of a streamed model response is an event, and the complete response follows as another
    /// event.
    pub fn next(&mut self, event: &Event) -> Option<AgentEvent> {
        let Event { path, kind, .. } = event;
        match kind {
            // Start events only record which agent executes the step. They have no view of their
            // own.
            EventKind::RunStarted(started) => {
                self.agents.insert(path.clone(), started.name().into());
                return None;
            }
            EventKind::AgentStarted(agent) => {
                self.agents.insert(path.clone(), Arc::clone(&agent.name));
                return None;
            }
            _ => {}
        }
        let mut view = AgentEvent {
            author: self.author(path, kind),
            invocation_id: Some(event.run_id.to_string()),
            // The root is the run itself, which is not a branch.
            branch: path
                .parent()
                .filter(|parent| !parent.is_root())
                .map(|parent| parent.to_string()),
            ..AgentEvent::default()
        };
        match kind {
            EventKind::ModelDelta(ModelDelta::Text(text)) => view.content = Some(text.clone()),
            EventKind::MessageReceived { message, .. } => {
                view.author = "user".to_owned();
                view.content = Some(message.text().into_owned());
            }
            EventKind::ModelCompleted(response) => {
                view.content = Some(response.text().into_owned());
                view.saved(response.saved.as_deref());
            }
            EventKind::ToolStarted { call, .. } => view.tool_calls.push(called(call)),
            EventKind::ToolCompleted { result, saved, .. } => {
                view.tool_responses.push(answered(result));
                view.saved(saved.as_deref());
            }
            EventKind::ToolFailed { result, .. } => {
                view.tool_responses.push(answered(result));
                view.error = Some(result.output.clone());
            }
            EventKind::NodeCompleted { output, saved, .. } => {
                view.content = Some(text_of(output));
                view.saved(saved.as_deref());
            }
            EventKind::AgentHandoff(handoff) => {
                view.author = handoff.from.to_string();
                view.transfer_to = Some(handoff.to.to_string());
                // The handoff itself is an event of the old agent. Later events at this path belong
                // to the new one.
                self.agents.insert(path.clone(), Arc::clone(&handoff.to));
            }
            EventKind::AgentCompleted(answer) => {
                view.content = Some(answer.text().into_owned());
                view.saved(answer.saved.as_deref());
            }
            EventKind::RunCompleted(completed) => {
                view.is_final = true;
                view.saved(completed.agent().and_then(|answer| answer.saved.as_deref()));
                view.content = match &**completed {
                    RunCompleted::Agent(answer) => Some(answer.text().into_owned()),
                    RunCompleted::Workflow(workflow) => Some(text_of(&workflow.output)),
                    _ => None,
                };
            }
            EventKind::RunFailed { error } => {
                view.is_final = true;
                view.error = Some(error.message.clone());
            }
            EventKind::RunCancelled { reason, .. } => {
                view.is_final = true;
                view.error = Some(Error::Cancelled { reason: Arc::clone(reason) }.to_string());
            }
            EventKind::NodeFailed { error, .. }
            | EventKind::AgentFailed { error }
            | EventKind::ModelFailed { error } => view.error = Some(error.message.clone()),
            _ => return None,
        }
        view.metadata.insert("event".to_owned(), event.name().into());
        view.metadata.insert("seq".to_owned(), event.seq.into());
        if let Some(bytes) = kind.output_size() {
            view.metadata.insert("output_size".to_owned(), bytes.into());
        }
        Some(view)
    }

    /// Returns the innermost agent around the step. An event of a node has the node's path as its
    /// author.
    fn author(&self, path: &StepPath, kind: &EventKind) -> String {
        if let EventKind::NodeCompleted { .. } | EventKind::NodeFailed { .. } = kind {
            return path.to_string();
        }
        let around = self.agents.iter().filter(|(base, _)| path.is_within(base));
        // All matching paths are ancestors of `path`, so the longest is the innermost.
        let nearest = around.max_by_key(|(base, _)| base.to_string().len());
        nearest.map_or_else(|| "user".to_owned(), |(_, name)| name.to_string())
    }
}

impl AgentEvent {
    fn saved(&mut self, saved: Option<&SavedByStep>) {
        for artifact in saved.into_iter().flat_map(SavedByStep::artifacts) {
            self.artifact_delta.insert(artifact.name.to_string(), artifact.version.into());
        }
        // `exit_loop` sets a reserved key of the state, which is not shown in `state_delta`.
        self.escalate = saved.is_some_and(|saved| {
            saved.changes().any(|(key, value)| key == EXIT && value.is_some())
        });
        for (key, value) in
            saved.into_iter().flat_map(SavedByStep::changes).filter(|(key, _)| !is_reserved(key))
        {
            let value = value
                .and_then(|value| serde_json::from_str(value.as_str()).ok())
                .unwrap_or_default();
            self.state_delta.insert(key.to_owned(), value);
        }
    }
}

/// Returns a string output without quotes, and any other output as JSON.
fn text_of(output: &Encoded) -> String {
    serde_json::from_str::<String>(output.as_str()).unwrap_or_else(|_| output.to_string())
}

/// Parses a string as JSON. Returns it as a JSON string if it is not JSON.
fn json_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

fn called(call: &ToolCall) -> Map<String, Value> {
    object(json!({"id": call.id, "name": call.name, "args": json_of(&call.arguments)}))
}

fn answered(result: &ToolResult) -> Map<String, Value> {
    let response = json_of(&result.output);
    object(
        json!({"id": result.call_id, "name": result.name, "status": result.status, "response": response}),
    )
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

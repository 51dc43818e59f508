//! `AgentEvent`: what agents say and do in a run, each with its author.

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

/// What an agent or a node said or did.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct AgentEvent {
    /// The agent's or the node's name; of what nobody else did, `user`.
    pub author: String,
    /// The text.
    pub content: Option<String>,
    /// The keys of the state that were set; `null` for one that was removed.
    pub state_delta: Map<String, Value>,
    /// The artifacts that were saved, with their versions.
    pub artifact_delta: BTreeMap<String, u64>,
    /// The agent that has the conversation from now on.
    pub transfer_to: Option<String>,
    /// Whether the author ends the repetition around it, with `exit_loop`.
    pub escalate: bool,
    /// The calls that were begun: `id`, `name`, `args`.
    pub tool_calls: Vec<Map<String, Value>>,
    /// The results that came: `id`, `name`, `status`, `response`.
    pub tool_responses: Vec<Map<String, Value>>,
    /// Whether the run ends with it.
    pub is_final: bool,
    /// The run.
    pub invocation_id: Option<String>,
    /// The step around it; `None` in the run itself.
    pub branch: Option<String>,
    /// Why something failed.
    pub error: Option<String>,
    /// The canonical name of the event and its number.
    pub metadata: Map<String, Value>,
}

/// The text of the last event that is final and has one; else nothing.
pub fn final_text<'e>(events: impl IntoIterator<Item = &'e AgentEvent>) -> &'e str {
    let finals = events.into_iter().filter(|event| event.is_final);
    finals.filter_map(|event| event.content.as_deref()).last().unwrap_or_default()
}

/// Makes [`AgentEvent`]s of the events of one run. It remembers who has which part of the run.
#[derive(Clone, Debug, Default)]
pub struct AgentEvents {
    /// The agents that have begun, by their paths.
    agents: BTreeMap<StepPath, Arc<str>>,
}

impl AgentEvents {
    /// The events of a run, in their order.
    pub fn of<'e>(events: impl IntoIterator<Item = &'e Event>) -> Vec<AgentEvent> {
        let mut view = Self::default();
        events.into_iter().filter_map(|event| view.next(event)).collect()
    }

    /// What the next event of the run is; `None` of one that says nothing of an agent. Pieces of a model's answer are
    /// events of their own, before the whole answer.
    pub fn next(&mut self, event: &Event) -> Option<AgentEvent> {
        let Event { path, kind, .. } = event;
        match kind {
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
            branch: path.parent().filter(|parent| !parent.is_root()).map(|parent| parent.to_string()),
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

    /// The nearest agent around it; a node speaks for itself.
    fn author(&self, path: &StepPath, kind: &EventKind) -> String {
        if let EventKind::NodeCompleted { .. } | EventKind::NodeFailed { .. } = kind {
            return path.to_string();
        }
        let around = self.agents.iter().filter(|(base, _)| path.is_within(base));
        let nearest = around.max_by_key(|(base, _)| base.to_string().len());
        nearest.map_or_else(|| "user".to_owned(), |(_, name)| name.to_string())
    }
}

impl AgentEvent {
    fn saved(&mut self, saved: Option<&SavedByStep>) {
        for artifact in saved.into_iter().flat_map(SavedByStep::artifacts) {
            self.artifact_delta.insert(artifact.name.to_string(), artifact.version.into());
        }
        self.escalate = saved.is_some_and(|saved| saved.changes().any(|(key, value)| key == EXIT && value.is_some()));
        for (key, value) in saved.into_iter().flat_map(SavedByStep::changes).filter(|(key, _)| !is_reserved(key)) {
            let value = value.and_then(|value| serde_json::from_str(value.as_str()).ok()).unwrap_or_default();
            self.state_delta.insert(key.to_owned(), value);
        }
    }
}

/// A string as it is, anything else as JSON.
fn text_of(output: &Encoded) -> String {
    serde_json::from_str::<String>(output.as_str()).unwrap_or_else(|_| output.to_string())
}

/// JSON where it is JSON, else the text.
fn json_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

fn called(call: &ToolCall) -> Map<String, Value> {
    object(json!({"id": call.id, "name": call.name, "args": json_of(&call.arguments)}))
}

fn answered(result: &ToolResult) -> Map<String, Value> {
    let response = json_of(&result.output);
    object(json!({"id": result.call_id, "name": result.name, "status": result.status, "response": response}))
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

//! The contents of the events that begin and end a run, an agent or a workflow.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use agentflow_schema::text::unfenced;
use serde::{Deserialize, Serialize};

use super::session_place::{SessionArtifact, SessionPlace, SessionWindow, Summary};
use crate::message::{Conversation, Message, Role};
use crate::model::{StopReason, Usage};
use crate::path::StepPath;
use crate::state::{SavedByStep, StateValues};
use crate::value::Encoded;

/// How a run began: enough to resume it. Resuming the run changes nothing about it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunStarted {
    /// The version of the recorded events, [`RunStarted::VERSION`] when written by this release.
    pub version: u32,
    /// What runs, and on what.
    pub body: RunBody,
    /// On whose behalf the run was started, as the program said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<Arc<str>>,
    /// The trace of the host that the run belongs to, as the program said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<Arc<str>>,
    /// The tags by which runs are found.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    /// The [id](crate::definition::Definition::id) of the definition by parts, which the store has; of a run with a store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<Arc<str>>,
    /// Where it stands in the session that it is a run of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<Box<SessionPlace>>,
    /// The state of its session when it began: what the runs of its history had left there. `None` when that is nothing,
    /// and in journals of earlier releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<Arc<StateValues>>,
    /// The newest artifact of each name that the runs of its history had saved when it began, in the order of the names.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub artifacts: Arc<[SessionArtifact]>,
}

/// What a run runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RunBody {
    /// An agent.
    Agent(AgentStarted),
    /// A workflow.
    Workflow(WorkflowStarted),
}

impl RunStarted {
    /// The version of the recorded events that this release writes.
    pub const VERSION: u32 = 1;

    pub(crate) fn new(body: RunBody) -> Self {
        Self {
            version: Self::VERSION,
            body,
            caller: None,
            trace_id: None,
            tags: BTreeMap::new(),
            parts: None,
            session: None,
            state: None,
            artifacts: Arc::default(),
        }
    }

    /// The name of the agent or the workflow.
    pub fn name(&self) -> &str {
        match &self.body {
            RunBody::Agent(agent) => &agent.name,
            RunBody::Workflow(workflow) => &workflow.name,
        }
    }

    /// What the run was granted and limited to.
    pub fn terms(&self) -> &RunTerms {
        match &self.body {
            RunBody::Agent(agent) => &agent.terms,
            RunBody::Workflow(workflow) => &workflow.terms,
        }
    }

    /// What the agent began with, when it is an agent.
    pub fn agent(&self) -> Option<&AgentStarted> {
        match &self.body {
            RunBody::Agent(agent) => Some(agent),
            RunBody::Workflow(_) => None,
        }
    }

    /// What the workflow began with, when it is a workflow.
    pub fn workflow(&self) -> Option<&WorkflowStarted> {
        match &self.body {
            RunBody::Workflow(workflow) => Some(workflow),
            RunBody::Agent(_) => None,
        }
    }
}

/// What an agent began with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AgentStarted {
    /// The agent's name.
    pub name: Arc<str>,
    /// The instructions, which stand before the conversation in every request. `None` in a journal that was written
    /// before they were kept apart: there they are the first message of `input`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<Arc<Message>>,
    /// The conversation it began with, without the instructions.
    pub input: Conversation,
    /// What the caller gave, with the instructions in front, when middleware has changed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given: Option<Conversation>,
    /// What it was granted and limited to, beside what the agent says.
    #[serde(default, skip_serializing_if = "RunTerms::is_default")]
    pub terms: RunTerms,
    /// The form of its answer.
    #[serde(default, skip_serializing_if = "AnswerForm::is_text")]
    pub answer: AnswerForm,
    /// What identifies the agent's version, of one that is a step of a run with a store; that of a run of its own is
    /// [`RunStarted::parts`]. `None` in journals of earlier releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<Arc<str>>,
    /// How much of its session's history it is given, when it is a run of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<SessionWindow>,
    /// What becomes of the runs that the window has no room for, when they are summed up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<Arc<Summary>>,
}

impl AgentStarted {
    pub(crate) fn new(name: Arc<str>, instructions: Option<Arc<Message>>, input: Conversation) -> Self {
        Self {
            name,
            instructions,
            input,
            given: None,
            terms: RunTerms::default(),
            answer: AnswerForm::Text,
            definition: None,
            window: None,
            summary: None,
        }
    }

    /// Whether another one was given the same by its caller; the instructions are the agent's own.
    pub(crate) fn same_input(&self, other: &Self) -> bool {
        // A journal that was written before instructions were kept apart has them in front, as what hooks saw has.
        let uninstructed = |mut conversation: Conversation| match conversation.messages().first() {
            Some(first) if first.role() == Role::System => {
                conversation = conversation.messages().iter().skip(1).map(Arc::clone).collect();
                conversation
            }
            _ => conversation,
        };
        let given = |of: &Self| uninstructed(of.given.clone().unwrap_or_else(|| of.input.clone()));
        given(self) == given(other)
    }

    /// What a model is given first: the instructions and the conversation.
    pub(crate) fn request(&self) -> Conversation {
        match &self.instructions {
            None => self.input.clone(),
            Some(instructions) => std::iter::once(instructions).chain(self.input.messages()).map(Arc::clone).collect(),
        }
    }
}

/// The form of an agent's answer: what its text is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AnswerForm {
    /// Text for a person.
    #[default]
    Text,
    /// A JSON object: the value of the output type.
    Object,
    /// A JSON object whose field `value` is the value of the output type, for types such as a list or a number.
    Value,
}

impl AnswerForm {
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
    fn is_text(&self) -> bool {
        *self == Self::Text
    }

    /// An answer as JSON: text as a JSON string.
    pub(crate) fn encoded(self, text: &str) -> Result<Encoded, serde_json::Error> {
        #[derive(Deserialize)]
        struct Wrapped {
            value: Encoded,
        }
        match self {
            Self::Text => Encoded::new(text),
            Self::Object => Encoded::from_json(unfenced(text).to_owned()),
            Self::Value => serde_json::from_str(unfenced(text)).map(|wrapped: Wrapped| wrapped.value),
        }
    }
}

/// What a run, or an agent in one, was granted and limited to when it began. Resuming the run changes nothing about it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunTerms {
    /// The most turns, instead of the agent's own limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_steps: Option<u32>,
    /// The longest it may be executed, in milliseconds; of an agent, instead of its own limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// The most model calls, where that is fewer than the runtime or the agent allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_llm_calls: Option<u32>,
    /// The scopes it was granted; of an agent, beside its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<Arc<str>>,
    /// Whether the run undoes what it had done when it fails or is cancelled.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub compensate: bool,
    /// That it is a live run, which waits for messages until it is closed; of an agent's run of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<LiveTerms>,
    /// `true` if model calls are streamed also without a listener.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stream: bool,
    /// `true` if the run has no `tracing` spans.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub untraced: bool,
    /// `true` if metrics leave the run out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unmetered: bool,
}

/// How a live run waits for messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LiveTerms {
    /// How long it waits for the next message before it closes itself, in milliseconds; without it, for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_timeout_ms: Option<u64>,
}

impl RunTerms {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// What a workflow began with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "StoredWorkflowStarted")]
#[non_exhaustive]
pub struct WorkflowStarted {
    /// The workflow's name.
    pub name: Arc<str>,
    /// The hash of its definition; a run is resumed only by a workflow of the same hash, unless its runtime
    /// accepts all changes.
    pub definition: Arc<str>,
    /// The input.
    pub input: Encoded,
    /// What a run of its own was granted and limited to; a workflow in a step has the grants of the step.
    #[serde(default, skip_serializing_if = "RunTerms::is_default")]
    pub terms: RunTerms,
}

/// The stored form, also that of journals in which the grants had no terms around them.
#[derive(Deserialize)]
struct StoredWorkflowStarted {
    name: Arc<str>,
    definition: Arc<str>,
    input: Encoded,
    #[serde(default)]
    terms: RunTerms,
    #[serde(default)]
    grants: Vec<Arc<str>>,
}

impl From<StoredWorkflowStarted> for WorkflowStarted {
    fn from(stored: StoredWorkflowStarted) -> Self {
        let StoredWorkflowStarted { name, definition, input, mut terms, grants } = stored;
        terms.scopes.extend(grants);
        Self { name, definition, input, terms }
    }
}

impl WorkflowStarted {
    pub(crate) fn new(name: Arc<str>, definition: Arc<str>, input: Encoded) -> Self {
        Self { name, definition, input, terms: RunTerms::default() }
    }
}

/// The outcome of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RunCompleted {
    /// An agent's answer.
    Agent(Arc<AgentCompleted>),
    /// A workflow's output.
    Workflow(WorkflowCompleted),
}

impl RunCompleted {
    /// The answer, when an agent gave it.
    pub fn agent(&self) -> Option<&AgentCompleted> {
        match self {
            Self::Agent(agent) => Some(agent),
            Self::Workflow(_) => None,
        }
    }

    /// The output, when a workflow gave it.
    pub fn workflow(&self) -> Option<&WorkflowCompleted> {
        match self {
            Self::Workflow(workflow) => Some(workflow),
            Self::Agent(_) => None,
        }
    }
}

/// The outcome of an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AgentCompleted {
    /// The model's last message.
    pub message: Arc<Message>,
    /// Why the model stopped there; an answer that was cut off says `length`.
    pub stop_reason: StopReason,
    /// How many turns it took.
    pub steps: u32,
    /// The tokens of all model calls.
    pub usage: Usage,
    /// The middleware that answered in the agent's place; the agent then took no step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<Arc<str>>,
    /// The answer under the [key](crate::agent::AgentSettings::output_key) that the agent saves it under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saved: Option<Arc<SavedByStep>>,
}

impl AgentCompleted {
    pub(crate) fn new(message: Arc<Message>, stop_reason: StopReason, steps: u32, usage: Usage) -> Self {
        Self { message, stop_reason, steps, usage, answered_by: None, saved: None }
    }

    /// The text of the answer: what the model said, or the JSON that it gave for the agent's output type.
    pub fn text(&self) -> Cow<'_, str> {
        answer_text(&self.message)
    }
}

/// The outcome of a workflow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WorkflowCompleted {
    /// The output.
    pub output: Encoded,
}

impl WorkflowCompleted {
    pub(crate) fn new(output: Encoded) -> Self {
        Self { output }
    }
}

/// The definition that a run goes by after its workflow or its agent was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Redefined {
    /// The hash of the new definition of its workflow; `None` in a run of an agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<Arc<str>>,
    /// The nodes whose earlier records no longer count.
    pub forgotten: Vec<StepPath>,
    /// The id of the new definition by parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<Arc<str>>,
    /// The places that the nodes have in the new definition whose records hold state or artifacts; those of nodes that it
    /// does not have no longer count. `None` when nothing had been saved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub places: Option<BTreeMap<StepPath, u64>>,
}

impl Redefined {
    pub(crate) fn new(definition: Option<Arc<str>>, forgotten: Vec<StepPath>, parts: Arc<str>) -> Self {
        Self { definition, forgotten, parts: Some(parts), places: None }
    }

    pub(crate) fn with_places(self, places: Option<BTreeMap<StepPath, u64>>) -> Self {
        Self { places, ..self }
    }
}

/// A call that may have had an effect which is not undone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NotUndone {
    /// The call.
    pub path: StepPath,
    /// The tool that was called, by the name in the call; empty where that is not known.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub tool: Arc<str>,
    /// Why it is not undone.
    pub problem: Arc<str>,
}

impl NotUndone {
    pub(crate) fn new(path: StepPath, tool: impl Into<Arc<str>>, problem: impl Into<Arc<str>>) -> Self {
        Self { path, tool: tool.into(), problem: problem.into() }
    }

    /// The calls that are not undone, each with the reason, as a sentence.
    pub(crate) fn list(calls: &[Self]) -> String {
        let calls: Vec<String> = calls.iter().map(|call| format!("`{}` ({})", call.path, call.problem)).collect();
        format!("these calls are not undone: {}", calls.join(", "))
    }
}

/// What a paused run waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PauseReason {
    /// An operator paused it.
    Operator,
    /// Nothing is left to do before a person has answered.
    Approval,
    /// The end of its process interrupted a step with effects; an operator decides whether it runs again.
    Interrupted,
    /// It is a live run that has answered, and waits for the next message.
    Message,
    /// Something that this release does not know: a newer one wrote the run. It is said of a run in a list; the event of
    /// such a pause is [`EventKind::Unknown`](super::EventKind::Unknown).
    Other,
}

impl fmt::Display for PauseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Operator => "operator",
            Self::Approval => "approval",
            Self::Interrupted => "interrupted",
            Self::Message => "message",
            Self::Other => "other",
        })
    }
}

/// What one agent of a run has spent on one model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Spending {
    /// The agent's name.
    pub agent: Arc<str>,
    /// The wire format or maker.
    pub provider: Arc<str>,
    /// The model's name.
    pub model: Arc<str>,
    /// How many calls were begun, failed ones included, answers of middleware excluded.
    pub calls: u32,
    /// The tokens of all answers.
    pub usage: Usage,
}

/// Where the run of an agent was between two turns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunAdvanced {
    /// The turn that was over, from 1.
    pub step: u32,
    /// What was said since the run began, calls of tools and their results included.
    pub messages: Conversation,
    /// The tokens of all answers.
    pub usage: Usage,
    /// How many model calls the agent had begun, answers of middleware excluded.
    pub model_calls: u32,
    /// How many calls of tools had failed since the last one that succeeded.
    pub failures_in_row: u32,
    /// How many answers did not fit the output type.
    pub misfits: u32,
    /// How long the run had been executed, in milliseconds.
    pub spent_ms: u64,
    /// The tokens of all answers that models gave.
    pub tokens: u64,
    /// Those of the last one.
    pub last_tokens: u64,
    /// The most tokens that an answer had, also one of a nested agent.
    pub longest_answer: u64,
    /// What the tools saved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saved: Option<Arc<SavedByStep>>,
    /// The number of the last message that was sent to the run and is part of `messages`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub delivered: u32,
    /// The turn with which the model had answered before it was sent another message.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub answered: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// The tool that a model calls to answer when its provider takes no schema with the request.
pub(crate) const ANSWER_TOOL: &str = "final_answer";

/// The tool by which a model transfers the conversation to another agent of its team.
pub(crate) const TRANSFER_TOOL: &str = "transfer_to_agent";

/// The tool by which a model ends the loop around its agent, and its own turns.
pub(crate) const EXIT_TOOL: &str = "exit_loop";

/// An agent of a team transferred the conversation to another one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AgentHandoff {
    /// The agent that had the conversation.
    pub from: Arc<str>,
    /// The agent that has it from now on.
    pub to: Arc<str>,
    /// The instructions of that one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<Arc<Message>>,
}

impl AgentHandoff {
    pub(crate) fn new(from: Arc<str>, to: Arc<str>, instructions: Option<Arc<Message>>) -> Self {
        Self { from, to, instructions }
    }
}

/// The text of an answer: what the model said, or what it called [`ANSWER_TOOL`] with.
pub(crate) fn answer_text(message: &Message) -> Cow<'_, str> {
    match message.tool_calls().find(|call| call.name == ANSWER_TOOL) {
        Some(call) => Cow::Borrowed(&call.arguments),
        None => message.text(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_that_was_written_before_callers_and_tags_is_read() {
        let old = r#"{"version":1,"body":{"workflow":{"name":"w","definition":"d","input":{},"grants":["refunds"]}}}"#;
        let started: RunStarted = serde_json::from_str(old).unwrap();
        assert_eq!((&started.caller, started.tags.len()), (&None, 0));
        assert_eq!(*started.terms(), RunTerms { scopes: vec!["refunds".into()], ..RunTerms::default() });
        let old = r#"{"version":1,"body":{"agent":{"name":"a","input":[],"terms":{"timeout_ms":5}}}}"#;
        let started: RunStarted = serde_json::from_str(old).unwrap();
        assert_eq!(*started.terms(), RunTerms { timeout_ms: Some(5), ..RunTerms::default() });
    }

    #[test]
    fn what_a_run_began_with_is_stored_and_read_back() {
        let mut workflow = WorkflowStarted::new("w".into(), "d".into(), Encoded::null());
        let plain = serde_json::to_string(&RunStarted::new(RunBody::Workflow(workflow.clone()))).unwrap();
        assert_eq!(plain, r#"{"version":1,"body":{"workflow":{"name":"w","definition":"d","input":null}}}"#);
        workflow.terms = RunTerms {
            max_steps: None,
            timeout_ms: Some(1000),
            max_llm_calls: Some(3),
            scopes: vec!["refunds".into()],
            compensate: true,
            live: Some(LiveTerms { idle_timeout_ms: Some(60_000) }),
            stream: true,
            untraced: true,
            unmetered: true,
        };
        let mut started = RunStarted::new(RunBody::Workflow(workflow));
        started.caller = Some("ada".into());
        started.tags.insert("tenant".to_owned(), "acme".to_owned());
        let json = serde_json::to_string(&started).unwrap();
        assert_eq!(serde_json::from_str::<RunStarted>(&json).unwrap(), started, "{json}");
    }
}

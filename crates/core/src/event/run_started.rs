//! Payloads of the events that start a run: of an agent or a workflow.

use super::document_version::DocumentVersion;
use super::session_place::{SessionArtifact, SessionPlace, SessionWindow, Summary};
use crate::caller::{Caller, CallerClaims};
use crate::message::{Conversation, Message, Role};
use crate::state::StateValues;
use crate::value::Encoded;
use agentflow_schema::text::unfenced;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The start of a run, with all settings that a resume needs. A resume changes none of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunStarted {
    /// Version of the event format. [`RunStarted::VERSION`] if written by this release.
    pub version: u32,
    /// The agent or workflow, and its input.
    pub body: RunBody,
    /// Name of the caller on whose behalf the run was started, as set by the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<Arc<str>>,
    /// Roles, groups and scopes of the caller. [`started_by`](Self::started_by) returns them with the
    /// name.
    #[serde(default, skip_serializing_if = "CallerClaims::is_empty")]
    pub caller_claims: CallerClaims,
    /// Id of the host program's trace to which the run belongs, as set by the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<Arc<str>>,
    /// Tags by which runs are found.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    /// The [id](crate::definition::Definition::id) of the definition by parts, which is in the
    /// store. Set if the run has a store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<Arc<str>>,
    /// Position of the run in its session, if it belongs to one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<Box<SessionPlace>>,
    /// State of the session when the run started, as the runs of its history left it. `None` if it
    /// was empty, and in journals of earlier releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<Arc<StateValues>>,
    /// Newest artifact of each name that the runs of its history had saved when the run started, in
    /// the order of the names.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub artifacts: Arc<[SessionArtifact]>,
    /// Version of the stored document with which the run starts. `None` for workflows of the program
    /// and of folders, and in journals of earlier releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document: Option<Arc<DocumentVersion>>,
}

/// The subject of a run.
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
    /// Version of the event format that this release writes.
    pub const VERSION: u32 = 1;

    pub(crate) fn new(body: RunBody) -> Self {
        Self {
            version: Self::VERSION,
            body,
            caller: None,
            caller_claims: CallerClaims::default(),
            trace_id: None,
            tags: BTreeMap::new(),
            parts: None,
            session: None,
            state: None,
            artifacts: Arc::default(),
            document: None,
        }
    }

    /// Returns the name of the agent or workflow.
    pub fn name(&self) -> &str {
        match &self.body {
            RunBody::Agent(agent) => &agent.name,
            RunBody::Workflow(workflow) => &workflow.name,
        }
    }

    /// Returns the caller on whose behalf the run was started. A journal of an earlier release has
    /// only its name.
    pub fn started_by(&self) -> Option<Caller> {
        Caller::recorded(self.caller.as_ref(), &self.caller_claims)
    }

    /// Returns the grants and limits of the run.
    pub fn terms(&self) -> &RunTerms {
        match &self.body {
            RunBody::Agent(agent) => &agent.terms,
            RunBody::Workflow(workflow) => &workflow.terms,
        }
    }

    /// Returns the start of the agent, if the run executes an agent.
    pub fn agent(&self) -> Option<&AgentStarted> {
        match &self.body {
            RunBody::Agent(agent) => Some(agent),
            RunBody::Workflow(_) => None,
        }
    }

    /// Returns the start of the workflow, if the run executes a workflow.
    pub fn workflow(&self) -> Option<&WorkflowStarted> {
        match &self.body {
            RunBody::Workflow(workflow) => Some(workflow),
            RunBody::Agent(_) => None,
        }
    }
}

/// The start of an agent, as a run or as a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AgentStarted {
    /// Name of the agent.
    pub name: Arc<str>,
    /// The instructions, which precede the conversation in every request. `None` in journals of
    /// older releases, where they are the first message of `input`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<Arc<Message>>,
    /// The conversation at the start, without the instructions.
    pub input: Conversation,
    /// The caller's conversation with the instructions in front, if middleware changed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given: Option<Conversation>,
    /// Grants and limits of this execution, in addition to the agent's own settings.
    #[serde(default, skip_serializing_if = "RunTerms::is_default")]
    pub terms: RunTerms,
    /// The form of the answer.
    #[serde(default, skip_serializing_if = "AnswerForm::is_text")]
    pub answer: AnswerForm,
    /// Id of the agent's definition, for an agent that is a step of a run with a store. If the
    /// agent is the run itself, the id is [`RunStarted::parts`]. `None` in journals of earlier
    /// releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<Arc<str>>,
    /// The part of the session history that the agent receives, if the run belongs to a session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<SessionWindow>,
    /// Settings for summarizing the older runs of the session, which do not fit into the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<Arc<Summary>>,
}

impl AgentStarted {
    pub(crate) fn new(
        name: Arc<str>,
        instructions: Option<Arc<Message>>,
        input: Conversation,
    ) -> Self {
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

    /// Returns `true` if both agents received the same input from their callers. Instructions are
    /// ignored, since they belong to the agent.
    pub(crate) fn same_input(&self, other: &Self) -> bool {
        // Drops a leading system message. In journals of older releases the instructions are the
        // first message, and a conversation that hooks saw also starts with them.
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

    /// Returns the start of the model request: the instructions and the conversation.
    pub(crate) fn request(&self) -> Conversation {
        match &self.instructions {
            None => self.input.clone(),
            Some(instructions) => {
                std::iter::once(instructions).chain(self.input.messages()).map(Arc::clone).collect()
            }
        }
    }
}

/// The form of an agent's answer, which determines how its text is parsed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AnswerForm {
    /// Text for a person.
    #[default]
    Text,
    /// A JSON object: the value of the output type.
    Object,
    /// A JSON object whose field `value` is the value of the output type, for types such as a list
    /// or a number.
    Value,
}

impl AnswerForm {
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
    fn is_text(&self) -> bool {
        *self == Self::Text
    }

    /// Converts an answer to JSON. Text becomes a JSON string.
    pub(crate) fn encoded(self, text: &str) -> Result<Encoded, serde_json::Error> {
        #[derive(Deserialize)]
        struct Wrapped {
            value: Encoded,
        }
        match self {
            Self::Text => Encoded::new(text),
            // Models often wrap JSON in a Markdown code fence.
            Self::Object => Encoded::from_json(unfenced(text).to_owned()),
            Self::Value => {
                serde_json::from_str(unfenced(text)).map(|wrapped: Wrapped| wrapped.value)
            }
        }
    }
}

/// Grants and limits of a run, or of an agent in a run, recorded when it starts. A resume changes
/// none of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunTerms {
    /// Maximum number of turns, overriding the limit of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_steps: Option<u32>,
    /// Maximum execution time in milliseconds. For an agent, it overrides the agent's own limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Maximum number of model calls, if lower than the limit of the runtime or the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_llm_calls: Option<u32>,
    /// Granted scopes. An agent has them in addition to its own scopes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<Arc<str>>,
    /// `true` if the run compensates its completed calls when it fails or is cancelled.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub compensate: bool,
    /// Settings of a live run, which waits for messages until it is closed. Only for an agent that
    /// is the run itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<LiveTerms>,
    /// `true` if model calls are streamed even without a listener.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stream: bool,
    /// `true` if the run creates no `tracing` spans.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub untraced: bool,
    /// `true` if metrics do not include the run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unmetered: bool,
    /// `true` if the run was queued: it is executed by the process that resumes it, not by the one
    /// that started it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub queued: bool,
}

/// Settings for how a live run waits for messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LiveTerms {
    /// Maximum time in milliseconds that the run waits for the next message before it closes.
    /// Without it, the run waits forever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_timeout_ms: Option<u64>,
}

impl RunTerms {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The start of a workflow, as a run or as a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "StoredWorkflowStarted")]
#[non_exhaustive]
pub struct WorkflowStarted {
    /// Name of the workflow.
    pub name: Arc<str>,
    /// Hash of the workflow's definition. Only a workflow with the same hash resumes the run,
    /// unless the runtime accepts all changes.
    pub definition: Arc<str>,
    /// The input.
    pub input: Encoded,
    /// Grants and limits, if the workflow is the run itself. A workflow in a step has the grants of
    /// the step.
    #[serde(default, skip_serializing_if = "RunTerms::is_default")]
    pub terms: RunTerms,
}

/// The stored form. It also accepts journals of older releases, in which the grants were not part
/// of `terms`.
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
        // Only journals of older releases contain `grants`.
        terms.scopes.extend(grants);
        Self { name, definition, input, terms }
    }
}

impl WorkflowStarted {
    pub(crate) fn new(name: Arc<str>, definition: Arc<str>, input: Encoded) -> Self {
        Self { name, definition, input, terms: RunTerms::default() }
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
        assert_eq!((started.started_by(), started.caller_claims.is_empty()), (None, true));
        assert_eq!(
            *started.terms(),
            RunTerms { scopes: vec!["refunds".into()], ..RunTerms::default() }
        );
        let old =
            r#"{"version":1,"body":{"agent":{"name":"a","input":[],"terms":{"timeout_ms":5}}}}"#;
        let started: RunStarted = serde_json::from_str(old).unwrap();
        assert_eq!(*started.terms(), RunTerms { timeout_ms: Some(5), ..RunTerms::default() });
    }

    #[test]
    fn what_a_run_began_with_is_stored_and_read_back() {
        let mut workflow = WorkflowStarted::new("w".into(), "d".into(), Encoded::null());
        let plain =
            serde_json::to_string(&RunStarted::new(RunBody::Workflow(workflow.clone()))).unwrap();
        assert_eq!(
            plain,
            r#"{"version":1,"body":{"workflow":{"name":"w","definition":"d","input":null}}}"#
        );
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
            queued: true,
        };
        let mut started = RunStarted::new(RunBody::Workflow(workflow));
        started.caller = Some("ada".into());
        started.caller_claims.roles.insert("editor".into());
        started.tags.insert("tenant".to_owned(), "acme".to_owned());
        let json = serde_json::to_string(&started).unwrap();
        assert_eq!(serde_json::from_str::<RunStarted>(&json).unwrap(), started, "{json}");
        assert!(json.contains(r#""caller_claims":{"roles":["editor"]}"#), "{json}");
    }
}

//! Events: facts about a run. The journal, the event stream and the traces share the type
//! [`Event`].
//!
//! Each recorded event is one record of the journal, and the state of a run is the fold of its
//! events, so no state is stored a second time. Deltas of model responses and progress reports are
//! not recorded. They are produced only while a listener is attached.
//!
//! - [`EventKind`] is the payload, one variant per kind. `shape` maps each kind to its name, its
//!   subject and its effect on the subject.
//! - `payload`, `session_place` and `questions` define the larger payloads.
//! - `json` reads and writes events, including events of newer releases. `line` formats an event
//!   for people.
//! - An [`EventSink`] receives events. [`QueuedSink`] puts a bounded queue in front of a slow or
//!   async sink.

mod document_version;
mod json;
mod kind;
mod line;
mod payload;
mod questions;
mod queued_sink;
mod run_started;
mod session_place;
mod shape;
mod sink;

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use self::document_version::DocumentVersion;
pub use self::kind::{EventKind, ModelDelta, UnknownEvent};
pub(crate) use self::payload::{ANSWER_TOOL, EXIT_TOOL, TRANSFER_TOOL, answer_text};
pub use self::payload::{
    AgentCompleted, AgentHandoff, NotUndone, PauseReason, Redefined, RunAdvanced, RunCompleted,
    Spending, WorkflowCompleted,
};
#[doc(hidden)]
pub use self::questions::split_question_id;
pub use self::questions::{ApprovalRequest, ToolWaiting};
pub use self::queued_sink::{AsyncEventSink, QueuedSink, WhenFull};
pub use self::run_started::{
    AgentStarted, AnswerForm, LiveTerms, RunBody, RunStarted, RunTerms, WorkflowStarted,
};
pub use self::session_place::{
    SessionArtifact, SessionPlace, SessionSummarized, SessionWindow, Summary,
};
pub use self::shape::{Edge, Shape, Subject};
pub use self::sink::{EventSink, JsonlSink, StdoutSink};
use crate::path::StepPath;
use crate::time::Timestamp;

/// The id of a run, unique within its store.
///
/// ```
/// use agentflow::RunId;
///
/// let id = RunId::new("order-17");
/// assert_eq!(id.as_str(), "order-17");
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(Arc<str>);

impl RunId {
    /// Creates a run id from its text.
    pub fn new(id: impl Into<Arc<str>>) -> Self {
        Self(id.into())
    }

    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// A fact about a run.
///
/// JSON form: `{"id", "run_id", "seq", "time", "name", "path", "parent", "payload"}`, and `part`
/// for a delta.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Event {
    /// The run.
    pub run_id: RunId,
    /// Position among the recorded events of the run, from 1, without gaps. A delta carries the
    /// number of the recorded event that it follows.
    pub seq: u64,
    /// 0 for a recorded event. For a delta, its position among the deltas after the same recorded
    /// event, from 1.
    pub part: u32,
    /// Time of the event, by the run's clock.
    pub time: Timestamp,
    /// Path of the step; the root path for the run itself.
    pub path: StepPath,
    /// The kind and payload of the event.
    pub kind: EventKind,
}

impl Event {
    /// Returns the id, unique among all runs of a store: `RUN:SEQ`, and `RUN:SEQ.PART` for a delta.
    pub fn id(&self) -> String {
        match self.part {
            0 => format!("{}:{}", self.run_id, self.seq),
            part => format!("{}:{}.{part}", self.run_id, self.seq),
        }
    }

    /// Formats the event as one line for people to read.
    pub fn line(&self) -> impl fmt::Display + '_ {
        line::Line(self)
    }

    /// Returns the canonical name, such as `tool.completed`.
    pub fn name(&self) -> &str {
        self.kind.name()
    }

    /// Returns `true` if the event is recorded in the journal. Deltas are not.
    pub fn is_recorded(&self) -> bool {
        self.part == 0
    }
}

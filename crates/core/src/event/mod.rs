//! Events: what happened in a run, in one type for the journal, the event stream and the traces.
//!
//! A recorded event is a record of the journal: folding the events of a run gives its state, so nothing is stored
//! twice. Deltas are not recorded; they exist only while somebody listens.

mod json;
mod kind;
mod line;
mod payload;
mod questions;
mod queued_sink;
mod session_place;
mod shape;
mod sink;

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use self::kind::{EventKind, ModelDelta, UnknownEvent};
pub(crate) use self::payload::{ANSWER_TOOL, EXIT_TOOL, TRANSFER_TOOL, answer_text};
pub use self::payload::{
    AgentCompleted, AgentHandoff, AgentStarted, AnswerForm, LiveTerms, NotUndone, PauseReason, Redefined, RunAdvanced,
    RunBody, RunCompleted, RunStarted, RunTerms, Spending, WorkflowCompleted, WorkflowStarted,
};
pub(crate) use self::questions::named_question;
pub use self::questions::{ApprovalRequest, ToolWaiting};
pub use self::queued_sink::{AsyncEventSink, QueuedSink, WhenFull};
pub use self::session_place::{SessionArtifact, SessionPlace, SessionSummarized, SessionWindow, Summary};
pub use self::shape::{Edge, Shape, Subject};
pub use self::sink::{EventSink, JsonlSink, StdoutSink};
use crate::path::StepPath;
use crate::time::Timestamp;

/// The name of a run, unique within its store.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(Arc<str>);

impl RunId {
    /// A run of a given name.
    pub fn new(id: impl Into<Arc<str>>) -> Self {
        Self(id.into())
    }

    /// The name.
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

/// Something that happened in a run.
///
/// As JSON: `{"id", "run_id", "seq", "time", "name", "path", "parent", "payload"}`, and `part` for a delta.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Event {
    /// The run it happened in.
    pub run_id: RunId,
    /// The place among the run's recorded events, from 1, without gaps. A delta carries the number of the recorded
    /// event it comes after.
    pub seq: u64,
    /// 0 for a recorded event; for deltas the place among those after the same recorded event, from 1.
    pub part: u32,
    /// When it happened, by the run's clock.
    pub time: Timestamp,
    /// The step it happened in; the root for the run itself.
    pub path: StepPath,
    /// What happened.
    pub kind: EventKind,
}

impl Event {
    /// The id, unique among all runs of a store: `RUN:SEQ`, and `RUN:SEQ.PART` for a delta.
    pub fn id(&self) -> String {
        match self.part {
            0 => format!("{}:{}", self.run_id, self.seq),
            part => format!("{}:{}.{part}", self.run_id, self.seq),
        }
    }

    /// The event in one line, for a person to read.
    pub fn line(&self) -> impl fmt::Display + '_ {
        line::Line(self)
    }

    /// The canonical name, such as `tool.completed`.
    pub fn name(&self) -> &str {
        self.kind.name()
    }

    /// Whether it is part of the journal; deltas are not.
    pub fn is_recorded(&self) -> bool {
        self.part == 0
    }
}

//! What happened in a run: one type for the journal, the event stream and the traces.
//!
//! A recorded event is a record of the journal: folding the events of a run gives its state again, so nothing is kept
//! twice. Deltas are not recorded; they exist only while somebody listens.

mod log;
mod sink;

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub(crate) use self::log::EventLog;
pub use self::log::Events;
pub use self::sink::{EventSink, JsonlSink, StdoutSink};
use crate::error::Failure;
use crate::message::{Conversation, Message, ToolCall, ToolResult};
use crate::model::{ModelResponse, StopReason, ToolCallDelta, Usage};
use crate::path::StepPath;
use crate::time::Timestamp;
use crate::tool::Effects;

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

/// What happened. The variants' names are the canonical dotted names, such as `tool.completed`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", content = "payload")]
#[non_exhaustive]
pub enum EventKind {
    /// A run began.
    #[serde(rename = "run.started")]
    RunStarted(Arc<RunStarted>),
    /// A turn of the agent is over: the model answered and its tools, if any, have results.
    #[serde(rename = "run.step")]
    RunStep {
        /// The turn, from 1.
        step: u32,
    },
    /// A run ended with an answer.
    #[serde(rename = "run.completed")]
    RunCompleted(Arc<RunCompleted>),
    /// A run ended without an answer.
    #[serde(rename = "run.failed")]
    RunFailed {
        /// Why.
        error: Arc<Failure>,
    },
    /// A run was stopped from outside.
    #[serde(rename = "run.cancelled")]
    RunCancelled {
        /// Who or what stopped it.
        reason: Arc<str>,
    },
    /// A model call began.
    #[serde(rename = "model.started")]
    ModelStarted {
        /// The wire format or maker.
        provider: Arc<str>,
        /// The model's name.
        model: Arc<str>,
    },
    /// A piece of a model's answer; never recorded.
    #[serde(rename = "model.delta")]
    ModelDelta(ModelDelta),
    /// A model answered.
    #[serde(rename = "model.completed")]
    ModelCompleted(Arc<ModelResponse>),
    /// A model call failed.
    #[serde(rename = "model.failed")]
    ModelFailed {
        /// Why.
        error: Arc<Failure>,
    },
    /// A model's answer does not fit the agent's output type; the model is told and asked again.
    #[serde(rename = "output.rejected")]
    OutputRejected {
        /// What does not fit.
        problem: Arc<str>,
    },
    /// A tool call began.
    #[serde(rename = "tool.started")]
    ToolStarted {
        /// What the model asked for.
        call: Arc<ToolCall>,
        /// What the tool does to the world, as declared when it started.
        effects: Effects,
        /// Whether the tool may simply be called again, as declared when it started.
        idempotent: bool,
    },
    /// A tool answered.
    #[serde(rename = "tool.completed")]
    ToolCompleted {
        /// What it answered.
        result: Arc<ToolResult>,
        /// How long it took, in milliseconds.
        duration_ms: u64,
    },
    /// A tool call ended without the tool's answer; the result says why and is what the model sees.
    #[serde(rename = "tool.failed")]
    ToolFailed {
        /// What the model sees.
        result: Arc<ToolResult>,
        /// How long it took, in milliseconds.
        duration_ms: u64,
    },
}

impl EventKind {
    /// The canonical name, such as `tool.completed`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::RunStarted(_) => "run.started",
            Self::RunStep { .. } => "run.step",
            Self::RunCompleted(_) => "run.completed",
            Self::RunFailed { .. } => "run.failed",
            Self::RunCancelled { .. } => "run.cancelled",
            Self::ModelStarted { .. } => "model.started",
            Self::ModelDelta(_) => "model.delta",
            Self::ModelCompleted(_) => "model.completed",
            Self::ModelFailed { .. } => "model.failed",
            Self::OutputRejected { .. } => "output.rejected",
            Self::ToolStarted { .. } => "tool.started",
            Self::ToolCompleted { .. } => "tool.completed",
            Self::ToolFailed { .. } => "tool.failed",
        }
    }

    /// Whether this is the last event of a run.
    pub fn ends_run(&self) -> bool {
        matches!(self, Self::RunCompleted(_) | Self::RunFailed { .. } | Self::RunCancelled { .. })
    }
}

/// What a run began with: enough to take it up again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunStarted {
    /// The version of the recorded events, [`RunStarted::VERSION`] when written by this release.
    pub version: u32,
    /// The agent's name.
    pub agent: Arc<str>,
    /// The conversation it began with, instructions included.
    pub input: Conversation,
}

impl RunStarted {
    /// The version of the recorded events that this release writes.
    pub const VERSION: u32 = 1;

    pub(crate) fn new(agent: Arc<str>, input: Conversation) -> Self {
        Self { version: Self::VERSION, agent, input }
    }
}

/// What a run came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunCompleted {
    /// The model's last message.
    pub message: Arc<Message>,
    /// Why the model stopped there; an answer that was cut off says `length`.
    pub stop_reason: StopReason,
    /// How many turns it took.
    pub steps: u32,
    /// The tokens of all model calls.
    pub usage: Usage,
}

/// A piece of a model's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ModelDelta {
    /// More text.
    Text(String),
    /// More readable reasoning.
    Reasoning(String),
    /// More of a tool call. Boxed, since every record of a journal has the size of the largest kind.
    ToolCall(Box<ToolCallDelta>),
}

impl Event {
    /// The id, unique among all runs of a store: `RUN:SEQ`, and `RUN:SEQ.PART` for a delta.
    pub fn id(&self) -> String {
        match self.part {
            0 => format!("{}:{}", self.run_id, self.seq),
            part => format!("{}:{}.{part}", self.run_id, self.seq),
        }
    }

    /// The canonical name, such as `tool.completed`.
    pub fn name(&self) -> &'static str {
        self.kind.name()
    }

    /// Whether it is part of the journal; deltas are not.
    pub fn is_recorded(&self) -> bool {
        self.part == 0
    }
}

#[derive(Serialize)]
struct Written<'a> {
    id: String,
    run_id: &'a RunId,
    seq: u64,
    #[serde(skip_serializing_if = "is_zero")]
    part: u32,
    time: Timestamp,
    path: &'a StepPath,
    parent: Option<StepPath>,
    #[serde(flatten)]
    kind: &'a EventKind,
}

#[derive(Deserialize)]
struct Read {
    run_id: RunId,
    seq: u64,
    #[serde(default)]
    part: u32,
    time: Timestamp,
    path: StepPath,
    #[serde(flatten)]
    kind: EventKind,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn is_zero(part: &u32) -> bool {
    *part == 0
}

impl Serialize for Event {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Written {
            id: self.id(),
            run_id: &self.run_id,
            seq: self.seq,
            part: self.part,
            time: self.time,
            path: &self.path,
            parent: self.path.parent(),
            kind: &self.kind,
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Read { run_id, seq, part, time, path, kind } = Read::deserialize(deserializer)?;
        Ok(Self { run_id, seq, part, time, path, kind })
    }
}

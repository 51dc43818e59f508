//! What passes between a run and a step that is executed elsewhere while it is executed: records in one direction, control
//! requests in the other. It keeps and decides nothing.

use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::{ExecutorError, StepCall};
use crate::error::ControlError;
use crate::event::{Event, ModelDelta, RunId};
use crate::path::StepPath;
use crate::tool_definition::Effects;
use crate::value::Encoded;

/// One execution of a [`StepCall`]: a call that is delivered twice has two, of which one takes the step. It survives JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StepDelivery {
    /// The run.
    pub run: RunId,
    /// The step.
    pub path: StepPath,
    /// The attempt.
    pub attempt: u32,
    /// What tells this execution from all others of the call.
    pub id: Arc<str>,
}

/// What was recorded below a step, to be kept together. It survives JSON.
///
/// [`Runtime::execute_step`](crate::Runtime::execute_step) makes it, and nobody else does. Its first batch, of the number 0,
/// takes the step for the delivery; nothing of the step runs before that is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StepBatch {
    /// The execution of the step that this is of.
    pub delivery: StepDelivery,
    /// Which batch of the delivery this is, from 0. One that is sent again is kept once.
    pub number: u64,
    /// The events, in their order. Their numbers and times are given anew where the run is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Event>,
    /// The outcomes of control requests, which are kept with the events that follow from them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<StepAnswer>,
    /// The strongest effect of the calls in the step that wait for [`StepSignal::Turn`], if that has changed. While a call
    /// waits, the step does not count against the limit of concurrent steps, and its time limit stands still.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<Effects>,
}

impl StepDelivery {
    /// An execution of a call.
    pub(crate) fn of(call: &StepCall, id: Arc<str>) -> Self {
        Self { run: call.run.clone(), path: call.path.clone(), attempt: call.attempt, id }
    }

    /// The batch that takes the step.
    pub(crate) fn first(&self) -> StepBatch {
        StepBatch { delivery: self.clone(), number: 0, events: Vec::new(), answers: Vec::new(), waits: None }
    }
}

/// The outcome of a control request to a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StepAnswer {
    /// The number of the request.
    pub request: u64,
    /// Whether it was done, or why not.
    pub outcome: Result<(), ControlError>,
}

impl StepAnswer {
    /// The outcome of a request.
    pub(crate) fn new(request: u64, outcome: Result<(), ControlError>) -> Self {
        Self { request, outcome }
    }
}

/// What a run says to a step that is executed elsewhere. It survives JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StepSignal {
    /// The run no longer waits for the step: it was cancelled, its time is over, or the step has its outcome. Nothing more
    /// follows.
    Stop {
        /// Why.
        reason: Arc<str>,
    },
    /// An operator paused the run: no model call, tool call or step begins until it is unpaused.
    Pause,
    /// An operator unpaused the run.
    Unpause,
    /// The run is drained: nothing new begins, and the step is [left](super::StepEnd::Left) when nothing in it is running.
    Drain,
    /// Steps that are written above this one have ended: calls with at most these effects may begin that the plan of the
    /// step does not show. In a call with stronger ones, the step waits.
    Turn {
        /// The strongest effect that a call may have.
        effects: Effects,
    },
    /// A person answered a question below the step.
    Answer {
        /// The number of the request, for its outcome.
        request: u64,
        /// Where the question is.
        node: String,
        /// The answer.
        answer: Encoded,
        /// Who answered.
        by: String,
    },
    /// An operator retries a node of a workflow below the step.
    Retry {
        /// The number of the request, for its outcome.
        request: u64,
        /// The node.
        node: String,
        /// Who asked for it.
        by: String,
    },
}

/// The way from a step that is executed elsewhere to its run: given to
/// [`Runtime::execute_step`](crate::Runtime::execute_step). [`StepHost`](super::StepHost) is one, for a runtime of the same
/// process; one that sends what it is given is written by whoever has the connection.
#[async_trait]
#[diagnostic::on_unimplemented(
    message = "`{Self}` records nothing for a step",
    label = "give a `StepHost`, or implement `agentflow::executor::StepRecorder`"
)]
pub trait StepRecorder: Send + Sync {
    /// Keeps what was recorded below the step, and returns when it is kept: a write that must not be lost begins after
    /// that. There is one call at a time. Dropped, it leaves open whether the batch was kept; who does not know that may
    /// give the same batch again.
    ///
    /// # Errors
    /// When it cannot be kept. The step ends then, and its outcome no longer matters. Of the first batch, the step does not
    /// begin and its outcome is [`StepEnd::Refused`](super::StepEnd::Refused).
    async fn record(&self, batch: StepBatch) -> Result<(), ExecutorError>;

    /// Shows a piece of a model's answer to whoever listens. It may be lost. Default: it is.
    fn delta(&self, path: &StepPath, delta: ModelDelta) {
        let _ = (path, delta);
    }

    /// Shows how far a step has come, as it said with [`Context::emit`](crate::Context::emit), to whoever listens. It may be
    /// lost. Default: it is.
    fn progress(&self, path: &StepPath, value: Encoded) {
        let _ = (path, value);
    }

    /// Waits for the next thing that the run says to the step. Dropping the future loses none. After
    /// [`StepSignal::Stop`] it is not asked again. A recorder whose signals never come lets a step wait for ever that calls
    /// a writing tool in a plain function while a step above it has not ended.
    async fn signal(&self) -> StepSignal;
}

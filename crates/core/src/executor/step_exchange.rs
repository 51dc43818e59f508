//! Messages between a run and a step that is executed remotely: records from the step, control
//! requests to it. Plain data and the trait `StepRecorder`.

use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::{ExecutorError, StepCall};
use crate::error::ControlError;
use crate::event::{Event, ModelDelta, RunId};
use crate::path::StepPath;
use crate::tool_definition::Effects;
use crate::value::Encoded;

/// A single execution of a [`StepCall`]. A call that is delivered twice has two executions, and one
/// of them takes the step. It can be sent as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StepDelivery {
    /// The run.
    pub run: RunId,
    /// Path of the step.
    pub path: StepPath,
    /// Number of the attempt.
    pub attempt: u32,
    /// Unique id of this execution.
    pub id: Arc<str>,
}

/// Records from below a step, to be stored together. It can be sent as JSON.
///
/// Only [`Runtime::execute_step`](crate::Runtime::execute_step) creates batches. The first batch,
/// with the number 0, takes the step for the delivery. No part of the step runs before that batch
/// is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StepBatch {
    /// The execution that sends the batch.
    pub delivery: StepDelivery,
    /// Number of the batch within the delivery, from 0. A batch that is sent again is stored once.
    pub number: u64,
    /// The events, in order. The run assigns new sequence numbers and times.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Event>,
    /// Outcomes of control requests. They are stored together with the events that they caused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<StepAnswer>,
    /// The strongest effect of the calls in the step that wait for [`StepSignal::Turn`], if it
    /// changed. While a call waits, the step does not count against the limit of concurrent steps,
    /// and its time limit is suspended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<Effects>,
}

impl StepDelivery {
    /// Creates an execution of a call.
    pub(crate) fn new(call: &StepCall, id: Arc<str>) -> Self {
        Self { run: call.run.clone(), path: call.path.clone(), attempt: call.attempt, id }
    }

    /// Returns the batch that takes the step.
    pub(crate) fn first(&self) -> StepBatch {
        StepBatch {
            delivery: self.clone(),
            number: 0,
            events: Vec::new(),
            answers: Vec::new(),
            waits: None,
        }
    }
}

/// The outcome of a control request to a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StepAnswer {
    /// Number of the request.
    pub request: u64,
    /// `Ok` if the request was carried out, or the reason why it was refused.
    pub outcome: Result<(), ControlError>,
}

impl StepAnswer {
    /// Creates the outcome of a request.
    pub(crate) fn new(request: u64, outcome: Result<(), ControlError>) -> Self {
        Self { request, outcome }
    }
}

/// A signal from a run to a step that is executed remotely. It can be sent as JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StepSignal {
    /// The run no longer waits for the step: it was cancelled, the time limit of the step was
    /// reached, or the step ended. This is the last signal.
    Stop {
        /// The reason.
        reason: Arc<str>,
    },
    /// An operator paused the run: no model call, tool call or step starts until it is unpaused.
    Pause,
    /// An operator unpaused the run.
    Unpause,
    /// The run is drained: no new work starts, and the step ends with
    /// [`Left`](super::StepEnd::Left) when its running work has finished.
    Drain,
    /// Steps written above this step have ended. Calls that the plan does not show may start if
    /// their effects are at most these; calls with stronger effects still wait.
    Turn {
        /// The strongest effect that a call may have.
        effects: Effects,
    },
    /// A person answered a question below the step.
    Answer {
        /// Number of the request, which its outcome refers to.
        request: u64,
        /// Path of the question.
        node: String,
        /// The answer.
        answer: Encoded,
        /// The person who answered.
        by: String,
    },
    /// An operator retries a node of a workflow below the step.
    Retry {
        /// Number of the request, which its outcome refers to.
        request: u64,
        /// Path of the node.
        node: String,
        /// The operator.
        by: String,
    },
}

/// The connection from a remote step to its run, passed to
/// [`Runtime::execute_step`](crate::Runtime::execute_step).
///
/// [`StepHost`](super::StepHost) implements it for a runtime in the same process. An executor that
/// uses a network connection provides an implementation that sends the batches over it.
#[async_trait]
#[diagnostic::on_unimplemented(
    message = "`{Self}` records nothing for a step",
    label = "give a `StepHost`, or implement `agentflow::executor::StepRecorder`"
)]
pub trait StepRecorder: Send + Sync {
    /// Stores a batch of records from below the step. Returns when the batch is stored; the step
    /// starts a write that must not be lost only after that. Calls do not overlap.
    ///
    /// # Errors
    /// Fails if the batch cannot be stored. The step then ends, and its outcome no longer counts.
    /// If the first batch fails, the step does not start, and its outcome is
    /// [`StepEnd::Refused`](super::StepEnd::Refused).
    ///
    /// # Cancel safety
    /// If the future is dropped, the batch may or may not be stored. Sending the same batch again
    /// is safe.
    async fn record(&self, batch: StepBatch) -> Result<(), ExecutorError>;

    /// Forwards a delta of a model response to listeners. It may be lost. The default discards it.
    fn delta(&self, path: &StepPath, delta: ModelDelta) {
        let _ = (path, delta);
    }

    /// Forwards the progress that a step reported with [`Context::emit`](crate::Context::emit) to
    /// listeners. It may be lost. The default discards it.
    fn progress(&self, path: &StepPath, value: Encoded) {
        let _ = (path, value);
    }

    /// Waits for the next signal from the run. It is not called again after [`StepSignal::Stop`].
    ///
    /// If an implementation never returns a signal, a step may wait forever when a plain function
    /// in it calls a writing tool before the steps above have ended.
    ///
    /// # Cancel safety
    /// Dropping the future loses no signal.
    async fn signal(&self) -> StepSignal;
}

//! `RunHandle`: what a caller holds while a run is executed on its own task.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::Stream;
use tokio::task::JoinHandle;

use super::approval::Approval;
use super::control_request::ControlRequest;
use super::events::Events;
use super::result::{RunEnd, RunResult};
use super::shared::RunShared;
use crate::error::{ControlError, Error, Result};
use crate::event::{Event, EventKind, RunId};
use crate::store::RunStatus;
use crate::value::{Encoded, NodeValue};

/// A run that is executed on its own task, with a result of type `T`.
///
/// Dropping the handle of a run in memory cancels the run, since nobody else could stop it. A run with a store
/// continues; it is reached by its id, through its [`Runtime`](crate::Runtime).
#[must_use = "dropping the handle of a run in memory cancels it"]
pub struct RunHandle<T = RunResult> {
    shared: Arc<RunShared>,
    task: JoinHandle<Result<Ended>>,
    ended: Option<Result<Ended>>,
    decode: Arc<dyn Fn(Ended) -> Result<T> + Send + Sync>,
}

/// The outcome of a run, before it is a value of the caller's type.
#[derive(Clone)]
pub(crate) enum Ended {
    Agent(RunEnd),
    Workflow(Encoded),
}

impl<T> RunHandle<T> {
    pub(crate) fn spawn(
        shared: Arc<RunShared>,
        run: impl Future<Output = Result<Ended>> + Send + 'static,
        decode: impl Fn(Ended) -> Result<T> + Send + Sync + 'static,
    ) -> Self {
        Self { shared, task: tokio::spawn(run), ended: None, decode: Arc::new(decode) }
    }

    /// The run's id.
    pub fn run_id(&self) -> &RunId {
        &self.shared.id
    }

    /// The run's events from the first one on, deltas from now on.
    pub fn events(&self) -> Events {
        Events::new(Arc::clone(&self.shared))
    }

    /// Stops the run and waits until its end is kept: the model's connection is closed and running steps are dropped at
    /// their next await. A tool on a thread of its own runs on; its answer is not used. Dropping the future takes
    /// nothing back.
    ///
    /// # Errors
    /// [`Error::Control`] when the run has ended, also when it ended by itself meanwhile.
    pub async fn cancel(&self, reason: impl Into<String>) -> Result<()> {
        self.ask(ControlRequest::Cancel { reason: reason.into() }).await
    }

    /// Stops the run here as if its process had ended: no end is recorded, and with a store it can be resumed.
    pub fn abandon(self) {
        // Nothing more is kept from now on; who resumes the run waits until its task is gone.
        self.shared.log.close();
        self.task.abort();
    }

    /// Starts nothing new from now on; running steps continue to their end.
    ///
    /// # Errors
    /// [`Error::Control`] when the run is paused already, has ended, or is not one of a workflow.
    pub async fn pause(&self) -> Result<()> {
        self.ask(ControlRequest::Pause).await
    }

    /// Continues a run that an operator paused.
    ///
    /// # Errors
    /// [`Error::Control`] when it is not paused, or waits for something else.
    pub async fn unpause(&self) -> Result<()> {
        self.ask(ControlRequest::Unpause).await
    }

    /// Runs a failed or interrupted node again, with what depends on it.
    ///
    /// # Errors
    /// [`Error::Control`] when there is no such node, or it has not failed.
    pub async fn retry(&self, node: &str, by: &str) -> Result<()> {
        self.ask(ControlRequest::Retry { node: node.to_owned(), by: by.to_owned() }).await
    }

    /// Answers the question of a gate, or of a node that needs approval, in the words of the usual question.
    ///
    /// # Errors
    /// [`Error::Control`] when there is no such node, it does not ask, or it asks for another type.
    pub async fn approve(&self, node: &str, approval: Approval, by: &str) -> Result<()> {
        self.answer(node, &approval, by).await
    }

    /// Answers the question of a gate with a value of the type that it asks for.
    ///
    /// # Errors
    /// [`Error::Control`] when there is no such node, it does not ask, or it asks for another type.
    pub async fn answer<A: NodeValue + Sync>(&self, node: &str, answer: &A, by: &str) -> Result<()> {
        let answer = answer.encode().map_err(|error| Error::value(&Arc::from(node), &error))?;
        self.ask(ControlRequest::Answer { node: node.to_owned(), answer, by: by.to_owned() }).await
    }

    async fn ask(&self, request: ControlRequest) -> Result<()> {
        let done = request.done();
        match self.shared.ask(request).await {
            Some(outcome) => Ok(outcome?),
            None => Err(match self.shared.log.end() {
                Some(EventKind::RunCompleted(_)) => ControlError::over(done, RunStatus::Success),
                Some(EventKind::RunCancelled { .. }) => ControlError::over(done, RunStatus::Cancelled),
                Some(_) => ControlError::over(done, RunStatus::Failed),
                None => ControlError::state(done, "no longer executed here"),
            }
            .into()),
        }
    }

    /// The run's journal so far.
    pub fn recorded(&self) -> Vec<Event> {
        self.shared.log.events()
    }

    /// Waits for the run's end and returns its result, also when called again. Dropping the future does not stop the
    /// run.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn result(&mut self) -> Result<T> {
        if self.ended.is_none() {
            self.ended = Some(match (&mut self.task).await {
                Ok(ended) => ended,
                Err(error) => Err(Error::Lost { reason: error.to_string() }),
            });
        }
        match &self.ended {
            Some(Ok(end)) => (self.decode)(end.clone()),
            Some(Err(error)) => Err(error.clone()),
            None => Err(Error::Lost { reason: "the run has no end".to_owned() }),
        }
    }
}

impl<T> Drop for RunHandle<T> {
    fn drop(&mut self) {
        if !self.task.is_finished() && !self.shared.log.is_durable() {
            self.shared.cancel("the run's handle was dropped");
        }
    }
}

impl<T> fmt::Debug for RunHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunHandle").field("run_id", &self.shared.id).finish_non_exhaustive()
    }
}

/// The events of an agent's run as they happen, deltas included. Dropping the stream drops the run's handle.
#[must_use = "dropping the stream of a run in memory cancels the run"]
#[derive(Debug)]
pub struct RunStream<O = String> {
    handle: RunHandle<RunResult<O>>,
    events: Events,
}

impl<O> RunStream<O> {
    pub(crate) fn new(handle: RunHandle<RunResult<O>>, events: Events) -> Self {
        Self { handle, events }
    }

    /// The run itself: to cancel it, or to ask for its journal.
    pub fn handle(&self) -> &RunHandle<RunResult<O>> {
        &self.handle
    }

    /// Waits for the run's end; its remaining events can still be read. Dropping the future does not
    /// stop the run.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn result(&mut self) -> Result<RunResult<O>> {
        self.handle.result().await
    }
}

impl<O> Stream for RunStream<O> {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        Pin::new(&mut self.events).poll_next(cx)
    }
}

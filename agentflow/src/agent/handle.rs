//! What a caller holds while a run goes on elsewhere.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::Stream;
use tokio::task::JoinHandle;

use super::driver::Run;
use super::output::Output;
use super::request::{RunEnd, RunResult};
use crate::context::RunShared;
use crate::error::{Error, Result};
use crate::event::{Event, Events, RunId};
use crate::message::Conversation;

/// A run that goes on on its own task. Dropping the handle stops it: a run in memory is cancelled, one with a store is
/// left unfinished and can be taken up again.
#[must_use = "dropping the handle stops the run"]
pub struct RunHandle<O = String> {
    shared: Arc<RunShared>,
    output: Output<O>,
    task: JoinHandle<Result<RunEnd>>,
    ended: Option<Result<RunEnd>>,
}

impl<O> RunHandle<O> {
    pub(super) fn spawn(run: Run, output: Output<O>) -> Self {
        Self { shared: run.shared(), output, task: tokio::spawn(run.run_through()), ended: None }
    }

    /// The run's id.
    pub fn run_id(&self) -> &RunId {
        &self.shared.id
    }

    /// The run's events from the first one on, deltas from now on.
    pub fn events(&self) -> Events {
        Events::new(Arc::clone(&self.shared))
    }

    /// Stops the run: the model's connection is closed and running tools are dropped at their next await. A tool on a
    /// thread of its own runs on; its answer is not used. Cancelling a run that has ended does nothing.
    pub fn cancel(&self, reason: impl Into<Arc<str>>) {
        self.shared.cancel(reason);
    }

    /// The run's journal so far.
    pub fn recorded(&self) -> Vec<Event> {
        self.shared.log.events()
    }

    /// The conversation so far, with a result for every tool call: after a failed or cancelled run it is what another
    /// run can go on from.
    pub fn conversation(&self) -> Conversation {
        Conversation::from_events(&self.recorded())
    }

    /// Waits for the run's end; when it has ended, says again what it came to. Dropping the future lets the run go on.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn result(&mut self) -> Result<RunResult<O>> {
        if self.ended.is_none() {
            self.ended = Some(match (&mut self.task).await {
                Ok(ended) => ended,
                Err(error) => Err(Error::Lost { reason: error.to_string() }),
            });
        }
        match &self.ended {
            Some(Ok(end)) => RunResult::new(&self.output, end.clone()),
            Some(Err(error)) => Err(error.clone()),
            None => Err(Error::Lost { reason: "the run has no end".to_owned() }),
        }
    }
}

impl<O> Drop for RunHandle<O> {
    fn drop(&mut self) {
        if self.task.is_finished() {
            return;
        }
        match self.shared.log.is_durable() {
            true => self.task.abort(),
            false => self.shared.cancel("the run's handle was dropped"),
        }
    }
}

impl<O> fmt::Debug for RunHandle<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunHandle").field("run_id", &self.shared.id).finish_non_exhaustive()
    }
}

/// The events of a run as they happen, deltas included. Dropping the stream cancels the run.
#[must_use = "dropping the stream cancels the run"]
#[derive(Debug)]
pub struct RunStream<O = String> {
    handle: RunHandle<O>,
    events: Events,
}

impl<O> RunStream<O> {
    pub(super) fn new(handle: RunHandle<O>, events: Events) -> Self {
        Self { handle, events }
    }

    /// The run itself: to cancel it, or to ask for its journal.
    pub fn handle(&self) -> &RunHandle<O> {
        &self.handle
    }

    /// Waits for the run's end; its remaining events can still be read. Dropping the future lets the run go on.
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

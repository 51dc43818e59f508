//! `RunHandle`: what a caller holds of a run. It executes nothing itself.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures_util::future::Shared;
use futures_util::{FutureExt, Stream};
use serde::Serialize;
use tokio::task::{AbortHandle, JoinHandle};

use super::approval::Approval;
use super::attach::attach;
use super::by_id::{self, EarlierAsking};
use super::control_call::ControlCall;
use super::control_request::ControlRequest;
use super::events::Events;
use super::result::{RunEnd, RunResult};
use super::shared::{RunShared, status_of};
use super::spending::Ledger;
use crate::error::{ControlError, Error, Result, noted};
use crate::event::{Event, RunId, Spending};
use crate::model::Usage;
use crate::value::{Encoded, NodeValue};

/// A run, with a result of type `T`. Clones are handles of the same run.
///
/// It is returned by what starts or resumes a run, and by [`Runtime::attach`](crate::Runtime::attach) for one that is
/// executed elsewhere.
///
/// Dropping the last handle of a run in memory cancels the run, since nobody else could stop it. A run with a store
/// continues; it is reached by its id, through its [`Runtime`](crate::Runtime).
#[must_use = "dropping the handle of a run in memory cancels it"]
#[doc(alias = "LiveCommunicator")]
pub struct RunHandle<T = RunResult> {
    run: Arc<Followed>,
    decode: Arc<dyn Fn(Ended) -> Result<T> + Send + Sync>,
}

/// A run and its present life: retrying a run that has failed gives it another one.
struct Followed {
    id: RunId,
    life: Mutex<Life>,
}

/// A run from when it is started, resumed or looked for until it stops.
#[derive(Clone)]
pub(crate) struct Life {
    pub(super) shared: Arc<RunShared>,
    ended: Shared<Joined>,
    /// What executes the run; none when that is not this handle's to stop.
    task: Option<AbortHandle>,
}

/// The outcome of a task, as that of a run.
struct Joined(JoinHandle<Result<Ended>>);

impl Future for Joined {
    type Output = Result<Ended>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll_unpin(cx).map(|ended| ended.unwrap_or_else(|error| Err(Error::Lost { reason: error.to_string() })))
    }
}

impl RunShared {
    /// Returns true if the run was started with a handle, by which its questions can be answered.
    pub(crate) fn has_handle(&self) -> bool {
        self.has_handle.load(Ordering::Relaxed)
    }
}

impl Life {
    /// One that this process executes.
    fn executed(shared: Arc<RunShared>, run: impl Future<Output = Result<Ended>> + Send + 'static) -> Self {
        shared.has_handle.store(true, Ordering::Relaxed);
        let task = tokio::spawn(run);
        let abort = task.abort_handle();
        if shared.log.is_durable() {
            shared.executed_by(abort.clone());
        }
        Self { shared, ended: Joined(task).shared(), task: Some(abort) }
    }

    /// Whether what executes the run is this handle's.
    pub(super) fn is_executed(&self) -> bool {
        self.task.is_some()
    }

    /// Waits for the end.
    pub(super) async fn end(self) -> Result<Ended> {
        self.ended.await
    }

    /// One that is executed elsewhere, or by somebody else in this process.
    pub(super) fn watched(shared: Arc<RunShared>, ended: impl Future<Output = Result<Ended>> + Send + 'static) -> Self {
        Self { shared, ended: Joined(tokio::spawn(ended)).shared(), task: None }
    }
}

/// The outcome of a run, before it is a value of the caller's type.
#[derive(Clone)]
pub(crate) enum Ended {
    Agent(RunEnd),
    Workflow(Encoded),
}

impl Ended {
    /// The output as JSON: of an agent without an output type, its answer as a JSON string.
    pub(crate) fn encoded(self) -> Result<Encoded> {
        match self {
            Self::Workflow(output) => Ok(output),
            Self::Agent(end) => end.encoded(),
        }
    }
}

impl<T> RunHandle<T> {
    pub(crate) fn spawn(
        shared: Arc<RunShared>,
        run: impl Future<Output = Result<Ended>> + Send + 'static,
        decode: impl Fn(Ended) -> Result<T> + Send + Sync + 'static,
    ) -> Self {
        Self::of(Life::executed(shared, run), decode)
    }

    /// The handle of a run in one of its lives.
    pub(crate) fn of(life: Life, decode: impl Fn(Ended) -> Result<T> + Send + Sync + 'static) -> Self {
        let id = life.shared.id.clone();
        Self { run: Arc::new(Followed { id, life: Mutex::new(life) }), decode: Arc::new(decode) }
    }

    pub(super) fn life(&self) -> MutexGuard<'_, Life> {
        self.run.life()
    }

    pub(super) fn shared(&self) -> Arc<RunShared> {
        Arc::clone(&self.life().shared)
    }

    /// The run's id.
    pub fn run_id(&self) -> &RunId {
        &self.run.id
    }

    /// The run's events from the first one on, deltas from now on. Deltas of a run that another process executes are not
    /// among them.
    pub fn events(&self) -> Events {
        Events::new(self.shared(), 0)
    }

    /// The run's events after the first `after` ones: of a reader that has seen those and comes back.
    pub fn events_after(&self, after: u64) -> Events {
        Events::new(self.shared(), after)
    }

    /// The same run with its output as JSON; that of an agent without an output type is a JSON string.
    pub fn untyped(&self) -> RunHandle<Encoded> {
        RunHandle { run: Arc::clone(&self.run), decode: Arc::new(Ended::encoded) }
    }

    /// The same run with its output as a value. An output of another type makes
    /// [`result`](Self::result) fail.
    pub fn typed<O: NodeValue>(&self) -> RunHandle<O> {
        let run = self.run.id.clone();
        let decode = move |ended: Ended| {
            let output = ended.encoded()?;
            O::decode(&output).map_err(|error| {
                let problem = format!("`{}` cannot be read from it: {error}", std::any::type_name::<O>());
                Error::Output { run: run.clone(), problem }
            })
        };
        RunHandle { run: Arc::clone(&self.run), decode: Arc::new(decode) }
    }

    /// Stops the run and waits until its end is kept: the model's connection is closed and running steps are dropped at
    /// their next await. A tool on a thread of its own runs on; its answer is not used. Dropping the future takes
    /// nothing back. A run that [undoes](crate::runtime::StartRun::compensate) what it had done does so before its end, and
    /// what undoes it may ask a person: see [`Runtime::cancel`](crate::Runtime::cancel).
    ///
    /// # Errors
    /// [`Error::Control`] when the run has ended, also when it ended by itself meanwhile.
    #[doc(alias = "send_cancellation")]
    pub fn cancel(&self, reason: impl Into<String>) -> ControlCall<'_> {
        self.control(Ok(ControlRequest::Cancel { reason: reason.into() }))
    }

    /// Stops the run here as if its process had ended: no end is recorded, and with a store it can be resumed. One that
    /// another process executes is not stopped.
    pub fn abandon(self) {
        let Life { shared, task, .. } = self.life().clone();
        if let Some(task) = task.or_else(|| shared.task()) {
            // Nothing more is kept from now on; who resumes the run waits until its task is gone.
            shared.log.close();
            task.abort();
        }
    }

    /// Starts nothing new from now on; running steps continue to their end.
    ///
    /// # Errors
    /// [`Error::Control`] when the run is paused already, or has ended.
    pub fn pause(&self) -> ControlCall<'_> {
        self.control(Ok(ControlRequest::Pause))
    }

    /// Continues a run that an operator paused.
    ///
    /// # Errors
    /// [`Error::Control`] when it is not paused, or waits for something else.
    pub fn unpause(&self) -> ControlCall<'_> {
        self.control(Ok(ControlRequest::Unpause))
    }

    /// Runs a failed or interrupted node again, with what depends on it, as
    /// [`Runtime::retry`](crate::Runtime::retry) does. A run with a store that had failed has another life then:
    /// [`events`](Self::events) and [`result`](Self::result) are of that one.
    ///
    /// # Errors
    /// [`Error::Control`] when there is no such node, or it has not failed.
    pub async fn retry(&self, node: &str, by: &str) -> Result<()> {
        self.ask(ControlRequest::Retry { node: node.to_owned(), by: by.to_owned() }, None).await
    }

    /// Answers the question of a gate, or of a node that needs approval, in the words of the usual question. `node` is as for
    /// [`Runtime::approve`](crate::Runtime::approve): the path of what asks, or the id of its question.
    ///
    /// # Errors
    /// [`Error::Control`] when there is no such node, it does not ask, asks another question, or asks for another type.
    pub async fn approve(&self, node: &str, approval: Approval, by: &str) -> Result<()> {
        self.answer(node, &approval, by).await
    }

    /// Answers the question of a gate with a value of the type that it asks for, or any other that is written as the same
    /// JSON: a text for a `String`. `node` is as for [`approve`](Self::approve).
    ///
    /// # Errors
    /// As [`Runtime::answer`](crate::Runtime::answer).
    pub async fn answer<A: Serialize + Sync + ?Sized>(&self, node: &str, answer: &A, by: &str) -> Result<()> {
        let answer = Encoded::new(answer).map_err(|error| Error::value(&Arc::from(node), &error))?;
        self.ask(ControlRequest::answer(node, answer, by), None).await
    }

    pub(super) fn control(&self, request: Result<ControlRequest>) -> ControlCall<'_> {
        ControlCall::new(request, |request, by| Box::pin(self.ask(request, by)))
    }

    async fn ask(&self, request: ControlRequest, by: Option<Arc<str>>) -> Result<()> {
        let (shared, is_executed) = {
            let life = self.life();
            (Arc::clone(&life.shared), life.task.is_some())
        };
        if request == ControlRequest::Close && shared.log.was_closed() {
            return Ok(());
        }
        let done = request.done();
        let mut earlier = EarlierAsking::default();
        if is_executed && !shared.log.is_closed() {
            let events = shared.log.visible();
            match shared.ask(request.clone(), by.clone()).await {
                Ok(outcome) => return Ok(outcome?),
                Err(granting) => earlier = EarlierAsking { after: Some(events), granting },
            }
        }
        if shared.host.store.is_none() {
            return Err(match shared.log.end() {
                Some(end) => request.over(status_of(&end)),
                None => ControlError::state(done, "no longer executed here"),
            }
            .into());
        }
        let retried = matches!(request, ControlRequest::Retry { .. });
        by_id::control_again(&shared.host, &self.run.id, (request, by), earlier).await?;
        if retried {
            // It has another life now, here or elsewhere.
            let life = attach(&shared.host, &self.run.id).await?;
            *self.life() = life;
        }
        Ok(())
    }

    /// Returns the tokens that the run has spent so far, nested agents and workflows included. A run of another process
    /// is read up to the last event that arrived here.
    pub fn usage(&self) -> Usage {
        self.spending().iter().fold(Usage::default(), |mut sum, row| {
            sum.add(&row.usage);
            sum
        })
    }

    /// Returns the same by agent and model. [`Prices::cost`](crate::middleware::Prices::cost) makes an amount of it.
    pub fn spending(&self) -> Vec<Spending> {
        Ledger::of(&self.recorded()).rows().to_vec()
    }

    /// The run's journal so far.
    pub fn recorded(&self) -> Vec<Event> {
        self.shared().log.events()
    }

    /// Waits for the run's end and returns its result; several may wait, and each call returns it. Dropping the future
    /// does not stop the run. A run that no process executes has its end when one has resumed it.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn result(&self) -> Result<T> {
        let ended = self.life().ended.clone();
        noted(ended.await.and_then(|ended| (self.decode)(ended)))
    }
}

impl Followed {
    fn life(&self) -> MutexGuard<'_, Life> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        let life = self.life();
        if let Some(task) = &life.task
            && !task.is_finished()
            && !life.shared.log.is_durable()
        {
            life.shared.cancel("the run's handle was dropped");
        }
    }
}

impl<T> Clone for RunHandle<T> {
    fn clone(&self) -> Self {
        Self { run: Arc::clone(&self.run), decode: Arc::clone(&self.decode) }
    }
}

impl<T> fmt::Debug for RunHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunHandle").field("run_id", &self.run.id).finish_non_exhaustive()
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
    pub async fn result(&self) -> Result<RunResult<O>> {
        self.handle.result().await
    }
}

impl<O> Stream for RunStream<O> {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        Pin::new(&mut self.events).poll_next(cx)
    }
}

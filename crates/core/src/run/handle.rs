//! `RunHandle`: a caller's handle of a run.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures_util::future::Shared;
use futures_util::{FutureExt, Stream};
use serde::Serialize;
use tokio::task::{AbortHandle, JoinHandle};

use super::answer_access::check_request;
use super::approval::Approval;
use super::attach::attach;
use super::by_id::{self, EarlierRequest};
use super::control_call::ControlCall;
use super::control_request::ControlRequest;
use super::events::Events;
use super::result::{RunEnd, RunResult};
use super::shared::{RunShared, status_of};
use super::spending::Ledger;
use crate::access::ActingCaller;
use crate::error::{ControlError, Error, Result, noted};
use crate::event::{Event, RunId, Spending};
use crate::model::Usage;
use crate::store::{RunRecord, StoreError};
use crate::value::{Encoded, NodeValue};

/// A handle of a run with a result of type `T`. Clones refer to the same run.
///
/// Methods that start or resume a run return it. [`RunRef::attach`](crate::runtime::RunRef::attach)
/// returns one for a run that another process executes.
///
/// Dropping the last handle of a run in memory cancels the run, because it could not be controlled
/// any more. A run with a store continues, and can be controlled by its id through its
/// [`Runtime`](crate::Runtime).
#[must_use = "dropping the handle of a run in memory cancels it"]
#[doc(alias = "LiveCommunicator")]
pub struct RunHandle<T = RunResult> {
    run: Arc<Followed>,
    decode: Arc<dyn Fn(Ended) -> Result<T> + Send + Sync>,
    /// The caller that controls the run, for which the access control decides.
    acting: Option<ActingCaller>,
}

/// A run and its current execution. Retrying a failed run creates a new execution.
struct Followed {
    id: RunId,
    life: Mutex<Life>,
}

/// A single execution of a run, from its start or resume until it stops; or the observation of an
/// execution elsewhere.
#[derive(Clone)]
pub(crate) struct Life {
    pub(super) shared: Arc<RunShared>,
    ended: Shared<Joined>,
    /// The task that executes the run; `None` if the handle only observes the run.
    task: Option<AbortHandle>,
}

/// The outcome of a task, converted to the outcome of a run.
struct Joined(JoinHandle<Result<Ended>>);

impl Future for Joined {
    type Output = Result<Ended>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll_unpin(cx).map(|ended| {
            ended.unwrap_or_else(|error| Err(Error::Lost { reason: error.to_string() }))
        })
    }
}

impl RunShared {
    /// Returns `true` if the run was started with a handle, which can answer its questions.
    pub(crate) fn has_handle(&self) -> bool {
        self.has_handle.load(Ordering::Relaxed)
    }
}

impl Life {
    /// Executes a run on a new task.
    fn executed(
        shared: Arc<RunShared>,
        run: impl Future<Output = Result<Ended>> + Send + 'static,
    ) -> Self {
        shared.has_handle.store(true, Ordering::Relaxed);
        let task = tokio::spawn(run);
        let abort = task.abort_handle();
        if shared.log.is_durable() {
            shared.executed_by(abort.clone());
        }
        Self { shared, ended: Joined(task).shared(), task: Some(abort) }
    }

    /// Returns `true` if this handle owns the task that executes the run.
    pub(super) fn is_executed(&self) -> bool {
        self.task.is_some()
    }

    /// Waits for the end.
    pub(super) async fn end(self) -> Result<Ended> {
        self.ended.await
    }

    /// Observes a run that another process, or another task of this process, executes.
    pub(super) fn watched(
        shared: Arc<RunShared>,
        ended: impl Future<Output = Result<Ended>> + Send + 'static,
    ) -> Self {
        Self { shared, ended: Joined(tokio::spawn(ended)).shared(), task: None }
    }
}

/// The output of a completed run, before it is converted to the caller's type.
#[derive(Clone)]
pub(crate) enum Ended {
    Agent(RunEnd),
    Workflow(Encoded),
}

impl Ended {
    /// Returns the output as JSON. The answer of an agent without an output type becomes a JSON
    /// string.
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
        Self::from_task(Life::executed(shared, run), decode)
    }

    /// Creates the handle of an execution.
    pub(crate) fn from_task(
        life: Life,
        decode: impl Fn(Ended) -> Result<T> + Send + Sync + 'static,
    ) -> Self {
        let id = life.shared.id.clone();
        let run = Arc::new(Followed { id, life: Mutex::new(life) });
        Self { run, decode: Arc::new(decode), acting: None }
    }

    /// Makes this the handle of a caller: its control requests are checked and have the caller's
    /// name.
    pub(crate) fn of_caller(mut self, acting: Option<&ActingCaller>) -> Self {
        self.acting = acting.cloned();
        self
    }

    pub(super) fn life(&self) -> MutexGuard<'_, Life> {
        self.run.life()
    }

    pub(super) fn shared(&self) -> Arc<RunShared> {
        Arc::clone(&self.life().shared)
    }

    /// Returns `true` if the run waits for a person or an operator.
    pub(crate) fn is_waiting(&self) -> bool {
        self.life().shared.log.waits_for().is_some()
    }

    /// Returns the id of the run.
    pub fn run_id(&self) -> &RunId {
        &self.run.id
    }

    /// Returns a stream of the run's events, from the first event on. Deltas are included from now
    /// on, unless another process executes the run.
    pub fn events(&self) -> Events {
        Events::new(self.shared(), 0)
    }

    /// Returns a stream of the run's events without the first `after` events, for a reader that has
    /// seen those.
    pub fn events_after(&self, after: u64) -> Events {
        Events::new(self.shared(), after)
    }

    /// Returns a handle of the same run with its output as JSON. The answer of an agent without an
    /// output type is a JSON string.
    pub fn untyped(&self) -> RunHandle<Encoded> {
        RunHandle {
            run: Arc::clone(&self.run),
            decode: Arc::new(Ended::encoded),
            acting: self.acting.clone(),
        }
    }

    /// Returns a handle of the same run with its output as a value of type `O`. If the output does
    /// not have this type, [`result`](Self::result) fails.
    pub fn typed<O: NodeValue>(&self) -> RunHandle<O> {
        let run = self.run.id.clone();
        let decode = move |ended: Ended| {
            let output = ended.encoded()?;
            O::decode(&output).map_err(|error| {
                let problem =
                    format!("`{}` cannot be read from it: {error}", std::any::type_name::<O>());
                Error::Output { run: run.clone(), problem }
            })
        };
        RunHandle {
            run: Arc::clone(&self.run),
            decode: Arc::new(decode),
            acting: self.acting.clone(),
        }
    }

    /// Cancels the run and waits until its end is stored. Closes the connection to the model, and
    /// drops running steps at their next await. A tool on its own thread continues, and its result
    /// is discarded.
    ///
    /// A run with [compensation](crate::runtime::StartRun::compensate) compensates its completed
    /// calls first. A compensation may ask a person: see
    /// [`RunRef::cancel`](crate::runtime::RunRef::cancel).
    ///
    /// # Errors
    /// [`Error::Control`] if the run has ended, also if it ended otherwise meanwhile.
    ///
    /// # Cancel safety
    /// Dropping the future does not revoke the request.
    #[doc(alias = "send_cancellation")]
    pub fn cancel(&self, reason: impl Into<String>) -> ControlCall<'_> {
        self.control(Ok(ControlRequest::Cancel { reason: reason.into() }))
    }

    /// Stops the run in this process as if the process had ended: no end is recorded, and a run
    /// with a store can be resumed. A run that another process executes is not stopped.
    pub fn abandon(self) {
        let Life { shared, task, .. } = self.life().clone();
        if let Some(task) = task.or_else(|| shared.task()) {
            // No more records are stored after this. A resume waits until the task is gone.
            shared.log.close();
            task.abort();
        }
    }

    /// Pauses the run: no new step starts, and running steps continue to their end.
    ///
    /// # Errors
    /// [`Error::Control`] if the run is paused already, or has ended.
    ///
    /// # Cancel safety
    /// If the future is dropped, the request may or may not take effect.
    pub fn pause(&self) -> ControlCall<'_> {
        self.control(Ok(ControlRequest::Pause))
    }

    /// Continues a run that an operator paused.
    ///
    /// # Errors
    /// [`Error::Control`] if the run is not paused, or waits for a different reason.
    ///
    /// # Cancel safety
    /// If the future is dropped, the request may or may not take effect.
    pub fn unpause(&self) -> ControlCall<'_> {
        self.control(Ok(ControlRequest::Unpause))
    }

    /// Runs a failed or interrupted node again, together with the nodes that depend on it, like
    /// [`RunRef::retry`](crate::runtime::RunRef::retry). If a run with a store had failed, it is executed
    /// again: [`events`](Self::events) and [`result`](Self::result) then refer to the new
    /// execution.
    ///
    /// # Errors
    /// [`Error::Control`] if the node does not exist, or has not failed.
    ///
    /// # Cancel safety
    /// If the future is dropped, the request may or may not take effect.
    pub async fn retry(&self, node: &str, by: &str) -> Result<()> {
        self.ask(ControlRequest::Retry { node: node.to_owned(), by: by.to_owned() }, None).await
    }

    /// Answers the question of a gate, or of a node that needs approval, with an [`Approval`].
    /// `node` is the path of the node or the id of its question, as in
    /// [`RunRef::approve`](crate::runtime::RunRef::approve).
    ///
    /// # Errors
    /// [`Error::Control`] if the node does not exist, has no open question, asks a different
    /// question, or expects an answer of a different type.
    ///
    /// # Cancel safety
    /// If the future is dropped, the request may or may not take effect.
    pub async fn approve(&self, node: &str, approval: Approval, by: &str) -> Result<()> {
        self.answer(node, &approval, by).await
    }

    /// Answers the question of a gate with a value of the expected type, or of any type with the
    /// same JSON form, such as a `&str` for a `String`. `node` is as for
    /// [`approve`](Self::approve).
    ///
    /// # Errors
    /// The same errors as [`RunRef::answer`](crate::runtime::RunRef::answer).
    ///
    /// # Cancel safety
    /// If the future is dropped, the request may or may not take effect.
    pub async fn answer<A: Serialize + Sync + ?Sized>(
        &self,
        node: &str,
        answer: &A,
        by: &str,
    ) -> Result<()> {
        let answer =
            Encoded::new(answer).map_err(|error| Error::value(&Arc::from(node), &error))?;
        self.ask(ControlRequest::answer(node, answer, by), None).await
    }

    /// Returns the record of the run: from the store, or made of the events of a run in memory.
    async fn record(&self) -> Result<RunRecord> {
        let shared = self.shared();
        let record = match &shared.host.store {
            Some(store) => store.record(&shared.id).await?,
            None => RunRecord::from_events(&self.recorded()),
        };
        Ok(record.ok_or_else(|| StoreError::not_found(&shared.id))?)
    }

    pub(super) fn control(&self, request: Result<ControlRequest>) -> ControlCall<'_> {
        ControlCall::new(request, |request, by| Box::pin(self.ask(request, by)))
    }

    async fn ask(&self, request: ControlRequest, by: Option<Arc<str>>) -> Result<()> {
        let (request, by) = match &self.acting {
            None => (request, by),
            Some(acting) => {
                let name = acting.caller().name();
                let (record, store) = (self.record().await?, self.shared().host.store.clone());
                let events = (store.as_ref(), || self.recorded());
                check_request(acting, &record, &request, events).await?;
                (request.sent_by(name), Some(Arc::from(name)))
            }
        };
        let (shared, is_executed) = {
            let life = self.life();
            (Arc::clone(&life.shared), life.task.is_some())
        };
        if request == ControlRequest::Close && shared.log.was_closed() {
            return Ok(());
        }
        let done = request.done();
        let mut earlier = EarlierRequest::default();
        // A run of this process is asked directly. If it stops without a reply, the request is
        // repeated below, where a record of it is recognized.
        if is_executed && !shared.log.is_closed() {
            let events = shared.log.visible();
            match shared.ask(request.clone(), by.clone()).await {
                Ok(outcome) => return Ok(outcome?),
                Err(granting) => earlier = EarlierRequest { after: Some(events), granting },
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
            // The run has a new execution now, here or in another process.
            let life = attach(&shared.host, &self.run.id).await?;
            *self.life() = life;
        }
        Ok(())
    }

    /// Returns the token usage of the run so far, including nested agents and workflows. For a run
    /// of another process, it covers the events that have arrived here.
    pub fn usage(&self) -> Usage {
        self.spending().iter().fold(Usage::default(), |mut sum, row| {
            sum.add(&row.usage);
            sum
        })
    }

    /// Returns the usage by agent and model. [`Prices::cost`](crate::middleware::Prices::cost)
    /// computes an amount from it.
    pub fn spending(&self) -> Vec<Spending> {
        Ledger::of(&self.recorded()).rows().to_vec()
    }

    /// Returns the journal of the run so far.
    pub fn recorded(&self) -> Vec<Event> {
        self.shared().log.events()
    }

    /// Waits for the end of the run and returns its result. Any number of callers may wait, and
    /// repeated calls return the same result. A run that no process executes ends only after a
    /// process has resumed it.
    ///
    /// # Errors
    /// See [`Error`].
    ///
    /// # Cancel safety
    /// Dropping the future does not stop the run.
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
            // A run with a store continues without a handle.
            && !life.shared.log.is_durable()
        {
            life.shared.cancel("the run's handle was dropped");
        }
    }
}

impl<T> Clone for RunHandle<T> {
    fn clone(&self) -> Self {
        Self {
            run: Arc::clone(&self.run),
            decode: Arc::clone(&self.decode),
            acting: self.acting.clone(),
        }
    }
}

impl<T> fmt::Debug for RunHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunHandle").field("run_id", &self.run.id).finish_non_exhaustive()
    }
}

/// A stream of the events of an agent's run, including deltas. Dropping the stream drops the run's
/// handle.
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

    /// Returns the handle of the run, for example to cancel it or to read its journal.
    pub fn handle(&self) -> &RunHandle<RunResult<O>> {
        &self.handle
    }

    /// Waits for the end of the run. Its remaining events can still be read afterwards.
    ///
    /// # Errors
    /// See [`Error`].
    ///
    /// # Cancel safety
    /// Dropping the future does not stop the run.
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

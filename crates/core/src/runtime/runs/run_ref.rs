//! `RunRef`: access to a run by its id. It controls the run, follows it, reads it and resumes it.

use std::sync::Arc;

use serde::Serialize;

use crate::access::{AccessAction, ActingCaller};
use crate::agent::Agent;
use crate::artifact::{Artifact, ArtifactRef};
#[cfg(doc)]
use crate::definition::Changes;
use crate::error::{Error, Result};
use crate::event::{Event, RunId};
use crate::message::Message;
use crate::run::{
    Approval, ControlCall, ControlRequest, Ended, Events, RunHandle, RunResult, RunShared,
    artifact_gone, artifacts_from_events, attach, check_request, control_by_id, read_events,
    state_of,
};
use crate::runtime::Runtime;
use crate::runtime::execution::lease::explained;
use crate::runtime::execution::workflow_runs::{
    decoder, reserve_unless_executed, resume_record, resume_spec,
};
use crate::runtime::runs::open_questions::{OpenQuestion, open_questions};
use crate::state::StateValues;
use crate::store::{RunRecord, StoreError};
use crate::value::{Encoded, NodeValue};
use crate::workflow::{Inputs, Workflow};

/// Access to a run in the store of a runtime by its id, returned by [`Runtime::run`]. It controls,
/// follows, reads and resumes the run.
///
/// Creating it accesses nothing, and the run may be executed by this process, by another process,
/// or by no process. A [`RunHandle`] in contrast belongs to a run that was started, resumed or
/// [attached](Self::attach).
///
/// An accepted control request is stored first. The call returns after the effect of the request is
/// stored.
///
/// ```
/// use agentflow::prelude::*;
/// use agentflow::store::{MemoryStore, RunStatus};
///
/// #[workflow]
/// async fn doubled(n: i64) -> Result<i64> {
///     let twice = n * 2;
///     Ok(twice)
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// let runtime = Runtime::builder().store(MemoryStore::new()).build();
/// let id = runtime.start(doubled::workflow(), 4).await?.run_id().clone();
/// let run = runtime.run(&id);
/// assert_eq!(run.output().await?.decode::<i64>().unwrap(), 8);
/// assert_eq!(run.record().await?.status, RunStatus::Success);
/// # Ok(())
/// # }
/// ```
///
/// # Cancel safety
/// The methods that read ([`journal`](Self::journal), [`state`](Self::state),
/// [`record`](Self::record), [`inspect`](Self::inspect) and others) have no effect on the run, so
/// their futures can be dropped at any time. If the future of a control request is dropped, the
/// request may or may not take effect.
#[derive(Clone, Copy, Debug)]
#[must_use = "this only refers to a run"]
pub struct RunRef<'a> {
    pub(super) runtime: &'a Runtime,
    pub(super) run: &'a RunId,
    acting: Option<&'a ActingCaller>,
}

impl<'a> RunRef<'a> {
    pub(crate) fn new(runtime: &'a Runtime, run: &'a RunId) -> Self {
        Self { runtime, run, acting: None }
    }

    /// Creates the access of a caller, for which access control is asked.
    pub(crate) fn of_caller(self, acting: Option<&'a ActingCaller>) -> Self {
        Self { acting, ..self }
    }

    /// Asks the access control.
    ///
    /// # Errors
    /// If the caller may not do this. If the caller may not read the run, the error says
    /// that the run does not exist.
    pub(super) async fn check_access(self, action: AccessAction) -> Result<()> {
        let Some(acting) = self.acting else { return Ok(()) };
        let record = self.runtime.require_store()?.record(self.run).await?;
        acting.check(action, &record.ok_or_else(|| StoreError::not_found(self.run))?).await
    }

    /// Asks the access control about a control request, and checks the roles and users of a question.
    async fn check_request(self, request: &ControlRequest) -> Result<()> {
        let Some(acting) = self.acting else { return Ok(()) };
        let store = self.runtime.require_store()?;
        let record = store.record(self.run).await?;
        let record = record.ok_or_else(|| StoreError::not_found(self.run))?;
        check_request(acting, &record, request, (Some(&store), Vec::new)).await
    }

    /// Returns the name of the operator: the acting caller, if there is one, and not the given name.
    fn operator<'n>(self, by: &'n str) -> &'n str
    where
        'a: 'n,
    {
        self.acting.map_or(by, |acting| acting.caller().name())
    }

    /// `true` if this process executes a run.
    #[doc(hidden)]
    pub fn is_executed_here(self) -> bool {
        self.runtime.host().live.as_ref().is_some_and(|live| live.get(self.run).is_some())
    }

    /// Returns a handle to a run in the store. The run may be executed by this process, by another
    /// process, or by no process; in the last case the handle waits until a process has resumed it.
    /// Events of another process arrive within about 0.2 seconds. Dropping the handle does not
    /// affect the run. The output is JSON; [`RunHandle::typed`] decodes it.
    ///
    /// ```
    /// # use agentflow::prelude::*;
    /// # use agentflow::store::MemoryStore;
    /// # #[workflow]
    /// # async fn doubled_later(n: i64) -> Result<i64> { let twice = n * 2; Ok(twice) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<()> {
    /// let runtime = Runtime::builder().store(MemoryStore::new()).build();
    /// let id = runtime.start(doubled_later::workflow(), 4).await?.run_id().clone();
    /// // Anywhere else, with the id alone.
    /// let run = runtime.run(&id).attach().await?;
    /// assert_eq!(run.typed::<i64>().result().await?, 8);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the run does not exist or its journal cannot be read.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    ///
    /// # Cancel safety
    /// Dropping the future does not affect the run.
    pub async fn attach(self) -> Result<RunHandle<Encoded>> {
        self.check_access(AccessAction::Read).await?;
        let life = attach(self.runtime.host(), self.run).await?;
        Ok(RunHandle::from_task(life, Ended::encoded).of_caller(self.acting))
    }

    /// Returns the events of a run after the first `after` ones, followed by new events as they
    /// happen. Pass 0 for all events. To continue an interrupted stream, pass the
    /// [`seq`](crate::event::Event::seq) of the last event that was received.
    ///
    /// # Errors
    /// As [`attach`](Self::attach).
    ///
    /// # Cancel safety
    /// Dropping the future or the stream does not affect the run.
    pub async fn events(self, after: u64) -> Result<Events> {
        Ok(self.attach().await?.events_after(after))
    }

    /// Returns the events of a run that this process executes, including deltas.
    #[doc(hidden)]
    pub fn events_here(self) -> Option<Events> {
        let shared = self.runtime.host().live.as_ref()?.get(self.run)?;
        Some(Events::new(shared, 0))
    }

    /// Waits until a run has ended and returns its output: [`attach`](Self::attach), then
    /// [`result`](RunHandle::result). [`inspect`](Self::inspect) returns the status without
    /// waiting.
    ///
    /// # Errors
    /// As [`attach`](Self::attach), and the error with which the run failed.
    ///
    /// # Cancel safety
    /// Dropping the future ends the wait and does not affect the run.
    pub async fn output(self) -> Result<Encoded> {
        self.attach().await?.result().await
    }

    /// Returns the journal of a run from the store.
    ///
    /// # Errors
    /// If the run does not exist or its journal cannot be read.
    pub async fn journal(self) -> Result<Vec<Event>> {
        self.journal_after(0).await
    }

    /// Returns the part of a run's journal after the event with this number.
    ///
    /// # Errors
    /// If the run does not exist or its journal cannot be read.
    pub async fn journal_after(self, seq: u64) -> Result<Vec<Event>> {
        self.check_access(AccessAction::Read).await?;
        Ok(read_events(&self.runtime.require_store()?, self.run, seq).await?)
    }

    /// Returns the current state of a run: the values that its completed steps have saved. The run
    /// may be unfinished. [`temp:`](crate::state::StateOwner::Temp) values are not stored in the
    /// journal and not included.
    ///
    /// # Errors
    /// If the run does not exist or its journal cannot be read.
    #[doc(alias = "run_state")]
    pub async fn state(self) -> Result<StateValues> {
        Ok(state_of(&self.journal().await?))
    }

    /// Returns the artifacts that the completed steps of a run have saved, in the order of the
    /// plan. For artifacts with the same name, the last one is the newest.
    ///
    /// [`RunHandle::artifacts`] and [`RunResult::artifacts`](crate::run::RunResult::artifacts) also
    /// work for runs without a store.
    ///
    /// # Errors
    /// If the runtime has no store, the run does not exist, or its journal cannot be read.
    pub async fn artifacts(self) -> Result<Vec<ArtifactRef>> {
        Ok(artifacts_from_events(&self.journal().await?))
    }

    /// Returns an artifact of a run with its bytes: the given version or the newest one. Returns
    /// `None` if the run has not saved it.
    ///
    /// # Errors
    /// As [`artifacts`](Self::artifacts), and if the bytes cannot be read.
    pub async fn artifact(self, name: &str, version: Option<u32>) -> Result<Option<Artifact>> {
        let is_it = |of: &ArtifactRef| {
            *of.name == *name && version.is_none_or(|version| of.version == version)
        };
        let Some(artifact) = self.artifacts().await?.into_iter().rfind(is_it) else {
            return Ok(None);
        };
        match self
            .runtime
            .require_store()?
            .require_artifacts()?
            .artifact(self.run, &artifact.sha256)
            .await?
        {
            Some(bytes) => Ok(Some(Artifact::new(artifact, bytes))),
            None => Err(artifact_gone(&artifact)),
        }
    }

    /// Returns the entry of a run in the store's list.
    ///
    /// # Errors
    /// If the run does not exist.
    #[doc(alias = "run_record")]
    pub async fn record(self) -> Result<RunRecord> {
        let record = self.runtime.require_store()?.record(self.run).await?;
        let record = record.ok_or_else(|| StoreError::not_found(self.run))?;
        if let Some(acting) = self.acting {
            acting.check(AccessAction::Read, &record).await?;
        }
        Ok(record)
    }

    /// Pauses a run: no new steps are started, and running steps continue to their end. An agent
    /// makes no further model or tool calls, and its time limit is suspended.
    ///
    /// Like all control requests, it returns when its effect is stored. If another process executes
    /// the run, the request is stored for that process, and this call waits for up to 30 seconds.
    /// If that process does not respond, the request is withdrawn.
    ///
    /// # Cancel safety
    /// If the future is dropped, the request may or may not take effect.
    ///
    /// # Errors
    /// [`Error::Control`] if the run is not running, or the process that executes it does not
    /// respond (`no_response`: the request is withdrawn, and takes effect only if that process had
    /// already read it and was delayed); [`Error::Store`] if the run does not exist.
    pub fn pause(self) -> ControlCall<'a> {
        self.control_call(Ok(ControlRequest::Pause))
    }

    /// Continues a run that an operator paused. If no process executes the run, its status becomes
    /// `queued`, and it continues when it is [resumed](Self::resume).
    ///
    /// # Errors
    /// [`Error::Control`] if the run is not paused by an operator.
    ///
    /// # Cancel safety
    /// If the future is dropped, the request may or may not take effect.
    pub fn unpause(self) -> ControlCall<'a> {
        self.control_call(Ok(ControlRequest::Unpause))
    }

    /// Cancels a run and waits until its end is stored. The run may be executed by any process or
    /// by no process. A run with [compensation](crate::runtime::StartRun::compensate) is
    /// compensated before it ends; if no process executes it, this process does that. A second
    /// `cancel` gives up the compensation that is running: its call is reported as not undone, and
    /// the remaining calls are compensated.
    ///
    /// A compensation may ask a person, and this call then waits for the answer. Use
    /// `tokio::time::timeout` to limit the wait: the compensation continues,
    /// [`inspect`](Self::inspect) reports the question in
    /// [`UndoReport::asks`](crate::runtime::UndoReport::asks), and the answer or a second
    /// cancellation lets the run end.
    ///
    /// # Errors
    /// [`Error::Control`] if the run has ended, also if it ended on its own meanwhile; if the run
    /// has failed and is already compensating (a second `cancel` then gives up the running
    /// compensation); if the compensation in another process takes longer than 30 seconds
    /// (`no_response`). [`Error::CompensationOwed`] if this program cannot compensate the run, for
    /// example because a tool is missing. The status of the run is then `compensating`, and a
    /// process that resumes or cancels it again only compensates it.
    ///
    /// # Cancel safety
    /// If the future is dropped, the request may or may not take effect. A compensation that has
    /// begun continues.
    pub fn cancel(self, reason: &str) -> ControlCall<'a> {
        self.control_call(Ok(ControlRequest::Cancel { reason: reason.to_owned() }))
    }

    /// Retries a failed or interrupted node together with the nodes that depend on it. For the run
    /// of an agent, `node` is the model call with which it failed, such as `model#2`. A run that no
    /// process executes is then [resumed](Self::resume) by this process if its workflow or agent is
    /// known here. Otherwise its status is `queued` until a suitable process resumes it.
    ///
    /// # Errors
    /// [`Error::Control`] if the node does not exist or has not failed. An agent that failed for a
    /// reason other than a model call, such as a limit, cannot be retried.
    ///
    /// # Cancel safety
    /// If the future is dropped, the request may or may not take effect. If it took effect, the run
    /// may wait as `queued` until it is resumed.
    pub async fn retry(self, node: &str, by: &str) -> Result<()> {
        let by = self.operator(by).to_owned();
        self.control(ControlRequest::Retry { node: node.to_owned(), by }).await
    }

    /// Answers the approval question of a gate or of a node that needs approval.
    ///
    /// `node` is the path of the node that asks, or the [id](crate::runtime::OpenQuestion::id) of
    /// the question. With the id, the answer applies to this question only: it is refused if the
    /// node now asks a different question, for example after its step was retried.
    ///
    /// # Errors
    /// [`Error::Control`] if the node has no open question, asks a different question, or expects a
    /// different type.
    ///
    /// # Cancel safety
    /// If the future is dropped, the request may or may not take effect.
    pub async fn approve(self, node: &str, approval: Approval, by: &str) -> Result<()> {
        self.answer(node, &approval, by).await
    }

    /// Answers the question of a gate with a value of the requested type, or any value with the
    /// same JSON form, such as a `&str` for a `String`. `node` is as for
    /// [`approve`](Self::approve).
    ///
    /// # Errors
    /// [`Error::Control`] if the node has no open question, asks a different question, or expects a
    /// different type. Also if the answer to a tool contains text that the redactor of this runtime
    /// removes from records, since the tool would receive a different answer.
    ///
    /// # Cancel safety
    /// If the future is dropped, the request may or may not take effect.
    pub async fn answer<A: Serialize + Sync + ?Sized>(
        self,
        node: &str,
        answer: &A,
        by: &str,
    ) -> Result<()> {
        let answer =
            Encoded::new(answer).map_err(|error| Error::value(&Arc::from(node), &error))?;
        self.answer_encoded(node, answer, by).await
    }

    /// Answers the question of a gate with an encoded value. `node` is as for
    /// [`approve`](Self::approve).
    ///
    /// # Errors
    /// As for [`answer`](Self::answer).
    ///
    /// # Cancel safety
    /// If the future is dropped, the request may or may not take effect.
    pub async fn answer_encoded(self, node: &str, answer: Encoded, by: &str) -> Result<()> {
        self.control(ControlRequest::answer(node, answer, self.operator(by))).await
    }

    /// Answers a question, and resumes the run in this process if no process executes it. Returns
    /// the events of a run that was resumed here, including the deltas of its first step.
    #[doc(hidden)]
    pub async fn answer_here(
        self,
        node: &str,
        answer: Encoded,
        by: &str,
    ) -> Result<Option<Events>> {
        use crate::store::{RunStatus, StoreErrorKind};

        self.answer_encoded(node, answer, by).await?;
        if self.record().await?.status != RunStatus::Queued {
            return Ok(None);
        }
        let mut events = None;
        match self.resume_and(|shared| events = Some(Events::new(Arc::clone(shared), 0))).await {
            // Another process resumed the run first, or the run has ended meanwhile.
            Err(Error::Store(error))
                if matches!(error.kind(), StoreErrorKind::Busy | StoreErrorKind::Ended) =>
            {
                Ok(None)
            }
            resumed => resumed.map(|run| Some(events.unwrap_or_else(|| run.events()))),
        }
    }

    /// Sends a message to the agent of a run, in any process: see
    /// [`RunHandle::send_message`](crate::RunHandle::send_message). If no process executes the run,
    /// it receives the message when it is [resumed](Self::resume). A live run that waited for a
    /// message is `queued` until then.
    ///
    /// # Errors
    /// As [`RunHandle::send_message`](crate::RunHandle::send_message); [`Error::Store`] if the run
    /// does not exist.
    ///
    /// # Cancel safety
    /// If the future is dropped, the request may or may not take effect.
    pub fn send_message(self, message: impl Into<Message>) -> ControlCall<'a> {
        self.control_call(ControlRequest::send(self.runtime.host(), message))
    }

    /// Closes a [live run](crate::agent::RunRequest::live), in any process: see
    /// [`RunHandle::close`](crate::RunHandle::close). If no process executes the run, it ends when
    /// it is [resumed](Self::resume).
    ///
    /// # Errors
    /// As [`RunHandle::close`](crate::RunHandle::close); [`Error::Store`] if the run does not
    /// exist.
    ///
    /// # Cancel safety
    /// If the future is dropped, the request may or may not take effect.
    pub fn close(self) -> ControlCall<'a> {
        self.control_call(Ok(ControlRequest::Close))
    }

    fn control_call(self, request: Result<ControlRequest>) -> ControlCall<'a> {
        ControlCall::new(request, move |request, by| {
            Box::pin(async move {
                self.check_request(&request).await?;
                let by = match self.acting {
                    Some(acting) => Some(acting.caller().name().into()),
                    None => by,
                };
                control_by_id(self.runtime.host(), self.run, request, by).await
            })
        })
    }

    async fn control(self, request: ControlRequest) -> Result<()> {
        self.check_request(&request).await?;
        control_by_id(self.runtime.host(), self.run, request, None).await
    }

    /// Returns the open questions of the run, oldest first.
    /// [`Runs::questions`](crate::runtime::Runs::questions) returns the questions of many runs.
    ///
    /// # Errors
    /// If the run does not exist or its journal cannot be read.
    pub async fn questions(self) -> Result<Vec<OpenQuestion>> {
        self.check_access(AccessAction::Read).await?;
        let events = read_events(&self.runtime.require_store()?, self.run, 0).await?;
        let record = match RunRecord::from_events(&events) {
            Some(record) => record,
            None => self.record().await?,
        };
        Ok(open_questions(&record, &events))
    }

    /// Returns a handle to a run of an agent, in any process: [`attach`](Self::attach) with the
    /// agent's result type.
    ///
    /// # Errors
    /// As [`attach`](Self::attach).
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    ///
    /// # Cancel safety
    /// Dropping the future does not affect the run.
    pub async fn attach_agent<O: 'static>(
        self,
        agent: &Agent<O>,
    ) -> Result<RunHandle<RunResult<O>>> {
        self.check_access(AccessAction::Read).await?;
        Ok(agent.attached(attach(self.runtime.host(), self.run).await?).of_caller(self.acting))
    }

    /// Resumes an unfinished run whose process ended. Recorded work is not repeated.
    ///
    /// If this process executes the run already, its handle is [attached](Self::attach).
    ///
    /// The workflow or agent is found by name among the items that are registered with the runtime
    /// or linked into the program. An agent continues with the recorded instructions of its run.
    ///
    /// # Errors
    /// If the run, workflow or agent does not exist, the run has ended, another process executes
    /// it, a required resource is missing ([`Error::RunResource`]), the runtime is being
    /// [drained](crate::Runtime::drain), or the definition differs from the one with which the run
    /// started and the runtime does not accept the difference ([`Changes`]).
    ///
    /// # Cancel safety
    /// If the future is dropped before it completes, this process does not execute the run and
    /// releases it in the background. The run can be resumed again.
    pub async fn resume(self) -> Result<RunHandle<Encoded>> {
        self.check_access(AccessAction::Resume).await?;
        Ok(self.resume_and(|_| ()).await?.of_caller(self.acting))
    }

    /// Resumes a run like [`resume`](Self::resume). Calls `begins` before the run executes its next
    /// step, unless this process executes the run already.
    pub(crate) async fn resume_and(
        self,
        begins: impl FnOnce(&Arc<RunShared>),
    ) -> Result<RunHandle<Encoded>> {
        let store = self.runtime.require_store()?;
        let record =
            store.record(self.run).await?.ok_or_else(|| StoreError::not_found(self.run))?;
        let Some(reservation) = reserve_unless_executed(self.runtime, self.run).await? else {
            // Access was checked for the action that resumes the run.
            return RunRef::new(self.runtime, self.run).attach().await;
        };
        match resume_record(self.runtime, reservation, &store, &record, begins).await {
            Ok(handle) => Ok(handle),
            Err(error) => Err(explained(error, &store, self.run).await),
        }
    }

    /// Resumes a run like [`resume`](Self::resume), with the given workflow and its output type.
    ///
    /// # Errors
    /// As [`resume`](Self::resume), and if this process executes the run with another definition.
    /// With [`Changes::AcceptAll`] also if the inputs of a changed workflow differ, or if a node
    /// that may have had side effects would run again or was removed ([`Error::WriteForgotten`]).
    ///
    /// # Cancel safety
    /// As for [`resume`](Self::resume).
    pub async fn resume_as<In: Inputs, Out: NodeValue>(
        self,
        workflow: &Workflow<In, Out>,
    ) -> Result<RunHandle<Out>> {
        self.check_access(AccessAction::Resume).await?;
        let live = self.runtime.host().live.as_ref().and_then(|live| live.get(self.run));
        if live
            .and_then(|live| live.log.definition())
            .is_some_and(|hash| workflow.spec().has_hash(&hash))
        {
            return Ok(RunHandle::from_task(
                attach(self.runtime.host(), self.run).await?,
                decoder::<In, Out>(workflow),
            )
            .of_caller(self.acting));
        }
        let resumed =
            resume_spec(self.runtime, self.run, workflow.spec(), decoder::<In, Out>(workflow));
        Ok(resumed.await?.of_caller(self.acting))
    }
}

//! Control requests by run id: pause, unpause, cancel, retry, answer, send a message and close. The
//! run may be executed by this process, by another process, or by no process.
//!
//! An accepted request is stored first. The call returns after the effect of the request is stored.

use std::sync::Arc;

use serde::Serialize;

use super::Runtime;
use crate::error::{Error, Result};
use crate::event::RunId;
use crate::message::Message;
use crate::run::Events;
use crate::run::{Approval, ControlCall, ControlRequest, control_by_id};
use crate::value::Encoded;

impl Runtime {
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
    pub fn pause<'a>(&'a self, run: &'a RunId) -> ControlCall<'a> {
        self.control_call(run, Ok(ControlRequest::Pause))
    }

    /// Continues a run that an operator paused. If no process executes the run, its status becomes
    /// `queued`, and it continues when it is [resumed](Self::resume).
    ///
    /// # Errors
    /// [`Error::Control`] if the run is not paused by an operator.
    pub fn unpause<'a>(&'a self, run: &'a RunId) -> ControlCall<'a> {
        self.control_call(run, Ok(ControlRequest::Unpause))
    }

    /// Cancels a run and waits until its end is stored. The run may be executed by any process or
    /// by no process. A run with [compensation](super::StartRun::compensate) is compensated before
    /// it ends; if no process executes it, this process does that. A second `cancel` gives up the
    /// compensation that is running: its call is reported as not undone, and the remaining calls
    /// are compensated.
    ///
    /// A compensation may ask a person, and this call then waits for the answer. Use
    /// `tokio::time::timeout` to limit the wait: the compensation continues,
    /// [`inspect`](Self::inspect) reports the question in
    /// [`UndoReport::asks`](super::UndoReport::asks), and the answer or a second cancellation lets
    /// the run end.
    ///
    /// # Errors
    /// [`Error::Control`] if the run has ended, also if it ended on its own meanwhile; if the run
    /// has failed and is already compensating (a second `cancel` then gives up the running
    /// compensation); if the compensation in another process takes longer than 30 seconds
    /// (`no_response`). [`Error::CompensationOwed`] if this program cannot compensate the run, for
    /// example because a tool is missing. The status of the run is then `compensating`, and a
    /// process that resumes or cancels it again only compensates it.
    pub fn cancel<'a>(&'a self, run: &'a RunId, reason: &str) -> ControlCall<'a> {
        self.control_call(run, Ok(ControlRequest::Cancel { reason: reason.to_owned() }))
    }

    /// Retries a failed or interrupted node together with the nodes that depend on it. For the run
    /// of an agent, `node` is the model call with which it failed, such as `model#2`. A run that no
    /// process executes is then [resumed](Self::resume) by this process if its workflow or agent is
    /// known here. Otherwise its status is `queued` until a suitable process resumes it.
    ///
    /// # Errors
    /// [`Error::Control`] if the node does not exist or has not failed. An agent that failed for a
    /// reason other than a model call, such as a limit, cannot be retried.
    pub async fn retry(&self, run: &RunId, node: &str, by: &str) -> Result<()> {
        self.control(run, ControlRequest::Retry { node: node.to_owned(), by: by.to_owned() }).await
    }

    /// Answers the approval question of a gate or of a node that needs approval.
    ///
    /// `node` is the path of the node that asks, or the [id](super::OpenQuestion::id) of the
    /// question. With the id, the answer applies to this question only: it is refused if the node
    /// now asks a different question, for example after its step was retried.
    ///
    /// # Errors
    /// [`Error::Control`] if the node has no open question, asks a different question, or expects a
    /// different type.
    pub async fn approve(
        &self,
        run: &RunId,
        node: &str,
        approval: Approval,
        by: &str,
    ) -> Result<()> {
        self.answer(run, node, &approval, by).await
    }

    /// Answers the question of a gate with a value of the requested type, or any value with the
    /// same JSON form, such as a `&str` for a `String`. `node` is as for
    /// [`approve`](Self::approve).
    ///
    /// # Errors
    /// [`Error::Control`] if the node has no open question, asks a different question, or expects a
    /// different type. Also if the answer to a tool contains text that the redactor of this runtime
    /// removes from records, since the tool would receive a different answer.
    pub async fn answer<A: Serialize + Sync + ?Sized>(
        &self,
        run: &RunId,
        node: &str,
        answer: &A,
        by: &str,
    ) -> Result<()> {
        let answer =
            Encoded::new(answer).map_err(|error| Error::value(&Arc::from(node), &error))?;
        self.answer_encoded(run, node, answer, by).await
    }

    /// Answers the question of a gate with an encoded value. `node` is as for
    /// [`approve`](Self::approve).
    ///
    /// # Errors
    /// As for [`answer`](Self::answer).
    pub async fn answer_encoded(
        &self,
        run: &RunId,
        node: &str,
        answer: Encoded,
        by: &str,
    ) -> Result<()> {
        self.control(run, ControlRequest::answer(node, answer, by)).await
    }

    /// Answers a question, and resumes the run in this process if no process executes it. Returns
    /// the events of a run that was resumed here, including the deltas of its first step.
    #[doc(hidden)]
    pub async fn answer_here(
        &self,
        run: &RunId,
        node: &str,
        answer: Encoded,
        by: &str,
    ) -> Result<Option<Events>> {
        use crate::store::{RunStatus, StoreErrorKind};

        self.answer_encoded(run, node, answer, by).await?;
        if self.run_record(run).await?.status != RunStatus::Queued {
            return Ok(None);
        }
        let mut events = None;
        match self.resume_and(run, |shared| events = Some(Events::new(Arc::clone(shared), 0))).await
        {
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
    pub fn send_message<'a>(
        &'a self,
        run: &'a RunId,
        message: impl Into<Message>,
    ) -> ControlCall<'a> {
        self.control_call(run, ControlRequest::send(self.host(), message))
    }

    /// Closes a [live run](crate::agent::RunRequest::live), in any process: see
    /// [`RunHandle::close`](crate::RunHandle::close). If no process executes the run, it ends when
    /// it is [resumed](Self::resume).
    ///
    /// # Errors
    /// As [`RunHandle::close`](crate::RunHandle::close); [`Error::Store`] if the run does not
    /// exist.
    pub fn close<'a>(&'a self, run: &'a RunId) -> ControlCall<'a> {
        self.control_call(run, Ok(ControlRequest::Close))
    }

    fn control_call<'a>(
        &'a self,
        run: &'a RunId,
        request: Result<ControlRequest>,
    ) -> ControlCall<'a> {
        ControlCall::new(request, move |request, by| {
            Box::pin(control_by_id(self.host(), run, request, by))
        })
    }

    async fn control(&self, run: &RunId, request: ControlRequest) -> Result<()> {
        control_by_id(self.host(), run, request, None).await
    }
}

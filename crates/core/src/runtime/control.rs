//! Control requests by run id: pause, unpause, cancel, retry, answer, send a message to and close a run that this process, another process or
//! none executes.
//!
//! A granted request is stored first; the caller gets the outcome when its effect is in the store.

use std::sync::Arc;

use serde::Serialize;

use super::Runtime;
use crate::error::{Error, Result};
use crate::event::RunId;
use crate::message::Message;
#[cfg(any(feature = "a2a-server", feature = "mcp-server"))]
use crate::run::Events;
use crate::run::{Approval, ControlCall, ControlRequest, control_by_id};
use crate::value::Encoded;

impl Runtime {
    /// Pauses a run: nothing new is started, running steps continue to their end. An agent makes no further model or tool
    /// call meanwhile, and its time limit stands still.
    ///
    /// It returns when that is kept in the store; so do all of these. Of a run that another process executes, the
    /// request is left in the store for that process, which is waited for up to 30 seconds; when it does not respond,
    /// the request is withdrawn. Dropping the future leaves open whether the request has its effect.
    ///
    /// # Errors
    /// [`Error::Control`] when the run is not running, or the process that executes it does not
    /// respond (`no_response`: the request is withdrawn, and has an effect only if that
    /// process had read it and was held up); [`Error::Store`] when there is no such run.
    pub fn pause<'a>(&'a self, run: &'a RunId) -> ControlCall<'a> {
        self.control_call(run, Ok(ControlRequest::Pause))
    }

    /// Lets a run continue that an operator paused. One that no process executes is `queued` then and continues when it
    /// is [resumed](Self::resume).
    ///
    /// # Errors
    /// [`Error::Control`] when the run is not paused by an operator.
    pub fn unpause<'a>(&'a self, run: &'a RunId) -> ControlCall<'a> {
        self.control_call(run, Ok(ControlRequest::Unpause))
    }

    /// Cancels a run, also one that no process executes, and waits until its end is kept. One that
    /// [undoes](super::StartRun::compensate) what it had done does so before that; when no process executes it, in this one.
    /// Cancelling it again gives up the compensation that it waits for: its call is named as not undone, and the others are
    /// undone all the same.
    ///
    /// A compensation may ask a person, and this waits for the answer, too. Whoever cannot wait so long bounds it with
    /// `tokio::time::timeout`: the run undoes on, [`inspect`](Self::inspect) names the question in
    /// [`UndoReport::asks`](super::UndoReport::asks), and the answer or a second cancellation lets the run end.
    ///
    /// # Errors
    /// [`Error::Control`] when the run has ended, also when it ended by itself meanwhile; when it has failed and undoes what
    /// it had done, the first time; when another process undoes for longer than 30 seconds (`no_response`).
    /// [`Error::CompensationOwed`] when this program cannot undo what the run had done, since it lacks a tool, say: the run
    /// is `compensating` then, and a process that resumes it, or cancels it again, only undoes.
    pub fn cancel<'a>(&'a self, run: &'a RunId, reason: &str) -> ControlCall<'a> {
        self.control_call(run, Ok(ControlRequest::Cancel { reason: reason.to_owned() }))
    }

    /// Lets a failed or interrupted node run again, with what depends on it; of an agent's run the model call with which
    /// it failed, such as `model#2`. A run that no process executes is then [resumed](Self::resume) by this one, where it
    /// knows what the run runs; else it is `queued` until a process that does resumes it.
    ///
    /// # Errors
    /// [`Error::Control`] when there is no such node, or it has not failed. An agent that failed otherwise, by a limit for
    /// example, is not retried.
    pub async fn retry(&self, run: &RunId, node: &str, by: &str) -> Result<()> {
        self.control(run, ControlRequest::Retry { node: node.to_owned(), by: by.to_owned() }).await
    }

    /// Answers the usual question of a gate, or of a node that needs approval.
    ///
    /// `node` is the path of what asks, or the [id](super::OpenQuestion::id) of the question: so the answer is one to this
    /// question alone, and is refused when the same node asks another one meanwhile, since its step was retried, say.
    ///
    /// # Errors
    /// [`Error::Control`] when the node does not ask, asks another question, or asks for another type.
    pub async fn approve(&self, run: &RunId, node: &str, approval: Approval, by: &str) -> Result<()> {
        self.answer(run, node, &approval, by).await
    }

    /// Answers the question of a gate with a value of the type that it asks for, or any other that is written as the same
    /// JSON: a text for a `String`. `node` is as for [`approve`](Self::approve).
    ///
    /// # Errors
    /// [`Error::Control`] when the node does not ask, asks another question, or asks for another type; also when the answer
    /// to a tool holds what this runtime takes out of its records, since the tool would be given something else.
    pub async fn answer<A: Serialize + Sync + ?Sized>(
        &self,
        run: &RunId,
        node: &str,
        answer: &A,
        by: &str,
    ) -> Result<()> {
        let answer = Encoded::new(answer).map_err(|error| Error::value(&Arc::from(node), &error))?;
        self.answer_encoded(run, node, answer, by).await
    }

    /// Answers the question of a gate with a value that is encoded already. `node` is as for [`approve`](Self::approve).
    ///
    /// # Errors
    /// As for [`answer`](Self::answer).
    pub async fn answer_encoded(&self, run: &RunId, node: &str, answer: Encoded, by: &str) -> Result<()> {
        self.control(run, ControlRequest::answer(node, answer, by)).await
    }

    /// Answers a question, and continues the run here if no process executes it. Returns the events of a run that
    /// continues here, deltas included from its first step on.
    #[cfg(any(feature = "a2a-server", feature = "mcp-server"))]
    pub(crate) async fn answer_here(
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
        match self.resume_and(run, |shared| events = Some(Events::new(Arc::clone(shared), 0))).await {
            // Another process was first, or it has ended meanwhile.
            Err(Error::Store(error)) if matches!(error.kind(), StoreErrorKind::Busy | StoreErrorKind::Ended) => {
                Ok(None)
            }
            resumed => resumed.map(|run| Some(events.unwrap_or_else(|| run.events()))),
        }
    }

    /// Sends the agent of a run a message, wherever the run is executed: see
    /// [`RunHandle::send_message`](crate::RunHandle::send_message). A run that no process executes has it when it is
    /// [resumed](Self::resume); a live one that waited for a message is `queued` until then.
    ///
    /// # Errors
    /// As [`RunHandle::send_message`](crate::RunHandle::send_message); [`Error::Store`] when there is no such run.
    pub fn send_message<'a>(&'a self, run: &'a RunId, message: impl Into<Message>) -> ControlCall<'a> {
        self.control_call(run, ControlRequest::send(self.host(), message))
    }

    /// Closes a [live run](crate::agent::RunRequest::live), wherever it is executed: see
    /// [`RunHandle::close`](crate::RunHandle::close). One that no process executes ends when it is
    /// [resumed](Self::resume).
    ///
    /// # Errors
    /// As [`RunHandle::close`](crate::RunHandle::close); [`Error::Store`] when there is no such run.
    pub fn close<'a>(&'a self, run: &'a RunId) -> ControlCall<'a> {
        self.control_call(run, Ok(ControlRequest::Close))
    }

    fn control_call<'a>(&'a self, run: &'a RunId, request: Result<ControlRequest>) -> ControlCall<'a> {
        ControlCall::new(request, move |request, by| Box::pin(control_by_id(self.host(), run, request, by)))
    }

    async fn control(&self, run: &RunId, request: ControlRequest) -> Result<()> {
        control_by_id(self.host(), run, request, None).await
    }
}

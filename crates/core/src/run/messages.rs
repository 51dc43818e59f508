//! Messages to the unfinished run of an agent: acceptance, order, and closing. All decisions are
//! made under the lock of the run's log, so that a message is either recorded before the end of the
//! run or refused.
//!
//! The state machine of the agent decides about the position of a message in the conversation.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::control_call::ControlCall;
use super::control_request::{Asked, ControlRequest, Reply};
use super::handle::RunHandle;
use super::host::Host;
use super::log::EventLog;
use super::records::State;
use super::sent::{MAX_WAITING, SENT, check};
use super::shared::{RunShared, status_of};
use super::state::RunState;
use crate::error::{ControlError, Result};
use crate::event::{EventKind, LiveTerms, PauseReason};
use crate::message::Message;
use crate::path::StepPath;
use crate::store::RunStatus;
use crate::time::Timestamp;

impl ControlRequest {
    /// Creates the request that sends a message.
    ///
    /// # Errors
    /// Fails if the message is empty, too large, or not a user message of text and files.
    fn message(host: &Host, message: impl Into<Message>) -> Result<Self, ControlError> {
        let message = message.into();
        check(&message)?;
        Ok(Self::Message { id: host.delivery_id().to_string(), message: Arc::new(message) })
    }

    pub(crate) fn send(host: &Host, message: impl Into<Message>) -> Result<Self> {
        Ok(Self::message(host, message)?)
    }

    /// Creates the error for a request to a run that has ended.
    pub(super) fn over(&self, status: RunStatus) -> ControlError {
        match self {
            Self::Message { .. } => {
                let advice =
                    "start another run, of the same session or with the conversation of this one";
                ControlError::state(self.done(), format!("over ({status}); {advice}"))
            }
            _ => ControlError::over(self.done(), status),
        }
    }

    fn is_of_a_workflow(&self) -> ControlError {
        let what = match self {
            Self::Close => {
                "only the live run of an agent is closed; cancel this one, or answer what it asks"
            }
            _ => "only agents take messages; answer what it asks with `answer`",
        };
        ControlError::state(self.done(), format!("one of a workflow: {what}"))
    }
}

const NOT_LIVE: &str = "not a live run, and ends with its answer; cancel it to stop it before that";

impl RunState {
    /// Returns the event that records a message or a close for a run that no process executes.
    /// Returns `None` if the run is closed already.
    pub(super) fn mail_event(
        &self,
        request: &ControlRequest,
    ) -> Result<Option<EventKind>, ControlError> {
        if !self.is_agent() {
            return Err(request.is_of_a_workflow());
        }
        let over = || if self.status.has_ended() { Err(request.over(self.status)) } else { Ok(()) };
        match request {
            ControlRequest::Message { id, message } => {
                check(message)?;
                over()?;
                let number = self.sent.next()?;
                let (id, message) = (id.as_str().into(), Arc::clone(message));
                Ok(Some(EventKind::MessageReceived { number, id, message, by: None }))
            }
            _ if self.sent.closed => Ok(None),
            _ => {
                over()?;
                match self.live {
                    true => Ok(Some(EventKind::RunClosed { idle: false, by: None })),
                    false => Err(ControlError::state(request.done(), NOT_LIVE)),
                }
            }
        }
    }
}

impl State {
    /// Returns the end of the run, also before it is committed. An end from before a resume does
    /// not count, since the resume undid it.
    pub(super) fn recorded_end(&self) -> Option<&EventKind> {
        let last = self
            .records
            .last()
            .filter(|last| self.records.len() > self.restored() && last.kind.ends_run());
        last.map(|end| &end.kind)
    }

    /// Returns the event that records a message or a close for a run that this process executes.
    /// Returns `None` if it needs no event, because it was recorded before or the run is closed
    /// already.
    fn mail_event(&mut self, request: &ControlRequest) -> Result<Option<EventKind>, ControlError> {
        let end = self.recorded_end().map(status_of);
        let live = self.live_terms().is_some();
        let ending = self.ending;
        let sent = self.rare().mail.sent;
        let over = || match end {
            Some(status) => Err(request.over(status)),
            None => Ok(()),
        };
        match request {
            ControlRequest::Message { id, message } => {
                check(message)?;
                let is_it = |kind: &EventKind| matches!(kind, EventKind::MessageReceived { id: of, .. } if **of == **id);
                if self.all().any(|record| is_it(&record.kind)) {
                    // The sender's request was recorded before the run was resumed, but the sender
                    // received no reply.
                    return Ok(None);
                }
                over()?;
                let number = sent.next()?;
                // The agent has checked for messages for the last time.
                if ending {
                    let advice = "about to end with its answer; start another run, of the same session or with the \
                                  conversation of this one";
                    return Err(ControlError::state(SENT, advice));
                }
                let (id, message) = (id.as_str().into(), Arc::clone(message));
                Ok(Some(EventKind::MessageReceived { number, id, message, by: None }))
            }
            _ if sent.closed => Ok(None),
            _ => {
                over()?;
                match live {
                    true => Ok(Some(EventKind::RunClosed { idle: false, by: None })),
                    false => Err(ControlError::state(request.done(), NOT_LIVE)),
                }
            }
        }
    }

    fn live_terms(&self) -> Option<LiveTerms> {
        match self.all().next().map(|first| &first.kind) {
            Some(EventKind::RunStarted(started)) => started.terms().live,
            _ => None,
        }
    }

    /// Returns `true` if the run waits for a message and no operator holds it.
    fn waits_for_message(&self) -> bool {
        let waits = self.rare.as_ref().map(|rare| &rare.waits);
        waits.is_some_and(|waits| waits.are_of(&StepPath::root()) && !waits.is_held())
    }
}

impl EventLog {
    /// Accepts or refuses a message or a close immediately.
    fn take_mail(&self, time: Timestamp, asked: Asked) {
        let mut state = self.state();
        if state.closed {
            // The reply is dropped, and the caller looks up the run again.
            return;
        }
        // The run is not recorded yet. Its agent handles the request when it starts.
        if state.all().next().is_none() {
            let early = &mut state.rare().mail.early;
            match early.len() < MAX_WAITING as usize {
                true => early.push(asked),
                false => {
                    drop(state);
                    let error = ControlError::state(
                        asked.request.done(),
                        "about to begin; ask again when it has begun",
                    );
                    return self.reply(asked.reply, Err(error));
                }
            }
            return self.has_mail.store(true, Ordering::Release);
        }
        let Asked { request, by, reply } = asked;
        match state.mail_event(&request) {
            Ok(event) => {
                if let Some(event) = event {
                    self.put(&mut state, time, event.with_operator(by.as_ref()));
                }
                self.settle(state, reply);
            }
            Err(error) => {
                drop(state);
                self.reply(reply, Err(error));
            }
        }
    }

    /// Records an event for the agent, and continues the run if it waited for a message.
    fn put(&self, state: &mut State, time: Timestamp, event: EventKind) {
        state.rare().mail.fresh.push(event.clone());
        self.add(state, time, StepPath::root(), event);
        if state.waits_for_message() {
            self.add(state, time, StepPath::root(), EventKind::resumed());
        }
        self.has_mail.store(true, Ordering::Release);
    }

    fn settle(&self, mut state: std::sync::MutexGuard<'_, State>, reply: Option<Reply>) {
        let (records, visible) = (state.records.len(), state.visible);
        if let Some(reply) = reply {
            let replies = state.replies();
            replies.add(records, reply, Ok(()));
            replies.kept(visible, &[]);
        }
        self.recorded(state);
    }

    /// Takes the requests from before the run was recorded, and the recorded events that the agent
    /// has not processed.
    fn take_fresh(&self) -> (Vec<Asked>, Vec<EventKind>) {
        let mut state = self.state();
        let mail = &mut state.rare().mail;
        (std::mem::take(&mut mail.early), std::mem::take(&mut mail.fresh))
    }

    /// Returns `true` if the agent has events to process. Reads one atomic, since agents check it
    /// often.
    pub(crate) fn has_mail(&self) -> bool {
        self.has_mail.load(Ordering::Acquire)
    }

    /// Stops accepting messages because the run is about to end with its answer. Returns `false` if
    /// the agent must process another message first.
    pub(crate) fn ends_with_answer(&self) -> bool {
        let mut state = self.state();
        let mail = state.rare.as_ref().map(|rare| &rare.mail);
        state.ending = mail.is_none_or(|mail| mail.fresh.is_empty() && mail.early.is_empty());
        state.ending
    }

    /// Records that the run waits for a message, and returns the time since when it waits. Returns
    /// `None` if the agent has events to process.
    fn wait_for_message(&self, now: Timestamp) -> Option<Timestamp> {
        let mut state = self.state();
        if !state.rare().mail.fresh.is_empty() {
            return None;
        }
        let root = StepPath::root();
        // A resumed run may have recorded its wait before; the idle timeout counts from there.
        if !state.rare().waits.are_of(&root) {
            self.add(&mut state, now, root, EventKind::paused(PauseReason::Message));
            self.recorded(state);
            return Some(now);
        }
        let waits = |kind: &EventKind| {
            matches!(kind, EventKind::RunPaused { reason: PauseReason::Message, .. })
        };
        state.all().filter(|record| waits(&record.kind)).map(|record| record.time).last()
    }

    /// Closes the run because no message arrived in time.
    fn close_idle(&self, time: Timestamp) {
        let mut state = self.state();
        let mail = &mut state.rare().mail;
        if mail.fresh.is_empty() && !mail.sent.closed {
            self.put(&mut state, time, EventKind::RunClosed { idle: true, by: None });
            self.recorded(state);
        }
    }

    /// Returns the settings of a live run.
    fn live_terms(&self) -> Option<LiveTerms> {
        self.state().live_terms()
    }

    /// Returns `true` if the run is a live run that was closed.
    pub(super) fn was_closed(&self) -> bool {
        self.state().rare.as_ref().is_some_and(|rare| rare.mail.sent.closed)
    }
}

impl RunShared {
    /// Handles a message or a close. Runs of workflows refuse both.
    pub(super) fn request_by_mail(&self, asked: Asked) {
        if !self.log.is_agent() {
            let error = asked.request.is_of_a_workflow();
            return self.log.reply(asked.reply, Err(error));
        }
        self.log.take_mail(self.now(), asked);
        self.operations().messaged.notify_waiters();
    }

    /// Returns the recorded events that the agent has not processed, in order.
    pub(crate) fn take_mail(&self) -> Vec<EventKind> {
        // Reset before the messages are taken, so that a later message sets it again.
        self.log.has_mail.store(false, Ordering::Release);
        let (early, mut fresh) = self.log.take_fresh();
        if !early.is_empty() {
            early.into_iter().for_each(|asked| self.log.take_mail(self.now(), asked));
            fresh.extend(self.log.take_fresh().1);
        }
        fresh
    }

    /// Waits until a live run receives a message or a close, is held or released, or is drained.
    /// Records that it waits, and closes the run when its idle timeout is reached.
    pub(crate) async fn until_messaged(&self) -> Result<()> {
        let operations = self.operations();
        // Enabled before the log is read, so that a message in between is not missed.
        let changed = operations.messaged.notified();
        let mut changed = std::pin::pin!(changed);
        changed.as_mut().enable();
        let Some(since) = self.log.wait_for_message(self.now()) else { return Ok(()) };
        self.log.commit().await?;
        let held = self.is_held();
        // The idle timeout is suspended while an operator holds the run. It counts from the
        // recorded pause, also after a restart.
        let idle = self.log.live_terms().and_then(|terms| terms.idle_timeout_ms).filter(|_| !held);
        let left =
            idle.map(|idle| Duration::from_millis(idle).saturating_sub(self.now().since(since)));
        let idle = async {
            match left {
                Some(left) => tokio::time::sleep(left).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = changed => {}
            () = self.until_held(!held) => {}
            () = self.until_drained(), if !self.is_draining() => {}
            () = idle => self.log.close_idle(self.now()),
        }
        Ok(())
    }
}

impl<T> RunHandle<T> {
    /// Sends a user message, a string or a [`Message`], to the agent of the run while the run is
    /// unfinished. Returns when the message is stored. The model receives it with its next call,
    /// after the results of the tools that it called. If a message arrives while the model gives
    /// its last answer, the model answers once more. A run that fails or is cancelled may end
    /// before the model received the message; its [`conversation`](Self::conversation) then ends
    /// with the message.
    ///
    /// At most 100 messages may wait for the next model call, and a message is limited to 1 MiB. If
    /// the future is dropped, the message may or may not be accepted.
    /// [`RunRef::send_message`](crate::runtime::RunRef::send_message) sends a message by the id of the
    /// run.
    ///
    /// ```
    /// use agentflow::agent::RunRequest;
    /// use agentflow::prelude::*;
    /// use agentflow_testing::{ScriptedModel, Turn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<()> {
    /// let model = ScriptedModel::new([Turn::text("Bonjour, Ada.").expect_text("In French, please.")]);
    /// let run = Agent::new(model).start("Greet Ada.")?;
    /// run.send_message("In French, please.").await?;
    /// assert_eq!(run.result().await?.output(), "Bonjour, Ada.");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Control`](crate::Error::Control) if the run has ended, executes a workflow, or was
    /// closed; if too many messages wait; or if the message is empty, too large, or not a user
    /// message.
    ///
    /// # Cancel safety
    /// If the future is dropped, the message may or may not have been sent.
    #[doc(alias = "send_user_message")]
    pub fn send_message(&self, message: impl Into<Message>) -> ControlCall<'_> {
        self.control(ControlRequest::send(&self.shared().host, message))
    }

    /// Closes a [live run](crate::agent::RunRequest::live): it accepts no more messages, answers
    /// the ones it has, and ends. Returns when the close is stored. Closing a closed run has no
    /// effect.
    ///
    /// # Errors
    /// [`Error::Control`](crate::Error::Control) if the run is not a live run, or has ended without
    /// being closed.
    ///
    /// # Cancel safety
    /// If the future is dropped, the run may or may not be closed.
    pub fn close(&self) -> ControlCall<'_> {
        self.control(Ok(ControlRequest::Close))
    }
}

//! Messages to the unfinished run of an agent: which are taken, in which order, and when no more are. All of it is decided
//! under the lock of the run's log, so that a message is recorded before the end of the run or refused.
//!
//! It calls no model; the agent's machine says where a message stands in the conversation.

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
    /// A message for a run.
    ///
    /// # Errors
    /// When it cannot be one.
    fn message(host: &Host, message: impl Into<Message>) -> Result<Self, ControlError> {
        let message = message.into();
        check(&message)?;
        Ok(Self::Message { id: host.delivery_id().to_string(), message: Arc::new(message) })
    }

    pub(crate) fn send(host: &Host, message: impl Into<Message>) -> Result<Self> {
        Ok(Self::message(host, message)?)
    }

    /// What is said of a run that has ended.
    pub(super) fn over(&self, status: RunStatus) -> ControlError {
        match self {
            Self::Message { .. } => {
                let advice = "start another run, of the same session or with the conversation of this one";
                ControlError::state(self.done(), format!("over ({status}); {advice}"))
            }
            _ => ControlError::over(self.done(), status),
        }
    }

    fn is_of_a_workflow(&self) -> ControlError {
        let what = match self {
            Self::Close => "only the live run of an agent is closed; cancel this one, or answer what it asks",
            _ => "only agents take messages; answer what it asks with `answer`",
        };
        ControlError::state(self.done(), format!("one of a workflow: {what}"))
    }
}

const NOT_LIVE: &str = "not a live run, and ends with its answer; cancel it to stop it before that";

impl RunState {
    /// The event by which a message or a close is recorded of a run that nobody executes; `None` when it is closed already.
    pub(super) fn mail_event(&self, request: &ControlRequest) -> Result<Option<EventKind>, ControlError> {
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
    /// Returns the end of the run, also before it is committed. An end that an earlier life of the run recorded was undone
    /// since.
    pub(super) fn recorded_end(&self) -> Option<&EventKind> {
        let last = self.records.last().filter(|last| self.records.len() > self.restored() && last.kind.ends_run());
        last.map(|end| &end.kind)
    }

    /// The same of a run that is executed here.
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
                let is_it =
                    |kind: &EventKind| matches!(kind, EventKind::MessageReceived { id: of, .. } if **of == **id);
                if self.all().any(|record| is_it(&record.kind)) {
                    // Its sender asked an earlier life of the run, which stopped before it could say so.
                    return Ok(None);
                }
                over()?;
                let number = sent.next()?;
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

    /// Whether the run waits for a message, and no operator holds it.
    fn waits_for_message(&self) -> bool {
        let waits = self.rare.as_ref().map(|rare| &rare.waits);
        waits.is_some_and(|waits| waits.are_of(&StepPath::root()) && !waits.is_held())
    }
}

impl EventLog {
    /// Takes a message or a close, or refuses it, now.
    fn take_mail(&self, time: Timestamp, asked: Asked) {
        let mut state = self.state();
        if state.closed {
            // Whoever asked looks at the run anew.
            return;
        }
        if state.all().next().is_none() {
            let early = &mut state.rare().mail.early;
            match early.len() < MAX_WAITING as usize {
                true => early.push(asked),
                false => {
                    drop(state);
                    let error =
                        ControlError::state(asked.request.done(), "about to begin; ask again when it has begun");
                    return self.reply(asked.reply, Err(error));
                }
            }
            return self.has_mail.store(true, Ordering::Release);
        }
        let Asked { request, by, reply } = asked;
        match state.mail_event(&request) {
            Ok(event) => {
                if let Some(event) = event {
                    self.put(&mut state, time, event.asked_by(by.as_ref()));
                }
                self.settle(state, reply);
            }
            Err(error) => {
                drop(state);
                self.reply(reply, Err(error));
            }
        }
    }

    /// Records what concerns the agent, which continues if it waited for that.
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

    /// What was asked before the run was recorded, and what was recorded that the agent has not looked at.
    fn take_fresh(&self) -> (Vec<Asked>, Vec<EventKind>) {
        let mut state = self.state();
        let mail = &mut state.rare().mail;
        (std::mem::take(&mut mail.early), std::mem::take(&mut mail.fresh))
    }

    /// Whether there is anything that its agent has not looked at; nearly always one look.
    pub(crate) fn has_mail(&self) -> bool {
        self.has_mail.load(Ordering::Acquire)
    }

    /// The run is about to end with its answer and takes no messages any more; false when there is one that its agent
    /// has not looked at.
    pub(crate) fn ends_with_answer(&self) -> bool {
        let mut state = self.state();
        let mail = state.rare.as_ref().map(|rare| &rare.mail);
        state.ending = mail.is_none_or(|mail| mail.fresh.is_empty() && mail.early.is_empty());
        state.ending
    }

    /// Records that the run waits for a message, and gives since when it does; `None` when there is something that its
    /// agent has not looked at.
    fn wait_for_message(&self, now: Timestamp) -> Option<Timestamp> {
        let mut state = self.state();
        if !state.rare().mail.fresh.is_empty() {
            return None;
        }
        let root = StepPath::root();
        if !state.rare().waits.are_of(&root) {
            self.add(&mut state, now, root, EventKind::paused(PauseReason::Message));
            self.recorded(state);
            return Some(now);
        }
        let waits = |kind: &EventKind| matches!(kind, EventKind::RunPaused { reason: PauseReason::Message, .. });
        state.all().filter(|record| waits(&record.kind)).map(|record| record.time).last()
    }

    /// Nobody has sent a message in time.
    fn close_idle(&self, time: Timestamp) {
        let mut state = self.state();
        let mail = &mut state.rare().mail;
        if mail.fresh.is_empty() && !mail.sent.closed {
            self.put(&mut state, time, EventKind::RunClosed { idle: true, by: None });
            self.recorded(state);
        }
    }

    /// How the run waits for messages, when it is a live one.
    fn live_terms(&self) -> Option<LiveTerms> {
        self.state().live_terms()
    }

    /// Whether it was a live run that was closed.
    pub(super) fn was_closed(&self) -> bool {
        self.state().rare.as_ref().is_some_and(|rare| rare.mail.sent.closed)
    }
}

impl RunShared {
    /// Takes a message or a close; the run of a workflow refuses both.
    pub(super) fn request_by_mail(&self, asked: Asked) {
        if !self.log.is_agent() {
            let error = asked.request.is_of_a_workflow();
            return self.log.reply(asked.reply, Err(error));
        }
        self.log.take_mail(self.now(), asked);
        self.operations().messaged.notify_waiters();
    }

    /// What was recorded for the agent that it has not looked at, in its order.
    pub(crate) fn take_mail(&self) -> Vec<EventKind> {
        self.log.has_mail.store(false, Ordering::Release);
        let (early, mut fresh) = self.log.take_fresh();
        if !early.is_empty() {
            early.into_iter().for_each(|asked| self.log.take_mail(self.now(), asked));
            fresh.extend(self.log.take_fresh().1);
        }
        fresh
    }

    /// Waits for the next message of a live run, for its close, or until it is held or drained. Records that it waits, and
    /// closes the run when nobody has sent one in time.
    pub(crate) async fn until_messaged(&self) -> Result<()> {
        let operations = self.operations();
        let changed = operations.messaged.notified();
        let mut changed = std::pin::pin!(changed);
        changed.as_mut().enable();
        let Some(since) = self.log.wait_for_message(self.now()) else { return Ok(()) };
        self.log.commit().await?;
        let held = self.is_held();
        let idle = self.log.live_terms().and_then(|terms| terms.idle_timeout_ms).filter(|_| !held);
        let left = idle.map(|idle| Duration::from_millis(idle).saturating_sub(self.now().since(since)));
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
    /// Sends the agent of the run a message of the user, a text or a [`Message`], while the run is unfinished. It returns when
    /// that is kept; the model sees the message at its next call, after the results of the tools that it has called. One that
    /// comes while the model gives its last answer makes it answer once more. A run that fails or is cancelled may not show it
    /// to the model; its [`conversation`](Self::conversation) ends with it.
    ///
    /// At most 100 messages wait for the next call, of at most 1 MiB each. Dropping the future leaves open whether the message
    /// was accepted. [`Runtime::send_message`](crate::Runtime::send_message) does the same by the run's id.
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
    /// [`Error::Control`](crate::Error::Control) when the run has ended, is one of a workflow, or was closed; when too many
    /// messages wait; when the message is empty, too large, or not of the user.
    #[doc(alias = "send_user_message")]
    pub fn send_message(&self, message: impl Into<Message>) -> ControlCall<'_> {
        self.control(ControlRequest::send(&self.shared().host, message))
    }

    /// Closes a [live run](crate::agent::RunRequest::live): it takes no messages any more, answers those that it has and
    /// ends. It returns when that is kept. Closing it once more does nothing.
    ///
    /// # Errors
    /// [`Error::Control`](crate::Error::Control) when the run is not a live one, or has ended without having been closed.
    pub fn close(&self) -> ControlCall<'_> {
        self.control(Ok(ControlRequest::Close))
    }
}

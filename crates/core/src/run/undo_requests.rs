//! A run that undoes what it had done: its records of that, and control requests to it. Nothing else of it begins any more,
//! so most are refused at once; a cancellation gives up the compensation that the run waits for.
//!
//! It calls no compensation: `tool/compensation.rs` does, and asks here how long it waits.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::control_request::{Asked, ControlRequest, Reply};
use super::log::EventLog;
use super::shared::RunShared;
use super::state::RunState;
use crate::error::{ControlError, ControlErrorKind};
use crate::event::{EventKind, NotUndone};
use crate::path::StepPath;

impl RunShared {
    /// The run undoes what it had done from now on, since it failed or was cancelled: what it calls for that is not
    /// cancelled, and the workflows in it take no requests any more.
    pub(crate) fn undoes(&self, cancelled: bool) {
        self.operations().give_ups.state().cancelled = cancelled;
        // Who asks a workflow holds the same lock, so no request comes after those that wait there now.
        let _listeners = self.listeners();
        self.undoing.store(true, Ordering::SeqCst);
    }

    /// Whether the run undoes what it had done.
    pub(crate) fn is_undoing(&self) -> bool {
        self.undoing.load(Ordering::SeqCst)
    }

    /// Gives a request its outcome.
    pub(super) fn request_while_undoing(&self, Asked { request, reply, .. }: Asked) {
        let reason: Arc<str> = match &request {
            ControlRequest::Cancel { reason } => reason.as_str().into(),
            ControlRequest::Drain => return,
            _ => return self.log.reply(reply, Err(self.undoing_error(&request))),
        };
        let operations = self.operations();
        let mut is_first = false;
        operations.cancel_reason.get_or_init(|| {
            is_first = true;
            reason
        });
        match is_first {
            // Another process was asked the same and has left the run: it has its end here.
            true if operations.give_ups.state().cancelled => {
                self.await_cancelled(reply);
            }
            true => self.log.reply(reply, Err(self.undoing_error(&request))),
            false => self.give_up(reply),
        }
    }

    fn undoing_error(&self, request: &ControlRequest) -> ControlError {
        ControlError::undoing(request, &RunState::of_records(&self.log.all_below(&StepPath::root())))
    }

    /// Gives up the compensation that is running: its call is named with those that are not undone.
    pub(crate) fn give_up(&self, reply: Option<Reply>) {
        self.operations().give_ups.ask(reply);
    }

    /// Gives up all compensations, those too that have not begun.
    pub(crate) fn give_up_all(&self) {
        self.operations().give_ups.state().all = true;
        self.give_up(None);
    }

    pub(crate) fn gives_up_all(&self) -> bool {
        self.operations.get().is_some_and(|operations| operations.give_ups.state().all)
    }

    /// Waits until the compensation that is running is given up.
    pub(crate) async fn until_given_up(&self) {
        self.operations().give_ups.until_asked().await;
    }

    /// A compensation has ended, or was given up: whoever asked for that has the outcome when it is kept.
    pub(crate) fn has_given_up(&self) {
        let Some(operations) = self.operations.get() else { return };
        let waiting = {
            let mut state = operations.give_ups.state();
            (state.runs, state.now) = (false, false);
            std::mem::take(&mut state.waiting)
        };
        waiting.into_iter().for_each(|reply| self.log.reply(Some(reply), Ok(())));
    }

    /// The run stops here: whoever waits looks at it anew.
    pub(super) fn forget_give_ups(&self) {
        if let Some(operations) = self.operations.get() {
            operations.give_ups.state().waiting.clear();
        }
    }
}

impl EventLog {
    /// Whether the run undoes what it has done when it fails or is cancelled.
    pub(crate) fn compensates(&self) -> bool {
        let state = self.state();
        let first = state.all().next();
        first.is_some_and(|first| matches!(&first.kind, EventKind::RunStarted(started) if started.terms().compensate))
    }

    /// The calls that the run had done and that are not undone, when it undid what it had done.
    pub(super) fn not_undone(&self) -> Vec<NotUndone> {
        let state = self.state();
        let left = state.all().filter_map(|record| match &record.kind {
            EventKind::RunCompensated { left, .. } => Some(left),
            _ => None,
        });
        left.last().cloned().unwrap_or_default()
    }
}

impl ControlError {
    /// The run undoes what it had done, so nothing else is asked of it.
    pub(super) fn undoing(request: &ControlRequest, state: &RunState) -> Self {
        match (request, state.asking_in_undo(None)) {
            (ControlRequest::Retry { node, .. }, _) => Self::new(
                ControlErrorKind::WrongState,
                format!(
                    "the node `{node}` cannot be retried: a run that undoes what it had done does not run again; start a new run"
                ),
            ),
            (ControlRequest::Cancel { .. }, _) => Self::state(
                "cancelled",
                "undoing what it had done already, and ends after that; cancel it again to give up the compensation that \
                 it waits for",
            ),
            (other, None) => Self::state(other.done(), "undoing what it had done, and ends after that"),
            (other, Some(question)) => Self::state(
                other.done(),
                format!("undoing what it had done, and ends after that; `{question}` waits for an answer now"),
            ),
        }
    }
}

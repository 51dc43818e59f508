//! Control requests to a run that compensates. It does not start other work, so most requests are
//! refused at once. A cancellation gives up the compensation that the run waits for.
//!
//! `tool/compensation.rs` calls the compensations and uses this module to find out how long to
//! wait.

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
    /// Marks the run as compensating. Its compensations are not cancelled, and its workflows
    /// receive no more requests.
    pub(crate) fn undoes(&self, cancelled: bool) {
        self.operations().give_ups.state().cancelled = cancelled;
        // Requests to workflows are sent under this lock, so none is sent after this.
        let _listeners = self.listeners();
        self.undoing.store(true, Ordering::SeqCst);
    }

    /// Returns `true` if the run compensates or has compensated.
    pub(crate) fn is_undoing(&self) -> bool {
        self.undoing.load(Ordering::SeqCst)
    }

    /// Handles a request.
    pub(super) fn request_while_compensating(&self, Asked { request, reply, .. }: Asked) {
        let reason: Arc<str> = match &request {
            ControlRequest::Cancel { reason } => reason.as_str().into(),
            ControlRequest::Drain => return,
            _ => return self.log.reply(reply, Err(self.undoing_error(&request))),
        };
        let operations = self.operations();
        // The first cancel request sets the reason but gives up no compensation; a later one does.
        let mut is_first = false;
        operations.cancel_reason.get_or_init(|| {
            is_first = true;
            reason
        });
        match is_first {
            // The run was cancelled through another process, which has left it since. The request
            // waits for the end of the run.
            true if operations.give_ups.state().cancelled => {
                self.await_cancelled(reply);
            }
            true => self.log.reply(reply, Err(self.undoing_error(&request))),
            false => self.give_up(reply),
        }
    }

    fn undoing_error(&self, request: &ControlRequest) -> ControlError {
        ControlError::undoing(
            request,
            &RunState::from_records(&self.log.all_below(&StepPath::root())),
        )
    }

    /// Gives up the running compensation. Its call is listed as not compensated.
    pub(crate) fn give_up(&self, reply: Option<Reply>) {
        self.operations().give_ups.ask(reply);
    }

    /// Gives up all compensations, including those that have not started.
    pub(crate) fn give_up_all(&self) {
        self.operations().give_ups.state().all = true;
        self.give_up(None);
    }

    pub(crate) fn gives_up_all(&self) -> bool {
        self.operations.get().is_some_and(|operations| operations.give_ups.state().all)
    }

    /// Waits until the running compensation is given up.
    pub(crate) async fn until_given_up(&self) {
        self.operations().give_ups.until_asked().await;
    }

    /// Marks the running compensation as ended or given up. Sends the outcomes of the requests that
    /// gave it up when they are stored.
    pub(crate) fn has_given_up(&self) {
        let Some(operations) = self.operations.get() else { return };
        let waiting = {
            let mut state = operations.give_ups.state();
            (state.runs, state.now) = (false, false);
            std::mem::take(&mut state.waiting)
        };
        waiting.into_iter().for_each(|reply| self.log.reply(Some(reply), Ok(())));
    }

    /// Drops the waiting replies, because the run stops in this process. Callers look up the run
    /// again.
    pub(super) fn forget_give_ups(&self) {
        if let Some(operations) = self.operations.get() {
            operations.give_ups.state().waiting.clear();
        }
    }
}

impl EventLog {
    /// Returns `true` if the run compensates its completed calls when it fails or is cancelled.
    pub(crate) fn compensates(&self) -> bool {
        let state = self.state();
        let first = state.all().next();
        first.is_some_and(|first| matches!(&first.kind, EventKind::RunStarted(started) if started.terms().compensate))
    }

    /// Returns the calls that were not compensated, if the run compensated.
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
    /// Creates the error for a request to a run that compensates.
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
            (other, None) => {
                Self::state(other.done(), "undoing what it had done, and ends after that")
            }
            (other, Some(question)) => Self::state(
                other.done(),
                format!(
                    "undoing what it had done, and ends after that; `{question}` waits for an answer now"
                ),
            ),
        }
    }
}

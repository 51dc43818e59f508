//! `GiveUpRequests`: requests to give up compensations of a run, and their callers.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::control_request::Reply;

/// The requests to give up compensations of a run.
#[derive(Default)]
pub(super) struct GiveUpRequests {
    state: Mutex<GiveUpState>,
    asked: Notify,
}

#[derive(Default)]
pub(super) struct GiveUpState {
    /// `true` while a compensation is running.
    pub(super) runs: bool,
    /// `true` if the running compensation is to be given up.
    pub(super) now: bool,
    /// `true` if compensations that have not started are to be given up too.
    pub(super) all: bool,
    /// `true` if the run compensates because it was cancelled.
    pub(super) cancelled: bool,
    /// Replies for the callers, which were not sent yet.
    pub(super) waiting: Vec<Reply>,
}

impl GiveUpRequests {
    pub(super) fn state(&self) -> MutexGuard<'_, GiveUpState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives up the running compensation, if there is one.
    pub(super) fn ask(&self, reply: Option<Reply>) {
        {
            let mut state = self.state();
            state.now = state.runs;
            state.waiting.extend(reply);
        }
        self.asked.notify_waiters();
    }

    /// Marks a compensation as running, and waits until it is given up.
    pub(super) async fn until_asked(&self) {
        self.state().runs = true;
        loop {
            let asked = self.asked.notified();
            if self.state().now {
                return;
            }
            asked.await;
        }
    }
}

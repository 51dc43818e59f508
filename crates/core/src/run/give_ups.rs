//! `GiveUps`: which compensations a run no longer waits for, and who asked for that. It gives up none.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::control_request::Reply;

/// What was asked of a run that undoes what it had done.
#[derive(Default)]
pub(super) struct GiveUps {
    state: Mutex<GivenUp>,
    asked: Notify,
}

#[derive(Default)]
pub(super) struct GivenUp {
    /// A compensation is running.
    pub(super) runs: bool,
    /// It is given up.
    pub(super) now: bool,
    /// Those that have not begun are, too.
    pub(super) all: bool,
    /// The run was cancelled, and so does what was asked of it.
    pub(super) cancelled: bool,
    /// Who asked for it and has no outcome yet.
    pub(super) waiting: Vec<Reply>,
}

impl GiveUps {
    pub(super) fn state(&self) -> MutexGuard<'_, GivenUp> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The compensation that is running is given up, if one is.
    pub(super) fn ask(&self, reply: Option<Reply>) {
        {
            let mut state = self.state();
            state.now = state.runs;
            state.waiting.extend(reply);
        }
        self.asked.notify_waiters();
    }

    /// A compensation runs from now on: waits until it is given up.
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

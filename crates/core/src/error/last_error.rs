//! The error of the last run that ended on this thread. A test kit shows it when a script is dropped with turns left, since the
//! panic of that hides the error that a test returns with `?`.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Error, Result};

/// Set once by a test kit. A program without one formats and keeps no errors.
static WATCHED: AtomicBool = AtomicBool::new(false);

thread_local! {
    static LAST: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Keeps the error of the last run of each thread from now on.
pub fn watch_errors() {
    WATCHED.store(true, Ordering::Relaxed);
}

/// Returns the error of the last run whose outcome this thread received; `None` if that run succeeded.
pub fn last_error() -> Option<String> {
    LAST.try_with(|last| last.borrow().clone()).ok().flatten()
}

/// Notes the outcome of a run, or of starting one, where a program receives it.
pub(crate) fn noted<T>(outcome: Result<T>) -> Result<T> {
    note(outcome.as_ref().err());
    outcome
}

/// Notes the error of a run, or its success.
pub(crate) fn note(error: Option<&Error>) {
    if WATCHED.load(Ordering::Relaxed) {
        let error = error.map(ToString::to_string);
        // A thread that is ending keeps nothing.
        let _ = LAST.try_with(|last| *last.borrow_mut() = error);
    }
}

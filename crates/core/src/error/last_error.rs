//! The error of the last run that ended on this thread. A test kit shows it when a script is
//! dropped with unused turns, since the panic of the script hides the error that a test returns
//! with `?`.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Error, Result};

/// Set once by a test kit. Without a test kit, errors are not formatted and stored.
static WATCHED: AtomicBool = AtomicBool::new(false);

thread_local! {
    static LAST: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Starts storing the error of the last run of each thread.
pub fn watch_errors() {
    WATCHED.store(true, Ordering::Relaxed);
}

/// Returns the error of the last run whose outcome this thread received; `None` if that run succeeded.
pub fn last_error() -> Option<String> {
    LAST.try_with(|last| last.borrow().clone()).ok().flatten()
}

/// Stores the outcome of a run, or of starting a run, when the program receives it.
pub(crate) fn noted<T>(outcome: Result<T>) -> Result<T> {
    note(outcome.as_ref().err());
    outcome
}

/// Stores the error of a run, or its success.
pub(crate) fn note(error: Option<&Error>) {
    if WATCHED.load(Ordering::Relaxed) {
        let error = error.map(ToString::to_string);
        // Fails only on a thread that is ending, where the error is not needed.
        let _ = LAST.try_with(|last| *last.borrow_mut() = error);
    }
}

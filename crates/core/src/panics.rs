//! Detects programs that are compiled with `panic = "abort"`, in which a panic ends the process.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

/// Set by the profile of the program, which applies to all of its crates.
static ABORT: AtomicBool = AtomicBool::new(cfg!(panic = "abort"));

/// Returns true if a panic ends the process, so that it cannot be caught.
pub(crate) fn abort() -> bool {
    ABORT.load(Ordering::Relaxed)
}

/// Simulates a program that is compiled with `panic = "abort"`, for the rest of the process. For
/// tests, which must be compiled with unwinding.
pub fn assume_abort() {
    ABORT.store(true, Ordering::Relaxed);
}

/// Logs a warning, once per process, if panics of tools cannot be caught.
pub(crate) fn warn_once() {
    static WARNED: Once = Once::new();
    if abort() {
        WARNED.call_once(|| {
            tracing::warn!(
                "this program is compiled with `panic = \"abort\"`: a panic of a tool or a step ends the process instead \
                 of its call; compile it with `panic = \"unwind\"`"
            );
        });
    }
}

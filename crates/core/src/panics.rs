//! Detects programs that are compiled with `panic = "abort"`, in which a panic ends the process.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

/// Set by the profile of the program, which applies to all of its crates.
static ABORT: AtomicBool = AtomicBool::new(cfg!(panic = "abort"));

/// Returns true if a panic ends the process, so that nothing can be unwound.
pub(crate) fn abort() -> bool {
    ABORT.load(Ordering::Relaxed)
}

/// Behaves from now on as in a program that is compiled with `panic = "abort"`: for tests, which cannot unwind otherwise.
pub fn assume_abort() {
    ABORT.store(true, Ordering::Relaxed);
}

/// Logs once in a process that panics of tools are not caught.
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

//! Panics for a script that is dropped before its end, with the error of the run as the cause.

use agentflow::__private::last_error;

/// Panics with the problems of a script. If the only problem is unused turns, the error of the last
/// run on this thread comes first. A test that returns this error with `?` drops its scripts
/// before, and their panic would otherwise hide the error.
pub(crate) fn panic_when_dropped(problems: &str, are_left_over: bool) {
    match last_error().filter(|_| are_left_over) {
        Some(error) => panic!("the run ended with an error: {error}\n\n{problems}"),
        None => panic!("{problems}"),
    }
}

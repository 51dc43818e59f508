//! The panic of a script that is dropped before its end: the error of the run comes first, since it is the reason.

use agentflow::__private::last_error;

/// Panics with the problems of a script. When nothing but turns is left over, the error of the last run of this thread comes
/// before them: a test that returns that error with `?` drops its scripts first, and the panic would hide it.
pub(crate) fn panic_when_dropped(problems: &str, are_left_over: bool) {
    match last_error().filter(|_| are_left_over) {
        Some(error) => panic!("the run ended with an error: {error}\n\n{problems}"),
        None => panic!("{problems}"),
    }
}

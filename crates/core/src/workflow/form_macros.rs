//! The special forms in the body of a `#[workflow]` (`gate!`, `map!`, ..) as macros. They carry the
//! documentation, and an error message for uses outside of a `#[workflow]`. Inside one, the
//! attribute parses them and they are never expanded.

/// Asks a person and waits for the answer, also across restarts. Only in a `#[workflow]`.
///
/// `gate!("merge this?", risk).await?` returns an [`Approval`](crate::Approval), or a `T` with
/// `answer = T`. The question may contain `{names}` as in format strings. The second argument is
/// shown with the question. `#[node(timeout = "7d")]` limits the wait, and `on_timeout = deny` sets
/// the outcome if it ends without an answer.
#[macro_export]
macro_rules! gate {
    ($($any:tt)*) => {
        ::core::compile_error!(
            "`gate!` works only in a `#[workflow]`, as the value of a `let` or at the end; write `let answer = gate!(\"merge this?\", risk).await?;`"
        )
    };
}

/// Runs branches concurrently. The first to succeed gives the output, and the others are cancelled.
/// Only in a `#[workflow]`.
///
/// `race!(fast(x), good(y)).await?`
#[macro_export]
macro_rules! race {
    ($($any:tt)*) => {
        ::core::compile_error!(
            "`race!` works only in a `#[workflow]`, as the value of a `let` or at the end; write `let first = race!(fast(x), good(y)).await?;`"
        )
    };
}

/// Tries branches in order. The first to succeed gives the output. Only in a `#[workflow]`.
///
/// A branch fails if it panics, also if the panic is in the arguments of its call.
///
/// `fallback!(first(x), second(y)).await?`
#[macro_export]
macro_rules! fallback {
    ($($any:tt)*) => {
        ::core::compile_error!(
            "`fallback!` works only in a `#[workflow]`, as the value of a `let` or at the end; write `let x = fallback!(first(x), second(y)).await?;`"
        )
    };
}

/// Runs a step for each item of a list. The outputs have the order of the items. Only in a
/// `#[workflow]`.
///
/// `map!(files, |file| check(file, rules)).await?` returns a `Vec`. `#[node(concurrency = 2)]`
/// limits the number of concurrent items.
#[macro_export]
macro_rules! map {
    ($($any:tt)*) => {
        ::core::compile_error!(
            "`map!` works only in a `#[workflow]`, as the value of a `let` or at the end; write `let all = map!(files, |file| check(file)).await?;`"
        )
    };
}

/// Repeats a step with its own output as input, until a condition holds and at most `max` times.
/// Only in a `#[workflow]`.
///
/// `repeat!(draft, |text| improve(text), until = |text| text.good, max = 5).await?` returns the
/// last output. A round is also the last one if it calls
/// [`Context::exit_loop`](crate::Context::exit_loop), or if its model calls
/// [`exit_loop`](struct@crate::exit_loop).
#[macro_export]
macro_rules! repeat {
    ($($any:tt)*) => {
        ::core::compile_error!(
            "`repeat!` works only in a `#[workflow]`, as the value of a `let` or at the end; write `let text = repeat!(draft, |text| improve(text), max = 5).await?;`"
        )
    };
}

/// Limits the time of a step. Only in a `#[workflow]`.
///
/// `timeout!("30s", fetch(url)).await?`
#[macro_export]
macro_rules! timeout {
    ($($any:tt)*) => {
        ::core::compile_error!(
            "`timeout!` works only in a `#[workflow]`, as the value of a `let` or at the end; write `let page = timeout!(\"30s\", fetch(url)).await?;`"
        )
    };
}

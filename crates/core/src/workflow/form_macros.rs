//! The forms of a workflow's body (`gate!`, `map!`, ..) as macros, for their documentation and for one clear error
//! outside of a `#[workflow]`. Within one they are never expanded: the attribute reads them itself.

/// In a `#[workflow]`: asks a person, and waits for the answer, which survives a restart.
///
/// `gate!("merge this?", risk).await?` is an [`Approval`](crate::Approval); with `answer = T` it is a `T`. The question
/// may hold `{names}` as format strings do, and the second argument is shown with it. `#[node(timeout = "7d")]` limits
/// the wait, and `on_timeout = deny` says what happens then.
#[macro_export]
macro_rules! gate {
    ($($any:tt)*) => {
        ::core::compile_error!(
            "`gate!` works only in a `#[workflow]`, as the value of a `let` or at the end; write `let answer = gate!(\"merge this?\", risk).await?;`"
        )
    };
}

/// In a `#[workflow]`: runs branches at the same time; the first to succeed gives the output, the others are cancelled.
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

/// In a `#[workflow]`: tries branches one after another; the first to succeed gives the output. A branch that panics has
/// failed, also when the panic is in the arguments of its call.
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

/// In a `#[workflow]`: runs a step for each item of a list; the outputs keep the items' order.
///
/// `map!(files, |file| check(file, rules)).await?` is a `Vec`. `#[node(concurrency = 2)]` limits how many run at once.
#[macro_export]
macro_rules! map {
    ($($any:tt)*) => {
        ::core::compile_error!(
            "`map!` works only in a `#[workflow]`, as the value of a `let` or at the end; write `let all = map!(files, |file| check(file)).await?;`"
        )
    };
}

/// In a `#[workflow]`: repeats a step on its own output, until a condition holds and at most `max` times.
///
/// `repeat!(draft, |text| improve(text), until = |text| text.good, max = 5).await?` is the last output. A round that calls
/// [`Context::exit_loop`](crate::Context::exit_loop), or whose model calls [`exit_loop`](struct@crate::exit_loop), is the last
/// one, too.
#[macro_export]
macro_rules! repeat {
    ($($any:tt)*) => {
        ::core::compile_error!(
            "`repeat!` works only in a `#[workflow]`, as the value of a `let` or at the end; write `let text = repeat!(draft, |text| improve(text), max = 5).await?;`"
        )
    };
}

/// In a `#[workflow]`: limits how long a step may take.
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

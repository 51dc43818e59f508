//! The forms of a workflow's body, as macros that exist everywhere: `#[workflow]` reads them itself, and anywhere else
//! each is one clear error.

/// In a `#[workflow]`: asks a person, and waits for the answer, which survives a restart.
///
/// `gate!("merge this?", risk).await?` is an [`Approval`](crate::Approval); with `answer = T` it is a `T`. The question
/// may hold `{names}` as format strings do, and the second argument is what it is about. `#[node(timeout = "7d")]`
/// bounds the waiting.
#[macro_export]
macro_rules! gate {
    ($($any:tt)*) => {
        ::core::compile_error!(
            "`gate!` is a step of a `#[workflow]` and stands alone there, as in `let answer = gate!(\"merge this?\", risk).await?;`"
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
            "`race!` is a step of a `#[workflow]` and stands alone there, as in `let first = race!(fast(x), good(y)).await?;`"
        )
    };
}

/// In a `#[workflow]`: tries branches one after another; the first to succeed gives the output.
///
/// `fallback!(first(x), second(y)).await?`
#[macro_export]
macro_rules! fallback {
    ($($any:tt)*) => {
        ::core::compile_error!(
            "`fallback!` is a step of a `#[workflow]` and stands alone there, as in `let x = fallback!(first(x), second(y)).await?;`"
        )
    };
}

/// In a `#[workflow]`: runs a step for each item of a list; the outputs keep the items' order.
///
/// `map!(files, |file| check(file, rules)).await?` is a `Vec`. `#[node(concurrency = 2)]` bounds how many run at once.
#[macro_export]
macro_rules! map {
    ($($any:tt)*) => {
        ::core::compile_error!(
            "`map!` is a step of a `#[workflow]` and stands alone there, as in `let all = map!(files, |file| check(file)).await?;`"
        )
    };
}

/// In a `#[workflow]`: repeats a step on its own output, until a condition holds and at most `max` times.
///
/// `repeat!(draft, |text| improve(text), until = |text| text.good, max = 5).await?` is the last output.
#[macro_export]
macro_rules! repeat {
    ($($any:tt)*) => {
        ::core::compile_error!(
            "`repeat!` is a step of a `#[workflow]` and stands alone there, as in `let text = repeat!(draft, |text| improve(text), max = 5).await?;`"
        )
    };
}

/// In a `#[workflow]`: bounds how long a step may take.
///
/// `timeout!("30s", fetch(url)).await?`
#[macro_export]
macro_rules! timeout {
    ($($any:tt)*) => {
        ::core::compile_error!(
            "`timeout!` is a step of a `#[workflow]` and stands alone there, as in `let page = timeout!(\"30s\", fetch(url)).await?;`"
        )
    };
}

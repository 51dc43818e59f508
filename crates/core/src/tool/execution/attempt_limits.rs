//! Limits of one attempt: concurrency, time, panics and the size of the answer.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use agentflow_schema::text::{head, panic_text};
use futures_util::FutureExt;

use super::super::call_checks::error_of_failure;
use super::super::step_place::StepEndPanic;
use super::super::{Effects, ToolDefinition, ToolError, ToolOutput, ToolPolicy};
use super::time_limit::TimeLimit;
use crate::context::Context;
use crate::failure::Failure;
use crate::message::{ToolContent, ToolStatus};
use crate::run::Slot;

/// Maximum number of bytes that a model gets of a too large answer or message.
pub(crate) const HEAD: usize = 1024;

/// Waits for a concurrency slot if the policy limits the number of concurrent calls to the tool.
pub(crate) async fn slot(cx: &Context, definition: &ToolDefinition) -> Option<Slot> {
    let most = definition.policy.concurrency?;
    cx.host().slots.take(&definition.name, most).await
}

/// The reason why a body produced no answer.
pub(crate) enum BodyFailure {
    /// The body did not finish within its time-out.
    Time(Duration),
    Panic(Box<dyn Any + Send>),
    /// A nested call that cannot wait has ended the step.
    StepEnds(Failure),
}

impl BodyFailure {
    fn of_panic(panic: Box<dyn Any + Send>) -> Self {
        match StepEndPanic::from_panic(&*panic) {
            Some(failure) => Self::StepEnds(failure.clone()),
            None => Self::Panic(panic),
        }
    }

    /// Returns the error for the caller of the tool.
    pub(super) fn error(&self, name: &str, effects: Effects) -> ToolError {
        match self {
            Self::Time(limit) => {
                ToolError::with_status(ToolStatus::Timeout, timeout_message(name, *limit, effects))
            }
            Self::Panic(panic) => {
                ToolError::with_status(ToolStatus::Panicked, panic_message(name, &**panic))
            }
            Self::StepEnds(failure) => error_of_failure(failure),
        }
    }

    /// Returns the error for a tool that compensates another call. A person reads it.
    pub(crate) fn compensation_error(&self, name: &str) -> ToolError {
        let (status, what) = match self {
            Self::Time(limit) => {
                (ToolStatus::Timeout, format!("`{name}` did not answer within {limit:?}"))
            }
            Self::Panic(panic) => {
                (ToolStatus::Panicked, format!("`{name}` panicked: {}", panic_text(&**panic)))
            }
            Self::StepEnds(failure) => return error_of_failure(failure),
        };
        ToolError::with_status(status, format!("{what}; whether it is undone is unknown: find out"))
    }
}

/// Returns the message for a call that timed out.
pub(crate) fn timeout_message(name: &str, limit: Duration, effects: Effects) -> String {
    format!("`{name}` did not answer within {limit:?}; {}", effects.describe_interrupted())
}

/// Returns the message for a call that panicked.
pub(crate) fn panic_message(name: &str, panic: &(dyn Any + Send)) -> String {
    format!("`{name}` panicked: {}; other arguments may help", panic_text(panic))
}

/// Runs a body within its time-out, if any, and catches its panic. Time that the step spends
/// waiting for a person does not count.
pub(crate) async fn within_limit<T>(
    cx: &Context,
    body: impl Future<Output = T>,
    limit: Option<Duration>,
) -> Result<T, BodyFailure> {
    caught_within_limit(cx, pin!(AssertUnwindSafe(body).catch_unwind()), limit).await
}

/// Applies the time-out to a body whose panic is already caught.
pub(super) async fn caught_within_limit<T>(
    cx: &Context,
    mut caught: Pin<&mut impl Future<Output = std::thread::Result<T>>>,
    limit: Option<Duration>,
) -> Result<T, BodyFailure> {
    let Some(limit) = limit else { return caught.await.map_err(BodyFailure::of_panic) };
    let mut time = TimeLimit::new(limit);
    std::future::poll_fn(|task| match caught.as_mut().poll(task) {
        Poll::Ready(outcome) => Poll::Ready(outcome.map_err(BodyFailure::of_panic)),
        // Polled after the body, because the body may have just asked a person, which stops the
        // clock.
        Poll::Pending => time.poll_over(task, cx).map(|()| Err(BodyFailure::Time(limit))),
    })
    .await
}

pub(super) fn within_size(output: ToolOutput, most: usize) -> Result<ToolOutput, ToolError> {
    let read = output.content().and_then(|content| content.text.as_deref()).unwrap_or_default();
    let parts = output.content().map_or(0, ToolContent::size_of_parts);
    if let Some(error) = size_error(output.as_json(), most).or_else(|| size_error(read, most)) {
        return Err(error);
    }
    match parts > ToolContent::MAX_BYTES {
        true => Err(ToolError::with_status(
            ToolStatus::OutputTooLarge,
            format!(
                "the tool ran, but the files and links of its answer have {parts} bytes, and {} is the most; ask for less",
                ToolContent::MAX_BYTES
            ),
        )),
        false => Ok(output),
    }
}

/// Returns an error if an answer is larger than `limit` bytes.
pub(crate) fn size_error(json: &str, limit: usize) -> Option<ToolError> {
    let size = json.len();
    (size > limit).then(|| {
        // The beginning tells the model how to ask for less.
        let begins = head(json, HEAD.min(limit));
        ToolError::with_status(
            ToolStatus::OutputTooLarge,
            format!(
                "the tool ran, but its answer of {size} bytes is over the limit of {limit} bytes; ask for less. It begins: \
                 {begins}"
            ),
        )
    })
}

/// Cuts an error message for the model to the size limit of an answer.
pub(super) fn cut_message(message: &str, policy: &ToolPolicy) -> String {
    match message.len() <= policy.max_output {
        true => message.to_owned(),
        false => {
            format!(
                "{} .. (the first part of {} bytes)",
                head(message, HEAD.min(policy.max_output)),
                message.len()
            )
        }
    }
}

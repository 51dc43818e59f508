//! What the attempts of a call in a step have given, and what that means for the step. It calls nothing.

use std::any::Any;

use super::ToolError;
use super::call_in_step::ToolAnswer;
use super::call_record::{Forms, ReturnedError, failure_of, lost};
use crate::failure::Failure;
use crate::middleware::HookedAnswer;

/// How a call ends without a value.
pub(super) enum Stop {
    /// It ends the step.
    Ends(Failure),
    Panics(Box<dyn Any + Send>),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Ends(failure)
    }
}

/// How a call has ended, before the hooks after it.
pub(super) enum Ended<O> {
    /// By a hook before it.
    Answered(HookedAnswer),
    Made(Made<O>),
}

/// What the attempts of a call have given.
pub(super) struct Made<O> {
    /// The function's value; none when it has not ended, or is too large.
    pub(super) value: Option<O>,
    pub(super) answer: ToolAnswer,
    pub(super) panic: Option<Box<dyn Any + Send>>,
}

impl<O> Made<O> {
    pub(super) fn nothing(problem: ToolError) -> Self {
        Self { value: None, answer: Err(problem), panic: None }
    }

    /// The error that the function returned, as far as it can be recorded.
    pub(super) fn error(&self, (_, form): &Forms<O>) -> ReturnedError {
        match self.value.as_ref().filter(|_| self.answer.is_err()) {
            Some(value) => ReturnedError { error: (form.record)(value), cause: (form.cause)(value).map(Into::into) },
            None => ReturnedError::default(),
        }
    }

    /// The tool's answer, and what it means for the step.
    pub(super) fn split(self) -> (ToolAnswer, Result<O, Stop>) {
        let Self { value, answer, panic } = self;
        let value = match (value, panic, &answer) {
            (Some(value), ..) => Ok(value),
            (None, Some(panic), _) => Err(Stop::Panics(panic)),
            (None, None, Err(problem)) => Err(failure_of(problem).into()),
            (None, None, Ok(_)) => Err(lost("an answer has no value").into()),
        };
        (answer, value)
    }
}

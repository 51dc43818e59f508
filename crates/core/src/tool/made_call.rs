//! The result of a call's attempts in a step, and its effect on the step.

use std::any::Any;

use super::ToolError;
use super::call_in_step::ToolAnswer;
use super::call_record::{Forms, ReturnedError, failure_of, lost};
use crate::failure::Failure;
use crate::middleware::HookedResult;

/// The reason why a call ends without a value.
pub(super) enum Stop {
    /// The step ends with this failure.
    Ends(Failure),
    Panics(Box<dyn Any + Send>),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Ends(failure)
    }
}

/// The end of a call, before the hooks that follow it.
pub(super) enum Ended<O> {
    /// A hook before the call answered it.
    Answered(HookedResult),
    Made(Made<O>),
}

/// The result of a call's attempts.
pub(super) struct Made<O> {
    /// The function's value. `None` if the function did not finish or its answer is too large.
    pub(super) value: Option<O>,
    pub(super) answer: ToolAnswer,
    pub(super) panic: Option<Box<dyn Any + Send>>,
}

impl<O> Made<O> {
    pub(super) fn nothing(problem: ToolError) -> Self {
        Self { value: None, answer: Err(problem), panic: None }
    }

    /// Returns the error of the function, if it can be recorded.
    pub(super) fn error(&self, (_, form): &Forms<O>) -> ReturnedError {
        match self.value.as_ref().filter(|_| self.answer.is_err()) {
            Some(value) => ReturnedError {
                error: (form.record)(value),
                cause: (form.cause)(value).map(Into::into),
            },
            None => ReturnedError::default(),
        }
    }

    /// Splits the result into the tool's answer and its effect on the step.
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

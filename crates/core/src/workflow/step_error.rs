//! `StepError`: the failure of a step as it is recorded, and the original error for a direct caller
//! of the workflow.

use std::any::Any;
use std::fmt;
use std::panic::AssertUnwindSafe;

use agentflow_schema::diagnostic::Diagnostic;
use agentflow_schema::text::panic_text;

use crate::error::{Error, Failure, FailureKind};
use crate::failure::Cause;
use crate::model::ModelError;
use crate::tool::call_forms::ErrorForm;
use crate::tool::{CurrentStep, StepEndPanic, ToolError, panic_message};
use crate::value::Encoded;

/// Error of a step: the recorded failure, and the original error if it is still available.
pub(crate) struct StepError {
    pub(crate) failure: Failure,
    pub(crate) original: Option<Box<dyn Any + Send>>,
}

impl StepError {
    pub(crate) fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self::recorded(Failure::new(kind, message))
    }

    /// Creates an error from a recorded failure, without the original error.
    pub(crate) fn recorded(failure: Failure) -> Self {
        Self { failure, original: None }
    }

    /// Converts the error of a workflow. Its JSON is kept with the failure: in the form that its
    /// type defines, or as text.
    pub(crate) fn of_workflow<E: StepFailure>(error: E, form: &ErrorForm<Result<(), E>>) -> Self {
        // The form records a whole `Result`, so the error is wrapped for it and then unwrapped.
        let ended = Err(error);
        let value = (form.record)(&ended);
        let Err(error) = ended else { unreachable!("it is an error") };
        let text = || Encoded::new(&error.to_string()).ok();
        let value = value.or_else(text);
        let Self { failure, original } = Self::from_error(error);
        Self { failure: Failure { value, ..failure }, original }
    }

    /// Converts the error of a step. A `StepError` is returned unchanged.
    pub(crate) fn from_error<E: StepFailure>(error: E) -> Self {
        let message = error.to_string();
        let cause = Cause::from_alternate_form(&message, &error);
        // A failure that must not be retried may only appear in the text of the program's error.
        let hidden = CurrentStep::final_failure_in(&error);
        let error: Box<dyn Any + Send> = Box::new(error);
        let error = match error.downcast::<Self>() {
            Ok(already) => return *already,
            Err(error) => error,
        };
        let failure = if let Some(error) = error.downcast_ref::<Error>() {
            Failure::from(error)
        } else if let Some(error) = error.downcast_ref::<ModelError>() {
            Failure::from(error)
        } else if let Some(error) = error.downcast_ref::<ToolError>() {
            Failure::new(error.status().as_str(), error.message())
        } else {
            let boxed = error.downcast_ref::<Box<dyn std::error::Error + Send + Sync>>();
            match boxed.and_then(|boxed| known(&**boxed)) {
                Some(known) => Failure { message, cause, value: None, ..known },
                // An error type of the program may contain an error of the library.
                None => match hidden {
                    Some(hidden) => Failure { message, cause, value: None, ..hidden },
                    None => Failure { cause, ..Failure::new(FailureKind::Error, message) },
                },
            }
        };
        Self { failure: Failure { value: None, ..failure }, original: Some(error) }
    }

    /// Creates the error of a value or a condition that cannot be computed. The failure keeps the
    /// problem as data.
    pub(crate) fn of_value(problem: &Diagnostic) -> Self {
        Self::recorded(Failure::new(FailureKind::Value, problem.message()).about(problem))
    }

    /// Puts the place of the problem before the message.
    pub(crate) fn within(mut self, what: &str) -> Self {
        self.failure.message = format!("{what}: {}", self.failure.message);
        self
    }

    /// Creates the error of a node that reads an output that does not exist yet. It means that the
    /// plan is wrong.
    pub(crate) fn read_too_early() -> Self {
        Self::new(
            FailureKind::Value,
            "a value was read before its node had ended; report this as a fault of the library",
        )
    }

    /// Creates the error of a step that panicked.
    pub(crate) fn panicked(panic: &(dyn Any + Send)) -> Self {
        if let Some(failure) = StepEndPanic::from_panic(panic) {
            return Self::recorded(failure.clone());
        }
        Self::new(FailureKind::Panicked, format!("the step panicked: {}", panic_text(panic)))
    }

    /// Creates the error of a step that panicked. `tool` is the name of the tool if the step
    /// consists of its call.
    pub(crate) fn panicked_in(tool: Option<&str>, panic: &(dyn Any + Send)) -> Self {
        match tool {
            Some(name) if StepEndPanic::from_panic(panic).is_none() => {
                Self::new(FailureKind::Panicked, panic_message(name, panic))
            }
            _ => Self::panicked(panic),
        }
    }

    /// Creates the error of a value that cannot be encoded or decoded at a boundary.
    pub(crate) fn value(what: &str, error: &serde_json::Error) -> Self {
        Self::new(FailureKind::Value, format!("{what}: {error}"))
    }
}

/// Runs code of the user. A panic becomes a failure of the step.
pub(crate) fn caught<T>(act: impl FnOnce() -> Result<T, StepError>) -> Result<T, StepError> {
    std::panic::catch_unwind(AssertUnwindSafe(act))
        .unwrap_or_else(|panic| Err(StepError::panicked(&*panic)))
}

/// Returns the failure of the first [`Error`] or [`ModelError`] among an error and its sources.
fn known(error: &(dyn std::error::Error + 'static)) -> Option<Failure> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<Error>() {
            return Some(Failure::from(error));
        }
        if let Some(error) = error.downcast_ref::<ModelError>() {
            return Some(Failure::from(error));
        }
        next = error.source();
    }
    None
}

impl fmt::Debug for StepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.failure.fmt(f)
    }
}

impl fmt::Display for StepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.failure.message)
    }
}

/// Error type of a workflow step: any type that implements [`Display`](fmt::Display), owns its data
/// and is `Send`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the error of a workflow's step",
    label = "what went wrong could not be recorded",
    note = "implement `std::fmt::Display` for `{Self}`; it must own its data and be `Send`"
)]
pub trait StepFailure: fmt::Display + Send + 'static {}

#[diagnostic::do_not_recommend]
impl<E: fmt::Display + Send + 'static> StepFailure for E {}

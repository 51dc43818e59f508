//! `TypedBody`: a `#[tool]` function that is called in a step with typed arguments.

use std::any::TypeId;
use std::sync::Arc;

use serde_json::Value;

#[cfg(feature = "dynamic")]
use super::super::call_checks::fitting;
use super::super::call_forms::{ArgumentCopies, ChangedArguments};
use super::super::call_record::{Forms, Outcome, ReturnedError, decode_replacement, read};
use super::super::history::RecordedOutcome;
use super::super::step_place::CurrentStep;
use super::super::undecided::{undecided_failure, undecided_writes};
use super::super::{StandIn, ToolAnswer, ToolError};
use super::ToolExecution;
use super::body::ToolBody;
use super::site::CallSite;
use crate::context::Context;
use crate::message::ToolCall;
use crate::run::Around;

/// The future of a function, which returns the function's value and the answer made from it.
pub(in crate::tool) trait TypedFuture:
    Future<Output = (<Self as TypedFuture>::Value, ToolAnswer)>
{
    type Value;
}

impl<O, T: Future<Output = (O, ToolAnswer)>> TypedFuture for T {
    type Value = O;
}

/// The arguments and the function of a call.
///
/// A trait object, because the body of a call must not name the types of the arguments: the
/// compiler checks that a future is `Send` for all lifetimes in its types, which fails for a
/// function that accepts one of them.
pub(in crate::tool) trait TypedFunction<T> {
    /// Replaces the arguments that a person or middleware changed. `given` holds the arguments of
    /// the caller as JSON.
    ///
    /// # Errors
    /// A changed argument does not fit its type.
    fn change(&mut self, given: &Value, call: &ToolCall) -> Result<(), ToolError>;

    /// Copies the arguments for another attempt. Returns `false` if a type cannot be cloned.
    fn keep_arguments(&mut self) -> bool;

    /// Calls the function. Returns `None` if there are no arguments left.
    fn start(&mut self, cx: Context) -> Option<T>;
}

/// Typed arguments, and the function that takes them.
pub(in crate::tool) struct TypedCall<A, F> {
    arguments: Option<A>,
    /// A copy for the next attempt.
    kept: Option<A>,
    ways: ArgumentCopies<A>,
    function: F,
}

impl<A, F> TypedCall<A, F> {
    pub(in crate::tool) fn new(arguments: A, ways: ArgumentCopies<A>, function: F) -> Self {
        Self { arguments: Some(arguments), kept: None, ways, function }
    }
}

impl<A, F: FnMut(Context, A) -> T, T> TypedFunction<T> for TypedCall<A, F> {
    fn change(&mut self, given: &Value, call: &ToolCall) -> Result<(), ToolError> {
        if let Some(arguments) = self.arguments.take() {
            let changed = ChangedArguments::read(given, call, arguments, self.ways.changed)?;
            self.arguments = Some(changed);
        }
        Ok(())
    }

    fn keep_arguments(&mut self) -> bool {
        self.kept = self.arguments.as_ref().and_then(self.ways.again);
        self.kept.is_some()
    }

    fn start(&mut self, cx: Context) -> Option<T> {
        let arguments = std::mem::replace(&mut self.arguments, self.kept.take())?;
        Some((self.function)(cx, arguments))
    }
}

/// A function with typed arguments, called by a step.
pub(in crate::tool) struct TypedBody<'f, T: TypedFuture> {
    pub(in crate::tool) place: &'f Arc<CurrentStep>,
    /// Identity of the function.
    pub(in crate::tool) id: TypeId,
    pub(in crate::tool) site: CallSite,
    /// The arguments of the caller as JSON, or `null` if one of them has no JSON form.
    pub(in crate::tool) given: &'f Value,
    pub(in crate::tool) function: &'f mut (dyn TypedFunction<T> + Send + 'f),
    pub(in crate::tool) forms: &'f Forms<T::Value>,
    pub(in crate::tool) is_repeatable: bool,
    /// `true` if the journal cannot have records below the call yet.
    pub(in crate::tool) fresh: bool,
}

impl<T: TypedFuture> ToolBody for TypedBody<'_, T> {
    type Value = T::Value;

    fn accept(
        &mut self,
        execution: &ToolExecution<'_>,
        call: &ToolCall,
        is_changed: bool,
    ) -> Result<(), ToolError> {
        // Arguments that the caller wrote have the types of the function.
        if !is_changed {
            return Ok(());
        }
        #[cfg(feature = "dynamic")]
        if let Some(definition) = execution.definition
            && definition.has_limits()
        {
            fitting(definition, &call.arguments)?;
        }
        #[cfg(not(feature = "dynamic"))]
        let _ = execution;
        self.function.change(self.given, call)
    }

    fn keep_arguments(&mut self) -> bool {
        self.function.keep_arguments()
    }

    fn attempt_context(&self, cx: &Context, attempt: u32) -> Option<Context> {
        let cx = cx.clone();
        Some(match self.site {
            CallSite::StepItself => cx.with_attempt(self.place.cx.attempt(), 1),
            _ => cx.with_attempt(attempt, attempt),
        })
    }

    async fn ready(&mut self, cx: &Context, attempt: u32) {
        if !(self.fresh && attempt == 1)
            && cx.run().may_have_stopped(cx.path())
            && let Some(failure) = undecided_failure(&undecided_writes(cx.run(), cx.path(), false))
        {
            // The poller of the step drops this future.
            self.place.end_step(failure);
            std::future::pending::<()>().await;
        }
    }

    async fn attempt(
        &mut self,
        cx: &Context,
        call: &ToolCall,
        attempt: u32,
        stand_in: Option<&StandIn>,
    ) -> (Option<T::Value>, ToolAnswer) {
        let fresh = self.fresh && attempt == 1;
        let place = self.place.of_call(cx.clone(), self.id, fresh, !self.is_repeatable);
        let Self { function, forms, .. } = self;
        // A sync body runs when it is called, not when it is polled, so the call must happen
        // inside the scope.
        Around::at(place)
            .within(async {
                if let Some(stand_in) = stand_in {
                    let answered = stand_in.call(&call.arguments, Some(cx.path())).await;
                    return decode_replacement(forms, call, answered);
                }
                match function.start(cx.clone()) {
                    Some(called) => {
                        let (value, answer) = called.await;
                        (Some(value), answer)
                    }
                    None => (None, Err(ToolError::new("the call has no arguments"))),
                }
            })
            .await
    }

    fn returned_error(&self, value: &T::Value) -> ReturnedError {
        let (_, form) = self.forms;
        ReturnedError { error: (form.record)(value), cause: (form.cause)(value).map(Into::into) }
    }

    fn decode(&self, outcome: &RecordedOutcome) -> Option<Outcome<T::Value>> {
        read(self.forms, outcome)
    }
}

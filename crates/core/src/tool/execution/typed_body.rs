//! `TypedBody`: a `#[tool]` function that is called in a step with typed arguments.

use std::any::TypeId;
use std::sync::Arc;

use serde_json::Value;

use super::super::call_forms::{ArgumentCopies, ChangedArguments};
use super::super::call_record::{Forms, Outcome, ReturnedError, decode_replacement, read};
use super::super::history::RecordedOutcome;
#[cfg(feature = "dynamic")]
use super::super::invoke::fitting;
use super::super::step_place::CurrentStep;
use super::super::undecided::{undecided_failure, undecided_writes};
use super::super::{StandIn, ToolAnswer, ToolError};
use super::ToolExecution;
use super::body::ToolBody;
use super::site::CallSite;
use crate::context::Context;
use crate::message::ToolCall;
use crate::run::Around;

/// A function with typed arguments, called by a step.
pub(in crate::tool) struct TypedBody<'f, A, O, F> {
    pub(in crate::tool) place: &'f Arc<CurrentStep>,
    pub(in crate::tool) function: TypeId,
    pub(in crate::tool) site: CallSite,
    /// The arguments of the caller as JSON, or `null` if one of them has no JSON form.
    pub(in crate::tool) given: &'f Value,
    /// The arguments of the next attempt.
    pub(in crate::tool) arguments: Option<A>,
    /// A copy for the attempt after it.
    pub(in crate::tool) kept: Option<A>,
    pub(in crate::tool) ways: ArgumentCopies<A>,
    pub(in crate::tool) function_body: F,
    pub(in crate::tool) forms: &'f Forms<O>,
    pub(in crate::tool) is_repeatable: bool,
    /// `true` if the journal cannot have records below the call yet.
    pub(in crate::tool) fresh: bool,
}

impl<A, O, F, T> ToolBody for TypedBody<'_, A, O, F>
where
    F: FnMut(Context, A) -> T,
    T: Future<Output = (O, ToolAnswer)>,
{
    type Value = O;

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
        if let Some(arguments) = self.arguments.take() {
            let changed = ChangedArguments::read(self.given, call, arguments, self.ways.changed)?;
            self.arguments = Some(changed);
        }
        Ok(())
    }

    fn keep_arguments(&mut self) -> bool {
        self.kept = self.arguments.as_ref().and_then(self.ways.again);
        self.kept.is_some()
    }

    fn attempt_context(&self, cx: &Context, attempt: u32) -> Option<Context> {
        let cx = cx.clone();
        Some(match self.site {
            CallSite::StepItself => cx.with_attempt(self.place.cx.attempt(), 1),
            _ => cx.with_attempt(attempt, attempt),
        })
    }

    async fn ready(&self, cx: &Context, attempt: u32) {
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
    ) -> (Option<O>, ToolAnswer) {
        let arguments = std::mem::replace(&mut self.arguments, self.kept.take());
        let fresh = self.fresh && attempt == 1;
        let place = self.place.of_call(cx.clone(), self.function, fresh, !self.is_repeatable);
        let Self { function_body, forms, .. } = self;
        // A sync body runs when it is called, not when it is polled, so the call must happen
        // inside the scope.
        Around::at(place)
            .within(async {
                match (stand_in, arguments) {
                    (Some(stand_in), _) => {
                        let answered = stand_in.call(&call.arguments, Some(cx.path())).await;
                        decode_replacement(forms, call, answered)
                    }
                    (None, Some(arguments)) => {
                        let (value, answer) = function_body(cx.clone(), arguments).await;
                        (Some(value), answer)
                    }
                    (None, None) => (None, Err(ToolError::new("the call has no arguments"))),
                }
            })
            .await
    }

    fn returned_error(&self, value: &O) -> ReturnedError {
        let (_, form) = self.forms;
        ReturnedError { error: (form.record)(value), cause: (form.cause)(value).map(Into::into) }
    }

    fn decode(&self, outcome: &RecordedOutcome) -> Option<Outcome<O>> {
        read(self.forms, outcome)
    }
}

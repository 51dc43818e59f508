//! The body of a call: a tool with JSON arguments, or a function with typed arguments.

use std::sync::Arc;

#[cfg(feature = "dynamic")]
use super::super::call_checks::fitting;
use super::super::call_checks::{is_granted, refusal};
use super::super::call_record::{Outcome, ReturnedError};
use super::super::history::RecordedOutcome;
use super::super::step_place::CurrentStep;
use super::super::tool_body_place::ToolBodyScope;
use super::super::{ReplacedError, StandIn, Tool, ToolAnswer, ToolError, ToolOutput};
use super::ToolExecution;
use super::site::CallSite;
use crate::context::Context;
use crate::message::ToolCall;

/// The part of a call that depends on the form of its arguments: JSON or typed values.
pub(crate) trait ToolBody {
    /// The value that the caller receives.
    type Value;

    /// Returns `false` if the call is refused and cannot have an effect.
    fn reaches_tool(&self) -> bool {
        true
    }

    /// Checks the call before the first attempt. `changed` is `true` if a person or middleware
    /// replaced the arguments of the caller.
    ///
    /// # Errors
    /// The call must not be made.
    fn accept(
        &mut self,
        execution: &ToolExecution<'_>,
        call: &ToolCall,
        changed: bool,
    ) -> Result<(), ToolError>;

    /// Keeps the arguments for another attempt. Returns `false` if that is impossible.
    fn keep_arguments(&mut self) -> bool {
        true
    }

    /// Returns the context of an attempt. `None` if it is the context of the call.
    fn attempt_context(&self, _cx: &Context, _attempt: u32) -> Option<Context> {
        None
    }

    /// Waits until an attempt may start. Called before the attempt takes its concurrency slot.
    async fn ready(&mut self, _cx: &Context, _attempt: u32) {}

    /// Calls the tool, or its replacement, in the scope of the call.
    async fn attempt(
        &mut self,
        cx: &Context,
        call: &ToolCall,
        attempt: u32,
        stand_in: Option<&StandIn>,
    ) -> (Option<Self::Value>, ToolAnswer);

    /// Returns the error that the function returned, in recorded form.
    fn returned_error(&self, value: &Self::Value) -> ReturnedError;

    /// Decodes a result that middleware provided or changed.
    fn decode(&self, outcome: &RecordedOutcome) -> Option<Outcome<Self::Value>>;
}

/// A tool that is called with JSON arguments.
pub(crate) struct JsonBody<'t> {
    tool: &'t dyn Tool,
    /// Scopes and approvals of the call.
    granted: &'t [Arc<str>],
    site: CallSite,
}

impl<'t> JsonBody<'t> {
    pub(crate) fn new(tool: &'t dyn Tool, granted: &'t [Arc<str>], site: CallSite) -> Self {
        Self { tool, granted, site }
    }

    /// Returns the scope in which calls of the tool's body are recorded. `None` for a call in a
    /// step, whose body uses the scope of the step.
    fn scope(&self, cx: &Context) -> Option<Arc<ToolBodyScope>> {
        let compensates = match self.site {
            CallSite::Agent => cx.run().log.compensates(),
            CallSite::Compensation => false,
            CallSite::Program if CurrentStep::current().is_none() => false,
            _ => return None,
        };
        // Calls in the body have the grants of this call, which may differ from the run's grants.
        let cx = match **cx.grants() == *self.granted {
            true => cx.clone(),
            false => cx.clone().granted(&self.granted.into()),
        };
        ToolBodyScope::of_call(self.tool, cx, compensates)
    }
}

impl ToolBody for JsonBody<'_> {
    type Value = ();

    fn reaches_tool(&self) -> bool {
        is_granted(self.tool.definition(), self.granted)
    }

    fn accept(
        &mut self,
        execution: &ToolExecution<'_>,
        call: &ToolCall,
        _changed: bool,
    ) -> Result<(), ToolError> {
        let definition = self.tool.definition();
        let name = execution.site.name_in(definition, call);
        if let Some(refusal) = refusal(definition, self.granted, name) {
            return Err(refusal);
        }
        #[cfg(feature = "dynamic")]
        // A typed body checks types but not limits such as `maxLength`.
        if !self.tool.checks_arguments() || definition.has_limits() {
            fitting(definition, &call.arguments)?;
        }
        Ok(())
    }

    async fn attempt(
        &mut self,
        cx: &Context,
        call: &ToolCall,
        _attempt: u32,
        stand_in: Option<&StandIn>,
    ) -> (Option<()>, ToolAnswer) {
        let answer = match stand_in {
            Some(stand_in) => {
                let called = stand_in.call(&call.arguments, Some(cx.path()));
                called.await.map_err(|ReplacedError { error, .. }| error)
            }
            None => match self.scope(cx) {
                None => self.tool.call(cx, &call.arguments).await,
                Some(scope) => Box::pin(scope.within(|| self.tool.call(cx, &call.arguments))).await,
            },
        };
        (Some(()), answer)
    }

    fn returned_error(&self, (): &()) -> ReturnedError {
        ReturnedError::default()
    }

    fn decode(&self, _: &RecordedOutcome) -> Option<Outcome<()>> {
        Some(Outcome::Value(()))
    }
}

/// A call that must not be made, for example to a tool that is not offered.
pub(crate) struct RefusedCall(pub(crate) ToolError);

impl ToolBody for RefusedCall {
    type Value = ();

    fn reaches_tool(&self) -> bool {
        false
    }

    fn accept(&mut self, _: &ToolExecution<'_>, _: &ToolCall, _: bool) -> Result<(), ToolError> {
        Err(self.0.clone())
    }

    async fn attempt(
        &mut self,
        _: &Context,
        _: &ToolCall,
        _: u32,
        _: Option<&StandIn>,
    ) -> (Option<()>, ToolAnswer) {
        (None, Err::<ToolOutput, _>(self.0.clone()))
    }

    fn returned_error(&self, (): &()) -> ReturnedError {
        ReturnedError::default()
    }

    fn decode(&self, _: &RecordedOutcome) -> Option<Outcome<()>> {
        Some(Outcome::Value(()))
    }
}

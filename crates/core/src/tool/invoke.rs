//! Calls of tools by name, with JSON arguments.
//!
//! `execution/` makes the call. Every call gets a result.

use std::sync::Arc;

use agentflow_schema::text::{head, name_hint};

use super::call_checks::is_granted;
#[cfg(feature = "dynamic")]
use super::call_in_step::call_has_events;
use super::execution::{CallRecord, CallSite, HEAD, JsonBody, ToolExecution};
#[cfg(feature = "dynamic")]
use super::step_place::CurrentStep;
use super::told_call::DetachedToolCall;
use super::tool_body_place::ToolBodyScope;
#[cfg(feature = "dynamic")]
use super::undecided::pending_questions;
use super::{Tool, ToolError};
use crate::context::Context;
#[cfg(feature = "dynamic")]
use crate::context::PreviousCallAttempts;
use crate::error::Result;
use crate::message::{ToolCall, ToolResult, ToolStatus};
use crate::middleware::ToolHooks;
use crate::run::Around;

/// Calls a tool for a caller that records nothing, with the hooks of the runtime's middleware.
/// Outside of a run, the runtime's sinks also receive the events of the call.
pub(crate) async fn invoke_with_hooks(
    tool: &dyn Tool,
    cx: &Context,
    call: &ToolCall,
    granted: &[Arc<str>],
) -> ToolResult {
    // If the call belongs to the current step, the step records the events.
    let detached = match is_call_of_step(tool) {
        true => None,
        false => DetachedToolCall::new(cx, &tool.definition().name),
    };
    let own = detached.as_ref().map(|detached| detached.cx().clone());
    let mut record = detached.map_or(CallRecord::None, CallRecord::Detached);
    let cx = own.as_ref().unwrap_or(cx);
    let result = invoke(tool, cx, call, granted, CallSite::Program, &mut record).await;
    // The result is all that the caller gets, so it contains the error of a hook.
    result.unwrap_or_else(|error| ToolResult::new(call, ToolStatus::Error, error.to_string()))
}

/// Calls a tool by name, with the hooks of the runtime's middleware.
///
/// # Errors
/// The error of a hook, or of the store that keeps the record.
pub(super) async fn invoke(
    tool: &dyn Tool,
    cx: &Context,
    call: &ToolCall,
    granted: &[Arc<str>],
    site: CallSite,
    record: &mut CallRecord,
) -> Result<ToolResult> {
    let definition = tool.definition();
    let is_of_step = is_call_of_step(tool);
    let site = if is_of_step { CallSite::Function } else { site };
    // A refused call reaches no middleware. A call of the current step runs the hooks there.
    let hooks =
        ToolHooks::of_host(cx.host()).filter(|_| !is_of_step && is_granted(definition, granted));
    let mut execution = ToolExecution::new(cx, definition, site);
    // Otherwise the node applies its limit alone.
    #[cfg(feature = "dynamic")]
    if site == CallSite::Node && (hooks.is_some() || record.is_kept()) {
        execution.node_limit = CurrentStep::current().and_then(|step| step.covered.time_limit);
    }
    execution.records_retries &= record.is_kept();
    let body = JsonBody::new(tool, granted, site);
    let executed = execution.execute(Arc::new(call.clone()), None, hooks, record, body).await?;
    match executed.hook_error {
        Some(error) => Err(error),
        None => Ok(Arc::unwrap_or_clone(executed.outcome.result)),
    }
}

/// Calls a tool for a node or for a branch of it.
///
/// The call is recorded below the node if it needs its own events. A `#[tool]` function records
/// itself, so it is excluded.
///
/// # Errors
/// The error of a hook, or of the store.
#[cfg(feature = "dynamic")]
pub(crate) async fn invoke_in_node(
    tool: &dyn Tool,
    cx: &Context,
    call: &ToolCall,
    granted: &[Arc<str>],
    site: CallSite,
) -> Result<ToolResult> {
    let definition = tool.definition();
    // An earlier release recorded a call that still waits for an answer at the node.
    let is_recorded =
        call_has_events(cx.host(), definition) && pending_questions(cx.run(), cx.path()).is_none();
    if tool.function_definition().is_some() || !is_recorded {
        return invoke(tool, cx, call, granted, site, &mut CallRecord::None).await;
    }
    let mut record = CallRecord::in_step(cx.path());
    let path = cx.claim_base(None).tool(1, Arc::clone(&definition.name), 0);
    let cx = cx.of_call(path, &call.id, PreviousCallAttempts::default(), cx.resources());
    invoke(tool, &cx, call, granted, site, &mut record).await
}

/// Returns `true` if the tool's function records itself as a call of the current step. The step
/// then applies the span, the hooks, the attempts and the concurrency slot.
pub(super) fn is_call_of_step(tool: &dyn Tool) -> bool {
    tool.function_definition().is_some()
        && Around::has_place()
        && ToolBodyScope::current()
            .is_none_or(|body| body.undoes() && tool.definition().policy.compensate.is_some())
}

/// Returns the error for a call to a tool that is not offered.
pub(crate) fn not_found<'a>(
    call: &ToolCall,
    offered: impl Iterator<Item = &'a str> + Clone,
) -> ToolError {
    let hint = name_hint(&call.name, offered);
    let message = format!("there is no tool `{}`; {hint}", head(&call.name, HEAD));
    ToolError::with_status(ToolStatus::NotFound, message)
}

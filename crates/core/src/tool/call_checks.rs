//! Checks of a tool call before it is made: scopes, approval and arguments, and the errors of calls
//! that must not be made.

use std::sync::Arc;

use agentflow_schema::schema::without_nulls;
use serde_json::Value;

use super::parameters::read_object;
use super::undecided::for_model;
use super::{ToolDefinition, ToolError, ToolRef, is_dotted, wire_name};
use crate::event::RunId;
use crate::failure::{Failure, FailureKind};
use crate::message::ToolStatus;

/// Returns `true` if a run may call a tool.
pub(crate) fn is_granted(definition: &ToolDefinition, granted: &[Arc<str>]) -> bool {
    refusal(definition, granted, &definition.name).is_none()
}

/// Returns the refusal of a call that the run may not make. `called` is the tool's name in the
/// message.
pub(super) fn refusal(
    definition: &ToolDefinition,
    granted: &[Arc<str>],
    called: &str,
) -> Option<ToolError> {
    if let Some(refusal) = scope_refusal(definition, granted, called) {
        return Some(refusal);
    }
    if is_approved(definition, granted) {
        return None;
    }
    let refusal =
        "no person has approved this tool in this run; do without it, or explain why you need it";
    Some(
        ToolError::with_status(ToolStatus::Unauthorized, refusal)
            .remedy(approval_remedy(&definition.name)),
    )
}

/// Returns `true` if calls to the tool need no person's approval in a run with these grants.
fn is_approved(definition: &ToolDefinition, granted: &[Arc<str>]) -> bool {
    let ToolDefinition { name, policy, .. } = definition;
    let agreed = |scope: &Arc<str>| {
        let approved = scope.strip_prefix("approve:");
        approved.is_some_and(|approved| {
            approved == &**name || (is_dotted(approved) && wire_name(approved) == **name)
        })
    };
    !policy.approve || granted.iter().any(agreed)
}

/// Returns the remedy for a tool that needs an approval in a run that cannot request one.
fn approval_remedy(tool: &str) -> String {
    format!(
        "give the runtime a store, `Runtime::builder().store(..)`, so that a person can be asked, or begin the run with \
         `grant([\"approve:{tool}\"])`"
    )
}

/// Logs a warning for each tool that needs a person, since a run without a store cannot send
/// questions.
pub(crate) fn warn_unanswerable<'t>(
    agent: &str,
    run: &RunId,
    tools: impl Iterator<Item = &'t ToolRef>,
    granted: &[Arc<str>],
) {
    for tool in tools {
        let definition = tool.definition();
        if !tool.asks() && is_approved(definition, granted) {
            continue;
        }
        let remedy = match tool.asks() {
            true => "give the runtime a store: `Runtime::builder().store(..)`".to_owned(),
            false => approval_remedy(&definition.name),
        };
        let tool = &*definition.name;
        tracing::warn!(%run, agent, tool, remedy, "calls of a tool that needs a person are refused in a run without a store");
    }
}

/// Returns the refusal of a call whose scope the run lacks. The caller may be a model or a program.
pub(crate) fn scope_refusal(
    definition: &ToolDefinition,
    granted: &[Arc<str>],
    called: &str,
) -> Option<ToolError> {
    let scope = definition.policy.scopes.iter().find(|scope| !granted.contains(scope))?;
    let refusal = format!(
        "`{called}` needs the scope `{scope}`, which this run was not granted; do without it"
    );
    let refusal = ToolError::with_status(ToolStatus::Unauthorized, refusal);
    Some(refusal.remedy(format!("begin the run with `grant([\"{scope}\"])`")))
}

/// Parses the arguments and checks them without calling the tool.
pub(crate) fn fitting(definition: &ToolDefinition, arguments: &str) -> Result<Value, ToolError> {
    #[cfg(feature = "dynamic")]
    let check = definition.arguments_check().map_err(|problem| {
        ToolError::new(format!(
            "the schema of `{}` does not work: {problem}; do without this tool",
            definition.name
        ))
    })?;
    let arguments = without_nulls(&definition.parameters, read_object(arguments)?);
    #[cfg(feature = "dynamic")]
    check
        .check(&arguments)
        .map_err(|mismatches| ToolError::invalid_arguments(mismatches.to_string()))?;
    Ok(arguments)
}

/// Returns the error of a tool whose body made a call that could not be made.
pub(crate) fn error_of_failure(failure: &Failure) -> ToolError {
    let status = match failure.kind {
        FailureKind::Interrupted => ToolStatus::Interrupted,
        FailureKind::Unauthorized | FailureKind::Denied => ToolStatus::Unauthorized,
        FailureKind::Timeout => ToolStatus::Timeout,
        _ => ToolStatus::Error,
    };
    ToolError::with_status(status, for_model(&failure.message).to_owned())
}

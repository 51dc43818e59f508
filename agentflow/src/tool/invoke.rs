//! One tool call with all its limits: checks scopes, enforces the time-out, catches panics and bounds the output's
//! size.
//!
//! Every call gets a result; nothing here fails.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;

use super::{Tool, ToolError, ToolOutput, ToolPolicy};
use crate::context::Context;
use crate::message::{ToolCall, ToolResult, ToolStatus};
use crate::text::{head, name_hint, panic_text};

/// How much of an answer that is too large the model gets to see.
const HEAD: usize = 1024;

/// Calls a tool. Dropping the future cancels the tool.
pub(crate) async fn invoke(tool: &dyn Tool, cx: &Context, call: &ToolCall, granted: &[Arc<str>]) -> ToolResult {
    let policy = &tool.definition().policy;
    let outcome = match refusal(policy, &tool.definition().name, granted) {
        Some(refusal) => Err(ToolError::with_status(ToolStatus::Unauthorized, refusal)),
        None => run(tool, cx, call, policy).await,
    };
    let (status, output) = match outcome.and_then(|output| within_size(output, policy)) {
        Ok(output) => (ToolStatus::Success, output.into_json()),
        Err(error) => (error.status(), bounded(error.message(), policy)),
    };
    ToolResult::new(call, status, output)
}

/// Why the run may not call the tool, if it may not.
fn refusal(policy: &ToolPolicy, name: &str, granted: &[Arc<str>]) -> Option<String> {
    if let Some(scope) = policy.scopes.iter().find(|scope| !granted.contains(scope)) {
        return Some(format!("this run was not granted the scope `{scope}`; do without this tool"));
    }
    let agreed = |scope: &Arc<str>| scope.strip_prefix("approve:").is_some_and(|approved| approved == name);
    if policy.approve && !granted.iter().any(agreed) {
        return Some(
            "nobody has agreed to this tool's use in this run; do without it, or say what you need it for".into(),
        );
    }
    None
}

async fn run(tool: &dyn Tool, cx: &Context, call: &ToolCall, policy: &ToolPolicy) -> Result<ToolOutput, ToolError> {
    // The body of a sync tool runs inside `call` itself, so the call must happen inside of what catches panics.
    let caught = AssertUnwindSafe(async { tool.call(cx, &call.arguments).await }).catch_unwind();
    let outcome = match policy.timeout {
        None => caught.await,
        Some(limit) => match tokio::time::timeout(limit, caught).await {
            Ok(outcome) => outcome,
            Err(_) => {
                return Err(ToolError::with_status(
                    ToolStatus::Timeout,
                    format!("the tool did not answer within {limit:?}; whether it had its effect is unknown"),
                ));
            }
        },
    };
    outcome.unwrap_or_else(|panic| {
        Err(ToolError::with_status(
            ToolStatus::Panicked,
            format!("the tool panicked: {}; other arguments may help", panic_text(&*panic)),
        ))
    })
}

pub(super) fn within_size(output: ToolOutput, policy: &ToolPolicy) -> Result<ToolOutput, ToolError> {
    let size = output.as_json().len();
    if size <= policy.max_output {
        return Ok(output);
    }
    Err(ToolError::with_status(
        ToolStatus::OutputTooLarge,
        format!(
            "the tool ran, but its answer of {size} bytes is over the limit of {} bytes; ask for less. It begins: {}",
            policy.max_output,
            head(output.as_json(), HEAD.min(policy.max_output))
        ),
    ))
}

/// What the model sees of a failure: no more than it may see of an answer.
fn bounded(message: &str, policy: &ToolPolicy) -> String {
    match message.len() <= policy.max_output {
        true => message.to_owned(),
        false => {
            format!("{} .. (the first part of {} bytes)", head(message, HEAD.min(policy.max_output)), message.len())
        }
    }
}

/// The result of a call of a tool that is not offered.
pub(crate) fn not_found<'a>(call: &ToolCall, offered: impl Iterator<Item = &'a str> + Clone) -> ToolResult {
    let hint = name_hint(&call.name, offered);
    let output = format!("there is no tool `{}`; {hint}", head(&call.name, HEAD));
    ToolResult::new(call, ToolStatus::NotFound, output)
}

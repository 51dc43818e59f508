//! One tool call with all its limits: checks scopes, enforces the time-out, catches panics and bounds the output's
//! size. `call_in_step.rs` makes the calls of a workflow's step with the same parts.
//!
//! Every call gets a result; nothing here fails.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt;

#[cfg(feature = "dynamic")]
use super::parameters::read_object;
use super::time_limit::TimeLimit;
use super::{ReplacedKind, StandIn, Tool, ToolDefinition, ToolError, ToolOutput, ToolPolicy, is_dotted, wire_name};
use crate::context::Context;
use crate::error::Error;
use crate::message::{ToolCall, ToolResult, ToolStatus};
use crate::middleware::{HookedAnswer, ToolHooks, ToolStep};
use crate::run::Around;
use crate::text::{head, name_hint, panic_text};

/// How much of an answer that is too large the model gets to see.
const HEAD: usize = 1024;

/// Calls a tool. Dropping the future cancels the tool.
pub(crate) async fn invoke(tool: &dyn Tool, cx: &Context, call: &ToolCall, granted: &[Arc<str>]) -> ToolResult {
    let policy = &tool.definition().policy;
    let outcome = match refusal(tool.definition(), granted) {
        Some(refusal) => Err(ToolError::with_status(ToolStatus::Unauthorized, refusal)),
        None => run(tool, cx, call, policy).await,
    };
    let (status, output) = match outcome.and_then(|output| within_size(output, policy)) {
        Ok(output) => (ToolStatus::Success, output.into_json()),
        Err(error) => (error.status(), bounded(error.message(), policy)),
    };
    ToolResult::new(call, status, output)
}

/// The same with the hooks of the runtime's middleware around it, for a caller that records nothing.
pub(crate) async fn invoke_hooked(tool: &dyn Tool, cx: &Context, call: &ToolCall, granted: &[Arc<str>]) -> ToolResult {
    // In a step, the function of a tool is a call of the step, which has its hooks.
    let has_its_own = || tool.announces_itself() && Around::has_place();
    match ToolHooks::of_host(cx.host()) {
        Some(hooks) if refusal(tool.definition(), granted).is_none() && !has_its_own() => {
            let step = ToolStep::new(Arc::new(call.clone()), Some(Arc::clone(tool.definition())), None, cx.clone());
            let called: Result<Arc<ToolResult>, Error> = async {
                let mut hooked = hooks.before(step).await?;
                let mut answer = match hooked.answer.take() {
                    Some(answer) => answer,
                    None => HookedAnswer::of_tool(invoke(tool, cx, &hooked.call(), granted).await),
                };
                hooked.after(&mut answer).await?;
                Ok(answer.result)
            }
            .await;
            match called {
                Ok(result) => Arc::unwrap_or_clone(result),
                Err(error) => ToolResult::new(call, ToolStatus::Error, error.to_string()),
            }
        }
        _ => invoke(tool, cx, call, granted).await,
    }
}

/// Why the run may not call the tool, if it may not.
pub(crate) fn refusal(definition: &ToolDefinition, granted: &[Arc<str>]) -> Option<String> {
    let ToolDefinition { name, policy, .. } = definition;
    if let Some(scope) = policy.scopes.iter().find(|scope| !granted.contains(scope)) {
        return Some(format!("this run was not granted the scope `{scope}`; do without this tool"));
    }
    let agreed = |scope: &Arc<str>| {
        let approved = scope.strip_prefix("approve:");
        approved.is_some_and(|approved| approved == &**name || (is_dotted(approved) && wire_name(approved) == **name))
    };
    if policy.approve && !granted.iter().any(agreed) {
        return Some(
            "nobody has agreed to this tool's use in this run; do without it, or say what you need it for".into(),
        );
    }
    None
}

async fn run(tool: &dyn Tool, cx: &Context, call: &ToolCall, policy: &ToolPolicy) -> Result<ToolOutput, ToolError> {
    #[cfg(feature = "dynamic")]
    if !tool.checks_arguments() {
        fitting(tool.definition(), &call.arguments)?;
    }
    // In a step, the function of a tool is a call of the step, which is what is replaced there.
    let stand_in = match tool.announces_itself() && Around::has_place() {
        true => None,
        false => StandIn::of(cx.host(), ReplacedKind::Tool, &tool.definition().name),
    };
    // The body of a sync tool runs inside `call` itself, so the call must happen inside of what catches panics.
    let body = async {
        match &stand_in {
            None => tool.call(cx, &call.arguments).await,
            Some(stand_in) => stand_in.call(&call.arguments, Some(cx.path())).await.map_err(|replaced| replaced.error),
        }
    };
    match within_limit(cx, body, policy.timeout).await {
        Ok(outcome) => outcome,
        Err(Overrun::Time(limit)) => Err(ToolError::with_status(
            ToolStatus::Timeout,
            format!("the tool did not answer within {limit:?}; whether it had its effect is unknown"),
        )),
        Err(Overrun::Panic(panic)) => Err(ToolError::with_status(
            ToolStatus::Panicked,
            format!("the tool panicked: {}; other arguments may help", panic_text(&*panic)),
        )),
    }
}

/// Checks the arguments of a tool that does not do so itself.
#[cfg(feature = "dynamic")]
fn fitting(definition: &ToolDefinition, arguments: &str) -> Result<(), ToolError> {
    let check = definition.arguments_check().map_err(|problem| {
        ToolError::new(format!("the schema of `{}` does not work: {problem}; do without this tool", definition.name))
    })?;
    let arguments = read_object(arguments)?;
    check.check(&arguments).map_err(ToolError::invalid_arguments)
}

/// Why a body gave nothing.
pub(super) enum Overrun {
    /// It did not end within its time-out.
    Time(Duration),
    Panic(Box<dyn Any + Send>),
}

/// Runs a body at a step, within its time-out when it has one, and catches its panic. The time in which the step waits for
/// a person is not counted.
pub(super) async fn within_limit<T>(
    cx: &Context,
    body: impl Future<Output = T>,
    limit: Option<Duration>,
) -> Result<T, Overrun> {
    let mut caught = pin!(AssertUnwindSafe(body).catch_unwind());
    let Some(limit) = limit else { return caught.await.map_err(Overrun::Panic) };
    let mut time = TimeLimit::new(limit);
    std::future::poll_fn(|task| match caught.as_mut().poll(task) {
        Poll::Ready(outcome) => Poll::Ready(outcome.map_err(Overrun::Panic)),
        Poll::Pending => time.poll_over(task, cx).map(|()| Err(Overrun::Time(limit))),
    })
    .await
}

pub(super) fn within_size(output: ToolOutput, policy: &ToolPolicy) -> Result<ToolOutput, ToolError> {
    over_size(output.as_json(), policy.max_output).map_or(Ok(output), Err)
}

/// Why an answer is too large, if it is.
pub(crate) fn over_size(json: &str, limit: usize) -> Option<ToolError> {
    let size = json.len();
    (size > limit).then(|| {
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

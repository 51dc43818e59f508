//! Execution of one tool call with all its limits.
//!
//! Checks scopes and arguments, waits for a concurrency slot, enforces the time-out, catches
//! panics, limits the output size, and retries as the policy allows. `call_in_step.rs` uses the
//! same parts for calls in a workflow step. Every call gets a result; these functions do not return
//! errors.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use agentflow_schema::schema::without_nulls;
use agentflow_schema::text::{head, name_hint, panic_text};
use futures_util::FutureExt;
use serde_json::Value;
use tracing::Instrument;

use super::call_record::failure_of;
use super::call_retry::{is_worth_another, pause_after};
use super::parameters::read_object;
use super::step_place::CurrentStep;
use super::time_limit::TimeLimit;
use super::told_call::DetachedToolCall;
use super::tool_body_place::ToolBodyScope;
use super::{
    Effects, ReplacedKind, StandIn, Tool, ToolDefinition, ToolError, ToolOutput, ToolPolicy,
    ToolRef, is_dotted, wire_name,
};
use crate::context::Context;
use crate::error::Error;
use crate::event::RunId;
use crate::message::{ToolCall, ToolContent, ToolResult, ToolStatus};
use crate::middleware::{HookedResult, ToolHooks, ToolStep};
use crate::run::{Around, Slot};
use crate::telemetry;

/// Maximum number of bytes that a model gets of a too large answer or message.
const HEAD: usize = 1024;

/// The owner of a call's attempts, time-out and concurrency slot.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum CallSite {
    /// The call itself. It is recorded at the context's path.
    Recorded,
    /// The call itself. It has no records.
    Here,
    /// The call itself, which compensates another call. It is recorded at the context's path.
    Undo,
    /// The call itself, in a branch of a node.
    #[cfg(feature = "dynamic")]
    InBranch,
    /// The node that consists of the call.
    #[cfg(feature = "dynamic")]
    ByNode,
    /// The step that the tool's function finds.
    ByStep,
}

impl CallSite {
    /// Returns `true` if this module applies the attempts, the time-out and the slot.
    fn here(self) -> bool {
        #[cfg(feature = "dynamic")]
        if self == Self::InBranch {
            return true;
        }
        matches!(self, Self::Recorded | Self::Here | Self::Undo)
    }

    /// Returns the tool's name for a message. If a model or a program wrote the wire name, this is
    /// the wire name, otherwise the catalogue name.
    fn name_in<'d>(self, definition: &'d ToolDefinition, call: &ToolCall) -> &'d str {
        match self {
            Self::Recorded | Self::Here if *call.name == *definition.name => &definition.name,
            _ => definition.catalogue_name(),
        }
    }
}

/// Calls a tool. Dropping the future cancels the tool.
async fn invoke(
    tool: &dyn Tool,
    cx: &Context,
    call: &ToolCall,
    granted: &[Arc<str>],
    seen_to: CallSite,
) -> ToolResult {
    invoke_with_room(tool, cx, call, granted, seen_to, None).await
}

/// Calls a tool. Its answer may have up to `room` bytes, even if its policy allows fewer.
pub(crate) async fn invoke_with_room(
    tool: &dyn Tool,
    cx: &Context,
    call: &ToolCall,
    granted: &[Arc<str>],
    seen_to: CallSite,
    room: Option<usize>,
) -> ToolResult {
    let definition = tool.definition();
    let policy = &definition.policy;
    let outcome = match refusal(definition, granted, seen_to.name_in(definition, call)) {
        Some(refusal) => Err(refusal),
        None => {
            let seen_to = if is_call_of_step(tool) { CallSite::ByStep } else { seen_to };
            attempts(tool, cx, call, granted, seen_to, room).await
        }
    };
    if let Err(error) = &outcome {
        error.log_remedy(&definition.name, cx);
    }
    let (status, output) = match outcome {
        Ok(output) => return output.into_result(call),
        // This message is short and contains the beginning of the answer, so it is not cut again.
        Err(error) if error.status() == ToolStatus::OutputTooLarge => {
            (error.status(), error.message().to_owned())
        }
        Err(error) => (error.status(), bounded(error.message(), policy)),
    };
    ToolResult::new(call, status, output)
}

/// Calls a tool for a caller that records nothing, with a span and the hooks of the runtime's
/// middleware. Outside of a run, the runtime's sinks also receive the events of the call.
pub(crate) async fn invoke_with_hooks(
    tool: &dyn Tool,
    cx: &Context,
    call: &ToolCall,
    granted: &[Arc<str>],
) -> ToolResult {
    // If the call belongs to the current step, the step records the events.
    let told = if is_call_of_step(tool) {
        None
    } else {
        DetachedToolCall::new(cx, &tool.definition().name)
    };
    match told {
        None => hooked(tool, cx, call, granted, CallSite::Here).await,
        Some(mut told) => {
            let cx = told.cx().clone();
            with_hooks(tool, &cx, call, granted, CallSite::Here, Some(&mut told)).await
        }
    }
}

/// Calls a tool that compensates another call, with the hooks of the runtime's middleware.
pub(crate) async fn compensate_with_hooks(
    tool: &dyn Tool,
    cx: &Context,
    call: &ToolCall,
    granted: &[Arc<str>],
) -> ToolResult {
    hooked(tool, cx, call, granted, CallSite::Undo).await
}

/// Calls a tool with the hooks of the runtime's middleware. `seen_to` selects who applies the
/// limits.
pub(crate) async fn hooked(
    tool: &dyn Tool,
    cx: &Context,
    call: &ToolCall,
    granted: &[Arc<str>],
    seen_to: CallSite,
) -> ToolResult {
    with_hooks(tool, cx, call, granted, seen_to, None).await
}

async fn with_hooks(
    tool: &dyn Tool,
    cx: &Context,
    call: &ToolCall,
    granted: &[Arc<str>],
    seen_to: CallSite,
    mut told: Option<&mut DetachedToolCall>,
) -> ToolResult {
    let definition = tool.definition();
    let around = ToolHooks::of_host(cx.host());
    // A refused call reaches no middleware. A call of the current step runs the hooks there.
    let Some(hooks) = around.filter(|_| is_granted(definition, granted) && !is_call_of_step(tool))
    else {
        if let Some(told) = told.as_deref_mut() {
            told.begin(call, Some(&definition.policy), None);
        }
        let result = traced(tool, cx, call, granted, seen_to).await;
        if let Some(told) = told {
            told.end(&result, None);
        }
        return result;
    };
    let step =
        ToolStep::new(Arc::new(call.clone()), Some(Arc::clone(definition)), None, cx.clone());
    let failed = |error: Error| ToolResult::new(call, ToolStatus::Error, error.to_string());
    let mut hooked = match hooks.before(step).await {
        Ok(hooked) => hooked,
        Err(error) => return failed(error),
    };
    let (call, answered) = (hooked.call(), hooked.answer.take());
    if let Some(told) = told.as_deref_mut() {
        told.begin(&call, answered.is_none().then_some(&definition.policy), hooked.given());
    }
    let mut answer = match answered {
        Some(answer) => answer,
        None => HookedResult::of_tool(traced(tool, cx, &call, granted, seen_to).await),
    };
    if let Err(error) = hooked.after(&mut answer).await {
        answer.result = Arc::new(failed(error));
    }
    if let Some(told) = told {
        told.end(&answer.result, answer.answered_by.take());
    }
    Arc::unwrap_or_clone(answer.result)
}

/// Calls a tool within its span, without hooks.
async fn traced(
    tool: &dyn Tool,
    cx: &Context,
    call: &ToolCall,
    granted: &[Arc<str>],
    seen_to: CallSite,
) -> ToolResult {
    if is_call_of_step(tool) {
        return invoke(tool, cx, call, granted, seen_to).await;
    }
    // Spans are not redacted, so they contain no content in a runtime that redacts its events.
    let content = cx.host().trace_content && cx.host().redactor.is_none();
    let span = telemetry::tool_span(call, Some(tool.definition()), cx.run(), content);
    let result = invoke(tool, cx, call, granted, seen_to).instrument(span.clone()).await;
    telemetry::record_tool(&span, &result, content);
    result
}

/// Returns `true` if the tool's function records itself as a call of the current step. The step
/// then applies the span, the hooks, the attempts and the concurrency slot.
fn is_call_of_step(tool: &dyn Tool) -> bool {
    tool.announces_itself()
        && Around::has_place()
        && ToolBodyScope::current()
            .is_none_or(|body| body.undoes() && tool.definition().policy.compensate.is_some())
}

/// Returns `true` if a run may call a tool.
pub(crate) fn is_granted(definition: &ToolDefinition, granted: &[Arc<str>]) -> bool {
    refusal(definition, granted, &definition.name).is_none()
}

/// Returns the refusal of a call that the run may not make. `called` is the tool's name in the
/// message.
fn refusal(definition: &ToolDefinition, granted: &[Arc<str>], called: &str) -> Option<ToolError> {
    if let Some(refusal) = scope_refusal(definition, granted, called) {
        return Some(refusal);
    }
    if is_approved(definition, granted) {
        return None;
    }
    let refusal = "nobody has agreed to this tool's use in this run; do without it, or say what you need it for";
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

/// Calls a tool and retries it as its policy allows.
async fn attempts(
    tool: &dyn Tool,
    cx: &Context,
    call: &ToolCall,
    granted: &[Arc<str>],
    seen_to: CallSite,
    room: Option<usize>,
) -> Result<ToolOutput, ToolError> {
    let policy = &tool.definition().policy;
    #[cfg(feature = "dynamic")]
    // A typed body checks types but not limits such as `maxLength`.
    if !tool.checks_arguments() || tool.definition().has_limits() {
        fitting(tool.definition(), &call.arguments)?;
    }
    // A step or a node retries the whole call, so only calls that own their limits are retried
    // here.
    match policy.retry {
        // Boxed, so that the future of a call without retries stays small.
        retries @ 1.. if seen_to.here() => {
            Box::pin(retried(tool, cx, call, granted, seen_to, room, retries)).await
        }
        _ => run(tool, cx, call, granted, seen_to, room).await,
    }
}

/// Calls a tool and repeats it up to `retries` times while another attempt may help.
async fn retried(
    tool: &dyn Tool,
    cx: &Context,
    call: &ToolCall,
    granted: &[Arc<str>],
    seen_to: CallSite,
    room: Option<usize>,
    retries: u32,
) -> Result<ToolOutput, ToolError> {
    let mut attempt = 1;
    loop {
        let attempted = cx.clone().with_attempt(attempt, attempt);
        attempted.begin_attempt();
        let outcome = run(tool, &attempted, call, granted, seen_to, room).await;
        let Err(error) = &outcome else { return outcome };
        let failure = failure_of(error);
        // A time-out or a panic may be transient, so it is always worth another attempt.
        let is_own = !matches!(error.status(), ToolStatus::Timeout | ToolStatus::Panicked);
        let is_final =
            error.status() == ToolStatus::OutputTooLarge || is_own && !is_worth_another(&failure);
        if attempt > retries || is_final {
            return outcome;
        }
        pause_after(cx, attempt, failure, matches!(seen_to, CallSite::Recorded | CallSite::Undo))
            .await;
        attempt += 1;
    }
}

/// Makes one attempt.
async fn run(
    tool: &dyn Tool,
    cx: &Context,
    call: &ToolCall,
    granted: &[Arc<str>],
    seen_to: CallSite,
    room: Option<usize>,
) -> Result<ToolOutput, ToolError> {
    let definition = tool.definition();
    let policy = &definition.policy;
    let _slot = match policy.concurrency {
        Some(_) if seen_to.here() => Box::pin(slot(cx, definition)).await,
        _ => None,
    };
    // A call of the current step is replaced by the step.
    let stand_in = if seen_to == CallSite::ByStep {
        None
    } else {
        StandIn::of(cx.host(), ReplacedKind::Tool, &definition.name)
    };
    let inside = body_place(tool, cx, granted, seen_to);
    // The body of a sync tool runs inside `call` itself, so the call must happen inside
    // `catch_unwind`.
    let body = async {
        match &stand_in {
            None => match inside {
                None => tool.call(cx, &call.arguments).await,
                Some(place) => Box::pin(place.within(|| tool.call(cx, &call.arguments))).await,
            },
            Some(stand_in) => {
                let called = Box::pin(stand_in.call(&call.arguments, Some(cx.path())));
                called.await.map_err(|replaced| replaced.error)
            }
        }
    };
    // Pinned here: a future that is moved into another one takes up space in both.
    let body = pin!(AssertUnwindSafe(body).catch_unwind());
    match caught_within_limit(cx, body, policy.timeout.filter(|_| seen_to.here())).await {
        Ok(outcome) => outcome.and_then(|output| {
            within_size(output, policy.max_output.max(room.unwrap_or_default()))
        }),
        Err(overrun) => {
            let name = seen_to.name_in(definition, call);
            Err(match seen_to {
                CallSite::Undo => overrun.compensation_error(name),
                _ => overrun.error(name, policy.effects),
            })
        }
    }
}

/// Creates the place where calls in the tool's body are recorded. Returns `None` for a call in a
/// step, whose body uses the place of the step.
fn body_place(
    tool: &dyn Tool,
    cx: &Context,
    granted: &[Arc<str>],
    seen_to: CallSite,
) -> Option<Arc<ToolBodyScope>> {
    let undoes = match seen_to {
        CallSite::Recorded => cx.run().log.compensates(),
        CallSite::Undo => false,
        CallSite::Here if CurrentStep::current().is_none() => false,
        _ => return None,
    };
    // Calls in the body have the grants of this call, which may differ from the run's grants.
    let cx = match **cx.grants() == *granted {
        true => cx.clone(),
        false => cx.clone().granted(&granted.into()),
    };
    ToolBodyScope::of_call(tool, cx, undoes)
}

/// Waits for a concurrency slot if the policy limits the number of concurrent calls to the tool.
pub(crate) async fn slot(cx: &Context, definition: &ToolDefinition) -> Option<Slot> {
    let most = definition.policy.concurrency?;
    cx.host().slots.take(&definition.name, most).await
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
    check.check(&arguments).map_err(ToolError::invalid_arguments)?;
    Ok(arguments)
}

/// The reason why a body produced no answer.
pub(super) enum BodyFailure {
    /// The body did not finish within its time-out.
    Time(Duration),
    Panic(Box<dyn Any + Send>),
}

impl BodyFailure {
    /// Returns the error for the caller of the tool.
    pub(super) fn error(&self, name: &str, effects: Effects) -> ToolError {
        match self {
            Self::Time(limit) => {
                ToolError::with_status(ToolStatus::Timeout, timeout_message(name, *limit, effects))
            }
            Self::Panic(panic) => {
                ToolError::with_status(ToolStatus::Panicked, panic_message(name, &**panic))
            }
        }
    }

    /// Returns the error for a tool that compensates another call. A person reads it.
    pub(super) fn compensation_error(&self, name: &str) -> ToolError {
        let (status, what) = match self {
            Self::Time(limit) => {
                (ToolStatus::Timeout, format!("`{name}` did not answer within {limit:?}"))
            }
            Self::Panic(panic) => {
                (ToolStatus::Panicked, format!("`{name}` panicked: {}", panic_text(&**panic)))
            }
        };
        ToolError::with_status(status, format!("{what}; whether it is undone is unknown: find out"))
    }
}

/// Returns the message for a call that timed out.
pub(crate) fn timeout_message(name: &str, limit: Duration, effects: Effects) -> String {
    format!("`{name}` did not answer within {limit:?}; {}", effects.describe_interrupted())
}

/// Returns the message for a call that panicked.
pub(crate) fn panic_message(name: &str, panic: &(dyn Any + Send)) -> String {
    format!("`{name}` panicked: {}; other arguments may help", panic_text(panic))
}

/// Runs a body within its time-out, if any, and catches its panic. Time that the step spends
/// waiting for a person does not count.
pub(super) async fn within_limit<T>(
    cx: &Context,
    body: impl Future<Output = T>,
    limit: Option<Duration>,
) -> Result<T, BodyFailure> {
    caught_within_limit(cx, pin!(AssertUnwindSafe(body).catch_unwind()), limit).await
}

/// Applies the time-out to a body whose panic is already caught.
async fn caught_within_limit<T>(
    cx: &Context,
    mut caught: Pin<&mut impl Future<Output = std::thread::Result<T>>>,
    limit: Option<Duration>,
) -> Result<T, BodyFailure> {
    let Some(limit) = limit else { return caught.await.map_err(BodyFailure::Panic) };
    let mut time = TimeLimit::new(limit);
    std::future::poll_fn(|task| match caught.as_mut().poll(task) {
        Poll::Ready(outcome) => Poll::Ready(outcome.map_err(BodyFailure::Panic)),
        // Polled after the body, because the body may have just asked a person, which stops the
        // clock.
        Poll::Pending => time.poll_over(task, cx).map(|()| Err(BodyFailure::Time(limit))),
    })
    .await
}

pub(super) fn within_size(output: ToolOutput, most: usize) -> Result<ToolOutput, ToolError> {
    let read = output.content().and_then(|content| content.text.as_deref()).unwrap_or_default();
    let parts = output.content().map_or(0, ToolContent::size_of_parts);
    if let Some(error) = size_error(output.as_json(), most).or_else(|| size_error(read, most)) {
        return Err(error);
    }
    match parts > ToolContent::MAX_BYTES {
        true => Err(ToolError::with_status(
            ToolStatus::OutputTooLarge,
            format!(
                "the tool ran, but the files and links of its answer have {parts} bytes, and {} is the most; ask for less",
                ToolContent::MAX_BYTES
            ),
        )),
        false => Ok(output),
    }
}

/// Returns an error if an answer is larger than `limit` bytes.
pub(crate) fn size_error(json: &str, limit: usize) -> Option<ToolError> {
    let size = json.len();
    (size > limit).then(|| {
        // The beginning tells the model how to ask for less.
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

/// Cuts an error message for the model to the size limit of an answer.
fn bounded(message: &str, policy: &ToolPolicy) -> String {
    match message.len() <= policy.max_output {
        true => message.to_owned(),
        false => {
            format!(
                "{} .. (the first part of {} bytes)",
                head(message, HEAD.min(policy.max_output)),
                message.len()
            )
        }
    }
}

/// Returns the result for a call to a tool that is not offered.
pub(crate) fn not_found<'a>(
    call: &ToolCall,
    offered: impl Iterator<Item = &'a str> + Clone,
) -> ToolResult {
    let hint = name_hint(&call.name, offered);
    let output = format!("there is no tool `{}`; {hint}", head(&call.name, HEAD));
    ToolResult::new(call, ToolStatus::NotFound, output)
}

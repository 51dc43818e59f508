//! The execution of a tool call. This is the only place in the library where a tool is called.
//!
//! [`ToolExecution::execute`] is the sequence for every caller:
//!
//! 1. Middleware hooks run before the call. They may change the arguments or answer the call.
//! 2. The start is recorded, and stored before the tool can have an effect.
//! 3. Scopes and arguments are checked.
//! 4. The tool is called, and called again after a failure that may pass. Each attempt has a
//!    concurrency slot and a time limit; a panic and a too large answer become errors.
//! 5. Middleware hooks run after the call.
//! 6. The end is recorded.
//!
//! The caller is data: a [`CallSite`] states which parts a node applies instead, a [`CallRecord`]
//! where the events go, and a [`ToolBody`] whether the arguments are JSON or typed. An agent
//! records its events in its own state machine, so it runs step 1 and records steps 2 and 6
//! itself, and uses [`ToolExecution::run`] for the steps between them.
//!
//! Questions to people, and outcomes that an earlier process recorded, come before this module.

mod attempt_limits;
mod attempt_retry;
mod body;
mod record_target;
mod site;
mod time_limit;
mod typed_body;

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::FutureExt;
use tracing::{Instrument, Span};

pub(crate) use self::attempt_limits::{
    BodyFailure, HEAD, panic_message, size_error, slot, timeout_message, within_limit,
};
use self::attempt_limits::{caught_within_limit, cut_message, within_size};
use self::attempt_retry::pause_after;
pub(crate) use self::body::{JsonBody, RefusedCall, ToolBody};
pub(crate) use self::record_target::CallRecord;
pub(crate) use self::site::CallSite;
pub(crate) use self::time_limit::TimeLimit;
pub(super) use self::typed_body::{TypedBody, TypedCall};
use super::call_record::{Outcome, ReturnedError, failure_of, lost, unreadable_answer};
use super::history::RecordedOutcome;
use super::step_place::CurrentStep;
use super::{ReplacedKind, StandIn, ToolAnswer, ToolDefinition, ToolError, ToolPolicy};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::failure::Failure;
use crate::message::{ToolCall, ToolResult, ToolStatus};
use crate::middleware::{HookedCall, HookedResult, ToolHooks, ToolStep};
use crate::run::unless_failed_as_cancelled;
use crate::telemetry;

/// A tool call, described by the parts in which callers differ.
pub(crate) struct ToolExecution<'c> {
    /// The run, path and resources of the call.
    pub(crate) cx: &'c Context,
    /// `None` if the tool is not offered.
    pub(crate) definition: Option<&'c Arc<ToolDefinition>>,
    pub(crate) site: CallSite,
    /// Size in bytes up to which an answer is accepted even if the policy allows less.
    pub(crate) room: usize,
    /// Time limit of the node that consists of the call. Middleware must see the time-out, so the
    /// call applies the limit as well.
    pub(crate) node_limit: Option<Duration>,
    /// `true` if a retry is an event of the call.
    pub(crate) records_retries: bool,
    /// `false` for a function that is not `async`. Its call is polled once.
    pub(crate) can_wait: bool,
}

/// The end of a call.
pub(crate) struct Executed<V> {
    /// The value for a typed caller, or the failure that ends its step.
    pub(crate) value: Result<V, Failure>,
    pub(crate) outcome: RecordedOutcome,
    /// The error of a hook after the call. `outcome` contains its message.
    pub(crate) hook_error: Option<Error>,
}

/// The result of a call's attempts.
struct Attempted<V> {
    /// The function's value. `None` if the function did not finish or its answer is too large.
    value: Option<V>,
    answer: ToolAnswer,
    /// `true` if the function itself returned the answer.
    is_own: bool,
    /// The failure with which a nested call ended the step.
    ends_step: Option<Failure>,
}

impl<V> Attempted<V> {
    fn refused(problem: ToolError) -> Self {
        Self { value: None, answer: Err(problem), is_own: true, ends_step: None }
    }

    /// Returns `true` if another attempt cannot help.
    fn is_final(&self, failure: &Failure) -> bool {
        let status = self.answer.as_ref().map_or_else(ToolError::status, |_| ToolStatus::Success);
        // A time-out or a panic may be transient, so it is always worth another attempt.
        self.ends_step.is_some()
            || status == ToolStatus::OutputTooLarge
            || self.is_own && !failure.is_worth_retry()
    }
}

impl<'c> ToolExecution<'c> {
    /// Creates the execution of a call to a known tool.
    pub(crate) fn new(
        cx: &'c Context,
        definition: &'c Arc<ToolDefinition>,
        site: CallSite,
    ) -> Self {
        Self { definition: Some(definition), ..Self::at(cx, site) }
    }

    /// Creates the execution of a call to a tool that is not known yet.
    pub(crate) fn at(cx: &'c Context, site: CallSite) -> Self {
        let records_retries = !matches!(site, CallSite::Program);
        Self {
            cx,
            definition: None,
            site,
            room: 0,
            node_limit: None,
            records_retries,
            can_wait: true,
        }
    }

    /// Calls a tool with its hooks and records.
    ///
    /// # Errors
    /// The error of a hook before the call, or of the store. The tool was not called.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the tool, and records the call as cancelled.
    pub(crate) async fn execute<B: ToolBody>(
        &self,
        call: Arc<ToolCall>,
        by_person: Option<Arc<str>>,
        hooks: Option<ToolHooks>,
        record: &mut CallRecord,
        body: B,
    ) -> Result<Executed<B::Value>> {
        let mut hooked = None;
        if let Some(hooks) = hooks {
            let definition = self.definition.map(Arc::clone);
            let step = ToolStep::new(Arc::clone(&call), definition, None, self.cx.clone());
            hooked = Some(hooks.before(step).await?);
        }
        let (call, given) =
            hooked.as_ref().map_or((call, None), |hooked| (hooked.call(), hooked.given()));
        // The record keeps the arguments of the caller if a person or middleware changed them.
        let given = by_person.or(given);
        let answered = hooked.as_mut().and_then(|hooked| hooked.answer.take());
        let is_changed = given.is_some();
        // A call that reaches no tool has no effects.
        let reaches_tool = answered.is_none() && body.reaches_tool();
        record.begin(self.cx, &call, reaches_tool.then(|| self.policy()), given);
        record.store(self).await?;
        let executed = self.run(&call, is_changed, body, hooked.as_ref(), answered).await;
        record.end(&executed.outcome);
        Ok(executed)
    }

    /// Makes a call whose start is recorded, with the hooks after it.
    pub(crate) async fn run<B: ToolBody>(
        &self,
        call: &ToolCall,
        is_changed: bool,
        mut body: B,
        hooked: Option<&HookedCall>,
        answered: Option<HookedResult>,
    ) -> Executed<B::Value> {
        let (answer, made) = match answered {
            Some(answered) => (answered, None),
            None => {
                let (result, value, error) = self.make(call, is_changed, &mut body).await;
                if hooked.is_none() {
                    return Executed {
                        value,
                        outcome: error.in_outcome(Arc::new(result)),
                        hook_error: None,
                    };
                }
                (HookedResult::of_tool(result), Some((value, error)))
            }
        };
        match hooked {
            Some(hooked) => after_hooks(call, &mut body, hooked, answer, made).await,
            None => Executed {
                value: Err(lost("a call has no answer")),
                outcome: RecordedOutcome::new(answer.result),
                hook_error: None,
            },
        }
    }

    /// Checks the call and makes its attempts, within its span.
    async fn make<B: ToolBody>(
        &self,
        call: &ToolCall,
        is_changed: bool,
        body: &mut B,
    ) -> (ToolResult, Result<B::Value, Failure>, ReturnedError) {
        let rules = self.site.rules();
        // Spans are not redacted, so they contain no content in a runtime that redacts its events.
        let content = self.cx.host().trace_content && self.cx.host().redactor.is_none();
        let span = match rules.span {
            true => {
                let definition = self.definition.map(|definition| &**definition);
                telemetry::tool_span(call, definition, self.cx.run(), content)
            }
            false => Span::none(),
        };
        let attempted = match body.accept(self, call, is_changed) {
            Ok(()) => self.attempts(call, body).instrument(span.clone()).await,
            Err(refusal) => Attempted::refused(refusal),
        };
        if let Err(error) = &attempted.answer {
            error.log_remedy(&call.name, self.cx);
            // A call that cannot wait is not stopped halfway, so its failure is its own.
            unless_failed_as_cancelled(self.cx.run(), rules.ends_with_run && self.can_wait).await;
        }
        let Attempted { value, answer, ends_step, .. } = attempted;
        let error = match &value {
            Some(value) if answer.is_err() => body.returned_error(value),
            _ => ReturnedError::default(),
        };
        let value = match (value, ends_step, &answer) {
            (Some(value), ..) => Ok(value),
            (None, Some(failure), _) => Err(failure),
            (None, None, Err(problem)) => Err(failure_of(problem)),
            (None, None, Ok(_)) => Err(lost("an answer has no value")),
        };
        let result = self.result(call, answer);
        telemetry::record_tool(&span, &result, content);
        (result, value, error)
    }

    /// Converts the answer of the tool into the result that is recorded.
    fn result(&self, call: &ToolCall, answer: ToolAnswer) -> ToolResult {
        let error = match answer {
            Ok(output) => return output.into_result(call),
            Err(error) => error,
        };
        let (status, message) = (error.status(), error.message());
        // The message about a too large answer is short and contains its beginning.
        let is_cut = self.site.rules().cuts_errors && status != ToolStatus::OutputTooLarge;
        let message = if is_cut { cut_message(message, self.policy()) } else { message.to_owned() };
        ToolResult::new(call, status, message)
    }

    /// Calls the tool, and again as its policy allows.
    async fn attempts<B: ToolBody>(&self, call: &ToolCall, body: &mut B) -> Attempted<B::Value> {
        match self.policy().retry {
            // Boxed, so that the future of a call without retries stays small.
            retries @ 1.. if self.site.rules().retries => {
                Box::pin(self.retried(call, body, retries)).await
            }
            _ => self.attempt(call, body, 1, false).await,
        }
    }

    /// Calls the tool and repeats it up to `retries` times while another attempt may help.
    async fn retried<B: ToolBody>(
        &self,
        call: &ToolCall,
        body: &mut B,
        retries: u32,
    ) -> Attempted<B::Value> {
        let mut attempt = 1;
        loop {
            // An attempt consumes typed arguments, so they are copied before it.
            let may_repeat = attempt <= retries && body.keep_arguments();
            let attempted = self.attempt(call, body, attempt, true).await;
            let Err(error) = &attempted.answer else { return attempted };
            // The function's own error type may hide the kind of a failure below it.
            let failure = CurrentStep::final_failure_in(error).unwrap_or_else(|| failure_of(error));
            if !may_repeat || attempted.is_final(&failure) {
                return attempted;
            }
            drop(attempted);
            pause_after(self.cx, attempt, failure, self.records_retries).await;
            attempt += 1;
        }
    }

    /// Makes one attempt.
    async fn attempt<B: ToolBody>(
        &self,
        call: &ToolCall,
        body: &mut B,
        attempt: u32,
        is_retried: bool,
    ) -> Attempted<B::Value> {
        let (rules, policy) = (self.site.rules(), self.policy());
        let own = match body.attempt_context(self.cx, attempt) {
            None if is_retried => Some(self.cx.clone().with_attempt(attempt, attempt)),
            own => own,
        };
        // A program that calls a tool in a step uses the path of the step. The step continues.
        let is_at_step = self.site == CallSite::Program && self.cx.is_in_run();
        if let Some(own) = own.as_ref().filter(|_| !is_at_step) {
            own.begin_attempt();
        }
        let cx = own.as_ref().unwrap_or(self.cx);
        body.ready(cx, attempt).await;
        let _slot = match self.definition {
            Some(definition) if rules.slot && policy.concurrency.is_some() => {
                Box::pin(slot(cx, definition)).await
            }
            _ => None,
        };
        let stand_in = match self.definition {
            Some(definition) if rules.replacement => {
                StandIn::of(cx.host(), ReplacedKind::Tool, &definition.name)
            }
            _ => None,
        };
        let limit = if rules.time_limit { policy.timeout } else { self.node_limit };
        // The body of a sync tool runs as it is called, so the call must happen inside
        // `catch_unwind`. Pinned here: a future that is moved into another one takes up space in
        // both.
        let called = body.attempt(cx, call, attempt, stand_in.as_ref());
        let called = pin!(AssertUnwindSafe(called).catch_unwind());
        let failed = match caught_within_limit(cx, called, limit).await {
            Ok((value, answer)) => {
                let most = policy.max_output.max(self.room);
                let answer = answer.and_then(|output| within_size(output, most));
                let status =
                    answer.as_ref().map_or_else(ToolError::status, |_| ToolStatus::Success);
                // The function cannot return the value of an answer that is too large.
                let value = value.filter(|_| status != ToolStatus::OutputTooLarge);
                return Attempted { value, answer, is_own: true, ends_step: None };
            }
            Err(failed) => failed,
        };
        let name =
            self.definition.map_or(&*call.name, |definition| self.site.name_in(definition, call));
        let answer = Err(match self.site {
            CallSite::Compensation => failed.compensation_error(name),
            _ => failed.error(name, policy.effects),
        });
        let ends_step = match failed {
            BodyFailure::StepEnds(failure) => Some(failure),
            _ => None,
        };
        // A caller with JSON arguments cannot receive the failure as a value.
        if let Some(failure) = &ends_step
            && let Some(step) = CurrentStep::current()
        {
            step.end_step(failure.clone());
        }
        Attempted { value: None, answer, is_own: false, ends_step }
    }

    fn policy(&self) -> &ToolPolicy {
        // A tool that is not offered is not called, so its limits do not matter.
        static UNKNOWN: OnceLock<ToolPolicy> = OnceLock::new();
        self.definition
            .map_or_else(|| UNKNOWN.get_or_init(ToolPolicy::default), |known| &known.policy)
    }
}

/// Runs the hooks after the call. A result that a hook changed is decoded for the caller.
async fn after_hooks<B: ToolBody>(
    call: &ToolCall,
    body: &mut B,
    hooked: &HookedCall,
    mut answer: HookedResult,
    made: Option<(Result<B::Value, Failure>, ReturnedError)>,
) -> Executed<B::Value> {
    // Kept to find out if a hook changes the result.
    let of_tool = Arc::clone(&answer.result);
    let passed = hooked.after(&mut answer).await;
    let mut outcome =
        RecordedOutcome { answered_by: answer.answered_by, ..RecordedOutcome::new(answer.result) };
    if let Err(error) = passed {
        outcome.result = Arc::new(ToolResult::new(call, ToolStatus::Error, error.to_string()));
        return Executed { value: Err(Failure::from(&error)), outcome, hook_error: Some(error) };
    }
    // No hook changed the result: the caller gets the function's own value, without decoding it.
    if let Some((value, error)) = made
        && outcome.answered_by.is_none()
        && outcome.result == of_tool
    {
        return Executed { value, outcome: error.in_outcome(outcome.result), hook_error: None };
    }
    let value = match body.decode(&outcome) {
        Some(Outcome::Value(value)) => Ok(value),
        Some(Outcome::Ends(failure)) => Err(failure),
        None => {
            let problem = unreadable_answer(&call.name);
            let failure = failure_of(&problem);
            let result = ToolResult::new(call, problem.status(), problem.message());
            outcome.result = Arc::new(result);
            outcome.answered_by.get_or_insert_with(|| "middleware".into());
            Err(failure)
        }
    };
    Executed { value, outcome, hook_error: None }
}

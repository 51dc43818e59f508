//! `MatchedToolCall`: executes a call of a `#[tool]` function inside a workflow step.
//!
//! Applies the hooks and the approval, makes the attempts and records the call. A recorded outcome
//! is reused instead of calling the tool again.

use super::call_decision::Decided;
use super::call_forms::{ArgumentCopies, ChangedArguments};
use super::call_in_step::ToolAnswer;
use super::call_record::{
    Forms, OpenCall, Outcome, decode_replacement, error_from_failure, failure_of, lost, read,
    unreadable_answer,
};
use super::call_retry::{is_worth_another, pause_after};
use super::history::{Known, RecordedOutcome};
use super::invoke::{BodyFailure, slot, within_limit, within_size};
use super::made_call::{Ended, Made, Stop};
use super::step_place::{CurrentStep, StepEndPanic};
use super::undecided::{undecided_failure, undecided_writes};
use super::{HiddenEffect, StandIn, ToolDefinition, ToolError, ToolPolicy};
use crate::context::{Context, PreviousCallAttempts};
use crate::error::Error;
use crate::failure::{Failure, FailureKind};
use crate::future::at_once;
use crate::message::{ToolCall, ToolStatus};
use crate::middleware::{HookedCall, HookedResult, ToolHooks, ToolStep};
use crate::panics;
use crate::path::StepPath;
use crate::run::{Around, unless_failed_as_cancelled};
use crate::store::StoreError;
use crate::telemetry;
use crate::tool_definition::Effects;
use serde_json::Value;
use std::any::TypeId;
use std::sync::Arc;
use tracing::{Instrument, Span};

/// A call with its arguments and with the journal's records of it.
pub struct MatchedToolCall {
    pub(super) place: Arc<CurrentStep>,
    pub(super) function: TypeId,
    pub(super) definition: Arc<ToolDefinition>,
    pub(super) refused: Option<Failure>,
    /// JSON object of the arguments, or `null` if an argument has no JSON form.
    pub(super) arguments: Value,
    pub(super) known: Known,
    /// The paths of the call in earlier attempts, and `true` if one of them failed on its own.
    pub(super) before: PreviousCallAttempts,
    pub(super) direct: bool,
    pub(super) hooks: Option<ToolHooks>,
    pub(super) stand_in: Option<StandIn>,
}

impl MatchedToolCall {
    fn policy(&self) -> &ToolPolicy {
        &self.definition.policy
    }

    /// Returns the reason why a call of a non-`async` tool cannot be made here: the call cannot
    /// wait for an approval or for the store.
    fn sync_obstacle(&self, granted: bool) -> Result<(), Failure> {
        let covered = &self.place.covered;
        let (name, policy) = (&self.definition.name, self.policy());
        let refused = |why: &str, remedy: &str| {
            let message = format!(
                "`{name}` {why}, and it is not `async`, so it cannot wait within an expression; {remedy}"
            );
            Err(Failure::new(FailureKind::Build, message))
        };
        if self.needs_approval() && !granted && !self.place.takes_approval() {
            return refused("needs a person's approval", "make it `async`");
        }
        if !policy.is_repeatable() && !covered.once && self.place.cx.run().log.is_durable() {
            let why = "writes and may not be repeated, so its start must be kept before it begins";
            return refused(why, "call it directly in a `let` of the workflow, or make it `async`");
        }
        Ok(())
    }

    /// Calls an `async` tool. The policy applies to each attempt.
    pub async fn run<A, O, F, T>(
        self,
        resources: Option<Context>,
        arguments: A,
        ways: ArgumentCopies<A>,
        body: F,
        forms: Forms<O>,
    ) -> O
    where
        F: Fn(Context, A) -> T,
        T: Future<Output = (O, ToolAnswer)>,
    {
        let place = Arc::clone(&self.place);
        match self.call(resources, (arguments, ways), body, &forms, true).await {
            Ok(value) => value,
            // The step now has its failure. Its poller drops this future, so no code after the call
            // runs.
            Err(Stop::Ends(failure)) => {
                place.end_step(failure);
                std::future::pending().await
            }
            Err(Stop::Panics(panic)) => std::panic::resume_unwind(panic),
        }
    }

    /// Calls a non-`async` tool.
    pub fn run_now<A, O>(
        self,
        resources: Option<Context>,
        arguments: A,
        changed: fn(A, &mut ChangedArguments) -> A,
        body: impl FnOnce(Context, A) -> (O, ToolAnswer),
        forms: Forms<O>,
    ) -> O {
        let definition = Arc::clone(&self.definition);
        let who = if self.stand_in.is_some() { "what replaces it" } else { "middleware" };
        let mut body = Some(body);
        // `again` below returns `None`, so the body is taken at most once.
        let body = |cx: Context, arguments: A| {
            let body = body.take();
            async move {
                match body {
                    Some(body) => body(cx, arguments),
                    None => std::future::pending().await,
                }
            }
        };
        let ways = ArgumentCopies { again: |_| None, changed };
        let place = Arc::clone(&self.place);
        let failure = match at_once(self.call(resources, (arguments, ways), body, &forms, false)) {
            Some(Ok(value)) => return value,
            Some(Err(Stop::Ends(failure))) => failure,
            Some(Err(Stop::Panics(panic))) => std::panic::resume_unwind(panic),
            None if definition.policy.concurrency.is_some() => {
                let message = format!(
                    "`{0}` would have to wait for its turn, since only so many calls of it run at once, and it is not \
                     `async`, so it cannot wait within an expression; make it `async`",
                    definition.name
                );
                Failure::new(FailureKind::Build, message)
            }
            None => {
                let message = format!(
                    "{who} waits around the call of `{0}`, and `{0}` is not `async`, so it cannot wait within an \
                     expression; make it `async`",
                    definition.name
                );
                Failure::new(FailureKind::Build, message)
            }
        };
        match error_from_failure(&forms, &failure).filter(|_| panics::abort()) {
            // Panics abort, so the step cannot be unwound. It continues without tool calls, and its
            // result is discarded.
            Some(error) => {
                place.end_step(failure);
                error
            }
            None => StepEndPanic::unwind(failure),
        }
    }

    /// Makes the call with its hooks, attempts and records. If `waits` is `false`, an await that
    /// does not finish at once is an error.
    async fn call<A, O, F, T>(
        mut self,
        resources: Option<Context>,
        (arguments, ways): (A, ArgumentCopies<A>),
        body: F,
        forms: &Forms<O>,
        waits: bool,
    ) -> Result<O, Stop>
    where
        F: FnMut(Context, A) -> T,
        T: Future<Output = (O, ToolAnswer)>,
    {
        if let Some(failure) = self.refused.take().or_else(|| self.place.ended_without_unwinding())
        {
            return Err(failure.into());
        }
        // Decide before waiting: a recorded outcome needs no turn, no approval and no slot.
        let (path, key, asked, answer, fresh) = match self
            .decide(|outcome| read(forms, outcome).is_some())
        {
            Decided::Over(outcome) => {
                return match read(forms, &outcome) {
                    Some(Outcome::Value(value)) => Ok(value),
                    Some(Outcome::Ends(failure)) => Err(failure.into()),
                    None => Err(lost("a recorded outcome changed").into()),
                };
            }
            Decided::Ends(failure) => return Err(failure.into()),
            Decided::HeldBack(held) => return Err(Box::pin(held.until_dropped()).await.into()),
            Decided::Made { path, key, asked, answer, fresh } => (path, key, asked, answer, fresh),
        };
        self.until_turn(waits).await?;
        // If the node consists of the call, the node has already handled the approval and the
        // stored start.
        let mut by_person = None;
        if !self.direct {
            match waits {
                true if self.needs_approval() => {
                    by_person = self.approved(&path, asked, answer).await?;
                }
                true => {}
                false => {
                    self.sync_obstacle(
                        answer.as_ref().is_some_and(|answer| answer.approval.is_granted()),
                    )?;
                    by_person = answer.and_then(|answer| answer.approval.arguments().cloned());
                }
            }
        }
        self.readable()?;
        let cx = self.context(&path, &key, resources.as_ref());
        let of_caller = || self.arguments.to_string();
        let now = by_person.as_ref().map_or_else(of_caller, ToString::to_string);
        // The idempotency key is the call's id, so that it is the same after a restart.
        let call = Arc::new(ToolCall::new(key, &*self.definition.name, now));
        let mut hooked = match self.hooks.take() {
            Some(hooks) => Some(self.enter(hooks, &cx, &call).await?),
            None => None,
        };
        let (call, given) =
            hooked.as_ref().map_or((call, None), |hooked| (hooked.call(), hooked.given()));
        // If a person or middleware changed the arguments, the journal keeps the caller's as
        // `given`.
        let given = by_person.map(|_| of_caller().into()).or(given);
        let answered = hooked.as_mut().and_then(|hooked| hooked.answer.take());
        let arguments = match (&answered, &given) {
            (None, Some(_)) => {
                ChangedArguments::read(&self.arguments, &call, arguments, ways.changed)
            }
            _ => Ok(arguments),
        };
        let mut open = OpenCall::begin(
            (&cx, self.place.cx.path()),
            &self.definition,
            call,
            given,
            answered.is_some(),
        );
        // The start must be stored before the effect begins.
        if let Err(error) = self.store_start(&cx, waits).await {
            open.settle();
            return Err(Failure::from(&Error::Store(error)).into());
        }
        let made = match (answered, arguments) {
            (Some(answered), _) => Ended::Answered(answered),
            (None, Err(problem)) => Ended::Made(Made::nothing(problem)),
            (None, Ok(arguments)) => {
                let span = self.span(&open);
                let (call, way) = (open.call(), (arguments, ways.again));
                let made = self
                    .attempts(&cx, (&call, forms), way, body, fresh)
                    .instrument(span.clone())
                    .await;
                // A call that cannot wait was never pending, so a cancellation cannot have stopped
                // it halfway.
                unless_failed_as_cancelled(cx.run(), waits && made.answer.is_err()).await;
                match &made.answer {
                    Ok(output) => telemetry::record_output_size(&span, output.size()),
                    Err(problem) => telemetry::record_failed(&span, problem.status().as_str()),
                }
                Ended::Made(made)
            }
        };
        self.finish(open, hooked, made, forms).await
    }

    /// Waits for the steps above this one if the plan does not show the effect of the call.
    async fn until_turn(&self, waits: bool) -> Result<(), Stop> {
        let Some(effect) = HiddenEffect::of_policy(self.policy()).filter(|_| !self.direct) else {
            return Ok(());
        };
        if waits {
            self.place.until_turn(effect).await;
        } else if effect == HiddenEffect::Writes && !self.place.has_turn(effect) {
            let name = &self.definition.name;
            let message = format!(
                "`{name}` writes and is called while steps above this one are running, and it is not `async`, so it \
                 cannot wait for them; call `{name}` in a `let` of the workflow, put `#[node(write)]` before this step, or \
                 make the tool `async`"
            );
            return Err(Failure::new(FailureKind::Build, message).into());
        }
        Ok(())
    }

    /// Checks that the arguments have a JSON form if middleware or a replacement reads them.
    fn readable(&self) -> Result<(), Stop> {
        let name = &self.definition.name;
        let (who, or) = match (&self.hooks, &self.stand_in) {
            _ if !self.arguments.is_null() => return Ok(()),
            (None, None) => return Ok(()),
            (_, Some(_)) => ("what this runtime puts in the place of tools sees their calls", ""),
            (Some(_), None) => {
                let or = ", or say in the middleware that it does not stand around tools (`Middleware::sees_tools`)";
                ("middleware sees the calls of tools", or)
            }
        };
        let message = format!(
            "{who}, and an argument of `{name}` has no JSON form; derive `serde::Serialize` for it{or}"
        );
        Err(Failure::new(FailureKind::Build, message).into())
    }

    /// Creates the span of the call. A node that consists of the call has a span already.
    fn span(&self, open: &OpenCall) -> Span {
        let host = self.place.cx.host();
        match self.direct {
            true => Span::none(),
            false => {
                let content = host.trace_content && host.redactor.is_none();
                telemetry::tool_span(
                    &open.call(),
                    Some(&self.definition),
                    self.place.cx.run(),
                    content,
                )
            }
        }
    }

    /// Runs the hooks before the call.
    async fn enter(
        &self,
        hooks: ToolHooks,
        cx: &Context,
        call: &Arc<ToolCall>,
    ) -> Result<HookedCall, Stop> {
        let step =
            ToolStep::new(Arc::clone(call), Some(Arc::clone(&self.definition)), None, cx.clone());
        Ok(hooks.before(step).await.map_err(|error| Failure::from(&error))?)
    }

    /// Waits until the start of the call is stored.
    ///
    /// A call that cannot wait only polls the store once and relies on the stored start of its
    /// node. An error that the store returns at once is reported.
    async fn store_start(&self, cx: &Context, waits: bool) -> Result<(), StoreError> {
        let log = &cx.run().log;
        match waits {
            true => log.commit().await,
            false if self.policy().effects != Effects::Write => Ok(()),
            false => at_once(log.commit()).unwrap_or(Ok(())),
        }
    }

    /// Calls the function and retries it as its policy allows. If a node consists of the call, the
    /// node does the retries.
    async fn attempts<A, O, F, T>(
        &self,
        cx: &Context,
        (call, forms): (&ToolCall, &Forms<O>),
        (arguments, again): (A, fn(&A) -> Option<A>),
        mut body: F,
        fresh: bool,
    ) -> Made<O>
    where
        F: FnMut(Context, A) -> T,
        T: Future<Output = (O, ToolAnswer)>,
    {
        // The time-out applies here even if a node consists of the call: the hooks after the call
        // must see the time-out error.
        let ToolPolicy { retry, timeout, .. } = *self.policy();
        let retries = if self.direct { 0 } else { retry };
        let mut arguments = arguments;
        let mut attempt = 1;
        loop {
            // The body consumes the arguments, so they are cloned before the attempt. Arguments
            // without `Clone` prevent a retry.
            let next = if attempt > retries { None } else { again(&arguments) };
            let cx = match self.direct {
                true => cx.clone().with_attempt(self.place.cx.attempt(), 1),
                false => cx.clone().with_attempt(attempt, attempt),
            };
            cx.begin_attempt();
            if !(fresh && attempt == 1)
                && cx.run().may_have_stopped(cx.path())
                && let Some(failure) =
                    undecided_failure(&undecided_writes(cx.run(), cx.path(), false))
            {
                // The poller of the step drops this future.
                self.place.end_step(failure);
                return std::future::pending().await;
            }
            let once = !self.policy().is_repeatable();
            let place = self.place.of_call(cx.clone(), self.function, fresh && attempt == 1, once);
            // If a node consists of the call, the node already holds the concurrency slot.
            let _slot = if self.direct { None } else { slot(&cx, &self.definition).await };
            // A sync body runs when it is called, not when it is polled, so the call must happen
            // inside the scope.
            let called = Around::at(place).within(async {
                match &self.stand_in {
                    None => {
                        let (value, answer) = body(cx.clone(), arguments).await;
                        (Some(value), answer)
                    }
                    Some(stand_in) => decode_replacement(
                        forms,
                        call,
                        stand_in.call(&call.arguments, Some(cx.path())).await,
                    ),
                }
            });
            let made = match within_limit(&cx, called, timeout).await {
                Ok((value, answer)) => {
                    match answer.and_then(|answer| within_size(answer, self.policy().max_output)) {
                        Err(error) if error.status() == ToolStatus::OutputTooLarge => {
                            return Made::nothing(error);
                        }
                        answer => Made { value, answer, panic: None },
                    }
                }
                Err(overrun) => {
                    let answer =
                        Err(overrun.error(self.definition.catalogue_name(), self.policy().effects));
                    let panic = match overrun {
                        BodyFailure::Panic(panic) => Some(panic),
                        BodyFailure::Time(_) => None,
                    };
                    Made { value: None, answer, panic }
                }
            };
            let (Err(error), Some(next)) = (&made.answer, next) else { return made };
            // The function's own error type may hide the kind of a failure below it;
            // `final_failure_in` finds it.
            let failure = CurrentStep::final_failure_in(error).unwrap_or_else(|| failure_of(error));
            // A panic that ends the step is not a failure of the tool, so it is not retried.
            let is_ours = made
                .panic
                .as_ref()
                .is_some_and(|panic| StepEndPanic::from_panic(&**panic).is_some());
            let is_own = made.value.is_some() || self.stand_in.is_some() && made.panic.is_none();
            if is_ours || is_own && !is_worth_another(&failure) {
                return made;
            }
            drop(made);
            pause_after(&cx, attempt, failure, true).await;
            arguments = next;
            attempt += 1;
        }
    }

    /// Runs the hooks after the call and records its end. A result that a hook changed is decoded
    /// as the function's return value.
    async fn finish<O>(
        &self,
        mut open: OpenCall,
        hooked: Option<HookedCall>,
        made: Ended<O>,
        forms: &Forms<O>,
    ) -> Result<O, Stop> {
        let Some(hooked) = hooked else {
            let Ended::Made(made) = made else {
                return Err(lost("a call was answered by nobody").into());
            };
            let error = made.error(forms);
            let (answer, value) = made.split();
            open.end_as(answer, error);
            return value;
        };
        let (mut answer, made) = match made {
            Ended::Answered(answer) => (answer, None),
            Ended::Made(made) => {
                let error = made.error(forms);
                let (answer, value) = made.split();
                (HookedResult::of_tool(open.result(answer)), Some((value, error)))
            }
        };
        // Kept to find out if a hook changes the result.
        let of_tool = Arc::clone(&answer.result);
        let passed = hooked.after(&mut answer).await;
        let mut outcome = RecordedOutcome {
            answered_by: answer.answered_by,
            ..RecordedOutcome::new(answer.result)
        };
        if let Err(error) = passed {
            let problem = ToolError::new(error.to_string());
            outcome.result = Arc::new(open.result(Err(problem)));
            open.end(outcome);
            return Err(Failure::from(&error).into());
        }
        // No hook changed the result: return the function's own value without decoding it.
        if let Some((value, error)) = made
            && outcome.answered_by.is_none()
            && outcome.result == of_tool
        {
            open.end(error.in_outcome(outcome.result));
            return value;
        }
        match read(forms, &outcome) {
            Some(Outcome::Value(value)) => {
                open.end(outcome);
                Ok(value)
            }
            Some(Outcome::Ends(failure)) => {
                open.end(outcome);
                Err(failure.into())
            }
            None => {
                let problem = unreadable_answer(&self.definition.name);
                let failure = failure_of(&problem);
                outcome.result = Arc::new(open.result(Err(problem)));
                outcome.answered_by.get_or_insert_with(|| "middleware".into());
                open.end(outcome);
                Err(failure.into())
            }
        }
    }

    /// Creates the context of the call: the step's run, with the resources of the context that the
    /// function received.
    fn context(&mut self, path: &StepPath, key: &str, given: Option<&Context>) -> Context {
        let before = std::mem::take(&mut self.before);
        let resources = given.unwrap_or(&self.place.cx).resources();
        self.place.cx.of_call(path.clone(), key, before, resources)
    }
}

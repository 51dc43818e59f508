//! `MatchedToolCall`: a call of a `#[tool]` function inside a workflow step, with the journal's
//! records of it.
//!
//! A recorded outcome is reused instead of calling the tool again. Otherwise the call waits for its
//! turn and its approval, and `execution/` makes it.

use std::any::TypeId;
use std::sync::Arc;

use serde_json::Value;

use super::call_decision::Decided;
use super::call_forms::{ArgumentCopies, ChangedArguments, DenialForm};
use super::call_in_step::{ToolAnswer, call_has_events};
use super::call_record::{Forms, Outcome, failure_of, lost, read};
use super::execution::{CallRecord, CallSite, RefusedCall, ToolExecution, TypedBody, TypedCall};
use super::history::Known;
use super::step_place::{CurrentStep, StepEndPanic};
use super::{HiddenEffect, StandIn, ToolDefinition, ToolError, ToolPolicy};
use crate::context::{Context, PreviousCallAttempts};
use crate::failure::{Failure, FailureKind};
use crate::future::at_once;
use crate::message::ToolCall;
use crate::middleware::ToolHooks;
use crate::panics;
use crate::path::StepPath;

/// A call with its arguments and with the journal's records of it.
pub(crate) struct MatchedToolCall {
    pub(super) place: Arc<CurrentStep>,
    pub(super) function: TypeId,
    pub(super) definition: Arc<ToolDefinition>,
    pub(super) refused: Option<ToolError>,
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
    pub(crate) async fn run<A, O, F, T>(
        self,
        resources: Option<Context>,
        arguments: A,
        ways: ArgumentCopies<A>,
        body: F,
        forms: Forms<O>,
    ) -> O
    where
        A: Send,
        F: Fn(Context, A) -> T + Send,
        T: Future<Output = (O, ToolAnswer)>,
    {
        let place = Arc::clone(&self.place);
        match self.call(resources, (arguments, ways), body, &forms, true).await {
            Ok(value) => value,
            // The step now has its failure. Its poller drops this future, so no code after the call
            // runs.
            Err(failure) => {
                place.end_step(failure);
                std::future::pending().await
            }
        }
    }

    /// Calls a non-`async` tool.
    pub(crate) fn run_now<A: Send, O>(
        self,
        resources: Option<Context>,
        arguments: A,
        changed: fn(A, &mut ChangedArguments) -> A,
        body: impl FnOnce(Context, A) -> (O, ToolAnswer) + Send,
        forms: Forms<O>,
        denial: DenialForm<O>,
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
            Some(Err(failure)) => failure,
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
        // If panics abort, the step cannot be unwound. It continues without tool calls, and its
        // result is discarded.
        if panics::abort()
            && let Some(error) = denial(failure.clone())
        {
            place.end_step(failure);
            return error;
        }
        StepEndPanic::unwind(failure)
    }

    /// Decides about the call from its records and makes it. If `waits` is `false`, an await that
    /// does not finish at once is an error.
    ///
    /// # Errors
    /// The failure that ends the step.
    async fn call<A, O, F, T>(
        mut self,
        resources: Option<Context>,
        (arguments, ways): (A, ArgumentCopies<A>),
        body: F,
        forms: &Forms<O>,
        waits: bool,
    ) -> Result<O, Failure>
    where
        A: Send,
        F: FnMut(Context, A) -> T + Send,
        T: Future<Output = (O, ToolAnswer)>,
    {
        if let Some(failure) = self.place.ended_without_unwinding() {
            return Err(failure);
        }
        if let Some(refusal) = self.refused.take() {
            return Err(self.refuse(refusal, waits).await);
        }
        // Decide before waiting: a recorded outcome needs no turn, no approval and no slot.
        let (path, key, asked, answer, fresh) = match self
            .decide(|outcome| read(forms, outcome).is_some())
        {
            Decided::Over(outcome) => {
                return match read(forms, &outcome) {
                    Some(Outcome::Value(value)) => Ok(value),
                    Some(Outcome::Ends(failure)) => Err(failure),
                    None => Err(lost("a recorded outcome changed")),
                };
            }
            Decided::Ends(failure) => return Err(failure),
            Decided::HeldBack(held) => return Err(Box::pin(held.until_dropped()).await),
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
        let now = by_person.as_ref().unwrap_or(&self.arguments).to_string();
        // The idempotency key is the call's id, so that it is the same after a restart.
        let call = Arc::new(ToolCall::new(key, &*self.definition.name, now));
        let by_person = by_person.map(|_| self.arguments.to_string().into());
        let site = if self.direct { CallSite::StepItself } else { CallSite::Step };
        let execution = ToolExecution {
            can_wait: waits,
            node_limit: self.place.covered.time_limit.filter(|_| self.direct),
            ..ToolExecution::new(&cx, &self.definition, site)
        };
        let mut function = TypedCall::new(arguments, ways, body);
        let body = TypedBody {
            place: &self.place,
            id: self.function,
            site,
            given: &self.arguments,
            function: &mut function,
            forms,
            is_repeatable: self.definition.policy.is_repeatable(),
            fresh,
        };
        let mut record = CallRecord::in_step(self.place.cx.path());
        let hooks = self.hooks.take();
        let executed = execution.execute(call, by_person, hooks, &mut record, body).await;
        executed.map_err(|error| Failure::from(&error))?.value
    }

    /// Records a call whose scope the run lacks, and returns the failure that ends the step. No
    /// middleware sees the call.
    async fn refuse(&mut self, refusal: ToolError, waits: bool) -> Failure {
        let failure = failure_of(&refusal);
        let host = self.place.cx.host();
        // A node without events of its call is the record, and a repeated step has recorded it.
        if self.direct && !call_has_events(host, &self.definition) || self.known.here.is_some() {
            refusal.log_remedy(&self.definition.name, &self.place.cx);
            return failure;
        }
        let path = self.known.path.clone();
        let cx = self.context(&path, &path.to_string(), None);
        let arguments = self.arguments.to_string();
        let call = Arc::new(ToolCall::new(path.to_string(), &*self.definition.name, arguments));
        let execution = ToolExecution {
            can_wait: waits,
            ..ToolExecution::new(&cx, &self.definition, CallSite::Step)
        };
        let mut record = CallRecord::in_step(self.place.cx.path());
        let executed = execution.execute(call, None, None, &mut record, RefusedCall(refusal)).await;
        executed.map_or_else(|error| Failure::from(&error), |_| failure)
    }

    /// Waits for the steps above this one if the plan does not show the effect of the call.
    async fn until_turn(&self, waits: bool) -> Result<(), Failure> {
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
            return Err(Failure::new(FailureKind::Build, message));
        }
        Ok(())
    }

    /// Checks that the arguments have a JSON form if middleware or a replacement reads them.
    fn readable(&self) -> Result<(), Failure> {
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
        Err(Failure::new(FailureKind::Build, message))
    }

    /// Creates the context of the call: the step's run, with the resources of the context that the
    /// function received.
    fn context(&mut self, path: &StepPath, key: &str, given: Option<&Context>) -> Context {
        let before = std::mem::take(&mut self.before);
        let resources = given.unwrap_or(&self.place.cx).resources();
        self.place.cx.of_call(path.clone(), key, before, resources)
    }
}

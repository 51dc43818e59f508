//! A call of a `#[tool]` function in a step of a workflow, however it is written there: its policy is applied, it is
//! recorded below the step, and what is recorded of it already is not done again.
//!
//! `invoke.rs` does the same for a model's calls. The function itself begins with a look at its place: where there is
//! none it is a plain call, and nothing here runs.

use std::any::TypeId;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use serde_json::{Map, Value};

use super::call_forms::{ArgumentForm, ErrorForm, ReadAnswer};
use super::history::{Known, RecordedCall, arguments_of};
use super::invoke::within_size;
use super::step_place::{EndsStep, StepPlace, ValuePlace};
use super::{ToolDefinition, ToolError, ToolOutput, ToolPolicy};
use crate::context::Context;
use crate::error::Error;
use crate::event::{ApprovalRequest, EventKind, PauseReason};
use crate::failure::{Failure, FailureClass, FailureKind};
use crate::message::{ToolCall, ToolResult, ToolStatus};
use crate::path::StepPath;
use crate::run::{Approval, Around, RunShared};
use crate::text::{head, panic_text};
use crate::time::Timestamp;
use crate::tool_definition::Effects;
use crate::value::{Encoded, NodeValue};

/// A function's value as a tool's answer.
pub(crate) type ToolAnswer = Result<ToolOutput, ToolError>;

/// The pause before a failed call is retried: at first, and at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(60));
/// How much of the arguments a question shows.
const SHOWN: usize = 300;

/// A call at its place.
pub struct CallInStep {
    place: Arc<StepPlace>,
    function: TypeId,
    definition: Arc<ToolDefinition>,
}

/// The same with its arguments, and with what is recorded of it.
pub struct KnownCall {
    place: Arc<StepPlace>,
    function: TypeId,
    definition: Arc<ToolDefinition>,
    arguments: Value,
    known: Known,
}

/// What becomes of a call.
enum Decided {
    /// Its outcome is recorded.
    Over(Arc<ToolResult>, Option<Encoded>),
    /// It is made.
    Made { path: StepPath, key: String, asked: bool, answer: Option<Approval>, fresh: bool },
    /// The step ends.
    Ends(Failure),
}

impl CallInStep {
    /// The call of a function, when a step polls the caller and does not consist of this call.
    pub fn announced(function: TypeId, definition: impl FnOnce() -> Arc<ToolDefinition>) -> Option<Self> {
        let Some(place) = StepPlace::current() else {
            if ValuePlace::is_here() {
                refuse_in_value(&definition());
            }
            return None;
        };
        let definition = definition();
        refuse_without_scopes(&place, &definition);
        (!place.takes_direct(function)).then_some(Self { place, function, definition })
    }

    /// Finds what is recorded of the call.
    pub fn given<const N: usize>(self, arguments: [(&'static str, ArgumentForm); N]) -> KnownCall {
        let Self { place, function, definition } = self;
        let mut object = Map::new();
        let mut known = true;
        for (name, form) in arguments {
            match form {
                ArgumentForm::Json(json) => {
                    object.insert(name.to_owned(), serde_json::from_str(&json).unwrap_or_default());
                }
                ArgumentForm::Injected => {}
                ArgumentForm::Unknown => known = false,
            }
        }
        let arguments = if known { Value::Object(object) } else { Value::Null };
        let recorded = as_recorded(&place, &definition, &arguments);
        let known =
            place.with_calls(|calls| calls.history.take(&calls.base, &definition.name, &recorded, &definition.policy));
        KnownCall { place, function, definition, arguments, known }
    }
}

/// A step calls a tool only with the scopes that its runtime grants. The step ends, whatever the tool returns.
fn refuse_without_scopes(place: &StepPlace, definition: &ToolDefinition) {
    let granted = &place.cx.host().scopes;
    if let Some(scope) = definition.policy.scopes.iter().find(|scope| !granted.contains(scope)) {
        let name = &definition.name;
        let message = format!(
            "`{name}` needs the scope `{scope}`, which the workflows of this runtime do not have; grant it with \
             `Runtime::builder().grant([\"{scope}\"])`"
        );
        EndsStep::unwind(Failure::new(FailureKind::Unauthorized, message));
    }
}

/// A value is computed without a record of its own, so what it calls must not have effects. An async tool is not called
/// before it is awaited.
fn refuse_in_value(definition: &ToolDefinition) {
    let ToolDefinition { name, policy, .. } = definition;
    if policy.approve || policy.effects == Effects::Write {
        let why = if policy.approve { "needs a person's approval" } else { "writes" };
        let message = format!(
            "`{name}` {why}, and a function calls it of which a value is computed; call `{name}` itself in the `let`, or \
             make that function `async` and await it. A tool that changes nothing says so with `effects = \"none\"` or \
             `effects = \"read\"`"
        );
        EndsStep::unwind(Failure::new(FailureKind::Build, message));
    }
}

/// Whether a tool must not be called again when nobody knows how it ended.
fn is_once(policy: &ToolPolicy) -> bool {
    policy.effects == Effects::Write && !policy.idempotent
}

/// The arguments as a journal has them: a runtime may take secrets out of its events.
fn as_recorded(place: &StepPlace, definition: &ToolDefinition, arguments: &Value) -> Value {
    let Some(redactor) = &place.cx.host().redactor else { return arguments.clone() };
    let call = Arc::new(ToolCall::new("", &*definition.name, arguments.to_string()));
    match redactor.event(EventKind::ToolStarted { call, effects: Effects::None, idempotent: true }) {
        EventKind::ToolStarted { call, .. } => arguments_of(&call),
        _ => Value::Null,
    }
}

impl KnownCall {
    fn policy(&self) -> &ToolPolicy {
        &self.definition.policy
    }

    /// The outcome that counts, or the path of the call that is made.
    fn decide(&mut self, readable: impl Fn(&ToolResult, Option<&Encoded>) -> bool) -> Decided {
        let (here, earlier) = (self.known.here.take(), self.known.earlier.take());
        let own_key = |path: &StepPath| match earlier.as_ref().and_then(|call| call.begun.as_ref()) {
            Some(begun) => begun.key.clone(),
            None => path.to_string(),
        };
        let granted_before = earlier.as_ref().and_then(|call| call.answer.clone()).filter(Approval::is_granted);
        let made = |call: &mut Self, key: String| Decided::Made {
            path: call.place.with_calls(|calls| calls.history.next_path(&calls.base, &call.definition.name)),
            key,
            asked: false,
            answer: granted_before.clone(),
            fresh: true,
        };
        if let Some(here) = here {
            return match (&here.begun, &here.outcome) {
                (Some(begun), _) if here.is_unfinished() && !begun.repeatable => self.interrupted(&here),
                // It was dropped: it has its end, so it is made as another one.
                (Some(begun), Some(_)) if here.is_unfinished() => made(self, begun.key.clone()),
                (Some(begun), Some((result, error))) => match readable(result, error.as_ref()) {
                    true => Decided::Over(Arc::clone(result), error.clone()),
                    false if begun.repeatable => made(self, begun.key.clone()),
                    false => self.unreadable(&here),
                },
                (begun, _) => Decided::Made {
                    key: begun.as_ref().map_or_else(|| own_key(&here.path), |begun| begun.key.clone()),
                    path: here.path,
                    asked: here.asked,
                    answer: here.answer.or(granted_before),
                    fresh: false,
                },
            };
        }
        if let Some(earlier) = &earlier
            && let Some(begun) = &earlier.begun
            && begun.effects == Effects::Write
        {
            match &earlier.outcome {
                _ if earlier.is_unfinished() && !begun.repeatable && !earlier.decided => {
                    return self.interrupted(earlier);
                }
                // It had its effect, so the next attempt keeps it.
                Some((result, error)) if result.status.is_success() => match readable(result, error.as_ref()) {
                    true => return Decided::Over(Arc::clone(result), error.clone()),
                    false if begun.repeatable || earlier.decided => {}
                    false => return self.unreadable(earlier),
                },
                _ => {}
            }
        }
        let key = own_key(&self.known.path);
        Decided::Made { path: self.known.path.clone(), key, asked: false, answer: granted_before, fresh: true }
    }

    fn interrupted(&self, call: &RecordedCall) -> Decided {
        let message = format!(
            "the program or the step was stopped in the middle of `{}`; whether it had its effect is unknown: find out, \
             then retry the node or cancel the run",
            call.path
        );
        Decided::Ends(Failure::new(FailureKind::Interrupted, message))
    }

    fn unreadable(&self, call: &RecordedCall) -> Decided {
        let message = format!(
            "`{}` was called before the program or the step was stopped, and its outcome is recorded but cannot be read \
             back as what the function returns; it writes, so it is not called again: retry the node to call it again, \
             or cancel the run. Derive `serde::Serialize` and `serde::Deserialize` for what `{}` returns",
            call.path, self.definition.name
        );
        Decided::Ends(Failure::new(FailureKind::Interrupted, message))
    }

    /// What stands before the call of a sync tool that cannot wait for it.
    fn sync_obstacle(&self, granted: bool) -> Option<Failure> {
        let (name, policy) = (&self.definition.name, self.policy());
        let refused = |why: &str| {
            let message = format!(
                "`{name}` {why}, and it is not `async`, so it cannot wait within an expression; call it directly in a \
                 `let` of the workflow, or make it `async`"
            );
            Some(Failure::new(FailureKind::Build, message))
        };
        let covered = self.place.covered;
        if policy.approve && !granted && !covered.approved {
            return refused("needs a person's approval");
        }
        if is_once(policy) && !covered.once && self.place.cx.run().log.is_durable() {
            return refused("writes and may not be repeated, so its start must be kept before it begins");
        }
        None
    }

    /// Calls an async tool: its policy is applied around each attempt.
    pub async fn run<A, O, F, T>(
        mut self,
        resources: Option<Context>,
        arguments: A,
        again: fn(&A) -> Option<A>,
        body: F,
        forms: (Option<ReadAnswer<O>>, ErrorForm<O>),
    ) -> O
    where
        F: Fn(Context, A) -> T,
        T: Future<Output = (O, ToolAnswer)>,
    {
        let (path, key, asked, answer, fresh) = match self.decide(|result, error| read(&forms, result, error).is_some())
        {
            Decided::Over(result, error) => match read(&forms, &result, error.as_ref()) {
                Some(Outcome::Value(value)) => return value,
                Some(Outcome::Ends(failure)) => return self.ends(failure).await,
                None => return self.ends(Failure::new(FailureKind::Value, "a recorded outcome changed")).await,
            },
            Decided::Ends(failure) => return self.ends(failure).await,
            Decided::Made { path, key, asked, answer, fresh } => (path, key, asked, answer, fresh),
        };
        if self.policy().approve
            && let Err(failure) = self.approved(&path, asked, answer).await
        {
            return self.ends(failure).await;
        }
        let cx = self.context(&path, &key, resources.as_ref());
        let mut open = OpenCall::begin(&cx, &self.definition, &self.arguments, key);
        if let Err(error) = cx.run().log.commit().await {
            open.settle();
            return self.ends(Failure::from(&Error::Store(error))).await;
        }
        let (retries, timeout) = (self.policy().retry, self.policy().timeout);
        let mut arguments = arguments;
        for attempt in 1.. {
            let last = attempt > retries;
            let next = if last { None } else { again(&arguments) };
            let cx = cx.clone().with_attempt(attempt, attempt);
            cx.forget_claims();
            let place = self.place.of_call(cx.clone(), self.function, fresh && attempt == 1, is_once(self.policy()));
            let called = Around::at(place).within(async { body(cx, arguments).await });
            let caught = AssertUnwindSafe(called).catch_unwind();
            let outcome = match timeout {
                None => Ok(caught.await),
                Some(limit) => tokio::time::timeout(limit, caught).await.map_err(|_| limit),
            };
            let failure = match outcome {
                Ok(Ok((value, answer))) => match answer.and_then(|answer| within_size(answer, self.policy())) {
                    Ok(answer) => {
                        open.completed(answer);
                        return value;
                    }
                    Err(error) if error.status() == ToolStatus::OutputTooLarge => {
                        open.failed(&error, None);
                        drop(value);
                        return self.ends(failure_of(&error)).await;
                    }
                    Err(error) => {
                        let failure = StepPlace::final_failure_in(&error).unwrap_or_else(|| failure_of(&error));
                        if next.is_none() || !is_worth_another(&failure) {
                            open.failed(&error, (forms.1.record)(&value));
                            return value;
                        }
                        failure
                    }
                },
                Ok(Err(panic)) => {
                    let problem = format!("the tool panicked: {}", panic_text(&*panic));
                    let error = ToolError::with_status(ToolStatus::Panicked, problem);
                    if next.is_none() || EndsStep::of(&*panic).is_some() {
                        open.failed(&error, None);
                        std::panic::resume_unwind(panic);
                    }
                    failure_of(&error)
                }
                Err(limit) => {
                    let problem = format!(
                        "`{}` did not answer within {limit:?}; whether it had its effect is unknown",
                        self.definition.name
                    );
                    let error = ToolError::with_status(ToolStatus::Timeout, problem);
                    if next.is_none() {
                        open.failed(&error, None);
                        return self.ends(failure_of(&error)).await;
                    }
                    failure_of(&error)
                }
            };
            tracing::debug!(
                tool = &*self.definition.name,
                attempt,
                problem = failure.message,
                "a tool call is retried"
            );
            tokio::time::sleep(PAUSE.0.saturating_mul(1 << (attempt - 1).min(16)).min(PAUSE.1)).await;
            match next {
                Some(next) => arguments = next,
                None => break,
            }
        }
        self.ends(Failure::new(FailureKind::Error, "a tool call had no last attempt")).await
    }

    /// Calls a sync tool. What it would have to wait for ends the step.
    pub fn run_now<A, O>(
        mut self,
        resources: Option<Context>,
        arguments: A,
        body: impl FnOnce(Context, A) -> (O, ToolAnswer),
        forms: (Option<ReadAnswer<O>>, ErrorForm<O>),
    ) -> O {
        let (path, key, answer, fresh) = match self.decide(|result, error| read(&forms, result, error).is_some()) {
            Decided::Over(result, error) => match read(&forms, &result, error.as_ref()) {
                Some(Outcome::Value(value)) => return value,
                Some(Outcome::Ends(failure)) => EndsStep::unwind(failure),
                None => EndsStep::unwind(Failure::new(FailureKind::Value, "a recorded outcome changed")),
            },
            Decided::Ends(failure) => EndsStep::unwind(failure),
            Decided::Made { path, key, answer, fresh, .. } => (path, key, answer, fresh),
        };
        if let Some(failure) = self.sync_obstacle(answer.is_some_and(|answer| answer.is_granted())) {
            EndsStep::unwind(failure);
        }
        let cx = self.context(&path, &key, resources.as_ref());
        let mut open = OpenCall::begin(&cx, &self.definition, &self.arguments, key);
        let around = Around::at(self.place.of_call(cx.clone(), self.function, fresh, is_once(self.policy())));
        let called = std::panic::catch_unwind(AssertUnwindSafe(|| around.sync_scope(|| body(cx, arguments))));
        match called {
            Ok((value, answer)) => {
                match answer.and_then(|answer| within_size(answer, self.policy())) {
                    Ok(answer) => open.completed(answer),
                    Err(error) if error.status() == ToolStatus::OutputTooLarge => {
                        open.failed(&error, None);
                        EndsStep::unwind(failure_of(&error));
                    }
                    Err(error) => open.failed(&error, (forms.1.record)(&value)),
                }
                value
            }
            Err(panic) => {
                let problem = format!("the tool panicked: {}", panic_text(&*panic));
                open.failed(&ToolError::with_status(ToolStatus::Panicked, problem), None);
                std::panic::resume_unwind(panic)
            }
        }
    }

    /// The context of the call: of the step's run, with the resources of the context that the function was given.
    fn context(&self, path: &StepPath, key: &str, given: Option<&Context>) -> Context {
        let resources = given.unwrap_or(&self.place.cx).resources();
        self.place.cx.of_call(path.clone(), key, resources)
    }

    /// Ends the step; whoever polls it drops this.
    async fn ends<O>(self, failure: Failure) -> O {
        self.place.end_step(failure);
        std::future::pending().await
    }

    /// Waits until a person has agreed to the call.
    async fn approved(&self, path: &StepPath, asked: bool, answer: Option<Approval>) -> Result<(), Failure> {
        let shared = self.place.cx.run();
        let answer = match answer {
            Some(answer) => answer,
            None => {
                let question = if asked { Asking { shared, path } } else { self.ask(path)? };
                let stored = |error| Failure::from(&Error::Store(error));
                shared.log.commit().await.map_err(stored)?;
                let answer = shared.answer_at(path).await;
                std::mem::forget(question);
                answer
            }
        };
        match answer {
            Approval::Granted { .. } => Ok(()),
            Approval::Denied { comment } => {
                let message = match comment.as_deref() {
                    None | Some("") => format!("approval of `{path}` denied"),
                    Some(comment) => format!("approval of `{path}` denied: {comment}"),
                };
                Err(Failure::new(FailureKind::Denied, message))
            }
        }
    }

    /// Records the question.
    fn ask<'s>(&'s self, path: &'s StepPath) -> Result<Asking<'s>, Failure> {
        let shared = self.place.cx.run();
        let arguments = match &self.arguments {
            Value::Object(arguments) => {
                let shown: Vec<String> = arguments.iter().map(|(name, value)| format!("{name}: {value}")).collect();
                shown.join(", ")
            }
            _ => "..".to_owned(),
        };
        let message = format!("call `{}({})`?", self.definition.name, head(&arguments, SHOWN));
        let value = |error: serde_json::Error| Failure::new(FailureKind::Value, error.to_string());
        let answer = Encoded::new(&Approval::schema()).map_err(value)?;
        let payload = Encoded::from_json(self.arguments.to_string()).map_err(value)?;
        let request = ApprovalRequest::new(message, payload, answer, None);
        shared.record(path.clone(), EventKind::ApprovalRequested(Arc::new(request)));
        shared.record(path.clone(), EventKind::RunPaused { reason: PauseReason::Approval });
        Ok(Asking { shared, path })
    }
}

/// A question that is open. Dropped, nobody waits for its answer any more.
struct Asking<'s> {
    shared: &'s RunShared,
    path: &'s StepPath,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.shared.record(self.path.clone(), EventKind::resumed());
    }
}

/// What a recorded outcome means for the step.
enum Outcome<O> {
    Value(O),
    Ends(Failure),
}

/// Reads an outcome back; `None` when its type does not allow that.
fn read<O>(
    (answer, error_form): &(Option<ReadAnswer<O>>, ErrorForm<O>),
    result: &ToolResult,
    error: Option<&Encoded>,
) -> Option<Outcome<O>> {
    match result.status {
        ToolStatus::Success => answer.and_then(|read| read(&result.output)).map(Outcome::Value),
        ToolStatus::Timeout | ToolStatus::Panicked | ToolStatus::OutputTooLarge => {
            Some(Outcome::Ends(Failure::new(result.status.as_str(), &*result.output)))
        }
        status => (error_form.read)(error, Failure::new(status.as_str(), &*result.output)).map(Outcome::Value),
    }
}

fn failure_of(error: &ToolError) -> Failure {
    Failure::new(error.status().as_str(), error.message())
}

/// Whether a failed call is retried, as a node is that consists of it.
fn is_worth_another(failure: &Failure) -> bool {
    let never = [FailureClass::Validation, FailureClass::Permission, FailureClass::Cancelled];
    failure.may_pass() && !never.contains(&failure.kind.class())
}

/// A call that has begun. Dropped before its end, it is recorded as cancelled.
struct OpenCall {
    shared: Arc<RunShared>,
    path: StepPath,
    call: Arc<ToolCall>,
    began: Timestamp,
    open: bool,
}

impl OpenCall {
    fn begin(cx: &Context, definition: &ToolDefinition, arguments: &Value, key: String) -> Self {
        let call = Arc::new(ToolCall::new(key, &*definition.name, arguments.to_string()));
        let ToolPolicy { effects, idempotent, .. } = definition.policy;
        let shared = Arc::clone(cx.run());
        let path = cx.path().clone();
        shared.record(path.clone(), EventKind::ToolStarted { call: Arc::clone(&call), effects, idempotent });
        let began = shared.now();
        Self { shared, path, call, began, open: true }
    }

    /// Nothing of it can be kept.
    fn settle(&mut self) {
        self.open = false;
    }

    fn end(&mut self, kind: EventKind) {
        self.open = false;
        self.shared.close_below(&self.path, "the tool has ended");
        self.shared.record(self.path.clone(), kind);
    }

    fn duration_ms(&self) -> u64 {
        u64::try_from(self.shared.now().since(self.began).as_millis()).unwrap_or(u64::MAX)
    }

    fn completed(&mut self, answer: ToolOutput) {
        let result = Arc::new(ToolResult::new(&self.call, ToolStatus::Success, answer.into_json()));
        self.end(EventKind::ToolCompleted { result, duration_ms: self.duration_ms(), answered_by: None });
    }

    fn failed(&mut self, error: &ToolError, value: Option<Encoded>) {
        let result = Arc::new(ToolResult::new(&self.call, error.status(), error.message()));
        self.end(EventKind::ToolFailed { result, duration_ms: self.duration_ms(), answered_by: None, error: value });
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        if self.open {
            let why = match self.shared.cancellation.is_cancelled() {
                true => self.shared.cancel_reason(),
                false => "the step dropped the call".into(),
            };
            let problem = format!("{why} while this tool was running; whether it had its effect is unknown");
            self.failed(&ToolError::with_status(ToolStatus::Cancelled, problem), None);
        }
    }
}

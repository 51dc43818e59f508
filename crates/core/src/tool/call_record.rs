//! The start and end records of a tool call, by an agent or in a step, and the decoding of a
//! recorded outcome into the return value of the function.

use std::sync::Arc;

use super::call_forms::{ErrorForm, ReadAnswer};
use super::history::RecordedOutcome;
use super::{ReplacedError, ToolAnswer, ToolError, ToolOutput, ToolPolicy};
use crate::context::Context;
use crate::event::EventKind;
use crate::failure::{Failure, FailureKind};
use crate::message::{ToolCall, ToolResult, ToolStatus};
use crate::path::StepPath;
use crate::run::{BY_STEP, RunShared, why_dropped};
use crate::time::Timestamp;
use crate::tool_definition::Effects;
use crate::value::Encoded;

/// A decoded outcome.
pub(crate) enum Outcome<O> {
    Value(O),
    Ends(Failure),
}

/// The functions that decode a recorded answer or error of a `#[tool]` function.
pub(super) type Forms<O> = (Option<ReadAnswer<O>>, ErrorForm<O>);

/// Decodes a recorded outcome. Returns `None` if the return type cannot be decoded. An error that
/// middleware provided ends the step, because the function's own error type cannot represent it.
pub(super) fn read<O>(
    (answer, error_form): &Forms<O>,
    outcome: &RecordedOutcome,
) -> Option<Outcome<O>> {
    let RecordedOutcome { result, error, cause, answered_by, .. } = outcome;
    let failure =
        || Failure::new(result.status.as_str(), &*result.output).because(cause.as_deref());
    match (result.status, answered_by) {
        (ToolStatus::Success, _) => {
            answer.and_then(|read| read(&result.output)).map(Outcome::Value)
        }
        // The function did not return these outcomes, so its error type cannot represent them.
        (ToolStatus::Timeout | ToolStatus::Panicked | ToolStatus::OutputTooLarge, _)
        | (_, Some(_)) => Some(Outcome::Ends(failure())),
        (_, None) => (error_form.read)(error.as_ref(), failure()).map(Outcome::Value),
    }
}

/// Decodes the answer of a replacement, such as a mock, into the return value of the function. If
/// that fails, returns `None` and an error that explains why.
pub(super) fn decode_replacement<O>(
    forms: &Forms<O>,
    call: &ToolCall,
    answered: Result<ToolOutput, ReplacedError>,
) -> (Option<O>, ToolAnswer) {
    let (answer, error) = match answered {
        Ok(output) => (Ok(output), None),
        Err(ReplacedError { error, value }) => (Err(error), value),
    };
    let result = match &answer {
        Ok(output) => ToolResult::new(call, ToolStatus::Success, output.as_json()),
        Err(error) => ToolResult::new(call, error.status(), error.message()),
    };
    // The error of a replacement is decoded like a recorded one, so both give the same typed value.
    match (
        read(forms, &RecordedOutcome { error, ..RecordedOutcome::new(Arc::new(result)) }),
        answer,
    ) {
        (Some(Outcome::Value(value)), answer) => (Some(value), answer),
        (None, Ok(_)) => {
            let message = format!(
                "what replaces `{}` gave an answer that cannot be read as what the function returns; give the JSON that \
                 `{}` would give, and derive `serde::Deserialize` for what it returns",
                call.name, call.name
            );
            (None, Err(ToolError::new(message)))
        }
        (_, answer) => (None, answer),
    }
}

/// Creates the error for a middleware answer that cannot be decoded as the function's return type.
pub(super) fn unreadable_answer(name: &str) -> ToolError {
    ToolError::new(format!(
        "middleware answered the call of `{name}`, and its answer cannot be read as what the function returns; give the \
         JSON that `{name}` would give, and derive `serde::Deserialize` for what it returns"
    ))
}

pub(super) fn failure_of(error: &ToolError) -> Failure {
    Failure::new(error.status().as_str(), error.message())
}

/// Creates the failure for a call that ended without a usable value, which should not happen.
pub(super) fn lost(why: &str) -> Failure {
    Failure::new(FailureKind::Value, why)
}

/// The error that a function returned, in recorded form.
#[derive(Default)]
pub(crate) struct ReturnedError {
    pub(super) error: Option<Encoded>,
    pub(super) cause: Option<Arc<str>>,
}

impl ReturnedError {
    pub(super) fn in_outcome(self, result: Arc<ToolResult>) -> RecordedOutcome {
        let Self { error, cause } = self;
        RecordedOutcome { error, cause, ..RecordedOutcome::new(result) }
    }
}

/// Creates the start record of a call.
///
/// `policy` is `None` if the call reaches no tool, because it was refused or middleware answers it.
/// `given` is the caller's input if middleware has changed it.
pub(crate) fn began(
    call: Arc<ToolCall>,
    policy: Option<&ToolPolicy>,
    given: Option<Arc<str>>,
) -> EventKind {
    let (effects, idempotent) =
        policy.map_or((Effects::None, true), |policy| (policy.effects, policy.idempotent));
    let compensate = policy.and_then(|policy| policy.compensate.clone());
    EventKind::ToolStarted { call, effects, idempotent, given, compensate }
}

/// Creates the end record of a call.
pub(crate) fn ended(outcome: RecordedOutcome, duration_ms: u64) -> EventKind {
    let RecordedOutcome { result, error, cause, answered_by, saved } = outcome;
    match result.status {
        ToolStatus::Success => EventKind::ToolCompleted { result, duration_ms, answered_by, saved },
        _ => EventKind::ToolFailed { result, duration_ms, answered_by, error, cause },
    }
}

/// Returns the effects of the tool as recorded at the start of the call.
pub(crate) fn effects_of_begun(shared: &RunShared, call: &StepPath) -> Effects {
    let recorded = shared.log.records_where(|path| path == call);
    let began = recorded.into_iter().rev().find_map(|(.., kind)| match kind {
        EventKind::ToolStarted { effects, .. } => Some(effects),
        _ => None,
    });
    began.unwrap_or_default()
}

/// Returns the time since a call began, in milliseconds.
pub(crate) fn millis_since(began: Timestamp, now: Timestamp) -> u64 {
    u64::try_from(now.since(began).as_millis()).unwrap_or(u64::MAX)
}

/// A started call in a step. If it is dropped before its end, it is recorded as cancelled.
pub(crate) struct OpenCall {
    shared: Arc<RunShared>,
    path: StepPath,
    /// The step that makes the call.
    step: StepPath,
    call: Arc<ToolCall>,
    effects: Effects,
    /// Paths at which earlier attempts made the call.
    made_before: Vec<StepPath>,
    began: Timestamp,
    open: bool,
}

impl OpenCall {
    /// Records the start of the call. `given` is the caller's input if it was changed. `policy` is
    /// `None` if middleware answers the call, which then has no effects.
    pub(super) fn begin(
        cx: &Context,
        step: &StepPath,
        policy: Option<&ToolPolicy>,
        call: Arc<ToolCall>,
        given: Option<Arc<str>>,
    ) -> Self {
        let shared = Arc::clone(cx.run());
        let path = cx.path().clone();
        // If a step is stopped from now on, it may contain a call that must not be repeated.
        if policy.is_some_and(|policy| !policy.is_repeatable()) {
            shared.note_write();
        }
        shared.record(path.clone(), began(Arc::clone(&call), policy, given));
        let since = shared.now();
        if let Some(mut states) = shared.states() {
            states.open(&path, None);
        }
        let made_before = cx.made_before().0.to_vec();
        let effects = policy.map_or(Effects::None, |policy| policy.effects);
        Self {
            shared,
            path,
            step: step.clone(),
            call,
            effects,
            made_before,
            began: since,
            open: true,
        }
    }

    /// Prevents the end record on drop. Called if the store failed.
    pub(super) fn settle(&mut self) {
        self.open = false;
    }

    pub(super) fn end(&mut self, mut outcome: RecordedOutcome) {
        self.open = false;
        if let Some(mut states) = self.shared.states() {
            match outcome.result.status {
                ToolStatus::Success => {
                    // State that a call changed becomes visible to the step only if the call
                    // succeeds.
                    outcome.saved = states.end(&self.path, None);
                    if states.saved_by(&self.path).is_some() {
                        let is_it =
                            |path: &StepPath| *path == self.path || self.made_before.contains(path);
                        states.merge_into_parent(
                            &self.path,
                            &self.step,
                            self.shared.log.place_of(is_it),
                        );
                    }
                }
                _ => states.discard(&self.path),
            }
        }
        // Nested records must not stay open after the end of the call.
        self.shared.close_below(&self.path, "the tool has ended");
        let duration_ms = millis_since(self.began, self.shared.now());
        self.shared.record(self.path.clone(), ended(outcome, duration_ms));
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        if self.open {
            let why = match self.shared.cancellation.is_cancelled() {
                true => self.shared.cancel_reason(),
                false => why_dropped().into(),
            };
            // The step dropped the call, so its outcome is unknown. The record still needs an end,
            // with a status that claims no outcome.
            let problem = format!(
                "{why} while this tool was running; {}",
                self.effects.describe_interrupted()
            );
            let result = ToolResult::new(&self.call, ToolStatus::Cancelled, problem);
            self.end(RecordedOutcome::new(Arc::new(result)));
        }
    }
}

/// Returns `true` if the step dropped the call, as `select!` and time limits do.
pub(super) fn call_was_dropped(result: &ToolResult) -> bool {
    result.status == ToolStatus::Cancelled && result.output.starts_with(BY_STEP)
}

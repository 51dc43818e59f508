//! The tool calls that a step has recorded, in this process or an earlier one.
//!
//! `StepCallHistory` matches a call that the step makes again with its record, by tool name and arguments.
//! It reads the journal and decides nothing: `call_decision.rs` decides between the recorded
//! outcome and a new call.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::ToolPolicy;
use super::call_answer::QuestionAnswer;
use super::call_record::call_was_dropped;
use super::undecided::asks;
use crate::context::{Context, attempt_of};
use crate::event::{ApprovalRequest, EventKind};
use crate::message::{ToolCall, ToolResult};
use crate::path::{PathSegment, StepPath};
use crate::run::{CallKeys, is_own_failure};
use crate::state::SavedByStep;
use crate::time::Timestamp;
use crate::tool_definition::Effects;
use crate::value::Encoded;

/// The recorded calls of a step.
#[derive(Default)]
pub(super) struct StepCallHistory {
    /// Calls of the current attempt.
    here: Vec<RecordedCall>,
    /// Calls of attempts that failed before.
    earlier: Vec<RecordedCall>,
    /// The highest call number of each tool in the current attempt.
    numbers: HashMap<Arc<str>, u32>,
    /// Names of writing tools that were called without a matching record.
    anew: HashSet<Arc<str>>,
}

/// The records of one call.
#[derive(Clone, Debug)]
pub(super) struct RecordedCall {
    pub(super) path: StepPath,
    /// Paths at which earlier attempts made the call.
    before: Vec<StepPath>,
    name: Arc<str>,
    pub(super) arguments: Value,
    /// The question that a person was sent about the call.
    pub(super) asked: Option<Arc<ApprovalRequest>>,
    pub(super) answer: Option<QuestionAnswer>,
    pub(super) begun: Option<Begun>,
    pub(super) outcome: Option<RecordedOutcome>,
    /// `true` if an operator let the step run again after this call.
    pub(super) decided: bool,
    /// `true` if an attempt of the step has failed since then on its own, possibly because of this
    /// call, and was not just stopped.
    pub(super) failed_since: bool,
    began: Timestamp,
    /// Execution time of the call until the step dropped it.
    dropped_after: Option<Duration>,
    /// `true` if an operator was asked about this call since then.
    named: bool,
    used: bool,
}

/// The recorded end of a call.
#[derive(Clone, Debug)]
pub(crate) struct RecordedOutcome {
    pub(crate) result: Arc<ToolResult>,
    /// The error that the function returned.
    pub(crate) error: Option<Encoded>,
    /// The source of that error.
    pub(crate) cause: Option<Arc<str>>,
    /// The middleware that provided the result instead of the tool.
    pub(crate) answered_by: Option<Arc<str>>,
    /// The state that the call saved.
    pub(crate) saved: Option<Arc<SavedByStep>>,
}

impl RecordedOutcome {
    /// Creates an outcome with a result only.
    pub(crate) fn new(result: Arc<ToolResult>) -> Self {
        Self { result, error: None, cause: None, answered_by: None, saved: None }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Begun {
    /// The idempotency key of the call, equal in all attempts.
    pub(super) key: String,
    pub(super) effects: Effects,
    pub(super) repeatable: bool,
}

/// The records that match a call which is about to be made.
pub(super) struct Known {
    pub(super) path: StepPath,
    pub(super) here: Option<RecordedCall>,
    pub(super) earlier: Option<RecordedCall>,
}

impl RecordedCall {
    fn new(path: StepPath, name: Arc<str>) -> Self {
        let arguments = Value::Null;
        Self {
            path,
            before: Vec::new(),
            name,
            arguments,
            asked: None,
            answer: None,
            begun: None,
            outcome: None,
            decided: false,
            failed_since: false,
            began: Timestamp::default(),
            dropped_after: None,
            named: false,
            used: false,
        }
    }

    /// Returns all paths at which the call was made so far.
    pub(super) fn paths(&self) -> Vec<StepPath> {
        self.before.iter().chain([&self.path]).cloned().collect()
    }

    fn apply(&mut self, time: Timestamp, kind: &EventKind, keys: &CallKeys) {
        match kind {
            EventKind::ApprovalRequested(request) => {
                self.asked = Some(Arc::clone(request));
                self.arguments = request.payload.decode().unwrap_or_default();
            }
            EventKind::ApprovalResolved { answer, by } => {
                self.answer = Some(QuestionAnswer::recorded(self.asked.as_deref(), answer, by));
            }
            EventKind::ToolStarted { call, effects, idempotent, given, .. } => {
                // `given` holds the caller's arguments if middleware changed them, and the step
                // asks by these.
                self.arguments = match given {
                    Some(given) => serde_json::from_str(given).unwrap_or_default(),
                    None => arguments_of(call),
                };
                let repeatable = *idempotent || *effects != Effects::Write;
                let key = keys.key(&self.path, call).into_owned();
                self.begun = Some(Begun { key, effects: *effects, repeatable });
                // A new start invalidates the outcome of an earlier attempt at the same path.
                (self.outcome, self.began, self.dropped_after) = (None, time, None);
            }
            EventKind::ToolCompleted { result, answered_by, saved, .. } => {
                let (result, answered_by, saved) =
                    (Arc::clone(result), answered_by.clone(), saved.clone());
                self.outcome =
                    Some(RecordedOutcome { answered_by, saved, ..RecordedOutcome::new(result) });
            }
            EventKind::ToolFailed { result, error, cause, answered_by, .. } => {
                self.dropped_after = call_was_dropped(result).then(|| time.since(self.began));
                let (error, cause, answered_by) =
                    (error.clone(), cause.clone(), answered_by.clone());
                let result = Arc::clone(result);
                self.outcome = Some(RecordedOutcome {
                    error,
                    cause,
                    answered_by,
                    ..RecordedOutcome::new(result)
                });
            }
            _ => {}
        }
    }

    /// Returns `true` if the call was started and its outcome is unknown.
    pub(super) fn is_unfinished(&self) -> bool {
        self.begun.is_some()
            && !self.outcome.as_ref().is_some_and(|outcome| outcome.result.status.is_outcome())
    }

    /// Returns the execution time after which the step dropped the call, if a repeated step should
    /// drop it again.
    ///
    /// This is the case if the step was only stopped since then and no operator let the call
    /// continue.
    pub(super) fn held_back(&self) -> Option<Duration> {
        self.dropped_after.filter(|_| !self.failed_since && !self.named)
    }

    fn is(&self, name: &str, arguments: &Value) -> bool {
        !self.used && *self.name == *name && self.arguments == *arguments
    }
}

impl StepCallHistory {
    /// Reads the calls that are recorded below a step.
    ///
    /// If this is a tool call that earlier attempts made at other paths, the calls below those
    /// paths count as earlier attempts.
    pub(super) fn read(cx: &Context) -> Self {
        let mut history = Self::default();
        let (before, failed) = cx.made_before();
        for path in before.iter().filter(|path| *path != cx.path()) {
            for (_, mut call) in Self::recorded(cx, path) {
                call.failed_since |= failed;
                history.push_earlier(call);
            }
        }
        // A failed tool call has another attempt, so calls recorded below it belong to a failed
        // attempt.
        let of_call = cx.path().is_tool_call();
        for (attempt, mut call) in Self::recorded(cx, cx.path()) {
            call.failed_since |= of_call;
            // Attempts after a failure record below `attempt#N`; only the current one continues its
            // numbering.
            if attempt == cx.attempt_scope() {
                let number = history.numbers.entry(Arc::clone(&call.name)).or_default();
                *number = (*number).max(number_of(&call.path));
                history.here.push(call);
                continue;
            }
            history.push_earlier(call);
        }
        // Prefer calls that were started to calls for which only a question was recorded.
        history.earlier.sort_by_key(|call| call.begun.is_none());
        history
    }

    /// Adds a call of an earlier attempt. It replaces older records with the same key, except for a
    /// person's answer, so that the person is not asked again.
    fn push_earlier(&mut self, mut call: RecordedCall) {
        if let Some(key) = call.begun.as_ref().map(|begun| begun.key.clone()) {
            let same = |before: &mut RecordedCall| {
                before.begun.as_ref().is_some_and(|begun| begun.key == key)
            };
            for same in self.earlier.extract_if(.., same) {
                call.before.extend(same.before.into_iter().chain([same.path]));
                call.answer = call.answer.take().or(same.answer);
            }
        }
        self.earlier.push(call);
    }

    /// Returns the calls recorded below a step or a call, each with the number of the attempt that
    /// made it.
    fn recorded(cx: &Context, step: &StepPath) -> Vec<(u32, RecordedCall)> {
        let mut calls: Vec<(u32, RecordedCall)> = Vec::new();
        // Paths of agents and workflows. Calls directly below them are not calls of the step.
        let mut taken = HashSet::new();
        let mut keys = CallKeys::default();
        for (time, path, kind) in cx.run().log.records_around(step) {
            keys.apply(&path, &kind);
            match &kind {
                EventKind::AgentStarted(_) | EventKind::WorkflowStarted(_) => {
                    if !calls.iter().any(|(_, call)| call.path.parent().as_ref() == Some(&path)) {
                        taken.insert(path);
                    }
                    continue;
                }
                EventKind::NodeFailed { error, .. } | EventKind::NodeRetrying { error, .. }
                    if step.belongs_to(&path) =>
                {
                    for (_, call) in &mut calls {
                        call.decided |= asks(&kind);
                        call.named |=
                            asks(&kind) && error.message.contains(&format!("`{}`", call.path));
                        call.failed_since |= path == *step && is_own_failure(&kind);
                    }
                    continue;
                }
                _ if !path.is_within(step) => continue,
                _ => {}
            }
            let Some(parent) = path.parent().filter(|parent| !taken.contains(parent)) else {
                continue;
            };
            // Skips records of nested calls.
            let Some(attempt) = attempt_of(step, &parent) else { continue };
            let Some(PathSegment::Tool { name, .. }) = path.segments().last() else { continue };
            let at = calls.iter().position(|(_, call)| call.path == path).unwrap_or_else(|| {
                calls.push((attempt, RecordedCall::new(path.clone(), name.as_ref().into())));
                calls.len() - 1
            });
            calls[at].1.apply(time, &kind, &keys);
        }
        calls
    }

    /// Returns the path below which the calls of the current attempt are recorded, if there are
    /// any.
    pub(super) fn base(&self) -> Option<StepPath> {
        self.here.first().and_then(|call| call.path.parent())
    }

    /// Takes the records of a call that is about to be made. Calls with equal arguments are matched
    /// in the order in which they are made.
    pub(super) fn take(
        &mut self,
        base: &StepPath,
        name: &Arc<str>,
        arguments: &Value,
        policy: &ToolPolicy,
    ) -> Known {
        // Each record matches one call, so that equal calls are matched in order.
        let use_up = |calls: &mut Vec<RecordedCall>| {
            let call = calls.iter_mut().find(|call| call.is(name, arguments))?;
            call.used = true;
            Some(call.clone())
        };
        let earlier = use_up(&mut self.earlier);
        match use_up(&mut self.here) {
            Some(here) => Known { path: here.path.clone(), here: Some(here), earlier },
            None => {
                // Remembered for `left_over`: only writing tools can have an effect twice.
                if policy.effects == Effects::Write {
                    self.anew.insert(Arc::clone(name));
                }
                Known { path: self.next_path(base, name), here: None, earlier }
            }
        }
    }

    /// Returns a new path for a call without a record.
    pub(super) fn next_path(&mut self, base: &StepPath, name: &Arc<str>) -> StepPath {
        let number = self.numbers.entry(Arc::clone(name)).or_default();
        *number = number.saturating_add(1);
        base.tool(*number, Arc::clone(name), 0)
    }

    /// Returns a recorded call with effects that the repeated step did not make again, although it
    /// made new calls to the same tool.
    pub(super) fn left_over(&self) -> Option<(&str, &Value)> {
        let wrote = |call: &&RecordedCall| {
            !call.used && call.begun.as_ref().is_some_and(|begun| begun.effects == Effects::Write)
        };
        let left = self.here.iter().find(|call| wrote(call) && self.anew.contains(&call.name))?;
        Some((&left.name, &left.arguments))
    }
}

/// Returns the arguments of a recorded call, or `null` if they have no JSON form.
pub(super) fn arguments_of(call: &ToolCall) -> Value {
    serde_json::from_str(&call.arguments).unwrap_or_default()
}

fn number_of(path: &StepPath) -> u32 {
    match path.segments().last() {
        Some(PathSegment::Tool { turn, .. }) => turn,
        _ => 0,
    }
}

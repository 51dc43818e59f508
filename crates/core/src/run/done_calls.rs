//! Determines from a run's journal which calls can be compensated, and which of them were. Only
//! reads; `tool/compensation.rs` makes the compensating calls.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::{Map, Value};

use super::call_keys::CallKeys;
use super::redaction::REDACTED;
use crate::event::{Event, EventKind, NotUndone};
use crate::message::{ToolCall, ToolResult, ToolStatus};
use crate::path::StepPath;

/// Path segment of a compensation below its call.
const UNDO: &str = "undo#1";
/// Argument of a compensation that contains the output of the call.
pub(crate) const OUTPUT: &str = "output";

/// Calls with a compensation, in the order in which they ended, and the state of their
/// compensations.
#[derive(Default)]
pub(crate) struct CompensationPlan {
    calls: Vec<CompensableCall>,
    undoing: HashMap<StepPath, Undoing>,
    newer: Option<NewerEvent>,
    keys: CallKeys,
}

/// A call that has a compensation.
pub(crate) struct CompensableCall {
    pub(crate) path: StepPath,
    /// Paths of the same call in earlier attempts, oldest first. Calls below them belong to this
    /// call.
    before: Vec<StepPath>,
    /// Idempotency key.
    key: String,
    call: Arc<ToolCall>,
    /// The tool that compensates the call.
    pub(crate) by: Arc<str>,
    ended: CompensableCallEnd,
}

enum CompensableCallEnd {
    Open,
    Completed(Arc<ToolResult>),
    /// Unknown whether the call had its effect.
    Unknown(ToolStatus),
    /// The call failed, so it needs no compensation.
    Failed,
}

/// A compensation that has started.
enum Undoing {
    Begun { repeatable: bool },
    Undone,
    Failed(Arc<str>),
}

/// An event of a newer release. Its meaning for the calls of the run is unknown.
pub(crate) struct NewerEvent {
    path: StepPath,
    name: Arc<str>,
}

/// A call that has a compensation, and the state of that compensation.
pub(crate) struct Undo {
    pub(crate) call: CompensableCall,
    pub(crate) state: CompensationState,
}

/// The state of a call's compensation.
pub(crate) enum CompensationState {
    /// The compensation must be called, with the result of the call. `begun` is `true` if it was
    /// called before and may be repeated.
    Owed {
        result: Arc<ToolResult>,
        begun: bool,
    },
    /// The compensation was interrupted and must not be repeated.
    Interrupted,
    Undone,
    /// The call is not compensated, for this reason.
    Left(Arc<str>),
}

impl CompensationPlan {
    pub(crate) fn from_events(events: &[Event]) -> Self {
        let mut done = Self::default();
        events.iter().for_each(|event| done.apply(&event.path, &event.kind));
        done
    }

    /// Applies the next event.
    pub(crate) fn apply(&mut self, path: &StepPath, kind: &EventKind) {
        self.keys.apply(path, kind);
        match kind {
            EventKind::ToolStarted { .. }
            | EventKind::ToolCompleted { .. }
            | EventKind::ToolFailed { .. } => {}
            EventKind::Unknown(unknown) => {
                let newer = || NewerEvent { path: path.clone(), name: Arc::clone(&unknown.name) };
                self.newer.get_or_insert_with(newer);
                return;
            }
            _ => return,
        }
        if let Some(undo) = enclosing_compensation(path) {
            // A call within a compensation belongs to it and is not compensated separately.
            if undo == *path {
                self.apply_undo(undo, kind);
            }
            return;
        }
        match kind {
            EventKind::ToolStarted { call, compensate, idempotent, .. } => {
                // The call may repeat an earlier one: at the same path, or in a later attempt at
                // its step with the same key. It then replaces the earlier one. A completed call
                // that is not idempotent had a separate effect, so it stays in the list.
                let key = self.keys.key(path, call).into_owned();
                let is_same = |done: &mut CompensableCall| {
                    let had_effect =
                        matches!(done.ended, CompensableCallEnd::Completed(_)) && !idempotent;
                    done.path == *path || done.key == key && !had_effect
                };
                let same = self.calls.extract_if(.., is_same);
                let before =
                    same.flat_map(|done| done.before.into_iter().chain([done.path])).collect();
                if let Some(by) = compensate {
                    let (call, by) = (Arc::clone(call), Arc::clone(by));
                    self.calls.push(CompensableCall {
                        path: path.clone(),
                        before,
                        key,
                        call,
                        by,
                        ended: CompensableCallEnd::Open,
                    });
                }
            }
            EventKind::ToolCompleted { result, .. } => {
                self.end(path, CompensableCallEnd::Completed(Arc::clone(result)));
            }
            EventKind::ToolFailed { result, answered_by, .. } => {
                let failed = matches!(
                    result.status,
                    ToolStatus::Error
                        | ToolStatus::InvalidArguments
                        | ToolStatus::NotFound
                        | ToolStatus::Unauthorized
                );
                // If middleware supplied the result, the tool may have had its effect.
                let failed = failed && answered_by.is_none();
                self.end(
                    path,
                    if failed {
                        CompensableCallEnd::Failed
                    } else {
                        CompensableCallEnd::Unknown(result.status)
                    },
                );
            }
            _ => {}
        }
    }

    fn apply_undo(&mut self, path: StepPath, kind: &EventKind) {
        let now = match kind {
            EventKind::ToolStarted { .. } => {
                Undoing::Begun { repeatable: !kind.is_unrepeatable_start() }
            }
            EventKind::ToolCompleted { .. } => Undoing::Undone,
            // The compensation ran to its end. Its output is not needed.
            EventKind::ToolFailed { result, .. } if result.status == ToolStatus::OutputTooLarge => {
                Undoing::Undone
            }
            EventKind::ToolFailed { result, .. } => Undoing::Failed(result.output.as_str().into()),
            _ => return,
        };
        self.undoing.insert(path, now);
    }

    /// Moves an ended call to the end of the list, which is ordered by end.
    fn end(&mut self, path: &StepPath, ended: CompensableCallEnd) {
        if let Some(at) = self.calls.iter().position(|done| done.path == *path) {
            let done = self.calls.remove(at);
            self.calls.push(CompensableCall { ended, ..done });
        }
    }

    /// Returns the calls that had, or may have had, an effect, in the order of their compensation.
    /// Calls below a completed call are excluded, in each attempt: the compensation of the outer
    /// call covers them.
    pub(crate) fn undos(self) -> Vec<Undo> {
        let Self { mut calls, mut undoing, .. } = self;
        let completed =
            calls.iter().filter(|call| matches!(call.ended, CompensableCallEnd::Completed(_)));
        let completed: HashSet<StepPath> =
            completed.flat_map(|call| call.before.iter().chain([&call.path])).cloned().collect();
        calls.retain(|call| !call.path.parents().any(|above| completed.contains(&above)));
        let undo = |call: CompensableCall| {
            let state = match &call.ended {
                CompensableCallEnd::Failed => return None,
                CompensableCallEnd::Open => {
                    CompensationState::Left(unknown_effect(ToolStatus::Interrupted))
                }
                CompensableCallEnd::Unknown(status) => {
                    CompensationState::Left(unknown_effect(*status))
                }
                CompensableCallEnd::Completed(result) => match undoing.remove(&call.undo_path()) {
                    None => CompensationState::Owed { result: Arc::clone(result), begun: false },
                    Some(Undoing::Begun { repeatable: true }) => {
                        CompensationState::Owed { result: Arc::clone(result), begun: true }
                    }
                    Some(Undoing::Begun { repeatable: false }) => CompensationState::Interrupted,
                    Some(Undoing::Undone) => CompensationState::Undone,
                    Some(Undoing::Failed(problem)) => CompensationState::Left(problem),
                },
            };
            Some(Undo { call, state })
        };
        calls.into_iter().rev().filter_map(undo).collect()
    }

    /// Returns the first event of a newer release.
    pub(crate) fn take_newer(&mut self) -> Option<NewerEvent> {
        self.newer.take()
    }
}

/// Returns the path of the compensation that contains `path`, if any.
pub(super) fn enclosing_compensation(path: &StepPath) -> Option<StepPath> {
    if !path.names().contains(UNDO) {
        return None;
    }
    let of_undo =
        |path: &StepPath| path.parent().is_some_and(|parent| parent.last_name() == Some(UNDO));
    // Takes the outermost, because calls within a compensation may have compensations too.
    std::iter::once(path.clone()).chain(path.parents()).filter(of_undo).last()
}

/// Returns `true` if a path belongs to a compensation.
pub(crate) fn is_of_undo(path: &StepPath) -> bool {
    enclosing_compensation(path).is_some()
}

fn unknown_effect(status: ToolStatus) -> Arc<str> {
    format!("it ended as {status}, so whether it had its effect is unknown: find out").into()
}

impl CompensableCall {
    pub(crate) fn undo_path(&self) -> StepPath {
        self.path.child(UNDO).tool(1, Arc::clone(&self.by), 0)
    }

    /// Returns the name of the called tool.
    pub(crate) fn tool(&self) -> &str {
        &self.call.name
    }

    pub(crate) fn not_undone(self, problem: impl Into<Arc<str>>) -> NotUndone {
        NotUndone::new(self.path, self.call.name.as_str(), problem)
    }

    /// Returns the arguments of the compensation: the arguments of the call, and its output.
    ///
    /// # Errors
    /// Returns the reason if the arguments cannot be built.
    pub(crate) fn arguments(&self, result: &ToolResult) -> Result<String, String> {
        let given = if self.call.arguments.trim().is_empty() { "{}" } else { &self.call.arguments };
        let no_json =
            |error: serde_json::Error| format!("what was recorded of it cannot be read: {error}");
        let mut arguments: Map<String, Value> =
            match serde_json::from_str(given).map_err(no_json)? {
                Value::Object(arguments) => arguments,
                _ => return Err(
                    "its arguments have no JSON form; derive `serde::Serialize` for their types"
                        .to_owned(),
                ),
            };
        arguments.insert(OUTPUT.to_owned(), serde_json::from_str(&result.output).map_err(no_json)?);
        let text = Value::Object(arguments).to_string();
        // A compensation with masked arguments would act on wrong data.
        match text.contains(REDACTED) {
            true => {
                Err("this runtime's middleware removes from its record what its compensation needs"
                    .to_owned())
            }
            false => Ok(text),
        }
    }
}

impl Undo {
    /// Returns the call with the reason, if it is not compensated.
    pub(crate) fn not_undone(self) -> Option<NotUndone> {
        match self.state {
            CompensationState::Left(problem) => Some(self.call.not_undone(problem)),
            _ => None,
        }
    }
}

impl CompensationState {
    /// Returns `true` if the compensation must still be called, or an operator must decide about
    /// it.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self, Self::Owed { .. } | Self::Interrupted)
    }
}

impl NewerEvent {
    /// Explains why this release does not compensate the calls of the run.
    pub(crate) fn problem(&self) -> String {
        let at = if self.path.is_root() { String::new() } else { format!(" at `{}`", self.path) };
        format!(
            "the event `{}`{at} was recorded by a newer release and may mean something for what is to be undone; update \
             agentflow",
            self.name
        )
    }

    /// Creates the entry for a list of calls that are not compensated.
    pub(crate) fn not_undone(self) -> NotUndone {
        let problem = format!(
            "the event `{}` was recorded by a newer release; whether it did something that is to be undone is unknown: find \
             out",
            self.name
        );
        NotUndone::new(self.path, "", problem)
    }
}

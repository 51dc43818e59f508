//! What a run did that can be undone, and what of that is undone, from its journal. It calls nothing and records nothing.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::{Map, Value};

use super::call_keys::CallKeys;
use super::redaction::REDACTED;
use crate::event::{Event, EventKind, NotUndone};
use crate::message::{ToolCall, ToolResult, ToolStatus};
use crate::path::StepPath;

/// What the path of a compensation has below that of the call.
const UNDO: &str = "undo#1";
/// What the tool answered, among the arguments of its compensation.
pub(crate) const OUTPUT: &str = "output";

/// What a run has done that can be undone, in the order in which it ended, and what of it is undone.
#[derive(Default)]
pub(crate) struct DoneCalls {
    calls: Vec<DoneCall>,
    undoing: HashMap<StepPath, Undoing>,
    newer: Option<NewerEvent>,
    keys: CallKeys,
}

/// A call that has a compensation.
pub(crate) struct DoneCall {
    pub(crate) path: StepPath,
    /// Where earlier attempts made it, the first one first: what is below belongs to it.
    before: Vec<StepPath>,
    /// Idempotency key.
    key: String,
    call: Arc<ToolCall>,
    /// The tool that undoes it.
    pub(crate) by: Arc<str>,
    ended: DoneEnd,
}

enum DoneEnd {
    Open,
    Completed(Arc<ToolResult>),
    /// Nobody knows whether it had its effect.
    Unknown(ToolStatus),
    /// It failed, so there is nothing to undo.
    Failed,
}

/// A compensation that has begun.
enum Undoing {
    Begun { repeatable: bool },
    Undone,
    Failed(Arc<str>),
}

/// An event that this release does not know: nobody here knows what it means for the calls of the run.
pub(crate) struct NewerEvent {
    path: StepPath,
    name: Arc<str>,
}

/// A call that has a compensation, and where that is.
pub(crate) struct Undo {
    pub(crate) call: DoneCall,
    pub(crate) state: UndoState,
}

/// Where the compensation of a call is.
pub(crate) enum UndoState {
    /// It is to be called with what the call gave; `begun` says that it was called and may be called again.
    Owed {
        result: Arc<ToolResult>,
        begun: bool,
    },
    /// It was called, has no end, and may not simply be called again.
    Interrupted,
    Undone,
    /// The call is not undone, for this reason.
    Left(Arc<str>),
}

impl DoneCalls {
    pub(crate) fn of(events: &[Event]) -> Self {
        let mut done = Self::default();
        events.iter().for_each(|event| done.apply(&event.path, &event.kind));
        done
    }

    /// Takes in the next event.
    pub(crate) fn apply(&mut self, path: &StepPath, kind: &EventKind) {
        self.keys.apply(path, kind);
        match kind {
            EventKind::ToolStarted { .. } | EventKind::ToolCompleted { .. } | EventKind::ToolFailed { .. } => {}
            EventKind::Unknown(unknown) => {
                let newer = || NewerEvent { path: path.clone(), name: Arc::clone(&unknown.name) };
                self.newer.get_or_insert_with(newer);
                return;
            }
            _ => return,
        }
        if let Some(undo) = undo_around(path) {
            // What a compensation calls is part of it, and nothing that the run did.
            if undo == *path {
                self.apply_undo(undo, kind);
            }
            return;
        }
        match kind {
            EventKind::ToolStarted { call, compensate, idempotent, .. } => {
                // It is called again at its own path, or by another attempt at its step under the key of that: whether it
                // had its effect before was then decided.
                let key = self.keys.key(path, call).into_owned();
                let is_same = |done: &mut DoneCall| {
                    let had_effect = matches!(done.ended, DoneEnd::Completed(_)) && !idempotent;
                    done.path == *path || done.key == key && !had_effect
                };
                let same = self.calls.extract_if(.., is_same);
                let before = same.flat_map(|done| done.before.into_iter().chain([done.path])).collect();
                if let Some(by) = compensate {
                    let (call, by) = (Arc::clone(call), Arc::clone(by));
                    self.calls.push(DoneCall { path: path.clone(), before, key, call, by, ended: DoneEnd::Open });
                }
            }
            EventKind::ToolCompleted { result, .. } => self.end(path, DoneEnd::Completed(Arc::clone(result))),
            EventKind::ToolFailed { result, answered_by, .. } => {
                let failed = matches!(
                    result.status,
                    ToolStatus::Error | ToolStatus::InvalidArguments | ToolStatus::NotFound | ToolStatus::Unauthorized
                );
                let failed = failed && answered_by.is_none();
                self.end(path, if failed { DoneEnd::Failed } else { DoneEnd::Unknown(result.status) });
            }
            _ => {}
        }
    }

    fn apply_undo(&mut self, path: StepPath, kind: &EventKind) {
        let now = match kind {
            EventKind::ToolStarted { .. } => Undoing::Begun { repeatable: !kind.begins_once() },
            EventKind::ToolCompleted { .. } => Undoing::Undone,
            // It ran to its end, and nobody needs its answer.
            EventKind::ToolFailed { result, .. } if result.status == ToolStatus::OutputTooLarge => Undoing::Undone,
            EventKind::ToolFailed { result, .. } => Undoing::Failed(result.output.as_str().into()),
            _ => return,
        };
        self.undoing.insert(path, now);
    }

    /// A call stands behind those that ended before it.
    fn end(&mut self, path: &StepPath, ended: DoneEnd) {
        if let Some(at) = self.calls.iter().position(|done| done.path == *path) {
            let done = self.calls.remove(at);
            self.calls.push(DoneCall { ended, ..done });
        }
    }

    /// The calls that had, or may have had, an effect, in the order in which they are undone. What undoes a call undoes what
    /// that has called, in each attempt, so those below a completed one are not among them.
    pub(crate) fn undos(self) -> Vec<Undo> {
        let Self { mut calls, mut undoing, .. } = self;
        let completed = calls.iter().filter(|call| matches!(call.ended, DoneEnd::Completed(_)));
        let completed: HashSet<StepPath> =
            completed.flat_map(|call| call.before.iter().chain([&call.path])).cloned().collect();
        calls.retain(|call| !call.path.parents().any(|above| completed.contains(&above)));
        let undo = |call: DoneCall| {
            let state = match &call.ended {
                DoneEnd::Failed => return None,
                DoneEnd::Open => UndoState::Left(unknown_effect(ToolStatus::Interrupted)),
                DoneEnd::Unknown(status) => UndoState::Left(unknown_effect(*status)),
                DoneEnd::Completed(result) => match undoing.remove(&call.undo_path()) {
                    None => UndoState::Owed { result: Arc::clone(result), begun: false },
                    Some(Undoing::Begun { repeatable: true }) => {
                        UndoState::Owed { result: Arc::clone(result), begun: true }
                    }
                    Some(Undoing::Begun { repeatable: false }) => UndoState::Interrupted,
                    Some(Undoing::Undone) => UndoState::Undone,
                    Some(Undoing::Failed(problem)) => UndoState::Left(problem),
                },
            };
            Some(Undo { call, state })
        };
        calls.into_iter().rev().filter_map(undo).collect()
    }

    /// The first event that this release does not know.
    pub(crate) fn take_newer(&mut self) -> Option<NewerEvent> {
        self.newer.take()
    }
}

/// What compensates a call, when a path is that or below it.
pub(super) fn undo_around(path: &StepPath) -> Option<StepPath> {
    if !path.names().contains(UNDO) {
        return None;
    }
    let of_undo = |path: &StepPath| path.parent().is_some_and(|parent| parent.last_name() == Some(UNDO));
    // The outermost: what a compensation calls may have compensations too.
    std::iter::once(path.clone()).chain(path.parents()).filter(of_undo).last()
}

/// Whether a path is of what compensates a call.
pub(crate) fn is_of_undo(path: &StepPath) -> bool {
    undo_around(path).is_some()
}

fn unknown_effect(status: ToolStatus) -> Arc<str> {
    format!("it ended as {status}, so whether it had its effect is unknown: find out").into()
}

impl DoneCall {
    pub(crate) fn undo_path(&self) -> StepPath {
        self.path.child(UNDO).tool(1, Arc::clone(&self.by), 0)
    }

    /// The tool that was called.
    pub(crate) fn tool(&self) -> &str {
        &self.call.name
    }

    pub(crate) fn not_undone(self, problem: impl Into<Arc<str>>) -> NotUndone {
        NotUndone::new(self.path, self.call.name.as_str(), problem)
    }

    /// The arguments of the compensation.
    ///
    /// # Errors
    /// Why there are none.
    pub(crate) fn arguments(&self, result: &ToolResult) -> Result<String, String> {
        let given = if self.call.arguments.trim().is_empty() { "{}" } else { &self.call.arguments };
        let no_json = |error: serde_json::Error| format!("what was recorded of it cannot be read: {error}");
        let mut arguments: Map<String, Value> = match serde_json::from_str(given).map_err(no_json)? {
            Value::Object(arguments) => arguments,
            _ => return Err("its arguments have no JSON form; derive `serde::Serialize` for their types".to_owned()),
        };
        arguments.insert(OUTPUT.to_owned(), serde_json::from_str(&result.output).map_err(no_json)?);
        let text = Value::Object(arguments).to_string();
        match text.contains(REDACTED) {
            true => Err("this runtime's middleware removes from its record what its compensation needs".to_owned()),
            false => Ok(text),
        }
    }
}

impl Undo {
    /// The call with the reason, when it is not undone and will not be.
    pub(crate) fn not_undone(self) -> Option<NotUndone> {
        match self.state {
            UndoState::Left(problem) => Some(self.call.not_undone(problem)),
            _ => None,
        }
    }
}

impl UndoState {
    /// Whether somebody still has to do something about the call.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self, Self::Owed { .. } | Self::Interrupted)
    }
}

impl NewerEvent {
    /// Why nothing of the run is undone by this release.
    pub(crate) fn problem(&self) -> String {
        let at = if self.path.is_root() { String::new() } else { format!(" at `{}`", self.path) };
        format!(
            "the event `{}`{at} was recorded by a newer release and may mean something for what is to be undone; update \
             agentflow",
            self.name
        )
    }

    /// What is said of it where calls are listed that are not undone.
    pub(crate) fn not_undone(self) -> NotUndone {
        let problem = format!(
            "the event `{}` was recorded by a newer release; whether it did something that is to be undone is unknown: find \
             out",
            self.name
        );
        NotUndone::new(self.path, "", problem)
    }
}

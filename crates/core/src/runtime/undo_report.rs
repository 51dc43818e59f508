//! What a run undoes that failed or was cancelled, call by call, for [`RunReport`](super::RunReport). It reads a journal;
//! it calls nothing.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use crate::event::{Event, EventKind};
use crate::run::{DoneCalls, RunState, Undo, UndoState};

/// What a run undoes, or has undone, since it failed or was cancelled.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CompensationReport {
    /// Why.
    pub reason: String,
    /// The calls that had an effect, or may have had one, in the order in which they are undone.
    pub calls: Vec<UndoReport>,
}

/// A call that is undone, or is not.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct UndoReport {
    /// The path of the call, such as `paid/tool#1.charge`.
    pub path: String,
    /// The tool that was called; empty where that is not known.
    pub tool: Arc<str>,
    /// The tool that undoes it; empty where that is not known.
    pub by: Arc<str>,
    /// Where that is.
    pub status: UndoStatus,
    /// Why the call is not undone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<Arc<str>>,
    /// The path of the question that what undoes it has asked a person and that is not answered: the run waits for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asks: Option<String>,
}

/// Where the compensation of a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum UndoStatus {
    /// The call is still to be undone.
    Owed,
    /// What undoes it has begun and has no end. When no process executes the run, it was interrupted.
    Running,
    /// The call is undone.
    Undone,
    /// The call may have had an effect that is not undone, and nothing more is done about it.
    NotUndone,
}

impl UndoStatus {
    /// The status as words, such as `not undone`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Owed => "owed",
            Self::Running => "running",
            Self::Undone => "undone",
            Self::NotUndone => "not undone",
        }
    }
}

impl fmt::Display for UndoStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl CompensationReport {
    /// That of a run with these events; `None` when it undoes nothing.
    pub(super) fn of(events: &[Event], state: &RunState) -> Option<Self> {
        let (mut why, mut left) = (None, Vec::new());
        for event in events.iter().filter(|event| event.path.is_root()) {
            match &event.kind {
                EventKind::RunCompensating { error, cancelled, .. } => why = Some((error, cancelled)),
                EventKind::RunCompensated { left: of, .. } => left.clone_from(of),
                _ => {}
            }
        }
        let (error, cancelled) = why?;
        let reason = cancelled.as_ref().map_or_else(|| error.message.clone(), ToString::to_string);
        let mut calls: Vec<UndoReport> =
            DoneCalls::of(events).undos().into_iter().map(|undo| UndoReport::of(undo, state)).collect();
        for left in left {
            let path = left.path.to_string();
            match calls.iter_mut().find(|call| call.path == path) {
                Some(call) => (call.status, call.problem) = (UndoStatus::NotUndone, Some(left.problem)),
                // An event that this release does not know.
                None => calls.push(UndoReport {
                    path,
                    tool: left.tool,
                    by: "".into(),
                    status: UndoStatus::NotUndone,
                    problem: Some(left.problem),
                    asks: None,
                }),
            }
        }
        Some(Self { reason, calls })
    }
}

impl UndoReport {
    fn of(Undo { call, state }: Undo, run: &RunState) -> Self {
        let asks = state.is_open().then(|| run.asking_in_undo(Some(&call.undo_path()))).flatten();
        let asks = asks.map(ToString::to_string);
        let (status, problem) = match state {
            UndoState::Owed { begun: false, .. } => (UndoStatus::Owed, None),
            UndoState::Owed { begun: true, .. } | UndoState::Interrupted => (UndoStatus::Running, None),
            UndoState::Undone => (UndoStatus::Undone, None),
            UndoState::Left(problem) => (UndoStatus::NotUndone, Some(problem)),
        };
        Self { path: call.path.to_string(), tool: call.tool().into(), by: call.by, status, problem, asks }
    }
}

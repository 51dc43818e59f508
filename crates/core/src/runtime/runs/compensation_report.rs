//! Reports how a failed or cancelled run is compensated, call by call, for
//! [`RunReport`](crate::runtime::RunReport).

use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use crate::event::{Event, EventKind};
use crate::run::{CompensationPlan, CompensationState, RunState, Undo};

/// The compensation of a failed or cancelled run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CompensationReport {
    /// Error or cancel reason that started the compensation.
    pub reason: String,
    /// Calls with actual or possible side effects, in the order in which they are compensated.
    pub calls: Vec<UndoReport>,
}

/// A call and the state of its compensation.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct UndoReport {
    /// Path of the call, such as `paid/tool#1.charge`.
    pub path: String,
    /// Name of the called tool. Empty if unknown.
    pub tool: Arc<str>,
    /// Name of the tool that compensates the call. Empty if unknown.
    pub by: Arc<str>,
    /// State of the compensation.
    pub status: UndoStatus,
    /// Reason why the call is not compensated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<Arc<str>>,
    /// Path of the unanswered question that the compensating tool has asked. The run waits for the
    /// answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asks: Option<String>,
}

/// State of a call's compensation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum UndoStatus {
    /// The compensation has not started.
    Owed,
    /// The compensation has started and not ended. If no process executes the run, it was
    /// interrupted.
    Running,
    /// The call is compensated.
    Undone,
    /// The call may have had an effect that is not compensated, and no further attempt is made.
    NotUndone,
}

impl UndoStatus {
    /// Returns the status in words, such as `not undone`.
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
    /// Returns the report of a run with these events, or `None` if it is not compensated.
    pub(crate) fn from_events(events: &[Event], state: &RunState) -> Option<Self> {
        let (mut why, mut left) = (None, Vec::new());
        for event in events.iter().filter(|event| event.path.is_root()) {
            match &event.kind {
                EventKind::RunCompensating { error, cancelled, .. } => {
                    why = Some((error, cancelled));
                }
                EventKind::RunCompensated { left: of, .. } => left.clone_from(of),
                _ => {}
            }
        }
        let (error, cancelled) = why?;
        let reason = cancelled.as_ref().map_or_else(|| error.message.clone(), ToString::to_string);
        let mut calls: Vec<UndoReport> = CompensationPlan::from_events(events)
            .undos()
            .into_iter()
            .map(|undo| UndoReport::new(undo, state))
            .collect();
        for left in left {
            let path = left.path.to_string();
            match calls.iter_mut().find(|call| call.path == path) {
                Some(call) => {
                    (call.status, call.problem) = (UndoStatus::NotUndone, Some(left.problem));
                }
                // The call is recorded in an event that this release cannot read.
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
    fn new(Undo { call, state }: Undo, run: &RunState) -> Self {
        let asks = state.is_open().then(|| run.asking_in_undo(Some(&call.undo_path()))).flatten();
        let asks = asks.map(ToString::to_string);
        let (status, problem) = match state {
            CompensationState::Owed { begun: false, .. } => (UndoStatus::Owed, None),
            CompensationState::Owed { begun: true, .. } | CompensationState::Interrupted => {
                (UndoStatus::Running, None)
            }
            CompensationState::Undone => (UndoStatus::Undone, None),
            CompensationState::Left(problem) => (UndoStatus::NotUndone, Some(problem)),
        };
        Self {
            path: call.path.to_string(),
            tool: call.tool().into(),
            by: call.by,
            status,
            problem,
            asks,
        }
    }
}

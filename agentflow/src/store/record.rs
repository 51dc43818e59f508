//! What is known of a run without reading its journal.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::StoreError;
use crate::event::{Event, EventKind, PauseReason, RunBody, RunId};
use crate::time::Timestamp;

/// Where a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[doc(alias = "WorkflowRunStatus")]
pub enum RunStatus {
    /// It can continue and no process executes it: an operator answered, retried or unpaused it at rest. It continues
    /// when a process resumes it.
    Queued,
    /// It is going on, or its process ended in the middle of it.
    Running,
    /// It waits for a person or an operator.
    Paused,
    /// It ended with its output.
    Success,
    /// It ended without an output.
    Failed,
    /// It was stopped.
    Cancelled,
}

impl RunStatus {
    /// Whether nothing more happens by itself.
    pub fn has_ended(self) -> bool {
        matches!(self, Self::Success | Self::Failed | Self::Cancelled)
    }

    /// The status as a word, such as `running`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Success => "success",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for RunStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for RunStatus {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        [Self::Queued, Self::Running, Self::Paused, Self::Success, Self::Failed, Self::Cancelled]
            .into_iter()
            .find(|status| status.as_str() == text)
            .ok_or_else(|| {
                format!("`{text}` is no status; it is one of queued, running, paused, success, failed, cancelled")
            })
    }
}

/// A run in a list: what follows from its journal and is kept beside it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunRecord {
    /// The run.
    pub run_id: RunId,
    /// The name of what runs.
    pub name: Arc<str>,
    /// The workflow's definition hash; `None` for an agent.
    pub definition: Option<Arc<str>>,
    /// Where it is.
    pub status: RunStatus,
    /// What a paused run waits for.
    pub pause_reason: Option<PauseReason>,
    /// Why a failed run failed, or why a cancelled one was stopped.
    pub error: Option<String>,
    /// When it began.
    pub created: Timestamp,
    /// When something was recorded last.
    pub updated: Timestamp,
    /// How many events are recorded.
    pub events: u64,
}

impl RunRecord {
    /// The record of a run from its first event; `None` when that is not `run.started`.
    pub fn new(first: &Event) -> Option<Self> {
        let EventKind::RunStarted(started) = &first.kind else { return None };
        Some(Self {
            run_id: first.run_id.clone(),
            name: started.name().into(),
            definition: match &started.body {
                RunBody::Workflow(workflow) => Some(Arc::clone(&workflow.definition)),
                RunBody::Agent(_) => None,
            },
            status: RunStatus::Running,
            pause_reason: None,
            error: None,
            created: first.time,
            updated: first.time,
            events: 1,
        })
    }

    /// Takes in the next event of the run.
    pub fn apply(&mut self, event: &Event) {
        self.updated = event.time;
        self.events = event.seq;
        match &event.kind {
            EventKind::RunPaused { reason } => {
                self.status = RunStatus::Paused;
                // What an operator paused stays so, whatever else in it waits.
                if self.pause_reason != Some(PauseReason::Operator) {
                    self.pause_reason = Some(*reason);
                }
            }
            // Resumed from its journal it is what it was before, and a process executes it.
            EventKind::RunResumed { recovered: true, redefined, waiting, .. } => {
                if let Some(redefined) = redefined {
                    self.definition = Some(Arc::clone(&redefined.definition));
                    self.pause_reason = *waiting;
                    self.status = if waiting.is_some() { RunStatus::Paused } else { RunStatus::Running };
                }
                if self.status == RunStatus::Queued {
                    self.status = RunStatus::Running;
                }
            }
            EventKind::RunResumed { recovered: false, waiting, queued, .. } => {
                self.status = match (waiting, queued) {
                    (Some(_), _) => RunStatus::Paused,
                    (None, true) => RunStatus::Queued,
                    (None, false) => RunStatus::Running,
                };
                self.pause_reason = *waiting;
                self.error = None;
            }
            EventKind::RunCompleted(_) => self.end(RunStatus::Success, None),
            EventKind::RunFailed { error } => self.end(RunStatus::Failed, Some(error.message.clone())),
            EventKind::RunCancelled { reason } => self.end(RunStatus::Cancelled, Some(reason.to_string())),
            _ => {}
        }
    }

    fn end(&mut self, status: RunStatus, error: Option<String>) {
        self.status = status;
        self.pause_reason = None;
        self.error = error;
    }
}

/// Runs, and those that stand in a store and cannot be read.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RunList {
    /// The runs that were asked for, the newest first.
    pub runs: Vec<RunRecord>,
    /// The runs that may be among them and cannot be read, each with the reason: `damaged`, or `newer_version`.
    pub unreadable: Vec<(RunId, StoreError)>,
}

impl RunList {
    /// A list of both.
    pub fn new(runs: Vec<RunRecord>, unreadable: Vec<(RunId, StoreError)>) -> Self {
        Self { runs, unreadable }
    }
}

/// Which runs a list is to have. The default is all of them.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct RunFilter {
    /// Only runs of this status; several are alternatives.
    pub status: Vec<RunStatus>,
    /// Only runs of the agent or workflow of this name.
    pub name: Option<Arc<str>>,
    /// At most so many.
    pub limit: Option<usize>,
}

impl RunFilter {
    /// All runs.
    pub fn all() -> Self {
        Self::default()
    }

    /// Runs that have not ended.
    pub fn unfinished() -> Self {
        Self { status: vec![RunStatus::Queued, RunStatus::Running, RunStatus::Paused], ..Self::default() }
    }

    /// Only runs of this status, beside those that were named before.
    #[must_use]
    pub fn status(mut self, status: RunStatus) -> Self {
        self.status.push(status);
        self
    }

    /// Only runs of an agent or workflow.
    #[must_use]
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// At most so many.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Whether a run gets through, the limit aside.
    pub fn admits(&self, run: &RunRecord) -> bool {
        (self.status.is_empty() || self.status.contains(&run.status))
            && self.name.as_ref().is_none_or(|name| *name == run.name)
    }
}

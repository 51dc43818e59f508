//! `RunRecord` and `RunStatus`: the row of a run in a list. Reading it needs no journal.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::event::{Event, EventKind, NotUndone, PauseReason, RunBody, RunId, SessionPlace};
use crate::model::Usage;
use crate::time::Timestamp;

/// The status of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
#[doc(alias = "WorkflowRunStatus")]
pub enum RunStatus {
    /// It can continue and no process executes it: an operator answered, retried or unpaused it after its process had
    /// ended. It continues when a process resumes it.
    Queued,
    /// A process executes it, or ended while it did.
    Running,
    /// It waits for a person or an operator.
    Paused,
    /// It failed or was cancelled and undoes what it had done, or still has to: nothing else of it begins any more. When no
    /// process executes it, it continues when a process resumes it.
    Compensating,
    /// It ended with its output.
    Success,
    /// It ended without an output.
    Failed,
    /// It was stopped.
    Cancelled,
}

impl RunStatus {
    /// All statuses that this release knows.
    pub const ALL: &[Self] =
        &[Self::Queued, Self::Running, Self::Paused, Self::Compensating, Self::Success, Self::Failed, Self::Cancelled];

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
            Self::Compensating => "compensating",
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
        for status in Self::ALL {
            if status.as_str() == text {
                return Ok(*status);
            }
        }
        let known: Vec<&str> = Self::ALL.iter().map(|status| status.as_str()).collect();
        Err(format!("`{text}` is not a status; it is one of {}", known.join(", ")))
    }
}

/// What a list says of a run. All of it follows from the run's events; a store may keep it beside them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunRecord {
    /// The run.
    pub run_id: RunId,
    /// The name of what runs.
    pub name: Arc<str>,
    /// The workflow's definition hash; `None` for an agent.
    pub definition: Option<Arc<str>>,
    /// Its status.
    pub status: RunStatus,
    /// What a paused run waits for.
    pub pause_reason: Option<PauseReason>,
    /// Why a failed run failed, or why a cancelled one was stopped, with the calls that are not undone; of one that is
    /// compensating, why it is.
    pub error: Option<String>,
    /// When it began.
    pub created: Timestamp,
    /// When something was recorded last.
    pub updated: Timestamp,
    /// How many events are recorded.
    pub events: u64,
    /// On whose behalf it was started.
    #[serde(default)]
    pub caller: Option<Arc<str>>,
    /// Its tags.
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    /// Where it stands in the session that it is a run of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<Box<SessionPlace>>,
    /// Tokens of all model answers of the run so far, nested agents and workflows included. `None` for a run that
    /// began in a release which did not count them here; [`Runtime::usage`](crate::Runtime::usage) reads its journal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
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
            caller: started.caller.clone(),
            tags: started.tags.clone(),
            session: started.session.clone(),
            usage: Some(Usage::default()),
        })
    }

    /// Rebuilds a record from the columns of a store. Set the fields of the other columns: without them, `updated` is
    /// `created`, `events` is 0, and the rest is empty.
    pub fn from_stored(run_id: RunId, name: impl Into<Arc<str>>, status: RunStatus, created: Timestamp) -> Self {
        Self {
            run_id,
            name: name.into(),
            definition: None,
            status,
            pause_reason: None,
            error: None,
            created,
            updated: created,
            events: 0,
            caller: None,
            tags: BTreeMap::new(),
            session: None,
            usage: None,
        }
    }

    /// The record of a run from its events, which begin with `run.started`; `None` when they do not.
    pub fn from_events(events: &[Event]) -> Option<Self> {
        let (first, rest) = events.split_first()?;
        let mut record = Self::new(first)?;
        rest.iter().for_each(|event| record.apply(event));
        Some(record)
    }

    /// Updates the record with the next event of the run.
    pub fn apply(&mut self, event: &Event) {
        self.updated = event.time;
        self.events = event.seq;
        match &event.kind {
            EventKind::RunPaused { reason, .. } => {
                // What undoes a call may ask a person.
                if self.status != RunStatus::Compensating {
                    self.status = RunStatus::Paused;
                }
                // What an operator paused stays so, whatever else in it waits.
                if self.pause_reason != Some(PauseReason::Operator) {
                    self.pause_reason = Some(*reason);
                }
            }
            // Resumed from its journal it is what it was before, and a process executes it.
            EventKind::RunResumed { recovered: true, redefined, waiting, .. } => {
                if let Some(redefined) = redefined {
                    self.definition = redefined.definition.clone().or_else(|| self.definition.take());
                    self.pause_reason = *waiting;
                    self.status = if waiting.is_some() { RunStatus::Paused } else { RunStatus::Running };
                }
                if self.status == RunStatus::Queued {
                    self.status = RunStatus::Running;
                }
            }
            EventKind::RunResumed { recovered: false, waiting, .. } if self.status == RunStatus::Compensating => {
                self.pause_reason = *waiting;
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
            EventKind::RunCompensating { error, cancelled, .. } => {
                let why = cancelled.as_ref().map_or_else(|| error.message.clone(), ToString::to_string);
                self.end(RunStatus::Compensating, Some(why));
            }
            EventKind::RunCompensated { left, .. } if !left.is_empty() => {
                let why = self.error.take().unwrap_or_default();
                self.error = Some(format!("{why}; {}", NotUndone::list(left)));
            }
            EventKind::ModelCompleted(response) => {
                if let Some(usage) = &mut self.usage {
                    usage.add(&response.usage);
                }
            }
            EventKind::RunCompleted(_) => self.end(RunStatus::Success, None),
            EventKind::RunFailed { error } => self.end(RunStatus::Failed, Some(error.message.clone())),
            // That of one that undid what it had done says what is not undone.
            EventKind::RunCancelled { .. } if self.status == RunStatus::Compensating => {
                self.end(RunStatus::Cancelled, self.error.clone());
            }
            EventKind::RunCancelled { reason, .. } => self.end(RunStatus::Cancelled, Some(reason.to_string())),
            _ => {}
        }
    }

    fn end(&mut self, status: RunStatus, error: Option<String>) {
        self.status = status;
        self.pause_reason = None;
        self.error = error;
    }
}

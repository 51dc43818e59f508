//! [`RunRecord`] and [`RunStatus`]: the row of a run in a list. It is computed from events, so that
//! lists need no journals.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::recorded_questions::RecordedQuestions;
use crate::event::{
    DocumentVersion, Event, EventKind, NotUndone, PauseReason, RunBody, RunId, SessionPlace,
};
use crate::model::Usage;
use crate::time::Timestamp;

/// The status of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
#[doc(alias = "WorkflowRunStatus")]
pub enum RunStatus {
    /// The run can continue but no process executes it: it was started as
    /// [queued](crate::runtime::StartRun::queued), or an operator answered, retried or unpaused it after its
    /// process had ended. A process that resumes the run executes it.
    Queued,
    /// A process executes the run, or ended while executing it.
    Running,
    /// The run waits for a person or an operator.
    Paused,
    /// The run failed or was cancelled, and compensates completed steps or still has to; no other
    /// step starts. If no process executes it, a process that resumes the run continues.
    Compensating,
    /// The run completed with an output.
    Success,
    /// The run failed.
    Failed,
    /// The run was cancelled.
    Cancelled,
}

impl RunStatus {
    /// All statuses of this release.
    pub const ALL: &[Self] = &[
        Self::Queued,
        Self::Running,
        Self::Paused,
        Self::Compensating,
        Self::Success,
        Self::Failed,
        Self::Cancelled,
    ];

    /// Returns `true` if the run has ended. It only continues if an operator retries it.
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
    type Err = UnknownRunStatus;

    /// Parses the name of a status.
    ///
    /// # Errors
    /// There is no status of this name.
    fn from_str(text: &str) -> Result<Self, UnknownRunStatus> {
        for status in Self::ALL {
            if status.as_str() == text {
                return Ok(*status);
            }
        }
        Err(UnknownRunStatus { name: text.to_owned() })
    }
}

/// Error of a string that is not the name of a [`RunStatus`]. The message lists the names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownRunStatus {
    name: String,
}

impl UnknownRunStatus {
    /// Returns the unknown name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for UnknownRunStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not a status; it is one of ", self.name)?;
        for (at, status) in RunStatus::ALL.iter().enumerate() {
            let between = if at == 0 { "" } else { ", " };
            write!(f, "{between}{status}")?;
        }
        Ok(())
    }
}

impl std::error::Error for UnknownRunStatus {}

/// The row of a run in a list. It is computed from the events of the run, and a store may cache it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunRecord {
    /// Id of the run.
    pub run_id: RunId,
    /// Name of the agent or workflow.
    pub name: Arc<str>,
    /// Definition hash of the workflow; `None` for an agent.
    pub definition: Option<Arc<str>>,
    /// Status of the run.
    pub status: RunStatus,
    /// Event that a paused run waits for.
    pub pause_reason: Option<PauseReason>,
    /// Error of a failed run, or reason of a cancelled or compensating run, including the calls
    /// that could not be compensated.
    pub error: Option<String>,
    /// Time at which the run started.
    pub created: Timestamp,
    /// Time of the last recorded event.
    pub updated: Timestamp,
    /// Number of recorded events.
    pub events: u64,
    /// Caller on whose behalf the run was started.
    #[serde(default)]
    pub caller: Option<Arc<str>>,
    /// Tags of the run.
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    /// Position in the session that the run belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<Box<SessionPlace>>,
    /// Tokens of all model responses of the run so far, including nested agents and workflows.
    /// `None` for a run that started in a release that did not count them in the record;
    /// [`Runs::usage`](crate::runtime::Runs::usage) reads the journal of the run instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Open questions of the run. `None` for a run that started in a release that did not keep them
    /// in the record, and in a store that does not; they are then read from the journal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub questions: Option<RecordedQuestions>,
    /// Version of the stored document with which the run started. `None` for workflows of the program
    /// and of folders, and for agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document: Option<Arc<DocumentVersion>>,
}

impl RunRecord {
    /// Creates the record of a run from its first event. Returns `None` if that is not
    /// `run.started`.
    pub fn new(first: &Event) -> Option<Self> {
        let EventKind::RunStarted(started) = &first.kind else { return None };
        Some(Self {
            run_id: first.run_id.clone(),
            name: started.name().into(),
            definition: match &started.body {
                RunBody::Workflow(workflow) => Some(Arc::clone(&workflow.definition)),
                RunBody::Agent(_) => None,
            },
            status: match started.terms().queued {
                true => RunStatus::Queued,
                false => RunStatus::Running,
            },
            pause_reason: None,
            error: None,
            created: first.time,
            updated: first.time,
            events: 1,
            caller: started.caller.clone(),
            tags: started.tags.clone(),
            session: started.session.clone(),
            usage: Some(Usage::default()),
            questions: Some(RecordedQuestions::default()),
            document: started.document.clone(),
        })
    }

    /// Rebuilds a record from the columns of a store. Set the fields of the other columns
    /// afterwards: the default of `updated` is `created`, `events` is 0, and the other fields are
    /// empty.
    pub fn from_stored(
        run_id: RunId,
        name: impl Into<Arc<str>>,
        status: RunStatus,
        created: Timestamp,
    ) -> Self {
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
            questions: None,
            document: None,
        }
    }

    /// Creates the record of a run from its events. Returns `None` if they do not start with
    /// `run.started`.
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
        if let Some(questions) = &mut self.questions {
            let compensates = self.status == RunStatus::Compensating;
            questions.apply(event, self.definition.is_none(), compensates);
        }
        match &event.kind {
            EventKind::RunPaused { reason, .. } => {
                // A compensating tool may ask for an approval. The run still counts as
                // compensating.
                if self.status != RunStatus::Compensating {
                    self.status = RunStatus::Paused;
                }
                // A pause by an operator has precedence over other reasons to wait.
                if self.pause_reason != Some(PauseReason::Operator) {
                    self.pause_reason = Some(*reason);
                }
            }
            // A run that is recovered from its journal keeps its status, except that a queued run
            // is now executed by a process.
            EventKind::RunResumed { recovered: true, redefined, waiting, .. } => {
                if let Some(redefined) = redefined {
                    self.definition =
                        redefined.definition.clone().or_else(|| self.definition.take());
                    self.pause_reason = *waiting;
                    self.status =
                        if waiting.is_some() { RunStatus::Paused } else { RunStatus::Running };
                }
                if self.status == RunStatus::Queued {
                    self.status = RunStatus::Running;
                }
            }
            EventKind::RunResumed { recovered: false, waiting, .. }
                if self.status == RunStatus::Compensating =>
            {
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
                let why =
                    cancelled.as_ref().map_or_else(|| error.message.clone(), ToString::to_string);
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
            EventKind::RunFailed { error } => {
                self.end(RunStatus::Failed, Some(error.message.clone()));
            }
            // The status of a compensating run already lists the calls that could not be
            // compensated, so its error is kept.
            EventKind::RunCancelled { .. } if self.status == RunStatus::Compensating => {
                self.end(RunStatus::Cancelled, self.error.clone());
            }
            EventKind::RunCancelled { reason, .. } => {
                self.end(RunStatus::Cancelled, Some(reason.to_string()));
            }
            _ => {}
        }
    }

    fn end(&mut self, status: RunStatus, error: Option<String>) {
        self.status = status;
        self.pause_reason = None;
        self.error = error;
    }
}

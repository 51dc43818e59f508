//! [`RecordedQuestions`]: the open questions of a run in its record, so that an inbox reads no
//! journals.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::event::{ApprovalRequest, Event, EventKind, Subject};
use crate::path::StepPath;
use crate::time::Timestamp;

/// The open questions of a run in its [record](super::RunRecord). They are computed from the events
/// of the run, and a store keeps them as their JSON.
///
/// A record is read for each run of a list, so its size is limited. A question of more than 16 KiB
/// as JSON, or one with which the questions would exceed 64 KiB together, is kept without its
/// content. Of more than 64 questions, the record lists the first ones. In both cases
/// [`is_complete`](Self::is_complete) returns `false`, and
/// [`Runs::questions`](crate::runtime::Runs::questions) reads the journal of this run instead.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RecordedQuestions {
    /// The questions, ordered by path.
    pub open: Vec<RecordedQuestion>,
    /// `true` if more questions were open at the same time than a record lists. It stays `true` until
    /// the run ends.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_more: bool,
}

/// An open question in the record of its run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RecordedQuestion {
    /// Path of the node or call that asks.
    pub path: StepPath,
    /// Time at which it was asked.
    pub asked: Timestamp,
    /// The question; `None` if it is too large for a record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Arc<ApprovalRequest>>,
}

impl RecordedQuestions {
    /// Maximum number of questions in a record.
    pub const MAX_QUESTIONS: usize = 64;
    /// Maximum size of a question as JSON, in bytes.
    pub const MAX_QUESTION_BYTES: usize = 16 << 10;
    /// Maximum size of all questions of a record as JSON, in bytes.
    pub const MAX_BYTES: usize = 64 << 10;

    /// Returns `true` if all open questions of the run are listed with their content.
    pub fn is_complete(&self) -> bool {
        !self.has_more && self.open.iter().all(|question| question.request.is_some())
    }

    /// Applies the next event of the run of an agent or a workflow. `compensates` is `true` if the run
    /// was compensating before the event. The rules are those that `RunState` applies to all nodes.
    pub(super) fn apply(&mut self, event: &Event, is_agent: bool, compensates: bool) {
        let (path, kind) = (&event.path, &event.kind);
        if let EventKind::ApprovalRequested(request) = kind {
            return self.ask(path, event.time, request);
        }
        // A run ends or compensates as a whole.
        if matches!(
            kind,
            EventKind::RunCompleted(_)
                | EventKind::RunCancelled { .. }
                | EventKind::RunCompensating { .. }
        ) {
            self.has_more = false;
            return self
                .open
                .retain(|question| question.path == *path || !question.path.belongs_to(path));
        }
        if self.open.is_empty() {
            return;
        }
        match kind {
            EventKind::RunResumed { recovered, redefined, .. } => {
                // A question below a call is withdrawn when the call continues.
                if !*recovered && path.is_question() {
                    self.close(path);
                }
                if let Some(redefined) = redefined
                    && (*recovered || compensates)
                {
                    self.open.retain(|question| {
                        !redefined.forgotten.iter().any(|node| question.path.belongs_to(node))
                    });
                }
            }
            EventKind::NodeStarted { .. }
            | EventKind::NodeCompleted { .. }
            | EventKind::NodeRetrying { .. }
            | EventKind::NodeFailed { .. }
            | EventKind::NodeSkipped { .. }
            | EventKind::NodeReset { .. }
            | EventKind::ApprovalResolved { .. } => self.close(path),
            EventKind::ModelStarted { .. }
            | EventKind::ModelRetrying { .. }
            | EventKind::ModelFailed { .. }
            | EventKind::ModelCompleted(_)
            | EventKind::ToolStarted { .. }
            | EventKind::ToolCompleted { .. }
            | EventKind::ToolFailed { .. }
                if is_agent && path.is_step_of(&StepPath::root()) =>
            {
                self.close(path);
            }
            _ => {}
        }
        let shape = kind.shape();
        if matches!(shape.subject, Subject::Workflow | Subject::Node) && shape.edge.ends_attempt() {
            self.open.retain(|question| question.path == *path || !question.path.belongs_to(path));
        }
    }

    fn ask(&mut self, path: &StepPath, asked: Timestamp, request: &Arc<ApprovalRequest>) {
        self.close(path);
        if self.open.len() >= Self::MAX_QUESTIONS {
            self.has_more = true;
            return;
        }
        let size = bytes(request);
        let others = self.open.iter().filter_map(|question| question.request.as_deref());
        let fits = size <= Self::MAX_QUESTION_BYTES
            && size + others.map(bytes).sum::<usize>() <= Self::MAX_BYTES;
        let question = RecordedQuestion {
            path: path.clone(),
            asked,
            request: fits.then(|| Arc::clone(request)),
        };
        let at = self.open.partition_point(|other| other.path < question.path);
        self.open.insert(at, question);
    }

    fn close(&mut self, path: &StepPath) {
        self.open.retain(|question| question.path != *path);
    }
}

/// Returns the size of a question as JSON.
fn bytes(request: &ApprovalRequest) -> usize {
    /// Counts the bytes that are written.
    struct Counter(usize);
    impl std::io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    match serde_json::to_writer(&mut counter, request) {
        Ok(()) => counter.0,
        // A question without a JSON form cannot be recorded.
        Err(_) => usize::MAX / 2,
    }
}

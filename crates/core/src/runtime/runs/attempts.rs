//! Attempts at the nodes of a run and at their calls, with input and output, derived from the run's
//! journal.

use std::collections::HashMap;

use serde::Serialize;

use crate::event::{Edge, Event, EventKind, Shape, Subject};
use crate::failure::FailureKind;
use crate::message::ToolStatus;
use crate::path::StepPath;
use crate::time::Timestamp;
use crate::value::Encoded;

/// An attempt at a node, a model call or a tool call.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct AttemptReport {
    /// Number of the attempt, starting at 1. An attempt that a crash interrupted and that was
    /// started again appears twice.
    pub number: u32,
    /// Time at which it started, or at which a person was asked.
    pub began: Timestamp,
    /// Time at which it ended. `None` while it is running, and if its process stopped during the
    /// attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<Timestamp>,
    /// Duration in milliseconds, computed from the times above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Input, if the journal contains it: the arguments of a tool, or the subject of a question.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Encoded>,
    /// Output: of a node, a message of a model, the result of a tool, or a person's answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Encoded>,
    /// Error of a failed attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Person who approved or answered it, as given with the answer. If middleware provided the
    /// result, the name of the middleware.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<String>,
    /// `true` if the attempt was cancelled.
    #[serde(skip)]
    pub(crate) cancelled: bool,
}

/// All attempts by path, in the order in which they started.
pub(crate) struct Attempts(HashMap<StepPath, Vec<AttemptReport>>);

/// State of reading the attempts at a path.
#[derive(Default)]
struct PathAttempts {
    attempts: Vec<AttemptReport>,
    /// A question that was asked and perhaps answered. It belongs to the next attempt that starts,
    /// if there is one.
    question: Option<AttemptReport>,
}

impl Attempts {
    pub(crate) fn from_events(events: &[Event]) -> Self {
        let mut all: HashMap<StepPath, PathAttempts> = HashMap::new();
        for Event { path, time, kind, .. } in events {
            let Shape { subject, edge, .. } = kind.shape();
            let is_asked = matches!(
                kind,
                EventKind::ApprovalRequested(_) | EventKind::ApprovalResolved { .. }
            );
            let is_retried = matches!(kind, EventKind::ToolRetrying { .. });
            // The events of nested agents and workflows have the path of their node, and the node's
            // events end them.
            let is_step = matches!(subject, Subject::Node | Subject::Model | Subject::Tool);
            if is_asked || is_retried || is_step && edge != Edge::Marks {
                all.entry(path.clone()).or_default().apply(*time, kind);
            }
        }
        Self(all.into_iter().map(|(path, reading)| (path, reading.finish())).collect())
    }

    /// Removes and returns the attempts at a path.
    pub(crate) fn take(&mut self, path: &StepPath) -> Vec<AttemptReport> {
        self.0.remove(path).unwrap_or_default()
    }

    /// Returns the remaining model and tool calls with their attempts, ordered by path.
    pub(crate) fn into_calls(self) -> impl Iterator<Item = (StepPath, Vec<AttemptReport>)> {
        let mut calls: Vec<_> =
            self.0.into_iter().filter(|(path, _)| path.turn().is_some()).collect();
        calls.sort_by(|(one, _), (other, _)| one.cmp(other));
        calls.into_iter()
    }
}

impl PathAttempts {
    fn apply(&mut self, time: Timestamp, kind: &EventKind) {
        match kind {
            EventKind::ApprovalRequested(request) => {
                let mut question = AttemptReport::begun(self.next(), time);
                question.input = Some(request.payload.clone());
                self.question = Some(question);
            }
            EventKind::ApprovalResolved { answer, by } => {
                if let Some(question) = &mut self.question {
                    question.end(time);
                    question.output = Some(answer.clone());
                    question.answered_by = Some(by.to_string());
                }
            }
            EventKind::NodeStarted { attempt, .. } => self.begin(*attempt, time, None),
            EventKind::ModelStarted { .. } => self.begin(self.next(), time, None),
            EventKind::ToolStarted { call, .. } => {
                // Arguments that are not valid JSON are reported as a string.
                let arguments = Encoded::from_json(call.arguments.clone());
                let arguments = arguments.or_else(|_| Encoded::new(&call.arguments));
                self.begin(self.next(), time, arguments.ok());
            }
            EventKind::NodeCompleted { output, duration_ms, .. } => {
                self.begun_before(time, *duration_ms);
                self.end(time, |attempt| attempt.output = Some(output.clone()));
            }
            EventKind::ModelCompleted(response) => self.end(time, |attempt| {
                attempt.output = Encoded::new(&response.message).ok();
                attempt.answered_by = response.answered_by.as_ref().map(ToString::to_string);
            }),
            EventKind::ToolCompleted { result, answered_by, .. } => self.end(time, |attempt| {
                attempt.output = Encoded::from_json(result.output.clone()).ok();
                attempt.answered_by =
                    answered_by.as_ref().map(ToString::to_string).or(attempt.answered_by.take());
            }),
            EventKind::ToolFailed { result, answered_by, .. } => self.end(time, |attempt| {
                attempt.error = Some(result.output.clone());
                attempt.cancelled = result.status == ToolStatus::Cancelled;
                attempt.answered_by =
                    answered_by.as_ref().map(ToString::to_string).or(attempt.answered_by.take());
            }),
            // A single event ends the failed attempt and announces the next one.
            EventKind::ToolRetrying { attempt, error, delay_ms } => {
                let input = self.attempts.last().and_then(|attempt| attempt.input.clone());
                self.end(time, |attempt| attempt.error = Some(error.whole().into_owned()));
                let begins = Timestamp::from_millis(time.as_millis().saturating_add(*delay_ms));
                self.begin(attempt + 1, begins, input);
            }
            kind => {
                if let Some(error) = kind.error() {
                    self.end(time, |attempt| {
                        attempt.error = Some(error.whole().into_owned());
                        attempt.cancelled = error.kind == FailureKind::Cancelled;
                    });
                }
            }
        }
    }

    fn next(&self) -> u32 {
        self.attempts.last().map_or(1, |attempt| attempt.number + 1)
    }

    fn begin(&mut self, number: u32, time: Timestamp, input: Option<Encoded>) {
        let mut attempt = AttemptReport::begun(number, time);
        attempt.input = input;
        if let Some(question) = self.question.take() {
            attempt.input = attempt.input.or(question.input);
            attempt.answered_by = question.answered_by;
        }
        self.attempts.push(attempt);
    }

    /// Adds a start for a node whose start is omitted by a snapshot.
    fn begun_before(&mut self, ended: Timestamp, duration_ms: u64) {
        if self.question.is_none()
            && self.attempts.last().is_none_or(|attempt| attempt.ended.is_some())
        {
            self.begin(
                self.next(),
                Timestamp::from_millis(ended.as_millis().saturating_sub(duration_ms)),
                None,
            );
        }
    }

    /// Ends the last attempt. Does nothing if no attempt was started, for example for a node that
    /// was cancelled before.
    fn end(&mut self, time: Timestamp, how: impl FnOnce(&mut AttemptReport)) {
        let open = self.attempts.last_mut().filter(|attempt| attempt.ended.is_none());
        // Denying a question ends its node.
        if let Some(attempt) = open.or(self.question.as_mut()) {
            attempt.end(time);
            how(attempt);
        }
    }

    fn finish(mut self) -> Vec<AttemptReport> {
        self.attempts.extend(self.question);
        self.attempts
    }
}

impl AttemptReport {
    fn begun(number: u32, began: Timestamp) -> Self {
        Self {
            number,
            began,
            ended: None,
            duration_ms: None,
            input: None,
            output: None,
            error: None,
            cancelled: false,
            answered_by: None,
        }
    }

    fn end(&mut self, time: Timestamp) {
        self.ended = Some(time);
        self.duration_ms = u64::try_from(time.since(self.began).as_millis()).ok();
    }
}

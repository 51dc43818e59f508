//! The attempts at the nodes of a run and at the calls below them, with what each was given and gave, read from the run's
//! journal. It keeps nothing and writes nothing.

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
    /// Which one it is, from 1. One that a crash interrupted and that was begun again is there twice.
    pub number: u32,
    /// When it began, or when a person was asked.
    pub began: Timestamp,
    /// When it ended; `None` while it has no end, also when its process died in the middle of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<Timestamp>,
    /// How long it took, in milliseconds, by the times above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// What it was given, where the journal has it: a tool's arguments, what a question was about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Encoded>,
    /// What it gave: a node's output, a model's message, a tool's answer, a person's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Encoded>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Who agreed to it or answered, as given with the answer; of a call that middleware answered, the middleware.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<String>,
    /// `true` if the attempt was cancelled.
    #[serde(skip)]
    pub(super) cancelled: bool,
}

/// All attempts by their path, in the order of their beginning.
pub(super) struct Attempts(HashMap<StepPath, Vec<AttemptReport>>);

/// The attempts at one path while they are read.
#[derive(Default)]
struct Reading {
    attempts: Vec<AttemptReport>,
    /// A person was asked and, when there is an end, has answered; it belongs to the attempt that begins next, if one does.
    question: Option<AttemptReport>,
}

impl Attempts {
    pub(super) fn of(events: &[Event]) -> Self {
        let mut all: HashMap<StepPath, Reading> = HashMap::new();
        for Event { path, time, kind, .. } in events {
            let Shape { subject, edge, .. } = kind.shape();
            let is_asked = matches!(kind, EventKind::ApprovalRequested(_) | EventKind::ApprovalResolved { .. });
            let is_retried = matches!(kind, EventKind::ToolRetrying { .. });
            // Agents and workflows that are steps are at the paths of their nodes, whose ends are these.
            let is_step = matches!(subject, Subject::Node | Subject::Model | Subject::Tool);
            if is_asked || is_retried || is_step && edge != Edge::Marks {
                all.entry(path.clone()).or_default().apply(*time, kind);
            }
        }
        Self(all.into_iter().map(|(path, reading)| (path, reading.finish())).collect())
    }

    /// Those at one path.
    pub(super) fn take(&mut self, path: &StepPath) -> Vec<AttemptReport> {
        self.0.remove(path).unwrap_or_default()
    }

    /// The paths of the calls of models and tools that are left, with their attempts, in order.
    pub(super) fn into_calls(self) -> impl Iterator<Item = (StepPath, Vec<AttemptReport>)> {
        let mut calls: Vec<_> = self.0.into_iter().filter(|(path, _)| path.turn().is_some()).collect();
        calls.sort_by(|(one, _), (other, _)| one.cmp(other));
        calls.into_iter()
    }
}

impl Reading {
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
                attempt.answered_by = answered_by.as_ref().map(ToString::to_string).or(attempt.answered_by.take());
            }),
            EventKind::ToolFailed { result, answered_by, .. } => self.end(time, |attempt| {
                attempt.error = Some(result.output.clone());
                attempt.cancelled = result.status == ToolStatus::Cancelled;
                attempt.answered_by = answered_by.as_ref().map(ToString::to_string).or(attempt.answered_by.take());
            }),
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

    /// A snapshot has the end of a node without its beginning.
    fn begun_before(&mut self, ended: Timestamp, duration_ms: u64) {
        if self.question.is_none() && self.attempts.last().is_none_or(|attempt| attempt.ended.is_some()) {
            self.begin(self.next(), Timestamp::from_millis(ended.as_millis().saturating_sub(duration_ms)), None);
        }
    }

    /// Ends the last attempt; what ends without having begun, such as a node that was cancelled before, has none.
    fn end(&mut self, time: Timestamp, how: impl FnOnce(&mut AttemptReport)) {
        let open = self.attempts.last_mut().filter(|attempt| attempt.ended.is_none());
        // A denied question ends its node.
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

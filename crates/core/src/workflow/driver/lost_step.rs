//! What becomes of a step whose executor gave no outcome that can be used: what is recorded counts, what was begun and may
//! not simply be done again is asked about as after the end of a process, and everything else is a failure that may be
//! repeated.
//!
//! It hands out nothing and repeats nothing.

use std::sync::Arc;

use crate::context::attempt_of;
use crate::error::{Failure, FailureKind};
use crate::event::{EventKind, Subject};
use crate::executor::{ExecutorError, ExecutorErrorKind, StepCall};
use crate::message::ToolStatus;
use crate::path::{PathSegment, StepPath};
use crate::run::{RunShared, RunState};
use crate::tool::unknown_below;
use crate::value::Encoded;
use crate::workflow::machine::{Unit, stopped};
use crate::workflow::spec::{Body, NodeSpec, Spec};
use crate::workflow::step_error::StepError;

/// Stands for the error of a step that was stopped elsewhere, in the middle of something or by a drained worker: another
/// attempt continues it at once, and asks what became of what may not simply be done again.
pub(super) struct StoppedInMiddle;

/// An attempt at a step that was handed out.
pub(super) struct HandedStep {
    pub(super) spec: Arc<Spec>,
    pub(super) unit: Unit,
    pub(super) shared: Arc<RunShared>,
    pub(super) call: StepCall,
    /// How many records of the run it follows.
    pub(super) since: usize,
}

impl HandedStep {
    fn node(&self) -> &NodeSpec {
        self.spec.node(self.unit.node)
    }

    /// Whether an output is of the step's type.
    ///
    /// # Errors
    /// When it is not: it is not the outcome of this step.
    pub(super) fn fits(&self, output: &Encoded) -> Result<(), ExecutorError> {
        let node = self.node();
        let list;
        let output = match (&node.body, self.unit.child) {
            (Body::Map { collects: true, .. }, Some(_)) => {
                list = Encoded::list([output]);
                &list
            }
            // Nobody reads it.
            (Body::Map { .. }, Some(_)) => return Ok(()),
            // The round ended without an output, so that of the round before counts.
            (Body::Repeat { .. }, Some(_)) if output.as_str() == "\"\"" => return Ok(()),
            _ => output,
        };
        self.problem_of(output).map_or(Ok(()), |problem| {
            let message = format!(
                "the output of `{}` that came back is not the `{}` that the step gives: {problem}",
                self.call.path,
                self.type_name()
            );
            Err(ExecutorError::new(ExecutorErrorKind::Unreadable, message))
        })
    }

    fn problem_of(&self, output: &Encoded) -> Option<String> {
        #[cfg(feature = "dynamic")]
        if let Some(derived) = self.spec.derived.get(self.unit.node as usize) {
            let check = agentflow_schema::schema_check::SchemaCheck::new(&derived.schema).ok()?;
            return output.decode().map_err(|error| error.to_string()).and_then(|value| check.check(&value)).err();
        }
        self.node().schema.check_type(output).err().map(|error| error.to_string())
    }

    /// The type of the step's output: of an item, that of the list's items.
    fn type_name(&self) -> &str {
        let name = &*self.node().type_name;
        match self.unit.child {
            Some(_) => name.strip_prefix("alloc::vec::Vec<").and_then(|name| name.strip_suffix('>')).unwrap_or(name),
            None => name,
        }
    }

    /// How the attempt ends whose executor gave no outcome; `taken` says whether somebody had begun to execute it.
    pub(super) fn lost(&self, error: &ExecutorError, taken: bool) -> Result<Encoded, StepError> {
        let path = &self.call.path;
        let problem = self.shared.host.redacted(error);
        tracing::warn!(run = %self.shared.id, %path, error = problem, "a step that was handed out has no outcome");
        let failure = Failure::new(error.failure_kind(), error.to_string());
        if taken {
            if let Some(recorded) = self.recorded() {
                return recorded;
            }
            if !self.node().policy.repeatable.unwrap_or(true) {
                return Err(StepError::recorded(asking(format!(
                    "{error}; whether the step had its effect is unknown"
                ))));
            }
        }
        let open = unknown_below(&self.shared, path);
        if open.is_empty() {
            return Err(StepError::recorded(failure));
        }
        let names: Vec<String> = open.iter().map(|path| format!("`{path}`")).collect();
        let message = format!("{error}, in the middle of {}", names.join(", "));
        let began = self.shared.log.records_since(self.since, path);
        if began.iter().any(|(_, of, kind)| kind.begins_once() && open.contains(of)) {
            // What it continues says what is to be asked, and where.
            let failure = Failure::new(FailureKind::Interrupted, message);
            return Err(StepError { failure, original: Some(Box::new(StoppedInMiddle)) });
        }
        match self.node().policy.retry.delay(self.call.failed.saturating_add(1), &failure) {
            Some(_) => Err(StepError::recorded(failure)),
            // Nobody has asked yet, and a retry would do it again.
            None => {
                let whether = if open.len() == 1 { "whether it had its effect" } else { "which had their effects" };
                Err(StepError::recorded(asking(format!("{message}; {whether} is unknown"))))
            }
        }
    }

    /// How the attempt ends that whoever executed it has left, since it is drained: as a run that its process has left, the
    /// step continues elsewhere. One that had done nothing meanwhile is lost, so that there is no endless row of attempts.
    pub(super) fn left(&self) -> Result<Encoded, StepError> {
        let error = ExecutorError::lost(
            "what executed the step was drained before the step had ended; retry the step, or give its node a retry policy",
        );
        let is_repeatable = self.node().policy.repeatable.unwrap_or(true);
        let recorded = self.shared.log.records_since(self.since, &self.call.path);
        let has_done =
            recorded.iter().any(|(_, path, kind)| *path != self.call.path || kind.shape().subject != Subject::Node);
        if !is_repeatable || !has_done {
            return self.lost(&error, true);
        }
        let failure =
            Failure::new(FailureKind::Interrupted, "what executed the step was drained before the step had ended");
        Err(StepError { failure, original: Some(Box::new(StoppedInMiddle)) })
    }

    /// The outcome of a step that is the call of one tool, when the call has it on record.
    fn recorded(&self) -> Option<Result<Encoded, StepError>> {
        let (name, step) = (&self.node().called.as_ref()?.name, &self.call.path);
        let records = self.shared.log.records_since(self.since, step);
        let is_call = |path: &StepPath| {
            matches!(path.segments().last(), Some(PathSegment::Tool { name: of, .. }) if of.as_ref() == &**name)
                && path.parent().is_some_and(|parent| attempt_of(step, &parent).is_some())
        };
        let mut began =
            records.iter().filter(|(_, path, kind)| matches!(kind, EventKind::ToolStarted { .. }) && is_call(path));
        let (Some((_, call, _)), None) = (began.next(), began.next()) else { return None };
        let is_result = self.type_name().starts_with("core::result::Result<");
        let wrapped = |variant: &str, json: &str| Encoded::from_json(format!("{{\"{variant}\":{json}}}")).ok();
        let ended = records.iter().rev().find_map(|(_, path, kind)| match kind {
            EventKind::ToolCompleted { result, .. } if path == call => Some(match is_result {
                true => Ok(wrapped("Ok", &result.output)),
                false => Ok(Encoded::from_json(result.output.clone()).ok()),
            }),
            EventKind::ToolFailed { result, error, answered_by, cause, .. }
                if path == call && result.status.is_outcome() =>
            {
                let is_value = result.status == ToolStatus::Error && answered_by.is_none();
                Some(match (is_value && is_result, error) {
                    (true, Some(error)) => Ok(wrapped("Err", error.as_str())),
                    (true, None) => Ok(None),
                    (false, _) => {
                        let failure = Failure::new(result.status.as_str(), &*result.output).because(cause.as_deref());
                        Err(StepError::recorded(failure))
                    }
                })
            }
            _ => None,
        });
        match ended? {
            Ok(output) => output.filter(|output| self.fits(output).is_ok()).map(Ok),
            Err(failed) => Some(Err(failed)),
        }
    }
}

/// Gives what a step that was executed elsewhere left open its end. The nodes of a workflow in it are stopped, as they are
/// where the run is: a further attempt at the step continues them, and asks about what may not simply be done again.
pub(super) fn close_below(shared: &RunShared, step: &StepPath, since: usize, reason: &str) {
    let closings = RunState::closings_below(step, &shared.log.records_since(since, step), reason);
    if closings.is_empty() {
        return;
    }
    let open = unknown_below(shared, step);
    for (path, kind) in closings {
        let kind = match kind {
            EventKind::NodeFailed { attempt, .. } => {
                let begun_once = open.iter().any(|of| *of != path && of.is_within(&path));
                let error = Arc::new(Failure::new(FailureKind::Cancelled, stopped(reason, begun_once)));
                EventKind::NodeFailed { attempt, error }
            }
            kind => kind,
        };
        shared.record(path, kind);
    }
}

/// The failure of a step that waits for an operator.
fn asking(what: String) -> Failure {
    Failure::new(FailureKind::Interrupted, what + ": find out, then retry the node or cancel the run")
}

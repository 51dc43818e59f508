//! Outcome of a step whose executor returned no usable result.
//!
//! - If the journal contains the outcome of the step's only call, that outcome counts.
//! - If a call had started that must not be repeated without a decision, an operator is asked, as
//!   after a restart.
//! - Otherwise the attempt fails, and the retry policy may repeat it.

use std::sync::Arc;

use crate::context::attempt_of;
use crate::error::{Failure, FailureKind};
use crate::event::{EventKind, Subject};
use crate::executor::{ExecutorError, ExecutorErrorKind, StepCall};
use crate::message::ToolStatus;
use crate::path::{PathSegment, StepPath};
use crate::run::{RunShared, RunState};
use crate::tool::unknown_writes;
use crate::value::Encoded;
use crate::workflow::machine::{Unit, stopped};
use crate::workflow::spec::{Body, PlanNode, Spec};
use crate::workflow::step_error::StepError;

/// Marks the error of a step that was stopped in another process, by a loss or by draining. The
/// next attempt starts at once and asks about calls that must not be repeated without a decision.
pub(super) struct StoppedRemotely;

/// An attempt at a step that was handed to an executor.
pub(super) struct DispatchedStep {
    pub(super) spec: Arc<Spec>,
    pub(super) unit: Unit,
    pub(super) shared: Arc<RunShared>,
    pub(super) call: StepCall,
    /// Number of records of the run before the attempt.
    pub(super) since: usize,
}

impl DispatchedStep {
    fn node(&self) -> &PlanNode {
        self.spec.node(self.unit.node)
    }

    /// Checks that an output has the type of the step.
    ///
    /// # Errors
    /// If it does not, in which case the output does not belong to this step.
    pub(super) fn fits(&self, output: &Encoded) -> Result<(), ExecutorError> {
        let node = self.node();
        let list;
        let output = match (&node.body, self.unit.child) {
            (Body::Map { collects: true, .. }, Some(_)) => {
                list = Encoded::list([output]);
                &list
            }
            // The output of such an item is discarded.
            (Body::Map { .. }, Some(_)) => return Ok(()),
            // The round ended without an output, so the output of the previous round counts.
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
            return output
                .decode()
                .map_err(|error| error.to_string())
                .and_then(|value| check.check(&value).map_err(|mismatches| mismatches.to_string()))
                .err();
        }
        self.node().schema.check_type(output).err().map(|error| error.to_string())
    }

    /// Returns the type name of the step's output. For an item, this is the element type of the
    /// list.
    fn type_name(&self) -> &str {
        let name = &*self.node().type_name;
        match self.unit.child {
            Some(_) => name
                .strip_prefix("alloc::vec::Vec<")
                .and_then(|name| name.strip_suffix('>'))
                .unwrap_or(name),
            None => name,
        }
    }

    /// Returns the end of an attempt whose executor gave no outcome. `taken` is `true` if a process
    /// had started to execute it.
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
        // Calls in the step whose effect is unknown decide if the step may run again.
        let open = unknown_writes(&self.shared, path);
        if open.is_empty() {
            return Err(StepError::recorded(failure));
        }
        let names: Vec<String> = open.iter().map(|path| format!("`{path}`")).collect();
        let message = format!("{error}, in the middle of {}", names.join(", "));
        let began = self.shared.log.records_since(self.since, path);
        if began.iter().any(|(_, of, kind)| kind.is_unrepeatable_start() && open.contains(of)) {
            // The next attempt continues the step, and asks at the right place.
            let failure = Failure::new(FailureKind::Interrupted, message);
            return Err(StepError { failure, original: Some(Box::new(StoppedRemotely)) });
        }
        match self.node().policy.retry.delay(self.call.failed.saturating_add(1), &failure) {
            Some(_) => Err(StepError::recorded(failure)),
            // No retry follows that could ask, and a retry by an operator would repeat these calls.
            None => {
                let whether = if open.len() == 1 {
                    "whether it had its effect"
                } else {
                    "which had their effects"
                };
                Err(StepError::recorded(asking(format!("{message}; {whether} is unknown"))))
            }
        }
    }

    /// Returns the end of an attempt whose worker was drained. The step continues in another
    /// process. An attempt without any progress counts as lost, so that attempts cannot repeat
    /// forever.
    pub(super) fn left(&self) -> Result<Encoded, StepError> {
        let error = ExecutorError::lost(
            "what executed the step was drained before the step had ended; retry the step, or give its node a retry policy",
        );
        let is_repeatable = self.node().policy.repeatable.unwrap_or(true);
        let recorded = self.shared.log.records_since(self.since, &self.call.path);
        let has_done = recorded.iter().any(|(_, path, kind)| {
            *path != self.call.path || kind.shape().subject != Subject::Node
        });
        if !is_repeatable || !has_done {
            return self.lost(&error, true);
        }
        let failure = Failure::new(
            FailureKind::Interrupted,
            "what executed the step was drained before the step had ended",
        );
        Err(StepError { failure, original: Some(Box::new(StoppedRemotely)) })
    }

    /// Returns the recorded outcome of the step, if the step consists of one tool call.
    fn recorded(&self) -> Option<Result<Encoded, StepError>> {
        let (name, step) = (&self.node().called.as_ref()?.name, &self.call.path);
        let records = self.shared.log.records_since(self.since, step);
        let is_call = |path: &StepPath| {
            matches!(path.segments().last(), Some(PathSegment::Tool { name: of, .. }) if of.as_ref() == &**name)
                && path.parent().is_some_and(|parent| attempt_of(step, &parent).is_some())
        };
        let mut began = records.iter().filter(|(_, path, kind)| {
            matches!(kind, EventKind::ToolStarted { .. }) && is_call(path)
        });
        // Several calls to the tool would make the outcome ambiguous.
        let (Some((_, call, _)), None) = (began.next(), began.next()) else { return None };
        let is_result = self.type_name().starts_with("core::result::Result<");
        let wrapped = |variant: &str, json: &str| {
            Encoded::from_json(format!("{{\"{variant}\":{json}}}")).ok()
        };
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
                        let failure = Failure::new(result.status.as_str(), &*result.output)
                            .because(cause.as_deref());
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

/// Records the ends of calls that a step executed in another process left open. Nodes of nested
/// workflows are recorded as stopped: the next attempt at the step continues them, and asks about
/// calls that must not be repeated without a decision.
pub(super) fn close_below(shared: &RunShared, step: &StepPath, since: usize, reason: &str) {
    let closings = RunState::closings_below(step, &shared.log.records_since(since, step), reason);
    if closings.is_empty() {
        return;
    }
    let open = unknown_writes(shared, step);
    for (path, kind) in closings {
        let kind = match kind {
            EventKind::NodeFailed { attempt, .. } => {
                let begun_once = open.iter().any(|of| *of != path && of.is_within(&path));
                let error =
                    Arc::new(Failure::new(FailureKind::Cancelled, stopped(reason, begun_once)));
                EventKind::NodeFailed { attempt, error }
            }
            kind => kind,
        };
        shared.record(path, kind);
    }
}

/// Builds the failure of a step that waits for an operator's decision.
fn asking(what: String) -> Failure {
    Failure::new(
        FailureKind::Interrupted,
        what + ": find out, then retry the node or cancel the run",
    )
}

//! Checks a control request against the state of a run. Returns the events that carry it out, or an
//! error if the request is refused.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::approval::{Approval, asks_approval, read_approval};
use super::control_request::ControlRequest;
use super::host::Host;
use super::state::RunState;
use crate::error::{ControlError, ControlErrorKind};
use crate::event::{ApprovalRequest, EventKind, PauseReason};
use crate::failure::RUN_CANCELLED;
use crate::on_timeout::OnTimeout;
use crate::path::StepPath;
use crate::store::RunStatus;
use crate::value::{Encoded, NodeValue};

/// The process that records the events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recorder {
    /// The process that executes the run.
    Live,
    /// A process that does not execute the run. The run continues when a process resumes it.
    AtRest,
}

impl Host {
    /// Returns the events that carry out the request, in order.
    pub(crate) fn events_for(
        &self,
        state: &RunState,
        request: &ControlRequest,
        recorder: Recorder,
    ) -> Result<Vec<(StepPath, EventKind)>, ControlError> {
        let paused_for = state.waits_for();
        let is_taken = *request == ControlRequest::Drain || request.is_of_undo();
        // A compensating run accepts only requests about its compensations. A retry is refused even
        // after the compensation has ended.
        if state.compensating && !is_taken && (!state.status.has_ended() || request.is_retry()) {
            return Err(ControlError::undoing(request, state));
        }
        Ok(match request {
            ControlRequest::Pause if state.status.has_ended() => {
                return Err(ControlError::over("paused", state.status));
            }
            ControlRequest::Pause if paused_for == Some(PauseReason::Operator) => {
                return Err(ControlError::state("paused", "paused already"));
            }
            ControlRequest::Pause => {
                vec![(StepPath::root(), EventKind::paused(PauseReason::Operator))]
            }
            ControlRequest::Unpause if paused_for == Some(PauseReason::Operator) => {
                vec![resumed(StepPath::root(), state.waits_beside_the_operator(), recorder)]
            }
            ControlRequest::Unpause if state.status.has_ended() => {
                return Err(ControlError::over("unpaused", state.status));
            }
            ControlRequest::Unpause => return Err(ControlError::not_paused(paused_for)),
            // Draining is not recorded.
            ControlRequest::Drain => Vec::new(),
            ControlRequest::Cancel { .. } if state.status.has_ended() => {
                return Err(ControlError::over("cancelled", state.status));
            }
            ControlRequest::Cancel { reason } => {
                let mut events = state.closings(&format!("{RUN_CANCELLED}: {reason}"));
                let reason: Arc<str> = reason.as_str().into();
                // A run with compensation compensates first, and ends after that.
                let end = match state.compensates {
                    true => EventKind::compensating_cancelled(reason),
                    false => EventKind::RunCancelled { reason, by: None },
                };
                events.push((StepPath::root(), end));
                events
            }
            ControlRequest::Retry { node, by } => {
                if matches!(state.status, RunStatus::Success | RunStatus::Cancelled) {
                    return Err(ControlError::over("retried", state.status));
                }
                let path = state
                    .failed_node(node)
                    .map_err(|error| state.explain_in_compensation(node, error))?;
                let mut events = match state.status {
                    RunStatus::Failed => vec![resumed(StepPath::root(), None, recorder)],
                    _ => continues(state, &path, recorder),
                };
                events.push((path, EventKind::NodeReset { by: by.as_str().into() }));
                events
            }
            ControlRequest::Answer { node, question, answer, by } => {
                if state.status.has_ended() {
                    return Err(ControlError::over("answered", state.status));
                }
                let (path, request) = state
                    .asking_node(node)
                    .map_err(|error| state.explain_in_compensation(node, error))?;
                check_question(&path, request, question.as_deref())?;
                self.check_answer(state, &path, request, answer)?;
                answered(state, path, (answer.clone(), by), recorder)
            }
            ControlRequest::Message { .. } | ControlRequest::Close => {
                let Some(event) = state.mail_event(request)? else { return Ok(Vec::new()) };
                let mut events = continues(state, &StepPath::root(), recorder);
                events.insert(0, (StepPath::root(), event));
                events
            }
        })
    }

    /// Refuses an answer whose arguments the redactor would change. The call uses the recorded
    /// answer, so it would receive the masked arguments. The error does not contain them.
    fn keeps_arguments(
        &self,
        node: &StepPath,
        approval: &Approval,
        answer: &Encoded,
    ) -> Result<(), ControlError> {
        let (Some(redactor), Some(_)) = (&self.redactor, approval.arguments()) else {
            return Ok(());
        };
        let resolved = EventKind::ApprovalResolved { answer: answer.clone(), by: "".into() };
        match redactor.event(resolved) {
            EventKind::ApprovalResolved { answer: kept, .. } if kept == *answer => Ok(()),
            _ => {
                let message = format!(
                    "the `arguments` for `{node}` hold what this runtime takes out of its records, so the call cannot be \
                     made with them; agree without `arguments`, or deny the call"
                );
                Err(ControlError::new(ControlErrorKind::WrongAnswer, message))
            }
        }
    }

    /// Refuses an answer that the redactor would change. The tool that asked receives the recorded
    /// answer, also after a restart, and could not detect that a part was removed. The error does
    /// not contain the answer.
    fn keeps_answer(&self, node: &StepPath, answer: &Encoded) -> Result<(), ControlError> {
        let Some(redactor) = &self.redactor else { return Ok(()) };
        let resolved = EventKind::ApprovalResolved { answer: answer.clone(), by: "".into() };
        match redactor.event(resolved) {
            EventKind::ApprovalResolved { answer: kept, .. } if kept == *answer => Ok(()),
            _ => {
                let message = format!(
                    "the answer to `{node}` holds what this runtime takes out of its records, and the tool that asks would be \
                     given something else; answer without it, or let the tool have it in another way, such as a resource"
                );
                Err(ControlError::new(ControlErrorKind::WrongAnswer, message))
            }
        }
    }

    /// Checks the type of an answer. If this program has the version of the workflow that asked the
    /// question, the workflow checks the answer. Otherwise the schema that was recorded with the
    /// question is used.
    fn check_answer(
        &self,
        state: &RunState,
        node: &StepPath,
        question: &ApprovalRequest,
        answer: &Encoded,
    ) -> Result<(), ControlError> {
        let wrong = |problem: &dyn fmt::Display| {
            let message = format!(
                "the answer does not fit what `{node}` asks for: {problem}; `{answer}` was given"
            );
            Err(ControlError::new(ControlErrorKind::WrongAnswer, message))
        };
        let fitting_what_was_asked = || {
            let fits = question.answer.decode().and_then(|schema| Ok((schema, answer.decode()?)));
            match fits.map_err(|error| error.to_string()) {
                Ok((schema, answer)) => {
                    fitting_schema(&schema, &answer).or_else(|problem| wrong(&problem))
                }
                Err(error) => wrong(&error),
            }
        };
        // A tool asked this question during its call.
        if node.is_question() || node.is_tool_call() && !asks_approval(&question.answer) {
            fitting_what_was_asked()?;
            return self.keeps_answer(node, answer);
        }
        if node.is_tool_call() {
            return match read_approval(answer) {
                Ok(approval) => {
                    check_arguments(question, &approval).or_else(|problem| wrong(&problem))?;
                    self.keeps_arguments(node, &approval, answer)
                }
                Err(error) => wrong(&error),
            };
        }
        let name = node.to_string();
        let workflow = state.workflow.as_deref().zip(state.definition.as_deref());
        let checked =
            workflow.and_then(|workflow| (self.check_answer)(self, workflow, &name, answer));
        if let Some(checked) = checked {
            return checked;
        }
        let usual = Approval::schema().to_string();
        match read_approval(answer) {
            _ if usual != question.answer.as_str() => fitting_what_was_asked(),
            Ok(approval) if approval.arguments().is_some() => wrong(&NO_ARGUMENTS),
            Ok(_) => Ok(()),
            Err(error) => wrong(&error),
        }
    }
}

/// Checks the question id in an answer against the open question at `path`. An answer without an id
/// is accepted for any question at this path.
///
/// # Errors
/// Fails if the answer names a different question.
pub(crate) fn check_question(
    path: &StepPath,
    open: &ApprovalRequest,
    named: Option<&str>,
) -> Result<(), ControlError> {
    match named.is_none_or(|named| *named == *open.id) {
        true => Ok(()),
        false => {
            let message = format!(
                "the question `{path}@{}` is not open any more: `{path}` asks another one now, `{}`; read that one and answer \
                 it",
                named.unwrap_or_default(),
                open.id_at(path)
            );
            Err(ControlError::new(ControlErrorKind::WrongState, message))
        }
    }
}

/// Error for an answer with `arguments` to a question that is not about a tool call.
pub(crate) const NO_ARGUMENTS: &str =
    "only the question about the call of a tool takes `arguments`";

/// Checks the arguments of an answer against the parameters of the tool.
fn check_arguments(question: &ApprovalRequest, approval: &Approval) -> Result<(), UnfittingAnswer> {
    match approval.arguments() {
        None => Ok(()),
        Some(arguments @ Value::Object(_)) => fitting(question, arguments),
        Some(_) => Err(UnfittingAnswer::ArgumentsNotAnObject),
    }
}

fn fitting(question: &ApprovalRequest, arguments: &Value) -> Result<(), UnfittingAnswer> {
    let schema: Value = question.answer.decode().unwrap_or_default();
    // Questions of earlier releases accept no arguments.
    let Some(parameters) = super::approval::arguments_schema(&schema) else {
        return Err(UnfittingAnswer::NoArguments);
    };
    fitting_schema(&parameters, arguments)
}

fn fitting_schema(schema: &Value, value: &Value) -> Result<(), UnfittingAnswer> {
    #[cfg(feature = "dynamic")]
    return Ok(agentflow_schema::schema_check::SchemaCheck::new(schema)?.check(value)?);
    // Without a full validator, only obvious mismatches are refused here. The recipient of the
    // value decodes it and reports the rest.
    #[cfg(not(feature = "dynamic"))]
    return Ok(agentflow_schema::schema::refuse_misfits(value, schema)?);
}

/// The reason to refuse an answer.
#[derive(Debug, thiserror::Error)]
enum UnfittingAnswer {
    #[error("{NO_ARGUMENTS}")]
    NoArguments,
    #[error("`arguments` is an object with all arguments of the call")]
    ArgumentsNotAnObject,
    /// The question has an invalid schema.
    #[cfg(feature = "dynamic")]
    #[error(transparent)]
    Question(#[from] agentflow_schema::diagnostic::Diagnostic),
    #[cfg(feature = "dynamic")]
    #[error(transparent)]
    Value(#[from] agentflow_schema::schema_check::ValueMismatches),
    #[cfg(not(feature = "dynamic"))]
    #[error(transparent)]
    Value(#[from] agentflow_schema::schema::ProvenMismatches),
}

/// Returns the events that answer an open question after its time limit.
///
/// # Errors
/// Fails if the question is not open any more.
pub(super) fn events_of_timeout(
    state: &RunState,
    path: &StepPath,
    answer: Encoded,
) -> Result<Vec<(StepPath, EventKind)>, ControlError> {
    let (path, _) = state.asking_node(&path.to_string())?;
    Ok(answered(state, path, (answer, OnTimeout::BY), Recorder::Live))
}

fn answered(
    state: &RunState,
    path: StepPath,
    (answer, by): (Encoded, &str),
    recorder: Recorder,
) -> Vec<(StepPath, EventKind)> {
    let mut events = continues(state, &path, recorder);
    events.insert(0, (path, EventKind::ApprovalResolved { answer, by: by.into() }));
    events
}

/// Returns the event that makes the workflow of a waiting node continue. Returns no events while
/// the whole run is paused by an operator.
fn continues(state: &RunState, node: &StepPath, recorder: Recorder) -> Vec<(StepPath, EventKind)> {
    let Some(base) = state.waiting_around(node) else { return Vec::new() };
    let after = state.waits.without(&base);
    match state.waits.is_held() {
        true => Vec::new(),
        false => vec![resumed(base, after, recorder)],
    }
}

fn resumed(
    path: StepPath,
    waiting: Option<PauseReason>,
    recorder: Recorder,
) -> (StepPath, EventKind) {
    let queued = recorder == Recorder::AtRest && waiting.is_none();
    (path, EventKind::RunResumed { recovered: false, redefined: None, waiting, queued, by: None })
}

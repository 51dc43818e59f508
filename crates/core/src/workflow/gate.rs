//! Builds the approval request of a node that needs an approval, and checks that an answer has the
//! type that the node expects.

use agentflow_schema::diagnostic::{Diagnostic, Suggestion};
use std::any::type_name;
use std::collections::HashSet;

use super::graph_codes;
use super::spec::{Body, Outputs, PlanNode, Spec};
use super::step_error::StepError;
use crate::error::{ControlError, ControlErrorKind};
use crate::event::ApprovalRequest;
use crate::on_timeout::OnTimeout;
use crate::run::{Approval, NO_ARGUMENTS, read_approval, timeout_answer};
use crate::value::{Encoded, NodeValue};

/// Builds the approval request for a node, with the values that the node is about to use.
pub(crate) fn approval_of(
    spec: &Spec,
    node: &PlanNode,
    outputs: &dyn Outputs,
) -> Result<ApprovalRequest, StepError> {
    let message = match &node.question_text {
        Some(text) => text(outputs)?,
        None => node.policy.approve.clone().unwrap_or_default(),
    };
    let answer = Encoded::new(&Approval::schema())
        .map_err(|error| StepError::value("the answer's schema", &error))?;
    // Arguments that a decider has revised take precedence. `values_read` returns them.
    let arguments = match (outputs.given(), &node.question_about) {
        (None, Some(about)) => about(outputs),
        _ => None,
    };
    let about = arguments.unwrap_or_else(|| values_read(spec, node, outputs));
    Ok(ApprovalRequest::new(message, about, answer))
}

/// Reports mistakes in questions: an `approve` or a time-out that has no effect, an `on_timeout`
/// without a time-out, or an `on_timeout` answer of the wrong type.
pub(super) fn check_questions(nodes: &[PlanNode]) -> Vec<Diagnostic> {
    nodes.iter().filter_map(problem_of_question).collect()
}

fn problem_of_question(node: &PlanNode) -> Option<Diagnostic> {
    let (path, policy) = (&node.path, &node.policy);
    let is_gate = matches!(node.body, Body::Gate { .. });
    if policy.approve.is_some() {
        let instead = match node.body {
            Body::Gate { .. } => {
                Some("a gate asks one question; put both in its text, or add a second gate")
            }
            Body::Input { .. } => Some(
                "an input is there from the beginning; put the question on the node that uses it",
            ),
            Body::Join => Some(
                "a join does nothing that one could agree to; put the question on the node behind it",
            ),
            _ => None,
        };
        if let Some(instead) = instead {
            return Some(
                Diagnostic::new(graph_codes::APPROVAL_WITHOUT_EFFECT)
                    .name("node", path)
                    .text("problem", instead),
            );
        }
    }
    if policy.approve_timeout_ms.is_some() && policy.approve.is_none() {
        let instead =
            if is_gate { "a gate's time is `timeout`" } else { "add `approve`, or remove it" };
        let found =
            Diagnostic::new(graph_codes::APPROVAL_TIMEOUT_WITHOUT_EFFECT).name("node", path);
        return Some(found.suggest(Suggestion::advice(instead)));
    }
    let limit = if is_gate { policy.timeout_ms } else { policy.approve_timeout_ms };
    let Some(limit) = limit else {
        let missing = if is_gate { "timeout" } else { "approve_timeout" };
        return (policy.on_timeout != OnTimeout::Fail).then(|| {
            Diagnostic::new(graph_codes::MISSING_TIMEOUT)
                .name("node", path)
                .absent("missing", missing)
        });
    };
    // Check the answer that a time-out gives as if a person had given it. Otherwise the run would
    // fail only when the time is over.
    let question = ApprovalRequest::new(String::new(), Encoded::null(), Encoded::null());
    let answer = timeout_answer(&question.within(Some(limit), &policy.on_timeout)).ok()?;
    let problem = check_answer(node, &answer).err()?;
    Some(Diagnostic::new(graph_codes::TIMEOUT_ANSWER).name("node", path).text("problem", problem))
}

/// Returns the values that a node reads, as an object with the names of the nodes that it reads
/// from; `null` if it reads none. For a call, these are the arguments, or the values that the
/// arguments are computed from.
fn values_read(spec: &Spec, node: &PlanNode, outputs: &dyn Outputs) -> Encoded {
    if let Some(given) = outputs.given() {
        return given.clone();
    }
    let mut seen = HashSet::new();
    let read = node.reads.iter().filter(|read| seen.insert(**read));
    let fields: Vec<String> = read
        .filter_map(|read| {
            let name = serde_json::Value::from(spec.node(*read).path.names());
            outputs.output(*read).map(|value| format!("{name}:{value}"))
        })
        .collect();
    match fields.is_empty() {
        true => Encoded::null(),
        // Names and values are valid JSON, so the text between braces is valid too.
        false => Encoded::from_json(format!("{{{}}}", fields.join(",")))
            .unwrap_or_else(|_| Encoded::null()),
    }
}

/// Checks that an answer has the type that a node expects.
pub(crate) fn check_answer(node: &PlanNode, answer: &Encoded) -> Result<(), ControlError> {
    let fits = match &node.body {
        // The check of `arguments` below applies to an `Approval` only. A gate of a different type
        // may have a field with this name.
        Body::Gate { fits, .. } if node.type_name != type_name::<Approval>() => {
            fits.check(answer).map_err(|misfit| misfit.to_string())
        }
        _ => match read_approval(answer) {
            Ok(approval) if approval.arguments().is_some() => Err(NO_ARGUMENTS.to_owned()),
            Ok(_) => Ok(()),
            Err(error) => Err(error.to_string()),
        },
    };
    fits.map_err(|error| {
        ControlError::new(
            ControlErrorKind::WrongAnswer,
            format!(
                "the answer does not fit what `{}` asks for: {error}; `{answer}` was given",
                node.path
            ),
        )
    })
}

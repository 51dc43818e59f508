//! Questions of nodes: when each was asked, its answer, and questions that time out.

use std::sync::Arc;

use super::{Command, Machine, Phase, Unit};
use crate::error::{Failure, FailureKind};
use crate::event::ApprovalRequest;
use crate::on_timeout::OnTimeout;
use crate::run::Approval;
use crate::time::Timestamp;
use crate::value::Encoded;
use crate::workflow::policy::OnError;
use crate::workflow::spec::{Body, NodeIndex};

/// A question and the time at which it was recorded.
#[derive(Clone, Debug)]
pub(crate) struct TimedQuestion {
    pub(crate) since: Timestamp,
    pub(crate) question: Arc<ApprovalRequest>,
}

impl TimedQuestion {
    pub(super) fn new(since: Timestamp, question: &Arc<ApprovalRequest>) -> Self {
        Self { since, question: Arc::clone(question) }
    }
}

impl Machine {
    /// Returns the question whose answer the node waits for.
    pub(crate) fn asked(&self, node: NodeIndex) -> Option<&TimedQuestion> {
        let state = &self.nodes[node as usize];
        state.asked.as_ref().filter(|_| state.unit.phase == Phase::Asking)
    }

    /// Returns the error policy for a failure of the node. A question that timed out with
    /// [`OnTimeout::Skip`] overrides the policy of the node with [`OnError::Skip`].
    pub(super) fn on_error(&mut self, node: NodeIndex, error: &Failure) -> OnError {
        let skips = |asked: &TimedQuestion| asked.question.on_timeout == OnTimeout::Skip;
        let by_call = self
            .spec
            .node(node)
            .question
            .as_ref()
            .is_some_and(|question| question.passes_over(error));
        let passed_over =
            by_call || error.kind == FailureKind::Timeout && self.asked(node).is_some_and(skips);
        self.nodes[node as usize].passed_over = passed_over;
        if passed_over { OnError::Skip } else { self.spec.node(node).policy.on_error }
    }

    /// Applies the answer to the question of a node.
    pub(super) fn resolved(&mut self, node: NodeIndex, answer: &Encoded) {
        if self.phase(Unit::node(node)) != Phase::Asking {
            // The question may have timed out, or the run may have been stopped, before the answer
            // arrived.
            return;
        }
        // The answer of a gate is its output. Any other node starts, or fails, after its approval.
        if let Body::Gate { .. } = self.spec.node(node).body {
            return self.complete(node, answer.clone());
        }
        match answer.decode::<Approval>() {
            Ok(Approval::Granted { .. }) => {
                self.nodes[node as usize].approved = true;
                self.make_ready(Unit::node(node));
            }
            denied => {
                let comment = match denied {
                    Ok(Approval::Denied { comment }) => comment.unwrap_or_default(),
                    _ => String::new(),
                };
                let message = match comment.is_empty() {
                    true => "approval denied".to_owned(),
                    false => format!("approval denied: {comment}"),
                };
                let error = Arc::new(Failure::new(FailureKind::Denied, message));
                self.due.push_back(Command::Fail { unit: Unit::node(node), error });
            }
        }
    }
}

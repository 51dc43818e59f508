//! Reasons to skip a node whose predecessors have ended: its arm was not taken, the workflow
//! returned earlier, an output is missing, or a gate failed. Reads the machine and changes nothing.

use std::sync::Arc;

use super::{Machine, Phase};
use crate::workflow::policy::OnError;
use crate::workflow::spec::{NodeIndex, Outputs, PlanNode};

impl Machine {
    /// Returns the reason why a node cannot run although its predecessors have ended.
    pub(super) fn obstacle(&self, node: NodeIndex) -> Option<Arc<str>> {
        let definition = self.spec.node(node);
        let missing = || definition.reads.iter().find(|read| self.output(**read).is_none());
        self.missing_edges_reason(definition)
            .or_else(|| definition.unless.and_then(|join| self.returned(join)))
            .or_else(|| missing().map(|read| self.missing_output_reason(*read)))
            .or_else(|| self.held_back(definition))
            .or_else(|| self.decided_otherwise(definition))
            .or_else(|| {
                definition
                    .decided
                    .as_ref()
                    .filter(|of| self.output(of.by).is_none())
                    .map(|of| self.missing_output_reason(of.by))
            })
    }

    /// Returns the reason why nodes after this join do not run: an arm that returns was taken, or a
    /// router failed, so that its choice is unknown.
    fn returned(&self, join: NodeIndex) -> Option<Arc<str>> {
        let mut unknown = None;
        for end in &self.spec.node(join).reads {
            let Some((router, arm)) = self.spec.node(*end).guard() else { continue };
            match self.chosen(router) {
                Some(chosen) if chosen == arm => {
                    return Some("the workflow returned before".into());
                }
                Some(_) => {}
                // The router was in an arm that was not taken, so it could not have returned.
                None if self.is_in_untaken_arm(router) => {}
                None => unknown = unknown.or(Some(router)),
            }
        }
        unknown.map(|router| self.missing_output_reason(router))
    }

    /// Returns `true` if the node is in an arm that was not taken. A router there chose nothing.
    fn is_in_untaken_arm(&self, node: NodeIndex) -> bool {
        match self.spec.node(node).guard() {
            None => false,
            Some((around, arm)) => match self.chosen(around) {
                Some(chosen) => chosen != arm,
                None => self.is_in_untaken_arm(around),
            },
        }
    }

    /// Returns the reason if an earlier gate or check failed or could not run.
    fn held_back(&self, definition: &PlanNode) -> Option<Arc<str>> {
        let holds = |node: NodeIndex| match self.nodes[node as usize].unit.phase {
            Phase::Failed => {
                !self.nodes[node as usize].passed_over
                    && self.spec.node(node).policy.on_error != OnError::Skip
            }
            Phase::Skipped => !self.is_in_untaken_arm(node),
            _ => false,
        };
        let after =
            definition.after.iter().filter(|after| after.why.holds_back()).map(|after| after.node);
        after.into_iter().find(|node| holds(*node)).map(|node| self.missing_output_reason(node))
    }

    /// Describes why the output of a node is missing.
    pub(super) fn missing_output_reason(&self, node: NodeIndex) -> Arc<str> {
        let what = match self.nodes[node as usize].unit.phase {
            Phase::Failed => "failed",
            _ => "was skipped",
        };
        format!("`{}` {what}", self.spec.node(node).path).into()
    }
}

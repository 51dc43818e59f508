//! Why a node does not run although all before it has ended: its arm, a return above it, an output that is missing, a
//! gate that failed. It changes nothing.

use std::sync::Arc;

use super::{Machine, Phase};
use crate::workflow::policy::OnError;
use crate::workflow::spec::{NodeIndex, NodeSpec, Outputs};

impl Machine {
    /// Why a node cannot run although its predecessors have ended.
    pub(super) fn obstacle(&self, node: NodeIndex) -> Option<Arc<str>> {
        let definition = self.spec.node(node);
        let missing = || definition.reads.iter().find(|read| self.output(**read).is_none());
        self.not_entered(definition)
            .or_else(|| definition.unless.and_then(|join| self.returned(join)))
            .or_else(|| missing().map(|read| self.not_there(*read)))
            .or_else(|| self.held_back(definition))
            .or_else(|| self.decided_otherwise(definition))
            .or_else(|| {
                definition.decided.as_ref().filter(|of| self.output(of.by).is_none()).map(|of| self.not_there(of.by))
            })
    }

    /// Why nothing runs that stands below the arms whose ends a join puts together: one that returns was taken, or it
    /// is not known which one would have been.
    fn returned(&self, join: NodeIndex) -> Option<Arc<str>> {
        let mut unknown = None;
        for end in &self.spec.node(join).reads {
            let Some((router, arm)) = self.spec.node(*end).guard() else { continue };
            match self.chosen(router) {
                Some(chosen) if chosen == arm => return Some("the workflow returned before".into()),
                Some(_) => {}
                None if self.is_passed_by(router) => {}
                None => unknown = unknown.or(Some(router)),
            }
        }
        unknown.map(|router| self.not_there(router))
    }

    /// Whether a node is in an arm that was not taken, so that a router there has chosen nothing.
    fn is_passed_by(&self, node: NodeIndex) -> bool {
        match self.spec.node(node).guard() {
            None => false,
            Some((around, arm)) => match self.chosen(around) {
                Some(chosen) => chosen != arm,
                None => self.is_passed_by(around),
            },
        }
    }

    /// The gate or the check above a node that has failed, or that could not run since something failed before it.
    fn held_back(&self, definition: &NodeSpec) -> Option<Arc<str>> {
        let holds = |node: NodeIndex| match self.nodes[node as usize].unit.phase {
            Phase::Failed => {
                !self.nodes[node as usize].passed_over && self.spec.node(node).policy.on_error != OnError::Skip
            }
            Phase::Skipped => !self.is_passed_by(node),
            _ => false,
        };
        let after = definition.after.iter().filter(|after| after.why.holds_back()).map(|after| after.node);
        after.into_iter().find(|node| holds(*node)).map(|node| self.not_there(node))
    }

    pub(super) fn not_there(&self, node: NodeIndex) -> Arc<str> {
        let what = match self.nodes[node as usize].unit.phase {
            Phase::Failed => "failed",
            _ => "was skipped",
        };
        format!("`{}` {what}", self.spec.node(node).path).into()
    }
}

//! Approval of a whole workflow: its first node, which all others wait for.

use agentflow_schema::diagnostic::Diagnostic;

use super::bodies::step_of;
use super::builder::Builder;
use super::graph_codes;
use super::node::Node;
use super::node_handle::RawHandle;
use super::spec::{Body, NodeKind};

impl Builder {
    /// Asks a person before the workflow starts. No other node runs before the answer, and a denial
    /// ends the run without any effect. The question is the approval text of the node, or
    /// `run NAME?` by default, and shows all inputs. [`Node::approve_timeout`] and
    /// [`Node::on_timeout`] set the outcome if no answer arrives in time.
    ///
    /// Call it before adding other nodes: `b.approve(Node::new("start").approve("deploy it?"))`.
    /// `#[workflow]` has the option `approve = "deploy it?"`.
    pub fn approve(&mut self, node: impl Into<Node>) {
        let inputs = |spec: &super::spec::PlanNode| matches!(spec.body, Body::Input { .. });
        if !self.nodes.iter().all(inputs) {
            self.problems.push(Diagnostic::new(graph_codes::LATE_APPROVAL));
        }
        let id = self.id;
        let reads = (0..)
            .zip(&self.nodes)
            .map(|(node, _)| RawHandle { node, builder: id, optional: false })
            .collect();
        let mut node: Node = node.into();
        if node.policy.approve.is_none() {
            node = node.approve(format!("run `{}`?", self.name));
        }
        node.checks = true;
        let body = Body::Step(step_of((), |_, ()| async { Ok::<(), String>(()) }));
        let first = self.push::<()>(node, NodeKind::Step, reads, body);
        self.first = Some(first.node);
    }
}

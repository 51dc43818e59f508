//! Dry runs of workflows: returns the plan step by step and executes nothing.

use serde_json::{Value, json};

use super::entry::When;
use super::spec::{Body, NodeIndex, NodeKind, OrderReason, PlanNode, Spec};
use super::{Graph, Workflow};
use crate::dry_run::{DryBody, DryCall, DryRead, DryRun, DryStep};

impl<In, Out> Workflow<In, Out> {
    /// Returns the steps that a run of the workflow would execute, without executing them.
    pub fn dry_run(&self) -> DryRun {
        self.spec().dry_run()
    }
}

impl Spec {
    pub(crate) fn dry_run(&self) -> DryRun {
        DryRun {
            what: "workflow",
            name: std::sync::Arc::clone(&self.name),
            input: Graph::from_plan(self).input_schema(),
            output: self.output_schema(),
            steps: self.dry_steps(),
            limits: json!({"concurrency": self.concurrency, "stop_policy": self.stop}),
            issues: super::state_flow::unsaved_reads(self, &Default::default())
                .into_iter()
                .map(|read| read.issue)
                .collect(),
        }
    }

    fn dry_steps(&self) -> Vec<DryStep> {
        let mut stages: Vec<u32> = Vec::with_capacity(self.nodes.len());
        let mut steps = Vec::new();
        for (at, node) in self.nodes.iter().enumerate() {
            let before = node.predecessors().filter_map(|before| stages.get(before as usize)).max();
            // Inputs are available before the first stage, and a join takes no time.
            let stage = match (node.kind, before) {
                (NodeKind::Input, _) => 0,
                (NodeKind::Join, before) => before.copied().unwrap_or(0),
                (_, before) => before.map_or(1, |before| before + 1),
            };
            stages.push(stage);
            if node.kind != NodeKind::Input {
                steps.push(self.dry_step(
                    NodeIndex::try_from(at).unwrap_or(NodeIndex::MAX),
                    node,
                    stage.max(1),
                ));
            }
        }
        steps
    }

    fn dry_step(&self, at: NodeIndex, node: &PlanNode, stage: u32) -> DryStep {
        let name = |node: NodeIndex| self.node(node).path.to_string();
        let read = |node: NodeIndex, optional: bool| DryRead {
            node: name(node),
            schema: self.schema_of(node),
            optional,
        };
        let is_optional = |why: OrderReason| why == OrderReason::Optional;
        let optional = node
            .after
            .iter()
            .filter(|after| is_optional(after.why))
            .map(|after| read(after.node, true));
        let is_all = node.begins.is_all();
        // An edge without a condition is listed as a dependency, unless the node needs only some of
        // its edges.
        let entries =
            node.entries.iter().filter(|entry| !is_all || !matches!(entry.when, When::Done));
        let when = entries.map(|entry| {
            let from = name(entry.from);
            match &entry.when {
                When::Done => format!("`{from}` has its output"),
                When::Failed => format!("`{from}` has failed"),
                When::Arm(arm) => match &self.node(entry.from).body {
                    Body::Router { arms, .. } => {
                        format!("`{from}` takes `{}`", arms[*arm as usize])
                    }
                    _ => format!("`{from}` takes an arm"),
                },
                When::Holds(condition) => {
                    format!(
                        "`{from}` has its output and {}",
                        serde_json::to_string(&*condition.condition).unwrap_or_default()
                    )
                }
            }
        });
        let done = node.entries.iter().filter(|entry| is_all && matches!(entry.when, When::Done));
        let after =
            node.after.iter().filter(|after| !is_optional(after.why)).map(|after| after.node);
        let bodies = node.bodies().map(|(branch, inner)| DryBody {
            branch: branch.unwrap_or_default().to_owned(),
            steps: inner.dry_steps(),
        });
        let kind = serde_json::to_value(node.kind).ok();
        let calls = self.dry_calls(at, node);
        // A call that asks for its approval applies its policy itself.
        let by_call =
            calls.iter().find_map(|call| call.policy.clone()).filter(|_| node.question.is_some());
        let by_call = by_call.unwrap_or_default();
        let is_repeatable = node.question.is_none() || by_call.is_repeatable();
        DryStep {
            name: node.path.to_string(),
            kind: kind.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned(),
            stage,
            reads: node.reads.iter().map(|of| read(*of, false)).chain(optional).collect(),
            reads_state: super::state_flow::reads(self, node),
            saves_state: super::state_flow::saves(node),
            after: after.chain(done.map(|entry| entry.from)).map(name).collect(),
            when: when.collect(),
            enough: (!is_all).then(|| node.begins.needed(node.entries.len())),
            gives: self.schema_of(at),
            calls,
            asks: node
                .policy
                .approve
                .clone()
                .or_else(|| (node.kind == NodeKind::Gate).then(|| asked(node))),
            timeout_ms: node
                .policy
                .timeout_ms
                .or(by_call.timeout.and_then(|limit| u64::try_from(limit.as_millis()).ok())),
            attempts: node.policy.retry.max_attempts.max(by_call.retry.saturating_add(1)),
            repeatable: node.policy.repeatable.unwrap_or(is_repeatable),
            writes: node.writes,
            ends: node.ends,
            bodies: bodies.collect(),
        }
    }

    fn dry_calls(&self, at: NodeIndex, node: &PlanNode) -> Vec<DryCall> {
        #[cfg(feature = "dynamic")]
        if let Some(derived) = self.derived.get(at as usize) {
            return derived.calls.clone();
        }
        #[cfg(not(feature = "dynamic"))]
        let _ = at;
        let mut seen = std::collections::HashSet::new();
        let callees =
            node.callee.iter().chain(&node.callees).filter(|callee| seen.insert(**callee));
        callees.filter_map(|callee| super::callee::dry_call(*callee)).collect()
    }
}

/// Returns the question of a gate as written.
fn asked(node: &PlanNode) -> String {
    match node.does.as_deref() {
        Some(super::GraphBody::Ask(question)) => question.text.clone(),
        _ => node.call.to_string(),
    }
}

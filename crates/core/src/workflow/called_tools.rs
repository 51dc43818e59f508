//! The tools that a node calls, and the effect of their policies on the node.

use agentflow_schema::diagnostic::Diagnostic;
use std::any::TypeId;
use std::sync::Arc;

use super::callee;
use super::graph_codes;
use super::node::Node;
use super::policy::{NodePolicy, question_of_call, take_over};
use super::spec::NodeKind;
use crate::tool::{NodeQuestion, ToolPolicy};

/// The tools whose calls are written in a node.
pub(super) struct CalledTools {
    /// The function, if the step consists of its call. The policy of the tool is then the policy of
    /// the node.
    pub(super) callee: Option<TypeId>,
    /// Policies of tools that apply to the node.
    policies: Vec<ToolPolicy>,
    /// The policy of the tool, if the step consists of a call that asks for its approval itself.
    asking: Option<ToolPolicy>,
}

impl CalledTools {
    pub(super) fn of_node(node: &Node) -> Self {
        let policy_of = |callee: &TypeId| callee::tool_policy(*callee);
        let first = node.callees.first().filter(|_| node.direct);
        let asks = |callee: &&TypeId| callee::asks(**callee) && !callee::asks_and_is_sync(**callee);
        if let Some(asking) = first.filter(asks).and_then(policy_of) {
            // The call is recorded below the node, also in each item and round.
            return Self { callee: None, policies: Vec::new(), asking: Some(asking) };
        }
        let policies = match (node.direct, node.under_its_tools) {
            (true, _) => first.and_then(policy_of).into_iter().collect(),
            // Each call is recorded below the node.
            (false, true) => node.callees.iter().filter_map(policy_of).collect(),
            (false, false) => Vec::new(),
        };
        // A nested call to the same function in the arguments could not be distinguished from the
        // call itself.
        let is_one = node.callees.iter().filter(|other| first == Some(other)).count() == 1;
        Self { callee: first.copied().filter(|_| is_one), policies, asking: None }
    }

    /// Returns the problem if the node calls tools that need an approval and cannot wait for it.
    /// The node does not know their arguments and cannot ask for them, unless its author has
    /// written a question. Such an approval covers one call.
    pub(super) fn problem(
        &self,
        name: &str,
        callees: &[TypeId],
        policy: &NodePolicy,
    ) -> Option<Diagnostic> {
        let asking: Vec<&TypeId> =
            callees.iter().filter(|callee| callee::asks_and_is_sync(**callee)).collect();
        if self.policies.is_empty() {
            return None;
        }
        match asking.as_slice() {
            [] => None,
            [one] if policy.approve.is_none() => {
                let tool = callee::tool_definition(**one)
                    .map(|tool| tool.name.clone())
                    .unwrap_or_default();
                let found = Diagnostic::new(graph_codes::APPROVAL_OF_SYNC_TOOL).name("node", name);
                Some(found.name("tool", tool))
            }
            [_] => None,
            several => {
                let found =
                    Diagnostic::new(graph_codes::APPROVALS_OF_SYNC_TOOLS).name("node", name);
                Some(found.number("calls", several.len()))
            }
        }
    }

    /// Applies the policies of the tools to the settings that the node leaves open. Returns the
    /// question that the call itself asks.
    pub(super) fn apply(
        &self,
        policy: &mut NodePolicy,
        kind: NodeKind,
        call: &str,
    ) -> Option<Arc<NodeQuestion>> {
        self.policies.iter().for_each(|tool| take_over(policy, tool, call));
        let asking = self.asking.as_ref().filter(|_| kind == NodeKind::Step)?;
        Some(Arc::new(question_of_call(policy, asking, call)))
    }

    /// Returns `true` if one of the tools must not be called twice.
    pub(super) fn is_once(&self) -> bool {
        self.policies.iter().any(|tool| !tool.is_repeatable())
    }
}

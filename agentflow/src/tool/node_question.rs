//! `NodeQuestion`: the text and the time of the question that a call asks about itself, as its node sets them. It asks nothing.

use std::sync::Arc;

use crate::failure::{Failure, FailureKind};
use crate::on_timeout::OnTimeout;
use crate::tool_definition::ToolDefinition;

/// The settings of a node for the question about the call that it consists of.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NodeQuestion {
    /// The text of the question; by default the call with its arguments.
    pub(crate) text: Option<Arc<str>>,
    /// Milliseconds for which the answer is waited for.
    pub(crate) timeout_ms: Option<u64>,
    pub(crate) on_timeout: OnTimeout,
}

impl NodeQuestion {
    /// The settings in the policy of a tool.
    pub(super) fn of_tool(definition: &ToolDefinition) -> Self {
        let limit = definition.policy.approve_timeout;
        Self {
            text: None,
            timeout_ms: limit.map(|limit| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX)),
            on_timeout: definition.policy.on_timeout.clone(),
        }
    }

    /// Returns true if a failure of the node is a question without an answer in time, for which the node is skipped.
    pub(crate) fn passes_over(&self, failure: &Failure) -> bool {
        self.on_timeout == OnTimeout::Skip && failure.kind == FailureKind::Timeout && !failure.retryable
    }
}

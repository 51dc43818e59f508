//! `NodeQuestion`: settings for the question about a tool call that needs an approval. It asks nothing.

use std::sync::Arc;

use crate::failure::{Failure, FailureKind};
use crate::on_timeout::OnTimeout;
use crate::tool_definition::ToolDefinition;

/// Settings of the question about a call, from its node or its tool.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NodeQuestion {
    /// The text of the question; by default the call with its arguments.
    pub(crate) text: Option<Arc<str>>,
    /// Time limit for the answer in milliseconds.
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

    /// Returns true if the node failed because its question timed out, and is to be skipped then.
    pub(crate) fn passes_over(&self, failure: &Failure) -> bool {
        self.on_timeout == OnTimeout::Skip && failure.kind == FailureKind::Timeout && !failure.retryable
    }
}

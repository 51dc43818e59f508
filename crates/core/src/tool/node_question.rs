//! `NodeQuestion`: settings of the question about a tool call that needs an approval.

use std::sync::Arc;

use crate::failure::{Failure, FailureKind};
use crate::on_timeout::OnTimeout;
use crate::tool_definition::ToolDefinition;

/// Settings of the question about a call, from its node or its tool.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NodeQuestion {
    /// Text of the question. By default it is the call with its arguments.
    pub(crate) text: Option<Arc<str>>,
    /// Time limit for the answer in milliseconds.
    pub(crate) timeout_ms: Option<u64>,
    pub(crate) on_timeout: OnTimeout,
}

impl NodeQuestion {
    /// Returns the settings in the policy of a tool.
    pub(super) fn of_tool(definition: &ToolDefinition) -> Self {
        let limit = definition.policy.approve_timeout;
        Self {
            text: None,
            timeout_ms: limit.map(|limit| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX)),
            on_timeout: definition.policy.on_timeout.clone(),
        }
    }

    /// Returns `true` if the node failed because its question timed out and the settings say to
    /// skip the node then.
    pub(crate) fn passes_over(&self, failure: &Failure) -> bool {
        self.on_timeout == OnTimeout::Skip
            && failure.kind == FailureKind::Timeout
            && !failure.retryable
    }
}

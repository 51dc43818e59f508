//! Remote agents (A2A) that a document names by their address: the addresses that may be connected
//! to, and the tool of each. It connects to no agent.

use agentflow_core::__private::extension::{RuntimeParts, ToolAddresses, with_part};
use agentflow_core::__private::inventory;
use agentflow_core::runtime::RuntimeBuilder;
use agentflow_core::tool::ToolRef;
use agentflow_tools::AddressGuard;

use super::endpoint_tool::endpoint_tool;

/// The addresses that documents of a runtime may name.
struct EndpointGuard(AddressGuard);

/// Settings of a runtime for remote agents (A2A). It is in the prelude.
pub trait A2aRuntime: Sized {
    /// Sets the addresses that documents may name as the `endpoint` of an agent. Default: the public internet. The address is
    /// checked when the node starts, after its host was resolved. A node whose agent has another address fails. Agents of an
    /// [`A2aClient`](crate::a2a::A2aClient) and of a configuration are not checked.
    ///
    /// ```
    /// use agentflow::prelude::*;
    /// use agentflow::tools::AddressGuard;
    ///
    /// let inner = AddressGuard::default().allow("10.1.0.0".parse().unwrap(), 16);
    /// let runtime = Runtime::builder().a2a_guard(inner).build();
    /// ```
    #[must_use]
    fn a2a_guard(self, guard: AddressGuard) -> Self;
}

impl A2aRuntime for RuntimeBuilder {
    fn a2a_guard(self, guard: AddressGuard) -> Self {
        with_part(self, EndpointGuard(guard))
    }
}

inventory::submit! {
    ToolAddresses { tool: tool_at }
}

/// Returns the tool `a2a.ADDRESS` of an agent at an address; `None` for any other name.
fn tool_at(
    parts: RuntimeParts<'_>,
    name: &str,
) -> Option<Result<ToolRef, Box<dyn std::error::Error + Send + Sync>>> {
    let endpoint = name.strip_prefix("a2a.").filter(|endpoint| endpoint.contains("://"))?;
    let guard = parts.get::<EndpointGuard>().map(|EndpointGuard(guard)| guard.clone());
    Some(endpoint_tool(endpoint, guard.unwrap_or_default()).map_err(Into::into))
}

//! Agents of other programs that a document names by their addresses, and not by names of the program: which addresses may be
//! connected to, and the tool of each. It connects to none.

use super::RuntimeBuilder;
use crate::a2a::{A2aError, endpoint_tool};
use crate::run::Host;
use crate::tool::ToolRef;
use crate::tools::AddressGuard;

/// The addresses of a host that documents may name.
struct EndpointGuard(AddressGuard);

impl RuntimeBuilder {
    /// Sets which addresses documents may name as the `endpoint` of an agent. Default: the public internet alone. The
    /// address is checked when the node begins, after its host was resolved; a node whose agent is elsewhere fails. Agents of an
    /// [`A2aClient`](crate::a2a::A2aClient) and of a configuration are not checked.
    ///
    /// ```
    /// use agentflow::prelude::*;
    /// use agentflow::tools::AddressGuard;
    ///
    /// let inner = AddressGuard::default().allow("10.1.0.0".parse().unwrap(), 16);
    /// let runtime = Runtime::builder().a2a_guard(inner).build();
    /// ```
    pub fn a2a_guard(mut self, guard: AddressGuard) -> Self {
        self.host.set_part(EndpointGuard(guard));
        self
    }
}

/// Returns the tool `a2a.ADDRESS` of an agent at an address; `None` for any other name.
///
/// # Errors
/// The mistake in the address.
#[cfg_attr(not(feature = "dynamic"), allow(dead_code, reason = "graphs are executed with the feature `dynamic`"))]
pub(super) fn tool_at(host: &Host, name: &str) -> Option<Result<ToolRef, A2aError>> {
    let endpoint = name.strip_prefix("a2a.").filter(|endpoint| endpoint.contains("://"))?;
    let guard = host.part::<EndpointGuard>().map(|EndpointGuard(guard)| guard.clone());
    Some(endpoint_tool(endpoint, guard.unwrap_or_default()))
}

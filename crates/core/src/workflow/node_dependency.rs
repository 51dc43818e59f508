//! The bindings of a node as data: a tool, a resource or a prompt of an MCP server, or an agent of another program. It binds and
//! calls nothing.

use serde::{Deserialize, Serialize};

/// A binding of a node: what one of its dependencies was resolved to, or can be.
///
/// The bindings of a node are in [`GraphNode::dependencies`](super::GraphNode::dependencies); those that a run has resolved are in
/// [`NodeReport::resolved_dependencies`](crate::runtime::NodeReport::resolved_dependencies).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(
    deny_unknown_fields,
    default,
    expecting = "a binding, such as {\"dependency_id\": \"d\", \"server_id\": \"files\"}"
)]
#[non_exhaustive]
#[doc(alias = "FixedRef")]
#[doc(alias = "NodeDependency")]
pub struct ResolvedDependency {
    /// The id of the dependency. Bindings of one id are the candidates of a pool.
    pub dependency_id: String,
    /// The MCP server, by the name that the program gave it.
    pub server_id: Option<String>,
    /// The tool of the server; `None` if a model chooses among its tools.
    pub tool_name: Option<String>,
    /// The address of the resource.
    pub resource_uri: Option<String>,
    /// The name of the prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_name: Option<String>,
    /// The agent, by the name that the program gave it.
    pub agent_id: Option<String>,
    /// The address of the agent.
    pub endpoint: Option<String>,
    /// How well it fits. The library gives none.
    pub score: Option<f64>,
    /// The place among the candidates of the pool, from 0; `None` if the binding is fixed.
    pub pool_index: Option<usize>,
}

impl ResolvedDependency {
    /// A binding of this id to nothing.
    pub fn new(dependency_id: impl Into<String>) -> Self {
        Self { dependency_id: dependency_id.into(), ..Self::default() }
    }
}

/// Returns the bindings of each dependency, in the order of the dependencies: several for a pool.
pub(crate) fn by_dependency(all: &[ResolvedDependency]) -> Vec<Vec<&ResolvedDependency>> {
    let mut groups: Vec<Vec<&ResolvedDependency>> = Vec::new();
    for one in all {
        let in_pool = |of: &&ResolvedDependency| {
            one.pool_index.is_some() && of.pool_index.is_some() && of.dependency_id == one.dependency_id
        };
        match groups.iter_mut().find(|group| group.first().is_some_and(in_pool)) {
            Some(group) => group.push(one),
            None => groups.push(vec![one]),
        }
    }
    groups
}

/// Splits the name of a tool, such as `mcp.files.read`, into the server and the tool: one of the servers that a node is bound to.
#[cfg(feature = "dynamic")]
pub(super) fn server_and_tool<'n>(name: &'n str, bound: &[ResolvedDependency]) -> Option<(String, &'n str)> {
    let servers = bound.iter().filter_map(|of| of.server_id.as_deref());
    let of_server = |server: &str| {
        let tool = name.strip_prefix("mcp.")?.strip_prefix(server)?.strip_prefix('.')?;
        Some((server.to_owned(), tool))
    };
    // The name of a server may have dots.
    servers.filter_map(of_server).max_by_key(|(server, _)| server.len())
}

#[cfg(all(test, feature = "dynamic"))]
mod tests {
    use super::*;

    #[test]
    fn the_longest_name_of_a_server_counts() {
        let bound = |server: &str| ResolvedDependency { server_id: Some(server.to_owned()), ..Default::default() };
        let all = [bound("code"), bound("code.review")];
        let found = |name| server_and_tool(name, &all);
        assert_eq!(found("mcp.code.review.read"), Some(("code.review".to_owned(), "read")));
        assert_eq!(found("mcp.code.read"), Some(("code".to_owned(), "read")));
        assert_eq!((found("mcp.codes.read"), found("read")), (None, None));
    }
}

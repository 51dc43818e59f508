//! The dependencies of a node as data: a tool, a resource or a prompt of an MCP server, or a remote
//! agent (A2A).

use serde::{Deserialize, Serialize};

/// A binding of a node: the result, or a possible result, of resolving one of its dependencies.
///
/// [`GraphNode::dependencies`](super::GraphNode::dependencies) has the bindings of a node.
/// [`NodeReport::resolved_dependencies`](crate::runtime::NodeReport::resolved_dependencies) has
/// those that a run has resolved.
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
    /// Id of the dependency. Bindings with the same id are the candidates of a pool.
    pub dependency_id: String,
    /// Name of the MCP server in the program.
    pub server_id: Option<String>,
    /// Tool of the server; `None` if a model chooses among its tools.
    pub tool_name: Option<String>,
    /// Address of the resource.
    pub resource_uri: Option<String>,
    /// Name of the prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_name: Option<String>,
    /// Name of the agent in the program.
    pub agent_id: Option<String>,
    /// Address of the agent.
    pub endpoint: Option<String>,
    /// Rating of the candidate. The library does not set it.
    pub score: Option<f64>,
    /// Position among the candidates of the pool, from 0; `None` if the binding is fixed.
    pub pool_index: Option<usize>,
}

impl ResolvedDependency {
    /// Creates a binding with this id and no target.
    pub fn new(dependency_id: impl Into<String>) -> Self {
        Self { dependency_id: dependency_id.into(), ..Self::default() }
    }
}

/// Returns the bindings of each dependency, in the order of the dependencies. A pool has several
/// bindings.
pub(crate) fn by_dependency(all: &[ResolvedDependency]) -> Vec<Vec<&ResolvedDependency>> {
    let mut groups: Vec<Vec<&ResolvedDependency>> = Vec::new();
    for one in all {
        let in_pool = |of: &&ResolvedDependency| {
            one.pool_index.is_some()
                && of.pool_index.is_some()
                && of.dependency_id == one.dependency_id
        };
        match groups.iter_mut().find(|group| group.first().is_some_and(in_pool)) {
            Some(group) => group.push(one),
            None => groups.push(vec![one]),
        }
    }
    groups
}

/// Splits a tool name such as `mcp.files.read` into the server and the tool. Knows only the servers
/// that the node is bound to.
#[cfg(feature = "dynamic")]
pub(super) fn server_and_tool<'n>(
    name: &'n str,
    bound: &[ResolvedDependency],
) -> Option<(String, &'n str)> {
    let servers = bound.iter().filter_map(|of| of.server_id.as_deref());
    let of_server = |server: &str| {
        let tool = name.strip_prefix("mcp.")?.strip_prefix(server)?.strip_prefix('.')?;
        Some((server.to_owned(), tool))
    };
    // Names of servers may contain dots, so the longest match counts.
    servers.filter_map(of_server).max_by_key(|(server, _)| server.len())
}

#[cfg(all(test, feature = "dynamic"))]
mod tests {
    use super::*;

    #[test]
    fn the_longest_name_of_a_server_counts() {
        let bound = |server: &str| ResolvedDependency {
            server_id: Some(server.to_owned()),
            ..Default::default()
        };
        let all = [bound("code"), bound("code.review")];
        let found = |name| server_and_tool(name, &all);
        assert_eq!(found("mcp.code.review.read"), Some(("code.review".to_owned(), "read")));
        assert_eq!(found("mcp.code.read"), Some(("code".to_owned(), "read")));
        assert_eq!((found("mcp.codes.read"), found("read")), (None, None));
    }
}

//! What a node of the form `edges` is bound to: the servers and the agent of its `dependencies`. It looks nothing up.

use super::object_fields::{Fields, Problems};
use crate::text_tree::Tree;

/// The most candidates of a pool.
const MOST_CANDIDATES: usize = 5;

/// What a node is bound to.
#[derive(Default)]
pub(super) struct Bound<'t> {
    pub(super) servers: Vec<BoundServer<'t>>,
    pub(super) agents: Vec<&'t str>,
    /// Whether something in it has a mistake, so that what is missing is not one more.
    pub(super) is_broken: bool,
}

/// A server of MCP, and the tool of it, where one is named.
pub(super) struct BoundServer<'t> {
    pub(super) id: &'t str,
    pub(super) tool: Option<&'t str>,
}

impl<'t> Bound<'t> {
    /// Reads the list of dependencies; `allowed` are the servers that may be bound, where that is limited.
    pub(super) fn read(items: &'t [Tree], allowed: &[Vec<&str>], problems: &mut Problems) -> Self {
        let mut bound = Self::default();
        for item in items {
            let before = problems.0.len();
            bound.add(item, allowed, problems);
            bound.is_broken |= problems.0.len() > before;
        }
        bound
    }

    fn add(&mut self, tree: &'t Tree, allowed: &[Vec<&str>], problems: &mut Problems) {
        const KINDS: [&str; 4] = ["mcp_tool", "mcp_resource", "mcp_prompt", "a2a_agent"];
        let Some(fields) = Fields::of(tree, "a dependency", problems) else { return };
        let mut fields = fields.or_camel();
        fields.need_text("dependency_id", problems);
        if fields.need("dependency_type", problems).is_none() {
            fields.get("dependency_type");
        }
        let kind = fields.word("dependency_type", &KINDS, problems);
        let mode = fields.word("resolution_mode", &["fixed", "pool"], problems).unwrap_or("fixed");
        fields.flag("required", true, problems);
        let fixed = fields.get("fixed_ref");
        let pool = fields.list("pool_refs", problems);
        let pool_at = tree.field("pool_refs").or_else(|| tree.field("poolRefs")).map_or(&tree.at, |field| &field.at);
        fields.end(problems);
        if pool.len() > MOST_CANDIDATES {
            problems.note(pool_at, format!("pool_refs must contain at most {MOST_CANDIDATES} candidates"));
        }
        for candidate in pool {
            Reference::read(candidate, problems);
        }
        match (mode, fixed) {
            ("pool", _) => problems.note(
                pool_at,
                "a pool, of which a model picks one when the node begins, is not read; write `resolution_mode: fixed` and a \
                 `fixed_ref`",
            ),
            (_, None) => problems.note(&tree.at, "a dependency with `resolution_mode: fixed` needs `fixed_ref`"),
            (_, Some(fixed)) => {
                if !pool.is_empty() {
                    problems.note(pool_at, "`pool_refs` belong to `resolution_mode: pool`; remove them, or `fixed_ref`");
                }
                let Some(reference) = Reference::read(fixed, problems) else { return };
                match kind {
                    Some("mcp_tool") => self.server(fixed, &reference, allowed, problems),
                    Some("a2a_agent") => match reference.agent {
                        Some(agent) => self.agents.push(agent),
                        None => problems.note(
                            &fixed.at,
                            "the `fixed_ref` of an agent needs `agent_id`, the name that the program gave the agent",
                        ),
                    },
                    Some(other) => problems.note(
                        &tree.at,
                        format!(
                            "a node that reads a resource or a prompt of a server (`{other}`) is not read; bind a tool with \
                             `mcp_tool`"
                        ),
                    ),
                    None => {}
                }
            }
        }
    }

    fn server(&mut self, at: &'t Tree, of: &Reference<'t>, allowed: &[Vec<&str>], problems: &mut Problems) {
        let Some(id) = of.server else {
            problems
                .note(&at.at, "the `fixed_ref` of a tool needs `server_id`, the name that the program gave the server");
            return;
        };
        if allowed.iter().any(|allowed| !allowed.is_empty() && !allowed.contains(&id)) {
            let place = at.place_of(id).unwrap_or_else(|| at.at.clone());
            let problem = "is not among the servers that may be bound, by `acl_server_ids` or `acl_scope`";
            problems.note(&place, format!("the server `{id}` {problem}"));
            return;
        }
        self.servers.push(BoundServer { id, tool: of.tool });
    }
}

/// A `fixed_ref`, or a candidate of a pool.
struct Reference<'t> {
    server: Option<&'t str>,
    tool: Option<&'t str>,
    agent: Option<&'t str>,
}

impl<'t> Reference<'t> {
    fn read(tree: &'t Tree, problems: &mut Problems) -> Option<Self> {
        let mut fields = Fields::of(tree, "a reference", problems)?.or_camel();
        let mut text = |name| fields.text(name, problems).and_then(Tree::text);
        let (server, tool, agent) = (text("server_id"), text("tool_name"), text("agent_id"));
        for name in ["resource_uri", "prompt_name", "endpoint"] {
            text(name);
        }
        fields.end(problems);
        Some(Self { server, tool, agent })
    }
}

//! The dependencies of a node of the document form `edges`: the servers and agents that it is bound
//! to, or a pool of candidates from which a model picks one during the run. Names are not resolved
//! here.

use agentflow_schema::diagnostic::Diagnostic;
use agentflow_schema::text_tree::Tree;

use super::document_codes;
use super::object_fields::{Fields, Problems};
use crate::workflow::ResolvedDependency;

/// Maximum number of candidates in a pool.
const MOST_CANDIDATES: usize = 5;

/// The bindings of a node.
#[derive(Default)]
pub(super) struct Bound<'t> {
    pub(super) servers: Vec<BoundServer<'t>>,
    /// Agents by the names that the program registered, or by their addresses.
    pub(super) agents: Vec<&'t str>,
    /// All bindings, in the order of the dependencies.
    pub(super) resolved: Vec<ResolvedDependency>,
    /// The candidates of a pool, if there are several.
    pub(super) pool: Option<Pool<'t>>,
    /// `true` if an optional pool has no candidate.
    pub(super) is_free: bool,
    /// `true` if a dependency has a mistake, so that a missing binding is not reported as a further
    /// mistake.
    pub(super) is_broken: bool,
}

/// An MCP server, and one of its tools if the document names it.
pub(super) struct BoundServer<'t> {
    pub(super) id: &'t str,
    pub(super) tool: Option<&'t str>,
    /// Address of a resource, if the document contains it.
    pub(super) resource: Option<&'t str>,
    /// Name of a prompt.
    pub(super) prompt: Option<&'t str>,
}

/// Tools that read the resources and get the prompts of a server.
pub(super) const READ_RESOURCE: &str = "read_resource";
pub(super) const GET_PROMPT: &str = "get_prompt";

/// Candidates of the same kind, servers or agents. A model picks one when the node starts.
pub(super) struct Pool<'t> {
    pub(super) candidates: Vec<Candidate<'t>>,
    /// The candidates' positions in the document.
    pub(super) places: Vec<&'t Tree>,
}

/// A `fixed_ref`, or a candidate of a pool.
pub(super) struct Candidate<'t> {
    /// Index in the `pool_refs` of the document, from 0.
    pub(super) place: usize,
    pub(super) server: Option<&'t str>,
    pub(super) tool: Option<&'t str>,
    pub(super) agent: Option<&'t str>,
    pub(super) endpoint: Option<&'t str>,
    pub(super) resource: Option<&'t str>,
    pub(super) prompt: Option<&'t str>,
}

impl<'t> Bound<'t> {
    /// Reads the list of dependencies. `allowed` contains lists of the servers that may be bound;
    /// an empty list allows all servers.
    pub(super) fn read(items: &'t [Tree], allowed: &[Vec<&str>], problems: &mut Problems) -> Self {
        let mut bound = Self::default();
        for item in items {
            let before = problems.found.len();
            bound.add(item, allowed, problems);
            bound.is_broken |= problems.found.len() > before;
        }
        bound
    }

    fn add(&mut self, tree: &'t Tree, allowed: &[Vec<&str>], problems: &mut Problems) {
        const KINDS: [&str; 4] = ["mcp_tool", "mcp_resource", "mcp_prompt", "a2a_agent"];
        let Some(fields) = Fields::from_tree(tree, "a dependency", problems) else { return };
        let mut fields = fields.or_camel();
        let id = fields.need_text("dependency_id", problems).map(|(id, _)| id);
        if fields.need("dependency_type").is_none() {
            fields.get("dependency_type");
        }
        let kind = fields.word("dependency_type", &KINDS, problems);
        let mode = fields.word("resolution_mode", &["fixed", "pool"], problems).unwrap_or("fixed");
        let is_required = fields.flag("required", true, problems);
        let id = id.unwrap_or_default();
        let fixed = fields.get("fixed_ref");
        let pool = fields.get("pool_refs").map(|_| fields.list("pool_refs", problems));
        let pool_at = tree
            .field("pool_refs")
            .or_else(|| tree.field("poolRefs"))
            .map_or(&tree.at, |field| &field.at);
        fields.end(problems);
        let refs = pool.unwrap_or_default();
        if refs.len() > MOST_CANDIDATES {
            problems.note(
                pool_at,
                Diagnostic::new(document_codes::TOO_MANY_CANDIDATES).text("most", MOST_CANDIDATES),
            );
            return;
        }
        match (mode, fixed) {
            ("pool", Some(fixed)) => {
                problems.note(&fixed.at, Diagnostic::new(document_codes::FIXED_REFERENCE_OF_POOL));
            }
            ("pool", None) if pool.is_none() => {
                problems.note(&tree.at, Diagnostic::new(document_codes::MISSING_POOL));
            }
            ("pool", None) => {
                let before = problems.found.len();
                let mut candidates: Vec<(&Tree, Candidate<'t>)> = Vec::new();
                for (place, tree) in refs.iter().enumerate() {
                    let read =
                        kind.and_then(|kind| Candidate::read(tree, kind, "a candidate", problems));
                    candidates
                        .extend(read.map(|candidate| (tree, Candidate { place, ..candidate })));
                }
                if problems.found.len() == before
                    && let Some(kind) = kind
                    && !id.is_empty()
                {
                    // Candidates that may not be bound are removed silently, unless none is left
                    // for a required dependency.
                    let may_be_bound = |(_, of): &(&Tree, Candidate<'t>)| {
                        of.server.is_none_or(|id| is_allowed(id, allowed))
                    };
                    let candidates: Vec<_> = candidates.into_iter().filter(may_be_bound).collect();
                    if candidates.is_empty() && is_required {
                        let code = match refs.is_empty() {
                            true => document_codes::EMPTY_POOL,
                            false => document_codes::POOL_NOT_ALLOWED,
                        };
                        problems.note(pool_at, Diagnostic::new(code).name("dependency", id));
                    }
                    self.resolved
                        .extend(candidates.iter().map(|(_, of)| of.binding(id, Some(of.place))));
                    self.pooled(tree, kind, candidates, allowed, problems);
                }
            }
            (_, None) => {
                problems.note(&tree.at, Diagnostic::new(document_codes::MISSING_FIXED_REFERENCE));
            }
            (_, Some(fixed)) => {
                if !refs.is_empty() {
                    problems
                        .note(pool_at, Diagnostic::new(document_codes::POOL_OF_FIXED_REFERENCE));
                }
                let Some(kind) = kind else { return };
                if let Some(reference) = Candidate::read(fixed, kind, "the `fixed_ref`", problems) {
                    self.resolved.push(reference.binding(id, None));
                    self.fixed(fixed, kind, &reference, allowed, problems);
                }
            }
        }
    }

    /// Binds the remaining candidates: none, a single one, or a pool.
    fn pooled(
        &mut self,
        tree: &'t Tree,
        kind: &str,
        candidates: Vec<(&'t Tree, Candidate<'t>)>,
        allowed: &[Vec<&str>],
        problems: &mut Problems,
    ) {
        match candidates.as_slice() {
            [] => self.is_free = true,
            [(at, only)] => self.fixed(at, kind, only, allowed, problems),
            _ => {
                if self.pool.is_some() {
                    problems.note(&tree.at, Diagnostic::new(document_codes::SECOND_POOL));
                }
                let (places, candidates) = candidates.into_iter().unzip();
                self.pool = Some(Pool { candidates, places });
            }
        }
    }

    fn fixed(
        &mut self,
        at: &'t Tree,
        kind: &str,
        of: &Candidate<'t>,
        allowed: &[Vec<&str>],
        problems: &mut Problems,
    ) {
        match (kind, of.server) {
            ("a2a_agent", _) => self.agents.extend(of.called_agent()),
            (_, Some(id)) if !is_allowed(id, allowed) => {
                let place = at.place_of(id).unwrap_or_else(|| at.at.clone());
                problems.note(
                    &place,
                    Diagnostic::new(document_codes::SERVER_NOT_ALLOWED).name("server", id),
                );
            }
            ("mcp_resource", Some(id)) => {
                let (tool, resource) = (Some(READ_RESOURCE), of.resource);
                self.servers.push(BoundServer { id, tool, resource, prompt: None });
            }
            ("mcp_prompt", Some(id)) => {
                self.servers.push(BoundServer {
                    id,
                    tool: Some(GET_PROMPT),
                    resource: None,
                    prompt: of.prompt,
                });
            }
            (_, Some(id)) => {
                self.servers.push(BoundServer { id, tool: of.tool, resource: None, prompt: None });
            }
            (_, None) => {}
        }
    }
}

fn is_allowed(server: &str, allowed: &[Vec<&str>]) -> bool {
    allowed.iter().all(|allowed| allowed.is_empty() || allowed.contains(&server))
}

impl<'t> Candidate<'t> {
    /// Reads a reference for a dependency of this kind. `what` names it in messages.
    fn read(tree: &'t Tree, kind: &str, what: &str, problems: &mut Problems) -> Option<Self> {
        let mut fields = Fields::from_tree(tree, "a reference", problems)?.or_camel();
        let mut text = |name| fields.text(name, problems).and_then(Tree::text);
        let (server, tool, agent) = (text("server_id"), text("tool_name"), text("agent_id"));
        let (resource, prompt, endpoint) =
            (text("resource_uri"), text("prompt_name"), text("endpoint"));
        fields.end(problems);
        let is_agent = kind == "a2a_agent";
        if let Some(address) = endpoint.filter(|_| is_agent && agent.is_none())
            && !is_address(address)
        {
            let place = tree.place_of(address).unwrap_or_else(|| tree.at.clone());
            problems.note(
                &place,
                Diagnostic::new(document_codes::INVALID_ENDPOINT).name("endpoint", address),
            );
            return None;
        }
        let missing = match kind {
            "a2a_agent" if agent.is_none() && endpoint.is_none() => {
                document_codes::REFERENCE_WITHOUT_AGENT
            }
            "mcp_tool" if server.is_none() => document_codes::TOOL_WITHOUT_SERVER,
            "mcp_resource" if server.is_none() => document_codes::RESOURCE_WITHOUT_SERVER,
            "mcp_prompt" if server.is_none() => document_codes::PROMPT_WITHOUT_SERVER,
            "mcp_prompt" if prompt.is_none() => document_codes::PROMPT_WITHOUT_NAME,
            _ => {
                // The resources and prompts of a server are read with one of its tools.
                let tool = match kind {
                    "mcp_resource" => Some(READ_RESOURCE),
                    "mcp_prompt" => Some(GET_PROMPT),
                    _ => tool,
                };
                return Some(Self { place: 0, server, tool, agent, endpoint, resource, prompt });
            }
        };
        problems.note(&tree.at, Diagnostic::new(missing).text("reference", what));
        None
    }

    /// Returns the agent by its registered name, otherwise by its address.
    pub(super) fn called_agent(&self) -> Option<&'t str> {
        self.agent.or(self.endpoint.filter(|_| self.server.is_none()))
    }

    /// Returns the binding of a dependency to this candidate, with its index in a pool.
    pub(super) fn binding(
        &self,
        dependency: &str,
        pool_index: Option<usize>,
    ) -> ResolvedDependency {
        let owned = |text: Option<&str>| text.map(ToOwned::to_owned);
        let mut binding = ResolvedDependency::new(dependency);
        binding.server_id = owned(self.server);
        binding.tool_name = owned(self.tool);
        binding.resource_uri = owned(self.resource);
        binding.prompt_name = owned(self.prompt);
        binding.agent_id = owned(self.agent);
        binding.endpoint = owned(self.endpoint);
        binding.pool_index = pool_index;
        binding
    }
}

/// Returns true for an HTTP address. The A2A client parses the address when the document is
/// checked.
pub(super) fn is_address(text: &str) -> bool {
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'))
        && !text.contains(char::is_whitespace)
}

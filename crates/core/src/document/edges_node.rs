//! A node of the document form `edges`: reads its fields, and generates the call for each kind of
//! node. Edges are handled in `edges_wiring.rs`.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use agentflow_schema::diagnostic::{Diagnostic, DiagnosticSubject, SubjectKind};
use agentflow_schema::expression::Expression;
use agentflow_schema::text::Renaming;
use agentflow_schema::text_tree::{Datum, Tree};
use serde_json::{Value, json};

use super::bound_server::{Bound, BoundServer, Pool, READ_RESOURCE};
use super::document_agent::DocumentAgent;
use super::document_codes;
use super::edges_pool::{PoolWorkflow, Task};
use super::object_fields::{Fields, Problems};
use crate::error::FailureClass;
use crate::model::ModelSettings;
use crate::workflow::{
    Graph, GraphBody, GraphNode, Mapping, NodePolicy, OnError, Reference, ResolvedDependency,
    RetryPolicy,
};

/// Name of the workflow's input, an object whose fields are the initial values of the state.
pub(super) const INPUT: &str = "input";

/// Default time limit of an attempt, in milliseconds.
const TIMEOUT_MS: u64 = 30_000;

/// Settings of the document that apply to all nodes.
pub(super) struct SharedNodeSettings<'t> {
    /// Name of the workflow.
    pub(super) workflow: &'t str,
    /// Model that chooses among the tools of a server.
    pub(super) model: Option<&'t str>,
    /// Servers that nodes may be bound to; empty for all.
    pub(super) servers: Vec<&'t str>,
}

/// A node of the document.
pub(super) struct EdgesNode<'t> {
    pub(super) tree: &'t Tree,
    pub(super) id: &'t str,
    pub(super) does: Does<'t>,
    pub(super) agents: Vec<DocumentAgent>,
    /// The workflow that a node with a pool calls.
    pub(super) inner: Option<Graph>,
    /// The positions of the pool's candidates in the document.
    pub(super) candidates: Vec<&'t Tree>,
    pub(super) join_group: Option<(&'t str, &'t Tree)>,
    pub(super) on_error: Failed<'t>,
    dependencies: Vec<ResolvedDependency>,
    policy: NodePolicy,
    saves: BTreeMap<String, String>,
}

/// Action of a node.
pub(super) enum Does<'t> {
    Call(Reference),
    /// Call to a remote agent (A2A) with a task. The value of `context` is appended to the task.
    Ask {
        agent: &'t str,
        task: &'t str,
        context: Mapping,
    },
    Router(Option<Expression>),
    Join,
    Terminal,
}

/// Error handling of a node (`on_error`).
#[derive(Clone, Copy)]
pub(super) enum Failed<'t> {
    Fails,
    Skips,
    /// Continue with another node: the named node, or the target of an edge with `condition_key:
    /// error`.
    Routes(Option<(&'t str, &'t Tree)>, &'t Tree),
}

impl<'t> EdgesNode<'t> {
    pub(super) fn read(
        tree: &'t Tree,
        common: &SharedNodeSettings<'t>,
        problems: &mut Problems,
    ) -> Option<Self> {
        const KINDS: [&str; 5] = ["mcp", "a2a", "router", "join", "terminal"];
        let mut fields = Fields::from_tree(tree, "a node", problems)?.or_camel();
        let id = fields.need_text("node_id", problems).map(|(id, _)| id);
        let kind = match fields.need("kind") {
            Some(_) => fields.word("kind", &KINDS, problems),
            None => None,
        };
        fields.text("label", problems);
        let only = |name, of: &str, fields: &mut Fields<'t>, problems: &mut Problems| {
            let found = fields.text(name, problems).and_then(|tree| Some((tree.text()?, tree)));
            if let (Some((_, at)), Some(kind)) = (found, kind)
                && kind != of
            {
                problems.note(
                    &at.at,
                    Diagnostic::new(document_codes::FIELD_OF_OTHER_KIND)
                        .name("owner", of)
                        .name("field", name)
                        .name("kind", kind),
                );
            }
            found
        };
        let capability = only("capability", "mcp", &mut fields, problems);
        let task = only("task", "a2a", &mut fields, problems);
        let condition = only("condition_expr", "router", &mut fields, problems);
        let join_group = only("join_group", "join", &mut fields, problems);
        let dependencies = fields.list("dependencies", problems);
        let retry = fields.get("retry_policy").map(|tree| retry_policy(tree, problems));
        let timeout: Option<u64> = fields.read("timeout_ms", problems);
        let on_error = on_error(&mut fields, problems);
        let permissions = fields.get("permissions");
        let inputs = fields.texts_by_name("input_mapping", problems);
        let outputs = fields.texts_by_name("output_mapping", problems);
        let calls = matches!(kind, Some("mcp" | "a2a"));
        if !calls && kind.is_some() {
            for (name, camel) in [
                ("dependencies", "dependencies"),
                ("retry_policy", "retryPolicy"),
                ("timeout_ms", "timeoutMs"),
                ("input_mapping", "inputMapping"),
                ("output_mapping", "outputMapping"),
            ] {
                let field = tree.field(name).or_else(|| tree.field(camel));
                let is_said = |field: &&agentflow_schema::text_tree::Field| match &field.value.datum
                {
                    Datum::Null => false,
                    Datum::List(items) => !items.is_empty(),
                    Datum::Object(fields) => name == "retry_policy" || !fields.is_empty(),
                    _ => true,
                };
                // Editors write the default values into every node, so defaults are accepted.
                let is_default = timeout == Some(TIMEOUT_MS) && name == "timeout_ms"
                    || name == "retry_policy" && retry == Some(retry_of_nothing());
                if let Some(field) = field.filter(is_said).filter(|_| !is_default) {
                    let kind = kind.unwrap_or_default();
                    problems.note(
                        &field.at,
                        Diagnostic::new(document_codes::FIELD_OF_CALL)
                            .name("kind", kind)
                            .name("field", name),
                    );
                }
            }
        }
        fields.end(problems);
        let permissions = permissions
            .map(|tree| Permissions::read(tree, "acl_server_ids", problems))
            .unwrap_or_default();
        let allowed = [permissions.servers.clone(), common.servers.clone()];
        let bound = Bound::read(dependencies, &allowed, problems);
        let id = id?;
        let (mut agents, mut inner) = (Vec::new(), None);
        let mut policy = NodePolicy::default();
        if calls {
            policy = policy.retry_policy(retry.unwrap_or_else(retry_of_nothing));
            policy.timeout_ms = Some(timeout.unwrap_or(TIMEOUT_MS));
        }
        let does = match (kind?, &bound.pool) {
            (kind @ ("mcp" | "a2a"), Some(pool)) => {
                let text = if kind == "mcp" { capability } else { task };
                let text = picked_for(tree, id, kind, pool, &bound, text, problems)?;
                if pool
                    .candidates
                    .iter()
                    .any(|of| of.tool == Some(READ_RESOURCE) && of.resource.is_none())
                {
                    check_address(tree, id, &inputs, problems);
                }
                // The policy applies to the calls in the pool's workflow. The choice of a candidate
                // is not retried.
                let policy = std::mem::take(&mut policy);
                let task = Task { node: id, text, has_inputs: !inputs.is_empty(), policy };
                let picked = PoolWorkflow::new(pool, &bound.resolved, &task, common);
                let call = Reference::workflow(
                    &picked.graph.name,
                    Mapping::object([(INPUT, mapped(&inputs))]),
                );
                (agents, inner) = (picked.agents, Some(picked.graph));
                Does::Call(call)
            }
            ("mcp", None) => {
                let (reference, made) =
                    mcp(tree, id, common, &bound, capability, &inputs, problems)?;
                agents.extend(made);
                Does::Call(reference)
            }
            ("a2a", None) => {
                let (agent, task) = a2a(tree, id, &bound, task, problems)?;
                Does::Ask { agent, task, context: mapped(&inputs) }
            }
            ("router", _) => {
                Does::Router(condition.and_then(|(text, at)| over_state(text, at, problems)))
            }
            ("join", _) => Does::Join,
            _ => Does::Terminal,
        };
        policy = permissions.restrict(policy);
        if permissions.approves {
            policy = policy.approve(approval_of(id));
        }
        if let Failed::Skips = on_error {
            policy = policy.on_error(OnError::Skip);
        }
        // Without an output mapping, all fields of the output are saved.
        let saves = match (calls, outputs.is_empty()) {
            (true, true) => BTreeMap::from([("*".to_owned(), String::new())]),
            _ => outputs.iter().map(|(key, part, _)| ((*key).to_owned(), pointer(part))).collect(),
        };
        let candidates = bound.pool.map(|pool| pool.places).unwrap_or_default();
        let dependencies = bound.resolved;
        Some(Self {
            tree,
            id,
            does,
            agents,
            inner,
            candidates,
            join_group,
            on_error,
            dependencies,
            policy,
            saves,
        })
    }

    /// Returns the node of the graph, without its edges.
    pub(super) fn node(&self, does: GraphBody) -> GraphNode {
        let mut node = GraphNode::new(self.id, does).policy(self.policy.clone());
        node.dependencies.clone_from(&self.dependencies);
        self.saves.iter().fold(node, |node, (key, at)| node.save(key, at))
    }
}

/// Returns the question for the approval of a node.
pub(super) fn approval_of(node: &str) -> String {
    format!("may `{}` begin?", node.replace('{', "{{").replace('}', "}}"))
}

/// Returns the JSON Pointer of an object's field.
fn pointer(field: &str) -> String {
    format!("/{}", field.replace('~', "~0").replace('/', "~1"))
}

/// Default retry policy of a node: two retries after a time-out or a rate limit.
fn retry_of_nothing() -> RetryPolicy {
    RetryPolicy::retries(2).retry_on([FailureClass::Timeout, FailureClass::RateLimit])
}

fn retry_policy(tree: &Tree, problems: &mut Problems) -> RetryPolicy {
    let mut policy = retry_of_nothing();
    let Some(fields) = Fields::from_tree(tree, "a retry policy", problems) else { return policy };
    let mut fields = fields.or_camel();
    if let Some(attempts) = fields.read::<u32>("max_attempts", problems) {
        policy.max_attempts = attempts;
    }
    if let Some(pause) = fields.read::<u64>("backoff_ms", problems) {
        policy.backoff_ms = pause;
    }
    if let Some(factor) = fields.read::<f64>("backoff_multiplier", problems) {
        policy.backoff_multiplier = factor;
    }
    if let Some(classes) = fields.read::<Vec<FailureClass>>("retry_on", problems) {
        policy.retry_on = classes;
    }
    fields.end(problems);
    policy
}

fn on_error<'t>(fields: &mut Fields<'t>, problems: &mut Problems) -> Failed<'t> {
    let word = fields.word("on_error", &["fail_workflow", "skip_node", "route_to_node"], problems);
    let tree = fields.tree;
    let target =
        fields.text("on_error_node_id", problems).and_then(|tree| Some((tree.text()?, tree)));
    match (word, target) {
        (Some("route_to_node"), target) => Failed::Routes(target, tree),
        (word, Some((_, at))) => {
            problems.note(&at.at, Diagnostic::new(document_codes::ERROR_TARGET_OF_OTHER_POLICY));
            if word == Some("skip_node") { Failed::Skips } else { Failed::Fails }
        }
        (Some("skip_node"), None) => Failed::Skips,
        _ => Failed::Fails,
    }
}

/// The permissions of a node or of the workflow.
#[derive(Default)]
pub(super) struct Permissions<'t> {
    /// `true` if a person must approve the start.
    pub(super) approves: bool,
    /// Servers that the node, or all nodes, may be bound to. Empty for all.
    pub(super) servers: Vec<&'t str>,
    roles: Vec<&'t str>,
    users: Vec<&'t str>,
}

impl<'t> Permissions<'t> {
    /// Reads the permissions. `servers` is the name of the field with the servers.
    pub(super) fn read(tree: &'t Tree, servers: &'static str, problems: &mut Problems) -> Self {
        let Some(fields) = Fields::from_tree(tree, "`permissions`", problems) else {
            return Self::default();
        };
        let mut fields = fields.or_camel();
        let approves = fields.flag("require_approval", false, problems);
        let mut names = |field, problems: &mut Problems| {
            fields.texts(field, problems).into_iter().map(|(name, _)| name).collect()
        };
        let (servers, roles, users) = (
            names(servers, problems),
            names("allowed_roles", problems),
            names("allowed_users", problems),
        );
        fields.end(problems);
        Self { approves, servers, roles, users }
    }

    /// Adds the callers that may run the node to its policy.
    pub(super) fn restrict(&self, policy: NodePolicy) -> NodePolicy {
        policy.allowed_roles(self.roles.iter().copied()).allowed_users(self.users.iter().copied())
    }
}

/// Returns the arguments of a call: the mapped values of the state, without missing keys. Without a
/// mapping, the whole state.
fn mapped(inputs: &[(&str, &str, &Tree)]) -> Mapping {
    let of_key = |key: &str| Mapping::State {
        key: key.to_owned(),
        at: String::new(),
        or: None,
        optional: true,
    };
    match inputs.is_empty() {
        true => Mapping::state(""),
        false => Mapping::object(inputs.iter().map(|(name, key, _)| (*name, of_key(key)))),
    }
}

/// Returns the arguments of a tool. A tool that reads a resource or gets a prompt receives the
/// address or the name. Any other tool receives the mapped inputs of the node, or the whole state.
pub(super) fn arguments(
    resource: Option<&str>,
    prompt: Option<&str>,
    given: Option<Mapping>,
) -> Mapping {
    let text = |text: &str| Mapping::Value(json!(text));
    match (resource, prompt, given) {
        (Some(uri), _, _) => Mapping::object([("uri", text(uri))]),
        (None, Some(name), None) => Mapping::object([("name", text(name))]),
        (None, Some(name), Some(given)) => {
            Mapping::object([("name", text(name)), ("arguments", given)])
        }
        (None, None, given) => given.unwrap_or(Mapping::state("")),
    }
}

/// Reports a missing address of a resource.
fn check_address(tree: &Tree, id: &str, inputs: &[(&str, &str, &Tree)], problems: &mut Problems) {
    if inputs.iter().all(|(name, ..)| *name != "uri") {
        problems.note(&tree.at, Diagnostic::new(document_codes::MISSING_RESOURCE).name("node", id));
    }
}

/// Returns the mapping that builds the output of a node: the result of the tool, or of the model
/// that chose a tool, with the names of the tool and the server.
pub(super) fn shaped(tool: Value, server: Option<&str>) -> Mapping {
    Mapping::object([
        ("output", Mapping::Item(String::new())),
        ("tool_used", Mapping::Value(tool)),
        ("server_id", Mapping::Value(json!(server))),
    ])
}

/// Returns the text for the candidates of a pool: the task for agents, the capability for servers.
/// Reports an error and returns `None` if the pool cannot be used.
fn picked_for<'t>(
    tree: &Tree,
    id: &str,
    kind: &str,
    pool: &Pool<'_>,
    bound: &Bound<'_>,
    text: Option<(&'t str, &Tree)>,
    problems: &mut Problems,
) -> Option<&'t str> {
    let of_agents = kind == "a2a";
    if !bound.servers.is_empty() || !bound.agents.is_empty() {
        problems
            .note(&tree.at, Diagnostic::new(document_codes::POOL_AND_DEPENDENCY).name("node", id));
        return None;
    }
    if pool
        .candidates
        .iter()
        .any(|of| of.called_agent().is_some() != of_agents || of.server.is_some() == of_agents)
    {
        let (own, other) =
            if of_agents { ("an agent", "a server") } else { ("a server", "an agent") };
        problems.note(
            &tree.at,
            Diagnostic::new(document_codes::BINDING_OF_OTHER_KIND)
                .name("node", id)
                .text("bound", other)
                .name("kind", kind)
                .text("expected", own),
        );
        return None;
    }
    let text = text.map(|(text, _)| text).filter(|text| !text.trim().is_empty());
    if text.is_none() && pool.candidates.iter().any(|of| of.tool.is_none()) {
        let code = match of_agents {
            true => document_codes::MISSING_TASK,
            false => document_codes::MISSING_POOL_CAPABILITY,
        };
        problems.note(&tree.at, Diagnostic::new(code).name("node", id));
        return None;
    }
    Some(text.unwrap_or_default())
}

fn mcp<'t>(
    tree: &'t Tree,
    id: &'t str,
    common: &SharedNodeSettings<'t>,
    bound: &Bound<'t>,
    capability: Option<(&'t str, &'t Tree)>,
    inputs: &[(&str, &str, &Tree)],
    problems: &mut Problems,
) -> Option<(Reference, Option<DocumentAgent>)> {
    if !bound.agents.is_empty() {
        problems
            .note(&tree.at, Diagnostic::new(document_codes::AGENT_OF_MCP_NODE).name("node", id));
        return None;
    }
    let servers = bound.servers.as_slice();
    let direct = servers
        .first()
        .filter(|_| servers.len() == 1)
        .and_then(|server| Some((server.id, server.tool?, (server.resource, server.prompt))));
    if let Some((server, tool, (resource, prompt))) = direct {
        let with = arguments(resource, prompt, (!inputs.is_empty()).then(|| mapped(inputs)));
        if let (Some(_), Some((_, _, at))) = (resource, inputs.first()) {
            problems
                .note(&at.at, Diagnostic::new(document_codes::INPUT_OF_RESOURCE).name("node", id));
        } else if resource.is_none() && tool == READ_RESOURCE {
            check_address(tree, id, inputs, problems);
        }
        let call = Reference::tool(format!("mcp.{server}.{tool}"), with);
        return Some((call.giving(shaped(json!(tool), Some(server))), None));
    }
    match servers {
        // A mistake in the dependencies has already been reported.
        [] if bound.is_broken => None,
        [] if !bound.is_free => {
            problems
                .note(&tree.at, Diagnostic::new(document_codes::MISSING_SERVER).name("node", id));
            None
        }
        _ => {
            let Some((capability, _)) = capability.filter(|(text, _)| !text.trim().is_empty())
            else {
                problems.note(
                    &tree.at,
                    Diagnostic::new(document_codes::MISSING_CAPABILITY).name("node", id),
                );
                return None;
            };
            for of in servers {
                if let Some(name) = of.resource.or(of.prompt) {
                    let place = tree.place_of(name).unwrap_or_else(|| tree.at.clone());
                    problems.note(
                        &place,
                        Diagnostic::new(document_codes::SEVERAL_DEPENDENCIES)
                            .name("node", id)
                            .name("name", name),
                    );
                }
            }
            let name = format!("{}.{id}", common.workflow);
            let agent = DocumentAgent {
                name: name.as_str().into(),
                model: common.model.map(Into::into),
                instructions: capability.to_owned(),
                description: None,
                tools: tools_among(servers),
                settings: ModelSettings::default(),
            };
            // If the model calls a tool, its output contains the names of the tool and the server.
            let server = servers.first().filter(|_| servers.len() == 1).map(|server| server.id);
            let call = Reference::agent(name, mapped(inputs)).giving(shaped(Value::Null, server));
            Some((call, Some(agent)))
        }
    }
}

/// Returns the tools that a model can choose from: all tools of a server, or those that the
/// dependencies name.
fn tools_among(servers: &[BoundServer<'_>]) -> Vec<Arc<str>> {
    let mut tools: Vec<Arc<str>> = Vec::new();
    for of in servers {
        let has_all = servers.iter().any(|other| other.id == of.id && other.tool.is_none());
        let name: Arc<str> = match of.tool.filter(|_| !has_all) {
            Some(tool) => format!("mcp.{}.{tool}", of.id).into(),
            None => format!("mcp.{}", of.id).into(),
        };
        if !tools.contains(&name) {
            tools.push(name);
        }
    }
    tools
}

fn a2a<'t>(
    tree: &Tree,
    id: &str,
    bound: &Bound<'t>,
    task: Option<(&'t str, &Tree)>,
    problems: &mut Problems,
) -> Option<(&'t str, &'t str)> {
    let task = task.filter(|(text, _)| !text.trim().is_empty());
    if task.is_none() {
        problems.note(&tree.at, Diagnostic::new(document_codes::MISSING_TASK).name("node", id));
    }
    let agent = match (bound.agents.as_slice(), bound.servers.is_empty()) {
        ([agent], true) => Some(*agent),
        ([], true) if bound.is_broken => None,
        _ => {
            problems.note(
                &tree.at,
                Diagnostic::new(document_codes::MISSING_AGENT_BINDING).name("node", id),
            );
            None
        }
    };
    Some((agent?, task?.0))
}

/// Returns the call to a remote agent. The message is the task, followed by the value of the node
/// `context`.
pub(super) fn asked(agent: &str, task: &str, context: &str) -> Reference {
    let text = format!("{}\n\n{{{context}}}", task.replace('{', "{{").replace('}', "}}"));
    let message = text.parse().map_or_else(|_| Mapping::Value(json!(task)), Mapping::Template);
    Reference::tool(format!("a2a.{agent}"), Mapping::object([("message", message)]))
}

/// Parses an expression over the state. Its variables are state keys: `score` becomes
/// `state.score`.
fn over_state(text: &str, at: &Tree, problems: &mut Problems) -> Option<Expression> {
    let read = |text: &str, problems: &mut Problems| match text.parse::<Expression>() {
        Ok(expression) => Some(expression),
        Err(error) => {
            let field = DiagnosticSubject::new(SubjectKind::Field, "condition_expr");
            problems.note_in_text(at, text, Diagnostic::from(error).of(field));
            None
        }
    };
    let expression = read(text, problems)?;
    let mut places: Vec<Range<usize>> = Vec::new();
    for path in expression.paths() {
        let Some(root) =
            path.parts.first().filter(|root| !matches!(root.as_str(), "state" | "nodes"))
        else {
            continue;
        };
        match text.get(path.at..).and_then(|rest| rest.find(root.as_str())) {
            Some(found) => {
                let start = path.at + found;
                places.push(start..start + root.len());
            }
            None => problems
                .note(&at.at, Diagnostic::new(document_codes::UNWRITTEN_STATE).text("root", root)),
        }
    }
    places.sort_unstable_by_key(|place| place.start);
    places.dedup();
    let (over_state, renaming) = Renaming::apply_prefix(text, &places, "state.");
    read(&over_state, problems).map(|expression| expression.shown_as(text, renaming))
}

//! The form `edges`: nodes and edges between them, over the state of the run. It finds no names.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::json;

use super::Drafted;
use super::edges_node::{Common, Does, EdgesNode, Failed, INPUT, approval_of, asked, people};
use super::object_fields::{Fields, Problems};
use crate::expression::Expression;
use crate::text::{did_you_mean, nearest};
use crate::text_tree::Tree;
use crate::workflow::{Begins, Condition, Graph, GraphBody, GraphEdge, GraphNode, Mapping, NodePolicy, Route, Routes};

/// How many nodes run at once unless the document says otherwise.
const CONCURRENCY: usize = 4;

/// The `condition_key` of an edge that is taken when a node has failed.
const ERROR: &str = "error";

pub(super) fn read(tree: &Tree, problems: &mut Problems) -> Option<Drafted> {
    let mut fields = Fields::of(tree, "a document of nodes and edges", problems)?.or_camel();
    let name = fields.need_text("workflow_id", problems).map(|(name, _)| name);
    for kept in ["name", "created_at", "updated_at"] {
        fields.text(kept, problems);
    }
    fields.read::<u64>("version", problems);
    let description = fields.text("description", problems).and_then(Tree::text).unwrap_or_default();
    let model = super::model_of(&mut fields, problems);
    let concurrency = fields.read("concurrency_limit", problems).unwrap_or(CONCURRENCY);
    let decider = super::decider_of(&mut fields, problems);
    let permissions = fields.get("permissions");
    let items = fields.list("nodes", problems);
    let lines = fields.list("edges", problems);
    fields.end(problems);
    let (approves, servers) = permissions.map_or((false, Vec::new()), |tree| workflow_permissions(tree, problems));
    let common = Common { workflow: name.unwrap_or_default(), model, servers };
    if items.is_empty() {
        problems.note(&tree.at, "a document of nodes and edges has at least one node");
    }
    let nodes: Vec<EdgesNode<'_>> = items.iter().filter_map(|item| EdgesNode::read(item, &common, problems)).collect();
    let known = Known::of(items, problems);
    let edges: Vec<Edge<'_>> = lines.iter().filter_map(|line| Edge::read(line, &known, problems)).collect();
    known.check(&edges, problems);
    let mut wiring = Wiring::new(&nodes, &known, &edges);
    wiring.check_edges(problems);
    wiring.check_joins(problems);
    wiring.route_failures(problems);
    wiring.check_cycles(problems);
    if !problems.0.is_empty() {
        return None;
    }
    let mut graph = Graph::new(name?, "");
    graph.description = description.to_owned();
    graph.concurrency = concurrency;
    graph.decider = decider;
    wiring.into_graph(&mut graph, approves);
    let mut parts: HashMap<String, Tree> = nodes.iter().map(|node| (node.id.to_owned(), node.tree.clone())).collect();
    let agents: Vec<_> = nodes.iter().filter_map(|node| node.agent.clone()).collect();
    for node in nodes.iter().filter(|node| node.agent.is_some()) {
        parts.insert(format!("{}.{}", common.workflow, node.id), node.tree.clone());
    }
    Some(Drafted { agents, ..Drafted::of(graph, parts) })
}

/// Whether a person must agree before the run begins, and the servers that nodes may be bound to.
fn workflow_permissions<'t>(tree: &'t Tree, problems: &mut Problems) -> (bool, Vec<&'t str>) {
    let Some(fields) = Fields::of(tree, "`permissions`", problems) else { return (false, Vec::new()) };
    let mut fields = fields.or_camel();
    let approves = fields.flag("require_approval", false, problems);
    let servers = fields.texts("acl_scope", problems).into_iter().map(|(id, _)| id).collect();
    people(&mut fields, problems);
    fields.end(problems);
    (approves, servers)
}

/// The ids of all nodes, also of those with mistakes, with their kinds.
struct Known<'t>(BTreeMap<&'t str, (&'t Tree, Option<&'t str>)>);

impl<'t> Known<'t> {
    fn of(items: &'t [Tree], problems: &mut Problems) -> Self {
        let mut known = BTreeMap::new();
        for item in items {
            let text = |names: [&str; 2]| names.into_iter().find_map(|name| item.field(name)?.value.text());
            let Some(id) = text(["node_id", "nodeId"]) else { continue };
            if id == INPUT {
                let place = item.place_of(id).unwrap_or_else(|| item.at.clone());
                problems
                    .note(&place, format!("`{INPUT}` is the name of the workflow's input; give the node another one"));
            }
            if known.insert(id, (item, text(["kind", "kind"]))).is_some() {
                let place = item.place_of(id).unwrap_or_else(|| item.at.clone());
                problems.note(&place, format!("two nodes are named `{id}`; rename one"));
            }
        }
        Self(known)
    }

    fn find(&self, id: &'t str, at: &Tree, what: &str, problems: &mut Problems) -> Option<&'t str> {
        if self.0.contains_key(id) {
            return Some(id);
        }
        let near = did_you_mean(nearest(id, self.0.keys().copied()));
        problems.note(&at.at, format!("{what} `{id}`, and there is no such node{near}"));
        None
    }

    fn kind(&self, id: &str) -> Option<&'t str> {
        self.0.get(id)?.1
    }

    /// Two edges of one id.
    fn check(&self, edges: &[Edge<'_>], problems: &mut Problems) {
        let mut ids = BTreeSet::new();
        for (id, at) in edges.iter().filter_map(|edge| edge.id) {
            if !ids.insert(id) {
                problems.note(&at.at, format!("two edges have the id `{id}`; rename one"));
            }
        }
    }
}

/// An edge, as it is written.
struct Edge<'t> {
    tree: &'t Tree,
    id: Option<(&'t str, &'t Tree)>,
    from: &'t str,
    to: &'t str,
    is_conditional: bool,
    key: Option<(&'t str, &'t Tree)>,
    join_group: Option<(&'t str, &'t Tree)>,
}

impl<'t> Edge<'t> {
    fn read(tree: &'t Tree, known: &Known<'t>, problems: &mut Problems) -> Option<Self> {
        const KINDS: [&str; 3] = ["sequential", "conditional", "parallel"];
        let mut fields = Fields::of(tree, "an edge", problems)?.or_camel();
        let id = fields.text("edge_id", problems).and_then(|at| Some((at.text()?, at)));
        let from = fields.need_text("from_node_id", problems);
        let to = fields.need_text("to_node_id", problems);
        let kind = fields.word("edge_type", &KINDS, problems);
        let key = fields.text("condition_key", problems).and_then(|at| Some((at.text()?, at)));
        let join_group = fields.text("join_group", problems).and_then(|at| Some((at.text()?, at)));
        fields.end(problems);
        let from = from.and_then(|(id, at)| known.find(id, at, "the edge comes from", problems));
        let to = to.and_then(|(id, at)| known.find(id, at, "the edge leads to", problems));
        let (from, to) = (from?, to?);
        let is_conditional = kind.map_or(key.is_some(), |kind| kind == "conditional");
        if let Some((_, at)) = key.filter(|_| !is_conditional) {
            problems.note(&at.at, "only an edge with `edge_type: conditional` has a `condition_key`");
        }
        if from == to {
            problems.note(&tree.at, format!("the edge leads from `{from}` to itself"));
        }
        Some(Self { tree, id, from, to, is_conditional, key, join_group })
    }

    fn is_of_failure(&self) -> bool {
        self.is_conditional && self.key.is_some_and(|(key, _)| key == ERROR)
    }
}

/// Nodes with the edges between them.
struct Wiring<'n, 't> {
    nodes: &'n [EdgesNode<'t>],
    known: &'n Known<'t>,
    edges: &'n [Edge<'t>],
    /// Where a failure leads: from which node to which, and where that is said.
    failures: Vec<(&'t str, &'t str, &'t Tree)>,
}

impl<'n, 't> Wiring<'n, 't> {
    fn new(nodes: &'n [EdgesNode<'t>], known: &'n Known<'t>, edges: &'n [Edge<'t>]) -> Self {
        Self { nodes, known, edges, failures: Vec::new() }
    }

    fn check_edges(&self, problems: &mut Problems) {
        let mut seen = BTreeSet::new();
        for edge in self.edges {
            let (from, to) = (edge.from, edge.to);
            if !seen.insert((from, to, edge.key.map(|(key, _)| key))) {
                problems.note(
                    &edge.tree.at,
                    format!("a second edge leads from `{from}` to `{to}` in the same way; remove one"),
                );
            }
            if self.known.kind(from) == Some("terminal") {
                problems.note(&edge.tree.at, format!("`{from}` ends the workflow, so no edge leads from it"));
            }
            let is_router = self.known.kind(from) == Some("router");
            let chooses = self.nodes.iter().any(|node| node.id == from && matches!(node.does, Does::Router(Some(_))));
            let is_read = self.nodes.iter().any(|node| node.id == from);
            if edge.is_conditional && edge.key.is_none() && !chooses && is_read {
                let remedy = if is_router {
                    "give it a `condition_key`, or the router a `condition_expr`"
                } else {
                    "give it a `condition_key`"
                };
                problems.note(&edge.tree.at, format!("the edge from `{from}` to `{to}` has no condition; {remedy}"));
            }
        }
    }

    /// A join waits for the edges of its group, and each group has its join.
    fn check_joins(&self, problems: &mut Problems) {
        for edge in self.edges {
            let Some((group, at)) = edge.join_group else { continue };
            let Some(node) = self.nodes.iter().find(|node| node.id == edge.to) else { continue };
            match (&node.does, node.join_group) {
                (Does::Join, Some((own, _))) if own == group => {}
                (Does::Join, own) => {
                    let own = own.map_or_else(|| "has no `join_group`".to_owned(), |(own, _)| format!("joins `{own}`"));
                    problems
                        .note(&at.at, format!("the edge is of the group `{group}`, and the join `{}` {own}", edge.to));
                }
                _ => problems.note(
                    &at.at,
                    format!("the edge is of the group `{group}`, and `{}` is no join; let it lead to a join", edge.to),
                ),
            }
        }
        for node in self.nodes.iter().filter(|node| matches!(node.does, Does::Join)) {
            let leading = || self.edges.iter().filter(|edge| edge.to == node.id);
            match node.join_group {
                _ if leading().next().is_none() => {
                    problems.note(&node.tree.at, format!("no edge leads to the join `{}`", node.id));
                }
                Some((group, at)) if leading().all(|edge| edge.join_group.is_some_and(|(of, _)| of != group)) => {
                    problems.note(&at.at, format!("no edge of the group `{group}` leads to the join `{}`", node.id));
                }
                _ => {}
            }
        }
    }

    fn route_failures(&mut self, problems: &mut Problems) {
        for node in self.nodes {
            let Failed::Routes(target, tree) = node.on_error else { continue };
            let by_edge = self.edges.iter().find(|edge| edge.from == node.id && edge.is_of_failure());
            match (target, by_edge) {
                (Some((id, at)), _) => {
                    if id == node.id {
                        problems.note(&at.at, format!("`{id}` cannot follow its own failure; name another node"));
                    } else if let Some(to) = self.known.find(id, at, "`on_error_node_id` names", problems) {
                        self.failures.push((node.id, to, at));
                    }
                }
                (None, Some(edge)) => self.failures.push((node.id, edge.to, edge.tree)),
                (None, None) => {
                    let problem =
                        "needs `on_error_node_id`, or an edge with `condition_key: error`, for `route_to_node`";
                    let place = tree.place_of("route_to_node").unwrap_or_else(|| tree.at.clone());
                    problems.note(&place, format!("`{}` {problem}", node.id));
                }
            }
        }
    }

    /// All ways from node to node.
    fn ways(&self) -> impl Iterator<Item = (&'t str, &'t str, &'t Tree)> {
        self.edges.iter().map(|edge| (edge.from, edge.to, edge.tree)).chain(self.failures.iter().copied())
    }

    fn check_cycles(&self, problems: &mut Problems) {
        let mut ways: Vec<_> = self.ways().filter(|(from, to, _)| from != to).collect();
        // What nothing leads to is in no cycle, and neither is what leads to nothing.
        loop {
            let before = ways.len();
            let (from, to): (BTreeSet<&str>, BTreeSet<&str>) = ways.iter().map(|(from, to, _)| (*from, *to)).unzip();
            ways.retain(|way| to.contains(way.0) && from.contains(way.1));
            if ways.len() == before {
                break;
            }
        }
        if let Some((_, _, at)) = ways.first() {
            let names: BTreeSet<&str> = ways.iter().map(|(from, ..)| *from).collect();
            let names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
            problems.note(
                &at.at,
                format!("these nodes wait for each other: {}; a workflow has no cycle", names.join(", ")),
            );
        }
    }

    /// Adds the nodes, with a first one that has the input and a last one that has the state.
    fn into_graph(self, graph: &mut Graph, approves: bool) {
        let (begin, result) = (free_in(graph, &self, "begin"), free_in(graph, &self, "result"));
        graph.nodes.push(GraphNode::input(INPUT, json!({"type": "object"})));
        let mut first = GraphNode::new(&begin, GraphBody::Value(Mapping::from(INPUT))).save("*", "");
        if approves {
            first = first.policy(NodePolicy::default().approve(approval_of(&graph.name)));
        }
        graph.nodes.push(first);
        let mut contexts = 0;
        for node in self.nodes {
            let mut edges: Vec<GraphEdge> = self.edges_to(node.id);
            if edges.is_empty() {
                edges.push(GraphEdge::from(&begin));
            }
            let begins = match (edges.len(), &node.does) {
                (1, _) => Begins::All,
                (_, Does::Terminal) => Begins::Any,
                // It is known of each edge whether it is taken, and one of them is.
                _ => Begins::Barrier(1),
            };
            let first = |made: GraphNode| edges.into_iter().fold(made.begins(begins), GraphNode::edge);
            if let Does::Ask { agent, task, context } = &node.does {
                let shown = free_name_from(&mut contexts, "context", &|name| !self.known.0.contains_key(name));
                graph.nodes.push(first(GraphNode::new(&shown, GraphBody::Value(context.clone()))));
                let made = node.node(GraphBody::Call(asked(agent, task, &shown)));
                graph.nodes.push(made.edge(GraphEdge::from(shown)));
            } else {
                graph.nodes.push(first(self.node(node)));
            }
        }
        // Those behind which nothing may follow: a failure and a condition are not always there.
        let lead: BTreeSet<&str> =
            self.edges.iter().filter(|edge| !edge.is_conditional).map(|edge| edge.from).collect();
        let chooses = |id: &str| self.known.kind(id) == Some("router") && self.arms(id).next().is_some();
        let last: Vec<&EdgesNode<'_>> =
            self.nodes.iter().filter(|node| !lead.contains(node.id) && !chooses(node.id)).collect();
        // Where all of the last ones may be skipped by a failure, the state is there all the same.
        let skips = self.nodes.iter().any(|node| matches!(node.on_error, Failed::Skips));
        graph.output = match last.as_slice() {
            [only] if matches!(only.does, Does::Terminal) && !skips => only.id.to_owned(),
            last => {
                let node = GraphNode::new(&result, GraphBody::Value(Mapping::state("")));
                let node = if last.len() > 1 || skips { node.begins(Begins::Barrier(1)) } else { node };
                let node = if skips { node.edge(GraphEdge::from(&begin)) } else { node };
                graph.nodes.push(last.iter().fold(node, |node, last| node.edge(GraphEdge::from(last.id))));
                result
            }
        };
    }

    fn node(&self, node: &EdgesNode<'t>) -> GraphNode {
        match &node.does {
            Does::Call(reference) => node.node(GraphBody::Call(reference.clone())),
            Does::Ask { agent, task, .. } => node.node(GraphBody::Call(asked(agent, task, "context"))),
            Does::Join => node.node(GraphBody::Value(Mapping::Value(serde_json::Value::Null))),
            Does::Terminal => node.node(GraphBody::Value(Mapping::state(""))).ends(),
            Does::Router(expression) => {
                let arms: Vec<Route> = self
                    .arms(node.id)
                    .map(|(edge, arm)| Route::when(arm, condition(edge, expression.as_ref())))
                    .collect();
                let is_free = self.edges.iter().any(|edge| edge.from == node.id && !edge.is_conditional);
                match (arms.is_empty(), expression) {
                    (false, _) => {
                        let none = free_name("none", &|name| arms.iter().all(|arm| arm.arm != name));
                        let otherwise = is_free.then(|| Route::otherwise(none));
                        node.node(GraphBody::Route(Routes::all(arms.into_iter().chain(otherwise))))
                    }
                    (true, Some(expression)) => node.node(GraphBody::Value(Mapping::Cel(expression.clone()))),
                    (true, None) => node.node(GraphBody::Value(Mapping::Value(serde_json::Value::Null))),
                }
            }
        }
    }

    /// The conditional edges of a router, each with the name of its arm: that of the node that it leads to.
    fn arms(&self, router: &'n str) -> impl Iterator<Item = (&'n Edge<'t>, String)> {
        let edges = self.edges.iter().filter(move |edge| edge.from == router && edge.is_conditional);
        let edges = edges.filter(|edge| !self.leads_failure(edge));
        edges.scan(BTreeSet::new(), |seen: &mut BTreeSet<String>, edge| {
            // The name of another node is the arm of that node.
            let is_free = |name: &str| !seen.contains(name) && (name == edge.to || !self.known.0.contains_key(name));
            let arm = free_name(edge.to, &is_free);
            seen.insert(arm.clone());
            Some((edge, arm))
        })
    }

    /// Whether an edge is the one that is taken when its node has failed.
    fn leads_failure(&self, edge: &Edge<'_>) -> bool {
        self.failures.iter().any(|(from, to, at)| *from == edge.from && *to == edge.to && at.at == edge.tree.at)
    }

    fn edges_to(&self, id: &str) -> Vec<GraphEdge> {
        let mut edges = Vec::new();
        for edge in self.edges.iter().filter(|edge| edge.to == id && !self.leads_failure(edge)) {
            let from = GraphEdge::from(edge.from);
            let is_router = self.known.kind(edge.from) == Some("router");
            edges.push(match (edge.is_conditional, is_router) {
                (false, _) => from,
                (true, true) => {
                    let arm = self.arms(edge.from).find(|(other, _)| other.tree.at == edge.tree.at);
                    arm.map_or(from.clone(), |(_, arm)| from.arm(arm))
                }
                (true, false) => from.when(condition(edge, None)),
            });
        }
        let failures = self.failures.iter().filter(|(_, to, _)| *to == id);
        edges.extend(failures.map(|(from, ..)| GraphEdge::from(*from).failed()));
        edges
    }
}

/// A name that neither a node of the document nor one of the graph has.
fn free_in(graph: &Graph, wiring: &Wiring<'_, '_>, wanted: &str) -> String {
    let is_free = |name: &str| !wiring.known.0.contains_key(name) && graph.node(name).is_none();
    free_name(wanted, &is_free)
}

/// The next such name that is free; the numbers before it are taken.
fn free_name_from(number: &mut u32, wanted: &str, is_free: &dyn Fn(&str) -> bool) -> String {
    loop {
        *number += 1;
        let name = if *number == 1 { wanted.to_owned() } else { format!("{wanted}_{number}") };
        if is_free(&name) {
            return name;
        }
    }
}

/// This name, or with a number behind it where it is not free.
pub(super) fn free_name(wanted: &str, is_free: &dyn Fn(&str) -> bool) -> String {
    let names = (1..).map(|number: u32| if number == 1 { wanted.to_owned() } else { format!("{wanted}_{number}") });
    names.into_iter().find(|name| is_free(name)).unwrap_or_default()
}

/// When a conditional edge is taken. With an expression: when its value is the text of the edge, or is `true` or `false` as
/// the edge says; without one, and for any other key of a value that is `true` or `false`, when the state has something under
/// the key.
fn condition(edge: &Edge<'_>, expression: Option<&Expression>) -> Condition {
    let key = edge.key.map(|(key, _)| key);
    let Some(expression) = expression else { return has_something(key.unwrap_or_default()) };
    let value = || Mapping::Cel(expression.clone());
    let is = |other: serde_json::Value| Condition::Equals(value(), Mapping::Value(other));
    match key {
        None => Condition::Any(vec![is(json!(edge.to)), is(json!(true))]),
        Some("true") => Condition::Any(vec![is(json!("true")), is(json!(true))]),
        Some("false") => Condition::Any(vec![is(json!("false")), is(json!(false))]),
        Some(key) => {
            let is_bool = Condition::Any(vec![is(json!(true)), is(json!(false))]);
            Condition::Any(vec![is(json!(key)), Condition::All(vec![is_bool, has_something(key)])])
        }
    }
}

/// Whether there is a value under a key that is not `null`, `false`, 0, or empty.
fn has_something(key: &str) -> Condition {
    let value = || Mapping::state(key);
    let nothing = [json!(false), json!(0), json!(0.0), json!(""), json!([]), json!({})];
    let nothing = nothing.into_iter().map(|nothing| Condition::Equals(value(), Mapping::Value(nothing)));
    Condition::All(vec![Condition::Exists(value()), Condition::Not(Box::new(Condition::Any(nothing.collect())))])
}

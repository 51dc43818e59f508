//! The form `edges`: checks the edges between the nodes, and generates the graph. The time is
//! linear in the number of edges. Names of servers and agents are not resolved here.

use agentflow_schema::diagnostic::Diagnostic;
use std::collections::{BTreeSet, HashMap};

use agentflow_schema::expression::Expression;
use agentflow_schema::text_tree::Tree;
use serde_json::json;

use super::document_codes;
use super::edges_document::{ERROR, Edge, Known};
use super::edges_node::{Does, EdgesNode, Failed, INPUT, Permissions, approval_of, asked};
use super::object_fields::Problems;
use crate::workflow::{
    Begins, Condition, Graph, GraphBody, GraphEdge, GraphNode, Mapping, NodePolicy, Route, Routes,
    in_cycles,
};

/// The nodes of a document with their edges.
pub(super) struct Wiring<'n, 't> {
    nodes: &'n [EdgesNode<'t>],
    known: &'n Known<'t>,
    edges: &'n [Edge<'t>],
    of_id: HashMap<&'t str, &'n EdgesNode<'t>>,
    /// Indices of the edges that leave or enter each node.
    leaving: HashMap<&'t str, Vec<usize>>,
    entering: HashMap<&'t str, Vec<usize>>,
    /// Routes from failed nodes to other nodes.
    failures: Vec<FailureRoute<'t>>,
    /// Failure routes by target node.
    failures_to: HashMap<&'t str, Vec<&'t str>>,
    /// For each edge, `true` if it is taken when its node has failed.
    of_failure: Vec<bool>,
    /// For each node that is skipped after a failure and has conditional edges: the name of an
    /// additional node that starts when the node has failed. The conditions are then evaluated
    /// after the additional node.
    skipped: HashMap<&'t str, String>,
}

/// A route from a failed node to another node, and its position in the document.
struct FailureRoute<'t> {
    from: &'t str,
    to: &'t str,
    at: &'t Tree,
}

impl<'n, 't> Wiring<'n, 't> {
    pub(super) fn new(
        nodes: &'n [EdgesNode<'t>],
        known: &'n Known<'t>,
        edges: &'n [Edge<'t>],
    ) -> Self {
        let (mut leaving, mut entering): (HashMap<_, Vec<_>>, HashMap<_, Vec<_>>) =
            Default::default();
        for (at, edge) in edges.iter().enumerate() {
            leaving.entry(edge.from).or_default().push(at);
            entering.entry(edge.to).or_default().push(at);
        }
        // Duplicate names are a mistake; the first node is used.
        let of_id = nodes.iter().rev().map(|node| (node.id, node)).collect();
        let (failures, failures_to, of_failure) =
            (Vec::new(), HashMap::new(), vec![false; edges.len()]);
        let skipped = HashMap::new();
        Self {
            nodes,
            known,
            edges,
            of_id,
            leaving,
            entering,
            failures,
            failures_to,
            of_failure,
            skipped,
        }
    }

    /// Iterates over the edges that leave a node.
    fn from(&self, id: &str) -> impl Iterator<Item = (usize, &'n Edge<'t>)> {
        self.leaving.get(id).into_iter().flatten().map(|at| (*at, &self.edges[*at]))
    }

    /// Iterates over the edges that enter a node.
    fn to(&self, id: &str) -> impl Iterator<Item = (usize, &'n Edge<'t>)> {
        self.entering.get(id).into_iter().flatten().map(|at| (*at, &self.edges[*at]))
    }

    pub(super) fn check_edges(&self, problems: &mut Problems) {
        let mut seen = BTreeSet::new();
        for edge in self.edges {
            let (from, to) = (edge.from, edge.to);
            if !seen.insert((from, to, edge.key.map(|(key, _)| key))) {
                problems.note(
                    &edge.tree.at,
                    Diagnostic::new(document_codes::DUPLICATE_EDGE)
                        .name("from", from)
                        .name("to", to),
                );
            }
            if self.known.kind(from) == Some("terminal") {
                problems.note(
                    &edge.tree.at,
                    Diagnostic::new(document_codes::EDGE_FROM_TERMINAL).name("from", from),
                );
            }
            let is_router = self.known.kind(from) == Some("router");
            let node = self.of_id.get(from);
            let chooses = node.is_some_and(|node| matches!(node.does, Does::Router(Some(_))));
            let has_key = ["condition_key", "conditionKey"]
                .iter()
                .any(|name| edge.tree.field(name).is_some());
            if edge.is_conditional && !has_key && !chooses && node.is_some() {
                let code = match is_router {
                    true => document_codes::ROUTER_EDGE_WITHOUT_CONDITION,
                    false => document_codes::EDGE_WITHOUT_CONDITION,
                };
                let found = Diagnostic::new(code).name("from", from).name("to", to);
                problems.note(&edge.tree.at, found);
            }
        }
    }

    /// Checks that each join has edges of its group, and that each group leads to its join.
    pub(super) fn check_joins(&self, problems: &mut Problems) {
        for edge in self.edges {
            let Some((group, at)) = edge.join_group else { continue };
            let Some(node) = self.of_id.get(edge.to) else { continue };
            match (&node.does, node.join_group) {
                (Does::Join, Some((own, _))) if own == group => {}
                (Does::Join, own) => {
                    let found = match own {
                        Some((own, _)) => {
                            Diagnostic::new(document_codes::GROUP_OF_OTHER_JOIN).name("joined", own)
                        }
                        None => Diagnostic::new(document_codes::GROUP_OF_JOIN_WITHOUT_GROUP),
                    };
                    problems.note(&at.at, found.name("group", group).name("join", edge.to));
                }
                _ => problems.note(
                    &at.at,
                    Diagnostic::new(document_codes::GROUP_WITHOUT_JOIN)
                        .name("group", group)
                        .name("node", edge.to),
                ),
            }
        }
        for node in self.nodes.iter().filter(|node| matches!(node.does, Does::Join)) {
            let leading = || self.to(node.id).map(|(_, edge)| edge);
            match node.join_group {
                _ if leading().next().is_none() => {
                    problems.note(
                        &node.tree.at,
                        Diagnostic::new(document_codes::JOIN_WITHOUT_EDGE).name("join", node.id),
                    );
                }
                None => {
                    problems.note(
                        &node.tree.at,
                        Diagnostic::new(document_codes::MISSING_JOIN_GROUP).name("join", node.id),
                    );
                }
                Some((group, at))
                    if leading().all(|edge| edge.join_group.is_some_and(|(of, _)| of != group)) =>
                {
                    problems.note(
                        &at.at,
                        Diagnostic::new(document_codes::JOIN_GROUP_WITHOUT_EDGE)
                            .name("group", group)
                            .name("join", node.id),
                    );
                }
                _ => {}
            }
        }
    }

    /// Checks that each router has an expression or a conditional edge.
    pub(super) fn check_routers(&self, problems: &mut Problems) {
        for node in self.nodes.iter().filter(|node| matches!(node.does, Does::Router(None))) {
            let has_expression = ["condition_expr", "conditionExpr"]
                .iter()
                .any(|name| node.tree.field(name).is_some());
            let mut leaving = self.from(node.id).map(|(_, edge)| edge).peekable();
            if !has_expression
                && leaving.peek().is_some()
                && leaving.all(|edge| !edge.is_conditional)
            {
                problems.note(
                    &node.tree.at,
                    Diagnostic::new(document_codes::ROUTER_WITHOUT_CHOICE).name("router", node.id),
                );
            }
        }
    }

    pub(super) fn route_failures(&mut self, problems: &mut Problems) {
        for node in self.nodes {
            let Failed::Routes(target, tree) = node.on_error else { continue };
            let by_edge = self.from(node.id).find(|(_, edge)| edge.is_of_failure());
            match (target, by_edge) {
                (Some((id, at)), Some((_, edge))) => problems.note(
                    &at.at,
                    Diagnostic::new(document_codes::TWO_ERROR_TARGETS)
                        .name("node", node.id)
                        .name("target", id)
                        .text("key", ERROR)
                        .name("other", edge.to),
                ),
                (Some((id, at)), None) => {
                    if id == node.id {
                        problems.note(
                            &at.at,
                            Diagnostic::new(document_codes::ERROR_TARGET_IS_ITSELF)
                                .name("node", id),
                        );
                    } else if let Some(to) =
                        self.known.find(id, at, "`on_error_node_id` names", problems)
                    {
                        self.failures.push(FailureRoute { from: node.id, to, at });
                    }
                }
                (None, Some((at, edge))) => {
                    self.of_failure[at] = true;
                    self.failures.push(FailureRoute { from: node.id, to: edge.to, at: edge.tree });
                }
                (None, None) => {
                    let place = tree.place_of("route_to_node").unwrap_or_else(|| tree.at.clone());
                    problems.note(
                        &place,
                        Diagnostic::new(document_codes::MISSING_ERROR_TARGET).name("node", node.id),
                    );
                }
            }
        }
        for FailureRoute { from, to, .. } in &self.failures {
            self.failures_to.entry(to).or_default().push(from);
        }
    }

    pub(super) fn check_cycles(&self, problems: &mut Problems) {
        let number: HashMap<&str, usize> =
            self.known.ids().enumerate().map(|(at, id)| (id, at)).collect();
        let edges = self.edges.iter().map(|edge| (edge.from, edge.to, edge.tree));
        let failures = self.failures.iter().map(|failure| (failure.from, failure.to, failure.at));
        let ways = edges.chain(failures).filter(|(from, to, _)| from != to);
        let ways: Vec<(usize, usize, &Tree)> = ways
            .filter_map(|(from, to, at)| Some((*number.get(from)?, *number.get(to)?, at)))
            .collect();
        let pairs: Vec<(usize, usize)> = ways.iter().map(|(from, to, _)| (*from, *to)).collect();
        let is_in_cycle = in_cycles(number.len(), &pairs);
        if let Some((_, _, at)) =
            ways.iter().find(|(from, to, _)| is_in_cycle[*from] && is_in_cycle[*to])
        {
            let names = self.known.ids().zip(is_in_cycle).filter(|(_, is)| *is);
            let names: Vec<String> = names.map(|(name, _)| format!("`{name}`")).collect();
            problems.note(
                &at.at,
                Diagnostic::new(document_codes::CYCLE).text("nodes", names.join(", ")),
            );
        }
    }

    /// Adds the nodes to the graph. The first node saves the input in the state, and the last node
    /// returns the state.
    pub(super) fn into_graph(mut self, graph: &mut Graph, permissions: &Permissions<'_>) {
        let (begin, result) = (free_in(graph, &self, "begin"), free_in(graph, &self, "result"));
        graph.nodes.push(GraphNode::input(INPUT, json!({"type": "object"})));
        let mut first =
            GraphNode::new(&begin, GraphBody::Value(Mapping::from(INPUT))).save("*", "");
        let mut policy = permissions.restrict(NodePolicy::default());
        if permissions.approves {
            policy = policy.approve(approval_of(&graph.name));
        }
        first = first.policy(policy);
        graph.nodes.push(first);
        let arms = self.arms();
        self.add_skipped(graph);
        let mut contexts = 0;
        for node in self.nodes {
            let mut edges: Vec<GraphEdge> = self.edges_to(node.id, &arms);
            if edges.is_empty() {
                edges.push(GraphEdge::from(&begin));
            }
            let begins = match (edges.len(), &node.does) {
                (1, _) => Begins::All,
                (_, Does::Terminal) => Begins::Any,
                // Whether each incoming edge is taken is always known, and at least one of them is
                // taken.
                _ => Begins::Barrier(1),
            };
            let first =
                |made: GraphNode| edges.into_iter().fold(made.begins(begins), GraphNode::edge);
            if let Does::Ask { agent, task, context } = &node.does {
                let shown = free_name_from(&mut contexts, "context", &|name| !self.known.has(name));
                graph.nodes.push(first(GraphNode::new(&shown, GraphBody::Value(context.clone()))));
                let made = node.node(GraphBody::Call(asked(agent, task, &shown)));
                graph.nodes.push(made.edge(GraphEdge::from(shown)));
            } else {
                graph.nodes.push(first(self.node(node, &arms)));
            }
        }
        // Nodes without an unconditional outgoing edge can be the last ones, since a failure or a
        // condition may not occur.
        let lead: BTreeSet<&str> =
            self.edges.iter().filter(|edge| !edge.is_conditional).map(|edge| edge.from).collect();
        let is_arm = |(at, edge): (usize, &Edge<'_>)| edge.is_conditional && !self.of_failure[at];
        let chooses = |id: &str| self.known.kind(id) == Some("router") && self.from(id).any(is_arm);
        let last: Vec<&EdgesNode<'_>> =
            self.nodes.iter().filter(|node| !lead.contains(node.id) && !chooses(node.id)).collect();
        // If all of the last nodes can be skipped after a failure, the result must still contain
        // the state.
        let skips = self.nodes.iter().any(|node| matches!(node.on_error, Failed::Skips));
        graph.output = match last.as_slice() {
            [only] if matches!(only.does, Does::Terminal) && !skips => only.id.to_owned(),
            last => {
                let node = GraphNode::new(&result, GraphBody::Value(Mapping::state("")));
                let node =
                    if last.len() > 1 || skips { node.begins(Begins::Barrier(1)) } else { node };
                let node = if skips { node.edge(GraphEdge::from(&begin)) } else { node };
                graph
                    .nodes
                    .push(last.iter().fold(node, |node, last| node.edge(GraphEdge::from(last.id))));
                result
            }
        };
    }

    fn is_skipped(&self, id: &str) -> bool {
        self.of_id.get(id).is_some_and(|node| matches!(node.on_error, Failed::Skips))
    }

    /// Adds the nodes of [`Self::skipped`]. Routers are excluded: the arm of a failed router is
    /// unknown, so none is taken.
    fn add_skipped(&mut self, graph: &mut Graph) {
        for node in self.nodes {
            if !self.is_skipped(node.id) || matches!(node.does, Does::Router(_)) {
                continue;
            }
            if self.from(node.id).any(|(_, edge)| edge.is_conditional) {
                let name = free_in(graph, self, &format!("{}_skipped", node.id));
                let nothing = GraphBody::Value(Mapping::Value(serde_json::Value::Null));
                graph
                    .nodes
                    .push(GraphNode::new(&name, nothing).edge(GraphEdge::from(node.id).failed()));
                self.skipped.insert(node.id, name);
            }
        }
    }

    fn node(&self, node: &EdgesNode<'t>, arms: &[Option<String>]) -> GraphNode {
        match &node.does {
            Does::Call(reference) => node.node(GraphBody::Call(reference.clone())),
            Does::Ask { agent, task, .. } => {
                node.node(GraphBody::Call(asked(agent, task, "context")))
            }
            Does::Join => node.node(GraphBody::Value(Mapping::Value(serde_json::Value::Null))),
            Does::Terminal => node.node(GraphBody::Value(Mapping::state(""))).ends(),
            Does::Router(expression) => {
                let of_edge = |(at, edge): (usize, &Edge<'_>)| {
                    Some(Route::when(arms[at].clone()?, condition(edge, expression.as_ref())))
                };
                let arms: Vec<Route> = self.from(node.id).filter_map(of_edge).collect();
                let is_free = self.from(node.id).any(|(_, edge)| !edge.is_conditional);
                match (arms.is_empty(), expression) {
                    (false, _) => {
                        let none =
                            free_name("none", &|name| arms.iter().all(|arm| arm.arm != name));
                        let otherwise = is_free.then(|| Route::otherwise(none));
                        node.node(GraphBody::Route(Routes::all(arms.into_iter().chain(otherwise))))
                    }
                    (true, Some(expression)) => {
                        node.node(GraphBody::Value(Mapping::Cel(expression.clone())))
                    }
                    (true, None) => {
                        node.node(GraphBody::Value(Mapping::Value(serde_json::Value::Null)))
                    }
                }
            }
        }
    }

    /// For each edge of a router, returns the name of its arm: the name of the target node, with a
    /// number if it is not unique.
    fn arms(&self) -> Vec<Option<String>> {
        let mut arms = vec![None; self.edges.len()];
        for router in self.nodes.iter().filter(|node| matches!(node.does, Does::Router(_))) {
            let mut seen: BTreeSet<String> = BTreeSet::new();
            let mut numbers: HashMap<&str, u32> = HashMap::new();
            for (at, edge) in self
                .from(router.id)
                .filter(|(at, edge)| edge.is_conditional && !self.of_failure[*at])
            {
                // The name of another node is reserved for the arm to that node.
                let is_free =
                    |name: &str| !seen.contains(name) && (name == edge.to || !self.known.has(name));
                let arm = free_name_from(numbers.entry(edge.to).or_default(), edge.to, &is_free);
                seen.insert(arm.clone());
                arms[at] = Some(arm);
            }
        }
        arms
    }

    /// Returns the edges that lead to a node. Nodes read only the state, so the successors of a
    /// node with `on_error: skip_node` also start when it has failed.
    fn edges_to(&self, id: &str, arms: &[Option<String>]) -> Vec<GraphEdge> {
        let mut edges = Vec::new();
        for (at, edge) in self.to(id).filter(|(at, _)| !self.of_failure[*at]) {
            let from = GraphEdge::from(edge.from);
            let is_router = self.known.kind(edge.from) == Some("router");
            edges.push(match (edge.is_conditional, is_router) {
                (false, _) => from,
                (true, true) => arms[at].as_ref().map_or(from.clone(), |arm| from.arm(arm)),
                (true, false) => from.when(condition(edge, None)),
            });
            if self.is_skipped(edge.from) && !edge.is_conditional {
                edges.push(GraphEdge::from(edge.from).failed());
            } else if let Some(skipped) =
                self.skipped.get(edge.from).filter(|_| edge.is_conditional)
            {
                edges.push(GraphEdge::from(skipped).when(condition(edge, None)));
            }
        }
        let failures = self.failures_to.get(id).into_iter().flatten();
        edges.extend(failures.map(|from| GraphEdge::from(*from).failed()));
        edges
    }
}

/// Returns a name that neither the document nor the graph uses for a node.
fn free_in(graph: &Graph, wiring: &Wiring<'_, '_>, wanted: &str) -> String {
    let is_free = |name: &str| !wiring.known.has(name) && graph.node(name).is_none();
    free_name(wanted, &is_free)
}

/// Returns the next unused name with a number. The names with lower numbers are already used.
pub(super) fn free_name_from(
    number: &mut u32,
    wanted: &str,
    is_free: &dyn Fn(&str) -> bool,
) -> String {
    loop {
        *number += 1;
        let name = if *number == 1 { wanted.to_owned() } else { format!("{wanted}_{number}") };
        if is_free(&name) {
            return name;
        }
    }
}

/// Returns the wanted name, or the first unused name with a number.
pub(super) fn free_name(wanted: &str, is_free: &dyn Fn(&str) -> bool) -> String {
    let names =
        (1..).map(
            |number: u32| {
                if number == 1 { wanted.to_owned() } else { format!("{wanted}_{number}") }
            },
        );
    names.into_iter().find(|name| is_free(name)).unwrap_or_default()
}

/// Returns the condition of a conditional edge. With an expression, the edge is taken if the value
/// of the expression equals the text of the edge, or is the boolean that the edge names. Without an
/// expression, or if the value is a boolean and the edge names another key, the edge is taken if
/// the state has a non-empty value under the key.
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

/// Returns the condition that the value of a key exists and is not `null`, `false`, 0, or empty.
fn has_something(key: &str) -> Condition {
    let value = || Mapping::state(key);
    let nothing = [json!(false), json!(0), json!(0.0), json!(""), json!([]), json!({})];
    let nothing =
        nothing.into_iter().map(|nothing| Condition::Equals(value(), Mapping::Value(nothing)));
    Condition::All(vec![
        Condition::Exists(value()),
        Condition::Not(Box::new(Condition::Any(nothing.collect()))),
    ])
}

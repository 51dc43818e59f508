//! The nodes and edges of a graph as its author wrote them: helper nodes are replaced by the nodes
//! around them, and redundant order edges are left out. Drawings, listings and pages use them.

use std::collections::HashSet;

use serde::Serialize;
use serde_json::Value;

use super::super::condition::Condition;
use super::super::graph::{Graph, GraphNode};
use super::super::graph_body::{GraphBody, GraphEdge};
use super::super::mapping::{IsNode, Mapping};
use super::super::names;
use super::super::policy::OnError;
use super::super::question_text::state_keys_of_text;
use super::super::spec::{NodeKind, OrderReason};
use super::draw::question;

/// An edge between two nodes of a graph, as a person sees it. [`Graph::edges`] returns them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DisplayEdge {
    /// Name of the node that the edge starts at.
    pub from: String,
    /// Name of the node that the edge leads to.
    pub to: String,
    /// Reason for which the second node follows the first.
    pub kind: DisplayEdgeKind,
    /// Text of the edge: the arm of a router, the key of a condition or of the state, or the reason
    /// of the order. `None` if the kind needs no explanation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

/// Reason for which a node follows another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DisplayEdgeKind {
    /// The node reads the output of the other one, or starts after its success.
    Output,
    /// The router has taken this arm.
    Arm,
    /// The condition of the edge holds.
    Condition,
    /// The other node has failed.
    Failure,
    /// The other node saves a key of the state, which the node reads.
    State,
    /// The node waits for the other one and does not use its output.
    Order,
}

impl Graph {
    /// Returns the nodes that a person sees, in source order: without joins, and without nodes
    /// which a form of document adds. Nested workflows of a node are separate graphs.
    pub fn display_nodes(&self) -> Vec<&GraphNode> {
        self.shown(false).map(|(_, node)| node).collect()
    }

    /// Returns the edges between the nodes of [`display_nodes`](Self::display_nodes), ordered by
    /// the node that they lead to. An edge of kind [`Order`](DisplayEdgeKind::Order) is left out if
    /// other edges imply it.
    ///
    /// ```
    /// # use agentflow::prelude::*;
    /// # use agentflow::workflow::DisplayEdgeKind;
    /// #[tool]
    /// async fn double(number: u32) -> u32 {
    ///     number * 2
    /// }
    ///
    /// #[workflow]
    /// async fn fourfold(number: u32) -> Result<u32> {
    ///     let once = double(number).await;
    ///     let both = double(once).await;
    ///     Ok(both)
    /// }
    ///
    /// let edges = fourfold::workflow().graph().edges();
    /// let edge = edges.iter().find(|edge| edge.to == "both").unwrap();
    /// assert_eq!((edge.from.as_str(), edge.kind), ("once", DisplayEdgeKind::Output));
    /// ```
    pub fn edges(&self) -> Vec<DisplayEdge> {
        let mut edges = Vec::new();
        for edge in self.folded_edges(false) {
            edges.push(DisplayEdge {
                from: self.nodes[edge.from].name.clone(),
                to: self.nodes[edge.to].name.clone(),
                kind: edge.kind.display_kind(),
                label: edge.label().map(str::to_owned),
            });
        }
        edges
    }

    /// Returns the nodes in source order for a listing, without helper nodes. Reads of a join are
    /// shown as reads of its router.
    #[doc(hidden)]
    pub fn listed(&self) -> Vec<ListedNode<'_>> {
        let name = |at: usize| self.nodes[at].name.as_str();
        let edges = self.folded_edges(false);
        let mut all = Vec::new();
        for (at, node) in self.nodes.iter().enumerate().filter(|(_, node)| !self.is_helper(node)) {
            let mut reads: Vec<usize> = Vec::new();
            for read in &node.reads {
                let of = self.node(read).filter(|read| self.is_helper(read));
                match of.map(|join| {
                    join.name.strip_suffix(names::END).and_then(|name| name.strip_suffix('/'))
                }) {
                    Some(Some(router)) => reads.extend(self.place(router)),
                    Some(None) => self.sources(read, &mut reads),
                    None => reads.extend(self.place(read)),
                }
            }
            let mut seen = HashSet::new();
            reads.retain(|at| seen.insert(*at));
            let waits =
                edges.iter().filter(|edge| edge.to == at).filter_map(|edge| match edge.kind {
                    DrawnEdgeKind::Order(why) => Some((name(edge.from), why)),
                    _ => None,
                });
            all.push(ListedNode {
                node,
                reads: reads.into_iter().map(name).collect(),
                waits: waits.collect(),
            });
        }
        all
    }

    /// Iterates over the nodes that are drawn. Joins are hidden, because arms can meet without
    /// them. Inputs of a body are hidden, because the enclosing node shows its reads.
    pub(super) fn shown(&self, is_body: bool) -> impl Iterator<Item = (usize, &GraphNode)> {
        let hidden = move |node: &GraphNode| {
            self.is_helper(node) || (is_body && node.kind == NodeKind::Input)
        };
        self.nodes.iter().enumerate().filter(move |(_, node)| !hidden(node))
    }

    fn place(&self, name: &str) -> Option<usize> {
        self.nodes.iter().position(|node| node.name == name)
    }

    /// Collects the drawn nodes that a node's output comes from. A join is replaced by the ends of
    /// its arms, and an arm without a value with the nodes that it waits for.
    fn sources(&self, name: &str, into: &mut Vec<usize>) {
        let Some(at) = self.place(name) else { return };
        let node = &self.nodes[at];
        if !self.is_helper(node) {
            into.push(at);
        } else if let Some(input) = self.begin_of(node) {
            self.sources(input, into);
        } else if node.kind == NodeKind::Join {
            node.reads.iter().for_each(|end| self.sources(end, into));
        } else {
            let order = node.order.iter().map(|edge| &edge.node).filter(|_| !self.begins_arm(node));
            order.for_each(|before| self.sources(before, into));
            let router = node.guard.as_ref().filter(|_| self.begins_arm(node));
            into.extend(router.and_then(|guard| self.place(&guard.router)));
        }
    }

    /// Returns the edges between shown nodes.
    pub(super) fn folded_edges<'g>(&'g self, is_body: bool) -> Vec<DrawnEdge<'g>> {
        let mut edges: Vec<DrawnEdge<'g>> = Vec::new();
        let shown: Vec<usize> = self.shown(is_body).map(|(at, _)| at).collect();
        for (to, node) in self.shown(is_body) {
            let mut add = |from: usize, kind: DrawnEdgeKind<'g>| {
                if from == to || shown.binary_search(&from).is_err() {
                    return;
                }
                let edge = DrawnEdge { from, to, kind };
                let mut same = edges.iter_mut().rev().take_while(|other| other.to == to);
                match same
                    .find(|other| **other == edge || (other.from == from && edge.replaces(other)))
                {
                    Some(other) => other.kind = kind.stronger(other.kind),
                    None => edges.push(edge),
                }
            };
            // Edges to the hidden context value of a call are drawn to the call.
            let entered = self.context_of(node).unwrap_or(node);
            if let Some(guard) = &entered.guard
                && let Some(router) = self.place(&guard.router)
                && self.begins_arm(entered)
            {
                add(router, DrawnEdgeKind::Arm(self.arm_label(&guard.router, &guard.arm, node)));
            }
            if let Some(router) = self.router_above(node) {
                add(router, DrawnEdgeKind::Arm("otherwise"));
            }
            for edge in entered.edges.iter().filter(|edge| !self.is_of_skipped(edge)) {
                let kind = match edge {
                    GraphEdge { arm: Some(arm), .. } => {
                        DrawnEdgeKind::Arm(self.arm_label(&edge.from, arm, node))
                    }
                    GraphEdge { failed: true, .. } => DrawnEdgeKind::Failure,
                    GraphEdge { when: Some(when), .. } => DrawnEdgeKind::Condition(key_of(when)),
                    _ => DrawnEdgeKind::Output,
                };
                let mut from = Vec::new();
                self.sources(&edge.from, &mut from);
                from.into_iter().for_each(|from| add(from, kind));
            }
            for key in self.state_keys(node) {
                let savers = self.nodes[..to]
                    .iter()
                    .enumerate()
                    .filter(|(_, saver)| saver.saves.contains_key(key));
                savers.for_each(|(from, _)| add(from, DrawnEdgeKind::State(key)));
            }
            let asked =
                node.after.iter().map(|name| (name, DrawnEdgeKind::Order(OrderReason::Asked)));
            let order =
                node.order.iter().map(|edge| (&edge.node, DrawnEdgeKind::Order(edge.reason)));
            let reads = self.reads_of(node).into_iter().map(|name| (name, DrawnEdgeKind::Output));
            for (name, kind) in reads.chain(asked).chain(order) {
                let mut from = Vec::new();
                self.sources(name, &mut from);
                from.into_iter().for_each(|from| add(from, kind));
            }
        }
        without_redundant_edges(edges)
    }

    /// Returns the nodes that a node reads. For a graph that no runtime has loaded yet, the reads
    /// are derived from its body.
    fn reads_of<'g>(&'g self, node: &'g GraphNode) -> Vec<&'g String> {
        let is_known = |name: &str| {
            node.order.iter().any(|edge| edge.node == name)
                || node.reads.iter().any(|of| of == name)
        };
        let does = node.reads_by_name(&|name| self.place(name).is_some()).into_iter();
        let of_does = does
            .filter(|(name, _)| !is_known(name))
            .filter_map(|(name, _)| Some(&self.node(name)?.name));
        node.reads.iter().chain(of_does).collect()
    }

    /// Returns the state keys that a node reads by name.
    fn state_keys<'g>(&'g self, node: &'g GraphNode) -> Vec<&'g str> {
        let is_node: IsNode<'_> = &|name| self.place(name).is_some();
        let asked =
            node.question().map(|text| state_keys_of_text(text, is_node)).unwrap_or_default();
        let keys = node.does.iter().flat_map(|does| does.state_keys(is_node)).chain(asked);
        let of_edges = node
            .edges
            .iter()
            .filter_map(|edge| edge.when.as_ref())
            .flat_map(|when| when.state_keys(is_node));
        let shown = self.context_of(node).and_then(|context| context.does.as_ref());
        let of_context = shown.into_iter().flat_map(|does| does.state_keys(is_node));
        let all = keys.chain(of_edges).chain(of_context).map(|(key, _)| key);
        let mut keys: Vec<&str> = all.filter(|key| !key.is_empty()).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// Returns `true` for nodes that the author did not write: joins, and nodes added by the forms
    /// `edges` and `steps`.
    fn is_helper(&self, node: &GraphNode) -> bool {
        is_join(node)
            || self.begin_of(node).is_some()
            || self.is_context(node)
            || self.is_after_skipped(node)
    }

    /// Returns the input that the first node of the forms `edges` and `steps` saves to the state.
    fn begin_of<'g>(&self, node: &'g GraphNode) -> Option<&'g str> {
        let Some(GraphBody::Value(Mapping::From { node: input, at, or: None })) = &node.does else {
            return None;
        };
        let saves_all = node.saves.len() == 1 && node.saves.get("*").is_some_and(String::is_empty);
        let is_named = node.name == "begin" || node.name.starts_with("begin_");
        let is_input =
            at.is_empty() && self.node(input).is_some_and(|input| input.kind == NodeKind::Input);
        (is_named && saves_all && is_input && question(node).is_none()).then_some(input)
    }

    /// Returns the context value that a remote agent receives in the forms `edges` and `steps`.
    fn context_of<'g>(&'g self, node: &GraphNode) -> Option<&'g GraphNode> {
        let Some(GraphBody::Call(call)) = &node.does else { return None };
        match node.edges.as_slice() {
            [edge] if call.name.starts_with("a2a.") && is_context_name(&edge.from) => self
                .node(&edge.from)
                .filter(|context| matches!(context.does, Some(GraphBody::Value(_)))),
            _ => None,
        }
    }

    fn is_context(&self, node: &GraphNode) -> bool {
        let is_of = |call: &GraphNode| {
            self.context_of(call).is_some_and(|context| context.name == node.name)
        };
        is_context_name(&node.name) && self.nodes.iter().any(is_of)
    }

    /// Returns `true` for an edge that follows the failure of a node whose failures are skipped.
    fn is_of_skipped(&self, edge: &GraphEdge) -> bool {
        edge.failed
            && self.node(&edge.from).is_some_and(|from| from.policy.on_error == OnError::Skip)
    }

    /// Returns `true` for a node that evaluates the conditions after such a node.
    fn is_after_skipped(&self, node: &GraphNode) -> bool {
        let is_nothing = matches!(node.does, Some(GraphBody::Value(Mapping::Value(Value::Null))));
        is_nothing
            && !node.edges.is_empty()
            && node.edges.iter().all(|edge| self.is_of_skipped(edge))
    }

    /// Returns the label of an edge from a router: the author's key if the arm has the name of its
    /// target, otherwise the arm.
    fn arm_label<'g>(&'g self, router: &str, arm: &'g str, to: &GraphNode) -> &'g str {
        let Some(GraphBody::Route(routes)) =
            self.node(router).and_then(|router| router.does.as_ref())
        else {
            return arm;
        };
        let when =
            routes.arms.iter().find(|route| route.arm == arm).and_then(|route| route.when.as_ref());
        when.and_then(key_of).filter(|_| arm == to.name).unwrap_or(arm)
    }

    /// Returns the router of the last returning arm above a node, if the node is the first one
    /// after it.
    fn router_above(&self, node: &GraphNode) -> Option<usize> {
        let join = node.unless.as_deref()?;
        let before =
            |name: &String| self.node(name).is_some_and(|before| before.unless == node.unless);
        let first = !self.before(node).any(before);
        self.place(join.rsplit_once('/')?.0).filter(|_| first)
    }

    /// Returns `true` if no other node of the same arm precedes the node.
    fn begins_arm(&self, node: &GraphNode) -> bool {
        let in_arm =
            |name: &String| self.node(name).is_some_and(|before| before.guard == node.guard);
        !self.before(node).any(in_arm)
    }

    /// Iterates over the nodes that a node reads or waits for.
    fn before<'g>(&'g self, node: &'g GraphNode) -> impl Iterator<Item = &'g String> {
        node.reads.iter().chain(&node.after).chain(node.order.iter().map(|edge| &edge.node))
    }
}

/// A node in a listing.
#[derive(Debug)]
#[doc(hidden)]
pub struct ListedNode<'g> {
    /// The node.
    pub node: &'g GraphNode,
    /// Nodes whose outputs it reads.
    pub reads: Vec<&'g str>,
    /// Other nodes that it waits for, with the reason. Redundant edges are left out.
    pub waits: Vec<(&'g str, OrderReason)>,
}

fn is_context_name(name: &str) -> bool {
    name == "context" || name.starts_with("context_")
}

/// Returns the `condition_key` of an edge in the form `edges`.
fn key_of(when: &Condition) -> Option<&str> {
    match when {
        Condition::Any(all) => match all.first()? {
            Condition::Equals(Mapping::Cel(_), Mapping::Value(Value::String(key))) => Some(key),
            _ => None,
        },
        Condition::All(all) => match all.first()? {
            Condition::Exists(Mapping::State { key, .. }) => Some(key),
            _ => None,
        },
        _ => None,
    }
}

/// Returns `true` for a join, and for the end of an arm without a value.
fn is_join(node: &GraphNode) -> bool {
    let is_yield = || node.name.rsplit('/').next() == Some(names::YIELD);
    match node.kind {
        NodeKind::Join => true,
        NodeKind::Value => node.type_name == "()" && node.reads.is_empty() && is_yield(),
        _ => false,
    }
}

/// Removes order edges that are implied by a path over other nodes. Edges that the author wrote
/// stay.
fn without_redundant_edges(edges: Vec<DrawnEdge<'_>>) -> Vec<DrawnEdge<'_>> {
    let last = edges.iter().map(|edge| edge.to).max().unwrap_or_default();
    let mut into: Vec<Vec<&DrawnEdge<'_>>> = vec![Vec::new(); last + 1];
    edges.iter().for_each(|edge| into[edge.to].push(edge));
    let says = |wanted: &DrawnEdge<'_>| {
        let mut open = vec![wanted.to];
        let mut seen = HashSet::new();
        while let Some(at) = open.pop() {
            for edge in into[at].iter().filter(|edge| **edge != wanted) {
                if edge.from == wanted.from {
                    return true;
                }
                // Every node comes after all nodes that it waits for, so earlier nodes cannot be on
                // such a path.
                if edge.from > wanted.from && seen.insert(edge.from) {
                    open.push(edge.from);
                }
            }
        }
        false
    };
    let kept: Vec<bool> = edges
        .iter()
        .map(|edge| match edge.kind {
            DrawnEdgeKind::Order(why) => why == OrderReason::Asked || !says(edge),
            _ => true,
        })
        .collect();
    edges.into_iter().zip(kept).filter_map(|(edge, kept)| kept.then_some(edge)).collect()
}

/// An edge between two nodes, by index.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct DrawnEdge<'g> {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) kind: DrawnEdgeKind<'g>,
}

/// Reason of an edge, with its text.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum DrawnEdgeKind<'g> {
    Output,
    /// From a router, with the name of the arm.
    Arm(&'g str),
    /// With the key of the condition, if it has one.
    Condition(Option<&'g str>),
    Failure,
    /// From a node that saves a state key, with the key.
    State(&'g str),
    Order(OrderReason),
}

impl DrawnEdgeKind<'_> {
    fn display_kind(self) -> DisplayEdgeKind {
        match self {
            Self::Output => DisplayEdgeKind::Output,
            Self::Arm(_) => DisplayEdgeKind::Arm,
            Self::Condition(_) => DisplayEdgeKind::Condition,
            Self::Failure => DisplayEdgeKind::Failure,
            Self::State(_) => DisplayEdgeKind::State,
            Self::Order(_) => DisplayEdgeKind::Order,
        }
    }

    /// Returns the kind with the stronger reason, for two order edges between the same nodes.
    fn stronger(self, other: Self) -> Self {
        let rank = |kind: &Self| match kind {
            Self::Order(OrderReason::Above | OrderReason::Optional) => 1,
            Self::Order(OrderReason::Write) => 2,
            Self::Order(OrderReason::Asked) => 3,
            Self::Order(OrderReason::Check) => 4,
            Self::Order(OrderReason::Gate) => 5,
            _ => 0,
        };
        if rank(&self) > rank(&other) { self } else { other }
    }
}

impl DrawnEdge<'_> {
    fn is_order(&self) -> bool {
        matches!(self.kind, DrawnEdgeKind::Order(_))
    }

    pub(super) fn is_dashed(&self) -> bool {
        self.is_order() || matches!(self.kind, DrawnEdgeKind::State(_))
    }

    fn replaces(&self, other: &Self) -> bool {
        self.is_order() && other.is_order()
    }

    pub(super) fn label(&self) -> Option<&str> {
        match self.kind {
            DrawnEdgeKind::Output | DrawnEdgeKind::Order(OrderReason::Asked) => None,
            DrawnEdgeKind::Failure => Some("failed"),
            DrawnEdgeKind::Condition(key) => Some(key.unwrap_or("condition")),
            DrawnEdgeKind::Arm(label) | DrawnEdgeKind::State(label) => Some(label),
            DrawnEdgeKind::Order(why) => Some(why.as_str()),
        }
    }
}

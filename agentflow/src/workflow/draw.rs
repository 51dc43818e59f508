//! Draws a graph as Mermaid and Graphviz text, as its author wrote it: without the nodes that only join arms, with no more
//! order edges than say why each node waits, and taps with a dashed outline. It changes neither a plan nor a definition hash.

use std::collections::HashSet;
use std::fmt::Write;

use super::graph::{Graph, GraphNode};
use super::graph_body::GraphEdge;
use super::names;
use super::spec::{NodeKind, OrderReason};
use crate::path::StepPath;

impl Graph {
    /// The graph as a Mermaid flowchart, as GitHub and many editors show it.
    #[doc(alias = "visualize")]
    pub fn to_mermaid(&self) -> String {
        let mut text = String::from("flowchart TD\n");
        self.draw_mermaid(&mut text, "n", "    ");
        text
    }

    /// `id` begins the names of the nodes in the picture, which are those of a body when it is another graph's.
    fn draw_mermaid(&self, text: &mut String, id: &str, indent: &str) {
        for (at, node) in self.shown(id) {
            let label = escape_mermaid(&label(node));
            let (open, close) = match node.kind {
                NodeKind::Input => ("([", "])"),
                NodeKind::Router => ("{", "}"),
                NodeKind::Gate => ("{{", "}}"),
                NodeKind::Value | NodeKind::Check => ("(", ")"),
                NodeKind::Map | NodeKind::Each => ("[[", "]]"),
                _ if node.callee.as_deref() == Some("workflow") => ("[[", "]]"),
                _ => ("[", "]"),
            };
            let _ = writeln!(text, "{indent}{id}{at}{open}\"{label}\"{close}");
            if node.policy.tap {
                let _ = writeln!(text, "{indent}style {id}{at} stroke-dasharray: 4 4");
            }
            for (branch, body) in node.bodies() {
                let (title, of) = (title(node, branch), body_id(id, at, branch, node));
                let _ = writeln!(text, "{indent}subgraph {of} [\"{}\"]", escape_mermaid(&title));
                body.draw_mermaid(text, &format!("{of}_"), &format!("{indent}    "));
                let _ = writeln!(text, "{indent}end\n{indent}{id}{at} --- {of}");
            }
        }
        for edge in self.edges(id) {
            let arrow = if edge.is_order() { "-.->" } else { "-->" };
            let label = edge.label().map(|label| format!("|\"{}\"|", escape_mermaid(label))).unwrap_or_default();
            let _ = writeln!(text, "{indent}{id}{} {arrow}{label} {id}{}", edge.from, edge.to);
        }
    }

    /// The graph in Graphviz's language.
    pub fn to_dot(&self) -> String {
        let mut text = format!("digraph {:?} {{\n    rankdir=TB;\n    node [shape=box];\n", self.name);
        self.draw_dot(&mut text, "n", "    ");
        text.push_str("}\n");
        text
    }

    fn draw_dot(&self, text: &mut String, id: &str, indent: &str) {
        for (at, node) in self.shown(id) {
            let shape = match node.kind {
                NodeKind::Input => "oval",
                NodeKind::Router => "diamond",
                NodeKind::Gate => "hexagon",
                NodeKind::Map | NodeKind::Each => "box3d",
                _ if node.callee.as_deref() == Some("workflow") => "component",
                _ => "box",
            };
            let dashed = if node.policy.tap { ", style=dashed" } else { "" };
            let _ = writeln!(text, "{indent}{id}{at} [label={:?}, shape={shape}{dashed}];", label(node));
            for (branch, body) in node.bodies() {
                let of = body_id(id, at, branch, node);
                let _ = writeln!(text, "{indent}subgraph cluster_{of} {{");
                let _ = writeln!(text, "{indent}    label={:?};", title(node, branch));
                body.draw_dot(text, &format!("{of}_"), &format!("{indent}    "));
                let _ = writeln!(text, "{indent}}}");
                if let Some((first, _)) = body.shown("b").next() {
                    let _ = writeln!(text, "{indent}{id}{at} -> {of}_{first} [style=dotted, arrowhead=none];");
                }
            }
        }
        for edge in self.edges(id) {
            let mut attributes = Vec::new();
            attributes.extend(edge.label().map(|label| format!("label={label:?}")));
            attributes.extend(edge.is_order().then(|| "style=dashed".to_owned()));
            let attributes =
                if attributes.is_empty() { String::new() } else { format!(" [{}]", attributes.join(", ")) };
            let _ = writeln!(text, "{indent}{id}{} -> {id}{}{attributes};", edge.from, edge.to);
        }
    }

    /// The nodes in the order of the source, as they are listed: those that join arms are left out, and what is read of
    /// them is read of their router.
    #[cfg(feature = "cli")]
    pub(crate) fn listed(&self) -> Vec<ListedNode<'_>> {
        let name = |at: usize| self.nodes[at].name.as_str();
        let edges = self.edges("n");
        let mut all = Vec::new();
        for (at, node) in self.nodes.iter().enumerate().filter(|(_, node)| !is_helper(node)) {
            let mut reads: Vec<usize> = Vec::new();
            for read in &node.reads {
                let of = self.node(read).filter(|read| is_helper(read));
                match of.map(|join| join.name.strip_suffix(names::END).and_then(|name| name.strip_suffix('/'))) {
                    Some(Some(router)) => reads.extend(self.place(router)),
                    Some(None) => self.sources(read, &mut reads),
                    None => reads.extend(self.place(read)),
                }
            }
            let mut seen = HashSet::new();
            reads.retain(|at| seen.insert(*at));
            let waits = edges.iter().filter(|edge| edge.to == at).filter_map(|edge| match edge.kind {
                EdgeKind::Order(why) => Some((name(edge.from), why)),
                _ => None,
            });
            all.push(ListedNode { node, reads: reads.into_iter().map(name).collect(), waits: waits.collect() });
        }
        all
    }

    /// The nodes that have a place in a picture: the ends of routers are where their arms meet, and need none. The inputs
    /// of a body are what the node around it reads.
    fn shown(&self, id: &str) -> impl Iterator<Item = (usize, &GraphNode)> {
        let is_body = id != "n";
        let hidden = move |node: &GraphNode| is_helper(node) || (is_body && node.kind == NodeKind::Input);
        self.nodes.iter().enumerate().filter(move |(_, node)| !hidden(node))
    }

    fn place(&self, name: &str) -> Option<usize> {
        self.nodes.iter().position(|node| node.name == name)
    }

    /// Where the output of a node comes from in the picture: an end stands for the ends of its arms, and an arm without a
    /// value for what it waits for.
    fn sources(&self, name: &str, into: &mut Vec<usize>) {
        let Some(at) = self.place(name) else { return };
        let node = &self.nodes[at];
        if !is_helper(node) {
            into.push(at);
        } else if node.kind == NodeKind::Join {
            node.reads.iter().for_each(|end| self.sources(end, into));
        } else {
            let order = node.order.iter().map(|edge| &edge.node).filter(|_| !self.begins_arm(node));
            order.for_each(|before| self.sources(before, into));
            let router = node.guard.as_ref().filter(|_| self.begins_arm(node));
            into.extend(router.and_then(|guard| self.place(&guard.router)));
        }
    }

    fn edges<'g>(&'g self, id: &str) -> Vec<Edge<'g>> {
        let mut edges: Vec<Edge<'g>> = Vec::new();
        let shown: Vec<usize> = self.shown(id).map(|(at, _)| at).collect();
        for (to, node) in self.shown(id) {
            let mut add = |from: usize, kind: EdgeKind<'g>| {
                if from == to || shown.binary_search(&from).is_err() {
                    return;
                }
                let edge = Edge { from, to, kind };
                let mut same = edges.iter_mut().rev().take_while(|other| other.to == to);
                match same.find(|other| **other == edge || (other.from == from && edge.replaces(other))) {
                    Some(other) => other.kind = kind.stronger(other.kind),
                    None => edges.push(edge),
                }
            };
            if let Some(guard) = &node.guard
                && let Some(router) = self.place(&guard.router)
                && self.begins_arm(node)
            {
                add(router, EdgeKind::Arm(&guard.arm));
            }
            if let Some(router) = self.router_above(node) {
                add(router, EdgeKind::Arm("otherwise"));
            }
            for edge in &node.edges {
                let label = match edge {
                    GraphEdge { arm: Some(arm), .. } => Some(arm.as_str()),
                    GraphEdge { failed: true, .. } => Some("failed"),
                    GraphEdge { when: Some(_), .. } => Some("condition"),
                    _ => None,
                };
                if let Some(from) = self.place(&edge.from) {
                    add(from, label.map_or(EdgeKind::Reads, EdgeKind::Arm));
                }
            }
            let asked = node.after.iter().map(|name| (name, EdgeKind::Order(OrderReason::Asked)));
            let order = node.order.iter().map(|edge| (&edge.node, EdgeKind::Order(edge.reason)));
            let reads = self.reads_of(node).into_iter().map(|name| (name, EdgeKind::Reads));
            for (name, kind) in reads.chain(asked).chain(order) {
                let mut from = Vec::new();
                self.sources(name, &mut from);
                from.into_iter().for_each(|from| add(from, kind));
            }
        }
        fewest(edges)
    }

    /// The nodes that a node reads. Of one that is data and that no runtime has read yet, what it does says so.
    fn reads_of<'g>(&'g self, node: &'g GraphNode) -> Vec<&'g String> {
        let is_known =
            |name: &str| node.order.iter().any(|edge| edge.node == name) || node.reads.iter().any(|of| of == name);
        let does = node.does.iter().flat_map(|does| does.reads(&|name| self.place(name).is_some()));
        let of_does = does.filter(|(name, _)| !is_known(name)).filter_map(|(name, _)| Some(&self.node(name)?.name));
        node.reads.iter().chain(of_does).collect()
    }

    /// The router of the last arm that returns above a node, when the node is the first below it.
    fn router_above(&self, node: &GraphNode) -> Option<usize> {
        let join = node.unless.as_deref()?;
        let before = |name: &String| self.node(name).is_some_and(|before| before.unless == node.unless);
        let first = !self.before(node).any(before);
        self.place(join.rsplit_once('/')?.0).filter(|_| first)
    }

    /// Whether nothing in the same arm comes before the node.
    fn begins_arm(&self, node: &GraphNode) -> bool {
        let in_arm = |name: &String| self.node(name).is_some_and(|before| before.guard == node.guard);
        !self.before(node).any(in_arm)
    }

    /// What a node reads and waits for.
    fn before<'g>(&'g self, node: &'g GraphNode) -> impl Iterator<Item = &'g String> {
        node.reads.iter().chain(&node.after).chain(node.order.iter().map(|edge| &edge.node))
    }
}

/// A node as it is listed.
#[cfg(feature = "cli")]
pub(crate) struct ListedNode<'g> {
    pub(crate) node: &'g GraphNode,
    /// The nodes whose outputs it reads.
    pub(crate) reads: Vec<&'g str>,
    /// The other nodes that it waits for, and why: the fewest that say so.
    pub(crate) waits: Vec<(&'g str, OrderReason)>,
}

/// Whether a node stands for nothing that its author wrote: the end of a router, and of an arm that has no value.
fn is_helper(node: &GraphNode) -> bool {
    let is_yield = || node.name.rsplit('/').next() == Some(names::YIELD);
    match node.kind {
        NodeKind::Join => true,
        NodeKind::Value => node.type_name == "()" && node.reads.is_empty() && is_yield(),
        _ => false,
    }
}

/// The edges without the order edges that others say already, by way of more nodes. What the author asked for stays.
fn fewest(edges: Vec<Edge<'_>>) -> Vec<Edge<'_>> {
    let last = edges.iter().map(|edge| edge.to).max().unwrap_or_default();
    let mut into: Vec<Vec<&Edge<'_>>> = vec![Vec::new(); last + 1];
    edges.iter().for_each(|edge| into[edge.to].push(edge));
    let says = |wanted: &Edge<'_>| {
        let mut open = vec![wanted.to];
        let mut seen = HashSet::new();
        while let Some(at) = open.pop() {
            for edge in into[at].iter().filter(|edge| **edge != wanted) {
                if edge.from == wanted.from {
                    return true;
                }
                // Every node stands below all that it waits for.
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
            EdgeKind::Order(why) => why == OrderReason::Asked || !says(edge),
            _ => true,
        })
        .collect();
    edges.into_iter().zip(kept).filter_map(|(edge, kept)| kept.then_some(edge)).collect()
}

/// What a body in a picture is called: the numbers of the node, and of the branch.
fn body_id(id: &str, at: usize, branch: &str, node: &GraphNode) -> String {
    match node.branch_bodies.keys().position(|name| name == branch) {
        Some(branch) => format!("{id}{at}b{branch}"),
        None => format!("{id}{at}b"),
    }
}

/// What stands over a body in a picture.
fn title(node: &GraphNode, branch: &str) -> String {
    let path = StepPath::root().child(&node.name);
    let name = path.last_name().unwrap_or(&node.name);
    match (node.kind, branch) {
        (NodeKind::Map | NodeKind::Each, _) => format!("each of {name}"),
        (NodeKind::Repeat, _) => format!("each round of {name}"),
        (_, branch) => format!("{name}: {branch}"),
    }
}

#[derive(Clone, Copy, PartialEq)]
struct Edge<'g> {
    from: usize,
    to: usize,
    kind: EdgeKind<'g>,
}

#[derive(Clone, Copy, PartialEq)]
enum EdgeKind<'g> {
    Reads,
    /// From a router, by the name of the arm.
    Arm(&'g str),
    Order(OrderReason),
}

impl EdgeKind<'_> {
    /// Of two edges between the same nodes that keep order, the one with the stronger reason is drawn.
    fn stronger(self, other: Self) -> Self {
        let rank = |kind: &Self| match kind {
            Self::Reads | Self::Arm(_) => 0,
            Self::Order(OrderReason::Above | OrderReason::Optional) => 1,
            Self::Order(OrderReason::Write) => 2,
            Self::Order(OrderReason::Asked) => 3,
            Self::Order(OrderReason::Check) => 4,
            Self::Order(OrderReason::Gate) => 5,
        };
        if rank(&self) > rank(&other) { self } else { other }
    }
}

impl Edge<'_> {
    fn is_order(&self) -> bool {
        matches!(self.kind, EdgeKind::Order(_))
    }

    fn replaces(&self, other: &Self) -> bool {
        self.is_order() && other.is_order()
    }

    fn label(&self) -> Option<&str> {
        match self.kind {
            EdgeKind::Reads | EdgeKind::Order(OrderReason::Asked) => None,
            EdgeKind::Arm(label) => Some(label),
            EdgeKind::Order(why) => Some(why.as_str()),
        }
    }
}

/// The last part of the name, and what is called where that says more.
fn label(node: &GraphNode) -> String {
    let path = StepPath::root().child(&node.name);
    let name = path.last_name().unwrap_or(&node.name);
    let mut label = name.to_owned();
    if !node.calls.is_empty() && node.calls != name {
        let _ = write!(label, "\n{}", node.calls);
    }
    match node.kind {
        NodeKind::Map => label.push_str("\nfor each"),
        NodeKind::Each => label.push_str("\nfor each, in order"),
        NodeKind::Check => label.push_str("\nmust hold"),
        NodeKind::Race => label.push_str("\nfirst of"),
        NodeKind::Fallback => label.push_str("\nor else"),
        NodeKind::Repeat => label.push_str("\nrepeated"),
        _ => {}
    }
    if let Some(callee) = &node.callee {
        let _ = write!(label, " ({callee})");
    }
    if node.policy.tap {
        label.push_str("\nobserves");
    }
    label
}

fn escape_mermaid(text: &str) -> String {
    text.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;").replace('>', "&gt;").replace('\n', "<br/>")
}

//! Draws a graph as Mermaid and Graphviz text.

use std::fmt::Write;

use super::graph::{Graph, GraphNode};
use super::spec::NodeKind;
use crate::path::StepPath;

impl Graph {
    /// The graph as a Mermaid flowchart, as GitHub and many editors show it.
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
            for (branch, body) in node.bodies() {
                let (title, of) = (title(node, branch), body_id(id, at, branch, node));
                let _ = writeln!(text, "{indent}subgraph {of} [\"{}\"]", escape_mermaid(&title));
                body.draw_mermaid(text, &format!("{of}_"), &format!("{indent}    "));
                let _ = writeln!(text, "{indent}end\n{indent}{id}{at} --- {of}");
            }
        }
        for edge in self.edges(id) {
            let arrow = if edge.is_order { "-.->" } else { "-->" };
            let label = edge.label.map(|label| format!("|\"{}\"|", escape_mermaid(&label))).unwrap_or_default();
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
            let _ = writeln!(text, "{indent}{id}{at} [label={:?}, shape={shape}];", label(node));
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
            attributes.extend(edge.label.map(|label| format!("label={label:?}")));
            attributes.extend(edge.is_order.then(|| "style=dashed".to_owned()));
            let attributes =
                if attributes.is_empty() { String::new() } else { format!(" [{}]", attributes.join(", ")) };
            let _ = writeln!(text, "{indent}{id}{} -> {id}{}{attributes};", edge.from, edge.to);
        }
    }

    /// The nodes that have a place in a picture: the ends of routers are where their arms meet, and need none when
    /// nothing but another node reads them. The inputs of a body are what the node around it reads.
    fn shown(&self, id: &str) -> impl Iterator<Item = (usize, &GraphNode)> {
        let is_body = id != "n";
        let hidden = move |kind| kind == NodeKind::Join || (is_body && kind == NodeKind::Input);
        self.nodes.iter().enumerate().filter(move |(_, node)| !hidden(node.kind))
    }

    fn place(&self, name: &str) -> Option<usize> {
        self.nodes.iter().position(|node| node.name == name)
    }

    /// Where the output of a node comes from in the picture: an end stands for the ends of its arms.
    fn sources(&self, name: &str, into: &mut Vec<usize>) {
        let Some(at) = self.place(name) else { return };
        match self.nodes[at].kind {
            NodeKind::Join => self.nodes[at].reads.iter().for_each(|end| self.sources(end, into)),
            _ => into.push(at),
        }
    }

    fn edges(&self, id: &str) -> Vec<Edge> {
        let mut edges: Vec<Edge> = Vec::new();
        let shown: Vec<usize> = self.shown(id).map(|(at, _)| at).collect();
        for (to, node) in self.shown(id) {
            let mut add = |from: usize, label: Option<String>, is_order: bool| {
                let edge = Edge { from, to, label, is_order };
                if shown.binary_search(&from).is_ok() && !edges.contains(&edge) {
                    edges.push(edge);
                }
            };
            if let Some(guard) = &node.guard
                && let Some(router) = self.place(&guard.router)
                && self.begins_arm(node)
            {
                add(router, Some(guard.arm.clone()), false);
            }
            if let Some(router) = self.router_above(node) {
                add(router, Some("otherwise".to_owned()), false);
            }
            let asked = node.after.iter().map(|name| (name, true, None));
            let order = node.order.iter().map(|edge| (&edge.node, true, Some(edge.reason.as_str())));
            for (name, is_order, why) in node.reads.iter().map(|name| (name, false, None)).chain(asked).chain(order) {
                let mut from = Vec::new();
                self.sources(name, &mut from);
                from.into_iter().for_each(|from| add(from, why.map(ToOwned::to_owned), is_order));
            }
        }
        edges
    }

    /// The router of the last arm that returns above a node, when the node is the first below it.
    fn router_above(&self, node: &GraphNode) -> Option<usize> {
        let join = node.unless.as_deref()?;
        let before = |name: &String| self.node(name).is_some_and(|before| before.unless == node.unless);
        let first = !node.reads.iter().chain(&node.after).any(before);
        self.place(join.rsplit_once('/')?.0).filter(|_| first)
    }

    /// Whether nothing in the same arm comes before the node.
    fn begins_arm(&self, node: &GraphNode) -> bool {
        let in_arm = |name: &String| self.node(name).is_some_and(|before| before.guard == node.guard);
        let order = node.order.iter().map(|edge| &edge.node);
        !node.reads.iter().chain(&node.after).chain(order).any(in_arm)
    }
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

#[derive(PartialEq)]
struct Edge {
    from: usize,
    to: usize,
    label: Option<String>,
    is_order: bool,
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
    label
}

fn escape_mermaid(text: &str) -> String {
    text.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;").replace('>', "&gt;").replace('\n', "<br/>")
}

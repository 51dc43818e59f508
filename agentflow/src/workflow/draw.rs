//! Draws a graph as Mermaid and Graphviz text.

use std::fmt::Write;

use super::graph::{Graph, GraphNode};
use super::spec::NodeKind;
use crate::path::StepPath;

impl Graph {
    /// The graph as a Mermaid flowchart, as GitHub and many editors show it.
    pub fn to_mermaid(&self) -> String {
        let mut text = String::from("flowchart TD\n");
        for (at, node) in self.shown() {
            let label = escape_mermaid(&label(node));
            let (open, close) = match node.kind {
                NodeKind::Input => ("([", "])"),
                NodeKind::Router => ("{", "}"),
                NodeKind::Gate => ("{{", "}}"),
                NodeKind::Value => ("(", ")"),
                NodeKind::Map => ("[[", "]]"),
                _ if node.callee.as_deref() == Some("workflow") => ("[[", "]]"),
                _ => ("[", "]"),
            };
            let _ = writeln!(text, "    n{at}{open}\"{label}\"{close}");
        }
        for edge in self.edges() {
            let arrow = if edge.is_order { "-.->" } else { "-->" };
            let label = edge.label.map(|label| format!("|\"{}\"|", escape_mermaid(&label))).unwrap_or_default();
            let _ = writeln!(text, "    n{} {arrow}{label} n{}", edge.from, edge.to);
        }
        text
    }

    /// The graph in Graphviz's language.
    pub fn to_dot(&self) -> String {
        let mut text = format!("digraph {:?} {{\n    rankdir=TB;\n    node [shape=box];\n", self.name);
        for (at, node) in self.shown() {
            let shape = match node.kind {
                NodeKind::Input => "oval",
                NodeKind::Router => "diamond",
                NodeKind::Gate => "hexagon",
                NodeKind::Map => "box3d",
                _ if node.callee.as_deref() == Some("workflow") => "component",
                _ => "box",
            };
            let _ = writeln!(text, "    n{at} [label={:?}, shape={shape}];", label(node));
        }
        for edge in self.edges() {
            let mut attributes = Vec::new();
            attributes.extend(edge.label.map(|label| format!("label={label:?}")));
            attributes.extend(edge.is_order.then(|| "style=dashed".to_owned()));
            let attributes =
                if attributes.is_empty() { String::new() } else { format!(" [{}]", attributes.join(", ")) };
            let _ = writeln!(text, "    n{} -> n{}{attributes};", edge.from, edge.to);
        }
        text.push_str("}\n");
        text
    }

    /// The nodes that have a place in a picture: the ends of routers are where their arms meet, and need none when
    /// nothing but another node reads them.
    fn shown(&self) -> impl Iterator<Item = (usize, &GraphNode)> {
        self.nodes.iter().enumerate().filter(|(_, node)| node.kind != NodeKind::Join)
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

    fn edges(&self) -> Vec<Edge> {
        let mut edges: Vec<Edge> = Vec::new();
        for (to, node) in self.shown() {
            let mut add = |from: usize, label: Option<String>, is_order: bool| {
                let edge = Edge { from, to, label, is_order };
                if !edges.contains(&edge) {
                    edges.push(edge);
                }
            };
            if let Some(guard) = &node.guard
                && let Some(router) = self.place(&guard.router)
                && self.begins_arm(node)
            {
                add(router, Some(guard.arm.clone()), false);
            }
            for (names, is_order) in [(&node.reads, false), (&node.after, true)] {
                for name in names {
                    let mut from = Vec::new();
                    self.sources(name, &mut from);
                    from.into_iter().for_each(|from| add(from, None, is_order));
                }
            }
        }
        edges
    }

    /// Whether nothing in the same arm comes before the node.
    fn begins_arm(&self, node: &GraphNode) -> bool {
        let in_arm = |name: &String| self.node(name).is_some_and(|before| before.guard == node.guard);
        !node.reads.iter().chain(&node.after).any(in_arm)
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

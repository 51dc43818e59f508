//! Draws a graph as Mermaid and Graphviz text. Taps have a dashed outline.

use std::fmt::Write;

use agentflow_schema::text::{OneLine, head};

use super::super::graph::{Graph, GraphNode};
use super::super::graph_body::GraphBody;
use super::super::spec::NodeKind;
use crate::path::StepPath;

/// Maximum number of bytes of a question in a drawing.
const MOST_QUESTION: usize = 160;

impl Graph {
    /// Returns the graph as a Mermaid flowchart, which GitHub and many editors display.
    #[doc(alias = "visualize")]
    pub fn to_mermaid(&self) -> String {
        let mut text = String::from("flowchart TD\n");
        self.draw_mermaid(&mut text, "n", "    ");
        text
    }

    /// Draws the nodes and edges. `id` is the prefix of the node ids, which differs between nested
    /// bodies.
    fn draw_mermaid(&self, text: &mut String, id: &str, indent: &str) {
        for (at, node) in self.shown(is_body(id)) {
            let label = escape_mermaid(&label(node));
            let (open, close) = match node.kind {
                _ if question(node).is_some() => ("{{", "}}"),
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
        for edge in self.folded_edges(is_body(id)) {
            let arrow = if edge.is_dashed() { "-.->" } else { "-->" };
            let label = edge
                .label()
                .map(|label| format!("|\"{}\"|", escape_mermaid(label)))
                .unwrap_or_default();
            let _ = writeln!(text, "{indent}{id}{} {arrow}{label} {id}{}", edge.from, edge.to);
        }
    }

    /// Returns the graph in the Graphviz language (DOT).
    pub fn to_dot(&self) -> String {
        let mut text =
            format!("digraph {:?} {{\n    rankdir=TB;\n    node [shape=box];\n", self.name);
        self.draw_dot(&mut text, "n", "    ");
        text.push_str("}\n");
        text
    }

    fn draw_dot(&self, text: &mut String, id: &str, indent: &str) {
        for (at, node) in self.shown(is_body(id)) {
            let shape = match node.kind {
                _ if question(node).is_some() => "hexagon",
                NodeKind::Input => "oval",
                NodeKind::Router => "diamond",
                NodeKind::Gate => "hexagon",
                NodeKind::Map | NodeKind::Each => "box3d",
                _ if node.callee.as_deref() == Some("workflow") => "component",
                _ => "box",
            };
            let dashed = if node.policy.tap { ", style=dashed" } else { "" };
            let _ = writeln!(
                text,
                "{indent}{id}{at} [label={:?}, shape={shape}{dashed}];",
                label(node)
            );
            for (branch, body) in node.bodies() {
                let of = body_id(id, at, branch, node);
                let _ = writeln!(text, "{indent}subgraph cluster_{of} {{");
                let _ = writeln!(text, "{indent}    label={:?};", title(node, branch));
                body.draw_dot(text, &format!("{of}_"), &format!("{indent}    "));
                let _ = writeln!(text, "{indent}}}");
                if let Some((first, _)) = body.shown(true).next() {
                    let _ = writeln!(
                        text,
                        "{indent}{id}{at} -> {of}_{first} [style=dotted, arrowhead=none];"
                    );
                }
            }
        }
        for edge in self.folded_edges(is_body(id)) {
            let mut attributes = Vec::new();
            attributes.extend(edge.label().map(|label| format!("label={label:?}")));
            attributes.extend(edge.is_dashed().then(|| "style=dashed".to_owned()));
            let attributes = if attributes.is_empty() {
                String::new()
            } else {
                format!(" [{}]", attributes.join(", "))
            };
            let _ = writeln!(text, "{indent}{id}{} -> {id}{}{attributes};", edge.from, edge.to);
        }
    }
}

/// Returns `true` if ids with this prefix belong to a nested body.
fn is_body(id: &str) -> bool {
    id != "n"
}

/// Returns the id of a body in a drawing: the index of the node and of the branch.
fn body_id(id: &str, at: usize, branch: &str, node: &GraphNode) -> String {
    match node.branch_bodies.keys().position(|name| name == branch) {
        Some(branch) => format!("{id}{at}b{branch}"),
        None => format!("{id}{at}b"),
    }
}

/// Returns the title of a body in a drawing.
fn title(node: &GraphNode, branch: &str) -> String {
    let path = StepPath::root().child(&node.name);
    let name = path.last_name().unwrap_or(&node.name);
    match (node.kind, branch) {
        (NodeKind::Map | NodeKind::Each, _) => format!("each of {name}"),
        (NodeKind::Repeat, _) => format!("each round of {name}"),
        (_, branch) => format!("{name}: {branch}"),
    }
}

/// Returns the last part of the name, the call if it differs, and notes about the node.
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
    for key in node.saves.keys().filter(|key| *key != "*" && *key != name) {
        let _ = write!(label, "\nsaves {key}");
    }
    if let Some(question) = question(node) {
        let _ = write!(label, "\nasks: {}", OneLine(head(question, MOST_QUESTION)));
    }
    label
}

/// Returns the question that a person answers before the node starts, or that the node itself asks.
pub fn question(node: &GraphNode) -> Option<&str> {
    match &node.does {
        Some(GraphBody::Ask(question)) => Some(&question.text),
        _ => node.policy.approve.as_deref(),
    }
}

fn escape_mermaid(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('"', "&quot;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('\n', "<br/>")
}

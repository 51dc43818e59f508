//! Diagrams of workflows and runs for `agentflow-layout`: nodes with their shapes, nested workflows
//! as groups, and the statuses of a run.

use std::collections::{HashMap, HashSet};

use agentflow_core::__private::extension::question_of;
use agentflow_core::runtime::{NodeStatus, RunGraph, RunGraphNode};
use agentflow_core::workflow::{DisplayEdge, DisplayEdgeKind, Graph, GraphNode, NodeKind};
use agentflow_layout::{
    Diagram, DiagramEdge, DiagramGroup, DiagramNode, DiagramStatus, LinkKind, NodeShape,
};
use agentflow_schema::text::{OneLine, head};

/// Maximum number of bytes of a question in a diagram.
const MAX_QUESTION: usize = 120;
/// Maximum number of workflows in each other that a diagram shows.
const MAX_NESTING: usize = 16;

/// Returns the diagram of a workflow. Nested workflows are groups: the steps for each item of a
/// `map!`, the rounds of a `repeat!`, and the branches of a `race!` or a `fallback!`.
///
/// The id of a node is its name. The id of a node in a nested workflow is the id of the group, `/`
/// and its name.
///
/// ```
/// # use agentflow::prelude::*;
/// use agentflow::views::layout::SvgWriter;
/// use agentflow::views::workflow_diagram;
///
/// /// Double a number.
/// #[tool]
/// async fn double(number: u32) -> u32 {
///     number * 2
/// }
///
/// #[workflow]
/// async fn drawn_as_svg(number: u32) -> Result<u32> {
///     let once = double(number).await;
///     let both = double(once).await;
///     Ok(both)
/// }
///
/// let diagram = workflow_diagram(&drawn_as_svg::workflow().graph());
/// let svg = SvgWriter::new().write(&diagram.layout());
/// assert!(svg.contains("data-from=\"once\" data-to=\"both\""));
/// ```
pub fn workflow_diagram(graph: &Graph) -> Diagram {
    let mut diagram = Diagram::new(format!("Workflow {}", graph.name));
    diagram.description = graph.description.clone();
    GraphDiagram { diagram: &mut diagram }.add(graph, None, 0);
    diagram
}

/// Returns the diagram of a run with the statuses of its nodes. With the graph of the workflow,
/// nested workflows are groups. Without it, a node with a nested workflow is folded; its label has
/// the number of its items in both cases.
///
/// Nodes in groups have no status, because each is executed once for each item.
pub fn run_diagram(run: &RunGraph, graph: Option<&Graph>) -> Diagram {
    let mut diagram = match graph {
        Some(graph) => workflow_diagram(graph),
        None => Diagram::default(),
    };
    diagram.title = format!("Run {} of {}", run.run.run_id, run.run.name);
    if graph.is_none() {
        for node in &run.nodes {
            let kind = node.kind.unwrap_or(NodeKind::Step);
            let label = last_name(&node.name);
            let shape = shape_of(kind, None, true);
            diagram.nodes.push(DiagramNode::new(&node.name, label).kind(word_of(kind), shape));
        }
        diagram.edges.extend(run.edges.iter().map(|edge| diagram_edge(edge, "")));
    }
    let by_name: HashMap<&str, &RunGraphNode> =
        run.nodes.iter().map(|node| (node.name.as_str(), node)).collect();
    for node in &mut diagram.nodes {
        if let Some(of_run) = by_name.get(node.id.as_str()) {
            node.status = status_of(of_run.status);
            node.label.push_str(&progress(of_run));
        }
    }
    for group in &mut diagram.groups {
        if let Some(of_run) = by_name.get(group.id.as_str()) {
            group.status = status_of(of_run.status);
            group.label.push_str(&progress(of_run));
        }
    }
    diagram
}

/// Adds the nodes of graphs to a diagram.
struct GraphDiagram<'d> {
    diagram: &'d mut Diagram,
}

impl GraphDiagram<'_> {
    /// Adds the nodes and edges of a graph, with those of nested graphs. The inputs of a nested
    /// graph are left out, because the edges to the group show them.
    fn add(&mut self, graph: &Graph, group: Option<&str>, depth: usize) {
        let prefix = group.map(|group| format!("{group}/")).unwrap_or_default();
        let mut shown = HashSet::new();
        for node in graph.display_nodes() {
            if group.is_some() && node.kind == NodeKind::Input {
                continue;
            }
            shown.insert(node.name.as_str());
            self.add_node(node, &prefix, group, depth);
        }
        for edge in graph.edges() {
            if shown.contains(edge.from.as_str()) && shown.contains(edge.to.as_str()) {
                self.diagram.edges.push(diagram_edge(&edge, &prefix));
            }
        }
    }

    fn add_node(&mut self, node: &GraphNode, prefix: &str, group: Option<&str>, depth: usize) {
        let id = format!("{prefix}{}", node.name);
        if node.kind == NodeKind::Repeat {
            self.diagram.edges.push(DiagramEdge::new(&id, &id).label("again"));
        }
        let has_branches =
            matches!(node.kind, NodeKind::Race | NodeKind::Fallback) && node.branches.len() > 1;
        if depth < MAX_NESTING
            && (node.body.is_some() || !node.branch_bodies.is_empty() || has_branches)
        {
            self.add_group(node, &id, group, depth);
            return;
        }
        let is_folded = node.body.is_some() || !node.branch_bodies.is_empty();
        let mut drawn = DiagramNode::new(&id, label_of(node, true))
            .kind(kind_of(node), shape_of(node.kind, Some(node), is_folded));
        drawn.group = group.map(str::to_owned);
        drawn.is_dashed = node.policy.tap;
        self.diagram.nodes.push(drawn);
    }

    /// Adds a node with nested workflows or branches as a group.
    fn add_group(&mut self, node: &GraphNode, id: &str, around: Option<&str>, depth: usize) {
        let mut group = DiagramGroup::new(id, label_of(node, false)).kind(kind_of(node));
        group.group = around.map(str::to_owned);
        group.is_dashed = node.policy.tap;
        self.diagram.groups.push(group);
        if let Some(body) = &node.body {
            self.add(body, Some(id), depth + 1);
        }
        let mut branches: Vec<&str> = node.branches.iter().map(String::as_str).collect();
        for branch in node.branch_bodies.keys() {
            if !branches.contains(&branch.as_str()) {
                branches.push(branch);
            }
        }
        let mut before: Option<String> = None;
        for branch in branches {
            let branch_id = format!("{id}/{branch}");
            match node.branch_bodies.get(branch) {
                Some(body) => {
                    let inner = DiagramGroup::new(&branch_id, branch).kind("branch").in_group(id);
                    self.diagram.groups.push(inner);
                    self.add(body, Some(&branch_id), depth + 1);
                }
                None => {
                    let inner = DiagramNode::new(&branch_id, branch)
                        .kind("branch", NodeShape::Rectangle)
                        .in_group(id);
                    self.diagram.nodes.push(inner);
                }
            }
            if let Some(before) = before.filter(|_| node.kind == NodeKind::Fallback) {
                let edge = DiagramEdge::new(before, &branch_id).kind(LinkKind::Failure);
                self.diagram.edges.push(edge.label("or else"));
            }
            before = Some(branch_id);
        }
    }
}

/// Returns the last part of the name, and lines about the node. The title of a group has fewer.
fn label_of(node: &GraphNode, has_calls: bool) -> String {
    let name = last_name(&node.name);
    let mut lines = vec![name.to_owned()];
    let is_named = node.calls.is_empty() || node.calls == name || !has_calls;
    match (&node.callee, is_named) {
        (Some(callee), true) => lines.push(callee.clone()),
        (Some(callee), false) => lines.push(format!("{callee} {}", OneLine(node.calls.as_str()))),
        (None, false) => lines.push(OneLine(node.calls.as_str()).to_string()),
        (None, true) => {}
    }
    let about = match node.kind {
        NodeKind::Map => Some("for each"),
        NodeKind::Each => Some("for each, in order"),
        NodeKind::Check => Some("must hold"),
        NodeKind::Race => Some("first of"),
        NodeKind::Fallback => Some("or else"),
        NodeKind::Repeat => Some("repeated"),
        // The text of a question that the workflow computes is not known.
        NodeKind::Gate if question_of(node).is_none() => Some("asks a person"),
        _ => None,
    };
    lines.extend(about.map(str::to_owned));
    if node.policy.tap {
        lines.push("observes".to_owned());
    }
    for key in node.saves.keys().filter(|key| *key != "*" && *key != name) {
        lines.push(format!("saves {key}"));
    }
    if let Some(question) = question_of(node) {
        lines.push(format!("asks: {}", OneLine(head(question, MAX_QUESTION))));
    }
    lines.join("\n")
}

/// Returns the name without the router arms that contain the node.
fn last_name(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

fn kind_of(node: &GraphNode) -> String {
    match (&node.callee, node.kind) {
        (_, NodeKind::Value) if question_of(node).is_some() => "gate".to_owned(),
        (Some(callee), NodeKind::Step) => callee.clone(),
        (_, kind) => word_of(kind),
    }
}

/// Returns a kind as the word of its JSON form, such as `router`.
fn word_of(kind: NodeKind) -> String {
    let word = serde_json::to_value(kind).ok();
    word.and_then(|word| word.as_str().map(str::to_owned)).unwrap_or_default()
}

fn shape_of(kind: NodeKind, node: Option<&GraphNode>, is_folded: bool) -> NodeShape {
    if node.is_some_and(|node| question_of(node).is_some()) {
        return NodeShape::Octagon;
    }
    match kind {
        NodeKind::Input => NodeShape::Pill,
        NodeKind::Router => NodeShape::Hexagon,
        NodeKind::Gate => NodeShape::Octagon,
        NodeKind::Value | NodeKind::Check => NodeShape::Rounded,
        NodeKind::Map | NodeKind::Each => NodeShape::Stack,
        NodeKind::Race | NodeKind::Fallback | NodeKind::Repeat if is_folded => NodeShape::Stack,
        _ if node.is_some_and(|node| node.callee.as_deref() == Some("workflow")) => {
            NodeShape::Subroutine
        }
        _ => NodeShape::Rectangle,
    }
}

fn diagram_edge(edge: &DisplayEdge, prefix: &str) -> DiagramEdge {
    let kind = match edge.kind {
        DisplayEdgeKind::Arm => LinkKind::Arm,
        DisplayEdgeKind::Condition => LinkKind::Condition,
        DisplayEdgeKind::Failure => LinkKind::Failure,
        DisplayEdgeKind::State => LinkKind::State,
        DisplayEdgeKind::Order => LinkKind::Order,
        _ => LinkKind::Output,
    };
    let mut drawn =
        DiagramEdge::new(format!("{prefix}{}", edge.from), format!("{prefix}{}", edge.to));
    drawn.label.clone_from(&edge.label);
    drawn.kind(kind)
}

fn status_of(status: NodeStatus) -> Option<DiagramStatus> {
    match status {
        NodeStatus::Pending => Some(DiagramStatus::Pending),
        NodeStatus::AwaitingApproval => Some(DiagramStatus::Waiting),
        NodeStatus::ResolvingDependencies | NodeStatus::Running => Some(DiagramStatus::Running),
        NodeStatus::Success => Some(DiagramStatus::Success),
        NodeStatus::Failed => Some(DiagramStatus::Failed),
        NodeStatus::Skipped => Some(DiagramStatus::Skipped),
        NodeStatus::Cancelled => Some(DiagramStatus::Cancelled),
        _ => None,
    }
}

/// Returns lines about attempts and items, such as `12 of 40 items done`.
fn progress(node: &RunGraphNode) -> String {
    let mut text = String::new();
    if let Some(items) = &node.items {
        text.push_str(&format!("\n{} of {} items done", items.success, items.started));
        if items.failed > 0 {
            text.push_str(&format!(", {} failed", items.failed));
        }
    }
    if node.attempts > 1 {
        text.push_str(&format!("\nattempt {}", node.attempts));
    }
    text
}

//! Drawings of six diagrams, compared with stored files. `BLESS=1` writes the
//! files; look at them in a browser before you commit them.

use std::fs;
use std::path::Path;

use agentflow_layout::{
    Diagram, DiagramEdge, DiagramGroup, DiagramNode, DiagramStatus, LinkKind, NodeShape, SvgWriter,
};

fn input(id: &str) -> DiagramNode {
    DiagramNode::new(id, id).kind("input", NodeShape::Pill)
}

fn tool(id: &str) -> DiagramNode {
    DiagramNode::new(id, format!("{id}\ntool")).kind("tool", NodeShape::Rectangle)
}

fn agent(id: &str) -> DiagramNode {
    DiagramNode::new(id, format!("{id}\nagent")).kind("agent", NodeShape::Rectangle)
}

fn chain() -> Diagram {
    Diagram::new("A chain")
        .with_node(input("order").status(DiagramStatus::Success))
        .with_node(tool("load").status(DiagramStatus::Success))
        .with_node(agent("judge").status(DiagramStatus::Running))
        .with_node(
            DiagramNode::new("approval", "approval\nasks: pay 120 EUR?")
                .kind("gate", NodeShape::Octagon)
                .status(DiagramStatus::Waiting),
        )
        .with_node(tool("charge").status(DiagramStatus::Pending))
        .with_node(tool("notify").status(DiagramStatus::Failed))
        .with_node(tool("archive").status(DiagramStatus::Skipped))
        .with_node(tool("report").status(DiagramStatus::Cancelled))
        .with_edge(DiagramEdge::new("order", "load"))
        .with_edge(DiagramEdge::new("load", "judge"))
        .with_edge(DiagramEdge::new("judge", "approval"))
        .with_edge(DiagramEdge::new("approval", "charge"))
        .with_edge(DiagramEdge::new("load", "notify").kind(LinkKind::Order).label("side effect"))
        .with_edge(DiagramEdge::new("notify", "archive").kind(LinkKind::State).label("draft"))
        .with_edge(DiagramEdge::new("notify", "report").kind(LinkKind::Failure).label("failed"))
}

fn branch() -> Diagram {
    Diagram::new("A branch with otherwise")
        .with_node(input("claim"))
        .with_node(agent("assess"))
        .with_node(DiagramNode::new("risk", "risk").kind("router", NodeShape::Hexagon))
        .with_node(tool("pay"))
        .with_node(agent("ask_for_documents"))
        .with_node(tool("open_case"))
        .with_node(tool("notify_customer"))
        .with_edge(DiagramEdge::new("claim", "assess"))
        .with_edge(DiagramEdge::new("assess", "risk"))
        .with_edge(DiagramEdge::new("claim", "notify_customer"))
        .with_edge(DiagramEdge::new("risk", "pay").kind(LinkKind::Arm).label("low"))
        .with_edge(
            DiagramEdge::new("risk", "ask_for_documents")
                .kind(LinkKind::Arm)
                .label("Medium { missing }"),
        )
        .with_edge(DiagramEdge::new("risk", "open_case").kind(LinkKind::Arm).label("otherwise"))
        .with_edge(DiagramEdge::new("pay", "notify_customer"))
        .with_edge(DiagramEdge::new("ask_for_documents", "notify_customer"))
        .with_edge(DiagramEdge::new("open_case", "notify_customer"))
}

fn map() -> Diagram {
    Diagram::new("Steps for each item")
        .with_node(input("topic").status(DiagramStatus::Success))
        .with_node(tool("search").status(DiagramStatus::Success))
        .with_group(
            DiagramGroup::new("notes", "notes\nfor each\n12 of 40")
                .kind("map")
                .status(DiagramStatus::Running),
        )
        .with_node(tool("fetch").in_group("notes").status(DiagramStatus::Success))
        .with_node(agent("summarize").in_group("notes").status(DiagramStatus::Running))
        .with_node(tool("store").in_group("notes").status(DiagramStatus::Pending))
        .with_node(agent("write_report").status(DiagramStatus::Pending))
        .with_edge(DiagramEdge::new("topic", "search"))
        .with_edge(DiagramEdge::new("search", "notes"))
        .with_edge(DiagramEdge::new("topic", "write_report"))
        .with_edge(DiagramEdge::new("fetch", "summarize"))
        .with_edge(DiagramEdge::new("fetch", "store"))
        .with_edge(DiagramEdge::new("notes", "write_report"))
}

fn repeat() -> Diagram {
    Diagram::new("Steps that are repeated")
        .with_node(input("brief"))
        .with_node(agent("outline"))
        .with_group(DiagramGroup::new("draft", "draft\neach round").kind("repeat"))
        .with_node(agent("write").in_group("draft"))
        .with_node(agent("review").in_group("draft"))
        .with_node(
            DiagramNode::new("accepted", "accepted\nmust hold")
                .kind("check", NodeShape::Rounded)
                .in_group("draft"),
        )
        .with_node(tool("publish"))
        .with_edge(DiagramEdge::new("brief", "outline"))
        .with_edge(DiagramEdge::new("outline", "draft"))
        .with_edge(DiagramEdge::new("write", "review"))
        .with_edge(DiagramEdge::new("review", "accepted"))
        .with_edge(DiagramEdge::new("review", "write").kind(LinkKind::Condition).label("again"))
        .with_edge(DiagramEdge::new("draft", "publish"))
        .with_edge(DiagramEdge::new("draft", "draft").label("until accepted"))
}

fn nested() -> Diagram {
    Diagram::new("Nested groups and edges across their borders")
        .with_node(input("orders"))
        .with_group(DiagramGroup::new("each", "each order\nfor each, in order").kind("each"))
        .with_node(tool("check_stock").in_group("each"))
        .with_group(DiagramGroup::new("race", "quote\nfirst of").in_group("each").kind("race"))
        .with_group(DiagramGroup::new("fast", "fast").in_group("race"))
        .with_group(DiagramGroup::new("cheap", "cheap").in_group("race"))
        .with_node(tool("express_quote").in_group("fast"))
        .with_node(tool("ship_quote").in_group("cheap"))
        .with_node(agent("compare").in_group("cheap"))
        .with_node(tool("reserve").in_group("each"))
        .with_node(agent("summary"))
        .with_node(tool("alert"))
        .with_edge(DiagramEdge::new("orders", "each"))
        .with_edge(DiagramEdge::new("check_stock", "race"))
        .with_edge(DiagramEdge::new("ship_quote", "compare"))
        .with_edge(DiagramEdge::new("race", "reserve"))
        .with_edge(DiagramEdge::new("each", "summary"))
        .with_edge(DiagramEdge::new("compare", "alert").kind(LinkKind::Failure).label("failed"))
        .with_edge(DiagramEdge::new("orders", "reserve").kind(LinkKind::State).label("budget"))
}

fn wide() -> Diagram {
    let mut diagram = Diagram::new("Many steps at the same time")
        .with_node(input("question"))
        .with_node(agent("plan"))
        .with_edge(DiagramEdge::new("question", "plan"));
    for index in 0..16 {
        let id = format!("search_{index}");
        diagram = diagram
            .with_node(tool(&id))
            .with_edge(DiagramEdge::new("plan", &id))
            .with_edge(DiagramEdge::new(&id, "answer"));
    }
    diagram = diagram.with_node(agent("answer")).with_edge(DiagramEdge::new("plan", "answer"));
    for index in 0..5 {
        diagram = diagram.with_node(tool(&format!("unused_{index}")));
    }
    diagram
}

#[track_caller]
fn check(name: &str, diagram: &Diagram) {
    let svg = SvgWriter::new().write(&diagram.layout());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("BLESS").is_some() {
        fs::write(&path, &svg).unwrap();
    }
    let stored = fs::read_to_string(&path).unwrap_or_default();
    assert!(svg == stored, "{name} has changed; see the first lines of this file");
}

#[test]
fn a_chain_is_drawn_as_stored() {
    check("chain.svg", &chain());
}

#[test]
fn a_branch_is_drawn_as_stored() {
    check("branch.svg", &branch());
}

#[test]
fn a_map_is_drawn_as_stored() {
    check("map.svg", &map());
}

#[test]
fn a_repeat_is_drawn_as_stored() {
    check("repeat.svg", &repeat());
}

#[test]
fn nested_groups_are_drawn_as_stored() {
    check("nested.svg", &nested());
}

#[test]
fn a_wide_diagram_is_drawn_as_stored() {
    check("wide.svg", &wide());
}

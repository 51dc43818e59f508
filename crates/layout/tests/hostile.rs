//! Texts of strangers in a drawing: they stay texts, and their size is bounded.

use agentflow_layout::{
    Diagram, DiagramEdge, DiagramGroup, DiagramNode, DiagramStatus, NodeShape, SvgWriter,
};

/// Texts that a document or a model could choose as a name.
fn names() -> Vec<String> {
    vec![
        "<script>alert(1)</script>".to_owned(),
        "\"><img src=x onerror=alert(1)>".to_owned(),
        "]]></style><svg onload='alert(1)'>".to_owned(),
        "&lt;&amp;&#60;script&#62;".to_owned(),
        "nul\u{0} bell\u{7} escape\u{1b}[31m end\u{9f}".to_owned(),
        "long ".repeat(2000),
        "x".repeat(10_000),
        "שלום עולם, مرحبا بالعالم".to_owned(),
        "\u{202e}gnp.exe\u{202c} \u{2066}a\u{2069}".to_owned(),
        "👩‍👩‍👧‍👦 🏳️‍🌈 🇩🇪 👍🏽".to_owned(),
        "日本語のとても長い名前のステップ".to_owned(),
        format!("z{}", "\u{300}\u{301}\u{302}".repeat(3000)),
        "\u{feff}\u{fffe}\u{ffff}".to_owned(),
        String::new(),
        "\n\n\n".to_owned(),
        "line\n".repeat(5000),
    ]
}

fn diagram() -> Diagram {
    let mut diagram = Diagram::new("<b>title</b>\u{0}");
    diagram.description = "</desc><script>".to_owned();
    let names = names();
    for (index, name) in names.iter().enumerate() {
        let mut node = DiagramNode::new(name.clone(), format!("{name}\n{name}"))
            .kind(name.clone(), NodeShape::Hexagon)
            .status(DiagramStatus::ALL[index % 7]);
        if index % 3 == 0 {
            node = node.in_group(format!("group {}", index % 2));
        }
        diagram.nodes.push(node);
        let next = &names[(index + 1) % names.len()];
        diagram.edges.push(DiagramEdge::new(name.clone(), next.clone()).label(name.clone()));
    }
    for (index, name) in names.iter().take(2).enumerate() {
        diagram.groups.push(DiagramGroup::new(format!("group {index}"), name.clone()));
    }
    diagram
}

#[test]
fn hostile_texts_stay_texts() {
    let svg = SvgWriter::new().id_prefix("a\" onload=\"x").write(&diagram().layout());
    for markup in ["<script", "<img", "<b>", "onload=\"", "<svg onload", "\u{0}", "\u{202e}"] {
        assert!(!svg.contains(markup), "{markup:?}");
    }
    assert_eq!(svg.matches("<svg").count(), 1);
    assert_eq!(svg.matches("<style").count(), 1);
    assert!(svg.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
    // No event handler, no link and no address but the namespace.
    assert_eq!(svg.matches("http").count(), 1);
    assert!(!svg.contains("href") && !svg.contains("url("));
}

#[test]
fn hostile_texts_are_cut() {
    let layout = diagram().layout();
    for node in &layout.nodes {
        assert!(node.area.width <= 330.0 && node.area.height <= 150.0, "{:?}", node.area);
        for line in &node.lines {
            assert!(line.width <= 261.0 && line.text.len() < 500, "{line:?}");
        }
    }
    for edge in &layout.edges {
        assert!(edge.label.as_ref().is_none_or(|label| label.area.width <= 200.0));
    }
}

#[test]
fn a_drawing_without_style_sheet_has_no_style() {
    let svg = SvgWriter::new().without_style_sheet().write(&diagram().layout());
    assert!(!svg.contains("<style") && !svg.contains(" style="));
}

#[test]
fn empty_diagrams_are_drawn() {
    let svg = SvgWriter::new().write(&Diagram::new("").layout());
    assert!(svg.contains("0 nodes, 0 edges"));
    let group = Diagram::new("group").with_group(DiagramGroup::new("g", ""));
    assert_eq!(group.layout().groups.len(), 1);
}

#[test]
fn ids_that_occur_twice_are_all_drawn() {
    let diagram = Diagram::new("twice")
        .with_node(DiagramNode::new("a", "first"))
        .with_node(DiagramNode::new("a", "second"))
        .with_group(DiagramGroup::new("a", "group"))
        .with_group(DiagramGroup::new("b", "itself").in_group("b"))
        .with_edge(DiagramEdge::new("a", "a"))
        .with_edge(DiagramEdge::new("a", "nowhere"));
    let layout = diagram.layout();
    assert_eq!((layout.nodes.len(), layout.groups.len(), layout.edges.len()), (2, 2, 1));
}

#[test]
fn a_diagram_is_read_from_json() {
    let diagram: Diagram = serde_json::from_str(
        r#"{"title": "t", "nodes": [{"id": "a", "label": "a", "shape": "pill", "status": "running"}],
            "edges": [{"from": "a", "to": "a", "kind": "order"}]}"#,
    )
    .unwrap();
    let layout = serde_json::to_value(diagram.layout()).unwrap();
    assert_eq!(layout["nodes"][0]["status"], "running");
    assert!(layout["edges"][0]["curve"][0]["x"].is_number());
}

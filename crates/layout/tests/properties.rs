//! Properties of the layouts of random diagrams.

mod checks;

use agentflow_layout::{
    Area, Diagram, DiagramEdge, DiagramGroup, DiagramNode, LayoutDirection, LayoutOptions, LinkKind,
};
use proptest::prelude::*;

const KINDS: [LinkKind; 4] = [LinkKind::Output, LinkKind::Arm, LinkKind::State, LinkKind::Order];

/// Creates diagrams with cycles, loops, repeated edges, unknown ends and groups in groups.
fn diagrams() -> impl Strategy<Value = Diagram> {
    let group = prop::option::weighted(0.6, 0_usize..8);
    let node = (group.clone(), "[a-z_]{0,24}");
    let edge = (0_usize..40, 0_usize..40, 0_usize..4, prop::option::weighted(0.3, "[a-z ]{0,30}"));
    let nodes = prop::collection::vec(node, 0..30);
    let groups = prop::collection::vec(group, 0..6);
    let edges = prop::collection::vec(edge, 0..60);
    (nodes, groups, edges).prop_map(|(nodes, groups, edges)| {
        let mut diagram = Diagram::new("random");
        for (index, (group, label)) in nodes.into_iter().enumerate() {
            let mut node = DiagramNode::new(format!("n{index}"), label);
            node.group = group.map(|group| format!("g{group}"));
            diagram.nodes.push(node);
        }
        for (index, around) in groups.into_iter().enumerate() {
            let mut group = DiagramGroup::new(format!("g{index}"), format!("group {index}"));
            group.group = around.map(|group| format!("g{group}"));
            diagram.groups.push(group);
        }
        let id = |index: usize| match index {
            0..30 => format!("n{index}"),
            _ => format!("g{}", index - 30),
        };
        for (from, to, kind, label) in edges {
            let mut edge = DiagramEdge::new(id(from), id(to)).kind(KINDS[kind]);
            edge.label = label;
            diagram.edges.push(edge);
        }
        diagram
    })
}

fn options() -> impl Strategy<Value = LayoutOptions> {
    prop::bool::ANY.prop_map(|is_left_to_right| {
        LayoutOptions::default().direction(if is_left_to_right {
            LayoutDirection::LeftToRight
        } else {
            LayoutDirection::TopToBottom
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 400 } else { 20_000 }))]

    #[test]
    fn boxes_are_apart_or_nested(diagram in diagrams(), options in options()) {
        let layout = diagram.layout_with(options);
        prop_assert_eq!(layout.nodes.len(), diagram.nodes.len());
        prop_assert_eq!(layout.groups.len(), diagram.groups.len());
        let (areas, parents) = (checks::areas(&layout), checks::parents(&layout));
        let picture = Area::new(0.0, 0.0, layout.width, layout.height);
        for (id, area) in &areas {
            prop_assert!(picture.contains(area), "{id} leaves the picture: {area:?}");
            if let Some(group) = parents[id] {
                prop_assert!(areas[group].contains(area), "{id} leaves its group {group}");
            }
            for (other, of_other) in &areas {
                let is_nested = checks::is_inside(&parents, id, other) || checks::is_inside(&parents, other, id);
                prop_assert!(is_nested || !area.overlaps(of_other), "{id} overlaps {other}");
            }
        }
    }

    #[test]
    fn edges_lead_from_border_to_border(diagram in diagrams(), options in options()) {
        let layout = diagram.layout_with(options);
        let areas = checks::areas(&layout);
        let is_known = |edge: &&DiagramEdge| {
            areas.contains_key(edge.from.as_str()) && areas.contains_key(edge.to.as_str())
        };
        prop_assert_eq!(layout.edges.len(), diagram.edges.iter().filter(is_known).count());
        checks::check_edges(&layout);
    }

    #[test]
    fn labels_cover_no_box_and_no_other_label(diagram in diagrams(), options in options()) {
        let layout = diagram.layout_with(options);
        let mut labels: Vec<Area> = Vec::new();
        for edge in &layout.edges {
            let Some(label) = &edge.label else { continue };
            for node in &layout.nodes {
                prop_assert!(!node.area.overlaps(&label.area), "{label:?} covers {node:?}");
            }
            // Loops of one box share their place.
            if edge.from != edge.to {
                for other in &labels {
                    prop_assert!(!other.overlaps(&label.area), "{label:?} covers another label");
                }
                labels.push(label.area);
            }
        }
    }

    #[test]
    fn a_layout_is_repeatable(diagram in diagrams()) {
        prop_assert_eq!(diagram.layout(), diagram.clone().layout());
    }

    #[test]
    fn any_text_gives_a_well_formed_drawing(labels in prop::collection::vec(".{0,40}", 1..6)) {
        let mut diagram = Diagram::new(labels[0].clone());
        for (index, label) in labels.iter().enumerate() {
            diagram.nodes.push(DiagramNode::new(label.clone(), format!("{label}\n{label}")));
            let to = &labels[(index + 1) % labels.len()];
            diagram.edges.push(DiagramEdge::new(label.clone(), to.clone()).label(label.clone()));
        }
        let svg = agentflow_layout::SvgWriter::new().write(&diagram.layout());
        prop_assert!(is_well_formed(&svg), "{svg}");
    }
}

/// Checks that tags are nested, that attributes are quoted and that only allowed characters occur.
fn is_well_formed(svg: &str) -> bool {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = svg;
    while let Some(start) = rest.find('<') {
        let (text, tag) = rest.split_at(start);
        let Some(end) = tag.find('>') else { return false };
        let (tag, after) = (&tag[1..end], &tag[end + 1..]);
        let name = tag.split([' ', '/']).next().unwrap_or_default();
        if tag.contains('<') || text.contains('>') || tag.matches('"').count() % 2 != 0 {
            return false;
        }
        if let Some(closed) = tag.strip_prefix('/') {
            if open.pop() != Some(closed) {
                return false;
            }
        } else if !tag.ends_with('/') {
            open.push(name);
        }
        rest = after;
    }
    let is_allowed = |c: char| c == '\n' || (c >= ' ' && c != '\u{fffe}' && c != '\u{ffff}');
    open.is_empty() && svg.chars().all(is_allowed)
}

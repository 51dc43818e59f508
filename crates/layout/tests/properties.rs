//! Properties of the layouts of random diagrams.

use std::collections::HashMap;

use agentflow_layout::{
    Area, Diagram, DiagramEdge, DiagramGroup, DiagramLayout, DiagramNode, DiagramPoint,
    LayoutDirection, LayoutOptions, LinkKind,
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

/// Areas of nodes and groups by id.
fn areas(layout: &DiagramLayout) -> HashMap<&str, Area> {
    let nodes = layout.nodes.iter().map(|node| (node.id.as_str(), node.area));
    nodes.chain(layout.groups.iter().map(|group| (group.id.as_str(), group.area))).collect()
}

/// The group around each node and group, by id.
fn parents(layout: &DiagramLayout) -> HashMap<&str, Option<&str>> {
    let nodes = layout.nodes.iter().map(|node| (node.id.as_str(), node.group.as_deref()));
    let groups = layout.groups.iter().map(|group| (group.id.as_str(), group.group.as_deref()));
    nodes.chain(groups).collect()
}

fn is_inside<'l>(parents: &HashMap<&'l str, Option<&'l str>>, inner: &'l str, outer: &str) -> bool {
    let mut at = Some(inner);
    while let Some(id) = at {
        if id == outer {
            return true;
        }
        at = parents[id];
    }
    false
}

/// Returns points of a curve, eight for each segment.
fn points(curve: &[DiagramPoint]) -> Vec<DiagramPoint> {
    let mut points = vec![curve[0]];
    for start in (0..curve.len() - 1).step_by(3) {
        let [a, b, c, d] = [0, 1, 2, 3].map(|index| curve[start + index]);
        for step in 1..=8 {
            let t = f64::from(step) / 8.0;
            let s = 1.0 - t;
            let mix = |a: f64, b: f64, c: f64, d: f64| {
                s * s * s * a + 3.0 * s * s * t * b + 3.0 * s * t * t * c + t * t * t * d
            };
            points.push(DiagramPoint { x: mix(a.x, b.x, c.x, d.x), y: mix(a.y, b.y, c.y, d.y) });
        }
    }
    points
}

fn is_on_border(area: &Area, point: DiagramPoint) -> bool {
    let near = |one: f64, other: f64| (one - other).abs() < 0.01;
    let is_across = point.y >= area.y - 0.01 && point.y <= area.bottom() + 0.01;
    let is_along = point.x >= area.x - 0.01 && point.x <= area.right() + 0.01;
    ((near(point.x, area.x) || near(point.x, area.right())) && is_across)
        || ((near(point.y, area.y) || near(point.y, area.bottom())) && is_along)
}

/// Returns `true` if the point is inside of the area and not at its border.
fn is_within(area: &Area, point: DiagramPoint) -> bool {
    let inset = 0.6;
    point.x > area.x + inset
        && point.x < area.right() - inset
        && point.y > area.y + inset
        && point.y < area.bottom() - inset
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn boxes_are_apart_or_nested(diagram in diagrams(), options in options()) {
        let layout = diagram.layout_with(options);
        prop_assert_eq!(layout.nodes.len(), diagram.nodes.len());
        prop_assert_eq!(layout.groups.len(), diagram.groups.len());
        let (areas, parents) = (areas(&layout), parents(&layout));
        let picture = Area { x: 0.0, y: 0.0, width: layout.width, height: layout.height };
        for (id, area) in &areas {
            prop_assert!(picture.contains(area), "{id} leaves the picture: {area:?}");
            if let Some(group) = parents[id] {
                prop_assert!(areas[group].contains(area), "{id} leaves its group {group}");
            }
            for (other, of_other) in &areas {
                let is_nested = is_inside(&parents, id, other) || is_inside(&parents, other, id);
                prop_assert!(is_nested || !area.overlaps(of_other), "{id} overlaps {other}");
            }
        }
    }

    #[test]
    fn edges_lead_from_border_to_border(diagram in diagrams(), options in options()) {
        let layout = diagram.layout_with(options);
        let (areas, parents) = (areas(&layout), parents(&layout));
        let is_known = |edge: &&DiagramEdge| {
            areas.contains_key(edge.from.as_str()) && areas.contains_key(edge.to.as_str())
        };
        prop_assert_eq!(layout.edges.len(), diagram.edges.iter().filter(is_known).count());
        for edge in &layout.edges {
            prop_assert_eq!(edge.curve.len() % 3, 1);
            let (first, last) = (edge.curve[0], edge.curve[edge.curve.len() - 1]);
            prop_assert!(is_on_border(&areas[edge.from.as_str()], first), "start of {edge:?}");
            prop_assert!(is_on_border(&areas[edge.to.as_str()], last), "end of {edge:?}");
            // An edge passes through no box but the groups around its ends.
            for point in points(&edge.curve) {
                for (id, area) in &areas {
                    let is_around = is_inside(&parents, &edge.from, id) || is_inside(&parents, &edge.to, id);
                    prop_assert!(is_around || !is_within(area, point), "{id} is under {edge:?}");
                }
                prop_assert!(point.x >= 0.0 && point.x <= layout.width, "{edge:?}");
                prop_assert!(point.y >= 0.0 && point.y <= layout.height, "{edge:?}");
            }
        }
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

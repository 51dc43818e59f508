//! Checks that several test programs share.

use std::collections::HashMap;

use agentflow_layout::{Area, DiagramLayout, DiagramPoint};

/// Areas of nodes and groups by id.
pub(crate) fn areas(layout: &DiagramLayout) -> HashMap<&str, Area> {
    let nodes = layout.nodes.iter().map(|node| (node.id.as_str(), node.area));
    nodes.chain(layout.groups.iter().map(|group| (group.id.as_str(), group.area))).collect()
}

/// The group around each node and group, by id.
pub(crate) fn parents(layout: &DiagramLayout) -> HashMap<&str, Option<&str>> {
    let nodes = layout.nodes.iter().map(|node| (node.id.as_str(), node.group.as_deref()));
    let groups = layout.groups.iter().map(|group| (group.id.as_str(), group.group.as_deref()));
    nodes.chain(groups).collect()
}

/// Returns `true` if a node or group is the other one, or in it.
pub(crate) fn is_inside<'l>(
    parents: &HashMap<&'l str, Option<&'l str>>,
    inner: &'l str,
    outer: &str,
) -> bool {
    let mut at = Some(inner);
    while let Some(id) = at {
        if id == outer {
            return true;
        }
        at = parents[id];
    }
    false
}

/// Returns points of a curve, at least eight for each segment and at most ten pixels apart.
fn points(curve: &[DiagramPoint]) -> Vec<DiagramPoint> {
    let mut points = vec![curve[0]];
    for start in (0..curve.len() - 1).step_by(3) {
        let [a, b, c, d] = [0, 1, 2, 3].map(|index| curve[start + index]);
        let length = (d.x - a.x).abs() + (d.y - a.y).abs();
        let steps = (length / 5.0).ceil().max(8.0) as u32;
        for step in 1..=steps {
            let t = f64::from(step) / f64::from(steps);
            let s = 1.0 - t;
            let mix = |a: f64, b: f64, c: f64, d: f64| {
                s * s * s * a + 3.0 * s * s * t * b + 3.0 * s * t * t * c + t * t * t * d
            };
            points.push(DiagramPoint::new(mix(a.x, b.x, c.x, d.x), mix(a.y, b.y, c.y, d.y)));
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

/// Asserts that every edge leads from the border of its start to the border of its end, within the
/// picture, and passes through no box but the groups around its ends.
pub(crate) fn check_edges(layout: &DiagramLayout) {
    let (areas, parents) = (areas(layout), parents(layout));
    for edge in &layout.edges {
        assert_eq!(edge.curve.len() % 3, 1);
        let (first, last) = (edge.curve[0], edge.curve[edge.curve.len() - 1]);
        assert!(is_on_border(&areas[edge.from.as_str()], first), "start of {edge:?}");
        assert!(is_on_border(&areas[edge.to.as_str()], last), "end of {edge:?}");
        let points = points(&edge.curve);
        for point in &points {
            assert!(point.x >= 0.0 && point.x <= layout.width, "{edge:?}");
            assert!(point.y >= 0.0 && point.y <= layout.height, "{edge:?}");
        }
        for (id, area) in &areas {
            let is_through = points.iter().any(|point| is_within(area, *point));
            let is_around =
                || is_inside(&parents, &edge.from, id) || is_inside(&parents, &edge.to, id);
            assert!(!is_through || is_around(), "{id} is under {edge:?}");
        }
    }
}

//! Outlines of nodes, symbols of statuses and arrows, as SVG elements.

use std::fmt::Write;

use crate::diagram::{DiagramStatus, NodeShape};
use crate::label_size::SYMBOL_RADIUS;
use crate::placed::{Area, DiagramPoint};

/// Length of the tip of an arrow.
const TIP: f64 = 8.0;
/// Half of the width of the tip of an arrow.
const TIP_SIDE: f64 = 4.0;

/// A number with at most one decimal place.
pub(super) fn number(value: f64) -> f64 {
    let rounded = (value * 10.0).round() / 10.0;
    // Negative zero would be written with its sign.
    if rounded == 0.0 { 0.0 } else { rounded }
}

/// Appends the outline of a node.
pub(super) fn push_outline(svg: &mut String, shape: NodeShape, area: &Area, is_dashed: bool) {
    let dash = if is_dashed { " stroke-dasharray=\"5 4\"" } else { "" };
    let (x, y, width, height) = (area.x, area.y, area.width, area.height);
    let (right, bottom) = (area.right(), area.bottom());
    let cut = match shape {
        NodeShape::Hexagon => 12.0_f64,
        _ => 9.0,
    };
    let cut = cut.min(width / 3.0).min(height / 3.0);
    match shape {
        NodeShape::Hexagon => {
            let middle = y + height / 2.0;
            let _ = write!(
                svg,
                "<path class=\"outline\"{dash} d=\"M{} {}H{}L{} {}L{} {}H{}L{} {}Z\"/>",
                number(x + cut),
                number(y),
                number(right - cut),
                number(right),
                number(middle),
                number(right - cut),
                number(bottom),
                number(x + cut),
                number(x),
                number(middle)
            );
        }
        NodeShape::Octagon => {
            let _ = write!(
                svg,
                "<path class=\"outline\"{dash} d=\"M{} {}H{}L{} {}V{}L{} {}H{}L{} {}V{}Z\"/>",
                number(x + cut),
                number(y),
                number(right - cut),
                number(right),
                number(y + cut),
                number(bottom - cut),
                number(right - cut),
                number(bottom),
                number(x + cut),
                number(x),
                number(bottom - cut),
                number(y + cut)
            );
        }
        NodeShape::Stack => {
            // The rectangles behind stay inside of the area, so that edges end at it.
            push_rectangle(svg, x + 4.0, y, width - 4.0, height - 4.0, 6.0, dash);
            push_rectangle(svg, x, y + 4.0, width - 4.0, height - 4.0, 6.0, dash);
        }
        NodeShape::Subroutine => {
            push_rectangle(svg, x, y, width, height, 4.0, dash);
            let _ = write!(
                svg,
                "<path class=\"outline\" d=\"M{} {}V{}M{} {}V{}\"/>",
                number(x + 6.0),
                number(y),
                number(bottom),
                number(right - 6.0),
                number(y),
                number(bottom)
            );
        }
        NodeShape::Pill => push_rectangle(svg, x, y, width, height, height / 2.0, dash),
        NodeShape::Rounded => push_rectangle(svg, x, y, width, height, 14.0, dash),
        NodeShape::Rectangle => push_rectangle(svg, x, y, width, height, 6.0, dash),
    }
}

fn push_rectangle(
    svg: &mut String,
    x: f64,
    y: f64,
    width: f64,
    height: f64,
    radius: f64,
    dash: &str,
) {
    let _ = write!(
        svg,
        "<rect class=\"outline\"{dash} x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"{}\"/>",
        number(x),
        number(y),
        number(width),
        number(height),
        number(radius.min(height / 2.0))
    );
}

/// Appends the symbol of a status. The symbols differ in their shapes.
pub(super) fn push_symbol(svg: &mut String, status: DiagramStatus, centre: DiagramPoint) {
    let (x, y) = (number(centre.x), number(centre.y));
    let r = SYMBOL_RADIUS;
    svg.push_str(
        "<g class=\"symbol\" fill=\"none\" stroke-width=\"1.75\" stroke-linecap=\"round\">",
    );
    let _ = match status {
        DiagramStatus::Pending => write!(svg, "<circle cx=\"{x}\" cy=\"{y}\" r=\"{}\"/>", r - 1.0),
        DiagramStatus::Waiting => write!(
            svg,
            "<circle cx=\"{x}\" cy=\"{y}\" r=\"{0}\"/><path class=\"solid\" fill=\"#64748b\" d=\"M{x} {1}a{0} {0} 0 0 0 0 {2}Z\"/>",
            r - 1.0,
            number(centre.y - r + 1.0),
            2.0 * (r - 1.0)
        ),
        DiagramStatus::Running => write!(
            svg,
            "<path class=\"solid\" fill=\"#64748b\" d=\"M{} {}L{} {y}L{} {}Z\"/>",
            number(centre.x - r + 2.0),
            number(centre.y - r + 1.0),
            number(centre.x + r - 1.0),
            number(centre.x - r + 2.0),
            number(centre.y + r - 1.0)
        ),
        DiagramStatus::Success => write!(
            svg,
            "<path d=\"M{} {y}L{} {}L{} {}\"/>",
            number(centre.x - r + 1.0),
            number(centre.x - 1.5),
            number(centre.y + r - 2.0),
            number(centre.x + r - 1.0),
            number(centre.y - r + 1.5)
        ),
        DiagramStatus::Failed => write!(
            svg,
            "<path d=\"M{0} {1}L{2} {3}M{0} {3}L{2} {1}\"/>",
            number(centre.x - r + 1.5),
            number(centre.y - r + 1.5),
            number(centre.x + r - 1.5),
            number(centre.y + r - 1.5)
        ),
        DiagramStatus::Skipped => write!(
            svg,
            "<path d=\"M{} {y}H{}\"/>",
            number(centre.x - r + 1.0),
            number(centre.x + r - 1.0)
        ),
        DiagramStatus::Cancelled => write!(
            svg,
            "<rect class=\"solid\" fill=\"#64748b\" x=\"{}\" y=\"{}\" width=\"{2}\" height=\"{2}\"/>",
            number(centre.x - r + 2.0),
            number(centre.y - r + 2.0),
            2.0 * (r - 2.0)
        ),
    };
    svg.push_str("</g>");
}

/// Appends the line and the arrow of an edge.
pub(super) fn push_curve(svg: &mut String, curve: &[DiagramPoint], dash: &str) {
    let Some((end, rest)) = curve.split_last() else { return };
    // The last point from which the curve comes, if it has any length.
    let from = rest.iter().rev().find(|point| *point != end).copied().unwrap_or(*end);
    let (along_x, along_y) = (end.x - from.x, end.y - from.y);
    let length = (along_x * along_x + along_y * along_y).sqrt().max(f64::MIN_POSITIVE);
    let (along_x, along_y) = (along_x / length, along_y / length);
    let base = DiagramPoint { x: end.x - along_x * TIP, y: end.y - along_y * TIP };
    let mut points = curve.to_vec();
    // The line ends within the arrow, which would otherwise not be pointed.
    if let Some(last) = points.last_mut() {
        *last = DiagramPoint { x: end.x - along_x * TIP / 2.0, y: end.y - along_y * TIP / 2.0 };
    }
    let _ = write!(
        svg,
        "<path class=\"line\"{dash} d=\"M{} {}",
        number(points[0].x),
        number(points[0].y)
    );
    for (index, segment) in points[1..].chunks_exact(3).enumerate() {
        let start = points[index * 3];
        let [first, second, end] = *segment else { continue };
        if start.y == first.y && start.y == second.y && start.y == end.y {
            let _ = write!(svg, "H{}", number(end.x));
        } else if start.x == first.x && start.x == second.x && start.x == end.x {
            let _ = write!(svg, "V{}", number(end.y));
        } else {
            let _ = write!(
                svg,
                "C{} {} {} {} {} {}",
                number(first.x),
                number(first.y),
                number(second.x),
                number(second.y),
                number(end.x),
                number(end.y)
            );
        }
    }
    let _ = write!(
        svg,
        "\"/><path class=\"arrow\" fill=\"#64748b\" stroke=\"none\" d=\"M{} {}L{} {}L{} {}Z\"/>",
        number(end.x),
        number(end.y),
        number(base.x - along_y * TIP_SIDE),
        number(base.y + along_x * TIP_SIDE),
        number(base.x + along_y * TIP_SIDE),
        number(base.y - along_x * TIP_SIDE)
    );
}

//! Sizes of nodes, titles and edge labels, from their texts.

use crate::diagram::{DiagramGroup, DiagramNode, DiagramStatus, NodeShape};
use crate::placed::{Area, DiagramPoint, PlacedLabel, PlacedText};
use crate::text_width::{FittedText, fit};

/// Font size of names.
const NAME_SIZE: f64 = 13.0;
/// Font size of details and edge labels.
const DETAIL_SIZE: f64 = 11.0;
/// Height of the line of a name.
const NAME_LINE: f64 = 18.0;
/// Height of the line of a detail.
const DETAIL_LINE: f64 = 15.0;
/// Width at which the lines of a node are cut.
const MAX_LINE: f64 = 260.0;
/// Width at which an edge label is cut.
const MAX_EDGE_LABEL: f64 = 180.0;
/// Number of lines of a node, the name included.
const MAX_LINES: usize = 6;
/// Distance of the text from the outline.
const PADDING: f64 = 12.0;
/// Smallest width of a node.
const MIN_WIDTH: f64 = 56.0;
/// Width of the symbol of a status, with its distance from the text.
const SYMBOL_WIDTH: f64 = 20.0;
/// Radius of the symbol of a status.
pub(crate) const SYMBOL_RADIUS: f64 = 6.0;
/// Height of the title of a group.
pub(crate) const TITLE_HEIGHT: f64 = 34.0;
/// Distance between the texts of a title.
const TITLE_GAP: f64 = 10.0;

/// A box with texts whose positions are relative to its top left corner.
#[derive(Clone, Debug)]
pub(crate) struct LabelBox {
    pub(crate) width: f64,
    pub(crate) height: f64,
    pub(crate) lines: Vec<PlacedText>,
    pub(crate) symbol: Option<DiagramPoint>,
}

impl LabelBox {
    /// Computes the box of a node.
    pub(crate) fn of_node(node: &DiagramNode) -> Self {
        let lines = fitted_lines(&node.label, node.status);
        let side = PADDING
            + match node.shape {
                NodeShape::Hexagon | NodeShape::Pill | NodeShape::Subroutine => 8.0,
                NodeShape::Octagon => 4.0,
                _ => 0.0,
            };
        let text_start = side + node.status.map_or(0.0, |_| SYMBOL_WIDTH);
        let widest = lines.iter().map(|line| line.width).fold(0.0, f64::max);
        let width = (text_start + widest + side).max(MIN_WIDTH);
        let width = to_even(width);
        let details = lines.len().saturating_sub(1);
        let height = to_even(PADDING * 1.5 + NAME_LINE + details as f64 * DETAIL_LINE);
        // A short text is centred.
        let text_start = text_start + ((width - side - text_start - widest) / 2.0).floor().max(0.0);
        let symbol = node
            .status
            .map(|_| DiagramPoint::new(text_start - SYMBOL_WIDTH + SYMBOL_RADIUS, height / 2.0));
        let mut top = (height - NAME_LINE - details as f64 * DETAIL_LINE) / 2.0;
        let mut placed = Vec::new();
        for (index, line) in lines.into_iter().enumerate() {
            let (size, height) =
                if index == 0 { (NAME_SIZE, NAME_LINE) } else { (DETAIL_SIZE, DETAIL_LINE) };
            let start = DiagramPoint::new(text_start, base_line(top, height, size));
            placed.push(placed_text(line, start, size, index == 0));
            top += height;
        }
        Self { width, height, lines: placed, symbol }
    }

    /// Computes the title of a group. The width is the smallest one of the group.
    pub(crate) fn of_title(group: &DiagramGroup) -> Self {
        let lines = fitted_lines(&group.label, group.status);
        let mut x = PADDING;
        let symbol = group.status.map(|_| DiagramPoint::new(x + SYMBOL_RADIUS, TITLE_HEIGHT / 2.0));
        if symbol.is_some() {
            x += SYMBOL_WIDTH;
        }
        let mut placed = Vec::new();
        for (index, line) in lines.into_iter().enumerate() {
            let size = if index == 0 { NAME_SIZE } else { DETAIL_SIZE };
            let start = DiagramPoint::new(x, base_line(0.0, TITLE_HEIGHT, NAME_SIZE));
            x += (line.width + TITLE_GAP).ceil();
            placed.push(placed_text(line, start, size, index == 0));
        }
        Self {
            width: to_even(x - TITLE_GAP + PADDING).max(MIN_WIDTH),
            height: TITLE_HEIGHT,
            lines: placed,
            symbol,
        }
    }
}

/// Computes the label of an edge, relative to its centre. `None` for an empty text.
pub(crate) fn edge_label(text: &str) -> Option<PlacedLabel> {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    let fitted = fit(line, DETAIL_SIZE, false, MAX_EDGE_LABEL);
    let (width, height) = (to_even(fitted.width + 12.0), 18.0);
    let start =
        DiagramPoint::new(-fitted.width / 2.0, base_line(-height / 2.0, height, DETAIL_SIZE));
    Some(PlacedLabel {
        full: text.to_owned(),
        area: Area { x: -width / 2.0, y: -height / 2.0, width, height },
        line: placed_text(fitted, start, DETAIL_SIZE, false),
    })
}

/// Returns the lines of a label, cut to fit, and a line with the word of the status.
fn fitted_lines(label: &str, status: Option<DiagramStatus>) -> Vec<FittedText> {
    let mut lines = Vec::new();
    let most = MAX_LINES - usize::from(status.is_some());
    for line in label.lines().map(str::trim).filter(|line| !line.is_empty()).take(most) {
        let is_name = lines.is_empty();
        let size = if is_name { NAME_SIZE } else { DETAIL_SIZE };
        lines.push(fit(line, size, is_name, MAX_LINE));
    }
    if lines.is_empty() {
        lines.push(fit("", NAME_SIZE, true, MAX_LINE));
    }
    if let Some(status) = status {
        lines.push(fit(status.word(), DETAIL_SIZE, false, MAX_LINE));
    }
    lines
}

fn placed_text(line: FittedText, start: DiagramPoint, font_size: f64, is_bold: bool) -> PlacedText {
    PlacedText {
        text: line.text,
        start: DiagramPoint::new(to_tenth(start.x), to_tenth(start.y)),
        width: to_tenth(line.width),
        font_size,
        is_bold,
        is_exact: line.is_exact,
    }
}

/// Returns the base line of a text that is centred in a line: the capital letters of the fonts are
/// 0.72 of the font size high.
fn base_line(top: f64, line_height: f64, font_size: f64) -> f64 {
    top + line_height / 2.0 + font_size * 0.36
}

fn to_tenth(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

/// Rounds up to an even number, so that the centre of a box is a whole number.
pub(crate) fn to_even(value: f64) -> f64 {
    (value / 2.0).ceil() * 2.0
}

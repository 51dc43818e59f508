//! The output of a layout: areas, lines of text and curves as data.

use serde::Serialize;

use crate::diagram::{DiagramStatus, LinkKind, NodeShape};

/// The picture of a [`Diagram`](crate::Diagram) as data. Units are pixels; `y` grows downwards.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct DiagramLayout {
    /// Title of the picture.
    pub title: String,
    /// Description of the picture.
    pub description: String,
    /// Width of the picture, margins included.
    pub width: f64,
    /// Height of the picture, margins included.
    pub height: f64,
    /// `true` if the layers follow each other from left to right, `false` from top to bottom.
    pub is_left_to_right: bool,
    /// Nodes, in the order of the diagram.
    pub nodes: Vec<PlacedNode>,
    /// Groups, each after the group that contains it.
    pub groups: Vec<PlacedGroup>,
    /// Edges, in the order of the diagram, without those whose ends are unknown.
    pub edges: Vec<PlacedEdge>,
}

/// A node with its place.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PlacedNode {
    /// Id of the node.
    pub id: String,
    /// Full text of the node.
    pub label: String,
    /// Kind of the node as a word.
    pub kind: String,
    /// Outline of the node.
    pub shape: NodeShape,
    /// Status of the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<DiagramStatus>,
    /// Id of the group that contains the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// `true` if the outline is dashed.
    pub is_dashed: bool,
    /// Place of the outline.
    pub area: Area,
    /// Lines of text, cut to fit.
    pub lines: Vec<PlacedText>,
    /// Centre of the symbol of the status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub symbol: Option<DiagramPoint>,
}

/// A group with its place.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PlacedGroup {
    /// Id of the group.
    pub id: String,
    /// Full text of the title.
    pub label: String,
    /// Kind of the group as a word.
    pub kind: String,
    /// Status of the group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<DiagramStatus>,
    /// Id of the group that contains this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Number of groups around this one.
    pub depth: usize,
    /// `true` if the outline is dashed.
    pub is_dashed: bool,
    /// Place of the box, title included.
    pub area: Area,
    /// Texts of the title, cut to fit.
    pub lines: Vec<PlacedText>,
    /// Centre of the symbol of the status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub symbol: Option<DiagramPoint>,
}

/// An edge with its curve.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PlacedEdge {
    /// Id of the node or group that the edge starts at.
    pub from: String,
    /// Id of the node or group that the edge leads to.
    pub to: String,
    /// Reason of the edge.
    pub kind: LinkKind,
    /// The curve: the start, then for each cubic Bézier segment two control points and its end.
    /// The last point is at the outline of the end, where the tip of the arrow is.
    pub curve: Vec<DiagramPoint>,
    /// Text on the edge.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<PlacedLabel>,
}

/// The text on an edge with its place.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PlacedLabel {
    /// Full text of the label.
    pub full: String,
    /// Background of the text.
    pub area: Area,
    /// Text, cut to fit.
    pub line: PlacedText,
}

/// A line of text with its place.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PlacedText {
    /// Text, cut to fit, without control characters.
    pub text: String,
    /// Start of the base line.
    pub start: DiagramPoint,
    /// Width of the text in the fonts of the drawing.
    pub width: f64,
    /// Size of the font.
    pub font_size: f64,
    /// `true` for a name, which is bold.
    pub is_bold: bool,
    /// `true` if the width was measured exactly. A font of another script has other widths.
    #[serde(skip)]
    pub(crate) is_exact: bool,
}

/// A point of the picture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct DiagramPoint {
    /// Distance from the left side.
    pub x: f64,
    /// Distance from the top.
    pub y: f64,
}

impl DiagramPoint {
    /// Creates a point.
    pub fn new(x: f64, y: f64) -> Self {
        Self { x, y }
    }

    pub(crate) fn moved(self, by: Self) -> Self {
        Self { x: self.x + by.x, y: self.y + by.y }
    }
}

/// A rectangle of the picture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Area {
    /// Distance of its left side from the left side of the picture.
    pub x: f64,
    /// Distance of its top from the top of the picture.
    pub y: f64,
    /// Width.
    pub width: f64,
    /// Height.
    pub height: f64,
}

impl Area {
    /// Creates a rectangle from its top left corner and its size.
    pub fn new(x: f64, y: f64, width: f64, height: f64) -> Self {
        Self { x, y, width, height }
    }

    /// Returns the position of the right side.
    pub fn right(&self) -> f64 {
        self.x + self.width
    }

    /// Returns the position of the bottom.
    pub fn bottom(&self) -> f64 {
        self.y + self.height
    }

    /// Returns `true` if the other rectangle is inside of this one.
    pub fn contains(&self, other: &Self) -> bool {
        self.x <= other.x
            && self.y <= other.y
            && self.right() >= other.right()
            && self.bottom() >= other.bottom()
    }

    /// Returns `true` if the rectangles share more than a side.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.x < other.right()
            && other.x < self.right()
            && self.y < other.bottom()
            && other.y < self.bottom()
    }
}

//! The layout of one level: boxes of known sizes and the edges between them, without groups.
//!
//! Positions have two axes. *Main* is the direction in which layers follow each other, *cross* the
//! direction within a layer.

mod alignment;
mod component;
mod crossings;
mod cycles;
mod ordering;
mod ranks;
mod routes;
mod vertices;

pub(crate) use self::component::LevelGraph;
pub(crate) use self::cycles::closing_edges;

/// Distances in pixels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spacing {
    /// Smallest distance between layers.
    pub(crate) layers: f64,
    /// Distance between boxes of a layer.
    pub(crate) boxes: f64,
    /// Distance between a line and its neighbours in a layer.
    pub(crate) lines: f64,
    /// Distance between parts that no edge connects.
    pub(crate) parts: f64,
}

/// A box of a level.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LevelNode {
    /// Size along the main axis.
    pub(crate) main: f64,
    /// Size along the main axis that is kept free, at least `main`.
    pub(crate) reserved: f64,
    /// Size along the cross axis.
    pub(crate) cross: f64,
    /// Role of the box.
    pub(crate) role: LevelRole,
}

/// Role of a [`LevelNode`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LevelRole {
    /// A node or a group.
    Box,
    /// A point at the start of the level, where edges from outside enter.
    Entry,
    /// A point at the end of the level, where edges to the outside leave.
    Exit,
}

/// An edge of a level. The edges of a level have no cycle.
#[derive(Clone, Debug)]
pub(crate) struct LevelEdge {
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// Distance of the start from the middle of its box, along the cross axis.
    pub(crate) from_shift: f64,
    /// Distance of the end from the middle of its box, along the cross axis.
    pub(crate) to_shift: f64,
    /// Sizes of the label along the main and the cross axis.
    pub(crate) label: Option<(f64, f64)>,
    /// `true` if the label belongs near the end and not near the start.
    pub(crate) is_label_at_end: bool,
    /// Edges from one box with the same number may share a line. `None` for a separate line.
    pub(crate) bundle: Option<u32>,
}

/// The positions of a level, relative to its corner.
#[derive(Clone, Debug, Default)]
pub(crate) struct LevelLayout {
    /// Size along the main axis.
    pub(crate) main: f64,
    /// Size along the cross axis.
    pub(crate) cross: f64,
    /// Starts of the boxes along the main and the cross axis.
    pub(crate) starts: Vec<(f64, f64)>,
    /// Routes of the edges.
    pub(crate) routes: Vec<EdgeRoute>,
}

/// The way of an edge: straight parts in the layers, between which the line bends.
#[derive(Clone, Debug, Default)]
pub(crate) struct EdgeRoute {
    pub(crate) stations: Vec<Station>,
    /// Centre of the label along the main and the cross axis.
    pub(crate) label: Option<(f64, f64)>,
}

/// A straight part of a [`EdgeRoute`] along the main axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Station {
    pub(crate) start: f64,
    pub(crate) end: f64,
    pub(crate) cross: f64,
}

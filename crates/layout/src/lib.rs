//! Layout of directed graphs in layers, with nested groups, and drawings of them as SVG.
//!
//! A [`Diagram`] describes nodes, groups and edges. [`Diagram::layout`] computes the size and the
//! position of each, and [`SvgWriter`] writes the result as an SVG document that needs no script,
//! no font file and no other file. The crate has no other dependency than `serde`.
//!
//! ```
//! use agentflow_layout::{Diagram, DiagramEdge, DiagramNode, SvgWriter};
//!
//! let diagram = Diagram::new("refund")
//!     .with_node(DiagramNode::new("load", "load"))
//!     .with_node(DiagramNode::new("judge", "judge\nagent"))
//!     .with_edge(DiagramEdge::new("load", "judge"));
//! let layout = diagram.layout();
//! assert!(layout.nodes[0].area.right() < layout.nodes[1].area.x);
//!
//! let svg = SvgWriter::new().write(&layout);
//! assert!(svg.starts_with("<svg"));
//! ```
//!
//! # Algorithm
//!
//! The layout follows Sugiyama, Tagawa and Toda: edges that close a cycle are reversed, nodes are
//! assigned to layers, long edges are divided by helper vertices, sweeps reduce the crossings, and
//! the algorithm of Brandes and Köpf assigns coordinates. Each group is laid out on its own, from
//! the innermost to the outermost, and takes part in the layout around it as one node.
//!
//! The same diagram always gives the same layout. Ties are resolved by the order of the nodes and
//! edges in the diagram, so a node that is added at the end leaves most of the picture as it was.

mod assembly;
mod curve;
mod diagram;
mod font_widths;
mod label_size;
mod layered;
mod nesting;
mod placed;
mod svg;
mod text_width;

pub use self::diagram::{
    Diagram, DiagramEdge, DiagramGroup, DiagramNode, DiagramStatus, LayoutDirection, LayoutOptions,
    LinkKind, NodeShape,
};
pub use self::placed::{
    Area, DiagramLayout, DiagramPoint, PlacedEdge, PlacedGroup, PlacedLabel, PlacedNode, PlacedText,
};
pub use self::svg::{STYLE_SHEET, SvgWriter};

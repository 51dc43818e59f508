//! The graph that a person sees. `edges.rs` has its nodes and edges, from which helper nodes are
//! removed; `draw.rs` writes them as Mermaid and Graphviz text.

mod draw;
mod edges;

pub use self::draw::question;
pub use self::edges::{DisplayEdge, DisplayEdgeKind, ListedNode};

//! Writes a layout as an SVG document.

mod escape;
mod shapes;
mod writer;

pub use self::writer::SvgWriter;

/// Style sheet of the drawings. A page that embeds drawings without their own style sheet serves it,
/// and overrides its custom properties, such as `--agentflow-canvas`, for themes of its own.
pub const STYLE_SHEET: &str = include_str!("style.css");

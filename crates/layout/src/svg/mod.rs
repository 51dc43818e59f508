//! Writes a layout as an SVG document.

mod escape;
mod shapes;
mod writer;

pub use self::writer::SvgWriter;

/// Style sheet of the drawings. A page that embeds drawings without a style sheet serves this one. It
/// can override the custom properties, such as `--agentflow-canvas`, for other themes.
pub const STYLE_SHEET: &str = include_str!("style.css");

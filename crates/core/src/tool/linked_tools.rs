//! The tools that are linked into the program.

use std::sync::OnceLock;

use super::ToolRef;
use crate::linked;

/// Returns the tools that are linked into the program, ordered by name and source location. Tools
/// with equal names are all included. No schema is built.
pub(crate) fn linked_tools() -> &'static [ToolRef] {
    static LINKED: OnceLock<Vec<ToolRef>> = OnceLock::new();
    LINKED.get_or_init(|| linked::items(|tool: &ToolRef| tool.written()))
}

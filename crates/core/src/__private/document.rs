//! The names in the expansion of `#[include_workflow]`, and what the macro itself calls.

pub use crate::document::included::{IncludedDocument, unknown_tools};
pub use crate::runtime::included_start::{IncludedInputs, run_included, start_included};
pub use crate::value::NodeValue;

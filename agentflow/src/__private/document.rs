//! The names in the expansion of `#[include_workflow]`, and what the macro itself calls.

pub use crate::document::{IncludedDocument, unknown_tools};
pub use crate::runtime::{IncludedInputs, run_included, start_included};
pub use crate::value::NodeValue;

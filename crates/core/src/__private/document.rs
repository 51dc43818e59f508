//! Items that the expansion of `#[include_workflow]` and the macro itself use.

pub use crate::document::included::{IncludedDocument, unknown_tools};
pub use crate::runtime::documents::included_start::{IncludedInputs, run_included, start_included};
pub use crate::value::NodeValue;

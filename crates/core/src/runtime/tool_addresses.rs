//! `ToolAddresses`: tools of the crates above the core that a document names by an address, and
//! `RuntimeParts`, the settings of these crates in a runtime.

use std::any::Any;

use crate::run::Host;
use crate::tool::ToolRef;

/// Settings that extensions keep in a runtime, one value for each type.
#[derive(Clone, Copy)]
#[doc(hidden)]
#[allow(missing_debug_implementations, reason = "for the other crates of the workspace")]
pub struct RuntimeParts<'h>(pub(super) &'h Host);

impl<'h> RuntimeParts<'h> {
    /// Returns the value of a type.
    pub fn get<T: Any + Send + Sync>(self) -> Option<&'h T> {
        self.0.part::<T>()
    }
}

/// Finds the tool behind an address, such as the address of an agent of another program. The linker
/// collects the entries.
#[doc(hidden)]
#[allow(missing_debug_implementations, reason = "for the other crates of the workspace")]
pub struct ToolAddresses {
    /// Returns `None` for a name that is not an address of this kind. It connects to nothing.
    pub tool: fn(RuntimeParts<'_>, &str) -> Option<Result<ToolRef, String>>,
}

inventory::collect!(ToolAddresses);

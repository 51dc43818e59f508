//! What the functions that a workflow calls are: tools, agents and other workflows are known by the types of their
//! functions, so that no name has to be guessed.

use std::any::TypeId;
use std::collections::HashMap;
use std::sync::OnceLock;

use crate::tool::{ToolPolicy, ToolRef};

/// A function that is more than a function; collected when the program is linked.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Callee {
    /// The type of the function.
    pub function: fn() -> TypeId,
    /// What it is.
    pub kind: CalleeKind,
}

/// What a function is beside a function.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub enum CalleeKind {
    /// A `#[tool]`.
    Tool(fn() -> ToolRef),
    /// An `#[agent]`.
    Agent,
    /// A `#[workflow]`.
    Workflow,
}

inventory::collect!(Callee);

fn kind(function: TypeId) -> Option<CalleeKind> {
    static KINDS: OnceLock<HashMap<TypeId, CalleeKind>> = OnceLock::new();
    let kinds = KINDS.get_or_init(|| {
        inventory::iter::<Callee>.into_iter().map(|callee| ((callee.function)(), callee.kind)).collect()
    });
    kinds.get(&function).copied()
}

/// The policy of a tool, when the function is one.
pub(super) fn tool_policy(function: TypeId) -> Option<ToolPolicy> {
    match kind(function)? {
        CalleeKind::Tool(tool) => Some(tool().definition().policy.clone()),
        _ => None,
    }
}

/// What the function is, in a word.
pub(super) fn word(function: TypeId) -> Option<&'static str> {
    Some(match kind(function)? {
        CalleeKind::Tool(_) => "tool",
        CalleeKind::Agent => "agent",
        CalleeKind::Workflow => "workflow",
    })
}

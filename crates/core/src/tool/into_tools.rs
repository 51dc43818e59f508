//! `IntoTools`: the argument types of functions that accept tools.

use super::{AskUser, FnTool, MemoryTool, ToolRef, ToolsetRef};

/// Argument types of [`Agent::tools`](crate::Agent::tools): a list of tools such as `tools![add,
/// weather]`, a single [`FnTool`], an [`Agent`](crate::Agent) or a [`Workflow`](crate::Workflow)
/// that becomes a tool, or a [`ToolsetRef`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be given as tools",
    label = "neither a tool nor a list of tools",
    note = "write `tools![name]` for a `#[tool]` function `name`, `name::definition()` for an `#[agent]` function and \
            `name::workflow()` for a `#[workflow]` function",
    note = "put one `Tool` of your own into a list, as in `[my_tool]`, and a `Toolset` into `ToolsetRef::new(..)`"
)]
pub trait IntoTools {
    /// Returns the tools, and the toolsets whose tools are fetched later.
    fn into_tools(self) -> ToolList;
}

/// A list of tools and toolsets.
#[derive(Clone, Debug, Default)]
pub struct ToolList {
    pub(crate) tools: Vec<ToolRef>,
    pub(crate) toolsets: Vec<ToolsetRef>,
}

#[diagnostic::do_not_recommend]
impl<I: IntoIterator<Item: Into<ToolRef>>> IntoTools for I {
    fn into_tools(self) -> ToolList {
        ToolList { tools: self.into_iter().map(Into::into).collect(), toolsets: Vec::new() }
    }
}

impl IntoTools for ToolRef {
    fn into_tools(self) -> ToolList {
        ToolList { tools: vec![self], toolsets: Vec::new() }
    }
}

impl IntoTools for FnTool {
    fn into_tools(self) -> ToolList {
        ToolRef::from(self).into_tools()
    }
}

impl IntoTools for AskUser {
    fn into_tools(self) -> ToolList {
        ToolRef::from(self).into_tools()
    }
}

impl IntoTools for MemoryTool {
    fn into_tools(self) -> ToolList {
        ToolRef::from(self).into_tools()
    }
}

impl IntoTools for ToolsetRef {
    fn into_tools(self) -> ToolList {
        ToolList { tools: Vec::new(), toolsets: vec![self] }
    }
}

impl IntoTools for ToolList {
    fn into_tools(self) -> ToolList {
        self
    }
}

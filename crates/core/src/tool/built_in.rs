//! Built-in tools by name, for agents that are defined as data and cannot refer to a Rust path.

#[cfg(feature = "documents")]
use serde_json::{Value, json};

#[cfg(feature = "documents")]
use super::{
    AskUser, Effects, FnTool, MemoryTool, MemoryToolKind, ToolDefinition, ToolPolicy, ToolRef,
};
use super::{ToolError, ToolOutput};
use crate::context::Context;

/// Description of `exit_loop` for models.
pub(crate) const EXIT_LOOP: &str = "Ends the repetition that this is a round of. Call it when the work is finished, with the final answer as text beside \
     the call. Without a text the answer of the round before is the final one.";

/// The names of the built-in tools.
#[cfg(feature = "documents")]
pub(crate) const BUILT_IN: [&str; 5] = ["ask_user", "exit_loop", "forget", "recall", "remember"];

/// Ends the repetition that the agent is a round of.
pub(crate) fn exit_loop(cx: &Context) -> Result<ToolOutput, ToolError> {
    cx.exit_loop().map_err(|error| ToolError::from_error(&error))?;
    Ok(ToolOutput::text("no round follows this one; give the final answer now"))
}

/// Returns the built-in tool with this name.
#[cfg(feature = "documents")]
pub(crate) fn built_in(name: &str) -> Option<ToolRef> {
    let memory = |kind| Some(ToolRef::from(MemoryTool::new(kind)));
    match name {
        "ask_user" => Some(AskUser::new().into()),
        "forget" => memory(MemoryToolKind::Forget),
        "recall" => memory(MemoryToolKind::Recall),
        "remember" => memory(MemoryToolKind::Remember),
        "exit_loop" => {
            let nothing =
                json!({"type": "object", "properties": {}, "additionalProperties": false});
            let policy = ToolPolicy { effects: Effects::None, ..ToolPolicy::default() };
            let definition = ToolDefinition::new(name, EXIT_LOOP, nothing);
            let tool = FnTool::dynamic(definition, |cx, _: Value| async move { exit_loop(&cx) });
            Some(tool.policy(policy).into())
        }
        _ => None,
    }
}

#[cfg(all(test, feature = "documents"))]
mod tests {
    use super::*;

    #[test]
    fn each_name_leads_to_the_tool_of_the_name() {
        for name in BUILT_IN {
            assert_eq!(built_in(name).map(|tool| tool.name().to_owned()).as_deref(), Some(name));
        }
        assert!(built_in("exit").is_none());
    }
}

//! Optional tools with which a model, or a workflow's node, lists a server's prompts and fetches
//! one. [`McpClientBuilder::prompts_as_tools`](super::McpClientBuilder::prompts_as_tools) enables
//! them.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::mcp_prompt::McpPrompt;
use super::resource_tools::{policy, unread};
use super::server_reads::ServerReads;
use agentflow_core::Context;
use agentflow_core::message::{Message, Part, Role};
use agentflow_core::tool::{FnTool, ToolDefinition, ToolOutput, ToolRef};

/// Maximum number of prompts in one result of `list_prompts`.
const MOST_SHOWN: usize = 100;

/// Creates both tools.
pub(super) fn tools(reads: &Arc<ServerReads>) -> [ToolRef; 2] {
    [list(Arc::clone(reads)), get(Arc::clone(reads))]
}

fn list(reads: Arc<ServerReads>) -> ToolRef {
    let schema = json!({"type": "object", "properties": {"contains": {
        "type": "string", "description": "Only those whose name or description contains this text.",
    }}});
    let description = format!(
        "The prompts of the server {} that `get_prompt` can get, {MOST_SHOWN} at most, with what each takes.",
        reads.link.name()
    );
    let definition = ToolDefinition::new("list_prompts", description, schema)
        .policy(policy(&reads, "list_prompts"));
    let tool = FnTool::dynamic(definition, move |_: Context, arguments: Value| {
        let reads = Arc::clone(&reads);
        async move {
            let contains = arguments["contains"].as_str().unwrap_or_default();
            let prompts = reads.prompts().await.map_err(unread)?;
            let is_wanted = |of: &McpPrompt| {
                let texts =
                    [Some(of.name.as_str()), of.title.as_deref(), of.description.as_deref()];
                texts.into_iter().flatten().any(|text| text.contains(contains))
            };
            let wanted: Vec<_> = prompts.iter().filter(|of| is_wanted(of)).collect();
            // The model can narrow a long list with `contains`.
            let more = wanted.len().saturating_sub(MOST_SHOWN);
            ToolOutput::json(&json!({
                "prompts": wanted.into_iter().take(MOST_SHOWN).collect::<Vec<_>>(),
                "more": more,
            }))
        }
    });
    tool.into()
}

fn get(reads: Arc<ServerReads>) -> ToolRef {
    let schema = json!({
        "type": "object", "required": ["name"],
        "properties": {
            "name": {"type": "string", "description": "The prompt, such as one of `list_prompts`."},
            "arguments": {"type": "object", "description": "What it takes, each a text."},
        },
    });
    let description =
        format!("Gets a prompt of the server {} with its arguments filled in.", reads.link.name());
    let definition =
        ToolDefinition::new("get_prompt", description, schema).policy(policy(&reads, "get_prompt"));
    let tool = FnTool::dynamic(definition, move |_: Context, arguments: Value| {
        let reads = Arc::clone(&reads);
        async move {
            let name = arguments["name"].as_str().unwrap_or_default();
            let none = Map::new();
            let given = arguments["arguments"].as_object().unwrap_or(&none);
            let texts: Vec<(&str, String)> = given
                .iter()
                .filter_map(|(name, value)| Some((name.as_str(), text_of(value)?)))
                .collect();
            let texts: Vec<(&str, &str)> =
                texts.iter().map(|(name, text)| (*name, text.as_str())).collect();
            reads.prompt(name, &texts).await.map(output).map_err(unread)
        }
    });
    tool.into()
}

/// Converts an argument to a string, because the protocol accepts only strings. A `null` is left
/// out, and other values become JSON.
fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// Joins the text of the messages, and attaches bytes as files. The role of each message is
/// included unless all messages are from the user.
fn output(messages: Vec<Message>) -> ToolOutput {
    let is_of_user = messages.iter().all(|message| message.role() == Role::User);
    let (mut texts, mut files) = (Vec::new(), Vec::new());
    for message in messages {
        let text = message.text();
        if !text.is_empty() {
            let says = match message.role() {
                _ if is_of_user => "",
                Role::Assistant => "assistant: ",
                _ => "user: ",
            };
            texts.push(format!("{says}{text}"));
        }
        files.extend(message.parts().iter().filter_map(|part| match part {
            Part::Media(file) => Some(file.clone()),
            _ => None,
        }));
    }
    files.into_iter().fold(ToolOutput::text(texts.join("\n\n")), ToolOutput::with_media)
}

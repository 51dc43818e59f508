//! Optional tools with which a model lists and reads a server's resources.
//! [`McpClientBuilder::resources_as_tools`](super::McpClientBuilder::resources_as_tools) enables
//! them.

use std::sync::Arc;

use serde_json::{Value, json};

use super::mcp_error::McpError;
use super::mcp_resource::McpContent;
use super::server_reads::ServerReads;
use agentflow_core::Context;
use agentflow_core::message::Media;
use agentflow_core::tool::{
    Effects, FnTool, ToolDefinition, ToolError, ToolOutput, ToolPolicy, ToolRef,
};

/// Maximum number of resources, and of templates, in one result of `list_resources`.
const MOST_SHOWN: usize = 100;

/// Converts a failed read into the error of a read-only tool.
pub(super) fn unread(error: McpError) -> ToolError {
    error.into_tool_error(Effects::Read)
}

/// Creates both tools.
pub(super) fn tools(reads: &Arc<ServerReads>) -> [ToolRef; 2] {
    [list(Arc::clone(reads)), read(Arc::clone(reads))]
}

fn list(reads: Arc<ServerReads>) -> ToolRef {
    let schema = json!({"type": "object", "properties": {"contains": {
        "type": "string", "description": "Only those whose address, name or description contains this text.",
    }}});
    let description = format!(
        "The resources of the server {} that `read_resource` can read, {MOST_SHOWN} at most, and templates of addresses of \
         more.",
        reads.link.name()
    );
    let definition = ToolDefinition::new("list_resources", description, schema)
        .policy(policy(&reads, "list_resources"));
    let tool = FnTool::dynamic(definition, move |_: Context, arguments: Value| {
        let reads = Arc::clone(&reads);
        async move {
            let contains = arguments["contains"].as_str().unwrap_or_default();
            let (resources, templates) =
                tokio::try_join!(reads.resources(), reads.templates()).map_err(unread)?;
            let is_wanted = |texts: [Option<&str>; 4]| {
                texts.iter().flatten().any(|text| text.contains(contains))
            };
            let resources: Vec<_> = resources
                .iter()
                .filter(|of| {
                    is_wanted([
                        Some(&of.uri),
                        Some(&of.name),
                        of.title.as_deref(),
                        of.description.as_deref(),
                    ])
                })
                .collect();
            let templates: Vec<_> = templates
                .iter()
                .filter(|of| {
                    is_wanted([
                        Some(&of.uri_template),
                        Some(&of.name),
                        of.title.as_deref(),
                        of.description.as_deref(),
                    ])
                })
                .collect();
            // The model can narrow a long list with `contains`.
            let more = resources.len().saturating_sub(MOST_SHOWN)
                + templates.len().saturating_sub(MOST_SHOWN);
            let shown = json!({
                "resources": resources.into_iter().take(MOST_SHOWN).collect::<Vec<_>>(),
                "templates": templates.into_iter().take(MOST_SHOWN).collect::<Vec<_>>(),
                "more": more,
            });
            ToolOutput::json(&shown)
        }
    });
    tool.into()
}

fn read(reads: Arc<ServerReads>) -> ToolRef {
    let schema = json!({
        "type": "object", "required": ["uri"],
        "properties": {"uri": {"type": "string", "description": "The address, such as one of `list_resources`."}},
    });
    let description = format!("Reads a resource of the server {}.", reads.link.name());
    let definition = ToolDefinition::new("read_resource", description, schema)
        .policy(policy(&reads, "read_resource"));
    let tool = FnTool::dynamic(definition, move |_: Context, arguments: Value| {
        let reads = Arc::clone(&reads);
        async move {
            let uri = arguments["uri"].as_str().unwrap_or_default();
            reads.resource(uri).await.map(output).map_err(unread)
        }
    });
    tool.into()
}

/// Joins the text of the contents, and attaches bytes as files.
fn output(contents: Vec<McpContent>) -> ToolOutput {
    let (mut texts, mut files) = (Vec::new(), Vec::new());
    for content in contents {
        match content {
            McpContent::Text { text, .. } => texts.push(text),
            McpContent::Bytes { uri, mime_type, bytes } => {
                let mime_type = mime_type.unwrap_or_else(|| "application/octet-stream".to_owned());
                files.push(Media::of_bytes(mime_type, bytes).name(uri));
            }
        }
    }
    files.into_iter().fold(ToolOutput::text(texts.join("\n")), ToolOutput::with_media)
}

/// Returns the policy of one of these tools. Its effects are always [`Effects::Read`].
pub(super) fn policy(reads: &ServerReads, name: &str) -> ToolPolicy {
    let settings = &reads.link.described.settings;
    let mut policy =
        settings.policies.get(name).unwrap_or(&settings.policy).clone().effects(Effects::Read);
    policy.timeout = policy.timeout.or(Some(settings.call_timeout));
    policy
}

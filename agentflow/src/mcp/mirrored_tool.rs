//! A server's tool as one of ours: its schema within limits, its policy, its call. What a server says of its own tool makes
//! no policy wider, unless the program trusts it.

use std::sync::Arc;

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, CreateTaskResult, InputRequiredResult, JsonObject,
    ServerResult, Tool, ToolAnnotations,
};
use serde_json::Value;

use super::connection::Connection;
use super::mcp_answer;
use super::mcp_error::McpError;
use super::mcp_settings::Settings;
use super::server_link::ServerLink;
use crate::context::Context;
use crate::schema_check::SchemaCheck;
use crate::text::head;
use crate::tool::{Effects, FnTool, ToolDefinition, ToolError, ToolOutput, ToolPolicy, ToolRef};

/// The deepest that a schema may be.
const DEEPEST: usize = 64;
/// The most bytes of a description.
const MOST_DESCRIPTION: usize = 16 << 10;
/// The most bytes of a name.
const MOST_NAME: usize = 128;

/// The tool, or why it is left out.
pub(super) fn mirrored(link: &Arc<ServerLink>, tool: Tool) -> Result<ToolRef, String> {
    let settings = &link.described.settings;
    let name: Arc<str> = (&*tool.name).into();
    if name.is_empty() || name.len() > MOST_NAME || name.chars().any(char::is_control) {
        return Err(format!("its name must have 1 to {MOST_NAME} bytes"));
    }
    let schema = within_limits(Value::Object(Arc::unwrap_or_clone(tool.input_schema)), "schema", settings.max_schema)?;
    if schema["type"] != "object" {
        return Err("its schema is not one of an object".to_owned());
    }
    let answer = tool.output_schema.map(|schema| Value::Object(Arc::unwrap_or_clone(schema)));
    let answer = answer.map(|schema| within_limits(schema, "schema of answers", settings.max_schema)).transpose()?;
    let check = answer.as_ref().map(SchemaCheck::new).transpose()?;
    let description = tool.description.or(tool.title.map(Into::into)).unwrap_or_default();
    let policy = policy(settings, &name, tool.annotations.as_ref());
    let is_repeatable = policy.is_repeatable();
    let definition =
        ToolDefinition::new(Arc::clone(&name), head(&description, MOST_DESCRIPTION), schema).policy(policy);
    definition.arguments_check().map_err(ToOwned::to_owned)?;
    let link = Arc::clone(link);
    let mirrored = FnTool::dynamic(definition, move |cx: Context, arguments: Value| {
        let (link, name, check) = (Arc::clone(&link), Arc::clone(&name), check.clone());
        async move { called(&link, &cx, &name, arguments, is_repeatable, check.as_ref()).await }
    });
    Ok(answer.into_iter().fold(mirrored, FnTool::output_schema).into())
}

fn within_limits(schema: Value, what: &str, most: usize) -> Result<Value, String> {
    if depth(&schema) > DEEPEST {
        return Err(format!("its {what} is deeper than {DEEPEST}"));
    }
    let size = schema.to_string().len();
    match size > most {
        true => Err(format!("its {what} has {size} bytes, and {most} is the most")),
        false => Ok(schema),
    }
}

/// How deep a value is. A reader of JSON allows 128.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// What the program says of the tool. The server's hints make that stricter; where the program trusts it and says nothing of
/// the tool itself, they say what it does.
fn policy(settings: &Settings, name: &str, hints: Option<&ToolAnnotations>) -> ToolPolicy {
    let own = settings.policies.get(name);
    let mut policy = own.unwrap_or(&settings.policy).clone();
    policy.timeout = policy.timeout.or(Some(settings.call_timeout));
    if let Some(hints) = hints
        && own.is_none()
    {
        if hints.read_only_hint == Some(false) {
            policy.effects = Effects::Write;
        }
        if hints.idempotent_hint == Some(false) && policy.effects == Effects::Write {
            policy.idempotent = false;
        }
        if settings.trusts_hints {
            if hints.read_only_hint == Some(true) && policy.effects == Effects::Write {
                policy.effects = Effects::Read;
            }
            policy.idempotent |= hints.idempotent_hint == Some(true);
        }
    }
    policy
}

/// Calls the tool; once more over another connection when the first was lost and a second call does no harm.
async fn called(
    link: &ServerLink,
    cx: &Context,
    name: &Arc<str>,
    arguments: Value,
    is_repeatable: bool,
    check: Option<&SchemaCheck>,
) -> Result<ToolOutput, ToolError> {
    let arguments = match arguments {
        Value::Object(arguments) => arguments,
        // Those of a tool whose schema has no parameters.
        Value::Null => serde_json::Map::new(),
        _ => return Err(ToolError::invalid_arguments("the arguments must be an object")),
    };
    let first = call_once(link, cx, name, arguments.clone()).await;
    let answer = match first {
        Err(error) if error.is_lost() && is_repeatable => call_once(link, cx, name, arguments).await,
        first => first,
    };
    match answer.map_err(McpError::into_tool_error)? {
        ServerResult::CallToolResult(result) => mcp_answer::output(result, check),
        ServerResult::InputRequiredResult(InputRequiredResult { .. }) => Err(ToolError::new(
            "the tool asks for more than its arguments, which this program cannot give; do without it",
        )),
        ServerResult::CreateTaskResult(CreateTaskResult { .. }) => {
            Err(ToolError::new("the tool began a task, whose end this program cannot wait for; do without it"))
        }
        _ => Err(ToolError::new(format!("the MCP server `{}` gave an answer that is not one of a tool", link.name()))),
    }
}

async fn call_once(
    link: &ServerLink,
    cx: &Context,
    name: &Arc<str>,
    arguments: JsonObject,
) -> Result<ServerResult, McpError> {
    let connection: Arc<Connection> = link.connection().await?;
    let params = CallToolRequestParams::new(name.to_string()).with_arguments(arguments);
    let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
    let answer = connection.ask("tools/call", request, |progress| cx.emit(&progress)).await;
    if answer.is_ok() {
        connection.count_answer();
    }
    answer
}

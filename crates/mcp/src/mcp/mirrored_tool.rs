//! Converts a server's tool into a [`ToolRef`], with limits for its schema and a policy. A server's
//! hints about its tools never make a policy wider, unless the program trusts them.

use std::sync::Arc;

use agentflow_schema::schema_check::SchemaCheck;
use agentflow_schema::text::head;
use rmcp::model::{Tool, ToolAnnotations};
use serde_json::Value;

use super::mcp_settings::Settings;
use super::mirrored_call::RemoteToolCall;
use super::server_link::ServerLink;
use agentflow_core::Context;
use agentflow_core::tool::{Effects, FnTool, ToolDefinition, ToolPolicy, ToolRef};

/// Maximum depth of a schema.
const DEEPEST: usize = 64;
/// Maximum number of bytes of a description.
const MOST_DESCRIPTION: usize = 16 << 10;
/// Maximum number of bytes of a name.
const MOST_NAME: usize = 128;

/// Converts a tool, or returns the reason why it is left out.
pub(super) fn mirrored(link: &Arc<ServerLink>, tool: Tool) -> Result<ToolRef, String> {
    let settings = &link.described.settings;
    let name: Arc<str> = (&*tool.name).into();
    if name.is_empty() || name.len() > MOST_NAME || name.chars().any(char::is_control) {
        return Err(format!("its name must have 1 to {MOST_NAME} bytes"));
    }
    let mut schema = Arc::unwrap_or_clone(tool.input_schema);
    // Some servers describe a tool without arguments by an empty schema.
    schema.entry("type").or_insert_with(|| "object".into());
    let schema = within_limits(Value::Object(schema), "schema", settings.max_schema)?;
    if schema["type"] != "object" {
        return Err("its schema is not one of an object".to_owned());
    }
    let answer = tool.output_schema.map(|schema| Value::Object(Arc::unwrap_or_clone(schema)));
    let answer = answer
        .map(|schema| within_limits(schema, "schema of answers", settings.max_schema))
        .transpose()?;
    let check = answer.as_ref().map(SchemaCheck::tolerant).transpose();
    let check = check.map_err(|problem| problem.message())?;
    let description = tool.description.or(tool.title.map(Into::into)).unwrap_or_default();
    let policy = policy(settings, &name, tool.annotations.as_ref());
    let (is_repeatable, effects) = (policy.is_repeatable(), policy.effects);
    let definition =
        ToolDefinition::new(Arc::clone(&name), head(&description, MOST_DESCRIPTION), schema)
            .policy(policy);
    definition.arguments_check().map_err(ToOwned::to_owned)?;
    let call =
        Arc::new(RemoteToolCall { link: Arc::clone(link), name, is_repeatable, effects, check });
    let mirrored = FnTool::dynamic(definition, move |cx: Context, arguments: Value| {
        let call = Arc::clone(&call);
        async move { call.made(&cx, arguments).await }
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

/// Returns the nesting depth of a value. JSON parsers accept 128 levels.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// Returns the policy of a tool. The server's hints make the program's general policy stricter. If
/// the program trusts the hints and has no policy for this tool, they also make it wider.
fn policy(settings: &Settings, name: &str, hints: Option<&ToolAnnotations>) -> ToolPolicy {
    let own = settings.policies.get(name);
    let mut policy = own.unwrap_or(&settings.policy).clone();
    // A tool without a time-out gets the time limit of the client.
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

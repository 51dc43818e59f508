//! Encodes the neutral conversation as the body of a request.
//!
//! Each message is encoded once as content blocks and cached with the message. A request
//! concatenates these bytes. Consecutive messages of the same role become one message, so that all
//! tool results of a turn are together.

use std::collections::BTreeSet;
use std::sync::Arc;

use agentflow_core::message::Role;
use agentflow_core::model::{
    ModelError, ModelErrorKind, ModelRequest, ModelSettings, PromptCache, ToolChoice,
};
use agentflow_core::tool::ToolDefinition;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::message::blocks;
use super::schema;
use crate::sent_call::tool_name;

/// Default of `max_tokens`. The format requires a value.
pub(super) const DEFAULT_MAX_TOKENS: u64 = 16_384;

/// Fields that the host may not set: other values would make the response unreadable.
const OURS: [&str; 3] = ["messages", "stream", "system"];

/// Encodes the whole body. `format` is the cache key of the encoded pieces: it names the inputs on
/// which they depend.
pub(super) fn body(
    model: &str,
    format: &str,
    request: &ModelRequest,
) -> Result<Vec<u8>, ModelError> {
    let extra = request.settings.get_extra();
    if let Some(name) = OURS.iter().find(|name| extra.contains_key(**name)) {
        return Err(unusable(format!(
            "`{name}` cannot be set by `ModelSettings::extra`; remove it there"
        )));
    }
    let mut fields = Fields { out: Vec::with_capacity(1024 + 256 * request.messages.len()), extra };
    fields.put("model", &model);
    if request.stream {
        fields.put("stream", &true);
    }
    let tools = put_tools(&mut fields, format, model, request)?;
    settings(&mut fields, &request.settings, tools);
    put_output(&mut fields, request)?;
    for (name, value) in
        extra.iter().filter(|(name, _)| !matches!(name.as_str(), "tools" | "output_config"))
    {
        fields.write(name, value);
    }
    put_messages(&mut fields.out, format, model, request);
    fields.out.push(b'}');
    Ok(fields.out)
}

struct Fields<'a> {
    out: Vec<u8>,
    extra: &'a Map<String, Value>,
}

impl Fields<'_> {
    /// Writes a field, unless the host sets it in `extra`.
    fn put(&mut self, name: &str, value: &impl Serialize) {
        if !self.extra.contains_key(name) {
            self.write(name, value);
        }
    }

    fn write(&mut self, name: &str, value: &impl Serialize) {
        self.out.push(if self.out.is_empty() { b'{' } else { b',' });
        write(&mut self.out, name);
        self.out.push(b':');
        write(&mut self.out, value);
    }
}

/// Writes the system blocks and the messages. A message without blocks is omitted.
fn put_messages(out: &mut Vec<u8>, format: &str, model: &str, request: &ModelRequest) {
    let encoded = |role: Role| {
        let of_system = role == Role::System;
        request
            .messages
            .messages()
            .iter()
            .filter(move |message| (message.role() == Role::System) == of_system)
            .map(move |message| {
                let side = if message.role() == Role::Assistant { "assistant" } else { "user" };
                (side, message.encoded(format, |message| blocks(message, model)))
            })
    };
    let mut open = false;
    for (_, blocks) in encoded(Role::System).filter(|(_, blocks)| !blocks.is_empty()) {
        out.extend_from_slice(if open { b"," } else { b",\"system\":[" });
        out.extend_from_slice(&blocks);
        open = true;
    }
    if open {
        put_cache_mark(out, request.settings.get_prompt_cache());
    }
    out.extend_from_slice(if open { b"],\"messages\":[" } else { b",\"messages\":[" });
    let mut last = None;
    for (side, blocks) in encoded(Role::User).filter(|(_, blocks)| !blocks.is_empty()) {
        match last.replace(side) {
            // The same role continues: the blocks are appended to the open message.
            Some(last) if last == side => out.push(b','),
            before => {
                let close: &[u8] =
                    if before.is_some() { b"]},{\"role\":\"" } else { b"{\"role\":\"" };
                out.extend_from_slice(close);
                out.extend_from_slice(side.as_bytes());
                out.extend_from_slice(b"\",\"content\":[");
            }
        }
        out.extend_from_slice(&blocks);
    }
    out.extend_from_slice(if last.is_some() { b"]}]" } else { b"]" });
}

/// Writes the agent's tools, followed by the tools from `extra`, such as server tools. Returns true
/// if there are any tools.
fn put_tools(
    fields: &mut Fields<'_>,
    format: &str,
    model: &str,
    request: &ModelRequest,
) -> Result<bool, ModelError> {
    // Server tools from `extra` are appended to the agent's tools.
    let own = match fields.extra.get("tools") {
        None => &[][..],
        Some(Value::Array(tools)) => tools,
        Some(_) => {
            return Err(unusable(
                "`tools` in `ModelSettings::extra` must be a list of tools".to_owned(),
            ));
        }
    };
    if request.tools.is_empty() && own.is_empty() {
        // The service refuses a conversation with tool calls if the request has no tools. So the
        // called tools are declared, and `tool_choice` prevents further calls.
        if let Some(called) = called_before(request) {
            fields.write("tools", &called);
            fields.put("tool_choice", &json!({"type": "none"}));
        }
        return Ok(false);
    }
    let mut tools = match request.tools.is_empty() {
        true => b"[]".to_vec(),
        false => request.tools.encoded(format, encoded_tools).to_vec(),
    };
    for tool in own {
        tools.pop();
        if tools.len() > 1 {
            tools.push(b',');
        }
        write(&mut tools, tool);
        tools.push(b']');
    }
    // The service caches tools, system blocks and messages in this order. A cache mark on the
    // system blocks also covers the tools.
    if request.settings.get_prompt_cache().is_some() && !has_instruction(format, model, request) {
        tools.pop();
        put_cache_mark(&mut tools, request.settings.get_prompt_cache());
        tools.push(b']');
    }
    let tools = String::from_utf8(tools).ok().and_then(|tools| RawValue::from_string(tools).ok());
    fields.write("tools", &tools.expect("a list of JSON values is JSON"));
    Ok(true)
}

/// Returns a minimal declaration for each tool that the conversation calls.
fn called_before(request: &ModelRequest) -> Option<Vec<Value>> {
    let calls = request.messages.messages().iter().flat_map(|message| message.tool_calls());
    let names: BTreeSet<_> = calls.map(|call| tool_name(&call.name)).collect();
    let tools =
        names.into_iter().map(|name| json!({"name": name, "input_schema": {"type": "object"}}));
    Some(tools.collect()).filter(|tools: &Vec<_>| !tools.is_empty())
}

/// Returns true if the request has blocks for the field `system`.
fn has_instruction(format: &str, model: &str, request: &ModelRequest) -> bool {
    let mut of_system =
        request.messages.messages().iter().filter(|message| message.role() == Role::System);
    of_system.any(|message| !message.encoded(format, |message| blocks(message, model)).is_empty())
}

/// Marks the last object in `out` as the end of the cached prefix.
fn put_cache_mark(out: &mut Vec<u8>, kept: Option<PromptCache>) {
    let mark: &[u8] = match kept {
        None => return,
        Some(PromptCache::OneHour) => br#","cache_control":{"type":"ephemeral","ttl":"1h"}}"#,
        Some(_) => br#","cache_control":{"type":"ephemeral"}}"#,
    };
    out.pop();
    out.extend_from_slice(mark);
}

fn settings(fields: &mut Fields<'_>, settings: &ModelSettings, tools: bool) {
    // The format has no seed.
    let (temperature, top_p) = (&settings.get_temperature(), &settings.get_top_p());
    let (max_tokens, stop) = (settings.get_max_tokens(), settings.get_stop());
    let tool_choice = settings.get_tool_choice();
    let thinking =
        settings.get_extra().get("thinking").filter(|thinking| thinking["type"] != "disabled");
    // The tokens of thinking count as output tokens.
    let budget =
        thinking.and_then(|thinking| thinking["budget_tokens"].as_u64()).unwrap_or_default();
    fields.put("max_tokens", &max_tokens.map_or(DEFAULT_MAX_TOKENS + budget, u64::from));
    if let Some(temperature) = temperature {
        fields.put("temperature", temperature);
    }
    if let Some(top_p) = top_p {
        fields.put("top_p", top_p);
    }
    if !stop.is_empty() {
        fields.put("stop_sequences", &stop);
    }
    // The service refuses `tool_choice` without tools, and a forced tool call while thinking is
    // enabled.
    match tool_choice.filter(|_| tools) {
        None => {}
        Some(ToolChoice::None) => fields.put("tool_choice", &json!({"type": "none"})),
        Some(ToolChoice::Required) if thinking.is_none() => {
            fields.put("tool_choice", &json!({"type": "any"}));
        }
        Some(ToolChoice::Tool(name)) => {
            fields.put("tool_choice", &json!({"type": "tool", "name": name}));
        }
        Some(_) => fields.put("tool_choice", &json!({"type": "auto"})),
    }
}

/// Writes `output_config` with the schema of the answer, merged with the host's `output_config`.
fn put_output(fields: &mut Fields<'_>, request: &ModelRequest) -> Result<(), ModelError> {
    let own = fields.extra.get("output_config");
    match (&request.output, own) {
        (None, None) => {}
        (None, Some(own)) => fields.write("output_config", own),
        (Some(output), own) => {
            let schema = schema::strict(&output.schema).map_err(unusable)?;
            let mut config = own.and_then(Value::as_object).cloned().unwrap_or_default();
            config.insert("format".to_owned(), json!({"type": "json_schema", "schema": schema}));
            fields.write("output_config", &config);
        }
    }
    Ok(())
}

fn unusable(problem: String) -> ModelError {
    ModelError::new(ModelErrorKind::BadRequest, problem)
}

pub(super) fn write(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    serde_json::to_writer(out, value)
        .expect("texts, numbers and JSON values are written into memory without fail");
}

fn encoded_tools(definitions: &[Arc<ToolDefinition>]) -> Vec<u8> {
    let tools: Vec<WireTool<'_>> = definitions
        .iter()
        .map(|tool| WireTool {
            name: &tool.name,
            description: Some(&*tool.description).filter(|text| !text.is_empty()),
            input_schema: &tool.parameters,
        })
        .collect();
    let mut out = Vec::new();
    write(&mut out, &tools);
    out
}

#[derive(Serialize)]
struct WireTool<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    input_schema: &'a Value,
}

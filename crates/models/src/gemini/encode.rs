//! Encodes the neutral conversation as the body of a request.
//!
//! Each message and the tools are encoded once and cached. A request concatenates these bytes.

use std::sync::Arc;

use agentflow_core::message::{Media, Part, Role};
use agentflow_core::model::{ModelError, ModelErrorKind, ModelRequest, ToolChoice};
use agentflow_core::tool::ToolDefinition;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::message;
use super::schema;

/// Fields that only the conversation may set.
const OURS: [&str; 2] = ["contents", "systemInstruction"];

/// Fields of `extra` that are written to `generationConfig`. All others are written to the top
/// level.
const GENERATION: &[&str] = &[
    "audioTimestamp",
    "candidateCount",
    "enableEnhancedCivicAnswers",
    "frequencyPenalty",
    "imageConfig",
    "logprobs",
    "maxOutputTokens",
    "mediaResolution",
    "presencePenalty",
    "responseJsonSchema",
    "responseLogprobs",
    "responseMimeType",
    "responseModalities",
    "responseSchema",
    "seed",
    "speechConfig",
    "stopSequences",
    "temperature",
    "thinkingConfig",
    "topK",
    "topP",
];

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
    check_files(request)?;
    let mut out = Vec::with_capacity(1024 + 256 * request.messages.len());
    contents(&mut out, model, format, request);
    instructions(&mut out, request);
    tools(&mut out, format, request)?;
    let mut config = generation(request)?;
    let mut top = Map::new();
    for (name, value) in extra {
        match name.as_str() {
            "tools" | "toolConfig" => {}
            // The host's fields come after the settings and therefore replace them.
            "generationConfig" => config.extend(object(name, value)?.clone()),
            name if GENERATION.contains(&name) => {
                config.insert(name.to_owned(), value.clone());
            }
            name => drop(top.insert(name.to_owned(), value.clone())),
        }
    }
    if !config.is_empty() {
        field(&mut out, "generationConfig", &config);
    }
    for (name, value) in &top {
        field(&mut out, name, value);
    }
    out.push(b'}');
    Ok(out)
}

fn contents(out: &mut Vec<u8>, model: &str, format: &str, request: &ModelRequest) {
    const CLOSE: &[u8] = b"]}";
    out.extend_from_slice(b"{\"contents\":[");
    let mut last = None;
    for message in
        request.messages.messages().iter().filter(|message| message.role() != Role::System)
    {
        let parts = message.encoded(format, |message| message::parts(message, model));
        if parts.is_empty() {
            continue;
        }
        let role = message.role();
        match last {
            // All results of one turn must be in one content.
            Some(Role::Tool) if role == Role::Tool => {
                out.truncate(out.len() - CLOSE.len());
                out.push(b',');
            }
            _ => {
                if last.is_some() {
                    out.push(b',');
                }
                let role = if role == Role::Assistant { "model" } else { "user" };
                out.extend_from_slice(format!("{{\"role\":\"{role}\",\"parts\":[").as_bytes());
            }
        }
        out.extend_from_slice(&parts);
        out.extend_from_slice(CLOSE);
        last = Some(role);
    }
    out.push(b']');
}

/// Writes all instructions. The format has a single field for them.
fn instructions(out: &mut Vec<u8>, request: &ModelRequest) {
    let system =
        request.messages.messages().iter().filter(|message| message.role() == Role::System);
    let parts: Vec<Value> = system
        .flat_map(|message| message.parts())
        .filter_map(|part| match part {
            Part::Text { text } if !text.is_empty() => Some(json!({"text": text})),
            Part::Media(file) => Some(json!({"text": format!("[{} left out]", file.mime_type)})),
            _ => None,
        })
        .collect();
    if !parts.is_empty() {
        field(out, "systemInstruction", &json!({"parts": parts}));
    }
}

/// Writes the functions, followed by the tools that the host sets in `extra`, such as
/// `{"googleSearch": {}}`.
fn tools(out: &mut Vec<u8>, format: &str, request: &ModelRequest) -> Result<(), ModelError> {
    let (extra, tool_choice) = (request.settings.get_extra(), request.settings.get_tool_choice());
    let further = match extra.get("tools") {
        None => &[][..],
        Some(Value::Array(tools)) => tools,
        Some(_) => {
            return Err(unusable("`tools` in `ModelSettings::extra` must be a list".to_owned()));
        }
    };
    let functions = !request.tools.is_empty();
    if functions || !further.is_empty() {
        out.extend_from_slice(b",\"tools\":[");
        if functions {
            out.extend_from_slice(b"{\"functionDeclarations\":");
            out.extend_from_slice(&request.tools.encoded(format, encoded_tools));
            out.push(b'}');
        }
        for (number, tool) in further.iter().enumerate() {
            if functions || number > 0 {
                out.push(b',');
            }
            message::write(out, tool);
        }
        out.push(b']');
    }
    let mut config = Map::new();
    // The service refuses a tool choice without tools.
    if let Some(choice) = tool_choice.filter(|_| functions) {
        let calling = match choice {
            ToolChoice::Auto => json!({"mode": "AUTO"}),
            ToolChoice::None => json!({"mode": "NONE"}),
            ToolChoice::Required => json!({"mode": "ANY"}),
            ToolChoice::Tool(name) => json!({"mode": "ANY", "allowedFunctionNames": [name]}),
            other => {
                return Err(unusable(format!("the Gemini format has no tool choice `{other:?}`")));
            }
        };
        config.insert("functionCallingConfig".to_owned(), calling);
    }
    if let Some(given) = extra.get("toolConfig") {
        // The host's fields replace the ones derived from the settings.
        config.extend(object("toolConfig", given)?.clone());
    }
    if !config.is_empty() {
        field(out, "toolConfig", &config);
    }
    Ok(())
}

fn encoded_tools(definitions: &[Arc<ToolDefinition>]) -> Vec<u8> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Function<'a> {
        name: &'a str,
        #[serde(skip_serializing_if = "str::is_empty")]
        description: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        parameters_json_schema: Option<Value>,
    }
    let functions: Vec<Function<'_>> = definitions
        .iter()
        .map(|tool| Function {
            name: &tool.name,
            description: &tool.description,
            parameters_json_schema: schema::arguments(&tool.parameters),
        })
        .collect();
    let mut out = Vec::new();
    message::write(&mut out, &functions);
    out
}

fn generation(request: &ModelRequest) -> Result<Map<String, Value>, ModelError> {
    let settings = &request.settings;
    let (temperature, top_p) = (settings.get_temperature(), settings.get_top_p());
    let (max_tokens, seed, stop) =
        (settings.get_max_tokens(), settings.get_seed(), settings.get_stop());
    let mut config = Map::new();
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            config.insert(name.to_owned(), value);
        }
    };
    put("temperature", temperature.map(Value::from));
    put("topP", top_p.map(Value::from));
    put("maxOutputTokens", max_tokens.map(Value::from));
    put("seed", seed.map(Value::from));
    put("stopSequences", (!stop.is_empty()).then(|| Value::from(stop)));
    if let Some(output) = &request.output {
        put("responseMimeType", Some("application/json".into()));
        put("responseJsonSchema", Some(schema::answer(&output.schema).map_err(unusable)?));
    }
    Ok(config)
}

/// Returns an error if a `data:` URL is not base64, because the wire format has no other encoding.
fn check_files(request: &ModelRequest) -> Result<(), ModelError> {
    let parts = request.messages.messages().iter().flat_map(|message| message.parts());
    for part in parts {
        if let Part::Media(Media { url, mime_type, .. }) = part
            && url.starts_with("data:")
            && !url.contains(";base64,")
        {
            return Err(unusable(format!(
                "the `data:` URL of a file ({mime_type}) is not base64; encode it so"
            )));
        }
    }
    Ok(())
}

fn object<'a>(name: &str, value: &'a Value) -> Result<&'a Map<String, Value>, ModelError> {
    value
        .as_object()
        .ok_or_else(|| unusable(format!("`{name}` in `ModelSettings::extra` must be an object")))
}

fn unusable(problem: String) -> ModelError {
    ModelError::new(ModelErrorKind::BadRequest, problem)
}

/// Writes a field that is not the first.
fn field(out: &mut Vec<u8>, name: &str, value: &impl Serialize) {
    out.push(b',');
    message::write(out, name);
    out.push(b':');
    message::write(out, value);
}

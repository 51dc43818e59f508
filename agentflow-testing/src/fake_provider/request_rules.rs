//! Checks requests by the rules of real providers. For each wire format, the strictest known server
//! decides. A request that all servers accept is never refused.

use std::collections::BTreeSet;

use serde_json::Value;

use super::ProviderFormat;
use super::seen_request::{SeenCall, SeenResult, SeenTurn, Speaker};

/// The reason why a provider refuses a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RequestFault {
    /// Location in the request body.
    pub(super) at: String,
    pub(super) message: String,
}

type Checked = Result<(), RequestFault>;

fn fault(at: impl Into<String>, message: impl Into<String>) -> Checked {
    Err(RequestFault { at: at.into(), message: message.into() })
}

/// Checks the body of a request.
pub(super) fn check(format: ProviderFormat, body: &Value) -> Checked {
    let turns = SeenTurn::all(format, body);
    if turns.is_empty() {
        return fault("messages", "at least one message is required");
    }
    for turn in &turns {
        if turn.is_empty {
            return fault(&*turn.at, "the message must have content");
        }
        for call in &turn.calls {
            check_call(format, call)?;
        }
        for result in &turn.results {
            check_result(format, result)?;
        }
    }
    check_order(format, &turns)?;
    check_pairs(format, &turns)?;
    check_schemas(format, body)
}

fn check_name(at: &str, name: &str) -> Checked {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    match (1..=64).contains(&name.len()) && name.bytes().all(allowed) {
        true => Ok(()),
        false => {
            fault(at, format!("`{name}` does not match the pattern '^[a-zA-Z0-9_-]{{1,64}}$'"))
        }
    }
}

fn check_call(format: ProviderFormat, call: &SeenCall) -> Checked {
    check_name(&format!("{}.name", call.at), &call.name)?;
    if !call.arguments.as_ref().is_some_and(Value::is_object) {
        return fault(format!("{}.arguments", call.at), "the arguments must be a JSON object");
    }
    let longest = match format {
        ProviderFormat::OpenAiChat => 40,
        ProviderFormat::OpenAiResponses => 64,
        // An id is optional.
        ProviderFormat::Gemini => return Ok(()),
        ProviderFormat::Anthropic => {
            return check_name(&format!("{}.id", call.at), &call.id);
        }
    };
    match (1..=longest).contains(&call.id.len()) {
        true => Ok(()),
        false => {
            fault(format!("{}.id", call.at), format!("the id must have 1 to {longest} characters"))
        }
    }
}

fn check_result(format: ProviderFormat, result: &SeenResult) -> Checked {
    if format != ProviderFormat::Gemini {
        return Ok(());
    }
    check_name(&format!("{}.name", result.at), &result.name)?;
    if !result.value.is_object() {
        return fault(format!("{}.response", result.at), "the response must be an object");
    }
    match has_reference(&result.value) {
        true => {
            fault(format!("{}.response", result.at), "`$ref` refers to a part that does not exist")
        }
        false => Ok(()),
    }
}

fn has_reference(value: &Value) -> bool {
    match value {
        Value::Object(fields) => {
            fields.iter().any(|(name, value)| name == "$ref" || has_reference(value))
        }
        Value::Array(items) => items.iter().any(has_reference),
        _ => false,
    }
}

/// Checks the author of the first turn, and the turns that precede a call.
fn check_order(format: ProviderFormat, turns: &[SeenTurn]) -> Checked {
    let needs_user = matches!(format, ProviderFormat::Anthropic | ProviderFormat::Gemini);
    let first = turns.iter().find(|turn| turn.speaker != Speaker::System);
    match first {
        Some(first) if needs_user && first.speaker != Speaker::User => {
            return fault(&*first.at, "the first message must have the role of the user");
        }
        None => return fault("messages", "a message of the user is required"),
        Some(_) => {}
    }
    for pair in turns.windows(2) {
        let calls_after_model =
            pair[0].speaker == Speaker::Model && pair[1].speaker == Speaker::Model;
        if format == ProviderFormat::Gemini && calls_after_model && !pair[1].calls.is_empty() {
            let problem = "a function call turn must come after a user turn or after a function response turn";
            return fault(&*pair[1].at, problem);
        }
    }
    Ok(())
}

/// Checks that each call has one result in the following turns.
fn check_pairs(format: ProviderFormat, turns: &[SeenTurn]) -> Checked {
    let (mut open, mut used): (Vec<&SeenCall>, BTreeSet<&str>) = (Vec::new(), BTreeSet::new());
    for turn in turns {
        for result in &turn.results {
            // Ids are optional in Gemini. Without them, calls and results are matched by name.
            let found =
                open.iter().position(|call| match call.id.is_empty() || result.id.is_empty() {
                    true => call.name == result.name,
                    false => call.id == result.id,
                });
            match found {
                Some(at) => drop(open.remove(at)),
                None => {
                    return fault(
                        &*result.at,
                        format!("the result `{}` has no call before it", result.id),
                    );
                }
            }
        }
        // Results must directly follow the turn with their calls.
        if turn.results.is_empty()
            && let Some(call) = open.first()
        {
            return fault(
                &*call.at,
                format!("the call `{}` has no result in the next message", call.id),
            );
        }
        for call in &turn.calls {
            if format != ProviderFormat::Gemini && !used.insert(&call.id) {
                return fault(&*call.at, format!("the id `{}` is not unique", call.id));
            }
        }
        open.extend(&turn.calls);
        // All results of a turn belong to one message in these formats.
        let in_one = matches!(format, ProviderFormat::Anthropic | ProviderFormat::Gemini);
        if in_one && !turn.results.is_empty() && !open.is_empty() {
            return fault(
                &*turn.at,
                format!("the call `{}` has no result in this message", open[0].id),
            );
        }
    }
    match open.first() {
        Some(call) => fault(&*call.at, format!("the call `{}` has no result", call.id)),
        None => Ok(()),
    }
}

/// JSON Schema keywords that Gemini supports.
const OF_GEMINI: [&str; 22] = [
    "$anchor",
    "$defs",
    "$id",
    "$ref",
    "additionalProperties",
    "anyOf",
    "description",
    "enum",
    "format",
    "items",
    "maxItems",
    "maximum",
    "minItems",
    "minimum",
    "oneOf",
    "prefixItems",
    "properties",
    "propertyOrdering",
    "required",
    "title",
    "type",
    "nullable",
];

/// Keywords that OpenAI's strict mode does not support.
const NOT_STRICT: [&str; 8] = [
    "allOf",
    "not",
    "if",
    "then",
    "else",
    "dependentRequired",
    "dependentSchemas",
    "patternProperties",
];

fn check_schemas(format: ProviderFormat, body: &Value) -> Checked {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    for tool in list(&body["tools"]) {
        match format {
            ProviderFormat::OpenAiChat => {
                let function = &tool["function"];
                check_tool(
                    "tools",
                    &function["name"],
                    &function["parameters"],
                    function["strict"] == true,
                )?;
            }
            ProviderFormat::OpenAiResponses if tool["type"] == "function" => {
                check_tool("tools", &tool["name"], &tool["parameters"], tool["strict"] == true)?;
            }
            ProviderFormat::Anthropic if tool.get("input_schema").is_some() => {
                check_tool("tools", &tool["name"], &tool["input_schema"], false)?;
            }
            ProviderFormat::Gemini => {
                for function in list(&tool["functionDeclarations"]) {
                    check_name(
                        "tools.functionDeclarations.name",
                        function["name"].as_str().unwrap_or_default(),
                    )?;
                    check_keywords(
                        "tools.functionDeclarations",
                        &function["parametersJsonSchema"],
                        &|keyword| OF_GEMINI.contains(&keyword),
                    )?;
                }
            }
            ProviderFormat::OpenAiResponses | ProviderFormat::Anthropic => {}
        }
    }
    match format {
        ProviderFormat::OpenAiChat if body["response_format"]["type"] == "json_schema" => {
            check_strict("response_format", &body["response_format"]["json_schema"]["schema"])
        }
        ProviderFormat::OpenAiResponses if body["text"]["format"]["type"] == "json_schema" => {
            check_strict("text.format", &body["text"]["format"]["schema"])
        }
        ProviderFormat::Gemini => {
            let schema = &body["generationConfig"]["responseJsonSchema"];
            check_keywords("generationConfig.responseJsonSchema", schema, &|keyword| {
                OF_GEMINI.contains(&keyword)
            })
        }
        _ => Ok(()),
    }
}

fn check_tool(at: &str, name: &Value, schema: &Value, strict: bool) -> Checked {
    let name = name.as_str().unwrap_or_default();
    check_name(&format!("{at}.name"), name)?;
    if schema["type"] != "object" {
        return fault(
            at,
            format!("the schema of the function `{name}` must have the type 'object'"),
        );
    }
    if let Some(keyword) = ["oneOf", "anyOf", "allOf", "not", "enum"]
        .into_iter()
        .find(|word| schema.get(word).is_some())
    {
        return fault(
            at,
            format!(
                "the schema of the function `{name}` must not have '{keyword}' at the top level"
            ),
        );
    }
    if strict { check_strict(at, schema) } else { Ok(()) }
}

/// Checks a schema against OpenAI's strict mode.
fn check_strict(at: &str, schema: &Value) -> Checked {
    check_keywords(at, schema, &|keyword| !NOT_STRICT.contains(&keyword))?;
    check_objects(at, schema)
}

/// Checks that each object schema forbids additional properties and requires all its properties.
fn check_objects(at: &str, schema: &Value) -> Checked {
    match schema {
        Value::Object(fields) => {
            if let Some(properties) = fields.get("properties").and_then(Value::as_object) {
                let required = fields
                    .get("required")
                    .and_then(Value::as_array)
                    .map(Vec::as_slice)
                    .unwrap_or_default();
                if fields.get("additionalProperties") != Some(&Value::Bool(false)) {
                    return fault(
                        at,
                        "'additionalProperties' is required to be supplied and to be false",
                    );
                }
                if let Some(name) = properties
                    .keys()
                    .find(|name| !required.iter().any(|known| known == name.as_str()))
                {
                    return fault(
                        at,
                        format!("'required' must have every key in properties; missing '{name}'"),
                    );
                }
            }
            fields.values().try_for_each(|value| check_objects(at, value))
        }
        Value::Array(items) => items.iter().try_for_each(|item| check_objects(at, item)),
        _ => Ok(()),
    }
}

/// Checks the keywords of a schema and of its nested schemas.
fn check_keywords(at: &str, schema: &Value, known: &dyn Fn(&str) -> bool) -> Checked {
    let Value::Object(fields) = schema else { return Ok(()) };
    for (keyword, value) in fields {
        if !known(keyword) {
            return fault(at, format!("'{keyword}' is not supported in a schema"));
        }
        match (keyword.as_str(), value) {
            // The keys of these objects are names, not keywords.
            ("properties" | "$defs" | "definitions", Value::Object(named)) => {
                named.values().try_for_each(|schema| check_keywords(at, schema, known))?;
            }
            ("enum" | "const" | "default" | "examples" | "required", _) => {}
            (_, Value::Array(schemas)) => {
                schemas.iter().try_for_each(|schema| check_keywords(at, schema, known))?;
            }
            (_, schema) => check_keywords(at, schema, known)?,
        }
    }
    Ok(())
}

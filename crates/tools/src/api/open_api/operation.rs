//! Converts the parameters and the body of an OpenAPI operation to arguments of a tool. Rejects
//! required parameters that a tool cannot send, and omits optional ones.

use std::collections::BTreeMap;

use serde_json::Value;

use super::schema::{resolved, resolved_schema};
use crate::api::api_description::{ApiParameter, ParameterPlace};
use crate::api::body_encoding::{FORM, PARTS, essence};

/// Maximum number of parameters of an operation.
const MOST: usize = 100;

/// Converts the parameters of a path and of its operation. A parameter of the operation replaces
/// one of the path with the same name.
pub(crate) fn parameters(
    document: &Value,
    of: &[&Value],
    problems: &mut Vec<String>,
) -> BTreeMap<String, ApiParameter> {
    let mut found: BTreeMap<(String, String), &Value> = BTreeMap::new();
    for parameter in of.iter().filter_map(|one| one["parameters"].as_array()).flatten() {
        let parameter = match resolved(document, parameter) {
            Ok(parameter) => parameter,
            Err(problem) => {
                problems.push(problem);
                continue;
            }
        };
        match (parameter["name"].as_str(), parameter["in"].as_str()) {
            (Some(name), Some(place)) => {
                found.insert((place.to_owned(), name.to_owned()), parameter);
            }
            _ => problems.push("a parameter has no `name` or no `in`".to_owned()),
        }
    }
    if found.len() > MOST {
        problems.push(format!("it has {} parameters, and at most {MOST} are read", found.len()));
        return BTreeMap::new();
    }
    let mut arguments = BTreeMap::new();
    for ((place, name), parameter) in found {
        // The OpenAPI specification says to ignore definitions of these headers.
        let is_ours = ["accept", "content-type", "authorization"]
            .iter()
            .any(|one| name.eq_ignore_ascii_case(one));
        if place == "header" && is_ours {
            continue;
        }
        match argument(document, &place, &name, parameter) {
            Ok(None) => {}
            Ok(Some(argument)) => {
                let mut key = argument_name(&name);
                while arguments.contains_key(&key) {
                    key = format!("{key}_{place}");
                }
                arguments.insert(key, argument);
            }
            Err(problem) => problems.push(format!("the parameter `{name}`: {problem}")),
        }
    }
    arguments
}

/// Converts a parameter to an argument. Returns `None` if it is optional and a tool cannot send it.
///
/// # Errors
/// The schema is invalid, or a required parameter cannot be sent.
fn argument(
    document: &Value,
    place: &str,
    name: &str,
    parameter: &Value,
) -> Result<Option<ApiParameter>, String> {
    // A path parameter is always required, even without `required: true`.
    let is_required = parameter["required"].as_bool().unwrap_or(false) || place == "path";
    let unsent = |problem: String| if is_required { Err(problem) } else { Ok(None) };
    let (to, style, explode) = match place {
        "path" => (ParameterPlace::Path, "simple", None),
        "query" => (ParameterPlace::Query, "form", Some(true)),
        "header" => (ParameterPlace::Header, "simple", None),
        other => {
            return unsent(format!(
                "`in: {other}` is not used; there are `path`, `query` and `header`"
            ));
        }
    };
    if let Some(other) = parameter["style"].as_str().filter(|other| *other != style) {
        return unsent(format!("`style: {other}` is not used; in `{place}` there is `{style}`"));
    }
    if explode
        .is_some_and(|explode| parameter["explode"].as_bool().is_some_and(|said| said != explode))
    {
        return unsent("`explode: false` is not used; of a list each value is sent".to_owned());
    }
    for word in ["content", "allowReserved"] {
        if parameter.get(word).is_some_and(|value| *value != Value::Bool(false)) {
            return unsent(format!("`{word}` is not used"));
        }
    }
    let schema = resolved_schema(document, parameter.get("schema").unwrap_or(&Value::Bool(true)))?;
    let is_list = schema["type"] == "array";
    if !is_required && (schema["type"] == "object" || is_list && to != ParameterPlace::Query) {
        return Ok(None);
    }
    let mut argument = ApiParameter::new(to).schema(schema).sent_as(name);
    if let Some(about) = parameter["description"].as_str() {
        argument = argument.about(about);
    }
    Ok(Some(if is_required { argument } else { argument.optional() }))
}

/// Adds the body as one argument. Returns its media type if it is not `application/json`.
pub(crate) fn body(
    document: &Value,
    operation: &Value,
    arguments: &mut BTreeMap<String, ApiParameter>,
    problems: &mut Vec<String>,
) -> Option<String> {
    let body = operation.get("requestBody")?;
    let read = resolved(document, body).and_then(|body| {
        let content = body["content"].as_object();
        let kinds = || content.into_iter().flatten();
        let of = |is_it: fn(&str) -> bool| kinds().find(|(kind, _)| is_it(&essence(kind)));
        // In the order in which bodies are preferred if the operation accepts several.
        let found = of(|kind| kind == "application/json")
            .or_else(|| of(|kind| kind.ends_with("+json")))
            .or_else(|| of(|kind| ["*/*", "application/*"].contains(&kind)))
            .or_else(|| of(|kind| kind == FORM))
            .or_else(|| of(|kind| kind == PARTS));
        let Some((kind, media)) = found else {
            let all = kinds().map(|(kind, _)| format!("`{kind}`")).collect::<Vec<_>>().join(", ");
            return Err(format!("its body is {all}, and JSON and forms are sent"));
        };
        let mut schema =
            resolved_schema(document, media.get("schema").unwrap_or(&Value::Bool(true)))?;
        let kind = essence(kind);
        let is_form = kind == FORM || kind == PARTS;
        if is_form {
            as_form(&kind, &mut schema, &media["encoding"])?;
        }
        let mut argument = ApiParameter::new(ParameterPlace::Body).schema(schema);
        if let Some(about) = body["description"].as_str() {
            argument = argument.about(about);
        }
        let is_required = body["required"].as_bool().unwrap_or(false);
        let kind = (is_form || kind.ends_with("+json")).then_some(kind);
        Ok((if is_required { argument } else { argument.optional() }, kind))
    });
    match read {
        Ok((argument, kind)) => {
            let mut key = "body".to_owned();
            while arguments.contains_key(&key) {
                key = format!("request_{key}");
            }
            arguments.insert(key, argument);
            kind
        }
        Err(problem) => {
            problems.push(problem);
            None
        }
    }
}

/// Applies the encoding of form fields: stores the media types of files in the schema, and removes
/// optional fields in an unsupported style.
///
/// # Errors
/// The body is not an object, or a required field has an unsupported style.
fn as_form(kind: &str, schema: &mut Value, encoding: &Value) -> Result<(), String> {
    if let Some(other) = schema["type"].as_str().filter(|other| *other != "object") {
        return Err(format!("its body is a form of the type `{other}`, and an object is sent"));
    }
    for (name, encoding) in encoding.as_object().into_iter().flatten() {
        let other_style = encoding["style"].as_str().filter(|style| *style != "form");
        if kind == FORM && (other_style.is_some() || encoding["explode"] == false) {
            let is_required =
                schema["required"].as_array().is_some_and(|all| all.iter().any(|one| one == name));
            if is_required {
                let style = other_style
                    .map_or_else(|| "explode: false".to_owned(), |style| format!("style: {style}"));
                return Err(format!(
                    "the field `{name}` of its form: `{style}` is not used; there is `form`"
                ));
            }
            if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
                properties.remove(name);
            }
            continue;
        }
        let field = schema
            .get_mut("properties")
            .and_then(|all| all.get_mut(name))
            .and_then(Value::as_object_mut);
        let (Some(field), Some(media_type)) = (field, encoding["contentType"].as_str()) else {
            continue;
        };
        if kind == PARTS && field.get("type").is_none_or(|of| of == "string") {
            field.entry("contentMediaType").or_insert_with(|| media_type.into());
        }
    }
    Ok(())
}

/// Returns an argument name that every provider accepts.
fn argument_name(name: &str) -> String {
    let letters = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.') { c } else { '_' });
    let name: String = letters.take(64).collect();
    let name = name.trim_matches('_');
    if name.is_empty() { "value".to_owned() } else { name.to_owned() }
}

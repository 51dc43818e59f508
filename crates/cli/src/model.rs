//! Creates a model, its settings and tool definitions from command-line options.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};

use super::print::Stop;
use super::run_args::ModelArgs;
use agentflow_core::__private::adapters::ServerSettings;
use agentflow_core::__private::extension::text_file;
use agentflow_core::__private::extension::{adapter_of, provider_named, secrets_of};
use agentflow_core::model::{HttpSettings, Model, ModelRef, ModelSettings};
use agentflow_core::runtime::Runtime;
use agentflow_core::tool::ToolDefinition;

/// Creates the model of `--model`, with the server of `--base-url`.
pub(super) fn open(
    host: &Runtime,
    reference: &str,
    args: &ModelArgs,
) -> Result<Arc<dyn Model>, Stop> {
    let reference: ModelRef = reference.parse()?;
    // A provider of the program creates its own models, so HTTP options would have no effect.
    if host.catalogue().has_own_provider(reference.provider()) {
        if args.base_url.is_some() || http(args) != HttpSettings::default() {
            return Err(Stop::failed(
                "model_ref",
                format!(
                    "the provider `{}` is of this program: leave out --base-url, --max-retries and the time-outs",
                    reference.provider()
                ),
            ));
        }
        return Ok(host.model(&reference)?);
    }
    let known = provider_named(reference.provider());
    let Some((provider, adapter)) =
        known.and_then(|provider| Some((provider, adapter_of(provider)?)))
    else {
        // The provider is unknown. This call returns the error that lists the known adapters.
        return Ok(host.model(&reference)?);
    };
    let mut server = ServerSettings::new(provider);
    (server.http, server.secrets) = (http(args), secrets_of(host));
    server.base_url.clone_from(&args.base_url);
    Ok((adapter.open)(reference.model().into(), server)?)
}

fn http(args: &ModelArgs) -> HttpSettings {
    let mut http = HttpSettings::default();
    if let Some(longest) = args.timeout {
        http = http.total_timeout(longest);
    }
    if let Some(longest) = args.first_byte_timeout {
        http = http.first_byte_timeout(longest);
    }
    if let Some(longest) = args.idle_timeout {
        http = http.idle_timeout(longest);
    }
    if let Some(retries) = args.max_retries {
        http = http.max_retries(retries);
    }
    http
}

/// Returns the model settings for every call.
pub(super) fn settings(args: &ModelArgs) -> ModelSettings {
    args.settings
        .iter()
        .cloned()
        .fold(ModelSettings::default(), |settings, (key, value)| settings.extra(key, value))
}

/// Reads a tool definition from a file: a [`ToolDefinition`], or the form of a provider.
pub(super) fn tool_file(file: &Path) -> Result<ToolDefinition, Stop> {
    let failed = |problem: String| {
        Stop::failed("tool_file", format!("the tool file {}: {problem}", file.display()))
    };
    let text = text_file::read(file, text_file::MOST_BYTES)
        .map_err(|error| failed(format!("it cannot be read: {error}")))?;
    let tool =
        serde_json::from_str(&text).map_err(|error| failed(format!("it is not JSON: {error}")))?;
    tool_definition(&tool).map_err(failed)
}

fn tool_definition(tool: &Value) -> Result<ToolDefinition, String> {
    // OpenAI nests the definition under `function`.
    let tool = tool.get("function").unwrap_or(tool);
    let name = tool["name"]
        .as_str()
        .ok_or(r#"it has no name; write {"name": "..", "description": "..", "parameters": {"type": "object", ..}}"#)?;
    let parameters =
        ["parameters", "parameters_schema", "input_schema"].iter().find_map(|key| tool.get(key));
    let parameters = match parameters {
        Some(schema) if schema.is_object() => schema.clone(),
        None => json!({"type": "object", "properties": {}}),
        Some(other) => return Err(format!("its parameters are not a JSON Schema but {other}")),
    };
    let definition =
        ToolDefinition::new(name, tool["description"].as_str().unwrap_or_default(), parameters);
    if !definition.has_valid_name() {
        return Err(format!(
            "its name `{name}` does not work: use 1 to 64 letters, digits, `_` or `-`"
        ));
    }
    Ok(definition)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_tool_is_read() {
        let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
        let expected = ToolDefinition::new("weather", "It rains.", schema.clone());
        for form in [
            json!({"name": "weather", "description": "It rains.", "parameters": schema}),
            json!({"name": "weather", "description": "It rains.", "parameters_schema": schema}),
            json!({"name": "weather", "description": "It rains.", "input_schema": schema}),
            json!({"type": "function", "function": {"name": "weather", "description": "It rains.", "parameters": schema}}),
            json!({"type": "function", "name": "weather", "description": "It rains.", "parameters": schema}),
        ] {
            assert_eq!(tool_definition(&form).unwrap(), expected);
        }
        assert_eq!(tool_definition(&json!({"name": "now"})).unwrap().parameters["type"], "object");
    }

    #[test]
    fn a_wrong_tool_says_what_to_do() {
        assert!(
            tool_definition(&json!({"description": "?"})).unwrap_err().contains("it has no name")
        );
        assert!(tool_definition(&json!({"name": "a b"})).unwrap_err().contains("letters"));
        assert!(
            tool_definition(&json!({"name": "a", "parameters": []}))
                .unwrap_err()
                .contains("not a JSON Schema")
        );
        assert!(tool_definition(&json!([])).is_err());
    }
}

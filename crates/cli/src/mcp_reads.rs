//! `agentwf mcp resources` and `agentwf mcp prompts`: lists and reads resources and prompts of a
//! server.

use std::io::{self, IsTerminal, Write};

use agentflow_schema::text::OneLine;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::ctrl_c;
use super::print::{Answer, BOLD, DIM, Stop, line, note, print_json};
use agentflow_core::message::Part;
use agentflow_mcp::mcp::{McpClient, McpContent, McpPrompt};

pub(super) async fn resources(client: McpClient, json: bool) -> Result<(), Stop> {
    let listed = async {
        tokio::try_join!(client.resources(), client.resource_templates()).map_err(Stop::from)
    };
    let (resources, templates) = ended(&client, listed).await?;
    if json {
        let all: Vec<Value> = resources
            .iter()
            .map(|of| json!(of))
            .chain(templates.iter().map(|of| json!(of)))
            .collect();
        return print_json(&all);
    }
    if resources.is_empty() && templates.is_empty() {
        note("the server has no resources");
    }
    for resource in resources.iter() {
        entry(&resource.uri, &resource.name, resource.description.as_deref())?;
    }
    for template in templates.iter() {
        entry(&template.uri_template, &template.name, template.description.as_deref())?;
    }
    Ok(())
}

pub(super) async fn resource(client: McpClient, uri: &str, json: bool) -> Result<(), Stop> {
    let contents = ended(&client, async { Ok(client.resource(uri).await?) }).await?;
    if json {
        return print_json(&contents.iter().map(as_json).collect::<Vec<_>>());
    }
    let mut answer = Answer::new();
    for content in &contents {
        match content {
            McpContent::Text { text, .. } => {
                answer.push(text)?;
                answer.end_line()?;
            }
            // Binary data could change the state of the terminal.
            McpContent::Bytes { uri, .. } if io::stdout().is_terminal() => {
                let problem =
                    format!("`{uri}` is not a text; send the output to a file, or use `--json`");
                return Err(Stop::failed("mcp", problem));
            }
            McpContent::Bytes { bytes, .. } => {
                let mut out = io::stdout().lock();
                let written = out.write_all(bytes).and_then(|()| out.flush());
                written.map_err(|error| match error.kind() {
                    io::ErrorKind::BrokenPipe => Stop::Closed,
                    _ => Stop::failed(
                        "output",
                        format!("standard output cannot be written: {error}"),
                    ),
                })?;
            }
            _ => note("a part of the content has an unknown kind; `--json` prints it"),
        }
    }
    Ok(())
}

pub(super) async fn prompts(client: McpClient, json: bool) -> Result<(), Stop> {
    let prompts = ended(&client, async { Ok(client.prompts().await?) }).await?;
    if json {
        return print_json(&prompts.iter().collect::<Vec<_>>());
    }
    if prompts.is_empty() {
        note("the server has no prompts");
    }
    for prompt in prompts.iter() {
        entry(&prompt.name, &parameters(prompt), prompt.description.as_deref())?;
    }
    Ok(())
}

pub(super) async fn prompt(
    client: McpClient,
    name: &str,
    input: &str,
    json: bool,
) -> Result<(), Stop> {
    let arguments: Map<String, Value> = serde_json::from_str(input).map_err(|error| {
        Stop::failed("mcp", format!("`--input` is not a JSON object with the arguments: {error}"))
    })?;
    let texts = arguments.into_iter().map(|(name, value)| match value {
        Value::String(text) => (name, text),
        other => (name, other.to_string()),
    });
    let texts: Vec<(String, String)> = texts.collect();
    let arguments: Vec<(&str, &str)> =
        texts.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let messages = ended(&client, async { Ok(client.prompt(name, &arguments).await?) }).await?;
    if json {
        return print_json(&messages);
    }
    for message in &messages {
        let role = json!(message.role());
        line(format_args!("{BOLD}{}{BOLD:#}", OneLine(role.as_str().unwrap_or_default())))?;
        let mut answer = Answer::new();
        for part in message.parts() {
            match part {
                Part::Text { text } => answer.push(text)?,
                Part::Media(file) => answer.push(&format!("[{}]", file.mime_type))?,
                _ => {}
            }
        }
        answer.end_line()?;
    }
    Ok(())
}

/// Runs a request until its end or Ctrl-C, then closes the client, which stops the server's
/// process.
async fn ended<T>(
    client: &McpClient,
    request: impl Future<Output = Result<T, Stop>>,
) -> Result<T, Stop> {
    let ended = ctrl_c::or_stop(request).await;
    client.close().await;
    ended
}

fn entry(name: &str, also: &str, description: Option<&str>) -> Result<(), Stop> {
    line(format_args!("{BOLD}{}{BOLD:#}  {DIM}{}{DIM:#}", OneLine(name), OneLine(also)))?;
    match description.and_then(|description| description.lines().next()) {
        Some(first) => line(format_args!("    {}", OneLine(first))),
        None => Ok(()),
    }
}

/// Formats the names of the arguments. Optional arguments have a question mark.
fn parameters(prompt: &McpPrompt) -> String {
    let shown = |argument: &agentflow_mcp::mcp::McpPromptArgument| match argument.required {
        true => argument.name.clone(),
        false => format!("{}?", argument.name),
    };
    format!("({})", prompt.arguments.iter().map(shown).collect::<Vec<_>>().join(", "))
}

fn as_json(content: &McpContent) -> Value {
    match content {
        McpContent::Text { uri, mime_type, text } => {
            json!({"uri": uri, "mime_type": mime_type, "text": text})
        }
        McpContent::Bytes { uri, mime_type, bytes } => {
            json!({"uri": uri, "mime_type": mime_type, "blob": STANDARD.encode(bytes)})
        }
        // A kind of content that this version does not know.
        other => json!({"unknown": format!("{other:?}")}),
    }
}

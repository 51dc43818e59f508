//! The client under test of the official MCP conformance suite. It uses the server at the address
//! in its argument, as required by the scenario named in the environment. It only does what an
//! agent or a runtime does.

#![allow(clippy::print_stderr, reason = "what it saw, for whoever reads the suite's log")]

use std::error::Error;

use agentflow::event::EventKind;
use agentflow::mcp::{McpAuthorization, McpClient};
use agentflow::model::Secret;
use agentflow::prelude::*;
use agentflow::runtime::EntryKind;
use agentflow::serde_json::{self, Map, Value, json};
use agentflow::store::MemoryStore;
use agentflow_testing::{ScriptedModel, Turn};
use futures_util::StreamExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Client metadata document that the suite expects.
const DOCUMENT: &str = "https://conformance-test.local/client-metadata.json";

/// Prefix of the tool names below.
const PREFIX: &str = "mcp.suite.";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).ok_or("usage: mcp-conformance-client URL")?;
    let context = std::env::var("MCP_CONFORMANCE_CONTEXT").unwrap_or_default();
    let context: Value = serde_json::from_str(&context).unwrap_or_default();
    let scenario = std::env::var("MCP_CONFORMANCE_SCENARIO").unwrap_or_default();
    let client = McpClient::http("suite", url).authorization(authorization(&context)).build()?;
    client.connect().await?;
    let runtime = Runtime::builder().store(MemoryStore::new()).toolset(client.clone()).build();
    let catalogue = runtime.catalogue().snapshot().await;
    let schema_of = |name: &str| {
        let found = catalogue.get(EntryKind::Tool, &format!("{PREFIX}{name}"));
        found.ok().and_then(|tool| tool.input.clone()).unwrap_or_default()
    };
    let wanted: Vec<(String, Value)> = match context["toolCalls"].as_array() {
        Some(calls) => {
            // Arguments are checked against the schema, which does not allow null. Such arguments
            // are left out.
            let call = |call: &Value| {
                let mut arguments = call["arguments"].as_object()?.clone();
                arguments.retain(|_, value| !value.is_null());
                Some((call["name"].as_str()?.to_owned(), arguments.into()))
            };
            calls.iter().filter_map(call).collect()
        }
        None if scenario == "json-schema-2020-12-preservation" => {
            vec![(
                "json_schema_echo".to_owned(),
                json!({"schema": schema_of("json_schema_2020_12_tool")}),
            )]
        }
        None => {
            let names = catalogue
                .of_kind(EntryKind::Tool)
                .filter_map(|tool| tool.name.strip_prefix(PREFIX));
            names.map(|name| (name.to_owned(), example(&schema_of(name)))).collect()
        }
    };
    for (name, arguments) in wanted {
        // The call goes through an agent, because a tool may ask a person during an agent's call.
        let called = format!("mcp__suite__{name}");
        let model = ScriptedModel::new([Turn::call(called, arguments), Turn::text("done")]);
        let run = Agent::new(model).tools(client.clone()).runtime(&runtime).start("Call it.")?;
        let answered = async {
            let mut events = run.events();
            while let Some(event) = events.next().await {
                match &event.kind {
                    EventKind::ApprovalRequested(question) => {
                        eprintln!("{}", question.message);
                        let schema: Value = question.answer.decode()?;
                        let given = example(&schema["anyOf"][0]);
                        runtime
                            .run(run.run_id())
                            .answer(&event.path.to_string(), &given, "the suite")
                            .await?;
                    }
                    EventKind::ToolCompleted { result, .. }
                    | EventKind::ToolFailed { result, .. } => {
                        eprintln!("{name}: {} {}", result.status, result.text());
                    }
                    _ => {}
                }
            }
            Ok::<_, Box<dyn Error>>(())
        };
        answered.await?;
    }
    client.close().await;
    Ok(())
}

/// Configures a login with a person who agrees to everything: the suite redirects the browser at
/// once.
fn authorization(context: &Value) -> McpAuthorization {
    let authorization = McpAuthorization::browser("http://127.0.0.1:8765/callback", sent_back_to);
    let authorization = authorization.client_document(DOCUMENT).when_needed();
    match (
        context["issuer"].as_str(),
        context["client_id"].as_str(),
        context["client_secret"].as_str(),
    ) {
        (Some(issuer), Some(id), secret) => {
            authorization.client(issuer, id, secret.map(Secret::new))
        }
        _ => authorization,
    }
}

/// Opens a page and returns the URL that it redirects to.
async fn sent_back_to(url: String) -> Result<String, String> {
    let failed = |error: std::io::Error| error.to_string();
    let rest = url.strip_prefix("http://").ok_or("the page is not one of this machine")?;
    let (host, path) = rest.split_once('/').ok_or("the page has no path")?;
    let mut stream = TcpStream::connect(host).await.map_err(failed)?;
    let request = format!("GET /{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.map_err(failed)?;
    let mut page = String::new();
    stream.read_to_string(&mut page).await.map_err(failed)?;
    let place = page.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("location").then(|| value.to_owned())
    });
    place.ok_or_else(|| "the page sends the browser nowhere".to_owned())
}

/// Builds arguments that match a schema of simple properties.
fn example(schema: &Value) -> Value {
    let properties = schema["properties"].as_object().cloned().unwrap_or_default();
    let value = |(name, property): (String, Value)| {
        let value = match property["type"].as_str() {
            _ if !property["default"].is_null() => property["default"].clone(),
            Some("number" | "integer") => json!(5),
            Some("boolean") => json!(true),
            Some("array") => json!([]),
            Some("object") => json!({}),
            _ => json!("example"),
        };
        (name, value)
    };
    Value::Object(properties.into_iter().map(value).collect::<Map<_, _>>())
}

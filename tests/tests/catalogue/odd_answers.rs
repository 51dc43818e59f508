//! Unusual but legal answers of MCP servers and A2A agents, one per row of `odd_answers/`, and
//! their expected interpretation by a client. The field `source` names the document or project that
//! uses the form.

use agentflow::a2a::A2aClient;
use agentflow::mcp::McpClient;
use agentflow::message::{ToolCall, ToolStatus};
use agentflow::prelude::*;
use agentflow::serde_json::{self, Value, json};
use agentflow_testing::within;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};

use super::loopback_server::{Server, answered, json_of};

/// Minimum number of rows in a file.
const FEWEST: usize = 50;

fn rows(file: &str) -> Vec<Value> {
    let rows: Vec<Value> = file.lines().map(|row| serde_json::from_str(row).unwrap()).collect();
    assert!(rows.len() >= FEWEST, "{} rows", rows.len());
    assert!(
        rows.iter()
            .all(|row| row["source"].as_str().is_some_and(|source| source.starts_with("https://")))
    );
    rows
}

/// Compares a text with the expected one. After a `*`, the expected text only has to occur.
fn fits(seen: &str, expected: &str) -> bool {
    match expected.strip_prefix('*') {
        Some(part) => seen.contains(part),
        None => seen == expected,
    }
}

fn name(status: ToolStatus) -> &'static str {
    if status == ToolStatus::Success { "success" } else { "error" }
}

/// Formats a line of a server: raw text, an unrelated message, or the response to a request without
/// its common fields.
fn line_of(item: &Value, id: &Value) -> String {
    match item {
        Value::String(raw) => raw.replace("$id", &id.to_string()),
        message if message.get("jsonrpc").is_some() => {
            format!("{message}\n").replace("\"$id\"", &id.to_string())
        }
        rest => {
            let mut answer = json!({"jsonrpc": "2.0", "id": id});
            answer.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
            format!("{answer}\n")
        }
    }
}

/// Returns the lines with which the server of a row answers a request.
fn mcp_lines(row: &Value, method: &str) -> Vec<Value> {
    if let Some(lines) = row[method].as_array() {
        return lines.clone();
    }
    vec![match method {
        "initialize" => match &row["initialize"] {
            Value::Null => {
                json!({"result": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                "serverInfo": {"name": "p", "version": "1"}}})
            }
            result => json!({"result": result}),
        },
        "tools/list" => {
            json!({"result": {"tools": [{"name": "work", "inputSchema": {"type": "object"}}]}})
        }
        "tools/call" => json!({"result": {"content": [{"type": "text", "text": "done"}]}}),
        _ => json!({"error": {"code": -32601, "message": "Method not found"}}),
    }]
}

async fn serve(stream: DuplexStream, row: Value) {
    let (read, mut write) = tokio::io::split(stream);
    let mut lines = BufReader::new(read).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let message: Value = serde_json::from_str(&line).unwrap();
        // Skips responses to requests of the server, and notifications.
        let (Some(method), false) = (message["method"].as_str(), message["id"].is_null()) else {
            continue;
        };
        for item in mcp_lines(&row, method) {
            if write.write_all(line_of(&item, &message["id"]).as_bytes()).await.is_err() {
                return;
            }
        }
    }
}

async fn mcp_row(row: &Value) -> Vec<String> {
    let server = row.clone();
    let client = McpClient::in_memory("notes", move || {
        let (near, far) = tokio::io::duplex(1 << 16);
        tokio::spawn(serve(far, server.clone()));
        near
    });
    let client = client.build().unwrap();
    let mut problems = Vec::new();
    if let Some(expected) = row["tools"].as_array() {
        let mut listed: Vec<String> = match client.toolset().tools().await {
            Ok(tools) => tools.iter().map(|tool| tool.definition().name.to_string()).collect(),
            Err(error) => vec![error.to_string()],
        };
        listed.sort();
        if listed != *expected {
            problems.push(format!("tools {listed:?} and not {expected:?}"));
        }
    }
    let runtime = Runtime::builder().toolset(client.clone()).build();
    let (status, text) =
        match runtime.invoke(&ToolCall::new("c", "mcp.notes.work", "{}"), &[]).await {
            Ok(result) => (result.status, result.text().into_owned()),
            Err(error) => (ToolStatus::Error, error.to_string()),
        };
    let expected = [row["result"][0].as_str().unwrap(), row["result"][1].as_str().unwrap()];
    if name(status) != expected[0] || !fits(&text, expected[1]) {
        problems.push(format!("{status:?} {text:?} and not {expected:?}"));
    }
    problems
}

#[tokio::test(start_paused = true)]
async fn odd_answers_of_mcp_servers_are_read() {
    let mut problems = Vec::new();
    for row in rows(include_str!("odd_answers/mcp.jsonl")) {
        let of_row = mcp_row(&row).await;
        problems.extend(of_row.into_iter().map(|problem| format!("{}: {problem}", row["case"])));
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

fn card_of(row: &Value, address: &str) -> Value {
    let mut card = json!({
        "name": "Far", "description": "Is far away.", "version": "1", "capabilities": {"streaming": row["streaming"]},
        "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "s", "name": "Search", "description": "Searches far away.", "tags": ["far"]}],
    });
    let interface = json!({"supportedInterfaces":
        [{"url": address, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}]});
    for fields in [&interface, &row["card"]] {
        card.as_object_mut()
            .unwrap()
            .extend(fields.as_object().into_iter().flatten().map(|(k, v)| (k.clone(), v.clone())));
    }
    card
}

async fn a2a_row(row: &Value) -> Option<String> {
    let server_row = row.clone();
    let server = Server::start(move |request| {
        let (head, body) = request.split_once("\r\n\r\n").unwrap_or((request, ""));
        if head.starts_with("GET /.well-known/") {
            let host = head
                .lines()
                .find_map(|line| line.to_lowercase().strip_prefix("host: ").map(str::to_owned));
            return json_of(&card_of(
                &server_row,
                &format!("http://{}/rpc", host.unwrap_or_default()),
            ));
        }
        let asked: Value = serde_json::from_str(body).unwrap_or_default();
        match &server_row["stream"] {
            Value::String(stream) => {
                let stream = stream.replace("\"$id\"", &asked["id"].to_string());
                answered("200 OK", "content-type: text/event-stream\r\n", &stream)
            }
            _ => {
                let mut answer = json!({"jsonrpc": "2.0", "id": asked["id"]});
                answer
                    .as_object_mut()
                    .unwrap()
                    .extend(server_row["answer"].as_object().unwrap().clone());
                let status = server_row["status"].as_str().unwrap_or("200 OK");
                answered(status, "content-type: application/json\r\n", &answer.to_string())
            }
        }
    })
    .await;
    let client = A2aClient::at("far", server.url("")).build().unwrap();
    let runtime = Runtime::builder().toolset(client).build();
    let call = ToolCall::new("c", "a2a.far", json!({"message": "hello"}).to_string());
    let (status, text) = match within("an answer", runtime.invoke(&call, &[])).await {
        Ok(result) => (result.status, result.text().into_owned()),
        Err(error) => (ToolStatus::Error, error.to_string()),
    };
    let answer: Value = serde_json::from_str(&text).unwrap_or_default();
    let output = match (&answer["output"], &answer["data"]) {
        (Value::String(output), Value::Null) => output.clone(),
        (output, data) => format!("{output} {data}"),
    };
    let is_read = match (&row["error"], &row["text"]) {
        (Value::String(error), _) => status != ToolStatus::Success && fits(&text, error),
        (_, Value::String(expected)) => {
            let state = row["state"].as_str().is_none_or(|state| answer["state"] == state);
            status == ToolStatus::Success && state && fits(&output, expected)
        }
        _ => panic!("{row} expects nothing"),
    };
    (!is_read).then(|| format!("{status:?} {text}"))
}

#[tokio::test]
async fn odd_answers_of_a2a_agents_are_read() {
    let mut problems = Vec::new();
    for row in rows(include_str!("odd_answers/a2a.jsonl")) {
        if let Some(problem) = a2a_row(&row).await {
            problems.push(format!("{}: {problem}", row["case"]));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

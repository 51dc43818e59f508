//! Checks for answers of remote agents (A2A) and MCP servers.

use std::time::Duration;

use agentflow::Context;
use agentflow::a2a::{A2aCard, A2aClient, A2aMessage, A2aTask, A2aTaskQuery, A2aUpdate};
use agentflow::mcp::McpClient;
use futures_util::{StreamExt, stream};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::runtime::Runtime;

/// Time limit for one request, on a paused clock. The client skips a broken line, so its request
/// times out.
const LIMIT: Duration = Duration::from_millis(20);

/// Maximum number of updates that are read from a stream.
const UPDATES: usize = 20;

thread_local! {
    static TOKIO: Runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime");
}

/// Checks the results of an agent. Each item of a list is an update of a stream; any other value is
/// the only result.
///
/// # Panics
/// If reading panics, or if a value differs after it was written and read again.
pub(crate) fn a2a(bytes: &[u8]) {
    let Ok(value) = serde_json::from_slice::<Value>(bytes) else { return };
    let results = match value {
        Value::Array(results) => results,
        result => vec![result],
    };
    for result in &results {
        written_again::<A2aCard>(result);
        written_again::<A2aMessage>(result);
        written_again::<A2aTask>(result);
        written_again::<A2aUpdate>(result);
    }
    TOKIO.with(|tokio| tokio.block_on(a2a_results(results)));
}

async fn a2a_results(results: Vec<Value>) {
    let card = json!({
        "name": "peer", "description": "Answers.", "version": "1", "skills": [],
        "supportedInterfaces": [{"url": "https://peer.example", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
        "capabilities": {"streaming": true, "pushNotifications": true},
        "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
    });
    let of_peer = results.clone();
    let respond = move |request: Value| {
        let id = request["id"].clone();
        let answer = move |result| json!({"jsonrpc": "2.0", "id": id, "result": result});
        stream::iter(of_peer.clone().into_iter().map(answer))
    };
    let client =
        A2aClient::in_memory("peer", card, respond).request_timeout(LIMIT).idle_timeout(LIMIT);
    let client = client.build().expect("usable");
    let message = A2aMessage::user_text("hi");
    explained(client.send(&message).await);
    explained(client.task("task").await);
    explained(client.tasks(&A2aTaskQuery::default()).await);
    explained(client.cancel("task").await);
    explained(client.extended_card().await);
    if let Ok(updates) = client.stream(&message).await {
        let mut updates = updates.take(UPDATES);
        while let Ok(Some(update)) = tokio::time::timeout(LIMIT, updates.next()).await {
            explained(update);
        }
    }
    // The peer also provides the card.
    for card in results {
        let client = A2aClient::in_memory("peer", card, |_| stream::empty()).request_timeout(LIMIT);
        explained(client.build().expect("usable").card().await);
    }
}

/// Checks that a value survives a round trip through the journal.
fn written_again<T: Serialize + DeserializeOwned>(value: &Value) {
    let Ok(read) = T::deserialize(value) else { return };
    let written = serde_json::to_value(&read).expect("it is written as JSON");
    let again = T::deserialize(&written).expect("what is written is read");
    assert_eq!(serde_json::to_value(again).expect("it is written as JSON"), written);
}

/// Checks the result of an MCP server. These bytes are the result of every request except the
/// first.
///
/// # Panics
/// If reading it panics, or if it is refused without a message.
pub(crate) fn mcp(bytes: &[u8]) {
    let result: Vec<u8> = bytes.iter().copied().filter(|byte| !b"\r\n".contains(byte)).collect();
    TOKIO.with(|tokio| tokio.block_on(mcp_results(result)));
}

async fn mcp_results(result: Vec<u8>) {
    let connect = move || {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        tokio::spawn(serve(theirs, result.clone()));
        ours
    };
    let client =
        McpClient::in_memory("peer", connect).connect_timeout(LIMIT * 5).call_timeout(LIMIT);
    let client = client.max_message(1 << 16).build().expect("usable");
    match client.toolset().tools().await {
        Ok(tools) => {
            for tool in tools.iter().take(3) {
                explained(tool.call(&Context::detached(), "{}").await);
            }
        }
        Err(error) => assert!(!error.to_string().trim().is_empty()),
    }
    explained(client.resources().await);
    explained(client.resource_templates().await);
    explained(client.prompts().await);
    explained(client.prompt("letter", &[("to", "ada")]).await);
    explained(client.resource("memory:letter").await);
    client.close().await;
}

/// Serves one connection until it is closed.
async fn serve(connection: DuplexStream, result: Vec<u8>) {
    let (reads, mut writes) = tokio::io::split(connection);
    let mut lines = BufReader::new(reads).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let Ok(request) = serde_json::from_str::<Value>(&line) else { return };
        let Some(id) = request.get("id") else { continue };
        let result = match &request["method"] {
            Value::String(method) if method == "initialize" => initialized().into_bytes(),
            _ => result.clone(),
        };
        let head = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"#);
        let answer = [head.as_bytes(), &result, b"}\n"].concat();
        if writes.write_all(&answer).await.is_err() {
            return;
        }
    }
}

fn initialized() -> String {
    json!({
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {}, "resources": {}, "prompts": {}},
        "serverInfo": {"name": "peer", "version": "1"},
    })
    .to_string()
}

/// Checks that an error has a message.
fn explained<T, E: std::fmt::Display>(outcome: Result<T, E>) {
    if let Err(error) = outcome {
        assert!(!error.to_string().trim().is_empty());
    }
}

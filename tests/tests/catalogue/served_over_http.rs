//! A runtime as an MCP server over HTTP: authentication, mistakes of clients, cancelling calls.

use std::net::SocketAddr;
use std::time::Duration;

use agentflow::Caller;
use agentflow::front::{AuthRefusal, RequestHead};
use agentflow::mcp::McpClient;
use agentflow::mcp_server::McpServer;
use agentflow::message::{ToolCall, ToolStatus};
use agentflow::prelude::*;
use agentflow::serde_json::{Value, json};
use agentflow::store::{MemoryStore, RunFilter, RunStatus};
use agentflow_testing::within;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::served::{Held, Lines};

/// Gives the key of a safe.
#[tool(effects = "read", scopes("safe"))]
fn served_key() -> String {
    "12-34".to_owned()
}

/// Reads the key without asking.
#[workflow]
async fn served_open() -> Result<String> {
    let key = served_key();
    Ok(key)
}

pub(crate) async fn served(server: McpServer) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { server.serve_http(listener).await });
    address
}

fn server() -> McpServer {
    McpServer::from_runtime(&Runtime::builder().build())
}

fn head(address: SocketAddr, more: &str, length: usize) -> String {
    let host = if more.contains("host:") { String::new() } else { format!("host: {address}\r\n") };
    format!(
        "POST /mcp HTTP/1.1\r\n{host}content-type: application/json\r\naccept: application/json, text/event-stream\r\n\
         connection: close\r\ncontent-length: {length}\r\n{more}\r\n"
    )
}

/// Sends raw bytes and reads until the server closes the connection.
async fn raw(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // A server that refuses the request stops reading.
    let _ = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8(answer).unwrap()
}

/// Sends a request and returns the status and the whole response.
pub(crate) async fn post(address: SocketAddr, more: &str, body: &str) -> (u16, String) {
    let answer =
        raw(address, format!("{}{body}", head(address, more, body.len())).as_bytes()).await;
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.unwrap_or_else(|| panic!("no status: {answer}")), answer)
}

fn call(name: &str, arguments: Value) -> String {
    let params = json!({"name": name, "arguments": arguments});
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string()
}

#[tokio::test]
async fn a_server_is_a_route_of_a_program_with_axum() {
    let service = server().http_service().await.unwrap();
    let routes = axum::Router::new()
        .route("/health", axum::routing::get(|| async { "well" }))
        .route_service("/tools/mcp", service);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, routes).await });
    let client = McpClient::http("mounted", format!("http://{address}/tools/mcp")).build().unwrap();
    let runtime = Runtime::builder().toolset(client.clone()).build();
    let sum = runtime
        .invoke(&ToolCall::new("1", "mcp.mounted.add", r#"{"a": 1, "b": 2}"#), &[])
        .await
        .unwrap();
    assert_eq!((sum.status, &*sum.output), (ToolStatus::Success, r#"{"result":3}"#));
    client.close().await;
    let health = format!("GET /health HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    assert!(raw(address, health.as_bytes()).await.ends_with("well"));
    // The checks also apply if the host's own listener serves the router.
    let body = call("add", json!({"a": 1, "b": 2}));
    let sent = format!(
        "POST /tools/mcp HTTP/1.1\r\nhost: elsewhere.example\r\ncontent-type: application/json\r\naccept: \
         application/json, text/event-stream\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let refused = raw(address, sent.as_bytes()).await;
    assert!(refused.starts_with("HTTP/1.1 403"), "{refused}");
}

#[tokio::test]
async fn tools_are_called_at_an_address() {
    let address = served(server()).await;
    let client = McpClient::http("served", format!("http://{address}/mcp")).build().unwrap();
    let runtime = Runtime::builder().toolset(client.clone()).build();
    let sum = runtime
        .invoke(&ToolCall::new("1", "mcp.served.add", r#"{"a": 1, "b": 2}"#), &[])
        .await
        .unwrap();
    assert_eq!((sum.status, &*sum.output), (ToolStatus::Success, r#"{"result":3}"#));
    assert_eq!(client.health().protocol.as_deref(), Some("2026-07-28"));
    client.close().await;
    // A client of the earlier protocol without a handshake.
    let (status, answer) = post(address, "", &call("add", json!({"a": 2, "b": 2}))).await;
    assert_eq!(status, 200, "{answer}");
    assert!(answer.contains(r#""structuredContent":{"result":4}"#), "{answer}");
}

#[tokio::test]
async fn a_caller_has_its_scopes_and_nobody_else_has_them() {
    let runtime = Runtime::builder().store(MemoryStore::new()).build();
    let server = McpServer::from_runtime(&runtime).workflows(["served_open"]).authenticate(
        |request: RequestHead| async move {
            match request.header("authorization") {
                Some("Bearer owner") => Ok(Caller::new("ann").with_scopes(["safe"])),
                Some("Bearer guest") => Ok(Caller::new("guest")),
                Some(_) => Err(AuthRefusal::forbidden("not you")),
                None => Err(AuthRefusal::unauthenticated("who are you?")),
            }
        },
    );
    let address = served(server).await;
    let opened = |key: &'static str, tool: &'static str| async move {
        let client =
            McpClient::http("served", format!("http://{address}/mcp")).bearer(key).build().unwrap();
        let runtime = Runtime::builder().toolset(client.clone()).build();
        let call = ToolCall::new("1", format!("mcp.served.{tool}"), "{}");
        let result = runtime.invoke(&call, &[]).await.unwrap();
        client.close().await;
        result
    };
    let key = opened("owner", "served_key").await;
    assert_eq!(key.output, r#"{"result":"12-34"}"#);
    let refused = opened("guest", "served_key").await;
    assert_eq!(refused.status, ToolStatus::Error);
    assert!(refused.text().contains("safe"), "{}", refused.text());
    let run = opened("owner", "served_open").await;
    assert_eq!(run.output, r#"{"result":"12-34"}"#);
    let runs = runtime.runs().list(RunFilter::new().caller("ann")).await.unwrap();
    assert_eq!(runs.iter().map(|run| run.status).collect::<Vec<_>>(), [RunStatus::Success]);
    // The same with the earlier protocol.
    let (_, answer) =
        post(address, "authorization: Bearer owner\r\n", &call("served_key", json!({}))).await;
    assert!(answer.contains("12-34"), "{answer}");
    let (status, answer) = post(address, "", &call("served_key", json!({}))).await;
    assert_eq!(status, 401);
    assert!(
        answer.contains("www-authenticate: Bearer\r\n") && answer.ends_with("who are you?"),
        "{answer}"
    );
    let (status, answer) =
        post(address, "authorization: Bearer x\r\n", &call("served_key", json!({}))).await;
    assert_eq!(status, 403);
    assert!(answer.ends_with("not you"), "{answer}");
}

#[tokio::test]
async fn requests_of_other_hosts_and_origins_are_refused() {
    let address = served(server()).await;
    let body = call("add", json!({"a": 1, "b": 1}));
    for wrong in ["origin: https://evil.example\r\n", "origin: null\r\n", "host: evil.example\r\n"]
    {
        let (status, answer) = post(address, wrong, &body).await;
        assert_eq!(status, 403, "{wrong}: {answer}");
    }
    let open = server().allow_hosts(["tools.example"]).allow_origins(["https://app.example:443"]);
    let address = served(open).await;
    for right in ["origin: https://app.example\r\n", "host: tools.example\r\n", ""] {
        let (status, answer) = post(address, right, &body).await;
        assert_eq!(status, 200, "{right}: {answer}");
    }
    for wrong in [
        "origin: https://app.example:8443\r\n",
        "origin: http://app.example\r\n",
        "host: other.example\r\n",
    ] {
        assert_eq!(post(address, wrong, &body).await.0, 403, "{wrong}");
    }
}

#[tokio::test]
async fn hostile_requests_get_errors_and_never_a_hang() {
    let address = served(server().max_message(2000)).await;
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    let several = json!([ping]).to_string();
    for (body, code) in [
        ("", -32700),
        ("not json", -32700),
        ("[]", -32600),
        ("{}", -32600),
        ("\"\"", -32600),
        (&*several, -32600),
        (r#"{"jsonrpc": "2.0", "id": null, "method": "ping"}"#, -32600),
    ] {
        let (status, answer) = post(address, "", body).await;
        let error: Value = serde_json::from_str(answer.rsplit("\r\n").next().unwrap()).unwrap();
        assert_eq!(
            (status, &error["error"]["code"], &error["id"]),
            (400, &json!(code), &Value::Null),
            "{body}: {answer}"
        );
    }
    let other =
        head(address, "", 2).replace("application/json\r\naccept", "text/html\r\naccept") + "{}";
    assert!(raw(address, other.as_bytes()).await.starts_with("HTTP/1.1 415 "), "{other}");
    for (method, params, code, says) in [
        (
            "tools/call",
            json!({"name": 5}),
            "-32602",
            "`tools/call` do not fit: invalid type: integer `5`",
        ),
        ("tools/cal", json!({}), "-32601", "no method `tools/cal`"),
    ] {
        let body =
            json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        let (_, answer) = post(address, "", &body).await;
        assert!(answer.contains(code) && answer.contains(says), "{answer}");
    }
    let (status, answer) = post(address, "", &call("add", json!({"a": "x".repeat(3000)}))).await;
    assert_eq!(status, 413);
    assert!(answer.ends_with("the body has more than 2000 bytes"), "{answer}");
    // A body without a declared length.
    let chunk = format!("{:x}\r\n{}\r\n", 3000, "x".repeat(3000));
    let chunked = head(address, "", 0).replace("content-length: 0", "transfer-encoding: chunked");
    assert!(
        raw(address, format!("{chunked}{chunk}").as_bytes()).await.starts_with("HTTP/1.1 413 ")
    );
    let elsewhere = head(address, "", 0).replace("/mcp", "/other");
    assert!(raw(address, elsewhere.as_bytes()).await.starts_with("HTTP/1.1 404 "));
    let get = head(address, "", 0).replace("POST", "GET");
    assert!(raw(address, get.as_bytes()).await.starts_with("HTTP/1.1 405 "));
    let (_, unknown) = post(address, "", &call("ad", json!({}))).await;
    assert!(unknown.contains("-32602") && unknown.contains("`add`"), "{unknown}");
}

#[tokio::test]
async fn one_that_does_not_finish_its_request_is_disconnected() {
    let address =
        served(server().handshake_timeout(Duration::from_millis(50)).max_connections(1)).await;
    // Each connection takes the only slot, so the next one waits until it is closed.
    let half = head(address, "", 100);
    assert!(!raw(address, b"POST /mcp HTT").await.contains("200 OK"));
    assert!(raw(address, b"").await.is_empty());
    let late = raw(address, half.as_bytes()).await;
    assert!(
        late.starts_with("HTTP/1.1 408 ") && late.ends_with("the body did not arrive within 50ms"),
        "{late}"
    );
}

#[tokio::test]
async fn one_that_never_initialises_over_streams_is_disconnected() {
    let mut lines = Lines::of(&server().handshake_timeout(Duration::from_millis(50)));
    lines.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    let error = lines.serving.await.unwrap().unwrap_err().to_string();
    assert!(error.ends_with("the client did not finish its handshake within 50ms"), "{error}");
}

#[tokio::test]
async fn a_client_that_ends_its_request_cancels_the_call() {
    let held = Held::new();
    let runtime = Runtime::builder().tools(held.tool()).build();
    let address = served(McpServer::from_runtime(&runtime)).await;
    let body = call("hold", json!({}));
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(format!("{}{body}", head(address, "", body.len())).as_bytes()).await.unwrap();
    within("`held.begun`", held.begun.notified()).await;
    drop(stream);
    within("`held.stopped`", held.stopped.notified()).await;
}

#[tokio::test]
async fn a_server_that_is_dropped_cancels_its_calls() {
    let held = Held::new();
    let runtime = Runtime::builder().tools(held.tool()).build();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving =
        tokio::spawn(async move { McpServer::from_runtime(&runtime).serve_http(listener).await });
    let body = call("hold", json!({}));
    let request = format!("{}{body}", head(address, "", body.len()));
    let waiting = tokio::spawn(async move { raw(address, request.as_bytes()).await });
    within("`held.begun`", held.begun.notified()).await;
    serving.abort();
    within("`held.stopped`", held.stopped.notified()).await;
    assert!(!waiting.await.unwrap().contains("let go"));
}

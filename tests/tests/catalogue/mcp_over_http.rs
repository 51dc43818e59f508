//! MCP servers over HTTP: both response forms, keys, lost responses, restarted servers, misbehaving
//! servers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use agentflow::mcp::{McpClient, McpClientBuilder, McpConfig, McpError};
use agentflow::message::{ToolCall, ToolResult, ToolStatus};
use agentflow::prelude::*;
use agentflow::serde_json::{self, Value, json};
use agentflow::store::MemoryStore;
use agentflow::tool::{Effects, ToolPolicy};
use agentflow_testing::{ScriptedModel, Turn};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use crate::raw_http::{Request, full, request};

/// The response of a server, or a connection that ends within it.
enum Response {
    Json(Value),
    Events(Vec<String>),
    Status(&'static str, &'static str),
    /// A response that is shorter than its declared length.
    Broken(&'static str),
    /// The start of a session.
    Session(Value),
    /// A raw response.
    Bytes(String),
    /// The event stream of a session. It opens late and then sets the flag.
    Stream(Arc<AtomicBool>),
    Silence,
}

/// Starts a server. It answers the handshake, notifications and `tools/list` itself, and other
/// requests with `answer`.
async fn server(answer: impl Fn(&Request) -> Option<Response> + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let answer = Arc::new(answer);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let answer = Arc::clone(&answer);
            tokio::spawn(async move {
                while let Some(request) = request(&mut stream).await {
                    let response = answer(&request).unwrap_or_else(|| usual(&request));
                    let bytes = match response {
                        Response::Json(body) => {
                            full("200 OK", "application/json", &body.to_string())
                        }
                        Response::Events(events) => {
                            full("200 OK", "text/event-stream", &events.concat())
                        }
                        Response::Status(status, body) => full(status, "text/plain", body),
                        Response::Broken(body) => format!(
                            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 100000\r\n\r\n{body}"
                        ),
                        Response::Session(body) => full(
                            "200 OK",
                            "application/json",
                            &body.to_string(),
                        )
                        .replacen("\r\n", "\r\nmcp-session-id: s-1\r\n", 1),
                        Response::Bytes(bytes) => bytes,
                        Response::Stream(is_open) => {
                            tokio::time::sleep(Duration::from_millis(200)).await;
                            is_open.store(true, Ordering::SeqCst);
                            let head =
                                b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
                            let _ = stream.write_all(head).await;
                            std::future::pending().await
                        }
                        Response::Silence => std::future::pending().await,
                    };
                    if stream.write_all(bytes.as_bytes()).await.is_err()
                        || bytes.contains("length: 100000\r")
                    {
                        return;
                    }
                }
            });
        }
    });
    format!("http://{address}/mcp")
}

/// Builds the handshake response.
fn welcome(request: &Request) -> Value {
    request.answer(json!({
        "protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "h", "version": "1"},
    }))
}

fn usual(request: &Request) -> Response {
    let tool = json!({"name": "work", "inputSchema": {"type": "object"}});
    match request.method() {
        "initialize" => Response::Json(welcome(request)),
        "tools/list" => Response::Json(request.answer(json!({"tools": [tool]}))),
        "tools/call" => Response::Json(request.answer(done())),
        "" => Response::Status("405 Method Not Allowed", ""),
        method if method.starts_with("notifications/") => Response::Status("202 Accepted", ""),
        _ => Response::Json(json!({
            "jsonrpc": "2.0", "id": request.message["id"], "error": {"code": -32601, "message": "unknown"},
        })),
    }
}

fn done() -> Value {
    json!({"content": [{"type": "text", "text": "done"}]})
}

async fn work(client: &McpClient) -> ToolResult {
    let runtime = Runtime::builder().toolset(client.clone()).build();
    match runtime.invoke(&ToolCall::new("c", "mcp.far.work", "{}"), &[]).await {
        Ok(result) => result,
        Err(error) => ToolResult::new(
            &ToolCall::new("c", "mcp.far.work", "{}"),
            ToolStatus::Error,
            error.to_string(),
        ),
    }
}

fn far(url: &str) -> McpClientBuilder {
    McpClient::http("far", url).call_timeout(Duration::from_secs(20))
}

#[tokio::test]
async fn an_answer_is_json_or_the_event_of_a_stream() {
    let url = server(|request| {
        (request.method() == "tools/call").then(|| {
            let answer = request.answer(done());
            Response::Events(vec![
                ": a comment\n\n".to_owned(),
                format!("event: message\ndata: {answer}\n\n"),
            ])
        })
    })
    .await;
    assert_eq!(&*work(&far(&url).build().unwrap()).await.text(), "done");
    let url = server(|_| None).await;
    let client = far(&url).build().unwrap();
    assert_eq!(&*work(&client).await.text(), "done");
    assert_eq!(client.health().protocol.as_deref(), Some("2025-11-25"));
}

/// The example server of the TypeScript SDK responds like this after a restart.
#[tokio::test]
async fn a_server_that_was_restarted_gets_a_new_session() {
    for (status, id) in
        [("400 Bad Request", "\"id\": null, "), ("500 Internal Server Error", ""), ("200 OK", "")]
    {
        let (restarts, sessions) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (lives, begun) = (Arc::clone(&restarts), Arc::clone(&sessions));
        let url = server(move |request| {
            let life = format!("mcp-session-id: life-{}", lives.load(Ordering::SeqCst));
            if request.method() == "initialize" {
                begun.fetch_add(1, Ordering::SeqCst);
                let answer = full("200 OK", "application/json", &welcome(request).to_string());
                return Some(Response::Bytes(answer.replacen("\r\n", &format!("\r\n{life}\r\n"), 1)));
            }
            let error =
                format!("{{\"jsonrpc\": \"2.0\", {id}\"error\": {{\"code\": -32000, \"message\": \"no session\"}}}}");
            (!request.head.contains(&life) && request.head.starts_with("POST"))
                .then(|| Response::Bytes(full(status, "application/json", &error)))
        })
        .await;
        let client = far(&url).build().unwrap();
        for _ in 0..2 {
            assert_eq!(&*work(&client).await.text(), "done", "{status}");
            restarts.fetch_add(1, Ordering::SeqCst);
        }
        assert_eq!(&*work(&client).await.text(), "done", "{status}");
        assert_eq!(sessions.load(Ordering::SeqCst), 3, "{status}");
    }
}

#[tokio::test]
async fn an_error_without_an_id_ends_its_request_at_once() {
    let error = json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32600, "message": "not like this"}});
    for in_session in [false, true] {
        let error = error.clone();
        let url = server(move |request| match request.method() {
            "initialize" if in_session => Some(Response::Session(welcome(request))),
            "tools/call" => Some(Response::Bytes(full(
                "400 Bad Request",
                "application/json",
                &error.to_string(),
            ))),
            _ => None,
        })
        .await;
        let client = far(&url).call_timeout(Duration::from_secs(60)).build().unwrap();
        let result = tokio::time::timeout(Duration::from_secs(30), work(&client))
            .await
            .expect("the error comes at once");
        assert!(
            !result.status.is_success() && result.text().contains("not like this"),
            "{result:?}"
        );
    }
}

/// The server sends its questions over that stream and loses earlier ones.
#[tokio::test]
async fn nothing_is_asked_for_in_a_session_before_its_stream_is_open() {
    let is_open = Arc::new(AtomicBool::new(false));
    let (opened, early) = (Arc::clone(&is_open), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&early);
    let url = server(move |request| match request.method() {
        "initialize" => Some(Response::Session(welcome(request))),
        "" if request.head.starts_with("GET") => Some(Response::Stream(Arc::clone(&opened))),
        "tools/list" | "tools/call" => {
            counted.fetch_add(usize::from(!opened.load(Ordering::SeqCst)), Ordering::SeqCst);
            None
        }
        _ => None,
    })
    .await;
    assert_eq!(&*work(&far(&url).build().unwrap()).await.text(), "done");
    assert!(is_open.load(Ordering::SeqCst));
    assert_eq!(early.load(Ordering::SeqCst), 0);
}

/// Some servers respond to the request for the stream only with their first message.
#[tokio::test]
async fn a_stream_that_does_not_open_stops_nothing() {
    let url = server(|request| match request.method() {
        "initialize" => Some(Response::Session(welcome(request))),
        "" if request.head.starts_with("GET") => Some(Response::Silence),
        _ => None,
    })
    .await;
    assert_eq!(&*work(&far(&url).build().unwrap()).await.text(), "done");
}

#[tokio::test]
async fn keys_are_sent_with_each_request_and_masked_in_errors() {
    let seen = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&seen);
    let url = server(move |request| {
        let has_keys = request.head.contains("authorization: Bearer sk-1234567")
            && request.head.contains("x-team: blue-team");
        counted.fetch_add(usize::from(has_keys), Ordering::SeqCst);
        match (has_keys, request.method()) {
            (false, _) => Some(Response::Status("401 Unauthorized", "who are you?")),
            (true, "tools/call") => {
                Some(Response::Status("500 Internal Server Error", "no: sk-1234567 of blue-team"))
            }
            _ => None,
        }
    })
    .await;
    let client = far(&url).bearer("sk-1234567").header("x-team", "blue-team").build().unwrap();
    let result = work(&client).await;
    assert_eq!(result.status, ToolStatus::Error);
    assert!(result.output.contains("500"), "{}", result.output);
    assert!(
        !result.output.contains("sk-1234567") && !result.output.contains("blue-team"),
        "{}",
        result.output
    );
    assert!(seen.load(Ordering::SeqCst) >= 3);
    let refused = far(&url).build().unwrap().connect().await.unwrap_err();
    assert!(
        matches!(&refused, McpError::Connect { .. }) && refused.to_string().contains("401"),
        "{refused}"
    );
}

#[tokio::test]
async fn a_lost_answer_is_asked_for_again_only_where_that_does_no_harm() {
    for (broken, policy, calls) in [
        ("data: {\"jsonrpc\"", ToolPolicy::default().effects(Effects::Read), 2),
        ("data: {\"jsonrpc\"", ToolPolicy::default(), 1),
    ] {
        let made = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&made);
        let url = server(move |request| {
            if request.method() != "tools/call" {
                return None;
            }
            (counted.fetch_add(1, Ordering::SeqCst) == 0).then_some(Response::Broken(broken))
        })
        .await;
        let client = far(&url).policy(policy).build().unwrap();
        let result = work(&client).await;
        assert_eq!(result.status.is_success(), calls == 2, "{}", result.output);
        assert!(
            calls == 2 || result.output.contains("whether the call had its effect is unknown"),
            "{}",
            result.output
        );
        assert_eq!(made.load(Ordering::SeqCst), calls);
        // The next call succeeds.
        assert_eq!(&*work(&client).await.text(), "done");
    }
}

#[tokio::test]
async fn a_server_that_has_forgotten_the_connection_is_connected_to_again() {
    let forgot = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&forgot);
    let url = server(move |request| match request.method() {
        "tools/call" if counted.fetch_add(1, Ordering::SeqCst) == 1 => {
            Some(Response::Status("400 Bad Request", "no such session"))
        }
        _ => None,
    })
    .await;
    let client = far(&url).policy(ToolPolicy::default().effects(Effects::Read)).build().unwrap();
    assert_eq!(&*work(&client).await.text(), "done");
    assert_eq!(&*work(&client).await.text(), "done");
    assert_eq!((client.health().connections, forgot.load(Ordering::SeqCst)), (2, 3));
}

#[tokio::test]
async fn one_that_is_not_there_says_so_and_nothing_is_unknown() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    drop(listener);
    let error = far(&url).build().unwrap().connect().await.unwrap_err();
    assert!(matches!(error, McpError::Connect { .. }), "{error}");
    // Includes the cause reported by the HTTP client.
    assert!(error.to_string().contains("(Connect)"), "{error}");
}

#[tokio::test]
async fn one_that_is_silent_costs_the_time_of_its_limits() {
    let url =
        server(|request| (request.method() == "tools/call").then_some(Response::Silence)).await;
    let client =
        McpClient::http("far", &url).call_timeout(Duration::from_millis(300)).build().unwrap();
    assert_eq!(work(&client).await.status, ToolStatus::Timeout);
    let url = server(|_| Some(Response::Silence)).await;
    let error = far(&url)
        .connect_timeout(Duration::from_millis(300))
        .build()
        .unwrap()
        .connect()
        .await
        .unwrap_err();
    assert!(matches!(error, McpError::Silent { .. }), "{error}");
}

#[tokio::test]
async fn an_answer_over_the_limit_is_an_error() {
    let url = server(|request| {
        (request.method() == "tools/call").then(|| {
            let text = "x".repeat(40_000);
            let answer = request.answer(json!({"content": [{"type": "text", "text": text}]}));
            Response::Events(vec![format!("data: {answer}\n\n")])
        })
    })
    .await;
    let client =
        far(&url).max_message(30_000).call_timeout(Duration::from_secs(5)).build().unwrap();
    let result = work(&client).await;
    assert!(!result.status.is_success(), "{}", result.output.len());
    assert!(result.output.len() < 5000, "{}", result.output.len());
}

#[tokio::test]
async fn only_redirects_within_the_origin_are_followed_and_pages_are_refused() {
    let url = server(|request| {
        (!request.head.starts_with("POST /mcp/ "))
            .then_some(Response::Status("307 Temporary Redirect\r\nlocation: /mcp/", ""))
    })
    .await;
    assert_eq!(&*work(&far(&url).build().unwrap()).await.text(), "done");
    let url = server(|_| {
        Some(Response::Status("307 Temporary Redirect\r\nlocation: http://127.0.0.1:1/", ""))
    })
    .await;
    assert!(far(&url).bearer("sk-1234567").build().unwrap().connect().await.is_err());
    // Error for an address that serves no MCP.
    let url = server(|_| Some(Response::Status("404 Not Found", "nothing here"))).await;
    let error = far(&url).build().unwrap().connect().await.unwrap_err().to_string();
    assert!(error.contains("404") && !error.contains("::"), "{error}");
    let url = server(|_| Some(Response::Status("200 OK", "<html>hello</html>"))).await;
    let error = far(&url).build().unwrap().connect().await.unwrap_err();
    assert!(matches!(error, McpError::Connect { .. }), "{error}");
}

#[tokio::test]
async fn what_is_not_an_address_or_a_header_is_refused_before_anything_is_sent() {
    for (client, says) in [
        (far("mcp.example.com"), "is not an address"),
        (far("ftp://example.com/mcp"), "`ftp:`"),
        (far("http://127.0.0.1/mcp").header("a b", "c"), "`a b`"),
        (far("http://127.0.0.1/mcp").header("a", "b\nc"), "cannot be sent"),
    ] {
        let error = client.build().unwrap_err().to_string();
        assert!(error.contains("`far`") && error.contains(says), "{error}");
    }
}

#[tokio::test]
async fn servers_at_addresses_may_stand_in_a_file() {
    let url = server(|request| {
        (!request.head.contains("x-key: k1")).then_some(Response::Status("401 Unauthorized", ""))
    })
    .await;
    let json = json!({"mcpServers": {"far": {"type": "http", "url": url, "headers": {"x-key": "${NO_SUCH:-k1}"}}}});
    let clients = McpConfig::from_json(&json.to_string()).unwrap().clients().unwrap();
    assert_eq!(&*work(&clients[0]).await.text(), "done");
}

#[tokio::test]
async fn a_key_in_the_words_of_a_refusal_is_masked() {
    let url = server(|request| {
        (request.method() == "tools/call").then(|| {
            let error = json!({"code": -32000, "message": "I do not like sk-1234567"});
            Response::Json(json!({"jsonrpc": "2.0", "id": request.message["id"], "error": error}))
        })
    })
    .await;
    let result = work(&far(&url).bearer("sk-1234567").build().unwrap()).await;
    assert!(
        result.output.contains("I do not like") && !result.output.contains("sk-1234567"),
        "{}",
        result.output
    );
}

/// Server messages reach the journal and the model, and a server may echo a key that it received.
#[tokio::test]
async fn a_key_that_a_server_sends_back_is_masked_in_all_messages() {
    const KEY: &str = "sk-1234567890";
    let url = server(|request| {
        let says = format!("your headers were Bearer {KEY} and blue-team");
        let text = json!({"type": "text", "text": says});
        let answer = match request.method() {
            "initialize" => json!({
                "protocolVersion": "2025-11-25", "capabilities": {"tools": {}, "resources": {}, "prompts": {}},
                "serverInfo": {"name": KEY, "version": "1"},
            }),
            "tools/list" => json!({"tools": [{
                "name": "work", "description": says, "inputSchema": {"type": "object", "properties": {KEY: {}}},
            }]}),
            "tools/call" => {
                let token = &request.message["params"]["_meta"]["progressToken"];
                let params = json!({"progressToken": token, "progress": 1, "message": says});
                let progress = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
                let answer =
                    request.answer(json!({"content": [text], "structuredContent": {"key": KEY, "says": says}}));
                let event = |message: Value| format!("event: message\ndata: {message}\n\n");
                return Some(Response::Events(vec![event(progress), event(answer)]));
            }
            "resources/list" => json!({"resources": [{"uri": "note://a", "name": says}]}),
            "resources/read" => json!({"contents": [{"uri": "note://a", "text": says}]}),
            "prompts/list" => json!({"prompts": [{"name": "sum", "description": says}]}),
            "prompts/get" => json!({"messages": [{"role": "user", "content": text}]}),
            _ => return None,
        };
        Some(Response::Json(request.answer(answer)))
    })
    .await;
    let client = far(&url).bearer(KEY).header("x-team", "blue-team").build().unwrap();
    let model = ScriptedModel::from_fn(|request| match request.messages.len() {
        1 => Turn::call("mcp__far__work", json!({})),
        _ => Turn::text("done"),
    })
    .capturing();
    let agent = Agent::new(model.clone()).tools(client.clone());
    let runtime = Runtime::builder().store(MemoryStore::new()).build();
    let run = agent.runtime(&runtime).start("Go.").unwrap();
    let id = run.run_id().clone();
    run.result().await.unwrap();
    let journal = serde_json::to_string(&runtime.run(&id).journal().await.unwrap()).unwrap();
    assert!(journal.contains("your headers were Bearer *** and ***"), "{journal}");
    let seen = format!(
        "{journal} {:?} {:?} {:?} {:?} {:?} {:?}",
        model.requests(),
        client.resources().await.unwrap(),
        client.resource("note://a").await.unwrap(),
        client.prompts().await.unwrap(),
        client.prompt("sum", &[]).await.unwrap(),
        client.health()
    );
    assert!(seen.contains("your headers were"), "{seen}");
    assert!(!seen.contains(KEY) && !seen.contains("blue-team"), "{seen}");
}

#[tokio::test]
async fn resources_and_prompts_are_read_over_both_forms_of_an_answer() {
    for is_stream in [false, true] {
        let url = server(move |request| {
            let answer = match request.method() {
                "initialize" => json!({
                    "protocolVersion": "2025-11-25", "capabilities": {"resources": {}, "prompts": {}},
                    "serverInfo": {"name": "h", "version": "1"},
                }),
                "resources/list" => json!({"resources": [{"uri": "note://a", "name": "a"}]}),
                "resources/read" => json!({"contents": [{"uri": "note://a", "text": "one"}]}),
                "prompts/get" => {
                    json!({"messages": [{"role": "user", "content": {"type": "text", "text": "Sum up."}}]})
                }
                _ => return None,
            };
            let answer = request.answer(answer);
            Some(match is_stream {
                true => Response::Events(vec![format!("event: message\ndata: {answer}\n\n")]),
                false => Response::Json(answer),
            })
        })
        .await;
        let client = far(&url).build().unwrap();
        assert_eq!(client.resources().await.unwrap()[0].uri, "note://a");
        // The server rejects the request for templates, which counts as an empty list.
        assert!(client.resource_templates().await.unwrap().is_empty());
        assert_eq!(client.resource("note://a").await.unwrap()[0].text(), Some("one"));
        assert_eq!(client.prompt("sum", &[]).await.unwrap()[0].text(), "Sum up.");
    }
}

#[tokio::test]
async fn contents_over_the_limit_are_an_error_of_the_read() {
    let url = server(|request| {
        (request.method() == "resources/read").then(|| {
            let answer =
                request.answer(json!({"contents": [{"uri": "a", "text": "x".repeat(40_000)}]}));
            Response::Events(vec![format!("data: {answer}\n\n")])
        })
    })
    .await;
    let client =
        far(&url).max_message(30_000).call_timeout(Duration::from_secs(5)).build().unwrap();
    let error = client.resource("a").await.unwrap_err();
    assert!(error.to_string().len() < 5000, "{}", error.to_string().len());
}

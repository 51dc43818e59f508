//! Misbehaving MCP servers. Every call returns a typed error in bounded time.

use agentflow::mcp::{McpClient, McpClientBuilder, McpError};
use agentflow::message::{ToolCall, ToolResult, ToolStatus};
use agentflow::prelude::*;
use agentflow::runtime::BootPhase;
use agentflow::serde_json::{Value, json};
use agentflow::tool::{Effects, ToolPolicy};
use agentflow_testing::{McpAnswer, ScriptedMcp, ScriptedModel, Turn};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};

use super::mcp_tools::client;

fn work() -> ScriptedMcp {
    ScriptedMcp::new([ScriptedMcp::tool("work", json!({}))])
}

fn runtime(client: &McpClient) -> Runtime {
    Runtime::builder().toolset(client.clone()).build()
}

async fn called(runtime: &Runtime) -> ToolResult {
    runtime.invoke(&ToolCall::new("c", "mcp.notes.work", "{}"), &[]).await.unwrap()
}

/// Creates a client of a server whose responses come from `answer`: the lines for each request.
fn peer(
    answer: impl Fn(&str, &Value) -> Vec<Vec<u8>> + Clone + Send + Sync + 'static,
) -> McpClientBuilder {
    McpClient::in_memory("notes", move || {
        let (near, far) = tokio::io::duplex(1 << 16);
        tokio::spawn(serve(far, answer.clone()));
        near
    })
}

async fn serve(stream: DuplexStream, answer: impl Fn(&str, &Value) -> Vec<Vec<u8>>) {
    let (read, mut write) = tokio::io::split(stream);
    let mut lines = BufReader::new(read).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let message: Value = serde_json::from_str(&line).unwrap();
        let method = message["method"].as_str().unwrap_or_default();
        let bytes = match (method, &message["id"]) {
            ("initialize", id) => vec![of(
                id,
                json!({
                    "protocolVersion": "2025-11-25", "capabilities": {"tools": {}, "resources": {}, "prompts": {}},
                    "serverInfo": {"name": "p", "version": "1"},
                }),
            )],
            ("server/discover", id) => {
                vec![line_of(
                    &json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "unknown"}}),
                )]
            }
            (_, Value::Null) => Vec::new(),
            (method, id) => answer(method, id),
        };
        for bytes in bytes {
            if write.write_all(&bytes).await.is_err() {
                return;
            }
        }
    }
}

fn line_of(message: &Value) -> Vec<u8> {
    format!("{message}\n").into_bytes()
}

fn of(id: &Value, result: Value) -> Vec<u8> {
    line_of(&json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

fn tool(name: &str) -> Value {
    ScriptedMcp::tool(name, json!({}))
}

#[tokio::test(start_paused = true)]
async fn one_that_never_answers_the_handshake_fails_within_the_time_for_connecting() {
    let kept = std::sync::Mutex::new(Vec::new());
    let client = McpClient::in_memory("notes", move || {
        let (near, far) = tokio::io::duplex(64);
        kept.lock().unwrap().push(far);
        near
    });
    let client = client.connect_timeout(std::time::Duration::from_secs(7)).build().unwrap();
    let began = tokio::time::Instant::now();
    let error = client.connect().await.unwrap_err();
    assert_eq!(error.to_string(), "the MCP server `notes` did not answer `initialize` within 7s");
    assert_eq!(began.elapsed().as_secs(), 7);
    assert_eq!((client.health().is_connected, client.health().failures), (false, 1));
}

/// Runs a server of the handshake protocol that answers every unknown method with an empty result.
async fn agreeable(stream: DuplexStream) {
    let (read, mut write) = tokio::io::split(stream);
    let mut lines = BufReader::new(read).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let message: Value = serde_json::from_str(&line).unwrap();
        let about = json!({"name": "p", "version": "1"});
        let result = match message["method"].as_str().unwrap_or_default() {
            _ if message["id"].is_null() => continue,
            "initialize" => {
                json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": about})
            }
            "tools/list" => json!({"tools": [tool("work")]}),
            "tools/call" => json!({"content": [{"type": "text", "text": "done"}]}),
            _ => json!({}),
        };
        if write.write_all(&of(&message["id"], result)).await.is_err() {
            return;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_answers_whatever_it_is_asked_is_connected_to_with_a_handshake() {
    let client = McpClient::in_memory("notes", || {
        let (near, far) = tokio::io::duplex(1 << 16);
        tokio::spawn(agreeable(far));
        near
    });
    let client = client.build().unwrap();
    client.connect().await.unwrap();
    let result = called(&runtime(&client)).await;
    assert_eq!((result.status, &*result.text()), (ToolStatus::Success, "done"), "{result:?}");
}

#[tokio::test(start_paused = true)]
async fn an_endless_list_of_tools_keeps_its_first_ones() {
    let endless = peer(|_, id| {
        let page = json!({"tools": [tool("work")], "nextCursor": id.to_string()});
        vec![of(id, page)]
    });
    let circle = peer(|_, id| vec![of(id, json!({"tools": [], "nextCursor": "again"}))]);
    let many = peer(|_, id| {
        let tools: Vec<Value> = (0..1001).map(|n| tool(&format!("t{n}"))).collect();
        vec![of(id, json!({"tools": tools}))]
    });
    for (client, says, kept) in [
        (endless, "more than 100 pages", 1),
        (circle, "leads back to itself", 0),
        (many, "more than 1000 tools", 1000),
    ] {
        let client = client.build().unwrap();
        assert_eq!(client.toolset().tools().await.unwrap().len(), kept, "{says}");
        let left_out = client.health().left_out;
        let (name, reason) = left_out.last().unwrap();
        assert!(name == "*" && reason.contains(says), "{left_out:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_is_listed_twice_does_not_fail_an_agent() {
    let other =
        json!({"name": "work", "description": "Another one.", "inputSchema": {"type": "object"}});
    let tools = [tool("work"), other, tool("a.b"), tool("a__b"), tool("last")];
    let client = peer(move |_, id| vec![of(id, json!({"tools": tools}))]).build().unwrap();
    let agent = Agent::new(ScriptedModel::new([Turn::text("done")])).tools(client.clone());
    assert_eq!(agent.run("Go.").await.unwrap().output(), "done");
    let offered = client.toolset().tools().await.unwrap();
    let offered: Vec<String> =
        offered.iter().map(|tool| tool.definition().description.to_string()).collect();
    assert_eq!(offered.len(), 3, "{offered:?}");
    assert!(offered.contains(&"The tool work.".to_owned()), "the first one stays: {offered:?}");
    let left_out = client.health().left_out;
    let names: Vec<&str> = left_out.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["work", "a__b"]);
    assert!(left_out[1].1.contains("the tool `a.b`, which is listed before it"), "{left_out:?}");
}

#[tokio::test(start_paused = true)]
async fn a_page_that_does_not_arrive_is_waited_for_within_the_limit_of_all() {
    let client =
        peer(|_, _| Vec::new()).call_timeout(std::time::Duration::from_secs(9)).build().unwrap();
    let error = client.toolset().tools().await.unwrap_err().to_string();
    assert!(error.contains("did not answer `tools/list` within 9s"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_message_over_the_limit_ends_the_connection_and_its_calls() {
    for (bytes, limit) in [(vec![b' '; (16 << 20) + 1], None), (vec![b' '; 2000], Some(1500))] {
        let server =
            work().answers([("work", McpAnswer::Raw(bytes)), ("work", McpAnswer::text("done"))]);
        let client = client(&server);
        let client = limit.into_iter().fold(client, McpClientBuilder::max_message).build().unwrap();
        let runtime = runtime(&client);
        let result = called(&runtime).await;
        assert_eq!(result.status, ToolStatus::Error);
        assert!(result.output.contains("a message has more than "), "{}", result.output);
        assert!(
            result.output.contains("whether the call had its effect is unknown"),
            "{}",
            result.output
        );
        // The next call opens a new connection.
        assert_eq!((&*called(&runtime).await.text(), server.connections()), ("done", 2));
        server.finish();
    }
}

#[tokio::test(start_paused = true)]
async fn half_a_message_and_silence_end_with_the_time_of_the_call() {
    let half = McpAnswer::Raw(br#"{"jsonrpc": "2.0", "id":"#.to_vec());
    let server = work().answers([("work", half), ("work", McpAnswer::Silence)]);
    let client = client(&server).call_timeout(std::time::Duration::from_secs(5)).build().unwrap();
    let runtime = runtime(&client);
    for _ in 0..2 {
        let began = tokio::time::Instant::now();
        let result = called(&runtime).await;
        assert_eq!((result.status, began.elapsed().as_secs()), (ToolStatus::Timeout, 5));
    }
    server.finish();
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_drips_ends_with_the_time_of_the_call() {
    let client = McpClient::in_memory("notes", || {
        let (near, far) = tokio::io::duplex(1 << 16);
        tokio::spawn(async move {
            let (read, mut write) = tokio::io::split(far);
            let mut lines = BufReader::new(read).lines();
            let mut answer = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "p", "version": "1"}});
            while let Ok(Some(line)) = lines.next_line().await {
                let message: Value = serde_json::from_str(&line).unwrap();
                match message["method"].as_str().unwrap() {
                    "server/discover" => {
                        let error = json!({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no"}});
                        write.write_all(&line_of(&error)).await.unwrap();
                    }
                    "initialize" => {
                        for byte in of(&message["id"], answer.take()) {
                            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
                            if write.write_all(&[byte]).await.is_err() {
                                return;
                            }
                        }
                    }
                    _ => {}
                }
            }
        });
        near
    });
    let error = client.build().unwrap().connect().await.unwrap_err().to_string();
    assert!(error.contains("did not answer `initialize` within 25s"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn doubled_answers_and_answers_to_nobody_change_nothing() {
    let client = peer(|method, id| match method {
        "tools/list" => {
            let list = of(id, json!({"tools": [tool("work")]}));
            vec![list.clone(), of(&json!(4711), json!({"tools": []})), list]
        }
        _ => {
            let one = of(id, json!({"content": [{"type": "text", "text": "one"}]}));
            let other = of(id, json!({"content": [{"type": "text", "text": "two"}]}));
            vec![b"noise\n".to_vec(), b"[]\n".to_vec(), one, other]
        }
    });
    let client = client.build().unwrap();
    let runtime = runtime(&client);
    for _ in 0..3 {
        assert_eq!(&*called(&runtime).await.text(), "one");
    }
    assert_eq!(client.health().connections, 1);
}

#[tokio::test(start_paused = true)]
async fn a_line_in_place_of_an_answer_is_an_error_that_quotes_it() {
    for (line, quoted) in [
        ("pong", "`pong`"),
        (r#"{"jsonrpc": "2.0", "id": 3, "resu"#, r#"`{"jsonrpc": "2.0", "id": 3, "resu`"#),
    ] {
        let client = peer(move |method, id| match method {
            "tools/list" => vec![of(id, json!({"tools": [tool("work")]}))],
            _ => vec![format!("{line}\n").into_bytes()],
        });
        let client = client.build().unwrap();
        let runtime = runtime(&client);
        client.connect().await.unwrap();
        let since = tokio::time::Instant::now();
        let result = called(&runtime).await;
        assert_eq!(result.status, ToolStatus::Error, "{result:?}");
        assert!(result.text().contains(quoted), "{}", result.text());
        assert!(since.elapsed() < std::time::Duration::from_secs(40), "{:?}", since.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_log_among_messages_is_tolerated_before_a_slow_answer() {
    let client = McpClient::in_memory("notes", || {
        let (near, far) = tokio::io::duplex(1 << 16);
        tokio::spawn(async move {
            let (mut read, mut write) = tokio::io::split(far);
            let (near, inner) = tokio::io::duplex(1 << 16);
            tokio::spawn(serve(inner, |method, id| match method {
                "tools/list" => {
                    vec![b"listing\n".to_vec(), of(id, json!({"tools": [tool("work")]}))]
                }
                _ => vec![of(id, json!({"content": [{"type": "text", "text": "one"}]}))],
            }));
            let (mut from, mut to) = tokio::io::split(near);
            tokio::spawn(async move { tokio::io::copy(&mut read, &mut to).await });
            let mut lines = BufReader::new(&mut from).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                if line.contains("content") {
                    write.write_all(b"working\n").await.unwrap();
                    tokio::time::sleep(std::time::Duration::from_secs(40)).await;
                }
                write.write_all(format!("{line}\n").as_bytes()).await.unwrap();
            }
        });
        near
    });
    assert_eq!(&*called(&runtime(&client.build().unwrap())).await.text(), "one");
}

#[tokio::test(start_paused = true)]
async fn health_asks_a_server_whose_tools_are_known() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let gone = std::sync::Arc::new(AtomicBool::new(false));
    let is_gone = std::sync::Arc::clone(&gone);
    let client = McpClient::in_memory("notes", move || {
        let (near, far) = tokio::io::duplex(1 << 16);
        let gone = std::sync::Arc::clone(&is_gone);
        if !gone.load(Ordering::SeqCst) {
            tokio::spawn(serve(far, move |_, id| match gone.load(Ordering::SeqCst) {
                true => Vec::new(),
                false => vec![of(id, json!({"tools": [tool("work")]}))],
            }));
        }
        near
    });
    let runtime = runtime(&client.build().unwrap());
    runtime.catalogue().snapshot().await.check().unwrap();
    assert!(runtime.health().await.problem_of(BootPhase::Toolsets).is_none());
    gone.store(true, Ordering::SeqCst);
    let health = runtime.health().await;
    let problem = health.problem_of(BootPhase::Toolsets).expect("the server is gone").to_string();
    assert!(problem.contains("mcp.notes"), "{problem}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_to_another_question_is_an_error() {
    let client = peer(|method, id| match method {
        "tools/list" => vec![of(id, json!({"tools": [tool("work")]}))],
        _ => vec![of(id, json!({"roots": []}))],
    });
    let client = client.call_timeout(std::time::Duration::from_secs(5)).build().unwrap();
    let result = called(&runtime(&client)).await;
    assert!(!result.status.is_success(), "{result:?}");
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_connection_is_lost_is_repeated_only_where_that_does_no_harm() {
    let read = ToolPolicy::default().effects(Effects::Read);
    for (policy, text, calls) in [(read, "done", 2), (ToolPolicy::default(), "unknown", 1)] {
        let server =
            work().answers([("work", McpAnswer::HangUp), ("work", McpAnswer::text("done"))]);
        let client = client(&server).policy(policy).build().unwrap();
        let runtime = runtime(&client);
        let result = called(&runtime).await;
        assert!(result.text().contains(text), "{}", result.text());
        assert_eq!(server.calls().len(), calls);
        if calls == 1 {
            assert_eq!(&*called(&runtime).await.text(), "done");
        }
        assert_eq!(server.connections(), 2);
        server.finish();
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_ends_in_every_call_rests_after_a_while() {
    let server = ScriptedMcp::from_fn([tool("work")], |_, _| McpAnswer::HangUp);
    let client = client(&server).restarts(2).build().unwrap();
    let runtime = runtime(&client);
    let began = tokio::time::Instant::now();
    for connections in 1..=3 {
        let result = called(&runtime).await;
        assert!(
            result.output.contains("ended before it answered `tools/call`"),
            "{}",
            result.output
        );
        assert_eq!(server.connections(), connections);
    }
    assert_eq!(began.elapsed().as_millis() / 100, 3, "100 ms and 200 ms");
    for _ in 0..3 {
        let result = called(&runtime).await;
        assert!(result.output.contains("ended 3 times in a row"), "{}", result.output);
    }
    assert_eq!((server.connections(), client.health().failures), (3, 3));
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    called(&runtime).await;
    assert_eq!(server.connections(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_cannot_be_used_is_left_out_with_the_reason() {
    let mut deep = json!({"type": "object"});
    // Deeper than our limit, but within the limit of the JSON parser.
    for _ in 0..50 {
        deep = json!({"type": "object", "properties": {"a": deep}});
    }
    let with = |name: &str, schema: Value| json!({"name": name, "inputSchema": schema});
    let large = json!({"type": "object", "description": "x".repeat(70_000)});
    let server = ScriptedMcp::new([
        with("deep", deep),
        with("large", large),
        with("list", json!({"type": "array"})),
        with("wrong", json!({"type": "object", "properties": {"a": {"type": "no such type"}}})),
        with("", json!({"type": "object"})),
        tool("work"),
    ]);
    let client = client(&server).build().unwrap();
    let tools = client.toolset().tools().await.unwrap();
    assert_eq!(
        tools.iter().map(|tool| tool.catalogue_name().to_string()).collect::<Vec<_>>(),
        ["mcp.notes.work"]
    );
    let left_out = client.health().left_out;
    for (name, says) in [
        ("deep", "deeper than 64"),
        ("large", "65536 is the most"),
        ("list", "not one of an object"),
        ("wrong", "not a JSON Schema"),
        ("", "its name"),
    ] {
        let reason = left_out.iter().find(|(of, _)| of == name).map(|(_, reason)| reason.as_str());
        assert!(reason.is_some_and(|reason| reason.contains(says)), "{name}: {reason:?}");
    }
    assert_eq!(left_out.len(), 5);
}

#[tokio::test(start_paused = true)]
async fn an_answer_over_the_tools_limit_is_an_error_and_the_connection_stays() {
    let server = work().answers([
        ("work", McpAnswer::text("x".repeat(100_000))),
        ("work", McpAnswer::text("done")),
    ]);
    let client = client(&server).build().unwrap();
    let runtime = runtime(&client);
    assert_eq!(called(&runtime).await.status, ToolStatus::OutputTooLarge);
    assert_eq!((&*called(&runtime).await.text(), server.connections()), ("done", 1));
    server.finish();
}

#[tokio::test(start_paused = true)]
async fn floods_of_progress_lose_words_and_not_the_answer() {
    let words = (0..5000).map(|n| json!({"progress": n, "message": "x".repeat(100)})).collect();
    let server =
        work().answers([("work", McpAnswer::Progress(words, Box::new(McpAnswer::text("done"))))]);
    let client = client(&server).build().unwrap();
    assert_eq!(&*called(&runtime(&client)).await.text(), "done");
    server.finish();
}

/// Makes the five kinds of reads and returns their errors.
async fn reads(client: &McpClient) -> [(&'static str, McpError); 5] {
    [
        ("resources/list", client.resources().await.unwrap_err()),
        ("resources/templates/list", client.resource_templates().await.unwrap_err()),
        ("resources/read", client.resource("note://a").await.unwrap_err()),
        ("prompts/list", client.prompts().await.unwrap_err()),
        ("prompts/get", client.prompt("sum", &[]).await.unwrap_err()),
    ]
}

#[tokio::test(start_paused = true)]
async fn reads_of_one_that_is_mute_end_with_their_time() {
    let mute: fn(&Value) -> Vec<u8> = |_| Vec::new();
    let half: fn(&Value) -> Vec<u8> = |id| {
        let mut half = of(id, json!({"contents": []}));
        half.truncate(20);
        half
    };
    for answer in [mute, half] {
        let client =
            peer(move |_, id| vec![answer(id)]).call_timeout(std::time::Duration::from_secs(9));
        let client = client.build().unwrap();
        let began = tokio::time::Instant::now();
        for (request, error) in reads(&client).await {
            assert_eq!(
                error.to_string(),
                format!("the MCP server `notes` did not answer `{request}` within 9s")
            );
        }
        assert_eq!(began.elapsed().as_secs(), 5 * 9);
    }
}

#[tokio::test(start_paused = true)]
async fn reads_with_values_of_wrong_types_are_errors() {
    for wrong in [
        json!({"resources": 7, "resourceTemplates": 7, "contents": 7, "prompts": 7, "messages": 7}),
        json!({"contents": [{"uri": "note://a"}], "messages": [{"role": "user", "content": {"type": "unknown"}}]}),
        json!({"contents": [{"uri": "note://a", "blob": "no base64!"}], "messages": [{"role": "god", "content": {}}]}),
        json!({"roots": []}),
        json!({}),
        json!([]),
        json!(7),
        Value::Null,
    ] {
        let client = peer(move |_, id| vec![of(id, wrong.clone())])
            .call_timeout(std::time::Duration::from_secs(9));
        for (request, error) in reads(&client.build().unwrap()).await {
            let is_typed = match &error {
                McpError::Answer { request: of, .. } | McpError::Silent { request: of, .. } => {
                    *of == request
                }
                _ => false,
            };
            assert!(is_typed, "{request}: {error}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn lists_without_end_are_errors_of_every_list() {
    let entry =
        |name: &str| json!({"uri": format!("note://{name}"), "uriTemplate": name, "name": name});
    let page = |entries: Vec<Value>, next: Value| json!({"resources": entries, "resourceTemplates": entries, "prompts": entries, "nextCursor": next});
    // A result contains a single list, because the client identifies the list by its field.
    let of_list = |method: &str, page: &Value| {
        let key = match method {
            "resources/list" => "resources",
            "prompts/list" => "prompts",
            _ => "resourceTemplates",
        };
        json!({key: page[key], "nextCursor": page["nextCursor"]})
    };
    let endless = peer(move |method, id| {
        vec![of(id, of_list(method, &page(vec![entry("a")], id.to_string().into())))]
    });
    let circle =
        peer(move |method, id| vec![of(id, of_list(method, &page(Vec::new(), "again".into())))]);
    let many = peer(move |method, id| {
        let entries = (0..1001).map(|n| entry(&n.to_string())).collect();
        vec![of(id, of_list(method, &page(entries, Value::Null)))]
    });
    let huge = peer(move |method, id| {
        let name = "x".repeat(90_000);
        vec![of(id, of_list(method, &page(vec![entry(&name)], id.to_string().into())))]
    });
    let huge = huge.max_message(300_000);
    for (client, says) in [
        (endless, "more than 100 pages"),
        (circle, "leads back to itself"),
        (many, "more than 1000 "),
        (huge, "more than 300000 bytes"),
    ] {
        let client = client.build().unwrap();
        let errors = [
            client.resources().await.unwrap_err(),
            client.resource_templates().await.unwrap_err(),
            client.prompts().await.unwrap_err(),
        ];
        for error in errors {
            assert!(
                matches!(&error, McpError::Answer { problem, .. } if problem.contains(says)),
                "{error}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn pages_of_tools_have_a_limit_in_bytes() {
    let client = peer(|_, id| {
        let mut tool = tool(&format!("t{id}"));
        tool["description"] = "x".repeat(90_000).into();
        vec![of(id, json!({"tools": [tool], "nextCursor": id.to_string()}))]
    });
    let client = client.max_message(300_000).build().unwrap();
    assert_eq!(client.toolset().tools().await.unwrap().len(), 3);
    let left_out = client.health().left_out;
    assert_eq!(left_out, [("*".to_owned(), "its pages have more than 300000 bytes".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn entries_that_cannot_be_asked_for_are_left_out() {
    let client = peer(|method, id| {
        let names = ["", "a\nb", &"x".repeat(9000), "good"].map(ToOwned::to_owned);
        vec![of(
            id,
            match method {
                "resources/list" => {
                    json!({"resources": names.map(|name| json!({"uri": name, "name": "n"}))})
                }
                "prompts/list" => json!({"prompts": names.map(|name| json!({"name": name}))}),
                _ => {
                    json!({"resourceTemplates": names.map(|name| json!({"uriTemplate": name, "name": "n"}))})
                }
            },
        )]
    });
    let client = client.build().unwrap();
    assert_eq!(
        client.resources().await.unwrap().iter().map(|of| of.uri.as_str()).collect::<Vec<_>>(),
        ["good"]
    );
    assert_eq!(
        client.prompts().await.unwrap().iter().map(|of| of.name.as_str()).collect::<Vec<_>>(),
        ["good"]
    );
    assert_eq!(client.resource_templates().await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn contents_over_a_limit_are_an_error() {
    let huge = "x".repeat((16 << 20) + 1);
    let huge =
        peer(move |_, id| vec![of(id, json!({"contents": [{"uri": "note://a", "text": huge}]}))]);
    let error = huge.build().unwrap().resource("note://a").await.unwrap_err().to_string();
    assert!(error.contains("a message has more than 16777216 bytes"), "{error}");
    let many = peer(|method, id| {
        let content = |n: u32| json!({"uri": n.to_string(), "text": ""});
        let message = json!({"role": "user", "content": {"type": "text", "text": ""}});
        vec![of(
            id,
            match method {
                "resources/read" => json!({"contents": (0..1001).map(content).collect::<Vec<_>>()}),
                _ => json!({"messages": vec![message; 1001]}),
            },
        )]
    });
    let client = many.build().unwrap();
    let read = client.resource("note://a").await.unwrap_err().to_string();
    assert!(read.contains("it has 1001 contents, and 1000 is the most"), "{read}");
    let prompt = client.prompt("sum", &[]).await.unwrap_err().to_string();
    assert!(prompt.contains("it has 1001 messages, and 1000 is the most"), "{prompt}");
}

#[tokio::test(start_paused = true)]
async fn a_doubled_answer_to_a_read_changes_nothing() {
    let client = peer(|_, id| {
        let text = |text: &str| of(id, json!({"contents": [{"uri": "note://a", "text": text}]}));
        vec![text("one"), text("two"), of(&json!(4711), json!({"contents": []}))]
    });
    let client = client.build().unwrap();
    for _ in 0..3 {
        assert_eq!(client.resource("note://a").await.unwrap()[0].text(), Some("one"));
    }
    assert_eq!(client.health().connections, 1);
}

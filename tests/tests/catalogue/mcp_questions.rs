//! Questions that an MCP server asks in the middle of a call. They are forwarded to a person,
//! survive restarts, and are answered once.

use std::sync::Arc;
use std::time::Duration;

use agentflow::RunId;
use agentflow::mcp::McpClient;
use agentflow::message::ToolCall;
use agentflow::prelude::*;
use agentflow::serde_json::{self, Value, json};
use agentflow::store::{MemoryStore, RunFilter};
use agentflow::tool::ToolPolicy;
use agentflow::value::Encoded;
use agentflow::workflow::Graph;
use agentflow_testing::{
    CrashTest, McpAnswer, ScriptedMcp, ScriptedModel, Turn, check_events, within,
};
use futures_util::StreamExt;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::sync::Notify;

const QUESTION: &str = "tool#1.mcp__flights__book/ask#1";

/// Creates a server whose tool `book` asks for a seat.
fn flights() -> ScriptedMcp {
    let tools = [ScriptedMcp::tool("book", json!({"to": {"type": "string"}}))];
    ScriptedMcp::from_fn(tools, |_, _| {
        McpAnswer::text("booked").after_asking("Which seat?", json!({"seat": {"type": "string"}}))
    })
}

/// Creates the same server without a handshake. In that protocol the question is the response to
/// the call.
fn flights_of_2026() -> ScriptedMcp {
    flights().without_handshake()
}

fn client(server: &ScriptedMcp) -> McpClient {
    let server = server.clone();
    McpClient::in_memory("flights", move || server.connect()).build().unwrap()
}

fn agent(server: &ScriptedMcp) -> Agent {
    asking(client(server))
}

fn asking(client: McpClient) -> Agent {
    let model = ScriptedModel::from_fn(|request| match request.messages.len() {
        1 => Turn::call("mcp__flights__book", json!({"to": "Oslo"})),
        _ => Turn::text(
            request
                .messages
                .last()
                .map(|last| last.results().map(|of| of.text().into_owned()).collect::<String>())
                .unwrap_or_default(),
        ),
    });
    Agent::new(model).tools(client)
}

#[tokio::test]
async fn a_person_is_asked_and_the_call_continues() {
    for server in [flights(), flights_of_2026()] {
        for (given, answered, said) in [
            (
                json!({"seat": "window"}),
                json!({"action": "accept", "content": {"seat": "window"}}),
                "booked",
            ),
            (Value::Null, json!({"action": "decline"}), "booked"),
        ] {
            let runtime = Runtime::builder().store(MemoryStore::new()).build();
            let run = agent(&server).runtime(&runtime).start("Go.").unwrap();
            run.events().any(|event| async move { event.name() == "run.paused" }).await;
            let question = runtime.runs().questions(RunFilter::new()).await.unwrap().remove(0);
            assert_eq!(question.path.to_string(), QUESTION);
            assert_eq!(question.message, "the MCP server `flights` asks: Which seat?");
            let wrong = runtime
                .run(&question.run)
                .answer(&question.path, &json!({"seat": 7}), "ada")
                .await
                .unwrap_err();
            assert!(wrong.to_string().contains("does not fit"), "{wrong}");
            runtime.run(&question.run).answer(&question.path, &given, "ada").await.unwrap();
            assert_eq!(run.result().await.unwrap().output(), said);
            assert_eq!(server.answered().last(), Some(&answered));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_is_continued_and_not_made_again() {
    let server = flights_of_2026();
    let report = CrashTest::agent(&agent(&server), || "Go.")
        .answer(QUESTION, json!({"seat": "window"}))
        .may_differ_when_interrupted()
        .run()
        .await;
    // The tool runs before the question and after its answer, with two writes each.
    assert_eq!((report.crashes(), report.interrupted()), (16, 4), "{report:?}");
    assert!(server.calls().len() <= 1 + 16, "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn a_node_of_a_graph_asks_as_an_agents_call_does() {
    let server = flights_of_2026();
    let book = json!({"call": {"kind": "tool", "name": "mcp.flights.book", "with": {"object": {"to": {"value": "Oslo"}}}}});
    let graph: Graph = serde_json::from_value(json!({
        "version": 1, "name": "trip", "output": "book", "concurrency": 1, "nodes": [{"name": "book", "does": book}]
    }))
    .unwrap();
    let store = MemoryStore::new();
    let process = || {
        let runtime = Runtime::builder().store(store.clone()).toolset(client(&server));
        runtime.graph(graph.clone()).build()
    };
    let first = process();
    let run = first.start_named("trip", Encoded::new(&json!({})).unwrap()).await.unwrap();
    run.events().any(|event| async move { event.name() == "run.paused" }).await;
    let id = run.run_id().clone();
    drop(run);
    first.drain(Duration::from_millis(10)).await;
    drop(first);
    // A second process waits for the answer and ends before it arrives.
    let second = process();
    let run = second.run(&id).resume().await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    drop(run);
    second.drain(Duration::from_secs(3600)).await;
    drop(second);
    let third = process();
    let question = third.runs().questions(RunFilter::new()).await.unwrap().remove(0);
    assert_eq!(question.path.to_string(), "book/ask#1");
    third.run(&id).answer(&question.path, &json!({"seat": "aisle"}), "ada").await.unwrap();
    third.recover().await.unwrap();
    let answer: String = third.run(&id).output().await.unwrap().decode().unwrap();
    assert_eq!(answer, "booked");
    assert_eq!(server.calls().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_question_on_an_open_connection_is_asked_once_of_a_call_that_may_be_repeated() {
    let server = flights();
    let book = ToolPolicy::default().idempotent();
    let of = server.clone();
    let client = McpClient::in_memory("flights", move || of.connect())
        .tool_policy("book", book)
        .build()
        .unwrap();
    let report = CrashTest::agent(&asking(client), || "Go.")
        .answer(QUESTION, json!({"seat": "window"}))
        .run()
        .await;
    assert_eq!(report.interrupted(), 0, "{report:?}");
}

#[tokio::test]
async fn nobody_is_asked_where_nobody_would_find_the_question() {
    // On an open connection the question is declined, and the tool continues with its fallback.
    let server = flights();
    let run = agent(&server).run("Go.").await.unwrap();
    assert_eq!(run.output(), "booked");
    assert_eq!(server.answered(), [json!({"action": "decline"})]);
    let server = flights_of_2026();
    let said = agent(&server).run("Go.").await.unwrap().output().clone();
    assert!(
        said.starts_with(
            "the tool asks a person: the MCP server `flights` asks: Which seat?\nNobody can"
        ),
        "{said}"
    );
    let runtime = Runtime::builder().store(MemoryStore::new()).toolset(client(&server)).build();
    let call = ToolCall::new("c", "mcp.flights.book", "{}");
    let said = runtime.invoke(&call, &[]).await.unwrap();
    assert!(said.output.contains("Nobody can be asked here"), "{}", said.output);
    assert!(server.answered().is_empty());
}

#[tokio::test]
async fn of_several_calls_on_one_connection_none_is_asked() {
    let tools = [ScriptedMcp::tool("book", json!({})), ScriptedMcp::tool("wait", json!({}))];
    let server = ScriptedMcp::new(tools).answers([
        ("wait", McpAnswer::Silence),
        ("book", McpAnswer::text("booked").after_asking("Which seat?", json!({}))),
    ]);
    let runtime = Runtime::builder().store(MemoryStore::new()).build();
    let model = ScriptedModel::new([Turn::calls([
        ("mcp__flights__wait", json!({})),
        ("mcp__flights__book", json!({})),
    ])]);
    let run = Agent::new(model).tools(client(&server)).runtime(&runtime).start("Go.").unwrap();
    server.wait_until(|server| !server.answered().is_empty()).await;
    let refused = &server.answered()[0];
    assert!(
        refused["message"].as_str().is_some_and(|said| said.contains("several calls run")),
        "{refused}"
    );
    run.cancel("enough").await.unwrap();
    server.forgive();
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_given_up_asks_nothing_in_the_name_of_the_next_one() {
    let tools = [ScriptedMcp::tool("book", json!({})), ScriptedMcp::tool("wait", json!({}))];
    let server = ScriptedMcp::new(tools).answers([
        (
            "book",
            McpAnswer::text("booked")
                .after_asking("Which seat?", json!({"seat": {"type": "string"}})),
        ),
        ("wait", McpAnswer::Silence),
        (
            "book",
            McpAnswer::text("booked")
                .after_asking("Which seat?", json!({"seat": {"type": "string"}})),
        ),
    ]);
    let of = server.clone();
    let wait = ToolPolicy::default().timeout(Duration::from_secs(5));
    let client = McpClient::in_memory("flights", move || of.connect())
        .tool_policy("wait", wait)
        .build()
        .unwrap();
    let runtime = Runtime::builder().store(MemoryStore::new()).build();
    let call = |name: &str| Turn::call(format!("mcp__flights__{name}"), json!({}));
    let model = ScriptedModel::new([call("book"), call("wait"), call("book"), Turn::text("done")]);
    let run = Agent::new(model).tools(client).runtime(&runtime).start("Go.").unwrap();
    // The question comes first.
    let question = run.asked().await.unwrap().unwrap();
    run.answer(&question.id, &json!({"seat": "window"}), "ada").await.unwrap();
    assert!(run.asked().await.unwrap().is_none());
    assert_eq!(run.result().await.unwrap().output(), "done");
    let [first, refused] = &server.answered()[..] else { panic!("{:?}", server.answered()) };
    assert_eq!(first["action"], "accept");
    assert!(refused["message"].as_str().is_some_and(|said| said.contains("given up")), "{refused}");
    assert_eq!(server.cancelled(), 1);
}

#[tokio::test]
async fn an_answer_that_would_be_masked_is_refused_and_another_one_counts() {
    for server in [flights(), flights_of_2026()] {
        let secret = agentflow::middleware::redact().secret("swordfish");
        let runtime = Runtime::builder().store(MemoryStore::new()).with(secret).build();
        let run = agent(&server).runtime(&runtime).start("Go.").unwrap();
        let question = run.asked().await.unwrap().unwrap();
        let masked =
            run.answer(&question.id, &json!({"seat": "swordfish"}), "ada").await.unwrap_err();
        assert!(masked.to_string().contains("takes out of its records"), "{masked}");
        assert!(!masked.to_string().contains("swordfish"), "{masked}");
        assert!(server.answered().is_empty());
        run.answer(&question.id, &json!({"seat": "window"}), "ada").await.unwrap();
        run.result().await.unwrap();
        assert_eq!(server.answered(), [json!({"action": "accept", "content": {"seat": "window"}})]);
    }
}

#[tokio::test]
async fn a_run_that_is_cancelled_while_its_tool_waits_ends() {
    for server in [flights(), flights_of_2026()] {
        let runtime = Runtime::builder().store(MemoryStore::new()).build();
        let run = agent(&server).runtime(&runtime).start("Go.").unwrap();
        run.events().any(|event| async move { event.name() == "run.paused" }).await;
        run.cancel("enough").await.unwrap();
        assert!(run.result().await.is_err());
        assert!(runtime.runs().questions(RunFilter::new()).await.unwrap().is_empty());
        check_events(&runtime.run(run.run_id()).journal().await.unwrap()).unwrap();
    }
}

#[tokio::test]
async fn it_is_answered_in_another_process_which_continues_the_call() {
    let (server, store) = (flights_of_2026(), MemoryStore::new());
    let first =
        Runtime::builder().store(store.clone()).agent(&agent(&server).name("booking")).build();
    let run = first.start_agent("booking", r#"{"message": "Go."}"#).await.unwrap();
    run.events().any(|event| async move { event.name() == "run.paused" }).await;
    let id = run.run_id().clone();
    drop(run);
    // The run only waits, so draining ends before the deadline.
    assert_eq!(first.drain(Duration::from_secs(3600)).await.left, std::slice::from_ref(&id));
    drop(first);
    let second = Runtime::builder().store(store).agent(&agent(&server).name("booking")).build();
    let question = second.runs().questions(RunFilter::new()).await.unwrap().remove(0);
    second.run(&id).answer(&question.path, &json!({"seat": "aisle"}), "ada").await.unwrap();
    second.recover().await.unwrap();
    let answer: String = second.run(&id).output().await.unwrap().decode().unwrap();
    assert_eq!(answer, "booked");
    assert_eq!(server.calls().len(), 1);
    assert_eq!(server.answered(), [json!({"action": "accept", "content": {"seat": "aisle"}})]);
}

/// Creates a client of a server whose tool `book` asks a question, withdraws it on request of the
/// test, and then answers.
fn taking_back(takes: &Arc<Notify>) -> McpClient {
    let takes = Arc::clone(takes);
    let serves = async |stream: DuplexStream, takes: Arc<Notify>| {
        let (read, mut write) = tokio::io::split(stream);
        let mut lines = BufReader::new(read).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let message: Value = serde_json::from_str(&line).unwrap();
            let result =
                |result: Value| json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
            let said = match message["method"].as_str().unwrap_or_default() {
                "initialize" => vec![result(json!({
                    "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                    "serverInfo": {"name": "s", "version": "1"},
                }))],
                "server/discover" => {
                    vec![
                        json!({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no"}}),
                    ]
                }
                "tools/list" => {
                    vec![result(json!({"tools": [ScriptedMcp::tool("book", json!({}))]}))]
                }
                "tools/call" => {
                    let schema =
                        json!({"type": "object", "properties": {"seat": {"type": "string"}}});
                    let asks = json!({
                        "jsonrpc": "2.0", "id": "q1", "method": "elicitation/create",
                        "params": {"message": "Which seat?", "requestedSchema": schema},
                    });
                    write.write_all(format!("{asks}\n").as_bytes()).await.unwrap();
                    within("`takes`", takes.notified()).await;
                    let back = json!({
                        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "q1"},
                    });
                    write.write_all(format!("{back}\n").as_bytes()).await.unwrap();
                    within("`takes`", takes.notified()).await;
                    vec![result(json!({"content": [{"type": "text", "text": "any seat"}]}))]
                }
                _ => Vec::new(),
            };
            for said in said {
                write.write_all(format!("{said}\n").as_bytes()).await.unwrap();
            }
        }
    };
    let connect = move || {
        let (near, far) = tokio::io::duplex(1 << 16);
        tokio::spawn(serves(far, Arc::clone(&takes)));
        near
    };
    McpClient::in_memory("flights", connect).build().unwrap()
}

#[tokio::test]
async fn a_question_that_its_server_takes_back_is_closed() {
    let takes = Arc::new(Notify::new());
    let runtime = Runtime::builder().store(MemoryStore::new()).build();
    let run = asking(taking_back(&takes)).runtime(&runtime).start("Go.").unwrap();
    let question = run.asked().await.unwrap().unwrap();
    takes.notify_one();
    within("the questions to be answered", async {
        while !runtime.runs().questions(RunFilter::new()).await.unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let late = runtime
        .run(&question.run)
        .answer(&question.id, &json!({"seat": "window"}), "ada")
        .await
        .unwrap_err();
    let journal = runtime.run(run.run_id()).journal().await.unwrap();
    assert!(late.to_string().contains("waits for no answer"), "{late} {journal:#?}");
    assert_eq!(runtime.run(run.run_id()).record().await.unwrap().pause_reason, None);
    takes.notify_one();
    assert_eq!(run.result().await.unwrap().output(), "any seat");
    check_events(&runtime.run(run.run_id()).journal().await.unwrap()).unwrap();
}

/// Creates a client of a server whose tool `wait` answers only after it is cancelled, and whose
/// tool `book` asks a question.
fn answering_late() -> McpClient {
    let serves = async |stream: DuplexStream| {
        let (read, mut write) = tokio::io::split(stream);
        let mut lines = BufReader::new(read).lines();
        let mut booked = Value::Null;
        while let Ok(Some(line)) = lines.next_line().await {
            let message: Value = serde_json::from_str(&line).unwrap();
            let result =
                |id: &Value, result: Value| json!({"jsonrpc": "2.0", "id": id, "result": result});
            let id = &message["id"];
            let said = match message["method"].as_str().unwrap_or_default() {
                "initialize" => result(
                    id,
                    json!({
                        "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                        "serverInfo": {"name": "s", "version": "1"},
                    }),
                ),
                "server/discover" => {
                    json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no"}})
                }
                "tools/list" => {
                    let tools = ["book", "wait"].map(|name| ScriptedMcp::tool(name, json!({})));
                    result(id, json!({"tools": tools}))
                }
                "tools/call" if message["params"]["name"] == "wait" => continue,
                "tools/call" => {
                    booked = id.clone();
                    let schema =
                        json!({"type": "object", "properties": {"seat": {"type": "string"}}});
                    json!({
                        "jsonrpc": "2.0", "id": "q1", "method": "elicitation/create",
                        "params": {"message": "Which seat?", "requestedSchema": schema},
                    })
                }
                "notifications/cancelled" => {
                    let error = json!({"code": 0, "message": "Request cancelled"});
                    json!({"jsonrpc": "2.0", "id": message["params"]["requestId"], "error": error})
                }
                _ if message["id"] == "q1" => {
                    let text =
                        message["result"]["content"]["seat"].as_str().unwrap_or("nobody asked");
                    result(&booked, json!({"content": [{"type": "text", "text": text}]}))
                }
                _ => continue,
            };
            write.write_all(format!("{said}\n").as_bytes()).await.unwrap();
        }
    };
    let connect = move || {
        let (near, far) = tokio::io::duplex(1 << 16);
        tokio::spawn(serves(far));
        near
    };
    let wait = ToolPolicy::default().timeout(Duration::from_secs(5));
    McpClient::in_memory("flights", connect).tool_policy("wait", wait).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_given_up_and_is_answered_after_all_keeps_nobody_from_being_asked() {
    let runtime = Runtime::builder().store(MemoryStore::new()).build();
    let call = |name: &str| Turn::call(format!("mcp__flights__{name}"), json!({}));
    let model = ScriptedModel::new([call("wait"), call("book"), Turn::text("done")]);
    let run = Agent::new(model).tools(answering_late()).runtime(&runtime).start("Go.").unwrap();
    let question = run
        .asked()
        .await
        .unwrap()
        .unwrap_or_else(|| panic!("nobody was asked: {:?}", run.recorded()));
    run.answer(&question.id, &json!({"seat": "window"}), "ada").await.unwrap();
    assert_eq!(run.result().await.unwrap().output(), "done");
}

/// Starts a process with a run that waits for a question, over a shared store.
async fn asked(server: &ScriptedMcp, store: &MemoryStore) -> (Runtime, RunId) {
    let runtime =
        Runtime::builder().store(store.clone()).agent(&agent(server).name("booking")).build();
    let run = runtime.start_agent("booking", r#"{"message": "Go."}"#).await.unwrap();
    run.events().any(|event| async move { event.name() == "run.paused" }).await;
    let id = run.run_id().clone();
    (runtime, id)
}

#[tokio::test]
async fn a_question_is_answered_once() {
    let (server, store) = (flights_of_2026(), MemoryStore::new());
    let (first, id) = asked(&server, &store).await;
    first.run(&id).answer(QUESTION, &json!({"seat": "window"}), "ada").await.unwrap();
    let again = first.run(&id).answer(QUESTION, &json!({"seat": "aisle"}), "bob").await;
    assert!(again.is_err(), "the second answer counts");
    assert_eq!(first.run(&id).output().await.unwrap().decode::<String>().unwrap(), "booked");
    assert_eq!(server.answered(), [json!({"action": "accept", "content": {"seat": "window"}})]);
}

#[tokio::test]
async fn a_run_that_waits_in_no_process_can_be_cancelled() {
    let (server, store) = (flights_of_2026(), MemoryStore::new());
    let (first, id) = asked(&server, &store).await;
    first.drain(Duration::from_secs(3600)).await;
    drop(first);
    let second = Runtime::builder().store(store).agent(&agent(&server).name("booking")).build();
    second.run(&id).cancel("enough").await.unwrap();
    second.recover().await.unwrap();
    assert!(second.run(&id).output().await.is_err());
    assert!(second.runs().questions(RunFilter::new()).await.unwrap().is_empty());
    check_events(&second.run(&id).journal().await.unwrap()).unwrap();
    assert_eq!((server.calls().len(), server.answered().len()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_gone_when_the_answer_comes_is_an_error_that_the_model_reads() {
    let (server, store) = (flights_of_2026(), MemoryStore::new());
    let (first, id) = asked(&server, &store).await;
    first.drain(Duration::from_secs(3600)).await;
    drop(first);
    let gone = McpClient::stdio("flights", "/no/such/program").build().unwrap();
    let second = Runtime::builder().store(store).agent(&asking(gone).name("booking")).build();
    second.run(&id).answer(QUESTION, &json!({"seat": "aisle"}), "ada").await.unwrap();
    let left = second.recover().await.unwrap();
    match left.left.first() {
        // Without its server the agent has no tools, so the run waits until the server is
        // available.
        Some((run, error)) => {
            assert!(*run == id && error.to_string().contains("/no/such/program"), "{error}");
        }
        None => {
            let error = second.run(&id).output().await.unwrap_err().to_string();
            assert!(error.contains("/no/such/program"), "{error}");
        }
    }
    assert_eq!(server.calls().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_asks_twice_is_continued_at_each_question() {
    let tools = [ScriptedMcp::tool("book", json!({"to": {"type": "string"}}))];
    let server = ScriptedMcp::from_fn(tools, |_, _| {
        let booked = McpAnswer::text("booked")
            .after_asking("Which meal?", json!({"meal": {"type": "string"}}));
        booked.after_asking("Which seat?", json!({"seat": {"type": "string"}}))
    });
    let server = server.without_handshake();
    let report = CrashTest::agent(&agent(&server), || "Go.")
        .answer(QUESTION, json!({"seat": "window"}))
        .answer("tool#1.mcp__flights__book/ask#2", json!({"meal": "soup"}))
        .may_differ_when_interrupted()
        .run()
        .await;
    // The tool runs before, between and after the questions.
    assert!(report.crashes() > 16 && report.interrupted() <= 6, "{report:?}");
    let meals =
        server.answered().iter().filter(|answer| answer["content"]["meal"] == "soup").count();
    assert!(meals > 1 && meals <= report.crashes() + 2, "{meals}: {report:?}");
}

#[tokio::test]
async fn a_server_asks_ten_times_in_a_call_at_most() {
    let twelve = || {
        ScriptedMcp::from_fn(
            [ScriptedMcp::tool("book", json!({"to": {"type": "string"}}))],
            |_, _| {
                let asks = |then: McpAnswer, _| {
                    then.after_asking("Once more?", json!({"n": {"type": "integer"}}))
                };
                (0..12).fold(McpAnswer::text("booked"), asks)
            },
        )
    };
    for (server, says) in
        [(twelve(), "booked"), (twelve().without_handshake(), "asked for more 10 times")]
    {
        let runtime = Runtime::builder().store(MemoryStore::new()).build();
        let run = agent(&server).runtime(&runtime).start("Go.").unwrap();
        let mut asked = 0;
        while let Some(question) = run.asked().await.unwrap() {
            asked += 1;
            runtime
                .run(&question.run)
                .answer(&question.path, &json!({"n": asked}), "ada")
                .await
                .unwrap();
        }
        let output = run.result().await.unwrap().output().clone();
        assert!(asked == 10 && output.contains(says), "{asked}: {output}");
    }
}

#[tokio::test]
async fn a_server_asks_ten_questions_at_once_at_most() {
    for (questions, says) in [(10, ""), (11, "asks 11 questions at once, and 10 is the most")] {
        let tools = [ScriptedMcp::tool("book", json!({"to": {"type": "string"}}))];
        let server = ScriptedMcp::from_fn(tools, move |_, _| {
            let schema = json!({"type": "object", "properties": {}});
            let params = json!({"mode": "form", "message": "And?", "requestedSchema": schema});
            let asks = (0..questions)
                .map(|n| {
                    (format!("q{n:02}"), json!({"method": "elicitation/create", "params": params}))
                })
                .collect::<serde_json::Map<_, _>>();
            McpAnswer::Result(
                json!({"resultType": "input_required", "inputRequests": asks, "requestState": "s"}),
            )
        });
        let server = server.without_handshake();
        let runtime = Runtime::builder().store(MemoryStore::new()).build();
        let run = agent(&server).runtime(&runtime).start("Go.").unwrap();
        match says {
            "" => {
                run.asked().await.unwrap().unwrap();
                assert_eq!(runtime.runs().questions(RunFilter::new()).await.unwrap().len(), 10);
                run.cancel("enough").await.unwrap();
            }
            says => assert!(run.result().await.unwrap().output().contains(says)),
        }
        server.forgive();
    }
}

//! A runtime as an MCP server: the tools it offers, how calls end, and mistakes of clients.

use std::sync::Arc;
use std::time::Duration;

use agentflow::event::EventKind;
use agentflow::mcp::McpClient;
use agentflow::mcp_server::{McpServer, McpServerError};
use agentflow::message::{Media, ResourceLink, ToolCall, ToolPart, ToolResult, ToolStatus};
use agentflow::prelude::*;
use agentflow::schemars::JsonSchema;
use agentflow::serde::Serialize;
use agentflow::serde_json::{self, Value, json};
use agentflow::store::{MemoryStore, RunFilter, RunStatus};
use agentflow::tool::{FnTool, ToolDefinition, ToolError, ToolOutput};
use agentflow_testing::{ScriptedModel, Turn, within};
use futures_util::StreamExt;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

#[derive(Serialize, JsonSchema)]
struct Hello {
    hello: String,
}

/// Gives an object.
#[tool(effects = "read", idempotent)]
fn served_object(name: String) -> Hello {
    Hello { hello: name }
}

/// Shows how far it is.
#[tool(effects = "none")]
fn served_steps(cx: &Context, steps: u32) -> u32 {
    for step in 1..=steps {
        cx.emit(&json!({"progress": step, "total": steps, "message": format!("step {step}")}));
    }
    steps
}

/// Waits for a person.
#[workflow]
async fn served_publish(text: String) -> Result<String> {
    let approval = gate!("publish this?", text).await?;
    let published = if approval.is_granted() { text } else { "nothing".to_owned() };
    Ok(published)
}

/// A client that exchanges JSON lines with the server.
pub(crate) struct Lines {
    read: tokio::io::Lines<BufReader<ReadHalf<DuplexStream>>>,
    write: WriteHalf<DuplexStream>,
    pub(crate) serving: JoinHandle<Result<(), McpServerError>>,
}

impl Lines {
    pub(crate) fn of(server: &McpServer) -> Self {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let (input, output) = tokio::io::split(theirs);
        let server = server.clone();
        let serving = tokio::spawn(async move { server.serve(input, output).await });
        let (read, write) = tokio::io::split(ours);
        Self { read: BufReader::new(read).lines(), write, serving }
    }

    /// Connects with the handshake of the earlier protocol.
    pub(crate) async fn greeted(server: &McpServer) -> Self {
        Self::greeted_with(server, json!({})).await
    }

    /// Connects with the handshake and these client capabilities.
    pub(crate) async fn greeted_with(server: &McpServer, capabilities: Value) -> Self {
        let mut lines = Self::of(server);
        let client = json!({"name": "lines", "version": "1"});
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": client});
        let answer = lines.ask(0, "initialize", params).await;
        assert_eq!(answer["result"]["protocolVersion"], "2025-11-25", "{answer}");
        lines.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        lines
    }

    pub(crate) async fn bytes(&mut self, bytes: &[u8]) {
        // A server that has ended reads no more.
        let _ = self.write.write_all(bytes).await;
    }

    pub(crate) async fn say(&mut self, message: &Value) {
        self.bytes(format!("{message}\n").as_bytes()).await;
    }

    pub(crate) async fn send(&mut self, id: u64, method: &str, params: Value) {
        self.say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
    }

    pub(crate) async fn next(&mut self) -> Value {
        serde_json::from_str(
            &within("an answer of the server", self.read.next_line())
                .await
                .unwrap()
                .expect("an answer"),
        )
        .unwrap()
    }

    pub(crate) async fn ask(&mut self, id: u64, method: &str, params: Value) -> Value {
        self.send(id, method, params).await;
        self.next().await
    }

    pub(crate) async fn call(&mut self, id: u64, name: &str, arguments: Value) -> Value {
        self.ask(id, "tools/call", json!({"name": name, "arguments": arguments})).await
    }

    /// Closes the connection and waits for the server's result.
    pub(crate) async fn leave(self) -> Result<(), McpServerError> {
        drop((self.read, self.write));
        self.serving.await.unwrap()
    }
}

/// Handles for tools that wait until they are released, and signal when they start and when they
/// are stopped.
pub(crate) struct Held {
    pub(crate) begun: Arc<Notify>,
    pub(crate) let_go: Arc<Notify>,
    pub(crate) stopped: Arc<Notify>,
}

struct SaysStop(Arc<Notify>);

impl Drop for SaysStop {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

impl Held {
    pub(crate) fn new() -> Self {
        Self { begun: Arc::default(), let_go: Arc::default(), stopped: Arc::default() }
    }

    pub(crate) fn tool(&self) -> FnTool {
        let (begun, let_go, stopped) =
            (self.begun.clone(), self.let_go.clone(), self.stopped.clone());
        let definition =
            ToolDefinition::new("hold", "Waits.", json!({"type": "object", "properties": {}}));
        FnTool::dynamic(definition, move |_, _: Value| {
            let (begun, let_go, stopped) = (begun.clone(), let_go.clone(), stopped.clone());
            async move {
                let _stopped = SaysStop(stopped);
                begun.notify_one();
                within("`let_go`", let_go.notified()).await;
                Ok::<_, ToolError>(ToolOutput::text("let go"))
            }
        })
    }
}

fn runtime() -> Runtime {
    Runtime::builder().build()
}

fn durable() -> Runtime {
    Runtime::builder().store(MemoryStore::new()).build()
}

/// Creates our own client of the server, in this process.
pub(crate) fn client(server: &McpServer) -> McpClient {
    let server = server.clone();
    let connect = move || {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let (input, output) = tokio::io::split(theirs);
        let server = server.clone();
        tokio::spawn(async move { server.serve(input, output).await });
        ours
    };
    McpClient::in_memory("served", connect).build().unwrap()
}

async fn called(server: &McpServer, tool: &str, arguments: Value) -> ToolResult {
    let runtime = Runtime::builder().toolset(client(server)).build();
    let call = ToolCall::new("c", format!("mcp.served.{tool}"), arguments.to_string());
    runtime.invoke(&call, &[]).await.unwrap()
}

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

#[tokio::test]
async fn tools_are_offered_by_default_and_agents_and_workflows_by_name() {
    let names = McpServer::from_runtime(&runtime()).offered().await.unwrap();
    assert!(names.contains("add") && names.contains("served_object"), "{names:?}");
    assert!(!names.contains("judge") && !names.contains("double"), "{names:?}");
    let server =
        McpServer::from_runtime(&runtime()).tools(["add"]).agents(["judge"]).workflows(["double"]);
    let names = server.offered().await.unwrap();
    assert_eq!(names.iter().map(String::as_str).collect::<Vec<_>>(), ["add", "double", "judge"]);
    let none: [&str; 0] = [];
    assert!(McpServer::from_runtime(&runtime()).tools(none).offered().await.unwrap().is_empty());
}

#[tokio::test]
async fn what_is_named_and_not_there_is_an_error_before_anything_is_served() {
    for (server, expected) in [
        (McpServer::from_runtime(&runtime()).tools(["ad"]), "did you mean `add`?"),
        (McpServer::from_runtime(&runtime()).agents(["judgee"]), "did you mean `judge`?"),
        (McpServer::from_runtime(&runtime()).workflows(["duble"]), "did you mean `double`?"),
    ] {
        let error = Lines::of(&server).serving.await.unwrap().unwrap_err();
        assert!(matches!(error, McpServerError::Offer(_)), "{error:?}");
        assert!(error.to_string().contains(expected), "{error}");
    }
    let wrong = McpServer::from_runtime(&runtime()).agents(["double"]).check().await.unwrap_err();
    let says = "the MCP server cannot offer the agent `double`: it is a workflow; name it with `workflows`";
    assert_eq!((wrong.to_string().as_str(), format!("{wrong:?}").as_str()), (says, says));
    let add = Agent::new(ScriptedModel::new([])).name("add");
    let server = McpServer::from_runtime(&Runtime::builder().agent(&add).build()).agents(["add"]);
    let error = server.check().await.unwrap_err().to_string();
    assert_eq!(
        error,
        "the MCP server cannot offer the agent `add`: another tool has this name; leave one of them out"
    );
    server.tools(["served_object"]).check().await.unwrap();
}

#[tokio::test]
async fn a_list_has_schemas_hints_and_titles() {
    let server =
        McpServer::from_runtime(&runtime()).tools(["add", "served_object"]).workflows(["double"]);
    let mut lines = Lines::greeted(&server).await;
    let answer = lines.ask(1, "tools/list", json!({})).await;
    let tools = &answer["result"]["tools"];
    assert_eq!(tools[0]["name"], "add", "{answer}");
    assert_eq!(tools[0]["description"], "Add two integers.");
    assert_eq!(tools[0]["inputSchema"]["properties"]["a"]["type"], "integer");
    assert_eq!(tools[0]["outputSchema"]["properties"]["result"]["type"], "integer");
    assert_eq!(tools[0]["annotations"]["readOnlyHint"], true);
    assert_eq!(tools[1]["annotations"]["readOnlyHint"], false);
    assert_eq!(tools[1]["outputSchema"]["type"], "object");
    assert_eq!(tools[2]["title"], "Served object");
    assert_eq!(tools[2]["annotations"]["idempotentHint"], true);
    lines.leave().await.unwrap();
}

#[tokio::test]
async fn both_eras_of_the_protocol_are_spoken() {
    let server = McpServer::from_runtime(&runtime()).name("sums", "3");
    let mut lines = Lines::greeted(&server).await;
    let answer = lines.call(1, "add", json!({"a": 2, "b": 3})).await;
    assert_eq!(
        (text(&answer), &answer["result"]["structuredContent"]),
        ("5", &json!({"result": 5})),
        "{answer}"
    );
    assert!(
        answer["result"]["isError"] != true && answer["result"].get("resultType").is_none(),
        "{answer}"
    );
    // The newest revision has no handshake: each request names its client.
    let mut lines = Lines::of(&server);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "lines", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let discovered = lines.ask(1, "server/discover", json!({"_meta": meta})).await;
    assert_eq!(
        discovered["result"]["capabilities"],
        json!({"logging": {}, "tools": {}}),
        "{discovered}"
    );
    let params = json!({"name": "add", "arguments": {"a": 2, "b": 3}, "_meta": meta});
    let answer = lines.ask(2, "tools/call", params).await;
    assert_eq!(answer["result"]["structuredContent"], json!({"result": 5}), "{answer}");
    assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
}

#[tokio::test]
async fn our_own_client_reads_what_it_answers() {
    let media = |_: Context, _: Value| async {
        let output = ToolOutput::text("look").with_media(Media::of_bytes("image/png", b"png"));
        let output = output.with_media(Media::of_bytes("application/zip", b"zip").name("all.zip"));
        Ok::<_, ToolError>(output.with_link(ResourceLink::new("https://example.com/a").name("a")))
    };
    let nothing = json!({"type": "object", "properties": {}});
    let media = FnTool::dynamic(ToolDefinition::new("files.show", "Shows files.", nothing), media);
    let server = McpServer::from_runtime(&Runtime::builder().tools(media).build());
    let object = called(&server, "served_object", json!({"name": "Ada"})).await;
    assert_eq!(
        (object.status, object.output.as_str()),
        (ToolStatus::Success, r#"{"hello":"Ada"}"#)
    );
    let shown = called(&server, "files__show", json!({})).await;
    assert_eq!((shown.status, &*shown.text()), (ToolStatus::Success, "look"));
    let [ToolPart::Media(image), ToolPart::Media(zip), ToolPart::Link(link)] = shown.parts() else {
        panic!("{shown:?}")
    };
    assert_eq!(image, &Media::of_bytes("image/png", b"png"));
    assert_eq!(zip, &Media::of_bytes("application/zip", b"zip").name("all.zip"));
    assert_eq!((link.uri.as_str(), link.name.as_deref()), ("https://example.com/a", Some("a")));
}

#[tokio::test]
async fn a_call_has_the_policy_and_the_checks_of_any_other() {
    let refuses =
        |_: Context, _: Value| async { Err::<ToolOutput, _>(ToolError::new("the disk is full")) };
    let definition = |name: &str| {
        ToolDefinition::new(name, "Fails.", json!({"type": "object", "properties": {}}))
    };
    let secret = FnTool::dynamic(definition("secret"), refuses);
    let secret = secret.policy(agentflow::tool::ToolPolicy::default().scopes(["disk"]));
    let approved = FnTool::dynamic(definition("approved"), refuses);
    let approved = approved.policy(agentflow::tool::ToolPolicy::default().approve());
    let runtime = Runtime::builder().tools(secret).tools(approved).build();
    let mut lines = Lines::greeted(&McpServer::from_runtime(&runtime)).await;
    for (at, (tool, arguments, expected)) in [
        ("secret", json!({}), "needs the scope `disk`"),
        ("approved", json!({}), "no person has approved"),
        ("add", json!({"a": "two", "b": 3}), "`a`"),
        ("add", json!({"a": 1}), "`b`"),
        ("add", json!({"a": 1, "b": 2, "c": 3}), "`c`"),
    ]
    .into_iter()
    .enumerate()
    {
        let answer = lines.call(at as u64 + 1, tool, arguments).await;
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        assert!(text(&answer).contains(expected), "{answer}");
    }
    let server = McpServer::from_runtime(&runtime).grant(["disk", "approve:approved"]);
    let mut lines = Lines::greeted(&server).await;
    assert_eq!(text(&lines.call(1, "secret", json!({})).await), "the disk is full");
    assert_eq!(text(&lines.call(2, "approved", json!({})).await), "the disk is full");
    let unknown = lines.call(3, "served_objekt", json!({})).await;
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    assert_eq!(
        unknown["error"]["message"],
        "there is no tool `served_objekt`; did you mean `served_object`?"
    );
    // A tool that is not offered is reported as missing.
    let not_offered = lines.call(4, "double", json!({"n": 1})).await;
    assert_eq!(not_offered["error"]["code"], -32602, "{not_offered}");
}

#[tokio::test]
async fn progress_is_shown_to_those_who_ask_for_it() {
    let mut lines = Lines::greeted(&McpServer::from_runtime(&runtime())).await;
    let params =
        json!({"name": "served_steps", "arguments": {"steps": 2}, "_meta": {"progressToken": "p"}});
    lines.send(1, "tools/call", params).await;
    for step in [1.0, 2.0] {
        let said = lines.next().await;
        assert_eq!(said["method"], "notifications/progress", "{said}");
        let of = &said["params"];
        assert_eq!(
            (&of["progressToken"], of["progress"].as_f64(), of["total"].as_f64()),
            (&json!("p"), Some(step), Some(2.0))
        );
        assert_eq!(of["message"], format!("step {step}"));
    }
    assert_eq!(text(&lines.next().await), "2");
    // Without a progress token the client receives only the result.
    assert_eq!(text(&lines.call(2, "served_steps", json!({"steps": 2})).await), "2");
}

#[tokio::test]
async fn an_agent_and_a_workflow_are_runs_of_the_runtime() {
    let model =
        ScriptedModel::new([Turn::text("Hello Ada.").expect_conversation(["user: I am Ada."])]);
    let store = MemoryStore::new();
    let runtime = Runtime::builder().agent(&Agent::new(model).name("greeter")).store(store).build();
    let server = McpServer::from_runtime(&runtime)
        .agents(["greeter"])
        .workflows(["double"])
        .name("sums", "1");
    let mut lines = Lines::greeted(&server).await;
    let greeted = lines.call(1, "greeter", json!({"message": "I am Ada."})).await;
    assert_eq!(text(&greeted), "Hello Ada.", "{greeted}");
    assert_eq!(greeted["result"]["structuredContent"], json!({"result": "Hello Ada."}));
    let doubled = lines.call(2, "double", json!({"n": 4})).await;
    assert_eq!(doubled["result"]["structuredContent"], json!({"result": 8}), "{doubled}");
    let runs = runtime.runs().list(RunFilter::new().tag("mcp.server", "sums")).await.unwrap();
    assert_eq!(runs.len(), 2);
    let id = doubled["result"]["_meta"]["agentflow/run"].as_str().unwrap();
    let run = runs.iter().find(|run| run.run_id.as_str() == id).unwrap();
    assert_eq!((&*run.name, run.status), ("double", RunStatus::Success));
    // Invalid arguments do not start a run.
    for (tool, arguments) in
        [("double", json!({"n": "four"})), ("double", json!({})), ("greeter", json!({"text": "a"}))]
    {
        let wrong = lines.call(3, tool, arguments).await;
        assert_eq!(wrong["result"]["isError"], true, "{wrong}");
    }
    assert_eq!(runtime.runs().list(RunFilter::new()).await.unwrap().len(), 2);
}

#[tokio::test]
async fn an_agent_function_takes_its_arguments() {
    let model = ScriptedModel::new([Turn::text(r#"{"value": 7}"#)]);
    let runtime = Runtime::builder()
        .model_provider("openai-chat", move |_, _| Ok(Arc::new(model.clone())))
        .build();
    let server = McpServer::from_runtime(&runtime).agents(["judge"]);
    let mut lines = Lines::greeted(&server).await;
    let tools = lines.ask(1, "tools/list", json!({})).await;
    let tools = tools["result"]["tools"].as_array().unwrap();
    let judge = tools.iter().find(|tool| tool["name"] == "judge").unwrap();
    assert_eq!(judge["inputSchema"]["required"], json!(["language", "change"]), "{judge}");
    let wrong = lines.call(2, "judge", json!({"language": "Rust"})).await;
    assert!(wrong["result"]["isError"] == true && text(&wrong).contains("change"), "{wrong}");
    let judged = lines.call(3, "judge", json!({"language": "Rust", "change": "none"})).await;
    assert_eq!(judged["result"]["structuredContent"], json!({"result": 7}), "{judged}");
}

#[tokio::test]
async fn a_run_that_asks_is_an_error_that_names_it_and_can_still_be_answered() {
    let runtime = durable();
    let server = McpServer::from_runtime(&runtime).workflows(["served_publish"]);
    let mut lines = Lines::greeted(&server).await;
    let asks = lines.call(1, "served_publish", json!({"text": "news"})).await;
    assert_eq!(asks["result"]["isError"], true, "{asks}");
    let questions = runtime.runs().questions(RunFilter::new()).await.unwrap();
    let [question] = &questions[..] else { panic!("{questions:?}") };
    assert_eq!(asks["result"]["_meta"]["agentflow/run"], question.run.as_str());
    for part in [question.run.as_str(), "publish this?", question.path.as_str()] {
        assert!(text(&asks).contains(part), "{part}: {asks}");
    }
    lines.leave().await.unwrap();
    runtime.run(&question.run).approve(&question.path, Approval::granted(), "ada").await.unwrap();
    let output = runtime.run(&question.run).attach().await.unwrap().result().await.unwrap();
    assert_eq!(output.as_str(), r#""news""#);
    // A run that is not stored cannot wait for an answer.
    let server = McpServer::from_runtime(&Runtime::builder().build()).workflows(["served_publish"]);
    let asks =
        Lines::greeted(&server).await.call(1, "served_publish", json!({"text": "news"})).await;
    assert!(text(&asks).contains("it was cancelled"), "{asks}");
}

#[tokio::test]
async fn a_cancelled_call_stops_its_tool() {
    let held = Held::new();
    let server = McpServer::from_runtime(&Runtime::builder().tools(held.tool()).build());
    let mut lines = Lines::greeted(&server).await;
    lines.send(7, "tools/call", json!({"name": "hold", "arguments": {}})).await;
    within("`held.begun`", held.begun.notified()).await;
    // Cancelling an unknown request has no effect.
    lines.say(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}})).await;
    lines.say(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}})).await;
    within("`held.stopped`", held.stopped.notified()).await;
    // The cancelled call has no response; the next call has one.
    let next = lines.call(8, "add", json!({"a": 1, "b": 1})).await;
    assert_eq!(next["id"], 8, "{next}");
}

/// Runs two steps; one of them waits until it is released.
#[workflow]
async fn served_held(n: i64) -> Result<String> {
    let held = served_hold(n).await;
    Ok(held)
}

/// Waits until the test releases it.
async fn served_hold(n: i64) -> String {
    if n < 0 {
        std::future::pending::<()>().await;
    }
    n.to_string()
}

async fn status_of_only_run(runtime: &Runtime, is: RunStatus) {
    within("the status of the run", async {
        while runtime
            .runs()
            .list(RunFilter::new())
            .await
            .unwrap()
            .first()
            .is_none_or(|run| run.status != is)
        {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_cancelled_call_cancels_its_run_and_a_client_that_goes_away_does_not() {
    let runtime = durable();
    let server = McpServer::from_runtime(&runtime).workflows(["served_held"]);
    let mut lines = Lines::greeted(&server).await;
    lines.send(7, "tools/call", json!({"name": "served_held", "arguments": {"n": -1}})).await;
    status_of_only_run(&runtime, RunStatus::Running).await;
    lines.say(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}})).await;
    status_of_only_run(&runtime, RunStatus::Cancelled).await;
    drop(lines);

    let runtime = durable();
    let server = McpServer::from_runtime(&runtime).workflows(["served_held"]);
    let mut lines = Lines::greeted(&server).await;
    lines.send(7, "tools/call", json!({"name": "served_held", "arguments": {"n": -1}})).await;
    status_of_only_run(&runtime, RunStatus::Running).await;
    tokio::time::pause();
    lines.leave().await.unwrap();
    let runs = runtime.runs().list(RunFilter::new()).await.unwrap();
    assert_eq!(runs[0].status, RunStatus::Running);
    runtime.run(&runs[0].run_id).cancel("the test is over").await.unwrap();
}

#[tokio::test]
async fn a_client_that_goes_away_stops_its_tools() {
    let held = Held::new();
    let server = McpServer::from_runtime(&Runtime::builder().tools(held.tool()).build());
    let mut lines = Lines::greeted(&server).await;
    lines.send(7, "tools/call", json!({"name": "hold", "arguments": {}})).await;
    within("`held.begun`", held.begun.notified()).await;
    tokio::time::pause();
    lines.leave().await.unwrap();
    within("`held.stopped`", held.stopped.notified()).await;
}

#[tokio::test]
async fn calls_wait_for_their_turn_and_too_many_are_refused() {
    let held = Held::new();
    let runtime = Runtime::builder().tools(held.tool()).build();
    let server = McpServer::from_runtime(&runtime).max_calls(1).max_waiting(2);
    let mut lines = Lines::greeted(&server).await;
    lines.send(1, "tools/call", json!({"name": "hold", "arguments": {}})).await;
    within("`held.begun`", held.begun.notified()).await;
    for id in 2..=4 {
        lines.send(id, "tools/call", json!({"name": "add", "arguments": {"a": 1, "b": 1}})).await;
    }
    let refused = lines.next().await;
    assert_eq!(refused["error"]["message"], "2 calls wait already; call again later", "{refused}");
    // Connections share the server's limits.
    let mut other = Lines::greeted(&server).await;
    let refused = other.call(1, "add", json!({"a": 1, "b": 1})).await;
    assert_eq!(refused["error"]["code"], -32000, "{refused}");
    held.let_go.notify_one();
    let mut answered = Vec::new();
    for _ in 0..3 {
        answered
            .push(lines.next().await["result"]["content"][0]["text"].as_str().unwrap().to_owned());
    }
    answered.sort();
    assert_eq!(answered, ["2", "2", "let go"]);
}

#[tokio::test]
async fn ten_thousand_calls_at_once_each_have_an_answer() {
    let server = McpServer::from_runtime(&runtime()).max_calls(4).max_waiting(16);
    let lines = Lines::greeted(&server).await;
    let calls = 10_000;
    let mut all = String::new();
    for id in 1..=calls {
        let params = json!({"name": "add", "arguments": {"a": id, "b": 0}});
        all += &format!(
            "{}\n",
            json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
        );
    }
    let Lines { mut read, mut write, serving } = lines;
    let writing = tokio::spawn(async move {
        write.write_all(all.as_bytes()).await.unwrap();
        write
    });
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..calls {
        let answer: Value =
            serde_json::from_str(&read.next_line().await.unwrap().unwrap()).unwrap();
        let id = answer["id"].as_u64().unwrap();
        match answer["result"]["structuredContent"]["result"].as_u64() {
            Some(sum) => assert_eq!(sum, id),
            None => assert_eq!(answer["error"]["code"], -32000, "{answer}"),
        }
        assert!(seen.insert(id), "{answer}");
    }
    drop((read, writing.await.unwrap()));
    serving.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_hostile_client_gets_errors_and_never_a_hang() {
    let server = McpServer::from_runtime(&runtime()).max_message(2000).max_arguments(500);
    // Half a line at the end of the input, noise, and a response before any request.
    let mut lines = Lines::of(&server);
    lines.bytes(b"{\"jsonrpc\": \"2.0\"").await;
    lines.leave().await.unwrap();
    let mut lines = Lines::of(&server);
    lines.bytes(b"\n\nnot json\n{}\n[]\n\"\"\n\xff\xfe\n").await;
    lines.say(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})).await;
    lines.say(&json!({"jsonrpc": "2.0", "id": 5, "result": {}})).await;
    // A call before the handshake.
    lines.send(1, "tools/call", json!({"name": "add", "arguments": {"a": 1, "b": 1}})).await;
    let refused = loop {
        let answer = lines.next().await;
        if answer["id"] == 1 {
            break answer;
        }
        assert!(answer["error"]["code"].is_i64(), "{answer}");
    };
    assert!(refused["error"]["code"].is_i64(), "{refused}");
    lines.leave().await.unwrap();
    // Unknown methods and invalid parameters.
    let mut lines = Lines::greeted(&server).await;
    for (at, (method, params)) in [
        ("resources/list", json!({})),
        ("tools/steal", json!({})),
        ("tools/call", json!({})),
        ("tools/call", json!({"name": 7})),
        ("tools/call", json!({"name": "add", "arguments": [1, 2]})),
    ]
    .into_iter()
    .enumerate()
    {
        let answer = lines.ask(at as u64 + 1, method, params).await;
        assert!(answer["error"].is_object() || method == "resources/list", "{method}: {answer}");
    }
    let large = lines.call(9, "served_object", json!({"name": "a".repeat(600)})).await;
    assert!(text(&large).contains("and 500 is the most"), "{large}");
    // A duplicate request id is answered at least once.
    let twice = json!({"name": "add", "arguments": {"a": 1, "b": 1}});
    lines.send(20, "tools/call", twice.clone()).await;
    lines.send(20, "tools/call", twice).await;
    assert_eq!(lines.next().await["id"], 20);
    // A line over the size limit.
    lines.bytes(&vec![b'a'; 3000]).await;
    let error = tokio::time::timeout(Duration::from_secs(20), lines.serving)
        .await
        .unwrap()
        .unwrap()
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "the connection to the MCP client ended: a message has more than 2000 bytes"
    );
}

#[tokio::test]
async fn an_event_of_a_run_says_who_began_it() {
    let runtime = durable();
    let server = McpServer::from_runtime(&runtime).workflows(["double"]);
    Lines::greeted(&server).await.call(1, "double", json!({"n": 1})).await;
    let runs = runtime.runs().list(RunFilter::new()).await.unwrap();
    let events: Vec<_> =
        runtime.run(&runs[0].run_id).attach().await.unwrap().events().collect().await;
    assert!(matches!(&events[0].kind, EventKind::RunStarted { .. }), "{:?}", events[0]);
    assert_eq!(runs[0].tags["mcp.server"], "agentflow");
}

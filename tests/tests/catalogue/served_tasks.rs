//! A served run as a task of the extension `io.modelcontextprotocol/tasks`. Only its caller can
//! read, answer and cancel it, also across restarts. Includes the limit on open runs.

use std::net::SocketAddr;
use std::process::Command;

use agentflow::access::AccessAction;
use agentflow::front::{AuthRefusal, RequestHead};
use agentflow::mcp_server::McpServer;
use agentflow::prelude::*;
use agentflow::serde_json::{self, Value, json};
use agentflow::store::{MemoryStore, RunFilter, RunStatus};
use agentflow::{Caller, RunId};
use agentflow_testing::within;
use agentflow_tests::Process;

use crate::served::Lines;
use crate::served_over_http::{post, served};

const TASKS: &str = "io.modelcontextprotocol/tasks";

/// Fails.
#[workflow]
async fn tasked_failure(text: String) -> Result<String, Box<dyn std::error::Error + Send + Sync>> {
    let failed = fail(&text).await?;
    Ok(failed)
}

async fn fail(text: &str) -> Result<String, String> {
    Err(format!("no {text}"))
}

pub(crate) fn durable(store: &MemoryStore) -> Runtime {
    Runtime::builder().store(store.clone()).build()
}

pub(crate) fn server(store: &MemoryStore) -> McpServer {
    let workflows = ["asked_booking", "asked_publish", "tasked_failure", "double"];
    McpServer::from_runtime(&durable(store)).tools(["add"]).workflows(workflows)
}

/// Adds the metadata of a client that supports tasks and elicitation.
pub(crate) fn with_meta(mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "lines", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}, "extensions": {(TASKS): {}}},
    });
    params
}

pub(crate) async fn ask(lines: &mut Lines, method: &str, params: Value) -> Value {
    lines.ask(1, method, with_meta(params)).await
}

pub(crate) async fn begin(lines: &mut Lines, workflow: &str, arguments: Value) -> String {
    let begun = ask(lines, "tools/call", json!({"name": workflow, "arguments": arguments})).await;
    assert_eq!(
        (&begun["result"]["resultType"], &begun["result"]["status"]),
        (&json!("task"), &json!("working")),
        "{begun}"
    );
    begun["result"]["taskId"].as_str().unwrap().to_owned()
}

pub(crate) async fn get(lines: &mut Lines, task: &str) -> Value {
    let got = ask(lines, "tasks/get", json!({"taskId": task})).await;
    assert_eq!(got["result"]["resultType"], "complete", "{got}");
    got["result"].clone()
}

/// Waits until the task has this status and returns it.
pub(crate) async fn until(lines: &mut Lines, task: &str, status: &str) -> Value {
    within("the status of the task", async {
        loop {
            let now = get(lines, task).await;
            if now["status"] == status {
                return now;
            }
            assert_eq!(now["status"], "working", "{now}");
            tokio::task::yield_now().await;
        }
    })
    .await
}

async fn update(lines: &mut Lines, task: &str, key: &str, response: Value) -> Value {
    ask(lines, "tasks/update", json!({"taskId": task, "inputResponses": {key: response}})).await
}

pub(crate) fn accepted(content: Value) -> Value {
    json!({"action": "accept", "content": content})
}

pub(crate) fn only(task: &Value) -> (String, Value) {
    let requests = task["inputRequests"].as_object().unwrap_or_else(|| panic!("{task}"));
    assert_eq!(requests.len(), 1, "{task}");
    requests.iter().next().map(|(key, request)| (key.clone(), request.clone())).unwrap()
}

#[tokio::test]
async fn a_run_is_a_task_and_what_it_asks_is_the_input_of_the_task() {
    let store = MemoryStore::new();
    let mut lines = Lines::of(&server(&store));
    let discovered = ask(&mut lines, "server/discover", json!({})).await;
    assert_eq!(
        discovered["result"]["capabilities"]["extensions"][TASKS],
        json!({}),
        "{discovered}"
    );
    let task = begin(&mut lines, "asked_booking", json!({"to": "Oslo"})).await;
    let asking = until(&mut lines, &task, "input_required").await;
    let (name, request) = only(&asking);
    assert_eq!(request["params"]["message"], "In whose name to Oslo?\n\"Oslo\"");
    assert!(
        asking["ttlMs"].is_null() && asking["createdAt"].as_str().unwrap().ends_with('Z'),
        "{asking}"
    );
    drop(lines);
    // Another process, with the same store.
    let mut lines = Lines::of(&server(&store));
    assert_eq!(get(&mut lines, &task).await["inputRequests"], asking["inputRequests"]);
    let ack =
        update(&mut lines, &task, "asked_booking@1", accepted(json!({"answer": "Eve"}))).await;
    assert_eq!(ack["result"], json!({"resultType": "complete"}));
    let ack = update(&mut lines, &task, &name, json!({"action": "decline"})).await;
    assert_eq!(ack["result"]["resultType"], "complete", "{ack}");
    assert_eq!(get(&mut lines, &task).await["inputRequests"], asking["inputRequests"]);
    update(&mut lines, &task, &name, accepted(json!({"answer": "Ada"}))).await;
    let (seat, request) = only(&until(&mut lines, &task, "input_required").await);
    assert!(request["params"]["message"].as_str().unwrap().starts_with("Which seat?"), "{request}");
    // An answer to a question that was already answered is ignored. An invalid answer is refused,
    // and the question stays open.
    let ack = update(&mut lines, &task, &name, accepted(json!({"answer": "Eve"}))).await;
    assert_eq!(ack["result"]["resultType"], "complete", "{ack}");
    for wrong in [accepted(json!({"row": -1, "by_window": true})), json!(7), json!({"action": "?"})]
    {
        let refused = update(&mut lines, &task, &seat, wrong).await;
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
        assert!(refused["error"]["message"].as_str().unwrap().contains(&seat), "{refused}");
    }
    update(&mut lines, &task, &seat, accepted(json!({"row": 7, "by_window": true}))).await;
    let ended = until(&mut lines, &task, "completed").await;
    assert_eq!(
        ended["result"]["content"][0]["text"], "Ada to Oslo in row 7, window: true",
        "{ended}"
    );
    // A finished task does not change.
    for method in ["tasks/update", "tasks/cancel"] {
        let params = json!({"taskId": task, "inputResponses": {seat.clone(): accepted(json!({"row": 1, "by_window": true}))}});
        assert_eq!(ask(&mut lines, method, params).await["result"]["resultType"], "complete");
    }
    assert_eq!(get(&mut lines, &task).await, ended);
    assert_eq!(durable(&store).runs().list(RunFilter::new()).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_run_that_fails_is_a_completed_task_with_its_error_and_one_can_be_cancelled() {
    let store = MemoryStore::new();
    let mut lines = Lines::of(&server(&store));
    let task = begin(&mut lines, "tasked_failure", json!({"text": "luck"})).await;
    let failed = until(&mut lines, &task, "completed").await;
    assert_eq!(failed["result"]["isError"], true, "{failed}");
    assert!(
        failed["result"]["content"][0]["text"].as_str().unwrap().contains("no luck"),
        "{failed}"
    );
    let task = begin(&mut lines, "asked_booking", json!({"to": "Oslo"})).await;
    until(&mut lines, &task, "input_required").await;
    for _ in 0..2 {
        let ack = ask(&mut lines, "tasks/cancel", json!({"taskId": task})).await;
        assert_eq!(ack["result"], json!({"resultType": "complete"}));
    }
    assert_eq!(get(&mut lines, &task).await["status"], "cancelled");
}

#[tokio::test]
async fn only_a_client_that_speaks_tasks_gets_one_and_only_of_a_run_in_a_store() {
    let store = MemoryStore::new();
    let mut lines = Lines::of(&server(&store));
    // Tools are called without a task, and invalid arguments do not start a run.
    let sum =
        ask(&mut lines, "tools/call", json!({"name": "add", "arguments": {"a": 1, "b": 2}})).await;
    assert_eq!(sum["result"]["structuredContent"], json!({"result": 3}), "{sum}");
    let wrong =
        ask(&mut lines, "tools/call", json!({"name": "double", "arguments": {"n": "x"}})).await;
    assert_eq!(wrong["result"]["isError"], true, "{wrong}");
    let task = begin(&mut lines, "asked_booking", json!({"to": "Oslo"})).await;
    let without = |mut params: Value| {
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({"elicitation": {}});
        params
    };
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let params = without(with_meta(json!({"taskId": task, "inputResponses": {}})));
        let refused = lines.ask(1, method, params).await;
        assert_eq!(refused["error"]["code"], -32021, "{refused}");
    }
    let params = without(with_meta(json!({"name": "double", "arguments": {"n": 2}})));
    assert_eq!(lines.ask(1, "tools/call", params).await["result"]["content"][0]["text"], "4");
    // The earlier revision has a different kind of task, which the server does not support.
    let mut greeted =
        Lines::greeted_with(&server(&store), json!({"extensions": {TASKS: {}}})).await;
    let doubled = greeted.call(1, "double", json!({"n": 2})).await;
    assert_eq!(doubled["result"]["content"][0]["text"], "4", "{doubled}");
    let kept_nowhere = McpServer::from_runtime(&Runtime::builder().build()).workflows(["double"]);
    let mut lines = Lines::of(&kept_nowhere);
    let discovered = ask(&mut lines, "server/discover", json!({})).await;
    assert!(discovered["result"]["capabilities"]["extensions"].is_null(), "{discovered}");
    let doubled =
        ask(&mut lines, "tools/call", json!({"name": "double", "arguments": {"n": 2}})).await;
    assert_eq!(doubled["result"]["content"][0]["text"], "4", "{doubled}");
    assert_eq!(
        ask(&mut lines, "tasks/get", json!({"taskId": task})).await["error"]["code"],
        -32601
    );
}

#[tokio::test]
async fn an_approval_is_the_input_of_a_task_only_where_the_host_says_so() {
    let store = MemoryStore::new();
    let mut lines = Lines::of(&server(&store));
    let task = begin(&mut lines, "asked_publish", json!({"text": "news"})).await;
    let runtime = durable(&store);
    let waits = loop {
        let now = get(&mut lines, &task).await;
        if now["statusMessage"].is_string() {
            break now;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(waits["status"], "working", "{waits}");
    let question = runtime.runs().questions(RunFilter::new()).await.unwrap().remove(0);
    let key = question.path.clone();
    update(&mut lines, &task, &key, accepted(json!({"approve": true}))).await;
    assert_eq!(runtime.runs().questions(RunFilter::new()).await.unwrap().len(), 1);
    let mut lines = Lines::of(&server(&store).clients_approve());
    assert_eq!(only(&get(&mut lines, &task).await).0, key);
    update(&mut lines, &task, &key, accepted(json!({"approve": true}))).await;
    assert_eq!(until(&mut lines, &task, "completed").await["result"]["content"][0]["text"], "news");
}

/// Sends a request without a handshake over HTTP, on behalf of a caller.
pub(crate) async fn ask_at(
    address: SocketAddr,
    who: &str,
    method: &str,
    name: &str,
    params: Value,
) -> Value {
    let head = format!(
        "authorization: Bearer {who}\r\nmcp-protocol-version: 2026-07-28\r\nmcp-method: {method}\r\nmcp-name: {name}\r\n"
    );
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": with_meta(params)});
    let (_, answer) = post(address, &head, &request.to_string()).await;
    let body = answer.split_once("\r\n\r\n").unwrap().1;
    let json = body.find('{').unwrap_or_else(|| panic!("{answer}"));
    serde_json::Deserializer::from_str(&body[json..]).into_iter().next().unwrap().unwrap()
}

#[tokio::test]
async fn a_task_belongs_to_its_caller_and_its_server() {
    let store = MemoryStore::new();
    let server = server(&store).authenticate(|request: RequestHead| async move {
        match request.header("authorization") {
            Some("Bearer ann") => Ok(Caller::new("ann")),
            Some("Bearer bob") => Ok(Caller::new("bob")),
            _ => Err(AuthRefusal::unauthenticated("who are you?")),
        }
    });
    let address = served(server.clone()).await;
    let call = json!({"name": "asked_booking", "arguments": {"to": "Oslo"}});
    let begun = ask_at(address, "ann", "tools/call", "asked_booking", call).await;
    let task = begun["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{begun}"));
    let (run, token) = task.rsplit_once('.').unwrap();
    let renamed = served(server.clone().name("another", "1")).await;
    let withdrawn = served(server.workflows(["double"]).tools(["add"])).await;
    let other = format!("{run}.{}", "0".repeat(token.len()));
    let long = "x".repeat(5000);
    let wrong = [
        (address, "bob", task),
        (address, "ann", run),
        (address, "ann", &*other),
        (address, "ann", "."),
        (address, "ann", &*long),
        (renamed, "ann", task),
    ];
    for (address, who, task) in wrong {
        for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
            let refused =
                ask_at(address, who, method, task, json!({"taskId": task, "inputResponses": {}}))
                    .await;
            assert_eq!(refused["error"]["code"], -32602, "{who} {method} {task}: {refused}");
            assert!(
                refused["error"]["message"].as_str().unwrap().contains("`taskId`"),
                "{refused}"
            );
        }
    }
    for address in [address, withdrawn] {
        let got = ask_at(address, "ann", "tasks/get", task, json!({"taskId": task})).await;
        assert_eq!(got["result"]["taskId"], task, "{got}");
    }
    // A task of a workflow that is no longer offered cannot be read.
    let nothing = McpServer::from_runtime(&durable(&store)).tools(["add"]).workflows(["double"]);
    let mut lines = Lines::of(&nothing);
    assert_eq!(
        ask(&mut lines, "tasks/get", json!({"taskId": task})).await["error"]["code"],
        -32602
    );
    // The caller is recorded with its cancellation.
    let cancelled = ask_at(address, "ann", "tasks/cancel", task, json!({"taskId": task})).await;
    assert!(cancelled.get("error").is_none(), "{cancelled}");
    let report = durable(&store).run(&RunId::new(run)).inspect().await.unwrap();
    let controls: Vec<_> = report.controls.iter().map(|of| (of.action, of.by.as_deref())).collect();
    assert_eq!(controls, [(AccessAction::Cancel, Some("ann"))]);
}

#[tokio::test]
async fn a_client_leaves_so_many_runs_open_and_no_more() {
    let store = MemoryStore::new();
    let server = server(&store).max_open_runs(3);
    let mut lines = Lines::of(&server);
    let mut tasks = Vec::new();
    for _ in 0..3 {
        tasks.push(begin(&mut lines, "asked_booking", json!({"to": "Oslo"})).await);
    }
    let call = json!({"name": "double", "arguments": {"n": 1}});
    let refused = ask(&mut lines, "tools/call", call.clone()).await;
    assert_eq!(refused["error"]["code"], -32000, "{refused}");
    // The limit also applies in another process and to clients without tasks. Tools are not
    // affected.
    let mut greeted = Lines::greeted(&server.clone().max_open_runs(3)).await;
    assert_eq!(greeted.call(1, "double", json!({"n": 1})).await["error"]["code"], -32000);
    assert_eq!(
        greeted.call(2, "add", json!({"a": 1, "b": 1})).await["result"]["content"][0]["text"],
        "2"
    );
    ask(&mut lines, "tasks/cancel", json!({"taskId": tasks[0]})).await;
    let begun = ask(&mut lines, "tools/call", call).await;
    assert_eq!(begun["result"]["resultType"], "task", "{begun}");
    let open =
        durable(&store).runs().list(RunFilter::new().status(RunStatus::Paused)).await.unwrap();
    assert_eq!(open.len(), 2);
}

/// Starts the command line over a store file. Returns it with its address.
fn serve(store: &std::path::Path) -> (Process, SocketAddr) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_agentwf-host"));
    command
        .args(["mcp", "serve", "--workflow", "slow,price", "--http", "127.0.0.1:0", "--store"])
        .arg(store);
    let mut process = Process::start(&mut command).unwrap();
    let address = process.wait_until("its address", |process| {
        let output = process.output();
        let (_, address) = output.split_once("http://")?;
        address.split_once("/mcp")?.0.parse().ok()
    });
    (process, address)
}

#[tokio::test]
async fn tasks_outlive_the_process_that_began_them() {
    let folder = tempfile::tempdir().unwrap();
    let (store, file) = (folder.path().join("runs.db"), folder.path().join("there"));
    let begin_at = |address, workflow: &'static str, arguments: Value| async move {
        let call = json!({"name": workflow, "arguments": arguments});
        let begun = ask_at(address, "", "tools/call", workflow, call).await;
        begun["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{begun}")).to_owned()
    };
    let until_at = |address, task: String, status: &'static str| async move {
        loop {
            let now = ask_at(address, "", "tasks/get", &task, json!({"taskId": task})).await;
            if now["result"]["status"] == status {
                return now["result"].clone();
            }
            assert_eq!(now["result"]["status"], "working", "{now}");
        }
    };
    let (mut process, address) = serve(&store);
    let working = begin_at(address, "slow", json!({"file": file})).await;
    process
        .wait_until("its step", |process| process.output().contains("waiting for").then_some(()));
    let asking = begin_at(address, "price", json!({"article": "pear"})).await;
    let before = until_at(address, asking.clone(), "input_required").await;
    drop(process); // It is killed.

    let (mut process, address) = serve(&store);
    // The interrupted step is repeated without any request for the task.
    process.wait_until("its step again", |process| {
        process.output().contains("waiting for").then_some(())
    });
    let after = until_at(address, asking.clone(), "input_required").await;
    assert_eq!(after["inputRequests"], before["inputRequests"]);
    let answers = json!({only(&after).0: accepted(json!({"answer": 21}))});
    let answered = json!({"taskId": asking, "inputResponses": answers});
    let ack = ask_at(address, "", "tasks/update", &asking, answered).await;
    assert_eq!(ack["result"]["resultType"], "complete", "{ack}");
    let ended = until_at(address, asking, "completed").await;
    assert_eq!(ended["result"]["structuredContent"], json!({"result": 42}), "{ended}");
    std::fs::write(&file, "").unwrap();
    let ended = until_at(address, working, "completed").await;
    assert_eq!(ended["result"]["content"][0]["text"], "THERE", "{ended}");
}

//! MCP sessions over HTTP: questions within a session, ownership of a session, and how sessions
//! end.

use std::time::Duration;

use agentflow::Caller;
use agentflow::front::{AuthRefusal, RequestHead};
use agentflow::mcp_server::{McpServer, ServedResource};
use agentflow::prelude::*;
use agentflow::serde_json::{Value, json};
use agentflow::store::{MemoryStore, RunFilter, RunStatus, SqliteStore};
use agentflow_testing::{hold_time, within};
use agentflow_tests::{Agentwf, Process};

use crate::http_session::{Client, initialize, send};
use crate::served::Held;
use crate::served_over_http::served;
use crate::served_tasks::{durable, server, with_meta};

const HOUR: Duration = Duration::from_secs(3600);

/// Configures a server that identifies callers by a header.
fn with_callers(server: McpServer) -> McpServer {
    server.authenticate(|request: RequestHead| async move {
        match request.header("x-who") {
            Some(who) => Ok(Caller::new(who)),
            None => Err(AuthRefusal::unauthenticated("who are you?")),
        }
    })
}

#[tokio::test]
async fn a_run_that_asks_is_answered_in_its_session() {
    let store = MemoryStore::new();
    let client = Client::asked(served(server(&store)).await, "").await;
    let mut call = client.call(1, "asked_booking", json!({"to": "Oslo"})).await;
    let asked = call.next().await;
    assert_eq!(asked["method"], "elicitation/create", "{asked}");
    assert_eq!(asked["params"]["message"], "In whose name to Oslo?\n\"Oslo\"");
    client.answer(&asked, json!({"answer": "Ada"})).await;
    let asked = call.next().await;
    client.answer(&asked, json!({"row": -1, "by_window": true})).await;
    // The question is repeated together with the error.
    let asked = call.next().await;
    assert!(
        asked["params"]["message"].as_str().unwrap().contains("The last answer was refused"),
        "{asked}"
    );
    client.answer(&asked, json!({"row": 7, "by_window": true})).await;
    let answer = call.next().await;
    assert_eq!(
        answer["result"]["content"][0]["text"], "Ada to Oslo in row 7, window: true",
        "{answer}"
    );
    assert_eq!(call.message().await, None);
    assert_eq!(durable(&store).runs().list(RunFilter::new()).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_person_who_thinks_keeps_nobody_else_from_calling() {
    let client =
        Client::asked(served(server(&MemoryStore::new()).max_calls(1).max_waiting(0)).await, "")
            .await;
    let mut waiting = client.call(1, "asked_booking", json!({"to": "Oslo"})).await;
    let asked = waiting.next().await;
    let sum = client.call(2, "add", json!({"a": 1, "b": 2})).await.next().await;
    assert_eq!(sum["result"]["structuredContent"]["result"], 3, "{sum}");
    // The number of open runs of a client is limited.
    let further = client.call(3, "asked_booking", json!({"to": "Rome"})).await.next().await;
    assert_eq!(further["error"]["code"], -32000, "{further}");
    client.answer(&asked, json!({"answer": "Ada"})).await;
    assert_eq!(waiting.next().await["method"], "elicitation/create");
}

#[tokio::test]
async fn an_answer_in_time_counts_although_others_have_the_turns() {
    let held = Held::new();
    let runtime = Runtime::builder().store(MemoryStore::new()).tools(held.tool()).build();
    let server = McpServer::from_runtime(&runtime).tools(["hold"]).workflows(["asked_booking"]);
    let client = Client::asked(served(server.max_calls(1).max_waiting(0)).await, "").await;
    let mut waiting = client.call(1, "asked_booking", json!({"to": "Oslo"})).await;
    let asked = waiting.next().await;
    let mut holding = client.call(2, "hold", json!({})).await;
    within("`held.begun`", held.begun.notified()).await;
    client.answer(&asked, json!({"answer": "Ada"})).await;
    // The only slot for calls is taken by `hold`, so the run asks its next question before the
    // call is processed again.
    let asks_next = async || {
        let open = runtime.runs().questions(RunFilter::new()).await.unwrap();
        open.iter().any(|question| question.message == "Which seat?")
    };
    within("the next question", async {
        while !asks_next().await {
            tokio::task::yield_now().await;
        }
    })
    .await;
    held.let_go.notify_one();
    assert!(holding.next().await["result"].is_object());
    assert_eq!(waiting.next().await["method"], "elicitation/create");
}

#[tokio::test]
async fn a_session_of_another_caller_is_one_that_is_not_there() {
    let store = MemoryStore::new();
    let address = served(with_callers(server(&store))).await;
    let (ann, eve) = (
        Client::asked(address, "x-who: ann\r\n").await,
        Client::asked(address, "x-who: eve\r\n").await,
    );
    assert_ne!(ann.session, eve.session);
    let mut call = ann.call(1, "asked_booking", json!({"to": "Oslo"})).await;
    let asked = call.next().await;
    let stolen = format!(
        "x-who: eve\r\nmcp-session-id: {}\r\nmcp-protocol-version: 2025-11-25\r\n",
        ann.session
    );
    let accept = json!({"action": "accept", "content": {"answer": "Eve"}});
    let answer = json!({"jsonrpc": "2.0", "id": asked["id"], "result": accept}).to_string();
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
    for (method, body) in
        [("POST", &*answer), ("POST", &*list), ("POST", &*initialize(&json!({}))), ("GET", "")]
    {
        assert_eq!(send(address, method, &stolen, body).await.status(), 404, "{method} {body}");
    }
    assert_eq!(send(address, "DELETE", &stolen, "").await.status(), 404);
    // An unauthenticated client cannot use the session either.
    let nobody = format!("mcp-session-id: {}\r\n", ann.session);
    assert_eq!(send(address, "POST", &nobody, &list).await.status(), 401);
    // An answer in her own session does not match any question there.
    eve.answer(&asked, json!({"answer": "Eve"})).await;
    ann.answer(&asked, json!({"answer": "Ann"})).await;
    let asked = call.next().await;
    assert!(asked["params"]["message"].as_str().unwrap().contains("\"Ann\""), "{asked}");
}

#[tokio::test]
async fn ids_of_sessions_are_long_and_unlike_each_other() {
    let address = served(server(&MemoryStore::new())).await;
    let (one, other) = (Client::asked(address, "").await, Client::asked(address, "").await);
    for session in [&one.session, &other.session] {
        assert!(
            session.len() == 32 && session.bytes().all(|byte| byte.is_ascii_hexdigit()),
            "{session}"
        );
    }
    assert_ne!(one.session, other.session);
}

#[tokio::test]
async fn a_session_that_was_ended_or_never_was_is_not_found() {
    let address = served(server(&MemoryStore::new())).await;
    let client = Client::asked(address, "").await;
    let mut stream = client.send("GET", "").await;
    assert_eq!(stream.status(), 200);
    assert_eq!(client.send("DELETE", "").await.status(), 204);
    assert_eq!(client.send("DELETE", "").await.status(), 404);
    assert_eq!(stream.message().await, None);
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
    let answer = json!({"jsonrpc": "2.0", "id": 1, "result": {}}).to_string();
    for (method, body) in [("POST", &*list), ("POST", &*answer), ("GET", "")] {
        assert_eq!(client.send(method, body).await.status(), 404, "{method} {body}");
    }
    for id in ["0", "none", "x", "\u{7f}", "", &"a".repeat(5000)] {
        let status =
            send(address, "POST", &format!("mcp-session-id: {id}\r\n"), &list).await.status();
        assert!(status == 404 || status == 400, "{id}: {status}");
    }
    // The client starts a new session.
    let again = Client::asked(address, "").await;
    assert!(
        again.request(1, "tools/list", json!({})).await.next().await["result"]["tools"].is_array()
    );
}

#[tokio::test]
async fn a_client_without_room_for_a_session_is_served_without_one() {
    let with_resource =
        |server: McpServer| server.resource(ServedResource::text("notes://one", "One."));
    let address = served(with_resource(server(&MemoryStore::new()).max_sessions(1))).await;
    let (answer, first) = Client::begin(address, "", &json!({})).await;
    assert!(answer["result"]["capabilities"]["logging"].is_object(), "{answer}");
    assert_eq!(answer["result"]["capabilities"]["resources"]["subscribe"], true, "{answer}");
    let (answer, second) = Client::begin(address, "", &json!({})).await;
    assert!(second.is_none());
    // The response does not announce features that need a session.
    let capabilities = &answer["result"]["capabilities"];
    assert!(
        capabilities["logging"].is_null() && capabilities["resources"]["subscribe"].is_null(),
        "{answer}"
    );
    let request = |method: &str, params: Value| {
        json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string()
    };
    let call = request("tools/call", json!({"name": "add", "arguments": {"a": 1, "b": 1}}));
    let sum = send(address, "POST", "", &call).await.next().await;
    assert_eq!(sum["result"]["structuredContent"]["result"], 2, "{sum}");
    for (method, params) in [
        ("logging/setLevel", json!({"level": "info"})),
        ("resources/subscribe", json!({"uri": "notes://one"})),
        ("resources/unsubscribe", json!({"uri": "notes://one"})),
    ] {
        let refused = send(address, "POST", "", &request(method, params)).await.next().await;
        assert_eq!(refused["error"]["code"], -32601, "{refused}");
    }
    assert_eq!(send(address, "GET", "", "").await.status(), 405);
    // Ending a session makes room for another one.
    first.unwrap().send("DELETE", "").await;
    within("a session to be free", async {
        while Client::begin(address, "", &json!({})).await.1.is_none() {}
    })
    .await;
    // A limit of 0 turns sessions off.
    let address = served(server(&MemoryStore::new()).max_sessions(0)).await;
    assert!(Client::begin(address, "", &json!({})).await.1.is_none());
}

#[tokio::test]
async fn a_caller_has_so_many_sessions_and_others_have_theirs() {
    let server =
        with_callers(server(&MemoryStore::new()).max_sessions(3).max_sessions_of_caller(2));
    let address = served(server).await;
    let begin =
        async |who: &str| Client::begin(address, &format!("x-who: {who}\r\n"), &json!({})).await.1;
    let (one, two) = (begin("ann").await.unwrap(), begin("ann").await);
    assert!(two.is_some() && begin("ann").await.is_none());
    let other = begin("eve").await;
    assert!(other.is_some() && begin("eve").await.is_none());
    one.send("DELETE", "").await;
    within("a session to be free", async { while begin("ann").await.is_none() {} }).await;
}

/// The clock stops while a request is processed; otherwise the session might end before it has
/// started.
#[tokio::test(start_paused = true)]
async fn a_session_ends_when_it_is_idle_or_old() {
    let short = Duration::from_millis(50);
    // Idle timeout: once the session has ended, there is room for another one.
    let address =
        served(server(&MemoryStore::new()).max_sessions(1).session_times(short, HOUR)).await;
    let idle = hold_time(Client::asked(address, "")).await;
    assert!(hold_time(Client::begin(address, "", &json!({}))).await.1.is_none());
    tokio::time::sleep(2 * short).await;
    assert!(hold_time(Client::begin(address, "", &json!({}))).await.1.is_some());
    assert_eq!(hold_time(idle.send("GET", "")).await.status(), 404);
    // Maximum age: an open stream does not extend it.
    let address = served(server(&MemoryStore::new()).session_times(HOUR, short)).await;
    let old = hold_time(Client::asked(address, "")).await;
    let mut stream = hold_time(old.send("GET", "")).await;
    assert_eq!(stream.status(), 200);
    tokio::time::sleep(2 * short).await;
    assert!(hold_time(stream.message()).await.is_none());
    assert_eq!(hold_time(old.send("GET", "")).await.status(), 404);
}

#[tokio::test(start_paused = true)]
async fn an_open_stream_is_no_idleness() {
    let held = Held::new();
    let runtime = Runtime::builder().tools(held.tool()).build();
    let idle = Duration::from_millis(50);
    let server = McpServer::from_runtime(&runtime).session_times(idle, HOUR);
    let address = served(server).await;
    let client = hold_time(Client::asked(address, "")).await;
    let mut call = hold_time(client.call(1, "hold", json!({}))).await;
    within("`held.begun`", hold_time(held.begun.notified())).await;
    // Another session of the server ends meanwhile.
    let other = hold_time(Client::asked(address, "")).await;
    tokio::time::sleep(2 * idle).await;
    assert_eq!(hold_time(other.send("GET", "")).await.status(), 404);
    held.let_go.notify_one();
    assert!(hold_time(call.next()).await["result"].is_object());
}

#[tokio::test]
async fn an_answer_that_was_never_asked_for_is_ignored() {
    let client = Client::asked(served(server(&MemoryStore::new())).await, "").await;
    for id in [json!(0), json!(99), json!("x"), json!(-1)] {
        client.answer(&json!({"id": id}), json!({"answer": "Eve"})).await;
        client
            .say(&json!({"jsonrpc": "2.0", "id": id, "error": {"code": 1, "message": "no"}}))
            .await;
    }
    let mut call = client.call(1, "asked_booking", json!({"to": "Oslo"})).await;
    let asked = call.next().await;
    assert_eq!(asked["params"]["message"], "In whose name to Oslo?\n\"Oslo\"", "{asked}");
    // Only the first of two answers counts.
    client.answer(&asked, json!({"answer": "Ada"})).await;
    client.answer(&asked, json!({"answer": "Eve"})).await;
    assert!(call.next().await["params"]["message"].as_str().unwrap().contains("\"Ada\""));
}

#[tokio::test]
async fn what_a_client_never_answers_waits_when_its_session_has_ended() {
    let store = MemoryStore::new();
    let client = Client::asked(served(server(&store)).await, "").await;
    let mut call = client.call(1, "asked_booking", json!({"to": "Oslo"})).await;
    assert_eq!(call.next().await["method"], "elicitation/create");
    // A broken stream does not cancel the call.
    drop(call);
    client.send("DELETE", "").await;
    let runtime = durable(&store);
    let asked = runtime.runs().questions(RunFilter::new()).await.unwrap();
    assert_eq!((asked.len(), &*asked[0].message), (1, "In whose name to Oslo?"));
}

#[tokio::test]
async fn a_call_is_cancelled_in_its_session_by_the_notification() {
    let store = MemoryStore::new();
    let client = Client::asked(served(server(&store)).await, "").await;
    let mut call = client.call(7, "asked_booking", json!({"to": "Oslo"})).await;
    assert_eq!(call.next().await["method"], "elicitation/create");
    let other = Client::asked(client.address, "").await;
    let cancelled =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}});
    // Request ids are separate for each session.
    other.say(&cancelled).await;
    assert!(other.request(1, "tools/list", json!({})).await.next().await["result"].is_object());
    let runtime = durable(&store);
    assert_eq!(runtime.runs().questions(RunFilter::new()).await.unwrap().len(), 1);
    client.say(&cancelled).await;
    within("the run to be cancelled", async {
        while runtime.runs().list(RunFilter::new()).await.unwrap()[0].status != RunStatus::Cancelled
        {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_request_of_the_newest_revision_belongs_to_no_session() {
    let address = served(with_callers(server(&MemoryStore::new()))).await;
    let ann = Client::asked(address, "x-who: ann\r\n").await;
    let head = format!(
        "x-who: eve\r\nmcp-session-id: {}\r\nmcp-protocol-version: 2026-07-28\r\nmcp-method: tools/list\r\n",
        ann.session
    );
    let list =
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": with_meta(json!({}))});
    let mut listed = send(address, "POST", &head, &list.to_string()).await;
    assert_eq!(listed.status(), 200, "{}", listed.head);
    assert!(listed.next().await["result"]["tools"].is_array());
    // A request with the new revision only in its headers does not belong to a session either.
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
    assert_eq!(send(address, "POST", &head, &list).await.status(), 400);
}

#[tokio::test]
async fn a_server_that_is_dropped_ends_its_sessions() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let held = Held::new();
    let runtime = Runtime::builder().tools(held.tool()).build();
    let serving =
        tokio::spawn(async move { McpServer::from_runtime(&runtime).serve_http(listener).await });
    let client = Client::asked(address, "").await;
    let call = client.call(1, "hold", json!({})).await;
    within("`held.begun`", held.begun.notified()).await;
    serving.abort();
    assert!(!call.rest().await.contains("let go"));
    tokio::time::pause();
    within("`held.stopped`", held.stopped.notified()).await;
}

#[tokio::test]
async fn a_killed_server_leaves_the_run_that_asks_for_another_process() {
    const HOST: &str = env!("CARGO_BIN_EXE_agentwf-host");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("runs.db").to_str().unwrap().to_owned();
    let mut command = std::process::Command::new(HOST);
    command.args(["mcp", "serve", "--http", "0", "--store", &file, "--workflow", "price"]);
    let mut process = Process::start(&mut command).unwrap();
    let address = process.wait_until("it listens", |process| {
        let output = process.output();
        let address = output.split_once("http://")?.1.split_once("/mcp")?.0;
        address.parse().ok()
    });
    let client = Client::asked(address, "").await;
    let mut call = client.call(1, "price", json!({"article": "lamp"})).await;
    let asked = call.next().await;
    assert!(
        asked["params"]["message"].as_str().unwrap().starts_with("how much is a lamp?"),
        "{asked}"
    );
    // Dropping the process kills it with SIGKILL.
    drop(process);
    assert_eq!(call.message().await, None);
    let runtime = Runtime::builder().store(SqliteStore::open(&file).await.unwrap()).build();
    let run = runtime.runs().list(RunFilter::new()).await.unwrap().remove(0).run_id.to_string();
    drop(runtime);
    let runs = |args: &[&str]| {
        let args =
            ["runs"].iter().chain(args).chain(&["--store", &file]).copied().collect::<Vec<_>>();
        Agentwf::new(HOST).args(args).run()
    };
    let answered = runs(&["approve", &run, "cents", "--answer", "7", "--by", "bo"]);
    assert_eq!(answered.code, Some(0), "{}", answered.stderr);
    let resumed = runs(&["resume", &run]);
    assert_eq!((resumed.code, resumed.stdout.as_str()), (Some(0), "14\n"), "{}", resumed.stderr);
}

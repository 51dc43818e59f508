//! Handwritten requests to an A2A server: every kind of malformed request, hostile bodies, foreign
//! hosts and origins, and the addresses of both bindings.

use std::time::Duration;

use agentflow::a2a_server::A2aServer;
use agentflow::prelude::*;
use agentflow::serde_json::{self, Value, json};
use agentflow::store::RunFilter;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::a2a_served::{runtime, serve};

pub(crate) struct Answered {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Answered {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error} in {}", self.body))
    }
}

/// Sends a raw request and reads the complete response.
async fn exchange(url: &str, request: &str) -> Answered {
    let mut stream = TcpStream::connect(url.strip_prefix("http://").unwrap()).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answered { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
}

pub(crate) async fn send(url: &str, line: &str, more: &str, body: &str) -> Answered {
    let head = format!(
        "{line} HTTP/1.0\r\nhost: localhost\r\n{more}content-length: {}\r\n\r\n",
        body.len()
    );
    exchange(url, &(head + body)).await
}

pub(crate) const GOOD: &str = "content-type: application/json\r\na2a-version: 1.0\r\n";

pub(crate) fn call(method: &str, params: Value) -> String {
    json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}).to_string()
}

/// Builds a message and applies a change to it.
fn message(change: impl FnOnce(&mut Value)) -> String {
    let mut params = json!({"message": {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"data": {"n": 4}}]}});
    change(&mut params);
    call("SendMessage", params)
}

async fn server() -> String {
    serve(A2aServer::from_runtime(&runtime()).workflows(["double"])).await
}

#[tokio::test]
async fn malformed_requests_have_the_code_of_their_mistake() {
    let url = server().await;
    let part = |part: Value| message(move |params| params["message"]["parts"] = json!([part]));
    let config = |config: Value| message(move |params| params["configuration"] = config);
    let field =
        |name: &'static str, value: Value| message(move |params| params["message"][name] = value);
    let table: Vec<(&str, String, i64)> = vec![
        ("nothing", String::new(), -32700),
        ("half of JSON", "{\"jsonrpc\": \"2.0\"".to_owned(), -32700),
        (
            "a key twice",
            r#"{"jsonrpc": "2.0", "jsonrpc": "2.0", "id": 1, "method": "GetTask"}"#.to_owned(),
            -32700,
        ),
        ("depth", format!("{}{}", "[".repeat(20_000), "]".repeat(20_000)), -32700),
        ("several at once", format!("[{}]", call("GetTask", json!({"id": "x"}))), -32600),
        ("a text", "\"hello\"".to_owned(), -32600),
        (
            "no id",
            json!({"jsonrpc": "2.0", "method": "GetTask", "params": {"id": "x"}}).to_string(),
            -32600,
        ),
        (
            "an id that is an object",
            json!({"jsonrpc": "2.0", "id": {}, "method": "GetTask"}).to_string(),
            -32600,
        ),
        (
            "another version of JSON-RPC",
            json!({"jsonrpc": "1.0", "id": 1, "method": "GetTask"}).to_string(),
            -32600,
        ),
        ("no version of JSON-RPC", json!({"id": 1, "method": "GetTask"}).to_string(), -32600),
        (
            "a method that is a number",
            json!({"jsonrpc": "2.0", "id": 1, "method": 3}).to_string(),
            -32600,
        ),
        ("an unknown method", call("Explode", json!({})), -32601),
        ("a method of version 0.3", call("message/send", json!({})), -32601),
        ("parameters that are a list", call("GetTask", json!(["x"])), -32602),
        ("no message", call("SendMessage", json!({})), -32602),
        ("no id of a task", call("GetTask", json!({})), -32602),
        ("an empty id", call("GetTask", json!({"id": ""})), -32602),
        ("a long id", call("GetTask", json!({"id": "x".repeat(300)})), -32602),
        ("an id that is a number", call("CancelTask", json!({"id": 4})), -32602),
        ("an unknown task", call("GetTask", json!({"id": "x"})), -32001),
        (
            "no message id",
            message(|params| drop(params["message"].as_object_mut().unwrap().remove("messageId"))),
            -32602,
        ),
        ("an empty message id", field("messageId", json!("")), -32602),
        (
            "no role",
            message(|params| drop(params["message"].as_object_mut().unwrap().remove("role"))),
            -32602,
        ),
        ("the role of the agent", field("role", json!("ROLE_AGENT")), -32602),
        ("an unknown role", field("role", json!("owner")), -32602),
        ("no parts", field("parts", json!([])), -32602),
        ("metadata that is a text", field("metadata", json!("x")), -32602),
        ("a skill that is a number", field("metadata", json!({"skill": 3})), -32602),
        ("an unknown skill", field("metadata", json!({"skill": "halve"})), -32602),
        ("an unknown context", field("contextId", json!("mine")), -32602),
        ("an unknown task to answer", field("taskId", json!("mine")), -32001),
        ("a part of nothing", part(json!({})), -32602),
        ("a part of two contents", part(json!({"text": "x", "data": 1})), -32602),
        ("bytes that are not base64", part(json!({"raw": "%%"})), -32602),
        ("a file", part(json!({"raw": "AAEC", "mediaType": "image/png"})), -32005),
        ("an address", part(json!({"url": "http://127.0.0.1/secret"})), -32005),
        (
            "a text of another type",
            part(json!({"text": "x", "mediaType": "application/xml"})),
            -32005,
        ),
        ("input that does not fit", part(json!({"data": {"n": "four"}})), -32602),
        ("input with too much", part(json!({"data": {"n": 4, "m": 5}})), -32602),
        ("a text in place of an object", part(json!({"text": "four"})), -32602),
        ("a tenant", message(|params| params["tenant"] = json!("acme")), -32602),
        ("other output", config(json!({"acceptedOutputModes": ["image/png"]})), -32005),
        ("a negative history", config(json!({"historyLength": -1})), -32602),
        ("a wait that is a text", config(json!({"returnImmediately": "yes"})), -32602),
        (
            "push with a message",
            config(json!({"taskPushNotificationConfig": {"url": "http://x"}})),
            -32003,
        ),
        (
            "push",
            call("CreateTaskPushNotificationConfig", json!({"taskId": "x", "url": "http://x"})),
            -32003,
        ),
        ("the extended card", call("GetExtendedAgentCard", json!({})), -32007),
        ("a page of nothing", call("ListTasks", json!({"pageSize": 0})), -32602),
        ("a page that is too large", call("ListTasks", json!({"pageSize": 101})), -32602),
        ("an unknown page", call("ListTasks", json!({"pageToken": "x"})), -32602),
        ("an unknown state", call("ListTasks", json!({"status": "DONE"})), -32602),
        (
            "a time that is not one",
            call("ListTasks", json!({"statusTimestampAfter": "yesterday"})),
            -32602,
        ),
    ];
    for (what, body, code) in &table {
        let answer = send(&url, "POST /", GOOD, body).await;
        assert_eq!(
            (answer.status, &answer.json()["error"]["code"]),
            (200, &json!(code)),
            "{what}: {}",
            answer.body
        );
        assert!(
            answer.json()["error"]["message"].as_str().is_some_and(|text| !text.is_empty()),
            "{what}"
        );
        assert_eq!(answer.json()["error"]["data"][0]["domain"], "a2a-protocol.org", "{what}");
    }
    // None of the requests started a task.
    let listed = send(&url, "POST /", GOOD, &call("ListTasks", json!({}))).await.json();
    assert_eq!(
        listed["result"],
        json!({"tasks": [], "nextPageToken": "", "pageSize": 50, "totalSize": 0})
    );
    // JSON of Protocol Buffers has no integers.
    let float = part(json!({"data": {"n": 6.0}}));
    let float = send(&url, "POST /", GOOD, &float).await.json();
    assert_eq!(float["result"]["task"]["artifacts"][0]["parts"][0]["data"], 12, "{float}");
    let good = send(
        &url,
        "POST /",
        GOOD,
        &message(|params| params["message"]["messageId"] = json!("m-2")),
    )
    .await
    .json();
    assert_eq!(good["result"]["task"]["status"]["state"], "TASK_STATE_COMPLETED", "{good}");
    assert_eq!(good["id"], 7);
}

#[tokio::test]
async fn requests_of_other_versions_hosts_pages_and_types_are_refused() {
    let url = server().await;
    let body = message(|_| {});
    for version in ["", "a2a-version: 0.3\r\n", "a2a-version: 2.0\r\n"] {
        let more = format!("content-type: application/json\r\n{version}");
        assert_eq!(
            send(&url, "POST /", &more, &body).await.json()["error"]["code"],
            -32009,
            "{version}"
        );
        let answer = send(&url, "GET /tasks", &more, "").await;
        assert_eq!(
            (answer.status, &answer.json()["error"]["details"][0]["reason"]),
            (400, &json!("VERSION_NOT_SUPPORTED"))
        );
    }
    let table = [
        ("POST /", "content-type: text/plain\r\na2a-version: 1.0\r\n", 415),
        ("POST /message:send", "a2a-version: 1.0\r\n", 415),
        ("GET /", GOOD, 405),
        ("DELETE /tasks/x", GOOD, 405),
        ("POST /tasks", GOOD, 405),
        ("GET /message:send", GOOD, 405),
        ("GET /tasks/x:cancel", GOOD, 405),
        ("GET /nothing", GOOD, 404),
        ("POST /a2a/halve", GOOD, 404),
        ("GET /%zz", GOOD, 400),
        ("POST /.well-known/agent-card.json", GOOD, 405),
        (
            "POST /",
            "origin: https://evil.example\r\ncontent-type: application/json\r\na2a-version: 1.0\r\n",
            403,
        ),
    ];
    for (line, more, status) in table {
        let answer = send(&url, line, more, &body).await;
        assert_eq!(answer.status, status, "{line}: {} {}", answer.head, answer.body);
    }
    let foreign = format!(
        "POST / HTTP/1.0\r\nhost: evil.example\r\n{GOOD}content-length: {}\r\n\r\n{body}",
        body.len()
    );
    assert_eq!(exchange(&url, &foreign).await.status, 403);
    assert_eq!(
        exchange(&url, "GET /.well-known/agent-card.json HTTP/1.0\r\n\r\n").await.status,
        400
    );
    for (target, hosts, status) in [
        ("http://localhost/.well-known/agent-card.json", "host: localhost\r\n", 200),
        ("http://evil.example/.well-known/agent-card.json", "host: localhost\r\n", 400),
        ("/.well-known/agent-card.json", "host: localhost\r\nhost: evil.example\r\n", 400),
        ("/.well-known/agent-card.json", "host: evil.example\r\nhost: localhost\r\n", 400),
        ("/.well-known/agent-card.json", "host: [::1].example.org\r\n", 400),
    ] {
        let request = format!("GET {target} HTTP/1.1\r\n{hosts}connection: close\r\n\r\n");
        assert_eq!(exchange(&url, &request).await.status, status, "{target} {hosts}");
    }
}

#[tokio::test]
async fn the_version_may_have_a_patch_number_or_be_in_the_query() {
    let url = server().await;
    let json = "content-type: application/json\r\n";
    let sent = message(|_| {});
    let patched =
        send(&url, "POST /", &format!("{json}a2a-version: 1.0.1\r\n"), &sent).await.json();
    assert_eq!(patched["result"]["task"]["status"]["state"], "TASK_STATE_COMPLETED", "{patched}");
    let listed = send(&url, "GET /tasks?A2A-Version=1.0&pageSize=5", json, "").await;
    assert_eq!((listed.status, &listed.json()["totalSize"]), (200, &json!(1)), "{}", listed.body);
    let other = send(&url, "GET /tasks?A2A-Version=1.10.0", json, "").await.json();
    assert_eq!(other["error"]["details"][0]["reason"], "VERSION_NOT_SUPPORTED", "{other}");
}

#[tokio::test]
async fn a_card_is_cached_and_revalidated() {
    let url = server().await;
    let line = "GET /.well-known/agent-card.json";
    let first = send(&url, line, "", "").await;
    assert!(first.head.contains("cache-control: max-age="), "{}", first.head);
    let tag = first
        .head
        .lines()
        .find_map(|line| line.strip_prefix("etag: "))
        .expect("the card has a tag")
        .to_owned();
    let again = send(&url, line, &format!("if-none-match: \"old\", W/{tag}\r\n"), "").await;
    assert_eq!((again.status, again.body.as_str()), (304, ""));
    assert_eq!(send(&url, line, "if-none-match: \"old\"\r\n", "").await.status, 200);
}

#[tokio::test]
async fn a_message_is_a_duplicate_only_if_its_content_is_the_same() {
    let url = server().await;
    let sent =
        |n: u32| message(move |params| params["message"]["parts"][0]["data"]["n"] = json!(n));
    let mut tasks = Vec::new();
    for n in [4, 5, 4] {
        let task = send(&url, "POST /", GOOD, &sent(n)).await.json()["result"]["task"].clone();
        assert_eq!(task["artifacts"][0]["parts"][0]["data"], 2 * n, "{task}");
        tasks.push(task["id"].clone());
    }
    assert_eq!(tasks[0], tasks[2]);
    assert_ne!(tasks[0], tasks[1]);
}

/// Some clients, such as google-adk, send only text.
#[tokio::test]
async fn an_input_may_be_a_text_of_json() {
    let url = server().await;
    let sent = |text: &str| {
        let part = json!({"text": text});
        let id = format!("m-{}", text.len());
        message(move |params| {
            params["message"]["parts"] = json!([part]);
            params["message"]["messageId"] = json!(id);
        })
    };
    for text in ["4", " {\"n\": 4}"] {
        let task = send(&url, "POST /", GOOD, &sent(text)).await.json();
        assert_eq!(task["result"]["task"]["artifacts"][0]["parts"][0]["data"], 8, "{task}");
    }
    for text in ["four", "{\"m\": 4}", "[4"] {
        let refused = send(&url, "POST /", GOOD, &sent(text)).await.json();
        assert_eq!(refused["error"]["code"], -32602, "{text}: {refused}");
    }
}

#[tokio::test]
async fn an_unknown_agent_is_an_error_of_the_binding() {
    let url = server().await;
    let missing = send(&url, "POST /a2a/missing", GOOD, &message(|_| {})).await;
    assert_eq!(
        (missing.status, &missing.json()["error"]["code"]),
        (404, &json!(-32600)),
        "{}",
        missing.body
    );
    assert_eq!(missing.json()["id"], Value::Null);
}

#[tokio::test]
async fn hosts_and_origins_that_are_named_are_served() {
    let server = A2aServer::from_runtime(&runtime())
        .workflows(["double"])
        .public_url("https://agents.example/team/");
    let url = serve(server.hosts(["inner.example"]).origins(["https://console.example"])).await;
    for host in ["agents.example", "inner.example:8080", "localhost:1"] {
        let request = format!(
            "GET /.well-known/agent-card.json/ HTTP/1.0\r\nhost: {host}\r\norigin: https://console.example\r\n\r\n"
        );
        let answer = exchange(&url, &request).await;
        assert_eq!(answer.status, 200, "{host}");
        assert_eq!(answer.json()["supportedInterfaces"][0]["url"], "https://agents.example/team");
    }
}

#[tokio::test]
async fn hostile_bodies_end_within_their_limits() {
    let server = A2aServer::from_runtime(&runtime()).workflows(["double"]);
    let url = serve(server.max_body(2000).body_timeout(Duration::from_millis(200))).await;
    assert_eq!(send(&url, "POST /", GOOD, &"x".repeat(2001)).await.status, 413);
    // A chunked body without a declared size.
    let piece = format!("400\r\n{}\r\n", "x".repeat(0x400));
    let chunked = format!(
        "POST / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{GOOD}transfer-encoding: chunked\r\n\r\n{piece}{piece}{piece}0\r\n\r\n"
    );
    assert_eq!(exchange(&url, &chunked).await.status, 413);
    // A body that never completes.
    let slow = format!(
        "POST / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{GOOD}content-length: 100\r\n\r\n{{"
    );
    assert_eq!(exchange(&url, &slow).await.status, 408);
    let busy =
        serve(A2aServer::from_runtime(&runtime()).workflows(["double"]).max_requests(0)).await;
    let answer = send(&busy, "POST /", GOOD, "{}").await;
    assert_eq!((answer.status, answer.head.contains("retry-after: 1")), (503, true));
    let busy =
        serve(A2aServer::from_runtime(&runtime()).workflows(["double"]).max_streams(0)).await;
    let params =
        json!({"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"data": {"n": 4}}]}});
    assert_eq!(
        send(&busy, "POST /", GOOD, &call("SendStreamingMessage", params)).await.status,
        503
    );
}

#[tokio::test]
async fn both_bindings_have_both_forms_of_their_addresses() {
    let url = server().await;
    let params =
        json!({"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"data": {"n": 4}}]}})
            .to_string();
    let mut ids = Vec::new();
    for place in ["", "/a2a/double"] {
        for end in ["", "/"] {
            let sent = send(&url, &format!("POST {place}/message:send{end}"), GOOD, &params).await;
            assert_eq!(
                (sent.status, sent.head.contains("application/a2a+json")),
                (200, true),
                "{}",
                sent.body
            );
            let id = sent.json()["task"]["id"].as_str().unwrap().to_owned();
            let got = send(&url, &format!("GET {place}/tasks/{id}{end}"), GOOD, "").await;
            assert_eq!(got.json()["artifacts"][0]["parts"][0]["data"], 8, "{}", got.body);
            let listed = send(
                &url,
                &format!("GET {place}/tasks{end}?pageSize=1&includeArtifacts=true"),
                GOOD,
                "",
            )
            .await;
            assert_eq!(
                (&listed.json()["tasks"][0], &listed.json()["totalSize"]),
                (&got.json(), &json!(1))
            );
            let cancelled =
                send(&url, &format!("POST {place}/tasks/{id}:cancel{end}"), GOOD, "").await;
            assert_eq!(
                (cancelled.status, &cancelled.json()["error"]["status"]),
                (400, &json!("FAILED_PRECONDITION"))
            );
            let pushed = send(
                &url,
                &format!("POST {place}/tasks/{id}/pushNotificationConfigs{end}"),
                GOOD,
                "{}",
            )
            .await;
            assert_eq!(
                pushed.json()["error"]["details"][0]["reason"],
                "PUSH_NOTIFICATION_NOT_SUPPORTED"
            );
            let streamed =
                send(&url, &format!("POST {place}/message:stream{end}"), GOOD, &params).await;
            let event =
                streamed.body.trim().strip_prefix("data: ").map(serde_json::from_str::<Value>);
            assert_eq!(event.unwrap().unwrap()["task"], got.json());
            let rpc = send(
                &url,
                &format!(
                    "POST {place}{}",
                    if end.is_empty() && !place.is_empty() { "" } else { "/" }
                ),
                GOOD,
                &call("GetTask", json!({"id": id})),
            )
            .await;
            assert_eq!(rpc.json()["result"], got.json());
            let card =
                send(&url, &format!("GET {place}/.well-known/agent-card.json{end}"), "", "").await;
            assert_eq!(card.json()["capabilities"]["pushNotifications"], false);
            ids.push(id);
        }
    }
    ids.dedup();
    assert_eq!(ids.len(), 1, "the same message is the same task");
    for (line, reason) in [
        ("GET /tasks?pageSize=x", "INVALID_PARAMS"),
        ("GET /tasks?pageSize=1&pageSize=2", "INVALID_PARAMS"),
        ("GET /tasks?status=%zz", "INVALID_PARAMS"),
        ("GET /tasks/unknown", "TASK_NOT_FOUND"),
        ("POST /tasks/unknown:cancel", "TASK_NOT_FOUND"),
        ("GET /tasks/unknown:subscribe", "TASK_NOT_FOUND"),
        ("GET /extendedAgentCard", "EXTENDED_AGENT_CARD_NOT_CONFIGURED"),
    ] {
        let answer = send(&url, line, GOOD, "").await;
        assert_eq!(
            answer.json()["error"]["details"][0]["reason"],
            reason,
            "{line}: {}",
            answer.body
        );
    }
}

#[tokio::test]
async fn a_stream_waits_on_while_the_host_is_asked() {
    let runtime = runtime();
    let url = serve(A2aServer::from_runtime(&runtime).workflows(["announce"])).await;
    let rain =
        json!({"message": {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": "rain"}]}});
    let body = call("SendStreamingMessage", rain);
    let head = format!(
        "POST / HTTP/1.0\r\nhost: localhost\r\n{GOOD}content-length: {}\r\n\r\n",
        body.len()
    );
    let mut stream = TcpStream::connect(url.strip_prefix("http://").unwrap()).await.unwrap();
    stream.write_all((head + &body).as_bytes()).await.unwrap();
    let mut said = String::new();
    while !said.contains("it waits for an approval") {
        let mut piece = [0; 4096];
        let bytes = stream.read(&mut piece).await.unwrap();
        assert!(bytes > 0, "it ended: {said}");
        said.push_str(std::str::from_utf8(&piece[..bytes]).unwrap());
    }
    let question = &runtime.runs().questions(RunFilter::new()).await.unwrap()[0];
    runtime.run(&question.run).approve(&question.path, Approval::granted(), "ada").await.unwrap();
    stream.read_to_string(&mut said).await.unwrap();
    assert!(
        said.contains("TASK_STATE_COMPLETED") && !said.contains("TASK_STATE_INPUT_REQUIRED"),
        "{said}"
    );
}

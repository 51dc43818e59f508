//! Notifications of an MCP server: log messages at the level that the client has set, and changed
//! resources. Over streams, in sessions, and for clients without a handshake.

use agentflow::Caller;
use agentflow::front::RequestHead;
use agentflow::mcp_server::{McpServer, ServedResource};
use agentflow::prelude::*;
use agentflow::serde_json::{Value, json};
use agentflow::store::MemoryStore;
use agentflow_testing::{ScriptedModel, Turn, within};

use crate::http_session::{Client, send};
use crate::served::Lines;
use crate::served_over_http::served;
use crate::served_tasks::{only, with_meta};

/// Says what it does, at several levels.
#[tool(effects = "none")]
fn served_chatter(cx: &Context) -> String {
    cx.emit(&json!({"level": "debug", "message": "looks"}));
    cx.emit(&json!({"level": "info", "message": "found", "count": 3}));
    cx.emit("half of it");
    cx.emit(&json!({"level": "error", "message": "lost"}));
    "done".to_owned()
}

/// Chatters at once.
#[workflow]
async fn served_chatting_at_once(cx: &Context) -> Result<String> {
    let said = served_chatter(cx);
    Ok(said)
}

/// Asks before it chatters.
#[workflow]
async fn served_chatting(cx: &Context) -> Result<String> {
    let go: bool = gate!("Go?", answer = bool).await?;
    #[after(go)]
    let said = served_chatter(cx);
    Ok(said)
}

fn chatting() -> McpServer {
    let runtime = Runtime::builder().store(MemoryStore::new()).build();
    McpServer::from_runtime(&runtime).tools(["served_chatter"]).workflows(["served_chatting"])
}

fn messages(notifications: &[Value]) -> Vec<(String, Value, String)> {
    let message = |said: &Value| {
        assert_eq!(said["method"], "notifications/message", "{said}");
        let params = &said["params"];
        let text = |key: &str| params[key].as_str().unwrap().to_owned();
        (text("level"), params["data"].clone(), text("logger"))
    };
    notifications.iter().map(message).collect()
}

/// Returns the messages before the response to a request.
async fn before_answer(lines: &mut Lines) -> Vec<Value> {
    let mut all = Vec::new();
    loop {
        let next = lines.next().await;
        if next["method"].is_null() {
            return all;
        }
        all.push(next);
    }
}

#[tokio::test]
async fn a_call_logs_at_the_level_that_its_client_has_set_for_the_connection() {
    let mut lines = Lines::greeted(&chatting()).await;
    let call = json!({"name": "served_chatter", "arguments": {}});
    // Log messages are off until a level is set.
    lines.send(1, "tools/call", call.clone()).await;
    assert_eq!(before_answer(&mut lines).await, Vec::<Value>::new());
    for (level, count) in [("debug", 3), ("info", 2), ("warning", 1), ("error", 1), ("critical", 0)]
    {
        let set = lines.ask(2, "logging/setLevel", json!({"level": level})).await;
        assert_eq!(set["result"], json!({}), "{set}");
        lines.send(3, "tools/call", call.clone()).await;
        let said = messages(&before_answer(&mut lines).await);
        let tool = "served_chatter".to_owned();
        let all = [
            ("debug".to_owned(), json!("looks"), tool.clone()),
            ("info".to_owned(), json!({"message": "found", "count": 3}), tool.clone()),
            ("error".to_owned(), json!("lost"), tool),
        ];
        assert_eq!(said, all[3 - count..], "{level}");
    }
    let wrong = lines.ask(4, "logging/setLevel", json!({"level": "loud"})).await;
    assert!(wrong["error"].is_object(), "{wrong}");
    // The level of one connection does not affect another one.
    let mut other = Lines::greeted(&chatting()).await;
    other.send(1, "tools/call", json!({"name": "served_chatter", "arguments": {}})).await;
    assert!(before_answer(&mut other).await.is_empty());
}

#[tokio::test]
async fn a_run_logs_what_its_steps_say() {
    let mut lines = Lines::greeted_with(&chatting(), json!({"elicitation": {}})).await;
    lines.ask(1, "logging/setLevel", json!({"level": "info"})).await;
    let asked = lines.call(2, "served_chatting", json!({})).await;
    assert_eq!(asked["method"], "elicitation/create", "{asked}");
    let accepted = json!({"action": "accept", "content": {"answer": true}});
    lines.say(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": accepted})).await;
    let said = messages(&before_answer(&mut lines).await);
    assert_eq!(said.iter().map(|said| &*said.0).collect::<Vec<_>>(), ["info", "error"]);
    assert!(said.iter().all(|said| said.2 == "served_chatting"), "{said:?}");
}

/// Builds a server with the tool, a workflow, and an agent whose first turn calls the tool.
fn chatting_at_once(has_store: bool) -> McpServer {
    let model = ScriptedModel::from_fn(|request| match request.messages.len() {
        1 => Turn::call("served_chatter", json!({})),
        _ => Turn::text("done"),
    });
    let agent = Agent::new(model).name("served_chatterbox").tools(tools![served_chatter]);
    let runtime = Runtime::builder().agent(&agent);
    let runtime = if has_store { runtime.store(MemoryStore::new()) } else { runtime }.build();
    McpServer::from_runtime(&runtime)
        .agents(["served_chatterbox"])
        .workflows(["served_chatting_at_once"])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_a_run_says_in_its_first_moment_is_shown() {
    for has_store in [true, false] {
        let mut lines = Lines::greeted(&chatting_at_once(has_store)).await;
        lines.ask(1, "logging/setLevel", json!({"level": "debug"})).await;
        for times in 0..20 {
            for (name, arguments) in [
                ("served_chatting_at_once", json!({})),
                ("served_chatterbox", json!({"message": "Go."})),
            ] {
                let meta = json!({"progressToken": times});
                lines
                    .send(
                        2,
                        "tools/call",
                        json!({"name": name, "arguments": arguments, "_meta": meta}),
                    )
                    .await;
                let said = before_answer(&mut lines).await;
                let shown =
                    |method: &str| said.iter().filter(|said| said["method"] == method).count();
                let of_both = (shown("notifications/message"), shown("notifications/progress"));
                assert_eq!(of_both, (3, 1), "{name} {has_store} {times}: {said:?}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_a_run_says_as_soon_as_it_is_answered_is_shown() {
    for restarts in [false, true] {
        let store = MemoryStore::new();
        let server = || {
            let runtime = Runtime::builder().store(store.clone()).build();
            (
                McpServer::from_runtime(&runtime).tools([""; 0]).workflows(["served_chatting"]),
                runtime,
            )
        };
        for times in 0..20 {
            let ((served, mut runtime), level) = (server(), "io.modelcontextprotocol/logLevel");
            let mut lines = Lines::of(&served);
            let mut params = with_meta(json!({"name": "served_chatting", "arguments": {}}));
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
                json!({"elicitation": {}});
            params["_meta"][level] = json!("debug");
            let asked = lines.ask(1, "tools/call", params.clone()).await;
            if restarts {
                runtime.drain(std::time::Duration::from_secs(3600)).await;
                let (served, next) = server();
                (lines, runtime) = (Lines::of(&served), next);
            }
            let (key, _) = only(&asked["result"]);
            params["requestState"] = asked["result"]["requestState"].clone();
            params["inputResponses"] =
                json!({(key): {"action": "accept", "content": {"answer": true}}});
            lines.send(2, "tools/call", params).await;
            assert_eq!(messages(&before_answer(&mut lines).await).len(), 3, "{restarts} {times}");
            drop(runtime);
        }
    }
}

#[tokio::test]
async fn what_is_logged_is_not_shown_as_progress() {
    let mut lines = Lines::greeted(&chatting()).await;
    let meta = json!({"progressToken": 1});
    lines
        .send(1, "tools/call", json!({"name": "served_chatter", "arguments": {}, "_meta": meta}))
        .await;
    let shown = before_answer(&mut lines).await;
    let shown: Vec<_> =
        shown.iter().map(|said| (&said["method"], &said["params"]["message"])).collect();
    assert_eq!(shown, [(&json!("notifications/progress"), &json!("half of it"))]);
}

#[tokio::test]
async fn a_client_without_a_handshake_says_its_level_in_each_request() {
    let mut lines = Lines::of(&chatting());
    let mut params = with_meta(json!({"name": "served_chatter", "arguments": {}}));
    lines.send(1, "tools/call", params.clone()).await;
    assert!(before_answer(&mut lines).await.is_empty());
    params["_meta"]["io.modelcontextprotocol/logLevel"] = json!("error");
    lines.send(2, "tools/call", params.clone()).await;
    assert_eq!(messages(&before_answer(&mut lines).await).len(), 1);
    // In this revision a level belongs to the request, not to the connection.
    let refused = lines.ask(3, "logging/setLevel", with_meta(json!({"level": "info"}))).await;
    assert_eq!(refused["error"]["code"], -32601, "{refused}");
    // Over HTTP the messages are on the stream of the request.
    let head = "mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: served_chatter\r\n";
    let call =
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
    let mut answered = send(served(chatting()).await, "POST", head, &call).await;
    assert_eq!(answered.next().await["params"]["data"], "lost");
    assert!(answered.next().await["result"].is_object());
}

#[tokio::test]
async fn a_call_logs_on_the_stream_of_its_session() {
    let address = served(chatting()).await;
    let client = Client::asked(address, "").await;
    let mut stream = client.send("GET", "").await;
    client.request(1, "logging/setLevel", json!({"level": "info"})).await.rest().await;
    let other = Client::asked(address, "").await;
    for client in [&other, &client] {
        let mut call = client.call(2, "served_chatting", json!({})).await;
        let asked = call.next().await;
        client.answer(&asked, json!({"answer": true})).await;
        let answer = call.next().await;
        assert_eq!(answer["result"]["content"][0]["text"], "done", "{answer}");
    }
    let said = messages(&[
        within("a message", stream.next()).await,
        within("a message", stream.next()).await,
    ]);
    assert_eq!((&*said[0].0, &*said[1].0), ("info", "error"));
}

fn with_notes() -> McpServer {
    let runtime = Runtime::builder().build();
    McpServer::from_runtime(&runtime)
        .resource(ServedResource::text("notes://today", "Nothing."))
        .resource(ServedResource::text("notes://secret", "Much.").scopes(["owner"]))
        .resource(ServedResource::read("notes://days/{day}", |_| async {
            Ok::<_, String>("Nothing.")
        }))
}

#[tokio::test]
async fn a_client_that_subscribes_is_notified_until_it_unsubscribes() {
    let server = with_notes();
    let mut lines = Lines::greeted(&server).await;
    // There are no subscribers yet.
    server.resource_changed("notes://today");
    for uri in ["notes://today", "notes://days/monday", "notes://days/monday"] {
        let subscribed = lines.ask(1, "resources/subscribe", json!({"uri": uri})).await;
        assert_eq!(subscribed["result"], json!({}), "{subscribed}");
    }
    for (uri, code) in [("notes://tomorrow", -32002), ("notes://secret", -32003)] {
        let refused = lines.ask(2, "resources/subscribe", json!({"uri": uri})).await;
        assert_eq!(refused["error"]["code"], code, "{refused}");
        server.resource_changed(uri);
    }
    for uri in ["notes://days/monday", "notes://days/tuesday", "notes://today"] {
        server.resource_changed(uri);
    }
    for uri in ["notes://days/monday", "notes://today"] {
        let said = lines.next().await;
        assert_eq!(said["method"], "notifications/resources/updated", "{said}");
        assert_eq!(said["params"]["uri"], uri, "{said}");
    }
    for uri in ["notes://today", "notes://nowhere"] {
        let left = lines.ask(3, "resources/unsubscribe", json!({"uri": uri})).await;
        assert_eq!(left["result"], json!({}), "{left}");
    }
    server.resource_changed("notes://today");
    server.resource_changed("notes://days/monday");
    assert_eq!(lines.next().await["params"]["uri"], "notes://days/monday");
    // Notifications for a disconnected client are dropped.
    lines.leave().await.unwrap();
    server.resource_changed("notes://today");
}

#[tokio::test]
async fn a_client_subscribes_to_so_many_addresses() {
    let mut lines = Lines::greeted(&with_notes()).await;
    for day in 0..256 {
        let subscribed = lines
            .ask(1, "resources/subscribe", json!({"uri": format!("notes://days/{day}")}))
            .await;
        assert_eq!(subscribed["result"], json!({}), "{subscribed}");
    }
    let refused = lines.ask(1, "resources/subscribe", json!({"uri": "notes://today"})).await;
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
}

#[tokio::test]
async fn a_client_is_notified_on_the_stream_of_its_session() {
    let server = with_notes().authenticate(|request: RequestHead| async move {
        let is_owner = request.header("x-owner").is_some();
        Ok(if is_owner { Caller::new("ann").with_scopes(["owner"]) } else { Caller::new("eve") })
    });
    let address = served(server.clone()).await;
    let (ann, eve) =
        (Client::asked(address, "x-owner: yes\r\n").await, Client::asked(address, "").await);
    let mut stream = ann.send("GET", "").await;
    let secret = json!({"uri": "notes://secret"});
    let subscribed = ann.request(1, "resources/subscribe", secret.clone()).await.next().await;
    assert_eq!(subscribed["result"], json!({}), "{subscribed}");
    let refused = eve.request(1, "resources/subscribe", secret).await.next().await;
    assert_eq!(refused["error"]["code"], -32003, "{refused}");
    server.resource_changed("notes://secret");
    let said = within("a message", stream.next()).await;
    assert_eq!(
        (&said["method"], &said["params"]["uri"]),
        (&json!("notifications/resources/updated"), &json!("notes://secret"))
    );
}

/// Builds the request of a client without a handshake that listens to resources.
fn listening(uris: &[&str]) -> Value {
    with_meta(json!({"notifications": {"resourceSubscriptions": uris, "toolsListChanged": true}}))
}

#[tokio::test]
async fn a_client_without_a_handshake_listens_over_its_streams() {
    let server = with_notes();
    let mut lines = Lines::of(&server);
    let uris = ["notes://today", "notes://nowhere", "notes://secret", "notes://today"];
    let acknowledged = lines.ask(7, "subscriptions/listen", listening(&uris)).await;
    assert_eq!(
        acknowledged["method"], "notifications/subscriptions/acknowledged",
        "{acknowledged}"
    );
    assert!(!acknowledged["params"].to_string().contains("nowhere"), "{acknowledged}");
    for uri in ["notes://secret", "notes://nowhere", "notes://today"] {
        server.resource_changed(uri);
    }
    let said = lines.next().await;
    assert_eq!(
        (&said["method"], &said["params"]["uri"]),
        (&json!("notifications/resources/updated"), &json!("notes://today"))
    );
    assert_eq!(said["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 7, "{said}");
    let cancelled =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}});
    lines.say(&cancelled).await;
    let listed = lines.ask(8, "tools/list", with_meta(json!({}))).await;
    assert!(listed["result"].is_object(), "{listed}");
    server.resource_changed("notes://today");
    let listed = lines.ask(9, "tools/list", with_meta(json!({}))).await;
    assert_eq!(listed["id"], 9, "{listed}");
}

#[tokio::test]
async fn a_client_without_a_handshake_listens_at_an_address() {
    let server = with_notes();
    let address = served(server.clone()).await;
    let head = "mcp-protocol-version: 2026-07-28\r\nmcp-method: subscriptions/listen\r\n";
    let request = |uris: &[&str]| {
        json!({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": listening(uris)}).to_string()
    };
    let mut one = send(address, "POST", head, &request(&["notes://today"])).await;
    let mut other = send(address, "POST", head, &request(&["notes://days/monday"])).await;
    for stream in [&mut one, &mut other] {
        assert_eq!(
            within("the next event", stream.next()).await["method"],
            "notifications/subscriptions/acknowledged"
        );
    }
    server.resource_changed("notes://days/monday");
    server.resource_changed("notes://today");
    assert_eq!(one.next().await["params"]["uri"], "notes://today");
    assert_eq!(other.next().await["params"]["uri"], "notes://days/monday");
    // A server without resources has nothing to listen to.
    let address = served(McpServer::from_runtime(&Runtime::builder().build())).await;
    assert_eq!(send(address, "POST", head, &request(&["notes://today"])).await.status(), 404);
}

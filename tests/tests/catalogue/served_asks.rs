//! Questions of a served run: sent to the client's person in both protocol eras and across
//! restarts, and clients that are not asked.

use agentflow::mcp_server::McpServer;
use agentflow::prelude::*;
use agentflow::schemars::JsonSchema;
use agentflow::serde::{Deserialize, Serialize};
use agentflow::serde_json::{Value, json};
use agentflow::store::{MemoryStore, RunFilter};
use agentflow_testing::{ScriptedModel, Turn};

use crate::served::{Lines, client};

#[derive(Serialize, Deserialize, JsonSchema)]
struct Seat {
    row: u32,
    by_window: bool,
}

/// Books a seat.
#[workflow]
async fn asked_booking(to: String) -> Result<String> {
    let name: String = gate!("In whose name to {to}?", to, answer = String).await?;
    let seat: Seat = gate!("Which seat?", name, answer = Seat).await?;
    Ok(format!("{name} to {to} in row {}, window: {}", seat.row, seat.by_window))
}

/// Builds an agent that asks two questions at once.
fn asked_both() -> Agent {
    let model = ScriptedModel::from_fn(|request| match request.messages.len() {
        1 => Turn::calls([
            ("ask_user", json!({"question": "In whose name?"})),
            ("ask_user", json!({"question": "Which row?", "schema": {"type": "integer"}})),
        ]),
        _ => {
            let results = request.messages.messages().iter().flat_map(|message| message.results());
            Turn::text(
                results
                    .map(|result| result.text().into_owned())
                    .collect::<Vec<_>>()
                    .join(" in row "),
            )
        }
    });
    Agent::new(model).name("asked_both").tools(tools![agentflow::ask_user])
}

/// Publishes after an approval.
#[workflow]
async fn asked_publish(text: String) -> Result<String> {
    let approval = gate!("publish this?", text).await?;
    let published = if approval.is_granted() { text } else { "nothing".to_owned() };
    Ok(published)
}

fn server(runtime: &Runtime) -> McpServer {
    McpServer::from_runtime(runtime)
        .tools::<&str>([])
        .workflows(["asked_booking", "asked_publish"])
        .agents(["asked_both"])
}

fn durable(store: &MemoryStore) -> Runtime {
    Runtime::builder().store(store.clone()).agent(&asked_both()).build()
}

/// Builds the metadata of a request without a handshake.
fn meta(capabilities: &Value) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "lines", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    })
}

fn call(tool: &str, arguments: Value) -> Value {
    json!({"name": tool, "arguments": arguments, "_meta": meta(&json!({"elicitation": {}}))})
}

fn accepted(content: Value) -> Value {
    json!({"action": "accept", "content": content})
}

#[tokio::test]
async fn a_client_with_an_open_connection_is_asked_on_it() {
    let server = server(&durable(&MemoryStore::new()));
    let mut lines = Lines::greeted_with(&server, json!({"elicitation": {}})).await;
    let asked = lines.call(1, "asked_booking", json!({"to": "Oslo"})).await;
    assert_eq!(asked["method"], "elicitation/create", "{asked}");
    assert_eq!(asked["params"]["message"], "In whose name to Oslo?\n\"Oslo\"");
    assert_eq!(
        asked["params"]["requestedSchema"]["properties"]["answer"]["type"], "string",
        "{asked}"
    );
    let answer = |asked: &Value, result: Value| json!({"jsonrpc": "2.0", "id": asked["id"], "result": result});
    lines.say(&answer(&asked, accepted(json!({"answer": "Ada"})))).await;
    let asked = lines.next().await;
    assert_eq!(
        asked["params"]["requestedSchema"]["required"],
        json!(["row", "by_window"]),
        "{asked}"
    );
    // The question is repeated together with the error.
    lines.say(&answer(&asked, accepted(json!({"row": -1, "by_window": true})))).await;
    let asked = lines.next().await;
    assert!(
        asked["params"]["message"].as_str().unwrap().contains("The last answer was refused"),
        "{asked}"
    );
    lines.say(&answer(&asked, accepted(json!({"row": 7, "by_window": true})))).await;
    let answer = lines.next().await;
    assert_eq!(
        answer["result"]["content"][0]["text"], "Ada to Oslo in row 7, window: true",
        "{answer}"
    );
}

#[tokio::test]
async fn a_call_with_the_id_of_an_open_one_begins_no_run() {
    let runtime = durable(&MemoryStore::new());
    let mut lines = Lines::greeted_with(&server(&runtime), json!({"elicitation": {}})).await;
    let asked = lines.call(1, "asked_booking", json!({"to": "Oslo"})).await;
    assert_eq!(asked["method"], "elicitation/create", "{asked}");
    let refused = lines.call(1, "asked_booking", json!({"to": "Rome"})).await;
    assert_eq!(refused["error"]["code"], -32600, "{refused}");
    assert!(refused["error"]["message"].as_str().unwrap().contains("open already"), "{refused}");
    assert_eq!(runtime.runs().list(RunFilter::new()).await.unwrap().len(), 1);
    // The open question is unchanged.
    let name =
        json!({"jsonrpc": "2.0", "id": asked["id"], "result": accepted(json!({"answer": "Ada"}))});
    lines.say(&name).await;
    assert!(lines.next().await["params"]["message"].as_str().unwrap().contains("Which seat?"));
}

#[tokio::test]
async fn a_form_is_closed_when_somebody_else_answers() {
    let store = MemoryStore::new();
    let runtime = durable(&store);
    let mut lines = Lines::greeted_with(&server(&runtime), json!({"elicitation": {}})).await;
    let asked = lines.call(1, "asked_booking", json!({"to": "Oslo"})).await;
    assert_eq!(asked["method"], "elicitation/create", "{asked}");
    let question = runtime.runs().questions(RunFilter::new()).await.unwrap().remove(0);
    // A refused answer does not close the question.
    runtime.run(&question.run).answer(&question.id, &7, "bob").await.unwrap_err();
    runtime.run(&question.run).answer(&question.id, "Ada", "bob").await.unwrap();
    let said = [lines.next().await, lines.next().await];
    let closed = said
        .iter()
        .find(|said| said["method"] == "notifications/cancelled")
        .unwrap_or_else(|| panic!("{said:?}"));
    assert_eq!(closed["params"]["requestId"], asked["id"], "{closed}");
    let seat = said
        .iter()
        .find(|said| said["method"] == "elicitation/create")
        .unwrap_or_else(|| panic!("{said:?}"));
    // An answer that arrives for the closed form does not apply to the next question.
    let late = json!({"jsonrpc": "2.0", "id": asked["id"], "result": accepted(json!({"row": 1, "by_window": false}))});
    lines.say(&late).await;
    let answer = json!({"jsonrpc": "2.0", "id": seat["id"], "result": accepted(json!({"row": 7, "by_window": true}))});
    lines.say(&answer).await;
    let end = lines.next().await;
    assert_eq!(end["result"]["content"][0]["text"], "Ada to Oslo in row 7, window: true", "{end}");
}

#[tokio::test]
async fn a_form_is_closed_when_the_run_is_cancelled() {
    let store = MemoryStore::new();
    let runtime = durable(&store);
    let mut lines = Lines::greeted_with(&server(&runtime), json!({"elicitation": {}})).await;
    let asked = lines.call(1, "asked_booking", json!({"to": "Oslo"})).await;
    let question = runtime.runs().questions(RunFilter::new()).await.unwrap().remove(0);
    runtime.run(&question.run).cancel("no flights").await.unwrap();
    let said = [lines.next().await, lines.next().await];
    assert!(said.iter().any(|said| said["params"]["requestId"] == asked["id"]), "{said:?}");
    assert!(said.iter().any(|said| said["result"]["isError"] == true), "{said:?}");
}

#[tokio::test]
async fn a_client_that_declines_reads_that_the_run_waits() {
    let store = MemoryStore::new();
    let mut lines =
        Lines::greeted_with(&server(&durable(&store)), json!({"elicitation": {}})).await;
    let asked = lines.call(1, "asked_booking", json!({"to": "Oslo"})).await;
    lines.say(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "decline"}})).await;
    let answer = lines.next().await;
    assert_eq!(answer["result"]["isError"], true);
    assert!(
        answer["result"]["content"][0]["text"]
            .as_str()
            .unwrap()
            .contains("waits for a person: In whose name")
    );
    assert_eq!(durable(&store).runs().questions(RunFilter::new()).await.unwrap().len(), 1);
}

#[tokio::test]
async fn without_a_handshake_a_question_is_the_answer_and_another_process_continues() {
    let store = MemoryStore::new();
    let mut lines = Lines::of(&server(&durable(&store)));
    let first = lines.ask(1, "tools/call", call("asked_booking", json!({"to": "Oslo"}))).await;
    let asked = &first["result"];
    assert_eq!(asked["resultType"], "input_required", "{first}");
    let (path, request) = asked["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert_eq!(request["params"]["message"], "In whose name to Oslo?\n\"Oslo\"");
    drop(lines);
    // Another process, with the same store.
    let mut lines = Lines::of(&server(&durable(&store)));
    let mut further = call("asked_booking", json!({"to": "Oslo"}));
    further["requestState"] = asked["requestState"].clone();
    // Without an answer the question is repeated.
    let again = lines.ask(1, "tools/call", further.clone()).await;
    assert_eq!(again["result"]["inputRequests"], asked["inputRequests"], "{again}");
    further["inputResponses"] =
        json!({path: accepted(json!({"answer": "Ada"})), "extra": accepted(json!({}))});
    let seat = lines.ask(2, "tools/call", further.clone()).await;
    let (now, request) =
        seat["result"]["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert!(request["params"]["message"].as_str().unwrap().starts_with("Which seat?"));
    further["requestState"] = seat["result"]["requestState"].clone();
    // An answer to another question does not apply to this one, even at the same path.
    for other in [path.clone(), format!("{now}@00000000")] {
        further["inputResponses"] = json!({other: accepted(json!({"row": 8, "by_window": true}))});
        let stale = lines.ask(3, "tools/call", further.clone()).await;
        assert_eq!(stale["result"]["inputRequests"], seat["result"]["inputRequests"], "{stale}");
    }
    further["inputResponses"] = json!({now: accepted(json!({"row": 7, "by_window": false}))});
    let end = lines.ask(3, "tools/call", further.clone()).await;
    assert_eq!(end["result"]["content"][0]["text"], "Ada to Oslo in row 7, window: false", "{end}");
    // Repeating the request has no effect, because the run has ended.
    let end = lines.ask(4, "tools/call", further).await;
    assert_eq!(end["result"]["content"][0]["text"], "Ada to Oslo in row 7, window: false", "{end}");
    assert_eq!(durable(&store).runs().list(RunFilter::new()).await.unwrap().len(), 1);
}

#[tokio::test]
async fn everything_that_a_run_asks_is_asked_at_once() {
    let server = server(&durable(&MemoryStore::new()));
    let mut lines = Lines::of(&server);
    let asked = lines.ask(1, "tools/call", call("asked_both", json!({"message": "Go."}))).await;
    let requests =
        asked["result"]["inputRequests"].as_object().unwrap_or_else(|| panic!("{asked}")).clone();
    assert_eq!(requests.len(), 2);
    let responses = requests.iter().map(|(path, request)| {
        let properties = &request["params"]["requestedSchema"]["properties"]["answer"];
        let answer = if properties["type"] == "string" { json!("Ada") } else { json!(3) };
        (path.clone(), accepted(json!({"answer": answer})))
    });
    let mut further = call("asked_both", json!({"message": "Go."}));
    further["requestState"] = asked["result"]["requestState"].clone();
    further["inputResponses"] = Value::Object(responses.collect());
    let end = lines.ask(2, "tools/call", further).await;
    assert_eq!(end["result"]["content"][0]["text"], "Ada in row 3", "{end}");
}

#[tokio::test]
async fn a_state_that_was_not_given_for_the_call_continues_nothing() {
    let server = server(&durable(&MemoryStore::new()));
    let mut lines = Lines::of(&server);
    let asked = lines.ask(1, "tools/call", call("asked_booking", json!({"to": "Oslo"}))).await;
    let state = asked["result"]["requestState"].as_str().unwrap();
    let (run, token) = state.rsplit_once('+').unwrap().0.split_once('.').unwrap();
    let other = format!("{run}.{}+00000001", "0".repeat(token.len()));
    let none = format!("{run}.+00000001");
    for (tool, state) in [
        ("asked_booking", &*other),
        ("asked_booking", &*none),
        ("asked_booking", "x"),
        ("asked_both", state),
    ] {
        let mut further = call(tool, json!({"to": "Oslo"}));
        further["requestState"] = json!(state);
        let refused = lines.ask(2, "tools/call", further).await;
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
    }
}

#[tokio::test]
async fn an_approval_is_asked_of_a_client_only_where_the_host_says_so() {
    let store = MemoryStore::new();
    let mut lines = Lines::of(&server(&durable(&store)));
    let left = lines.ask(1, "tools/call", call("asked_publish", json!({"text": "news"}))).await;
    assert_eq!(left["result"]["isError"], true, "{left}");
    let mut lines = Lines::of(&server(&durable(&store)).clients_approve());
    let asked = lines.ask(1, "tools/call", call("asked_publish", json!({"text": "news"}))).await;
    let state = asked["result"]["requestState"].clone();
    let (path, request) =
        asked["result"]["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert_eq!(request["params"]["requestedSchema"]["required"], json!(["approve"]));
    // A server that does not ask for approvals does not accept them either.
    let mut further = call("asked_publish", json!({"text": "news"}));
    further["requestState"] = state;
    further["inputResponses"] = json!({path: accepted(json!({"approve": true}))});
    let mut strict = Lines::of(&server(&durable(&store)));
    let left = strict.ask(1, "tools/call", further.clone()).await;
    assert_eq!(left["result"]["isError"], true, "{left}");
    let end = lines.ask(2, "tools/call", further).await;
    assert_eq!(end["result"]["content"][0]["text"], "news", "{end}");
}

#[tokio::test]
async fn a_client_that_cannot_ask_reads_that_the_run_waits() {
    let mut lines = Lines::greeted(&server(&durable(&MemoryStore::new()))).await;
    let left = lines.call(1, "asked_booking", json!({"to": "Oslo"})).await;
    assert_eq!(left["result"]["isError"], true, "{left}");
    assert!(
        left["result"]["content"][0]["text"].as_str().unwrap().contains("waits for a person"),
        "{left}"
    );
    // So does a server without a store, in which a later request could not find the run.
    let mut lines = Lines::of(&server(&Runtime::builder().agent(&asked_both()).build()));
    let left = lines.ask(1, "tools/call", call("asked_booking", json!({"to": "Oslo"}))).await;
    assert!(
        left["result"]["content"][0]["text"].as_str().unwrap().contains("so it was cancelled"),
        "{left}"
    );
}

#[tokio::test]
async fn our_client_asks_what_our_server_asks() {
    let server = server(&durable(&MemoryStore::new()));
    let model = ScriptedModel::new([
        Turn::call("mcp__served__asked_booking", json!({"to": "Oslo"})),
        Turn::text("booked").expect_text("Ada to Oslo in row 1, window: true"),
    ]);
    let runtime = durable(&MemoryStore::new());
    let run = Agent::new(model).tools(client(&server)).runtime(&runtime).start("Go.").unwrap();
    let question = run.asked().await.unwrap().unwrap();
    assert!(question.message.ends_with("In whose name to Oslo?\n\"Oslo\""), "{}", question.message);
    run.answer(&question.path, &json!({"answer": "Ada"}), "ada").await.unwrap();
    let question = run.asked().await.unwrap().unwrap();
    assert!(question.message.contains("Which seat?"), "{}", question.message);
    run.answer(&question.path, &json!({"row": 1, "by_window": true}), "ada").await.unwrap();
    assert_eq!(run.result().await.unwrap().output(), "booked");
}

//! An MCP server whose agent calls an A2A agent, whose tool belongs to another MCP server. A
//! question of the innermost server reaches the outermost client, also when the programs in between
//! are restarted, and nothing is called twice.

use std::time::Duration;

use agentflow::a2a::A2aClient;
use agentflow::a2a_server::A2aServer;
use agentflow::mcp::McpClient;
use agentflow::mcp_server::McpServer;
use agentflow::prelude::*;
use agentflow::serde_json::{Value, json};
use agentflow::store::{MemoryStore, RunFilter, RunStatus};
use agentflow_testing::{McpAnswer, ScriptedMcp, ScriptedModel, Turn, within};

use crate::a2a_served::serve;
use crate::served::Lines;
use crate::served_tasks::{only, with_meta};

/// Creates a model that calls a tool once and answers with its result.
fn calls(tool: &'static str, arguments: Value) -> ScriptedModel {
    ScriptedModel::from_fn(move |request| match request.messages.len() {
        1 => Turn::call(tool, arguments.clone()),
        _ => {
            let results = request.messages.messages().iter().flat_map(|message| message.results());
            Turn::text(results.map(|result| result.output.clone()).collect::<String>())
        }
    })
}

/// Creates the innermost server, whose tool asks for a seat.
fn flights() -> ScriptedMcp {
    let tools = [ScriptedMcp::tool("book", json!({"to": {"type": "string"}}))];
    let answer = |_: &str, _: &Value| {
        McpAnswer::text("booked").after_asking("Which seat?", json!({"seat": {"type": "string"}}))
    };
    ScriptedMcp::from_fn(tools, answer).without_handshake()
}

/// Builds the program in the middle: an agent that books, served over A2A.
fn clerk(store: &MemoryStore, flights: &ScriptedMcp) -> Runtime {
    let of = flights.clone();
    let tools = McpClient::in_memory("flights", move || of.connect()).build().unwrap();
    let agent = Agent::new(calls("mcp__flights__book", json!({"to": "Oslo"})))
        .name("nested_clerk")
        .tools(tools);
    Runtime::builder().store(store.clone()).agent(&agent).build()
}

/// Builds the outer program: an agent that calls the clerk, served over MCP.
fn desk(store: &MemoryStore, url: &str) -> Runtime {
    let far = A2aClient::at("clerk", url).asks_people().build().unwrap();
    let agent = Agent::new(calls("a2a__clerk", json!({"message": "Oslo, please."})))
        .name("nested_desk")
        .tools(far);
    Runtime::builder().store(store.clone()).agent(&agent).build()
}

fn served(desk: &Runtime) -> Lines {
    Lines::of(&McpServer::from_runtime(desk).tools([""; 0]).agents(["nested_desk"]))
}

fn call() -> Value {
    let mut params = with_meta(json!({"name": "nested_desk", "arguments": {"message": "Go."}}));
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({"elicitation": {}});
    params
}

#[tokio::test]
async fn what_the_innermost_asks_is_asked_of_the_outermost_client() {
    for restarts in [false, true] {
        let (flights, inner, outer) = (flights(), MemoryStore::new(), MemoryStore::new());
        let clerk_of = clerk(&inner, &flights);
        let url = serve(A2aServer::from_runtime(&clerk_of).agents(["nested_clerk"])).await;
        let mut desk_of = desk(&outer, &url);
        let mut lines = served(&desk_of);
        let asked = lines.ask(1, "tools/call", call()).await;
        assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
        let (key, question) = only(&asked["result"]);
        let said = question["params"]["message"].as_str().unwrap();
        assert!(said.contains("Which seat?") && said.contains("`clerk` asks"), "{question}");
        if restarts {
            desk_of.drain(Duration::from_secs(3600)).await;
            desk_of = desk(&outer, &url);
            lines = served(&desk_of);
        }
        let mut again = call();
        again["requestState"] = asked["result"]["requestState"].clone();
        let schema = &question["params"]["requestedSchema"]["properties"];
        let content = match schema["seat"].is_object() {
            true => json!({"seat": "window"}),
            false => json!({"answer": "{\"seat\": \"window\"}"}),
        };
        again["inputResponses"] = json!({(key): {"action": "accept", "content": content}});
        let answer = lines.ask(2, "tools/call", again).await;
        assert!(
            answer["result"]["content"][0]["text"]
                .as_str()
                .is_some_and(|text| text.contains("booked")),
            "{answer}"
        );
        assert_eq!(flights.calls().len(), 1, "{restarts}");
        assert_eq!(
            flights.answered(),
            [json!({"action": "accept", "content": {"seat": "window"}})]
        );
        for runtime in [&clerk_of, &desk_of] {
            let runs = runtime.runs().list(RunFilter::new()).await.unwrap();
            assert_eq!(runs.iter().map(|run| run.status).collect::<Vec<_>>(), [RunStatus::Success]);
        }
        drop(desk_of);
    }
}

#[tokio::test]
async fn who_cancels_the_outermost_call_cancels_the_innermost() {
    let tools = [ScriptedMcp::tool("book", json!({"to": {"type": "string"}}))];
    let flights = ScriptedMcp::new(tools).answers([("book", McpAnswer::Silence)]);
    let (inner, outer) = (MemoryStore::new(), MemoryStore::new());
    let clerk_of = clerk(&inner, &flights);
    let url = serve(A2aServer::from_runtime(&clerk_of).agents(["nested_clerk"])).await;
    let desk_of = desk(&outer, &url);
    let server = McpServer::from_runtime(&desk_of).tools([""; 0]).agents(["nested_desk"]);
    let mut lines = Lines::greeted(&server).await;
    lines
        .send(7, "tools/call", json!({"name": "nested_desk", "arguments": {"message": "Go."}}))
        .await;
    flights.wait_until(|server| !server.calls().is_empty()).await;
    let cancelled =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}});
    lines.say(&cancelled).await;
    flights.wait_until(|server| server.cancelled() == 1).await;
    for runtime in [&desk_of, &clerk_of] {
        let status = async || runtime.runs().list(RunFilter::new()).await.unwrap()[0].status;
        within("the run to be cancelled", async {
            while status().await != RunStatus::Cancelled {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
    flights.forgive();
}

//! Client capabilities and answers: answers given in advance, replies of the client's model, its
//! folders, and clients that cannot be asked.

use std::collections::BTreeMap;

use agentflow::mcp_server::{ClientFolders, ClientReply, McpServer};
use agentflow::prelude::*;
use agentflow::serde_json::{Value, json};
use agentflow::store::{MemoryStore, RunFilter};

use crate::served::Lines;
use crate::served_tasks::accepted;

/// Asks the client's model for a summary, and the client for its folders.
#[workflow]
async fn answered_summary(text: String) -> Result<String> {
    let reply: ClientReply = gate!("Sum this up: {text}", text, answer = ClientReply).await?;
    let at: ClientFolders = gate!("Where do you work?", answer = ClientFolders).await?;
    let model = reply.model.unwrap_or_default();
    let at: Vec<String> =
        at.folders.into_iter().map(|folder| folder.name.unwrap_or(folder.uri)).collect();
    Ok(format!("{} by {model} in {}", reply.text, at.join(", ")))
}

fn durable(store: &MemoryStore) -> Runtime {
    Runtime::builder().store(store.clone()).build()
}

fn server(store: &MemoryStore) -> McpServer {
    let workflows = ["answered_summary", "asked_booking", "asked_publish"];
    McpServer::from_runtime(&durable(store)).tools::<&str>([]).workflows(workflows)
}

/// Builds a call of a client without a handshake and with these capabilities.
fn call(tool: &str, arguments: Value, capabilities: &Value) -> Value {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "lines", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    });
    json!({"name": tool, "arguments": arguments, "_meta": meta})
}

fn booking(capabilities: &Value, responses: Value) -> Value {
    let mut params = call("asked_booking", json!({"to": "Oslo"}), capabilities);
    params["inputResponses"] = responses;
    params
}

fn said(text: &str) -> Value {
    json!({"role": "assistant", "content": {"type": "text", "text": text}, "model": "grey", "stopReason": "endTurn"})
}

fn at_home() -> Value {
    json!({"roots": [{"uri": "file:///home/ada", "name": "home"}, {"uri": "file:///tmp"}]})
}

#[tokio::test]
async fn answers_that_come_with_a_call_answer_what_its_run_asks() {
    let store = MemoryStore::new();
    let mut lines = Lines::of(&server(&store));
    let forms = json!({"elicitation": {}});
    let seat = accepted(json!({"row": 7, "by_window": true}));
    let name = accepted(json!({"answer": "Ada"}));
    let all = json!({"name": name, "seat": seat, "seats": accepted(json!({})), "unknown": 7});
    let end = lines.ask(1, "tools/call", booking(&forms, all)).await;
    assert_eq!(end["result"]["content"][0]["text"], "Ada to Oslo in row 7, window: true", "{end}");
    assert_eq!(durable(&store).runs().list(RunFilter::new()).await.unwrap().len(), 1);
    // A missing or invalid answer leads to a question.
    let wrong = accepted(json!({"row": -1, "by_window": true}));
    let asked =
        lines.ask(2, "tools/call", booking(&forms, json!({"name": name, "seat": wrong}))).await;
    let requests =
        asked["result"]["inputRequests"].as_object().unwrap_or_else(|| panic!("{asked}"));
    assert_eq!(requests.keys().collect::<Vec<_>>(), ["seat"], "{asked}");
    let message = requests["seat"]["params"]["message"].as_str().unwrap();
    assert!(message.contains("The last answer was refused"), "{message}");
    let mut further = booking(&forms, json!({"seat": seat}));
    further["requestState"] = asked["result"]["requestState"].clone();
    let end = lines.ask(3, "tools/call", further).await;
    assert_eq!(end["result"]["content"][0]["text"], "Ada to Oslo in row 7, window: true", "{end}");
    // A person may also decline in advance.
    let declined =
        lines.ask(4, "tools/call", booking(&forms, json!({"name": {"action": "decline"}}))).await;
    assert_eq!(declined["result"]["isError"], true, "{declined}");
    assert_eq!(durable(&store).runs().questions(RunFilter::new()).await.unwrap().len(), 1);
}

#[tokio::test]
async fn nobody_agrees_beforehand() {
    let store = MemoryStore::new();
    let approved = json!({"approval": accepted(json!({"approve": true}))});
    let mut publish = call("asked_publish", json!({"text": "news"}), &json!({"elicitation": {}}));
    publish["inputResponses"] = approved.clone();
    // This question is not sent to clients.
    let left = Lines::of(&server(&store)).ask(1, "tools/call", publish.clone()).await;
    assert_eq!(left["result"]["isError"], true, "{left}");
    // With `clients_approve` the client receives the question and may answer it.
    let mut lines = Lines::of(&server(&store).clients_approve());
    let asked = lines.ask(1, "tools/call", publish.clone()).await;
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    assert!(asked["result"]["inputRequests"]["approval"].is_object(), "{asked}");
    publish["requestState"] = asked["result"]["requestState"].clone();
    let end = lines.ask(2, "tools/call", publish).await;
    assert_eq!(end["result"]["content"][0]["text"], "news", "{end}");
}

#[tokio::test]
async fn answers_are_limited_in_number_and_size() {
    let store = MemoryStore::new();
    let mut lines = Lines::of(&server(&store).max_arguments(8192));
    let forms = json!({"elicitation": {}});
    let many: BTreeMap<String, Value> =
        (0..257).map(|number| (number.to_string(), json!(1))).collect();
    for (answers, problem) in [
        (json!(many), "257 answers, and 256 is the most"),
        (json!({"name": accepted(json!({"answer": "x".repeat(9000)}))}), "and 8192 is the most"),
    ] {
        let refused = lines.ask(1, "tools/call", booking(&forms, answers)).await;
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
        assert!(refused["error"]["message"].as_str().unwrap().contains(problem), "{refused}");
    }
    assert!(durable(&store).runs().list(RunFilter::new()).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_client_that_does_not_say_that_it_can_be_asked_reads_which_capability_is_missing() {
    let store = MemoryStore::new();
    let mut lines = Lines::of(&server(&store));
    // Answers given in advance are ignored, too, because the client does not declare the
    // capability.
    let beforehand = json!({"name": accepted(json!({"answer": "Eve"}))});
    let refused = lines.ask(1, "tools/call", booking(&json!({}), beforehand)).await;
    assert_eq!(refused["error"]["code"], -32021, "{refused}");
    assert!(
        refused["error"]["message"].as_str().unwrap().contains("In whose name to Oslo?"),
        "{refused}"
    );
    let data = &refused["error"]["data"];
    assert_eq!(data["requiredCapabilities"], json!({"elicitation": {"form": {}}}), "{refused}");
    // The run waits for an answer on the server's side.
    let question = durable(&store).runs().questions(RunFilter::new()).await.unwrap().remove(0);
    assert_eq!(data["agentflow/run"], json!(question.run), "{refused}");
    durable(&store).run(&question.run).answer(&question.id, "Ada", "bob").await.unwrap();
    // With the request state the client can continue the run once it supports questions.
    let mut further = booking(&json!({}), json!({}));
    further["requestState"] = data["requestState"].clone();
    let again = lines.ask(2, "tools/call", further).await;
    assert!(again["error"]["message"].as_str().unwrap().contains("Which seat?"), "{again}");
    let mut further = booking(&json!({"elicitation": {}}), json!({}));
    further["requestState"] = again["error"]["data"]["requestState"].clone();
    let asked = lines.ask(3, "tools/call", further.clone()).await;
    further["requestState"] = asked["result"]["requestState"].clone();
    further["inputResponses"] = json!({"seat": accepted(json!({"row": 7, "by_window": true}))});
    let end = lines.ask(4, "tools/call", further).await;
    assert_eq!(end["result"]["content"][0]["text"], "Ada to Oslo in row 7, window: true", "{end}");
    assert_eq!(durable(&store).runs().list(RunFilter::new()).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_clients_model_and_its_folders_are_asked_on_an_open_connection() {
    let store = MemoryStore::new();
    let mut lines =
        Lines::greeted_with(&server(&store), json!({"sampling": {}, "roots": {}})).await;
    let asked = lines.call(1, "answered_summary", json!({"text": "It rained."})).await;
    assert_eq!(asked["method"], "sampling/createMessage", "{asked}");
    assert_eq!(
        asked["params"]["messages"][0]["content"]["text"], "Sum this up: It rained.",
        "{asked}"
    );
    let answer = |asked: &Value, result: Value| json!({"jsonrpc": "2.0", "id": asked["id"], "result": result});
    // A reply without text is refused, and the question is repeated.
    let image = json!({"type": "image", "data": "AQI=", "mimeType": "image/png"});
    lines
        .say(&answer(&asked, json!({"role": "assistant", "content": image, "model": "grey"})))
        .await;
    let asked = lines.next().await;
    let prompt = asked["params"]["messages"][0]["content"]["text"]
        .as_str()
        .unwrap_or_else(|| panic!("{asked}"));
    assert!(prompt.contains("the reply of the model has no text"), "{prompt}");
    lines.say(&answer(&asked, said("Rain."))).await;
    let asked = lines.next().await;
    assert_eq!(asked["method"], "roots/list", "{asked}");
    lines.say(&answer(&asked, at_home())).await;
    let end = lines.next().await;
    assert_eq!(end["result"]["content"][0]["text"], "Rain. by grey in home, file:///tmp", "{end}");
    // A client without a model is not asked. A client that refuses is not asked again.
    let mut lines = Lines::greeted_with(&server(&store), json!({"elicitation": {}})).await;
    let left = lines.call(1, "answered_summary", json!({"text": "It rained."})).await;
    assert!(
        left["result"]["content"][0]["text"]
            .as_str()
            .unwrap()
            .contains("waits for a person: Sum this up"),
        "{left}"
    );
    let mut lines = Lines::greeted_with(&server(&store), json!({"sampling": {}})).await;
    let asked = lines.call(1, "answered_summary", json!({"text": "It rained."})).await;
    let error = json!({"code": -1, "message": "the user rejected it"});
    lines.say(&json!({"jsonrpc": "2.0", "id": asked["id"], "error": error})).await;
    assert_eq!(lines.next().await["result"]["isError"], true);
    assert_eq!(durable(&store).runs().questions(RunFilter::new()).await.unwrap().len(), 2);
}

#[tokio::test]
async fn what_a_client_is_asked_is_the_answer_to_its_call_and_an_operator_may_answer_it() {
    let store = MemoryStore::new();
    let mut lines = Lines::of(&server(&store));
    let all = json!({"sampling": {}, "roots": {}, "elicitation": {}});
    let text = json!({"text": "It rained."});
    let asked = lines.ask(1, "tools/call", call("answered_summary", text.clone(), &all)).await;
    assert_eq!(
        asked["result"]["inputRequests"]["reply"]["method"], "sampling/createMessage",
        "{asked}"
    );
    let mut further = call("answered_summary", text.clone(), &json!({"sampling": {}}));
    further["requestState"] = asked["result"]["requestState"].clone();
    // A person's answer is not accepted as a reply of the model.
    further["inputResponses"] = json!({"reply": accepted(json!({"text": "Rain."}))});
    let again = lines.ask(2, "tools/call", further.clone()).await;
    assert_eq!(
        again["result"]["inputRequests"]["reply"]["method"], "sampling/createMessage",
        "{again}"
    );
    further["inputResponses"] = json!({"reply": said("Rain.")});
    let refused = lines.ask(3, "tools/call", further.clone()).await;
    assert_eq!(refused["error"]["data"]["requiredCapabilities"], json!({"roots": {}}), "{refused}");
    let runtime = durable(&store);
    let question = runtime.runs().questions(RunFilter::new()).await.unwrap().remove(0);
    runtime
        .run(&question.run)
        .answer(&question.id, &json!({"folders": [{"uri": "file:///srv"}]}), "bob")
        .await
        .unwrap();
    let end = lines.ask(4, "tools/call", further).await;
    assert_eq!(end["result"]["content"][0]["text"], "Rain. by grey in file:///srv", "{end}");
    // A task asks the same questions.
    let tasks =
        json!({"sampling": {}, "roots": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}});
    let begun = lines.ask(5, "tools/call", call("answered_summary", text, &tasks)).await;
    let mut params = call("", json!({}), &tasks);
    params["taskId"] = begun["result"]["taskId"].clone();
    for (key, method, response) in
        [("reply", "sampling/createMessage", said("Rain.")), ("at", "roots/list", at_home())]
    {
        let asked = loop {
            let now = lines.ask(6, "tasks/get", params.clone()).await;
            if now["result"]["inputRequests"][key].is_object() {
                break now;
            }
            tokio::task::yield_now().await;
        };
        assert_eq!(asked["result"]["inputRequests"][key]["method"], method, "{asked}");
        let mut answer = params.clone();
        answer["inputResponses"] = json!({key: response});
        let done = lines.ask(7, "tasks/update", answer).await;
        assert!(done["error"].is_null(), "{done}");
    }
    let ended = loop {
        let now = lines.ask(8, "tasks/get", params.clone()).await;
        if now["result"]["status"] == "completed" {
            break now;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(
        ended["result"]["result"]["content"][0]["text"], "Rain. by grey in home, file:///tmp",
        "{ended}"
    );
}

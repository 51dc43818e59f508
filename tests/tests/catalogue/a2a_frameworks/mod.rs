//! Tests the A2A client with agents of five frameworks, each behind the framework's own server:
//! text, stream, tool, approval, denial, cancel, second turn. A limit of a framework is asserted
//! together with its reason; the page `a2a.md` has the table.
//!
//! Each agent uses the scripted model of `script.py`: `add` calls a tool, `delete` calls a tool
//! that needs an approval, `slow` streams for five seconds, and any other text is repeated with the
//! number of the turn.

use std::fs;

use agentflow::a2a::{
    A2aAnswer, A2aClient, A2aContent, A2aMessage, A2aPart, A2aTaskState, A2aUpdate,
};
use agentflow::message::{ToolCall, ToolStatus};
use agentflow::prelude::*;
use agentflow::serde_json::{Value, json};
use agentflow::store::MemoryStore;
use agentflow::value::Encoded;
use agentflow::workflow::Graph;
use agentflow_testing::within;
use agentflow_tests::{
    Process, Python, a2a_ag2, a2a_agent_framework, a2a_google_adk, a2a_langgraph, a2a_pydantic_ai,
    free_port, get,
};
use futures_util::StreamExt;
use tempfile::TempDir;

const AGENTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/catalogue/a2a_frameworks");

/// Id of the graph `worker` in `langgraph dev`, derived from its name.
const LANGGRAPH_WORKER: &str = "8a38ed27-f6a4-513f-9486-f719f523ada2";

/// A framework's server with an agent, and a client for it. The server stops when this value is
/// dropped.
struct Far {
    url: String,
    client: A2aClient,
    _process: Process,
    _folder: Option<TempDir>,
}

/// Content of a stream.
#[derive(Default)]
struct StreamContent {
    /// Texts of the status messages.
    said: Vec<String>,
    /// Texts of the artifacts, in order of arrival.
    artifacts: Vec<String>,
    /// Values of all data parts.
    data: Vec<Value>,
    /// Last state of the task.
    state: Option<A2aTaskState>,
}

impl StreamContent {
    fn add(&mut self, update: &A2aUpdate) {
        let parts = match update {
            A2aUpdate::Task(task) => {
                self.state = Some(task.status.state);
                return;
            }
            A2aUpdate::Status(update) => {
                self.state = Some(update.status.state);
                let Some(message) = &update.status.message else { return };
                self.said.extend(Some(message.text()).filter(|text| !text.is_empty()));
                &message.parts
            }
            A2aUpdate::Artifact(update) => {
                self.artifacts.push(update.artifact.text());
                &update.artifact.parts
            }
            update => panic!("a framework answered without a task: {update:?}"),
        };
        for part in parts {
            if let A2aContent::Data(data) = &part.content {
                self.data.push(data.clone());
            }
        }
    }
}

impl Far {
    /// Starts an agent that prints its port.
    fn start(python: Option<Python>, file: &str) -> Option<Self> {
        let mut command = python?.command();
        let mut process =
            Process::start(command.arg("-B").arg(format!("{AGENTS}/{file}"))).unwrap();
        let port: u16 = process.wait_until("its port", |process| {
            let output = process.output();
            output.lines().find_map(|line| line.strip_prefix("port ")?.parse().ok())
        });
        Some(Self::at(&format!("http://127.0.0.1:{port}"), process, None))
    }

    /// Starts `langgraph dev` in a temporary folder for its threads.
    fn start_langgraph() -> Option<Self> {
        let mut command = a2a_langgraph()?.program("langgraph");
        let folder = tempfile::tempdir().unwrap();
        let config = json!({"dependencies": ["."], "graphs": {"worker": format!("{AGENTS}/langgraph_agent.py:graph")}});
        fs::write(folder.path().join("langgraph.json"), config.to_string()).unwrap();
        let port = free_port();
        command.current_dir(folder.path()).args([
            "dev",
            "--no-browser",
            "--no-reload",
            "--port",
            &port.to_string(),
        ]);
        command.env("PYTHONPATH", AGENTS).env("PYTHONDONTWRITEBYTECODE", "1");
        command.env("LANGGRAPH_CLI_NO_ANALYTICS", "1").env("LANGSMITH_TRACING", "false");
        let mut process = Process::start(&mut command).unwrap();
        let url = format!("http://127.0.0.1:{port}");
        process.wait_until("its server", |_| get(&format!("{url}/ok")).ok());
        Some(Self::at(&format!("{url}/a2a/{LANGGRAPH_WORKER}"), process, Some(folder)))
    }

    fn at(url: &str, process: Process, folder: Option<TempDir>) -> Self {
        let client = A2aClient::at("worker", url).build().unwrap();
        Self { url: url.to_owned(), client, _process: process, _folder: folder }
    }

    /// Sends a message and waits until its task ends or asks a question.
    async fn ask(&self, message: A2aMessage) -> A2aAnswer {
        within("the answer", self.client.ask(&message)).await.unwrap()
    }

    /// Returns the agent's answer.
    async fn answer(&self, text: &str) -> String {
        self.ask(A2aMessage::user_text(text)).await.text()
    }

    /// Returns the agent's answer when it is called as a tool of this program.
    async fn answer_as_tool(&self, text: &str) -> Value {
        let runtime = Runtime::builder().toolset(self.client.clone()).build();
        let call = ToolCall::new("c", "a2a.worker", json!({"message": text}).to_string());
        let result = within("the result of the tool", runtime.invoke(&call, &[])).await.unwrap();
        assert_eq!(result.status, ToolStatus::Success, "{}", result.output);
        serde_json::from_str::<Value>(&result.output).unwrap()["output"].clone()
    }

    /// Sends a text and reads the stream to its end.
    async fn stream(&self, text: &str) -> StreamContent {
        let message = A2aMessage::user_text(text);
        let mut stream = within("the stream", self.client.stream(&message)).await.unwrap();
        let mut streamed = StreamContent::default();
        while let Some(update) = within("the next event", stream.next()).await {
            streamed.add(&update.unwrap());
        }
        streamed
    }

    /// Returns the answer to the second message of a conversation.
    async fn second_turn(&self) -> String {
        let first = self.ask(A2aMessage::user_text("hello")).await;
        let context = first.task().unwrap().context_id.clone().unwrap();
        self.ask(A2aMessage::user_text("again").context(context)).await.text()
    }

    /// Cancels a task that streams. Returns its state in the response, at the end of the stream, and when it is fetched again.
    async fn cancel(&self) -> [A2aTaskState; 3] {
        let message = A2aMessage::user_text("slow");
        let mut stream = within("the stream", self.client.stream(&message)).await.unwrap();
        let (mut streamed, mut task) = (StreamContent::default(), String::new());
        while streamed.state != Some(A2aTaskState::Working) {
            let update = within("the task to begin", stream.next()).await.unwrap().unwrap();
            task = update.task_id().unwrap().to_owned();
            streamed.add(&update);
        }
        let response =
            within("the cancellation", self.client.cancel(&task)).await.unwrap().status.state;
        while let Some(update) = within("the end of the stream", stream.next()).await {
            streamed.add(&update.unwrap());
        }
        let later = self.client.task(&task).await.unwrap().status.state;
        [response, streamed.state.unwrap(), later]
    }

    /// Has the agent call `delete` in a node of a workflow, answers the question of the node, and returns the output.
    async fn decide(&self, decision: &str) -> String {
        let ask = json!({"message": {"value": "delete /tmp/x"}});
        let ask = json!({"call": {"kind": "tool", "name": "a2a.worker", "with": {"object": ask}}});
        let nodes = json!([{"name": "ask", "does": ask}]);
        let graph = json!({"version": 1, "name": "deletes", "output": "ask", "concurrency": 1, "nodes": nodes});
        let graph: Graph = serde_json::from_value(graph).unwrap();
        let runtime = Runtime::builder()
            .store(MemoryStore::new())
            .toolset(self.client.clone())
            .graph(graph)
            .build();
        let run = runtime.start_named("deletes", Encoded::new(&json!({})).unwrap()).await.unwrap();
        let question = within("the question", run.asked()).await.unwrap().unwrap();
        let about: Value = question.about.decode().unwrap();
        assert_eq!(about, json!({"tool": "delete", "arguments": {"path": "/tmp/x"}}));
        run.answer(&question.path, &json!({"decision": decision}), "ada").await.unwrap();
        let output: Value = within("the output", run.result()).await.unwrap().decode().unwrap();
        output["output"].as_str().unwrap().to_owned()
    }

    /// Has the agent call `delete`, answers its question with a text, and returns the text that follows.
    async fn decide_by_text(&self, text: &str) -> String {
        self.decided_by(&self.client, text).await
    }

    /// Like [`Self::decide_by_text`], but the answering client has not received the question.
    async fn decide_in_another_process(&self, text: &str) -> String {
        let other = A2aClient::at("worker", &self.url).build().unwrap();
        self.decided_by(&other, text).await
    }

    async fn decided_by(&self, client: &A2aClient, text: &str) -> String {
        let asked = self.ask(A2aMessage::user_text("delete /tmp/x")).await;
        let answer =
            within("the form of the answer", client.answer(&asked.task().unwrap().id, text))
                .await
                .unwrap();
        within("the answer", client.ask(&answer)).await.unwrap().text()
    }
}

/// Asserts the common behavior of three of the servers: a text, a stream in chunks of one artifact,
/// and a tool whose calls are not shown.
async fn answers_in_chunks(far: &Far) {
    assert_eq!(far.answer("hello").await, "turn 1: hello");
    assert_eq!(far.stream("hello you").await.artifacts[..4], ["turn ", "1: ", "hello ", "you"]);
    assert_eq!(far.answer_as_tool("add 2 3").await, "done: 5");
    assert!(far.stream("add 2 3").await.data.is_empty());
}

#[tokio::test]
async fn google_adk() {
    let Some(far) = Far::start(a2a_google_adk(), "adk_agent.py") else { return };
    assert_eq!(far.answer("hello").await, "turn 1: hello");
    // There are no deltas, because the server runs its agent without streaming.
    let streamed = far.stream("hello you").await;
    assert_eq!(
        (&*streamed.said, &*streamed.artifacts),
        (&["turn 1: hello you".to_owned()][..], &*streamed.said)
    );
    assert_eq!(far.answer_as_tool("add 2 3").await, "done: 5");
    let calls = far.stream("add 2 3").await.data;
    assert_eq!(
        (&calls[0]["name"], &calls[1]["response"]),
        (&json!("add"), &json!({"result": 5.0}))
    );
    assert_eq!(far.decide("granted").await, "done: deleted /tmp/x");
    assert_eq!(far.decide("denied").await, "done: This tool call is rejected.");
    assert_eq!(far.decide_by_text("yes").await, "done: deleted /tmp/x");
    assert_eq!(far.cancel().await, [A2aTaskState::Canceled; 3]);
    assert_eq!(far.second_turn().await, "turn 2: again");
}

#[tokio::test]
async fn langgraph() {
    let Some(far) = Far::start_langgraph() else { return };
    assert_eq!(far.answer("hello").await, "turn 1: hello");
    // The deltas are status messages, and the full text follows twice.
    let streamed = far.stream("hello you").await;
    assert_eq!(streamed.said, ["turn ", "1: ", "hello ", "you", "turn 1: hello you"]);
    assert_eq!(streamed.artifacts, ["turn 1: hello you"]);
    assert_eq!(far.answer_as_tool("add 2 3").await, "done: 5");
    let results = &far.stream("add 2 3").await.data[0]["tool_results"];
    assert_eq!((&results[0]["name"], &results[0]["content"]), (&json!("add"), &json!("5")));
    assert_eq!(far.decide("granted").await, "done: deleted /tmp/x");
    // The server does not repeat its question, so the client has to remember it.
    assert_eq!(far.decide_by_text("yes").await, "done: deleted /tmp/x");
    // A client that did not receive the question reads it from the thread.
    assert_eq!(far.decide_in_another_process("yes").await, "done: deleted /tmp/x");
    let rejected = far.decide_in_another_process("no").await;
    assert!(rejected.starts_with("done: User rejected the tool call"), "{rejected}");
    let rejected = far.decide("denied").await;
    assert!(rejected.starts_with("done: User rejected the tool call"), "{rejected}");
    // The server ends the stream of a cancelled task as if the task had completed.
    let states = [A2aTaskState::Canceled, A2aTaskState::Completed, A2aTaskState::Canceled];
    assert_eq!(far.cancel().await, states);
    assert_eq!(far.second_turn().await, "turn 2: again");
}

#[tokio::test]
async fn agent_framework() {
    let Some(far) = Far::start(a2a_agent_framework(), "agent_framework_agent.py") else { return };
    answers_in_chunks(&far).await;
    // `A2AExecutor` ignores approval requests and completes the task, so an answer is not possible.
    let answer = far.ask(A2aMessage::user_text("delete /tmp/x")).await;
    let task = answer.task().unwrap();
    assert_eq!((task.status.state, task.artifacts.len()), (A2aTaskState::Completed, 0));
    assert!(task.status.message.is_none());
    assert_eq!(far.cancel().await, [A2aTaskState::Canceled; 3]);
    // The history provider of the agent keeps the conversation. Without it, the server starts over
    // with each message.
    assert_eq!(far.second_turn().await, "turn 2: again");
}

#[tokio::test]
async fn ag2() {
    let Some(far) = Far::start(a2a_ag2(), "ag2_agent.py") else { return };
    answers_in_chunks(&far).await;
    // The server gives its executor no way to ask a person, so the task fails.
    let answer = far.ask(A2aMessage::user_text("delete /tmp/x")).await;
    let task = answer.task().unwrap();
    assert_eq!(task.status.state, A2aTaskState::Failed);
    assert!(task.said().unwrap().contains("Human input was requested"), "{task:?}");
    assert_eq!(far.cancel().await, [A2aTaskState::Canceled; 3]);
    // The server does not keep conversations. Its own clients send the full history each time, in
    // an extension.
    assert_eq!(far.second_turn().await, "turn 1: again");
}

#[tokio::test]
async fn pydantic_ai() {
    let Some(far) = Far::start(a2a_pydantic_ai(), "pydantic_ai_agent.py") else { return };
    answers_in_chunks(&far).await;
    // The pending call is the result of a completed task, and a message with data fails, so an
    // answer is not possible.
    let answer = far.ask(A2aMessage::user_text("delete /tmp/x")).await;
    let task = answer.task().unwrap();
    let A2aContent::Data(data) = &task.artifacts[0].parts[0].content else { panic!("{task:?}") };
    let call = &data["result"]["approvals"][0];
    assert_eq!(call["tool_name"], "delete");
    let approval =
        A2aPart::data(json!({"approvals": {(call["tool_call_id"].as_str().unwrap()): true}}));
    let answer =
        far.ask(A2aMessage::user([approval]).context(task.context_id.clone().unwrap())).await;
    assert_eq!(
        (task.status.state, answer.task().unwrap().status.state),
        (A2aTaskState::Completed, A2aTaskState::Failed)
    );
    // The server's worker ignores a cancellation.
    assert_eq!(far.cancel().await, [A2aTaskState::Completed; 3]);
    assert_eq!(far.second_turn().await, "turn 2: again");
}

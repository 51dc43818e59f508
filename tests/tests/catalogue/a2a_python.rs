//! The official Python SDK of the A2A protocol as a server, in both bindings, with and without
//! streams.

use agentflow::a2a::{
    A2aClient, A2aErrorCode, A2aMessage, A2aPushConfig, A2aTaskQuery, A2aTaskState, A2aUpdate,
};
use agentflow::message::{ToolCall, ToolStatus};
use agentflow::prelude::*;
use agentflow::serde_json::{Value, json};
use agentflow_testing::within;
use agentflow_tests::{Process, a2a_python};
use futures_util::StreamExt;

const AGENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/catalogue/a2a_python_agent.py");

/// Starts the agent. Returns it with a client.
fn worker(binding: &str, mode: &str) -> Option<(Process, A2aClient)> {
    let mut command = a2a_python()?.command();
    let mut process = Process::start(command.args([AGENT, binding, mode])).unwrap();
    let port: u16 = process.wait_until("its port", |process| {
        let output = process.output();
        output.lines().find_map(|line| line.strip_prefix("port ")?.parse().ok())
    });
    Some((process, A2aClient::at("worker", format!("http://127.0.0.1:{port}")).build().unwrap()))
}

async fn work(client: &A2aClient, arguments: Value) -> (ToolStatus, Value) {
    let runtime = Runtime::builder().toolset(client.clone()).build();
    let call = ToolCall::new("c", "a2a.worker", arguments.to_string());
    let result = runtime.invoke(&call, &[]).await.unwrap();
    let value = serde_json::from_str(&result.output).unwrap_or_else(|_| result.text().into());
    (result.status, value)
}

async fn does_everything(binding: &str, mode: &str) {
    let Some((_process, client)) = worker(binding, mode) else { return };
    let card = client.card().await.unwrap();
    assert_eq!((card.name.as_str(), card.skills[0].id.as_str()), ("Worker", "work"));

    let answer = client.ask(&A2aMessage::user_text("message please")).await.unwrap();
    assert_eq!((answer.text().as_str(), answer.task()), ("said: message please", None));

    let (status, value) = work(&client, json!({"message": "chunks"})).await;
    let text = if mode == "stream" { "onetwo" } else { "one\ntwo" };
    assert_eq!((status, &value["output"]), (ToolStatus::Success, &text.into()), "{value}");
    assert_eq!(
        (&value["agent_id"], &value["state"]),
        (&"worker".into(), &"completed".into()),
        "{value}"
    );

    let (_, value) = work(&client, json!({"message": "files"})).await;
    assert_eq!(
        (&value["output"], &value["data"]),
        (&"both".into(), &json!([{"n": 7.0}])),
        "{value}"
    );

    // The agent asks a question, and the same tool sends the answer.
    let (_, asked) = work(&client, json!({"message": "ask"})).await;
    assert_eq!(
        (&asked["output"], &asked["state"]),
        (&"Which colour?".into(), &"input_required".into()),
        "{asked}"
    );
    let (_, value) = work(
        &client,
        json!({"message": "blue", "task": asked["task"], "context": asked["context"]}),
    )
    .await;
    assert_eq!(
        (&value["output"], &value["state"]),
        (&"You like blue.".into(), &"completed".into()),
        "{value}"
    );

    let (status, value) = work(&client, json!({"message": "reject"})).await;
    assert_eq!(
        (status, value.to_string().contains("not today")),
        (ToolStatus::Error, true),
        "{value}"
    );
    let (status, value) = work(&client, json!({"message": "fail"})).await;
    assert_eq!(
        (status, value.to_string().contains("it broke")),
        (ToolStatus::Error, true),
        "{value}"
    );

    let waiting = client.send(&A2aMessage::user_text("wait")).await.unwrap();
    let id = waiting.task().unwrap().id.clone();
    assert_eq!(client.task(&id).await.unwrap().id, id);
    let config = A2aPushConfig::new("https://client.example/hook").id("c").token("t");
    let created = client.create_push_config(&id, &config).await.unwrap();
    assert_eq!(
        (created.id.as_deref(), created.url.as_str()),
        (Some("c"), "https://client.example/hook")
    );
    assert_eq!(client.push_config(&id, "c").await.unwrap().task_id.as_deref(), Some(&*id));
    assert_eq!(client.push_configs(&id, None).await.unwrap().configs.len(), 1);
    client.delete_push_config(&id, "c").await.unwrap();
    assert!(client.push_configs(&id, None).await.unwrap().configs.is_empty());
    assert_eq!(client.task_with_history(&id, 5).await.unwrap().history[0].text(), "wait");
    let context = waiting.task().unwrap().context_id.clone().unwrap();
    let listed = client.tasks(&A2aTaskQuery::default().context(context)).await.unwrap();
    assert_eq!(listed.tasks.iter().map(|task| task.id.as_str()).collect::<Vec<_>>(), [id.as_str()]);
    if mode == "stream" {
        let mut stream = client.subscribe(&id).await.unwrap();
        assert!(
            matches!(within("the next event", stream.next()).await, Some(Ok(A2aUpdate::Task(task))) if task.id == id)
        );
        assert_eq!(client.cancel(&id).await.unwrap().status.state, A2aTaskState::Canceled);
        let last = stream.map(|update| update.unwrap()).collect::<Vec<_>>().await.pop().unwrap();
        assert!(last.is_last(), "{last:?}");
    } else {
        assert_eq!(client.cancel(&id).await.unwrap().status.state, A2aTaskState::Canceled);
    }
    assert_eq!(client.cancel(&id).await.unwrap_err().code(), Some(A2aErrorCode::TaskNotCancelable));
    assert_eq!(client.task("unknown").await.unwrap_err().code(), Some(A2aErrorCode::TaskNotFound));
}

#[tokio::test]
async fn over_json_rpc_with_streams() {
    does_everything("JSONRPC", "stream").await;
}

#[tokio::test]
async fn over_json_rpc_without_streams() {
    does_everything("JSONRPC", "poll").await;
}

#[tokio::test]
async fn over_resources_with_streams() {
    does_everything("HTTP+JSON", "stream").await;
}

#[tokio::test]
async fn over_resources_without_streams() {
    does_everything("HTTP+JSON", "poll").await;
}

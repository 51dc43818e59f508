//! The WebSocket of a run.

use agentflow::serde_json::{self, Value, json};
use agentflow_testing::within;
use futures_util::{SinkExt, StreamExt};
use tokio_tungstenite::tungstenite::Message;

use crate::client::Served;
use crate::workflows::runtime;

#[tokio::test]
async fn a_question_is_answered_over_the_socket() {
    let served = Served::runtime(&runtime()).await;
    let client = served.client();
    let run = client.start("server_publish", json!({"text": "news"})).await;
    let url = format!("ws://{}/api/v1/runs/{run}/live", served.address);
    let (mut socket, _) =
        within("the handshake", tokio_tungstenite::connect_async(url)).await.unwrap();
    let mut chunks = Vec::new();
    while let Some(message) = within("a message", socket.next()).await {
        let Ok(Message::Text(text)) = message else { continue };
        let chunk: Value = serde_json::from_str(&text).unwrap();
        if chunk["chunk_type"] == "tool_approval_request" {
            let broken = Message::text("{\"type\": \"dance\"}");
            within("a message", socket.send(broken)).await.unwrap();
            let id = chunk["content"]["id"].as_str().unwrap_or_else(|| panic!("{chunk}"));
            let answer = json!({"type": "answer", "id": id, "answer": {"decision": "granted"}});
            within("a message", socket.send(Message::text(answer.to_string()))).await.unwrap();
        }
        chunks.push(chunk);
    }
    assert!(chunks.iter().any(|chunk| chunk["error"]["code"] == "invalid_request"), "{chunks:#?}");
    let last = chunks.last().unwrap();
    assert_eq!((&last["chunk_type"], &last["is_final"]), (&json!("complete"), &json!(true)));
    assert_eq!(client.until(&run, "success").await["output"], "news");
    let plain = client.get(&format!("/api/v1/runs/{run}/live")).await;
    assert_eq!(plain.problem(), (426, "upgrade_required"));
}

//! Requests of operators: pause, resume, cancel, retry, messages.

use agentflow::serde_json::json;

use crate::client::Served;
use crate::workflows::runtime;

#[tokio::test]
async fn a_run_is_paused_and_continued() {
    let served = Served::runtime(&runtime()).await;
    let client = served.client();
    let run = client.start("server_slow", json!({"rounds": vec![20; 50]})).await;
    let paused = client.post(&format!("/api/v1/runs/{run}/pause"), json!({})).await.ok();
    assert_eq!(
        (&paused["status"], &paused["pause_reason"]),
        (&json!("paused"), &json!("operator"))
    );
    let resumed = client.post(&format!("/api/v1/runs/{run}/resume"), json!({})).await.ok();
    assert_eq!(resumed["status"], "running");
    let found = client.until(&run, "success").await;
    assert_eq!(found["output"].as_array().unwrap().len(), 50);
    let over = client.post(&format!("/api/v1/runs/{run}/pause"), json!({})).await;
    assert_eq!(over.problem(), (409, "wrong_state"));
    let over = client.post(&format!("/api/v1/runs/{run}/resume"), json!({})).await;
    assert_eq!(over.problem(), (409, "wrong_state"));
}

#[tokio::test]
async fn a_run_is_cancelled_with_its_reason() {
    let served = Served::runtime(&runtime()).await;
    let client = served.client();
    let run = client.start("server_slow", json!({"rounds": vec![1000; 50]})).await;
    let body = json!({"reason": "wrong input"});
    let cancelled = client.post(&format!("/api/v1/runs/{run}/cancel"), body).await.ok();
    assert_eq!(cancelled["status"], "cancelled");
    assert!(cancelled["error"].as_str().unwrap().contains("wrong input"), "{cancelled}");
}

#[tokio::test]
async fn a_failed_node_is_retried() {
    let served = Served::runtime(&runtime()).await;
    let client = served.client();
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_owned();
    drop(file);
    let run = client.start("server_file", json!({"path": path})).await;
    let failed = client.until(&run, "failed").await;
    assert!(failed["error"].as_str().unwrap().contains("No such file"), "{failed}");
    let unknown = client.post(&format!("/api/v1/runs/{run}/nodes/nothing/retry"), json!({})).await;
    assert_eq!(unknown.problem(), (404, "unknown_node"));
    std::fs::write(&path, "x").unwrap();
    client.post(&format!("/api/v1/runs/{run}/nodes/read/retry"), json!({})).await.ok();
    assert_eq!(client.until(&run, "success").await["output"], "found");
    std::fs::remove_file(&path).unwrap();
    let detail = client.get(&format!("/api/v1/runs/{run}/nodes/read/detail")).await.ok();
    assert_eq!(detail["attempts"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn resume_answers_the_only_approval() {
    let served = Served::runtime(&runtime()).await;
    let client = served.client();
    let run = client.start("server_publish", json!({"text": "news"})).await;
    client.until(&run, "paused").await;
    let path = format!("/api/v1/runs/{run}/resume");
    // A run that waits for an approval is not continued without an answer.
    assert_eq!(client.post(&path, json!({})).await.problem(), (409, "wrong_state"));
    let body = json!({"approved": false, "comment": "not today"});
    client.post(&path, body).await.ok();
    assert_eq!(client.until(&run, "success").await["output"], "nothing");
}

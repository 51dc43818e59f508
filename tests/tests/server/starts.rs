//! Starts of runs: waiting, options, idempotency keys, agents, the short routes.

use agentflow::prelude::*;
use agentflow::serde_json::json;
use agentflow::store::{MemoryStore, RunFilter};
use agentflow_testing::{ScriptedModel, Turn};

use crate::client::Served;
use crate::workflows::runtime;

#[tokio::test]
async fn a_request_may_wait_for_the_end() {
    let served = Served::runtime(&runtime()).await;
    let client = served.client();
    let path = "/api/v1/workflows/server_quadruple/runs";
    let options = json!({"wait_ms": 60_000, "tags": {"desk": "news"}});
    let body = json!({"input_data": {"n": 5}, "options": options});
    let ended = client.post(path, body).await;
    assert_eq!(ended.status, 200);
    assert_eq!((&ended.json["status"], &ended.json["output"]), (&json!("success"), &json!(20)));
    let tagged = client.get("/api/v1/runs?tag=desk:news").await.ok();
    assert_eq!(tagged["items"][0]["run_id"], ended.json["run_id"]);

    // A run that asks does not end, so the response comes after the time.
    let asks = "/api/v1/workflows/server_publish/runs";
    let body = json!({"input_data": {"text": "news"}, "options": {"wait_ms": 50}});
    let waiting = client.post(asks, body).await;
    assert_eq!(waiting.status, 202);

    let short = client.post("/api/workflows/server_quadruple/run", json!({"n": 2})).await;
    assert_eq!((short.status, &short.json["output"]), (200, &json!(8)));
    let names = client.get("/api/workflows").await.ok();
    let names: Vec<_> =
        names.as_array().unwrap().iter().map(|one| one["workflow_id"].as_str().unwrap()).collect();
    assert!(names.contains(&"server_quadruple") && names.is_sorted(), "{names:?}");
}

#[tokio::test]
async fn a_repeated_request_with_a_key_starts_one_run() {
    let runtime = runtime();
    let served = Served::runtime(&runtime).await;
    let client = served.client().with("idempotency-key", "order-1");
    let path = "/api/v1/workflows/server_quadruple/runs";
    let body = json!({"input_data": {"n": 1}});
    let requests = (0..20).map(|_| client.post(path, body.clone()));
    let responses = futures_util::future::join_all(requests).await;
    let first = responses[0].json["run_id"].clone();
    for response in responses {
        assert_eq!(response.ok()["run_id"], first);
    }
    assert_eq!(runtime.runs().list(RunFilter::new()).await.unwrap().len(), 1);
    // Another server with the same store knows the key.
    let other = Served::runtime(&runtime).await;
    let again = other.client().with("idempotency-key", "order-1").post(path, body).await.ok();
    assert_eq!(again["run_id"], first);
    let changed = client.post(path, json!({"input_data": {"n": 2}})).await;
    assert_eq!(changed.problem(), (422, "idempotency_key_reused"));
    let empty = served.client().with("idempotency-key", "").post(path, json!({})).await;
    assert_eq!(empty.problem(), (400, "invalid_idempotency_key"));
}

#[tokio::test]
async fn an_agent_is_started_and_continues_its_session() {
    let model = ScriptedModel::new([Turn::text("Hello."), Turn::text("Again.")]);
    let agent = Agent::new(model).name("server_greeter");
    let runtime = Runtime::builder().store(MemoryStore::new()).agent(&agent).build();
    let served = Served::runtime(&runtime).await;
    let client = served.client();
    let agents = client.get("/api/v1/agents").await.ok();
    assert!(agents.as_array().unwrap().iter().any(|agent| agent["name"] == "server_greeter"));
    let path = "/api/v1/agents/server_greeter/runs";
    for expected in ["Hello.", "Again."] {
        let options = json!({"wait_ms": 60_000});
        let body = json!({"message": "Hi.", "session_id": "s-1", "options": options});
        let ended = client.post(path, body).await.ok();
        assert_eq!((&ended["status"], &ended["output"]), (&json!("success"), &json!(expected)));
    }
    let runs = client.get("/api/v1/runs?session_id=s-1").await.ok();
    assert_eq!(runs["total"], 2);
    let sessions = client.get("/api/v1/sessions").await.ok();
    assert_eq!((&sessions["total"], &sessions["items"][0]["runs"]), (&json!(1), &json!(2)));
    let session = client.get("/api/v1/sessions/s-1").await.ok();
    assert_eq!(session["agent_id"], "server_greeter");
    let history = client.get("/api/v1/sessions/s-1/history?runs=1").await.ok();
    assert_eq!(history.as_array().unwrap().len(), 1, "{history}");
    assert_eq!(client.delete("/api/v1/sessions/s-1").await.status, 204);
    assert_eq!(client.get("/api/v1/sessions/s-1").await.problem(), (404, "not_found"));
    let neither = client.post(path, json!({})).await;
    assert_eq!(neither.problem(), (422, "invalid_request"));
    let unknown = client.post("/api/v1/agents/unknown/runs", json!({"message": "Hi."})).await;
    assert_eq!(unknown.problem().0, 404, "{}", unknown.json);
}

#[tokio::test]
async fn a_queued_run_waits_for_a_worker() {
    let runtime = runtime();
    let served = Served::runtime(&runtime).await;
    let client = served.client();
    let path = "/api/v1/workflows/server_quadruple/runs";
    let body = json!({"input_data": {"n": 1}, "options": {"queued": true}});
    let started = client.post(path, body).await.ok();
    assert_eq!(started["status"], "queued");
    let run = started["run_id"].as_str().unwrap();
    let resumed = client.post(&format!("/api/v1/runs/{run}/resume"), json!({})).await;
    assert_eq!(resumed.status, 200, "{}", resumed.json);
    client.until(run, "success").await;
}

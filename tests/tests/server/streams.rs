//! Event streams: all forms, reconnecting at every place, heartbeats, slow clients.

use std::time::Duration;

use agentflow::prelude::*;
use agentflow::serde_json::json;
use agentflow::server::Server;
use agentflow::store::MemoryStore;
use agentflow_testing::{ScriptedModel, Turn, within};

use crate::client::Served;
use crate::workflows::runtime;

#[tokio::test]
async fn a_client_that_reconnects_anywhere_gets_every_event_once() {
    let served = Served::runtime(&runtime()).await;
    let client = served.client();
    let run = client.start("server_slow", json!({"rounds": [1, 2, 3, 4]})).await;
    for form in ["screen", "events", "task"] {
        let path = format!("/api/v1/runs/{run}/stream?form={form}");
        let whole = client.stream(&path, None).await.rest().await;
        assert!(whole.len() > 4, "{form}: {whole:?}");
        let mut last = 0;
        for frame in &whole {
            assert!(frame.id.unwrap() > last, "{form}: {whole:?}");
            last = frame.id.unwrap();
        }
        for (at, frame) in whole.iter().enumerate().take(whole.len() - 1) {
            let rest = client.stream(&path, frame.id).await.rest().await;
            assert_eq!(rest, whole[at + 1..], "{form} after {:?}", frame.id);
        }
        // An `EventSource` stops reconnecting at this status.
        let ended = client.with("last-event-id", last.to_string()).get(&path).await;
        assert_eq!(ended.status, 204, "{form}");
    }
    let invalid =
        client.with("last-event-id", "x").get(&format!("/api/v1/runs/{run}/stream")).await;
    assert_eq!(invalid.problem(), (400, "invalid_last_event_id"));
}

#[tokio::test]
async fn a_screen_gets_the_frames_of_the_nodes() {
    let served = Served::runtime(&runtime()).await;
    let client = served.client();
    let run = client.start("server_quadruple", json!({"n": 1})).await;
    let frames = client.stream(&format!("/api/v1/runs/{run}/stream"), None).await.rest().await;
    let data: Vec<_> = frames.into_iter().map(|frame| frame.data.unwrap()).collect();
    assert_eq!(data[0], json!({"event": "node_start", "node_id": "once", "attempt": 1}));
    assert_eq!(data[1], json!({"event": "node_complete", "node_id": "once", "output": 2}));
    let last = data.last().unwrap();
    assert_eq!((&last["event"], &last["output"]), (&json!("workflow_complete"), &json!(4)));
}

#[tokio::test]
async fn pieces_of_responses_are_sent_to_a_run_with_the_option() {
    for stream in [false, true] {
        let model = ScriptedModel::new([Turn::text("one two three")]);
        let agent = Agent::new(model).name("server_streaming");
        let runtime = Runtime::builder().store(MemoryStore::new()).agent(&agent).build();
        let served = Served::runtime(&runtime).await;
        let client = served.client();
        let body = json!({"message": "Count.", "options": {"stream": stream}});
        let started = client.post("/api/v1/agents/server_streaming/runs", body).await.ok();
        let run = started["run_id"].as_str().unwrap();
        let path = format!("/api/v1/runs/{run}/stream?form=events");
        let frames = client.stream(&path, None).await.rest().await;
        assert!(frames.iter().any(|frame| frame.id.is_some()));
        assert!(stream || frames.iter().all(|frame| frame.id.is_some()), "{frames:?}");
    }
}

#[tokio::test]
async fn an_idle_stream_has_heartbeats_and_ends_with_the_server() {
    let runtime = runtime();
    let server = Server::new(&runtime).heartbeat(Duration::from_millis(20));
    let served = Served::new(server).await;
    let client = served.client();
    let run = client.start("server_publish", json!({"text": "news"})).await;
    client.until(&run, "paused").await;
    let mut frames = client.stream(&format!("/api/v1/runs/{run}/stream"), None).await;
    let mut heartbeats = 0;
    while heartbeats < 3 {
        heartbeats += usize::from(frames.next().await.unwrap().data.is_none());
    }
    served.stop().await;
    within("the end of the stream", frames.rest()).await;
}

#[tokio::test]
async fn streams_of_one_caller_are_limited() {
    let runtime = runtime();
    let served = Served::new(Server::new(&runtime).max_streams(8, 2)).await;
    let client = served.client();
    let run = client.start("server_publish", json!({"text": "news"})).await;
    let path = format!("/api/v1/runs/{run}/stream");
    let first = client.stream(&path, None).await;
    let _second = client.stream(&path, None).await;
    let third = client.get(&path).await;
    assert_eq!(third.problem(), (429, "too_many_streams"));
    assert_eq!(third.headers["retry-after"], "1");
    drop(first);
    // The server notices at its next frame or heartbeat that the client has gone.
    within("the slot to be free", async {
        while client.try_stream(&path).await.is_none() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

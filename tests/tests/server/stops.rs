//! Stopping servers: open requests get their responses, runs continue, streams resume elsewhere.

use agentflow::prelude::*;
use agentflow::serde_json::json;
use agentflow::store::SqliteStore;
use agentflow_testing::within;

use crate::client::{Frame, Served};

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_continues_on_the_next_server_without_loss() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("runs.db")).await.unwrap();
    let runtime = Runtime::builder().store(store).build();
    let mut served = Served::runtime(&runtime).await;
    let run = served.client().start("server_slow", json!({"rounds": vec![5; 40]})).await;
    let path = format!("/api/v1/runs/{run}/stream?form=events");
    let (mut all, mut servers): (Vec<Frame>, usize) = (Vec::new(), 1);
    'servers: loop {
        let client = served.client();
        let last = all.last().and_then(|frame| frame.id);
        let mut frames = client.stream(&path, last).await;
        for _ in 0..7 {
            match frames.next().await {
                Some(frame) if frame.data.is_some() => all.push(frame),
                Some(_) => {}
                None => break 'servers,
            }
        }
        let next = Served::runtime(&runtime).await;
        let stopped = std::mem::replace(&mut served, next);
        within("the stop", stopped.stop()).await;
        // The frames that were sent before the stop are still read.
        while let Some(frame) = frames.next().await {
            if frame.data.is_some() {
                all.push(frame);
            }
        }
        servers += 1;
        if all.last().is_some_and(|last| last.data.as_ref().unwrap()["name"] == "run.completed") {
            break;
        }
    }
    assert!(servers > 2, "{servers}");
    let whole = served.client().stream(&path, None).await.rest().await;
    assert_eq!(all, whole);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_request_gets_its_response() {
    let runtime = Runtime::builder().store(agentflow::store::MemoryStore::new()).build();
    let served = Served::runtime(&runtime).await;
    let client = served.client();
    let path = "/api/v1/workflows/server_slow/runs";
    let body = json!({"input_data": {"rounds": [300]}, "options": {"wait_ms": 60_000}});
    let waiting = tokio::spawn(async move { client.post(path, body).await });
    within("the run to start", async {
        while runtime.runs().list(agentflow::store::RunFilter::new()).await.unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    served.stop().await;
    assert_eq!(within("the response", waiting).await.unwrap().ok()["output"], json!([300]));
}

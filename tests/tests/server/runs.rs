//! Runs: start, list, detail, graph, artifacts.

use agentflow::prelude::*;
use agentflow::serde_json::json;
use agentflow::store::MemoryStore;

use crate::client::Served;
use crate::workflows::runtime;

#[tokio::test]
async fn a_run_is_started_and_read() {
    let served = Served::runtime(&runtime()).await;
    let client = served.client();
    let run = client.start("server_quadruple", json!({"n": 3})).await;
    let found = client.until(&run, "success").await;
    assert_eq!(found["workflow_id"], "server_quadruple");
    assert_eq!(found["output"], 12);
    assert_eq!(found["triggered_by"], "anonymous");
    assert!(found["finished_at"].as_str().unwrap().ends_with('Z'));
    let nodes: Vec<_> = found["node_runs"].as_array().unwrap().iter().collect();
    let once = nodes.iter().find(|node| node["node_id"] == "once").unwrap();
    assert_eq!((&once["status"], &once["attempt"]), (&json!("success"), &json!(1)));
    assert_eq!(once["output_snapshot"], json!({"value": 6}));

    let detail = client.get(&format!("/api/v1/runs/{run}/nodes/twice/detail")).await.ok();
    assert_eq!(detail["attempts"][0]["output"], 12);
    let missing = client.get(&format!("/api/v1/runs/{run}/nodes/nothing/detail")).await;
    assert_eq!(missing.problem(), (404, "not_found"));

    let graph = client.get(&format!("/api/v1/runs/{run}/graph")).await.ok();
    let edges = graph["edges"].as_array().unwrap();
    assert!(edges.iter().any(|edge| edge["from"] == "once" && edge["to"] == "twice"), "{graph}");
    assert!(graph["nodes"].as_array().unwrap().iter().all(|node| node["status"] == "success"));

    let drawing = client.get(&format!("/api/v1/runs/{run}/graph.svg")).await;
    let drawing = String::from_utf8(drawing.bytes).unwrap();
    assert!(drawing.starts_with("<svg") && drawing.contains("once"), "{drawing}");
    let graph = client.get("/api/v1/workflows/server_quadruple/graph").await.ok();
    assert!(graph["nodes"].as_array().unwrap().iter().all(|node| node["status"] == "pending"));

    assert_eq!(client.delete(&format!("/api/v1/runs/{run}")).await.status, 204);
    assert_eq!(client.get(&format!("/api/v1/runs/{run}")).await.problem(), (404, "not_found"));
    served.stop().await;
}

#[tokio::test]
async fn pages_contain_every_run_once() {
    let served = Served::runtime(&runtime()).await;
    let client = served.client();
    let mut expected = Vec::new();
    for n in 0..23 {
        expected.push(client.start("server_quadruple", json!({"n": n})).await);
    }
    for run in &expected {
        client.until(run, "success").await;
    }
    expected.sort();
    let mut numbered = Vec::new();
    for page in 1..=4 {
        let found = client.get(&format!("/api/v1/runs?page={page}&limit=7")).await.ok();
        assert_eq!((&found["total"], &found["page"]), (&json!(23), &json!(page)));
        let items = found["items"].as_array().unwrap();
        assert_eq!(items.len(), if page == 4 { 2 } else { 7 });
        numbered.extend(items.iter().map(|run| run["run_id"].as_str().unwrap().to_owned()));
    }
    numbered.sort();
    assert_eq!(numbered, expected);

    let (mut followed, mut path) = (Vec::new(), "/api/v1/runs?limit=5".to_owned());
    loop {
        let found = client.get(&path).await.ok();
        let items = found["items"].as_array().unwrap();
        followed.extend(items.iter().map(|run| run["run_id"].as_str().unwrap().to_owned()));
        match found["next"].as_str() {
            Some(next) => path = format!("/api/v1/runs?limit=5&after={next}"),
            None => break,
        }
    }
    followed.sort();
    assert_eq!(followed, expected);
    let changed = client.get("/api/v1/runs?order=changed&limit=500").await.ok();
    let changed: Vec<_> = changed["items"].as_array().unwrap().iter().collect();
    assert_eq!(changed.len(), 23);
    assert!(
        changed.is_sorted_by(|one, other| {
            one["updated_at"].as_str() >= other["updated_at"].as_str()
        })
    );
    let failed = client.get("/api/v1/runs?status=failed,cancelled").await.ok();
    assert_eq!((&failed["total"], &failed["items"]), (&json!(0), &json!([])));
}

/// Saves a text as an artifact.
#[tool]
async fn server_save_report(cx: &Context, text: String) -> Result<u32> {
    let saved = cx.save_artifact("report 1.md", text.as_bytes(), "text/markdown").await?;
    Ok(saved.version)
}

/// Saves a report.
#[workflow]
async fn server_report(cx: &Context, text: String) -> Result<u32> {
    let saved = server_save_report(cx, text).await?;
    Ok(saved)
}

#[tokio::test]
async fn artifacts_are_listed_and_read_in_ranges() {
    let runtime = Runtime::builder().store(MemoryStore::new()).build();
    let served = Served::runtime(&runtime).await;
    let client = served.client();
    let run = client.start("server_report", json!({"text": "0123456789"})).await;
    client.until(&run, "success").await;
    let listed = client.get(&format!("/api/v1/runs/{run}/artifacts")).await.ok();
    assert_eq!(
        (&listed[0]["name"], &listed[0]["size"], &listed[0]["media_type"]),
        (&json!("report 1.md"), &json!(10), &json!("text/markdown"))
    );
    let path = format!("/api/v1/runs/{run}/artifacts/report%201.md");
    let whole = client.get(&path).await;
    assert_eq!((whole.status, &*whole.bytes), (200, &b"0123456789"[..]));
    assert_eq!(whole.headers["content-disposition"], "attachment");
    let part = client.with("range", "bytes=2-4").get(&path).await;
    assert_eq!((part.status, &*part.bytes), (206, &b"234"[..]));
    assert_eq!(part.headers["content-range"], "bytes 2-4/10");
    let beyond = client.with("range", "bytes=10-").get(&path).await;
    assert_eq!(beyond.problem(), (416, "range_not_satisfiable"));
    let missing = client.get(&format!("{path}?version=2")).await;
    assert_eq!(missing.problem(), (404, "not_found"));
}

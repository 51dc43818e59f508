//! Documents: create, replace, compare and remove workflows while the server runs.

use agentflow::prelude::*;
use agentflow::serde_json::{Value, json};
use agentflow::store::MemoryStore;
use reqwest::Method;

use crate::client::{Client, Response, Served};
use crate::workflows::server_double;

const FIRST: &str =
    "id: server_saved\nnodes:\n  - {id: hello, tool: server_double, args_template: {n: 4}}\n";

fn runtime() -> Runtime {
    Runtime::builder().tools(tools![server_double]).store(MemoryStore::new()).build()
}

async fn write(client: &Client, method: Method, path: &str, text: &str) -> Response {
    client.with("content-type", "application/yaml").send(method, path, Some(text.to_owned())).await
}

async fn run(client: &Client, body: Value) -> Value {
    let path = "/api/v1/workflows/server_saved/runs";
    client.post(path, body).await.ok()
}

#[tokio::test]
async fn a_document_has_numbered_versions() {
    let served = Served::runtime(&runtime()).await;
    let client = served.client();
    let created = write(&client, Method::POST, "/api/v1/workflows?comment=first", FIRST).await;
    assert_eq!((created.status, &created.headers["etag"]), (201, &"\"1\"".parse().unwrap()));
    assert_eq!((&created.json["version"], &created.json["comment"]), (&json!(1), &json!("first")));
    let again = write(&client, Method::POST, "/api/v1/workflows", FIRST).await;
    assert_eq!(again.problem(), (409, "already_exists"));

    let options = json!({"options": {"wait_ms": 60_000}});
    assert_eq!(run(&client, options.clone()).await["output"], 8);
    let second = FIRST.replace("{n: 4}", "{n: 5}");
    let path = "/api/v1/workflows/server_saved";
    let replaced = write(&client.with("if-match", "\"1\""), Method::PUT, path, &second).await;
    assert_eq!((replaced.status, &replaced.json["version"]), (200, &json!(2)));
    let late = write(&client.with("if-match", "\"1\""), Method::PUT, path, FIRST).await;
    assert_eq!(late.problem(), (412, "version_conflict"));
    let invalid = write(&client.with("if-match", "1"), Method::PUT, path, FIRST).await;
    assert_eq!(invalid.problem(), (400, "invalid_if_match"));

    assert_eq!(run(&client, options.clone()).await["output"], 10);
    let earlier = json!({"version": 1, "options": {"wait_ms": 60_000}});
    let earlier = run(&client, earlier).await;
    assert_eq!(earlier["output"], 8);
    let found = client.get(&format!("/api/v1/runs/{}", earlier["run_id"].as_str().unwrap())).await;
    assert_eq!(found.ok()["workflow_version"], 1);
    let missing = client.post(&format!("{path}/runs"), json!({"version": 7})).await;
    assert_eq!(missing.problem(), (404, "unknown_version"));

    let versions = client.get(&format!("{path}/versions")).await.ok();
    let numbers: Vec<_> =
        versions["items"].as_array().unwrap().iter().map(|one| one["version"].clone()).collect();
    assert_eq!(numbers, [json!(2), json!(1)]);
    let text = client.get(&format!("{path}/document?version=1")).await;
    assert_eq!(
        (&*text.bytes, &text.headers["etag"]),
        (FIRST.as_bytes(), &"\"1\"".parse().unwrap())
    );
    let diff = client.get(&format!("{path}/diff?from=1&to=2")).await;
    let diff = String::from_utf8(diff.bytes).unwrap();
    assert!(diff.contains("\n-") && diff.contains("\n+") && diff.contains("{n: 5}"), "{diff}");
    let graph = client.get(&format!("{path}/graph.svg")).await;
    assert!(graph.bytes.starts_with(b"<svg"), "{:?}", graph.headers);

    assert_eq!(client.with("if-match", "\"1\"").delete(path).await.problem().0, 412);
    assert_eq!(client.with("if-match", "\"2\"").delete(path).await.status, 204);
    assert_eq!(client.get(path).await.problem(), (404, "not_found"));
    assert_eq!(client.get(&format!("{path}/document?version=2")).await.status, 200);
}

#[tokio::test]
async fn mistakes_have_codes_and_lines() {
    let served = Served::runtime(&runtime()).await;
    let client = served.client();
    let text = "id: server_wrong\nnodes:\n  - {id: hello, tool: server_doubel}\n";
    let checked = write(&client, Method::POST, "/api/v1/documents/validate", text).await.ok();
    assert_eq!(checked["valid"], false);
    let problem = &checked["problems"][0];
    assert_eq!(problem["line"], 3, "{checked}");
    assert!(problem["message"].as_str().unwrap().contains("server_double"), "{checked}");
    let refused = write(&client, Method::POST, "/api/v1/workflows", text).await;
    assert_eq!(refused.problem(), (422, "invalid_document"));
    assert_eq!(refused.json["mistakes"], checked["problems"]);
    let no_yaml = write(&client, Method::POST, "/api/v1/workflows", "a: [").await;
    assert_eq!(no_yaml.problem(), (422, "invalid_document"));
    assert!(no_yaml.json["mistakes"][0]["line"].is_u64(), "{}", no_yaml.json);
    let valid = write(&client, Method::POST, "/api/v1/documents/validate", FIRST).await.ok();
    assert_eq!((&valid["valid"], &valid["workflow_id"]), (&json!(true), &json!("server_saved")));
    let other = write(&client, Method::PUT, "/api/v1/workflows/other", FIRST).await;
    assert_eq!(other.problem(), (422, "other_name"));
    let taken = FIRST.replace("server_saved", "server_quadruple");
    let taken = write(&client, Method::POST, "/api/v1/workflows", &taken).await;
    assert_eq!(taken.problem(), (409, "name_taken"));
    let linked = client.delete("/api/v1/workflows/server_quadruple").await;
    assert_eq!(linked.problem(), (404, "not_found"));
}

#[tokio::test]
async fn writers_at_the_same_time_have_one_winner() {
    let served = Served::runtime(&runtime()).await;
    let client = served.client();
    write(&client, Method::POST, "/api/v1/workflows", FIRST).await.ok();
    let texts: Vec<String> =
        (0..8).map(|n| FIRST.replace("{n: 4}", &format!("{{n: 1{n}}}"))).collect();
    let put = client.with("if-match", "\"1\"");
    let writes =
        texts.iter().map(|text| write(&put, Method::PUT, "/api/v1/workflows/server_saved", text));
    let statuses: Vec<u16> =
        futures_util::future::join_all(writes).await.iter().map(|one| one.status).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 412).count(), 7, "{statuses:?}");
}

//! Requests that are refused: each with a status, a code and a remedy.

use agentflow::serde_json::json;
use agentflow::server::Server;
use reqwest::Method;

use crate::client::Served;
use crate::workflows::runtime;

#[tokio::test]
async fn every_mistake_has_a_status_and_a_code() {
    let served = Served::new(Server::new(&runtime()).max_body(10_000)).await;
    let client = served.client();
    let run = client.start("server_publish", json!({"text": "news"})).await;
    let start = "/api/v1/workflows/server_quadruple/runs";
    let answer = format!("/api/v1/runs/{run}/questions/approval/answer");
    let large = "x".repeat(20_000);
    let deep = format!("{{\"input_data\": {{\"n\": {}1{}}}}}", "[".repeat(4000), "]".repeat(4000));
    #[rustfmt::skip]
    let mistakes: &[(&str, &str, &str, u16, &str)] = &[
        ("POST", start, "{", 400, "invalid_json"),
        ("POST", start, "{\"input_data\": {\"n\": 1}, \"input_data\": {\"n\": 2}}", 400, "invalid_json"),
        ("POST", start, &deep, 400, "invalid_json"),
        ("POST", start, "[]", 422, "invalid_request"),
        ("POST", start, "{\"inputdata\": {}}", 422, "invalid_request"),
        ("POST", start, "{\"input_data\": 5}", 422, "invalid_request"),
        ("POST", start, "{\"input_data\": {}}", 422, "invalid_input"),
        ("POST", start, "{\"input_data\": {\"n\": \"one\"}}", 422, "invalid_input"),
        ("POST", start, "{\"input_data\": {\"n\": 1}, \"options\": {\"wait_ms\": 900000}}", 422, "invalid_request"),
        ("POST", start, "{\"input_data\": {\"n\": 1}, \"options\": {\"waits\": 1}}", 422, "invalid_request"),
        ("POST", start, &large, 413, "too_large"),
        ("POST", "/api/v1/workflows/nothing/runs", "{}", 404, "unknown_workflow"),
        ("POST", &answer, "{}", 422, "invalid_request"),
        ("POST", "/api/v1/runs/nothing/pause", "", 404, "not_found"),
        ("GET", "/api/v1/workflows/nothing", "", 404, "not_found"),
        ("GET", "/api/v1/runs/nothing", "", 404, "not_found"),
        ("GET", "/api/v1/runs/%00", "", 404, "not_found"),
        ("GET", "/api/v1/runs/%FF", "", 400, "invalid_path"),
        ("GET", "/api/v1/runs/..%2F..%2Fetc%2Fpasswd", "", 404, "not_found"),
        ("GET", "/api/v1/runs?limit=0", "", 400, "invalid_query"),
        ("GET", "/api/v1/runs?limit=501", "", 400, "invalid_query"),
        ("GET", "/api/v1/runs?page=0", "", 400, "invalid_query"),
        ("GET", "/api/v1/runs?page=18446744073709551615", "", 400, "invalid_query"),
        ("GET", "/api/v1/runs?limit=many", "", 400, "invalid_query"),
        ("GET", "/api/v1/runs?status=sleeping", "", 400, "invalid_query"),
        ("GET", "/api/v1/runs?tag=desk", "", 400, "invalid_query"),
        ("GET", "/api/v1/runs?after=nothing", "", 404, "not_found"),
        ("GET", "/api/v1/nothing", "", 404, "unknown_path"),
        ("PATCH", "/api/v1/runs", "", 405, "method_not_allowed"),
    ];
    for (method, path, body, status, code) in mistakes {
        let body = (!body.is_empty()).then(|| (*body).to_owned());
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let response = client.send(method, path, body.clone()).await;
        assert_eq!(response.problem(), (*status, *code), "{path} {body:?}: {}", response.json);
        assert_eq!(response.headers["content-type"], "application/problem+json");
        let detail = response.json["detail"].as_str().unwrap();
        assert!(!detail.is_empty() && !detail.ends_with('.'), "{detail}");
    }
    let pointed = client.post(start, json!({"options": {"tags": {"a": 1}}})).await;
    assert_eq!(pointed.json["pointer"], "/options/tags/a", "{}", pointed.json);
    let text = client.with("content-type", "text/plain").post(start, json!({})).await;
    assert_eq!(text.problem(), (415, "unsupported_media_type"));
}

#[tokio::test]
async fn foreign_hosts_and_pages_are_refused() {
    let served = Served::runtime(&runtime()).await;
    let client = served.client();
    let host = client.with("host", "evil.example").get("/api/v1/runs").await;
    assert_eq!(host.problem(), (403, "forbidden"));
    let page = client.with("origin", "https://evil.example").get("/api/v1/runs").await;
    assert_eq!(page.problem(), (403, "forbidden"));

    let own = Server::new(&runtime()).hosts(["Flows.example"]).origins(["https://console.example"]);
    let served = Served::new(own).await;
    let client = served.client();
    assert_eq!(client.with("host", "flows.example").get("/api/v1/runs").await.status, 200);
    let page = client.with("origin", "https://console.example");
    let read = page.get("/api/v1/runs").await;
    assert_eq!(read.status, 200);
    assert_eq!(read.headers["access-control-allow-origin"], "https://console.example");
    assert_eq!(read.headers["vary"], "origin");
    let preflight = page.with("access-control-request-method", "POST");
    let preflight = preflight.send(Method::OPTIONS, "/api/v1/runs", None).await;
    assert_eq!(preflight.status, 204);
    assert!(preflight.headers.contains_key("access-control-allow-headers"));
    let evil = client.with("origin", "https://evil.example");
    let evil = evil.with("access-control-request-method", "POST");
    let evil = evil.send(Method::OPTIONS, "/api/v1/runs", None).await;
    assert_eq!(evil.status, 403);
    assert!(!evil.headers.contains_key("access-control-allow-origin"));

    // The page of the server itself sends its own origin.
    let own = format!("http://{}", served.address);
    assert_eq!(client.with("origin", own).get("/api/v1/runs").await.status, 200);
    let without = Served::new(Server::new(&runtime()).page(false)).await;
    let own = format!("http://{}", without.address);
    let refused = without.client().with("origin", own).get("/api/v1/runs").await;
    assert_eq!(refused.problem(), (403, "forbidden"));
}

//! The catalogue, health and the OpenAPI document.

use agentflow::serde_json::{Value, json};
use agentflow::server::Server;

use crate::client::Served;
use crate::workflows::runtime;

#[tokio::test]
async fn tools_and_health_are_listed() {
    let served = Served::runtime(&runtime()).await;
    let client = served.client();
    for path in ["/api/v1/tools", "/api/tools"] {
        let tools = client.get(path).await.ok();
        let tools = tools.as_array().unwrap();
        let double = tools.iter().find(|tool| tool["name"] == "server_double").unwrap();
        assert_eq!(double["input_schema"]["properties"]["n"]["type"], "integer");
    }
    assert_eq!(client.get("/api/v1/servers").await.ok(), json!([]));
    assert_eq!(client.get("/health").await.ok(), json!({"status": "ok"}));
    let health = client.get("/api/v1/health").await;
    assert!(matches!(health.status, 200 | 503), "{}", health.json);
}

#[tokio::test]
async fn the_document_is_served_and_complete() {
    let served = Served::runtime(&runtime()).await;
    let document = served.client().get("/api/v1/openapi.json").await.ok();
    assert_eq!(document, Server::open_api());
    let mut ids = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let place = format!("{method} {path}");
            ids.push(operation["operationId"].as_str().unwrap().to_owned());
            assert!(operation["summary"].as_str().unwrap().ends_with('.'), "{place}");
            for parameter in operation["parameters"].as_array().unwrap() {
                let is_described = parameter["in"] == "path"
                    || parameter["description"].as_str().is_some_and(|text| !text.is_empty());
                assert!(is_described, "{place}: {parameter}");
            }
        }
    }
    let count = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), count, "an operation id appears twice");
    // Every reference leads to a schema.
    let mut values = vec![&document];
    while let Some(value) = values.pop() {
        match value {
            Value::Object(fields) => {
                if let Some(reference) = fields.get("$ref").and_then(Value::as_str) {
                    let pointer = reference.strip_prefix('#').unwrap();
                    assert!(document.pointer(pointer).is_some(), "{reference}");
                }
                values.extend(fields.values());
            }
            Value::Array(items) => values.extend(items),
            _ => {}
        }
    }
}

//! The JSON of the A2A protocol. Every message of the specification round-trips, invalid messages
//! are refused, and unknown fields are ignored.

use agentflow::a2a::{
    A2aAnswer, A2aCard, A2aMessage, A2aPart, A2aPushConfig, A2aPushConfigs, A2aTask, A2aTasks,
    A2aUpdate,
};
use agentflow::serde::{Serialize, de::DeserializeOwned};
use agentflow::serde_json::{Value, from_value, json, to_value};

/// Checks that a value round-trips.
#[track_caller]
fn same<T: Serialize + DeserializeOwned>(json: Value) -> T {
    let read: T = from_value(json.clone()).unwrap();
    assert_eq!(to_value(&read).unwrap(), json);
    read
}

#[track_caller]
fn refused<T: DeserializeOwned + std::fmt::Debug>(json: Value, says: &str) {
    let error = from_value::<T>(json.clone()).expect_err("it is not one").to_string();
    assert!(error.contains(says), "{json}: {error}");
}

fn message() -> Value {
    json!({
        "messageId": "m-1", "contextId": "c-1", "taskId": "t-1", "role": "ROLE_USER",
        "parts": [
            {"text": "Look:", "mediaType": "text/plain"},
            {"raw": "AAH/", "mediaType": "image/png", "filename": "dot.png"},
            {"url": "https://files.example/a.pdf", "metadata": {"pages": 3}},
            {"data": {"n": [1, null]}},
            {"data": null},
        ],
        "metadata": {"a": 1}, "extensions": ["https://x.example/v1"], "referenceTaskIds": ["t-0"],
    })
}

fn task() -> Value {
    json!({
        "id": "t-1", "contextId": "c-1",
        "status": {
            "state": "TASK_STATE_INPUT_REQUIRED", "timestamp": "2026-01-31T10:30:00.000Z",
            "message": {"messageId": "m-2", "role": "ROLE_AGENT", "parts": [{"text": "Which?"}]},
        },
        "artifacts": [{"artifactId": "a-1", "name": "plan", "description": "A plan.", "parts": [{"text": "1."}]}],
        "history": [message()],
        "metadata": {"run": "r"},
    })
}

#[test]
fn messages_and_tasks_are_written_as_they_were() {
    let read: A2aMessage = same(message());
    assert_eq!(read.text(), "Look:");
    let read: A2aTask = same(task());
    assert_eq!((read.text().as_str(), read.said().as_deref()), ("1.", Some("Which?")));
    for state in
        ["SUBMITTED", "WORKING", "COMPLETED", "FAILED", "CANCELED", "REJECTED", "AUTH_REQUIRED"]
    {
        let state = format!("TASK_STATE_{state}");
        let read: A2aTask = same(json!({"id": "t", "status": {"state": state}}));
        assert_eq!(read.status.state.as_str(), state);
    }
    same::<A2aTasks>(
        json!({"tasks": [task()], "nextPageToken": "", "pageSize": 50, "totalSize": 1}),
    );
}

#[test]
fn answers_and_items_of_streams_are_written_as_they_were() {
    same::<A2aAnswer>(json!({"message": message()}));
    same::<A2aAnswer>(json!({"task": task()}));
    same::<A2aUpdate>(json!({"message": message()}));
    assert!(!same::<A2aUpdate>(json!({"task": task()})).is_last());
    let ended = json!({"statusUpdate": {"taskId": "t", "contextId": "c", "status": {"state": "TASK_STATE_FAILED"}}});
    assert!(same::<A2aUpdate>(ended).is_last());
    let artifact = json!({"artifactUpdate": {
        "taskId": "t", "contextId": "c", "artifact": {"artifactId": "a", "parts": [{"text": "x"}]},
        "append": true, "lastChunk": true,
    }});
    assert_eq!(same::<A2aUpdate>(artifact).task_id(), Some("t"));
}

#[test]
fn push_configurations_are_written_as_they_were() {
    let config = json!({
        "id": "c-1", "taskId": "t-1", "url": "https://client.example/hook", "token": "k",
        "authentication": {"scheme": "Bearer", "credentials": "s"},
    });
    let read: A2aPushConfig = same(config.clone());
    let shown = format!("{read:?}");
    assert!(
        shown.contains("Bearer") && !shown.contains("\"k\"") && !shown.contains("\"s\""),
        "{shown}"
    );
    same::<A2aPushConfig>(json!({"url": "https://client.example/hook"}));
    same::<A2aPushConfigs>(json!({"configs": [config], "nextPageToken": "c-1"}));
    assert_eq!(from_value::<A2aPushConfigs>(json!({})).unwrap(), A2aPushConfigs::default());
    let read: A2aPushConfig = from_value(json!({
        "id": "", "taskId": null, "url": "https://client.example/hook", "token": "", "authentication": null, "since": 7,
    }))
    .unwrap();
    assert_eq!(to_value(read).unwrap(), json!({"url": "https://client.example/hook"}));
    refused::<A2aPushConfig>(json!({"id": "c"}), "url");
    refused::<A2aPushConfig>(json!({"url": ""}), "empty");
    refused::<A2aPushConfig>(json!({"url": "u", "authentication": {}}), "scheme");
}

#[test]
fn every_kind_of_update_has_its_one_field() {
    for state in [
        "SUBMITTED",
        "WORKING",
        "INPUT_REQUIRED",
        "AUTH_REQUIRED",
        "COMPLETED",
        "FAILED",
        "CANCELED",
        "REJECTED",
    ] {
        let status = json!({"state": format!("TASK_STATE_{state}"), "timestamp": "2026-01-31T10:30:00.000Z"});
        let update = json!({"statusUpdate": {"taskId": "t", "contextId": "c", "status": status, "metadata": {"a": 1}}});
        let ends = ["COMPLETED", "FAILED", "CANCELED", "REJECTED"].contains(&state);
        assert_eq!(same::<A2aUpdate>(update).is_last(), ends, "{state}");
    }
    same::<A2aUpdate>(json!({"artifactUpdate": {
        "taskId": "t", "contextId": "c", "metadata": {"a": 1},
        "artifact": {
            "artifactId": "a", "parts": [{"raw": "AAH/", "mediaType": "image/png"}, {"url": "https://f.example/a"}],
            "metadata": {"b": 2}, "extensions": ["https://x.example/v1"],
        },
    }}));
}

#[test]
fn a_card_is_written_as_it_was() {
    let card: A2aCard = same(json!({
        "name": "Routes", "description": "Plans routes.", "version": "1.2.0",
        "supportedInterfaces": [
            {"url": "https://r.example/v1", "protocolBinding": "JSONRPC", "protocolVersion": "1.0", "tenant": "t"},
            {"url": "https://r.example/grpc", "protocolBinding": "GRPC", "protocolVersion": "1.0"},
        ],
        "provider": {"organization": "Routes Inc.", "url": "https://r.example"},
        "documentationUrl": "https://r.example/docs", "iconUrl": "https://r.example/icon.png",
        "capabilities": {
            "streaming": true, "pushNotifications": false, "extendedAgentCard": true,
            "extensions": [{"uri": "https://x.example/v1", "description": "X.", "required": true, "params": {"a": 1}}],
        },
        "securitySchemes": {"key": {"apiKeySecurityScheme": {"location": "header", "name": "X-Key"}}},
        "securityRequirements": [{"schemes": {"key": {"list": []}}}],
        "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain", "application/json"],
        "skills": [{
            "id": "plan", "name": "Plan", "description": "Plans.", "tags": ["map"], "examples": ["To Rome."],
            "inputModes": ["text/plain"], "outputModes": ["application/json"],
            "securityRequirements": [{"schemes": {"key": {"list": ["plan"]}}}],
        }],
        "signatures": [{"protected": "e30", "signature": "c2ln"}],
    }));
    assert_eq!(card.supported_interfaces[0].tenant.as_deref(), Some("t"));
}

#[test]
fn fields_that_are_not_known_are_ignored_and_null_is_a_field_left_out() {
    let read: A2aTask = from_value(json!({
        "id": "t", "contextId": "", "kind": "task", "artifacts": null, "history": null, "metadata": null,
        "status": {"state": "TASK_STATE_WORKING", "message": null, "timestamp": null, "since": 7},
    }))
    .unwrap();
    assert_eq!(
        to_value(read).unwrap(),
        json!({"id": "t", "status": {"state": "TASK_STATE_WORKING"}})
    );
    let read: A2aUpdate = from_value(
        json!({"task": {"id": "t", "status": {"state": "TASK_STATE_WORKING"}}, "new": 1}),
    )
    .unwrap();
    assert_eq!(read.task_id(), Some("t"));
    // Both base64 alphabets are accepted.
    for raw in ["-_8=", "+/8", "-_8"] {
        let part: A2aPart = from_value(json!({"raw": raw})).unwrap();
        assert_eq!(to_value(part).unwrap(), json!({"raw": "+/8="}), "{raw}");
    }
}

#[test]
fn what_is_not_a_message_is_refused() {
    refused::<A2aPart>(json!({}), "exactly one of");
    refused::<A2aPart>(json!({"text": "a", "url": "b"}), "exactly one of");
    refused::<A2aPart>(json!({"raw": "?"}), "base64");
    refused::<A2aMessage>(json!({"role": "ROLE_USER", "parts": []}), "messageId");
    refused::<A2aMessage>(json!({"messageId": "", "role": "ROLE_USER", "parts": []}), "empty");
    refused::<A2aMessage>(
        json!({"messageId": "m", "role": "owner", "parts": []}),
        "unknown variant",
    );
    refused::<A2aMessage>(json!({"messageId": "m", "role": "ROLE_USER"}), "parts");
    refused::<A2aTask>(json!({"id": "t"}), "status");
    refused::<A2aTask>(json!({"id": "t", "status": {"state": "finished"}}), "unknown variant");
    refused::<A2aAnswer>(json!({}), "exactly one of");
    let status =
        json!({"statusUpdate": {"taskId": "t", "status": {"state": "TASK_STATE_WORKING"}}});
    refused::<A2aAnswer>(status, "exactly one of");
    refused::<A2aUpdate>(json!({"task": task(), "message": message()}), "exactly one of");
}

//! A test that lists every string in every kind of event that a redactor leaves unchanged.

use std::collections::BTreeSet;

use serde_json::Value;

use super::redaction::{Redact, Redactor};
use crate::event::EventKind;

const SECRET: &str = "swordfish";

/// Places that a redactor leaves unchanged, grouped by reason. `*` is an element of a list. The
/// rustdoc of [`Redact`] contains the same list.
const LEFT: &[(&str, &[&str])] = &[
    (
        "what the host calls its callers, sessions and traces",
        &[
            "run.started/caller",
            "run.started/caller_claims/groups/*",
            "run.started/caller_claims/roles/*",
            "run.started/caller_claims/scopes/*",
            "run.started/session/session",
            "run.started/trace_id",
        ],
    ),
    (
        "the id of a run",
        &["run.started/artifacts/*/run", "run.started/session/after", "session.summarized/up_to"],
    ),
    (
        "the id of a call, by which its result is found",
        &[
            "agent.started/input/*/parts/*/call_id",
            "agent.started/input/*/parts/*/id",
            "model.completed/message/parts/*/id",
            "run.advanced/messages/*/parts/*/call_id",
            "run.advanced/messages/*/parts/*/id",
            "run.started/body/agent/input/*/parts/*/call_id",
            "run.started/body/agent/input/*/parts/*/id",
            "tool.completed/result/call_id",
            "tool.failed/result/call_id",
            "tool.started/call/id",
        ],
    ),
    ("the id of a message, which is given out once", &["message.received/id"]),
    ("the id of a question, by which it is answered", &["approval.requested/id"]),
    (
        "a scope, by which calls are allowed",
        &[
            "agent.started/terms/scopes/*",
            "run.started/body/agent/terms/scopes/*",
            "run.started/body/workflow/terms/scopes/*",
            "workflow.started/terms/scopes/*",
        ],
    ),
    (
        "a hash, by which changes and contents are known",
        &[
            "run.resumed/redefined/definition",
            "run.resumed/redefined/parts",
            "run.started/artifacts/*/sha256",
            "run.started/body/workflow/definition",
            "run.started/document/checksum",
            "run.started/parts",
            "workflow.started/definition",
        ],
    ),
    ("what a call that waits continues by", &["tool.waiting/state/token"]),
    ("the name of the workflow that a document describes", &["run.started/document/name"]),
    ("the path of a step", &["run.resumed/redefined/forgotten/*"]),
];

/// Collects the JSON Pointers (RFC 6901) of all strings in a value.
fn texts(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::String(_) => found.push(at.to_owned()),
        Value::Array(list) => {
            list.iter()
                .enumerate()
                .for_each(|(number, value)| texts(value, &format!("{at}/{number}"), found));
        }
        Value::Object(fields) => fields.iter().for_each(|(name, value)| {
            let name = name.replace('~', "~0").replace('/', "~1");
            texts(value, &format!("{at}/{name}"), found);
        }),
        _ => {}
    }
}

#[test]
#[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
fn every_text_of_every_kind_of_event() {
    let goldens = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/event-kinds.jsonl");
    let Ok(goldens) = std::fs::read_to_string(goldens) else {
        eprintln!("skipped: the project's golden events are not beside this crate");
        return;
    };
    let redactor = Redactor::from(Redact::with_known_keys().secret(SECRET));
    let (mut left, mut masked) = (BTreeSet::new(), 0);
    for line in goldens.lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        let (name, payload) = (event["name"].as_str().unwrap(), &event["payload"]);
        let mut places = Vec::new();
        texts(payload, "", &mut places);
        for place in places {
            let mut payload = payload.clone();
            *payload.pointer_mut(&place).unwrap() = format!("the {SECRET}").into();
            // Enumerated values of the format accept no other text.
            let text = serde_json::json!({"name": name, "payload": payload}).to_string();
            let Ok(kind) = serde_json::from_str::<EventKind>(&text) else { continue };
            let was = serde_json::to_string(&kind).unwrap();
            assert!(was.contains(SECRET), "{name}{place}: {was}");
            let seen = serde_json::to_string(&redactor.event(kind)).unwrap();
            if !seen.contains(SECRET) {
                masked += 1;
                continue;
            }
            let place =
                place.split('/').map(|part| if part.parse::<usize>().is_ok() { "*" } else { part });
            left.insert(format!("{name}{}", place.collect::<Vec<_>>().join("/")));
        }
    }
    let expected: BTreeSet<String> =
        LEFT.iter().flat_map(|(_, places)| *places).map(|place| (*place).to_owned()).collect();
    assert_eq!(left, expected);
    assert!(masked > 200, "{masked}");
}

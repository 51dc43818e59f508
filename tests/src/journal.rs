//! Creates events for tests that write to a store directly.

use agentflow::serde_json::{Value, json};
use agentflow::{Event, RunId, serde_json};

/// Creates an event of a run from the parts of its JSON form.
pub fn event(run: &RunId, seq: u64, path: &str, name: &str, payload: Value) -> Event {
    let event = json!({"run_id": run, "seq": seq, "time": 1_700_000_000_000 + seq, "path": path, "name": name, "payload": payload});
    serde_json::from_str(&event.to_string()).expect("the event has the form of events")
}

/// Creates the first event of a workflow run.
pub fn started(run: &RunId) -> Event {
    let workflow = json!({"name": "job", "definition": "d1", "input": 1});
    event(run, 1, "", "run.started", json!({"version": 1, "body": {"workflow": workflow}}))
}

/// Creates an event that is identified by its text.
pub fn noted(run: &RunId, seq: u64, text: &str) -> Event {
    event(run, seq, "note", "workflow.node.skipped", json!({"reason": text}))
}

/// Returns the texts of the [`noted`] events.
pub fn notes(events: &[Event]) -> Vec<String> {
    events
        .iter()
        .filter_map(|event| match &event.kind {
            agentflow::event::EventKind::NodeSkipped { reason } => Some(reason.to_string()),
            _ => None,
        })
        .collect()
}

//! Compensation of a run with deciders, including a workflow that it calls. A call is compensated
//! with the arguments that the decider revised, and a skipped call is not compensated. Each
//! compensation happens once, wherever the process ends, also when another process cancels the run
//! by its id.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use agentflow::event::EventKind;
use agentflow::prelude::*;
use agentflow::store::{MemoryStore, RunStatus, Store};
use agentflow::tool::ToolError;
use agentflow::value::Encoded;
use agentflow::workflow::{Graph, NextNode, NodeDecision};
use agentflow::{Event, RunId};
use agentflow_testing::{check_events, test_runtime};
use serde_json::{Value, json};

use crate::store::{Cut, MortalStore};

/// The log of an external service. It executes a request once per idempotency key.
#[derive(Clone, Default)]
struct Service(Arc<Mutex<Vec<(String, String)>>>);

impl Service {
    fn done(&self, what: String, key: &str) {
        let mut all = self.0.lock().unwrap();
        let done = (what, key.to_owned());
        if !all.contains(&done) {
            all.push(done);
        }
    }

    fn deeds(&self) -> Vec<String> {
        self.0.lock().unwrap().iter().map(|(what, _)| what.clone()).collect()
    }
}

/// Books something.
#[tool(idempotent, compensate = undone_unbook)]
async fn undone_book(cx: &Context, service: Inject<Service>, what: String) -> usize {
    service.done(format!("book {what}"), &cx.idempotency_key());
    what.len()
}

/// Takes a booking back.
#[tool(idempotent)]
async fn undone_unbook(
    cx: &Context,
    service: Inject<Service>,
    what: String,
    output: usize,
) -> bool {
    service.done(format!("unbook {what} {output}"), &cx.idempotency_key());
    true
}

/// Fails.
#[tool(effects = "none")]
async fn undone_fails() -> Result<u32, ToolError> {
    Err(ToolError::new("it is over"))
}

/// Decide by rules.
#[tool(effects = "none")]
async fn undone_rules(next: NextNode) -> NodeDecision {
    let what = match next.node.as_str() {
        "hotel" => "a tent",
        "room" => "a bed",
        "cruise" => return NodeDecision::Skip { reason: "it is dear".to_owned() },
        _ => return NodeDecision::Continue,
    };
    NodeDecision::Revise { arguments: json!({"what": what}), reason: String::new() }
}

const DECIDER: fn() -> Value = || json!({"kind": "tool", "name": "undone_rules"});

/// Builds a flight, a hotel, a stay and a concurrent cruise, followed by a failing step or a
/// question.
fn graphs(asks: bool) -> [Graph; 2] {
    let call = |name: &str, with: Value| json!({"call": {"kind": "tool", "name": name, "with": {"value": with}}});
    let book = |what: &str| call("undone_book", json!({"what": what}));
    let over = if asks {
        json!({"ask": {"text": "Is it paid?"}})
    } else {
        call("undone_fails", json!({}))
    };
    let stay = json!({"version": 1, "name": "undone-stay", "output": "room", "concurrency": 4, "decider": DECIDER(),
        "nodes": [{"name": "room", "does": book("a room")}]});
    let trip = json!({"version": 1, "name": "undone-trip", "output": "over", "concurrency": 4, "decider": DECIDER(),
    "nodes": [
        {"name": "flight", "does": book("a flight")},
        {"name": "hotel", "does": book("a hotel"), "edges": [{"from": "flight"}]},
        {"name": "cruise", "does": book("a cruise"), "edges": [{"from": "flight"}]},
        {"name": "stay", "edges": [{"from": "hotel"}, {"from": "cruise"}],
         "does": {"call": {"kind": "workflow", "name": "undone-stay", "with": {"value": {}}}}},
        {"name": "over", "edges": [{"from": "stay"}], "does": over},
    ]});
    [stay, trip].map(|graph| serde_json::from_value(graph).unwrap())
}

fn runtime(asks: bool, service: &Service, store: impl Store) -> Runtime {
    let builder = test_runtime().resource(service.clone()).store(store);
    graphs(asks).into_iter().fold(builder, |builder, graph| builder.graph(graph)).build()
}

/// Returns the bookings that the journal records as made.
fn made(events: &[Event]) -> BTreeSet<String> {
    let of_node = |event: &Event| match (&event.kind, event.path.to_string().as_str()) {
        (EventKind::NodeCompleted { .. }, "flight") => Some("unbook a flight 8".to_owned()),
        (EventKind::NodeCompleted { .. }, "hotel") => Some("unbook a tent 6".to_owned()),
        (EventKind::NodeCompleted { .. }, path) if path.ends_with("room") => {
            Some("unbook a bed 5".to_owned())
        }
        _ => None,
    };
    events.iter().filter_map(of_node).collect()
}

/// Runs until the process ends at a write. Returns the store at that point, and `true` if the run
/// had already ended.
async fn until(
    cut: Option<Cut>,
    asks: bool,
    service: &Service,
    id: &RunId,
) -> (Arc<dyn Store>, bool, usize) {
    let kept: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let store = MortalStore::new(&kept, cut);
    let first = runtime(asks, service, store.clone());
    let run = async {
        let start = first.start_named("undone-trip", Encoded::new(&json!({})).unwrap());
        let run = start.run_id(id.clone()).compensate().await.unwrap();
        match asks {
            true => drop(run.asked().await.unwrap().expect("it asks")),
            false => assert!(run.result().await.is_err()),
        }
    };
    let is_over = tokio::select! {
        () = run => true,
        () = store.died() => false,
    };
    let writes = store.writes();
    (kept, is_over, writes)
}

#[tokio::test(start_paused = true)]
async fn what_was_revised_is_undone_and_what_was_skipped_is_not() {
    let id = RunId::new("trip");
    let (service, done) = (Service::default(), ["book a flight", "book a tent", "book a bed"]);
    let (_, _, writes) = until(None, false, &service, &id).await;
    let undone = ["unbook a bed 5", "unbook a tent 6", "unbook a flight 8"];
    let all = [done, undone].concat();
    assert_eq!(service.deeds(), all);
    for cut in (1..=writes).flat_map(|write| [false, true].map(|kept| Cut { write, kept })) {
        let service = Service::default();
        let (kept, _, _) = until(Some(cut), false, &service, &id).await;
        let second = runtime(false, &service, MortalStore::new(&kept, None));
        match kept.record(&id).await.unwrap() {
            None => continue,
            Some(record) if record.status.has_ended() => {}
            Some(_) => drop(second.run(&id).resume().await.unwrap().result().await.unwrap_err()),
        }
        let events = second.run(&id).journal().await.unwrap();
        check_events(&events).unwrap_or_else(|problem| panic!("{cut}: {problem}"));
        assert_eq!(service.deeds(), all, "{cut}");
    }
    assert!(writes > 15, "{writes}");
}

#[tokio::test(start_paused = true)]
async fn another_process_cancels_and_undoes_wherever_the_first_one_ended() {
    let id = RunId::new("trip");
    let (_, _, writes) = until(None, true, &Service::default(), &id).await;
    for cut in (1..=writes).flat_map(|write| [false, true].map(|kept| Cut { write, kept })) {
        let service = Service::default();
        let (kept, _, _) = until(Some(cut), true, &service, &id).await;
        if kept.record(&id).await.unwrap().is_none() {
            continue;
        }
        let second = runtime(true, &service, MortalStore::new(&kept, None));
        second
            .run(&id)
            .cancel("the trip is off")
            .await
            .unwrap_or_else(|error| panic!("{cut}: {error}"));
        let events = second.run(&id).journal().await.unwrap();
        check_events(&events).unwrap_or_else(|problem| panic!("{cut}: {problem}"));
        assert_eq!(second.run(&id).record().await.unwrap().status, RunStatus::Cancelled, "{cut}");
        let deeds = service.deeds();
        let undone: Vec<String> =
            deeds.iter().filter(|deed| deed.starts_with("unbook")).cloned().collect();
        assert_eq!(
            undone.iter().cloned().collect::<BTreeSet<_>>(),
            made(&events),
            "{cut}: {deeds:?}"
        );
        assert_eq!(undone.len(), made(&events).len(), "{cut}: {deeds:?}");
        let again = second.run(&id).cancel("once more").await.unwrap_err().to_string();
        assert!(again.contains("cancelled"), "{cut}: {again}");
        assert_eq!(service.deeds(), deeds, "{cut}");
    }
    assert!(writes > 10, "{writes}");
}

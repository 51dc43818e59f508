//! Tests snapshots of agent runs: a resumed run with a snapshot does and records the same as
//! without one.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use agentflow::agent::Limits;
use agentflow::event::EventKind;
use agentflow::middleware::{redact, token_budget};
use agentflow::model::Usage;
use agentflow::state::StateKey;
use agentflow::store::{Epoch, MemoryStore, Snapshot, Store, StoreError, StoreLayer};
use agentflow::tool::{Effects, FnTool, ToolPolicy, ToolRef};
use agentflow::{Agent, Event, RunId, Runtime, async_trait, serde_json};
use agentflow_testing::{ScriptedModel, Turn, check_events, test_runtime};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

const TURNS: usize = 450;
/// Above the number of calls in an uninterrupted run, since an interrupted call counts too.
const LIMIT: u32 = 460;
const SECRET: &str = "swordfish";

/// Counts the calls and payments of all processes.
#[derive(Clone, Default)]
struct Done {
    calls: Arc<AtomicU32>,
    payments: Arc<AtomicU32>,
}

#[derive(Deserialize, JsonSchema)]
struct Of {
    n: u64,
}

/// The last payment, and a key that the second payment sets and the fourth removes.
static PAID: StateKey<u64> = StateKey::session("fast_paid");
static SECOND: StateKey<u64> = StateKey::session("fast_second");

/// Returns an agent that pays and looks in turns. Every seventh look fails.
fn agent(runtime: &Runtime, done: &Done) -> Agent {
    limited(runtime, done, LIMIT)
}

/// Returns the agent with a limit of model calls.
fn limited(runtime: &Runtime, done: &Done, calls: u32) -> Agent {
    let (asked, payments) = (Arc::clone(&done.calls), Arc::clone(&done.payments));
    let model = ScriptedModel::from_fn(move |request| {
        asked.fetch_add(1, Ordering::SeqCst);
        let turns = request
            .messages
            .messages()
            .iter()
            .filter(|message| message.results().next().is_some())
            .count();
        let turn = match turns {
            TURNS => Turn::text(format!("after {}", request.messages.len())),
            at if at % 2 == 0 => Turn::call("fast_pay", json!({"n": at})),
            at => Turn::call("fast_look", json!({"n": at})),
        };
        turn.usage(Usage::new(10 + turns as u64, 5))
    })
    .named("p", "m");
    let pay = FnTool::new("fast_pay", "Pay.", move |cx, Of { n }: Of| {
        payments.fetch_add(1, Ordering::SeqCst);
        async move {
            cx.set(&PAID, &n).map_err(|error| error.to_string())?;
            if n == 2 {
                cx.set(&SECOND, &n).map_err(|error| error.to_string())?;
            } else if n == 6 {
                cx.remove(&SECOND).map_err(|error| error.to_string())?;
            }
            Ok::<_, String>(format!("paid {n} with {SECRET}"))
        }
    });
    let look = FnTool::new("fast_look", "Look.", |cx, Of { n }: Of| async move {
        let paid = cx.state(&PAID).await.map_err(|error| error.to_string())?;
        let second = cx.state(&SECOND).await.map_err(|error| error.to_string())?;
        match n % 7 {
            0 => Err(format!("there is no {n}")),
            _ => Ok(format!("{paid:?} {second:?}")),
        }
    });
    let tools = [
        ToolRef::from(pay.policy(ToolPolicy::default().effects(Effects::Write))),
        ToolRef::from(look.policy(ToolPolicy::default().effects(Effects::Read))),
    ];
    let limits = Limits::default().max_steps(LIMIT).max_llm_calls(calls);
    Agent::new(model)
        .name("fast_payer")
        .instruct("Pay.")
        .tools(tools)
        .settings(limits)
        .runtime(runtime)
}

/// A store that keeps every snapshot.
#[derive(Clone, Debug)]
pub(crate) struct SnapshotKeepingStore {
    pub(crate) store: MemoryStore,
    snapshots: Arc<Mutex<Vec<Snapshot>>>,
}

impl SnapshotKeepingStore {
    pub(crate) fn new(store: MemoryStore) -> Self {
        Self { store, snapshots: Arc::default() }
    }

    pub(crate) fn snapshots(&self) -> Vec<Snapshot> {
        self.snapshots.lock().unwrap().clone()
    }
}

#[async_trait]
impl StoreLayer for SnapshotKeepingStore {
    fn inner(&self) -> &dyn Store {
        &self.store
    }

    async fn put_snapshot(
        &self,
        run: &RunId,
        epoch: Epoch,
        snapshot: Snapshot,
    ) -> Result<(), StoreError> {
        self.snapshots.lock().unwrap().push(snapshot.clone());
        self.inner().put_snapshot(run, epoch, snapshot).await
    }
}

fn runtime(store: &SnapshotKeepingStore) -> Runtime {
    let budget = token_budget(10_000_000);
    test_runtime()
        .max_llm_calls(LIMIT)
        .with(redact().secret(SECRET))
        .with(budget)
        .store(store.clone())
        .build()
}

pub(crate) async fn store_with(
    events: &[Event],
    snapshot: Option<&Snapshot>,
) -> SnapshotKeepingStore {
    let store = MemoryStore::new();
    let run = &events[0].run_id;
    let epoch = store.create(run, events.to_vec()).await.unwrap();
    if let Some(snapshot) = snapshot {
        Store::put_snapshot(&store, run, epoch, snapshot.clone()).await.unwrap();
    }
    SnapshotKeepingStore::new(store)
}

/// Returns the state that the last look reported.
fn state_of(events: &[Event]) -> Option<u64> {
    let looked = events.iter().rev().find_map(|event| match &event.kind {
        EventKind::ToolCompleted { result, .. } if result.name == "fast_look" => {
            Some(result.output.clone())
        }
        _ => None,
    });
    looked?.split_once("Some(")?.1.split_once(')')?.0.parse().ok()
}

/// Returns the events without their times.
fn timeless(events: &[Event]) -> Vec<(u64, String, EventKind)> {
    events.iter().map(|event| (event.seq, event.path.to_string(), event.kind.clone())).collect()
}

/// Runs an agent to its end. Returns its journal and its snapshots.
async fn whole(store: SnapshotKeepingStore) -> (Vec<Event>, Vec<Snapshot>) {
    let done = Done::default();
    let run = agent(&runtime(&store), &done).start("Go.").unwrap();
    let result = run.result().await.unwrap();
    assert_eq!(result.output(), &answer());
    assert_eq!(done.payments.load(Ordering::SeqCst) as usize, TURNS / 2);
    (store.store.read(run.run_id(), 0, 10_000).await.unwrap(), store.snapshots())
}

/// Returns the final answer of the agent.
fn answer() -> String {
    format!("after {}", 2 + 2 * TURNS)
}

#[tokio::test(start_paused = true)]
async fn a_run_resumed_from_a_snapshot_does_what_it_would_without() {
    let (events, snapshots) = whole(SnapshotKeepingStore::new(MemoryStore::new())).await;
    let run: RunId = events[0].run_id.clone();
    assert!(snapshots.len() > 1, "there is one a thousand events");
    for snapshot in snapshots {
        assert!(snapshot.events.len() < 6, "{} of {}", snapshot.events.len(), snapshot.seq);
        let text = serde_json::to_string(&snapshot.events).unwrap();
        assert!(!text.contains(SECRET), "a snapshot has what is recorded, and no secret");
        for more in (0..6).chain([150]) {
            let cut = usize::try_from(snapshot.seq).unwrap() + more;
            let mut both = Vec::new();
            for snapshot in [None, Some(&snapshot)] {
                let store = store_with(&events[..cut], snapshot).await;
                let done = Done::default();
                let resumed = agent(&runtime(&store), &done).resume(&run).await.unwrap();
                let result = resumed.result().await.unwrap();
                let all = store.store.read(&run, 0, 10_000).await.unwrap();
                check_events(&all).unwrap();
                let state = state_of(&all[cut..]);
                assert_eq!(
                    state,
                    Some(u64::try_from(TURNS).unwrap() - 2),
                    "what was saved before is seen"
                );
                let again = [&done.calls, &done.payments].map(|count| count.load(Ordering::SeqCst));
                both.push((
                    (
                        result.output().clone(),
                        result.conversation().clone(),
                        result.usage().clone(),
                        result.steps(),
                    ),
                    (timeless(&all[cut..]), again),
                ));
            }
            let [without, with] = &both[..] else { unreachable!() };
            assert_eq!(without.0, with.0, "{more} after {}", snapshot.seq);
            assert_eq!(without.1.1, with.1.1, "{more} after {}", snapshot.seq);
            let other = without.1.0.iter().zip(&with.1.0).find(|(without, with)| without != with);
            assert_eq!(
                (other, without.1.0.len()),
                (None, with.1.0.len()),
                "{more} after {}",
                snapshot.seq
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn limits_count_what_a_snapshot_stands_for() {
    const CALLS: u32 = 420;
    let store = SnapshotKeepingStore::new(MemoryStore::new());
    let begun = limited(&runtime(&store), &Done::default(), CALLS).start("Go.").unwrap();
    assert_eq!(begun.result().await.unwrap_err().kind(), "llm_call_limit");
    let run = begun.run_id().clone();
    let snapshot = store.snapshots().pop().unwrap();
    let events = store.store.read(&run, 0, 10_000).await.unwrap();
    let cut = usize::try_from(snapshot.seq).unwrap() + 3;
    let tokens = events[..cut].iter().filter_map(|event| match &event.kind {
        EventKind::ModelCompleted(response) => Some(response.usage.total_tokens()),
        _ => None,
    });
    let budget = token_budget(tokens.sum::<u64>() + 600).failing();
    for (kind, more) in [("llm_call_limit", false), ("budget_exceeded", true)] {
        let mut both = Vec::new();
        for snapshot in [None, Some(&snapshot)] {
            let builder = test_runtime()
                .with(redact().secret(SECRET))
                .store(store_with(&events[..cut], snapshot).await);
            let runtime = match more {
                true => builder.with(budget.clone()).build(),
                false => builder.build(),
            };
            let done = Done::default();
            let error = limited(&runtime, &done, CALLS)
                .resume(&run)
                .await
                .unwrap()
                .result()
                .await
                .unwrap_err();
            both.push((
                error.kind().to_owned(),
                error.to_string(),
                done.calls.load(Ordering::SeqCst),
            ));
        }
        assert_eq!(both[0], both[1]);
        assert_eq!(both[0].0, kind);
        assert!(both[0].2 > 0, "{both:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_next_snapshot_is_made_of_the_one_before() {
    let (events, snapshots) = whole(SnapshotKeepingStore::new(MemoryStore::new())).await;
    let run: RunId = events[0].run_id.clone();
    let first = &snapshots[0];
    let store = store_with(&events[..usize::try_from(first.seq).unwrap() + 7], Some(first)).await;
    agent(&runtime(&store), &Done::default()).resume(&run).await.unwrap().result().await.unwrap();
    let all = store.store.read(&run, 0, 10_000).await.unwrap();
    let messages = |snapshot: &Snapshot| {
        let advanced = snapshot.events.iter().filter_map(|event| match &event.kind {
            EventKind::RunAdvanced(advanced) => Some(advanced.messages.clone()),
            _ => None,
        });
        let [messages] = &advanced.collect::<Vec<_>>()[..] else {
            panic!("one for all turns: {snapshot:?}")
        };
        messages.clone()
    };
    let later = store.snapshots();
    assert!(!later.is_empty());
    for second in later {
        assert_eq!(
            messages(first).messages(),
            &messages(&second).messages()[..messages(first).len()]
        );
        let cut = store_with(&all[..usize::try_from(second.seq).unwrap()], Some(&second)).await;
        let result = agent(&runtime(&cut), &Done::default())
            .resume(&run)
            .await
            .unwrap()
            .result()
            .await
            .unwrap();
        assert_eq!(result.output(), &answer());
    }
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_of_a_newer_release_is_as_good_as_none() {
    let (events, snapshots) = whole(SnapshotKeepingStore::new(MemoryStore::new())).await;
    let run: RunId = events[0].run_id.clone();
    let mut snapshot = snapshots[0].clone();
    let text = serde_json::to_string(snapshot.events.last().unwrap()).unwrap();
    let newer = text.replace("\"run.spent\"", "\"run.of_another_release\"");
    assert_ne!(newer, text);
    snapshot.events.push(serde_json::from_str(&newer).unwrap());
    let store =
        store_with(&events[..usize::try_from(snapshot.seq).unwrap() + 2], Some(&snapshot)).await;
    let result = agent(&runtime(&store), &Done::default())
        .resume(&run)
        .await
        .unwrap()
        .result()
        .await
        .unwrap();
    assert_eq!(result.output(), &answer());
}

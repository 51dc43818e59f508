//! Whether a store keeps the rules of the `Store` trait. It knows no store, and looks at none but through the trait.

mod random;
mod rules;

use std::sync::Arc;

use agentflow::serde_json::{self, Value, json};
use agentflow::{Epoch, Event, RunId, RunRecord, Store, StoreError, StoreErrorKind};

/// Checks a store against the rules of the `Store` trait, for whoever writes one.
///
/// `new` makes an empty store; it is called for each rule. What is checked: creating, opening, appending and fencing;
/// reading in pages; records, lists and filters; snapshots, definitions and messages; random sequences of requests
/// against a plain model; and several writers at the same time, of whom never two write after each other's opening.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use agentflow::MemoryStore;
/// use agentflow_testing::check_store;
///
/// check_store(|| async { MemoryStore::new() }).await;
/// # }
/// ```
///
/// # Panics
/// At the first rule that is broken, with what was expected.
pub async fn check_store<S, F, Fut>(new: F)
where
    S: Store,
    F: Fn() -> Fut,
    Fut: Future<Output = S>,
{
    macro_rules! check {
        ($($rule:ident),+ $(,)?) => {$(
            let store: Arc<dyn Store> = Arc::new(new().await);
            rules::$rule(&Tested { store, rule: stringify!($rule) }).await;
        )+};
    }
    check!(
        a_run_is_created_once,
        an_unknown_run_is_not_found,
        what_was_appended_is_read_as_it_was,
        reading_is_done_in_pages,
        opening_fences_off_the_writer_before,
        an_append_at_another_place_writes_nothing,
        what_is_too_large_is_refused,
        closing_with_an_old_epoch_changes_nothing,
        a_closed_run_can_be_opened,
        the_record_follows_from_the_events,
        lists_are_filtered_and_the_newest_is_first,
        the_last_snapshot_is_kept,
        definitions_are_kept_under_their_hash,
        messages_wait_in_order_until_they_have_an_outcome,
        a_message_that_is_taken_back_has_no_effect,
        a_run_that_has_ended_is_left_alone,
        amending_is_one_commit_at_the_end_of_a_journal,
        every_kind_of_text_is_kept,
        many_runs_at_the_same_time,
    );
    for seed in 0..12 {
        let store: Arc<dyn Store> = Arc::new(new().await);
        random::requests(&Tested { store, rule: "random requests do what a plain model does" }, seed).await;
    }
    for seed in 0..4 {
        let store: Arc<dyn Store> = Arc::new(new().await);
        random::writers(&Tested { store, rule: "two writers of a run never both commit" }, seed).await;
    }
}

/// Checks that a store that lasts has everything again after it was dropped and opened anew.
///
/// `open` opens the same place each time; before the first call it is empty.
///
/// # Panics
/// At the first rule that is broken, with what was expected.
pub async fn check_store_reopened<S, F, Fut>(open: F)
where
    S: Store,
    F: Fn() -> Fut,
    Fut: Future<Output = S>,
{
    let tested = async |rule| Tested { store: Arc::new(open().await), rule };
    let epoch = rules::fill(&tested("what was acknowledged is there again").await).await;
    rules::is_filled(&tested("what was acknowledged is there again").await, epoch).await;
    // Two handles on one place, as of two programs.
    let rule = "of two handles on one place only one commits";
    let (one, other) = (tested(rule).await, tested(rule).await);
    random::handles(&one, &other).await;
}

/// A store and the rule it is held against.
pub(crate) struct Tested {
    store: Arc<dyn Store>,
    rule: &'static str,
}

impl Tested {
    /// What a request must come to.
    fn ok<T>(&self, done: Result<T, StoreError>, what: &str) -> T {
        done.unwrap_or_else(|error| panic!("{}: {what} should have been done, but: {error}", self.rule))
    }

    /// What a request must fail with.
    fn fails<T>(&self, done: Result<T, StoreError>, kind: StoreErrorKind, what: &str) {
        match done {
            Ok(_) => panic!("{}: {what} should have failed as `{kind}`, but was done", self.rule),
            Err(error) if error.kind() == kind => {}
            Err(error) => {
                panic!(
                    "{}: {what} should have failed as `{kind}`, but failed as `{}`: {error}",
                    self.rule,
                    error.kind()
                )
            }
        }
    }

    #[track_caller]
    fn same<T: PartialEq + std::fmt::Debug>(&self, found: T, expected: T, what: &str) {
        assert!(found == expected, "{}: {what}\n   found: {found:?}\nexpected: {expected:?}", self.rule);
    }

    /// The whole journal.
    async fn journal(&self, run: &RunId) -> Vec<Event> {
        self.ok(self.store.read(run, 0, usize::MAX).await, "reading a run")
    }

    /// A run of one event.
    async fn created(&self, run: &RunId) -> Epoch {
        self.ok(self.store.create(run, vec![started(run, "job", 1)]).await, "creating a run")
    }

    async fn record(&self, run: &RunId) -> RunRecord {
        let record = self.ok(self.store.record(run).await, "asking for the record of a run");
        record.unwrap_or_else(|| panic!("{}: the run `{run}` has no record", self.rule))
    }
}

/// An event of a run, from the parts of its JSON.
fn event(run: &RunId, seq: u64, path: &str, name: &str, payload: &Value) -> Event {
    let time = 1_700_000_000_000_u64.saturating_add(seq);
    serde_json::from_str(
        &json!({"run_id": run, "seq": seq, "time": time, "path": path, "name": name, "payload": payload}).to_string(),
    )
    .expect("the event has the form of events")
}

/// The first event of a run of a workflow; `time` says how old it is.
fn started(run: &RunId, name: &str, time: u64) -> Event {
    let workflow = json!({"name": name, "definition": "d1", "input": {"text": "in"}});
    let mut event = event(run, 1, "", "run.started", &json!({"version": 1, "body": {"workflow": workflow}}));
    event.time = agentflow::Timestamp::from_millis(1_700_000_000_000 + time);
    event
}

/// Something that happened, with a text to tell it from others.
fn noted(run: &RunId, seq: u64, text: &str) -> Event {
    event(run, seq, "note", "workflow.node.skipped", &json!({"reason": text}))
}

fn run(name: &str) -> RunId {
    RunId::new(name)
}

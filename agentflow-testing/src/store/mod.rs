//! Tests a store against the rules of the `Store` trait, using nothing but the trait.
//!
//! [`check_store`] determines the optional parts that a store has ([`StorePart`]) and runs each
//! rule with a new store. `rules` and the modules named after a part, such as `session_rules`,
//! contain the rules, one function each. `random` executes random requests, one after another and
//! concurrently. [`check_store_reopened`] tests a store that outlives its process.

mod artifact_rules;
mod document_rules;
mod list_rules;
mod message_rules;
mod random;
mod rules;
mod session_rules;

use std::sync::Arc;

use agentflow::serde_json::{self, Value, json};
use agentflow::store::{
    Append, ArtifactStore, DocumentStore, Epoch, LeaseStore, MessageStore, RunRecord, SessionStore,
    Snapshot, StateStore, Store, StoreError, StoreErrorKind,
};
use agentflow::{Event, RunId};

/// Tests an implementation of the [`Store`] trait against its rules.
///
/// `new` creates an empty store; it is called once per rule. The rules cover creating, opening,
/// appending and fencing; reading in pages; records, lists and filters; snapshots, definitions and
/// messages; random sequences of requests compared with a reference model; and concurrent writers:
/// after a writer opens a run, earlier writers cannot write to it.
///
/// Rules of an optional part are skipped if the store does not have it: its method for the part,
/// such as [`Store::sessions`], returns `None`. Three parts are methods of [`Store`] itself and
/// absent if `delete` fails with `unsupported`, or a stored snapshot or definition cannot be read
/// back. The result lists the absent parts. A store with all parts asserts that the list is empty:
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use agentflow::store::MemoryStore;
/// use agentflow_testing::check_store;
///
/// let checked = check_store(|| async { MemoryStore::new() }).await;
/// assert_eq!(checked.skipped(), []);
/// # }
/// ```
///
/// # Panics
/// At the first broken rule, with the expectation.
pub async fn check_store<S, F, Fut>(new: F) -> StoreCheck
where
    S: Store,
    F: Fn() -> Fut,
    Fut: Future<Output = S>,
{
    let skipped = skipped(&new().await).await;
    let tested = async |rule| StoreUnderTest {
        store: Arc::new(new().await),
        rule,
        skipped: skipped.clone(),
    };
    macro_rules! check {
        ($rules:ident: $($rule:ident),+ $(,)?) => {$(
            $rules::$rule(&tested(stringify!($rule)).await).await;
        )+};
    }
    check!(
        rules: a_run_is_created_once,
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
        released_runs_are_claimable_and_the_oldest_is_first,
        runs_are_found_by_their_tags_and_caller,
        a_run_that_has_ended_is_not_opened,
        amending_is_one_commit_at_the_end_of_a_journal,
        every_kind_of_text_is_kept,
        many_runs_at_the_same_time,
    );
    check!(
        list_rules: the_record_contains_the_open_questions,
        counting_is_the_length_of_the_list,
        a_list_by_change_begins_with_the_last_change,
        pages_by_change_repeat_no_run,
        the_events_of_a_step_are_read_alone,
    );
    if !skipped.contains(&StorePart::Snapshots) {
        check!(rules: the_last_snapshot_is_kept);
    }
    if !skipped.contains(&StorePart::Definitions) {
        check!(rules: definitions_are_kept_under_their_hash);
    }
    if !skipped.contains(&StorePart::Messages) {
        check!(
            message_rules: messages_wait_in_order_until_they_have_an_outcome,
            a_message_that_is_taken_back_has_no_effect,
            a_run_that_has_ended_takes_no_messages,
        );
    }
    if !skipped.contains(&StorePart::Deletion) {
        check!(rules: what_is_deleted_is_gone);
    }
    if !skipped.contains(&StorePart::Artifacts) {
        check!(
            artifact_rules: bytes_are_kept_for_their_run,
            the_same_bytes_are_of_each_run_that_saved_them,
        );
    }
    if !skipped.contains(&StorePart::Leases) {
        check!(rules: a_run_that_is_open_here_has_no_other_holder);
    }
    if !skipped.contains(&StorePart::State) {
        check!(rules: state_is_written_with_its_commit_or_not_at_all);
    }
    if !skipped.contains(&StorePart::Sessions) {
        check!(session_rules:
            a_session_has_one_unfinished_run,
            of_runs_that_begin_in_a_session_at_once_one_does,
            sessions_are_listed_by_their_first_run,
            a_session_is_deleted_as_a_whole,
        );
    }
    if !skipped.contains(&StorePart::Documents) {
        check!(document_rules:
            versions_are_numbered_and_kept,
            a_put_compares_the_current_version,
            a_removed_document_keeps_its_versions,
            documents_are_listed_in_the_order_of_their_names,
            changes_of_documents_are_numbered,
            of_writers_that_expect_the_same_version_one_wins,
        );
        for seed in 0..6 {
            let random = tested("random changes of documents agree with a plain model").await;
            document_rules::random_documents(&random, seed).await;
            let shared = tested("several writers of a document").await;
            document_rules::document_writers(&[&shared], seed).await;
        }
    }
    // Fixed seeds keep the test reproducible.
    for seed in 0..12 {
        random::requests(&tested("random requests do what a plain model does").await, seed).await;
    }
    for seed in 0..4 {
        random::writers(&tested("two writers of a run never both commit").await, seed).await;
    }
    StoreCheck { skipped }
}

/// Tests that a store which outlives its process has all data after it is dropped and opened again.
/// Optional parts are skipped as in [`check_store`], which tests all other rules.
///
/// `open` opens the same location each time. The location must be empty before the first call.
///
/// # Panics
/// At the first broken rule, with the expectation.
pub async fn check_store_reopened<S, F, Fut>(open: F) -> StoreCheck
where
    S: Store,
    F: Fn() -> Fut,
    Fut: Future<Output = S>,
{
    let skipped = skipped(&open().await).await;
    let tested = async |rule| StoreUnderTest {
        store: Arc::new(open().await),
        rule,
        skipped: skipped.clone(),
    };
    let rule = "what was acknowledged is there again";
    let epoch = rules::fill(&tested(rule).await).await;
    rules::is_filled(&tested(rule).await, epoch).await;
    // Two handles on one location, as two programs would have.
    let rule = "of two handles on one place only one commits";
    let (one, other) = (tested(rule).await, tested(rule).await);
    if one.has(StorePart::Messages) {
        assert!(
            one.messages().message_sent().is_some(),
            "{rule}: a store that takes messages of other processes tells in `message_sent` when to read them"
        );
    }
    random::handles(&one, &other).await;
    if one.has(StorePart::Documents) {
        document_rules::document_writers(&[&one, &other], 1).await;
    }
    StoreCheck { skipped }
}

/// The result of [`check_store`] for a store that obeys all rules of the parts that it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreCheck {
    skipped: Vec<StorePart>,
}

impl StoreCheck {
    /// Returns the optional parts that the store does not have and that were not tested.
    pub fn skipped(&self) -> &[StorePart] {
        &self.skipped
    }
}

/// An optional part of a [`Store`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum StorePart {
    /// [`Store::put_snapshot`] and [`Store::snapshot`].
    Snapshots,
    /// [`Store::put_definition`] and [`Store::definition`].
    Definitions,
    /// [`Store::messages`].
    Messages,
    /// [`Store::delete`].
    Deletion,
    /// [`Store::artifacts`].
    Artifacts,
    /// [`Store::state`].
    State,
    /// [`Store::sessions`].
    Sessions,
    /// [`Store::leases`].
    Leases,
    /// [`Store::documents`].
    Documents,
}

/// Returns the optional parts that a store does not have. The parts without a type are tested with a
/// run.
async fn skipped(store: &dyn Store) -> Vec<StorePart> {
    let (id, rule) = (run("parts"), "the optional parts of a store");
    let ok = |done: Result<(), StoreError>| done.unwrap_or_else(|error| panic!("{rule}: {error}"));
    let epoch = store.create(&id, vec![started(&id, "parts", 0)]).await;
    let epoch = epoch
        .unwrap_or_else(|error| panic!("{rule}: a run should have been created, but: {error}"));
    // A store without these parts accepts the writes and drops them, so they are read back below.
    ok(store.put_snapshot(&id, epoch, Snapshot::new(1, vec![started(&id, "parts", 0)])).await);
    ok(store.put_definition("parts", "{}".to_owned()).await);
    let snapshot = store.snapshot(&id).await.unwrap_or_else(|error| panic!("{rule}: {error}"));
    let definition =
        store.definition("parts").await.unwrap_or_else(|error| panic!("{rule}: {error}"));
    // A run can only be deleted after its end.
    let end = event(&id, 2, "", "run.cancelled", &json!({"reason": "it was for a look"}));
    ok(store.append(&id, epoch, Append::new(1, vec![end])).await);
    let mut skipped = Vec::new();
    skipped.extend(snapshot.is_none().then_some(StorePart::Snapshots));
    skipped.extend(definition.is_none().then_some(StorePart::Definitions));
    skipped.extend(store.sessions().is_none().then_some(StorePart::Sessions));
    skipped.extend(store.messages().is_none().then_some(StorePart::Messages));
    skipped.extend(store.artifacts().is_none().then_some(StorePart::Artifacts));
    skipped.extend(store.state().is_none().then_some(StorePart::State));
    skipped.extend(store.leases().is_none().then_some(StorePart::Leases));
    skipped.extend(store.documents().is_none().then_some(StorePart::Documents));
    match store.delete(&id).await {
        Ok(()) => {}
        Err(error) if error.kind() == StoreErrorKind::Unsupported => {
            skipped.push(StorePart::Deletion);
        }
        Err(error) => panic!(
            "{rule}: `delete` should have removed a run or failed as `unsupported`, but: {error}"
        ),
    }
    skipped
}

/// A store and the rule that it is tested against.
pub(crate) struct StoreUnderTest {
    store: Arc<dyn Store>,
    rule: &'static str,
    skipped: Vec<StorePart>,
}

impl StoreUnderTest {
    /// Returns `true` if the store has an optional part.
    fn has(&self, part: StorePart) -> bool {
        !self.skipped.contains(&part)
    }

    fn sessions(&self) -> &dyn SessionStore {
        self.ok(self.store.require_sessions(), "having sessions")
    }

    fn artifacts(&self) -> &dyn ArtifactStore {
        self.ok(self.store.require_artifacts(), "having artifacts")
    }

    fn state(&self) -> &dyn StateStore {
        self.ok(self.store.require_state(), "having durable state")
    }

    fn messages(&self) -> &dyn MessageStore {
        self.ok(self.store.require_messages(), "having messages")
    }

    fn documents(&self) -> &dyn DocumentStore {
        self.ok(self.store.require_documents(), "having documents")
    }

    fn leases(&self) -> &dyn LeaseStore {
        self.ok(self.store.require_leases(), "having leases")
    }

    /// Returns the value of a request that must succeed.
    fn ok<T>(&self, done: Result<T, StoreError>, what: &str) -> T {
        done.unwrap_or_else(|error| {
            panic!("{}: {what} should have been done, but: {error}", self.rule)
        })
    }

    /// Checks that a request fails with this kind of error.
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
        assert!(
            found == expected,
            "{}: {what}\n   found: {found:?}\nexpected: {expected:?}",
            self.rule
        );
    }

    /// Returns the complete journal of a run.
    async fn journal(&self, run: &RunId) -> Vec<Event> {
        self.ok(self.store.read(run, 0, usize::MAX).await, "reading a run")
    }

    /// Creates a run with one event.
    async fn created(&self, run: &RunId) -> Epoch {
        self.ok(self.store.create(run, vec![started(run, "job", 1)]).await, "creating a run")
    }

    async fn record(&self, run: &RunId) -> RunRecord {
        let record = self.ok(self.store.record(run).await, "asking for the record of a run");
        record.unwrap_or_else(|| panic!("{}: the run `{run}` has no record", self.rule))
    }
}

/// Builds an event of a run from the fields of its JSON.
fn event(run: &RunId, seq: u64, path: &str, name: &str, payload: &Value) -> Event {
    let time = 1_700_000_000_000_u64.saturating_add(seq);
    serde_json::from_str(
        &json!({"run_id": run, "seq": seq, "time": time, "path": path, "name": name, "payload": payload}).to_string(),
    )
    .expect("the event has the form of events")
}

/// Builds the first event of a workflow run. `time` is its time in milliseconds after a fixed time.
fn started(run: &RunId, name: &str, time: u64) -> Event {
    let workflow = json!({"name": name, "definition": "d1", "input": {"text": "in"}});
    let mut event =
        event(run, 1, "", "run.started", &json!({"version": 1, "body": {"workflow": workflow}}));
    event.time = agentflow::time::Timestamp::from_millis(1_700_000_000_000 + time);
    event
}

/// Like [`started`], with a caller and tags.
fn started_by(run: &RunId, time: u64, caller: Option<&str>, tags: &Value) -> Event {
    let workflow = json!({"name": "job", "definition": "d1", "input": {}});
    let began =
        json!({"version": 1, "body": {"workflow": workflow}, "caller": caller, "tags": tags});
    let mut event = event(run, 1, "", "run.started", &began);
    event.time = agentflow::time::Timestamp::from_millis(1_700_000_000_000 + time);
    event
}

/// Builds the first event of a run of a session.
fn started_in(run: &RunId, time: u64, session: &str, number: u64, after: Option<&RunId>) -> Event {
    let agent = json!({"name": "clerk", "input": []});
    let place = json!({"session": session, "number": number, "after": after});
    let began = json!({"version": 1, "body": {"agent": agent}, "session": place, "caller": "ada", "tags": {"at": number.to_string()}});
    let mut event = event(run, 1, "", "run.started", &began);
    event.time = agentflow::time::Timestamp::from_millis(1_700_000_000_000 + time);
    event
}

/// Builds an event with a string that distinguishes it from others.
fn noted(run: &RunId, seq: u64, text: &str) -> Event {
    event(run, seq, "note", "workflow.node.skipped", &json!({"reason": text}))
}

fn run(name: &str) -> RunId {
    RunId::new(name)
}

/// Ends a run.
async fn end(t: &StoreUnderTest, id: &RunId, epoch: Epoch) {
    let end = event(id, 2, "", "run.cancelled", &json!({"reason": "enough"}));
    t.ok(t.store.append(id, epoch, Append::new(1, vec![end])).await, "ending a run");
}

//! [`MemoryStore`]: a store in memory, for tests and for runs that need control by id but may end
//! with their process.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use super::memory_documents::MemoryDocuments;
use super::{
    Answered, Append, ArtifactStore, DocumentStore, Epoch, EventFilter, LeaseStore, MessageId,
    MessageStore, RunFilter, RunOrder, RunRecord, RunStatus, SessionFilter, SessionRecord,
    SessionStore, Snapshot, StateStore, StateWrite, Store, StoreError, StoreMessage,
};
use crate::event::{Event, RunId};
use crate::future::BoxFuture;
use crate::time::Timestamp;
use crate::value::Encoded;

/// A store in memory. Clones share their data, which is dropped with the last clone.
///
/// It supports all optional parts of [`Store`] except liveness. Messages of other processes are not
/// polled.
///
/// ```
/// use agentflow::prelude::*;
/// use agentflow::store::MemoryStore;
///
/// let runtime = Runtime::builder().store(MemoryStore::new()).build();
/// # drop(runtime);
/// ```
#[derive(Clone, Default)]
pub struct MemoryStore {
    runs: Arc<Mutex<Runs>>,
    /// Number of the process that this handle simulates, in tests.
    process: u32,
}

#[derive(Default)]
pub(super) struct Runs {
    runs: BTreeMap<RunId, Entry>,
    /// Runs by creation time, oldest first.
    by_age: BTreeSet<(Timestamp, RunId)>,
    sessions: BTreeMap<Arc<str>, SessionRuns>,
    definitions: BTreeMap<String, String>,
    messages: u64,
    processes: u32,
    outcomes: BTreeMap<MessageId, String>,
    /// Values that outlive runs, by user; `None` for the application.
    state: BTreeMap<Option<Arc<str>>, BTreeMap<Arc<str>, Encoded>>,
    pub(super) documents: MemoryDocuments,
}

struct Entry {
    record: RunRecord,
    epoch: Epoch,
    events: Vec<Event>,
    snapshot: Option<Snapshot>,
    messages: BTreeMap<MessageId, String>,
    artifacts: BTreeMap<String, Arc<[u8]>>,
}

/// The runs of a session.
#[derive(Default)]
struct SessionRuns {
    /// The runs by number.
    runs: BTreeMap<u64, RunId>,
    /// The completed run with the highest number.
    head: Option<u64>,
    unfinished: Option<u64>,
}

impl MemoryStore {
    /// Creates an empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a handle to the same runs that behaves like another process, for tests. Runtimes
    /// with this handle do not see which runs the other handles execute. Opening a run or sending
    /// it a request fences off the previous writer. A run that waits for a person stops in the
    /// other process at its next write.
    #[must_use]
    pub fn as_another_process(&self) -> Self {
        let mut runs = self.runs();
        runs.processes += 1;
        Self { runs: Arc::clone(&self.runs), process: runs.processes }
    }

    pub(super) fn runs(&self) -> MutexGuard<'_, Runs> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Runs {
    fn entry(&mut self, run: &RunId) -> Result<&mut Entry, StoreError> {
        self.runs.get_mut(run).ok_or_else(|| StoreError::not_found(run))
    }

    fn unfinished(&mut self, run: &RunId) -> Result<&mut Entry, StoreError> {
        let entry = self.entry(run)?;
        match entry.record.status {
            status if status.has_ended() => Err(StoreError::ended(run, status)),
            _ => Ok(entry),
        }
    }

    fn writable(&mut self, run: &RunId, epoch: Epoch) -> Result<&mut Entry, StoreError> {
        let entry = self.entry(run)?;
        if entry.epoch == epoch { Ok(entry) } else { Err(StoreError::fenced(run)) }
    }
}

impl Runs {
    fn change_state(&mut self, writes: Vec<StateWrite>) {
        for StateWrite { user, key, value } in writes {
            let values = self.state.entry(user).or_default();
            match value {
                Some(value) => drop(values.insert(key, value)),
                None => drop(values.remove(&key)),
            }
        }
    }

    /// Fails if another run of the same session has not ended.
    fn check_no_unfinished_run(&self, record: &RunRecord) -> Result<(), StoreError> {
        let of = record.session.as_ref().and_then(|place| self.sessions.get(&place.session));
        let unfinished =
            of.and_then(|of| of.runs.get(&of.unfinished?)).filter(|run| **run != record.run_id);
        match (unfinished, &record.session) {
            (Some(unfinished), Some(place)) => {
                Err(StoreError::session_busy(&place.session, unfinished))
            }
            _ => Ok(()),
        }
    }

    /// Checks that a run of a session may start now: no other run is unfinished, and the number is
    /// the next one.
    fn check_session(&self, record: &RunRecord) -> Result<(), StoreError> {
        let Some(place) = &record.session else { return Ok(()) };
        self.check_no_unfinished_run(record)?;
        let last = self.sessions.get(&place.session).and_then(|of| of.runs.last_key_value());
        match last.map_or(1, |(number, _)| number + 1) == place.number {
            true => Ok(()),
            false => Err(StoreError::session_moved(&place.session, place.number)),
        }
    }

    /// Updates the session's entry after a change of one of its runs.
    fn note_session(&mut self, run: &RunId) {
        let Some(record) = self.runs.get(run).map(|entry| &entry.record) else { return };
        let Some(place) = &record.session else { return };
        let of = self.sessions.entry(Arc::clone(&place.session)).or_default();
        let number = place.number;
        of.runs.insert(number, run.clone());
        match record.status.has_ended() {
            false => of.unfinished = Some(number),
            true if of.unfinished == Some(number) => of.unfinished = None,
            true => {}
        }
        if record.status == RunStatus::Success {
            of.head = of.head.max(Some(number));
        }
    }

    fn remove(&mut self, run: &RunId) {
        if let Some(entry) = self.runs.remove(run) {
            self.by_age.remove(&(entry.record.created, run.clone()));
        }
    }

    /// Returns the runs that a filter selects, on one page.
    fn list(&self, filter: &RunFilter) -> Vec<RunRecord> {
        // A session has few runs, so they are filtered directly. Otherwise, runs are read in the
        // order of the list, so that a page reads only as many runs as it needs.
        if filter.get_order() != RunOrder::Created {
            let records = self.runs.values().map(|entry| &entry.record);
            let selected = records.filter(|record| filter.admits(record));
            return filter.select(selected.cloned());
        }
        if let Some(session) = filter.get_session() {
            let runs = self.sessions.get(session).into_iter().flat_map(|of| of.runs.values());
            return filter.select(runs.filter_map(|run| Some(self.runs.get(run)?.record.clone())));
        }
        let end = match filter.get_after() {
            Some((created, run)) => Bound::Excluded((created, run.clone())),
            None => Bound::Unbounded,
        };
        let begin = filter.get_since().unwrap_or(Timestamp::from_millis(0));
        let newest_first = self
            .by_age
            .range((Bound::Unbounded, end))
            .rev()
            .take_while(|(created, _)| *created >= begin);
        let records = newest_first.filter_map(|(_, run)| Some(&self.runs.get(run)?.record));
        let selected = records.filter(|record| filter.admits(record));
        selected.take(filter.get_limit().unwrap_or(usize::MAX)).cloned().collect()
    }

    fn count(&self, filter: &RunFilter) -> u64 {
        let records = self.runs.values().map(|entry| &entry.record);
        records.filter(|record| filter.admits(record)).count() as u64
    }

    fn session(&self, session: &str) -> Option<SessionRecord> {
        let of = self.sessions.get(session)?;
        // A session's record follows from these four runs, as [`SessionRecord::of`] requires.
        let first_and_last = [of.runs.keys().next().copied(), of.runs.keys().next_back().copied()];
        let numbers = first_and_last.into_iter().chain([of.head, of.unfinished]).flatten();
        let runs = numbers.filter_map(|number| self.runs.get(of.runs.get(&number)?));
        SessionRecord::of(runs.map(|entry| entry.record.clone()))
    }
}

impl Entry {
    fn extend(&mut self, run: &RunId, after: u64, events: Vec<Event>) -> Result<(), StoreError> {
        if self.events.len() as u64 != after {
            return Err(StoreError::fenced(run));
        }
        events.iter().for_each(|event| self.record.apply(event));
        self.events.extend(events);
        Ok(())
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn create(&self, run: &RunId, events: Vec<Event>) -> Result<Epoch, StoreError> {
        let record = RunRecord::from_events(&events).ok_or_else(|| StoreError::not_a_start(run))?;
        let mut runs = self.runs();
        if runs.runs.contains_key(run) {
            return Err(StoreError::exists(run));
        }
        runs.check_session(&record)?;
        let entry = Entry {
            record,
            epoch: Epoch(1),
            events,
            snapshot: None,
            messages: BTreeMap::new(),
            artifacts: BTreeMap::new(),
        };
        runs.by_age.insert((entry.record.created, run.clone()));
        runs.runs.insert(run.clone(), entry);
        runs.note_session(run);
        Ok(Epoch(1))
    }

    async fn open(&self, run: &RunId) -> Result<Epoch, StoreError> {
        let mut runs = self.runs();
        let entry = runs.unfinished(run)?;
        entry.epoch.0 += 1;
        Ok(entry.epoch)
    }

    async fn append(&self, run: &RunId, epoch: Epoch, append: Append) -> Result<(), StoreError> {
        let mut runs = self.runs();
        let entry = runs.writable(run, epoch)?;
        entry.extend(run, append.after, append.events)?;
        let (answered, state) = (append.answered, append.state);
        // Only messages that still wait get an outcome: a withdrawn message has no reader.
        let left = |Answered { message, .. }: &Answered| entry.messages.remove(message).is_some();
        let answered: Vec<Answered> = answered.into_iter().filter(left).collect();
        if entry.record.status.has_ended() {
            // A run that has ended answers no more messages.
            entry.messages.clear();
        }
        if entry.record.session.is_some() {
            runs.note_session(run);
        }
        runs.change_state(state);
        runs.outcomes
            .extend(answered.into_iter().map(|answered| (answered.message, answered.outcome)));
        Ok(())
    }

    async fn amend(&self, run: &RunId, after: u64, events: Vec<Event>) -> Result<(), StoreError> {
        let mut runs = self.runs();
        let record = &runs.entry(run)?.record;
        // A failed run may continue only if no other run of its session is unfinished, so the
        // change is computed on a copy first.
        if record.session.is_some() {
            let mut next = record.clone();
            events.iter().for_each(|event| next.apply(event));
            if !next.status.has_ended() {
                runs.check_no_unfinished_run(&next)?;
            }
        }
        let entry = runs.entry(run)?;
        entry.extend(run, after, events)?;
        entry.epoch.0 += 1;
        runs.note_session(run);
        Ok(())
    }

    async fn read(&self, run: &RunId, after: u64, limit: usize) -> Result<Vec<Event>, StoreError> {
        let after = usize::try_from(after).unwrap_or(usize::MAX);
        Ok(self.runs().entry(run)?.events.iter().skip(after).take(limit).cloned().collect())
    }

    async fn list(&self, filter: RunFilter) -> Result<Vec<RunRecord>, StoreError> {
        Ok(self.runs().list(&filter))
    }

    async fn count(&self, filter: RunFilter) -> Result<u64, StoreError> {
        Ok(self.runs().count(&filter.without_page()))
    }

    async fn read_selected(
        &self,
        run: &RunId,
        filter: &EventFilter,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Event>, StoreError> {
        let after = usize::try_from(after).unwrap_or(usize::MAX);
        let mut runs = self.runs();
        let selected =
            runs.entry(run)?.events.iter().skip(after).filter(|event| filter.admits(event));
        Ok(selected.take(limit).cloned().collect())
    }

    async fn record(&self, run: &RunId) -> Result<Option<RunRecord>, StoreError> {
        Ok(self.runs().runs.get(run).map(|entry| entry.record.clone()))
    }

    async fn delete(&self, run: &RunId) -> Result<(), StoreError> {
        let mut runs = self.runs();
        let record = &runs.entry(run)?.record;
        if !record.status.has_ended() {
            return Err(StoreError::unfinished(run, record.status));
        }
        if let Some(place) = &record.session {
            return Err(StoreError::in_session(run, &place.session));
        }
        runs.remove(run);
        Ok(())
    }

    async fn put_snapshot(
        &self,
        run: &RunId,
        epoch: Epoch,
        snapshot: Snapshot,
    ) -> Result<(), StoreError> {
        self.runs().writable(run, epoch)?.snapshot = Some(snapshot);
        Ok(())
    }

    async fn snapshot(&self, run: &RunId) -> Result<Option<Snapshot>, StoreError> {
        Ok(self.runs().runs.get(run).and_then(|entry| entry.snapshot.clone()))
    }

    async fn put_definition(&self, hash: &str, graph: String) -> Result<(), StoreError> {
        self.runs().definitions.entry(hash.to_owned()).or_insert(graph);
        Ok(())
    }

    async fn definition(&self, hash: &str) -> Result<Option<String>, StoreError> {
        Ok(self.runs().definitions.get(hash).cloned())
    }

    fn identity(&self) -> Option<String> {
        Some(format!("memory:{:p}:{}", Arc::as_ptr(&self.runs), self.process))
    }

    fn sessions(&self) -> Option<&dyn SessionStore> {
        Some(self)
    }

    fn artifacts(&self) -> Option<&dyn ArtifactStore> {
        Some(self)
    }

    fn state(&self) -> Option<&dyn StateStore> {
        Some(self)
    }

    fn messages(&self) -> Option<&dyn MessageStore> {
        Some(self)
    }

    /// `None` if handles that simulate several processes exist, because the store does not record
    /// which of them executes a run.
    fn leases(&self) -> Option<&dyn LeaseStore> {
        (self.runs().processes == 0).then_some(self)
    }

    fn documents(&self) -> Option<&dyn DocumentStore> {
        Some(self)
    }
}

#[async_trait]
impl SessionStore for MemoryStore {
    async fn session(&self, session: &str) -> Result<Option<SessionRecord>, StoreError> {
        Ok(self.runs().session(session))
    }

    async fn list_sessions(&self, filter: SessionFilter) -> Result<Vec<SessionRecord>, StoreError> {
        let runs = self.runs();
        Ok(filter.select(runs.sessions.keys().filter_map(|session| runs.session(session))))
    }

    async fn delete_session(&self, session: &str) -> Result<u64, StoreError> {
        let mut runs = self.runs();
        let of = runs.sessions.get(session).ok_or_else(|| StoreError::no_session(session))?;
        if let Some(unfinished) = of.unfinished.and_then(|number| of.runs.get(&number)) {
            return Err(StoreError::session_busy(session, unfinished));
        }
        let of = runs.sessions.remove(session).unwrap_or_default();
        of.runs.values().for_each(|run| runs.remove(run));
        Ok(of.runs.len() as u64)
    }
}

#[async_trait]
impl ArtifactStore for MemoryStore {
    async fn put_artifact(
        &self,
        run: &RunId,
        epoch: Epoch,
        sha256: &str,
        bytes: Arc<[u8]>,
    ) -> Result<(), StoreError> {
        self.runs().writable(run, epoch)?.artifacts.entry(sha256.to_owned()).or_insert(bytes);
        Ok(())
    }

    async fn artifact(&self, run: &RunId, sha256: &str) -> Result<Option<Arc<[u8]>>, StoreError> {
        Ok(self.runs().runs.get(run).and_then(|entry| entry.artifacts.get(sha256).cloned()))
    }
}

#[async_trait]
impl StateStore for MemoryStore {
    async fn put_state(&self, writes: Vec<StateWrite>) -> Result<(), StoreError> {
        self.runs().change_state(writes);
        Ok(())
    }

    async fn read_state(
        &self,
        user: Option<&str>,
        key: Option<&str>,
    ) -> Result<Vec<(String, Encoded)>, StoreError> {
        let runs = self.runs();
        let values = runs.state.get(&user.map(Arc::from)).into_iter().flatten();
        let asked = values.filter(|(of, _)| key.is_none_or(|key| ***of == *key));
        Ok(asked.map(|(key, value)| (key.to_string(), value.clone())).collect())
    }
}

#[async_trait]
impl MessageStore for MemoryStore {
    async fn send(&self, run: &RunId, message: String) -> Result<MessageId, StoreError> {
        let mut runs = self.runs();
        let id = MessageId(runs.messages + 1);
        runs.unfinished(run)?.messages.insert(id, message);
        // The number is only used up if the run accepts the message.
        runs.messages = id.0;
        Ok(id)
    }

    async fn receive(&self, run: &RunId, epoch: Epoch) -> Result<Vec<StoreMessage>, StoreError> {
        let mut runs = self.runs();
        let messages = &runs.writable(run, epoch)?.messages;
        Ok(messages.iter().map(|(id, body)| StoreMessage::new(*id, run.clone(), body)).collect())
    }

    async fn inbox(&self) -> Result<Vec<StoreMessage>, StoreError> {
        let runs = self.runs();
        let all = runs
            .runs
            .iter()
            .flat_map(|(run, entry)| entry.messages.iter().map(move |of| (run, of)));
        let mut all: Vec<_> =
            all.map(|(run, (id, body))| StoreMessage::new(*id, run.clone(), body)).collect();
        all.sort_by_key(|message| message.id);
        Ok(all)
    }

    async fn outcome(&self, message: MessageId) -> Result<Option<String>, StoreError> {
        Ok(self.runs().outcomes.get(&message).cloned())
    }

    async fn withdraw(&self, message: MessageId) -> Result<Option<String>, StoreError> {
        let mut runs = self.runs();
        runs.runs.values_mut().for_each(|entry| drop(entry.messages.remove(&message)));
        Ok(runs.outcomes.remove(&message))
    }

    /// `None`: the runtimes of one process pass requests on without messages.
    fn message_sent(&self) -> Option<BoxFuture<'static, ()>> {
        None
    }
}

#[async_trait]
impl LeaseStore for MemoryStore {
    async fn holder(&self, _: &RunId) -> Result<Option<String>, StoreError> {
        Ok(None)
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("runs", &self.runs().runs.len()).finish_non_exhaustive()
    }
}

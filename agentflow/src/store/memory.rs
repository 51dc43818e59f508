//! A store in memory: for tests, and for runs that need control by id and no more than their process.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Answered, Append, Epoch, MessageId, RunFilter, RunRecord, Snapshot, Store, StoreError, StoreMessage};
use crate::event::{Event, RunId};
use crate::model::BoxFuture;

/// A store in memory. Clones share what they hold; it is gone with the last one.
#[derive(Clone, Default)]
pub struct MemoryStore {
    runs: Arc<Mutex<Runs>>,
    /// Which of the processes that a test plays.
    process: u32,
}

#[derive(Default)]
struct Runs {
    runs: BTreeMap<RunId, Entry>,
    definitions: BTreeMap<String, String>,
    messages: u64,
    processes: u32,
    outcomes: BTreeMap<MessageId, String>,
}

struct Entry {
    record: RunRecord,
    epoch: Epoch,
    events: Vec<Event>,
    snapshot: Option<Snapshot>,
    messages: BTreeMap<MessageId, String>,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same runs as another process would have them, for tests: runtimes over this handle do not see which runs
    /// those over other handles execute, and who opens a run fences off whoever had it open.
    #[must_use]
    pub fn as_another_process(&self) -> Self {
        let mut runs = self.runs();
        runs.processes += 1;
        Self { runs: Arc::clone(&self.runs), process: runs.processes }
    }

    fn runs(&self) -> MutexGuard<'_, Runs> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something now, and gives it as a future that is ready.
    fn ready<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut Runs) -> Result<T, StoreError>,
    ) -> BoxFuture<'static, Result<T, StoreError>> {
        let done = act(&mut self.runs());
        Box::pin(std::future::ready(done))
    }
}

impl Runs {
    fn entry(&mut self, run: &RunId) -> Result<&mut Entry, StoreError> {
        self.runs.get_mut(run).ok_or_else(|| StoreError::not_found(run))
    }

    fn writable(&mut self, run: &RunId, epoch: Epoch) -> Result<&mut Entry, StoreError> {
        let entry = self.entry(run)?;
        if entry.epoch == epoch { Ok(entry) } else { Err(StoreError::fenced(run)) }
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

impl Store for MemoryStore {
    fn create(&self, run: &RunId, events: Vec<Event>) -> BoxFuture<'static, Result<Epoch, StoreError>> {
        self.ready(|runs| {
            if runs.runs.contains_key(run) {
                return Err(StoreError::exists(run));
            }
            let Some(mut record) = events.first().and_then(RunRecord::new) else {
                return Err(StoreError::not_found(run));
            };
            events.iter().for_each(|event| record.apply(event));
            let entry = Entry { record, epoch: Epoch(1), events, snapshot: None, messages: BTreeMap::new() };
            runs.runs.insert(run.clone(), entry);
            Ok(Epoch(1))
        })
    }

    fn open(&self, run: &RunId) -> BoxFuture<'static, Result<Epoch, StoreError>> {
        self.ready(|runs| {
            let entry = runs.entry(run)?;
            if entry.record.status.has_ended() {
                return Err(StoreError::ended(run, entry.record.status));
            }
            entry.epoch.0 += 1;
            Ok(entry.epoch)
        })
    }

    fn close(&self, _run: &RunId, _epoch: Epoch) -> BoxFuture<'static, Result<(), StoreError>> {
        // Nobody waits for a run to be closed: the next who opens it fences off this one.
        self.ready(|_| Ok(()))
    }

    fn append(&self, run: &RunId, epoch: Epoch, append: Append) -> BoxFuture<'static, Result<(), StoreError>> {
        self.ready(|runs| {
            let entry = runs.writable(run, epoch)?;
            entry.extend(run, append.after, append.events)?;
            let left = |Answered { message, .. }: &Answered| entry.messages.remove(message).is_some();
            let answered: Vec<Answered> = append.answered.into_iter().filter(left).collect();
            if entry.record.status.has_ended() {
                entry.messages.clear();
            }
            runs.outcomes.extend(answered.into_iter().map(|answered| (answered.message, answered.outcome)));
            Ok(())
        })
    }

    fn amend(&self, run: &RunId, after: u64, events: Vec<Event>) -> BoxFuture<'static, Result<(), StoreError>> {
        self.ready(|runs| {
            let entry = runs.entry(run)?;
            entry.extend(run, after, events)?;
            entry.epoch.0 += 1;
            Ok(())
        })
    }

    fn read(&self, run: &RunId, after: u64, limit: usize) -> BoxFuture<'static, Result<Vec<Event>, StoreError>> {
        let after = usize::try_from(after).unwrap_or(usize::MAX);
        self.ready(|runs| Ok(runs.entry(run)?.events.iter().skip(after).take(limit).cloned().collect()))
    }

    fn put_snapshot(
        &self,
        run: &RunId,
        epoch: Epoch,
        snapshot: Snapshot,
    ) -> BoxFuture<'static, Result<(), StoreError>> {
        self.ready(|runs| {
            runs.writable(run, epoch)?.snapshot = Some(snapshot);
            Ok(())
        })
    }

    fn snapshot(&self, run: &RunId) -> BoxFuture<'static, Result<Option<Snapshot>, StoreError>> {
        self.ready(|runs| Ok(runs.runs.get(run).and_then(|entry| entry.snapshot.clone())))
    }

    fn record(&self, run: &RunId) -> BoxFuture<'static, Result<Option<RunRecord>, StoreError>> {
        self.ready(|runs| Ok(runs.runs.get(run).map(|entry| entry.record.clone())))
    }

    fn list(&self, filter: RunFilter) -> BoxFuture<'static, Result<Vec<RunRecord>, StoreError>> {
        self.ready(|runs| {
            let mut found: Vec<RunRecord> =
                runs.runs.values().map(|entry| &entry.record).filter(|run| filter.admits(run)).cloned().collect();
            found.sort_by(|a, b| b.created.cmp(&a.created).then_with(|| b.run_id.cmp(&a.run_id)));
            found.truncate(filter.limit.unwrap_or(usize::MAX));
            Ok(found)
        })
    }

    fn put_definition(&self, hash: &str, graph: String) -> BoxFuture<'static, Result<(), StoreError>> {
        self.ready(|runs| {
            runs.definitions.entry(hash.to_owned()).or_insert(graph);
            Ok(())
        })
    }

    fn definition(&self, hash: &str) -> BoxFuture<'static, Result<Option<String>, StoreError>> {
        self.ready(|runs| Ok(runs.definitions.get(hash).cloned()))
    }

    fn identity(&self) -> Option<String> {
        Some(format!("memory:{:p}:{}", Arc::as_ptr(&self.runs), self.process))
    }

    fn is_shared(&self) -> bool {
        false
    }

    fn send(&self, run: &RunId, message: String) -> BoxFuture<'static, Result<MessageId, StoreError>> {
        self.ready(|runs| {
            let id = MessageId(runs.messages + 1);
            let entry = runs.entry(run)?;
            if entry.record.status.has_ended() {
                return Err(StoreError::ended(run, entry.record.status));
            }
            entry.messages.insert(id, message);
            runs.messages = id.0;
            Ok(id)
        })
    }

    fn receive(&self, run: &RunId, epoch: Epoch) -> BoxFuture<'static, Result<Vec<StoreMessage>, StoreError>> {
        self.ready(|runs| {
            let entry = runs.writable(run, epoch)?;
            Ok(entry.messages.iter().map(|(id, body)| StoreMessage::new(*id, run.clone(), body)).collect())
        })
    }

    fn inbox(&self) -> BoxFuture<'static, Result<Vec<StoreMessage>, StoreError>> {
        self.ready(|runs| {
            let all = runs.runs.iter().flat_map(|(run, entry)| entry.messages.iter().map(move |of| (run, of)));
            let mut all: Vec<_> = all.map(|(run, (id, body))| StoreMessage::new(*id, run.clone(), body)).collect();
            all.sort_by_key(|message| message.id);
            Ok(all)
        })
    }

    fn outcome(&self, message: MessageId) -> BoxFuture<'static, Result<Option<String>, StoreError>> {
        self.ready(|runs| Ok(runs.outcomes.get(&message).cloned()))
    }

    fn withdraw(&self, message: MessageId) -> BoxFuture<'static, Result<Option<String>, StoreError>> {
        self.ready(|runs| {
            runs.runs.values_mut().for_each(|entry| drop(entry.messages.remove(&message)));
            Ok(runs.outcomes.remove(&message))
        })
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("runs", &self.runs().runs.len()).finish_non_exhaustive()
    }
}

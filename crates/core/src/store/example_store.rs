// The example of the `Store` page; the tests hold it to the rules of a store.
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use agentflow::{Event, RunId, async_trait};
use agentflow::store::{Append, Epoch, RunFilter, RunRecord, Store, StoreError};

#[derive(Debug, Default)]
struct MapStore(Mutex<BTreeMap<RunId, Journal>>);

#[derive(Debug)]
struct Journal {
    epoch: Epoch,
    record: RunRecord,
    events: Vec<Event>,
}

impl MapStore {
    fn journals(&self) -> MutexGuard<'_, BTreeMap<RunId, Journal>> {
        self.0.lock().expect("nothing panics while it holds the lock")
    }

    fn with<T>(
        &self,
        run: &RunId,
        act: impl FnOnce(&mut Journal) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        act(self.journals().get_mut(run).ok_or_else(|| StoreError::not_found(run))?)
    }
}

impl Journal {
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
impl Store for MapStore {
    async fn create(&self, run: &RunId, events: Vec<Event>) -> Result<Epoch, StoreError> {
        let record = RunRecord::from_events(&events).ok_or_else(|| StoreError::not_a_start(run))?;
        let mut journals = self.journals();
        if journals.contains_key(run) {
            return Err(StoreError::exists(run));
        }
        journals.insert(run.clone(), Journal { epoch: Epoch(1), record, events });
        Ok(Epoch(1))
    }

    async fn open(&self, run: &RunId) -> Result<Epoch, StoreError> {
        self.with(run, |journal| {
            if journal.record.status.has_ended() {
                return Err(StoreError::ended(run, journal.record.status));
            }
            journal.epoch.0 += 1;
            Ok(journal.epoch)
        })
    }

    async fn append(&self, run: &RunId, epoch: Epoch, append: Append) -> Result<(), StoreError> {
        self.with(run, |journal| match journal.epoch == epoch {
            true => journal.extend(run, append.after, append.events),
            false => Err(StoreError::fenced(run)),
        })
    }

    async fn amend(&self, run: &RunId, after: u64, events: Vec<Event>) -> Result<(), StoreError> {
        self.with(run, |journal| {
            journal.extend(run, after, events)?;
            journal.epoch.0 += 1;
            Ok(())
        })
    }

    async fn read(&self, run: &RunId, after: u64, limit: usize) -> Result<Vec<Event>, StoreError> {
        let after = usize::try_from(after).unwrap_or(usize::MAX);
        self.with(run, |journal| Ok(journal.events.iter().skip(after).take(limit).cloned().collect()))
    }

    async fn list(&self, filter: RunFilter) -> Result<Vec<RunRecord>, StoreError> {
        Ok(filter.select(self.journals().values().map(|journal| journal.record.clone())))
    }
}

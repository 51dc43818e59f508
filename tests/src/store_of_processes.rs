//! An in-memory store that several simulated processes share like a file. A process keeps the lease
//! of a run that it has opened until it ends.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agentflow::store::{
    Epoch, LeaseStore, MemoryStore, MessageId, MessageStore, RunFilter, RunRecord, Snapshot, Store,
    StoreError, StoreErrorKind, StoreMessage,
};
use agentflow::{Event, RunId, async_trait};

/// The store as one process sees it.
#[derive(Clone, Debug)]
pub struct ProcessStore {
    kept: MemoryStore,
    process: u32,
    holders: Arc<Mutex<HashMap<RunId, u32>>>,
    /// Number of upcoming message lookups that fail.
    failing: Arc<AtomicU32>,
    /// Number of refused snapshots; `None` if snapshots are accepted.
    refused: Option<Arc<AtomicU32>>,
}

impl ProcessStore {
    /// Creates a store, as the first process sees it.
    pub fn new() -> Self {
        Self {
            kept: MemoryStore::new(),
            process: 1,
            holders: Arc::default(),
            failing: Arc::default(),
            refused: None,
        }
    }

    /// Returns the same store, as another process sees it.
    #[must_use]
    pub fn process(&self, process: u32) -> Self {
        Self { process, failing: Arc::default(), ..self.clone() }
    }

    /// Returns the underlying store.
    pub fn kept(&self) -> &MemoryStore {
        &self.kept
    }

    /// Simulates the end of the process and frees the runs that it had opened. The caller must
    /// first abandon the runs that the process executes.
    pub fn die(&self) {
        let process = self.process;
        self.holders().retain(|_, holder| *holder != process);
    }

    /// Makes the next `times` message lookups fail, as with a locked file.
    pub fn fail_looks(&self, times: u32) {
        self.failing.store(times, Ordering::SeqCst);
    }

    /// Refuses all snapshots as too large.
    #[must_use]
    pub fn without_snapshots(mut self) -> Self {
        self.refused = Some(Arc::default());
        self
    }

    /// Returns the number of refused snapshots.
    pub fn refused_snapshots(&self) -> u32 {
        self.refused.as_ref().map_or(0, |refused| refused.load(Ordering::SeqCst))
    }

    fn holders(&self) -> MutexGuard<'_, HashMap<RunId, u32>> {
        self.holders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn busy(&self, run: &RunId) -> Option<StoreError> {
        let holder = self.holders().get(run).copied().filter(|holder| *holder != self.process)?;
        Some(StoreError::busy(run, &format!("process {holder}")))
    }

    fn hold(&self, run: &RunId) {
        self.holders().insert(run.clone(), self.process);
    }
}

impl Default for ProcessStore {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl agentflow::store::StoreLayer for ProcessStore {
    fn inner(&self) -> &dyn Store {
        &self.kept
    }

    fn identity(&self) -> Option<String> {
        Some(format!("{:p} of process {}", Arc::as_ptr(&self.holders), self.process))
    }

    async fn create(&self, run: &RunId, events: Vec<Event>) -> Result<Epoch, StoreError> {
        let epoch = self.kept.create(run, events).await?;
        self.hold(run);
        Ok(epoch)
    }

    async fn open(&self, run: &RunId) -> Result<Epoch, StoreError> {
        if let Some(busy) = self.busy(run) {
            return Err(busy);
        }
        let epoch = self.kept.open(run).await?;
        self.hold(run);
        Ok(epoch)
    }

    async fn close(&self, run: &RunId, epoch: Epoch) -> Result<(), StoreError> {
        self.holders().retain(|of, holder| of != run || *holder != self.process);
        self.kept.close(run, epoch).await
    }

    async fn claimable(&self, filter: RunFilter) -> Result<Vec<RunRecord>, StoreError> {
        let limit = filter.get_limit().unwrap_or(usize::MAX);
        let runs = self.kept.claimable(filter.without_limit()).await?;
        let held = self.holders().clone();
        Ok(runs.into_iter().filter(|run| !held.contains_key(&run.run_id)).take(limit).collect())
    }

    async fn amend(&self, run: &RunId, after: u64, events: Vec<Event>) -> Result<(), StoreError> {
        match self.busy(run) {
            Some(busy) => Err(busy),
            None => self.kept.amend(run, after, events).await,
        }
    }

    async fn put_snapshot(
        &self,
        run: &RunId,
        epoch: Epoch,
        snapshot: Snapshot,
    ) -> Result<(), StoreError> {
        if let Some(refused) = &self.refused {
            refused.fetch_add(1, Ordering::SeqCst);
            return Err(StoreError::new(StoreErrorKind::Full, "the snapshot is too large"));
        }
        self.kept.put_snapshot(run, epoch, snapshot).await
    }

    fn messages(&self) -> Option<&dyn MessageStore> {
        Some(self)
    }

    fn leases(&self) -> Option<&dyn LeaseStore> {
        Some(self)
    }
}

#[async_trait]
impl LeaseStore for ProcessStore {
    async fn holder(&self, run: &RunId) -> Result<Option<String>, StoreError> {
        Ok(self.busy(run).map(|busy| busy.to_string()))
    }
}

#[async_trait]
impl MessageStore for ProcessStore {
    async fn send(&self, run: &RunId, message: String) -> Result<MessageId, StoreError> {
        self.kept.send(run, message).await
    }

    async fn receive(&self, run: &RunId, epoch: Epoch) -> Result<Vec<StoreMessage>, StoreError> {
        self.kept.receive(run, epoch).await
    }

    async fn inbox(&self) -> Result<Vec<StoreMessage>, StoreError> {
        let fails = self
            .failing
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |times| times.checked_sub(1))
            .is_ok();
        if fails {
            return Err(StoreError::new(StoreErrorKind::Locked, "the file is locked"));
        }
        // A process receives only messages for the runs that it holds.
        let mut messages = self.kept.inbox().await?;
        let holders = self.holders();
        messages.retain(|message| holders.get(&message.run) == Some(&self.process));
        Ok(messages)
    }

    async fn outcome(&self, message: MessageId) -> Result<Option<String>, StoreError> {
        self.kept.outcome(message).await
    }

    async fn withdraw(&self, message: MessageId) -> Result<Option<String>, StoreError> {
        self.kept.withdraw(message).await
    }
}

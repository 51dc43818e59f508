//! A store in memory that several processes of a test use at once, as they would use a file: who has a run open keeps
//! it until that process ends.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agentflow::{
    Append, BoxFuture, Epoch, Event, MemoryStore, MessageId, RunFilter, RunId, RunRecord, Snapshot, Store, StoreError,
    StoreErrorKind, StoreMessage,
};

/// The store as one process has it.
#[derive(Clone, Debug)]
pub struct ProcessStore {
    kept: MemoryStore,
    process: u32,
    holders: Arc<Mutex<HashMap<RunId, u32>>>,
    /// How many looks for messages fail from now on.
    failing: Arc<AtomicU32>,
    /// How many snapshots were refused, when they are.
    refused: Option<Arc<AtomicU32>>,
}

impl ProcessStore {
    /// The store of a first process.
    pub fn new() -> Self {
        Self { kept: MemoryStore::new(), process: 1, holders: Arc::default(), failing: Arc::default(), refused: None }
    }

    /// The same store as another process has it.
    #[must_use]
    pub fn process(&self, process: u32) -> Self {
        Self { process, failing: Arc::default(), ..self.clone() }
    }

    /// What is kept.
    pub fn kept(&self) -> &MemoryStore {
        &self.kept
    }

    /// The process ends: what it had open is free. What it executes is to be abandoned before.
    pub fn die(&self) {
        let process = self.process;
        self.holders().retain(|_, holder| *holder != process);
    }

    /// The next looks for messages fail, as of a file that is locked.
    pub fn fail_looks(&self, times: u32) {
        self.failing.store(times, Ordering::SeqCst);
    }

    /// Snapshots are refused from now on, as too large.
    #[must_use]
    pub fn without_snapshots(mut self) -> Self {
        self.refused = Some(Arc::default());
        self
    }

    /// How many snapshots were refused.
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

fn ready<T: Send + 'static>(result: Result<T, StoreError>) -> BoxFuture<'static, Result<T, StoreError>> {
    Box::pin(std::future::ready(result))
}

impl Store for ProcessStore {
    fn create(&self, run: &RunId, events: Vec<Event>) -> BoxFuture<'static, Result<Epoch, StoreError>> {
        let (this, run, created) = (self.clone(), run.clone(), self.kept.create(run, events));
        Box::pin(async move {
            let epoch = created.await?;
            this.hold(&run);
            Ok(epoch)
        })
    }

    fn open(&self, run: &RunId) -> BoxFuture<'static, Result<Epoch, StoreError>> {
        if let Some(busy) = self.busy(run) {
            return ready(Err(busy));
        }
        let (this, run, opened) = (self.clone(), run.clone(), self.kept.open(run));
        Box::pin(async move {
            let epoch = opened.await?;
            this.hold(&run);
            Ok(epoch)
        })
    }

    fn close(&self, run: &RunId, epoch: Epoch) -> BoxFuture<'static, Result<(), StoreError>> {
        self.holders().retain(|of, holder| of != run || *holder != self.process);
        self.kept.close(run, epoch)
    }

    fn append(&self, run: &RunId, epoch: Epoch, append: Append) -> BoxFuture<'static, Result<(), StoreError>> {
        self.kept.append(run, epoch, append)
    }

    fn amend(&self, run: &RunId, after: u64, events: Vec<Event>) -> BoxFuture<'static, Result<(), StoreError>> {
        match self.busy(run) {
            Some(busy) => ready(Err(busy)),
            None => self.kept.amend(run, after, events),
        }
    }

    fn read(&self, run: &RunId, after: u64, limit: usize) -> BoxFuture<'static, Result<Vec<Event>, StoreError>> {
        self.kept.read(run, after, limit)
    }

    fn put_snapshot(
        &self,
        run: &RunId,
        epoch: Epoch,
        snapshot: Snapshot,
    ) -> BoxFuture<'static, Result<(), StoreError>> {
        if let Some(refused) = &self.refused {
            refused.fetch_add(1, Ordering::SeqCst);
            return ready(Err(StoreError::new(StoreErrorKind::Full, "the snapshot is too large")));
        }
        self.kept.put_snapshot(run, epoch, snapshot)
    }

    fn snapshot(&self, run: &RunId) -> BoxFuture<'static, Result<Option<Snapshot>, StoreError>> {
        self.kept.snapshot(run)
    }

    fn record(&self, run: &RunId) -> BoxFuture<'static, Result<Option<RunRecord>, StoreError>> {
        self.kept.record(run)
    }

    fn list(&self, filter: RunFilter) -> BoxFuture<'static, Result<Vec<RunRecord>, StoreError>> {
        self.kept.list(filter)
    }

    fn put_definition(&self, hash: &str, graph: String) -> BoxFuture<'static, Result<(), StoreError>> {
        self.kept.put_definition(hash, graph)
    }

    fn definition(&self, hash: &str) -> BoxFuture<'static, Result<Option<String>, StoreError>> {
        self.kept.definition(hash)
    }

    fn identity(&self) -> Option<String> {
        Some(format!("{:p} of process {}", Arc::as_ptr(&self.holders), self.process))
    }

    fn holder(&self, run: &RunId) -> BoxFuture<'static, Result<Option<String>, StoreError>> {
        ready(Ok(self.busy(run).map(|busy| busy.to_string())))
    }

    fn send(&self, run: &RunId, message: String) -> BoxFuture<'static, Result<MessageId, StoreError>> {
        self.kept.send(run, message)
    }

    fn receive(&self, run: &RunId, epoch: Epoch) -> BoxFuture<'static, Result<Vec<StoreMessage>, StoreError>> {
        self.kept.receive(run, epoch)
    }

    fn inbox(&self) -> BoxFuture<'static, Result<Vec<StoreMessage>, StoreError>> {
        let fails = self.failing.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |times| times.checked_sub(1)).is_ok();
        if fails {
            return ready(Err(StoreError::new(StoreErrorKind::Locked, "the file is locked")));
        }
        let (this, inbox) = (self.clone(), self.kept.inbox());
        Box::pin(async move {
            let mut messages = inbox.await?;
            let holders = this.holders();
            messages.retain(|message| holders.get(&message.run) == Some(&this.process));
            Ok(messages)
        })
    }

    fn outcome(&self, message: MessageId) -> BoxFuture<'static, Result<Option<String>, StoreError>> {
        self.kept.outcome(message)
    }

    fn withdraw(&self, message: MessageId) -> BoxFuture<'static, Result<Option<String>, StoreError>> {
        self.kept.withdraw(message)
    }
}

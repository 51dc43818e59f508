//! A store that stops at a chosen write, as a process does that ends there.
//!
//! It decides nothing and keeps nothing itself: what is kept is in the `MemoryStore` below, which outlives it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use agentflow::{
    Append, BoxFuture, Epoch, Event, MemoryStore, MessageId, RunFilter, RunId, RunRecord, Snapshot, Store, StoreError,
    StoreMessage,
};
use tokio::sync::watch;

/// On which side of a write the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Side {
    /// The write is not kept.
    Before,
    /// The write is kept, and nobody hears of it.
    After,
}

/// A crash: at which write of a life, counted from 1, and on which side of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    pub(super) write: usize,
    pub(super) side: Side,
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.side {
            Side::Before => write!(f, "write {}, before it was kept", self.write),
            Side::After => write!(f, "write {}, after it was kept and before anybody heard of it", self.write),
        }
    }
}

/// The store as one process sees it.
#[derive(Clone)]
pub(super) struct CrashStore {
    kept: MemoryStore,
    process: Arc<Process>,
}

struct Process {
    writes: AtomicUsize,
    cut: Option<Cut>,
    dead: watch::Sender<bool>,
}

impl CrashStore {
    /// A process over what is kept, that ends at a cut if there is one.
    pub(super) fn new(kept: &MemoryStore, cut: Option<Cut>) -> Self {
        let process = Process { writes: AtomicUsize::new(0), cut, dead: watch::Sender::new(false) };
        Self { kept: kept.clone(), process: Arc::new(process) }
    }

    /// How many writes the process has begun.
    pub(super) fn writes(&self) -> usize {
        self.process.writes.load(Ordering::SeqCst)
    }

    /// Waits for the end of the process.
    pub(super) async fn died(&self) {
        // The sender lives as long as this store.
        let _ = self.process.dead.subscribe().wait_for(|dead| *dead).await;
    }

    fn write<T: Send + 'static>(
        &self,
        write: impl FnOnce(&MemoryStore) -> BoxFuture<'static, Result<T, StoreError>>,
    ) -> BoxFuture<'static, Result<T, StoreError>> {
        if *self.process.dead.borrow() {
            return never();
        }
        let number = self.process.writes.fetch_add(1, Ordering::SeqCst) + 1;
        match self.process.cut {
            Some(cut) if cut.write == number => {
                if cut.side == Side::After {
                    // A `MemoryStore` writes when it is called; the future only says so.
                    drop(write(&self.kept));
                }
                self.process.dead.send_replace(true);
                never()
            }
            _ => write(&self.kept),
        }
    }

    fn other<T: Send + 'static>(
        &self,
        act: impl FnOnce(&MemoryStore) -> BoxFuture<'static, Result<T, StoreError>>,
    ) -> BoxFuture<'static, Result<T, StoreError>> {
        if *self.process.dead.borrow() { never() } else { act(&self.kept) }
    }
}

/// What a process that has ended says.
fn never<T: Send + 'static>() -> BoxFuture<'static, Result<T, StoreError>> {
    Box::pin(std::future::pending())
}

impl fmt::Debug for CrashStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CrashStore").field("cut", &self.process.cut).finish_non_exhaustive()
    }
}

impl Store for CrashStore {
    fn create(&self, run: &RunId, events: Vec<Event>) -> BoxFuture<'static, Result<Epoch, StoreError>> {
        self.write(|kept| kept.create(run, events))
    }

    fn open(&self, run: &RunId) -> BoxFuture<'static, Result<Epoch, StoreError>> {
        self.other(|kept| kept.open(run))
    }

    fn close(&self, run: &RunId, epoch: Epoch) -> BoxFuture<'static, Result<(), StoreError>> {
        self.other(|kept| kept.close(run, epoch))
    }

    fn append(&self, run: &RunId, epoch: Epoch, append: Append) -> BoxFuture<'static, Result<(), StoreError>> {
        self.write(|kept| kept.append(run, epoch, append))
    }

    fn amend(&self, run: &RunId, after: u64, events: Vec<Event>) -> BoxFuture<'static, Result<(), StoreError>> {
        self.write(|kept| kept.amend(run, after, events))
    }

    fn read(&self, run: &RunId, after: u64, limit: usize) -> BoxFuture<'static, Result<Vec<Event>, StoreError>> {
        self.other(|kept| kept.read(run, after, limit))
    }

    fn put_snapshot(
        &self,
        run: &RunId,
        epoch: Epoch,
        snapshot: Snapshot,
    ) -> BoxFuture<'static, Result<(), StoreError>> {
        self.write(|kept| kept.put_snapshot(run, epoch, snapshot))
    }

    fn snapshot(&self, run: &RunId) -> BoxFuture<'static, Result<Option<Snapshot>, StoreError>> {
        self.other(|kept| kept.snapshot(run))
    }

    fn record(&self, run: &RunId) -> BoxFuture<'static, Result<Option<RunRecord>, StoreError>> {
        self.other(|kept| kept.record(run))
    }

    fn list(&self, filter: RunFilter) -> BoxFuture<'static, Result<Vec<RunRecord>, StoreError>> {
        self.other(|kept| kept.list(filter))
    }

    fn put_definition(&self, hash: &str, graph: String) -> BoxFuture<'static, Result<(), StoreError>> {
        self.other(|kept| kept.put_definition(hash, graph))
    }

    fn definition(&self, hash: &str) -> BoxFuture<'static, Result<Option<String>, StoreError>> {
        self.other(|kept| kept.definition(hash))
    }

    fn is_shared(&self) -> bool {
        false
    }

    fn send(&self, run: &RunId, message: String) -> BoxFuture<'static, Result<MessageId, StoreError>> {
        self.other(|kept| kept.send(run, message))
    }

    fn receive(&self, run: &RunId, epoch: Epoch) -> BoxFuture<'static, Result<Vec<StoreMessage>, StoreError>> {
        self.other(|kept| kept.receive(run, epoch))
    }

    fn inbox(&self) -> BoxFuture<'static, Result<Vec<StoreMessage>, StoreError>> {
        self.other(|kept| kept.inbox())
    }

    fn outcome(&self, message: MessageId) -> BoxFuture<'static, Result<Option<String>, StoreError>> {
        self.other(|kept| kept.outcome(message))
    }

    fn withdraw(&self, message: MessageId) -> BoxFuture<'static, Result<Option<String>, StoreError>> {
        self.other(|kept| kept.withdraw(message))
    }
}

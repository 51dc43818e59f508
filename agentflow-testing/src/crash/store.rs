//! A store that stops at a chosen write, as a process does that ends there.
//!
//! It keeps nothing itself: the records are in the `MemoryStore` below it, which outlives it.

use std::fmt;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use agentflow::store::{Append, Epoch, MemoryStore, MessageId, Snapshot, Store, StoreError};
use agentflow::{Event, RunId, async_trait};
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

    /// A write that counts as a place to crash.
    async fn write<T: Send>(&self, write: impl Future<Output = Result<T, StoreError>> + Send) -> Result<T, StoreError> {
        if self.is_dead() {
            return pending().await;
        }
        let number = self.process.writes.fetch_add(1, Ordering::SeqCst) + 1;
        match self.process.cut {
            Some(cut) if cut.write == number => {
                if cut.side == Side::After {
                    drop(write.await);
                }
                self.process.dead.send_replace(true);
                pending().await
            }
            _ => write.await,
        }
    }

    /// Anything else that changes what is kept.
    async fn other<T: Send>(&self, act: impl Future<Output = Result<T, StoreError>> + Send) -> Result<T, StoreError> {
        if self.is_dead() { pending().await } else { act.await }
    }

    fn is_dead(&self) -> bool {
        *self.process.dead.borrow()
    }
}

impl fmt::Debug for CrashStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CrashStore").field("cut", &self.process.cut).finish_non_exhaustive()
    }
}

// A process that has ended changes nothing any more. It may read: what it does next would have to be written first.
#[async_trait]
impl agentflow::store::StoreLayer for CrashStore {
    fn inner(&self) -> &dyn Store {
        &self.kept
    }

    /// Each life is a process of its own.
    fn identity(&self) -> Option<String> {
        None
    }

    async fn create(&self, run: &RunId, events: Vec<Event>) -> Result<Epoch, StoreError> {
        self.write(self.kept.create(run, events)).await
    }

    async fn append(&self, run: &RunId, epoch: Epoch, append: Append) -> Result<(), StoreError> {
        self.write(self.kept.append(run, epoch, append)).await
    }

    async fn amend(&self, run: &RunId, after: u64, events: Vec<Event>) -> Result<(), StoreError> {
        self.write(self.kept.amend(run, after, events)).await
    }

    async fn put_snapshot(&self, run: &RunId, epoch: Epoch, snapshot: Snapshot) -> Result<(), StoreError> {
        self.write(self.kept.put_snapshot(run, epoch, snapshot)).await
    }

    async fn open(&self, run: &RunId) -> Result<Epoch, StoreError> {
        self.other(self.kept.open(run)).await
    }

    async fn close(&self, run: &RunId, epoch: Epoch) -> Result<(), StoreError> {
        self.other(self.kept.close(run, epoch)).await
    }

    async fn put_definition(&self, hash: &str, graph: String) -> Result<(), StoreError> {
        self.other(self.kept.put_definition(hash, graph)).await
    }

    async fn send(&self, run: &RunId, message: String) -> Result<MessageId, StoreError> {
        self.other(self.kept.send(run, message)).await
    }

    async fn withdraw(&self, message: MessageId) -> Result<Option<String>, StoreError> {
        self.other(self.kept.withdraw(message)).await
    }
}

//! A store that stops at a chosen write, like a process that ends there.
//!
//! The data is in a `MemoryStore`, which survives the simulated process.

use std::fmt;
use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use agentflow::store::{
    Append, Epoch, MemoryStore, MessageId, MessageStore, Snapshot, Store, StoreError, StoreMessage,
};
use agentflow::{Event, RunId, async_trait};
use tokio::sync::watch;

/// The side of a write on which the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Side {
    /// The write is not stored.
    Before,
    /// The write is stored, but the process never receives the result.
    After,
}

/// A position for a crash: the number of a write in the process, counted from 1, and the side of
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    pub(super) write: usize,
    pub(super) side: Side,
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.side {
            Side::Before => write!(f, "write {}, before it was stored", self.write),
            Side::After => {
                write!(
                    f,
                    "write {}, after it was stored and before its caller received the result",
                    self.write
                )
            }
        }
    }
}

/// The store as one simulated process sees it.
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
    /// Creates the store of a process that ends at `cut`, if it has a value.
    pub(super) fn new(kept: &MemoryStore, cut: Option<Cut>) -> Self {
        let process = Process { writes: AtomicUsize::new(0), cut, dead: watch::Sender::new(false) };
        Self { kept: kept.clone(), process: Arc::new(process) }
    }

    /// Returns the number of writes that the process has started.
    pub(super) fn writes(&self) -> usize {
        self.process.writes.load(Ordering::SeqCst)
    }

    /// Waits for the crash of the process.
    pub(super) async fn died(&self) {
        // Waiting cannot fail: the sender lives as long as this store.
        let _ = self.process.dead.subscribe().wait_for(|dead| *dead).await;
    }

    /// Executes a write that counts as a position for a crash.
    async fn write<T: Send>(
        &self,
        write: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        // A dead process waits forever instead of getting an error, because it could react to an
        // error with other writes.
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

    /// Executes another modification. It is not a position for a crash.
    async fn other<T: Send>(
        &self,
        act: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
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

// A dead process changes nothing. It may still read: any further action would have to be written
// first.
#[async_trait]
impl agentflow::store::StoreLayer for CrashStore {
    fn inner(&self) -> &dyn Store {
        &self.kept
    }

    /// Returns no identity, because each simulated process counts as a separate process.
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

    async fn put_snapshot(
        &self,
        run: &RunId,
        epoch: Epoch,
        snapshot: Snapshot,
    ) -> Result<(), StoreError> {
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

    fn messages(&self) -> Option<&dyn MessageStore> {
        Some(self)
    }
}

#[async_trait]
impl MessageStore for CrashStore {
    async fn send(&self, run: &RunId, message: String) -> Result<MessageId, StoreError> {
        self.other(self.kept.send(run, message)).await
    }

    async fn receive(&self, run: &RunId, epoch: Epoch) -> Result<Vec<StoreMessage>, StoreError> {
        self.kept.receive(run, epoch).await
    }

    async fn inbox(&self) -> Result<Vec<StoreMessage>, StoreError> {
        self.kept.inbox().await
    }

    async fn outcome(&self, message: MessageId) -> Result<Option<String>, StoreError> {
        self.kept.outcome(message).await
    }

    async fn withdraw(&self, message: MessageId) -> Result<Option<String>, StoreError> {
        self.other(self.kept.withdraw(message)).await
    }

    fn message_sent(&self) -> Option<Pin<Box<dyn Future<Output = ()> + Send>>> {
        self.kept.message_sent()
    }
}

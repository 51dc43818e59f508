//! A store wrapper that stops at a chosen write, like a process that ends there. Data stays in the
//! wrapped store.

use std::fmt;
use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use agentflow::store::{
    Append, Epoch, MessageId, MessageStore, Snapshot, Store, StoreError, StoreMessage,
};
use agentflow::{Event, RunId, async_trait};
use tokio::sync::Notify;

/// The write at which a process ends, counted from 1, and `true` in `kept` if that write is still
/// stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Number of the write.
    pub write: usize,
    /// `true` if the write is stored.
    pub kept: bool,
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} write {}", if self.kept { "after" } else { "before" }, self.write)
    }
}

/// The store as one process sees it.
#[derive(Clone)]
pub struct MortalStore(Arc<Process>);

struct Process {
    kept: Arc<dyn Store>,
    cut: Option<Cut>,
    writes: AtomicUsize,
    dead: AtomicBool,
    died: Notify,
}

impl MortalStore {
    /// Creates a process over the stored data.
    pub fn new(kept: &Arc<dyn Store>, cut: Option<Cut>) -> Self {
        Self(Arc::new(Process {
            kept: Arc::clone(kept),
            cut,
            writes: AtomicUsize::new(0),
            dead: AtomicBool::new(false),
            died: Notify::new(),
        }))
    }

    /// Returns the number of writes that the process has started.
    pub fn writes(&self) -> usize {
        self.0.writes.load(Ordering::SeqCst)
    }

    /// Waits until the process has ended.
    pub async fn died(&self) {
        let died = self.0.died.notified();
        if !self.is_dead() {
            died.await;
        }
    }

    fn is_dead(&self) -> bool {
        self.0.dead.load(Ordering::SeqCst)
    }

    async fn write<T: Send>(
        &self,
        write: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        if self.is_dead() {
            return pending().await;
        }
        let number = self.0.writes.fetch_add(1, Ordering::SeqCst) + 1;
        match self.0.cut {
            Some(cut) if cut.write == number => {
                // All later writes of the process are lost. This one is stored only if `kept` is
                // set.
                self.0.dead.store(true, Ordering::SeqCst);
                if cut.kept {
                    drop(write.await);
                }
                self.0.died.notify_waiters();
                pending().await
            }
            _ => write.await,
        }
    }

    async fn other<T: Send>(
        &self,
        act: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        if self.is_dead() { pending().await } else { act.await }
    }
}

impl fmt::Debug for MortalStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MortalStore").field("cut", &self.0.cut).finish_non_exhaustive()
    }
}

#[async_trait]
impl agentflow::store::StoreLayer for MortalStore {
    fn inner(&self) -> &dyn Store {
        &*self.0.kept
    }

    /// `None`, so that no two processes count as the same.
    fn identity(&self) -> Option<String> {
        None
    }

    async fn create(&self, run: &RunId, events: Vec<Event>) -> Result<Epoch, StoreError> {
        self.write(self.0.kept.create(run, events)).await
    }

    async fn append(&self, run: &RunId, epoch: Epoch, append: Append) -> Result<(), StoreError> {
        self.write(self.0.kept.append(run, epoch, append)).await
    }

    async fn amend(&self, run: &RunId, after: u64, events: Vec<Event>) -> Result<(), StoreError> {
        self.write(self.0.kept.amend(run, after, events)).await
    }

    async fn put_snapshot(
        &self,
        run: &RunId,
        epoch: Epoch,
        snapshot: Snapshot,
    ) -> Result<(), StoreError> {
        self.write(self.0.kept.put_snapshot(run, epoch, snapshot)).await
    }

    async fn open(&self, run: &RunId) -> Result<Epoch, StoreError> {
        self.other(self.0.kept.open(run)).await
    }

    async fn close(&self, run: &RunId, epoch: Epoch) -> Result<(), StoreError> {
        self.other(self.0.kept.close(run, epoch)).await
    }

    async fn put_definition(&self, hash: &str, graph: String) -> Result<(), StoreError> {
        self.other(self.0.kept.put_definition(hash, graph)).await
    }

    fn messages(&self) -> Option<&dyn MessageStore> {
        self.0.kept.messages().map(|_| self as _)
    }
}

#[async_trait]
impl MessageStore for MortalStore {
    async fn send(&self, run: &RunId, message: String) -> Result<MessageId, StoreError> {
        self.other(self.0.kept.require_messages()?.send(run, message)).await
    }

    async fn receive(&self, run: &RunId, epoch: Epoch) -> Result<Vec<StoreMessage>, StoreError> {
        self.0.kept.require_messages()?.receive(run, epoch).await
    }

    async fn inbox(&self) -> Result<Vec<StoreMessage>, StoreError> {
        self.0.kept.require_messages()?.inbox().await
    }

    async fn outcome(&self, message: MessageId) -> Result<Option<String>, StoreError> {
        self.0.kept.require_messages()?.outcome(message).await
    }

    async fn withdraw(&self, message: MessageId) -> Result<Option<String>, StoreError> {
        self.other(self.0.kept.require_messages()?.withdraw(message)).await
    }

    fn message_sent(&self) -> Option<Pin<Box<dyn Future<Output = ()> + Send>>> {
        self.0.kept.messages()?.message_sent()
    }
}

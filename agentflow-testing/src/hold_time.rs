//! Stops tokio's paused clock while a test waits for real I/O: a disk, a socket or another thread.
//!
//! It relies on tokio's rule that a paused clock does not advance while blocking work is running.

use std::pin::Pin;
use std::sync::{Arc, mpsc};

use agentflow::event::RunId;
use agentflow::store::{
    Append, ArtifactStore, DocumentChange, DocumentCommit, DocumentRecord, DocumentStore,
    DocumentWrite, Epoch, ExpectedVersion, LeaseStore, MessageId, MessageStore, RunFilter, RunList,
    RunRecord, SessionFilter, SessionRecord, SessionStore, Snapshot, StateStore, StateWrite, Store,
    StoreError, StoreLayer, StoreMessage, StoredDocument,
};
use agentflow::value::Encoded;
use agentflow::{Event, async_trait};

/// Awaits a future and stops the paused clock of `#[tokio::test(start_paused = true)]` meanwhile.
///
/// When all tasks wait, tokio advances a paused clock to the next timer, even if a task waits for a
/// socket or a thread. A time-out of an hour then expires before a server on the same machine has
/// answered. This function prevents that. It is not needed for work on tokio's blocking threads,
/// such as `spawn_blocking` and `tokio::fs`: the clock waits for it.
///
/// The function occupies one blocking thread until the future completes. If the clock is not
/// paused, it only awaits the future.
///
/// ```
/// use std::time::Duration;
///
/// use agentflow_testing::hold_time;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let (send, receive) = tokio::sync::oneshot::channel();
/// std::thread::spawn(move || {
///     std::thread::sleep(Duration::from_millis(20)); // A database answers.
///     send.send("here").unwrap();
/// });
/// let answer = tokio::time::timeout(Duration::from_secs(3600), hold_time(receive)).await;
/// assert_eq!(answer.expect("no hour has passed"), Ok("here"));
/// # }
/// ```
///
/// # Cancel safety
/// Dropping the returned future drops `work` and lets the clock advance again.
///
/// # Panics
/// If it is called outside of a tokio runtime.
pub async fn hold_time<F: Future>(work: F) -> F::Output {
    let (held, done) = mpsc::channel::<()>();
    // The blocking task ends, and with it the hold on the clock, when `held` is dropped.
    tokio::task::spawn_blocking(move || done.recv());
    let output = work.await;
    drop(held);
    output
}

/// A store wrapper for tests with a paused clock. It wraps each call to the store in [`hold_time`].
///
/// Runs do not poll this store for requests of other processes. With a paused clock they would poll
/// millions of times in an hour of virtual time. Requests made in the same process still arrive.
///
/// The usual case is a real SQLite file in a test with virtual time:
///
/// ```
/// use std::time::Duration;
///
/// use agentflow::prelude::*;
/// use agentflow::store::MemoryStore;
/// use agentflow_testing::{HoldsTime, test_runtime};
///
/// async fn waited(_: &Context) -> Result<u32> {
///     tokio::time::sleep(Duration::from_secs(3600)).await; // It costs nothing.
///     Ok(1)
/// }
///
/// #[workflow]
/// async fn patient(cx: &Context) -> Result<u32> {
///     #[node(timeout = "2h")]
///     let one = waited(cx).await?;
///     Ok(one)
/// }
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<()> {
/// // In a test of yours: `SqliteStore::open(path).await?` in the place of `MemoryStore::new()`.
/// let runtime = test_runtime().store(HoldsTime::new(MemoryStore::new())).build();
/// assert_eq!(runtime.start(patient::workflow(), ()).await?.result().await?, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct HoldsTime<S>(S);

impl<S: Store> HoldsTime<S> {
    /// Wraps a store.
    pub fn new(store: S) -> Self {
        Self(store)
    }
}

/// Implements the asynchronous methods of a trait with [`hold_time`]. `$part` is the expression of
/// the wrapped part, and `$more` are the other methods.
macro_rules! held {
    (
        impl $trait:ident by |$this:ident| $part:expr;
        $(async fn $name:ident($($argument:ident: $type:ty),* $(,)?) -> $output:ty;)+
        $({ $($more:tt)+ })?
    ) => {
        #[async_trait]
        impl<S: Store> $trait for HoldsTime<S> {
            $($($more)+)?

            $(
                async fn $name(&self, $($argument: $type),*) -> Result<$output, StoreError> {
                    let $this = self;
                    hold_time($part.$name($($argument),*)).await
                }
            )+
        }
    };
}

held! {
    impl StoreLayer by |this| this.0;
    async fn create(run: &RunId, events: Vec<Event>) -> Epoch;
    async fn open(run: &RunId) -> Epoch;
    async fn append(run: &RunId, epoch: Epoch, append: Append) -> ();
    async fn amend(run: &RunId, after: u64, events: Vec<Event>) -> ();
    async fn read(run: &RunId, after: u64, limit: usize) -> Vec<Event>;
    async fn list(filter: RunFilter) -> Vec<RunRecord>;
    async fn list_with_unreadable(filter: RunFilter) -> RunList;
    async fn close(run: &RunId, epoch: Epoch) -> ();
    async fn delete(run: &RunId) -> ();
    async fn record(run: &RunId) -> Option<RunRecord>;
    async fn put_snapshot(run: &RunId, epoch: Epoch, snapshot: Snapshot) -> ();
    async fn snapshot(run: &RunId) -> Option<Snapshot>;
    async fn put_definition(hash: &str, graph: String) -> ();
    async fn definition(hash: &str) -> Option<String>;
    {
        fn inner(&self) -> &dyn Store {
            &self.0
        }

        fn sessions(&self) -> Option<&dyn SessionStore> {
            self.0.sessions().map(|_| self as _)
        }

        fn artifacts(&self) -> Option<&dyn ArtifactStore> {
            self.0.artifacts().map(|_| self as _)
        }

        fn state(&self) -> Option<&dyn StateStore> {
            self.0.state().map(|_| self as _)
        }

        fn messages(&self) -> Option<&dyn MessageStore> {
            self.0.messages().map(|_| self as _)
        }

        fn leases(&self) -> Option<&dyn LeaseStore> {
            self.0.leases().map(|_| self as _)
        }

        fn documents(&self) -> Option<&dyn DocumentStore> {
            self.0.documents().map(|_| self as _)
        }
    }
}

held! {
    impl SessionStore by |this| this.inner().require_sessions()?;
    async fn session(session: &str) -> Option<SessionRecord>;
    async fn list_sessions(filter: SessionFilter) -> Vec<SessionRecord>;
    async fn delete_session(session: &str) -> u64;
}

held! {
    impl ArtifactStore by |this| this.inner().require_artifacts()?;
    async fn put_artifact(run: &RunId, epoch: Epoch, sha256: &str, bytes: Arc<[u8]>) -> ();
    async fn artifact(run: &RunId, sha256: &str) -> Option<Arc<[u8]>>;
}

held! {
    impl StateStore by |this| this.inner().require_state()?;
    async fn put_state(writes: Vec<StateWrite>) -> ();
    async fn read_state(user: Option<&str>, key: Option<&str>) -> Vec<(String, Encoded)>;
}

held! {
    impl MessageStore by |this| this.inner().require_messages()?;
    async fn send(run: &RunId, message: String) -> MessageId;
    async fn receive(run: &RunId, epoch: Epoch) -> Vec<StoreMessage>;
    async fn inbox() -> Vec<StoreMessage>;
    async fn outcome(message: MessageId) -> Option<String>;
    async fn withdraw(message: MessageId) -> Option<String>;
    {
        fn message_sent(&self) -> Option<Pin<Box<dyn Future<Output = ()> + Send>>> {
            None
        }
    }
}

held! {
    impl DocumentStore by |this| this.inner().require_documents()?;
    async fn put_document(write: DocumentWrite, expected: ExpectedVersion) -> DocumentCommit;
    async fn remove_document(name: &str, expected: ExpectedVersion) -> DocumentCommit;
    async fn document(name: &str, version: Option<u64>) -> Option<StoredDocument>;
    async fn list_documents(after: Option<&str>, limit: usize) -> Vec<DocumentRecord>;
    async fn document_versions(name: &str, before: Option<u64>, limit: usize) -> Vec<DocumentRecord>;
    async fn document_changes(after: u64, limit: usize) -> Vec<DocumentChange>;
}

held! {
    impl LeaseStore by |this| this.inner().require_leases()?;
    async fn holder(run: &RunId) -> Option<String>;
}

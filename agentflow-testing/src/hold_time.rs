//! A paused clock that stands still while something real is waited for: a disk, a socket, another thread. It drives no clock
//! itself; tokio's does not move while blocking work is done.

use std::sync::{Arc, mpsc};

use agentflow::event::RunId;
use agentflow::store::{
    Append, Epoch, MessageId, RunFilter, RunList, RunRecord, SessionFilter, SessionRecord, Snapshot, StateWrite, Store,
    StoreError, StoreLayer, StoreMessage,
};
use agentflow::value::Encoded;
use agentflow::{Event, async_trait};

/// Waits for something real in a test under `#[tokio::test(start_paused = true)]`, and lets the paused clock stand still
/// meanwhile.
///
/// Without it, tokio moves a paused clock to the next timer whenever all tasks wait; for a socket or a thread, too, so that
/// a time-out of an hour passes before the answer of a server on the same machine is there. What tokio itself does on its
/// threads for blocking work, such as `spawn_blocking` and `tokio::fs`, needs none of this: the clock waits for it.
///
/// It takes one of those threads as long as it waits. Dropped, it lets go of the clock. Where the clock is not paused it only
/// waits.
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
/// # Panics
/// Outside of a tokio runtime.
pub async fn hold_time<F: Future>(work: F) -> F::Output {
    let (held, done) = mpsc::channel::<()>();
    // It ends when `held` is dropped.
    tokio::task::spawn_blocking(move || done.recv());
    let output = work.await;
    drop(held);
    output
}

/// A store that is used under a paused clock: [`hold_time`] around all that it waits for. A run does not look in it for
/// requests of other processes, which a paused clock would do millions of times in an hour that costs nothing; those that
/// are made in the same process arrive. The common one is a real SQLite file beside virtual time:
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
    /// This store, for which a paused clock waits.
    pub fn new(store: S) -> Self {
        Self(store)
    }
}

/// The methods of a store that wait.
macro_rules! held {
    ($(async fn $name:ident($($argument:ident: $type:ty),* $(,)?) -> $output:ty;)+) => {
        #[async_trait]
        impl<S: Store> StoreLayer for HoldsTime<S> {
            fn inner(&self) -> &dyn Store {
                &self.0
            }

            fn is_shared(&self) -> bool {
                false
            }

            $(
                async fn $name(&self, $($argument: $type),*) -> Result<$output, StoreError> {
                    hold_time(self.0.$name($($argument),*)).await
                }
            )+
        }
    };
}

held! {
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
    async fn session(session: &str) -> Option<SessionRecord>;
    async fn sessions(filter: SessionFilter) -> Vec<SessionRecord>;
    async fn delete_session(session: &str) -> u64;
    async fn put_snapshot(run: &RunId, epoch: Epoch, snapshot: Snapshot) -> ();
    async fn snapshot(run: &RunId) -> Option<Snapshot>;
    async fn put_state(writes: Vec<StateWrite>) -> ();
    async fn state(user: Option<&str>, key: Option<&str>) -> Vec<(String, Encoded)>;
    async fn put_artifact(run: &RunId, epoch: Epoch, sha256: &str, bytes: Arc<[u8]>) -> ();
    async fn artifact(run: &RunId, sha256: &str) -> Option<Arc<[u8]>>;
    async fn put_definition(hash: &str, graph: String) -> ();
    async fn definition(hash: &str) -> Option<String>;
    async fn holder(run: &RunId) -> Option<String>;
    async fn send(run: &RunId, message: String) -> MessageId;
    async fn receive(run: &RunId, epoch: Epoch) -> Vec<StoreMessage>;
    async fn inbox() -> Vec<StoreMessage>;
    async fn outcome(message: MessageId) -> Option<String>;
    async fn withdraw(message: MessageId) -> Option<String>;
}

//! Where runs are kept beyond their process: the `Store` trait and what it deals in.
//!
//! A store keeps what it is given, in order, and decides who may write. It never interprets a journal beyond the few
//! events that a run's status follows from ([`RunRecord::apply`]).

mod error;
mod memory;
mod record;
#[cfg(feature = "sqlite")]
mod sqlite;

use std::fmt;

pub use self::error::{StoreError, StoreErrorKind};
pub use self::memory::MemoryStore;
pub use self::record::{RunFilter, RunList, RunRecord, RunStatus};
#[cfg(feature = "sqlite")]
pub use self::sqlite::{SqliteStore, SqliteStoreBuilder, Synchronous};
use crate::event::{Event, RunId};
use crate::model::BoxFuture;

/// The right to write a run, as a number that grows with every opening: who holds a smaller one is fenced off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

/// A shorter journal: replayed, these events lead to the same state as the first `seq` events of the run.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Snapshot {
    /// How many events of the journal it stands for.
    pub seq: u64,
    /// The events that still matter.
    pub events: Vec<Event>,
}

impl Snapshot {
    /// Stands for the first `seq` events.
    pub fn new(seq: u64, events: Vec<Event>) -> Self {
        Self { seq, events }
    }
}

/// Keeps the journals of runs.
///
/// What a future has reported as written survives the end of the process as far as the store promises. Futures own what
/// they need; dropping one leaves open whether its write happened, and never half of it.
///
/// Implementations keep these rules, and `check_store` of the testing kit tests them: a run has one
/// writer at a time; [`append`](Self::append) with an old epoch or another place than the journal's end writes nothing;
/// events are read as they were written.
pub trait Store: Send + Sync + fmt::Debug + 'static {
    /// Creates a run with its first events in one commit, and opens it.
    ///
    /// # Errors
    /// `exists` when there is a run of this id.
    fn create(&self, run: &RunId, events: Vec<Event>) -> BoxFuture<'static, Result<Epoch, StoreError>>;

    /// Opens a run for writing. Whoever had it open before is fenced off, unless that process is known to be alive.
    ///
    /// # Errors
    /// `not_found`; `busy` when a living process has it open.
    fn open(&self, run: &RunId) -> BoxFuture<'static, Result<Epoch, StoreError>>;

    /// Gives up the right to write. Doing so with an old epoch changes nothing.
    fn close(&self, run: &RunId, epoch: Epoch) -> BoxFuture<'static, Result<(), StoreError>>;

    /// Appends events in one commit. `after` is the number of events that the run has.
    ///
    /// # Errors
    /// `fenced` when another writer has opened the run since or its journal does not end at `after`.
    fn append(
        &self,
        run: &RunId,
        epoch: Epoch,
        after: u64,
        events: Vec<Event>,
    ) -> BoxFuture<'static, Result<(), StoreError>>;

    /// The events of a run after a place, at most `limit`.
    ///
    /// # Errors
    /// `not_found`, `damaged`, `newer_version`.
    fn read(&self, run: &RunId, after: u64, limit: usize) -> BoxFuture<'static, Result<Vec<Event>, StoreError>>;

    /// Keeps a snapshot in the place of an earlier one. A store may ignore it.
    ///
    /// # Errors
    /// `fenced` when another writer has opened the run since.
    fn put_snapshot(&self, run: &RunId, epoch: Epoch, snapshot: Snapshot)
    -> BoxFuture<'static, Result<(), StoreError>>;

    /// The newest snapshot of a run; `None` when there is none that can be read, or no such run.
    fn snapshot(&self, run: &RunId) -> BoxFuture<'static, Result<Option<Snapshot>, StoreError>>;

    /// What is known of a run without reading its journal.
    fn record(&self, run: &RunId) -> BoxFuture<'static, Result<Option<RunRecord>, StoreError>>;

    /// The runs that a filter lets through, the newest first. A run that cannot be read is left out.
    fn list(&self, filter: RunFilter) -> BoxFuture<'static, Result<Vec<RunRecord>, StoreError>>;

    /// Like [`list`](Self::list), with the runs that cannot be read and may belong to it. Default: there are none.
    fn list_with_unreadable(&self, filter: RunFilter) -> BoxFuture<'static, Result<RunList, StoreError>> {
        let listing = self.list(filter);
        Box::pin(async move { Ok(RunList::new(listing.await?, Vec::new())) })
    }

    /// Keeps the description of a workflow under its hash. Keeping one again changes nothing.
    fn put_definition(&self, hash: &str, graph: String) -> BoxFuture<'static, Result<(), StoreError>>;

    /// The description of a workflow by its hash.
    fn definition(&self, hash: &str) -> BoxFuture<'static, Result<Option<String>, StoreError>>;

    /// Leaves a message for whoever has a run open, in this process or another; it is JSON of the runtime's own.
    ///
    /// # Errors
    /// `not_found`.
    fn send(&self, run: &RunId, message: String) -> BoxFuture<'static, Result<(), StoreError>>;

    /// The most bytes that one event may have as JSON; an [`append`](Self::append) of a larger one fails as `too_large`.
    /// Default: no limit.
    fn max_event_bytes(&self) -> Option<u64> {
        None
    }

    /// Whether other processes may use the store, so that messages may come from there. Default: yes.
    fn is_shared(&self) -> bool {
        true
    }

    /// Takes the messages that were left for a run, the oldest first.
    fn receive(&self, run: &RunId, epoch: Epoch) -> BoxFuture<'static, Result<Vec<String>, StoreError>>;
}

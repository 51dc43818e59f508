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

/// What is written to a run's journal in one commit.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Append {
    /// How many events the run has.
    pub after: u64,
    /// The events that follow. There may be none.
    pub events: Vec<Event>,
    /// Messages that are answered with them.
    pub answered: Vec<Answered>,
}

impl Append {
    /// Events after the first `after` ones.
    pub fn new(after: u64, events: Vec<Event>) -> Self {
        Self { after, events, answered: Vec::new() }
    }

    /// Answers a message in the same commit.
    #[must_use]
    pub fn answering(mut self, message: MessageId, outcome: impl Into<String>) -> Self {
        self.answered.push(Answered::new(message, outcome));
        self
    }
}

/// A message that was left for a run; the number grows with every message of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(pub u64);

/// A message that was left for a run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreMessage {
    /// Its number.
    pub id: MessageId,
    /// The run it was left for.
    pub run: RunId,
    /// What it says: JSON of the runtime's own.
    pub body: String,
}

impl StoreMessage {
    /// A message as a store hands it out.
    pub fn new(id: MessageId, run: RunId, body: impl Into<String>) -> Self {
        Self { id, run, body: body.into() }
    }
}

/// The outcome of a message, for whoever left it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Answered {
    /// The message.
    pub message: MessageId,
    /// What came of it: JSON of the runtime's own.
    pub outcome: String,
}

impl Answered {
    /// The outcome of a message.
    pub fn new(message: MessageId, outcome: impl Into<String>) -> Self {
        Self { message, outcome: outcome.into() }
    }
}

/// Keeps the journals of runs.
///
/// What a future has reported as written survives the end of the process as far as the store promises. Futures own what
/// they need; dropping one leaves open whether its write happened, and never half of it.
///
/// Implementations keep these rules, and `check_store` of the testing kit tests them: a run has one
/// writer at a time; [`append`](Self::append) with an old epoch or another place than the journal's end writes nothing;
/// a run that has ended is not opened; events are read as they were written; a message is answered in the same commit as
/// the events that follow from it.
pub trait Store: Send + Sync + fmt::Debug + 'static {
    /// Creates a run with its first events in one commit, and opens it.
    ///
    /// # Errors
    /// `exists` when there is a run of this id.
    fn create(&self, run: &RunId, events: Vec<Event>) -> BoxFuture<'static, Result<Epoch, StoreError>>;

    /// Opens a run that has not ended for writing. Whoever had it open before is fenced off, unless that process is
    /// known to be alive. Whether it has ended is looked at in the same transaction.
    ///
    /// # Errors
    /// `not_found`; `ended`; `busy` when a living process has it open.
    fn open(&self, run: &RunId) -> BoxFuture<'static, Result<Epoch, StoreError>>;

    /// Gives up the right to write. Doing so with an old epoch changes nothing.
    fn close(&self, run: &RunId, epoch: Epoch) -> BoxFuture<'static, Result<(), StoreError>>;

    /// Appends events and answers messages in one commit. When the events end the run, messages without an answer go
    /// with the same commit: whoever left them finds the run ended.
    ///
    /// # Errors
    /// `fenced` when another writer has opened the run since or its journal does not end there.
    fn append(&self, run: &RunId, epoch: Epoch, append: Append) -> BoxFuture<'static, Result<(), StoreError>>;

    /// Appends events to a run that no process executes, in one commit, also to one that has ended. Whoever had it open
    /// before is fenced off.
    ///
    /// # Errors
    /// `not_found`; `busy` when a living process has it open; `fenced` when its journal does not end at `after`.
    fn amend(&self, run: &RunId, after: u64, events: Vec<Event>) -> BoxFuture<'static, Result<(), StoreError>>;

    /// The events of a run after a place, at most `limit`.
    ///
    /// # Errors
    /// `not_found`, `damaged`, `newer_version`.
    fn read(&self, run: &RunId, after: u64, limit: usize) -> BoxFuture<'static, Result<Vec<Event>, StoreError>>;

    /// Keeps a snapshot in the place of an earlier one. A store may ignore it.
    ///
    /// # Errors
    /// `fenced` when another writer has opened the run since. The run continues without the snapshot.
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

    /// What tells this store from others: handles of one store in one process give the same text, so that a run which
    /// one of them executes is found through all of them. `None`, the default, when the handle itself is the store.
    fn identity(&self) -> Option<String> {
        None
    }

    /// The other living process that has a run open, in words for a person; `None` when there is none or the store
    /// cannot tell.
    fn holder(&self, run: &RunId) -> BoxFuture<'static, Result<Option<String>, StoreError>> {
        let _ = run;
        Box::pin(std::future::ready(Ok(None)))
    }

    /// The most bytes that one event may have as JSON; an [`append`](Self::append) of a larger one fails as `too_large`.
    /// Default: no limit.
    fn max_event_bytes(&self) -> Option<u64> {
        None
    }

    /// Whether other processes may use the store, so that messages may come from there. Default: yes.
    fn is_shared(&self) -> bool {
        true
    }

    /// Leaves a message for the process that executes a run.
    ///
    /// # Errors
    /// `not_found`; `ended`.
    fn send(&self, run: &RunId, message: String) -> BoxFuture<'static, Result<MessageId, StoreError>>;

    /// The messages for a run that have no outcome yet, the oldest first.
    ///
    /// # Errors
    /// `fenced` when another writer has opened the run since.
    fn receive(&self, run: &RunId, epoch: Epoch) -> BoxFuture<'static, Result<Vec<StoreMessage>, StoreError>>;

    /// The messages for all runs that this process has open and that have no outcome yet, the oldest first. One look
    /// serves all of them.
    fn inbox(&self) -> BoxFuture<'static, Result<Vec<StoreMessage>, StoreError>>;

    /// The outcome of a message; `None` when there is none yet, or no such message.
    fn outcome(&self, message: MessageId) -> BoxFuture<'static, Result<Option<String>, StoreError>>;

    /// Takes a message back: it will have no effect, unless it has an outcome, which is returned and forgotten.
    fn withdraw(&self, message: MessageId) -> BoxFuture<'static, Result<Option<String>, StoreError>>;
}

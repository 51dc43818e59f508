//! Durable storage of runs.
//!
//! [`Store`] keeps the journal of each run: the events in order, written by one writer at a time,
//! which is identified by its [`Epoch`]. A commit is an [`Append`]; a [`Snapshot`] shortens the
//! journal for resuming. [`RunRecord`] and [`SessionRecord`] are the rows of lists, which
//! [`RunFilter`] and [`SessionFilter`] select.
//!
//! Optional parts are separate traits, which a store returns if it has them: [`SessionStore`],
//! [`ArtifactStore`], [`StateStore`], [`MessageStore`], [`LeaseStore`] and [`DocumentStore`].
//!
//! A store only interprets the few events that change the status of a run ([`RunRecord::apply`]).
//! [`MemoryStore`] is the implementation in memory; [`StoreLayer`] wraps another store.
//! [`StoreAddress`] opens the store that a setting names.

pub(crate) mod address;
mod artifact_store;
mod commit;
mod document_record;
mod document_store;
mod event_filter;
mod filter;
mod layer;
mod lease_store;
mod memory;
mod memory_documents;
mod message_store;
mod parts;
mod record;
mod recorded_questions;
mod session_record;
mod session_store;
mod state_store;
mod store_error;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;

pub use self::address::StoreAddress;
pub use self::artifact_store::ArtifactStore;
pub use self::commit::{Answered, Append, Epoch, MessageId, Snapshot, StateWrite, StoreMessage};
pub use self::document_record::{
    DocumentChange, DocumentCommit, DocumentLimitError, DocumentRecord, DocumentWrite,
    ExpectedVersion, StoredDocument,
};
pub use self::document_store::DocumentStore;
pub use self::event_filter::EventFilter;
pub use self::filter::{RunFilter, RunList, RunOrder};
pub use self::layer::StoreLayer;
pub use self::lease_store::LeaseStore;
pub use self::memory::MemoryStore;
pub use self::message_store::MessageStore;
pub use self::record::{RunRecord, RunStatus, UnknownRunStatus};
pub use self::recorded_questions::{RecordedQuestion, RecordedQuestions};
pub use self::session_record::{SessionFilter, SessionRecord};
pub use self::session_store::SessionStore;
pub use self::state_store::StateStore;
pub use self::store_error::{StoreError, StoreErrorKind};
use crate::event::{Event, RunId};
use crate::future::BoxFuture;

/// Interval of the default [`Store::runs_changed`]. A queued run may wait for a moment; a shorter
/// interval would make each idle worker list the unfinished runs more often.
const CLAIM_POLL: Duration = Duration::from_millis(500);

/// Storage for the journals of runs.
///
/// While a run is executed, its events are appended to its journal; when it is resumed, they are
/// read. A store keeps them in order and accepts one writer at a time. It need not interpret them:
/// [`RunRecord`] computes the row of a run in a list.
///
/// This trait is the journal. A store that can do more returns the part that does it, such as
/// [`sessions`](Self::sessions); by default a store has no such part.
///
/// # A first store
///
/// Six methods are required. This is a complete store, in memory:
///
/// ```
#[doc = include_str!("example_store.rs")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> agentflow::Result<()> {
///
/// let runtime = agentflow::Runtime::builder().store(MapStore::default()).build();
/// assert!(runtime.runs().list(RunFilter::unfinished()).await?.is_empty());
/// # Ok(())
/// # }
/// ```
///
/// `check_store` of the crate `agentflow-testing` tests a store against all rules of this page and
/// returns the optional parts that the store does not support. `check_store_reopened` tests a store
/// that outlives its process.
///
/// To change the behaviour of another store (count, encrypt, delay, fail), implement [`StoreLayer`]
/// instead.
///
/// # Rules
///
/// 1. **Atomic commits.** [`create`](Self::create), [`open`](Self::open), [`append`](Self::append)
///    and [`amend`](Self::amend) take effect completely or not at all, and no reader sees a partial
///    effect. In a database each is one transaction, in Redis one script. They return when the data
///    is as durable as the store promises; the run waits for that.
/// 2. **One writer.** Each run has an epoch, a number that `open` and `amend` increment. `append`,
///    `put_snapshot`, `put_artifact` and `receive` with another epoch than the run's fail as `fenced`. The epoch is
///    compared in the transaction that writes. It never decreases, also not when the store is
///    reopened.
/// 3. **One position.** Events are numbered from 1 without gaps ([`Event::seq`]). `append` and
///    `amend` declare the number of events that the run has (`after`). If the run has another
///    number, they fail as `fenced` and write nothing. A store that repeats an append because it
///    does not know the outcome of the first attempt uses this number to detect that the events are
///    already there.
/// 4. **Ended runs.** `open` and `send` fail as `ended` if the run has ended, according to its
///    [`RunStatus`] in the same transaction. `amend` accepts such a run: retrying a failed run is
///    an `amend`.
/// 5. **Events are returned unchanged.** Store each event as its JSON (`Event` implements serde's
///    traits), one entry per event. Texts can contain any character, including NUL. An event that
///    cannot be read fails as `damaged`, an event of a newer release as `newer_version`;
///    [`read`](Self::read) must not omit either.
/// 6. **Parts that take part in a commit.** A store with [`sessions`](Self::sessions),
///    [`state`](Self::state) or [`messages`](Self::messages) writes the position in the session,
///    the changes of [`Append::state`] and the outcomes of [`Append::answered`] in the transaction
///    of the events. `create` of a run that belongs to a session ([`RunRecord::session`]) fails as
///    `session_busy` if another run of the session has not ended, otherwise as `fenced` if its
///    number is not the highest number of the session plus 1, or 1 for the first run. `amend` fails
///    as `session_busy` if an ended run would continue while another run of its session has not
///    ended. Both are checked in the transaction that writes.
/// 7. **Errors.** The [kind](StoreErrorKind) informs the runtime, the text informs a person and
///    suggests a solution. The kinds of these rules have constructors: [`StoreError::not_found`],
///    [`exists`](StoreError::exists), [`ended`](StoreError::ended), [`busy`](StoreError::busy),
///    [`fenced`](StoreError::fenced). After a failed `append`, the run stops in this process and
///    can be resumed; the runtime does not repeat the append.
///
/// # Cancel safety
///
/// If a future is dropped, its write may or may not have happened, but never partially. The runtime
/// makes at most one `append` per run at a time, while calls for different runs are concurrent and
/// come from any thread. A store is faster if it waits for its disk or server once for all
/// concurrent calls. A method must not block the thread that polls it.
///
/// # Optional methods
///
/// Each has a default, with these consequences:
///
/// | method | default | consequence |
/// | --- | --- | --- |
/// | [`close`](Self::close) | does nothing | none, unless `open` fails as `busy` |
/// | [`delete`](Self::delete) | fails as `unsupported` | runs cannot be deleted or purged |
/// | [`record`](Self::record) | reads the journal | looking up one run reads all of its events |
/// | [`list_with_unreadable`](Self::list_with_unreadable) | calls `list` | a run that cannot be read is omitted without notice |
/// | [`count`](Self::count) | lists the runs page by page | counting reads the record of each run |
/// | [`read_selected`](Self::read_selected) | reads the journal page by page | reading one step reads all events of its run |
/// | [`claimable`](Self::claimable) | returns all runs of a filter | a worker tries to open runs that other processes execute |
/// | [`runs_changed`](Self::runs_changed) | completes after 500 ms | a worker notices a queued run after up to 500 ms |
/// | [`put_snapshot`](Self::put_snapshot), [`snapshot`](Self::snapshot) | store nothing | resuming reads the whole journal |
/// | [`put_definition`](Self::put_definition), [`definition`](Self::definition) | store nothing | when a workflow's code has changed, all of its nodes count as changed: `resume` lists all of them, and `Changes::AcceptAll` runs all of them again. `inspect` does not list the nodes that have not started |
/// | [`identity`](Self::identity) | `None` | two runtimes in one process do not find each other's runs |
/// | [`max_event_bytes`](Self::max_event_bytes) | no limit | an event that is too large fails in `append` and stops the run, not its step |
///
/// # Optional parts
///
/// Each is `None` by default, with these consequences:
///
/// | part | without it |
/// | --- | --- |
/// | [`sessions`](Self::sessions): [`SessionStore`] | runs cannot belong to a session |
/// | [`artifacts`](Self::artifacts): [`ArtifactStore`] | a step that saves an artifact fails |
/// | [`state`](Self::state): [`StateStore`] | a step that reads or writes `user:` and `app:` state fails |
/// | [`messages`](Self::messages): [`MessageStore`] | a run can only be controlled in the process that executes it, or while no process executes it |
/// | [`documents`](Self::documents): [`DocumentStore`] | documents cannot be saved at run time; documents of the program and of folders work |
/// | [`leases`](Self::leases): [`LeaseStore`] | the process that opens a run last owns it; a run of a session waits also for a run that no process executes |
///
/// A store that several processes share has messages and leases, and an
/// [`identity`](Self::identity).
#[async_trait]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a store",
    label = "runs cannot be kept in this",
    note = "for a file, give `SqliteStore::open(path).await?` of `agentflow::store`, with the feature `sqlite`; for a test, \
            `MemoryStore::new()`",
    note = "a store of your own implements `Store`, one around another store `StoreLayer`"
)]
pub trait Store: Send + Sync + fmt::Debug + 'static {
    /// Creates a run with its first events and opens it.
    ///
    /// # Errors
    /// `exists` if a run with this id exists.
    async fn create(&self, run: &RunId, events: Vec<Event>) -> Result<Epoch, StoreError>;

    /// Opens an unfinished run for writing. The previous writer is fenced off, unless it is in
    /// another process that is known to be alive.
    ///
    /// # Errors
    /// `not_found`; `ended`; `busy` if another living process has the run open.
    async fn open(&self, run: &RunId) -> Result<Epoch, StoreError>;

    /// Appends events. In the same transaction, changes values that outlive the run
    /// ([`Append::state`]), answers messages ([`Append::answered`]) and updates the session of the
    /// run. A store without one of these parts ignores its share.
    ///
    /// # Errors
    /// `not_found`; `fenced` if another writer has opened the run since, or if the run has another
    /// number of events; `too_large`.
    async fn append(&self, run: &RunId, epoch: Epoch, append: Append) -> Result<(), StoreError>;

    /// Appends events to a run that no process executes; the run may have ended. The previous
    /// writer is fenced off.
    ///
    /// # Errors
    /// `not_found`; `busy` if another living process has the run open; `fenced` if the run has
    /// another number of events.
    async fn amend(&self, run: &RunId, after: u64, events: Vec<Event>) -> Result<(), StoreError>;

    /// Returns the events of a run after the first `after` events, at most `limit` of them.
    ///
    /// # Errors
    /// `not_found`, `damaged`, `newer_version`.
    async fn read(&self, run: &RunId, after: u64, limit: usize) -> Result<Vec<Event>, StoreError>;

    /// Returns the runs that a filter selects, in the order of the filter, as
    /// [`RunFilter::select`]. Runs that cannot be read are omitted.
    async fn list(&self, filter: RunFilter) -> Result<Vec<RunRecord>, StoreError>;

    /// Releases the right to write. Does nothing if the epoch is outdated.
    async fn close(&self, run: &RunId, epoch: Epoch) -> Result<(), StoreError> {
        let _ = (run, epoch);
        Ok(())
    }

    /// Removes an ended run with its events, its snapshot and its messages, in one transaction.
    /// Definitions are kept, since other runs may use them.
    ///
    /// # Errors
    /// `not_found`; `unfinished` if the run has not ended; `in_session` if it belongs to a session;
    /// `busy` if another living process has it open; `unsupported` if the store never removes runs.
    async fn delete(&self, run: &RunId) -> Result<(), StoreError> {
        let _ = run;
        Err(StoreError::delete_unsupported())
    }

    /// Returns the record of a run; `None` if the run does not exist.
    ///
    /// # Errors
    /// `damaged`, `newer_version`.
    async fn record(&self, run: &RunId) -> Result<Option<RunRecord>, StoreError> {
        /// Number of events that are read at once.
        const PAGE: usize = 1000;
        let mut events = match self.read(run, 0, PAGE).await {
            Ok(events) => events,
            Err(error) if error.kind() == StoreErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let Some(mut record) = RunRecord::from_events(&events) else { return Ok(None) };
        // A full page may be followed by another one, which starts after the last applied event.
        while events.len() == PAGE {
            events = self.read(run, record.events, PAGE).await?;
            events.iter().for_each(|event| record.apply(event));
        }
        Ok(Some(record))
    }

    /// Returns runs that this process may open, oldest first: the runs of [`list`](Self::list), in
    /// reverse order. A store with [leases](Self::leases) omits the runs that a living process has
    /// open. The limit of the filter counts the oldest runs. A run is claimed by
    /// [opening](Self::open) it, which fails as `busy` if another process was faster.
    ///
    /// The default returns all runs of the filter, without a limit, since it does not know which of
    /// them are open.
    ///
    /// # Errors
    /// Any error of the store.
    async fn claimable(&self, filter: RunFilter) -> Result<Vec<RunRecord>, StoreError> {
        let mut runs = self.list(filter.without_limit().order(RunOrder::Created)).await?;
        runs.reverse();
        Ok(runs)
    }

    /// Returns a future that completes when [`claimable`](Self::claimable) should be read again: a
    /// run was created, released or changed after this call, or it is time to look.
    ///
    /// The default completes after 500 milliseconds, so runs are polled. A store that is notified
    /// completes the future early, and after a few seconds also without a notification. The future
    /// does not keep the store open.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    #[doc(alias = "changed")]
    fn runs_changed(&self) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(CLAIM_POLL))
    }

    /// Like [`list`](Self::list), and also returns the runs that cannot be read and may belong to
    /// the list.
    async fn list_with_unreadable(&self, filter: RunFilter) -> Result<RunList, StoreError> {
        Ok(RunList::new(self.list(filter).await?, Vec::new()))
    }

    /// Returns the number of runs that the conditions of a filter select, regardless of its limit and
    /// position. Runs that cannot be read may be counted.
    ///
    /// The default lists the runs page by page, so it needs little memory, but reads each of them. A
    /// database counts with one query.
    ///
    /// # Errors
    /// Any error of the store.
    async fn count(&self, filter: RunFilter) -> Result<u64, StoreError> {
        /// Number of runs that are listed at once.
        const PAGE: usize = 500;
        // In this order, runs that change meanwhile keep their place.
        let mut filter = filter.without_page().order(RunOrder::Created).limit(PAGE);
        let mut count = 0;
        loop {
            let runs = self.list(filter.clone()).await?;
            count += runs.len() as u64;
            match runs.last() {
                Some(last) if runs.len() >= PAGE => filter = filter.after(last),
                _ => return Ok(count),
            }
        }
    }

    /// Returns the events that a filter selects, after the first `after` events of the run, at most
    /// `limit` of them.
    ///
    /// The default reads the events of the run page by page and omits the others. A database selects
    /// them by their paths, so that it does not decode the others.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    async fn read_selected(
        &self,
        run: &RunId,
        filter: &EventFilter,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Event>, StoreError> {
        /// Number of events that are read at once.
        const PAGE: usize = 1000;
        let (mut found, mut after) = (Vec::new(), after);
        loop {
            let events = self.read(run, after, PAGE).await?;
            let is_last = events.len() < PAGE;
            after += events.len() as u64;
            for event in events {
                if found.len() >= limit {
                    return Ok(found);
                }
                if filter.admits(&event) {
                    found.push(event);
                }
            }
            if is_last {
                return Ok(found);
            }
        }
    }

    /// Stores a snapshot, which replaces the previous one. A store may drop it at any time.
    ///
    /// # Errors
    /// `fenced` if another writer has opened the run since; `too_large`. On an error, the run
    /// continues without the snapshot.
    async fn put_snapshot(
        &self,
        run: &RunId,
        epoch: Epoch,
        snapshot: Snapshot,
    ) -> Result<(), StoreError> {
        let _ = (run, epoch, snapshot);
        Ok(())
    }

    /// Returns the latest snapshot of a run; `None` if no readable snapshot or no such run exists.
    async fn snapshot(&self, run: &RunId) -> Result<Option<Snapshot>, StoreError> {
        let _ = run;
        Ok(None)
    }

    /// Stores the description of a workflow under its definition hash. Storing it again has no
    /// effect.
    async fn put_definition(&self, hash: &str, graph: String) -> Result<(), StoreError> {
        let _ = (hash, graph);
        Ok(())
    }

    /// Returns the description of a workflow with this definition hash.
    async fn definition(&self, hash: &str) -> Result<Option<String>, StoreError> {
        let _ = hash;
        Ok(None)
    }

    /// Returns a string that identifies the store. All handles of one store in a process return the
    /// same text, so that a run which is executed through one handle is found through the others.
    /// `None`: each handle is a separate store.
    fn identity(&self) -> Option<String> {
        None
    }

    /// Maximum size of an event as JSON, in bytes. An [`append`](Self::append) of a larger event
    /// fails as `too_large`. `None`: no limit.
    fn max_event_bytes(&self) -> Option<u64> {
        None
    }

    /// Sessions, if the store has them.
    fn sessions(&self) -> Option<&dyn SessionStore> {
        None
    }

    /// Artifacts, if the store has them.
    fn artifacts(&self) -> Option<&dyn ArtifactStore> {
        None
    }

    /// Values that outlive runs, if the store has them.
    fn state(&self) -> Option<&dyn StateStore> {
        None
    }

    /// Messages between processes, if the store has them.
    fn messages(&self) -> Option<&dyn MessageStore> {
        None
    }

    /// Knowledge of the process that executes a run, if the store has it.
    fn leases(&self) -> Option<&dyn LeaseStore> {
        None
    }

    /// Documents with versions, if the store has them.
    fn documents(&self) -> Option<&dyn DocumentStore> {
        None
    }
}

/// Closes a run without waiting. The store has received the request when this returns; a task of
/// `runtime` waits for the rest. A store that cannot be reached releases the run when this process
/// ends.
pub(crate) fn close_in_background(
    runtime: &tokio::runtime::Handle,
    store: &Arc<dyn Store>,
    run: &RunId,
    epoch: Epoch,
) {
    let (store, run) = (Arc::clone(store), run.clone());
    let mut closing = Box::pin(async move { store.close(&run, epoch).await });
    // The first poll sends the request, so that it is not lost if the runtime shuts down before the
    // task runs.
    if closing.as_mut().now_or_never().is_none() {
        runtime.spawn(closing);
    }
}

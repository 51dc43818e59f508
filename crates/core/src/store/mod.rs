//! Durable storage of runs.
//!
//! [`Store`] keeps the journal of each run: the events in order, written by one writer at a time,
//! which is identified by its [`Epoch`]. A commit is an [`Append`]; a [`Snapshot`] shortens the
//! journal for resuming. [`RunRecord`] and [`SessionRecord`] are the rows of lists, which
//! [`RunFilter`] and [`SessionFilter`] select. Optional parts store sessions, state, artifacts,
//! definitions of workflows, and messages between processes.
//!
//! A store only interprets the few events that change the status of a run ([`RunRecord::apply`]).
//! [`MemoryStore`] is the implementation in memory; [`StoreLayer`] wraps another store.

mod commit;
mod filter;
mod layer;
mod memory;
mod record;
mod session_record;
mod store_error;
pub(crate) mod store_file;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::FutureExt;

pub use self::commit::{Answered, Append, Epoch, MessageId, Snapshot, StateWrite, StoreMessage};
pub use self::filter::{RunFilter, RunList};
pub use self::layer::StoreLayer;
pub use self::memory::MemoryStore;
pub use self::record::{RunRecord, RunStatus};
pub use self::session_record::{SessionFilter, SessionRecord};
pub use self::store_error::{StoreError, StoreErrorKind};
#[doc(hidden)]
pub use self::store_file::open_store_file;
use crate::event::{Event, RunId};
use crate::value::Encoded;

/// Storage for the journals of runs.
///
/// While a run is executed, its events are appended to its journal; when it is resumed, they are
/// read. A store keeps them in order and accepts one writer at a time. It need not interpret them:
/// [`RunRecord`] computes the row of a run in a list.
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
///    `put_snapshot` and `receive` with another epoch than the run's fail as `fenced`. The epoch is
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
/// 6. **Sessions.** Only for a store that [supports sessions](Self::keeps_sessions). `create` of a
///    run that belongs to a session ([`RunRecord::session`]) fails as `session_busy` if another run
///    of the session has not ended, otherwise as `fenced` if its number is not the highest number
///    of the session plus 1, or 1 for the first run. `amend` fails as `session_busy` if an ended
///    run would continue while another run of its session has not ended. Both are checked in the
///    transaction that writes.
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
/// | [`keeps_sessions`](Self::keeps_sessions), [`delete_session`](Self::delete_session) | `false`; fails as `unsupported` | runs cannot belong to a session |
/// | [`session`](Self::session), [`sessions`](Self::sessions) | read a list of runs | starting a run of a session takes longer with each earlier run of the session |
/// | [`record`](Self::record) | reads the journal | looking up one run reads all of its events |
/// | [`list_with_unreadable`](Self::list_with_unreadable) | calls `list` | a run that cannot be read is omitted without notice |
/// | [`put_snapshot`](Self::put_snapshot), [`snapshot`](Self::snapshot) | store nothing | resuming reads the whole journal |
/// | [`put_definition`](Self::put_definition), [`definition`](Self::definition) | store nothing | when a workflow's code has changed, all of its nodes count as changed: `resume` lists all of them, and `Changes::AcceptAll` runs all of them again. `inspect` does not list the nodes that have not started |
/// | [`keeps_artifacts`](Self::keeps_artifacts), [`put_artifact`](Self::put_artifact), [`artifact`](Self::artifact) | not supported | a step that saves an artifact fails |
/// | [`keeps_state`](Self::keeps_state), [`put_state`](Self::put_state), [`state`](Self::state) | not supported | a step that reads or writes `user:` and `app:` state fails |
/// | [`identity`](Self::identity) | `None` | two runtimes in one process do not find each other's runs |
/// | [`holder`](Self::holder), [`knows_holders`](Self::knows_holders) | `None`, `false` | see below |
/// | [`max_event_bytes`](Self::max_event_bytes) | no limit | an event that is too large fails in `append` and stops the run, not its step |
/// | [`send`](Self::send), [`receive`](Self::receive), [`inbox`](Self::inbox), [`outcome`](Self::outcome), [`withdraw`](Self::withdraw), [`is_shared`](Self::is_shared) | `send` fails as `unsupported`, messages are not polled | a run can only be controlled in the process that executes it, or while no process executes it |
///
/// # A store that several processes share
///
/// This store adds three capabilities.
///
/// **Liveness.** The store knows which process has a run open: by a lock that ends with the
/// process, or by a lease that the process renews. While that process lives, `open` and `amend` in
/// another process fail as `busy`, and `holder` names the process. Within one process, opening
/// again fences off the previous writer. `close` releases the run. Without liveness, the process
/// that opens a run last owns it, and `recover` in a second process takes over the runs of the
/// first, which then stop as `fenced` at their next write. With `knows_holders`, a run of a session
/// does not wait for a run that no process executes.
///
/// **Messages.** A process that receives a control request for a run of another process sends a
/// message (`send`) and polls its `outcome`. The executing process polls its `inbox` 50 times a
/// second while it executes runs, once for all of them, if `is_shared` is true. It answers with
/// [`Append::answered`], in the commit with the events that follow from the message. A message
/// without an outcome is received again when the run is opened again. The commit that ends a run
/// removes its unanswered messages. Outcomes are stored until they are withdrawn; a store may
/// remove outcomes that are older than an hour. The text of a message is not needed after its
/// outcome is stored.
///
/// **Identity.** All handles of one store in a process return the same text, such as the address of
/// the server and the name of the database.
/// name of the database.
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

    /// Appends events, and answers messages in the same commit. A store without messages ignores
    /// the answers.
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

    /// Returns the runs that a filter selects, in the order of [`RunFilter::select`]. Runs that
    /// cannot be read are omitted.
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

    /// Returns `true` if the store supports sessions: it enforces the rule for sessions above.
    fn keeps_sessions(&self) -> bool {
        false
    }

    /// Returns the record of a session; `None` if the session does not exist.
    async fn session(&self, session: &str) -> Result<Option<SessionRecord>, StoreError> {
        Ok(SessionRecord::of(self.list(RunFilter::new().session(session)).await?))
    }

    /// Returns the sessions that a filter selects, in the order of [`SessionFilter::select`].
    async fn sessions(&self, filter: SessionFilter) -> Result<Vec<SessionRecord>, StoreError> {
        Ok(filter.select(session_record::group_by_session(self.list(RunFilter::new()).await?)))
    }

    /// Removes a session with all of its runs, in one transaction. Returns the number of removed
    /// runs.
    ///
    /// # Errors
    /// `not_found`; `session_busy` if one of its runs has not ended; `unsupported` if the store
    /// does not support sessions.
    async fn delete_session(&self, session: &str) -> Result<u64, StoreError> {
        let _ = session;
        Err(StoreError::sessions_unsupported())
    }

    /// Like [`list`](Self::list), and also returns the runs that cannot be read and may belong to
    /// the list.
    async fn list_with_unreadable(&self, filter: RunFilter) -> Result<RunList, StoreError> {
        Ok(RunList::new(self.list(filter).await?, Vec::new()))
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

    /// Returns `true` if the store supports values that outlive runs ([`Append::state`]). Such a
    /// store implements [`put_state`](Self::put_state) and [`state`](Self::state).
    fn keeps_state(&self) -> bool {
        false
    }

    /// Changes values that outlive runs, in one transaction, for changes outside of a run. If two
    /// calls or appends write the same key, the later one wins.
    ///
    /// # Errors
    /// `too_large`; `unsupported`.
    async fn put_state(&self, writes: Vec<StateWrite>) -> Result<(), StoreError> {
        let _ = writes;
        Err(StoreError::state_unsupported())
    }

    /// Returns the values of a user, or of the application if `user` is `None`, sorted by key.
    /// `key` selects a single value.
    async fn state(
        &self,
        user: Option<&str>,
        key: Option<&str>,
    ) -> Result<Vec<(String, Encoded)>, StoreError> {
        let _ = (user, key);
        Ok(Vec::new())
    }

    /// Returns `true` if the store supports artifacts. Such a store implements
    /// [`put_artifact`](Self::put_artifact) and [`artifact`](Self::artifact).
    fn keeps_artifacts(&self) -> bool {
        false
    }

    /// Stores bytes that a run saved, under their SHA-256 as 64 hexadecimal digits. Storing them
    /// again has no effect. The bytes belong to the run: other runs do not find them, and
    /// [`delete`](Self::delete) removes them with the run.
    ///
    /// # Errors
    /// `not_found`; `fenced` if another writer has opened the run since; `too_large`;
    /// `unsupported`.
    async fn put_artifact(
        &self,
        run: &RunId,
        epoch: Epoch,
        sha256: &str,
        bytes: Arc<[u8]>,
    ) -> Result<(), StoreError> {
        let _ = (run, epoch, sha256, bytes);
        Err(StoreError::artifacts_unsupported())
    }

    /// Returns the bytes that a run saved under a hash; `None` if the bytes or the run do not
    /// exist.
    ///
    /// # Errors
    /// `damaged` if the bytes do not match the hash.
    async fn artifact(&self, run: &RunId, sha256: &str) -> Result<Option<Arc<[u8]>>, StoreError> {
        let _ = (run, sha256);
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

    /// Describes the other living process that has a run open, for a person. Returns `None` if no
    /// such process exists or the store cannot detect it. If it cannot, a request from another
    /// process takes over the run, and the process that executes the run stops at its next write.
    /// For a run that waits for a person, that can be much later.
    async fn holder(&self, run: &RunId) -> Result<Option<String>, StoreError> {
        let _ = run;
        Ok(None)
    }

    /// Returns `true` if [`holder`](Self::holder) is reliable: if it returns `None` for a run that
    /// this process does not execute, no process has the run open.
    fn knows_holders(&self) -> bool {
        false
    }

    /// Maximum size of an event as JSON, in bytes. An [`append`](Self::append) of a larger event
    /// fails as `too_large`. `None`: no limit.
    fn max_event_bytes(&self) -> Option<u64> {
        None
    }

    /// Returns `true` if another process can send messages while this one executes runs, so that
    /// the runtime must poll the [`inbox`](Self::inbox). A store that supports messages and is used
    /// by several processes returns `true`.
    fn is_shared(&self) -> bool {
        false
    }

    /// Sends a message to the process that executes a run.
    ///
    /// # Errors
    /// `not_found`; `ended`; `too_large`; `unsupported` if the store does not support messages.
    async fn send(&self, run: &RunId, message: String) -> Result<MessageId, StoreError> {
        let _ = (run, message);
        Err(StoreError::messages_unsupported())
    }

    /// Returns the messages for a run that have no outcome yet, oldest first.
    ///
    /// # Errors
    /// `fenced` if another writer has opened the run since.
    async fn receive(&self, run: &RunId, epoch: Epoch) -> Result<Vec<StoreMessage>, StoreError> {
        let _ = (run, epoch);
        Ok(Vec::new())
    }

    /// Returns the messages without an outcome for all runs that this process has open, oldest
    /// first.
    async fn inbox(&self) -> Result<Vec<StoreMessage>, StoreError> {
        Ok(Vec::new())
    }

    /// Returns the outcome of a message; `None` if it is not answered yet or does not exist.
    async fn outcome(&self, message: MessageId) -> Result<Option<String>, StoreError> {
        let _ = message;
        Ok(None)
    }

    /// Withdraws a message, so that it has no effect. If the message was already answered, the
    /// outcome is returned and removed.
    async fn withdraw(&self, message: MessageId) -> Result<Option<String>, StoreError> {
        let _ = message;
        Ok(None)
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

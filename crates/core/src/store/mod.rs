//! Durable storage of runs: the [`Store`] trait, its data, and the implementation in memory.
//!
//! A store keeps the events of a run in order and fences its writers by an epoch. It interprets only the few events
//! that a run's status follows from ([`RunRecord::apply`]).

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
pub(crate) use self::store_file::open_store_file;
use crate::event::{Event, RunId};
use crate::value::Encoded;

/// Keeps the journals of runs.
///
/// While a run is executed, its events are appended to its journal; when it is resumed, they are read back. A store
/// keeps them in order and lets one writer at a time append. It need not understand them: what a list says of a run is
/// computed by [`RunRecord`].
///
/// # A first store
///
/// Six methods are required. This is a whole store, in memory:
///
/// ```
#[doc = include_str!("example_store.rs")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> agentflow::Result<()> {
///
/// let runtime = agentflow::Runtime::builder().store(MapStore::default()).build();
/// assert!(runtime.runs(RunFilter::unfinished()).await?.is_empty());
/// # Ok(())
/// # }
/// ```
///
/// `check_store` of the crate `agentflow-testing` tests a store against all rules of this page, and returns which
/// optional parts the store does not have. `check_store_reopened` tests one that outlives its process.
///
/// To change what another store does (count, encrypt, delay, fail), implement [`StoreLayer`] instead.
///
/// # Rules
///
/// 1. **One commit each.** [`create`](Self::create), [`open`](Self::open), [`append`](Self::append) and
///    [`amend`](Self::amend) do everything or nothing, and nobody sees half of it. Over a database each is one
///    transaction, over Redis one script. They return when the data is as durable as the store promises; the run goes
///    no further before.
/// 2. **One writer.** A run has an epoch, a number that `open` and `amend` raise. `append`, `put_snapshot` and
///    `receive` with another epoch than the run's fail as `fenced`. The epoch is compared in the transaction that
///    writes. It never falls, also not when the store is opened anew.
/// 3. **One place.** Events are numbered from 1 without gaps ([`Event::seq`]). `append` and `amend` say how many events
///    the run has (`after`); when it has another number they fail as `fenced` and write nothing. A store that repeats
///    an append itself, since it does not know whether the first one arrived, finds it there this way.
/// 4. **Ended runs.** `open` and `send` of a run that has ended fail as `ended`, as its [`RunStatus`] says in the same
///    transaction. `amend` takes it: retrying a failed run is one.
/// 5. **Events come back as they were.** Keep each as its JSON (`Event` implements serde's traits), one entry an event;
///    text may hold anything, also NUL. An event that cannot be read fails as `damaged`, one of a newer release as
///    `newer_version`; neither is left out of [`read`](Self::read).
/// 6. **Sessions.** Only for a store that [keeps sessions](Self::keeps_sessions). `create` of a run that is one of a session
///    ([`RunRecord::session`]) fails as `session_busy` when another run of the session has not ended, else as `fenced` when
///    its number is not one more than the highest of the session, or 1. `amend` fails as `session_busy` when it would let an
///    ended run continue while another one of its session has not ended. Both are checked in the transaction that writes.
/// 7. **Errors.** The [kind](StoreErrorKind) tells the runtime what happened; the text tells a person what to do. The
///    kinds of the rules have constructors: [`StoreError::not_found`], [`exists`](StoreError::exists),
///    [`ended`](StoreError::ended), [`busy`](StoreError::busy), [`fenced`](StoreError::fenced). After an `append` that
///    fails the run stops in this process and can be resumed; it is not repeated by the runtime.
///
/// # Futures
///
/// A dropped future leaves open whether its write happened, and never half of it. There is at most one `append` of a run
/// at a time, while calls for different runs come at the same time and from any thread: a store that waits for a disk or
/// a server once for all that arrived meanwhile is faster. A method must not block the thread that polls it.
///
/// # Optional methods
///
/// Each has a default, which costs something:
///
/// | method | default | cost |
/// | --- | --- | --- |
/// | [`close`](Self::close) | does nothing | none, unless `open` fails as `busy` |
/// | [`delete`](Self::delete) | fails as `unsupported` | runs cannot be deleted or purged |
/// | [`keeps_sessions`](Self::keeps_sessions), [`delete_session`](Self::delete_session) | `false`; fails as `unsupported` | no run can be one of a session |
/// | [`session`](Self::session), [`sessions`](Self::sessions) | read a list of runs | a run of a session begins slower with each one before it |
/// | [`record`](Self::record) | reads the journal | looking up one run reads all of its events |
/// | [`list_with_unreadable`](Self::list_with_unreadable) | calls `list` | a run that cannot be read is left out silently |
/// | [`put_snapshot`](Self::put_snapshot), [`snapshot`](Self::snapshot) | nothing is kept | resuming reads the whole journal |
/// | [`put_definition`](Self::put_definition), [`definition`](Self::definition) | nothing is kept | when a workflow's code has changed, all of its nodes count as changed: `resume` names all of them, and `Changes::AcceptAll` runs all of them again. `inspect` does not list the nodes that have not begun |
/// | [`keeps_artifacts`](Self::keeps_artifacts), [`put_artifact`](Self::put_artifact), [`artifact`](Self::artifact) | keeps none | a step that saves an artifact fails |
/// | [`keeps_state`](Self::keeps_state), [`put_state`](Self::put_state), [`state`](Self::state) | keeps none | a step that reads or writes `user:` and `app:` state fails |
/// | [`identity`](Self::identity) | `None` | two runtimes of one process do not find each other's runs |
/// | [`holder`](Self::holder), [`knows_holders`](Self::knows_holders) | `None`, `false` | see below |
/// | [`max_event_bytes`](Self::max_event_bytes) | no limit | an event that is too large fails in `append` and stops the run, not its step |
/// | [`send`](Self::send), [`receive`](Self::receive), [`inbox`](Self::inbox), [`outcome`](Self::outcome), [`withdraw`](Self::withdraw), [`is_shared`](Self::is_shared) | `send` fails as `unsupported`, nothing is looked for | a run is controlled only in the process that executes it, or when none does |
///
/// # A store that several processes share
///
/// Three things are added.
///
/// **Liveness.** The store knows which process has a run open: a lock that ends with the process, or a lease that it
/// renews. While that process lives, `open` and `amend` in another one fail as `busy`, and `holder` names it; within one
/// process, opening again fences off the writer before. `close` gives the run up. Without liveness the last process
/// that opens a run has it, and `recover` in a second process takes the runs of the first, which then stop as `fenced` at
/// their next write. With `knows_holders`, a run of a session is not left waiting for one that nobody executes.
///
/// **Messages.** A process that is asked to control a run which another one executes leaves a message (`send`) and looks
/// for its `outcome`. The executing process looks at its `inbox` 50 times a second while it executes runs, one
/// look for all of them, if `is_shared` is true. It answers with [`Append::answered`], in the commit that holds
/// the events which follow from the message. A message without an outcome is received again when the run is opened
/// again. The commit that ends a run removes its unanswered messages. Outcomes are kept until they are withdrawn; a
/// store may remove those that nobody withdrew for an hour. The text of a message is not needed once it has an outcome.
///
/// **Identity.** All handles of one store in a process return the same text, such as the address of the server and the
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
    /// `exists` when there is a run of this id.
    async fn create(&self, run: &RunId, events: Vec<Event>) -> Result<Epoch, StoreError>;

    /// Opens a run that has not ended for writing. The writer before is fenced off, unless it is in another process
    /// that is known to be alive.
    ///
    /// # Errors
    /// `not_found`; `ended`; `busy` when another living process has it open.
    async fn open(&self, run: &RunId) -> Result<Epoch, StoreError>;

    /// Appends events, and answers messages in the same commit. A store without messages ignores those.
    ///
    /// # Errors
    /// `not_found`; `fenced` when another writer has opened the run since, or the run has another number of events;
    /// `too_large`.
    async fn append(&self, run: &RunId, epoch: Epoch, append: Append) -> Result<(), StoreError>;

    /// Appends events to a run that no process executes, also to one that has ended. The writer before is fenced off.
    ///
    /// # Errors
    /// `not_found`; `busy` when another living process has it open; `fenced` when the run has another number of events.
    async fn amend(&self, run: &RunId, after: u64, events: Vec<Event>) -> Result<(), StoreError>;

    /// The events of a run after the first `after` ones, at most `limit`.
    ///
    /// # Errors
    /// `not_found`, `damaged`, `newer_version`.
    async fn read(&self, run: &RunId, after: u64, limit: usize) -> Result<Vec<Event>, StoreError>;

    /// The runs that a filter selects, in the order of [`RunFilter::select`]. A run that cannot be read is left out.
    async fn list(&self, filter: RunFilter) -> Result<Vec<RunRecord>, StoreError>;

    /// Gives up the right to write. With an old epoch it changes nothing.
    async fn close(&self, run: &RunId, epoch: Epoch) -> Result<(), StoreError> {
        let _ = (run, epoch);
        Ok(())
    }

    /// Removes a run that has ended, with its events, its snapshot and its messages, in one transaction. Definitions stay:
    /// other runs may have them.
    ///
    /// # Errors
    /// `not_found`; `unfinished` when it has not ended; `in_session` when it is a run of a session; `busy` when another living process has it open; `unsupported`
    /// where nothing is ever removed.
    async fn delete(&self, run: &RunId) -> Result<(), StoreError> {
        let _ = run;
        Err(StoreError::keeps_everything())
    }

    /// The record of a run; `None` when there is no such run.
    ///
    /// # Errors
    /// `damaged`, `newer_version`.
    async fn record(&self, run: &RunId) -> Result<Option<RunRecord>, StoreError> {
        /// How many events are read at once.
        const PAGE: usize = 1000;
        let mut events = match self.read(run, 0, PAGE).await {
            Ok(events) => events,
            Err(error) if error.kind() == StoreErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let Some(mut record) = RunRecord::from_events(&events) else { return Ok(None) };
        while events.len() == PAGE {
            events = self.read(run, record.events, PAGE).await?;
            events.iter().for_each(|event| record.apply(event));
        }
        Ok(Some(record))
    }

    /// Whether the store keeps the rule of sessions, so that runs can be those of a session.
    fn keeps_sessions(&self) -> bool {
        false
    }

    /// The record of a session; `None` when there is no such session.
    async fn session(&self, session: &str) -> Result<Option<SessionRecord>, StoreError> {
        Ok(SessionRecord::of(self.list(RunFilter::new().session(session)).await?))
    }

    /// The sessions that a filter selects, in the order of [`SessionFilter::select`].
    async fn sessions(&self, filter: SessionFilter) -> Result<Vec<SessionRecord>, StoreError> {
        Ok(filter.select(session_record::sessions_of(self.list(RunFilter::new()).await?)))
    }

    /// Removes a session with all of its runs, in one transaction, and returns how many there were.
    ///
    /// # Errors
    /// `not_found`; `session_busy` when one of its runs has not ended; `unsupported` where sessions are not kept.
    async fn delete_session(&self, session: &str) -> Result<u64, StoreError> {
        let _ = session;
        Err(StoreError::keeps_no_sessions())
    }

    /// Like [`list`](Self::list), with the runs that cannot be read and may belong to it.
    async fn list_with_unreadable(&self, filter: RunFilter) -> Result<RunList, StoreError> {
        Ok(RunList::new(self.list(filter).await?, Vec::new()))
    }

    /// Keeps a snapshot in the place of an earlier one. A store may drop it at any time.
    ///
    /// # Errors
    /// `fenced` when another writer has opened the run since; `too_large`. The run continues without the snapshot.
    async fn put_snapshot(&self, run: &RunId, epoch: Epoch, snapshot: Snapshot) -> Result<(), StoreError> {
        let _ = (run, epoch, snapshot);
        Ok(())
    }

    /// The newest snapshot of a run; `None` when there is none that can be read, or no such run.
    async fn snapshot(&self, run: &RunId) -> Result<Option<Snapshot>, StoreError> {
        let _ = run;
        Ok(None)
    }

    /// Whether it keeps values that outlive runs: those of [`Append::state`]. One that returns `true` has
    /// [`put_state`](Self::put_state) and [`state`](Self::state).
    fn keeps_state(&self) -> bool {
        false
    }

    /// Changes values that outlive runs, in one transaction: what a program sets outside of its runs. Of two that write one
    /// key the later one counts, as of two appends.
    ///
    /// # Errors
    /// `too_large`; `unsupported`.
    async fn put_state(&self, writes: Vec<StateWrite>) -> Result<(), StoreError> {
        let _ = writes;
        Err(StoreError::keeps_no_state())
    }

    /// The values of a user, or of the application, in the order of the keys: of one key, or all.
    async fn state(&self, user: Option<&str>, key: Option<&str>) -> Result<Vec<(String, Encoded)>, StoreError> {
        let _ = (user, key);
        Ok(Vec::new())
    }

    /// Whether it keeps artifacts. One that returns `true` has [`put_artifact`](Self::put_artifact) and
    /// [`artifact`](Self::artifact).
    fn keeps_artifacts(&self) -> bool {
        false
    }

    /// Keeps bytes that a run saved, under their SHA-256 of 64 hexadecimal digits. Keeping them again changes nothing. They
    /// are the run's: another one does not find them, and [`delete`](Self::delete) of the run removes them.
    ///
    /// # Errors
    /// `not_found`; `fenced` when another writer has opened the run since; `too_large`; `unsupported`.
    async fn put_artifact(&self, run: &RunId, epoch: Epoch, sha256: &str, bytes: Arc<[u8]>) -> Result<(), StoreError> {
        let _ = (run, epoch, sha256, bytes);
        Err(StoreError::keeps_no_artifacts())
    }

    /// The bytes that a run saved under a hash; `None` when there are none, or no such run.
    ///
    /// # Errors
    /// `damaged` when they do not have the hash.
    async fn artifact(&self, run: &RunId, sha256: &str) -> Result<Option<Arc<[u8]>>, StoreError> {
        let _ = (run, sha256);
        Ok(None)
    }

    /// Keeps the description of a workflow under its definition hash. Keeping one again changes nothing.
    async fn put_definition(&self, hash: &str, graph: String) -> Result<(), StoreError> {
        let _ = (hash, graph);
        Ok(())
    }

    /// The description of a workflow by its definition hash.
    async fn definition(&self, hash: &str) -> Result<Option<String>, StoreError> {
        let _ = hash;
        Ok(None)
    }

    /// A text that identifies the store: handles of one store in one process return the same, so that a run which one
    /// of them executes is found through all of them. `None` when the handle itself is the store.
    fn identity(&self) -> Option<String> {
        None
    }

    /// The other living process that has a run open, in words for a person; `None` when there is none or the store
    /// cannot know. Where it cannot, a request from another process takes the run over, and the process that executes it
    /// stops at its next write: for a run that waits for a person, that may be long after.
    async fn holder(&self, run: &RunId) -> Result<Option<String>, StoreError> {
        let _ = run;
        Ok(None)
    }

    /// Whether no process has a run open when this one does not execute it and [`holder`](Self::holder) is `None`.
    fn knows_holders(&self) -> bool {
        false
    }

    /// The most bytes that one event may have as JSON; an [`append`](Self::append) of a larger one fails as
    /// `too_large`.
    fn max_event_bytes(&self) -> Option<u64> {
        None
    }

    /// Whether another process may leave messages while this one executes runs, so that the
    /// [`inbox`](Self::inbox) has to be looked at. A store that takes messages and that several processes use returns
    /// `true`.
    fn is_shared(&self) -> bool {
        false
    }

    /// Leaves a message for the process that executes a run.
    ///
    /// # Errors
    /// `not_found`; `ended`; `too_large`; `unsupported` when the store takes no messages.
    async fn send(&self, run: &RunId, message: String) -> Result<MessageId, StoreError> {
        let _ = (run, message);
        Err(StoreError::takes_no_messages())
    }

    /// The messages for a run that have no outcome yet, the oldest first.
    ///
    /// # Errors
    /// `fenced` when another writer has opened the run since.
    async fn receive(&self, run: &RunId, epoch: Epoch) -> Result<Vec<StoreMessage>, StoreError> {
        let _ = (run, epoch);
        Ok(Vec::new())
    }

    /// The messages for all runs that this process has open and that have no outcome yet, the oldest first.
    async fn inbox(&self) -> Result<Vec<StoreMessage>, StoreError> {
        Ok(Vec::new())
    }

    /// The outcome of a message; `None` when there is none yet, or no such message.
    async fn outcome(&self, message: MessageId) -> Result<Option<String>, StoreError> {
        let _ = message;
        Ok(None)
    }

    /// Takes a message back: it has no effect, unless it has an outcome, which is returned and forgotten.
    async fn withdraw(&self, message: MessageId) -> Result<Option<String>, StoreError> {
        let _ = message;
        Ok(None)
    }
}

/// Closes a run without waiting: the store has the request when this returns, and a task of `runtime` waits for the
/// rest. A store that cannot be reached learns that the run is free when this process ends.
pub(crate) fn close_in_background(runtime: &tokio::runtime::Handle, store: &Arc<dyn Store>, run: &RunId, epoch: Epoch) {
    let (store, run) = (Arc::clone(store), run.clone());
    let mut closing = Box::pin(async move { store.close(&run, epoch).await });
    if closing.as_mut().now_or_never().is_none() {
        runtime.spawn(closing);
    }
}

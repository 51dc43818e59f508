//! [`StoreError`] and its kinds. The runtime decides by the kind how to react.

use std::fmt;
use std::sync::Arc;

use super::RunStatus;
use crate::event::RunId;
use crate::path::StepPath;

/// Error of a store. Its text describes the problem and the solution.
///
/// ```
/// use agentflow::store::{StoreError, StoreErrorKind};
///
/// let error = StoreError::new(StoreErrorKind::Io, "the disk is full; free some space");
/// assert_eq!(error.kind(), StoreErrorKind::Io);
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct StoreError {
    kind: StoreErrorKind,
    message: String,
    #[source]
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

/// Kind of a [`StoreError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// A run with this id exists.
    Exists,
    /// No run has this id.
    NotFound,
    /// The run has ended.
    Ended,
    /// The run has not ended.
    Unfinished,
    /// A living process has the run open.
    Busy,
    /// The run was opened by another writer since.
    Fenced,
    /// The session has another run that has not ended.
    SessionBusy,
    /// The run belongs to a session, which can only be deleted as a whole.
    InSession,
    /// The data cannot be read.
    Damaged,
    /// The data was written by a newer release.
    NewerVersion,
    /// The disk or the quota of the store is full.
    Full,
    /// An event, a snapshot or a message exceeds the size limit of the store.
    TooLarge,
    /// The file of the store was deleted, moved or replaced while it was open.
    Replaced,
    /// The store was locked by another process for longer than the waiting time.
    Locked,
    /// The store does not support this optional part, such as messages.
    Unsupported,
    /// The server of the store cannot be reached, or the connection was lost. The message states
    /// if a write may have happened.
    Unreachable,
    /// Any other error, such as of the disk.
    Io,
}

impl StoreErrorKind {
    /// Returns the kind as a word, such as `fenced`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exists => "exists",
            Self::NotFound => "not_found",
            Self::Ended => "ended",
            Self::Unfinished => "unfinished",
            Self::Busy => "busy",
            Self::Fenced => "fenced",
            Self::SessionBusy => "session_busy",
            Self::InSession => "in_session",
            Self::Damaged => "damaged",
            Self::NewerVersion => "newer_version",
            Self::Full => "full",
            Self::TooLarge => "too_large",
            Self::Replaced => "replaced",
            Self::Locked => "locked",
            Self::Unsupported => "unsupported",
            Self::Unreachable => "unreachable",
            Self::Io => "io",
        }
    }
}

impl fmt::Display for StoreErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl StoreError {
    /// Creates an error with a message.
    pub fn new(kind: StoreErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), source: None }
    }

    /// Creates the error for looking up a run in a runtime without a store.
    pub(crate) fn no_store() -> Self {
        Self::new(
            StoreErrorKind::NotFound,
            "this runtime has no store, so runs cannot be found by their id; give it one with `Runtime::builder().store(..)`",
        )
    }

    /// Sets the source of the error.
    #[must_use]
    pub fn caused_by(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// The kind of the error.
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }

    /// Creates the error for a run that does not exist.
    pub fn not_found(run: &RunId) -> Self {
        Self::new(StoreErrorKind::NotFound, format!("there is no run `{run}` in this store"))
    }

    /// Creates the error for a run that has ended.
    pub fn ended(run: &RunId, status: RunStatus) -> Self {
        Self::new(StoreErrorKind::Ended, format!("the run `{run}` is over ({status})"))
    }

    /// Creates the error for a run that has not ended.
    pub fn unfinished(run: &RunId, status: RunStatus) -> Self {
        Self::new(
            StoreErrorKind::Unfinished,
            format!("the run `{run}` has not ended ({status}); cancel it first"),
        )
    }

    /// Creates the error for creating a run from events that do not start with `run.started`.
    pub fn not_a_start(run: &RunId) -> Self {
        Self::new(
            StoreErrorKind::Io,
            format!("the run `{run}` cannot be created: its first event is not `run.started`"),
        )
    }

    /// Creates the error for a run that already exists.
    pub fn exists(run: &RunId) -> Self {
        Self::new(
            StoreErrorKind::Exists,
            format!("there is a run `{run}` in this store; start under another id, or resume it"),
        )
    }

    /// Creates the error for a writer that was replaced by another one.
    pub fn fenced(run: &RunId) -> Self {
        Self::new(
            StoreErrorKind::Fenced,
            format!(
                "the run `{run}` was resumed by another writer; this one has stopped and has written nothing since"
            ),
        )
    }

    /// Creates the error for an event that exceeds the size limit of the store.
    pub fn too_large(run: &RunId, path: &StepPath, bytes: u64, limit: u64) -> Self {
        let at = if path.is_root() { "the run itself".to_owned() } else { format!("`{path}`") };
        Self::new(
            StoreErrorKind::TooLarge,
            format!(
                "an event of {at} in the run `{run}` has {bytes} bytes and the store takes at most {limit}; nothing of it was written; keep large data elsewhere and record where it is, or give the store a higher limit"
            ),
        )
    }

    /// Creates the error for a run that another living process has open.
    pub fn busy(run: &RunId, owner: &str) -> Self {
        Self::new(
            StoreErrorKind::Busy,
            format!(
                "the run `{run}` is being executed by {owner}; cancel it there, or wait for its end"
            ),
        )
    }

    /// Creates the error for starting or continuing a run in a session with an unfinished run.
    pub fn session_busy(session: &str, unfinished: &RunId) -> Self {
        Self::new(
            StoreErrorKind::SessionBusy,
            format!(
                "the run `{unfinished}` of the session `{session}` has not ended; wait for its end with \
                 `Session::waiting`, resume it when its process has ended, or cancel it"
            ),
        )
    }

    /// Creates the error for a session whose unfinished run is not executed by any process.
    pub(crate) fn session_abandoned(session: &str, unfinished: &RunId) -> Self {
        Self::new(
            StoreErrorKind::SessionBusy,
            format!(
                "the run `{unfinished}` of the session `{session}` has not ended and nobody executes it, since its process \
                 has ended or its future was dropped; resume it with `RunRef::resume`, or cancel it with `RunRef::cancel`"
            ),
        )
    }

    /// Creates the error for a run whose number is not the next one of its session, since another
    /// run has started.
    pub fn session_moved(session: &str, number: u64) -> Self {
        Self::new(
            StoreErrorKind::Fenced,
            format!(
                "the session `{session}` has moved on: {number} is not the number of its next run"
            ),
        )
    }

    /// Creates the error for deleting a run of a session on its own.
    pub fn in_session(run: &RunId, session: &str) -> Self {
        Self::new(
            StoreErrorKind::InSession,
            format!(
                "the run `{run}` is one of the session `{session}`; delete the session with `delete_session`"
            ),
        )
    }

    /// Creates the error for a session that does not exist.
    pub fn no_session(session: &str) -> Self {
        Self::new(
            StoreErrorKind::NotFound,
            format!("there is no session `{session}` in this store"),
        )
    }

    /// Creates the error for continuing a session of another caller.
    pub(crate) fn session_not_owned(session: &str) -> Self {
        Self::new(
            StoreErrorKind::NotFound,
            format!(
                "this caller has no session `{session}`: it belongs to another caller; to continue it all the same, say \
                 `Session::shared`"
            ),
        )
    }

    /// Creates the error for a run of a session in a runtime without a store.
    pub(crate) fn no_store_for_sessions() -> Self {
        Self::new(
            StoreErrorKind::Unsupported,
            "a session is kept in a store and this runtime has none; give it one with `Runtime::builder().store(..)`",
        )
    }

    /// Creates the error of a store without support for sessions.
    pub(super) fn sessions_unsupported() -> Self {
        Self::new(
            StoreErrorKind::Unsupported,
            "this store keeps no sessions; give the runtime a store with leases, such as `SqliteStore` or `MemoryStore`",
        )
    }

    /// Creates the error of a store that cannot delete runs.
    pub(super) fn delete_unsupported() -> Self {
        Self::new(
            StoreErrorKind::Unsupported,
            "this store cannot delete runs; delete them by its own means",
        )
    }

    /// Creates the error for a user of a [`Memory`](crate::memory::Memory) who already has `most`
    /// entries, the limit.
    pub fn too_many_memories(most: usize) -> Self {
        Self::new(
            StoreErrorKind::Full,
            format!("this user has {most} memories, which is the limit; delete some"),
        )
    }

    /// Creates the error of a store without support for values that outlive runs.
    pub(super) fn state_unsupported() -> Self {
        Self::new(
            StoreErrorKind::Unsupported,
            "this store keeps no values that outlive runs; give the runtime a store with leases, such as `SqliteStore` or \
             `MemoryStore`",
        )
    }

    pub(super) fn artifacts_unsupported() -> Self {
        Self::new(
            StoreErrorKind::Unsupported,
            "this store keeps no artifacts; give the runtime a store with leases, such as `SqliteStore` or `MemoryStore`",
        )
    }

    pub(super) fn documents_unsupported() -> Self {
        Self::new(
            StoreErrorKind::Unsupported,
            "this store keeps no documents; give the runtime a store that does, such as `SqliteStore` or `MemoryStore`",
        )
    }

    pub(super) fn leases_unsupported() -> Self {
        Self::new(
            StoreErrorKind::Unsupported,
            "this store does not record which process executes a run; give the runtime a store with leases, such as `SqliteStore`",
        )
    }

    pub(super) fn messages_unsupported() -> Self {
        Self::new(
            StoreErrorKind::Unsupported,
            "this store takes no control requests from other processes; make the request in the process that executes the run, or give both a store that takes messages, such as `SqliteStore`",
        )
    }
}

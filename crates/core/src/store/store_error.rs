//! `StoreError`: why a store could not do a request. It never decides how the caller reacts.

use std::fmt;
use std::sync::Arc;

use super::RunStatus;
use crate::event::RunId;
use crate::path::StepPath;

/// Why a store could not do what it was asked. Shown with `{}` it says what to do.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct StoreError {
    kind: StoreErrorKind,
    message: String,
    #[source]
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

/// The class of a [`StoreError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// There is a run of this id.
    Exists,
    /// There is no run of this id.
    NotFound,
    /// The run has ended.
    Ended,
    /// The run has not ended.
    Unfinished,
    /// A living process has the run open.
    Busy,
    /// Another writer has opened the run since.
    Fenced,
    /// Another run of the session has not ended.
    SessionBusy,
    /// The run belongs to a session, which is deleted as a whole.
    InSession,
    /// The data cannot be read.
    Damaged,
    /// The data was written by a newer release.
    NewerVersion,
    /// There is no room left.
    Full,
    /// One event, snapshot or message is larger than the store takes.
    TooLarge,
    /// The file of the store was deleted, moved or replaced while it was open.
    Replaced,
    /// The store is locked by another process for longer than was waited.
    Locked,
    /// The store does not have this optional part, such as messages.
    Unsupported,
    /// Anything else: the disk, the network.
    Io,
}

impl StoreErrorKind {
    /// The class as a word, such as `fenced`.
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
    /// An error of a class, with a sentence.
    pub fn new(kind: StoreErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), source: None }
    }

    /// A runtime without a store is asked for a run by its id.
    pub(crate) fn no_store() -> Self {
        Self::new(
            StoreErrorKind::NotFound,
            "this runtime has no store, so runs cannot be found by their id; give it one with `Runtime::builder().store(..)`",
        )
    }

    /// Keeps the cause.
    #[must_use]
    pub fn caused_by(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// The class.
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }

    /// There is no such run.
    pub fn not_found(run: &RunId) -> Self {
        Self::new(StoreErrorKind::NotFound, format!("there is no run `{run}` in this store"))
    }

    /// The run has ended.
    pub fn ended(run: &RunId, status: RunStatus) -> Self {
        Self::new(StoreErrorKind::Ended, format!("the run `{run}` is over ({status})"))
    }

    /// The run has not ended.
    pub fn unfinished(run: &RunId, status: RunStatus) -> Self {
        Self::new(StoreErrorKind::Unfinished, format!("the run `{run}` has not ended ({status}); cancel it first"))
    }

    /// A run cannot be created from events that do not begin with `run.started`.
    pub fn not_a_start(run: &RunId) -> Self {
        Self::new(
            StoreErrorKind::Io,
            format!("the run `{run}` cannot be created: its first event is not `run.started`"),
        )
    }

    /// There is such a run.
    pub fn exists(run: &RunId) -> Self {
        Self::new(
            StoreErrorKind::Exists,
            format!("there is a run `{run}` in this store; start under another id, or resume it"),
        )
    }

    /// Another writer has the run.
    pub fn fenced(run: &RunId) -> Self {
        Self::new(
            StoreErrorKind::Fenced,
            format!(
                "the run `{run}` was resumed by another writer; this one has stopped and has written nothing since"
            ),
        )
    }

    /// An event has more bytes than the store takes.
    pub fn too_large(run: &RunId, path: &StepPath, bytes: u64, limit: u64) -> Self {
        let at = if path.is_root() { "the run itself".to_owned() } else { format!("`{path}`") };
        Self::new(
            StoreErrorKind::TooLarge,
            format!(
                "an event of {at} in the run `{run}` has {bytes} bytes and the store takes at most {limit}; nothing of it was written; keep large data elsewhere and record where it is, or give the store a higher limit"
            ),
        )
    }

    /// A living process has the run open.
    pub fn busy(run: &RunId, owner: &str) -> Self {
        Self::new(
            StoreErrorKind::Busy,
            format!("the run `{run}` is being executed by {owner}; cancel it there, or wait for its end"),
        )
    }

    /// A run cannot begin, or continue after its end, in a session in which another one has not ended.
    pub fn session_busy(session: &str, unfinished: &RunId) -> Self {
        Self::new(
            StoreErrorKind::SessionBusy,
            format!(
                "the run `{unfinished}` of the session `{session}` has not ended; wait for its end with \
                 `Session::waiting`, resume it when its process has ended, or cancel it"
            ),
        )
    }

    /// Another run of the session is unfinished, and no process executes it.
    pub(crate) fn session_left(session: &str, unfinished: &RunId) -> Self {
        Self::new(
            StoreErrorKind::SessionBusy,
            format!(
                "the run `{unfinished}` of the session `{session}` has not ended and nobody executes it, since its process \
                 has ended or its future was dropped; resume it with `Runtime::resume`, or cancel it with `Runtime::cancel`"
            ),
        )
    }

    /// Another run has begun in the session since it was looked at, or its number is not the next one.
    pub fn session_moved(session: &str, number: u64) -> Self {
        Self::new(
            StoreErrorKind::Fenced,
            format!("the session `{session}` has moved on: {number} is not the number of its next run"),
        )
    }

    /// A run of a session is not deleted alone.
    pub fn in_session(run: &RunId, session: &str) -> Self {
        Self::new(
            StoreErrorKind::InSession,
            format!("the run `{run}` is one of the session `{session}`; delete the session with `delete_session`"),
        )
    }

    /// There is no such session.
    pub fn no_session(session: &str) -> Self {
        Self::new(StoreErrorKind::NotFound, format!("there is no session `{session}` in this store"))
    }

    /// Creates the error of a run whose session belongs to another caller.
    pub(crate) fn session_of_another(session: &str) -> Self {
        Self::new(
            StoreErrorKind::NotFound,
            format!(
                "this caller has no session `{session}`: it belongs to another caller; to continue it all the same, say \
                 `Session::shared`"
            ),
        )
    }

    /// A run of a session is asked for in a runtime without a store.
    pub(crate) fn no_store_for_sessions() -> Self {
        Self::new(
            StoreErrorKind::Unsupported,
            "a session is kept in a store and this runtime has none; give it one with `Runtime::builder().store(..)`",
        )
    }

    /// The store keeps no sessions.
    pub(crate) fn keeps_no_sessions() -> Self {
        Self::new(
            StoreErrorKind::Unsupported,
            "this store keeps no sessions; give the runtime one that does, such as `SqliteStore` or `MemoryStore`",
        )
    }

    /// The store removes nothing.
    pub(super) fn keeps_everything() -> Self {
        Self::new(StoreErrorKind::Unsupported, "this store cannot delete runs; delete them by its own means")
    }

    /// A user of a [`Memory`](crate::memory::Memory) has `most` entries, the most that it keeps.
    pub fn too_many_memories(most: usize) -> Self {
        Self::new(StoreErrorKind::Full, format!("this user has {most} memories, which is the limit; delete some"))
    }

    /// The store takes no messages.
    pub(crate) fn keeps_no_state() -> Self {
        Self::new(
            StoreErrorKind::Unsupported,
            "this store keeps no values that outlive runs; give the runtime one that does, such as `SqliteStore` or \
             `MemoryStore`",
        )
    }

    pub(crate) fn keeps_no_artifacts() -> Self {
        Self::new(
            StoreErrorKind::Unsupported,
            "this store keeps no artifacts; give the runtime one that does, such as `SqliteStore` or `MemoryStore`",
        )
    }

    pub(super) fn takes_no_messages() -> Self {
        Self::new(
            StoreErrorKind::Unsupported,
            "this store takes no control requests from other processes; make the request in the process that executes the run, or give both a store that takes messages, such as `SqliteStore`",
        )
    }
}

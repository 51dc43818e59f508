#![doc = include_str!("../docs/sessions.md")]
// What a request says of its session, and how much of the history a model is given. It reads no store and starts nothing:
// `agent/session_run.rs` begins a run in a session, `runtime/known_sessions.rs` looks at sessions by their ids.

mod export;
mod past;
mod summary;

use std::fmt;
use std::sync::Arc;

pub use self::export::{SessionExport, SessionRun};
pub(crate) use self::past::{PastRun, Window};
pub(crate) use self::summary::{summary_message, transcript};
use crate::error::Result;
use crate::event::RunId;
pub use crate::event::{SessionArtifact, SessionPlace, SessionWindow, Summary};
pub use crate::store::{SessionFilter, SessionRecord};
use crate::store::{StoreError, StoreErrorKind};

/// The session that a run is to be one of: given to
/// [`RunRequest::session`](crate::agent::RunRequest::session). A text is the session's id.
///
/// | to | say |
/// | --- | --- |
/// | continue a session, and begin it when no session has this id | `"customer-17"`, or [`Session::new`] |
/// | continue one, and fail when no session has this id | [`Session::existing`] |
/// | begin one under a new id, which [`RunResult::session`](crate::run::RunResult::session) returns | [`Session::begin`] |
/// | continue behind an earlier run and leave the later ones beside | [`after`](Self::after) |
/// | continue a session of another caller | [`shared`](Self::shared) |
///
/// A session belongs to the caller of its first run ([`SessionRecord::caller`]). A run of another caller is
/// refused unless the session is [`shared`](Self::shared). An id is a name and no proof of anything, so give each run the
/// [caller](crate::agent::RunRequest::caller) that it is for.
#[derive(Clone, PartialEq, Eq)]
#[doc(alias = "SessionContext")]
#[doc(alias = "thread")]
pub struct Session {
    pub(crate) id: Option<Arc<str>>,
    pub(crate) must_exist: bool,
    pub(crate) after: Option<RunId>,
    pub(crate) waits: bool,
    /// Allows a session of another caller.
    pub(crate) is_shared: bool,
    pub(crate) window: SessionWindow,
    pub(crate) summary: Option<Arc<Summary>>,
}

impl Session {
    /// The longest id, in bytes.
    pub const MAX_ID: usize = 512;

    fn of(id: Option<Arc<str>>, must_exist: bool) -> Self {
        Self {
            id,
            must_exist,
            after: None,
            waits: false,
            is_shared: false,
            window: SessionWindow::default(),
            summary: None,
        }
    }

    /// The session of this id, as a text alone is: continued when there is one, else begun. [`existing`](Self::existing)
    /// is refused when no session has the id, and [`begin`](Self::begin) makes an id that no session has.
    pub fn new(id: impl Into<Arc<str>>) -> Self {
        Self::of(Some(id.into()), false)
    }

    /// A new session under an id that the runtime makes.
    pub fn begin() -> Self {
        Self::of(None, false)
    }

    /// A session that must be there: a run is refused when no session has this id.
    pub fn existing(id: impl Into<Arc<str>>) -> Self {
        Self::of(Some(id.into()), true)
    }

    /// Continues behind this run of the session, as if the later ones had not been: a branch. They stay as they are, and
    /// `after` with the last of them continues there again. Default: behind the completed run with the highest number.
    #[must_use]
    pub fn after(mut self, run: RunId) -> Self {
        self.after = Some(run);
        self
    }

    /// Waits while another run of the session has not ended, instead of being refused. Those of one process that wait
    /// begin in the order in which they asked. The time limit of the run counts from here. A run that was cancelled while
    /// it waited has not begun, and the store does not have it. A run in the way that nobody executes is not waited for:
    /// this one is refused, and the error says so.
    #[must_use]
    pub fn waiting(mut self) -> Self {
        self.waits = true;
        self
    }

    /// Allows a session of another caller: the run reads and continues its history. Use it for sessions that several people
    /// share, and in programs that check access themselves. The session still belongs to its first caller. Default: a run of
    /// another caller is refused with `not_found`.
    #[must_use]
    pub fn shared(mut self) -> Self {
        self.is_shared = true;
        self
    }

    /// How much of the history the model is given. Default: [`SessionWindow::default`].
    #[must_use]
    pub fn window(mut self, window: SessionWindow) -> Self {
        self.window = window;
        self
    }

    /// Sums up what the window has no room for, in place of leaving it out. Default: it is left out.
    #[must_use]
    pub fn summarized(mut self, summary: Summary) -> Self {
        self.summary = Some(Arc::new(summary));
        self
    }

    /// Where a run stands that begins now.
    ///
    /// # Errors
    /// `not_found` when there is no such session and there must be one, or `after` is set, and when the session belongs to
    /// another caller and is not shared; `session_busy` while another run
    /// is unfinished. By the time the store is asked to begin this one, that run may be over: a place that was chosen
    /// before would leave out what it added.
    pub(crate) fn place(
        &self,
        id: &Arc<str>,
        run: &RunId,
        caller: Option<&str>,
        known: Option<&SessionRecord>,
    ) -> Result<SessionPlace, StoreError> {
        match known {
            // Checked first: the other errors reveal that the session exists.
            Some(known) if !self.is_shared && known.caller.as_deref() != caller => {
                Err(StoreError::session_of_another(id))
            }
            None if self.must_exist || self.after.is_some() => Err(StoreError::no_session(id)),
            None => Ok(SessionPlace::new(Arc::clone(id), 1, None)),
            Some(known) => {
                if let Some(unfinished) = known.unfinished.as_ref().filter(|unfinished| *unfinished != run) {
                    return Err(StoreError::session_busy(id, unfinished));
                }
                let after = self.after.clone().or_else(|| known.head.clone());
                Ok(SessionPlace::new(Arc::clone(id), known.runs + 1, after))
            }
        }
    }

    /// Whether the id can be one.
    ///
    /// # Errors
    /// `io` for one that is empty or too long.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        let problem = match self.id.as_ref().map(|id| id.len()) {
            Some(0) => "a session's id is empty; give it one, or begin one with `Session::begin`".to_owned(),
            Some(bytes) if bytes > Self::MAX_ID => {
                format!("a session's id has {bytes} bytes; it may have {} at most", Self::MAX_ID)
            }
            _ => return Ok(()),
        };
        Err(StoreError::new(StoreErrorKind::Io, problem))
    }
}

impl From<&str> for Session {
    fn from(id: &str) -> Self {
        Self::new(id)
    }
}

impl From<String> for Session {
    fn from(id: String) -> Self {
        Self::new(id)
    }
}

impl From<&String> for Session {
    fn from(id: &String) -> Self {
        Self::new(id.as_str())
    }
}

impl From<Arc<str>> for Session {
    fn from(id: Arc<str>) -> Self {
        Self::new(id)
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("id", &self.id)
            .field("after", &self.after)
            .field("waits", &self.waits)
            .field("window", &self.window)
            .field("summary", &self.summary)
            .finish_non_exhaustive()
    }
}

#![doc = include_str!("../docs/sessions.md")]
// The session options of a request, and the part of the history that a model receives. [`Session`]
// is the option of a request. `past` fills the window of the history, `summary` contains the text
// for summaries, and `export` defines a session as data. The module is pure: `agent/session_run.rs`
// starts a run in a session, and `runtime/sessions.rs` reads sessions from the store.

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

/// The session of a run, for [`RunRequest::session`](crate::agent::RunRequest::session). A string
/// converts into a session with this id.
///
/// | to | use |
/// | --- | --- |
/// | continue a session, or create it if it does not exist | `"customer-17"`, or [`Session::new`] |
/// | continue a session, or fail if it does not exist | [`Session::existing`] |
/// | create a session with a new id, which [`RunResult::session`](crate::run::RunResult::session) returns | [`Session::begin`] |
/// | continue after an earlier run, as a branch | [`after`](Self::after) |
/// | continue a session of another caller | [`shared`](Self::shared) |
///
/// A session belongs to the caller of its first run ([`SessionRecord::caller`]). A run of another
/// caller is refused unless the session is [`shared`](Self::shared). An id does not authenticate
/// anyone, so set the [caller](crate::agent::RunRequest::caller) of each run.
///
/// ```
/// use agentflow::agent::RunRequest;
/// use agentflow::prelude::*;
/// use agentflow::session::Session;
/// use agentflow::store::MemoryStore;
/// use agentflow_testing::{ScriptedModel, Turn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// let runtime = Runtime::builder().store(MemoryStore::new()).build();
/// let model = ScriptedModel::new([Turn::text("Hello, Ada."), Turn::text("You are Ada.")]);
/// let agent = Agent::new(model).runtime(&runtime);
/// agent.run(RunRequest::new("I am Ada.").session("customer-17")).await?;
/// let again = RunRequest::new("Who am I?").session(Session::existing("customer-17"));
/// assert_eq!(agent.run(again).await?.output(), "You are Ada.");
/// # Ok(())
/// # }
/// ```
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
    /// Maximum length of an id, in bytes.
    pub const MAX_ID: usize = 512;

    fn with_id(id: Option<Arc<str>>, must_exist: bool) -> Self {
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

    /// Uses the session with this id, like a string: it is continued if it exists, and created
    /// otherwise. [`existing`](Self::existing) requires that it exists, and [`begin`](Self::begin)
    /// creates a session with a new id.
    pub fn new(id: impl Into<Arc<str>>) -> Self {
        Self::with_id(Some(id.into()), false)
    }

    /// Creates a new session with an id from the runtime.
    pub fn begin() -> Self {
        Self::with_id(None, false)
    }

    /// Uses an existing session: a run is refused if no session has this id.
    pub fn existing(id: impl Into<Arc<str>>) -> Self {
        Self::with_id(Some(id.into()), true)
    }

    /// Continues after this run of the session and ignores later runs, which creates a branch. The
    /// later runs are not changed; `after` with the last of them continues there again. Default:
    /// after the completed run with the highest number.
    #[must_use]
    pub fn after(mut self, run: RunId) -> Self {
        self.after = Some(run);
        self
    }

    /// Waits while another run of the session is unfinished, instead of being refused. Waiting runs
    /// of a process start in the order of their requests. The time limit of the run includes the
    /// wait. A run that was cancelled while it waited has not started and is not in the store. If
    /// no process executes the unfinished run, this run does not wait: it is refused with an error
    /// that names the reason.
    #[must_use]
    pub fn waiting(mut self) -> Self {
        self.waits = true;
        self
    }

    /// Allows a session of another caller: the run reads and continues its history. Use it for
    /// sessions that several people share, and in programs that check access themselves. The
    /// session still belongs to its first caller. Default: a run of another caller is refused with
    /// `not_found`.
    #[must_use]
    pub fn shared(mut self) -> Self {
        self.is_shared = true;
        self
    }

    /// Sets the part of the history that the model receives. Default: [`SessionWindow::default`].
    #[must_use]
    pub fn window(mut self, window: SessionWindow) -> Self {
        self.window = window;
        self
    }

    /// Summarizes the part of the history that does not fit in the window. Default: it is omitted.
    #[must_use]
    pub fn summarized(mut self, summary: Summary) -> Self {
        self.summary = Some(Arc::new(summary));
        self
    }

    /// Returns the place in the session of a run that starts now.
    ///
    /// # Errors
    /// `not_found` if the session does not exist although it must or `after` is set, and if the
    /// session belongs to another caller and is not shared. `session_busy` while another run is
    /// unfinished: a place that was computed before that run ends would omit its messages.
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
                Err(StoreError::session_not_owned(id))
            }
            None if self.must_exist || self.after.is_some() => Err(StoreError::no_session(id)),
            None => Ok(SessionPlace::new(Arc::clone(id), 1, None)),
            Some(known) => {
                if let Some(unfinished) =
                    known.unfinished.as_ref().filter(|unfinished| *unfinished != run)
                {
                    return Err(StoreError::session_busy(id, unfinished));
                }
                let after = self.after.clone().or_else(|| known.head.clone());
                Ok(SessionPlace::new(Arc::clone(id), known.runs + 1, after))
            }
        }
    }

    /// Checks the length of the id.
    ///
    /// # Errors
    /// `io` if the id is empty or too long.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        let problem = match self.id.as_ref().map(|id| id.len()) {
            Some(0) => "a session's id is empty; give it one, or begin one with `Session::begin`"
                .to_owned(),
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

//! A session as data: its runs and their messages. `runtime/sessions.rs` creates these
//! values.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::event::RunId;
use crate::message::Message;
use crate::store::{RunStatus, SessionRecord};
use crate::time::Timestamp;

/// A run of a session, with its messages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SessionRun {
    /// Id of the run.
    pub run_id: RunId,
    /// Number of the run in the session, starting at 1.
    pub number: u64,
    /// Run whose history it continues. `None` at the start of a history.
    pub after: Option<RunId>,
    /// Status of the run. Only runs with `success` are part of a history.
    pub status: RunStatus,
    /// Caller on whose behalf the run was started.
    pub caller: Option<Arc<str>>,
    /// Time at which the run started.
    pub created: Timestamp,
    /// Messages of the run, without the agent's instructions.
    pub messages: Vec<Arc<Message>>,
}

/// A whole session: all runs of all branches, including failed ones, ordered by number. Its JSON
/// form is `{"version", "session", "runs"}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SessionExport {
    /// Version of this format. This release writes [`SessionExport::VERSION`].
    pub version: u32,
    /// Record of the session.
    pub session: SessionRecord,
    /// Runs of the session.
    pub runs: Vec<SessionRun>,
}

impl SessionExport {
    /// Version that this release writes.
    pub const VERSION: u32 = 1;
}

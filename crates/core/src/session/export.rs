//! A session as data: its runs with what was said in them. It reads nothing; `runtime/known_sessions.rs` fills it in.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::event::RunId;
use crate::message::Message;
use crate::store::{RunStatus, SessionRecord};
use crate::time::Timestamp;

/// A run of a session, with what was said in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SessionRun {
    /// The run.
    pub run_id: RunId,
    /// Its number in the session, from 1.
    pub number: u64,
    /// The run whose history it continues; `None` at the beginning of a history.
    pub after: Option<RunId>,
    /// Its status. Only a `success` is part of a history.
    pub status: RunStatus,
    /// On whose behalf it was started.
    pub caller: Option<Arc<str>>,
    /// When it began.
    pub created: Timestamp,
    /// What was said in it, without the agent's instructions.
    pub messages: Vec<Arc<Message>>,
}

/// A whole session: all runs of all branches, also those that failed, by their number. Serialized it is the JSON form of
/// the session: `{"version", "session", "runs"}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SessionExport {
    /// The version of this form, [`SessionExport::VERSION`] when written by this release.
    pub version: u32,
    /// What a list says of it.
    pub session: SessionRecord,
    /// Its runs.
    pub runs: Vec<SessionRun>,
}

impl SessionExport {
    /// The version that this release writes.
    pub const VERSION: u32 = 1;
}

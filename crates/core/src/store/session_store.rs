//! [`SessionStore`]: the optional part of a store for conversations that span several runs.

use async_trait::async_trait;

use super::{SessionFilter, SessionRecord, StoreError};

/// Sessions of a [`Store`](super::Store): conversations that span several runs.
///
/// The runs of a session are ordinary runs of the store. They name the session and their number in
/// it in their first event ([`RunRecord::session`](super::RunRecord::session)). A store that
/// returns this part also enforces the rule for sessions in its own `create` and `amend`, in the
/// transaction that writes: at most one run of a session is unfinished, and numbers have no gaps.
///
/// # Cancel safety
///
/// As for [`Store`](super::Store): a dropped write has happened completely or not at all.
#[async_trait]
pub trait SessionStore: Send + Sync {
    /// Returns the record of a session; `None` if the session does not exist.
    ///
    /// [`SessionRecord::of`] computes the record from the runs of the session. A store that does
    /// this for each call makes the start of a run slower with each earlier run of the session.
    ///
    /// # Errors
    /// `damaged` or `newer_version` if a run of the session cannot be read.
    async fn session(&self, session: &str) -> Result<Option<SessionRecord>, StoreError>;

    /// Returns the sessions that a filter selects, in the order of [`SessionFilter::select`].
    ///
    /// # Errors
    /// Any error of the store, such as `io`.
    async fn list_sessions(&self, filter: SessionFilter) -> Result<Vec<SessionRecord>, StoreError>;

    /// Removes a session with all of its runs, in one transaction. Returns the number of removed
    /// runs.
    ///
    /// # Errors
    /// `not_found`; `session_busy` if one of its runs has not ended.
    async fn delete_session(&self, session: &str) -> Result<u64, StoreError>;
}

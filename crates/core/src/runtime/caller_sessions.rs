//! `CallerSessions`: the sessions that a caller may use, under access control.

use crate::access::{AccessAction, ActingCaller};
use crate::artifact::Artifact;
use crate::error::Result;
use crate::event::{RunId, SessionArtifact};
use crate::runtime::Runtime;
use crate::session::{SessionExport, SessionRun};
use crate::state::StateValues;
use crate::store::{SessionFilter, SessionRecord};

/// Number of sessions that are listed at once.
const PAGE: usize = 500;

/// The sessions that a caller may read, returned by
/// [`CallerRuntime::sessions`](crate::runtime::CallerRuntime::sessions). Each method asks the access
/// control first. A session that the caller may not read looks like a session that does not exist.
///
/// # Cancel safety
/// As the methods of [`Sessions`](crate::runtime::Sessions).
#[derive(Clone, Copy, Debug)]
#[must_use = "this only refers to the sessions"]
pub struct CallerSessions<'a> {
    runtime: &'a Runtime,
    acting: Option<&'a ActingCaller>,
}

impl<'a> CallerSessions<'a> {
    pub(super) fn new(runtime: &'a Runtime, acting: Option<&'a ActingCaller>) -> Self {
        Self { runtime, acting }
    }

    /// Checks an action on a session.
    async fn check(self, action: AccessAction, id: &str) -> Result<()> {
        let Some(acting) = self.acting else { return Ok(()) };
        acting.check_session(action, &self.runtime.sessions().get(id).await?).await
    }

    /// Returns the sessions that match a filter and that the caller may read, newest first. Asks the
    /// access control for each session that the store lists.
    ///
    /// # Errors
    /// If the runtime has no store, or the store cannot list its sessions.
    pub async fn list(self, filter: SessionFilter) -> Result<Vec<SessionRecord>> {
        let Some(acting) = self.acting else { return self.runtime.sessions().list(filter).await };
        let most = filter.get_limit().unwrap_or(usize::MAX);
        let page = most.min(PAGE);
        let (mut allowed, mut filter) = (Vec::new(), acting.narrow_sessions(filter).limit(page));
        while allowed.len() < most {
            let sessions = self.runtime.sessions().list(filter.clone()).await?;
            let ends = sessions.len() < page;
            if let Some(last) = sessions.last() {
                filter = filter.after(last);
            }
            for session in sessions {
                if allowed.len() < most && acting.may_read_session(&session).await {
                    allowed.push(session);
                }
            }
            if ends {
                break;
            }
        }
        Ok(allowed)
    }

    /// Returns the record of a session, as [`Sessions::get`](crate::runtime::Sessions::get).
    ///
    /// # Errors
    /// If the runtime has no store, or the caller has no such session.
    pub async fn get(self, id: &str) -> Result<SessionRecord> {
        let session = self.runtime.sessions().get(id).await?;
        if let Some(acting) = self.acting {
            acting.check_session(AccessAction::ReadSession, &session).await?;
        }
        Ok(session)
    }

    /// Returns the history of a session, as
    /// [`Sessions::history`](crate::runtime::Sessions::history).
    ///
    /// # Errors
    /// As [`get`](Self::get), and if a run of the history cannot be read.
    pub async fn history(self, id: &str, newest: usize) -> Result<Vec<SessionRun>> {
        self.check(AccessAction::ReadSession, id).await?;
        self.runtime.sessions().history(id, newest).await
    }

    /// Returns the ends of a session's branches, as
    /// [`Sessions::branches`](crate::runtime::Sessions::branches).
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub async fn branches(self, id: &str) -> Result<Vec<RunId>> {
        self.check(AccessAction::ReadSession, id).await?;
        self.runtime.sessions().branches(id).await
    }

    /// Returns the state of a session, as [`Sessions::state`](crate::runtime::Sessions::state).
    ///
    /// # Errors
    /// As [`get`](Self::get), and if the last run of the history cannot be read.
    pub async fn state(self, id: &str) -> Result<StateValues> {
        self.check(AccessAction::ReadSession, id).await?;
        self.runtime.sessions().state(id).await
    }

    /// Returns the artifacts of a session, as
    /// [`Sessions::artifacts`](crate::runtime::Sessions::artifacts).
    ///
    /// # Errors
    /// As [`get`](Self::get), and if a run of the history cannot be read.
    pub async fn artifacts(self, id: &str) -> Result<Vec<SessionArtifact>> {
        self.check(AccessAction::ReadSession, id).await?;
        self.runtime.sessions().artifacts(id).await
    }

    /// Returns an artifact of a session with its bytes, as
    /// [`Sessions::artifact`](crate::runtime::Sessions::artifact).
    ///
    /// # Errors
    /// As [`artifacts`](Self::artifacts), and if the bytes cannot be read.
    pub async fn artifact(
        self,
        id: &str,
        name: &str,
        version: Option<u32>,
    ) -> Result<Option<Artifact>> {
        self.check(AccessAction::ReadSession, id).await?;
        self.runtime.sessions().artifact(id, name, version).await
    }

    /// Returns a whole session as data, as [`Sessions::export`](crate::runtime::Sessions::export).
    ///
    /// # Errors
    /// As [`get`](Self::get), and if a run of the session cannot be read.
    pub async fn export(self, id: &str) -> Result<SessionExport> {
        self.check(AccessAction::ReadSession, id).await?;
        self.runtime.sessions().export(id).await
    }

    /// Deletes a session with its runs, as [`Sessions::delete`](crate::runtime::Sessions::delete).
    ///
    /// # Errors
    /// As [`get`](Self::get); [`Error::AccessDenied`](crate::Error::AccessDenied) if the caller may
    /// read the session and may not delete it; if a run of the session has not ended.
    pub async fn delete(self, id: &str) -> Result<u64> {
        self.check(AccessAction::DeleteSession, id).await?;
        self.runtime.sessions().delete(id).await
    }
}

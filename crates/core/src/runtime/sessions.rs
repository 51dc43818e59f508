//! Sessions by id: lists, histories, branches, state, artifacts, exports and removal.
//! `agent/session_run.rs` starts runs in sessions.

use std::collections::HashSet;
use std::time::Duration;

use crate::agent::read_past;
use crate::artifact::{Artifact, ArtifactRef};
use crate::error::Result;
use crate::event::{RunId, SessionArtifact};
use crate::message::Conversation;
use crate::run::{artifact_gone, artifacts_up_to, read_events};
use crate::runtime::Runtime;
use crate::runtime::runs::retention::delete_with_notes;
use crate::session::{SessionExport, SessionRun};
use crate::state::StateValues;
use crate::store::{
    RunFilter, RunRecord, RunStatus, SessionFilter, SessionRecord, StoreError, StoreErrorKind,
};
use crate::time::Timestamp;

/// Number of sessions that are listed at once.
const PAGE: usize = 500;

/// The sessions in the store of a runtime, returned by [`Runtime::sessions`].
///
/// # Cancel safety
/// All methods except [`delete`](Self::delete) and [`purge`](Self::purge) only read, so their
/// futures can be dropped at any time.
#[derive(Clone, Copy, Debug)]
#[must_use = "this only refers to the sessions"]
pub struct Sessions<'a>(pub(super) &'a Runtime);

impl Sessions<'_> {
    /// Returns the sessions that match a filter, newest first.
    ///
    /// ```
    /// use agentflow::agent::RunRequest;
    /// use agentflow::prelude::*;
    /// use agentflow::session::{Session, SessionFilter};
    /// use agentflow::store::MemoryStore;
    /// use agentflow_testing::{ScriptedModel, Turn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<()> {
    /// let runtime = Runtime::builder().store(MemoryStore::new()).build();
    /// let agent = Agent::new(ScriptedModel::new([Turn::text("Hello.")])).runtime(&runtime);
    /// let result = agent.run(RunRequest::new("Hi.").session(Session::begin()).caller("ada")).await?;
    /// let of_ada = runtime.sessions().list(SessionFilter::new().caller("ada")).await?;
    /// assert_eq!(Some(&*of_ada[0].id), result.session());
    /// assert_eq!(runtime.sessions().history(&of_ada[0].id, 10).await?[0].messages[1].text(), "Hello.");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the runtime has no store, or the store cannot list its sessions.
    #[doc(alias = "sessions")]
    pub async fn list(self, filter: SessionFilter) -> Result<Vec<SessionRecord>> {
        Ok(self.0.require_store()?.require_sessions()?.list_sessions(filter).await?)
    }

    /// Returns the record of a session.
    ///
    /// # Errors
    /// If the runtime has no store, or the session does not exist.
    #[doc(alias = "session")]
    pub async fn get(self, id: &str) -> Result<SessionRecord> {
        Ok(self.find(id).await?.ok_or_else(|| StoreError::no_session(id))?)
    }

    /// Returns the record of a session, or `None` if it does not exist.
    #[doc(hidden)]
    pub async fn find(self, id: &str) -> Result<Option<SessionRecord>> {
        Ok(self.0.require_store()?.require_sessions()?.session(id).await?)
    }

    /// Returns the history that the next run of a session continues: its completed runs, oldest
    /// first, limited to the `newest` ones.
    ///
    /// # Errors
    /// As [`get`](Self::get), and if a run of the history cannot be read.
    #[doc(alias = "session_history")]
    pub async fn history(self, id: &str, newest: usize) -> Result<Vec<SessionRun>> {
        match self.get(id).await?.head {
            Some(head) => self.history_up_to(&head, newest).await,
            None => Ok(Vec::new()),
        }
    }

    /// Returns the history that ends with a completed run of a session, oldest run first, limited
    /// to the `newest` runs. The run may be outside the current branch.
    ///
    /// # Errors
    /// If the runtime has no store, the run does not exist, or a run of the history cannot be read.
    pub async fn history_up_to(self, run: &RunId, newest: usize) -> Result<Vec<SessionRun>> {
        let store = self.0.require_store()?;
        let (mut history, mut next) = (Vec::new(), Some(run.clone()));
        while let Some(run) = next.take().filter(|_| history.len() < newest) {
            let record = store.record(&run).await?.ok_or_else(|| StoreError::not_found(&run))?;
            let (past, before) = read_past(&store, &run).await?;
            history.push(SessionRun {
                run_id: run,
                number: past.number,
                after: before.clone(),
                status: record.status,
                caller: record.caller,
                created: record.created,
                messages: past.messages,
            });
            next = before;
        }
        history.reverse();
        Ok(history)
    }

    /// Returns the ends of a session's branches, ordered by number: the completed runs that no
    /// other completed run continues. The next run continues the last one; use
    /// [`Session::after`](crate::session::Session::after) to continue another one.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    #[doc(alias = "session_branches")]
    pub async fn branches(self, id: &str) -> Result<Vec<RunId>> {
        let runs: Vec<RunRecord> = self.runs_of_session(id).await?;
        let completed = || runs.iter().filter(|run| run.status == RunStatus::Success);
        let continued: HashSet<&RunId> = completed()
            .filter_map(|run| run.session.as_ref().and_then(|place| place.after.as_ref()))
            .collect();
        Ok(completed()
            .map(|run| &run.run_id)
            .filter(|run| !continued.contains(run))
            .cloned()
            .collect())
    }

    /// Returns the state with which the next run of a session starts, as left by the runs of its
    /// history. Keys of users and of the application are not included.
    ///
    /// # Errors
    /// As [`get`](Self::get), and if the last run of the history cannot be read.
    #[doc(alias = "session_state")]
    pub async fn state(self, id: &str) -> Result<StateValues> {
        match self.get(id).await?.head {
            Some(head) => Ok(self.0.run(&head).state().await?.session_values()),
            None => Ok(StateValues::default()),
        }
    }

    /// Returns the artifacts that the next run of a session can read: all versions that the runs of
    /// its history have saved, oldest first. Artifacts of other branches are not included.
    /// [`RunRef::artifacts`](crate::runtime::RunRef::artifacts) returns the artifacts of a single
    /// run.
    ///
    /// # Errors
    /// As [`get`](Self::get), and if a run of the history cannot be read.
    #[doc(alias = "session_artifacts")]
    pub async fn artifacts(self, id: &str) -> Result<Vec<SessionArtifact>> {
        let head = self.get(id).await?.head;
        let mut all = artifacts_up_to(&self.0.require_store()?, head, |_| true, true).await?;
        all.reverse();
        Ok(all)
    }

    /// Returns an artifact of a session with its bytes: the given version or the newest one.
    /// Returns `None` if no run of its history has saved it.
    ///
    /// # Errors
    /// As [`artifacts`](Self::artifacts), and if the bytes cannot be read.
    #[doc(alias = "session_artifact")]
    pub async fn artifact(
        self,
        id: &str,
        name: &str,
        version: Option<u32>,
    ) -> Result<Option<Artifact>> {
        let store = self.0.require_store()?;
        let head = self.get(id).await?.head;
        let is_it = |of: &ArtifactRef| {
            *of.name == *name && version.is_none_or(|version| of.version == version)
        };
        let found = artifacts_up_to(&store, head, is_it, false).await?;
        let Some(SessionArtifact { run, artifact }) = found.into_iter().next() else {
            return Ok(None);
        };
        match store.require_artifacts()?.artifact(&run, &artifact.sha256).await? {
            Some(bytes) => Ok(Some(Artifact::new(artifact, bytes))),
            None => Err(artifact_gone(&artifact)),
        }
    }

    /// Returns the runs of a session, ordered by number.
    async fn runs_of_session(self, id: &str) -> Result<Vec<RunRecord>> {
        let mut runs = self.0.require_store()?.list(RunFilter::new().session(id)).await?;
        runs.sort_by_key(|run| run.session.as_ref().map(|place| place.number));
        match runs.is_empty() {
            true => Err(StoreError::no_session(id).into()),
            false => Ok(runs),
        }
    }

    /// Returns a whole session as data, for a copy or another program. Use `serde_json::to_string`
    /// to encode it as JSON.
    ///
    /// # Errors
    /// As [`get`](Self::get), and if a run of the session cannot be read.
    #[doc(alias = "export_session")]
    pub async fn export(self, id: &str) -> Result<SessionExport> {
        let store = self.0.require_store()?;
        let session = self.get(id).await?;
        let mut runs = Vec::new();
        for record in self.runs_of_session(id).await? {
            let Some(place) = record.session else { continue };
            let events = read_events(&store, &record.run_id, 0).await?;
            runs.push(SessionRun {
                messages: Conversation::from_events(&events).messages().to_vec(),
                run_id: record.run_id,
                number: place.number,
                after: place.after,
                status: record.status,
                caller: record.caller,
                created: record.created,
            });
        }
        Ok(SessionExport { version: SessionExport::VERSION, session, runs })
    }

    /// Removes a session with all its runs and their journals, atomically. Returns the number of
    /// removed runs.
    ///
    /// # Errors
    /// If the runtime has no store, the session does not exist, or a run of the session has not
    /// ended.
    ///
    /// # Cancel safety
    /// If the future is dropped, the session is removed completely or not at all. The notes of its
    /// runs, such as settings of push notifications, may remain.
    #[doc(alias = "delete_session")]
    pub async fn delete(self, id: &str) -> Result<u64> {
        let runs = delete_with_notes(&self.0.require_store()?, id).await?;
        self.0.host().factories.sessions.close_idle(Some(id));
        Ok(runs)
    }

    /// Returns the sessions that [`purge`](Self::purge) would remove, newest
    /// first.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    #[doc(alias = "purgeable_sessions")]
    pub async fn purgeable(self, idle_for: Duration) -> Result<Vec<SessionRecord>> {
        let mut idle = self.list(self.idle_for(idle_for)).await?;
        idle.retain(|session| session.unfinished.is_none());
        Ok(idle)
    }

    fn idle_for(self, time: Duration) -> SessionFilter {
        let now = self.0.host().clock.now().as_millis();
        let since = now.saturating_sub(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        SessionFilter::new().idle_since(Timestamp::from_millis(since))
    }

    /// Removes the sessions without new events for this duration, one after another, and returns
    /// the removed sessions. A session with an unfinished run stays.
    ///
    /// # Cancel safety
    /// Dropping the future stops between two sessions.
    ///
    /// # Errors
    /// As [`list`](Self::list). Sessions that were removed before the error remain removed.
    #[doc(alias = "cleanup_expired_sessions")]
    #[doc(alias = "purge_sessions")]
    pub async fn purge(self, idle_for: Duration) -> Result<Vec<SessionRecord>> {
        let store = self.0.require_store()?;
        let mut filter = self.idle_for(idle_for).limit(PAGE);
        let mut removed = Vec::new();
        loop {
            let page = store.require_sessions()?.list_sessions(filter.clone()).await?;
            let Some(last) = page.last() else { return Ok(removed) };
            filter = filter.after(last);
            for session in page {
                match delete_with_notes(&store, &session.id).await {
                    Ok(_) => removed.push(session),
                    // The session is in use again, or was removed by another process.
                    Err(error)
                        if matches!(
                            error.kind(),
                            StoreErrorKind::SessionBusy | StoreErrorKind::NotFound
                        ) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
    }
}

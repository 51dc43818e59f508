//! Artifacts as a step saves and reads them. The bytes are kept before a reference to them is part of an outcome.

use std::sync::Arc;

use agentflow_schema::text::head;

use super::Context;
use crate::artifact::{Artifact, ArtifactRef, LONGEST, problem_of};
use crate::definition::sha256;
use crate::error::{Error, Result};
use crate::event::{RunId, SessionArtifact};
use crate::run::{MOST_NAMES, artifact_gone, artifacts_up_to};
use crate::store::StoreError;

/// The most bytes of one artifact.
const MOST: usize = 64 << 20;

/// More bytes than so many are hashed on a thread of their own.
const MANY: usize = 256 << 10;

/// Error for an artifact in a step that an executor runs.
const EXECUTED_ELSEWHERE: &str = "the runtime's executor executes this step in another process, which keeps no artifacts; \
     return the bytes, and save them in a step of a runtime without an executor";

impl Context {
    /// Saves bytes under a name, as the next version of it; see [`artifact`](crate::artifact). They are kept when this
    /// returns, and are the step's when the step completes: the record of its outcome holds the reference that this returns.
    ///
    /// Dropped before it returns, it has saved nothing.
    ///
    /// # Errors
    /// [`Error::Artifact`] when the name or the media type is not one, when there are more than 64 MiB, when a session would
    /// have more than 1,000 names, in a condition or a tap, which save nothing, and in a step that is executed elsewhere.
    /// [`Error::Store`] when the run's store keeps no artifacts, or not these.
    pub async fn save_artifact(
        &self,
        name: &str,
        bytes: impl Into<Vec<u8>> + Send,
        media_type: &str,
    ) -> Result<ArtifactRef> {
        let bytes: Arc<[u8]> = bytes.into().into();
        let size = bytes.len();
        let has_room = || self.run.states().is_none_or(|states| states.has_room_for(name));
        let problem = match (self.saves_nothing(), size > MOST) {
            _ if self.session().is_some() && !has_room() => Some(format!(
                "the session has artifacts of {MOST_NAMES} names, and there may be no more; save it under one of them, as its next version"
            )),
            (Some(why), _) => Some(why.to_owned()),
            _ if self.run.log.is_of_remote_run() => Some(EXECUTED_ELSEWHERE.to_owned()),
            (_, true) => Some(format!("it has {size} bytes, more than the {MOST} of one artifact; save it in parts")),
            _ => problem_of(name, media_type),
        };
        if let Some(problem) = problem {
            let name = head(name, LONGEST).to_owned();
            return Err(Error::Artifact { name, problem });
        }
        let hash = match size > MANY {
            false => sha256(&bytes),
            true => {
                let bytes = Arc::clone(&bytes);
                let hashed = tokio::task::spawn_blocking(move || sha256(&bytes)).await;
                hashed.map_err(|error| Error::Lost { reason: error.to_string() })?
            }
        };
        let hash: Arc<str> = hash.into();
        match self.run.log.store() {
            None => self.run.states_or_new().keep_bytes(&hash, bytes),
            Some((store, _)) if !store.keeps_artifacts() => return Err(StoreError::keeps_no_artifacts().into()),
            Some((store, Some(epoch))) => store.put_artifact(&self.run.id, epoch, &hash, bytes).await?,
            Some((_, None)) => {
                let problem = "the run has not begun; save it in a tool or in a step".to_owned();
                return Err(Error::Artifact { name: name.to_owned(), problem });
            }
        }
        let (name, media_type, size) = (name.into(), media_type.into(), size as u64);
        let artifact = ArtifactRef { name, version: 0, media_type, size, sha256: hash };
        Ok(self.run.states_or_new().add_artifact(&self.path, artifact))
    }

    /// The newest artifact of a name that this step sees: of its own, those of the steps before it and, in a run of a session,
    /// those of the runs whose history it continues; `None` when it sees no such artifact.
    ///
    /// # Errors
    /// [`Error::Store`] when the bytes cannot be read, and [`Error::Artifact`] when they are no longer there.
    pub async fn artifact(&self, name: &str) -> Result<Option<Artifact>> {
        let found = self.run.states().and_then(|states| states.artifact(&self.path, name));
        let Some(artifact) = found else { return Ok(None) };
        let run = self.run.states().and_then(|states| states.run_of(&artifact));
        self.with_bytes(artifact, run).await.map(Some)
    }

    /// One version of an artifact that this step sees, as [`artifact`](Self::artifact); `None` when it sees no such version. An older one
    /// of an earlier run of the session is looked for in the journals of these runs.
    ///
    /// # Errors
    /// As [`artifact`](Self::artifact), and when the journal of an earlier run cannot be read.
    pub async fn artifact_version(&self, name: &str, version: u32) -> Result<Option<Artifact>> {
        let is_it = |of: &ArtifactRef| *of.name == *name && of.version == version;
        let found = self.run.states().and_then(|states| {
            let artifact = states.seen_by(&self.path).artifacts().iter().rfind(|of| is_it(of)).cloned()?;
            let run = states.run_of(&artifact);
            Some((artifact, run))
        });
        if let Some((artifact, run)) = found {
            return self.with_bytes(artifact, run).await.map(Some);
        }
        let (Some((store, _)), true) = (self.run.log.store(), self.session().is_some()) else { return Ok(None) };
        let place = store.record(&self.run.id).await?.and_then(|record| record.session);
        let before = place.and_then(|place| place.after);
        match artifacts_up_to(store, before, is_it, false).await?.pop() {
            Some(SessionArtifact { run, artifact }) => self.with_bytes(artifact, Some(run)).await.map(Some),
            None => Ok(None),
        }
    }

    /// An artifact of this run, or of an earlier one of its session, with its bytes.
    async fn with_bytes(&self, artifact: ArtifactRef, run: Option<RunId>) -> Result<Artifact> {
        let bytes = match self.run.log.store() {
            None => self.run.states().and_then(|states| states.bytes(&artifact.sha256)),
            Some((store, _)) => store.artifact(run.as_ref().unwrap_or(&self.run.id), &artifact.sha256).await?,
        };
        match bytes {
            Some(bytes) => Ok(Artifact::new(artifact, bytes)),
            None => Err(artifact_gone(&artifact)),
        }
    }
}

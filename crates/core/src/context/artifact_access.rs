//! Artifacts of a run: saving and reading them in a step. The store persists the bytes before a
//! reference to them is recorded in an outcome.

use std::sync::Arc;

use agentflow_schema::text::head;

use super::Context;
use crate::artifact::{Artifact, ArtifactRef, LONGEST, problem_of};
use crate::definition::sha256;
use crate::error::{Error, Result};
use crate::event::{RunId, SessionArtifact};
use crate::run::{MOST_NAMES, artifact_gone, artifacts_up_to};

/// Maximum size of an artifact in bytes.
const MOST: usize = 64 << 20;

/// Larger artifacts, in bytes, are hashed on a blocking thread.
const MANY: usize = 256 << 10;

/// Error for an artifact in a step that an executor runs.
const EXECUTED_ELSEWHERE: &str = "the runtime's executor executes this step in another process, which keeps no artifacts; \
     return the bytes, and save them in a step of a runtime without an executor";

impl Context {
    /// Saves bytes as the next version of a named artifact; see [`artifact`](crate::artifact). The
    /// bytes are stored when this returns. The artifact belongs to the step when the step
    /// completes: the record of its outcome contains the returned reference.
    ///
    /// # Cancel safety
    /// If the future is dropped, no artifact is saved.
    ///
    /// # Errors
    /// - [`Error::Artifact`] if the name or the media type is invalid, if there are more than 64
    ///   MiB, if a session would have artifacts with more than 1,000 names, in a condition or a
    ///   tap, which save nothing, and in a step that is executed in another process.
    /// - [`Error::Store`] if the run's store does not support artifacts or refuses these bytes.
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
            (_, true) => Some(format!(
                "it has {size} bytes, more than the {MOST} of one artifact; save it in parts"
            )),
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
            // Without a store the artifact lives as long as the run.
            None => self.run.states_or_new().keep_bytes(&hash, bytes),
            Some((store, epoch)) => {
                let artifacts = store.require_artifacts()?;
                // A store accepts the bytes only from the current writer of the run, which has an
                // epoch.
                let Some(epoch) = epoch else {
                    let problem =
                        "the run has not begun; save it in a tool or in a step".to_owned();
                    return Err(Error::Artifact { name: name.to_owned(), problem });
                };
                artifacts.put_artifact(&self.run.id, epoch, &hash, bytes).await?;
            }
        }
        let (name, media_type, size) = (name.into(), media_type.into(), size as u64);
        let artifact = ArtifactRef { name, version: 0, media_type, size, sha256: hash };
        Ok(self.run.states_or_new().add_artifact(&self.path, artifact))
    }

    /// Returns the newest artifact with this name that the step can see, or `None`. A step sees its
    /// own artifacts, the artifacts of completed earlier steps and, in a session, the artifacts of
    /// the runs whose history this run continues.
    ///
    /// # Errors
    /// [`Error::Store`] if the bytes cannot be read, and [`Error::Artifact`] if they were deleted.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn artifact(&self, name: &str) -> Result<Option<Artifact>> {
        let found = self.run.states().and_then(|states| states.artifact(&self.path, name));
        let Some(artifact) = found else { return Ok(None) };
        let run = self.run.states().and_then(|states| states.run_of(&artifact));
        self.with_bytes(artifact, run).await.map(Some)
    }

    /// Returns a version of an artifact that this step can see, like [`artifact`](Self::artifact).
    /// Returns `None` if no such version exists. Older versions of earlier runs of the session are
    /// searched in the journals of these runs.
    ///
    /// # Errors
    /// Like [`artifact`](Self::artifact), and if the journal of an earlier run cannot be read.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn artifact_version(&self, name: &str, version: u32) -> Result<Option<Artifact>> {
        let is_it = |of: &ArtifactRef| *of.name == *name && of.version == version;
        let found = self.run.states().and_then(|states| {
            let artifact =
                states.seen_by(&self.path).artifacts().iter().rfind(|of| is_it(of)).cloned()?;
            let run = states.run_of(&artifact);
            Some((artifact, run))
        });
        if let Some((artifact, run)) = found {
            return self.with_bytes(artifact, run).await.map(Some);
        }
        // Older versions of earlier runs of the session are only in their journals.
        let (Some((store, _)), true) = (self.run.log.store(), self.session().is_some()) else {
            return Ok(None);
        };
        let place = store.record(&self.run.id).await?.and_then(|record| record.session);
        let before = place.and_then(|place| place.after);
        match artifacts_up_to(store, before, is_it, false).await?.pop() {
            Some(SessionArtifact { run, artifact }) => {
                self.with_bytes(artifact, Some(run)).await.map(Some)
            }
            None => Ok(None),
        }
    }

    /// Reads the bytes of an artifact of this run, or of an earlier run of its session.
    async fn with_bytes(&self, artifact: ArtifactRef, run: Option<RunId>) -> Result<Artifact> {
        let bytes = match self.run.log.store() {
            None => self.run.states().and_then(|states| states.bytes(&artifact.sha256)),
            Some((store, _)) => {
                let run = run.as_ref().unwrap_or(&self.run.id);
                store.require_artifacts()?.artifact(run, &artifact.sha256).await?
            }
        };
        match bytes {
            Some(bytes) => Ok(Artifact::new(artifact, bytes)),
            None => Err(artifact_gone(&artifact)),
        }
    }
}

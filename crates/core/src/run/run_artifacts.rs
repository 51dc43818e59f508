//! Access to artifacts through the handle or the result of a run, which keep the bytes of a run
//! without a store.

use super::handle::RunHandle;
use super::result::RunResult;
use super::saved_values::artifacts_from_events;
use super::shared::RunShared;
use crate::artifact::{Artifact, ArtifactRef};
use crate::error::{Error, Result};

impl RunShared {
    fn artifacts(&self) -> Vec<ArtifactRef> {
        artifacts_from_events(&self.log.events())
    }

    async fn artifact(&self, name: &str, version: Option<u32>) -> Result<Option<Artifact>> {
        let is_it = |of: &ArtifactRef| {
            *of.name == *name && version.is_none_or(|version| of.version == version)
        };
        let Some(artifact) = self.artifacts().into_iter().rfind(is_it) else { return Ok(None) };
        let in_memory = self.states().and_then(|states| states.bytes(&artifact.sha256));
        let bytes = match (in_memory, &self.host.store) {
            (Some(bytes), _) => Some(bytes),
            (None, Some(store)) => {
                store.require_artifacts()?.artifact(&self.id, &artifact.sha256).await?
            }
            (None, None) => None,
        };
        match bytes {
            Some(bytes) => Ok(Some(Artifact::new(artifact, bytes))),
            None => Err(artifact_gone(&artifact)),
        }
    }
}

impl<T> RunHandle<T> {
    /// Returns the artifacts of the completed steps so far, in the order of the plan. The newest
    /// artifact of a name follows the older ones. A run without a store keeps its artifacts as long
    /// as its handle exists.
    pub fn artifacts(&self) -> Vec<ArtifactRef> {
        self.shared().artifacts()
    }

    /// Reads an artifact of the run with its bytes: the given version, or the newest one. Returns
    /// `None` if the run has not saved it.
    ///
    /// # Errors
    /// [`Error::Store`] if the bytes cannot be read, and [`Error::Artifact`] if the store no longer
    /// has them.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn artifact(&self, name: &str, version: Option<u32>) -> Result<Option<Artifact>> {
        self.shared().artifact(name, version).await
    }
}

impl<O> RunResult<O> {
    /// Returns the artifacts of the completed steps, in the order of the plan. The newest artifact
    /// of a name follows the older ones. A run without a store keeps its artifacts as long as its
    /// result exists.
    pub fn artifacts(&self) -> Vec<ArtifactRef> {
        self.shared().artifacts()
    }

    /// Reads an artifact of the run with its bytes: the given version, or the newest one. Returns
    /// `None` if the run has not saved it.
    ///
    /// # Errors
    /// [`Error::Store`] if the bytes cannot be read, and [`Error::Artifact`] if the store no longer
    /// has them.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn artifact(&self, name: &str, version: Option<u32>) -> Result<Option<Artifact>> {
        self.shared().artifact(name, version).await
    }
}

/// Creates the error for a recorded artifact whose bytes are not stored.
pub(crate) fn artifact_gone(artifact: &ArtifactRef) -> Error {
    let problem =
        format!("the store does not have the bytes of version {}; save it anew", artifact.version);
    Error::Artifact { name: artifact.name.to_string(), problem }
}

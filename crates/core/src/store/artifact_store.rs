//! [`ArtifactStore`]: the optional part of a store for the bytes that runs save.

use std::sync::Arc;

use async_trait::async_trait;

use super::{Epoch, StoreError};
use crate::event::RunId;

/// Artifacts of a [`Store`](super::Store): bytes that a run saves next to its journal.
///
/// The journal contains the name, the type and the SHA-256 of an artifact; this part contains the
/// bytes. They belong to one run: other runs do not find them, and
/// [`Store::delete`](super::Store::delete) and
/// [`SessionStore::delete_session`](super::SessionStore::delete_session) remove them with the run.
#[async_trait]
pub trait ArtifactStore: Send + Sync {
    /// Stores bytes under their SHA-256 as 64 hexadecimal digits. Storing them again has no effect.
    ///
    /// # Errors
    /// `not_found`; `fenced` if another writer has opened the run since; `too_large`.
    ///
    /// # Cancel safety
    /// If the future is dropped, the bytes are stored completely or not at all.
    async fn put_artifact(
        &self,
        run: &RunId,
        epoch: Epoch,
        sha256: &str,
        bytes: Arc<[u8]>,
    ) -> Result<(), StoreError>;

    /// Returns the bytes that a run saved under a hash; `None` if the bytes or the run do not
    /// exist.
    ///
    /// # Errors
    /// `damaged` if the bytes do not match the hash.
    async fn artifact(&self, run: &RunId, sha256: &str) -> Result<Option<Arc<[u8]>>, StoreError>;
}

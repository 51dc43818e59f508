//! Access to the optional parts of a store, with the error for a store that lacks a part.

use super::{
    ArtifactStore, Epoch, LeaseStore, MessageStore, SessionStore, StateStore, Store, StoreError,
    StoreMessage,
};
use crate::event::RunId;

impl dyn Store + '_ {
    /// Returns the [sessions](Store::sessions) of the store.
    ///
    /// # Errors
    /// `unsupported` if the store does not have this part.
    pub fn require_sessions(&self) -> Result<&dyn SessionStore, StoreError> {
        self.sessions().ok_or_else(StoreError::sessions_unsupported)
    }

    /// Returns the [artifacts](Store::artifacts) of the store.
    ///
    /// # Errors
    /// `unsupported` if the store does not have this part.
    pub fn require_artifacts(&self) -> Result<&dyn ArtifactStore, StoreError> {
        self.artifacts().ok_or_else(StoreError::artifacts_unsupported)
    }

    /// Returns the [durable state](Store::state) of the store.
    ///
    /// # Errors
    /// `unsupported` if the store does not have this part.
    pub fn require_state(&self) -> Result<&dyn StateStore, StoreError> {
        self.state().ok_or_else(StoreError::state_unsupported)
    }

    /// Returns the [messages](Store::messages) of the store.
    ///
    /// # Errors
    /// `unsupported` if the store does not have this part.
    pub fn require_messages(&self) -> Result<&dyn MessageStore, StoreError> {
        self.messages().ok_or_else(StoreError::messages_unsupported)
    }

    /// Returns the [leases](Store::leases) of the store.
    ///
    /// # Errors
    /// `unsupported` if the store does not have this part.
    pub fn require_leases(&self) -> Result<&dyn LeaseStore, StoreError> {
        self.leases().ok_or_else(StoreError::leases_unsupported)
    }

    /// Returns the messages that wait for a run; none if the store has no messages.
    pub(crate) async fn waiting_messages(
        &self,
        run: &RunId,
        epoch: Epoch,
    ) -> Result<Vec<StoreMessage>, StoreError> {
        match self.messages() {
            Some(messages) => messages.receive(run, epoch).await,
            None => Ok(Vec::new()),
        }
    }

    /// Returns the living process that has a run open; `None` if no process has it open or
    /// the store has no leases.
    pub(crate) async fn known_holder(&self, run: &RunId) -> Result<Option<String>, StoreError> {
        match self.leases() {
            Some(leases) => leases.holder(run).await,
            None => Ok(None),
        }
    }
}

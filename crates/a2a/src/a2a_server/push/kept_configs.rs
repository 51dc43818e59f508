//! Push configurations in the store. They are notes of their run, so they survive restarts and are
//! removed with the run. A separate list has the configurations that are still active. No event
//! contains a configuration.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::a2a::A2aPushConfig;
use agentflow_core::__private::extension::owner_of_notes;
use agentflow_core::event::RunId;
use agentflow_core::store::{StateWrite, Store, StoreError, StoreErrorKind};
use agentflow_core::value::Encoded;

/// Key prefix of the notes.
const KEY: &str = "a2a.push/";

/// A stored configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct StoredPushConfig {
    pub(super) config: A2aPushConfig,
    /// `true` if the caller may answer approvals and therefore is notified of them.
    pub(super) approves: bool,
    /// `true` if the final state was delivered, or its delivery was given up.
    #[serde(default)]
    pub(super) is_done: bool,
}

impl StoredPushConfig {
    pub(super) fn id(&self) -> &str {
        self.config.id.as_deref().unwrap_or_default()
    }
}

/// The stored configurations of one server.
#[derive(Clone)]
pub(super) struct PushConfigStore {
    store: Arc<dyn Store>,
    /// Owner of the list of active configurations in the store's state.
    owner: String,
}

impl PushConfigStore {
    pub(super) fn new(store: &Arc<dyn Store>, server: &str) -> Self {
        Self { store: Arc::clone(store), owner: format!("\u{1}a2a.push:{server}") }
    }

    /// Returns the configurations of a task, ordered by id. Unreadable ones are left out.
    pub(super) async fn for_task(&self, run: &RunId) -> Result<Vec<StoredPushConfig>, StoreError> {
        let notes =
            self.store.require_state()?.read_state(Some(&owner_of_notes(run)), None).await?;
        Ok(notes
            .into_iter()
            .filter(|(key, _)| key.starts_with(KEY))
            .filter_map(|(_, note)| note.decode().ok())
            .collect())
    }

    /// Returns one configuration of a task.
    pub(super) async fn one(
        &self,
        run: &RunId,
        id: &str,
    ) -> Result<Option<StoredPushConfig>, StoreError> {
        let notes = self
            .store
            .require_state()?
            .read_state(Some(&owner_of_notes(run)), Some(&format!("{KEY}{id}")))
            .await?;
        Ok(notes.into_iter().find_map(|(_, note)| note.decode().ok()))
    }

    /// Stores a configuration and adds it to the active list, in one write.
    pub(super) async fn put(
        &self,
        run: &RunId,
        config: &StoredPushConfig,
    ) -> Result<(), StoreError> {
        self.store
            .require_state()?
            .put_state(vec![
                note(run, config)?,
                self.listed(run, config.id(), Some(Encoded::null())),
            ])
            .await
    }

    /// Stores that a configuration is done: the end of the task was delivered or given up.
    pub(super) async fn mark_done(
        &self,
        run: &RunId,
        config: StoredPushConfig,
    ) -> Result<(), StoreError> {
        self.store
            .require_state()?
            .put_state(vec![note(run, &StoredPushConfig { is_done: true, ..config })?])
            .await
    }

    pub(super) async fn remove(&self, run: &RunId, id: &str) -> Result<(), StoreError> {
        self.store
            .require_state()?
            .put_state(vec![StateWrite::new(
                Some(&owner_of_notes(run)),
                &format!("{KEY}{id}"),
                None,
            )])
            .await
    }

    /// Returns the active configurations: the task and the id of each.
    pub(super) async fn all(&self) -> Result<Vec<(RunId, String)>, StoreError> {
        let listed = self.store.require_state()?.read_state(Some(&self.owner), None).await?;
        let place =
            |key: &str| key.split_once(' ').map(|(run, id)| (RunId::new(run), id.to_owned()));
        Ok(listed.iter().filter_map(|(key, _)| place(key)).collect())
    }

    /// Removes a configuration from the active list.
    pub(super) async fn deactivate(&self, run: &RunId, id: &str) -> Result<(), StoreError> {
        self.store.require_state()?.put_state(vec![self.listed(run, id, None)]).await
    }

    /// The key in the active list. Run ids of a server contain no space, so the key is unambiguous.
    fn listed(&self, run: &RunId, id: &str, value: Option<Encoded>) -> StateWrite {
        StateWrite::new(Some(&self.owner), &format!("{run} {id}"), value)
    }
}

fn note(run: &RunId, config: &StoredPushConfig) -> Result<StateWrite, StoreError> {
    let value = Encoded::new(config)
        .map_err(|error| StoreError::new(StoreErrorKind::Damaged, error.to_string()))?;
    Ok(StateWrite::new(Some(&owner_of_notes(run)), &format!("{KEY}{}", config.id()), Some(value)))
}

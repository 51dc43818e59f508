//! The push configurations of tasks in the store: notes of their runs, so that they outlive the process and are removed with
//! the run, and a list of those that are still to be notified. It sends nothing, and no event has any of it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::a2a::A2aPushConfig;
use crate::event::RunId;
use crate::runtime::owner_of_notes;
use crate::store::{StateWrite, Store, StoreError, StoreErrorKind};
use crate::value::Encoded;

/// What a key of a note begins with.
const KEY: &str = "a2a.push/";

/// A configuration as it is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct KeptConfig {
    pub(super) config: A2aPushConfig,
    /// Whether its caller may answer approvals, and so is shown them.
    pub(super) approves: bool,
    /// Whether it has had the end of the task, or that was given up.
    #[serde(default)]
    pub(super) is_done: bool,
}

impl KeptConfig {
    pub(super) fn id(&self) -> &str {
        self.config.id.as_deref().unwrap_or_default()
    }
}

/// The configurations in a store, of one server.
#[derive(Clone)]
pub(super) struct KeptConfigs {
    store: Arc<dyn Store>,
    /// Whose list of configurations it is, in the store.
    owner: String,
}

impl KeptConfigs {
    pub(super) fn new(store: &Arc<dyn Store>, server: &str) -> Self {
        Self { store: Arc::clone(store), owner: format!("\u{1}a2a.push:{server}") }
    }

    /// Those of a task, in the order of their ids. One that cannot be read is left out.
    pub(super) async fn of(&self, run: &RunId) -> Result<Vec<KeptConfig>, StoreError> {
        let notes = self.store.state(Some(&owner_of_notes(run)), None).await?;
        Ok(notes
            .into_iter()
            .filter(|(key, _)| key.starts_with(KEY))
            .filter_map(|(_, note)| note.decode().ok())
            .collect())
    }

    /// One of a task.
    pub(super) async fn one(&self, run: &RunId, id: &str) -> Result<Option<KeptConfig>, StoreError> {
        let notes = self.store.state(Some(&owner_of_notes(run)), Some(&format!("{KEY}{id}"))).await?;
        Ok(notes.into_iter().find_map(|(_, note)| note.decode().ok()))
    }

    /// Keeps one, as one that is to be notified.
    pub(super) async fn put(&self, run: &RunId, config: &KeptConfig) -> Result<(), StoreError> {
        self.store.put_state(vec![note(run, config)?, self.listed(run, config.id(), Some(Encoded::null()))]).await
    }

    /// Keeps that one has had the end of its task.
    pub(super) async fn put_done(&self, run: &RunId, config: KeptConfig) -> Result<(), StoreError> {
        self.store.put_state(vec![note(run, &KeptConfig { is_done: true, ..config })?]).await
    }

    pub(super) async fn remove(&self, run: &RunId, id: &str) -> Result<(), StoreError> {
        self.store.put_state(vec![StateWrite::new(Some(&owner_of_notes(run)), &format!("{KEY}{id}"), None)]).await
    }

    /// Those that are still to be notified: the task and the id of each.
    pub(super) async fn all(&self) -> Result<Vec<(RunId, String)>, StoreError> {
        let listed = self.store.state(Some(&self.owner), None).await?;
        let place = |key: &str| key.split_once(' ').map(|(run, id)| (RunId::new(run), id.to_owned()));
        Ok(listed.iter().filter_map(|(key, _)| place(key)).collect())
    }

    /// Takes one from that list.
    pub(super) async fn unlist(&self, run: &RunId, id: &str) -> Result<(), StoreError> {
        self.store.put_state(vec![self.listed(run, id, None)]).await
    }

    /// No id of a task of a server has a space.
    fn listed(&self, run: &RunId, id: &str, value: Option<Encoded>) -> StateWrite {
        StateWrite::new(Some(&self.owner), &format!("{run} {id}"), value)
    }
}

fn note(run: &RunId, config: &KeptConfig) -> Result<StateWrite, StoreError> {
    let value = Encoded::new(config).map_err(|error| StoreError::new(StoreErrorKind::Damaged, error.to_string()))?;
    Ok(StateWrite::new(Some(&owner_of_notes(run)), &format!("{KEY}{}", config.id()), Some(value)))
}

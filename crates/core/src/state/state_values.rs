//! `StateValues`: the state as it is at one time, key by key. It is made of what steps saved, and changes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::key::{StateKey, StateValue};
use super::reserved::is_of_session;
use super::saved::SavedByStep;
use crate::value::Encoded;

/// The values of the state at one time: of a run, with [`Runtime::run_state`](crate::Runtime::run_state), or of a
/// session, with [`Runtime::session_state`](crate::Runtime::session_state).
///
/// As JSON it is an object with the keys as they are written, such as `{"tone": "dry"}`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
#[doc(alias = "StateManager")]
pub struct StateValues(BTreeMap<Arc<str>, Encoded>);

impl StateValues {
    /// The value of a key; `None` when the key has no value.
    ///
    /// # Errors
    /// When the value is not of the key's type.
    pub fn get<T: StateValue>(&self, key: &StateKey<T>) -> Result<Option<T>, serde_json::Error> {
        self.0.get(&*key.to_string()).map(T::decode).transpose()
    }

    /// What is kept of a user or of the application.
    pub(crate) fn kept(values: Vec<(String, Encoded)>) -> Self {
        Self(values.into_iter().map(|(key, value)| (key.into(), value)).collect())
    }

    /// All keys with their values, in the order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Encoded)> {
        self.0.iter().map(|(key, value)| (&**key, value))
    }

    /// How many keys have a value.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether no key has a value.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What the next run of a session finds of them.
    pub(crate) fn of_session(mut self) -> Self {
        self.0.retain(|key, _| is_of_session(key));
        self
    }

    /// The same as something that was saved.
    pub(crate) fn as_saved(&self) -> SavedByStep {
        let mut saved = SavedByStep::default();
        self.iter().for_each(|(key, value)| saved.change(key, Some(value.clone())));
        saved
    }

    /// The values, for whoever takes secrets out of records.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut Encoded> {
        self.0.values_mut()
    }

    /// The values after a step has saved this.
    pub(crate) fn apply(&mut self, saved: &SavedByStep) {
        for (key, value) in saved.changes() {
            match value {
                Some(value) => drop(self.0.insert(key.into(), value.clone())),
                None => drop(self.0.remove(key)),
            }
        }
    }
}

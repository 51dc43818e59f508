//! `StateValues`: the state at a point in time, computed from the changes that steps have saved.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::key::{StateKey, StateValue};
use super::reserved::is_of_session;
use super::saved::SavedByStep;
use crate::value::Encoded;

/// The state at a point in time: of a run, see [`RunRef::state`](crate::runtime::RunRef::state),
/// or of a session, see [`Sessions::state`](crate::runtime::Sessions::state).
///
/// Its JSON form is an object whose keys are written as in text, such as `{"tone": "dry"}`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
#[doc(alias = "StateManager")]
pub struct StateValues(BTreeMap<Arc<str>, Encoded>);

impl StateValues {
    /// Returns the value of a key, or `None` if the key has no value.
    ///
    /// # Errors
    /// If the value cannot be decoded as the key's type.
    pub fn get<T: StateValue>(&self, key: &StateKey<T>) -> Result<Option<T>, serde_json::Error> {
        self.0.get(&*key.to_string()).map(T::decode).transpose()
    }

    /// Creates the state of a user or of the application from stored values.
    pub(crate) fn kept(values: Vec<(String, Encoded)>) -> Self {
        Self(values.into_iter().map(|(key, value)| (key.into(), value)).collect())
    }

    /// Returns all keys with their values, ordered by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Encoded)> {
        self.0.iter().map(|(key, value)| (&**key, value))
    }

    /// Returns the number of keys with a value.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns `true` if no key has a value.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the values that the next run of a session starts with.
    pub(crate) fn session_values(mut self) -> Self {
        self.0.retain(|key, _| is_of_session(key));
        self
    }

    /// Converts the values to changes of a step.
    pub(crate) fn as_saved(&self) -> SavedByStep {
        let mut saved = SavedByStep::default();
        self.iter().for_each(|(key, value)| saved.change(key, Some(value.clone())));
        saved
    }

    /// Returns the values for redaction.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut Encoded> {
        self.0.values_mut()
    }

    /// Applies the changes of a step.
    pub(crate) fn apply(&mut self, saved: &SavedByStep) {
        for (key, value) in saved.changes() {
            match value {
                Some(value) => drop(self.0.insert(key.into(), value.clone())),
                None => drop(self.0.remove(key)),
            }
        }
    }
}

//! `SavedByStep`: the changes of a step, recorded with its outcome, and how two of them are
//! combined.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::key::StateOwner;
use crate::artifact::ArtifactRef;
use crate::value::Encoded;

/// Maximum number of bytes that a step may save, including its nested calls. They are part of a
/// single record.
pub(crate) const MOST_SAVED: usize = 1 << 20;

/// Message for a change in a step that must not change the state.
pub(crate) const IN_TAP: &str = "this step is a tap, which sees the state and changes nothing of it; do it in another step, or remove `tap`";

/// Message for a step that exceeds this limit.
pub(crate) fn too_much_saved(size: usize) -> String {
    format!(
        "the step would have saved {size} bytes of state, more than the {MOST_SAVED} that one step may save with what it \
         calls; keep the data where it belongs and set where it is"
    )
}

/// Message for a session that exceeds this limit.
pub(crate) fn too_much_in_session(size: usize) -> String {
    format!(
        "with this value the session would have {size} bytes of state, more than the {MOST_SAVED} that each run of it begins \
         with; remove keys that are no longer read, or keep the data where it belongs and set where it is"
    )
}

/// The changes of a step: the state keys that it set or removed, and its artifacts. They are part
/// of the record of the step's outcome, so outcome and state are always consistent. A failed step
/// saves nothing.
///
/// The JSON form is `{"set": {"tone": "dry"}, "remove": ["draft"]}`. Removing a key differs from
/// setting it to `null`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "StoredForm", into = "StoredForm")]
#[non_exhaustive]
pub struct SavedByStep {
    place: Option<u64>,
    /// Each key with its new value, or `None` if it is removed.
    changes: BTreeMap<Arc<str>, Option<Encoded>>,
    /// In the order in which they were saved.
    artifacts: Vec<ArtifactRef>,
}

/// The stored form.
#[derive(Serialize, Deserialize)]
struct StoredForm {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    place: Option<u64>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    set: BTreeMap<Arc<str>, Encoded>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    remove: Vec<Arc<str>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    artifacts: Vec<ArtifactRef>,
}

impl From<StoredForm> for SavedByStep {
    fn from(StoredForm { place, set, remove, artifacts }: StoredForm) -> Self {
        let set = set.into_iter().map(|(key, value)| (key, Some(value)));
        Self {
            place,
            changes: remove.into_iter().map(|key| (key, None)).chain(set).collect(),
            artifacts,
        }
    }
}

impl From<SavedByStep> for StoredForm {
    fn from(SavedByStep { place, changes, artifacts }: SavedByStep) -> Self {
        let mut written = Self { place, set: BTreeMap::new(), remove: Vec::new(), artifacts };
        for (key, value) in changes {
            match value {
                Some(value) => drop(written.set.insert(key, value)),
                None => written.remove.push(key),
            }
        }
        written
    }
}

impl SavedByStep {
    /// Returns the position of the step among the steps of its run. `None` for nested steps, whose
    /// changes are part of the enclosing step's changes. If two concurrent steps change the same
    /// key, the step with the greater position wins.
    pub fn place(&self) -> Option<u64> {
        self.place
    }

    /// Sets the position.
    pub(crate) fn at(self, place: Option<u64>) -> Self {
        Self { place, ..self }
    }

    /// Returns each changed key with its new value, or `None` if it was removed, ordered by key.
    pub fn changes(&self) -> impl Iterator<Item = (&str, Option<&Encoded>)> {
        self.changes.iter().map(|(key, value)| (&**key, value.as_ref()))
    }

    /// Returns the saved artifacts, in order.
    pub fn artifacts(&self) -> &[ArtifactRef] {
        &self.artifacts
    }

    /// Restores the hashes of artifacts from the record before redaction. Redaction could have
    /// changed them.
    pub(crate) fn restore_hashes(&mut self, was: &Self) {
        for (kind, was) in self.artifacts.iter_mut().zip(&was.artifacts) {
            kind.sha256.clone_from(&was.sha256);
        }
    }

    pub(crate) fn add_artifact(&mut self, artifact: ArtifactRef) {
        self.artifacts.push(artifact);
    }

    /// Returns the change of a key: `None` if it is unchanged, `Some(None)` if it is removed,
    /// otherwise the new value.
    pub(crate) fn get(&self, key: &str) -> Option<Option<&Encoded>> {
        self.changes.get(key).map(Option::as_ref)
    }

    pub(crate) fn change(&mut self, key: &str, value: Option<Encoded>) {
        self.changes.insert(key.into(), value);
    }

    pub(crate) fn forget(&mut self, key: &str) {
        self.changes.remove(key);
    }

    /// Applies changes that were saved after these.
    pub(crate) fn apply(&mut self, later: &Self) {
        self.changes
            .extend(later.changes.iter().map(|(key, value)| (Arc::clone(key), value.clone())));
        for artifact in &later.artifacts {
            if !self.artifacts.contains(artifact) {
                self.artifacts.push(artifact.clone());
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.artifacts.is_empty()
    }

    /// Estimates the size in a record, in bytes.
    pub(crate) fn size(&self) -> usize {
        let of = |(key, value): (&Arc<str>, &Option<Encoded>)| {
            key.len() + value.as_ref().map_or(0, |value| value.as_str().len()) + 8
        };
        let artifact =
            |artifact: &ArtifactRef| artifact.name.len() + artifact.media_type.len() + 160;
        self.changes.iter().map(of).sum::<usize>()
            + self.artifacts.iter().map(artifact).sum::<usize>()
    }

    /// Returns the part that is recorded, without `temp:` keys. Returns `None` if it is empty.
    pub(crate) fn recorded(self: &Arc<Self>) -> Option<Arc<Self>> {
        let is_recorded = |key: &str| StateOwner::split(key).0 != StateOwner::Temp;
        if self.changes.keys().all(|key| is_recorded(key)) {
            return (!self.is_empty()).then(|| Arc::clone(self));
        }
        let mut recorded = Self::clone(self);
        recorded.changes.retain(|key, _| is_recorded(key));
        (!recorded.is_empty()).then(|| Arc::new(recorded))
    }

    /// Returns the values for redaction.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut Encoded> {
        self.changes.values_mut().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saved(changes: &[(&str, Option<&str>)]) -> SavedByStep {
        let mut saved = SavedByStep::default();
        for (key, json) in changes {
            saved.change(key, json.map(|json| Encoded::from_json(json.to_owned()).unwrap()));
        }
        saved
    }

    #[test]
    fn a_removed_key_is_not_one_that_is_null() {
        let saved = saved(&[("gone", None), ("null", Some("null"))]);
        let json = serde_json::to_string(&saved).unwrap();
        assert_eq!(json, r#"{"set":{"null":null},"remove":["gone"]}"#);
        let read: SavedByStep = serde_json::from_str(&json).unwrap();
        assert_eq!(read, saved);
        assert_eq!(read.get("gone"), Some(None));
        assert_eq!(read.get("null").unwrap().unwrap().as_str(), "null");
        assert_eq!(read.get("other"), None);
    }

    #[test]
    fn what_is_temporary_is_not_recorded() {
        let temporary = Arc::new(saved(&[("temp:a", Some("1"))]));
        assert_eq!(temporary.recorded(), None);
        let both = Arc::new(saved(&[("temp:a", Some("1")), ("a", Some("2"))]));
        assert_eq!(*both.recorded().unwrap(), saved(&[("a", Some("2"))]));
        let kept = Arc::new(saved(&[("a", None)]));
        assert!(Arc::ptr_eq(&kept, &kept.recorded().unwrap()));
    }
}

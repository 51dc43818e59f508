//! `MemoryEntry` and `MemoryNote`: one remembered thing, and one that is to be. They are data alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::event::RunId;
use crate::time::Timestamp;

/// Something that is remembered of a user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct MemoryEntry {
    /// Its id: the user has no other entry of this id.
    pub id: Arc<str>,
    /// What is remembered.
    pub text: String,
    /// What it is found by beside its text.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    /// When it was saved last.
    pub time: Timestamp,
    /// The run that saved it; `None` when it was saved outside of any run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub run: Option<RunId>,
}

impl MemoryEntry {
    /// An entry; [`UserMemory::save`](super::UserMemory::save) makes those of runs.
    pub fn new(id: impl Into<Arc<str>>, note: impl Into<MemoryNote>, time: Timestamp) -> Self {
        let MemoryNote { text, tags } = note.into();
        Self { id: id.into(), text, tags, time, run: None }
    }
}

/// Something to remember: a text and what it is found by beside it. A text alone is one.
///
/// ```
/// use agentflow::memory::MemoryNote;
///
/// let note = MemoryNote::new("Prefers window seats.").tag("topic", "travel");
/// assert_eq!(note.tags["topic"], "travel");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryNote {
    /// What is to be remembered.
    pub text: String,
    /// What it is found by beside its text.
    pub tags: BTreeMap<String, String>,
}

impl MemoryNote {
    /// The most bytes of a text.
    pub const MAX_TEXT: usize = 16 << 10;
    /// The most tags.
    pub const MAX_TAGS: usize = 16;
    /// The most bytes of a tag's key, and of its value.
    pub const MAX_TAG: usize = 256;

    /// A text without tags.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), tags: BTreeMap::new() }
    }

    /// Adds a tag, or replaces the one of the same key.
    #[must_use]
    pub fn tag(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.tags.insert(key.into(), value.into());
        self
    }

    /// Why it cannot be kept, if it cannot.
    pub(super) fn problem(&self) -> Option<String> {
        let size = self.text.len();
        let long = |text: &String| text.len() > Self::MAX_TAG;
        if self.text.trim().is_empty() {
            Some("its text is empty; say what is to be remembered".to_owned())
        } else if size > Self::MAX_TEXT {
            Some(format!("its text has {size} bytes, more than the {} of one; save it in parts", Self::MAX_TEXT))
        } else if self.tags.len() > Self::MAX_TAGS {
            Some(format!("it has {} tags; it may have {} at most", self.tags.len(), Self::MAX_TAGS))
        } else if self.tags.iter().any(|(key, value)| key.is_empty() || long(key) || long(value)) {
            Some(format!("a tag has no key, or a key or value of more than {} bytes; make it shorter", Self::MAX_TAG))
        } else {
            None
        }
    }
}

impl From<&str> for MemoryNote {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for MemoryNote {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

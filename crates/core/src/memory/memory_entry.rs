//! `MemoryEntry`, a saved memory, and `MemoryNote`, the text and tags to save. Both are plain data.

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::event::RunId;
use crate::time::Timestamp;

/// A memory of a user.
///
/// ```
/// use agentflow::memory::MemoryEntry;
/// use agentflow::time::Timestamp;
///
/// let entry = MemoryEntry::new("seat", "prefers a window seat", Timestamp::from_millis(0));
/// assert_eq!(entry.text, "prefers a window seat");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct MemoryEntry {
    /// Identifier, unique among the user's entries.
    pub id: Arc<str>,
    /// The remembered text.
    pub text: String,
    /// Tags to filter by, in addition to the text.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    /// Time of the last save.
    pub time: Timestamp,
    /// The run that saved the entry; `None` if it was saved outside of a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub run: Option<RunId>,
}

impl MemoryEntry {
    /// Creates an entry that does not belong to a run. Within a run,
    /// [`UserMemory::save`](super::UserMemory::save) creates entries.
    pub fn new(id: impl Into<Arc<str>>, note: impl Into<MemoryNote>, time: Timestamp) -> Self {
        let MemoryNote { text, tags } = note.into();
        Self { id: id.into(), text, tags, time, run: None }
    }
}

/// Text to remember, with optional tags. Converts from a plain string.
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
    /// The text to remember.
    pub text: String,
    /// Tags to filter by, in addition to the text.
    pub tags: BTreeMap<String, String>,
}

impl MemoryNote {
    /// Maximum size of the text, in bytes: 16 KiB.
    pub const MAX_TEXT: usize = 16 << 10;
    /// Maximum number of tags.
    pub const MAX_TAGS: usize = 16;
    /// Maximum size of a tag's key, and of its value, in bytes.
    pub const MAX_TAG: usize = 256;

    /// Creates a note without tags.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), tags: BTreeMap::new() }
    }

    /// Adds a tag. Replaces the value of an existing tag with the same key.
    #[must_use]
    pub fn tag(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.tags.insert(key.into(), value.into());
        self
    }

    /// Returns the limit that the note violates, if any.
    pub(super) fn problem(&self) -> Option<String> {
        let size = self.text.len();
        let long = |text: &String| text.len() > Self::MAX_TAG;
        if self.text.trim().is_empty() {
            Some("its text is empty; say what is to be remembered".to_owned())
        } else if size > Self::MAX_TEXT {
            Some(format!(
                "its text has {size} bytes, more than the {} of one; save it in parts",
                Self::MAX_TEXT
            ))
        } else if self.tags.len() > Self::MAX_TAGS {
            Some(format!("it has {} tags; it may have {} at most", self.tags.len(), Self::MAX_TAGS))
        } else if self.tags.iter().any(|(key, value)| key.is_empty() || long(key) || long(value)) {
            Some(format!(
                "a tag has no key, or a key or value of more than {} bytes; make it shorter",
                Self::MAX_TAG
            ))
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

//! `MemoryQuery`: which of a user's memories are asked for. Whose they are is not a part of it.

use super::MemoryEntry;

/// Selects memories of a user. A text alone is one.
///
/// ```
/// use agentflow::memory::MemoryQuery;
///
/// let query = MemoryQuery::text("window seat").tag("topic", "travel").limit(3);
/// assert_eq!((query.get_text(), query.get_limit()), (Some("window seat"), 3));
/// assert_eq!(MemoryQuery::all().get_text(), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryQuery {
    text: Option<String>,
    tags: Vec<(String, String)>,
    limit: usize,
    skip: usize,
}

impl MemoryQuery {
    /// How many memories a query finds that says nothing else.
    pub const LIMIT: usize = 10;

    /// Those that fit a text, the best first. Which do, and how well, is the implementation's to say.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: Some(text.into()), ..Self::all() }
    }

    /// All, the newest first.
    pub fn all() -> Self {
        Self { text: None, tags: Vec::new(), limit: Self::LIMIT, skip: 0 }
    }

    /// Only those that have this tag with this value; of several tags, only those that have all of them.
    #[must_use]
    pub fn tag(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.tags.push((key.into(), value.into()));
        self
    }

    /// At most so many. Default: [`LIMIT`](Self::LIMIT).
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Without the first ones: the next page.
    #[must_use]
    pub fn skip(mut self, skip: usize) -> Self {
        self.skip = skip;
        self
    }

    /// The text that they are to fit; `None` for all.
    pub fn get_text(&self) -> Option<&str> {
        self.text.as_deref()
    }

    /// The tags that they must have, with their values.
    pub fn get_tags(&self) -> &[(String, String)] {
        &self.tags
    }

    /// The most.
    pub fn get_limit(&self) -> usize {
        self.limit
    }

    /// How many are left out at the beginning.
    pub fn get_skip(&self) -> usize {
        self.skip
    }

    /// Whether an entry has all tags of the query.
    pub fn admits(&self, entry: &MemoryEntry) -> bool {
        self.tags.iter().all(|(key, value)| entry.tags.get(key) == Some(value))
    }
}

impl From<&str> for MemoryQuery {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<String> for MemoryQuery {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

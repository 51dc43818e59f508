//! `MemoryQuery`: a search in the memories of one user. The user is not part of the query, so no
//! query can reach the memories of another user.

use super::MemoryEntry;

/// A query for memories of a user. Converts from a plain string.
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
    /// Default maximum number of results.
    pub const LIMIT: usize = 10;

    /// Creates a query for memories that match this text, best match first. The
    /// [`Memory`](super::Memory) implementation decides which memories match, and how well.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: Some(text.into()), ..Self::all() }
    }

    /// Creates a query for all memories, newest first.
    pub fn all() -> Self {
        Self { text: None, tags: Vec::new(), limit: Self::LIMIT, skip: 0 }
    }

    /// Restricts the results to memories with this tag and value. If called several times, a memory
    /// must have all of the tags.
    #[must_use]
    pub fn tag(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.tags.push((key.into(), value.into()));
        self
    }

    /// Sets the maximum number of results. Default: [`LIMIT`](Self::LIMIT).
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Skips the first results, to read the next page. Default: 0.
    #[must_use]
    pub fn skip(mut self, skip: usize) -> Self {
        self.skip = skip;
        self
    }

    /// Returns the text to match, or `None` if the query selects all memories.
    pub fn get_text(&self) -> Option<&str> {
        self.text.as_deref()
    }

    /// Returns the required tags with their values.
    pub fn get_tags(&self) -> &[(String, String)] {
        &self.tags
    }

    /// Returns the maximum number of results.
    pub fn get_limit(&self) -> usize {
        self.limit
    }

    /// Returns the number of results to skip.
    pub fn get_skip(&self) -> usize {
        self.skip
    }

    /// Returns `true` if an entry has all tags of the query.
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

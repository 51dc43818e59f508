//! `InProcessMemory`: a memory that lasts as long as the process, for tests and small programs. It
//! does not write files.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use super::words::{MOST_WORDS, words};
use super::{Memory, MemoryEntry, MemoryQuery};
use crate::store::StoreError;
use crate::time::Timestamp;

/// A [`Memory`] that lasts as long as the process. It ranks entries by the number of distinct query
/// words that they contain. Clones share the entries.
///
/// ```
/// use agentflow::memory::{InProcessMemory, MemoryQuery};
/// use agentflow::prelude::*;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// let runtime = Runtime::builder().memory(InProcessMemory::new()).build();
/// let of_ada = runtime.memories().user("ada")?;
/// of_ada.save("Prefers window seats.").await?;
/// assert_eq!(of_ada.search("which seats?").await?[0].text, "Prefers window seats.");
/// assert!(runtime.memories().user("bob")?.search(MemoryQuery::all()).await?.is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct InProcessMemory(Arc<Mutex<BTreeMap<String, Entries>>>);

type Entries = BTreeMap<Arc<str>, MemoryEntry>;

impl InProcessMemory {
    /// Maximum number of entries per user.
    pub const MAX_ENTRIES: usize = 10_000;

    /// Creates an empty memory.
    pub fn new() -> Self {
        Self::default()
    }

    /// Removes all entries that were saved before `time`, of all users. Returns the number of
    /// removed entries.
    pub fn delete_before(&self, time: Timestamp) -> u64 {
        let mut removed = 0;
        self.users().retain(|_, entries| {
            let before = entries.len();
            entries.retain(|_, entry| entry.time >= time);
            removed += (before - entries.len()) as u64;
            !entries.is_empty()
        });
        removed
    }

    fn users(&self) -> MutexGuard<'_, BTreeMap<String, Entries>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Memory for InProcessMemory {
    async fn save(&self, user: &str, entry: MemoryEntry) -> Result<(), StoreError> {
        let mut users = self.users();
        let entries = users.entry(user.to_owned()).or_default();
        // Replacing an existing entry needs no room.
        if entries.len() >= Self::MAX_ENTRIES && !entries.contains_key(&entry.id) {
            return Err(StoreError::too_many_memories(Self::MAX_ENTRIES));
        }
        entries.insert(Arc::clone(&entry.id), entry);
        Ok(())
    }

    async fn search(
        &self,
        user: &str,
        query: &MemoryQuery,
    ) -> Result<Vec<MemoryEntry>, StoreError> {
        let wanted: Option<BTreeSet<String>> =
            query.get_text().map(|text| words(text).take(MOST_WORDS).collect());
        let users = self.users();
        let entries = users
            .get(user)
            .into_iter()
            .flat_map(BTreeMap::values)
            .filter(|entry| query.admits(entry));
        let mut found: Vec<(usize, &MemoryEntry)> = entries
            .filter_map(|entry| match &wanted {
                None => Some((0, entry)),
                Some(wanted) => {
                    let own: BTreeSet<String> = words(&entry.text).collect();
                    let fits = wanted.intersection(&own).count();
                    (fits > 0).then_some((fits, entry))
                }
            })
            .collect();
        // Best match first. Entries that match equally well are ordered by time, then by id, newest
        // first, so that pages do not overlap.
        found.sort_by_key(|(fits, entry)| Reverse((*fits, entry.time, &entry.id)));
        let page = found.into_iter().skip(query.get_skip()).take(query.get_limit());
        Ok(page.map(|(_, entry)| entry.clone()).collect())
    }

    async fn delete(&self, user: &str, id: &str) -> Result<bool, StoreError> {
        Ok(self.users().get_mut(user).is_some_and(|entries| entries.remove(id).is_some()))
    }

    async fn delete_user(&self, user: &str) -> Result<u64, StoreError> {
        Ok(self.users().remove(user).map_or(0, |entries| entries.len() as u64))
    }
}

impl fmt::Debug for InProcessMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InProcessMemory").finish_non_exhaustive()
    }
}

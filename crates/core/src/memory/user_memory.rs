//! `UserMemory`: a handle to the memories of one user. It does not give access to other users.

use std::fmt;
use std::sync::Arc;

use super::{Memory, MemoryEntry, MemoryNote, MemoryQuery};
use crate::definition::sha256;
use crate::error::{Error, Result};
use crate::event::RunId;
use crate::time::Clock;

/// A handle to the memories of one user. [`Context::memory`](crate::Context::memory) returns the
/// handle of the run's caller, [`Memories::user`](crate::runtime::Memories::user) the handle of any
/// user. Cloning is cheap.
///
/// # Cancel safety
/// If the future of a method that writes is dropped, the change is made completely or not at all.
#[derive(Clone)]
pub struct UserMemory {
    memory: Arc<dyn Memory>,
    user: Arc<str>,
    clock: Arc<dyn Clock>,
    ids: MemoryIds,
}

/// Source of the ids of new entries.
#[derive(Clone)]
pub(crate) enum MemoryIds {
    /// Derives ids from the idempotency key of a step, so that a repeated step saves the same
    /// entry.
    Step(RunId, String),
    /// Generates random ids, for entries that are saved outside of a run.
    Chance(Arc<dyn Fn() -> u64 + Send + Sync>),
}

/// Returns the id of an entry: the first 32 hexadecimal digits of a hash of the key and the text.
pub(crate) fn derived_id(key: &str, text: &str) -> String {
    // The length of the key keeps the pair unambiguous if the key itself contains `\0`.
    let mut hash = sha256(format!("{}\0{key}\0{text}", key.len()).as_bytes());
    hash.truncate(32);
    hash
}

impl UserMemory {
    pub(crate) fn new(
        memory: Arc<dyn Memory>,
        user: Arc<str>,
        clock: Arc<dyn Clock>,
        ids: MemoryIds,
    ) -> Self {
        Self { memory, user, clock, ids }
    }

    /// Returns the name of the user.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// Saves a memory and returns its entry, with the id. Within a step of a run, the id is derived
    /// from the step and the text, so a step that is repeated after a crash or a retry leaves one
    /// entry. Two different strings in one step are two entries.
    ///
    /// # Errors
    /// [`Error::Memory`] if the text is empty or larger than [`MemoryNote::MAX_TEXT`] bytes, or if
    /// there are too many or too long tags. [`Error::Store`] if the memory does not accept the
    /// entry, for example `full`.
    ///
    /// # Cancel safety
    /// If the future is dropped, the entry may or may not have been saved.
    pub async fn save(&self, note: impl Into<MemoryNote> + Send) -> Result<MemoryEntry> {
        let note = note.into();
        if let Some(problem) = note.problem() {
            return Err(Error::Memory { problem });
        }
        let (id, run) = match &self.ids {
            MemoryIds::Step(run, key) => (derived_id(key, &note.text), Some(run.clone())),
            MemoryIds::Chance(bits) => (format!("{:016x}{:016x}", bits(), bits()), None),
        };
        let entry = MemoryEntry { run, ..MemoryEntry::new(id, note, self.clock.now()) };
        self.memory.save(&self.user, entry.clone()).await?;
        Ok(entry)
    }

    /// Saves an entry unchanged, replacing the user's entry with the same id. Use it to correct an
    /// entry or to import one.
    ///
    /// # Errors
    /// As [`save`](Self::save).
    pub async fn save_entry(&self, entry: MemoryEntry) -> Result<()> {
        let note = MemoryNote { text: entry.text, tags: entry.tags };
        if let Some(problem) = note.problem() {
            return Err(Error::Memory { problem });
        }
        let entry = MemoryEntry { text: note.text, tags: note.tags, ..entry };
        Ok(self.memory.save(&self.user, entry).await?)
    }

    /// Returns the memories that a query selects: matches for its text, best match first, or all
    /// memories, newest first.
    ///
    /// # Errors
    /// [`Error::Store`] if the memory cannot be read.
    pub async fn search(&self, query: impl Into<MemoryQuery> + Send) -> Result<Vec<MemoryEntry>> {
        let query = query.into();
        Ok(self.memory.search(&self.user, &query).await?)
    }

    /// Removes the entry with this id. Returns `true` if it existed. Entries of other users are
    /// never removed.
    ///
    /// # Errors
    /// As [`search`](Self::search).
    pub async fn delete(&self, id: &str) -> Result<bool> {
        Ok(self.memory.delete(&self.user, id).await?)
    }

    /// Removes all memories of the user and returns their number. Journals of runs still contain
    /// what tools returned. Use [`Sessions::delete`](crate::runtime::Sessions::delete) and
    /// [`RunRef::delete`](crate::runtime::RunRef::delete) to remove those.
    ///
    /// # Errors
    /// As [`search`](Self::search).
    pub async fn delete_all(&self) -> Result<u64> {
        Ok(self.memory.delete_user(&self.user).await?)
    }
}

impl fmt::Debug for UserMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UserMemory").field("user", &self.user).finish_non_exhaustive()
    }
}

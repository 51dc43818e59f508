//! `UserMemory`: the memories of one user. Whoever has it cannot ask for those of another one.

use std::fmt;
use std::sync::Arc;

use super::{Memory, MemoryEntry, MemoryNote, MemoryQuery};
use crate::definition::sha256;
use crate::error::{Error, Result};
use crate::event::RunId;
use crate::time::Clock;

/// The memories of one user: of the run's caller from [`Context::memory`](crate::Context::memory), of any user from
/// [`Runtime::memory_of`](crate::Runtime::memory_of). Cloning is cheap.
#[derive(Clone)]
pub struct UserMemory {
    memory: Arc<dyn Memory>,
    user: Arc<str>,
    clock: Arc<dyn Clock>,
    ids: MemoryIds,
}

/// Where the ids of new entries come from.
#[derive(Clone)]
pub(crate) enum MemoryIds {
    /// From a step of a run, whose key is the same whenever it runs again.
    Step(RunId, String),
    /// From chance: outside of any run.
    Chance(Arc<dyn Fn() -> u64 + Send + Sync>),
}

/// The id of an entry that is saved under a key: the same for the same key and text.
pub(crate) fn id_of_key(key: &str, text: &str) -> String {
    let mut hash = sha256(format!("{}\0{key}\0{text}", key.len()).as_bytes());
    hash.truncate(32);
    hash
}

impl UserMemory {
    pub(crate) fn new(memory: Arc<dyn Memory>, user: Arc<str>, clock: Arc<dyn Clock>, ids: MemoryIds) -> Self {
        Self { memory, user, clock, ids }
    }

    /// The user.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// Saves something and returns the entry, with its id. In a step of a run the same text has the same id whenever the
    /// step runs again, so that a crash or a retry leaves one entry; two texts of one step are two entries.
    ///
    /// Dropping the future leaves open whether it was saved.
    ///
    /// # Errors
    /// [`Error::Memory`] when the text is empty or has more than [`MemoryNote::MAX_TEXT`] bytes, or there are too many or too
    /// long tags. [`Error::Store`] when the memory does not keep it, such as `full`.
    pub async fn save(&self, note: impl Into<MemoryNote> + Send) -> Result<MemoryEntry> {
        let note = note.into();
        if let Some(problem) = note.problem() {
            return Err(Error::Memory { problem });
        }
        let (id, run) = match &self.ids {
            MemoryIds::Step(run, key) => (id_of_key(key, &note.text), Some(run.clone())),
            MemoryIds::Chance(bits) => (format!("{:016x}{:016x}", bits(), bits()), None),
        };
        let entry = MemoryEntry { run, ..MemoryEntry::new(id, note, self.clock.now()) };
        self.memory.save(&self.user, entry.clone()).await?;
        Ok(entry)
    }

    /// Saves an entry as it is, in the place of the user's entry of the same id: to change one, or to bring one from
    /// elsewhere.
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

    /// The memories that a query selects: those that fit a text, the best first, or all, the newest first.
    ///
    /// # Errors
    /// [`Error::Store`] when the memory cannot be read.
    pub async fn search(&self, query: impl Into<MemoryQuery> + Send) -> Result<Vec<MemoryEntry>> {
        let query = query.into();
        Ok(self.memory.search(&self.user, &query).await?)
    }

    /// Removes the entry of an id, and returns whether there was one. Of another user's entry nothing is removed.
    ///
    /// # Errors
    /// As [`search`](Self::search).
    pub async fn delete(&self, id: &str) -> Result<bool> {
        Ok(self.memory.delete(&self.user, id).await?)
    }

    /// Removes all memories of the user, and returns how many there were. The journals of runs keep what tools answered:
    /// [`Runtime::delete_session`](crate::Runtime::delete_session) and [`Runtime::delete`](crate::Runtime::delete) remove those.
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

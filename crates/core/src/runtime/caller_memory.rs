//! `CallerMemory`: the memories of a user for a caller, under access control.

use crate::access::{AccessAction, ActingCaller};
use crate::error::Result;
use crate::memory::{MemoryEntry, MemoryNote, MemoryQuery, UserMemory};

/// The memories of one user for a caller, returned by
/// [`CallerRuntime::memory`](crate::runtime::CallerRuntime::memory). Each method asks the access
/// control first. If the caller may not read the memories, the user seems to have none.
///
/// # Cancel safety
/// As the methods of [`UserMemory`].
#[derive(Clone, Debug)]
#[must_use = "this only refers to the memories"]
pub struct CallerMemory {
    memory: UserMemory,
    acting: Option<ActingCaller>,
}

impl CallerMemory {
    pub(super) fn new(memory: UserMemory, acting: Option<ActingCaller>) -> Self {
        Self { memory, acting }
    }

    async fn check_change(&self) -> Result<()> {
        match &self.acting {
            Some(acting) => acting.check_memory_change(self.user()).await,
            None => Ok(()),
        }
    }

    /// Returns the name of the user.
    pub fn user(&self) -> &str {
        self.memory.user()
    }

    /// Returns the memories that a query selects, as [`UserMemory::search`]. Returns none if the
    /// caller may not read the memories of the user.
    ///
    /// # Errors
    /// As [`UserMemory::search`].
    pub async fn search(&self, query: impl Into<MemoryQuery> + Send) -> Result<Vec<MemoryEntry>> {
        if let Some(acting) = &self.acting
            && !acting.allows_memory(AccessAction::ReadMemory, self.user()).await
        {
            return Ok(Vec::new());
        }
        self.memory.search(query).await
    }

    /// Saves a memory, as [`UserMemory::save`].
    ///
    /// # Errors
    /// [`Error::AccessDenied`](crate::Error::AccessDenied), and as [`UserMemory::save`].
    pub async fn save(&self, note: impl Into<MemoryNote> + Send) -> Result<MemoryEntry> {
        self.check_change().await?;
        self.memory.save(note).await
    }

    /// Saves an entry unchanged, as [`UserMemory::save_entry`].
    ///
    /// # Errors
    /// [`Error::AccessDenied`](crate::Error::AccessDenied), and as [`UserMemory::save_entry`].
    pub async fn save_entry(&self, entry: MemoryEntry) -> Result<()> {
        self.check_change().await?;
        self.memory.save_entry(entry).await
    }

    /// Deletes the entry with this id, as [`UserMemory::delete`].
    ///
    /// # Errors
    /// [`Error::AccessDenied`](crate::Error::AccessDenied), whether the entry exists or not, and as
    /// [`UserMemory::delete`].
    pub async fn delete(&self, id: &str) -> Result<bool> {
        self.check_change().await?;
        self.memory.delete(id).await
    }

    /// Deletes all memories of the user, as [`UserMemory::delete_all`].
    ///
    /// # Errors
    /// [`Error::AccessDenied`](crate::Error::AccessDenied), and as [`UserMemory::delete_all`].
    pub async fn delete_all(&self) -> Result<u64> {
        self.check_change().await?;
        self.memory.delete_all().await
    }
}

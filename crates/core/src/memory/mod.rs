//! Long-term memory: short notes about a user that agents remember across runs and sessions.
//!
//! - [`Memory`] is the storage interface. [`InProcessMemory`] implements it for tests and small
//!   programs; `SqliteMemory` (feature `sqlite`) implements it on disk.
//! - [`MemoryEntry`] is a saved memory, [`MemoryNote`] the text to save, and [`MemoryQuery`] a
//!   search.
//! - [`UserMemory`] is a handle to the memories of one user. Tools and steps get it from
//!   [`Context::memory`](crate::Context::memory).

// The rules for which user a run may access are in `context/memory_access.rs`.

mod in_process;
mod memory_entry;
mod memory_query;
mod user_memory;
pub(crate) mod words;

use async_trait::async_trait;

pub use self::in_process::InProcessMemory;
pub use self::memory_entry::{MemoryEntry, MemoryNote};
pub use self::memory_query::MemoryQuery;
pub use self::user_memory::UserMemory;
pub(crate) use self::user_memory::{MemoryIds, derived_id};
use crate::store::StoreError;

/// Storage and search for what agents remember of users.
///
/// Pass an implementation to
/// [`Runtime::builder().memory(..)`](crate::runtime::RuntimeBuilder::memory). The tools
/// [`remember`](crate::remember()), [`recall`](crate::recall()) and [`forget`](crate::forget()) use
/// it, and so does [`Context::memory`](crate::Context::memory). [`InProcessMemory`] and
/// `SqliteMemory` (feature `sqlite`) search by words. Implement the trait to search in a different
/// way, for example by meaning with embeddings; the page of the module `agentflow::memory` has an
/// example.
///
/// # Rules
///
/// 1. **Users are separate.** Each method reads and changes only the entries of exactly `user`,
///    compared byte by byte. The contents of a query or an id never change this.
/// 2. **Ids are unique per user.** Saving an id that the user already has replaces that entry, so a
///    save that is repeated with the same id after a crash leaves one entry. Another user may have
///    the same id.
/// 3. **Saves are visible at once.** An entry is found, unchanged, as soon as `save` returns.
/// 4. **Queries are plain text.** A query is written by a person or a model. It has no syntax, so
///    no text is an error.
///
/// `check_memory` of the crate `agentflow-testing` tests these rules.
///
/// # Cancel safety
///
/// If a future is dropped, its write may or may not have happened, but it never happens partially.
#[async_trait]
pub trait Memory: Send + Sync + 'static {
    /// Saves an entry. Replaces the user's entry with the same id.
    ///
    /// # Errors
    /// `full` if the user may have no more entries; `locked`, `damaged` or `io` if the storage
    /// fails.
    async fn save(&self, user: &str, entry: MemoryEntry) -> Result<(), StoreError>;

    /// Returns the user's entries that a query selects. A query with text selects matching entries,
    /// best match first; a query without text selects all entries, newest first. Each result has
    /// all tags of the query ([`MemoryQuery::admits`]). Skips the first [`MemoryQuery::get_skip`]
    /// results and returns at most [`MemoryQuery::get_limit`].
    ///
    /// # Errors
    /// `locked`, `damaged` or `io` if the storage fails.
    async fn search(&self, user: &str, query: &MemoryQuery)
    -> Result<Vec<MemoryEntry>, StoreError>;

    /// Removes the user's entry with this id. Returns `true` if it existed.
    ///
    /// # Errors
    /// `locked`, `damaged` or `io` if the storage fails.
    async fn delete(&self, user: &str, id: &str) -> Result<bool, StoreError>;

    /// Removes all entries of a user in one transaction. Returns the number of removed entries.
    ///
    /// # Errors
    /// `locked`, `damaged` or `io` if the storage fails.
    async fn delete_user(&self, user: &str) -> Result<u64, StoreError>;
}

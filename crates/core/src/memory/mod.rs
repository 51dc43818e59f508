//! Long-term memory: what agents remember of a user from one run, and from one session, to another.
//!
//! This room is the vocabulary ([`Memory`], [`MemoryEntry`], [`MemoryQuery`]), the implementation in memory, and the handle of
//! one user's memories ([`UserMemory`]). It decides nothing about whose memories a run may see: `context/memory_access.rs` does.

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
pub(crate) use self::user_memory::{MemoryIds, id_of_key};
use crate::store::StoreError;

/// Keeps what is remembered of users, and finds it.
///
/// Given to [`Runtime::builder().memory(..)`](crate::runtime::RuntimeBuilder::memory), it is what the tools
/// [`remember`](crate::remember()), [`recall`](crate::recall()) and [`forget`](crate::forget()) work with, and
/// [`Context::memory`](crate::Context::memory). [`InProcessMemory`] and `SqliteMemory` (feature `sqlite`) find entries by
/// their words. Implement it to find them in another way, such as by their meaning with embeddings: the
/// page of the module `agentflow::memory` has an example.
///
/// # Rules
///
/// 1. **A user's own.** Whatever is said of `user` concerns the entries of exactly this user, compared byte by byte.
///    Nothing that a query or an id contains changes that.
/// 2. **An id once.** Saving an id that the user has replaces that entry. So a save that is repeated after a crash, which
///    has the same id, leaves one entry. Another user may have the same id.
/// 3. **What was saved is found** as it was, as soon as `save` returns.
/// 4. **Any text is a query.** A query is a person's or a model's text and never a language: none is an error.
///
/// `check_memory` of the crate `agentflow-testing` tests them. A dropped future leaves open whether its write happened, and
/// never half of it.
#[async_trait]
pub trait Memory: Send + Sync + 'static {
    /// Keeps an entry, in the place of the user's entry of the same id.
    ///
    /// # Errors
    /// `full` when the user may have no more; `locked`, `damaged`, `io`.
    async fn save(&self, user: &str, entry: MemoryEntry) -> Result<(), StoreError>;

    /// The user's entries that a query selects: of one with a text those that fit it, the best first, and of one without
    /// all, the newest first. At most [`MemoryQuery::get_limit`] after the first [`MemoryQuery::get_skip`], each with all tags
    /// of the query ([`MemoryQuery::admits`]).
    ///
    /// # Errors
    /// `locked`, `damaged`, `io`.
    async fn search(&self, user: &str, query: &MemoryQuery) -> Result<Vec<MemoryEntry>, StoreError>;

    /// Removes the user's entry of an id, and returns whether there was one.
    ///
    /// # Errors
    /// `locked`, `damaged`, `io`.
    async fn delete(&self, user: &str, id: &str) -> Result<bool, StoreError>;

    /// Removes all entries of a user, in one transaction, and returns how many there were.
    ///
    /// # Errors
    /// `locked`, `damaged`, `io`.
    async fn delete_user(&self, user: &str) -> Result<u64, StoreError>;
}

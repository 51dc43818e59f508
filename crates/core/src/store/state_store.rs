//! [`StateStore`]: the optional part of a store for values that outlive runs.

use async_trait::async_trait;

use super::{StateWrite, StoreError};
use crate::value::Encoded;

/// Durable state of a [`Store`](super::Store): the values of `user:` and `app:` keys, which outlive
/// runs.
///
/// A run changes them through [`Append::state`](super::Append::state), in the transaction that
/// appends its events, so that a value and the event of the step that wrote it are both stored or
/// both missing. A store that returns this part applies these changes in its own
/// [`append`](super::Store::append). This trait reads values and changes them outside of runs.
#[async_trait]
pub trait StateStore: Send + Sync {
    /// Changes values outside of a run, in one transaction. If two calls or appends write the same
    /// key, the later one wins.
    ///
    /// # Errors
    /// `too_large`.
    ///
    /// # Cancel safety
    /// If the future is dropped, all changes are made or none.
    async fn put_state(&self, writes: Vec<StateWrite>) -> Result<(), StoreError>;

    /// Returns the values of a user, or of the application if `user` is `None`, sorted by key.
    /// `key` selects a single value.
    ///
    /// # Errors
    /// `damaged` if a value cannot be read.
    async fn read_state(
        &self,
        user: Option<&str>,
        key: Option<&str>,
    ) -> Result<Vec<(String, Encoded)>, StoreError>;
}

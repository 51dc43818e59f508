//! Boxed futures, and the wrapper [`Exclusive`] that makes them `Sync`. Public traits use
//! `#[async_trait]` and do not name these types.

use std::pin::Pin;
use std::sync::{Mutex, PoisonError};

use futures_util::FutureExt;

/// A boxed future.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Polls a future once. Returns its output if it is ready, and `None` if it is pending.
pub(crate) fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
    tokio::task::coop::unconstrained(future).now_or_never()
}

/// A value that can only be reached through `&mut`, and is therefore `Sync` for every `T: Send`.
///
/// The futures of `#[async_trait]` methods are only `Send`. Without this wrapper, a handle that
/// holds such a future would not be `Sync`. The mutex is never locked: `get_mut` needs exclusive
/// access and does not lock.
#[derive(Debug, Default)]
pub struct Exclusive<T>(Mutex<T>);

impl<T> Exclusive<T> {
    /// Wraps a value.
    pub fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// Returns a mutable reference to the value.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

//! Boxed futures, and the wrapper [`Exclusive`] that makes them `Sync`. Public traits use
//! `#[async_trait]` and do not name these types.

use std::pin::Pin;
use std::sync::{Mutex, PoisonError};

use futures_util::FutureExt;

/// A boxed future.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Returns the output of a future that is ready at once.
pub(crate) fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
    tokio::task::coop::unconstrained(future).now_or_never()
}

/// A value that can only be reached through `&mut`, and is therefore `Sync` for every `T: Send`.
///
/// The futures of `#[async_trait]` methods are only `Send`. Without this wrapper, a handle that
/// holds such a future would not be `Sync`. The lock is never taken.
#[derive(Debug, Default)]
pub struct Exclusive<T>(Mutex<T>);

impl<T> Exclusive<T> {
    /// Creates it.
    pub fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// Returns the value.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

//! Boxed futures of the core, and the wrapper that makes them `Sync`. Traits that others implement are `#[async_trait]` and
//! never name them.

use std::pin::Pin;
use std::sync::{Mutex, PoisonError};

use futures_util::FutureExt;

/// A boxed future.
pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Returns the output of a future that is ready at once.
pub(crate) fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
    tokio::task::coop::unconstrained(future).now_or_never()
}

/// A value that is reached through `&mut` only, and is therefore `Sync` for every `T` that is `Send`.
///
/// The futures of `#[async_trait]` methods are `Send` only, and so would be a handle that holds one. The lock is never
/// taken.
#[derive(Debug, Default)]
pub(crate) struct Exclusive<T>(Mutex<T>);

impl<T> Exclusive<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

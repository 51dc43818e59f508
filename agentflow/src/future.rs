//! The one form of a boxed future within the core. Traits that others implement are `#[async_trait]` and never name it.

use std::pin::Pin;

/// A boxed future.
pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

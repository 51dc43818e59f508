//! The one HTTP client.

use std::time::Duration;

/// Time-outs and retries of an adapter's HTTP calls.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HttpSettings {
    /// The longest for opening a connection. Default 10 s.
    pub connect_timeout: Duration,
}

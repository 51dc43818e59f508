//! Time-outs, retries and limits of an adapter's HTTP calls. It enforces none of them.

use std::time::Duration;

/// Time-outs, retries and limits of an adapter's HTTP calls.
///
/// ```
/// use std::time::Duration;
/// use agentflow::model::HttpSettings;
///
/// let http = HttpSettings::default().max_retries(0).idle_timeout(Duration::from_secs(30));
/// # let _ = http;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpSettings {
    pub(super) connect_timeout: Duration,
    pub(super) first_byte_timeout: Duration,
    pub(super) idle_timeout: Duration,
    pub(super) total_timeout: Duration,
    pub(super) max_retries: Option<u32>,
    pub(super) retry_base: Duration,
    pub(super) retry_cap: Duration,
    pub(super) retry_after_cap: Duration,
    pub(super) max_answer_bytes: u64,
}

impl HttpSettings {
    /// Sets the longest time for opening a connection. Default 10 s.
    #[must_use]
    pub fn connect_timeout(mut self, longest: Duration) -> Self {
        self.connect_timeout = longest;
        self
    }

    /// Sets the longest time from sending a request to the first byte of its answer's body, thinking included. Default
    /// 10 min, as in OpenAI's own client.
    #[must_use]
    pub fn first_byte_timeout(mut self, longest: Duration) -> Self {
        self.first_byte_timeout = longest;
        self
    }

    /// Sets the longest time between two pieces of an answer's body. A keep-alive of the server is such a piece: it
    /// shows that the connection lives. Default 5 min: OpenAI's own client waits 10 min because it has one figure for
    /// this and the first byte, and a model may think between two pieces that it shows.
    #[must_use]
    pub fn idle_timeout(mut self, longest: Duration) -> Self {
        self.idle_timeout = longest;
        self
    }

    /// Sets the longest time for a call as a whole, retries and waits included. Default 1 h.
    #[must_use]
    pub fn total_timeout(mut self, longest: Duration) -> Self {
        self.total_timeout = longest;
        self
    }

    /// Sets how often a call is retried. Default 2, and 11 while the server cannot be reached or is overloaded (a refused
    /// connection, the statuses 503 and 529): with the default waits that is about a minute.
    ///
    /// A call is retried only when it was refused or when nothing of its answer arrived, and only when that can help:
    /// never after the statuses 400, 401, 403, 404 and 422. An answer that broke off is an error at once.
    ///
    /// A durable run retries failed calls by itself, with events; the adapter then does not retry. See
    /// [`retry`](crate::middleware::retry).
    #[must_use]
    pub fn max_retries(mut self, retries: u32) -> Self {
        self.max_retries = Some(retries);
        self
    }

    /// Sets the wait before the first retry, doubled for each further one and shortened by chance by up to a quarter.
    /// Default 0.5 s. A provider's own `Retry-After` takes its place.
    #[must_use]
    pub fn retry_base(mut self, wait: Duration) -> Self {
        self.retry_base = wait;
        self
    }

    /// Sets the longest such wait. Default 8 s.
    #[must_use]
    pub fn retry_cap(mut self, longest: Duration) -> Self {
        self.retry_cap = longest;
        self
    }

    /// Sets the longest `Retry-After` that is waited for; a longer one ends the call with an error that carries it.
    /// Default 2 min.
    #[must_use]
    pub fn retry_after_cap(mut self, longest: Duration) -> Self {
        self.retry_after_cap = longest;
        self
    }

    /// Sets the most bytes of one answer's body as it arrives over the wire, streamed or not. Default 64 MiB: more than
    /// the longest answers take, whose every token is an event of some 300 bytes. A longer one ends with
    /// [`ModelErrorKind::AnswerTooLarge`](crate::model::ModelErrorKind), and what arrived of it is dropped.
    ///
    /// Two limits are fixed: one event of a stream has at most 16 MiB, an answer at most 4,096 parts.
    #[must_use]
    pub fn max_answer_bytes(mut self, bytes: u64) -> Self {
        self.max_answer_bytes = bytes;
        self
    }
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            first_byte_timeout: Duration::from_secs(600),
            idle_timeout: Duration::from_secs(300),
            total_timeout: Duration::from_secs(3600),
            max_retries: None,
            retry_base: Duration::from_millis(500),
            retry_cap: Duration::from_secs(8),
            retry_after_cap: Duration::from_secs(120),
            max_answer_bytes: 64 * 1024 * 1024,
        }
    }
}

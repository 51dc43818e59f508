//! Time-outs, retries and limits of an adapter's HTTP calls, and the wait before a retry.

use std::time::Duration;

use super::{ModelError, ModelErrorKind, TimeoutKind};

/// Default number of retries.
const MAX_RETRIES: u32 = 2;
/// Default number of retries while the server is unavailable. With the default waits, the retries
/// take about a minute, in which most servers restart.
const MAX_RETRIES_AWAY: u32 = 11;

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
    /// Sets the time limit for opening a connection. Default: 10 s.
    #[must_use]
    pub fn connect_timeout(mut self, longest: Duration) -> Self {
        self.connect_timeout = longest;
        self
    }

    /// Sets the time limit from sending a request to the first byte of the response body, including
    /// the model's thinking time. Default: 10 min, as in OpenAI's own client.
    #[must_use]
    pub fn first_byte_timeout(mut self, longest: Duration) -> Self {
        self.first_byte_timeout = longest;
        self
    }

    /// Sets the time limit between two pieces of a response body. A keep-alive message of the
    /// server counts as a piece, since it shows that the connection is alive. Default: 5 min.
    /// OpenAI's own client waits 10 min, because it has one limit for this and for the first byte,
    /// and a model may think between two visible pieces.
    #[must_use]
    pub fn idle_timeout(mut self, longest: Duration) -> Self {
        self.idle_timeout = longest;
        self
    }

    /// Sets the time limit for a whole call, including retries and waits. Default: 1 h.
    #[must_use]
    pub fn total_timeout(mut self, longest: Duration) -> Self {
        self.total_timeout = longest;
        self
    }

    /// Sets the maximum number of retries of a call. Default: 2, or 11 while the server cannot be
    /// reached or is overloaded (a refused connection, the statuses 503 and 529). With the default
    /// waits, 11 retries take about a minute.
    ///
    /// A call is only retried if the server refused it or sent no byte of a response, and never
    /// after the statuses 400, 401, 403, 404 and 422. A response that breaks off is an error
    /// without a retry.
    ///
    /// A durable run retries failed calls and records the retries as events; the adapter then does
    /// not retry. See [`retry`](crate::middleware::retry).
    #[must_use]
    pub fn max_retries(mut self, retries: u32) -> Self {
        self.max_retries = Some(retries);
        self
    }

    /// Sets the wait before the first retry. It doubles with each further retry and is shortened by
    /// a random part of up to a quarter. Default: 0.5 s. A `Retry-After` header of the provider
    /// replaces it.
    #[must_use]
    pub fn retry_base(mut self, wait: Duration) -> Self {
        self.retry_base = wait;
        self
    }

    /// Sets the maximum wait before a retry, without a `Retry-After` header. Default: 8 s.
    #[must_use]
    pub fn retry_cap(mut self, longest: Duration) -> Self {
        self.retry_cap = longest;
        self
    }

    /// Sets the longest accepted `Retry-After`. A longer one ends the call with an error that
    /// contains it. Default: 2 min.
    #[must_use]
    pub fn retry_after_cap(mut self, longest: Duration) -> Self {
        self.retry_after_cap = longest;
        self
    }

    /// Sets the maximum size of a response body on the wire in bytes, streamed or not. Default: 64
    /// MiB, which exceeds the longest responses, in which each token is an event of about 300
    /// bytes. A larger response fails with
    /// [`ModelErrorKind::AnswerTooLarge`](crate::model::ModelErrorKind), and the received part is
    /// dropped.
    ///
    /// Two limits are fixed: an event of a stream has at most 16 MiB, and a response has at most
    /// 4,096 parts.
    #[must_use]
    pub fn max_answer_bytes(mut self, bytes: u64) -> Self {
        self.max_answer_bytes = bytes;
        self
    }

    /// Returns the time limit for opening a connection.
    pub fn get_connect_timeout(&self) -> Duration {
        self.connect_timeout
    }

    /// Returns the time limit from sending a request to the first byte of its answer's body.
    pub fn get_first_byte_timeout(&self) -> Duration {
        self.first_byte_timeout
    }

    /// Returns the time limit between two pieces of an answer's body.
    pub fn get_idle_timeout(&self) -> Duration {
        self.idle_timeout
    }

    /// Returns the time limit for a whole call, with its retries and waits.
    pub fn get_total_timeout(&self) -> Duration {
        self.total_timeout
    }

    /// Returns the size limit of an answer's body, in bytes.
    pub fn get_max_answer_bytes(&self) -> u64 {
        self.max_answer_bytes
    }

    /// Returns the wait before the next attempt, or `None` if the call is not retried. `made` is
    /// the number of retries so far; `unconnected` is `true` if no connection to the server was
    /// made.
    pub fn wait_before_retry(
        &self,
        made: u32,
        error: &ModelError,
        unconnected: bool,
    ) -> Option<Duration> {
        let default = if is_away(error, unconnected) { MAX_RETRIES_AWAY } else { MAX_RETRIES };
        if made >= self.max_retries.unwrap_or(default)
            || !error.is_retryable()
            // The total limit includes retries, so no time is left for one.
            || error.kind() == ModelErrorKind::Timeout(TimeoutKind::Total)
        {
            return None;
        }
        match error.retry_after() {
            Some(asked) => (asked <= self.retry_after_cap).then_some(asked),
            None => Some(self.backoff(made, fastrand::f64())),
        }
    }

    /// Doubles the wait from the base up to the cap. `chance` in 0..1 removes up to a quarter, so
    /// that clients do not retry in lockstep.
    fn backoff(&self, made: u32, chance: f64) -> Duration {
        let doubled = self.retry_base.saturating_mul(2_u32.saturating_pow(made));
        doubled.min(self.retry_cap).mul_f64(1.0 - 0.25 * chance)
    }
}

/// Returns true if the server has not begun to process the call: it could not be reached, or is overloaded.
fn is_away(error: &ModelError, unconnected: bool) -> bool {
    match error.kind() {
        ModelErrorKind::Overloaded | ModelErrorKind::Timeout(TimeoutKind::Connect) => true,
        // If a connection breaks later, the server may have processed and charged the request.
        ModelErrorKind::Transport => unconnected,
        _ => false,
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::HttpSettings;
    use crate::model::{ModelError, ModelErrorKind, TimeoutKind};

    #[test]
    fn waits_double_up_to_the_cap_and_shrink_by_at_most_a_quarter() {
        let settings = HttpSettings::default();
        assert_eq!(settings.backoff(0, 0.0), Duration::from_millis(500));
        assert_eq!(settings.backoff(1, 0.0), Duration::from_secs(1));
        assert_eq!(settings.backoff(1, 1.0), Duration::from_millis(750));
        assert_eq!(settings.backoff(1000, 0.0), Duration::from_secs(8));
    }

    #[test]
    fn only_what_can_help_is_tried_again() {
        let settings = HttpSettings::default();
        let of = |kind| ModelError::new(kind, "x");
        for kind in
            [ModelErrorKind::RateLimited, ModelErrorKind::Overloaded, ModelErrorKind::Transport]
        {
            assert!(settings.wait_before_retry(0, &of(kind), false).is_some(), "{kind:?}");
            let most = if kind == ModelErrorKind::Overloaded { 11 } else { 2 };
            assert!(settings.wait_before_retry(most - 1, &of(kind), false).is_some(), "{kind:?}");
            assert_eq!(
                settings.wait_before_retry(most, &of(kind), false),
                None,
                "{kind:?} {most} times already"
            );
            assert_eq!(
                settings.clone().max_retries(1).wait_before_retry(1, &of(kind), false),
                None,
                "{kind:?}"
            );
        }
        let minute: Duration = (0..11).map(|made| settings.backoff(made, 0.5)).sum();
        assert!((45..75).contains(&minute.as_secs()), "{minute:?}");
        for kind in [
            ModelErrorKind::BadRequest,
            ModelErrorKind::Auth,
            ModelErrorKind::Permission,
            ModelErrorKind::NotFound,
            ModelErrorKind::Timeout(TimeoutKind::Total),
        ] {
            assert_eq!(settings.wait_before_retry(0, &of(kind), false), None, "{kind:?}");
        }
        assert_eq!(
            settings.wait_before_retry(0, &of(ModelErrorKind::RateLimited).permanent(), false),
            None
        );
    }

    #[test]
    fn a_wait_that_is_too_long_is_left_to_the_caller() {
        let error = |seconds| {
            ModelError::new(ModelErrorKind::RateLimited, "x")
                .with_retry_after(Duration::from_secs(seconds))
        };
        let settings = HttpSettings::default();
        assert_eq!(
            settings.wait_before_retry(0, &error(120), false),
            Some(Duration::from_secs(120))
        );
        assert_eq!(settings.wait_before_retry(0, &error(121), false), None);
    }
}

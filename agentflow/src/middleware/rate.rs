//! `rate_limit`: keeps the requests and tokens of a model below its provider's limits. It waits and never fails.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use super::{Flow, Middleware, ModelStep};
use crate::error::Result;
use crate::model::{ModelInfo, ModelResponse};

/// Lets each model have at most so many requests in any stretch of time; see [`RateLimit`].
///
/// ```
/// use std::time::Duration;
///
/// use agentflow::Runtime;
/// use agentflow::middleware::rate_limit;
///
/// let minute = Duration::from_secs(60);
/// let runtime = Runtime::builder().with(rate_limit(500, minute).tokens(200_000)).build();
/// # let _ = runtime;
/// ```
pub fn rate_limit(requests: u32, interval: Duration) -> RateLimit {
    RateLimit { requests: requests.max(1), tokens: None, interval, windows: Mutex::default() }
}

/// Waits before a model call until the model may have it; made by [`rate_limit`].
///
/// All runs that share it share the limit, each model has its own. Cancelling a run ends its wait. Tokens are known
/// when an answer is there, so those of calls in progress do not count yet.
#[derive(Debug)]
pub struct RateLimit {
    requests: u32,
    tokens: Option<u64>,
    interval: Duration,
    windows: Mutex<HashMap<(String, String), Window>>,
}

#[derive(Debug, Default)]
struct Window {
    /// When each request of the last interval was made.
    requests: VecDeque<Instant>,
    /// When how many tokens were read and written.
    tokens: VecDeque<(Instant, u64)>,
}

impl RateLimit {
    /// Sets the most tokens, read and written, in the same stretch of time. Default: no limit.
    #[must_use]
    pub fn tokens(mut self, tokens: u64) -> Self {
        self.tokens = Some(tokens.max(1));
        self
    }

    fn windows(&self) -> MutexGuard<'_, HashMap<(String, String), Window>> {
        self.windows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place, or says when to ask again.
    fn take(&self, info: &ModelInfo) -> Option<Instant> {
        let now = Instant::now();
        let mut windows = self.windows();
        let window = windows.entry(key(info)).or_default();
        let over = |at: Instant| now.duration_since(at) >= self.interval;
        while window.requests.front().is_some_and(|at| over(*at)) {
            window.requests.pop_front();
        }
        while window.tokens.front().is_some_and(|(at, _)| over(*at)) {
            window.tokens.pop_front();
        }
        let used = window.tokens.iter().fold(0_u64, |used, (_, tokens)| used.saturating_add(*tokens));
        if self.tokens.is_some_and(|most| used >= most) {
            return window.tokens.front().map(|(at, _)| *at + self.interval);
        }
        if window.requests.len() >= self.requests as usize {
            return window.requests.front().map(|at| *at + self.interval);
        }
        window.requests.push_back(now);
        None
    }
}

fn key(info: &ModelInfo) -> (String, String) {
    (info.provider.to_string(), info.model.to_string())
}

#[async_trait]
impl Middleware for RateLimit {
    fn name(&self) -> &str {
        "rate_limit"
    }

    fn sees_tools(&self) -> bool {
        false
    }

    async fn before_model(&self, step: &mut ModelStep) -> Result<Flow<ModelResponse>> {
        while let Some(until) = self.take(step.info()) {
            tokio::time::sleep_until(until).await;
        }
        Ok(Flow::Continue)
    }

    async fn after_model(&self, step: &mut ModelStep, response: &mut ModelResponse) -> Result<()> {
        let tokens = response.usage.total_tokens();
        if self.tokens.is_some() && tokens > 0 {
            self.windows().entry(key(step.info())).or_default().tokens.push_back((Instant::now(), tokens));
        }
        Ok(())
    }
}

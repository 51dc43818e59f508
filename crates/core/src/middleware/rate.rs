//! [`rate_limit`]: keeps the requests and tokens of a model, or the calls of a tool, below the
//! limits of its service. Calls wait and do not fail.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use super::{Flow, Middleware, ModelStep, ToolStep};
use crate::error::Result;
use crate::message::ToolResult;
use crate::model::{ModelInfo, ModelResponse};

/// Creates a limit of `requests` requests per model in any period of `interval`; see [`RateLimit`].
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
    RateLimit {
        requests: requests.max(1),
        tokens: None,
        interval,
        of: Limited::Models,
        windows: Mutex::default(),
    }
}

/// Delays model calls, or tool calls, to respect a limit; created by [`rate_limit`].
///
/// Each model and each tool has a separate limit, which all runs that share this middleware share.
/// Cancelling a run ends its wait. The tokens of a call are only known when the model has answered,
/// so running calls do not count yet.
#[derive(Debug)]
pub struct RateLimit {
    requests: u32,
    tokens: Option<u64>,
    interval: Duration,
    of: Limited,
    windows: Mutex<HashMap<(String, String), Window>>,
}

/// The calls that a limit applies to.
#[derive(Debug)]
pub(super) enum Limited {
    Models,
    /// Tools by the name that the program or the model uses.
    Tools(BTreeSet<String>),
}

impl Limited {
    pub(super) fn tools<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Self {
        Self::Tools(names.into_iter().map(Into::into).collect())
    }

    pub(super) fn is_for_tools(&self) -> bool {
        matches!(self, Self::Tools(_))
    }

    /// Returns the key of the called tool, if the limit applies to it.
    pub(super) fn key_of(&self, step: &ToolStep) -> Option<(String, String)> {
        let Self::Tools(names) = self else { return None };
        let name =
            step.definition().map_or(&*step.call().name, |definition| definition.catalogue_name());
        let is_named = names.contains(name) || names.contains(&step.call().name);
        is_named.then(|| ("tool".to_owned(), name.to_owned()))
    }
}

#[derive(Debug, Default)]
struct Window {
    /// Start times of the requests of the last interval.
    requests: VecDeque<Instant>,
    /// Times of the responses of the last interval, with their tokens.
    tokens: VecDeque<(Instant, u64)>,
}

impl RateLimit {
    /// Sets the maximum number of input and output tokens in the same period. Default: no limit.
    #[must_use]
    pub fn tokens(mut self, tokens: u64) -> Self {
        self.tokens = Some(tokens.max(1));
        self
    }

    /// Limits the calls to these tools, each tool separately, instead of model calls. A tool that
    /// is not `async` cannot wait in a workflow step: such a call fails. Tokens do not count.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use agentflow::Runtime;
    /// use agentflow::middleware::rate_limit;
    ///
    /// let second = Duration::from_secs(1);
    /// let runtime = Runtime::builder().with(rate_limit(5, second).tools(["search", "mcp.maps.route"])).build();
    /// # let _ = runtime;
    /// ```
    #[must_use]
    pub fn tools<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.of = Limited::tools(names);
        self
    }

    fn windows(&self) -> MutexGuard<'_, HashMap<(String, String), Window>> {
        self.windows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts this call if the limit allows it. Otherwise returns the time of the next attempt.
    fn take(&self, key: (String, String)) -> Option<Instant> {
        let now = Instant::now();
        let mut windows = self.windows();
        let window = windows.entry(key).or_default();
        let over = |at: Instant| now.duration_since(at) >= self.interval;
        while window.requests.front().is_some_and(|at| over(*at)) {
            window.requests.pop_front();
        }
        while window.tokens.front().is_some_and(|(at, _)| over(*at)) {
            window.tokens.pop_front();
        }
        // The tokens of running calls are unknown, so calls are allowed until the finished calls
        // have reached the limit.
        let used =
            window.tokens.iter().fold(0_u64, |used, (_, tokens)| used.saturating_add(*tokens));
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
        self.of.is_for_tools()
    }

    async fn before_tool(&self, step: &mut ToolStep) -> Result<Flow<ToolResult>> {
        let Some(key) = self.of.key_of(step) else { return Ok(Flow::Continue) };
        // Another call may have been counted during the wait, so the limit is checked again.
        while let Some(until) = self.take(key.clone()) {
            tokio::time::sleep_until(until).await;
        }
        Ok(Flow::Continue)
    }

    async fn before_model(&self, step: &mut ModelStep) -> Result<Flow<ModelResponse>> {
        if self.of.is_for_tools() {
            return Ok(Flow::Continue);
        }
        while let Some(until) = self.take(key(step.info())) {
            tokio::time::sleep_until(until).await;
        }
        Ok(Flow::Continue)
    }

    async fn after_model(&self, step: &mut ModelStep, response: &mut ModelResponse) -> Result<()> {
        let tokens = response.usage.total_tokens();
        if self.tokens.is_some() && tokens > 0 && !self.of.is_for_tools() {
            self.windows()
                .entry(key(step.info()))
                .or_default()
                .tokens
                .push_back((Instant::now(), tokens));
        }
        Ok(())
    }
}

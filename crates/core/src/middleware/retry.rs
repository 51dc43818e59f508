//! [`retry`]: retries failed model calls. The attempts are counted from the journal.

use std::time::Duration;

use async_trait::async_trait;

use super::{Flow, Middleware, ModelStep, Recovery};
use crate::error::Result;
use crate::model::{ModelError, ModelErrorKind};

/// Creates a middleware that retries a failed model call at most `max_retries` times; see
/// [`Retry`].
///
/// ```
/// use std::time::Duration;
///
/// use agentflow::middleware::retry;
/// use agentflow::prelude::*;
/// use agentflow::model::ModelErrorKind;
/// use agentflow_testing::{ScriptedModel, Turn};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<()> {
/// let model = ScriptedModel::new([Turn::fails(ModelErrorKind::RateLimited), Turn::text("Hello.")]);
/// let agent = Agent::new(model).with(retry(3).base(Duration::from_secs(2)));
/// assert_eq!(agent.run("Hi").await?.output(), "Hello.");
/// # Ok(())
/// # }
/// ```
pub fn retry(max_retries: u32) -> Retry {
    Retry {
        max_retries,
        base: Duration::from_millis(500),
        longest: Duration::from_secs(30),
        kinds: None,
    }
}

/// Retries failed model calls; created by [`retry`].
///
/// The wait before a retry is the time that the provider requests. Otherwise it is `base` and
/// doubles with each retry up to `longest`, minus a random part of up to a quarter. Each attempt is
/// recorded, counts as a model call, and passes the inner middleware again. Attempts are counted
/// per model, so a fallback model has its full number. The HTTP adapters make two retries before
/// this middleware sees an error; [`HttpSettings`](crate::model::HttpSettings) configures their
/// number.
///
/// **Durable runs retry by default.** If no middleware of an agent retries, a run with a store
/// retries a model call up to five times after a temporary error: after 1, 2, 4, 8 and 16 seconds,
/// each minus a random part of up to a quarter, or after the time that the provider requests, if
/// that is at most two minutes. Each retry is a `model.retrying` event and counts as a model call;
/// cancelling the run ends the wait. The retries of a call are counted from the journal, so a crash
/// does not add any. They replace the retries of the HTTP adapter. `retry(0)` disables them.
#[derive(Clone, Debug)]
pub struct Retry {
    max_retries: u32,
    base: Duration,
    longest: Duration,
    kinds: Option<Vec<ModelErrorKind>>,
}

impl Retry {
    /// Sets the first wait. Default: half a second.
    #[must_use]
    pub fn base(mut self, base: Duration) -> Self {
        self.base = base;
        self
    }

    /// Sets the longest wait. If a provider requests a longer wait, the call is not retried.
    /// Default: 30 seconds.
    #[must_use]
    pub fn longest(mut self, longest: Duration) -> Self {
        self.longest = longest;
        self
    }

    /// Sets the kinds of errors after which a call is retried. Default: all temporary errors, see
    /// [`ModelError::is_retryable`].
    #[must_use]
    pub fn on(mut self, kinds: impl IntoIterator<Item = ModelErrorKind>) -> Self {
        self.kinds = Some(kinds.into_iter().collect());
        self
    }
}

#[async_trait]
impl Middleware for Retry {
    fn name(&self) -> &str {
        "retry"
    }

    fn sees_tools(&self) -> bool {
        false
    }

    fn retries_model_calls(&self) -> bool {
        true
    }

    async fn on_model_error(
        &self,
        step: &mut ModelStep,
        error: &ModelError,
    ) -> Result<Flow<Recovery>> {
        let again = match &self.kinds {
            Some(kinds) => kinds.contains(&error.kind()),
            None => error.is_retryable(),
        };
        // Attempts with other models do not count.
        let made = step.failed().iter().filter(|attempt| attempt.info == *step.info()).count();
        let made = u32::try_from(made).unwrap_or(u32::MAX);
        if !again || made >= self.max_retries {
            return Ok(Flow::Continue);
        }
        let after = match error.retry_after() {
            Some(wait) if wait > self.longest => return Ok(Flow::Continue),
            Some(wait) => wait,
            None => {
                let whole = self.base.saturating_mul(2_u32.saturating_pow(made)).min(self.longest);
                // The random part spreads the retries of calls that failed at the same time.
                whole.mul_f64(1.0 - step.context().host().random() / 4.0)
            }
        };
        Ok(Flow::Return(Recovery::Again { after }))
    }
}

//! `retry`: retries failed model calls. It keeps no count of its own: the journal has the attempts.

use std::time::Duration;

use async_trait::async_trait;

use super::{Flow, Middleware, ModelStep, Recovery};
use crate::error::Result;
use crate::model::{ModelError, ModelErrorKind};

/// Retries a failed model call, at most so many times; see [`Retry`].
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
    Retry { max_retries, base: Duration::from_millis(500), longest: Duration::from_secs(30), kinds: None }
}

/// Retries failed model calls; made by [`retry`].
///
/// A wait is that of the provider when it says one, else `base`, twice that, and so on to `longest`, less up to a
/// quarter by chance. Each attempt is recorded, counts as a model call, and passes the middleware once more. Each model
/// has its own attempts, so that a fallback's are not used up. The HTTP adapters make two retries of their own before
/// this sees an error; [`HttpSettings`](crate::model::HttpSettings) says how many.
///
/// **Durable runs retry without it.** Where no such middleware stands around an agent, a run with a store retries a
/// model call up to five times after an error that may pass: after 1, 2, 4, 8 and 16 seconds, each less up to a quarter
/// by chance, or when the provider says, if that is within two minutes. Each retry is a `model.retrying` event and
/// counts as a model call; cancelling the run ends the wait. The retries of a call are counted from the journal, so a
/// crash adds none, and they take the place of the HTTP adapter's own. `retry(0)` switches this off.
#[derive(Clone, Debug)]
pub struct Retry {
    max_retries: u32,
    base: Duration,
    longest: Duration,
    kinds: Option<Vec<ModelErrorKind>>,
}

impl Retry {
    /// Sets the first wait. Default half a second.
    #[must_use]
    pub fn base(mut self, base: Duration) -> Self {
        self.base = base;
        self
    }

    /// Sets the longest wait; a provider that asks for a longer one is not asked again. Default 30 seconds.
    #[must_use]
    pub fn longest(mut self, longest: Duration) -> Self {
        self.longest = longest;
        self
    }

    /// Sets the classes of errors after which a call is retried. Default: all that may pass, see
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

    async fn on_model_error(&self, step: &mut ModelStep, error: &ModelError) -> Result<Flow<Recovery>> {
        let again = match &self.kinds {
            Some(kinds) => kinds.contains(&error.kind()),
            None => error.is_retryable(),
        };
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
                whole.mul_f64(1.0 - step.context().host().random() / 4.0)
            }
        };
        Ok(Flow::Return(Recovery::Again { after }))
    }
}

//! Defines `Ready`, the answer of a mock and its delay.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use agentflow::tool::{ReplacedError, ToolOutput};
use serde_json::Value;

use crate::expect::without_panic;

#[derive(Clone)]
pub(super) struct Ready {
    pub(super) way: Way,
    pub(super) delay: Duration,
    /// `true` for a question that stays unanswered.
    pub(super) stays: bool,
}

#[derive(Clone)]
pub(super) enum Way {
    Value(Value),
    Error(ReplacedError),
    Computed(Arc<dyn Fn(&Value) -> Value + Send + Sync>),
}

impl Ready {
    pub(super) fn new(way: Way) -> Self {
        Self { way, delay: Duration::ZERO, stays: false }
    }

    /// Waits for the delay and returns the answer.
    ///
    /// # Errors
    /// If a closure of the test panicked.
    pub(super) async fn answer(
        self,
        arguments: &Value,
    ) -> Result<Result<ToolOutput, ReplacedError>, String> {
        if !self.delay.is_zero() {
            tokio::time::sleep(self.delay).await;
        }
        let value = match self.way {
            Way::Value(value) => value,
            Way::Error(error) => return Ok(Err(error)),
            Way::Computed(compute) => without_panic(|| compute(arguments))?,
        };
        Ok(ToolOutput::json(&value).map_err(Into::into))
    }
}

impl fmt::Debug for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ready").field("delay", &self.delay).finish_non_exhaustive()
    }
}

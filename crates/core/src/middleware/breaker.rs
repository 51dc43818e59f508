//! [`circuit_breaker`]: stops calling a model or a tool for a while after it has failed repeatedly.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use super::rate::Limited;
use super::{Flow, Middleware, ModelStep, Recovery, ToolStep};
use crate::error::{Error, Result};
use crate::message::{ToolResult, ToolStatus};
use crate::model::{ModelError, ModelErrorKind, ModelInfo, ModelResponse};

/// Creates a circuit breaker that stops calling a model for `rest` after `failures` failures in a
/// row; see [`CircuitBreaker`].
///
/// ```
/// use std::time::Duration;
///
/// use agentflow::Runtime;
/// use agentflow::middleware::{circuit_breaker, fallback_models};
///
/// // While the agent's own model is not called, the fallback model answers immediately.
/// let runtime = Runtime::builder()
///     .with(fallback_models(["anthropic/claude-sonnet-4-5"]))
///     .with(circuit_breaker(5, Duration::from_secs(30)))
///     .build();
/// # let _ = runtime;
/// ```
pub fn circuit_breaker(failures: u32, rest: Duration) -> CircuitBreaker {
    CircuitBreaker {
        failures: failures.max(1),
        rest,
        of: Limited::Models,
        circuits: Mutex::default(),
    }
}

/// Refuses calls to a model, or to tools, that fail repeatedly; created by [`circuit_breaker`].
///
/// A refused call fails with [`ModelErrorKind::Overloaded`] and the remaining time, so that retries
/// wait and fallbacks take over if they wrap this middleware. After that time one call is let
/// through: its success closes the breaker, its failure opens it again. Only temporary errors
/// count. All runs that use the same breaker share its state.
#[derive(Debug)]
pub struct CircuitBreaker {
    failures: u32,
    rest: Duration,
    of: Limited,
    circuits: Mutex<HashMap<(String, String), Circuit>>,
}

#[derive(Debug, Default)]
struct Circuit {
    failures: u32,
    /// Time until which no call is made.
    open_until: Option<Instant>,
}

impl CircuitBreaker {
    /// Watches the calls to these tools, each tool separately, instead of model calls. A call
    /// counts as failed if its tool returns an error, panics or exceeds its time limit; invalid
    /// arguments and refusals do not count. A refused call has a result with the status
    /// [`ToolStatus::Error`] that informs the model for how long the tool is not called.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use agentflow::Runtime;
    /// use agentflow::middleware::circuit_breaker;
    ///
    /// let runtime = Runtime::builder().with(circuit_breaker(3, Duration::from_secs(60)).tools(["search"])).build();
    /// # let _ = runtime;
    /// ```
    #[must_use]
    pub fn tools<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.of = Limited::tools(names);
        self
    }

    fn with<T>(&self, key: (String, String), act: impl FnOnce(&mut Circuit) -> T) -> T {
        let mut circuits = self.circuits.lock().unwrap_or_else(PoisonError::into_inner);
        act(circuits.entry(key).or_default())
    }

    /// Returns the remaining time without calls, or `None` if this call is let through.
    fn left(&self, key: (String, String)) -> Option<Duration> {
        let now = Instant::now();
        self.with(key, |circuit| {
            let until = circuit.open_until?;
            if until > now {
                return Some(until - now);
            }
            // This call is the trial. The next trial is allowed after another `rest`, in case this
            // one never ends.
            circuit.open_until = Some(now + self.rest);
            None
        })
    }

    fn failed(&self, key: (String, String)) {
        self.with(key, |circuit| {
            circuit.failures = circuit.failures.saturating_add(1);
            if circuit.failures >= self.failures {
                circuit.open_until = Some(Instant::now() + self.rest);
            }
        });
    }
}

fn key(info: &ModelInfo) -> (String, String) {
    (info.provider.to_string(), info.model.to_string())
}

#[async_trait]
impl Middleware for CircuitBreaker {
    fn name(&self) -> &str {
        "circuit_breaker"
    }

    fn sees_tools(&self) -> bool {
        self.of.is_for_tools()
    }

    async fn before_tool(&self, step: &mut ToolStep) -> Result<Flow<ToolResult>> {
        let Some(key) = self.of.key_of(step) else { return Ok(Flow::Continue) };
        let Some(left) = self.left(key) else { return Ok(Flow::Continue) };
        let name = &step.call().name;
        let message = format!(
            "`{name}` has failed too often and is left alone for {left:?}; do without it until then"
        );
        Ok(Flow::Return(step.result(ToolStatus::Error, message)))
    }

    async fn after_tool(&self, step: &ToolStep, _: &mut ToolResult) -> Result<()> {
        if let Some(key) = self.of.key_of(step) {
            self.with(key, |circuit| *circuit = Circuit::default());
        }
        Ok(())
    }

    async fn on_tool_error(
        &self,
        step: &ToolStep,
        result: &ToolResult,
    ) -> Result<Flow<ToolResult>> {
        if let Some(key) = self.of.key_of(step)
            && matches!(
                result.status,
                ToolStatus::Error | ToolStatus::Timeout | ToolStatus::Panicked
            )
        {
            self.failed(key);
        }
        Ok(Flow::Continue)
    }

    async fn before_model(&self, step: &mut ModelStep) -> Result<Flow<ModelResponse>> {
        if self.of.is_for_tools() {
            return Ok(Flow::Continue);
        }
        let Some(left) = self.left(key(step.info())) else { return Ok(Flow::Continue) };
        let ModelInfo { provider, model } = step.info();
        let message =
            format!("`{provider}/{model}` has failed too often and is left alone for {left:?}");
        Err(Error::Model(Arc::new(
            ModelError::new(ModelErrorKind::Overloaded, message).with_retry_after(left),
        )))
    }

    async fn after_model(&self, step: &mut ModelStep, _: &mut ModelResponse) -> Result<()> {
        if !self.of.is_for_tools() {
            self.with(key(step.info()), |circuit| *circuit = Circuit::default());
        }
        Ok(())
    }

    async fn on_model_error(
        &self,
        step: &mut ModelStep,
        error: &ModelError,
    ) -> Result<Flow<Recovery>> {
        if error.kind().is_retryable() && !self.of.is_for_tools() {
            self.failed(key(step.info()));
        }
        Ok(Flow::Continue)
    }
}

//! `circuit_breaker`: stops calling a model that keeps failing, for a while.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use super::{Flow, Middleware, ModelStep, Recovery};
use crate::error::{Error, Result};
use crate::model::{ModelError, ModelErrorKind, ModelInfo, ModelResponse};

/// Leaves a model alone for a while after so many failures in a row; see [`CircuitBreaker`].
///
/// ```
/// use std::time::Duration;
///
/// use agentflow::Runtime;
/// use agentflow::middleware::{circuit_breaker, fallback_models};
///
/// // While the agent's own model is left alone, the other one answers at once.
/// let runtime = Runtime::builder()
///     .with(fallback_models(["anthropic/claude-sonnet-4-5"]))
///     .with(circuit_breaker(5, Duration::from_secs(30)))
///     .build();
/// # let _ = runtime;
/// ```
pub fn circuit_breaker(failures: u32, rest: Duration) -> CircuitBreaker {
    CircuitBreaker { failures: failures.max(1), rest, circuits: Mutex::default() }
}

/// Refuses calls of a model that keeps failing; made by [`circuit_breaker`].
///
/// A refused call fails with [`ModelErrorKind::Overloaded`] and the time that is left, so that retries wait and
/// fallbacks take over where they stand outside of this. After the rest one call is let through: its success ends the
/// matter, its failure begins another rest. Only errors that may pass count. All runs that share it share what it
/// knows.
#[derive(Debug)]
pub struct CircuitBreaker {
    failures: u32,
    rest: Duration,
    circuits: Mutex<HashMap<(String, String), Circuit>>,
}

#[derive(Debug, Default)]
struct Circuit {
    failures: u32,
    /// No call is made before this.
    open_until: Option<Instant>,
}

impl CircuitBreaker {
    fn with<T>(&self, info: &ModelInfo, act: impl FnOnce(&mut Circuit) -> T) -> T {
        let mut circuits = self.circuits.lock().unwrap_or_else(PoisonError::into_inner);
        act(circuits.entry((info.provider.to_string(), info.model.to_string())).or_default())
    }
}

#[async_trait]
impl Middleware for CircuitBreaker {
    fn name(&self) -> &str {
        "circuit_breaker"
    }

    fn sees_tools(&self) -> bool {
        false
    }

    async fn before_model(&self, step: &mut ModelStep) -> Result<Flow<ModelResponse>> {
        let now = Instant::now();
        let left = self.with(step.info(), |circuit| {
            let until = circuit.open_until?;
            if until > now {
                return Some(until - now);
            }
            // This call is the one that is let through; another one may follow when it never ends.
            circuit.open_until = Some(now + self.rest);
            None
        });
        let Some(left) = left else { return Ok(Flow::Continue) };
        let ModelInfo { provider, model } = step.info();
        let message = format!("`{provider}/{model}` has failed too often and is left alone for {left:?}");
        Err(Error::Model(Arc::new(ModelError::new(ModelErrorKind::Overloaded, message).with_retry_after(left))))
    }

    async fn after_model(&self, step: &mut ModelStep, _: &mut ModelResponse) -> Result<()> {
        self.with(step.info(), |circuit| *circuit = Circuit::default());
        Ok(())
    }

    async fn on_model_error(&self, step: &mut ModelStep, error: &ModelError) -> Result<Flow<Recovery>> {
        if error.kind().is_retryable() {
            self.with(step.info(), |circuit| {
                circuit.failures = circuit.failures.saturating_add(1);
                if circuit.failures >= self.failures {
                    circuit.open_until = Some(Instant::now() + self.rest);
                }
            });
        }
        Ok(Flow::Continue)
    }
}

//! [`fallback_models`]: calls other models if a model fails. The journal records which model
//! answered.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::{Flow, Middleware, ModelStep, Recovery};
use crate::error::Result;
use crate::model::{Model, ModelError, ModelErrorKind, ModelResponse, ModelSource, OutputMode};

/// Creates a middleware that calls these models in order if the agent's own model fails; see
/// [`FallbackModels`].
///
/// ```
/// use agentflow::middleware::fallback_models;
/// use agentflow::prelude::*;
/// use agentflow::event::EventKind;
/// use agentflow::model::ModelErrorKind;
/// use agentflow_testing::{ScriptedModel, Turn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// let first = ScriptedModel::new([Turn::fails(ModelErrorKind::Overloaded)]).named("one", "large");
/// let second = ScriptedModel::new([Turn::text("Hello.")]).named("other", "small");
/// let result = Agent::new(first).with(fallback_models([second])).run("Hi").await?;
/// assert_eq!(result.output(), "Hello.");
/// let asked = result.events().into_iter().filter_map(|event| match event.kind {
///     EventKind::ModelStarted { provider, .. } => Some(provider.to_string()),
///     _ => None,
/// });
/// assert_eq!(asked.collect::<Vec<_>>(), ["one", "other"]);
/// # Ok(())
/// # }
/// ```
pub fn fallback_models<M: Into<ModelSource>>(
    models: impl IntoIterator<Item = M>,
) -> FallbackModels {
    FallbackModels { models: models.into_iter().map(Into::into).collect(), on: Arc::new(may_pass) }
}

/// Calls other models if a model fails; created by [`fallback_models`].
///
/// Each turn starts with the agent's own model. A named model is opened when it is
/// first needed, by the runtime of the run. A model that cannot be opened is skipped, and so is a
/// model that does not support the agent's output type natively. All models receive the same
/// settings, including [`ModelSettings::extra`](crate::model::ModelSettings). Add retries inside of
/// this middleware, so that a model is retried before the next model is called.
#[derive(Clone)]
pub struct FallbackModels {
    models: Vec<ModelSource>,
    on: Arc<dyn Fn(&ModelError) -> bool + Send + Sync>,
}

/// Returns `true` for errors of the model or its provider, `false` for errors of the request.
fn may_pass(error: &ModelError) -> bool {
    error.kind().is_retryable() || error.kind() == ModelErrorKind::NotFound
}

impl FallbackModels {
    /// Sets the errors after which the next model is called. Default: temporary errors, also if the
    /// provider marks them as permanent (such as an account without credit), and a model that does
    /// not exist.
    #[must_use]
    pub fn on(mut self, errors: impl Fn(&ModelError) -> bool + Send + Sync + 'static) -> Self {
        self.on = Arc::new(errors);
        self
    }

    /// Returns the first model that has not failed in this call.
    fn next(&self, step: &ModelStep) -> Option<Arc<dyn Model>> {
        let host = step.context().host();
        let tried = |model: &dyn Model| {
            model.info() == step.info()
                || step.failed().iter().any(|attempt| attempt.info == *model.info())
        };
        // `output` is only set for a model with native output, so another model must support it as
        // well.
        let fits = |model: &dyn Model| match &step.request.output {
            Some(schema) => {
                model.output_mode(schema, !step.request.tools.is_empty()) == Ok(OutputMode::Native)
            }
            None => true,
        };
        self.models.iter().find_map(|source| match host.open(source) {
            Ok(model) => (!tried(&*model) && fits(&*model)).then_some(model),
            Err(problem) => {
                tracing::warn!(%problem, "a fallback model cannot be opened");
                None
            }
        })
    }
}

#[async_trait]
impl Middleware for FallbackModels {
    fn name(&self) -> &str {
        "fallback_models"
    }

    fn sees_tools(&self) -> bool {
        false
    }

    async fn before_model(&self, step: &mut ModelStep) -> Result<Flow<ModelResponse>> {
        // After a restart, a call continues with the model that it had reached. The agent's own
        // model is only replaced if it is among the failed attempts.
        if let Some(last) = step.failed().last()
            && last.info != *step.info()
            && step.failed().iter().any(|attempt| attempt.info == *step.info())
            && let Some(source) =
                self.models.iter().find(|source| source.info().is_ok_and(|info| info == last.info))
            && let Ok(model) = step.context().host().open(source)
        {
            step.set_model(model);
        }
        Ok(Flow::Continue)
    }

    async fn on_model_error(
        &self,
        step: &mut ModelStep,
        error: &ModelError,
    ) -> Result<Flow<Recovery>> {
        if !(self.on)(error) {
            return Ok(Flow::Continue);
        }
        let Some(model) = self.next(step) else { return Ok(Flow::Continue) };
        step.set_model(model);
        Ok(Flow::Return(Recovery::Again { after: Duration::ZERO }))
    }
}

impl fmt::Debug for FallbackModels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FallbackModels").field("models", &self.models).finish_non_exhaustive()
    }
}

//! [`ModelRef`]: parses names of models: `provider/model`, `provider:model`, or the model's name
//! alone.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use agentflow_schema::diagnostic::{Diagnostic, Suggestion};

use super::{model_codes, providers};

/// The name of a model and of its provider.
///
/// `openai-chat/gpt-5-mini` and `openai-chat:gpt-5-mini` contain both names. For a name without a
/// provider, such as `gpt-5-mini`, the provider follows from the prefix.
///
/// ```
/// use agentflow::model::ModelRef;
///
/// let model: ModelRef = "openai/gpt-5-mini".parse()?;
/// assert_eq!(model.provider(), "openai-chat");
/// assert_eq!(model.model(), "gpt-5-mini");
/// assert_eq!("gpt-5-mini".parse::<ModelRef>()?, model);
/// # Ok::<(), agentflow::model::ModelRefError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ModelRef {
    provider: Arc<str>,
    model: Arc<str>,
}

impl ModelRef {
    /// Creates a reference from the name of a provider or wire format and the name of a model.
    pub fn new(provider: &str, model: impl Into<Arc<str>>) -> Self {
        Self { provider: providers::full_name(provider).into(), model: model.into() }
    }

    /// Name of the provider, such as `openai-chat`.
    pub fn provider(&self) -> &str {
        &self.provider
    }

    /// Name of the model at the provider.
    pub fn model(&self) -> &str {
        &self.model
    }
}

impl fmt::Display for ModelRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider, self.model)
    }
}

impl FromStr for ModelRef {
    type Err = ModelRefError;

    fn from_str(text: &str) -> Result<Self, ModelRefError> {
        let text = text.trim();
        if let Some(at) = text.find(['/', ':']) {
            // The model's name may contain further separators.
            let (provider, model) = (&text[..at], &text[at + 1..]);
            if provider.is_empty() || model.is_empty() {
                return Err(ModelRefError::unreadable(text));
            }
            return Ok(Self::new(provider, model));
        }
        let provider =
            providers::of_model(text).ok_or_else(|| ModelRefError::unknown_provider(text))?;
        Ok(Self::new(provider.name, text))
    }
}

/// Error for an invalid or unusable model name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{diagnostic}")]
pub struct ModelRefError {
    diagnostic: Diagnostic,
}

impl ModelRefError {
    fn unreadable(name: &str) -> Self {
        Self { diagnostic: Diagnostic::new(model_codes::NO_PROVIDER).name("model", name) }
    }

    /// Creates the error for a name without a provider, if no provider follows from its prefix.
    fn unknown_provider(name: &str) -> Self {
        let Some(prefix) = providers::near_prefix(name) else { return Self::unreadable(name) };
        let found = Diagnostic::new(model_codes::UNKNOWN_MODEL).name("model", name);
        Self { diagnostic: found.suggest(Suggestion::Replace(format!("{prefix}.."))) }
    }

    pub(crate) fn unusable(model: &ModelRef, problem: impl fmt::Display) -> Self {
        let found = Diagnostic::new(model_codes::UNUSABLE).name("model", model);
        Self { diagnostic: found.text("problem", problem) }
    }

    /// Returns the problem as data.
    pub fn diagnostic(&self) -> &Diagnostic {
        &self.diagnostic
    }
}

impl From<ModelRefError> for Diagnostic {
    fn from(error: ModelRefError) -> Self {
        error.diagnostic
    }
}

//! OpenAI Chat Completions.

use std::sync::Arc;

use super::{Model, ModelError, ModelInfo, ModelRequest, ModelStream, SecretProvider};

pub(crate) const PROVIDER: &str = "openai-chat";

/// A model reached by the Chat Completions wire format.
#[derive(Debug)]
pub struct OpenAiChat {
    info: ModelInfo,
}

impl OpenAiChat {
    pub(crate) fn from_env(model: &str, _secrets: Arc<dyn SecretProvider>) -> Self {
        Self { info: ModelInfo::new(PROVIDER, model) }
    }
}

impl Model for OpenAiChat {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, _request: ModelRequest) -> ModelStream {
        Box::pin(futures_util::stream::iter([Err(ModelError::truncated())]))
    }
}

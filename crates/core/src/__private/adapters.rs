//! The items that the adapters of `agentflow-models` use beside the public ones.

pub use crate::model::linked_adapter::{LinkedAdapter, OpenedModel, ServerSettings};
pub use crate::model::providers::{ANTHROPIC, GEMINI, OPENAI_CHAT, OPENAI_RESPONSES, Provider};
use crate::model::{self, ModelError};

/// The most tokens that a call is counted with.
pub const MAX_TOKENS: u64 = model::MAX_TOKENS;

/// Passes every text of an error through `clean`, including its causes, and the texts of the error itself through `cap` after
/// that.
pub fn map_error_texts(
    error: ModelError,
    clean: impl Fn(String) -> String,
    cap: impl Fn(String) -> String,
) -> ModelError {
    error.map_texts(clean, cap)
}

/// Returns a text without a secret, which may be written in it with escapes; `None` when it is not there.
pub fn without_secret(text: &str, secret: &str, mark: &str) -> Option<String> {
    crate::mask::without(text, secret, mark)
}

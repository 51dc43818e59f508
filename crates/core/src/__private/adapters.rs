//! Items that the adapters of `agentflow-models` use in addition to the public API.

pub use crate::model::linked_adapter::{LinkedAdapter, OpenedModel, ServerSettings};
pub use crate::model::providers::{ANTHROPIC, GEMINI, OPENAI_CHAT, OPENAI_RESPONSES, Provider};
use crate::model::{self, ModelError};

/// Maximum number of tokens that is recorded for a call.
pub const MAX_TOKENS: u64 = model::MAX_TOKENS;

/// Applies `clean` to every string of an error, including its sources, and then `cap` to the
/// strings of the error itself.
pub fn map_error_texts(
    error: ModelError,
    clean: impl Fn(String) -> String,
    cap: impl Fn(String) -> String,
) -> ModelError {
    error.map_texts(clean, cap)
}

/// Replaces a secret in a string with `mark`, also in an escaped form. Returns `None` if the string
/// does not contain it.
pub fn without_secret(text: &str, secret: &str, mark: &str) -> Option<String> {
    crate::mask::without(text, secret, mark)
}

//! Why something failed, as it is recorded. It holds no source: what can be stored and shown, and nothing else.

use serde::{Deserialize, Serialize};

/// An error as it is recorded: what can be stored and shown, without sources.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Failure {
    /// The class as a word, such as `rate_limited` or `max_steps_reached`.
    pub kind: String,
    /// The sentence.
    pub message: String,
    /// Whether the same may succeed when it is tried again.
    pub retryable: bool,
    /// The HTTP status, when a provider answered with one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
}

impl Failure {
    /// A failure of a class, with a sentence.
    pub fn new(kind: impl Into<String>, message: impl Into<String>) -> Self {
        Self { kind: kind.into(), message: message.into(), retryable: false, status: None }
    }
}

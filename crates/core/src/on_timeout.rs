//! [`OnTimeout`]: the effect of an unanswered question after its time limit. The module neither
//! waits nor records.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The effect of a question that was not answered in time.
///
/// In JSON: `"fail"`, `"skip"`, `"deny"`, `"approve"`, `{"answer": ..}`. In a `#[workflow]`:
/// `#[node(timeout = "7d", on_timeout = deny)]` above a gate; for a tool that requires an approval:
/// `#[tool(approve, approve_timeout = "2d", on_timeout = deny)]`.
///
/// The answer of a time-out is recorded like the answer of a person. Its `by` is [`OnTimeout::BY`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OnTimeout {
    /// The node fails with a time-out. For a tool call of an agent, the model is informed that the
    /// call failed.
    #[default]
    Fail,
    /// The node is skipped: nodes that read its output are skipped too, and the rest of the
    /// workflow continues. A tool call of an agent's model or of a function is not executed, as if
    /// it were denied.
    Skip,
    /// The answer is [`Approval::Denied`](crate::Approval::Denied), with a comment that contains
    /// the time limit.
    Deny,
    /// The answer is [`Approval::Granted`](crate::Approval::Granted).
    Approve,
    /// The answer is this value, which must have the type that the question requires.
    Answer(Value),
}

impl OnTimeout {
    /// The `by` of an answer that a time-out gave.
    pub const BY: &'static str = "timeout";

    /// Creates an [`Answer`](Self::Answer) from a value of the type that the question requires:
    /// `OnTimeout::answer(&Choice::Later)`.
    ///
    /// A value that has no JSON form becomes `null`. The check of the workflow reports it unless
    /// the type accepts `null`.
    pub fn answer<T: Serialize>(value: &T) -> Self {
        Self::Answer(serde_json::to_value(value).unwrap_or_default())
    }

    pub(crate) fn is_default(&self) -> bool {
        *self == Self::Fail
    }
}

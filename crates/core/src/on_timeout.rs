//! `OnTimeout`: what happens to a question that nobody has answered in time. It waits for nobody and records nothing.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What happens to a question that nobody has answered in time.
///
/// As JSON: `"fail"`, `"skip"`, `"deny"`, `"approve"`, `{"answer": ..}`. In a `#[workflow]`:
/// `#[node(timeout = "7d", on_timeout = deny)]` above a gate; of a tool that needs an approval:
/// `#[tool(approve, approve_timeout = "2d", on_timeout = deny)]`.
///
/// An answer that a time-out gives is recorded as a person's would be, and its `by` is [`OnTimeout::BY`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OnTimeout {
    /// The node fails with a time-out. An agent's model reads that the call failed.
    #[default]
    Fail,
    /// The node counts as skipped: nodes that read its output are skipped too, the rest continues. A call that an agent's
    /// model or a function makes is not made, as when it is denied.
    Skip,
    /// The answer is [`Approval::Denied`](crate::Approval::Denied), with a comment that says how long was waited.
    Deny,
    /// The answer is [`Approval::Granted`](crate::Approval::Granted).
    Approve,
    /// The answer is this value, of the type that the question asks for.
    Answer(Value),
}

impl OnTimeout {
    /// Who has answered when a time-out has: the `by` of its answer.
    pub const BY: &'static str = "timeout";

    /// The answer is this value, of the type that the question asks for: `OnTimeout::answer(&Choice::Later)`.
    ///
    /// A value that has no JSON form becomes `null`, which the check of the workflow reports unless the type takes it.
    pub fn answer<T: Serialize>(value: &T) -> Self {
        Self::Answer(serde_json::to_value(value).unwrap_or_default())
    }

    pub(crate) fn is_default(&self) -> bool {
        *self == Self::Fail
    }
}

//! `MistakeResource`: the JSON form of a mistake in a document.

use agentflow_core::diagnostic::Diagnostic;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A mistake in a document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Mistake")]
#[non_exhaustive]
pub struct MistakeResource {
    /// Stable code, such as `document.unknown-node`.
    pub code: String,
    /// Problem and remedy.
    pub message: String,
    /// Line in the text, starting at 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// Column in the text, starting at 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<usize>,
}

impl From<&Diagnostic> for MistakeResource {
    fn from(problem: &Diagnostic) -> Self {
        let start = problem.location().span.as_ref().map(|span| span.start);
        Self {
            code: problem.code().name().to_owned(),
            message: problem.to_string(),
            line: start.map(|start| start.line),
            column: start.map(|start| start.column),
        }
    }
}

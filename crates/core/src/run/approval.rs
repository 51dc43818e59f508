//! `Approval`: a person's answer to a yes-or-no question, and its JSON Schema.

use agentflow_schema::schema::{Definitions, part_of};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::value::{Encoded, NodeValue};

/// A person's answer to the usual question: whether something may be done.
///
/// As JSON: `{"decision": "granted"}`, `{"decision": "denied", "comment": "not on a Friday"}`. To the question about the
/// call of a tool also `{"decision": "granted", "arguments": {"amount": 5}}`: it may be made with these arguments.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "decision", rename_all = "snake_case")]
#[doc(alias = "InteractionResponse")]
pub enum Approval {
    /// It may.
    Granted {
        /// What the person said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        comment: Option<String>,
        /// All arguments of the call, replacing the arguments in the question. Only questions about
        /// a tool call accept them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(skip)]
        arguments: Option<Value>,
    },
    /// It may not.
    Denied {
        /// What the person said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        comment: Option<String>,
    },
}

impl Approval {
    /// Creates an answer that grants the approval.
    pub const fn granted() -> Self {
        Self::Granted { comment: None, arguments: None }
    }

    /// Creates an answer that grants a tool call with changed arguments. `arguments` is a JSON
    /// object with all arguments of the call: `Approval::granted_with(json!({"amount": 5}))`.
    pub const fn granted_with(arguments: Value) -> Self {
        Self::Granted { comment: None, arguments: Some(arguments) }
    }

    /// Creates an answer that denies the approval, with a reason.
    pub fn denied(comment: impl Into<String>) -> Self {
        Self::Denied { comment: Some(comment.into()) }
    }

    /// Returns the changed arguments.
    pub(crate) fn arguments(&self) -> Option<&Value> {
        match self {
            Self::Granted { arguments, .. } => arguments.as_ref(),
            Self::Denied { .. } => None,
        }
    }

    /// Returns `true` if the approval was granted.
    pub fn is_granted(&self) -> bool {
        matches!(self, Self::Granted { .. })
    }
}

/// Parses an answer as an [`Approval`].
///
/// # Errors
/// The answer has another form.
pub(crate) fn read_approval(answer: &Encoded) -> Result<Approval, NotAnApproval> {
    Ok(answer.decode()?)
}

/// Error of an answer that is not an [`Approval`].
#[derive(Debug, thiserror::Error)]
#[error(
    "{0}; write `{{\"decision\": \"granted\"}}` or `{{\"decision\": \"denied\", \"comment\": \"..\"}}`, which are \
     `Approval::granted()` and `Approval::denied(..)`"
)]
pub(crate) struct NotAnApproval(#[from] serde_json::Error);

/// Returns the JSON Schema of an answer to the question about a tool call: an [`Approval`] with
/// arguments that match the tool's parameters.
pub(crate) fn call_answer_schema(parameters: &Value) -> Value {
    let mut definitions = Definitions::default();
    let mut schema = definitions.embed(&<Approval as NodeValue>::schema());
    let parameters = definitions.embed(parameters);
    if let Some(granted) = granted_properties(&mut schema) {
        granted.insert("arguments".to_owned(), parameters);
    }
    definitions.add_to(&mut schema);
    schema
}

/// Extracts the schema of the arguments from the schema of an answer; `None` if the answer has no
/// arguments.
pub(crate) fn arguments_schema(answer: &Value) -> Option<Value> {
    let arguments = granted_properties(&mut answer.clone())?.remove("arguments")?;
    Some(part_of(&arguments, answer))
}

/// Returns `true` if the question about a call expects an [`Approval`], according to its answer
/// schema.
pub fn asks_approval(answer: &Encoded) -> bool {
    answer.decode().is_ok_and(|mut answer: Value| granted_properties(&mut answer).is_some())
}

/// Returns the properties of the granting variant in the schema of an answer.
fn granted_properties(schema: &mut Value) -> Option<&mut Map<String, Value>> {
    let forms = schema.get_mut("oneOf")?.as_array_mut()?;
    let granted = forms
        .iter_mut()
        .find(|form| form.pointer("/properties/decision/const") == Some(&"granted".into()))?;
    granted.get_mut("properties")?.as_object_mut()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_answer_about_a_call_has_the_arguments_of_the_tool() {
        let parameters = json!({
            "type": "object", "properties": {"to": {"$ref": "#/$defs/Name"}}, "$defs": {"Name": {"type": "string"}}
        });
        let schema = call_answer_schema(&parameters);
        let granted = granted_properties(&mut schema.clone()).expect("it has this form").clone();
        assert_eq!(
            granted["arguments"],
            json!({"type": "object", "properties": {"to": {"$ref": "#/$defs/Name"}}})
        );
        assert_eq!(schema["$defs"], json!({"Name": {"type": "string"}}));
        assert_eq!(arguments_schema(&schema), Some(parameters));
        assert_eq!(
            arguments_schema(&serde_json::to_value(<Approval as NodeValue>::schema()).unwrap()),
            None
        );
    }
}

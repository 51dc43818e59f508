//! `Approval`: a person's answer to a gate of the usual type. It asks nothing and decides nothing.

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
        /// All arguments of the call, in the place of those that were asked about. Only the question about the call of a
        /// tool takes them.
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
    /// It may.
    pub const fn granted() -> Self {
        Self::Granted { comment: None, arguments: None }
    }

    /// The call of a tool may be made with these arguments, which are all of it, as a JSON object:
    /// `Approval::granted_with(json!({"amount": 5}))`.
    pub const fn granted_with(arguments: Value) -> Self {
        Self::Granted { comment: None, arguments: Some(arguments) }
    }

    /// It may not, for a reason.
    pub fn denied(comment: impl Into<String>) -> Self {
        Self::Denied { comment: Some(comment.into()) }
    }

    /// The arguments that a person gave in the place of others.
    pub(crate) fn arguments(&self) -> Option<&Value> {
        match self {
            Self::Granted { arguments, .. } => arguments.as_ref(),
            Self::Denied { .. } => None,
        }
    }

    /// Whether it may.
    pub fn is_granted(&self) -> bool {
        matches!(self, Self::Granted { .. })
    }
}

/// An answer of the usual type.
///
/// # Errors
/// What is wrong with it, and what to write.
pub(crate) fn read_approval(answer: &Encoded) -> Result<Approval, String> {
    answer.decode().map_err(|error| {
        format!(
            "{error}; write `{{\"decision\": \"granted\"}}` or `{{\"decision\": \"denied\", \"comment\": \"..\"}}`, which are \
             `Approval::granted()` and `Approval::denied(..)`"
        )
    })
}

/// The schema of an answer to the question about a call: an [`Approval`] with arguments as the tool takes them.
pub(crate) fn call_answer_schema(parameters: &Value) -> Value {
    let mut definitions = Definitions::default();
    let mut schema = definitions.embed(&<Approval as NodeValue>::schema());
    let parameters = definitions.embed(parameters);
    if let Some(granted) = granted_of(&mut schema) {
        granted.insert("arguments".to_owned(), parameters);
    }
    definitions.add_to(&mut schema);
    schema
}

/// The schema of the arguments in the schema of an answer; `None` when it takes none.
pub(crate) fn arguments_schema(answer: &Value) -> Option<Value> {
    let arguments = granted_of(&mut answer.clone())?.remove("arguments")?;
    Some(part_of(&arguments, answer))
}

/// Whether the question about a call is answered with an [`Approval`], by the schema of its answer.
pub(crate) fn asks_approval(answer: &Encoded) -> bool {
    answer.decode().is_ok_and(|mut answer: Value| granted_of(&mut answer).is_some())
}

/// What the schema of an answer says of one that agrees.
fn granted_of(schema: &mut Value) -> Option<&mut Map<String, Value>> {
    let forms = schema.get_mut("oneOf")?.as_array_mut()?;
    let granted =
        forms.iter_mut().find(|form| form.pointer("/properties/decision/const") == Some(&"granted".into()))?;
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
        let granted = granted_of(&mut schema.clone()).expect("it has this form").clone();
        assert_eq!(granted["arguments"], json!({"type": "object", "properties": {"to": {"$ref": "#/$defs/Name"}}}));
        assert_eq!(schema["$defs"], json!({"Name": {"type": "string"}}));
        assert_eq!(arguments_schema(&schema), Some(parameters));
        assert_eq!(arguments_schema(&serde_json::to_value(<Approval as NodeValue>::schema()).unwrap()), None);
    }
}

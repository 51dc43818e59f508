//! [`OutputSchema`] and [`OutputMode`]: the schema of an answer, and the way in which a model is
//! made to follow it.

use std::sync::Arc;

use serde_json::Value;

/// The JSON Schema that an answer must match.
///
/// ```
/// use agentflow::model::OutputSchema;
/// use agentflow::serde_json::json;
///
/// let schema = json!({"type": "object", "properties": {"risk": {"type": "integer"}}, "required": ["risk"]});
/// assert_eq!(&*OutputSchema::new("my verdict", schema).name, "my_verdict");
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct OutputSchema {
    /// Name of the schema, for the provider: letters, digits, `_` and `-`, at most 64.
    pub name: Arc<str>,
    /// JSON Schema (2020-12) of an object.
    pub schema: Value,
}

impl OutputSchema {
    /// Creates a named schema. Characters that are invalid in a name become `_`.
    pub fn new(name: &str, schema: Value) -> Self {
        let name: String = name
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' })
            .take(64)
            .collect();
        Self { name: if name.is_empty() { "answer".into() } else { name.into() }, schema }
    }
}

/// The method by which a model answers with a given schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutputMode {
    /// The provider accepts the schema with the request and answers with JSON text.
    Native,
    /// The model must call a tool whose parameters are the answer.
    Tool,
}

//! `AskUser`: the tool with which a model asks its user a question. The agent's run sends the
//! question, in the same way as for an approval.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Tool, ToolDefinition, ToolError, ToolFuture, ToolPolicy, UserQuestion};
use crate::context::Context;
use crate::on_timeout::OnTimeout;
use crate::tool_definition::Effects;

/// The tool with which a model asks its user. The answer is text, one of several choices, or a
/// value that matches a JSON Schema.
///
/// Created by [`ask_user`](crate::ask_user()).
#[derive(Clone, Debug)]
pub struct AskUser {
    definition: Arc<ToolDefinition>,
    timeout: Option<(Duration, OnTimeout)>,
}

impl AskUser {
    pub(crate) fn new() -> Self {
        Self { definition: Arc::new(definition()), timeout: None }
    }

    /// Sets the time limit for an answer and the behavior at its end. Default: no limit.
    ///
    /// With [`OnTimeout::Answer`], the model gets that answer; otherwise it gets an error saying
    /// that the question was not answered.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration, on_timeout: OnTimeout) -> Self {
        self.timeout = Some((timeout, on_timeout));
        self
    }

    /// Replaces the default description, from which the model learns when to ask.
    #[must_use]
    pub fn description(mut self, description: impl Into<Arc<str>>) -> Self {
        Arc::make_mut(&mut self.definition).description = description.into();
        self
    }
}

/// Returns the definition that models see.
pub(crate) fn definition() -> ToolDefinition {
    let description = "Asks the user a question and waits for the answer. Use it for what only the user can know or \
                       decide. Give `choices` when the answer is one of a few, and `schema` when it is an object.";
    let parameters = json!({
        "type": "object",
        "properties": {
            "question": {"type": "string", "description": "The question, in one or two sentences."},
            "choices": {
                "type": "array", "items": {"type": "string"},
                "description": "The possible answers; leave it out for a free text."
            },
            "schema": {"type": "object", "description": "The JSON Schema of the answer, in the place of `choices`."},
        },
        "required": ["question"],
        "additionalProperties": false,
    });
    ToolDefinition::new("ask_user", description, parameters)
        .policy(ToolPolicy::default().effects(Effects::None))
}

#[derive(Deserialize)]
struct Arguments {
    question: String,
    #[serde(default)]
    choices: Option<Vec<String>>,
    #[serde(default)]
    schema: Option<Value>,
}

/// Reads the question from the arguments of a call.
///
/// # Errors
/// A message for the model.
pub(crate) fn question_of(arguments: &str) -> Result<UserQuestion, ToolError> {
    let wrong = |problem: String| ToolError::invalid_arguments(problem);
    let Arguments { question, choices, schema } =
        serde_json::from_str(arguments).map_err(|error| wrong(error.to_string()))?;
    if question.trim().is_empty() {
        return Err(wrong("`question` is empty; write what the user is asked".to_owned()));
    }
    // An empty list counts as "no choices".
    match (choices.filter(|choices| !choices.is_empty()), schema) {
        (Some(_), Some(_)) => {
            Err(wrong("`choices` and `schema` are both given; give one of them".to_owned()))
        }
        (Some(choices), None) => Ok(UserQuestion::choice(question, choices)),
        (None, Some(schema)) => {
            #[cfg(feature = "dynamic")]
            // A model may write an invalid schema. It must learn that now, before a person is
            // asked.
            agentflow_schema::schema_check::SchemaCheck::new(&schema)
                .map_err(|problem| wrong(format!("`schema`: {problem}")))?;
            Ok(UserQuestion::new(question, schema))
        }
        (None, None) => Ok(UserQuestion::text(question)),
    }
}

/// Creates the error for a call at a place where questions cannot be sent.
pub(crate) fn nobody_to_ask() -> ToolError {
    ToolError::new(
        "nobody can be asked here: the call is not one of an agent's run with a store; decide without the user, or say what \
         you would have to know",
    )
}

impl Tool for AskUser {
    fn definition(&self) -> &Arc<ToolDefinition> {
        &self.definition
    }

    fn call<'a>(&'a self, _: &'a Context, _: &'a str) -> ToolFuture<'a> {
        ToolFuture::ready(Err(nobody_to_ask()))
    }

    fn asks(&self) -> bool {
        true
    }

    fn question(&self, arguments: &str) -> Result<UserQuestion, ToolError> {
        let question = question_of(arguments)?;
        Ok(match &self.timeout {
            Some((timeout, on_timeout)) => question.timeout(*timeout, on_timeout.clone()),
            None => question,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_model_may_ask() {
        let asked = |arguments: Value| {
            question_of(&arguments.to_string()).map_err(|error| error.to_string())
        };
        assert_eq!(asked(json!({"question": "why?"})).unwrap(), UserQuestion::text("why?"));
        let which = asked(json!({"question": "which?", "choices": ["a", "b"]})).unwrap();
        assert_eq!(which.answer, json!({"type": "string", "enum": ["a", "b"]}));
        assert_eq!(
            asked(json!({"question": "why?", "choices": []})).unwrap(),
            UserQuestion::text("why?")
        );
        let many = asked(json!({"question": "how many?", "schema": {"type": "integer"}})).unwrap();
        assert_eq!(many.answer, json!({"type": "integer"}));
        assert!(
            asked(json!({"question": " "})).unwrap_err().contains("write what the user is asked")
        );
        let both = asked(json!({"question": "?", "choices": ["a"], "schema": {}})).unwrap_err();
        assert!(both.contains("give one of them"), "{both}");
    }
}

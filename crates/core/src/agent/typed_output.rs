//! Typed answers: decodes an answer as text or as a value of a type with a JSON schema.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use agentflow_schema::schema::{Definitions, part_of};
use agentflow_schema::strict;
use agentflow_schema::text::unfenced;
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::context::Context;
use crate::error::Error;
use crate::event::{ANSWER_TOOL, AnswerForm, answer_text};
use crate::model::OutputSchema;
use crate::run::{RunEnd, RunResult};
use crate::tool::{Effects, Tool, ToolDefinition, ToolError, ToolFuture, ToolOutput, ToolPolicy};

/// Decoder for answers of type `O`.
pub(super) struct Output<O> {
    schema: Option<fn() -> OutputSchema>,
    form: fn() -> AnswerForm,
    decode: fn(&str) -> Result<O, String>,
    check: fn(&str) -> Result<(), String>,
}

impl Output<String> {
    /// Returns the answer text unchanged.
    pub(super) fn text() -> Self {
        Self {
            schema: None,
            form: || AnswerForm::Text,
            decode: |text| Ok(text.to_owned()),
            check: |_| Ok(()),
        }
    }
}

impl<O: DeserializeOwned + JsonSchema + 'static> Output<O> {
    /// Uses text if `O` is `String`, also through an alias, and JSON for every other type.
    pub(super) fn of_type() -> Self {
        let text: &dyn Any = &Output::text();
        text.downcast_ref::<Self>().cloned().unwrap_or_else(Self::json)
    }
}

impl<O: DeserializeOwned + JsonSchema> Output<O> {
    /// Decodes the answer as JSON that matches the schema of the type.
    pub(super) fn json() -> Self {
        Self {
            schema: Some(|| {
                let schema = schema_of::<O>();
                let schema = if is_object(&schema) { schema } else { wrapped(&schema) };
                OutputSchema::new(&O::schema_name(), schema)
            }),
            form: || {
                if is_object(&schema_of::<O>()) { AnswerForm::Object } else { AnswerForm::Value }
            },
            decode: decode::<O>,
            check: |text| decode::<O>(text).map(drop),
        }
    }
}

impl<O> Output<O> {
    pub(super) fn schema(&self) -> Option<OutputSchema> {
        self.schema.map(|schema| schema())
    }

    /// Returns the schema of the value, without the wrapper object.
    pub(super) fn value_schema(&self) -> Value {
        let Some(OutputSchema { schema, .. }) = self.schema() else {
            return json!({"type": "string"});
        };
        match self.form() {
            AnswerForm::Value => part_of(&schema["properties"]["value"], &schema),
            _ => schema,
        }
    }

    /// Returns the form of the answer's text.
    pub(super) fn form(&self) -> AnswerForm {
        (self.form)()
    }

    /// Returns the rule for the machine. `by_tool` is `true` if the model answers with a call to
    /// the answer tool.
    pub(super) fn rule(&self, by_tool: bool) -> OutputRule {
        OutputRule { check: self.check, form: (self.form)(), by_tool }
    }

    /// Decodes the answer of a completed run.
    pub(super) fn result(&self, end: RunEnd) -> Result<RunResult<O>, Error> {
        match (self.decode)(&answer_text(&end.completed.message)) {
            Ok(output) => Ok(RunResult::new(output, end)),
            Err(problem) => Err(Error::InvalidOutput { attempts: 1, problem }),
        }
    }
}

fn schema_of<O: JsonSchema>() -> Value {
    schemars::generate::SchemaSettings::draft2020_12()
        .with(|settings| {
            settings.inline_subschemas = true;
            settings.meta_schema = None;
        })
        .into_generator()
        .into_root_schema_for::<O>()
        .to_value()
}

fn is_object(schema: &Value) -> bool {
    schema["type"] == "object"
}

/// Wraps a schema in an object. Providers accept only objects as output schema.
fn wrapped(schema: &Value) -> Value {
    let mut definitions = Definitions::default();
    let mut object = json!({
        "type": "object",
        "properties": {"value": definitions.embed(schema)},
        "required": ["value"],
        "additionalProperties": false,
    });
    definitions.add_to(&mut object);
    object
}

fn decode<O: DeserializeOwned + JsonSchema>(text: &str) -> Result<O, String> {
    #[derive(Deserialize)]
    struct Wrapped<O> {
        value: O,
    }
    let text = unfenced(text);
    // Reject duplicate keys and arrays in place of objects, as for tool arguments: which key wins,
    // or which field an array element belongs to, would be a guess.
    if strict::keys(text).map_err(|error| error.to_string())?.is_none() {
        return Err("it is not a JSON object".to_owned());
    }
    // Errors contain the path of the wrong field, which helps the model to repair its answer.
    let mut json = serde_json::Deserializer::from_str(text);
    let decoded = if is_object(&schema_of::<O>()) {
        serde_path_to_error::deserialize(&mut json)
    } else {
        serde_path_to_error::deserialize(&mut json).map(|wrapped: Wrapped<O>| wrapped.value)
    };
    decoded.map_err(|error| {
        let path = error.path().to_string();
        if path == "." { error.inner().to_string() } else { format!("`{path}`: {}", error.inner()) }
    })
}

/// Returns the message to a model whose answer did not match the schema.
pub(super) fn repair_text(problem: &str) -> String {
    format!(
        "That answer does not fit the schema: {problem}. Answer again, with JSON that fits and nothing else."
    )
}

/// The tool that receives the answer if the provider does not support output schemas. Calling it
/// checks the answer.
pub(super) struct AnswerTool {
    definition: Arc<ToolDefinition>,
    check: fn(&str) -> Result<(), String>,
}

impl AnswerTool {
    pub(super) fn new(schema: OutputSchema, check: fn(&str) -> Result<(), String>) -> Self {
        let mut definition = ToolDefinition::new(
            ANSWER_TOOL,
            "Give the final answer. Call it once, when you are done.",
            schema.schema,
        );
        definition.policy = ToolPolicy::default().effects(Effects::None);
        Self { definition: Arc::new(definition), check }
    }
}

impl Tool for AnswerTool {
    fn definition(&self) -> &Arc<ToolDefinition> {
        &self.definition
    }

    fn call<'a>(&'a self, _: &'a Context, arguments: &'a str) -> ToolFuture<'a> {
        ToolFuture::ready(match (self.check)(arguments) {
            Ok(()) => ToolOutput::json("accepted"),
            Err(problem) => Err(ToolError::invalid_arguments(repair_text(&problem))),
        })
    }

    fn checks_arguments(&self) -> bool {
        true
    }
}

impl<O> Clone for Output<O> {
    fn clone(&self) -> Self {
        Self { schema: self.schema, form: self.form, decode: self.decode, check: self.check }
    }
}

impl<O> fmt::Debug for Output<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::any::type_name::<O>())
    }
}

/// The machine's view of the output type.
#[derive(Clone, Debug)]
pub(crate) struct OutputRule {
    /// Checks an answer. Pure.
    pub(crate) check: fn(&str) -> Result<(), String>,
    pub(crate) form: AnswerForm,
    /// `true` if the answer is a call of [`ANSWER_TOOL`].
    pub(crate) by_tool: bool,
}

#[cfg(test)]
mod tests {
    use schemars::JsonSchema;
    use serde::Deserialize;

    use super::Output;

    #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
    struct Risk {
        level: u8,
        why: Option<String>,
    }

    #[test]
    fn an_object_is_read_with_its_path_in_the_error() {
        let output = Output::<Risk>::json();
        assert_eq!((output.decode)(r#"{"level": 3}"#), Ok(Risk { level: 3, why: None }));
        assert_eq!(
            (output.decode)(r#"{"level": "high"}"#).unwrap_err(),
            "`level`: invalid type: string \"high\", expected u8 at line 1 column 16"
        );
        for (answer, problem) in [
            (r#"{"level": 3} and more"#, "trailing characters at line 1 column 14"),
            (
                r#"{"level": 3, "level": 4}"#,
                "`level` is given twice; give it once at line 1 column 20",
            ),
            (r#"[3, "why"]"#, "it is not a JSON object"),
        ] {
            assert_eq!((output.decode)(answer).unwrap_err(), problem);
        }
    }

    #[test]
    fn what_is_no_object_travels_in_one() {
        let output = Output::<Vec<u8>>::json();
        assert_eq!((output.decode)(r#"{"value": [1, 2]}"#), Ok(vec![1, 2]));
        let schema = output.schema().unwrap();
        assert_eq!(schema.schema["properties"]["value"]["type"], "array");
        assert!(
            schema.name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-'),
            "{}",
            schema.name
        );
    }
}

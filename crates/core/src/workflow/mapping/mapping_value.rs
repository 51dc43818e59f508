//! Computes the value of a [`Mapping`] in a [`Scope`].

use std::collections::HashMap;

use agentflow_schema::diagnostic::{Diagnostic, ExcerptKind};
use serde_json::{Map, Value};

use super::super::cel_names::CelVariables;
use super::super::condition::NoOutputs;
use super::super::step_error::StepError;
use super::super::value_codes;
use super::mapping_scope::part;
use super::{Mapping, Scope};
use crate::failure::FailureKind;
use crate::value::Encoded;

/// Maximum size in bytes of a string that a condition computes.
const LARGEST_TEXT: usize = 1 << 20;

impl Mapping {
    /// Computes the value from an item.
    #[cfg_attr(
        not(feature = "dynamic"),
        allow(dead_code, reason = "graphs are executed with the feature `dynamic`")
    )]
    pub(in crate::workflow) fn of_item(
        &self,
        item: &Encoded,
        most: usize,
    ) -> Result<Encoded, MappingError> {
        let scope = Scope { names: &HashMap::new(), outputs: &NoOutputs, item: Some(item) };
        self.encoded(&scope, || most)
    }

    /// Returns true if it has no value and is left out of the object or list that contains it.
    fn is_left_out(&self, scope: &Scope<'_>) -> bool {
        matches!(self, Self::State { key, at, or: None, optional: true } if scope.in_state(key, at).is_none())
    }

    /// Returns the first mapping that has a value.
    fn first_of<'m>(all: &'m [Self], scope: &Scope<'_>) -> Result<&'m Self, Diagnostic> {
        for one in all {
            if one.is_there(scope)? {
                return Ok(one);
            }
        }
        Err(Diagnostic::new(value_codes::NO_FIRST))
    }

    /// Returns true if the output, the part or the key exists. Every other mapping has a value.
    fn is_there(&self, scope: &Scope<'_>) -> Result<bool, Diagnostic> {
        Ok(match self {
            Self::From { node, at, or } => match scope.output(node) {
                Some(output) => or.is_some() || part(output, at)?.is_some(),
                None => or.is_some(),
            },
            Self::State { key, at, or, .. } => or.is_some() || scope.in_state(key, at).is_some(),
            Self::First(all) => Self::first_of(all, scope).is_ok(),
            _ => true,
        })
    }

    /// Computes the value.
    ///
    /// # Errors
    /// A diagnostic that names the missing value.
    pub(crate) fn value(&self, scope: &Scope<'_>) -> Result<Value, Diagnostic> {
        match self {
            Self::From { node, at, or } => match (scope.output(node), or) {
                (Some(output), or) => match part(output, at)? {
                    Some(value) => Ok(value),
                    None => or.clone().ok_or_else(|| {
                        Diagnostic::new(value_codes::OUTPUT_HAS_NO_PART)
                            .name("node", node)
                            .source("pointer", at)
                            .text("found", output)
                    }),
                },
                (None, Some(or)) => Ok(or.clone()),
                (None, None) => Err(Diagnostic::new(value_codes::NO_OUTPUT).name("node", node)),
            },
            Self::State { key, at, or, optional } => match (scope.in_state(key, at), or) {
                (Some(value), _) => Ok(value),
                (None, Some(or)) => Ok(or.clone()),
                (None, None) if *optional => Ok(Value::Null),
                (None, None) if at.is_empty() => {
                    Err(Diagnostic::new(value_codes::NO_KEY).name("key", key))
                }
                (None, None) => {
                    let found =
                        Diagnostic::new(value_codes::STATE_HAS_NO_PART).source("pointer", at);
                    Err(found.name("key", key))
                }
            },
            Self::Template(template) => scope.filled(template, LARGEST_TEXT),
            Self::ErrorOf(node) => Ok(scope.error_of(node)),
            Self::Item(at) => {
                let item = scope.item.ok_or_else(|| Diagnostic::new(value_codes::NO_ITEM))?;
                part(item, at)?.ok_or_else(|| {
                    let found = Diagnostic::new(value_codes::ITEM_HAS_NO_PART);
                    found.source("pointer", at).text("found", item)
                })
            }
            Self::Value(value) => Ok(value.clone()),
            Self::Cel(expression) => expression.value(&CelVariables(scope)).map_err(|error| {
                Diagnostic::from(error).within(ExcerptKind::Evaluated, expression.shown())
            }),
            Self::First(all) => Self::first_of(all, scope)?.value(scope),
            Self::Object(fields) => {
                let fields = fields.iter().filter(|(_, value)| !value.is_left_out(scope));
                let fields = fields.map(|(name, value)| Ok((name.clone(), value.value(scope)?)));
                fields.collect::<Result<Map<_, _>, Diagnostic>>().map(Value::Object)
            }
            Self::List(all) => {
                let all = all.iter().filter(|value| !value.is_left_out(scope));
                all.map(|value| value.value(scope)).collect::<Result<_, _>>().map(Value::Array)
            }
        }
    }

    /// Computes the value as JSON text of at most `most` bytes. The limit is needed because nodes
    /// that repeat their input can make a huge value of a small one. A whole output is copied
    /// without parsing it or checking its size.
    ///
    /// # Errors
    /// As [`value`](Self::value), and if the text is larger.
    pub(crate) fn encoded(
        &self,
        scope: &Scope<'_>,
        most: impl FnOnce() -> usize,
    ) -> Result<Encoded, MappingError> {
        match self {
            Self::From { node, at, .. }
                if at.is_empty()
                    && let Some(output) = scope.output(node) =>
            {
                Ok(output.clone())
            }
            Self::Item(at)
                if at.is_empty()
                    && let Some(item) = scope.item =>
            {
                Ok(item.clone())
            }
            Self::First(all) => Self::first_of(all, scope)?.encoded(scope, most),
            Self::Template(template)
                if let Some(output) = template.only().and_then(|only| scope.whole_output(only)) =>
            {
                Ok(output.clone())
            }
            Self::Template(template) => {
                let value = scope.filled(template, most())?;
                encoded(&value)
            }
            Self::Object(_) | Self::List(_) => {
                let mut text = Text { json: String::new(), most: most() };
                self.write(scope, &mut text)?;
                Encoded::from_json(text.json.clone()).map_err(|error| not_json(&text.json, &error))
            }
            other => encoded(&other.value(scope)?),
        }
    }

    /// Writes the value, up to the maximum size.
    fn write(&self, scope: &Scope<'_>, text: &mut Text) -> Result<(), MappingError> {
        match self {
            Self::Object(fields) => {
                let mut before = "{";
                for (name, value) in fields.iter().filter(|(_, value)| !value.is_left_out(scope)) {
                    text.push(before)?;
                    text.push_name(name)?;
                    text.push(":")?;
                    value.write(scope, text)?;
                    before = ",";
                }
                text.push(if before == "{" { "{}" } else { "}" })
            }
            Self::List(all) => {
                let mut before = "[";
                for value in all.iter().filter(|value| !value.is_left_out(scope)) {
                    text.push(before)?;
                    value.write(scope, text)?;
                    before = ",";
                }
                text.push(if before == "[" { "[]" } else { "]" })
            }
            other => text.push(other.encoded(scope, || text.most)?.as_str()),
        }
    }
}

/// Reason why a value cannot be computed.
pub(crate) enum MappingError {
    /// A required value is missing or invalid.
    Problem(Diagnostic),
    /// The value is larger than this number of bytes.
    TooLarge(usize),
}

impl From<Diagnostic> for MappingError {
    fn from(problem: Diagnostic) -> Self {
        Self::Problem(problem)
    }
}

fn encoded(value: &Value) -> Result<Encoded, MappingError> {
    Encoded::new(value).map_err(|error| not_json(value, &error))
}

fn not_json(value: &impl std::fmt::Display, error: &serde_json::Error) -> MappingError {
    let found = Diagnostic::new(value_codes::NOT_JSON).name("found", value);
    found.text("problem", error).into()
}

impl From<MappingError> for StepError {
    fn from(unmade: MappingError) -> Self {
        match unmade {
            MappingError::Problem(problem) => Self::of_value(&problem),
            MappingError::TooLarge(most) => Self::new(
                FailureKind::TooLarge,
                format!(
                    "the value that is made here of outputs has more than the {most} bytes that one step may have; take the \
                     parts that are needed, or raise the limit with `Runtime::builder().max_output_bytes(..)`"
                ),
            ),
        }
    }
}

/// A JSON text with a maximum size.
struct Text {
    json: String,
    most: usize,
}

impl Text {
    fn push(&mut self, part: &str) -> Result<(), MappingError> {
        if self.json.len().saturating_add(part.len()) > self.most {
            return Err(MappingError::TooLarge(self.most));
        }
        self.json.push_str(part);
        Ok(())
    }

    /// Writes the name of a field as JSON.
    fn push_name(&mut self, name: &str) -> Result<(), MappingError> {
        // Most names need no escaping, so they are written without building a JSON value.
        let is_plain = name.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\');
        if !is_plain {
            return self.push(&Value::from(name).to_string());
        }
        self.push("\"")?;
        self.push(name)?;
        self.push("\"")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::outputs::{NodeIndex, Outputs};
    use super::*;

    struct Page(Encoded);

    impl Outputs for Page {
        fn output(&self, node: NodeIndex) -> Option<&Encoded> {
            (node == 0).then_some(&self.0)
        }
    }

    fn read(json: Value) -> Result<Mapping, String> {
        serde_json::from_value(json).map_err(|error| error.to_string())
    }

    fn made(json: Value) -> Result<Value, String> {
        let names = HashMap::from([("page".to_owned(), 0), ("note".to_owned(), 1)]);
        let page = Page(Encoded::new(&json!({"title": "T", "links": ["a", "b"]})).unwrap());
        let item = Encoded::new(&json!({"n": 3})).unwrap();
        let scope = Scope { names: &names, outputs: &page, item: Some(&item) };
        let mapping = read(json)?;
        let value = mapping.value(&scope).map_err(|problem| problem.message())?;
        let encoded = match mapping.encoded(&scope, || 100) {
            Ok(encoded) => encoded,
            Err(MappingError::Problem(problem)) => return Err(problem.message()),
            Err(MappingError::TooLarge(most)) => panic!("more than {most}"),
        };
        assert_eq!(encoded, Encoded::new(&value).unwrap());
        assert!(matches!(mapping.encoded(&scope, || 3), Ok(_) | Err(MappingError::TooLarge(3))));
        Ok(value)
    }

    #[test]
    fn values_are_made_of_outputs() {
        assert_eq!(made(json!({"from": "page", "at": "/links/1"})).unwrap(), json!("b"));
        assert_eq!(made(json!({"from": "page", "at": "/no", "or": 1})).unwrap(), json!(1));
        assert_eq!(made(json!({"from": "note", "or": null})).unwrap(), Value::Null);
        assert_eq!(made(json!({"item": "/n"})).unwrap(), json!(3));
        let nested = json!({"object": {"a": {"list": [{"value": 1}, {"item": ""}]}, "e": {"error_of": "page"}}});
        assert_eq!(made(nested).unwrap(), json!({"a": [1, {"n": 3}], "e": null}));
        assert_eq!(made(json!({"from": "note"})).unwrap_err(), "`note` has no output");
        let missing = made(json!({"from": "page", "at": "/no"})).unwrap_err();
        assert!(missing.starts_with("the output of `page` has nothing at `/no`: "), "{missing}");
    }

    #[test]
    fn mistakes_are_named() {
        for (json, says) in [
            (
                json!("page"),
                "invalid type: string \"page\", expected a mapping, such as {\"from\": \"page\"}",
            ),
            (json!({}), "a mapping has one of the keys `from`, "),
            (json!({"form": "page"}), "a mapping has no `form`; did you mean `from`?"),
            (
                json!({"title": "page"}),
                "a mapping has no `title`; the fields of an object stand within `object`",
            ),
            (json!({"from": "page", "att": "/x"}), "a mapping has no `att`; did you mean `at`?"),
            (
                json!({"error_of": "page", "at": "/x"}),
                "a mapping with `error_of` has no `at`; remove it",
            ),
            (json!({"value": 1, "or": 2}), "a mapping with `value` has no `or`; remove it"),
            (
                json!({"from": "page", "value": 1}),
                "a mapping has one of `from` and `value`; remove the other",
            ),
            (json!({"from": 3}), "invalid type: integer `3`, expected a string"),
            (
                json!({"from": "page", "at": "title"}),
                "`title` is not a JSON Pointer; it begins with `/`, as in `/title`",
            ),
            (json!({"object": {"a": {"lst": []}}}), "a mapping has no `lst`; did you mean `list`?"),
        ] {
            let error = read(json.clone()).unwrap_err();
            assert!(error.contains(says), "{json}: {error}");
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        for json in [
            json!({"from": "page"}),
            json!({"from": "page", "at": "/a~1b", "or": null}),
            json!({"list": [{"value": {"from": "x"}}, {"item": "/n"}, {"error_of": "y"}]}),
        ] {
            let mapping = read(json.clone()).unwrap();
            assert_eq!(serde_json::to_value(&mapping).unwrap(), json);
        }
    }
}

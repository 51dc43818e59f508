//! `Mapping`: how a value is made of the outputs of nodes, as data. It computes nothing beside that.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};

use super::outputs::{NodeIndex, Outputs};
use super::step_error::StepError;
use crate::failure::FailureKind;
use crate::text::{did_you_mean, nearest};
use crate::value::Encoded;

/// How a value is made: the output of a node or a part of it, a constant, or an object or a list of such.
///
/// As JSON it is an object with one of these keys:
///
/// | JSON | the value |
/// | --- | --- |
/// | `{"from": "page"}` | the output of the node or the input `page` |
/// | `{"from": "page", "at": "/links/0"}` | the part of it at a JSON Pointer (RFC 6901) |
/// | `{"from": "page", "at": "/title", "or": ""}` | another value where there is no such output or part |
/// | `{"error_of": "fetch"}` | the failure of a node, `{"kind": .., "message": ..}`, or `null` |
/// | `{"item": ""}` | the item of a node that runs for each item, or the last output of one that is repeated; or a part of it |
/// | `{"value": 5}` | a constant |
/// | `{"object": {"url": {"from": "page"}}}` | an object |
/// | `{"list": [{"from": "page"}]}` | a list |
///
/// ```
/// use agentflow::workflow::Mapping;
/// use serde_json::json;
///
/// let mapping: Mapping = serde_json::from_value(json!({"object": {"url": {"from": "page", "at": "/links/0"}}})).unwrap();
/// assert_eq!(mapping, Mapping::object([("url", Mapping::from_part("page", "/links/0"))]));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(into = "Value")]
#[non_exhaustive]
pub enum Mapping {
    /// The output of a node or an input, or a part of it.
    From {
        /// The node.
        node: String,
        /// A JSON Pointer; empty for all of it.
        at: String,
        /// What it is where there is no such output or part; without it, that is a failure.
        or: Option<Value>,
    },
    /// The failure of a node; `null` when it has not failed.
    ErrorOf(String),
    /// The part of the item at a JSON Pointer; empty for all of it.
    Item(String),
    /// A constant.
    Value(Value),
    /// An object.
    Object(BTreeMap<String, Mapping>),
    /// A list.
    List(Vec<Mapping>),
}

/// The keys of a mapping's JSON form.
const KEYS: [&str; 6] = ["from", "error_of", "item", "value", "object", "list"];

impl Mapping {
    /// The output of a node or an input.
    pub fn from(node: impl Into<String>) -> Self {
        Self::from_part(node, "")
    }

    /// A part of the output of a node, at a JSON Pointer.
    pub fn from_part(node: impl Into<String>, at: impl Into<String>) -> Self {
        Self::From { node: node.into(), at: at.into(), or: None }
    }

    /// An object of values.
    pub fn object<K: Into<String>>(fields: impl IntoIterator<Item = (K, Self)>) -> Self {
        Self::Object(fields.into_iter().map(|(name, value)| (name.into(), value)).collect())
    }

    /// The nodes and inputs that it reads, each as often as it does, with whether one may be missing.
    pub(crate) fn reads(&self) -> Vec<(&str, bool)> {
        match self {
            Self::From { node, or, .. } => vec![(node, or.is_some())],
            Self::ErrorOf(node) => vec![(node, true)],
            Self::Item(_) | Self::Value(_) => Vec::new(),
            Self::Object(fields) => fields.values().flat_map(Self::reads).collect(),
            Self::List(all) => all.iter().flat_map(Self::reads).collect(),
        }
    }

    /// Whether it is made of an item.
    pub(crate) fn has_item(&self) -> bool {
        match self {
            Self::Item(_) => true,
            Self::Object(fields) => fields.values().any(Self::has_item),
            Self::List(all) => all.iter().any(Self::has_item),
            _ => false,
        }
    }

    /// The value.
    ///
    /// # Errors
    /// A sentence that names what is not there.
    pub(crate) fn value(&self, scope: &Scope<'_>) -> Result<Value, String> {
        match self {
            Self::From { node, at, or } => match (scope.output(node), or) {
                (Some(output), or) => match part(output, at)? {
                    Some(value) => Ok(value),
                    None => or.clone().ok_or_else(|| format!("the output of `{node}` has nothing at `{at}`: {output}")),
                },
                (None, Some(or)) => Ok(or.clone()),
                (None, None) => Err(format!("`{node}` has no output")),
            },
            Self::ErrorOf(node) => Ok(scope.error_of(node)),
            Self::Item(at) => {
                let item = scope.item.ok_or("there is no item")?;
                part(item, at)?.ok_or_else(|| format!("the item has nothing at `{at}`: {item}"))
            }
            Self::Value(value) => Ok(value.clone()),
            Self::Object(fields) => {
                let fields = fields.iter().map(|(name, value)| Ok((name.clone(), value.value(scope)?)));
                fields.collect::<Result<Map<_, _>, String>>().map(Value::Object)
            }
            Self::List(all) => all.iter().map(|value| value.value(scope)).collect::<Result<_, _>>().map(Value::Array),
        }
    }

    /// The value as JSON text, of at most so many bytes: nodes that give what they read several times over make much of
    /// little. A whole output is copied and not read.
    ///
    /// # Errors
    /// As [`value`](Self::value), and when it is larger.
    pub(crate) fn encoded(&self, scope: &Scope<'_>, most: impl FnOnce() -> usize) -> Result<Encoded, Unmade> {
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
            Self::Object(_) | Self::List(_) => {
                let mut text = Text { json: String::new(), most: most() };
                self.write(scope, &mut text)?;
                Encoded::from_json(text.json).map_err(|error| Unmade::Problem(error.to_string()))
            }
            other => Encoded::new(&other.value(scope)?).map_err(|error| Unmade::Problem(error.to_string())),
        }
    }

    /// Writes the value, up to the largest size that it may have.
    fn write(&self, scope: &Scope<'_>, text: &mut Text) -> Result<(), Unmade> {
        match self {
            Self::Object(fields) => {
                let mut before = "{";
                for (name, value) in fields {
                    text.push(before)?;
                    text.push(&Value::from(name.as_str()).to_string())?;
                    text.push(":")?;
                    value.write(scope, text)?;
                    before = ",";
                }
                text.push(if fields.is_empty() { "{}" } else { "}" })
            }
            Self::List(all) => {
                let mut before = "[";
                for value in all {
                    text.push(before)?;
                    value.write(scope, text)?;
                    before = ",";
                }
                text.push(if all.is_empty() { "[]" } else { "]" })
            }
            other => text.push(other.encoded(scope, || text.most)?.as_str()),
        }
    }
}

/// Why there is no value.
pub(crate) enum Unmade {
    /// Something is not there.
    Problem(String),
    /// It has more bytes than this.
    TooLarge(usize),
}

impl From<String> for Unmade {
    fn from(problem: String) -> Self {
        Self::Problem(problem)
    }
}

impl From<Unmade> for StepError {
    fn from(unmade: Unmade) -> Self {
        match unmade {
            Unmade::Problem(problem) => Self::new(FailureKind::Value, problem),
            Unmade::TooLarge(most) => Self::new(
                FailureKind::TooLarge,
                format!(
                    "the value that is made here of outputs has more than the {most} bytes that one step may have; take the \
                     parts that are needed, or raise the limit with `Runtime::builder().max_output_bytes(..)`"
                ),
            ),
        }
    }
}

/// A JSON text that grows up to a size.
struct Text {
    json: String,
    most: usize,
}

impl Text {
    fn push(&mut self, part: &str) -> Result<(), Unmade> {
        if self.json.len().saturating_add(part.len()) > self.most {
            return Err(Unmade::TooLarge(self.most));
        }
        self.json.push_str(part);
        Ok(())
    }
}

/// The part of a value at a JSON Pointer.
fn part(of: &Encoded, at: &str) -> Result<Option<Value>, String> {
    let value: Value = of.decode().map_err(|error| format!("`{of}` is not JSON: {error}"))?;
    Ok(value.pointer(at).cloned())
}

/// The names that mappings use, with their nodes.
pub(crate) type Names = Arc<HashMap<String, NodeIndex>>;

/// What a mapping is made of.
pub(crate) struct Scope<'a> {
    pub(crate) names: &'a HashMap<String, NodeIndex>,
    pub(crate) outputs: &'a dyn Outputs,
    pub(crate) item: Option<&'a Encoded>,
}

impl Scope<'_> {
    fn output(&self, node: &str) -> Option<&Encoded> {
        self.outputs.output(*self.names.get(node)?)
    }

    fn error_of(&self, node: &str) -> Value {
        let failure = self.names.get(node).and_then(|node| self.outputs.failure(*node));
        failure.map_or(Value::Null, |failure| json!({"kind": failure.kind.as_str(), "message": failure.message}))
    }
}

impl From<Mapping> for Value {
    fn from(mapping: Mapping) -> Self {
        match mapping {
            Mapping::From { node, at, or } => {
                let mut fields = Map::from_iter([("from".to_owned(), Self::String(node))]);
                if !at.is_empty() {
                    fields.insert("at".to_owned(), Self::String(at));
                }
                if let Some(or) = or {
                    fields.insert("or".to_owned(), or);
                }
                Self::Object(fields)
            }
            Mapping::ErrorOf(node) => json!({"error_of": node}),
            Mapping::Item(at) => json!({"item": at}),
            Mapping::Value(value) => json!({"value": value}),
            Mapping::Object(fields) => {
                let fields: Map<String, Self> = fields.into_iter().map(|(name, value)| (name, value.into())).collect();
                json!({"object": fields})
            }
            Mapping::List(all) => json!({"list": all.into_iter().map(Self::from).collect::<Vec<_>>()}),
        }
    }
}

impl<'de> Deserialize<'de> for Mapping {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MappingReader)
    }
}

/// Reads a mapping key by key, so that whoever reads knows where a mistake is.
struct MappingReader;

impl<'de> Visitor<'de> for MappingReader {
    type Value = Mapping;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a mapping, such as {\"from\": \"page\"} or {\"value\": 5}")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Mapping, A::Error> {
        let mut mapping: Option<(String, Mapping)> = None;
        let (mut part, mut other) = (None, None);
        while let Some(key) = map.next_key::<String>()? {
            let of = match key.as_str() {
                "from" => Mapping::from(map.next_value::<String>()?),
                "error_of" => Mapping::ErrorOf(map.next_value()?),
                "item" => Mapping::Item(map.next_value::<Pointer>()?.0),
                "value" => Mapping::Value(map.next_value()?),
                "object" => Mapping::Object(map.next_value()?),
                "list" => Mapping::List(map.next_value()?),
                "at" => {
                    part = Some(map.next_value::<Pointer>()?.0);
                    continue;
                }
                "or" => {
                    other = Some(map.next_value()?);
                    continue;
                }
                unknown => {
                    let hint = match nearest(unknown, KEYS.into_iter().chain(["at", "or"])) {
                        near @ Some(_) => did_you_mean(near),
                        None => "; the fields of an object stand within `object`".to_owned(),
                    };
                    return Err(A::Error::custom(format!("a mapping has no `{unknown}`{hint}")));
                }
            };
            if let Some((first, _)) = &mapping {
                return Err(A::Error::custom(format!("a mapping has one of `{first}` and `{key}`; remove the other")));
            }
            mapping = Some((key, of));
        }
        match (mapping, part, other) {
            (Some((_, Mapping::From { node, .. })), at, or) => {
                Ok(Mapping::From { node, at: at.unwrap_or_default(), or })
            }
            (Some((_, mapping)), None, None) => Ok(mapping),
            (Some((key, _)), part, _) => {
                let extra = if part.is_some() { "at" } else { "or" };
                Err(A::Error::custom(format!("a mapping with `{key}` has no `{extra}`; remove it")))
            }
            (None, ..) => Err(A::Error::custom(format!("a mapping has one of the keys `{}`", KEYS.join("`, `")))),
        }
    }
}

/// A JSON Pointer.
#[derive(Deserialize)]
#[serde(try_from = "String")]
struct Pointer(String);

impl TryFrom<String> for Pointer {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        pointer(text).map(Self)
    }
}

/// A JSON Pointer: empty, or it begins with `/`.
fn pointer(text: String) -> Result<String, String> {
    match text.is_empty() || text.starts_with('/') {
        true => Ok(text),
        false => {
            // As it is written in other languages of paths.
            let path = text.trim_start_matches(['$', '.']).replace('.', "/");
            Err(format!("`{text}` is not a JSON Pointer; it begins with `/`, as in `/{path}`"))
        }
    }
}

#[cfg(test)]
mod tests {
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
        let value = mapping.value(&scope)?;
        let encoded = match mapping.encoded(&scope, || 100) {
            Ok(encoded) => encoded,
            Err(Unmade::Problem(problem)) => return Err(problem),
            Err(Unmade::TooLarge(most)) => panic!("more than {most}"),
        };
        assert_eq!(encoded, Encoded::new(&value).unwrap());
        assert!(matches!(mapping.encoded(&scope, || 3), Ok(_) | Err(Unmade::TooLarge(3))));
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
            (json!("page"), "invalid type: string \"page\", expected a mapping, such as {\"from\": \"page\"}"),
            (json!({}), "a mapping has one of the keys `from`, "),
            (json!({"form": "page"}), "a mapping has no `form`; did you mean `from`?"),
            (json!({"title": "page"}), "a mapping has no `title`; the fields of an object stand within `object`"),
            (json!({"from": "page", "att": "/x"}), "a mapping has no `att`; did you mean `at`?"),
            (json!({"error_of": "page", "at": "/x"}), "a mapping with `error_of` has no `at`; remove it"),
            (json!({"value": 1, "or": 2}), "a mapping with `value` has no `or`; remove it"),
            (json!({"from": "page", "value": 1}), "a mapping has one of `from` and `value`; remove the other"),
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

//! `Mapping`: describes as data how a value is computed from the outputs of nodes and from the
//! state. `mapping_form.rs` has its JSON form.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use agentflow_schema::expression::Expression;
use agentflow_schema::template::{Placeholder, Template, part_of};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::cel_names::{CelVariables, cel_reads, cel_state_keys};
use super::outputs::{NodeIndex, Outputs};
use super::step_error::StepError;
use crate::failure::FailureKind;
use crate::state::{SavedByStep, StateOwner, is_reserved};
use crate::value::Encoded;

/// Describes how a value is computed: from the output of a node or a part of it, a value of the
/// state, a constant, a string with such values, or an object or a list of them.
///
/// As JSON it is an object with one of these keys:
///
/// | JSON | the value |
/// | --- | --- |
/// | `{"from": "page"}` | the output of the node or the input `page` |
/// | `{"from": "page", "at": "/links/0"}` | the part of it at a JSON Pointer (RFC 6901) |
/// | `{"from": "page", "at": "/title", "or": ""}` | the same, with a default if the output or the part is missing |
/// | `{"state": "tone"}` | the value of a key of the [state](crate::state), as the node sees it; with `at` and `or` as above |
/// | `{"state": "tone", "optional": true}` | the same; without a value, it is left out of the object or the list that contains it |
/// | `{"state": ""}` | all values of the session and of `temp:` keys, as an object |
/// | `{"template": "Dear {name}, {page.title?}"}` | a string with such values, by the rules of a [`Template`] |
/// | `{"error_of": "fetch"}` | the failure of a node, `{"kind": .., "message": ..}`, or `null` |
/// | `{"item": ""}` | the item of a node that runs for each item, or the last output of a repetition; a JSON Pointer selects a part |
/// | `{"value": 5}` | a constant |
/// | `{"cel": "size(page.links) + 1"}` | the result of a line of [CEL](crate::expression), with the variables of [`Condition::Cel`](super::Condition::Cel) |
/// | `{"first": [{"from": "a"}, {"from": "b"}]}` | the first of these that has a value; skipped nodes have none |
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
///
/// A placeholder of a template names a node or an input. Any other name is a key of the state: one
/// that a node of the graph [saves](super::GraphNode::saves), or that begins with `user:`, `app:`
/// or `temp:`. `{nodes.page}` and `{state.tone}` select explicitly; use `{state.tone}` for a key
/// that a tool or an earlier run sets. An unknown name is refused when the graph is read, unless it
/// is optional.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(into = "Value")]
#[non_exhaustive]
pub enum Mapping {
    /// Output of a node or an input, or a part of it.
    From {
        /// Name of the node or the input.
        node: String,
        /// JSON Pointer of the part; empty for the whole output.
        at: String,
        /// Default if the output or the part is missing. Without a default, this is a failure.
        or: Option<Value>,
    },
    /// Value of a key of the state as the node sees it, or a part of it.
    State {
        /// Key, such as `tone` or `user:name`; empty for an object of all values of the session and
        /// of `temp:` keys.
        key: String,
        /// JSON Pointer of the part; empty for the whole value.
        at: String,
        /// Default if the value or the part is missing. Without a default, this is a failure.
        or: Option<Value>,
        /// `true` to leave a missing value out of the object or the list that contains it.
        /// Elsewhere, it is `null`.
        optional: bool,
    },
    /// Text with the values of nodes, of inputs and of the state.
    Template(Template),
    /// Failure of a node; `null` if it has not failed.
    ErrorOf(String),
    /// Part of the item at a JSON Pointer; empty for the whole item.
    Item(String),
    /// Constant.
    Value(Value),
    /// Result of an expression, with the variables of [`Condition::Cel`](super::Condition::Cel).
    Cel(Expression),
    /// First of these that has a value. A missing output, part or state key has none. Every other
    /// mapping has one.
    First(Vec<Mapping>),
    /// Object of mappings.
    Object(BTreeMap<String, Mapping>),
    /// List of mappings.
    List(Vec<Mapping>),
}

impl Mapping {
    /// Creates a mapping to the output of a node or an input.
    pub fn from(node: impl Into<String>) -> Self {
        Self::from_part(node, "")
    }

    /// Creates a mapping to the part of a node's output at a JSON Pointer.
    pub fn from_part(node: impl Into<String>, at: impl Into<String>) -> Self {
        Self::From { node: node.into(), at: at.into(), or: None }
    }

    /// Creates a mapping to the value of a state key.
    pub fn state(key: impl Into<String>) -> Self {
        Self::State { key: key.into(), at: String::new(), or: None, optional: false }
    }

    /// Creates an object of mappings.
    pub fn object<K: Into<String>>(fields: impl IntoIterator<Item = (K, Self)>) -> Self {
        Self::Object(fields.into_iter().map(|(name, value)| (name.into(), value)).collect())
    }

    /// Returns the nodes and inputs that it reads, with repetitions. The flag is `true` if the
    /// value may be missing. `is_node` returns true for the name of a node or an input.
    pub(crate) fn reads<'m>(&'m self, is_node: IsNode<'_>) -> Vec<(&'m str, bool)> {
        match self {
            Self::From { node, or, .. } => vec![(node, or.is_some())],
            Self::ErrorOf(node) => vec![(node, true)],
            Self::Item(_) | Self::Value(_) | Self::State { .. } => Vec::new(),
            Self::Template(template) => {
                let roots = template.placeholders().map(|placeholder| {
                    (PlaceholderRoot::resolve(placeholder, is_node).0, placeholder)
                });
                let of_nodes = roots.filter_map(|(root, placeholder)| match root {
                    PlaceholderRoot::Node(node) => Some((node, placeholder.is_optional())),
                    PlaceholderRoot::State { .. } => None,
                });
                of_nodes.collect()
            }
            Self::Cel(expression) => cel_reads(expression, is_node),
            // `first` accepts that any of its values is missing.
            Self::First(all) => {
                all.iter().flat_map(|of| of.reads(is_node)).map(|(node, _)| (node, true)).collect()
            }
            Self::Object(fields) => fields.values().flat_map(|of| of.reads(is_node)).collect(),
            Self::List(all) => all.iter().flat_map(|of| of.reads(is_node)).collect(),
        }
    }

    /// Returns the keys of the state that it reads. The flag is `true` for a required bare name in
    /// a template, which must be a known key.
    pub(crate) fn state_keys<'m>(&'m self, is_node: IsNode<'_>) -> Vec<(&'m str, bool)> {
        match self {
            Self::State { key, .. } => vec![(key, false)],
            Self::Template(template) => {
                let keys =
                    template.placeholders().filter_map(
                        |placeholder| match PlaceholderRoot::resolve(placeholder, is_node).0 {
                            PlaceholderRoot::Node(_) => None,
                            PlaceholderRoot::State { key, bare } => {
                                Some((key, bare && !placeholder.is_optional()))
                            }
                        },
                    );
                keys.collect()
            }
            Self::Cel(expression) => cel_state_keys(expression, is_node),
            Self::Object(fields) => fields.values().flat_map(|of| of.state_keys(is_node)).collect(),
            Self::List(all) | Self::First(all) => {
                all.iter().flat_map(|of| of.state_keys(is_node)).collect()
            }
            Self::From { .. } | Self::ErrorOf(_) | Self::Item(_) | Self::Value(_) => Vec::new(),
        }
    }

    /// Returns the keys of the state that its value requires.
    pub(crate) fn needed_keys<'m>(&'m self, is_node: IsNode<'_>) -> Vec<&'m str> {
        match self {
            Self::State { key, or: None, optional: false, .. } => vec![key],
            Self::Template(template) => {
                let needed =
                    template.placeholders().filter(|placeholder| !placeholder.is_optional());
                let keys = needed.filter_map(|placeholder| {
                    match PlaceholderRoot::resolve(placeholder, is_node).0 {
                        PlaceholderRoot::Node(_) => None,
                        PlaceholderRoot::State { key, .. } => Some(key),
                    }
                });
                keys.collect()
            }
            Self::Object(fields) => {
                fields.values().flat_map(|of| of.needed_keys(is_node)).collect()
            }
            Self::List(all) => all.iter().flat_map(|of| of.needed_keys(is_node)).collect(),
            Self::State { .. }
            | Self::From { .. }
            | Self::ErrorOf(_)
            | Self::Item(_)
            | Self::Value(_)
            | Self::Cel(_)
            | Self::First(_) => Vec::new(),
        }
    }

    /// Returns true if it uses the item.
    pub(crate) fn has_item(&self) -> bool {
        match self {
            Self::Item(_) => true,
            Self::Object(fields) => fields.values().any(Self::has_item),
            Self::List(all) | Self::First(all) => all.iter().any(Self::has_item),
            _ => false,
        }
    }

    /// Returns true if it uses only the item and constants.
    #[cfg_attr(
        not(feature = "dynamic"),
        allow(dead_code, reason = "graphs are executed with the feature `dynamic`")
    )]
    pub(super) fn uses_item_only(&self) -> bool {
        self.reads(&|_| true).is_empty() && self.state_keys(&|_| true).is_empty()
    }

    /// Computes the value from an item.
    #[cfg_attr(
        not(feature = "dynamic"),
        allow(dead_code, reason = "graphs are executed with the feature `dynamic`")
    )]
    pub(super) fn of_item(&self, item: &Encoded, most: usize) -> Result<Encoded, MappingError> {
        let scope = Scope {
            names: &HashMap::new(),
            outputs: &super::condition::NoOutputs,
            item: Some(item),
        };
        self.encoded(&scope, || most)
    }

    /// Returns true if it has no value and is left out of the object or list that contains it.
    fn is_left_out(&self, scope: &Scope<'_>) -> bool {
        matches!(self, Self::State { key, at, or: None, optional: true } if scope.in_state(key, at).is_none())
    }

    /// Returns the first mapping that has a value.
    fn first_of<'m>(all: &'m [Self], scope: &Scope<'_>) -> Result<&'m Self, String> {
        for one in all {
            if one.is_there(scope)? {
                return Ok(one);
            }
        }
        Err("none of the values of `first` is there".to_owned())
    }

    /// Returns true if the output, the part or the key exists. Every other mapping has a value.
    fn is_there(&self, scope: &Scope<'_>) -> Result<bool, String> {
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
    /// A message that names the missing value.
    pub(crate) fn value(&self, scope: &Scope<'_>) -> Result<Value, String> {
        match self {
            Self::From { node, at, or } => match (scope.output(node), or) {
                (Some(output), or) => match part(output, at)? {
                    Some(value) => Ok(value),
                    None => or.clone().ok_or_else(|| {
                        format!("the output of `{node}` has nothing at `{at}`: {output}")
                    }),
                },
                (None, Some(or)) => Ok(or.clone()),
                (None, None) => Err(format!("`{node}` has no output")),
            },
            Self::State { key, at, or, optional } => match (scope.in_state(key, at), or) {
                (Some(value), _) => Ok(value),
                (None, Some(or)) => Ok(or.clone()),
                (None, None) if *optional => Ok(Value::Null),
                (None, None) if at.is_empty() => Err(format!("the state has no `{key}`")),
                (None, None) => Err(format!("the state has nothing at `{at}` of `{key}`")),
            },
            Self::Template(template) => scope.filled(template, LARGEST_TEXT),
            Self::ErrorOf(node) => Ok(scope.error_of(node)),
            Self::Item(at) => {
                let item = scope.item.ok_or("there is no item")?;
                part(item, at)?.ok_or_else(|| format!("the item has nothing at `{at}`: {item}"))
            }
            Self::Value(value) => Ok(value.clone()),
            Self::Cel(expression) => {
                let value = expression.value(&CelVariables(scope));
                value.map_err(|error| {
                    format!("`{}` cannot be evaluated: {error}", expression.shown())
                })
            }
            Self::First(all) => Self::first_of(all, scope)?.value(scope),
            Self::Object(fields) => {
                let fields = fields.iter().filter(|(_, value)| !value.is_left_out(scope));
                let fields = fields.map(|(name, value)| Ok((name.clone(), value.value(scope)?)));
                fields.collect::<Result<Map<_, _>, String>>().map(Value::Object)
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
                Encoded::new(&value).map_err(|error| MappingError::Problem(error.to_string()))
            }
            Self::Object(_) | Self::List(_) => {
                let mut text = Text { json: String::new(), most: most() };
                self.write(scope, &mut text)?;
                Encoded::from_json(text.json)
                    .map_err(|error| MappingError::Problem(error.to_string()))
            }
            other => Encoded::new(&other.value(scope)?)
                .map_err(|error| MappingError::Problem(error.to_string())),
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

/// Maximum size in bytes of a string that a condition computes.
const LARGEST_TEXT: usize = 1 << 20;

/// Predicate for names of nodes and inputs.
pub(crate) type IsNode<'a> = &'a dyn Fn(&str) -> bool;

/// Root of a placeholder's path: a node, or a key of the state.
pub(crate) enum PlaceholderRoot<'p> {
    Node(&'p str),
    /// `bare` is `true` if the path has neither `state.` nor an owner prefix, so only the name
    /// itself shows that it is a key of the state.
    State {
        key: &'p str,
        bare: bool,
    },
}

impl<'p> PlaceholderRoot<'p> {
    /// Returns the root of a placeholder, and the rest of its path.
    pub(crate) fn resolve(
        placeholder: &'p Placeholder,
        is_node: IsNode<'_>,
    ) -> (Self, &'p [String]) {
        match placeholder.parts() {
            // A node takes precedence over a state key of the same name.
            [node, rest @ ..] if is_node(node) => (Self::Node(node), rest),
            [of, node, rest @ ..] if of == "nodes" => (Self::Node(node), rest),
            [of, key, rest @ ..] if of == "state" => (Self::State { key, bare: false }, rest),
            [key, rest @ ..] => {
                (Self::State { key, bare: StateOwner::split(key).0 == StateOwner::Session }, rest)
            }
            // A path has at least one name.
            [] => (Self::State { key: "", bare: true }, &[]),
        }
    }
}

/// Reason why a value cannot be computed.
pub(crate) enum MappingError {
    /// A required value is missing or invalid.
    Problem(String),
    /// The value is larger than this number of bytes.
    TooLarge(usize),
}

impl From<String> for MappingError {
    fn from(problem: String) -> Self {
        Self::Problem(problem)
    }
}

impl From<MappingError> for StepError {
    fn from(unmade: MappingError) -> Self {
        match unmade {
            MappingError::Problem(problem) => Self::new(FailureKind::Value, problem),
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

/// Returns the part of a value at a JSON Pointer.
fn part(of: &Encoded, at: &str) -> Result<Option<Value>, String> {
    let value: Value = of.decode().map_err(|error| format!("`{of}` is not JSON: {error}"))?;
    Ok(value.pointer(at).cloned())
}

/// Nodes by the names that mappings use.
pub(crate) type Names = Arc<HashMap<String, NodeIndex>>;

/// Values that a mapping can use.
pub(crate) struct Scope<'a> {
    pub(crate) names: &'a HashMap<String, NodeIndex>,
    pub(crate) outputs: &'a dyn Outputs,
    pub(crate) item: Option<&'a Encoded>,
}

impl Scope<'_> {
    pub(super) fn output(&self, node: &str) -> Option<&Encoded> {
        self.outputs.output(*self.names.get(node)?)
    }

    /// Returns the value of a state key, or the part of it at a JSON Pointer.
    pub(super) fn in_state(&self, key: &str, at: &str) -> Option<Value> {
        let state = self.outputs.state();
        if key.is_empty() {
            return Value::Object(state.map(all_of_state).unwrap_or_default()).pointer(at).cloned();
        }
        part(state?.get(key)??, at).ok()?
    }

    /// Returns the output of a placeholder that selects no part of it.
    fn whole_output(&self, placeholder: &Placeholder) -> Option<&Encoded> {
        match placeholder.parts() {
            [node] => self.output(node),
            parts => {
                match PlaceholderRoot::resolve(placeholder, &|name| self.names.contains_key(name)) {
                    (PlaceholderRoot::Node(node), []) if parts.len() == 2 => self.output(node),
                    _ => None,
                }
            }
        }
    }

    /// Fills a template with text of at most `most` bytes.
    pub(super) fn filled(&self, template: &Template, most: usize) -> Result<Value, String> {
        let is_node = |name: &str| self.names.contains_key(name);
        let filled = template.filled(most, |placeholder| {
            let (root, parts) = PlaceholderRoot::resolve(placeholder, &is_node);
            let what = || match &root {
                PlaceholderRoot::Node(node) => format!("the output of `{node}`"),
                PlaceholderRoot::State { key, .. } => format!("the value of `{key}` in the state"),
            };
            let value = match root {
                PlaceholderRoot::Node(node) => self.output(node),
                PlaceholderRoot::State { key, .. } => self.outputs.state().and_then(|state| state.get(key)).flatten(),
            };
            let value = value.map(Encoded::decode::<Value>).transpose();
            let value = value.map_err(|error| format!("{} is not JSON: {error}", what()))?;
            match value.as_ref().map(|value| part_of(value, parts).cloned()) {
                Some(Some(part)) => Ok(Some(part)),
                _ if placeholder.is_optional() => Ok(None),
                Some(None) => Err(format!("{} has nothing at `{}`", what(), parts.join("."))),
                None => Err(format!(
                    "there is nothing as {}; write `?` before the closing brace where it may be missing",
                    what()
                )),
            }
        });
        filled.map_err(|error| error.to_string())
    }

    fn error_of(&self, node: &str) -> Value {
        let failure = self.names.get(node).and_then(|node| self.outputs.failure(*node));
        failure.map_or(
            Value::Null,
            |failure| json!({"kind": failure.kind.as_str(), "message": failure.message}),
        )
    }
}

/// Returns the values of the session and of `temp:` keys.
fn all_of_state(state: &SavedByStep) -> Map<String, Value> {
    let is_shown = |key: &str| !StateOwner::split(key).0.outlives_runs() && !is_reserved(key);
    let values = state.changes().filter(|(key, _)| is_shown(key));
    values.filter_map(|(key, value)| Some((key.to_owned(), value?.decode().ok()?))).collect()
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
            Err(MappingError::Problem(problem)) => return Err(problem),
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

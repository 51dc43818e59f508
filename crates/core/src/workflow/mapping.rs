//! `Mapping`: how a value is made of the outputs of nodes and of the state, as data. It computes nothing beside that;
//! `mapping_form.rs` has its JSON form.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use agentflow_schema::expression::Expression;
use agentflow_schema::template::{Placeholder, Template, part_of};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::cel_names::{CelNames, cel_reads, cel_state_keys};
use super::outputs::{NodeIndex, Outputs};
use super::step_error::StepError;
use crate::failure::FailureKind;
use crate::state::{SavedByStep, StateOwner, is_reserved};
use crate::value::Encoded;

/// How a value is made: the output of a node or a part of it, a value of the state, a constant, a text with such values, or an
/// object or a list of them.
///
/// As JSON it is an object with one of these keys:
///
/// | JSON | the value |
/// | --- | --- |
/// | `{"from": "page"}` | the output of the node or the input `page` |
/// | `{"from": "page", "at": "/links/0"}` | the part of it at a JSON Pointer (RFC 6901) |
/// | `{"from": "page", "at": "/title", "or": ""}` | another value where there is no such output or part |
/// | `{"state": "tone"}` | the value of a key of the [state](crate::state), as the node sees it; with `at` and `or` as above |
/// | `{"state": "tone", "optional": true}` | the same; without a value it is left out of the object or the list that it is in |
/// | `{"state": ""}` | all values of the session and of `temp:` keys, as an object |
/// | `{"template": "Dear {name}, {page.title?}"}` | a text with such values, by the rules of a [`Template`] |
/// | `{"error_of": "fetch"}` | the failure of a node, `{"kind": .., "message": ..}`, or `null` |
/// | `{"item": ""}` | the item of a node that runs for each item, or the last output of one that is repeated; or a part of it |
/// | `{"value": 5}` | a constant |
/// | `{"cel": "size(page.links) + 1"}` | the value of a line of [CEL](crate::expression), whose variables are those of [`Condition::Cel`](super::Condition::Cel) |
/// | `{"first": [{"from": "a"}, {"from": "b"}]}` | the first of these that has a value: nodes that were skipped have none |
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
/// What a placeholder of a template names is a node or an input, and else a key of the state: one that a node of the graph
/// [saves](super::GraphNode::saves), or that begins with `user:`, `app:` or `temp:`. `{nodes.page}` and `{state.tone}` say
/// which is meant; that is how a key is read which a tool or an earlier run sets. Any other name is refused when the
/// graph is read, unless it is optional.
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
    /// The value of a key of the state as the node sees it, or a part of it.
    State {
        /// The key, such as `tone` or `user:name`; empty for an object of all values of the session and of `temp:` keys.
        key: String,
        /// A JSON Pointer; empty for all of it.
        at: String,
        /// What it is where there is no such value or part; without it, that is a failure.
        or: Option<Value>,
        /// Without such a value or part it is left out of the object or the list that it is in, and is `null` elsewhere.
        optional: bool,
    },
    /// A text with the values of nodes, of inputs and of the state.
    Template(Template),
    /// The failure of a node; `null` when it has not failed.
    ErrorOf(String),
    /// The part of the item at a JSON Pointer; empty for all of it.
    Item(String),
    /// A constant.
    Value(Value),
    /// The value of an expression. Its variables are those of [`Condition::Cel`](super::Condition::Cel).
    Cel(Expression),
    /// The first of these that has a value. An output, a part or a key of the state that is not there has none; all else has.
    First(Vec<Mapping>),
    /// An object.
    Object(BTreeMap<String, Mapping>),
    /// A list.
    List(Vec<Mapping>),
}

impl Mapping {
    /// The output of a node or an input.
    pub fn from(node: impl Into<String>) -> Self {
        Self::from_part(node, "")
    }

    /// A part of the output of a node, at a JSON Pointer.
    pub fn from_part(node: impl Into<String>, at: impl Into<String>) -> Self {
        Self::From { node: node.into(), at: at.into(), or: None }
    }

    /// The value of a key of the state.
    pub fn state(key: impl Into<String>) -> Self {
        Self::State { key: key.into(), at: String::new(), or: None, optional: false }
    }

    /// An object of values.
    pub fn object<K: Into<String>>(fields: impl IntoIterator<Item = (K, Self)>) -> Self {
        Self::Object(fields.into_iter().map(|(name, value)| (name.into(), value)).collect())
    }

    /// The nodes and inputs that it reads, each as often as it does, with whether one may be missing. `is_node` says which
    /// names are those of nodes.
    pub(crate) fn reads<'m>(&'m self, is_node: IsNode<'_>) -> Vec<(&'m str, bool)> {
        match self {
            Self::From { node, or, .. } => vec![(node, or.is_some())],
            Self::ErrorOf(node) => vec![(node, true)],
            Self::Item(_) | Self::Value(_) | Self::State { .. } => Vec::new(),
            Self::Template(template) => {
                let roots = template.placeholders().map(|placeholder| (Root::of(placeholder, is_node).0, placeholder));
                let of_nodes = roots.filter_map(|(root, placeholder)| match root {
                    Root::Node(node) => Some((node, placeholder.is_optional())),
                    Root::State { .. } => None,
                });
                of_nodes.collect()
            }
            Self::Cel(expression) => cel_reads(expression, is_node),
            Self::First(all) => all.iter().flat_map(|of| of.reads(is_node)).map(|(node, _)| (node, true)).collect(),
            Self::Object(fields) => fields.values().flat_map(|of| of.reads(is_node)).collect(),
            Self::List(all) => all.iter().flat_map(|of| of.reads(is_node)).collect(),
        }
    }

    /// The keys of the state that it reads, with whether one is a bare name of a template that must be known.
    pub(crate) fn state_keys<'m>(&'m self, is_node: IsNode<'_>) -> Vec<(&'m str, bool)> {
        match self {
            Self::State { key, .. } => vec![(key, false)],
            Self::Template(template) => {
                let keys = template.placeholders().filter_map(|placeholder| match Root::of(placeholder, is_node).0 {
                    Root::Node(_) => None,
                    Root::State { key, bare } => Some((key, bare && !placeholder.is_optional())),
                });
                keys.collect()
            }
            Self::Cel(expression) => cel_state_keys(expression, is_node),
            Self::Object(fields) => fields.values().flat_map(|of| of.state_keys(is_node)).collect(),
            Self::List(all) | Self::First(all) => all.iter().flat_map(|of| of.state_keys(is_node)).collect(),
            Self::From { .. } | Self::ErrorOf(_) | Self::Item(_) | Self::Value(_) => Vec::new(),
        }
    }

    /// The keys of the state without which it has no value.
    pub(crate) fn needed_keys<'m>(&'m self, is_node: IsNode<'_>) -> Vec<&'m str> {
        match self {
            Self::State { key, or: None, optional: false, .. } => vec![key],
            Self::Template(template) => {
                let needed = template.placeholders().filter(|placeholder| !placeholder.is_optional());
                let keys = needed.filter_map(|placeholder| match Root::of(placeholder, is_node).0 {
                    Root::Node(_) => None,
                    Root::State { key, .. } => Some(key),
                });
                keys.collect()
            }
            Self::Object(fields) => fields.values().flat_map(|of| of.needed_keys(is_node)).collect(),
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

    /// Whether it is made of an item.
    pub(crate) fn has_item(&self) -> bool {
        match self {
            Self::Item(_) => true,
            Self::Object(fields) => fields.values().any(Self::has_item),
            Self::List(all) | Self::First(all) => all.iter().any(Self::has_item),
            _ => false,
        }
    }

    /// Whether it is made of an item and of constants alone.
    #[cfg_attr(not(feature = "dynamic"), allow(dead_code, reason = "graphs are executed with the feature `dynamic`"))]
    pub(super) fn is_of_item_alone(&self) -> bool {
        self.reads(&|_| true).is_empty() && self.state_keys(&|_| true).is_empty()
    }

    /// What it makes of an item.
    #[cfg_attr(not(feature = "dynamic"), allow(dead_code, reason = "graphs are executed with the feature `dynamic`"))]
    pub(super) fn of_item(&self, item: &Encoded, most: usize) -> Result<Encoded, Unmade> {
        let scope = Scope { names: &HashMap::new(), outputs: &super::condition::NoOutputs, item: Some(item) };
        self.encoded(&scope, || most)
    }

    /// Whether it is left out where there is no value.
    fn is_left_out(&self, scope: &Scope<'_>) -> bool {
        matches!(self, Self::State { key, at, or: None, optional: true } if scope.in_state(key, at).is_none())
    }

    /// The first of these that has a value.
    fn first_of<'m>(all: &'m [Self], scope: &Scope<'_>) -> Result<&'m Self, String> {
        for one in all {
            if one.is_there(scope)? {
                return Ok(one);
            }
        }
        Err("none of the values of `first` is there".to_owned())
    }

    /// Whether there is such an output, part or key; of all else there is.
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
                let value = expression.value(&CelNames(scope));
                value.map_err(|error| format!("`{}` cannot be evaluated: {error}", expression.shown()))
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
            Self::First(all) => Self::first_of(all, scope)?.encoded(scope, most),
            Self::Template(template)
                if let Some(output) = template.only().and_then(|only| scope.whole_output(only)) =>
            {
                Ok(output.clone())
            }
            Self::Template(template) => {
                let value = scope.filled(template, most())?;
                Encoded::new(&value).map_err(|error| Unmade::Problem(error.to_string()))
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

/// The most bytes of a text that is looked at in place, in a condition.
const LARGEST_TEXT: usize = 1 << 20;

/// Whether a name is that of a node or an input.
pub(crate) type IsNode<'a> = &'a dyn Fn(&str) -> bool;

/// What the path of a placeholder begins with.
pub(crate) enum Root<'p> {
    Node(&'p str),
    /// `bare` says that nothing but the name itself says that it is a key of the state.
    State {
        key: &'p str,
        bare: bool,
    },
}

impl<'p> Root<'p> {
    /// The root of a placeholder, and the names behind it.
    pub(crate) fn of(placeholder: &'p Placeholder, is_node: IsNode<'_>) -> (Self, &'p [String]) {
        match placeholder.parts() {
            [node, rest @ ..] if is_node(node) => (Self::Node(node), rest),
            [of, node, rest @ ..] if of == "nodes" => (Self::Node(node), rest),
            [of, key, rest @ ..] if of == "state" => (Self::State { key, bare: false }, rest),
            [key, rest @ ..] => (Self::State { key, bare: StateOwner::split(key).0 == StateOwner::Session }, rest),
            // A path has a name.
            [] => (Self::State { key: "", bare: true }, &[]),
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

    /// The name of a field, as JSON.
    fn push_name(&mut self, name: &str) -> Result<(), Unmade> {
        let is_plain = name.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\');
        if !is_plain {
            return self.push(&Value::from(name).to_string());
        }
        self.push("\"")?;
        self.push(name)?;
        self.push("\"")
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
    pub(super) fn output(&self, node: &str) -> Option<&Encoded> {
        self.outputs.output(*self.names.get(node)?)
    }

    /// The value of a key of the state, or the part of it at a JSON Pointer.
    pub(super) fn in_state(&self, key: &str, at: &str) -> Option<Value> {
        let state = self.outputs.state();
        if key.is_empty() {
            return Value::Object(state.map(all_of_state).unwrap_or_default()).pointer(at).cloned();
        }
        part(state?.get(key)??, at).ok()?
    }

    /// The output that a placeholder is all of.
    fn whole_output(&self, placeholder: &Placeholder) -> Option<&Encoded> {
        match placeholder.parts() {
            [node] => self.output(node),
            parts => match Root::of(placeholder, &|name| self.names.contains_key(name)) {
                (Root::Node(node), []) if parts.len() == 2 => self.output(node),
                _ => None,
            },
        }
    }

    /// The text of a template.
    pub(super) fn filled(&self, template: &Template, most: usize) -> Result<Value, String> {
        let is_node = |name: &str| self.names.contains_key(name);
        let filled = template.filled(most, |placeholder| {
            let (root, parts) = Root::of(placeholder, &is_node);
            let what = || match &root {
                Root::Node(node) => format!("the output of `{node}`"),
                Root::State { key, .. } => format!("the value of `{key}` in the state"),
            };
            let value = match root {
                Root::Node(node) => self.output(node),
                Root::State { key, .. } => self.outputs.state().and_then(|state| state.get(key)).flatten(),
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
        failure.map_or(Value::Null, |failure| json!({"kind": failure.kind.as_str(), "message": failure.message}))
    }
}

/// All values of the session and of `temp:` keys.
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

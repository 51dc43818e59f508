//! `Mapping`: describes as data how a value is computed from the outputs of nodes and from the
//! state, and lists the nodes and keys that it reads.
//!
//! `mapping_value.rs` computes the value. `mapping_scope.rs` has the values that a mapping can use.
//! `mapping_form.rs` has the JSON form, and `mapping_schema.rs` derives the schema of the value.

mod mapping_form;
mod mapping_schema;
mod mapping_scope;
mod mapping_value;

use std::collections::BTreeMap;

use agentflow_schema::expression::Expression;
use agentflow_schema::template::{Placeholder, Template};
use serde::Serialize;
use serde_json::Value;

#[cfg(feature = "dynamic")]
pub(super) use self::mapping_form::pointer;
#[cfg(feature = "dynamic")]
pub(super) use self::mapping_schema::{Schemas, list_of, one_of, pointer_of, schema_of};
pub(super) use self::mapping_scope::decoded;
pub(crate) use self::mapping_scope::{Names, Scope};
use super::cel_names::{cel_reads, cel_state_keys};
use crate::state::StateOwner;

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
}

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

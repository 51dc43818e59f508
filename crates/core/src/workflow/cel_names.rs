//! Variables of CEL expressions in a graph: nodes, inputs, state and the current item.

use agentflow_schema::diagnostic::Diagnostic;
use agentflow_schema::expression::{Expression, Path, Variables};
use serde_json::{Map, Value};

use super::mapping::{IsNode, Scope, decoded};
use super::value_codes;

/// The first part of a path in an expression, with the remaining parts.
pub(super) enum CelRoot<'p> {
    Node(
        &'p str,
        #[cfg_attr(
            not(feature = "dynamic"),
            allow(dead_code, reason = "graphs are checked with the feature `dynamic`")
        )]
        &'p [String],
    ),
    /// A key of the state. An empty key means the whole state.
    State(&'p str),
    Other(&'p str),
}

impl<'p> CelRoot<'p> {
    pub(super) fn from_path(path: &'p Path, is_node: IsNode<'_>) -> Self {
        match path.parts.as_slice() {
            [node, rest @ ..] if is_node(node) => Self::Node(node, rest),
            [of, node, rest @ ..] if of == "nodes" => Self::Node(node, rest),
            [of, key, ..] if of == "state" => Self::State(key),
            [of] if of == "state" => Self::State(""),
            [other, ..] => Self::Other(other),
            // Every path has at least one part.
            [] => Self::Other(""),
        }
    }
}

/// Returns the nodes that an expression reads, and if their output may be missing. Includes unknown
/// names, except [`ITEM`].
pub(super) fn cel_reads<'e>(
    expression: &'e Expression,
    is_node: IsNode<'_>,
) -> Vec<(&'e str, bool)> {
    let read =
        expression.paths().iter().filter_map(|path| match CelRoot::from_path(path, is_node) {
            CelRoot::Other(ITEM) | CelRoot::State(_) => None,
            CelRoot::Node(node, _) | CelRoot::Other(node) => Some((node, path.may_miss)),
        });
    read.collect()
}

/// Returns the state keys that an expression reads.
pub(super) fn cel_state_keys<'e>(
    expression: &'e Expression,
    is_node: IsNode<'_>,
) -> Vec<(&'e str, bool)> {
    let read =
        expression.paths().iter().filter_map(|path| match CelRoot::from_path(path, is_node) {
            CelRoot::State(key) => Some((key, false)),
            CelRoot::Node(..) | CelRoot::Other(_) => None,
        });
    read.collect()
}

/// Variable for the current item, or for the previous output in a repetition.
pub(super) const ITEM: &str = "item";

/// Values of the variables in a run.
pub(super) struct CelVariables<'s, 'o>(pub(super) &'s Scope<'o>);

impl CelVariables<'_, '_> {
    fn node(&self, name: &str) -> Result<Option<Value>, Diagnostic> {
        if !self.0.names.contains_key(name) {
            return Ok(None);
        }
        let missing = || Diagnostic::new(value_codes::NO_OUTPUT).name("node", name);
        let output = self.0.output(name).ok_or_else(missing)?;
        decoded(output).map(Some)
    }
}

impl Variables for CelVariables<'_, '_> {
    fn variable(&self, name: &str) -> Result<Option<Value>, Diagnostic> {
        match (self.node(name)?, self.0.item) {
            (Some(output), _) => Ok(Some(output)),
            (None, Some(item)) if name == ITEM => decoded(item).map(Some),
            _ => Ok(None),
        }
    }

    fn within(&self, of: &str, name: &str) -> Result<Option<Value>, Diagnostic> {
        match of {
            "nodes" => self.node(name),
            "state" => match self.0.in_state(name, "") {
                Some(value) => Ok(Some(value)),
                None => Err(Diagnostic::new(value_codes::NO_KEY).name("key", name)),
            },
            _ => Ok(None),
        }
    }

    fn whole(&self, of: &str) -> Option<Value> {
        (of == "state")
            .then(|| self.0.in_state("", "").unwrap_or_else(|| Value::Object(Map::new())))
    }

    fn all(&self) -> Vec<String> {
        let item = self.0.item.map(|_| ITEM.to_owned());
        self.0.names.keys().cloned().chain(item).collect()
    }
}

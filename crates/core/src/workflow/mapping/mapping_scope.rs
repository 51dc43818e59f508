//! [`Scope`]: the values that a mapping can use.

use std::collections::HashMap;
use std::sync::Arc;

use agentflow_schema::template::{Placeholder, Template, part_of};
use serde_json::{Map, Value, json};

use super::super::outputs::{NodeIndex, Outputs};
use super::PlaceholderRoot;
use crate::state::{SavedByStep, StateOwner, is_reserved};
use crate::value::Encoded;

/// Nodes by the names that mappings use.
pub(crate) type Names = Arc<HashMap<String, NodeIndex>>;

/// Values that a mapping can use.
pub(crate) struct Scope<'a> {
    pub(crate) names: &'a HashMap<String, NodeIndex>,
    pub(crate) outputs: &'a dyn Outputs,
    pub(crate) item: Option<&'a Encoded>,
}

impl Scope<'_> {
    pub(in crate::workflow) fn output(&self, node: &str) -> Option<&Encoded> {
        self.outputs.output(*self.names.get(node)?)
    }

    /// Returns the value of a state key, or the part of it at a JSON Pointer.
    pub(in crate::workflow) fn in_state(&self, key: &str, at: &str) -> Option<Value> {
        let state = self.outputs.state();
        if key.is_empty() {
            return Value::Object(state.map(all_of_state).unwrap_or_default()).pointer(at).cloned();
        }
        part(state?.get(key)??, at).ok()?
    }

    /// Returns the output of a placeholder that selects no part of it.
    pub(super) fn whole_output(&self, placeholder: &Placeholder) -> Option<&Encoded> {
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
    pub(in crate::workflow) fn filled(
        &self,
        template: &Template,
        most: usize,
    ) -> Result<Value, String> {
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

    pub(super) fn error_of(&self, node: &str) -> Value {
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

/// Returns the part of a value at a JSON Pointer.
pub(super) fn part(of: &Encoded, at: &str) -> Result<Option<Value>, String> {
    let value: Value = of.decode().map_err(|error| format!("`{of}` is not JSON: {error}"))?;
    Ok(value.pointer(at).cloned())
}

//! [`Scope`]: the values that a mapping can use.

use std::collections::HashMap;
use std::sync::Arc;

use agentflow_schema::diagnostic::Diagnostic;
use agentflow_schema::template::{Placeholder, Template, part_of};
use serde_json::{Map, Value, json};

use super::super::outputs::{NodeIndex, Outputs};
use super::super::value_codes;
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
    ) -> Result<Value, Diagnostic> {
        let is_node = |name: &str| self.names.contains_key(name);
        let filled = template.filled(most, |placeholder| {
            let (root, parts) = PlaceholderRoot::resolve(placeholder, &is_node);
            let value = match root {
                PlaceholderRoot::Node(node) => self.output(node),
                PlaceholderRoot::State { key, .. } => {
                    self.outputs.state().and_then(|state| state.get(key)).flatten()
                }
            };
            let value = value.map(decoded).transpose()?;
            let path = parts.join(".");
            match value.as_ref().map(|value| part_of(value, parts).cloned()) {
                Some(Some(part)) => Ok(Some(part)),
                _ if placeholder.is_optional() => Ok(None),
                Some(None) => Err(match root {
                    PlaceholderRoot::Node(node) => {
                        Diagnostic::new(value_codes::OUTPUT_HAS_NO_PATH).name("node", node)
                    }
                    PlaceholderRoot::State { key, .. } => {
                        Diagnostic::new(value_codes::KEY_HAS_NO_PART).name("key", key)
                    }
                }
                .source("path", path)),
                None => Err(match root {
                    PlaceholderRoot::Node(node) => {
                        Diagnostic::new(value_codes::NOTHING_AS_OUTPUT).name("node", node)
                    }
                    PlaceholderRoot::State { key, .. } => {
                        Diagnostic::new(value_codes::NOTHING_AS_KEY).name("key", key)
                    }
                }),
            }
        });
        filled.map_err(Diagnostic::from)
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
pub(super) fn part(of: &Encoded, at: &str) -> Result<Option<Value>, Diagnostic> {
    Ok(decoded(of)?.pointer(at).cloned())
}

/// Decodes a value.
///
/// # Errors
/// The value is not JSON, because an earlier release recorded it in another form.
pub(in crate::workflow) fn decoded(value: &Encoded) -> Result<Value, Diagnostic> {
    value.decode().map_err(|error| {
        let found = Diagnostic::new(value_codes::NOT_JSON).name("found", value);
        found.text("problem", error)
    })
}

//! Resolves references within a JSON Schema. An ambiguous reference gets all of its possible
//! targets, so that the computed bounds are never too low.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::limit_error::LimitError;
use super::schema_graph::MOST_DEPTH;
use crate::text::head;

/// Maximum number of bytes of a reference in an error message.
const SHOWN: usize = 120;
/// Maximum number of references between a branch and the schema that has its tag.
const TAG_STEPS: usize = 8;
/// Minimum number of branches for which a validator selects a branch by its tag.
const TAGGED_BRANCHES: usize = 3;

pub(super) struct References<'s> {
    root: &'s Value,
    /// The schema resources around a schema, by its address. A schema without an entry is only in
    /// the root resource.
    scopes: HashMap<usize, Vec<&'s Value>>,
    /// Schemas with an `$id`, by the last segment of the id.
    resources: HashMap<String, Vec<&'s Value>>,
    anchors: HashMap<String, Vec<&'s Value>>,
    recursive: Vec<&'s Value>,
}

impl<'s> References<'s> {
    /// Indexes the ids and anchors of a schema.
    ///
    /// # Errors
    /// Returns an error if the schema is nested too deeply.
    pub(super) fn new(root: &'s Value) -> Result<Self, LimitError> {
        let mut references = Self {
            root,
            scopes: HashMap::new(),
            resources: HashMap::new(),
            anchors: HashMap::new(),
            recursive: Vec::new(),
        };
        references.index(root, &[root], 0)?;
        Ok(references)
    }

    fn index(
        &mut self,
        value: &'s Value,
        around: &[&'s Value],
        depth: usize,
    ) -> Result<(), LimitError> {
        if depth > MOST_DEPTH {
            return Err(LimitError::SchemaDepth);
        }
        match value {
            Value::Array(items) => {
                items.iter().try_for_each(|item| self.index(item, around, depth + 1))
            }
            Value::Object(keywords) => {
                let mut inner = around.to_vec();
                for name in ["$id", "id"] {
                    match keywords.get(name).and_then(Value::as_str) {
                        // In draft 4 to 7, an id that starts with `#` is an anchor.
                        Some(id) if id.starts_with('#') => {
                            self.anchors.entry(id[1..].to_owned()).or_default().push(value);
                        }
                        Some(id) => {
                            self.resources
                                .entry(last_segment(id).to_owned())
                                .or_default()
                                .push(value);
                            inner.push(value);
                        }
                        None => {}
                    }
                }
                for name in ["$anchor", "$dynamicAnchor"] {
                    if let Some(anchor) = keywords.get(name).and_then(Value::as_str) {
                        self.anchors.entry(anchor.to_owned()).or_default().push(value);
                    }
                }
                if keywords.get("$recursiveAnchor") == Some(&Value::Bool(true)) {
                    self.recursive.push(value);
                }
                inner.dedup_by(|one, other| std::ptr::eq(*one, *other));
                if inner.len() > 1 {
                    self.scopes.insert(std::ptr::from_ref(value).addr(), inner.clone());
                }
                keywords.values().try_for_each(|value| self.index(value, &inner, depth + 1))
            }
            _ => Ok(()),
        }
    }

    /// Returns true for a reference to a meta-schema of JSON Schema, which the validator has built
    /// in.
    pub(super) fn is_meta_schema(reference: &str) -> bool {
        let rest = reference.strip_prefix("https://").or_else(|| reference.strip_prefix("http://"));
        rest.is_some_and(|rest| rest.starts_with("json-schema.org/"))
    }

    /// Returns the schemas to which a reference may lead.
    ///
    /// # Errors
    /// Returns an error if the reference has no target within the root schema.
    pub(super) fn targets(
        &self,
        schema: &'s Value,
        reference: &str,
        is_dynamic: bool,
    ) -> Result<Vec<&'s Value>, LimitError> {
        let (base, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let around = self.scopes.get(&std::ptr::from_ref(schema).addr());
        let resources: Vec<&'s Value> = match base {
            "" => around.map_or_else(|| vec![self.root], Clone::clone),
            base => self.resources.get(last_segment(base)).cloned().unwrap_or_default(),
        };
        let decoded = decoded(fragment).unwrap_or_default();
        let mut targets: Vec<&'s Value> = Vec::new();
        for resource in resources {
            if fragment.is_empty() {
                targets.push(resource);
            // Validators differ in decoding a pointer, so both forms count as targets.
            } else if fragment.starts_with('/') || decoded.starts_with('/') {
                targets.extend(resource.pointer(fragment));
                targets.extend(resource.pointer(&decoded));
            }
        }
        if !decoded.is_empty() {
            targets.extend(self.anchors.get(&decoded).into_iter().flatten());
        }
        // `$recursiveRef: "#"` may lead to every schema with `$recursiveAnchor`.
        if is_dynamic && fragment.is_empty() {
            targets.extend(&self.recursive);
        }
        let mut seen = HashSet::new();
        targets.retain(|target| seen.insert(std::ptr::from_ref(*target).addr()));
        if targets.is_empty() {
            return Err(LimitError::ReferenceWithoutTarget(head(reference, SHOWN).to_owned()));
        }
        Ok(targets)
    }

    /// Returns true if each branch requires the same field with a different constant text. A
    /// validator then checks an object against only one of the branches.
    pub(super) fn are_tagged(&self, branches: &'s [Value]) -> bool {
        if branches.len() < TAGGED_BRANCHES {
            return false;
        }
        let tags: Vec<HashMap<&str, &str>> =
            branches.iter().map(|branch| self.tags(branch, TAG_STEPS)).collect();
        let Some((first, others)) = tags.split_first() else { return false };
        first.keys().any(|field| {
            let mut values = HashSet::from([first[field]]);
            others.iter().all(|tags| tags.get(field).is_some_and(|value| values.insert(value)))
        })
    }

    /// Returns the required fields of a branch that have a single possible text.
    fn tags(&self, branch: &'s Value, steps: usize) -> HashMap<&'s str, &'s str> {
        let mut tags = HashMap::new();
        if let Some(reference) = branch.get("$ref").and_then(Value::as_str) {
            return match self.targets(branch, reference, false).as_deref() {
                Ok([target]) if steps > 0 => self.tags(target, steps - 1),
                _ => tags,
            };
        }
        let required = branch.get("required").and_then(Value::as_array);
        for field in required.into_iter().flatten().filter_map(Value::as_str) {
            let schema = branch.get("properties").and_then(|properties| properties.get(field));
            let options = schema.and_then(|schema| schema.get("enum")).and_then(Value::as_array);
            let value =
                match (schema.and_then(|schema| schema.get("const")), options.map(Vec::as_slice)) {
                    (Some(Value::String(value)), _) | (None, Some([Value::String(value)])) => value,
                    _ => continue,
                };
            tags.insert(field, value.as_str());
        }
        tags
    }
}

/// Returns the last segment of a URI. It stays the same when the URI is resolved against a base.
fn last_segment(address: &str) -> &str {
    let address = address.split('#').next().unwrap_or_default();
    address.rsplit(['/', ':']).find(|segment| !segment.is_empty()).unwrap_or_default()
}

/// Decodes the percent-encoding of a URI fragment: `%7B` becomes `{`. Returns `None` if it is
/// invalid.
pub fn decoded(fragment: &str) -> Option<String> {
    let mut pieces = fragment.split('%');
    let mut bytes = pieces.next()?.as_bytes().to_vec();
    for piece in pieces {
        let (hex, rest) = (piece.get(..2)?, piece.get(2..)?);
        bytes.push(
            u8::from_str_radix(hex, 16)
                .ok()
                .filter(|_| hex.bytes().all(|byte| byte.is_ascii_hexdigit()))?,
        );
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

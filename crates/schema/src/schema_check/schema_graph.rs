//! Reads a JSON Schema as a graph of its subschemas. An edge leads to a schema that applies to the
//! same value, to its fields or to its items. Schemas whose references expand too much are refused.
//! This module checks no values.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::limit_error::LimitError;
use super::patterns::Patterns;
use super::references::References;

/// Maximum number of schemas that apply to one value, summed over all schemas within a schema, with
/// references expanded.
pub(super) const MOST_UNFOLDED: u64 = 50_000;
/// Maximum number of nested schemas that apply to one value, and maximum nesting of a check.
pub(super) const MOST_NESTED: usize = 512;
/// Maximum depth of the JSON of a schema.
pub(super) const MOST_DEPTH: usize = 128;
/// Estimated steps per value of a check by a meta-schema, which is not expanded.
const META_SCHEMA_STEPS: u64 = 500;

pub(super) type SchemaNodeId = usize;

/// All schemas that a check can reach. The first one is the root schema.
pub(super) struct SchemaGraph {
    pub(super) parts: Vec<Part>,
    pub(super) patterns: Patterns,
    /// Steps per value of a check, with all schemas expanded. `None` for a recursive schema.
    pub(super) flat_steps: Option<u64>,
}

/// A node of the graph: one schema.
#[derive(Debug, Default)]
pub(super) struct Part {
    /// Steps for each value.
    pub(super) steps: u64,
    /// Steps for each 64 bytes of text.
    pub(super) text_steps: u64,
    /// Steps for each value within the value.
    pub(super) deep_steps: u64,
    /// Number of evaluations of the schemas that apply to the same value. `unevaluatedProperties`
    /// and `unevaluatedItems` evaluate them again.
    pub(super) rounds: u64,
    pub(super) edges: Vec<Edge>,
    /// Steps of all schemas that apply to the same value, if that value is the name of a field.
    pub(super) name_steps: u64,
    /// Names in `properties`.
    pub(super) fields: HashSet<String>,
    /// Patterns in `patternProperties`.
    pub(super) patterns: Vec<usize>,
}

/// An edge of the graph: a schema that another schema applies.
#[derive(Debug)]
pub(super) enum Edge {
    /// Applies to the same value: `$ref`, `allOf`.
    Same(SchemaNodeId),
    /// Applies to an object that has this field: `dependentSchemas`.
    IfField(String, SchemaNodeId),
    /// Alternatives for the same value: `anyOf`, `oneOf`, `not`, `if`. A tagged object is checked
    /// against one of them.
    Branches {
        parts: Vec<SchemaNodeId>,
        is_tagged: bool,
    },
    /// Schemas for the same value. Only one of them is evaluated: `then` or `else`.
    Choice(Vec<SchemaNodeId>),
    Field(String, SchemaNodeId),
    /// Applies to the fields whose names match a pattern.
    FieldsLike(usize, SchemaNodeId),
    /// Applies to the fields that match neither `properties` nor `patternProperties`.
    OtherFields(SchemaNodeId),
    /// Applies to the names of the fields.
    FieldNames(SchemaNodeId),
    Item(usize, SchemaNodeId),
    /// Applies to the items from this index on.
    Items(usize, SchemaNodeId),
}

impl Edge {
    /// Returns the schemas that apply to the value itself.
    pub(super) fn in_place(&self) -> &[SchemaNodeId] {
        match self {
            Self::Same(part) | Self::IfField(_, part) => std::slice::from_ref(part),
            Self::Branches { parts, .. } | Self::Choice(parts) => parts,
            _ => &[],
        }
    }

    fn within(&self) -> Option<SchemaNodeId> {
        match self {
            Self::Field(_, part) | Self::FieldsLike(_, part) | Self::OtherFields(part) => {
                Some(*part)
            }
            Self::FieldNames(part) | Self::Item(_, part) | Self::Items(_, part) => Some(*part),
            _ => None,
        }
    }
}

impl SchemaGraph {
    /// Builds the graph of a schema.
    ///
    /// # Errors
    /// Returns an error if the schema expands too much, contains a reference without a target, or
    /// contains a pattern that is too large.
    pub(super) fn new(schema: &Value) -> Result<Self, LimitError> {
        let references = References::new(schema)?;
        let mut builder = GraphBuilder {
            references,
            patterns: Patterns::default(),
            ids: HashMap::new(),
            parts: Vec::new(),
            open: Vec::new(),
            referenced: 0,
        };
        builder.id(schema);
        while let Some((id, schema)) = builder.open.pop() {
            builder.parts[id] = builder.part(schema)?;
        }
        let mut graph = Self { parts: builder.parts, patterns: builder.patterns, flat_steps: None };
        graph.measure()?;
        Ok(graph)
    }

    /// Computes the numbers that depend on several nodes, and checks that the schema does not
    /// expand too much.
    fn measure(&mut self) -> Result<(), LimitError> {
        let mut sizes = vec![PartSize::Unknown; self.parts.len()];
        let mut total = 0_u64;
        for id in 0..self.parts.len() {
            let InPlaceSize { parts, height, steps } = self.in_place(id, 0, &mut sizes)?;
            total = total.saturating_add(parts);
            let part = &mut self.parts[id];
            part.name_steps = steps;
            part.rounds = if part.rounds > 1 { 1 + height } else { 1 };
        }
        if total > MOST_UNFOLDED {
            return Err(LimitError::Unfolded);
        }
        self.flat_steps =
            self.expanded_steps(0, 0, &mut vec![ExpandedSteps::Unknown; self.parts.len()]);
        Ok(())
    }

    /// Measures a node together with all schemas that apply to the same value.
    fn in_place(
        &self,
        id: SchemaNodeId,
        depth: usize,
        sizes: &mut [PartSize],
    ) -> Result<InPlaceSize, LimitError> {
        match sizes[id] {
            PartSize::Known(size) => return Ok(size),
            PartSize::Open => return Err(LimitError::EndlessReference),
            PartSize::Unknown if depth >= MOST_NESTED => return Err(LimitError::NestedSchemas),
            PartSize::Unknown => sizes[id] = PartSize::Open,
        }
        let part = &self.parts[id];
        let mut size =
            InPlaceSize { parts: 1, height: 0, steps: part.steps.saturating_add(part.text_steps) };
        for inner in part.edges.iter().flat_map(Edge::in_place) {
            let inner = self.in_place(*inner, depth + 1, sizes)?;
            size.parts = size.parts.saturating_add(inner.parts);
            size.steps = size.steps.saturating_add(inner.steps);
            size.height = size.height.max(1 + inner.height);
        }
        sizes[id] = PartSize::Known(size);
        Ok(size)
    }

    /// Returns the steps for one value by a node and all schemas that it applies, or `None` for a
    /// recursive schema.
    fn expanded_steps(
        &self,
        id: SchemaNodeId,
        depth: usize,
        known: &mut [ExpandedSteps],
    ) -> Option<u64> {
        match known[id] {
            ExpandedSteps::Known(steps) => return Some(steps),
            ExpandedSteps::Open => return None,
            ExpandedSteps::Unknown if depth >= MOST_NESTED => return None,
            ExpandedSteps::Unknown => known[id] = ExpandedSteps::Open,
        }
        let part = &self.parts[id];
        let mut steps = part.steps.saturating_add(part.text_steps).saturating_add(part.deep_steps);
        for edge in &part.edges {
            for inner in edge.in_place() {
                let inner = self.expanded_steps(*inner, depth + 1, known)?;
                // An explanation evaluates alternatives twice.
                steps = steps.saturating_add(inner.saturating_mul(part.rounds + 1));
            }
            if let Some(inner) = edge.within() {
                steps = steps.saturating_add(self.expanded_steps(inner, depth + 1, known)?);
            }
        }
        known[id] = ExpandedSteps::Known(steps);
        Some(steps)
    }
}

#[derive(Clone, Copy)]
struct InPlaceSize {
    parts: u64,
    height: u64,
    steps: u64,
}

#[derive(Clone, Copy)]
enum PartSize {
    Unknown,
    Open,
    Known(InPlaceSize),
}

#[derive(Clone, Copy)]
enum ExpandedSteps {
    Unknown,
    Open,
    Known(u64),
}

struct GraphBuilder<'s> {
    references: References<'s>,
    patterns: Patterns,
    /// Ids by the address of a schema.
    ids: HashMap<usize, SchemaNodeId>,
    parts: Vec<Part>,
    /// Schemas whose node is not created yet.
    open: Vec<(SchemaNodeId, &'s Value)>,
    /// Number of targets of all references so far. An ambiguous reference has many.
    referenced: u64,
}

impl<'s> GraphBuilder<'s> {
    fn id(&mut self, schema: &'s Value) -> SchemaNodeId {
        let next = self.parts.len();
        let id = *self.ids.entry(std::ptr::from_ref(schema).addr()).or_insert(next);
        if id == next {
            self.parts.push(Part::default());
            self.open.push((id, schema));
        }
        id
    }

    fn ids(&mut self, schemas: &'s Value) -> Vec<SchemaNodeId> {
        schemas.as_array().into_iter().flatten().map(|schema| self.id(schema)).collect()
    }

    fn part(&mut self, schema: &'s Value) -> Result<Part, LimitError> {
        let mut part = Part { steps: 1, rounds: 1, ..Part::default() };
        let Value::Object(keywords) = schema else { return Ok(part) };
        for (keyword, value) in keywords {
            part.steps = part.steps.saturating_add(1);
            match keyword.as_str() {
                "$ref" | "$dynamicRef" | "$recursiveRef" => {
                    self.reference(&mut part, schema, keyword, value)?;
                }
                "allOf" => {
                    let all = self.ids(value);
                    part.edges.extend(all.into_iter().map(Edge::Same));
                }
                "anyOf" | "oneOf" => {
                    let is_tagged =
                        self.references.are_tagged(value.as_array().map_or(&[], Vec::as_slice));
                    part.edges.push(Edge::Branches { parts: self.ids(value), is_tagged });
                }
                "not" | "if" => part
                    .edges
                    .push(Edge::Branches { parts: vec![self.id(value)], is_tagged: false }),
                "then" => {
                    let both = [Some(value), keywords.get("else")];
                    let both = both.into_iter().flatten().map(|schema| self.id(schema)).collect();
                    part.edges.push(Edge::Choice(both));
                }
                // With `then`, the arm above has already added both.
                "else" if !keywords.contains_key("then") => {
                    part.edges.push(Edge::Choice(vec![self.id(value)]));
                }
                _ => {
                    self.fields(&mut part, keyword, value)?;
                    self.items(&mut part, keywords, keyword, value);
                    self.assertion(&mut part, keyword, value)?;
                }
            }
        }
        Ok(part)
    }

    fn reference(
        &mut self,
        part: &mut Part,
        schema: &'s Value,
        keyword: &str,
        value: &Value,
    ) -> Result<(), LimitError> {
        let Some(reference) = value.as_str().filter(|reference| !reference.is_empty()) else {
            return Ok(());
        };
        if References::is_meta_schema(reference) {
            part.deep_steps = part.deep_steps.saturating_add(META_SCHEMA_STEPS);
            return Ok(());
        }
        let targets = self.references.targets(schema, reference, keyword != "$ref")?;
        self.referenced = self.referenced.saturating_add(targets.len() as u64);
        if self.referenced > MOST_UNFOLDED {
            return Err(LimitError::Unfolded);
        }
        for target in targets {
            // A reference from a schema to itself adds no constraint.
            if !std::ptr::eq(target, schema) {
                part.edges.push(Edge::Same(self.id(target)));
            }
        }
        Ok(())
    }

    fn fields(
        &mut self,
        part: &mut Part,
        keyword: &str,
        value: &'s Value,
    ) -> Result<(), LimitError> {
        let named = |value: &'s Value| value.as_object().into_iter().flatten();
        match keyword {
            "properties" => {
                for (name, schema) in named(value) {
                    part.edges.push(Edge::Field(name.clone(), self.id(schema)));
                    part.fields.insert(name.clone());
                }
            }
            "patternProperties" => {
                for (pattern, schema) in named(value) {
                    let pattern = self.patterns.add(pattern)?;
                    part.patterns.push(pattern);
                    part.edges.push(Edge::FieldsLike(pattern, self.id(schema)));
                }
            }
            // In `dependencies`, a list of names is not a schema. It becomes a node without edges.
            "dependentSchemas" | "dependencies" => {
                for (name, schema) in named(value) {
                    part.edges.push(Edge::IfField(name.clone(), self.id(schema)));
                }
            }
            "additionalProperties" => part.edges.push(Edge::OtherFields(self.id(value))),
            "unevaluatedProperties" => {
                part.rounds = 2;
                part.edges.push(Edge::OtherFields(self.id(value)));
            }
            "propertyNames" => part.edges.push(Edge::FieldNames(self.id(value))),
            _ => {}
        }
        Ok(())
    }

    fn items(
        &mut self,
        part: &mut Part,
        keywords: &Map<String, Value>,
        keyword: &str,
        value: &'s Value,
    ) {
        let first =
            |keyword: &str| keywords.get(keyword).and_then(Value::as_array).map_or(0, Vec::len);
        match keyword {
            "prefixItems" => {
                let all = self.ids(value);
                part.edges
                    .extend(all.into_iter().enumerate().map(|(at, part)| Edge::Item(at, part)));
            }
            "items" if value.is_array() => {
                let all = self.ids(value);
                part.edges
                    .extend(all.into_iter().enumerate().map(|(at, part)| Edge::Item(at, part)));
            }
            "items" => part.edges.push(Edge::Items(first("prefixItems"), self.id(value))),
            "additionalItems" => part.edges.push(Edge::Items(first("items"), self.id(value))),
            // In the worst case, `contains` checks all items.
            "contains" => part.edges.push(Edge::Items(0, self.id(value))),
            "unevaluatedItems" => {
                part.rounds = 2;
                part.edges.push(Edge::Items(first("prefixItems"), self.id(value)));
            }
            _ => {}
        }
    }

    fn assertion(
        &mut self,
        part: &mut Part,
        keyword: &str,
        value: &Value,
    ) -> Result<(), LimitError> {
        let (steps, text) = match keyword {
            "enum" | "const" => (values(value), 1),
            "properties" | "patternProperties" | "required" | "dependentRequired" => {
                (values(value).min(length(value)), 0)
            }
            "pattern" => match value.as_str() {
                Some(pattern) => {
                    let pattern = self.patterns.add(pattern)?;
                    (0, self.patterns.text_steps(pattern))
                }
                None => (0, 0),
            },
            // Some formats read each character several times.
            "format" => (0, 64),
            "contentMediaType" | "contentEncoding" => (0, 16),
            "minLength" | "maxLength" => (0, 1),
            "uniqueItems" => {
                part.deep_steps = part.deep_steps.saturating_add(4);
                (0, 0)
            }
            _ => (0, 0),
        };
        part.steps = part.steps.saturating_add(steps);
        part.text_steps = part.text_steps.saturating_add(text);
        Ok(())
    }
}

fn length(value: &Value) -> u64 {
    match value {
        Value::Array(items) => items.len() as u64,
        Value::Object(fields) => fields.len() as u64,
        _ => 1,
    }
}

/// Returns the number of values within a value, including the value itself. The recursion is safe,
/// because the depth of a schema is bounded.
fn values(value: &Value) -> u64 {
    match value {
        Value::Array(items) => 1 + items.iter().map(values).sum::<u64>(),
        Value::Object(fields) => 1 + fields.values().map(values).sum::<u64>(),
        Value::String(text) => 1 + text.len() as u64 / 64,
        _ => 1,
    }
}

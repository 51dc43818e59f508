//! Computes an upper bound for the steps of a check before the check starts. A running validator
//! cannot be stopped, so a check that may take too long is refused.

use std::collections::HashMap;

use serde_json::Value;

use super::limit_error::LimitError;
use super::schema_graph::{Edge, MOST_NESTED, SchemaGraph, SchemaNodeId};

/// Maximum number of steps of one check. A step applies one schema to one value, or reads 64 bytes
/// of text.
pub(super) const MOST_STEPS: u64 = 2_000_000;
/// Maximum number of steps to explain a mismatch. If more may be needed, the error does not name
/// the place.
pub(super) const MOST_EXPLAINED: u64 = 200_000;
/// Maximum number of steps to compute the bound. Such a step is cheaper than a step of a check.
const MOST_COUNTED: u64 = 4 * MOST_STEPS;
/// Maximum number of cached costs. A cost belongs to a pair of a schema and a value.
const MOST_KEPT: usize = 500_000;

/// Upper bounds for the steps of a check.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CheckCost {
    /// Steps to decide if the value conforms.
    pub(super) verdict: u64,
    /// Steps to find the mismatches.
    pub(super) explanation: u64,
}

impl CheckCost {
    fn add(&mut self, other: Self) {
        self.verdict = self.verdict.saturating_add(other.verdict);
        self.explanation = self.explanation.saturating_add(other.explanation);
    }

    fn most(self, other: Self) -> Self {
        Self {
            verdict: self.verdict.max(other.verdict),
            explanation: self.explanation.max(other.explanation),
        }
    }
}

impl SchemaGraph {
    /// Returns the cost of checking a value.
    ///
    /// # Errors
    /// Returns an error if the check may take more than [`MOST_STEPS`] steps, or is nested too
    /// deeply.
    pub(super) fn cost(&self, value: &Value) -> Result<CheckCost, LimitError> {
        let size = shallow_size(value, MOST_STEPS);
        // A cheap estimate is sufficient for most values.
        if let Some(steps) = self.flat_steps.map(|steps| steps.saturating_mul(size))
            && steps <= MOST_EXPLAINED
        {
            return Ok(CheckCost { verdict: steps, explanation: steps });
        }
        let mut counter = Counter {
            graph: self,
            known: HashMap::new(),
            sizes: HashMap::new(),
            left: MOST_COUNTED,
        };
        counter.measure(value);
        let cost = counter.cost(0, value, 0)?;
        if cost.verdict > MOST_STEPS { Err(LimitError::CheckSteps) } else { Ok(cost) }
    }
}

/// Returns the number of values within a value plus one for each 64 bytes of text, at most `most`.
fn shallow_size(value: &Value, most: u64) -> u64 {
    let (mut size, mut open) = (0_u64, vec![value]);
    while let Some(value) = open.pop() {
        size += own_size(value);
        if size > most {
            return most;
        }
        match value {
            Value::Array(items) => open.extend(items),
            Value::Object(fields) => open.extend(fields.values()),
            _ => {}
        }
    }
    size
}

fn own_size(value: &Value) -> u64 {
    match value {
        Value::String(text) => 1 + text.len() as u64 / 64,
        Value::Object(fields) => {
            1 + fields.keys().map(|name| 1 + name.len() as u64 / 64).sum::<u64>()
        }
        _ => 1,
    }
}

struct Counter<'g> {
    graph: &'g SchemaGraph,
    /// Costs by schema and address of the value.
    known: HashMap<(SchemaNodeId, usize), CheckCost>,
    /// Sizes of lists and objects by their address.
    sizes: HashMap<usize, u64>,
    /// Remaining number of counting steps.
    left: u64,
}

impl Counter<'_> {
    fn measure(&mut self, value: &Value) -> u64 {
        let within: u64 = match value {
            Value::Array(items) => items.iter().map(|item| self.measure(item)).sum(),
            Value::Object(fields) => fields.values().map(|value| self.measure(value)).sum(),
            _ => return own_size(value),
        };
        let size = own_size(value) + within;
        self.sizes.insert(address(value), size);
        size
    }

    fn size(&self, value: &Value) -> u64 {
        self.sizes.get(&address(value)).copied().unwrap_or_else(|| own_size(value))
    }

    /// Counts steps of this computation, which must not take longer than a check.
    fn spend(&mut self, steps: u64) -> Result<(), LimitError> {
        self.left = self.left.checked_sub(steps).ok_or(LimitError::CheckSteps)?;
        Ok(())
    }

    fn cost(
        &mut self,
        id: SchemaNodeId,
        value: &Value,
        depth: usize,
    ) -> Result<CheckCost, LimitError> {
        if depth > MOST_NESTED {
            return Err(LimitError::CheckDepth);
        }
        let graph = self.graph;
        let Some(part) = graph.parts.get(id) else { return Ok(CheckCost::default()) };
        // Values do not move while they are checked, so an address identifies a value.
        let place = (id, address(value));
        if !part.edges.is_empty()
            && let Some(cost) = self.known.get(&place)
        {
            return Ok(*cost);
        }
        self.spend(1 + part.edges.len() as u64 / 8)?;
        let size = self.size(value);
        let text = value
            .as_str()
            .map_or(0, |text| part.text_steps.saturating_mul(1 + text.len() as u64 / 64));
        let steps =
            part.steps.saturating_add(text).saturating_add(part.deep_steps.saturating_mul(size));
        // An explanation may copy the value.
        let mut cost = CheckCost { verdict: steps, explanation: steps.saturating_add(size) };
        for edge in &part.edges {
            let inner = match edge {
                Edge::Same(_) | Edge::IfField(..) | Edge::Branches { .. } | Edge::Choice(_) => {
                    let inner = self.in_place(edge, value, depth)?;
                    let CheckCost { verdict, explanation } = inner;
                    CheckCost {
                        verdict: verdict.saturating_mul(part.rounds),
                        explanation: explanation.saturating_mul(part.rounds),
                    }
                }
                _ => self.within(edge, id, value, depth)?,
            };
            cost.add(inner);
        }
        if !part.edges.is_empty() {
            if self.known.len() >= MOST_KEPT {
                return Err(LimitError::CheckSteps);
            }
            self.known.insert(place, cost);
        }
        Ok(cost)
    }

    fn in_place(
        &mut self,
        edge: &Edge,
        value: &Value,
        depth: usize,
    ) -> Result<CheckCost, LimitError> {
        let mut cost = CheckCost::default();
        match edge {
            Edge::IfField(name, _) if value.get(name).is_none() => {}
            Edge::Branches { parts, is_tagged } => {
                let mut most = CheckCost::default();
                for part in parts {
                    let inner = self.cost(*part, value, depth + 1)?;
                    // The branches are checked before their mismatches are collected.
                    cost.add(CheckCost {
                        explanation: inner.verdict.saturating_add(inner.explanation),
                        ..inner
                    });
                    most = most.most(inner);
                }
                // The validator selects one branch by the tag, so only the most expensive branch
                // counts.
                if *is_tagged && value.is_object() {
                    cost.verdict = most.verdict;
                }
            }
            Edge::Choice(parts) => {
                for part in parts {
                    cost = cost.most(self.cost(*part, value, depth + 1)?);
                }
            }
            _ => {
                for part in edge.in_place() {
                    cost.add(self.cost(*part, value, depth + 1)?);
                }
            }
        }
        Ok(cost)
    }

    fn within(
        &mut self,
        edge: &Edge,
        id: SchemaNodeId,
        value: &Value,
        depth: usize,
    ) -> Result<CheckCost, LimitError> {
        let mut cost = CheckCost::default();
        let graph = self.graph;
        match (edge, value) {
            (Edge::Field(name, part), Value::Object(fields)) => {
                if let Some(value) = fields.get(name) {
                    cost.add(self.cost(*part, value, depth + 1)?);
                }
            }
            (Edge::FieldsLike(pattern, part), Value::Object(fields)) => {
                let text = graph.patterns.text_steps(*pattern);
                for (name, value) in fields {
                    let steps = text.saturating_mul(1 + name.len() as u64 / 64);
                    self.spend(steps)?;
                    cost.add(CheckCost { verdict: steps, explanation: steps });
                    if graph.patterns.matches(*pattern, name) {
                        cost.add(self.cost(*part, value, depth + 1)?);
                    }
                }
            }
            // Matching a name against the patterns takes time too, so it is counted.
            (Edge::OtherFields(part), Value::Object(fields)) => {
                for (name, value) in fields {
                    self.spend(graph.parts.get(id).map_or(0, |part| part.patterns.len() as u64))?;
                    if !graph.has_field(id, name) {
                        cost.add(self.cost(*part, value, depth + 1)?);
                    }
                }
            }
            // A field name is a string without parts, so its steps are known in advance. Explaining
            // a mismatch checks the names again.
            (Edge::FieldNames(part), Value::Object(fields)) => {
                let steps = graph.parts.get(*part).map_or(0, |part| part.name_steps);
                for name in fields.keys() {
                    let steps = steps.saturating_mul(1 + name.len() as u64 / 64);
                    cost.add(CheckCost { verdict: steps, explanation: steps.saturating_mul(2) });
                }
            }
            (Edge::Item(at, part), Value::Array(items)) => {
                if let Some(value) = items.get(*at) {
                    cost.add(self.cost(*part, value, depth + 1)?);
                }
            }
            (Edge::Items(from, part), Value::Array(items)) => {
                for value in items.iter().skip(*from) {
                    cost.add(self.cost(*part, value, depth + 1)?);
                }
            }
            _ => {}
        }
        Ok(cost)
    }
}

impl SchemaGraph {
    /// Returns true if a schema has a subschema for a field with this name.
    fn has_field(&self, id: SchemaNodeId, name: &str) -> bool {
        let Some(part) = self.parts.get(id) else { return false };
        part.fields.contains(name)
            || part.patterns.iter().any(|pattern| self.patterns.matches(*pattern, name))
    }
}

fn address(value: &Value) -> usize {
    std::ptr::from_ref(value).addr()
}

//! Whether the parts of outputs that a graph reads are there, and whether its conditions are `true` or `false`, as far as the
//! schemas of the outputs say it. It computes no value.

use serde_json::{Value, json};

use super::condition::Condition;
use super::mapping::Mapping;
use super::mapping_schema::{Schemas, lacks, schema_of};
use crate::schema::{Assignable, is_assignable_as_stated};

/// What the reads of a node are checked against.
pub(super) struct Reading<'a> {
    /// Where they are, such as ``the node `page` ``.
    pub(super) place: String,
    pub(super) outputs: &'a Schemas<'a>,
    /// The schema of `{"item": ""}`, where there is one.
    pub(super) item: &'a Value,
}

impl Reading<'_> {
    /// The parts that a mapping reads and that are not there, or may not be.
    pub(super) fn of_mapping(&self, mapping: &Mapping, problems: &mut Vec<String>) {
        self.parts(mapping, false, problems);
    }

    /// The same of a condition, with values that are neither `true` nor `false`.
    pub(super) fn of_condition(&self, condition: &Condition, problems: &mut Vec<String>) {
        match condition {
            Condition::Is(value) => {
                let before = problems.len();
                self.parts(value, false, problems);
                let given = schema_of(value, self.outputs, self.item);
                if problems.len() == before
                    && let Assignable::No(places) = is_assignable_as_stated(&given, &json!({"type": "boolean"}))
                    && let Some(place) = places.first()
                {
                    problems.push(format!(
                        "{}: the value of `is` in a condition is `true` or `false`, and {} is given; compare it with \
                         `equals`, or ask with `exists` whether it is there",
                        self.place, place.given
                    ));
                }
            }
            Condition::Equals(one, other) => {
                self.parts(one, false, problems);
                self.parts(other, false, problems);
            }
            Condition::Exists(value) => self.parts(value, true, problems),
            Condition::Not(other) => self.of_condition(other, problems),
            Condition::All(all) | Condition::Any(all) => all.iter().for_each(|of| self.of_condition(of, problems)),
        }
    }

    /// Of what `may_miss`, only what is never there is wrong.
    fn parts(&self, mapping: &Mapping, may_miss: bool, problems: &mut Vec<String>) {
        let (of, whole, at, may_miss) = match mapping {
            Mapping::From { node, at, or } => match self.outputs.get(node.as_str()) {
                Some(whole) => (format!("the output of `{node}`"), whole, at, may_miss || or.is_some()),
                None => return,
            },
            Mapping::Item(at) => ("the item".to_owned(), self.item, at, may_miss),
            Mapping::Object(fields) => return fields.values().for_each(|of| self.parts(of, may_miss, problems)),
            Mapping::List(all) => return all.iter().for_each(|of| self.parts(of, may_miss, problems)),
            Mapping::ErrorOf(_) | Mapping::Value(_) => return,
        };
        if let Some(lack) = lacks(whole, at, may_miss) {
            problems.push(format!("{}: {of} has nothing at `{at}`: {lack}", self.place));
        }
    }
}

//! The constants in what a graph gives and makes, against the schemas of what takes them. A constant is known when the graph is
//! read, so all that a schema says is held against it. It reads no output and no state.

use std::borrow::Cow;

use agentflow_schema::schema::{accepts, part_at};
use agentflow_schema::schema_check::SchemaCheck;
use serde_json::Value;

use super::graph::GraphNode;
use super::graph_body::GraphBody;
use super::mapping::Mapping;
use super::of_graph::Loading;
use super::reference_steps::Callee;

/// A constant, and where it stands in the value that a mapping makes, as a JSON Pointer.
type Constant<'m> = (String, Cow<'m, Value>);

/// The constants that a mapping makes, also those that stand in for what may be missing.
fn constants<'m>(mapping: &'m Mapping, at: String, found: &mut Vec<Constant<'m>>) {
    match mapping {
        Mapping::Value(value) | Mapping::From { or: Some(value), .. } | Mapping::State { or: Some(value), .. } => {
            found.push((at, Cow::Borrowed(value)));
        }
        Mapping::Template(template) => {
            if let Some(text) = template.constant() {
                found.push((at, Cow::Owned(Value::String(text))));
            }
        }
        Mapping::First(all) => all.iter().for_each(|one| constants(one, at.clone(), found)),
        Mapping::Object(fields) => {
            for (name, value) in fields {
                constants(value, format!("{at}/{}", name.replace('~', "~0").replace('/', "~1")), found);
            }
        }
        Mapping::List(all) => {
            // What may be left out moves all behind it.
            let is_there = |value: &&Mapping| !matches!(value, Mapping::State { optional: true, .. });
            for (number, value) in all.iter().take_while(is_there).enumerate() {
                constants(value, format!("{at}/{number}"), found);
            }
        }
        Mapping::From { or: None, .. }
        | Mapping::State { or: None, .. }
        | Mapping::ErrorOf(_)
        | Mapping::Item(_)
        | Mapping::Cel(_) => {}
    }
}

/// A constant that is not a value of a schema.
pub(super) struct ConstantMisfit {
    /// What it is a part of, in words; with the path, all that another sentence about it begins with.
    lead: String,
    /// The place in that, such as `` `lines[0].cents` ``; empty for all of it.
    path: String,
    /// What is expected there, and what was seen.
    problem: String,
}

impl ConstantMisfit {
    /// Adds it to what is wrong with a node, unless that says already that something is wrong at the place.
    pub(super) fn add_to(self, problems: &mut Vec<String>) {
        let Self { lead, path, problem } = self;
        let begins = if path.is_empty() { lead } else { format!("{lead}{path}: ") };
        if !problems.iter().any(|known| known.starts_with(&begins)) {
            problems.push(format!("{begins}{problem}"));
        }
    }
}

/// What is wrong with the constants of a mapping as values of a schema; `part` and `whole` are the words before the place of a
/// part, and before what is said of all. A schema that is not one is reported elsewhere.
fn misfits(mapping: &Mapping, schema: impl FnOnce() -> Value, part: &str, whole: &str) -> Vec<ConstantMisfit> {
    let mut found = Vec::new();
    constants(mapping, String::new(), &mut found);
    if found.is_empty() {
        return Vec::new();
    }
    let schema = schema();
    let mut misfits = Vec::new();
    for (at, constant) in &found {
        let of_place = part_at(&schema, at);
        // Mostly that is known without the whole of JSON Schema.
        if accepts(&of_place, constant) == Some(true) {
            continue;
        }
        let Some(Err(complaints)) = SchemaCheck::new(&of_place).ok().map(|check| check.check_at(constant, at)) else {
            continue;
        };
        misfits.extend(complaints.lines().map(|line| match line.split_once("`: ").filter(|_| line.starts_with('`')) {
            Some((path, problem)) => {
                ConstantMisfit { lead: part.to_owned(), path: format!("{path}`"), problem: problem.to_owned() }
            }
            None => ConstantMisfit { lead: whole.to_owned(), path: String::new(), problem: line.to_owned() },
        }));
    }
    misfits
}

impl Callee {
    /// The constants in what it is given that it does not take.
    pub(super) fn constant_misfits(&self, with: &Mapping) -> Vec<ConstantMisfit> {
        let Some(what) = self.in_words() else { return Vec::new() };
        let takes = || self.takes().map_or(Value::Bool(true), |(_, takes)| takes);
        misfits(with, takes, &format!("an argument of {what}, "), &format!("the arguments of {what}: "))
    }
}

impl Loading<'_> {
    /// Notes the constants in a node's output that are not of its declared schema.
    pub(super) fn constants_fit(&mut self, node: &GraphNode, what: &str, declared: &Value) {
        let made: Vec<&Mapping> = match &node.does {
            Some(GraphBody::Value(value)) => vec![value],
            // That of a map is a list of what each item gives.
            Some(GraphBody::Map { .. }) | None => Vec::new(),
            Some(does) => does.calls().iter().filter_map(|call| call.gives.as_ref()).collect(),
        };
        let lead = format!("the node `{}`: {what} does not fit: ", node.name);
        for mapping in made {
            let found = misfits(mapping, || declared.clone(), &lead, &lead);
            found.into_iter().for_each(|misfit| misfit.add_to(&mut self.problems));
        }
    }
}

//! Checks constants in the mappings of a graph against the schemas of their targets. Constants are
//! known when the graph is loaded, so the full schema is applied.

use std::borrow::Cow;
use std::fmt;

use agentflow_schema::diagnostic::{Diagnostic, DiagnosticSubject};
use agentflow_schema::schema::{accepts, part_at};
use agentflow_schema::schema_check::{SchemaCheck, ValueMismatch};
use serde_json::Value;

use super::graph::GraphNode;
use super::graph_body::GraphBody;
use super::graph_codes;
use super::mapping::Mapping;
use super::of_graph::GraphLoader;
use super::reference_steps::{Callee, argument_misfit};

/// A constant and its JSON Pointer in the value that a mapping creates.
type Constant<'m> = (String, Cow<'m, Value>);

/// Collects the constants of a mapping, including defaults for missing values.
fn constants<'m>(mapping: &'m Mapping, at: String, found: &mut Vec<Constant<'m>>) {
    match mapping {
        Mapping::Value(value)
        | Mapping::From { or: Some(value), .. }
        | Mapping::State { or: Some(value), .. } => {
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
                constants(
                    value,
                    format!("{at}/{}", name.replace('~', "~0").replace('/', "~1")),
                    found,
                );
            }
        }
        Mapping::List(all) => {
            // Optional items shift the items after them, so positions are known only up to the
            // first one.
            let is_there =
                |value: &&Mapping| !matches!(value, Mapping::State { optional: true, .. });
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

/// A constant that does not match a schema.
pub(super) struct ConstantMisfit {
    /// Position in the value that the constant is part of, such as `lines[0].cents`. Empty for the
    /// whole value.
    path: String,
    problem: Diagnostic,
}

impl ConstantMisfit {
    /// Adds the problem to the problems of a node, unless a problem at the same position is known
    /// already.
    pub(super) fn add_to(self, problems: &mut Vec<Diagnostic>) {
        let Self { path, problem } = self;
        let is_known = |known: &Diagnostic| {
            let is_same = |name: &str| known.argument(name) == problem.argument(name);
            known.code() == problem.code()
                && is_same("callee")
                && is_same("value")
                && (path.is_empty() || is_same("path"))
                && known.subject() == problem.subject()
        };
        if !problems.iter().any(is_known) {
            problems.push(problem);
        }
    }
}

/// Returns the constants of a mapping that do not match a schema. `problem` creates the problem of a
/// mismatch. Invalid schemas are ignored here and reported elsewhere.
fn misfits(
    mapping: &Mapping,
    schema: impl FnOnce() -> Value,
    problem: impl Fn(&ValueMismatch) -> Diagnostic,
) -> Vec<ConstantMisfit> {
    let mut found = Vec::new();
    constants(mapping, String::new(), &mut found);
    if found.is_empty() {
        return Vec::new();
    }
    let schema = schema();
    let mut misfits = Vec::new();
    for (at, constant) in &found {
        let of_place = part_at(&schema, at);
        // This quick check accepts most constants without compiling the schema.
        if accepts(&of_place, constant) == Some(true) {
            continue;
        }
        let Ok(check) = SchemaCheck::new(&of_place) else { continue };
        let Err(mismatches) = check.check_at(constant, at) else { continue };
        for mismatch in mismatches {
            let problem = problem(&mismatch);
            misfits.push(ConstantMisfit { path: mismatch.path, problem });
        }
    }
    misfits
}

impl Callee {
    /// Returns the constants in the arguments `with` that the callee does not accept.
    pub(super) fn constant_misfits(&self, with: &Mapping) -> Vec<ConstantMisfit> {
        let Some(what) = self.in_words() else { return Vec::new() };
        let takes = || self.takes().map_or(Value::Bool(true), |(_, takes)| takes);
        misfits(with, takes, |mismatch| argument_misfit(&what, &mismatch.path, mismatch))
    }
}

impl GraphLoader<'_> {
    /// Reports constants in a node's output that do not match its declared schema.
    pub(super) fn constants_fit(&mut self, node: &GraphNode, what: &str, declared: &Value) {
        let made: Vec<&Mapping> = match &node.does {
            Some(GraphBody::Value(value)) => vec![value],
            // The declared schema of a map describes the list, not the item.
            Some(GraphBody::Map { .. }) | None => Vec::new(),
            Some(does) => does.calls().iter().filter_map(|call| call.gives.as_ref()).collect(),
        };
        for mapping in made {
            let problem =
                |mismatch: &ValueMismatch| value_misfit(&node.name, what, &mismatch.path, mismatch);
            let found = misfits(mapping, || declared.clone(), problem);
            found.into_iter().for_each(|misfit| misfit.add_to(&mut self.problems));
        }
    }
}

/// Creates the problem of a value of a node that does not fit a schema at a path.
pub(super) fn value_misfit(
    node: &str,
    value: &str,
    path: &str,
    problem: &dyn fmt::Display,
) -> Diagnostic {
    let found = Diagnostic::new(graph_codes::VALUE_MISFIT).text("value", value).name("path", path);
    found.text("problem", problem).of(DiagnosticSubject::node(node)).at_pointer("/schema")
}

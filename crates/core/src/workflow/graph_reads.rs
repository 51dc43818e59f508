//! Checks the reads of a graph against the schemas of the outputs: parts must exist, and conditions
//! must be booleans. A schema that leaves this open is accepted.

use agentflow_schema::diagnostic::{Code, Diagnostic, DiagnosticSubject, Suggestion};
use std::sync::Arc;

use agentflow_schema::expression::{KnownKind, KnownKinds, Path};
use agentflow_schema::schema::{Assignable, Lack, is_assignable_as_stated, lacks, part_at};
use agentflow_schema::template::Template;
use serde_json::{Value, json};

use super::cel_names::{CelRoot, ITEM};
use super::condition::Condition;
use super::facts::{NarrowedSchemas, collect_facts, narrow_schemas};
use super::graph::GraphNode;
use super::graph_body::{GraphBody, Question, Routes};
use super::graph_codes;
use super::mapping::{Mapping, PlaceholderRoot};
use super::mapping::{Schemas, pointer_of, schema_of};
use super::of_graph::GraphLoader;

/// Schemas against which the reads of a node are checked.
pub(super) struct Reading<'a> {
    /// The node that reads.
    pub(super) node: &'a str,
    pub(super) outputs: Schemas<'a>,
    /// Schema of `{"item": ""}`. Accepts any value if there is no item.
    pub(super) item: &'a Value,
}

impl GraphLoader<'_> {
    /// Reports parts that the node reads and that do not exist. The arguments of calls are checked
    /// in `GraphLoader::callee`.
    pub(super) fn check_reads(&mut self, node: &GraphNode) {
        let any = Value::Bool(true);
        let reading = Reading { node: &node.name, outputs: self.outputs(), item: &any };
        let mut problems = Vec::new();
        match &node.does {
            Some(GraphBody::Value(value) | GraphBody::Ask(Question { about: Some(value), .. })) => {
                reading.check_mapping(value, &mut problems);
            }
            Some(GraphBody::Route(routes)) => {
                reading.of_routes(routes, &mut problems);
            }
            _ => {}
        }
        if let Some(Ok(text)) = node.question().map(str::parse) {
            reading.placeholders(&text, &mut problems);
        }
        self.problems.append(&mut problems);
    }

    /// Checks the conditions of the node's edges. A condition is evaluated when the node at the
    /// other end has ended, so only facts that are known there apply.
    pub(super) fn check_edges(&mut self, node: &GraphNode) {
        let any = Value::Bool(true);
        let names = Arc::clone(&self.names);
        for (edge, when) in node.edges.iter().filter_map(|edge| Some((edge, edge.when.as_ref()?))) {
            let reads =
                when.reads(&|name| names.contains_key(name)).into_iter().map(|(read, _)| read);
            let narrow = self.facts.narrow(&edge.from, reads, |of| self.schemas.get(of));
            let outputs = Schemas { all: &self.schemas, narrow: &narrow };
            Reading { node: &node.name, outputs, item: &any }
                .check_condition(when, &mut self.problems);
        }
    }

    pub(super) fn check_no_item(&mut self, node: &str, mapping: &Mapping) {
        if mapping.has_item() {
            self.problems
                .push(Diagnostic::new(graph_codes::ITEM_OUTSIDE_OF_LOOP).name("node", node));
        }
    }
}

impl Reading<'_> {
    fn problem(&self, code: Code) -> Diagnostic {
        Diagnostic::new(code).of(DiagnosticSubject::node(self.node))
    }

    /// Adds the problems of an expression of the node.
    fn of_expression(&self, found: Vec<Diagnostic>, problems: &mut Vec<Diagnostic>) {
        for problem in found {
            problems.push(problem.of(DiagnosticSubject::node(self.node)));
        }
    }

    /// Reports the parts that a mapping reads and that do not exist, or may not exist.
    pub(super) fn check_mapping(&self, mapping: &Mapping, problems: &mut Vec<Diagnostic>) {
        self.parts(mapping, false, problems);
    }

    /// Checks the parts that a condition reads, and that its values are booleans.
    pub(super) fn check_condition(&self, condition: &Condition, problems: &mut Vec<Diagnostic>) {
        match condition {
            Condition::Cel(expression) => {
                self.of_expression(expression.problems_of_condition(self), problems);
            }
            Condition::Is(value) => {
                // A missing part already has a problem, so its type is not reported again.
                let before = problems.len();
                self.parts(value, false, problems);
                let given = schema_of(value, self.outputs, self.item);
                if problems.len() == before
                    && let Assignable::No(places) =
                        is_assignable_as_stated(&given, &json!({"type": "boolean"}))
                    && let Some(place) = places.first()
                {
                    problems.push(
                        self.problem(graph_codes::CONDITION_NOT_A_BOOLEAN)
                            .text("found", &place.given),
                    );
                }
            }
            Condition::Equals(one, other) => {
                self.parts(one, false, problems);
                self.parts(other, false, problems);
            }
            Condition::Exists(value) => self.parts(value, true, problems),
            Condition::Not(other) => self.check_condition(other, problems),
            // A condition is evaluated only if those before it have not decided the result.
            Condition::All(all) | Condition::Any(all) => {
                let holds = matches!(condition, Condition::All(_));
                let mut narrow = self.outputs.narrow.clone();
                for of in all {
                    self.with_facts(&narrow).check_condition(of, problems);
                    self.know(of, holds, &mut narrow);
                }
            }
        }
    }

    /// Checks the conditions of a router's arms.
    pub(super) fn of_routes(&self, routes: &Routes, problems: &mut Vec<Diagnostic>) {
        let mut narrow = self.outputs.narrow.clone();
        for when in routes.arms.iter().filter_map(|arm| arm.when.as_ref()) {
            self.with_facts(&narrow).check_condition(when, problems);
            // A router that takes one arm evaluates a condition only if none before it holds.
            if !routes.all {
                self.know(when, false, &mut narrow);
            }
        }
    }

    /// Returns the same reading with more facts.
    fn with_facts<'r>(&'r self, narrow: &'r NarrowedSchemas) -> Reading<'r> {
        let outputs = Schemas { all: self.outputs.all, narrow };
        Reading { node: self.node, outputs, item: self.item }
    }

    /// Adds the facts that follow if a condition holds, or if it does not hold.
    fn know(&self, condition: &Condition, holds: bool, narrow: &mut NarrowedSchemas) {
        let mut known = Vec::new();
        collect_facts(condition, holds, &mut known);
        narrow_schemas(narrow, &known, |node| self.outputs.get(node));
    }

    /// Reports missing parts. With `may_miss`, reports only parts that can never exist.
    fn parts(&self, mapping: &Mapping, may_miss: bool, problems: &mut Vec<Diagnostic>) {
        let (of, whole, at, may_miss) = match mapping {
            Mapping::From { node, at, or } => match self.outputs.get(node) {
                Some(whole) => (Some(node), whole, at, may_miss || or.is_some()),
                None => return,
            },
            // A mapping of an item has no default, so a part that may be missing is accepted.
            Mapping::Item(at) => (None, self.item, at, true),
            Mapping::Object(fields) => {
                return fields.values().for_each(|of| self.parts(of, may_miss, problems));
            }
            Mapping::First(all) if all.is_empty() => {
                problems.push(self.problem(graph_codes::FIRST_OF_NOTHING));
                return;
            }
            Mapping::First(all) => return all.iter().for_each(|of| self.parts(of, true, problems)),
            Mapping::List(all) => {
                return all.iter().for_each(|of| self.parts(of, may_miss, problems));
            }
            Mapping::Template(template) => return self.placeholders(template, problems),
            Mapping::Cel(expression) => {
                self.of_expression(expression.problems_of_value(self), problems);
                return;
            }
            Mapping::ErrorOf(_) | Mapping::Value(_) | Mapping::State { .. } => return,
        };
        if let Some(lack) = lacks(whole, at, may_miss) {
            let lack =
                with_remedy(lack, "say what is read then with `or`, or ask first with `exists`");
            let found = match of {
                Some(of) => self.problem(graph_codes::OUTPUT_HAS_NO_PART).name("read", of),
                None => self.problem(graph_codes::ITEM_HAS_NO_PART),
            };
            problems.push(found.source("pointer", at).nested("problem", &lack));
        }
    }
    /// Checks the placeholders of a string.
    fn placeholders(&self, template: &Template, problems: &mut Vec<Diagnostic>) {
        for placeholder in template.placeholders() {
            let (PlaceholderRoot::Node(node), parts) =
                PlaceholderRoot::resolve(placeholder, &|name| self.outputs.get(name).is_some())
            else {
                continue;
            };
            let Some(whole) = self.outputs.get(node) else { continue };
            if let Some(lack) = lacks(whole, &pointer_of(parts), placeholder.is_optional()) {
                let lack = with_remedy(lack, "write `?` before the closing brace");
                let found = Diagnostic::new(graph_codes::PLACEHOLDER_OF_NO_PART);
                let found = found.name("read", node).nested("problem", &lack);
                let found = placeholder.problem(found);
                problems.push(found.of(DiagnosticSubject::node(self.node)));
            }
        }
    }
}

impl KnownKinds for Reading<'_> {
    fn kind(&self, path: &Path) -> Result<KnownKind, Diagnostic> {
        let (node, parts) = match CelRoot::from_path(path, &|name| self.outputs.get(name).is_some())
        {
            CelRoot::Node(node, parts) => (node, parts),
            CelRoot::Other(ITEM) => {
                return Err(Diagnostic::new(graph_codes::ITEM_OUTSIDE_OF_UNTIL));
            }
            CelRoot::Other(_) | CelRoot::State(_) => return Ok(KnownKind::Any),
        };
        let Some(whole) = self.outputs.get(node) else { return Ok(KnownKind::Any) };
        let at = pointer_of(parts);
        match lacks(whole, &at, true) {
            Some(Lack::Never(why)) => {
                let found = Diagnostic::new(graph_codes::OUTPUT_HAS_NO_PATH).name("read", node);
                Err(found.source("path", parts.join(".")).nested("problem", &why))
            }
            _ => Ok(KnownKind::of_schema(&part_at(whole, &at))),
        }
    }
}

/// Returns the reason that a part is missing. Adds a remedy if the part exists in some cases.
fn with_remedy(lack: Lack, remedy: &str) -> Diagnostic {
    match lack {
        Lack::Never(why) => why,
        Lack::Sometimes(why) => why.suggest(Suggestion::advice(remedy)),
    }
}

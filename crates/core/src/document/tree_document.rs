//! The form `tree`: nested parts with the names of the pipeline operators. This module reads the
//! document as a [`Pipeline`], which generates the graphs.

use agentflow_schema::diagnostic::{Diagnostic, Suggestion};
use std::collections::HashMap;
use std::time::Duration;

use agentflow_schema::expression::Expression;
use agentflow_schema::text::nearest;
use agentflow_schema::text_tree::{Datum, Field, Tree};
use serde_json::Value;

use super::document_codes;
use super::object_fields::{Fields, Problems, read as read_value};
use super::schema_keywords::check_keywords;
use super::template_text::mapping;
use super::{DraftedDocument, PartRanges};
use crate::pipeline::{Choice, Pipeline, check_name, until};
use crate::state::StateTransform;
use crate::workflow::{NodePolicy, NodeSchema};

/// The operators of parts, with `true` if their value contains other parts.
const OPERATORS: [(&str, bool); 15] = [
    ("tool", false),
    ("agent", false),
    ("workflow", false),
    ("value", false),
    ("sequence", true),
    ("parallel", true),
    ("fallback", true),
    ("race", true),
    ("loop", true),
    ("map_over", true),
    ("route", true),
    ("gate", false),
    ("timeout", true),
    ("transform", false),
    ("tap", true),
];

/// Fields of a part in addition to its operator.
const BESIDE: [&str; 13] = [
    "as",
    "with",
    "save",
    "retry",
    "policy",
    "input",
    "output",
    "until",
    "max",
    "when",
    "then",
    "otherwise",
    "seconds",
];

/// Returns the replacement for a keyword of other programs.
fn word_of_others(word: &str) -> Option<&'static str> {
    Some(match word {
        "if" | "switch" | "condition" | "choice" | "branch" => {
            "a part that depends on a condition is `route: [{when: .., then: ..}]`"
        }
        "approval" | "approve" | "confirm" | "ask" | "human" => {
            "a question that a person must agree to is `gate: ..`"
        }
        "for" | "foreach" | "for_each" | "map" | "each" => {
            "a part for each item of a list is `map_over: {..}`"
        }
        "repeat" | "while" => "a part that is repeated is `loop: {..}` with `max` or `until`",
        "steps" => "parts one after another are `sequence: [..]`",
        "set" | "assign" => "a value is `value: ..`, and `save` names a key of the state",
        _ => return None,
    })
}

fn unknown_operator(field: &Field) -> Diagnostic {
    Diagnostic::new(document_codes::UNKNOWN_OPERATOR)
        .name("field", &field.name)
        .text("word", &field.name)
}

/// Fields of a route that contain parts.
const ARMS: [&str; 2] = ["then", "otherwise"];

/// Returns `true` if a field of a part or an arm contains parts.
pub(super) fn has_parts(field: &str) -> bool {
    ARMS.contains(&field) || OPERATORS.contains(&(field, true))
}

/// Names of the field with the root part.
pub(super) const TOPOLOGY: [&str; 2] = ["topology", "root"];

pub(super) fn read(tree: &Tree, problems: &mut Problems) -> Option<DraftedDocument> {
    let mut fields = Fields::from_tree(tree, "a tree", problems)?;
    let name = fields.need_text("name", problems).map(|(name, _)| name);
    let description = fields.text("description", problems).and_then(Tree::text).unwrap_or_default();
    let decider = super::decider_of(&mut fields, problems);
    let limits = super::limits_of(&mut fields, problems);
    let roots = TOPOLOGY.map(|name| fields.get(name));
    fields.end(problems);
    let root = match roots {
        [Some(_), Some(root)] => {
            problems.note(&root.at, Diagnostic::new(document_codes::TWO_TOPOLOGIES));
            root
        }
        [Some(root), None] | [None, Some(root)] => root,
        [None, None] => {
            problems.note(&tree.at, Diagnostic::new(document_codes::MISSING_TOPOLOGY));
            return None;
        }
    };
    let mut reading = Reading { problems, parts: Vec::new() };
    let pipeline = reading.part(root);
    let parts = reading.parts;
    let pipeline = pipeline?;
    let pipeline = match decider {
        Some(decider) => pipeline.decider(decider),
        None => pipeline,
    };
    // The combination of the parts can have further problems. Their messages name the parts in
    // backticks.
    match pipeline.written_graphs(name?) {
        Ok(mut graphs) => {
            let of = |written: Vec<(String, usize)>| -> PartRanges {
                written
                    .into_iter()
                    .filter_map(|(node, part)| Some((node, parts.get(part)?.1.at.clone())))
                    .collect()
            };
            let (mut graph, written) = graphs.pop()?;
            graph.limits = limits;
            graph.description = description.to_owned();
            let (mut inner, mut inner_parts) = (Vec::new(), HashMap::new());
            for (graph, written) in graphs {
                inner_parts.insert(graph.name.clone(), of(written));
                inner.push(graph);
            }
            Some(DraftedDocument { inner, inner_parts, ..DraftedDocument::new(graph, of(written)) })
        }
        Err(error) => {
            for problem in error.problems() {
                let written = super::WrittenArguments::new(problem);
                let named = |word: &&str| parts.iter().find(|(label, _)| label == word);
                let part = written.names.iter().find_map(named).map_or(root, |(_, part)| *part);
                let words = written.names.iter().chain(&written.sources);
                let place = words.rev().find_map(|word| part.place_of(word));
                problems.note(&place.unwrap_or_else(|| part.at.clone()), problem.clone());
            }
            None
        }
    }
}

struct Reading<'p, 't> {
    problems: &'p mut Problems,
    /// Label and position of each part.
    parts: Vec<(String, &'t Tree)>,
}

impl<'t> Reading<'_, 't> {
    fn part(&mut self, tree: &'t Tree) -> Option<Pipeline> {
        let Datum::Object(of) = &tree.datum else {
            let problem = match &tree.datum {
                Datum::List(_) => Diagnostic::new(document_codes::PART_IS_A_LIST),
                _ => Diagnostic::new(document_codes::PART_NOT_AN_OBJECT).text("found", tree.what()),
            };
            self.problems.note(&tree.at, problem);
            // The items are read too, to report their mistakes.
            tree.items().iter().for_each(|item| drop(self.part(item)));
            return None;
        };
        let operators = || OPERATORS.into_iter().map(|(name, _)| name);
        let said: Vec<&str> =
            operators().filter(|name| of.iter().any(|field| field.name == *name)).collect();
        let [operator] = said.as_slice() else {
            match said.as_slice() {
                [one, other, ..] => {
                    let place = tree.field(other).map_or(&tree.at, |field| &field.at);
                    self.problems.note(
                        place,
                        Diagnostic::new(document_codes::TWO_OPERATORS)
                            .name("one", one)
                            .name("other", other),
                    );
                }
                _ => {
                    let meant =
                        of.iter().find_map(|field| Some((field, word_of_others(&field.name)?)));
                    let near = of
                        .iter()
                        .find_map(|field| Some((field, nearest(&field.name, operators())?)));
                    let unknown = of.iter().find(|field| !BESIDE.contains(&&*field.name));
                    let (place, problem) = match (meant, near, unknown) {
                        (Some((field, hint)), _, _) => {
                            (&field.at, unknown_operator(field).suggest(Suggestion::advice(hint)))
                        }
                        (None, Some((field, near)), _) => (
                            &field.at,
                            unknown_operator(field).suggest(Suggestion::similar(Some(near))),
                        ),
                        (None, None, Some(field)) => (&field.at, unknown_operator(field)),
                        (None, None, None) => (
                            &tree.at,
                            Diagnostic::new(document_codes::MISSING_OPERATOR)
                                .names("operators", operators()),
                        ),
                    };
                    self.problems.note(place, problem);
                }
            }
            return None;
        };
        let mut fields = Fields::from_tree(tree, "a part", self.problems)?;
        let null = if *operator == "value" { fields.get_or_null(operator) } else { None };
        let value = null.or_else(|| fields.need(operator));
        let made = self.operator(operator, value, &mut fields);
        let made = self.described(made, operator, &mut fields);
        fields.end(self.problems);
        let made = made?.written(self.parts.len());
        self.parts.push((made.label(), tree));
        Some(made)
    }

    /// Reads the operator of a part, without its options.
    fn operator(
        &mut self,
        operator: &str,
        value: Option<&'t Tree>,
        fields: &mut Fields<'t>,
    ) -> Option<Pipeline> {
        // All fields of an operator are read, even if the operator itself has a mistake, so that
        // they are not reported as unknown.
        match operator {
            "loop" => {
                let most: Option<u32> = fields.read("max", self.problems);
                let condition = fields.text("until", self.problems);
                let condition = condition.and_then(|tree| self.condition(tree));
                if most == Some(0) {
                    let place =
                        fields.tree.field("max").map_or(&fields.tree.at, |field| &field.value.at);
                    self.problems.note(place, Diagnostic::new(document_codes::NO_ROUNDS));
                }
                let (body, most) = (self.part(value?)?, most.map(|most| most.max(1)));
                match (condition, most) {
                    // A mistake in the condition has already been reported.
                    (None, None)
                        if ["max", "until"]
                            .iter()
                            .any(|name| fields.tree.field(name).is_some()) =>
                    {
                        None
                    }
                    (None, None) => {
                        let place =
                            fields.tree.field("loop").map_or(&fields.tree.at, |field| &field.at);
                        self.problems.note(place, Diagnostic::new(document_codes::UNLIMITED_LOOP));
                        None
                    }
                    (None, Some(most)) => Some(body * most),
                    (Some(condition), None) => Some(body * until(condition)),
                    (Some(condition), Some(most)) => Some(body * until(condition).max(most)),
                }
            }
            "route" => {
                // Read before the arms, so that mistakes in all parts are reported.
                let otherwise = fields.get("otherwise").map(|tree| self.part(tree));
                let arms = self.arms(value?);
                let mut choice: Option<Choice> = None;
                for (condition, part) in arms? {
                    choice = Some(match choice {
                        None => Pipeline::when(condition, part),
                        Some(choice) => choice.when(condition, part),
                    });
                }
                match otherwise {
                    Some(part) => Some(choice?.otherwise(part?)),
                    None => Some(choice?.into()),
                }
            }
            "gate" => {
                let condition =
                    fields.text("when", self.problems).and_then(|tree| self.condition(tree));
                let gate = self
                    .text(value?, "gate")
                    .filter(|_| value.and_then(|text| self.templates(text)).is_some());
                let denied = fields.get("otherwise").map(|tree| self.part(tree));
                let gate = Pipeline::gate(gate?);
                let gate = match denied {
                    Some(denied) => gate.otherwise(denied?),
                    None => gate,
                };
                match condition {
                    Some(condition) => {
                        Some(Pipeline::when(condition, gate).otherwise(Pipeline::value("{input}")))
                    }
                    None => Some(gate),
                }
            }
            "timeout" => {
                let seconds: Option<f64> = fields.read("seconds", self.problems);
                let body = self.part(value?);
                let Some(seconds) = seconds else {
                    if fields.tree.field("seconds").is_none() {
                        let place =
                            fields.tree.field("timeout").map_or(&fields.tree.at, |field| &field.at);
                        self.problems.note(place, Diagnostic::new(document_codes::MISSING_SECONDS));
                    }
                    return None;
                };
                let Ok(time) = Duration::try_from_secs_f64(seconds).map_err(|_| ()) else {
                    let place = fields
                        .tree
                        .field("seconds")
                        .map_or(&fields.tree.at, |field| &field.value.at);
                    self.problems.note(
                        place,
                        Diagnostic::new(document_codes::INVALID_SECONDS).text("seconds", seconds),
                    );
                    return None;
                };
                Some(body?.timeout(time))
            }
            _ => self.plain(operator, value?),
        }
    }

    /// Reads an operator without further fields.
    fn plain(&mut self, operator: &str, value: &'t Tree) -> Option<Pipeline> {
        match operator {
            "tool" => self.text(value, "tool").map(Pipeline::tool),
            "agent" => self.text(value, "agent").map(Pipeline::agent),
            "workflow" => self.text(value, "workflow").map(Pipeline::workflow),
            "value" => {
                let value = self.templates(value).map_or(Value::Null, Tree::to_json);
                Some(Pipeline::value(value))
            }
            "sequence" => self.parts_of(value, "sequence").map(Pipeline::sequence),
            "parallel" => self.parts_of(value, "parallel").map(Pipeline::parallel),
            "fallback" => self.parts_of(value, "fallback").map(Pipeline::fallbacks),
            "race" => self.parts_of(value, "race").map(Pipeline::race),
            "map_over" => self.part(value).map(Pipeline::map_over),
            "tap" => self.part(value).map(Pipeline::tapped),
            _ => {
                let read: Option<Vec<StateTransform>> = read_value(value, self.problems);
                read.map(Pipeline::transform)
            }
        }
    }

    /// Reads the options of a part.
    fn described(
        &mut self,
        made: Option<Pipeline>,
        operator: &str,
        fields: &mut Fields<'_>,
    ) -> Option<Pipeline> {
        let name = fields.text("as", self.problems);
        if let Some((at, Err(problem))) =
            name.and_then(|tree| Some((&tree.at, check_name(tree.text()?))))
        {
            self.problems.note(at, problem);
        }
        let name = name.and_then(Tree::text);
        let with = match matches!(operator, "tool" | "agent" | "workflow") {
            true => fields.get_or_null("with"),
            false => None,
        };
        let with = with.and_then(|with| self.templates(with));
        let keys = fields.text("save", self.problems).and_then(Tree::text);
        let policy: Option<NodePolicy> = fields.read("policy", self.problems);
        let retries: Option<u32> = fields.read("retry", self.problems);
        let mut schema = |tree: &Tree| {
            check_keywords(tree, self.problems);
            NodeSchema::from(tree.to_json())
        };
        let (input, output) =
            (fields.get("input").map(&mut schema), fields.get("output").map(&mut schema));
        let mut made = made?;
        // The time limit of a `timeout` part must survive a policy without one.
        if let Some(policy) = policy {
            made = made.policy_with(policy);
        }
        made = name.into_iter().fold(made, Pipeline::named);
        made = with.into_iter().fold(made, |made, with| made.with(with.to_json()));
        made = keys.into_iter().fold(made, Pipeline::save);
        made = retries.into_iter().fold(made, Pipeline::retry);
        Some(made.schemas(input, output))
    }

    fn parts_of(&mut self, tree: &'t Tree, operator: &str) -> Option<Vec<Pipeline>> {
        let Datum::List(items) = &tree.datum else {
            self.problems.note(
                &tree.at,
                Diagnostic::new(document_codes::OPERATOR_NOT_A_LIST)
                    .name("operator", operator)
                    .text("found", tree.what()),
            );
            return None;
        };
        if items.is_empty() {
            self.problems.note(
                &tree.at,
                Diagnostic::new(document_codes::OPERATOR_WITHOUT_PARTS).name("operator", operator),
            );
        }
        let parts: Vec<Option<Pipeline>> = items.iter().map(|item| self.part(item)).collect();
        parts.into_iter().collect::<Option<Vec<_>>>().filter(|parts| !parts.is_empty())
    }

    fn arms(&mut self, tree: &'t Tree) -> Option<Vec<(String, Pipeline)>> {
        let Datum::List(items) = &tree.datum else {
            self.problems.note(
                &tree.at,
                Diagnostic::new(document_codes::ROUTE_NOT_A_LIST).text("found", tree.what()),
            );
            return None;
        };
        if items.is_empty() {
            self.problems.note(&tree.at, Diagnostic::new(document_codes::ROUTE_WITHOUT_ARMS));
            return None;
        }
        let mut arms = Vec::new();
        for item in items {
            let Some(mut fields) = Fields::from_tree(item, "an arm", self.problems) else {
                continue;
            };
            let when =
                fields.need_text("when", self.problems).and_then(|(_, tree)| self.condition(tree));
            let then = fields.need("then").and_then(|tree| self.part(tree));
            fields.end(self.problems);
            arms.extend(when.zip(then));
        }
        (arms.len() == items.len()).then_some(arms)
    }

    fn condition(&mut self, tree: &Tree) -> Option<String> {
        let text = tree.text()?;
        match text.parse::<Expression>() {
            Ok(_) => Some(text.to_owned()),
            Err(error) => {
                self.problems.note_in_text(tree, text, error.into());
                None
            }
        }
    }

    /// Returns the value if its templates have no mistakes; otherwise reports them.
    fn templates<'v>(&mut self, tree: &'v Tree) -> Option<&'v Tree> {
        let known = self.problems.found.len();
        mapping(tree, &mut Vec::new(), self.problems);
        (self.problems.found.len() == known).then_some(tree)
    }

    fn text(&mut self, tree: &Tree, operator: &str) -> Option<String> {
        match tree.text().filter(|text| !text.trim().is_empty()) {
            Some(text) => Some(text.to_owned()),
            None => {
                self.problems.note(
                    &tree.at,
                    Diagnostic::new(document_codes::OPERATOR_NOT_A_TEXT)
                        .name("operator", operator)
                        .text("found", tree.what()),
                );
                None
            }
        }
    }
}

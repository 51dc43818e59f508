//! The bodies of the nodes of a [`Graph`](super::Graph): calls, values, choices, branches and
//! repetitions. Names are resolved, and the input of each call is checked.

use std::collections::BTreeSet;
use std::sync::Arc;

use agentflow_schema::diagnostic::{Diagnostic, DiagnosticSubject};
use agentflow_schema::schema::part_at;
use serde_json::{Value, json};

use super::super::given_value::Given;
use super::super::graph::GraphNode;
use super::super::graph_body::{GraphBody, Reference};
use super::super::graph_choices::pure;
use super::super::graph_codes;
use super::super::graph_reads::Reading;
use super::super::mapping::{Schemas, schema_of};
use super::super::names;
use super::super::reference_steps::{Called, Callee, item_step, step};
use super::super::spec::{Body, Branch, NodeKind, Step};
use super::super::step_error::StepError;
use super::super::transform_step;
use super::GraphLoader;
use crate::failure::FailureKind;
use crate::tool::CallSite;

impl<'a> GraphLoader<'a> {
    /// Makes the body of a node. An unknown callee becomes a step that is never executed.
    pub(super) fn body(&mut self, node: &'a GraphNode) -> (NodeKind, Body, Vec<Callee>) {
        let name = &node.name;
        // An unknown callee becomes a step that is never executed, so that the rest of the graph
        // can be checked.
        let unknown: Step = Arc::new(|_, _| {
            Err(StepError::new(FailureKind::NotFound, "what it calls is not known"))
        });
        let unusable = (NodeKind::Step, Body::Step(unknown), Vec::new());
        let Some(does) = &node.does else {
            return match node.kind {
                NodeKind::Input => (
                    NodeKind::Input,
                    Body::Input { fits: self.fits(name, &node.schema) },
                    Vec::new(),
                ),
                NodeKind::Join => (NodeKind::Join, Body::Join, Vec::new()),
                _ => {
                    self.problems.push(Diagnostic::new(graph_codes::CODE).name("node", name));
                    unusable
                }
            };
        };
        if let GraphBody::Decide(decider) = does {
            return match self.decision(node, decider) {
                Some((body, callee)) => (NodeKind::Step, body, vec![callee]),
                None => unusable,
            };
        }
        let has_item = matches!(does, GraphBody::Map { .. } | GraphBody::Repeat { .. });
        let item = match does {
            GraphBody::Map { items, .. } => {
                let list = self.outputs().get(items).cloned().unwrap_or(Value::Bool(true));
                self.fits_schema(
                    name,
                    &format!("the list of items, `{items}`,"),
                    &list,
                    &json!({"type": "array"}),
                );
                match list.get("prefixItems") {
                    // Each item has its own schema.
                    Some(_) => Value::Bool(true),
                    None => part_at(&list, "/0"),
                }
            }
            // The item of the first round has another schema than the items of the next rounds.
            _ => Value::Bool(true),
        };
        let item = has_item.then_some(&item);
        let callees: Vec<Option<Callee>> =
            does.calls().iter().map(|call| self.callee(name, call, item)).collect();
        let Some(callees) = callees.into_iter().collect::<Option<Vec<Callee>>>() else {
            return unusable;
        };
        let names = Arc::clone(&self.names);
        for call in does
            .calls()
            .iter()
            .filter(|call| call.gives.as_ref().is_some_and(|of| !of.uses_item_only()))
        {
            self.problems.push(
                Diagnostic::new(graph_codes::ANSWER_READS_NODE)
                    .name("node", name)
                    .name("callee", &call.name),
            );
        }
        let bound: Arc<[_]> = node.dependencies.clone().into();
        let bodies = || {
            let calls = does.calls().iter().zip(&callees);
            calls.map(|(call, callee)| (call, Called::new(callee.clone(), call, &bound)))
        };
        let one = |call: &Reference| Given::new(call.with.clone(), Arc::clone(&names));
        let branches = |problems: &mut Vec<Diagnostic>| {
            let mut taken = BTreeSet::new();
            let mut all = Vec::new();
            for (call, called) in bodies() {
                // Names of branches must differ: they are part of recorded paths.
                let branch = (1..)
                    .map(|number| branch_name(&call.name, number))
                    .find(|branch| taken.insert(branch.clone()));
                let branch = branch.unwrap_or_default();
                problems.extend(names::check_branch_name(name, &branch));
                all.push(Branch {
                    name: branch.into(),
                    step: step(called, one(call), CallSite::Branch),
                    inner: None,
                });
            }
            if all.is_empty() {
                problems.push(Diagnostic::new(graph_codes::NO_BRANCHES).name("node", name));
            }
            all
        };
        let (kind, body) = match does {
            GraphBody::Call(_) => match bodies().next() {
                Some((call, called)) => {
                    (NodeKind::Step, Body::Step(step(called, one(call), CallSite::Node)))
                }
                None => return unusable,
            },
            GraphBody::Value(value) => {
                self.check_no_item(name, value);
                let given = Given::new(value.clone(), Arc::clone(&names));
                match given.waits() {
                    true => (NodeKind::Value, Body::Step(given.into_step())),
                    false => (NodeKind::Value, Body::Pure(pure(value.clone(), names))),
                }
            }
            GraphBody::Decide(_) => return unusable,
            GraphBody::Transform(transforms) => {
                (NodeKind::Step, Body::Step(transform_step::step(transforms)))
            }
            GraphBody::Route(_) => self.router(node, does),
            GraphBody::Ask(question) => self.gate(name, question),
            GraphBody::Map { items, .. } => {
                let Some(items) = self.named(name, items) else { return unusable };
                let Some((call, called)) = bodies().next() else { return unusable };
                (
                    NodeKind::Map,
                    Body::Map { items, step: item_step(called, one(call)), collects: true },
                )
            }
            GraphBody::Race(_) => (NodeKind::Race, Body::Race(branches(&mut self.problems))),
            GraphBody::Fallback(_) => {
                (NodeKind::Fallback, Body::Fallback(branches(&mut self.problems)))
            }
            GraphBody::Repeat { first, until, max, .. } => {
                let Some(first) = self.named(name, first) else { return unusable };
                let Some((call, called)) = bodies().next() else { return unusable };
                if *max == 0 {
                    self.problems.push(Diagnostic::new(graph_codes::NO_ROUNDS).name("node", name));
                }
                let until = until.as_ref().map(|until| self.until(name, until));
                (
                    NodeKind::Repeat,
                    Body::Repeat { first, step: item_step(called, one(call)), until, max: *max },
                )
            }
        };
        (kind, body, callees)
    }

    /// Resolves the callee of a call, and checks the input of the call. `item` is the schema of the
    /// item, if there is one.
    fn callee(&mut self, node: &str, call: &Reference, item: Option<&Value>) -> Option<Callee> {
        if item.is_none() {
            self.check_no_item(node, &call.with);
        }
        let any = Value::Bool(true);
        let item = item.unwrap_or(&any);
        let outputs = Schemas { all: &self.schemas, narrow: &self.narrow };
        let given = schema_of(&call.with, outputs, item);
        Reading { node, outputs, item }.check_mapping(&call.with, &mut self.problems);
        match (self.resolve)(call.kind, &call.name) {
            Ok(callee) => {
                let mut problems = callee.problems_of(&call.with);
                if problems.is_empty() {
                    let key = (call.kind, call.name.clone(), given.to_string());
                    problems.clone_from(
                        self.misfits.entry(key).or_insert_with(|| callee.misfits(&given)),
                    );
                }
                let constants = callee.constant_misfits(&call.with);
                constants.into_iter().for_each(|constant| constant.add_to(&mut problems));
                for problem in problems {
                    self.problems.push(problem.of(DiagnosticSubject::node(node)));
                }
                Some(callee)
            }
            Err(problem) => {
                match problem {
                    None => self.is_whole = false,
                    Some(problem) => self.problems.push(problem.of(DiagnosticSubject::node(node))),
                }
                None
            }
        }
    }
}

/// Returns the name of a branch: the name of its callee, with a number from the second branch on.
fn branch_name(call: &str, number: u32) -> String {
    let name = call.replace('/', ".");
    if number == 1 { name } else { format!("{name}-{number}") }
}

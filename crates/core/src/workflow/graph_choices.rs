//! Compiles the parts of a graph that need no call: values, router choices, questions and the end
//! of repetitions. The results are closures, which the plan contains and a run evaluates.

use agentflow_schema::diagnostic::{Diagnostic, DiagnosticSubject};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::chosen_arms::pick;
use super::condition::{BoundCondition, Condition, NoOutputs};
use super::graph::GraphNode;
use super::graph_body::{GraphBody, Question};
use super::graph_codes;
use super::mapping::{Mapping, Names, Scope};
use super::node_schema::ValueCheck;
use super::of_graph::GraphLoader;
use super::question_text::question_text;
use super::spec::{Body, NodeKind, Outputs, Pure, QuestionTextFn, QuestionValueFn, Until};
use super::step_error::StepError;
use crate::event::ApprovalRequest;
use crate::run::Approval;
use crate::value::{Encoded, NodeValue};

/// Maximum size in bytes of the value that a question shows. A person has to read it.
const LARGEST_QUESTION: usize = 16 << 20;

impl GraphLoader<'_> {
    pub(super) fn router(&mut self, node: &GraphNode, does: &GraphBody) -> (NodeKind, Body) {
        let GraphBody::Route(routes) = does else { return (NodeKind::Join, Body::Join) };
        let name = &node.name;
        let known = self.problems.len();
        let mut seen = BTreeSet::new();
        for route in &routes.arms {
            if !seen.insert(&route.arm) {
                self.problems.push(
                    Diagnostic::new(graph_codes::DUPLICATE_ARM)
                        .name("router", name)
                        .name("arm", &route.arm),
                );
            }
        }
        if routes.arms.iter().filter(|route| route.when.is_none()).count() > 1 {
            self.problems.push(Diagnostic::new(graph_codes::TWO_DEFAULT_ARMS).name("router", name));
        }
        if routes.arms.is_empty() {
            self.problems.push(Diagnostic::new(graph_codes::NO_ARMS).name("router", name));
        }
        // Later checks need to know which arms can be taken, so they are omitted for a wrong
        // router.
        self.is_connected &= self.problems.len() == known;
        let conditions: Vec<(Arc<str>, Option<BoundCondition>)> = routes
            .arms
            .iter()
            .map(|route| {
                (route.arm.as_str().into(), route.when.as_ref().map(|when| self.bound(when)))
            })
            .collect();
        let arms = conditions.iter().map(|(arm, _)| Arc::clone(arm)).collect();
        let pick = pick(conditions, routes.all);
        (NodeKind::Router, Body::Router { pick, arms, several: routes.all })
    }

    pub(super) fn gate(&mut self, node: &str, question: &Question) -> (NodeKind, Body) {
        if let Some(about) = &question.about {
            self.check_no_item(node, about);
        }
        let (schema, fits) = match &question.answer {
            Some(schema) => (schema.to_value(), self.fits(node, schema)),
            None => (
                Approval::schema(),
                ValueCheck::Type(|answer| answer.decode::<Approval>().map(drop)),
            ),
        };
        let (text, about, names) =
            (question.text.clone(), question.about.clone(), Arc::clone(&self.names));
        // A mistake in the text is reported by `Self::question_text` for the same node.
        let filled = question_text(&text, &names).unwrap_or_default();
        let ask: super::spec::Question = Arc::new(move |outputs| {
            let about = match &about {
                Some(about) => made(about, &names, outputs, || LARGEST_QUESTION)?,
                None => Encoded::null(),
            };
            let answer = Encoded::new(&schema)
                .map_err(|error| StepError::value("the answer's schema", &error))?;
            let text = match &filled {
                Some(filled) => filled(outputs)?,
                None => text.clone(),
            };
            Ok(ApprovalRequest::new(text, about, answer))
        });
        (NodeKind::Gate, Body::Gate { question: ask, fits })
    }

    /// Returns a function that computes the arguments that an approval request shows. Only a call
    /// whose arguments use the state needs one; the request of any other call shows the outputs
    /// that it reads.
    pub(super) fn question_about(&self, node: &GraphNode) -> Option<QuestionValueFn> {
        node.policy.approve.as_ref()?;
        let Some(GraphBody::Call(call)) = &node.does else { return None };
        if call.with.state_keys(&|name| self.names.contains_key(name)).is_empty() {
            return None;
        }
        let (arguments, names) = (call.with.clone(), Arc::clone(&self.names));
        Some(Arc::new(move |outputs| made(&arguments, &names, outputs, || LARGEST_QUESTION).ok()))
    }

    /// Compiles the text of a node's question, if it has placeholders.
    pub(super) fn question_text(&mut self, node: &GraphNode) -> Option<QuestionTextFn> {
        match question_text(node.question()?, &self.names) {
            Ok(text) => text,
            Err(problem) => {
                self.problems.push(problem.of(DiagnosticSubject::node(&*node.name)));
                None
            }
        }
    }

    pub(super) fn until(&mut self, node: &str, until: &Condition) -> Until {
        // No name is known to the condition: it is evaluated with the last output alone.
        let reads = until.reads(&|_| false).into_iter().chain(until.state_keys(&|_| false));
        if let Some((read, _)) = reads.into_iter().next() {
            self.problems.push(
                Diagnostic::new(graph_codes::UNTIL_READS_NODE)
                    .name("node", node)
                    .name("read", read),
            );
        }
        let until = until.clone();
        Arc::new(move |last| {
            let scope = Scope { names: &HashMap::new(), outputs: &NoOutputs, item: Some(last) };
            until.holds(&scope).map_err(|problem| StepError::of_value(&problem))
        })
    }
}

pub(super) fn pure(value: Mapping, names: Names) -> Pure {
    Arc::new(move |outputs, cx| made(&value, &names, outputs, || cx().host().max_output_bytes))
}

fn made(
    value: &Mapping,
    names: &Names,
    outputs: &dyn Outputs,
    most: impl FnOnce() -> usize,
) -> Result<Encoded, StepError> {
    Ok(value.encoded(&Scope { names, outputs, item: None }, most)?)
}

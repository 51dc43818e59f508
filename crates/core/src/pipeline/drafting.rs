//! [`GraphGenerator`] converts a pipeline to graphs: a node for each part, and a separate workflow for
//! each group of parts that must be a single call. Names of tools, agents and workflows are not
//! resolved here.

use agentflow_schema::diagnostic::Diagnostic;
use std::collections::HashSet;

use serde_json::Value;

use super::Pipeline;
use super::graph_in_work::{FreeNames, GraphDraft, Place};
use super::input_names::{condition, mapping, question};
use super::operators::Until;
use super::pipeline_codes;
use super::pipeline_part::{Kind, Part};
use crate::workflow::{
    Begins, Condition, Decider, Graph, GraphBody, GraphEdge, GraphNode, Mapping, NodePolicy,
    NodeSchema, OnError, Question, Reference, Route, Routes,
};

/// Name of the input of a generated workflow, and of the input value of a part.
pub(super) const INPUT: &str = "input";

/// A graph, with the names of its nodes and the numbers of their parts in the document.
pub(crate) type WrittenGraph = (Graph, Vec<(String, usize)>);

/// Generates the graphs of a pipeline.
pub(super) struct GraphGenerator<'n> {
    name: &'n str,
    graphs: Vec<WrittenGraph>,
    /// Nodes of the current graph that are parts of a document.
    written: Vec<(String, usize)>,
    /// Names of the generated workflows.
    names: FreeNames,
    /// Decider of the current workflow.
    decider: Option<Decider>,
    problems: Vec<Diagnostic>,
}

impl<'n> GraphGenerator<'n> {
    pub(super) fn new(name: &'n str) -> Self {
        let written = Vec::new();
        Self {
            name,
            graphs: Vec::new(),
            written,
            names: FreeNames::default(),
            decider: None,
            problems: Vec::new(),
        }
    }

    /// Returns the graphs, called workflows before their callers, and the problems.
    pub(super) fn into_parts(self) -> (Vec<WrittenGraph>, Vec<Diagnostic>) {
        (self.graphs, self.problems)
    }

    /// Generates the workflow of a pipeline, after all workflows that it calls.
    pub(super) fn workflow(&mut self, pipeline: &Pipeline) {
        self.decider.clone_from(&pipeline.0.decider);
        // The input and the decider belong to the workflow here. Left in the part, they would put
        // it into another workflow.
        let part = Part { input: NodeSchema::default(), decider: None, ..Part::clone(&pipeline.0) };
        self.graph(self.name, pipeline.0.input.clone(), &part);
        if let Some((whole, _)) = self.graphs.last_mut() {
            whole.limits = pipeline.0.limits;
        }
    }

    fn graph(&mut self, name: &str, input: NodeSchema, part: &Part) {
        let mut graph = GraphDraft::new(input);
        let around = std::mem::take(&mut self.written);
        let end = self.part(&mut graph, Place::behind(INPUT), part);
        let written = std::mem::replace(&mut self.written, around);
        let decider = self.decider.clone();
        self.graphs.push((Graph { decider, ..graph.graph(name, end) }, written));
    }

    /// Generates a workflow for a part that must be a single call, and returns a call of it with a
    /// value.
    fn inner(&mut self, part: &Part, with: Mapping) -> Reference {
        let name = self.names.name(&format!("{}.{}", self.name, part.label()));
        let bare =
            Part { name: part.name.clone(), written: part.written, ..Part::new(part.kind.clone()) };
        // The arguments of a call are templates over the input of this workflow.
        let bare = Part { with: part.with.clone().filter(|_| part.call().is_some()), ..bare };
        let around = self.decider.clone();
        // The decider of a part applies within its workflow and replaces the one of the outer
        // workflow there.
        self.decider = part.decider.clone().or(self.decider.take());
        self.graph(&name, part.input.clone(), &bare);
        self.decider = around;
        Reference::workflow(name, Mapping::object([(INPUT, with)]))
    }

    /// Returns a part as a call with its input value.
    fn call(&mut self, part: &Part, given: Mapping) -> Reference {
        match part.call() {
            Some((kind, name)) => {
                Reference { kind, name: name.to_owned(), with: given, gives: None }
            }
            None => self.inner(part, given),
        }
    }

    /// Returns a part as a call within a node that has another policy.
    fn branch(&mut self, part: &Part, given: Mapping) -> Reference {
        let named =
            Part { name: part.name.clone(), written: part.written, ..Part::new(part.kind.clone()) };
        let is_plain = Part { name: None, ..part.clone() }.is_bare();
        match (is_plain, part.call()) {
            (true, Some(_)) => self.call(part, given),
            (true, None) => self.inner(&named, given),
            // The options of the part apply to its node, so it needs a workflow with a node.
            (false, _) => self.within(part, given),
        }
    }

    /// Generates a workflow with the part, including its options, as the only node.
    fn within(&mut self, part: &Part, given: Mapping) -> Reference {
        let only = Part {
            name: part.name.clone(),
            ..Part::new(Kind::Sequence(vec![Pipeline(part.clone().into())]))
        };
        self.inner(&only, given)
    }

    /// Returns the argument of a call: the value of `with`, or the input value.
    fn given(&mut self, part: &Part, at: &Place) -> Mapping {
        let Some(with) = &part.with else { return at.value() };
        self.made(part, with, at)
    }

    fn made(&mut self, part: &Part, value: &Value, at: &Place) -> Mapping {
        mapping(value, &at.given).unwrap_or_else(|problem| {
            self.problems.push(problem.of(part.subject()));
            Mapping::Value(Value::Null)
        })
    }

    /// Adds a part at a position. Returns the position after it, whose value is the output of the
    /// part.
    fn part(&mut self, graph: &mut GraphDraft, at: Place, part: &Part) -> Place {
        self.problems.extend(part.name.as_ref().and_then(|name| check_name(name).err()));
        if part.otherwise {
            let found = Diagnostic::new(pipeline_codes::OTHERWISE_WITHOUT_GATE);
            self.problems.push(found.of(part.subject()));
        }
        // Options of a row apply to the row as a whole, which must then be a single node, and thus
        // a call to a workflow.
        let is_row = matches!(&part.kind, Kind::Sequence(_) | Kind::Parallel(_) | Kind::Choice(_));
        let has_input = part.input != NodeSchema::default();
        let is_called = is_row && !Part { name: None, ..part.clone() }.is_bare();
        if is_called || has_input || part.decider.is_some() {
            // `input` is the schema of the part's input value, and `with` contains the arguments of
            // the call inside.
            let call = match has_input && part.call().is_some() {
                true => self.inner(part, at.value()),
                false => {
                    let with = self.given(part, &at);
                    self.inner(&Part { with: None, ..part.clone() }, with)
                }
            };
            return self.node(graph, &at, part, GraphBody::Call(call));
        }
        if part.with.is_some() && part.call().is_none() {
            let found = Diagnostic::new(pipeline_codes::ARGUMENT_WITHOUT_CALL);
            self.problems.push(found.of(part.subject()));
        }
        match &part.kind {
            Kind::Call(..) | Kind::Given(_) => {
                let with = self.given(part, &at);
                let call = self.call(part, with);
                self.node(graph, &at, part, GraphBody::Call(call))
            }
            Kind::Value(value) => {
                let value = self.made(part, value, &at);
                self.node(graph, &at, part, GraphBody::Value(value))
            }
            Kind::Gate(text, Some(denied)) => self.answered_gate(graph, &at, part, (text, denied)),
            Kind::Gate(question, None) => {
                // The time limit of a gate limits the wait for the answer.
                let mut policy = part.policy.clone().unwrap_or_default().approve(&**question);
                policy.approve_timeout_ms = policy.approve_timeout_ms.or(policy.timeout_ms.take());
                let part = Part { policy: Some(policy), ..part.clone() };
                self.node(graph, &at, &part, GraphBody::Value(at.value()))
            }
            Kind::Transform(transforms) => {
                // A transform changes the state and passes the value on, so the next part waits for
                // it but reads the value before it.
                let done = self.node(graph, &at, part, GraphBody::Transform(transforms.clone()));
                Place { given: at.given, edges: vec![GraphEdge::from(done.given)] }
            }
            Kind::Sequence(parts) => parts.iter().enumerate().fold(at, |at, (place, next)| {
                // The output of a sequence is the output of its last part, so that part gets the
                // name of the sequence.
                let is_last = place + 1 == parts.len() && next.0.name.is_none();
                match part.name.clone().filter(|_| is_last) {
                    Some(name) => {
                        self.part(graph, at, &Part { name: Some(name), ..Part::clone(&next.0) })
                    }
                    None => self.part(graph, at, &next.0),
                }
            }),
            Kind::Parallel(parts) => self.parallel(graph, &at, part, parts),
            Kind::Fallback(parts) => {
                let calls = parts.iter().map(|of| self.branch(&of.0, at.value())).collect();
                self.node(graph, &at, part, GraphBody::Fallback(calls))
            }
            Kind::Race(parts) => {
                let calls = parts.iter().map(|of| self.branch(&of.0, at.value())).collect();
                self.node(graph, &at, part, GraphBody::Race(calls))
            }
            Kind::Repeat(body, until) => self.repeat(graph, &at, part, (body, until)),
            Kind::Map(body) => {
                let call = self.branch(&body.0, Mapping::Item(String::new()));
                let items = at.given.clone();
                self.node(graph, &at, part, GraphBody::Map { items, call })
            }
            Kind::Choice(arms) => self.choice(graph, &at, part, arms),
            Kind::Tap(body) => {
                let call = self.branch(&body.0, at.value());
                // A tap must not affect the run: its failure is skipped, and the next part reads
                // the value before it.
                let policy = NodePolicy {
                    tap: true,
                    on_error: OnError::Skip,
                    ..part.policy.clone().unwrap_or_default()
                };
                let part = Part { policy: Some(policy), ..part.clone() };
                self.node(graph, &at, &part, GraphBody::Call(call));
                at
            }
        }
    }

    /// Adds the node of a part with its options.
    fn node(&mut self, graph: &mut GraphDraft, at: &Place, part: &Part, does: GraphBody) -> Place {
        let name = graph.name(&part.label());
        self.note(&name, part);
        let node = GraphNode::new(name, does);
        let node = part.saves.iter().fold(node, |node, (key, part)| node.save(key, part));
        let mut policy = part.policy.clone().unwrap_or_default();
        if let Some(text) = &mut policy.approve {
            match question(text, &at.given) {
                Ok(renamed) => *text = renamed,
                Err(problem) => {
                    self.problems.push(problem.of(part.subject()));
                }
            }
        }
        let node = node.policy(policy).schema(part.output.clone());
        graph.add(at, node)
    }

    /// Records the number of the part that a node comes from.
    fn note(&mut self, node: &str, part: &Part) {
        self.written.extend(part.written.map(|number| (node.to_owned(), number)));
    }

    /// Adds a gate with `otherwise`: a question node, and a choice by its answer.
    fn answered_gate(
        &mut self,
        graph: &mut GraphDraft,
        at: &Place,
        part: &Part,
        (text, denied): (&str, &Pipeline),
    ) -> Place {
        let label = part.label();
        let text = question(text, &at.given).unwrap_or_else(|problem| {
            self.problems.push(problem.of(part.subject()));
            String::new()
        });
        let mut policy = part.policy.clone().unwrap_or_default();
        policy.timeout_ms = policy.approve_timeout_ms.take().or(policy.timeout_ms);
        let gate = graph.name(&label);
        self.note(&gate, part);
        let asks = GraphBody::Ask(Question::new(text).about(at.value()));
        graph.add(at, GraphNode::new(&gate, asks).policy(policy));
        let is_granted = Condition::Equals(
            Mapping::from_part(&gate, "/decision"),
            Mapping::Value(Value::String("granted".to_owned())),
        );
        let routes = vec![Route::when("granted", is_granted), Route::otherwise("denied")];
        self.arms(graph, (at, &Place::behind(gate)), part, routes, &[None, Some(denied)])
    }

    fn parallel(
        &mut self,
        graph: &mut GraphDraft,
        at: &Place,
        part: &Part,
        parts: &[Pipeline],
    ) -> Place {
        let mut fields: Vec<(String, Mapping)> = Vec::new();
        let mut seen = HashSet::new();
        for pipeline in parts {
            let label = pipeline.0.label();
            if !seen.insert(label.clone()) {
                self.problems
                    .push(Diagnostic::new(pipeline_codes::DUPLICATE_NAME).name("part", &label));
            }
            let end = self.part(graph, at.clone(), &pipeline.0);
            let node = graph.node_at(end, &label);
            // A part that may fail has no output then; its field is `null`.
            let may_miss =
                pipeline.0.policy.as_ref().is_some_and(|policy| policy.on_error == OnError::Skip);
            let output =
                Mapping::From { node, at: String::new(), or: may_miss.then_some(Value::Null) };
            fields.push((label, output));
        }
        self.node(graph, at, part, GraphBody::Value(Mapping::object(fields)))
    }

    fn repeat(
        &mut self,
        graph: &mut GraphDraft,
        at: &Place,
        part: &Part,
        of: (&Pipeline, &Until),
    ) -> Place {
        let (body, Until { condition: until, most }) = of;
        let call = self.branch(&body.0, Mapping::Item(String::new()));
        let until = until.as_ref().and_then(|text| {
            let found = condition(text, INPUT);
            found
                .map_err(|problem| {
                    self.problems.push(problem.of(part.subject()));
                })
                .ok()
        });
        if *most == 0 {
            self.problems
                .push(Diagnostic::new(pipeline_codes::NO_ROUNDS).name("part", part.label()));
        }
        let first = at.given.clone();
        self.node(graph, at, part, GraphBody::Repeat { first, call, until, max: *most })
    }

    fn choice(
        &mut self,
        graph: &mut GraphDraft,
        at: &Place,
        part: &Part,
        arms: &[(Option<std::sync::Arc<str>>, Pipeline)],
    ) -> Place {
        let (mut routes, mut arms_named): (Vec<Route>, FreeNames) = Default::default();
        for (text, pipeline) in arms {
            let arm = arms_named.name(&pipeline.0.label());
            routes.push(match text {
                None => Route::otherwise(arm),
                Some(text) => match condition(text, &at.given) {
                    Ok(condition) => Route::when(arm, condition),
                    Err(problem) => {
                        self.problems.push(problem.of(part.subject()));
                        Route::otherwise(arm)
                    }
                },
            });
        }
        let parts: Vec<Option<&Pipeline>> =
            arms.iter().map(|(_, pipeline)| Some(pipeline)).collect();
        self.arms(graph, (at, at), part, routes, &parts)
    }

    /// Adds a router with its arms, and a node that joins them. An arm without a part passes the
    /// value on. The arms receive the value at the first position; the router is added at the
    /// second.
    fn arms(
        &mut self,
        graph: &mut GraphDraft,
        (at, chooses_at): (&Place, &Place),
        part: &Part,
        routes: Vec<Route>,
        parts: &[Option<&Pipeline>],
    ) -> Place {
        let label = part.label();
        let names: Vec<String> = routes.iter().map(|route| route.arm.clone()).collect();
        let router = graph.name(&format!("{label}_of"));
        self.note(&router, part);
        graph.add(chooses_at, GraphNode::new(&router, GraphBody::Route(Routes::first(routes))));
        let mut ends = Vec::new();
        for (arm, pipeline) in names.iter().zip(parts) {
            let at =
                Place { given: at.given.clone(), edges: vec![GraphEdge::from(&router).arm(arm)] };
            let end = match pipeline {
                Some(pipeline) => self.part(graph, at, &pipeline.0),
                None => at,
            };
            ends.push(graph.node_at(end, arm));
        }
        // Only one arm runs, so the joining node takes the first existing value and starts after
        // one of its predecessors.
        let first = Mapping::First(ends.iter().map(Mapping::from).collect());
        let name = graph.name(&label);
        self.note(&name, part);
        let node = GraphNode::new(name, GraphBody::Value(first)).begins(Begins::Barrier(1));
        let node = part
            .saves
            .iter()
            .fold(node, |node, (key, part)| node.save(key, part))
            .schema(part.output.clone());
        let node = ends.iter().fold(node, |node, end| node.edge(GraphEdge::from(end)));
        graph.add(&Place::behind(INPUT), node)
    }
}

/// Checks that a name can be used in templates and conditions.
///
/// # Errors
/// A message that states the rule for names.
pub(crate) fn check_name(name: &str) -> Result<(), Diagnostic> {
    let is_plain = name.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_')
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    match is_plain {
        true => Ok(()),
        false => Err(Diagnostic::new(pipeline_codes::INVALID_NAME).name("name", name)),
    }
}

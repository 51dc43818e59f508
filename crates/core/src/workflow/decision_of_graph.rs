//! Deciders in graphs that are data: adds a question node before each node with calls, and creates
//! its step.

use agentflow_schema::diagnostic::{Diagnostic, DiagnosticSubject, SubjectKind};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::Value;

use super::decided::{Decided, NeededBy};
use super::decider::{Decider, NextNode};
use super::decision_step::{
    About, AcceptedArguments, DECISION, arguments_of, attempts_of, decision, unasked,
};
use super::given_value::Given;
use super::graph::{Graph, GraphNode};
use super::graph_body::GraphBody;
use super::graph_codes;
use super::mapping::IsNode;
use super::node_schema::NodeSchema;
use super::of_graph::GraphLoader;
use super::reference_steps::{Callee, call};
use super::spec::{Body, NodeIndex, NodeKind, Step, StepFuture};
use crate::context::Context;
use crate::tool::CallSite;
use crate::value::Encoded;

/// The link from a question node to the node that it decides on: if that node is needed, and the
/// names of its arguments.
pub(super) type Asked = (NeededBy, Option<Vec<(String, NodeIndex)>>);

impl Graph {
    /// Returns the graph with a question node for each node with calls, and the names of the added
    /// nodes.
    pub(super) fn with_decisions(&self) -> (Cow<'_, Self>, HashSet<String>) {
        let mut added = HashSet::new();
        let Some(decider) = &self.decider else { return (Cow::Borrowed(self), added) };
        let names: HashSet<&str> = self.nodes.iter().map(|node| node.name.as_str()).collect();
        let is_node: IsNode<'_> = &|name| names.contains(name);
        let decided: HashSet<&str> = self.nodes.iter().filter_map(decides).collect();
        let mut all = Self { decider: None, nodes: Vec::new(), ..self.clone() };
        for node in &self.nodes {
            let calls = node.does.as_ref().is_some_and(can_be_decided)
                && !decided.contains(node.name.as_str());
            let mut node = node.clone();
            if calls {
                let asks = asking(&node, decider, is_node);
                node.after.push(asks.name.clone());
                added.insert(asks.name.clone());
                all.nodes.push(asks);
            }
            all.nodes.push(node);
        }
        (Cow::Owned(all), added)
    }

    /// Returns the nodes that decide on others, by the name of the other node. Reports nodes with
    /// two deciders.
    pub(super) fn deciders(&self, problems: &mut Vec<Diagnostic>) -> HashMap<&str, &GraphNode> {
        let mut deciders: HashMap<&str, &GraphNode> = HashMap::new();
        for (node, about) in self.nodes.iter().filter_map(|node| Some((node, decides(node)?))) {
            match deciders.get(about) {
                Some(first) => problems.push(
                    Diagnostic::new(graph_codes::TWO_DECIDERS)
                        .name("node", about)
                        .name("first", &first.name)
                        .name("second", &node.name),
                ),
                None => drop(deciders.insert(about, node)),
            }
        }
        deciders
    }
}

/// Returns the name of the node that a node decides on.
fn decides(node: &GraphNode) -> Option<&str> {
    node.decides.as_deref().filter(|_| matches!(node.does, Some(GraphBody::Decide(_))))
}

/// Returns `true` if a node of this kind makes calls, so that a decider can be asked about it.
fn can_be_decided(does: &GraphBody) -> bool {
    !does.calls().is_empty()
}

/// Creates the node that asks about another one. It starts when the other node could start without
/// it.
fn asking(about: &GraphNode, decider: &Decider, is_node: IsNode<'_>) -> GraphNode {
    let (mut reads, mut after) = (about.reads.clone(), about.after.clone());
    let waits = about.begins.waits_for_all();
    for (read, optional) in about.does.iter().flat_map(|does| does.reads(is_node)) {
        // Waiting for this source would delay a node that needs only some of its edges.
        let late = !waits && about.edges.iter().any(|edge| edge.from == read);
        match optional {
            false => reads.push(read.to_owned()),
            true if !late => after.push(read.to_owned()),
            true => {}
        }
    }
    for names in [&mut reads, &mut after] {
        names.sort_unstable();
        names.dedup();
    }
    after.retain(|name| !reads.contains(name));
    GraphNode {
        reads,
        after,
        order: about.order.clone(),
        guard: about.guard.clone(),
        edges: about.edges.clone(),
        begins: about.begins,
        line: about.line,
        decides: Some(about.name.clone()),
        ..GraphNode::new(format!("{}{DECISION}", about.name), GraphBody::Decide(decider.clone()))
    }
}

impl<'a> GraphLoader<'a> {
    /// Reports a node with `decides` that has no decider.
    pub(super) fn check_decides(&mut self, node: &GraphNode) {
        // Nodes with code are refused elsewhere.
        let is_data = node.does.is_some() || matches!(node.kind, NodeKind::Input | NodeKind::Join);
        if node.decides.is_some() && decides(node).is_none() && is_data {
            let name = &node.name;
            self.problems
                .push(Diagnostic::new(graph_codes::DECIDES_WITHOUT_DECIDER).name("node", name));
        }
    }

    /// Returns the decision for a node that a question node decides on.
    pub(super) fn decided(&mut self, node: &GraphNode) -> Option<Decided> {
        let by = *self.deciders.get(node.name.as_str())?;
        if !node.after.contains(&by.name) {
            let (name, by) = (&node.name, &by.name);
            self.problems.push(
                Diagnostic::new(graph_codes::DECISION_NOT_AWAITED)
                    .name("node", name)
                    .name("decider", by),
            );
        }
        let (needed, reads) = self.asked.remove(node.name.as_str())?;
        Some(Decided { by: self.names.get(&by.name).copied()?, reads, needed })
    }

    /// Creates the step of a question node. Also returns the decider.
    pub(super) fn decision(
        &mut self,
        node: &'a GraphNode,
        decider: &Decider,
    ) -> Option<(Body, Callee)> {
        let about = node.decides.as_deref().and_then(|name| self.by_name(name));
        let Some((about, does)) = about
            .and_then(|about| Some((about, about.does.as_ref()?)))
            .filter(|(_, does)| can_be_decided(does))
        else {
            let name = &node.name;
            self.problems.push(Diagnostic::new(graph_codes::DECIDES_NOTHING).name("node", name));
            return None;
        };
        let callee = self.decider(decider)?;
        let wrap = match parameter_of(&callee) {
            Ok(wrap) => wrap,
            Err(problem) => {
                self.note_once(problem);
                return None;
            }
        };
        let names = Arc::clone(&self.names);
        let is_node: IsNode<'_> = &|name| names.contains_key(name);
        let mut reads: Vec<(String, NodeIndex)> = Vec::new();
        for (read, _) in does.reads(is_node) {
            if let Some(at) =
                names.get(read).filter(|at| !reads.iter().any(|(_, known)| known == *at))
            {
                reads.push((read.to_owned(), *at));
            }
        }
        let before =
            about.edges.iter().map(|edge| &edge.from).chain(&node.after).chain(&node.reads);
        let seen = before.filter_map(|name| Some((name.clone(), *names.get(name)?))).collect();
        let given = match does {
            GraphBody::Call(call) => {
                Some((Given::new(call.with.clone(), Arc::clone(&names)), call))
            }
            _ => None,
        };
        let accepts = match &given {
            Some((_, call)) => {
                let called = (self.resolve)(call.kind, &call.name).ok();
                AcceptedArguments::Given(
                    called
                        .and_then(|called| called.takes())
                        .map_or(Value::Bool(true), |(_, takes)| takes),
                )
            }
            None => {
                let schema =
                    |name: &str| self.schemas.get(name).cloned().unwrap_or(Value::Bool(true));
                AcceptedArguments::Reads(
                    reads
                        .iter()
                        .map(|(name, _)| (name.clone(), NodeSchema::from(schema(name))))
                        .collect(),
                )
            }
        };
        let needed = NeededBy::default();
        self.asked
            .insert(&about.name, (Arc::clone(&needed), given.is_none().then(|| reads.clone())));
        let about = Arc::new(About {
            workflow: self.graph.name.clone(),
            node: about.name.clone(),
            calls: about.called(),
            seen,
            needed,
            accepts,
        });
        let (given, attempts) = (given.map(|(given, _)| given), attempts_of(decider.kind));
        let asks = callee.clone();
        let step: Step = Arc::new(move |cx, outputs| {
            let (about, ask) =
                (Arc::clone(&about), Asks { callee: asks.clone(), wrap: wrap.clone() });
            let Some(given) = &given else {
                let next = about.next(arguments_of(&reads, outputs), outputs);
                return Ok(decision(about, next, attempts, move |next| ask.ask(&cx, &next)));
            };
            let shown = about.next(Value::Null, outputs);
            let begin = move |(), cx, value: Encoded| {
                let arguments = serde_json::from_str(value.as_str()).unwrap_or_default();
                decision(about, NextNode { arguments, ..shown }, attempts, move |next| {
                    ask.ask(&cx, &next)
                })
            };
            // The arguments of the call cannot be computed. The node itself then fails with that
            // error, as without a decider.
            given.start_with_or(cx, outputs, None, (), begin, |_| Ok(unasked()))
        });
        Some((Body::Step(step), callee))
    }

    fn decider(&mut self, decider: &Decider) -> Option<Callee> {
        let of_decider = || DiagnosticSubject::new(SubjectKind::Decider, &*decider.name);
        match (self.resolve)(decider.kind, &decider.name) {
            // The parameters of the tool are unknown.
            Ok(Callee::Unfetched(toolset, _)) => {
                let toolset = toolset.name();
                let found =
                    Diagnostic::new(graph_codes::UNFETCHED_DECIDER).absent("toolset", toolset);
                self.note_once(found.of(of_decider()));
                None
            }
            Ok(callee) => Some(callee),
            Err(problem) => {
                match problem {
                    None => self.is_whole = false,
                    Some(problem) => self.note_once(problem.of(of_decider())),
                }
                None
            }
        }
    }

    /// Reports a problem with a decider once, since many nodes share it.
    fn note_once(&mut self, problem: Diagnostic) {
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }
}

/// Returns the name of the decider's only parameter. Returns `None` for an agent that accepts any
/// value.
fn parameter_of(callee: &Callee) -> Result<Option<Arc<str>>, Diagnostic> {
    let Some((what, takes)) = callee.takes() else { return Ok(None) };
    let names: Vec<&String> =
        takes["properties"].as_object().into_iter().flat_map(|all| all.keys()).collect();
    match names.as_slice() {
        [one] => Ok(Some(one.as_str().into())),
        all => Err(what.problem(graph_codes::DECIDER_PARAMETERS).number("count", all.len())),
    }
}

#[derive(Clone)]
struct Asks {
    callee: Callee,
    wrap: Option<Arc<str>>,
}

impl Asks {
    fn ask(&self, cx: &Context, next: &NextNode) -> StepFuture {
        let given = match &self.wrap {
            Some(name) => Encoded::new(&std::collections::BTreeMap::from([(&**name, next)])),
            None => Encoded::new(next),
        };
        match given {
            Ok(given) => call(self.callee.clone(), cx.clone(), given, CallSite::Node),
            Err(error) => {
                let error =
                    super::step_error::StepError::value("the node that is decided on", &error);
                Box::pin(std::future::ready(Err(error)))
            }
        }
    }
}

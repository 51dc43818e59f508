//! What is known of outputs where a node of a graph begins, since the conditions that lead to it hold: that a part is there
//! and is not `null`, or which value it is. Outputs do not change, so what is known stays known behind the node.

use std::collections::{BTreeSet, HashMap};

use serde_json::Value;

use super::condition::Condition;
use super::graph::GraphNode;
use super::graph_body::{GraphBody, GraphEdge, Routes};
use super::mapping::Mapping;
use crate::schema::{Fact, narrowed};

/// What is known of the output of a node.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Known {
    node: String,
    at: String,
    fact: Fact,
}

/// The node of a name.
type FindNode<'f, 'g> = &'f dyn Fn(&str) -> Option<&'g GraphNode>;

/// What is known of outputs where each of a graph's nodes begins.
#[derive(Default)]
pub(super) struct Facts<'g> {
    all: Vec<Known>,
    of: HashMap<&'g str, BTreeSet<usize>>,
}

impl<'g> Facts<'g> {
    /// Notes what is known where a node begins, after all nodes above it, which `find` finds by their names; `needed` are the
    /// nodes without whose output it does not begin.
    pub(super) fn note<'n>(
        &mut self,
        find: FindNode<'_, 'g>,
        node: &'g GraphNode,
        needed: impl Iterator<Item = &'n str>,
    ) {
        let guard = node.guard.iter().map(|guard| GraphEdge::from(&guard.router).arm(&guard.arm));
        let edges: Vec<GraphEdge> = guard.chain(node.edges.iter().cloned()).collect();
        let mut of_edges = Vec::new();
        for edge in &edges {
            let mut known = self.of.get(edge.from.as_str()).cloned().unwrap_or_default();
            let new = known_by(find, edge);
            known.extend(new.into_iter().map(|known| self.place(known)));
            of_edges.push(known);
        }
        let takes_all = node.begins.needed(edges.len()) >= edges.len();
        let both = |one: BTreeSet<usize>, other: BTreeSet<usize>| match takes_all {
            true => &one | &other,
            false => &one & &other,
        };
        let mut known = of_edges.into_iter().reduce(both).unwrap_or_default();
        needed.filter_map(|read| self.of.get(read)).for_each(|of| known.extend(of));
        self.of.insert(&node.name, known);
    }

    /// What is known where an edge is looked at, or a node begins: what is known behind a node.
    pub(super) fn behind(&self, node: &str) -> Vec<&Known> {
        self.of.get(node).into_iter().flatten().map(|at| &self.all[*at]).collect()
    }

    fn place(&mut self, known: Known) -> usize {
        self.all.iter().position(|other| *other == known).unwrap_or_else(|| {
            self.all.push(known);
            self.all.len() - 1
        })
    }
}

/// The schemas of outputs of which more is known.
pub(super) fn narrow<'k>(
    known: impl IntoIterator<Item = &'k Known>,
    schema_of: impl Fn(&str) -> Option<Value>,
) -> HashMap<String, Value> {
    let mut narrow: HashMap<String, Value> = HashMap::new();
    for Known { node, at, fact } in known {
        if let Some(schema) = narrow.get(node).cloned().or_else(|| schema_of(node)) {
            narrow.insert(node.clone(), narrowed(&schema, at, fact));
        }
    }
    narrow
}

/// What is known when an edge is taken.
fn known_by(find: FindNode<'_, '_>, edge: &GraphEdge) -> Vec<Known> {
    let mut known = Vec::new();
    if let Some(when) = &edge.when {
        known_when(when, true, &mut known);
    }
    let router = edge.arm.as_ref().and_then(|_| find(&edge.from));
    if let (Some(GraphBody::Route(routes)), Some(arm)) = (router.and_then(|of| of.does.as_ref()), &edge.arm) {
        known_in_arm(routes, arm, &mut known);
    }
    known
}

fn known_in_arm(routes: &Routes, arm: &str, known: &mut Vec<Known>) {
    let Some(at) = routes.arms.iter().position(|route| route.arm == arm) else { return };
    let own = routes.arms[at].when.as_ref();
    if own.is_none() || !routes.all {
        known_before(routes, at, known);
    }
    own.into_iter().for_each(|when| known_when(when, true, known));
}

/// What is known when no arm is taken that stands before one.
pub(super) fn known_before(routes: &Routes, arm: usize, known: &mut Vec<Known>) {
    let conditions = routes.arms.iter().take(arm).filter_map(|route| route.when.as_ref());
    conditions.for_each(|when| known_when(when, false, known));
}

/// What is known of outputs when a condition holds, or does not.
pub(super) fn known_when(condition: &Condition, holds: bool, known: &mut Vec<Known>) {
    match (condition, holds) {
        (Condition::Not(other), holds) => known_when(other, !holds, known),
        (Condition::All(all), true) | (Condition::Any(all), false) => {
            all.iter().for_each(|of| known_when(of, holds, known));
        }
        // One of them is so: what each of them says.
        (Condition::All(all), false) | (Condition::Any(all), true) => {
            let of = |condition: &Condition| {
                let mut known = Vec::new();
                known_when(condition, holds, &mut known);
                known
            };
            let mut each = all.iter().map(of);
            let first = each.next().unwrap_or_default();
            let common = each.fold(first, |common, other| common.into_iter().filter(|of| other.contains(of)).collect());
            known.extend(common);
        }
        (Condition::Exists(value), true) => known.extend(of(value, Fact::Present)),
        (Condition::Is(value), holds) => known.extend(of(value, Fact::Is(holds.into()))),
        (Condition::Equals(one, Mapping::Value(other)) | Condition::Equals(Mapping::Value(other), one), holds) => {
            match (holds, other.is_null()) {
                (true, false) => known.extend(of(one, Fact::Is(other.clone()))),
                (false, true) => known.extend(of(one, Fact::Present)),
                (true, true) | (false, false) => {}
            }
        }
        (Condition::Cel(_), _) | (Condition::Exists(_), false) | (Condition::Equals(..), _) => {}
    }
}

/// What is known of an output by what is known of a value that is read from it.
fn of(read: &Mapping, fact: Fact) -> Option<Known> {
    let Mapping::From { node, at, or } = read else { return None };
    // It may be so where nothing was read.
    let is_so = |or: &Value| match &fact {
        Fact::Present => !or.is_null(),
        Fact::Is(value) => or == value,
    };
    let is_read = !or.as_ref().is_some_and(is_so);
    is_read.then(|| Known { node: node.clone(), at: at.clone(), fact })
}

//! Edges between nodes that a [`Builder`] adds, and routers that take a set of arms. Resolves names
//! and handles to node indexes, and adds the nodes that must end before an edge can be evaluated.

use agentflow_schema::diagnostic::{Diagnostic, Suggestion};
use std::collections::HashMap;
use std::sync::Arc;

use agentflow_schema::text::nearest;

use super::bodies::load;
use super::builder::{Builder, Router};
use super::condition::BoundCondition;
use super::entry::{Begins, Entry, When};
use super::graph_codes;
use super::node::Node;
use super::node_edge::{EdgeWhen, NodeEdge};
use super::node_handle::{RawHandle, Reads};
use super::spec::{After, Body, NodeIndex, NodeKind, OrderReason, PlanNode};
use super::state_reads::problem_in_edge;
use super::step_error::{StepError, StepFailure};
use crate::error::FailureKind;
use crate::value::Encoded;

/// Dependencies of a node, resolved to node indexes.
#[derive(Default)]
pub(super) struct Bound {
    pub(super) entries: Vec<Entry>,
    pub(super) reads: Vec<NodeIndex>,
    pub(super) after: Vec<After>,
}

impl Builder {
    /// Adds a router that takes a set of arms. `pick` returns the indexes of the arms, at least
    /// one. The nodes of an arm either have an [edge](super::NodeEdge::arm) from it or are added
    /// with [`arm`](Self::arm).
    pub fn route_all<R, E, B, A>(
        &mut self,
        node: impl Into<Node>,
        arms: A,
        reads: R,
        pick: B,
    ) -> Router
    where
        R: Reads,
        E: StepFailure,
        B: Fn(R::Values) -> Result<Vec<usize>, E> + Send + Sync + 'static,
        A: IntoIterator,
        A::Item: Into<Arc<str>>,
    {
        let arms: Vec<Arc<str>> = arms.into_iter().map(Into::into).collect();
        let names = arms.clone();
        let pick: super::spec::Pure = Arc::new(move |outputs, _| {
            let places = pick(load(&reads, outputs)?).map_err(StepError::from_error)?;
            if places.is_empty() {
                return Err(StepError::new(
                    FailureKind::RouteUnmatched,
                    "the router chose no arm, and takes one at least",
                ));
            }
            let taken: Option<Vec<&str>> =
                places.iter().map(|at| names.get(*at).map(|arm| &**arm)).collect();
            let Some(taken) = taken else {
                let problem = format!("the router has {} arms and chose {places:?}", names.len());
                return Err(StepError::new(FailureKind::Value, problem));
            };
            #[derive(serde::Serialize)]
            struct Chosen<'a> {
                arms: Vec<&'a str>,
            }
            Encoded::new(&Chosen { arms: taken })
                .map_err(|error| StepError::value("the chosen arms", &error))
        });
        self.router(node.into(), arms, reads.handles(), (pick, true))
    }

    /// Resolves the edges and reads of a node. Problems are collected in the builder.
    pub(super) fn bind(
        &mut self,
        name: &str,
        kind: NodeKind,
        node: &Node,
        reads: &[RawHandle],
    ) -> Bound {
        let mut bound = Bound {
            reads: reads.iter().filter(|read| !read.optional).map(|read| read.node).collect(),
            ..Bound::default()
        };
        // Most nodes have no edges, so nothing has to be resolved.
        let is_plain =
            node.edges.is_empty() && !node.ends && reads.iter().all(|read| !read.optional);
        if is_plain && node.begins == Begins::All {
            return bound;
        }
        let id = self.id;
        for edge in node.edges.iter().filter(|edge| edge.from.builder == id) {
            bound.entries.extend(self.entry(name, edge));
        }
        if node.edges.iter().any(|edge| edge.from.builder != self.id) {
            self.problems
                .push(Diagnostic::new(graph_codes::EDGE_OF_ANOTHER_WORKFLOW).name("node", name));
        }
        let edges = bound.entries.len();
        let needed = node.begins.needed(edges);
        if node.begins != Begins::All && (needed == 0 || needed > edges) {
            self.problems.push(
                Diagnostic::new(graph_codes::IMPOSSIBLE_START)
                    .name("node", name)
                    .text("needed", needed)
                    .text("edges", edges),
            );
        }
        let takes_part = |read: &RawHandle| match kind {
            // The first read is the list or the initial value.
            NodeKind::Map | NodeKind::Each | NodeKind::Repeat => {
                reads.first().is_some_and(|first| first.node == read.node)
            }
            NodeKind::Join => true,
            _ => false,
        };
        // A node that waits for some of its edges only may start before this source has an output.
        let late = |read: NodeIndex| {
            !node.begins.waits_for_all() && bound.entries.iter().any(|entry| entry.from == read)
        };
        for read in reads {
            let of = |at: NodeIndex| {
                self.nodes.get(at as usize).map(|node| node.path.to_string()).unwrap_or_default()
            };
            if read.optional && takes_part(read) {
                self.problems.push(
                    Diagnostic::new(graph_codes::REQUIRED_READ_IS_OPTIONAL)
                        .name("node", name)
                        .name("read", of(read.node)),
                );
            }
            if !read.optional && late(read.node) {
                let of = of(read.node);
                self.problems.push(
                    Diagnostic::new(graph_codes::READ_IS_NOT_OPTIONAL)
                        .name("node", name)
                        .name("read", &of)
                        .text("word", of),
                );
            }
        }
        // Conditions read outputs, so the node waits for the nodes that they read.
        let conditions = node.edges.iter().filter_map(|edge| match &edge.when {
            EdgeWhen::Holds(condition) => Some(condition),
            _ => None,
        });
        let looked_at = conditions
            .flat_map(|condition| condition.reads(&|name| self.place_of(name).is_some()))
            .filter_map(|(node, _)| self.place_of(node));
        let optional = reads.iter().filter(|read| read.optional).map(|read| read.node);
        let mut after: Vec<After> = Vec::new();
        for node_before in optional.chain(looked_at.collect::<Vec<_>>()) {
            let waited = node.begins.waits_for_all()
                && bound.entries.iter().any(|entry| entry.from == node_before);
            let before = After { node: node_before, why: OrderReason::Optional };
            if !waited
                && !late(node_before)
                && !bound.reads.contains(&node_before)
                && !after.contains(&before)
            {
                after.push(before);
            }
        }
        bound.after = after;
        bound
    }

    /// Returns the index of a node of this builder.
    fn place_of(&self, name: &str) -> Option<NodeIndex> {
        let at = self.nodes.iter().position(|node| node.path.names() == name)?;
        NodeIndex::try_from(at).ok()
    }

    /// Resolves an edge. Returns `None` after reporting a problem.
    fn entry(&mut self, name: &str, edge: &NodeEdge) -> Option<Entry> {
        let from = edge.from.node;
        let when = match &edge.when {
            EdgeWhen::Done => When::Done,
            EdgeWhen::Failed => {
                self.nodes[from as usize].has_rescue = true;
                When::Failed
            }
            EdgeWhen::Arm(arm) => {
                let of: &PlanNode = &self.nodes[from as usize];
                match &of.body {
                    Body::Router { arms, .. } if *arm < arms.len() => {
                        When::Arm(u32::try_from(*arm).unwrap_or(u32::MAX))
                    }
                    _ => {
                        self.problems.push(
                            Diagnostic::new(graph_codes::UNKNOWN_ARM_NUMBER_OF_EDGE)
                                .name("router", &of.path)
                                .text("arm", arm)
                                .name("node", name),
                        );
                        return None;
                    }
                }
            }
            EdgeWhen::Holds(condition) => {
                let (mut names, mut problems) = (HashMap::new(), Vec::new());
                let is_node = |name: &str| self.place_of(name).is_some();
                let reads: Vec<&str> =
                    condition.reads(&is_node).into_iter().map(|(read, _)| read).collect();
                for read in reads {
                    match self.place_of(read) {
                        Some(at) => drop(names.insert(read.to_owned(), at)),
                        None => {
                            let near =
                                nearest(read, self.nodes.iter().map(|node| node.path.names()));
                            let found = Diagnostic::new(graph_codes::CONDITION_READS_UNKNOWN_NODE);
                            let found = found.name("node", name).name("read", read);
                            problems.push(found.suggest(Suggestion::similar(near)));
                        }
                    }
                }
                let keys = condition.state_keys(&is_node);
                let wrong = keys.into_iter().filter_map(|(key, _)| problem_in_edge(key));
                problems.extend(wrong.map(|problem| {
                    let found = Diagnostic::new(graph_codes::CONDITION_OF_EDGE).name("node", name);
                    found.nested("problem", &problem)
                }));
                self.problems.append(&mut problems);
                When::Holds(BoundCondition::new(condition, Arc::new(names)))
            }
        };
        Some(Entry { from, when })
    }
}

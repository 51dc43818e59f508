//! Conversion of the nodes of a graph to parts of the document form `tree`, in the order of the
//! nodes. The walk keeps a stack of open rows: a node continues the last row, opens a new row at
//! the start of an existing one, or closes the last rows and combines them.

use std::collections::{BTreeMap, HashMap, HashSet};

use agentflow_schema::diagnostic::Diagnostic;
use serde_json::{Value, json};

use super::document_export::node_problem;
use super::export_codes as codes;
use super::export_tree::{Inner, MOST_DEPTH, too_deep};
use super::export_tree_labels::{base, label, labelled, named};
use super::export_tree_values::{INPUT, check_has_no_options, condition, part};
use crate::workflow::{Begins, GraphBody, GraphEdge, GraphNode, Mapping, Routes};

/// A part, and the nesting depth of the parts in it.
pub(super) struct Part {
    pub(super) json: Value,
    pub(super) depth: usize,
}

/// Converts the nodes to a part whose output is the output of the node `output`.
///
/// # Errors
/// The part of the graph that the form cannot express.
pub(super) fn convert_nodes(
    nodes: &[&GraphNode],
    output: &str,
    inner: &Inner<'_>,
) -> Result<Part, Diagnostic> {
    let places = nodes.iter().enumerate().map(|(at, node)| (node.name.as_str(), at)).collect();
    let mut walk = Walk { places, inner, rows: Vec::new(), routers: Vec::new() };
    nodes.iter().try_for_each(|node| walk.node(node))?;
    walk.end(output)
}

/// A position between nodes: the node whose output is the value at this position, and further edges
/// to the next node.
#[derive(Clone, PartialEq)]
struct WalkPosition {
    given: String,
    edges: Vec<GraphEdge>,
}

impl WalkPosition {
    fn behind(node: &str) -> Self {
        Self { given: node.to_owned(), edges: Vec::new() }
    }

    /// Returns the start of an arm of a router.
    fn in_arm(router: &Router<'_>, arm: &str) -> Self {
        Self {
            given: router.at.given.clone(),
            edges: vec![GraphEdge::from(&router.node.name).arm(arm)],
        }
    }

    /// Returns `true` if a node that reads these names belongs at this position: it waits for the
    /// position and for no other node.
    fn has(&self, node: &GraphNode, reads: &[&str]) -> bool {
        reads.iter().all(|read| *read == self.given) && self.is_waited_for(node, !reads.is_empty())
    }

    fn is_waited_for(&self, node: &GraphNode, is_read: bool) -> bool {
        let is_behind = self.edges.iter().any(|edge| edge.from == self.given);
        let waits =
            (self.given != INPUT && !is_read && !is_behind).then(|| GraphEdge::from(&self.given));
        waits.iter().chain(&self.edges).eq(&node.edges)
    }
}

/// A sequence of parts that starts at a position.
struct Row<'g> {
    begin: WalkPosition,
    parts: Vec<(Part, WalkPosition)>,
    /// The router after the last part, whose arms are the rows after this one on the stack.
    router: Option<Router<'g>>,
}

struct Router<'g> {
    node: &'g GraphNode,
    routes: &'g Routes,
    at: WalkPosition,
    /// Number of arms that have been opened.
    begun: usize,
}

impl<'g> Row<'g> {
    fn new(begin: WalkPosition) -> Self {
        Self { begin, parts: Vec::new(), router: None }
    }

    /// Returns the position before the part with this index, or after the last part.
    fn place(&self, before: usize) -> &WalkPosition {
        before
            .checked_sub(1)
            .and_then(|at| self.parts.get(at))
            .map_or(&self.begin, |(_, behind)| behind)
    }

    fn end(&self) -> &WalkPosition {
        self.place(self.parts.len())
    }

    /// Returns `true` if the value at the end of the row is the output of this node.
    fn ends_with(&self, node: &str) -> bool {
        self.router.is_none() && self.end().given == node && self.end().edges.is_empty()
    }

    fn into_part(self) -> Result<Part, Diagnostic> {
        let mut parts: Vec<Part> = self.parts.into_iter().map(|(part, _)| part).collect();
        if parts.len() == 1 {
            return Ok(parts.swap_remove(0));
        }
        let depth = deeper(&parts)?;
        let parts: Vec<Value> = parts.into_iter().map(|part| part.json).collect();
        Ok(Part { json: json!({"sequence": parts}), depth })
    }
}

/// Returns the nesting depth of a part that contains these parts.
fn deeper(parts: &[Part]) -> Result<usize, Diagnostic> {
    let depth = parts.iter().map(|part| part.depth).max().unwrap_or_default() + 1;
    if depth > MOST_DEPTH { Err(too_deep()) } else { Ok(depth) }
}

struct Walk<'g, 'i> {
    /// Index of each node by name.
    places: HashMap<&'g str, usize>,
    inner: &'i Inner<'i>,
    rows: Vec<Row<'g>>,
    /// Indices of the rows whose routers are open.
    routers: Vec<usize>,
}

impl<'g> Walk<'g, '_> {
    fn node(&mut self, node: &'g GraphNode) -> Result<(), Diagnostic> {
        match &node.does {
            // These two kinds of nodes close rows; see `pipeline::drafting` for the shape of the
            // nodes.
            Some(GraphBody::Value(Mapping::First(ends))) if node.begins == Begins::Barrier(1) => {
                self.meet(node, ends)
            }
            Some(GraphBody::Value(Mapping::Object(fields))) if self.together(node, fields)? => {
                Ok(())
            }
            _ => self.single(node),
        }
    }

    /// Returns the nodes and inputs that a node reads, without duplicates.
    fn reads(&self, node: &'g GraphNode) -> Vec<&'g str> {
        let is_node = |name: &str| name == INPUT || self.places.contains_key(name);
        let mut reads: Vec<&str> =
            node.reads_by_name(&is_node).into_iter().map(|(read, _)| read).collect();
        reads.sort_unstable();
        reads.dedup();
        reads
    }

    /// Adds a node that is a part, or the router of a choice.
    fn single(&mut self, node: &'g GraphNode) -> Result<(), Diagnostic> {
        let reads = self.reads(node);
        if node.begins != Begins::All {
            return Err(node_problem(&node.name, codes::STARTS_EARLY));
        }
        let last = self.rows.last().filter(|row| row.router.is_none());
        // Search from the end: after a tap, the position before it also matches.
        let found = last.and_then(|row| {
            (0..=row.parts.len()).rev().find(|at| row.place(*at).has(node, &reads))
        });
        match (found, last) {
            (Some(at), Some(row)) => {
                if at < row.parts.len() {
                    let begin = row.place(at).clone();
                    self.split(at);
                    self.rows.push(Row::new(begin));
                }
            }
            _ => {
                let begin =
                    match self.routers.last().and_then(|row| self.rows[*row].router.as_mut()) {
                        Some(router) => router
                            .routes
                            .arms
                            .get(router.begun)
                            .map(|arm| WalkPosition::in_arm(router, &arm.arm)),
                        None => self.rows.is_empty().then(|| WalkPosition::behind(INPUT)),
                    };
                let begin = begin.filter(|begin| begin.has(node, &reads));
                let begin = begin.ok_or_else(|| self.misplaced(node, &reads))?;
                if let Some(router) =
                    self.routers.last().and_then(|row| self.rows[*row].router.as_mut())
                {
                    router.begun += 1;
                }
                self.rows.push(Row::new(begin));
            }
        }
        self.add(node)
    }

    /// Ends the last row at a position. The parts after it become a new row.
    fn split(&mut self, at: usize) {
        let Some(row) = self.rows.last_mut().filter(|_| at > 0) else { return };
        let begin = row.place(at).clone();
        let parts = row.parts.split_off(at);
        self.rows.push(Row { begin, parts, router: None });
    }

    /// Adds a node to the last row.
    fn add(&mut self, node: &'g GraphNode) -> Result<(), Diagnostic> {
        let (last, inner) = (self.rows.len() - 1, self.inner);
        let row = &mut self.rows[last];
        let at = row.end().clone();
        if let Some(GraphBody::Route(routes)) = &node.does {
            if routes.all {
                return Err(node_problem(&node.name, codes::ALL_ARMS));
            }
            row.router = Some(Router { node, routes, at, begun: 0 });
            self.routers.push(last);
            return Ok(());
        }
        let part = part(node, &at.given, inner)?;
        let behind = match &node.does {
            Some(GraphBody::Transform(_)) => {
                WalkPosition { edges: vec![GraphEdge::from(&node.name)], ..at }
            }
            _ if node.policy.tap => at,
            _ => WalkPosition::behind(&node.name),
        };
        row.parts.push((part, behind));
        Ok(())
    }

    /// Closes the last rows and combines them to parallel parts, if the node is the object of their
    /// outputs.
    fn together(
        &mut self,
        node: &'g GraphNode,
        fields: &'g BTreeMap<String, Mapping>,
    ) -> Result<bool, Diagnostic> {
        let ends = fields.iter().map(|(label, read)| match read {
            Mapping::From { node, at, or: None | Some(Value::Null) } if at.is_empty() => Some((
                *self.places.get(node.as_str())?,
                node,
                label,
                matches!(read, Mapping::From { or: None, .. }),
            )),
            _ => None,
        });
        let Some(mut ends) = ends.collect::<Option<Vec<_>>>() else { return Ok(false) };
        ends.sort_unstable();
        let is_begin = |place: &WalkPosition| place.is_waited_for(node, false);
        if let [(_, end, _, needs)] = ends.as_slice() {
            // With a single field, the node can also be an ordinary value that contains the output.
            let Some(row) = self.rows.last().filter(|row| row.ends_with(end)) else {
                return Ok(false);
            };
            let begin = (0..row.parts.len()).rev().find(|at| is_begin(row.place(*at)));
            match begin.filter(|_| !*needs || !row.end().has(node, &[end.as_str()])) {
                Some(at) => self.split(at),
                None => return Ok(false),
            }
        }
        let Some(first) = self.rows.len().checked_sub(ends.len()) else { return Ok(false) };
        let Some(begin) = self.rows.get(first).map(|row| row.begin.clone()).filter(is_begin) else {
            return Ok(false);
        };
        let fits = |(row, (_, end, ..)): (&Row<'_>, &(usize, &String, &String, bool))| {
            row.begin == begin && row.ends_with(end)
        };
        if !self.rows[first..].iter().zip(&ends).all(fits) {
            return Ok(false);
        }
        check_has_no_options(node, codes::OPTIONS_OF_PARALLEL)?;
        let (mut parts, rows) = (Vec::new(), self.rows.split_off(first));
        for (row, (_, _, label, needs)) in rows.into_iter().zip(ends) {
            let Part { json, depth } = row.into_part()?;
            // The object contains `null` for a part that may be skipped.
            let may_miss = json.pointer("/policy/on_error").is_some_and(|what| what == "skip");
            parts.push(Part { json: labelled(json, label, needs && may_miss)?, depth });
        }
        let depth = deeper(&parts)?;
        let parts: Vec<Value> = parts.into_iter().map(|part| part.json).collect();
        let part = Part { json: named(json!({"parallel": parts}), &node.name)?, depth };
        let behind = WalkPosition::behind(&node.name);
        match self.rows.last_mut().filter(|row| row.router.is_none() && *row.end() == begin) {
            Some(row) => row.parts.push((part, behind)),
            None => self.rows.push(Row { parts: vec![(part, behind)], ..Row::new(begin) }),
        }
        Ok(true)
    }

    /// Closes a choice, if the node has the output of the selected arm.
    fn meet(&mut self, node: &'g GraphNode, ends: &'g [Mapping]) -> Result<(), Diagnostic> {
        let name = &node.name;
        let stray = || node_problem(name, codes::FIRST_OF_SEVERAL);
        let of = self.routers.last().copied().ok_or_else(stray)?;
        let router = self.rows[of].router.as_ref().ok_or_else(stray)?;
        let unmet = || unmet(router.node);
        let arms = &router.routes.arms;
        let ends: Option<Vec<&str>> = ends.iter().map(end_of).collect();
        let ends =
            ends.filter(|ends| ends.len() == arms.len() && self.rows.len() - of - 1 == arms.len());
        let ends = ends.ok_or_else(unmet)?;
        let rows = self.rows[of + 1..].iter().zip(arms).zip(&ends);
        let fit = |((row, arm), end): ((&Row<'_>, &crate::workflow::Route), &&str)| {
            row.begin == WalkPosition::in_arm(router, &arm.arm) && row.ends_with(end)
        };
        let edges = ends.iter().map(|end| GraphEdge::from(*end));
        if !rows.into_iter().all(fit) || !edges.eq(node.edges.iter().cloned()) {
            return Err(unmet());
        }
        check_has_no_options(node, codes::OPTIONS_OF_ROUTE)?;
        let rows = self.rows.split_off(of + 1);
        self.routers.pop();
        let Some(router) = self.rows[of].router.take() else { return Err(stray()) };
        let part = chosen(&router, rows, node)?;
        self.rows[of].parts.push((part, WalkPosition::behind(name)));
        Ok(())
    }

    fn end(mut self, output: &str) -> Result<Part, Diagnostic> {
        if let Some(router) = self.routers.last().and_then(|row| self.rows[*row].router.as_ref()) {
            return Err(unmet(router.node));
        }
        let Some(row) = self.rows.pop() else {
            return Err(Diagnostic::new(codes::NO_NODE));
        };
        if let Some(other) = self.rows.last() {
            return Err(Diagnostic::new(codes::WITHOUT_JOIN)
                .name("first", &other.end().given)
                .name("last", &row.end().given));
        }
        if !row.ends_with(output) {
            return Err(Diagnostic::new(codes::OTHER_OUTPUT)
                .name("output", output)
                .name("last", &row.end().given));
        }
        row.into_part()
    }

    /// Describes a node whose predecessors do not match any position of a tree.
    fn misplaced(&self, node: &GraphNode, reads: &[&str]) -> Diagnostic {
        let mut waits: Vec<&str> =
            node.edges.iter().map(|edge| edge.from.as_str()).chain(reads.iter().copied()).collect();
        waits.sort_unstable();
        waits.dedup();
        let before = self.rows.last().map_or(INPUT, |row| match &row.router {
            Some(router) => &router.node.name,
            None => &row.end().given,
        });
        if waits.is_empty() {
            return node_problem(&node.name, codes::MISPLACED_START).name("before", before);
        }
        node_problem(&node.name, codes::MISPLACED).names("nodes", waits).name("before", before)
    }
}

fn unmet(router: &GraphNode) -> Diagnostic {
    node_problem(&router.name, codes::ARMS_NOT_JOINED)
}

/// Returns the node whose whole output is read.
fn end_of(read: &Mapping) -> Option<&str> {
    match read {
        Mapping::From { node, at, or: None } if at.is_empty() => Some(node),
        _ => None,
    }
}

/// Exports a router with its arms, which the node `meets` joins.
fn chosen(router: &Router<'_>, rows: Vec<Row<'_>>, meets: &GraphNode) -> Result<Part, Diagnostic> {
    let (node, name) = (router.node, &meets.name);
    let (mut route, mut otherwise, mut parts, mut names) =
        (Vec::new(), None, Vec::new(), HashSet::new());
    for (arm, row) in router.routes.arms.iter().zip(rows) {
        let part = row.into_part()?;
        parts.push(Part { json: Value::Null, depth: part.depth });
        // Arms with equal labels have numbers.
        let own = label(&part.json);
        let numbered =
            |number: usize| if number == 1 { own.clone() } else { format!("{own}_{number}") };
        let is_own = (1..)
            .map(numbered)
            .find(|name| !names.contains(name))
            .is_some_and(|name| name == arm.arm);
        let part = if is_own { part.json } else { labelled(part.json, &arm.arm, false)? };
        names.insert(arm.arm.clone());
        match &arm.when {
            Some(when) => route.push(
                json!({"when": condition(&node.name, when, &router.at.given)?, "then": part}),
            ),
            None => otherwise = Some(part),
        }
    }
    // The router and the joining node are named after the label of the choice, each with a number
    // if the name was used already.
    let label = match node.name == format!("{name}_of") {
        true => name,
        false => base(&node.name).strip_suffix("_of").ok_or_else(|| {
            node_problem(&node.name, codes::ROUTER_NAME).name("expected", format!("{name}_of"))
        })?,
    };
    let mut part = json!({"route": route});
    if let Some(otherwise) = otherwise {
        part["otherwise"] = otherwise;
    }
    Ok(Part { json: named(part, label)?, depth: deeper(&parts)? })
}

//! A workflow in the form `tree`: its nodes as parts within parts. It walks the nodes in their order and keeps the place behind
//! each as a [`Pipeline`](crate::Pipeline) does, so a node that waits for another one than its place says fits no part. It
//! writes no values: `export_tree_values.rs` does.

use std::cell::Cell;
use std::collections::HashMap;
use std::ops::Range;

use serde_json::{Map, Value, json};

use super::export_tree_values::{INPUT, condition, part, said};
use crate::workflow::{
    Begins, CONCURRENCY, Graph, GraphBody, GraphEdge, GraphNode, Mapping, NodeKind, NodePolicy, NodeSchema, Routes,
    StopPolicy,
};

/// How deep parts stand in each other at most; a document is not read any deeper.
const MOST_DEPTH: usize = 24;

/// How many nodes are looked at, again and again among parts that stand in each other.
const MOST_LOOKS: usize = 200_000;

/// The document of a graph.
///
/// # Errors
/// What the form cannot say.
pub(super) fn written(graph: &Graph) -> Result<Value, String> {
    let inputs: Vec<&GraphNode> = graph.inputs().collect();
    let input = match inputs.as_slice() {
        [input] if input.name == INPUT => *input,
        [input] => return Err(format!("its input is `{}`, and that of a tree is `{INPUT}`", input.name)),
        _ => return Err(format!("it has {} inputs, and a tree has one, `{INPUT}`", inputs.len())),
    };
    if graph.concurrency != CONCURRENCY {
        return Err(format!("its `concurrency` is {}, and that of a tree is {CONCURRENCY}", graph.concurrency));
    }
    if graph.stop_policy != StopPolicy::default() {
        return Err("its `stop_policy` says what other nodes do when one has failed, and a tree has none".to_owned());
    }
    let nodes: Vec<&GraphNode> = graph.nodes.iter().filter(|node| node.kind != NodeKind::Input).collect();
    for node in &nodes {
        check(node)?;
    }
    let places = nodes.iter().enumerate().map(|(at, node)| (node.name.as_str(), at)).collect();
    let walk = Walk { nodes, places, looks: Cell::new(0) };
    let (mut root, end) = walk.row(0..walk.nodes.len(), Place::behind(INPUT), 0)?;
    if end.given != graph.output || !end.edges.is_empty() {
        let says = "and that of a tree is its last part's";
        return Err(format!(
            "its output is that of the node `{}`, {says}, which has that of `{}`",
            graph.output, end.given
        ));
    }
    let schema = input.schema.to_value();
    if schema != NodeSchema::default().to_value() {
        root["input"] = schema;
    }
    let mut document = json!({"name": graph.name, "topology": root});
    if !graph.description.is_empty() {
        document["description"] = json!(graph.description);
    }
    Ok(document)
}

/// What no part has, wherever it stands.
fn check(node: &GraphNode) -> Result<(), String> {
    let name = &node.name;
    let is_plain = name.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_')
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    if !is_plain {
        return Err(format!("the node `{name}` cannot be named so in a tree; use letters, digits and `_`"));
    }
    if node.ends {
        return Err(format!("the node `{name}` ends the run, and a tree ends with its last part"));
    }
    if let Some(edge) = node.edges.iter().find(|edge| edge.failed || edge.when.is_some()) {
        let what = if edge.failed { "when it fails" } else { "under a condition" };
        return Err(format!("the node `{name}` follows `{}` {what}, and a tree has no such edges", edge.from));
    }
    Ok(())
}

/// A place between nodes: whose output is the value there, and the edges that lead to a node which stands there.
#[derive(Clone)]
struct Place {
    given: String,
    edges: Vec<GraphEdge>,
}

impl Place {
    fn behind(node: &str) -> Self {
        Self { given: node.to_owned(), edges: Vec::new() }
    }

    /// Whether a node stands here: it waits for what it reads and for what the place says, and for nothing else.
    fn has(&self, node: &GraphNode) -> bool {
        let reads = node
            .does
            .as_ref()
            .is_some_and(|does| does.reads(&|name| name == self.given).iter().any(|(read, _)| *read == self.given));
        let is_behind = self.edges.iter().any(|edge| edge.from == self.given);
        let waits = (self.given != INPUT && !reads && !is_behind).then(|| GraphEdge::from(&self.given));
        waits.iter().chain(&self.edges).eq(&node.edges)
    }
}

/// A part, and how many nodes it consists of.
type Several = (Value, usize);

struct Walk<'g> {
    nodes: Vec<&'g GraphNode>,
    places: HashMap<&'g str, usize>,
    looks: Cell<usize>,
}

impl Walk<'_> {
    /// Nodes one after another, from a place; and the place behind them.
    fn row(&self, range: Range<usize>, mut at: Place, depth: usize) -> Result<(Value, Place), String> {
        if depth > MOST_DEPTH {
            return Err(format!("its parts stand more than {MOST_DEPTH} deep in each other"));
        }
        let (mut parts, mut next) = (Vec::new(), range.start);
        while next < range.end {
            let node = self.nodes[next];
            self.look()?;
            // What begins with a choice may be the first of several parts.
            let several = match self.together(next..range.end, &at, depth) {
                Some(found) => Some(found),
                None => self.choice(next..range.end, &at, depth)?,
            };
            if let Some((part, taken)) = several {
                next += taken;
                at = Place::behind(&self.nodes[next - 1].name);
                parts.push(part);
                continue;
            }
            if !at.has(node) {
                return Err(misplaced(node, &at));
            }
            parts.push(part(node, &at.given)?);
            next += 1;
            match &node.does {
                Some(GraphBody::Transform(_)) => at.edges = vec![GraphEdge::from(&node.name)],
                _ if node.policy.tap => {}
                _ => at = Place::behind(&node.name),
            }
        }
        match parts.len() {
            0 => Err(format!("nothing stands behind `{}`", at.given)),
            1 => Ok((parts.remove(0), at)),
            _ => Ok((json!({"sequence": parts}), at)),
        }
    }

    fn look(&self) -> Result<(), String> {
        self.looks.set(self.looks.get() + 1);
        match self.looks.get() > MOST_LOOKS {
            true => Err("it has more parts in each other than are looked for".to_owned()),
            false => Ok(()),
        }
    }

    /// A router, its arms, and the node that has the output of the one that was taken.
    fn choice(&self, range: Range<usize>, at: &Place, depth: usize) -> Result<Option<Several>, String> {
        let router = self.nodes[range.start];
        let Some(GraphBody::Route(routes)) = &router.does else { return Ok(None) };
        let Routes { arms, all } = routes;
        if *all {
            return Err(format!("the router `{}` takes all arms that hold, and a `route` takes one", router.name));
        }
        if !at.has(router) {
            return Err(misplaced(router, at));
        }
        let unknown = || {
            let says = "a node that has the output of the one that was taken";
            format!("the arms of the router `{}` do not meet in {says}, as those of a `route` do", router.name)
        };
        let is_end = |end: &usize| {
            let node = self.nodes[*end];
            self.ends(node).is_some_and(|ends| ends.len() == arms.len() && node.edges.len() == arms.len())
        };
        // Those in an arm stand before it.
        let mut problem = None;
        for end in (range.start + 1..range.end).filter(is_end) {
            self.look()?;
            match self.arms(routes, range.start, end, at, depth) {
                Ok(part) => return Ok(Some((part, end + 1 - range.start))),
                Err(found) => problem = Some(found),
            }
        }
        Err(problem.unwrap_or_else(unknown))
    }

    /// Where the last nodes of the arms stand that meet in a node.
    fn ends(&self, node: &GraphNode) -> Option<Vec<usize>> {
        match &node.does {
            Some(GraphBody::Value(Mapping::First(all))) if node.begins == Begins::Barrier(1) => {
                all.iter().map(|read| self.place(read)).collect()
            }
            _ => None,
        }
    }

    fn arms(&self, routes: &Routes, router: usize, end: usize, at: &Place, depth: usize) -> Result<Value, String> {
        let (node, meets) = (self.nodes[router], self.nodes[end]);
        let unknown = || format!("the arms of the router `{}` do not meet in `{}`", node.name, meets.name);
        let ends = self.ends(meets).ok_or_else(unknown)?;
        let edges = ends.iter().map(|end| GraphEdge::from(&self.nodes[*end].name));
        if !edges.eq(meets.edges.iter().cloned()) {
            return Err(unknown());
        }
        said(meets, "puts the arms of a `route` together")?;
        let (mut route, mut otherwise, mut from) = (Vec::new(), None, router + 1);
        for (nth, (arm, last)) in routes.arms.iter().zip(ends).enumerate() {
            let begin = Place { given: at.given.clone(), edges: vec![GraphEdge::from(&node.name).arm(&arm.arm)] };
            let (part, behind) = self.one_of(from, last, end, &begin, depth).ok_or_else(unknown)??;
            from = behind;
            let base = base(&arm.arm);
            let is_repeated = base != arm.arm && routes.arms[..nth].iter().any(|other| self::base(&other.arm) == base);
            let part = named(part, if is_repeated { base } else { &arm.arm });
            match &arm.when {
                Some(when) => route.push(json!({"when": condition(&node.name, when, &at.given)?, "then": part})),
                None => otherwise = Some(part),
            }
        }
        if from != end {
            return Err(unknown());
        }
        // The router is named after the choice before either has a number behind it.
        let label = match node.name == format!("{}_of", meets.name) {
            true => &meets.name,
            false => base(&node.name).strip_suffix("_of").ok_or_else(|| {
                format!("the router `{}` is named otherwise than `{}_of`, as a tree does", node.name, meets.name)
            })?,
        };
        let mut part = json!({"route": route, "as": label});
        if let Some(otherwise) = otherwise {
            part["otherwise"] = otherwise;
        }
        Ok(part)
    }

    /// Parts at the same time, and the node that has the object of their outputs: as many as belong together.
    fn together(&self, range: Range<usize>, at: &Place, depth: usize) -> Option<Several> {
        for end in range.clone().rev() {
            let node = self.nodes[end];
            let Some(GraphBody::Value(Mapping::Object(fields))) = &node.does else { continue };
            if fields.len() < 2 || !at.has(node) || said(node, "").is_err() {
                continue;
            }
            self.look().ok()?;
            let ends = fields.iter().map(|(label, read)| Some((self.place(read)?, label)));
            let Some(mut ends) = ends.collect::<Option<Vec<_>>>() else { continue };
            ends.sort_unstable();
            let (mut parts, mut from) = (Vec::new(), range.start);
            for (last, label) in ends {
                let Some(Ok((part, behind))) = self.one_of(from, last, end, at, depth) else { break };
                parts.push(named(part, label));
                from = behind;
            }
            if from == end && parts.len() == fields.len() {
                let part = json!({"parallel": parts, "as": node.name});
                return Some((part, end + 1 - range.start));
            }
        }
        None
    }

    /// One of several parts: from a node to the one whose output it has, with what observes that; and where the next begins.
    fn one_of(
        &self,
        from: usize,
        last: usize,
        end: usize,
        at: &Place,
        depth: usize,
    ) -> Option<Result<(Value, usize), String>> {
        if last < from || last >= end {
            return None;
        }
        let name = &self.nodes[last].name;
        let behind = Place::behind(name);
        let observes = |node: &&&GraphNode| node.policy.tap && behind.has(node);
        let to = last + 1 + self.nodes[last + 1..end].iter().take_while(observes).count();
        let part = self.row(from..to, at.clone(), depth + 1);
        Some(part.and_then(|(part, place)| match place.given == *name && place.edges.is_empty() {
            true => Ok((part, to)),
            false => Err(format!("the node `{name}` is not the last one of a part")),
        }))
    }

    /// Where the node stands whose output is read as it is.
    fn place(&self, read: &Mapping) -> Option<usize> {
        match read {
            Mapping::From { node, at, .. } if at.is_empty() => self.places.get(node.as_str()).copied(),
            _ => None,
        }
    }
}

/// A node that stands elsewhere than parts do.
fn misplaced(node: &GraphNode, at: &Place) -> String {
    let reads = node.does.iter().flat_map(|does| does.reads(&|_| false)).map(|(read, _)| read);
    let mut waits: Vec<&str> = node.edges.iter().map(|edge| edge.from.as_str()).chain(reads).collect();
    waits.sort_unstable();
    waits.dedup();
    let waits = match waits.is_empty() {
        true => "nothing".to_owned(),
        false => format!("`{}`", waits.join("`, `")),
    };
    format!(
        "the node `{}` waits for {waits}, and no part of a tree that stands behind `{}` does: parts stand one after another, \
         or begin together and end together",
        node.name, at.given
    )
}

/// A name without the number behind it.
fn base(name: &str) -> &str {
    match name.rsplit_once('_') {
        Some((base, number)) if !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit()) => base,
        _ => name,
    }
}

/// A part with this name, which is that of its last part.
fn named(mut part: Value, name: &str) -> Value {
    let last = match part.get_mut("sequence").and_then(Value::as_array_mut).and_then(|parts| parts.last_mut()) {
        Some(last) => last,
        None => &mut part,
    };
    last["as"] = json!(name);
    part
}

/// What is said of a node beside what it does.
pub(super) fn described(node: &GraphNode, policy: &NodePolicy, fields: &mut Map<String, Value>) -> Result<(), String> {
    let name = &node.name;
    fields.insert("as".to_owned(), json!(name));
    let mut saves = node.saves.iter();
    if let Some((key, at)) = saves.next() {
        if !at.is_empty() || saves.next().is_some() {
            return Err(format!("the node `{name}` saves more than its whole output under one key"));
        }
        fields.insert("save".to_owned(), json!(key));
    }
    if *policy != NodePolicy::default() {
        fields.insert("policy".to_owned(), json!(policy));
    }
    let schema = node.schema.to_value();
    if schema != NodeSchema::default().to_value() {
        fields.insert("output".to_owned(), schema);
    }
    Ok(())
}

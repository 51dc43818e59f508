//! Facts about outputs that follow from the conditions on the way to a node: a part exists and is
//! not `null`, or has a known value. Outputs never change, so a fact also holds in all later nodes.

use std::collections::HashMap;
use std::sync::Arc;

use agentflow_schema::schema::{Fact, NarrowedSchema};
use serde_json::Value;

use super::bit_set::BitSet;
use super::condition::Condition;
use super::graph::GraphNode;
use super::graph_body::{GraphBody, GraphEdge, Routes};
use super::mapping::Mapping;

/// A fact about the output of a node.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Known {
    node: String,
    at: String,
    fact: Fact,
}

/// Finds a node by its name.
type FindNode<'f, 'g> = &'f dyn Fn(&str) -> Option<&'g GraphNode>;

/// Schemas of outputs, narrowed by facts, by node name.
pub(super) type NarrowedSchemas = HashMap<String, NarrowedSchema>;

/// Facts that hold at the nodes of a graph.
#[derive(Default)]
pub(super) struct Facts<'g> {
    /// All facts, each once. Sets of facts contain indexes into this list.
    all: Vec<Known>,
    /// Indexes of facts by hash key.
    by_word: HashMap<String, Vec<usize>>,
    /// Indexes of the facts about each node's output, in ascending order.
    about: HashMap<String, Vec<usize>>,
    /// Facts that hold after each node. Nodes with the same facts share a set.
    of: HashMap<&'g str, Arc<BitSet>>,
    routers: HashMap<&'g str, RouterFacts<'g>>,
    /// The last narrowed schema of each node's output and the facts in it. The next one often
    /// extends it.
    last: HashMap<String, (Vec<usize>, NarrowedSchema)>,
}

struct RouterFacts<'g> {
    routes: &'g Routes,
    arms: HashMap<&'g str, usize>,
    /// Facts that hold if none of the first `n` arms is taken, computed on demand.
    without: Vec<Arc<BitSet>>,
}

impl<'g> Facts<'g> {
    /// Records the facts that hold at a node. All earlier nodes must have been recorded. `find`
    /// looks up nodes, and `needed` names the nodes whose outputs the node requires.
    pub(super) fn note<'n>(
        &mut self,
        find: FindNode<'_, 'g>,
        node: &'g GraphNode,
        needed: impl Iterator<Item = &'n str>,
    ) {
        let guard = node.guard.iter().map(|guard| GraphEdge::from(&guard.router).arm(&guard.arm));
        let edges: Vec<GraphEdge> = guard.chain(node.edges.iter().cloned()).collect();
        let takes_all = node.begins.needed(edges.len()) >= edges.len();
        let mut known: Option<Arc<BitSet>> = None;
        for edge in &edges {
            let of_edge = self.of_edge(find, edge);
            // With all edges required, the facts of all edges hold. Otherwise only their common
            // facts do.
            known = Some(match known {
                None => of_edge,
                Some(known) if takes_all => both(known, &of_edge),
                Some(known) if known.is_within(&of_edge) => known,
                Some(mut known) => {
                    Arc::make_mut(&mut known).keep(of_edge.words());
                    known
                }
            });
        }
        let mut known = known.unwrap_or_default();
        for read in needed {
            if let Some(of) = self.of.get(read) {
                known = both(known, of);
            }
        }
        self.of.insert(&node.name, known);
    }

    /// Returns the narrowed schemas of `reads` as seen from an edge that leaves the node `behind`,
    /// or from the node itself.
    pub(super) fn narrow<'r>(
        &mut self,
        behind: &str,
        reads: impl IntoIterator<Item = &'r str>,
        schema_of: impl Fn(&str) -> Option<&'r Value>,
    ) -> NarrowedSchemas {
        let mut narrow = NarrowedSchemas::new();
        let Some(known) = self.of.get(behind) else { return narrow };
        for read in reads {
            let Some(about) = self.about.get(read).filter(|_| !narrow.contains_key(read)) else {
                continue;
            };
            let Some(schema) = schema_of(read) else { continue };
            let known_about =
                || about.iter().copied().filter(|fact| known.contains(*fact)).peekable();
            let mut facts = known_about();
            if facts.peek().is_none() {
                continue;
            }
            // The last schema can be extended if its facts are a prefix of the current ones.
            let (mut made_of, mut made) = match self.last.remove(read) {
                Some(last) if last.0.iter().all(|fact| facts.next_if_eq(fact).is_some()) => last,
                _ => {
                    facts = known_about();
                    (Vec::new(), NarrowedSchema::of(schema))
                }
            };
            for fact in facts {
                made_of.push(fact);
                made.add(&self.all[fact].at, &self.all[fact].fact);
            }
            narrow.insert(read.to_owned(), made.clone());
            self.last.insert(read.to_owned(), (made_of, made));
        }
        narrow
    }

    /// Returns the facts that hold if an edge is taken.
    fn of_edge(&mut self, find: FindNode<'_, 'g>, edge: &GraphEdge) -> Arc<BitSet> {
        let mut known = self.of.get(edge.from.as_str()).cloned().unwrap_or_default();
        let mut new = Vec::new();
        if let Some(when) = &edge.when {
            collect_facts(when, true, &mut new);
        }
        self.add(&mut known, new);
        let Some(arm) = &edge.arm else { return known };
        if !self.routers.contains_key(edge.from.as_str()) {
            let Some(router) = find(&edge.from) else { return known };
            let Some(GraphBody::Route(routes)) = &router.does else { return known };
            let mut arms = HashMap::new();
            (0..).zip(&routes.arms).for_each(|(at, route)| {
                arms.entry(route.arm.as_str()).or_insert(at);
            });
            self.routers
                .insert(&router.name, RouterFacts { routes, arms, without: vec![Arc::default()] });
        }
        let Some(router) = self.routers.get(edge.from.as_str()) else { return known };
        let Some(at) = router.arms.get(arm.as_str()).copied() else { return known };
        let routes = router.routes;
        let own = routes.arms[at].when.as_ref();
        // A router without `all`, and an arm without a condition, require that no earlier arm was
        // taken.
        if own.is_none() || !routes.all {
            known = both(known, &self.without(&edge.from, at));
        }
        let mut new = Vec::new();
        own.into_iter().for_each(|when| collect_facts(when, true, &mut new));
        self.add(&mut known, new);
        known
    }

    /// Returns the facts that hold if none of the first `arms` arms of a router is taken.
    fn without(&mut self, router: &str, arms: usize) -> Arc<BitSet> {
        let Some((name, mut of)) = self.routers.remove_entry(router) else { return Arc::default() };
        while of.without.len() <= arms {
            let mut known = of.without.last().cloned().unwrap_or_default();
            let mut new = Vec::new();
            let when = of.routes.arms[of.without.len() - 1].when.as_ref();
            when.into_iter().for_each(|when| collect_facts(when, false, &mut new));
            self.add(&mut known, new);
            of.without.push(known);
        }
        let known = Arc::clone(&of.without[arms]);
        self.routers.insert(name, of);
        known
    }

    fn add(&mut self, known: &mut Arc<BitSet>, new: Vec<Known>) {
        for new in new {
            let place = self.place(new);
            if !known.contains(place) {
                Arc::make_mut(known).insert(place);
            }
        }
    }

    /// Returns the index of a fact, adding it if it is new.
    fn place(&mut self, known: Known) -> usize {
        let word = match &known.fact {
            Fact::Present => format!("{} {}", known.node, known.at),
            Fact::Is(value) => format!("{} {} = {value}", known.node, known.at),
        };
        let same = self.by_word.entry(word).or_default();
        if let Some(at) = same.iter().find(|at| self.all[**at] == known) {
            return *at;
        }
        let at = self.all.len();
        same.push(at);
        match self.about.get_mut(&known.node) {
            Some(about) => about.push(at),
            None => drop(self.about.insert(known.node.clone(), vec![at])),
        }
        self.all.push(known);
        at
    }
}

/// Returns the union of two sets. Shares one of them if it contains the other.
fn both(one: Arc<BitSet>, other: &Arc<BitSet>) -> Arc<BitSet> {
    if other.is_within(&one) {
        return one;
    }
    if one.is_within(other) {
        return Arc::clone(other);
    }
    let mut both = one;
    Arc::make_mut(&mut both).add(other.words());
    both
}

/// Narrows schemas by further facts. Schemas that are not in `narrow` yet are looked up with
/// `schema_of`.
pub(super) fn narrow_schemas<'s>(
    narrow: &mut NarrowedSchemas,
    known: &[Known],
    schema_of: impl Fn(&str) -> Option<&'s Value>,
) {
    for Known { node, at, fact } in known {
        if !narrow.contains_key(node) {
            let Some(schema) = schema_of(node) else { continue };
            narrow.insert(node.clone(), NarrowedSchema::of(schema));
        }
        if let Some(schema) = narrow.get_mut(node) {
            schema.add(at, fact);
        }
    }
}

/// Collects the facts that follow if a condition has the result `holds`.
pub(super) fn collect_facts(condition: &Condition, holds: bool, known: &mut Vec<Known>) {
    match (condition, holds) {
        (Condition::Not(other), holds) => collect_facts(other, !holds, known),
        (Condition::All(all), true) | (Condition::Any(all), false) => {
            all.iter().for_each(|of| collect_facts(of, holds, known));
        }
        // At least one condition has this result, so only facts that follow from each of them are
        // certain.
        (Condition::All(all), false) | (Condition::Any(all), true) => {
            let of = |condition: &Condition| {
                let mut known = Vec::new();
                collect_facts(condition, holds, &mut known);
                known
            };
            let mut each = all.iter().map(of);
            let first = each.next().unwrap_or_default();
            let common = each.fold(first, |common, other| {
                common.into_iter().filter(|of| other.contains(of)).collect()
            });
            known.extend(common);
        }
        (Condition::Exists(value), true) => known.extend(known_from(value, Fact::Present)),
        (Condition::Is(value), holds) => known.extend(known_from(value, Fact::Is(holds.into()))),
        (
            Condition::Equals(one, Mapping::Value(other))
            | Condition::Equals(Mapping::Value(other), one),
            holds,
        ) => match (holds, other.is_null()) {
            (true, false) => known.extend(known_from(one, Fact::Is(other.clone()))),
            (false, true) => known.extend(known_from(one, Fact::Present)),
            (true, true) | (false, false) => {}
        },
        (Condition::Cel(_), _) | (Condition::Exists(_), false) | (Condition::Equals(..), _) => {}
    }
}

/// Converts a fact about a mapping's value into a fact about the output that it reads.
fn known_from(read: &Mapping, fact: Fact) -> Option<Known> {
    let Mapping::From { node, at, or } = read else { return None };
    // The default of the mapping may satisfy the fact although nothing was read.
    let is_so = |or: &Value| match &fact {
        Fact::Present => !or.is_null(),
        Fact::Is(value) => or == value,
    };
    let is_read = !or.as_ref().is_some_and(is_so);
    is_read.then(|| Known { node: node.clone(), at: at.clone(), fact })
}

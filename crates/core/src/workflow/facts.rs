//! What is known of outputs where a node of a graph begins, since the conditions that lead to it hold: that a part is there
//! and is not `null`, or which value it is. Outputs do not change, so what is known stays known behind the node.

use std::collections::HashMap;
use std::sync::Arc;

use agentflow_schema::schema::{Fact, NarrowedSchema};
use serde_json::Value;

use super::arm_questions::word_of_value;
use super::bit_set::BitSet;
use super::condition::Condition;
use super::graph::GraphNode;
use super::graph_body::{GraphBody, GraphEdge, Routes};
use super::mapping::Mapping;

/// What is known of the output of a node.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Known {
    node: String,
    at: String,
    fact: Fact,
}

/// The node of a name.
type FindNode<'f, 'g> = &'f dyn Fn(&str) -> Option<&'g GraphNode>;

/// The schemas of outputs of which more is known, by the names of the nodes.
pub(super) type Narrow = HashMap<String, NarrowedSchema>;

/// What is known of outputs where each of a graph's nodes begins.
#[derive(Default)]
pub(super) struct Facts<'g> {
    /// All that is known somewhere, once each. Sets of it are sets of the places here.
    all: Vec<Known>,
    /// The places of what may be the same.
    by_word: HashMap<String, Vec<usize>>,
    /// The places of what is known of the output of one node, the first one first.
    about: HashMap<String, Vec<usize>>,
    /// What is known behind each node; one set for all that know the same.
    of: HashMap<&'g str, Arc<BitSet>>,
    routers: HashMap<&'g str, OfRouter<'g>>,
    /// The schema that was made last for the output of each node, with what it was made of: the next one often adds to it.
    last: HashMap<String, (Vec<usize>, NarrowedSchema)>,
}

struct OfRouter<'g> {
    routes: &'g Routes,
    arms: HashMap<&'g str, usize>,
    /// What is known when none of so many first arms is taken, as far as it was asked for.
    without: Vec<Arc<BitSet>>,
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
        let takes_all = node.begins.needed(edges.len()) >= edges.len();
        let mut known: Option<Arc<BitSet>> = None;
        for edge in &edges {
            let of_edge = self.of_edge(find, edge);
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

    /// The schemas of outputs that are read where an edge is looked at that leaves a node, or where the node begins.
    pub(super) fn narrow<'r>(
        &mut self,
        behind: &str,
        reads: impl IntoIterator<Item = &'r str>,
        schema_of: impl Fn(&str) -> Option<&'r Value>,
    ) -> Narrow {
        let mut narrow = Narrow::new();
        let Some(known) = self.of.get(behind) else { return narrow };
        for read in reads {
            let Some(about) = self.about.get(read).filter(|_| !narrow.contains_key(read)) else { continue };
            let Some(schema) = schema_of(read) else { continue };
            let known_about = || about.iter().copied().filter(|fact| known.contains(*fact)).peekable();
            let mut facts = known_about();
            if facts.peek().is_none() {
                continue;
            }
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

    /// What is known when an edge is taken.
    fn of_edge(&mut self, find: FindNode<'_, 'g>, edge: &GraphEdge) -> Arc<BitSet> {
        let mut known = self.of.get(edge.from.as_str()).cloned().unwrap_or_default();
        let mut new = Vec::new();
        if let Some(when) = &edge.when {
            known_when(when, true, &mut new);
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
            self.routers.insert(&router.name, OfRouter { routes, arms, without: vec![Arc::default()] });
        }
        let Some(router) = self.routers.get(edge.from.as_str()) else { return known };
        let Some(at) = router.arms.get(arm.as_str()).copied() else { return known };
        let routes = router.routes;
        let own = routes.arms[at].when.as_ref();
        if own.is_none() || !routes.all {
            known = both(known, &self.without(&edge.from, at));
        }
        let mut new = Vec::new();
        own.into_iter().for_each(|when| known_when(when, true, &mut new));
        self.add(&mut known, new);
        known
    }

    /// What is known when none of so many first arms of a router is taken.
    fn without(&mut self, router: &str, arms: usize) -> Arc<BitSet> {
        let Some((name, mut of)) = self.routers.remove_entry(router) else { return Arc::default() };
        while of.without.len() <= arms {
            let mut known = of.without.last().cloned().unwrap_or_default();
            let mut new = Vec::new();
            let when = of.routes.arms[of.without.len() - 1].when.as_ref();
            when.into_iter().for_each(|when| known_when(when, false, &mut new));
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

    fn place(&mut self, known: Known) -> usize {
        let word = match &known.fact {
            Fact::Present => format!("{} {}", known.node, known.at),
            Fact::Is(value) => format!("{} {} = {}", known.node, known.at, word_of_value(value)),
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

/// Both sets; one of them where it has all of the other.
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

/// Adds what is known more to the schemas of which more is known; of the others, `schema_of` knows it.
pub(super) fn narrow_more<'s>(narrow: &mut Narrow, known: &[Known], schema_of: impl Fn(&str) -> Option<&'s Value>) {
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

//! Which sets of arms a router can take, as far as its conditions say so: when a workflow is built, and without a value.
//!
//! What conditions ask of outputs may be so or not, each by itself, but not against each other: `x` and `not x` never hold
//! together, and a value is not equal to two others.

use std::collections::BTreeSet;

use serde_json::Value;

use super::condition::Condition;
use super::graph_body::GraphBody;
use super::mapping::Mapping;
use super::spec::{Body, NodeSpec};

/// For each arm of a router, whether it is taken.
pub(super) type Arms = Vec<bool>;

/// The sets of arms that a router can take.
#[derive(Default)]
pub(super) struct ArmSets {
    /// The largest.
    pub(super) most: Vec<Arms>,
    /// The smallest, each with an arm that is in it. Of a closure that gives a set, nothing is known of them.
    pub(super) least: Vec<(usize, Arms)>,
}

/// The most combinations of answers that are looked at.
const COMBINATIONS: usize = 2048;

impl ArmSets {
    pub(super) fn of(router: &NodeSpec) -> Self {
        let Body::Router { arms, several, .. } = &router.body else { return Self::default() };
        let (count, routes) = (arms.len(), routes(router));
        let Some(routes) = routes else { return of_code(count, *several) };
        let sets = combined(&routes, *several).unwrap_or_else(|| one_by_one(&routes, *several));
        let is_within =
            |one: &Arms, other: &Arms| one != other && one.iter().zip(other).all(|(one, other)| one <= other);
        let mut most: Vec<Arms> =
            sets.iter().filter(|one| !sets.iter().any(|other| is_within(one, other))).cloned().collect();
        // An arm for everything else is no mistake where the conditions leave nothing.
        let last = routes.iter().position(|when| constant(*when) == Some(true)).unwrap_or(count);
        most.extend(routes[..last].iter().position(Option::is_none).map(|at| only(count, at)));
        let smallest = sets.iter().filter(|one| !sets.iter().any(|other| is_within(other, one)));
        let in_all = |arm: usize| sets.iter().all(|set| set[arm]);
        let name = |set: &Arms| {
            let taken = || (0..count).filter(|arm| set[*arm]);
            taken().find(|arm| !in_all(*arm)).or_else(|| taken().next())
        };
        let least = smallest.filter_map(|set| Some((name(set)?, set.clone()))).collect();
        Self { most, least }
    }

    /// Whether an arm is in none of them.
    pub(super) fn never_takes(&self, arm: usize) -> bool {
        !self.most.iter().any(|set| set.get(arm) == Some(&true))
    }
}

/// The conditions of the arms of a router that is data.
fn routes(router: &NodeSpec) -> Option<Vec<Option<&Condition>>> {
    match router.does.as_deref() {
        Some(GraphBody::Route(routes)) => Some(routes.arms.iter().map(|arm| arm.when.as_ref()).collect()),
        _ => None,
    }
}

fn only(count: usize, arm: usize) -> Arms {
    (0..count).map(|other| other == arm).collect()
}

/// Of a closure, which may take each arm.
fn of_code(count: usize, several: bool) -> ArmSets {
    let each: Vec<(usize, Arms)> = (0..count).map(|arm| (arm, only(count, arm))).collect();
    match several {
        true => ArmSets { most: vec![vec![true; count]], least: Vec::new() },
        false => ArmSets { most: each.iter().map(|(_, arms)| arms.clone()).collect(), least: each },
    }
}

fn constant(when: Option<&Condition>) -> Option<bool> {
    when.and_then(Condition::constant)
}

/// Something that conditions ask of outputs.
#[derive(PartialEq)]
enum Question<'c> {
    Is(&'c Mapping, Value),
    Exists(&'c Mapping),
    Other(&'c Condition),
}

impl<'c> Question<'c> {
    fn of(condition: &'c Condition) -> Self {
        match condition {
            Condition::Is(value) => Self::Is(value, Value::Bool(true)),
            Condition::Equals(one, Mapping::Value(other)) | Condition::Equals(Mapping::Value(other), one) => {
                Self::Is(one, other.clone())
            }
            Condition::Exists(value) => Self::Exists(value),
            other => Self::Other(other),
        }
    }

    /// Whether two answers cannot both be given.
    fn excludes(&self, holds: bool, other: &Self, other_holds: bool) -> bool {
        match (self, other) {
            (Self::Is(one, value), Self::Is(other, another)) => {
                one == other && value != another && holds && other_holds
            }
            (Self::Exists(read), Self::Is(of, value)) if read == of => match value {
                Value::Null => holds == other_holds,
                _ => !holds && other_holds,
            },
            (Self::Is(..), Self::Exists(_)) => other.excludes(other_holds, self, holds),
            _ => false,
        }
    }
}

fn questions<'c>(condition: &'c Condition, into: &mut Vec<Question<'c>>) {
    match condition {
        of if of.constant().is_some() => {}
        Condition::Not(other) => questions(other, into),
        Condition::All(all) | Condition::Any(all) => all.iter().for_each(|of| questions(of, into)),
        leaf => {
            let question = Question::of(leaf);
            if !into.contains(&question) {
                into.push(question);
            }
        }
    }
}

/// The sets by all combinations of answers; `None` when there are too many.
fn combined(routes: &[Option<&Condition>], several: bool) -> Option<BTreeSet<Arms>> {
    let mut all = Vec::new();
    routes.iter().flatten().for_each(|when| questions(when, &mut all));
    let mut open: Vec<Vec<bool>> = vec![Vec::new()];
    for (at, question) in all.iter().enumerate() {
        let mut next = Vec::new();
        for answers in open {
            for holds in [false, true] {
                let is_possible =
                    !answers.iter().zip(&all).any(|(answer, other)| question.excludes(holds, other, *answer));
                if is_possible {
                    next.push(answers.iter().copied().chain([holds]).collect());
                }
            }
        }
        if next.len() > COMBINATIONS {
            return None;
        }
        open = next;
        debug_assert!(open.iter().all(|answers| answers.len() == at + 1));
    }
    let sets = open.iter().map(|answers| taken(routes, several, |condition| holds(condition, &all, answers)));
    Some(sets.filter(|set| set.contains(&true)).collect())
}

fn holds(condition: &Condition, all: &[Question<'_>], answers: &[bool]) -> bool {
    match condition {
        of if of.constant().is_some() => of.constant() == Some(true),
        Condition::Not(other) => !holds(other, all, answers),
        Condition::All(of) => of.iter().all(|of| holds(of, all, answers)),
        Condition::Any(of) => of.iter().any(|of| holds(of, all, answers)),
        leaf => {
            let question = Question::of(leaf);
            all.iter().position(|other| *other == question).is_some_and(|at| answers[at])
        }
    }
}

/// The arms that are taken, as in a run.
fn taken(routes: &[Option<&Condition>], several: bool, holds: impl Fn(&Condition) -> bool) -> Arms {
    let mut taken = vec![false; routes.len()];
    let mut is_taken = false;
    for (at, when) in routes.iter().enumerate() {
        if (several || !is_taken) && when.map_or(!is_taken, &holds) {
            (taken[at], is_taken) = (true, true);
        }
    }
    taken
}

/// The sets where each condition holds by itself, and where all of them do.
fn one_by_one(routes: &[Option<&Condition>], several: bool) -> BTreeSet<Arms> {
    let holds = |of: &Condition, other: bool| of.constant().unwrap_or(other);
    let mut sets: BTreeSet<Arms> =
        routes.iter().flatten().map(|when| taken(routes, several, |of| holds(of, of == *when))).collect();
    sets.insert(taken(routes, several, |of| holds(of, false)));
    if several {
        sets.insert(taken(routes, several, |of| holds(of, true)));
        // Where an arm is taken since none before it is, all behind it may be.
        for otherwise in (0..routes.len()).filter(|at| routes[*at].is_none()) {
            let is_before = |of: &Condition| routes[..otherwise].iter().flatten().any(|before| *before == of);
            sets.insert(taken(routes, several, |of| holds(of, !is_before(of))));
        }
    }
    sets.retain(|set| set.contains(&true));
    sets
}

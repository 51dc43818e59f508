//! The sets of arms that a router can take, derived from its conditions when a workflow is built.
//! `arm_questions.rs` enumerates the answers.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::arm_questions::{Asks, Questions, word_of_condition};
use super::bit_set::BitSet;
use super::condition::Condition;
use super::graph_body::GraphBody;
use super::spec::{Body, PlanNode};

/// A set of arm indexes of a router.
pub(super) type Arms = BitSet;

/// The sets of arms that a router can take.
#[derive(Debug, Default)]
pub(super) struct ArmSets {
    /// The maximal sets.
    pub(super) most: Vec<Arms>,
    /// The minimal sets, each with one arm in it that serves as its name. Empty if code chooses a
    /// set of arms.
    pub(super) least: Vec<(usize, Arms)>,
}

impl ArmSets {
    pub(super) fn of(router: &PlanNode) -> Self {
        let Body::Router { arms, several, .. } = &router.body else { return Self::default() };
        match routes(router) {
            Some(routes) => Self::of_routes(&routes, *several),
            None => of_code(arms.len(), *several),
        }
    }

    fn of_routes(routes: &[Option<&Condition>], several: bool) -> Self {
        let count = routes.len();
        let sets = combined(routes, several).unwrap_or_else(|| one_by_one(routes, several));
        let sets: Vec<Arms> = sets.into_iter().collect();
        let mut most = without(&sets, |one, larger| one.is_within(larger), true);
        // An arm without a condition counts as possible even if the conditions before it cover all
        // cases.
        let last = routes.iter().position(|when| constant(*when) == Some(true)).unwrap_or(count);
        most.extend(
            routes[..last].iter().position(Option::is_none).map(|at| Arms::of(count, [at])),
        );
        // Arms that are in all sets would be poor names.
        let mut in_all = Arms::all(count);
        sets.iter().for_each(|set| in_all.keep(set.words()));
        let name = |set: &Arms| {
            set.iter().find(|arm| !in_all.contains(*arm)).or_else(|| set.iter().next())
        };
        let smallest = without(&sets, |one, smaller| smaller.is_within(one), false);
        let least = smallest.into_iter().filter_map(|set| Some((name(&set)?, set))).collect();
        Self { most, least }
    }

    /// Returns the arms that are in any of the sets.
    pub(super) fn ever_taken(&self) -> Arms {
        let mut taken = Arms::default();
        self.most.iter().for_each(|set| taken.add(set.words()));
        taken
    }
}

/// Removes the sets for which `more` relates them to a larger set, or to a smaller one.
fn without(sets: &[Arms], more: impl Fn(&Arms, &Arms) -> bool, larger: bool) -> Vec<Arms> {
    let mut by_size: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    sets.iter().enumerate().for_each(|(at, set)| by_size.entry(set.len()).or_default().push(at));
    let mut sizes: Vec<Vec<usize>> = by_size.into_values().collect();
    if larger {
        sizes.reverse();
    }
    // Sets of the same size cannot contain each other, so only sets of other sizes are compared.
    let mut kept: Vec<usize> = Vec::new();
    for mut of_size in sizes {
        of_size.retain(|at| !kept.iter().any(|other| more(&sets[*at], &sets[*other])));
        kept.append(&mut of_size);
    }
    kept.sort_unstable();
    kept.into_iter().map(|at| sets[at].clone()).collect()
}

/// Returns the conditions of a router that is data.
fn routes(router: &PlanNode) -> Option<Vec<Option<&Condition>>> {
    match router.does.as_deref() {
        Some(GraphBody::Route(routes)) => {
            Some(routes.arms.iter().map(|arm| arm.when.as_ref()).collect())
        }
        _ => None,
    }
}

/// Returns the sets of a router whose arms are chosen by code, which may take any arm.
fn of_code(count: usize, several: bool) -> ArmSets {
    let each: Vec<(usize, Arms)> = (0..count).map(|arm| (arm, Arms::of(count, [arm]))).collect();
    match several {
        true => ArmSets { most: vec![Arms::all(count)], least: Vec::new() },
        false => ArmSets { most: each.iter().map(|(_, arms)| arms.clone()).collect(), least: each },
    }
}

fn constant(when: Option<&Condition>) -> Option<bool> {
    when.and_then(Condition::constant)
}

/// Computes the sets by enumerating all combinations of answers. Returns `None` if there are too
/// many.
fn combined(routes: &[Option<&Condition>], several: bool) -> Option<BTreeSet<Arms>> {
    let mut questions = Questions::default();
    let mut asks: Vec<Option<Asks>> = Vec::with_capacity(routes.len());
    for when in routes {
        asks.push(match when {
            Some(when) => Some(questions.asked(when)?),
            None => None,
        });
    }
    let combinations = questions.combinations()?;
    let sets = combinations.into_iter().map(|held| {
        let answers = held.into_iter().collect();
        let holds =
            (0..).zip(&asks).map(|(at, asks)| (at, asks.as_ref().map(|asks| asks.holds(&answers))));
        taken(routes.len(), several, holds)
    });
    Some(sets.filter(|set| !set.is_empty()).collect())
}

/// Returns the arms that are taken in a run, given the result of each condition. An arm without a
/// condition has `None`.
fn taken(count: usize, several: bool, holds: impl Iterator<Item = (usize, Option<bool>)>) -> Arms {
    let mut taken = Arms::none(count);
    let mut is_taken = false;
    for (at, holds) in holds {
        if holds.unwrap_or(!is_taken) {
            taken.insert(at);
            is_taken = true;
            if !several {
                break;
            }
        }
    }
    taken
}

/// Approximates the sets: none of the conditions holds, each holds alone, or all hold.
fn one_by_one(routes: &[Option<&Condition>], several: bool) -> BTreeSet<Arms> {
    let count = routes.len();
    let constants: Vec<Option<bool>> = routes.iter().map(|when| constant(*when)).collect();
    let otherwise = routes.iter().position(Option::is_none);
    let always = Arms::of(count, (0..count).filter(|at| constants[*at] == Some(true)));
    let first_always = always.iter().next();
    let with = |taken: Vec<usize>| {
        let first = taken.iter().copied().chain(first_always).min().unwrap_or(count);
        let otherwise = otherwise.filter(|at| *at < first);
        if !several {
            return Arms::of(count, otherwise.or(Some(first).filter(|at| *at < count)));
        }
        let mut set = always.clone();
        taken.into_iter().chain(otherwise).for_each(|at| set.insert(at));
        set
    };
    let all: Vec<Vec<usize>> = same_conditions(routes, &constants);
    let mut sets: BTreeSet<Arms> = all.iter().map(|same| with(same.clone())).collect();
    sets.insert(with(Vec::new()));
    if several {
        sets.insert(with(all.concat()));
        // The arm without a condition is taken if no earlier condition holds. All later conditions
        // may hold then.
        if let Some(otherwise) = otherwise {
            sets.insert(with(
                all.iter().filter(|same| same[0] > otherwise).flatten().copied().collect(),
            ));
        }
    }
    sets.retain(|set| !set.is_empty());
    sets
}

/// Groups the arms whose conditions depend on outputs by equal conditions.
fn same_conditions(routes: &[Option<&Condition>], constants: &[Option<bool>]) -> Vec<Vec<usize>> {
    let mut all: Vec<Vec<usize>> = Vec::new();
    let mut by_word: HashMap<String, Vec<usize>> = HashMap::new();
    for (at, when) in routes.iter().enumerate() {
        let Some(when) = when.filter(|_| constants[at].is_none()) else { continue };
        let similar = by_word.entry(word_of_condition(when)).or_default();
        match similar.iter().find(|of| routes[all[**of][0]] == Some(when)) {
            Some(same) => all[*same].push(at),
            None => {
                similar.push(all.len());
                all.push(vec![at]);
            }
        }
    }
    all
}

#[cfg(all(test, feature = "dynamic"))]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::value::Encoded;
    use crate::workflow::mapping::{Mapping, Scope};
    use crate::workflow::outputs::CopiedOutputs;

    /// The constants in the conditions, and one further value.
    fn values() -> Vec<Value> {
        vec![json!(null), json!("a"), json!("b"), json!(1), json!(true), json!("other")]
    }

    fn conditions() -> impl Strategy<Value = Condition> {
        let part =
            prop_oneof![Just("/p"), Just("/q")].prop_map(|at| Mapping::from_part("order", at));
        let constant = (0..values().len() - 1).prop_map(|at| Mapping::Value(values().remove(at)));
        let leaf = prop_oneof![
            part.clone().prop_map(Condition::Exists),
            (part.clone(), constant.clone())
                .prop_map(|(part, value)| Condition::Equals(part, value)),
            (part, constant).prop_map(|(part, value)| Condition::Equals(value, part)),
        ];
        leaf.prop_recursive(2, 8, 3, |inner| {
            prop_oneof![
                inner.clone().prop_map(|of| Condition::Not(Box::new(of))),
                prop::collection::vec(inner.clone(), 0..3).prop_map(Condition::All),
                prop::collection::vec(inner, 0..3).prop_map(Condition::Any),
            ]
        })
    }

    /// Computes the sets by evaluating the conditions for all values, as a run does.
    fn by_values(routes: &[Option<&Condition>], several: bool) -> BTreeSet<Vec<bool>> {
        let names = HashMap::from([("order".to_owned(), 0)]);
        let all = values();
        let pairs = all.iter().flat_map(|p| all.iter().map(move |q| json!({"p": p, "q": q})));
        let sets = pairs.map(|order| {
            let outputs = BTreeMap::from([(0, Encoded::new(&order).unwrap())]);
            let outputs = CopiedOutputs { outputs, ..CopiedOutputs::default() };
            let scope = Scope { names: &names, outputs: &outputs, item: None };
            let mut taken = Vec::new();
            for when in routes {
                let is_taken = taken.contains(&true);
                let holds = when.map_or(!is_taken, |when| when.holds(&scope).unwrap());
                taken.push(holds && (several || !is_taken));
            }
            taken
        });
        sets.filter(|set| set.contains(&true)).collect()
    }

    proptest! {
        #[test]
        fn the_sets_are_those_that_some_value_leads_to(
            conditions in prop::collection::vec(prop::option::weighted(0.9, conditions()), 1..6),
            several in any::<bool>(),
        ) {
            let routes: Vec<Option<&Condition>> = conditions.iter().map(Option::as_ref).collect();
            let expected = by_values(&routes, several);
            let list = |set: &Arms| (0..routes.len()).map(|arm| set.contains(arm)).collect::<Vec<bool>>();
            let is_within = |one: &Vec<bool>, other: &Vec<bool>| {
                one != other && one.iter().zip(other).all(|(one, other)| one <= other)
            };
            let sets = ArmSets::of_routes(&routes, several);
            let least: Vec<Vec<bool>> = sets.least.iter().map(|(_, set)| list(set)).collect();
            let smallest = expected.iter().filter(|one| !expected.iter().any(|other| is_within(other, one)));
            prop_assert_eq!(&least, &smallest.cloned().collect::<Vec<_>>());
            prop_assert!(sets.least.iter().all(|(arm, set)| set.contains(*arm)));
            let most: BTreeSet<Vec<bool>> = sets.most.iter().map(list).collect();
            let largest = expected.iter().filter(|one| !expected.iter().any(|other| is_within(one, other)));
            // An arm without a condition counts as possible even if it is not.
            let otherwise = (0..routes.len()).find(|at| routes[*at].is_none()).map(|arm| list(&Arms::of(routes.len(), [arm])));
            let is_new = |set: &&Vec<bool>| Some(*set) != otherwise.as_ref();
            prop_assert_eq!(
                most.iter().filter(is_new).collect::<Vec<_>>(),
                largest.filter(is_new).collect::<Vec<_>>()
            );
            // The approximation may contain more and larger sets.
            let more = one_by_one(&routes, several);
            prop_assert!(expected.iter().all(|set| several || more.iter().any(|more| list(more) == *set)));
        }
    }
}

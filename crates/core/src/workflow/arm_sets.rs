//! The sets of arms that a router can take, derived from its conditions when a workflow is built.
//!
//! Conditions are compared with each other only in simple forms: equal conditions hold together,
//! and conditions that require different values of one part exclude each other. All others are
//! taken to be independent.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde_json::Value;

use super::bit_set::BitSet;
use super::condition::Condition;
use super::graph_body::GraphBody;
use super::mapping::Mapping;
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
    pub(super) fn from_router(router: &PlanNode) -> Self {
        let Body::Router { arms, several, .. } = &router.body else { return Self::default() };
        match routes(router) {
            Some(routes) => Self::of_routes(&routes, *several),
            None => of_code(arms.len(), *several),
        }
    }

    fn of_routes(routes: &[Option<&Condition>], several: bool) -> Self {
        let count = routes.len();
        let sets: Vec<Arms> = possible_sets(routes, several).into_iter().collect();
        let most = without(&sets, |one, larger| one.is_within(larger), true);
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
    let each: Vec<(usize, Arms)> =
        (0..count).map(|arm| (arm, Arms::from_numbers(count, [arm]))).collect();
    match several {
        true => ArmSets { most: vec![Arms::all(count)], least: Vec::new() },
        false => ArmSets { most: each.iter().map(|(_, arms)| arms.clone()).collect(), least: each },
    }
}

fn constant(when: Option<&Condition>) -> Option<bool> {
    when.and_then(Condition::constant)
}

/// Returns the sets that are considered: none of the conditions holds, each holds alone, or all
/// hold. Conditions that exclude each other do not hold together.
fn possible_sets(routes: &[Option<&Condition>], several: bool) -> BTreeSet<Arms> {
    let count = routes.len();
    let constants: Vec<Option<bool>> = routes.iter().map(|when| constant(*when)).collect();
    let otherwise = routes.iter().position(Option::is_none);
    let always = Arms::from_numbers(count, (0..count).filter(|at| constants[*at] == Some(true)));
    let first_always = always.iter().next();
    let with = |taken: &[usize]| {
        let first = taken.iter().copied().chain(first_always).min().unwrap_or(count);
        let otherwise = otherwise.filter(|at| *at < first);
        if !several {
            return Arms::from_numbers(count, otherwise.or(Some(first).filter(|at| *at < count)));
        }
        let mut set = always.clone();
        taken.iter().copied().chain(otherwise).for_each(|at| set.insert(at));
        set
    };
    let groups = same_conditions(routes, &constants);
    let mut sets: BTreeSet<Arms> = groups.iter().map(|group| with(group)).collect();
    sets.insert(with(&[]));
    let first_of_each: Vec<&Condition> =
        groups.iter().filter_map(|group| routes[group[0]]).collect();
    if several && !exclude_each_other(&first_of_each) {
        sets.insert(with(&groups.concat()));
        // The arm without a condition is taken if no earlier condition holds. All later conditions
        // may hold then.
        if let Some(otherwise) = otherwise {
            let later = groups.iter().filter(|group| group[0] > otherwise);
            sets.insert(with(&later.flatten().copied().collect::<Vec<_>>()));
        }
    }
    sets.retain(|set| !set.is_empty());
    sets
}

/// Groups the arms whose conditions depend on outputs by equal conditions.
fn same_conditions(routes: &[Option<&Condition>], constants: &[Option<bool>]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut by_text: HashMap<String, usize> = HashMap::new();
    for (at, when) in routes.iter().enumerate() {
        let Some(when) = when.filter(|_| constants[at].is_none()) else { continue };
        let text = serde_json::to_string(when).unwrap_or_default();
        let group = *by_text.entry(text).or_insert(groups.len());
        if group == groups.len() {
            groups.push(Vec::new());
        }
        groups[group].push(at);
    }
    groups
}

/// Returns `true` if at most one of the conditions can hold: they require different values of the
/// same part, or one of two is the negation of the other.
fn exclude_each_other(conditions: &[&Condition]) -> bool {
    match conditions {
        [one, Condition::Not(other)] | [Condition::Not(other), one] if *one == &**other => {
            return true;
        }
        _ => {}
    }
    let mut seen = HashSet::new();
    let mut part = None;
    conditions.iter().all(|condition| {
        let Some((of, values)) = required_values(condition) else { return false };
        *part.get_or_insert(of) == of && values.into_iter().all(|value| seen.insert(value))
    })
}

/// Returns the only values of a part for which a condition can hold, as JSON, or `None` if there
/// is no such list.
fn required_values(condition: &Condition) -> Option<(&Mapping, BTreeSet<String>)> {
    let only = |value: &Value| Some(BTreeSet::from([value.to_string()]));
    match condition {
        Condition::Is(part) => Some((part, only(&Value::Bool(true))?)),
        Condition::Not(other) => match &**other {
            // A value that is not a boolean is a failure.
            Condition::Is(part) => Some((part, only(&Value::Bool(false))?)),
            _ => None,
        },
        Condition::Equals(part, Mapping::Value(value))
        | Condition::Equals(Mapping::Value(value), part) => match value {
            Value::Null | Value::Bool(_) | Value::String(_) => Some((part, only(value)?)),
            Value::Number(number) if !number.is_f64() => Some((part, only(value)?)),
            // Equal values of these types can have different texts.
            Value::Number(_) | Value::Array(_) | Value::Object(_) => None,
        },
        Condition::All(all) => all.iter().find_map(required_values),
        Condition::Any(any) => {
            let mut each = any.iter().map(required_values);
            let (part, mut values) = each.next()??;
            for one in each {
                let (of, more) = one?;
                if of != part {
                    return None;
                }
                values.extend(more);
            }
            Some((part, values))
        }
        Condition::Cel(_) | Condition::Exists(_) | Condition::Equals(..) => None,
    }
}

#[cfg(all(test, feature = "dynamic"))]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::value::Encoded;
    use crate::workflow::mapping::Scope;
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
        fn the_sets_bound_each_choice_that_some_value_leads_to(
            conditions in prop::collection::vec(prop::option::weighted(0.9, conditions()), 1..6),
            several in any::<bool>(),
        ) {
            let routes: Vec<Option<&Condition>> = conditions.iter().map(Option::as_ref).collect();
            let list = |set: &Arms| (0..routes.len()).map(|arm| set.contains(arm)).collect::<Vec<bool>>();
            let is_within = |one: &[bool], other: &[bool]| one.iter().zip(other).all(|(one, other)| one <= other);
            let sets = ArmSets::of_routes(&routes, several);
            let least: Vec<Vec<bool>> = sets.least.iter().map(|(_, set)| list(set)).collect();
            let most: Vec<Vec<bool>> = sets.most.iter().map(list).collect();
            for taken in by_values(&routes, several) {
                prop_assert!(least.iter().any(|set| is_within(set, &taken)), "{taken:?} {least:?}");
                prop_assert!(most.iter().any(|set| is_within(&taken, set)), "{taken:?} {most:?}");
            }
            prop_assert!(sets.least.iter().all(|(arm, set)| set.contains(*arm)));
        }
    }
}

//! Compares a run of a workflow with a run of the plain function: the result, each effect, and the
//! order of the effects.
//!
//! Rules: actions happen in the written order, except that reads and checks may overtake reads, and
//! that items of a group, such as a `map!`, may run concurrently. A check holds back the later
//! actions of its function; a call of another function that only checks counts as a read. Unordered
//! actions wait only for checks and answers. After a crash a read, a check, a question and an
//! idempotent write may be repeated. Another write is repeated only if an operator retried it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::actions::{Act, Entry, Noted};
use super::tokens::strip;

/// Class of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Both succeed with different results.
    Result,
    /// Both fail with different errors.
    Error,
    /// The function succeeds and the workflow fails.
    Fails,
    /// The function fails and the workflow succeeds.
    Succeeds,
    /// The workflow performs an action that the function does not perform.
    Extra,
    /// The workflow performs an action that the function would perform only after its failure.
    ExtraAfterFailure,
    /// An action is repeated more often than allowed.
    Twice,
    /// The workflow does not perform an action.
    Missing,
    /// Both fail, and the workflow does not perform an action that precedes the failure in the
    /// function.
    MissingBeforeFailure,
    /// An action happens too early.
    Order,
    /// Readers of one value see different values, or the reverse.
    Values,
    /// The journal is not well-formed.
    Journal,
    /// The run does not end, cannot be resumed, or panics.
    Machine,
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A difference.
#[derive(Clone, Debug)]
pub struct Difference {
    /// Class of the difference.
    pub class: Class,
    /// Description of the difference.
    pub text: String,
}

/// Outcome and actions of a run.
#[derive(Clone, Debug)]
pub struct Ran {
    /// Result as JSON, or the text of the error.
    pub outcome: Result<String, String>,
    /// `true` if the function panicked. In a workflow a panic is an error.
    pub panicked: bool,
    /// Recorded actions.
    pub log: Vec<Noted>,
}

/// Deviations from the function that are allowed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allowance {
    /// Number of processes that ended during the run.
    pub crashes: usize,
    /// Number of interrupted steps that an operator retried.
    pub retries: usize,
    /// `true` if the error's text may be part of a longer one.
    pub wrapped: bool,
}

/// An action of the function's log, with its position.
struct Leaf {
    key: Entry,
    /// Enclosing groups, each with the index of the item.
    within: Vec<(usize, usize)>,
    /// Enclosing calls of other generated functions.
    calls: Vec<usize>,
}

impl Leaf {
    /// Returns the effective kind of this action for a later one. A check in a call that has ended
    /// counts as a read.
    fn act_above(&self, below: &Self) -> Act {
        match self.key.act {
            Act::Check if !below.calls.starts_with(&self.calls) => Act::Read,
            act => act,
        }
    }

    /// Returns `true` if this is the check that produced the error.
    fn fails_with(&self, error: &str) -> bool {
        let Entry { act, name, site, text } = &self.key;
        *act == Act::Check
            && (error == format!("assertion {site}")
                || error == format!("call {site} refuses {text}"))
            && matches!(*name, "holds" | "check")
    }
}

impl Act {
    /// Returns `true` if later actions wait for this one.
    fn is_barrier(self) -> bool {
        matches!(self, Self::Check | Self::Gate)
    }

    /// Returns how often an action may be repeated, given how often the function performs it.
    fn more(self, often: usize, allowance: Allowance) -> usize {
        match self {
            Self::Write | Self::Unordered => often * allowance.retries,
            // An ending process may read once more before it is gone.
            Self::Read => 2 * often * allowance.crashes + allowance.retries,
            _ => often * allowance.crashes + allowance.retries,
        }
    }
}

type Values = BTreeMap<String, BTreeSet<String>>;

/// Returns all differences.
pub fn judge(function: &Ran, workflow: &Ran, allowance: Allowance) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut differs = |class, text: String| found.push(Difference { class, text });
    let (mut expected_values, mut seen_values) = (Values::new(), Values::new());
    let leaves = leaves(&function.log, &mut expected_values);
    let seen: Vec<Entry> = entries(&workflow.log, &mut seen_values).collect();
    let fails = function.outcome.is_err();

    match (
        outcome(&function.outcome, &mut expected_values),
        outcome(&workflow.outcome, &mut seen_values),
    ) {
        (Ok(expected), Ok(seen)) if expected != seen => {
            differs(Class::Result, format!("the result is {seen} and should be {expected}"));
        }
        (Err(expected), Err(seen))
            if expected != seen
                && !((allowance.wrapped || function.panicked) && seen.contains(&expected)) =>
        {
            differs(
                Class::Error,
                format!("it fails with `{seen}` and should fail with `{expected}`"),
            );
        }
        (Ok(_), Err(seen)) => {
            differs(Class::Fails, format!("it fails with `{seen}` and should not fail"));
        }
        (Err(expected), Ok(_)) => {
            differs(Class::Succeeds, format!("it does not fail and should: `{expected}`"));
        }
        _ => {}
    }

    let mut expected: BTreeMap<&Entry, usize> = BTreeMap::new();
    leaves.iter().for_each(|leaf| *expected.entry(&leaf.key).or_default() += 1);
    let mut counts: BTreeMap<&Entry, usize> = BTreeMap::new();
    seen.iter().for_each(|entry| *counts.entry(entry).or_default() += 1);
    // Later items of the group that contains the failing item may have started.
    let in_group = fails && ends_within_a_group(&function.log);
    let after_check = match (&function.outcome, leaves.last()) {
        (Err(error), Some(last)) => last.calls.is_empty() && last.fails_with(error),
        _ => false,
    };
    for (entry, count) in &counts {
        match expected.get(entry) {
            _ if in_group => {}
            // An unordered action may precede the failure, even in an item that the function does
            // not reach.
            _ if fails && entry.act == Act::Unordered => {}
            Some(expected) if *count > expected + entry.act.more(*expected, allowance) => {
                differs(
                    Class::Twice,
                    format!("{entry} happens {count} times and should {expected} times"),
                );
            }
            Some(_) => {}
            None if !fails => differs(Class::Extra, format!("{entry} happens and should not")),
            None if !matches!(entry.act, Act::Read | Act::Check) || after_check => {
                differs(
                    Class::ExtraAfterFailure,
                    format!("{entry} happens although the function fails before"),
                );
            }
            None => {}
        }
    }
    for (entry, expected) in &expected {
        let count = counts.get(entry).copied().unwrap_or(0);
        match fails {
            _ if count >= *expected => {}
            false => differs(
                Class::Missing,
                format!("{entry} happens {count} times and should {expected} times"),
            ),
            true if in_group || matches!(entry.act, Act::Read | Act::Check | Act::Unordered) => {}
            true => differs(
                Class::MissingBeforeFailure,
                format!("{entry} happens before the failure and did not"),
            ),
        }
    }
    if let Some(text) = disorder(&leaves, &seen) {
        differs(Class::Order, text);
    }
    if !fails && workflow.outcome.is_ok() {
        for (token, values) in &seen_values {
            let expected = expected_values.get(token).map_or(0, BTreeSet::len);
            if values.len() != expected {
                differs(
                    Class::Values,
                    format!(
                        "`{token}` is {} values ({values:?}) and should be {expected}",
                        values.len()
                    ),
                );
            }
        }
    }
    found
}

/// Finds the first action that happened too early. Repetitions are not checked.
fn disorder(leaves: &[Leaf], seen: &[Entry]) -> Option<String> {
    let mut search = Search { leaves, seen, tried: BTreeSet::new(), deepest: 0, problem: None };
    match search.fits(0, &mut vec![false; leaves.len()]) {
        true => None,
        false => search.problem,
    }
}

/// A search that assigns each performed action to an action of the function. Several items of a
/// group may perform the same action, so it backtracks.
struct Search<'a> {
    leaves: &'a [Leaf],
    seen: &'a [Entry],
    tried: BTreeSet<(usize, Vec<bool>)>,
    deepest: usize,
    problem: Option<String>,
}

impl Search<'_> {
    fn fits(&mut self, at: usize, happened: &mut Vec<bool>) -> bool {
        let Some(entry) = self.seen.get(at) else { return true };
        // Gives up on a long search, which then reports no difference.
        if self.tried.len() > 20_000 {
            return true;
        }
        if !self.tried.insert((at, happened.clone())) {
            return false;
        }
        let (mut missing, mut again, mut known) = (None, false, false);
        for next in 0..self.leaves.len() {
            let leaf = &self.leaves[next];
            if leaf.key != *entry {
                continue;
            }
            known = true;
            if happened[next] {
                again = true;
                continue;
            }
            let waits =
                |before: &usize| !happened[*before] && comes_before(&self.leaves[*before], leaf);
            match (0..next).find(waits) {
                Some(before) => missing = missing.or(Some(before)),
                None => {
                    happened[next] = true;
                    if self.fits(at + 1, happened) {
                        return true;
                    }
                    happened[next] = false;
                }
            }
        }
        if (again || !known) && self.fits(at + 1, happened) {
            return true;
        }
        if let Some(before) = missing
            && (self.problem.is_none() || at > self.deepest)
        {
            self.deepest = at;
            let before = &self.leaves[before].key;
            self.problem =
                Some(format!("{entry} happens before {before}, which is written above it"));
        }
        false
    }
}

/// Returns `true` if the first action, which is written before the second, must happen before it.
fn comes_before(first: &Leaf, second: &Leaf) -> bool {
    let waits = match (first.act_above(second), second.key.act) {
        (first, _) if first.is_barrier() => true,
        (Act::Unordered, _) | (_, Act::Unordered) | (Act::Read, Act::Read | Act::Check) => false,
        _ => true,
    };
    let beside = first.within.iter().any(|(group, item)| {
        second.within.iter().any(|(other, its)| other == group && its != item)
    });
    waits && !beside
}

fn ends_within_a_group(log: &[Noted]) -> bool {
    let count = |mark: &Noted| log.iter().filter(|noted| *noted == mark).count();
    count(&Noted::Open) > count(&Noted::Close)
}

fn leaves(log: &[Noted], values: &mut Values) -> Vec<Leaf> {
    let (mut leaves, mut within, mut calls, mut groups, mut called) =
        (Vec::new(), Vec::new(), Vec::new(), 0, 0);
    for noted in log {
        match noted {
            Noted::Entry(entry) => {
                leaves.push(Leaf {
                    key: key(entry, values),
                    within: within.clone(),
                    calls: calls.clone(),
                });
            }
            Noted::Open => {
                groups += 1;
                within.push((groups, 0));
            }
            Noted::Item => within.last_mut().expect("an item is within a group").1 += 1,
            Noted::Close => drop(within.pop()),
            Noted::Enter => {
                called += 1;
                calls.push(called);
            }
            Noted::Leave => drop(calls.pop()),
            Noted::Crash => {}
        }
    }
    // The function ended within these groups, so another item may have failed first and look like
    // the known one.
    for (at, leaf) in leaves.iter_mut().enumerate() {
        for (group, item) in &mut leaf.within {
            if within.iter().any(|(open, _)| open == group) {
                *item = at;
            }
        }
    }
    leaves
}

fn entries<'a>(log: &'a [Noted], values: &'a mut Values) -> impl Iterator<Item = Entry> + 'a {
    log.iter().filter_map(|noted| match noted {
        Noted::Entry(entry) => Some(key(entry, values)),
        _ => None,
    })
}

fn key(entry: &Entry, values: &mut Values) -> Entry {
    Entry { text: strip(&entry.text, values), ..entry.clone() }
}

fn outcome(outcome: &Result<String, String>, values: &mut Values) -> Result<String, String> {
    match outcome {
        Ok(result) => Ok(strip(result, values)),
        Err(error) => Err(strip(error, values)),
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} `{}#{}({})`", self.act, self.name, self.site, self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(act: Act, site: u64) -> Noted {
        Noted::Entry(Entry { act, name: "f", site, text: String::new() })
    }

    fn ran(log: Vec<Noted>) -> Ran {
        Ran { outcome: Ok("1".to_owned()), panicked: false, log }
    }

    fn classes(function: &Ran, workflow: &Ran) -> Vec<Class> {
        let found = judge(function, workflow, Allowance::default());
        found.into_iter().map(|difference| difference.class).collect()
    }

    #[test]
    fn only_reads_beside_reads_may_change_places() {
        let [write, first, second] =
            [entry(Act::Write, 1), entry(Act::Read, 2), entry(Act::Read, 3)];
        let function = ran(vec![first.clone(), second.clone(), write.clone()]);
        assert_eq!(
            classes(&function, &ran(vec![second.clone(), first.clone(), write.clone()])),
            []
        );
        assert_eq!(
            classes(&function, &ran(vec![first.clone(), write.clone(), second.clone()])),
            [Class::Order]
        );
        let function = ran(vec![write.clone(), first.clone()]);
        assert_eq!(classes(&function, &ran(vec![first, write])), [Class::Order]);
    }

    #[test]
    fn nothing_overtakes_a_gate() {
        let function = ran(vec![entry(Act::Gate, 0), entry(Act::Read, 2)]);
        let early = ran(vec![entry(Act::Read, 2), entry(Act::Gate, 0)]);
        assert_eq!(classes(&function, &early), [Class::Order]);
    }

    #[test]
    fn a_check_holds_back_what_is_below_it_in_its_function() {
        let [check, within, read, write] =
            [entry(Act::Check, 1), entry(Act::Read, 2), entry(Act::Read, 3), entry(Act::Write, 4)];
        let all = [
            Noted::Enter,
            check.clone(),
            within.clone(),
            Noted::Leave,
            read.clone(),
            write.clone(),
        ];
        let function = ran(all.to_vec());
        assert_eq!(
            classes(
                &function,
                &ran(vec![read.clone(), check.clone(), within.clone(), write.clone()])
            ),
            []
        );
        let order = |log: [&Noted; 4]| classes(&function, &ran(log.into_iter().cloned().collect()));
        assert_eq!(order([&within, &check, &read, &write]), [Class::Order]);
        assert_eq!(order([&read, &write, &check, &within]), [Class::Order]);
    }

    #[test]
    fn reads_begin_beside_what_fails_and_not_below_a_check_that_fails() {
        let check =
            Noted::Entry(Entry { act: Act::Check, name: "check", site: 1, text: "7".to_owned() });
        let fails = |error: &str, log: &[&Noted]| Ran {
            outcome: Err(error.to_owned()),
            ..ran(log.iter().map(|noted| (*noted).clone()).collect())
        };
        let (read, own, of_a_step) = (entry(Act::Read, 2), "call 1 refuses 7", "call 3 refuses 7");
        let classes =
            |error, log: &[&Noted]| classes(&fails(error, log), &fails(error, &[&check, &read]));
        assert_eq!(classes(own, &[&check]), [Class::ExtraAfterFailure]);
        assert_eq!(classes(own, &[&Noted::Enter, &check, &Noted::Leave]), []);
        assert_eq!(classes(of_a_step, &[&check]), []);
    }

    #[test]
    fn items_of_a_group_may_interleave_and_not_leave_it() {
        let write = |site| entry(Act::Write, site);
        let (open, item, close) = (Noted::Open, Noted::Item, Noted::Close);
        let function = ran(vec![
            write(1),
            open,
            item.clone(),
            write(2),
            write(3),
            item,
            write(4),
            write(5),
            close,
            write(6),
        ]);
        let order = |sites: [u64; 6]| ran(sites.map(write).to_vec());
        assert_eq!(classes(&function, &order([1, 4, 2, 5, 3, 6])), []);
        assert_eq!(classes(&function, &order([1, 4, 3, 5, 2, 6])), [Class::Order]);
        assert_eq!(classes(&function, &order([1, 4, 2, 6, 5, 3])), [Class::Order]);
    }

    #[test]
    fn items_that_do_the_same_differ_in_what_follows() {
        let write = |site| entry(Act::Write, site);
        let (open, item, close) = (Noted::Open, Noted::Item, Noted::Close);
        let function =
            ran(vec![open, item.clone(), write(1), write(2), item, write(1), write(3), close]);
        assert_eq!(classes(&function, &ran([1, 3, 1, 2].map(write).to_vec())), []);
        assert_eq!(classes(&function, &ran([1, 3, 2, 1].map(write).to_vec())), [Class::Order]);
    }

    #[test]
    fn any_item_may_be_the_one_that_fails() {
        let [first, second] = [entry(Act::Write, 1), entry(Act::Check, 2)];
        let fails = |log: &[&Noted]| Ran {
            outcome: Err("no".to_owned()),
            ..ran(log.iter().map(|noted| (*noted).clone()).collect())
        };
        let another = fails(&[&second]);
        assert_eq!(classes(&fails(&[&Noted::Open, &Noted::Item, &first, &second]), &another), []);
        assert_eq!(
            classes(&fails(&[&first, &Noted::Open, &Noted::Item, &second]), &another),
            [Class::Order]
        );
    }

    #[test]
    fn a_write_happens_once_unless_an_operator_says_so() {
        let function = ran(vec![entry(Act::Write, 1), entry(Act::Read, 2)]);
        let twice = ran(vec![
            entry(Act::Write, 1),
            entry(Act::Read, 2),
            entry(Act::Write, 1),
            entry(Act::Read, 2),
        ]);
        let with = |crashes, retries| {
            let found = judge(&function, &twice, Allowance { crashes, retries, wrapped: false });
            found.into_iter().map(|difference| difference.class).collect::<Vec<_>>()
        };
        assert_eq!(with(0, 0), [Class::Twice, Class::Twice]);
        assert_eq!(with(1, 0), [Class::Twice]);
        assert_eq!(with(1, 1), []);
        assert_eq!(classes(&function, &ran(vec![entry(Act::Write, 1)])), [Class::Missing]);
    }

    #[test]
    fn readers_of_one_value_see_one_value() {
        let said =
            |text: &str| Ran { outcome: Ok(text.to_owned()), panicked: false, log: Vec::new() };
        let function = said("<id.1.5> <id.1.5>");
        assert_eq!(classes(&function, &said("<id.1.8> <id.1.8>")), []);
        assert_eq!(classes(&function, &said("<id.1.8> <id.1.9>")), [Class::Values]);
    }
}

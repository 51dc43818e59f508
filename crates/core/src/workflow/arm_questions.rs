//! The atomic questions in the conditions of a router's arms, each once, and the combinations of
//! answers that are possible.
//!
//! Answers depend on each other: `x` and `not x` never hold together, and a value equals at most
//! one of two constants.

use std::collections::HashMap;

use serde_json::Value;

use super::bit_set::BitSet;
use super::condition::Condition;
use super::mapping::Mapping;

/// Maximum number of combinations that are enumerated.
const COMBINATIONS: usize = 2048;
/// Maximum number of questions without a known structure. Each of them doubles the number of
/// combinations.
const UNKNOWN: usize = COMBINATIONS.ilog2() as usize;

/// An atomic question about an output.
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
            Condition::Equals(one, Mapping::Value(other))
            | Condition::Equals(Mapping::Value(other), one) => Self::Is(one, other.clone()),
            Condition::Exists(value) => Self::Exists(value),
            other => Self::Other(other),
        }
    }

    fn reads(&self) -> Option<&'c Mapping> {
        match self {
            Self::Is(of, _) | Self::Exists(of) => Some(of),
            Self::Other(_) => None,
        }
    }

    fn is_null(&self) -> bool {
        matches!(self, Self::Is(_, Value::Null))
    }

    /// Returns a hash key: equal for equal questions, and different for most others.
    fn word(&self) -> String {
        match self {
            Self::Is(of, value) => format!("{} = {}", mapping_key(of), value_key(value)),
            Self::Exists(of) => mapping_key(of),
            Self::Other(_) => String::new(),
        }
    }
}

/// Returns a hash key for a mapping.
fn mapping_key(mapping: &Mapping) -> String {
    match mapping {
        Mapping::From { node, at, .. } => format!("{node} {at}"),
        Mapping::State { key, at, .. } => format!("state {key} {at}"),
        Mapping::Template(template) => template.to_string(),
        Mapping::Cel(expression) => expression.to_string(),
        _ => String::new(),
    }
}

/// Returns a hash key for a value. Numbers with a fraction have none, since equal numbers may be
/// written in two ways.
pub(super) fn value_key(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) => value.to_string(),
        Value::Number(number) if number.is_i64() || number.is_u64() => number.to_string(),
        _ => String::new(),
    }
}

/// Returns a hash key for a condition: equal for equal conditions.
pub(super) fn word_of_condition(condition: &Condition) -> String {
    match condition {
        Condition::Not(other) => format!("not {}", word_of_condition(other)),
        Condition::All(all) | Condition::Any(all) => {
            format!("{} {}", all.len(), all.first().map(word_of_condition).unwrap_or_default())
        }
        Condition::Cel(expression) => expression.to_string(),
        leaf => Question::of(leaf).word(),
    }
}

/// A condition over questions, by their indexes.
pub(super) enum Asks {
    Constant(bool),
    Not(Box<Asks>),
    All(Vec<Asks>),
    Any(Vec<Asks>),
    Answer(usize),
}

impl Asks {
    /// Returns `true` if the condition holds when exactly these questions are answered with yes.
    pub(super) fn holds(&self, answers: &BitSet) -> bool {
        match self {
            Self::Constant(holds) => *holds,
            Self::Not(other) => !other.holds(answers),
            Self::All(all) => all.iter().all(|of| of.holds(answers)),
            Self::Any(all) => all.iter().any(|of| of.holds(answers)),
            Self::Answer(question) => answers.contains(*question),
        }
    }
}

/// The questions of one router, and the values that they are about.
#[derive(Default)]
pub(super) struct Questions<'c> {
    all: Vec<Question<'c>>,
    /// For each question, the index of the value that it is about.
    about: Vec<Option<usize>>,
    values: Vec<About<'c>>,
    by_word: HashMap<String, Vec<usize>>,
    values_by_word: HashMap<String, Vec<usize>>,
    unknown: usize,
}

/// The questions about one value that constrain others.
struct About<'c> {
    value: &'c Mapping,
    exists: Option<usize>,
    is_null: Option<usize>,
}

impl<'c> Questions<'c> {
    /// Translates a condition into questions. Returns `None` if there are too many questions to
    /// enumerate all answers.
    pub(super) fn asked(&mut self, condition: &'c Condition) -> Option<Asks> {
        if let Some(holds) = condition.constant() {
            return Some(Asks::Constant(holds));
        }
        let mut asked = |all: &'c [Condition]| {
            all.iter().map(|of| self.asked(of)).collect::<Option<Vec<Asks>>>()
        };
        Some(match condition {
            Condition::Not(other) => Asks::Not(Box::new(self.asked(other)?)),
            Condition::All(all) => Asks::All(asked(all)?),
            Condition::Any(all) => Asks::Any(asked(all)?),
            leaf => Asks::Answer(self.number(Question::of(leaf))?),
        })
    }

    /// Returns the index of a question, adding it if it is new.
    fn number(&mut self, question: Question<'c>) -> Option<usize> {
        let same = self.by_word.entry(question.word()).or_default();
        if let Some(at) = same.iter().find(|at| self.all[**at] == question) {
            return Some(*at);
        }
        let at = self.all.len();
        same.push(at);
        let about = question.reads().map(|value| {
            let same = self.values_by_word.entry(mapping_key(value)).or_default();
            let known = same.iter().copied().find(|of| self.values[*of].value == value);
            let of = known.unwrap_or_else(|| {
                same.push(self.values.len());
                self.values.push(About { value, exists: None, is_null: None });
                self.values.len() - 1
            });
            let about = &mut self.values[of];
            match question {
                Question::Exists(_) => about.exists = Some(at),
                _ if question.is_null() => about.is_null = Some(at),
                _ => {}
            }
            of
        });
        self.unknown += usize::from(about.is_none());
        self.about.push(about);
        self.all.push(question);
        (self.unknown <= UNKNOWN).then_some(at)
    }

    /// Enumerates the possible combinations of answers, each as the list of questions that hold.
    /// Returns `None` if there are too many.
    pub(super) fn combinations(&self) -> Option<Vec<Vec<usize>>> {
        let mut open: Vec<Vec<usize>> = vec![Vec::new()];
        for question in 0..self.all.len() {
            let mut more = Vec::new();
            open.retain(|held| {
                if self.may_hold(question, held) {
                    more.push(held.iter().copied().chain([question]).collect());
                }
                self.may_fail(question, held)
            });
            open.append(&mut more);
            if open.len() > COMBINATIONS {
                return None;
            }
        }
        Some(open)
    }

    /// Returns an earlier question of a given kind about the same value.
    fn earlier(&self, question: usize, of: impl Fn(&About<'c>) -> Option<usize>) -> Option<usize> {
        of(&self.values[self.about[question]?]).filter(|other| *other < question)
    }

    /// Returns `true` if a question can hold when `held` are the earlier questions that hold.
    fn may_hold(&self, question: usize, held: &[usize]) -> bool {
        let is = |of: &usize| {
            matches!(self.all[*of], Question::Is(..)) && self.about[*of] == self.about[question]
        };
        match &self.all[question] {
            Question::Is(_, value) => {
                let exists = self.earlier(question, |about| about.exists);
                // A value equals one constant at most, and a missing value equals only `null`.
                !held.iter().any(is)
                    && exists.is_none_or(|exists| held.contains(&exists) != value.is_null())
            }
            Question::Exists(_) => !self
                .earlier(question, |about| about.is_null)
                .is_some_and(|null| held.contains(&null)),
            Question::Other(_) => true,
        }
    }

    /// Returns `true` if a question can fail when `held` are the earlier questions that hold.
    fn may_fail(&self, question: usize, held: &[usize]) -> bool {
        let is_other = |of: &usize| {
            matches!(&self.all[*of], Question::Is(_, value) if !value.is_null())
                && self.about[*of] == self.about[question]
        };
        match &self.all[question] {
            Question::Is(_, Value::Null) => self
                .earlier(question, |about| about.exists)
                .is_none_or(|exists| held.contains(&exists)),
            Question::Exists(_) => {
                let null = self.earlier(question, |about| about.is_null);
                null.is_none_or(|null| held.contains(&null)) && !held.iter().any(is_other)
            }
            Question::Is(..) | Question::Other(_) => true,
        }
    }
}

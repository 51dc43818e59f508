//! The operators of pipelines: `>>` after, `|` beside, `/` in place of, `*` again. They make values and change none.

use std::fmt;
use std::ops::{BitOr, Div, Mul, Shr};
use std::sync::Arc;

use super::Pipeline;
use super::pipeline_part::Kind;

/// The most rounds of a repetition with a condition, unless it says otherwise.
const ROUNDS: u32 = 10;

/// How long a part is repeated; made by [`until`].
#[derive(Clone, PartialEq, Eq)]
pub struct Until {
    pub(super) condition: Option<Arc<str>>,
    pub(super) most: u32,
}

/// Repeats a part, each time with its last output, until a line of [CEL](crate::expression) over `item`, the last output, is
/// `true`: `critic * until("item.score >= 8").max(3)`. At most 10 rounds, unless [`Until::max`] says otherwise; the output is
/// that of the last round, whether or not the condition holds then.
pub fn until(condition: impl Into<Arc<str>>) -> Until {
    Until { condition: Some(condition.into()), most: ROUNDS }
}

impl Until {
    /// The most rounds; at least 1.
    #[must_use]
    pub fn max(mut self, rounds: u32) -> Self {
        self.most = rounds;
        self
    }
}

impl fmt::Debug for Until {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.condition {
            Some(condition) => write!(f, "until({condition:?}).max({})", self.most),
            None => write!(f, "{}", self.most),
        }
    }
}

/// Puts two parts together that stand in a row: parts that were put together so before, and of which nothing else was said,
/// become one row.
fn row(
    one: Pipeline,
    other: Pipeline,
    parts: fn(&Kind) -> Option<Vec<Pipeline>>,
    kind: fn(Vec<Pipeline>) -> Kind,
) -> Pipeline {
    let parts = [one, other].into_iter().flat_map(|pipeline| match parts(&pipeline.0.kind) {
        Some(parts) if pipeline.0.is_bare() => parts,
        _ => vec![pipeline],
    });
    Pipeline::of(kind(parts.collect()))
}

/// An operator of two parts, each given as it is or borrowed.
macro_rules! operator {
    ($(#[$doc:meta])+ $operator:ident, $method:ident, $kind:ident) => {
        $(#[$doc])+
        impl<R: Into<Pipeline>> $operator<R> for Pipeline {
            type Output = Pipeline;

            fn $method(self, other: R) -> Pipeline {
                let parts = |kind: &Kind| match kind {
                    Kind::$kind(parts) => Some(parts.clone()),
                    _ => None,
                };
                row(self, other.into(), parts, Kind::$kind)
            }
        }

        $(#[$doc])+
        impl<R: Into<Pipeline>> $operator<R> for &Pipeline {
            type Output = Pipeline;

            fn $method(self, other: R) -> Pipeline {
                self.clone().$method(other)
            }
        }
    };
}

operator! {
    /// This part, and then the other one, which is given its output.
    Shr, shr, Sequence
}
operator! {
    /// Both at the same time, with the same value; the output is an object of their outputs by their names.
    BitOr, bitor, Parallel
}
operator! {
    /// This part, and when it fails the other one with the same value.
    Div, div, Fallback
}

/// Again and again, each time with the last output: so many times, or until a condition holds.
impl<U: Into<Until>> Mul<U> for Pipeline {
    type Output = Pipeline;

    fn mul(self, until: U) -> Pipeline {
        Pipeline::of(Kind::Repeat(self, until.into()))
    }
}

/// Again and again, each time with the last output: so many times, or until a condition holds.
impl<U: Into<Until>> Mul<U> for &Pipeline {
    type Output = Pipeline;

    fn mul(self, until: U) -> Pipeline {
        self.clone() * until
    }
}

/// So many rounds.
impl From<u32> for Until {
    fn from(rounds: u32) -> Self {
        Self { condition: None, most: rounds }
    }
}

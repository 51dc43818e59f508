//! The operators of pipelines: `>>` sequence, `|` parallel, `/` fallback, `*` repetition. They
//! return new values.

use std::fmt;
use std::ops::{BitOr, Div, Mul, Shr};
use std::sync::Arc;

use super::Pipeline;
use super::pipeline_part::Kind;

/// Default maximum number of rounds of a repetition with a condition.
const ROUNDS: u32 = 10;

/// End condition of a repetition; created by [`until`].
#[derive(Clone, PartialEq, Eq)]
pub struct Until {
    pub(super) condition: Option<Arc<str>>,
    pub(super) most: u32,
}

/// Repeats a part, each time with its previous output, until a line of [CEL](crate::expression)
/// over `item`, the previous output, is `true`: `critic * until("item.score >= 8").max(3)`. The
/// default maximum is 10 rounds; [`Until::max`] sets a different one. The output is the output of
/// the last round, even if the condition does not hold.
pub fn until(condition: impl Into<Arc<str>>) -> Until {
    Until { condition: Some(condition.into()), most: ROUNDS }
}

impl Until {
    /// Sets the maximum number of rounds; at least 1.
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

/// Combines two parts of a row. A part that is a row of the same kind without options is merged
/// into the new row.
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
    Pipeline::from_kind(kind(parts.collect()))
}

/// Implements an operator for two parts, owned or borrowed.
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
    /// Runs the other part after this part, with the output of this part as its input.
    Shr, shr, Sequence
}
operator! {
    /// Runs both parts concurrently with the same input. The output is an object with their outputs
    /// by name.
    BitOr, bitor, Parallel
}
operator! {
    /// Runs the other part with the same input if this part fails.
    Div, div, Fallback
}

/// Repeats the part, each time with its previous output, a number of times or until a condition
/// holds.
impl<U: Into<Until>> Mul<U> for Pipeline {
    type Output = Pipeline;

    fn mul(self, until: U) -> Pipeline {
        Pipeline::from_kind(Kind::Repeat(self, until.into()))
    }
}

/// Repeats the part, each time with its previous output, a number of times or until a condition
/// holds.
impl<U: Into<Until>> Mul<U> for &Pipeline {
    type Output = Pipeline;

    fn mul(self, until: U) -> Pipeline {
        self.clone() * until
    }
}

/// Repeats a part a number of times.
impl From<u32> for Until {
    fn from(rounds: u32) -> Self {
        Self { condition: None, most: rounds }
    }
}

//! Whether every value of one JSON Schema is a value of another. It reads schemas as data; whether one value fits is
//! `schema_check.rs`'s to say.
//!
//! `proof.rs` shows that all values fit, `sample.rs` makes values of a schema until one does not, `accepts.rs` says of one
//! value whether it fits, and `misfit.rs` where it does not. What none of them can show is [`Assignable::Unknown`].
//! `embedded.rs` makes schemas parts of others, `part_at.rs` reads what one says of a part, and `narrowed.rs` what it says once
//! more is known. `value_limits.rs` finds keywords that limit a value beyond its type,
//! `nulls.rs` removes nulls that stand for nothing.

mod accepts;
mod embedded;
mod misfit;
mod narrowed;
mod nulls;
mod part_at;
mod proof;
mod sample;
mod schema_at;
mod value_limits;

use std::fmt;

use serde_json::Value;

use self::accepts::Validator;
pub use self::embedded::{Definitions, part_of};
use self::misfit::{Misfits, misfits};
pub use self::narrowed::{Fact, NarrowedSchema};
pub use self::nulls::without_nulls;
pub use self::part_at::{Lack, lacks, part_at};
use self::proof::Proof;
use self::sample::Samples;
use self::schema_at::At;
pub use self::value_limits::has_limits;

/// The most places that are reported of two schemas.
const MOST: usize = 10;

/// Whether a value of one schema can be given where one of another is asked for: the answer of [`is_assignable`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Assignable {
    /// Every value fits.
    Yes,
    /// There are values that do not fit: the places, at most ten.
    No(Vec<SchemaMismatch>),
    /// Neither could be shown: the schemas use keywords whose effect is not computed, such as `pattern`, or the values
    /// that differ were not found.
    Unknown,
}

impl Assignable {
    /// Whether every value fits.
    pub fn is_yes(&self) -> bool {
        *self == Self::Yes
    }
}

/// A place where a value of one schema does not fit another.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SchemaMismatch {
    /// The place within the value, such as `lines[0].cents`; empty for the value itself.
    pub path: String,
    /// What is asked for there, such as `integer`.
    pub expected: String,
    /// What the other schema gives there, such as `string`.
    pub given: String,
    /// A value that the one schema allows and the other does not.
    pub example: Value,
}

impl fmt::Display for SchemaMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "`{}`: ", self.path)?;
        }
        write!(f, "{} is expected, and {} is given", self.expected, self.given)
    }
}

/// Whether every value of the JSON Schema `from` is a value of the JSON Schema `to`: what produces the one may then be
/// connected to what takes the other.
///
/// The answer is computed from the schemas alone. [`Assignable::Yes`] is a proof; with [`Assignable::No`] there is a value
/// that `from` allows and `to` does not; else it is [`Assignable::Unknown`]. The schemas are those of draft 2020-12, and
/// of earlier drafts as far as they mean the same. Where a `format` decides, such as `email` or `date-time`, the answer is
/// [`Assignable::Unknown`], unless both schemas name it; everything that only describes is not looked at.
///
/// ```
/// use agentflow::schema::{Assignable, is_assignable};
/// use serde_json::json;
///
/// let point = json!({"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]});
/// let place = json!({"type": "object", "properties": {"x": {"type": "number"}}});
/// assert!(is_assignable(&point, &place).is_yes());
/// let Assignable::No(places) = is_assignable(&place, &point) else { panic!() };
/// assert_eq!(places[0].to_string(), "`x`: integer is expected, and sometimes nothing is given");
/// ```
#[doc(alias = "is_assignable_to")]
pub fn is_assignable(from: &Value, to: &Value) -> Assignable {
    compare(from, to, false)
}

/// The same, of a schema that may leave out what its author does not know: what it says nothing of is not held against it.
pub fn is_assignable_as_stated(from: &Value, to: &Value) -> Assignable {
    compare(from, to, true)
}

/// Whether a value is one of a schema, where that can be shown from the schema alone.
pub fn accepts(schema: &Value, value: &Value) -> Option<bool> {
    Validator::default().accepts(At::root(schema), value)
}

/// What of a value a schema refuses, where that can be shown from the schema alone.
///
/// # Errors
/// A line for each place that does not fit.
pub fn refuse_misfits(value: &Value, schema: &Value) -> Result<(), String> {
    match is_assignable(&serde_json::json!({"const": value}), schema) {
        Assignable::No(places) => Err(places.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")),
        _ => Ok(()),
    }
}

/// A schema in a few words, such as `list of string`; `whole` is what its references point into.
pub fn words(schema: &Value, whole: &Value) -> String {
    misfit::words(At { root: whole, schema })
}

fn compare(from: &Value, to: &Value, as_stated: bool) -> Assignable {
    let (from, to) = (At::root(from), At::root(to));
    if Proof::default().holds(from, to) {
        return Assignable::Yes;
    }
    let validator = Validator::default();
    let mut found = Misfits::new(from, as_stated);
    for sample in Samples::new(to).of(from) {
        if validator.accepts(from, &sample) == Some(true) && validator.accepts(to, &sample) == Some(false) {
            misfits(to, &sample, &mut found);
            if found.places.len() >= MOST {
                break;
            }
        }
    }
    match found.places.is_empty() {
        true => Assignable::Unknown,
        false => Assignable::No(found.places),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_that_cannot_fit_is_refused() {
        let schema = json!({
            "type": "object", "properties": {"cents": {"type": "integer", "minimum": 0}}, "required": ["cents"],
            "additionalProperties": false,
        });
        assert_eq!(refuse_misfits(&json!({"cents": 5}), &schema), Ok(()));
        for (value, place) in
            [(json!({"cents": "all"}), "cents"), (json!({}), "cents"), (json!({"cents": 5, "to": 1}), "to")]
        {
            let problem = refuse_misfits(&value, &schema).expect_err("it does not fit");
            assert!(problem.contains(&format!("`{place}`")), "{problem}");
        }
    }
}

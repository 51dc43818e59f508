//! Decides if every value of one JSON Schema is a value of another. Schemas are treated as data.
//! Validating a single value against a schema is the task of `schema_check.rs`.
//!
//! [`is_assignable`] first tries to prove the answer "yes" (`proof.rs`). Otherwise it creates
//! values of one schema (`sample.rs`), checks them against the other (`accepts.rs`), and describes
//! the mismatches (`misfit.rs`). If it finds neither a proof nor a counterexample, the result is
//! [`Assignable::Unknown`].
//!
//! `embedded.rs` combines schemas, `part_at.rs` finds the schema of a part of a value, and
//! `narrowed.rs` refines a schema by known facts. `value_limits.rs` finds keywords that limit a
//! value beyond its type, and `nulls.rs` removes nulls that represent missing fields.

mod accepts;
mod embedded;
mod misfit;
mod narrowed;
mod nulls;
mod part_at;
mod proof;
mod sample;
mod schema_at;
#[doc(hidden)]
pub mod schema_codes;
mod value_limits;

use std::fmt;

use serde_json::Value;

use self::accepts::Validator;
pub use self::embedded::{Definitions, part_of};
use self::misfit::{MismatchCollector, misfits};
pub use self::narrowed::{Fact, NarrowedSchema};
pub use self::nulls::without_nulls;
pub use self::part_at::{Lack, lacks, part_at};
use self::proof::AssignabilityProof;
use self::sample::SampleGenerator;
use self::schema_at::At;
pub use self::value_limits::has_limits;

/// Maximum number of reported places.
const MOST: usize = 10;

/// The result of [`is_assignable`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Assignable {
    /// Every value conforms.
    Yes,
    /// Some values do not conform. Contains at most ten places.
    No(Vec<SchemaMismatch>),
    /// The question could not be decided: no counterexample was found, and the schemas use keywords
    /// whose effect is not computed, such as `pattern` or `oneOf`, or different limits, such as
    /// `minimum: 0` and `minimum: 1`.
    Unknown,
}

impl Assignable {
    /// Returns true if every value conforms.
    pub fn is_yes(&self) -> bool {
        *self == Self::Yes
    }
}

/// A place where a value of one schema does not conform to another.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SchemaMismatch {
    /// The path within the value, such as `lines[0].cents`. Empty for the value itself.
    pub path: String,
    /// Description of the expected value, such as `integer`.
    pub expected: String,
    /// Description of the given value, such as `string`.
    pub given: String,
    /// A value that `from` allows and `to` does not allow.
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

/// Decides if every value of the JSON Schema `from` is a value of the JSON Schema `to`. If so, a
/// producer of `from` can be connected to a consumer of `to`.
///
/// The result is computed from the schemas alone. [`Assignable::Yes`] is a proof.
/// [`Assignable::No`] contains a value that `from` allows and `to` does not allow. Otherwise the
/// result is [`Assignable::Unknown`].
///
/// The schemas are interpreted as draft 2020-12. Earlier drafts are supported where they have the
/// same meaning. If a `format` such as `email` or `date-time` is decisive, the result is
/// [`Assignable::Unknown`], unless both schemas have that format. Annotations are ignored.
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

/// Decides like [`is_assignable`], but for a schema `from` that may be incomplete. A part that
/// `from` does not declare is not reported as a mismatch.
pub fn is_assignable_as_stated(from: &Value, to: &Value) -> Assignable {
    compare(from, to, true)
}

/// Returns `Some(true)` if a value conforms to a schema, `Some(false)` if it does not, and `None`
/// if the schema alone does not decide it.
pub fn accepts(schema: &Value, value: &Value) -> Option<bool> {
    Validator::default().accepts(At::root(schema), value)
}

/// Checks a value against a schema. Mismatches that the schema alone does not prove are ignored.
///
/// # Errors
/// Returns the mismatches.
pub fn refuse_misfits(value: &Value, schema: &Value) -> Result<(), ProvenMismatches> {
    match is_assignable(&serde_json::json!({"const": value}), schema) {
        Assignable::No(places) => Err(ProvenMismatches(places)),
        _ => Ok(()),
    }
}

/// The mismatches of a value that its schema proves. The display has a line for each.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{}", lines(.0))]
#[doc(hidden)]
pub struct ProvenMismatches(Vec<SchemaMismatch>);

/// Renders items as one line each.
pub(crate) fn lines(items: &[impl fmt::Display]) -> String {
    let mut lines = Vec::with_capacity(items.len());
    for item in items {
        lines.push(item.to_string());
    }
    lines.join("\n")
}

/// Describes a schema briefly, such as `list of string`. The references of `schema` point into
/// `whole`.
pub fn words(schema: &Value, whole: &Value) -> String {
    misfit::words(At { root: whole, schema })
}

fn compare(from: &Value, to: &Value, as_stated: bool) -> Assignable {
    let (from, to) = (At::root(from), At::root(to));
    if AssignabilityProof::default().holds(from, to) {
        return Assignable::Yes;
    }
    let validator = Validator::default();
    let mut found = MismatchCollector::new(from, as_stated);
    for sample in SampleGenerator::new(to).values_for(from) {
        if validator.accepts(from, &sample) == Some(true)
            && validator.accepts(to, &sample) == Some(false)
        {
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
        for (value, place) in [
            (json!({"cents": "all"}), "cents"),
            (json!({}), "cents"),
            (json!({"cents": 5, "to": 1}), "to"),
        ] {
            let problem = refuse_misfits(&value, &schema).expect_err("it does not fit");
            let problem = problem.to_string();
            assert!(problem.contains(&format!("`{place}`")), "{problem}");
        }
    }
}

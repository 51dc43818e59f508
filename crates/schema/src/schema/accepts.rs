//! Decides if one value conforms to a schema: `Some(true)`, `Some(false)`, or `None` if the effect
//! of a keyword is not computed. A definite answer is the same as the answer of a full validator.
//! This module reports no reasons.

use std::cell::Cell;
use std::cmp::Ordering;

use serde_json::{Map, Number, Value};

use super::schema_at::{At, Type, compare, equal, is_checked_format, is_integer};

/// Maximum depth of schemas. The result for a deeper value is unknown.
const DEPTH: u32 = 64;

/// Maximum number of schemas that are visited for one value. Each level of a schema that refers to
/// itself in several places doubles the number.
const LOOKS: u32 = 10_000;
/// Maximum number of schemas that are visited for all values.
const ALL_LOOKS: u32 = 1_000_000;

/// Checks values until its budget of visited schemas is used up. Then the result for every value is
/// unknown.
pub(super) struct Validator {
    /// Remaining number of schemas to visit for this value.
    left: Cell<u32>,
    /// Remaining number of schemas to visit for all values.
    all_left: Cell<u32>,
}

impl Default for Validator {
    fn default() -> Self {
        Self { left: Cell::new(0), all_left: Cell::new(ALL_LOOKS) }
    }
}

impl Validator {
    pub(super) fn accepts(&self, at: At<'_>, value: &Value) -> Option<bool> {
        let given = LOOKS.min(self.all_left.get());
        self.left.set(given);
        let fits = self.fits(at, value, DEPTH);
        self.all_left.set(self.all_left.get() - (given - self.left.get()));
        fits
    }

    /// Returns true if the budget is used up.
    pub(super) fn is_exhausted(&self) -> bool {
        self.all_left.get() == 0
    }

    fn fits(&self, at: At<'_>, value: &Value, depth: u32) -> Option<bool> {
        if let Value::Bool(all) = at.schema {
            return Some(*all);
        }
        self.left.set(self.left.get().checked_sub(1)?);
        if depth == 0 {
            return None;
        }
        let keywords = at.keywords()?;
        let understood = at.is_supported().then_some(true);
        let inner = |schema: At<'_>, value: &Value| self.fits(schema, value, depth - 1);
        let each =
            keywords.iter().map(|(keyword, of)| keyword_fits(at, keyword, of, value, &inner));
        all(std::iter::once(understood).chain(each))
    }
}

/// Conjunction of three-valued results. A `Some(false)` decides, even if others are unknown.
fn all(mut each: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    let mut known = true;
    let refused = each.any(|one| {
        known &= one.is_some();
        one == Some(false)
    });
    if refused { Some(false) } else { known.then_some(true) }
}

/// Disjunction of three-valued results.
fn any(each: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    all(each.map(|one| one.map(|one| !one))).map(|none| !none)
}

fn keyword_fits(
    at: At<'_>,
    keyword: &str,
    of: &Value,
    value: &Value,
    inner: &dyn Fn(At<'_>, &Value) -> Option<bool>,
) -> Option<bool> {
    match keyword {
        "$ref" => inner(at.referred()?, value),
        "type" => Some(Type::declared_by(at)?.into_iter().any(|of| of.has(value))),
        "const" => Some(equal(of, value)),
        "enum" => Some(of.as_array()?.iter().any(|one| equal(one, value))),
        "allOf" => all(at.list(keyword)?.map(|of| inner(of, value))),
        "anyOf" => any(at.list(keyword)?.map(|of| inner(of, value))),
        "oneOf" => {
            let each: Vec<Option<bool>> = at.list(keyword)?.map(|of| inner(of, value)).collect();
            let taken = each.iter().filter(|one| **one == Some(true)).count();
            match each.contains(&None) {
                // Two matching alternatives are a mismatch, even if others are unknown.
                _ if taken > 1 => Some(false),
                true => None,
                false => Some(taken == 1),
            }
        }
        "not" => inner(at.with_schema(of), value).map(|fits| !fits),
        "then" | "else" if at.get("if").is_none() => Some(true),
        // The effect of these keywords depends on other keywords.
        "if" | "then" | "else" | "unevaluatedItems" | "unevaluatedProperties" => None,
        _ => match value {
            Value::Number(number) => number_fits(keyword, of, number),
            Value::String(text) => text_fits(at, keyword, text),
            Value::Array(items) => list_fits(at, keyword, of, items, inner),
            Value::Object(fields) => object_fits(at, keyword, of, fields, inner),
            Value::Null | Value::Bool(_) => Some(true),
        },
    }
}

fn number_fits(keyword: &str, of: &Value, number: &Number) -> Option<bool> {
    let order = |of: &Value| compare(number, of.as_number()?);
    match keyword {
        "minimum" => order(of).map(Ordering::is_ge),
        "maximum" => order(of).map(Ordering::is_le),
        "exclusiveMinimum" => order(of).map(Ordering::is_gt),
        "exclusiveMaximum" => order(of).map(Ordering::is_lt),
        "multipleOf" => match (number.as_i64(), of.as_i64()) {
            (Some(number), Some(of)) if of != 0 => Some(number % of == 0),
            _ if of.as_i64() == Some(1) => Some(is_integer(number)),
            _ => None,
        },
        _ => Some(true),
    }
}

fn text_fits(at: At<'_>, keyword: &str, text: &str) -> Option<bool> {
    let length = || u64::try_from(text.chars().count()).ok();
    match keyword {
        "minLength" => Some(length()? >= at.count(keyword)?),
        "maxLength" => Some(length()? <= at.count(keyword)?),
        "pattern" => None,
        "format" if at.get(keyword).is_some_and(is_checked_format) => None,
        _ => Some(true),
    }
}

fn list_fits(
    at: At<'_>,
    keyword: &str,
    of: &Value,
    items: &[Value],
    inner: &dyn Fn(At<'_>, &Value) -> Option<bool>,
) -> Option<bool> {
    let length = items.len() as u64;
    match keyword {
        "minItems" => Some(length >= at.count(keyword)?),
        "maxItems" => Some(length <= at.count(keyword)?),
        "uniqueItems" => {
            let twice = || {
                items
                    .iter()
                    .enumerate()
                    .any(|(at, one)| items[..at].iter().any(|other| equal(one, other)))
            };
            Some(*of != Value::Bool(true) || !twice())
        }
        "prefixItems" => all(at.list(keyword)?.zip(items).map(|(of, item)| inner(of, item))),
        "items" => {
            all(items.iter().skip(at.prefix().len()).map(|item| inner(at.with_schema(of), item)))
        }
        "contains" | "minContains" | "maxContains" | "additionalItems" => None,
        _ => Some(true),
    }
}

fn object_fits(
    at: At<'_>,
    keyword: &str,
    of: &Value,
    fields: &Map<String, Value>,
    inner: &dyn Fn(At<'_>, &Value) -> Option<bool>,
) -> Option<bool> {
    match keyword {
        "required" => Some(at.required().all(|name| fields.contains_key(name))),
        "minProperties" => Some(fields.len() as u64 >= at.count(keyword)?),
        "maxProperties" => Some(fields.len() as u64 <= at.count(keyword)?),
        "properties" => {
            all(at.properties().filter_map(|(name, of)| Some(inner(of, fields.get(name)?))))
        }
        "additionalProperties" => {
            let others = fields.iter().filter(|(name, _)| at.property(name).is_none());
            all(others.map(|(_, value)| match at.has_patterns() {
                true if of != &Value::Bool(true) => None,
                _ => inner(at.with_schema(of), value),
            }))
        }
        "patternProperties" => (!at.has_patterns() || fields.is_empty()).then_some(true),
        "propertyNames" => {
            all(fields.keys().map(|name| inner(at.with_schema(of), &Value::String(name.clone()))))
        }
        "dependentRequired" | "dependentSchemas" => fields.is_empty().then_some(true),
        _ => Some(true),
    }
}

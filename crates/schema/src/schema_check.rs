//! Checks JSON values against a JSON Schema that is known only at run time. Errors name the place
//! and the reason.
//!
//! The crate `jsonschema` implements the rules of JSON Schema. This module writes the error
//! messages, in the same style as the messages about typed arguments.

mod check_cost;
mod limit_error;
mod patterns;
mod references;
mod schema_graph;
mod tolerance;

use std::fmt;
use std::sync::Arc;

use jsonschema::error::{TypeKind, ValidationErrorKind as Kind};
use jsonschema::{ValidationError, Validator};
use serde_json::Value;

use self::check_cost::MOST_EXPLAINED;
use self::limit_error::LimitError;
pub use self::references::decoded;
use self::schema_graph::SchemaGraph;
use self::tolerance::TolerantSchema;
use crate::diagnostic::{Diagnostic, Suggestion};
use crate::schema::{lines, schema_codes};
use crate::text::{did_you_mean, head, nearest};

/// A compiled JSON Schema.
///
/// Without `$schema`, draft 2020-12 applies. In every draft, values are checked against the formats
/// that JSON Schema defines, such as `email`; other formats are ignored. A reference resolves
/// within the schema only, never to the network or to a file.
///
/// The work of a check is bounded. [`new`](Self::new) refuses a schema that expands too much, and
/// [`check`](Self::check) refuses a value whose check may take too many steps.
#[derive(Clone)]
pub struct SchemaCheck(Arc<ReadSchema>);

struct ReadSchema {
    schema: Value,
    graph: SchemaGraph,
    validator: Validator,
    /// Descriptions of the parts of the schema that are not checked.
    unchecked: Vec<String>,
}

/// The type names of JSON Schema.
const TYPES: [&str; 7] = ["string", "integer", "number", "boolean", "object", "array", "null"];
/// Maximum number of error lines for one value.
const MOST: usize = 10;
/// Maximum number of bytes of a value in an error line.
const SEEN: usize = 120;
/// Maximum number of bytes of an expectation in an error line, such as a list of values.
const PROBLEM: usize = 400;

impl SchemaCheck {
    /// Compiles a schema.
    ///
    /// # Errors
    /// Returns the mistake in the schema, or the limit that it exceeds.
    pub fn new(schema: &Value) -> Result<Self, Diagnostic> {
        Self::read(schema, Vec::new())
    }

    /// Compiles a schema from an untrusted source, such as a tool of a remote server. Invalid
    /// patterns and unresolvable references are ignored; [`unchecked`](Self::unchecked) lists them.
    ///
    /// # Errors
    /// Same as [`new`](Self::new), for all other mistakes.
    pub fn tolerant(schema: &Value) -> Result<Self, Diagnostic> {
        let problem = match Self::new(schema) {
            Ok(check) => return Ok(check),
            Err(problem) => problem,
        };
        match TolerantSchema::new(schema) {
            Some(TolerantSchema { schema, unchecked }) if !unchecked.is_empty() => {
                Self::read(&schema, unchecked)
            }
            _ => Err(problem),
        }
    }

    /// Returns a description of each part of the schema that is not checked. Empty unless the
    /// schema was compiled by [`tolerant`](Self::tolerant).
    pub fn unchecked(&self) -> &[String] {
        &self.0.unchecked
    }

    fn read(schema: &Value, unchecked: Vec<String>) -> Result<Self, Diagnostic> {
        let graph = SchemaGraph::new(schema)
            .map_err(|error| not_a_schema("").nested("problem", &error.into()))?;
        // Patterns are untrusted input. This engine matches in time linear in the length of the
        // text. Formats are enabled explicitly, because only some drafts check them by default.
        let options = jsonschema::options()
            .with_pattern_options(graph.patterns.options())
            .should_validate_formats(true);
        let validator = options.build(schema).map_err(|error| problem_of_schema(&error))?;
        Ok(Self(Arc::new(ReadSchema { schema: schema.clone(), graph, validator, unchecked })))
    }

    /// Checks a value.
    ///
    /// # Errors
    /// Returns the mismatches, at most ten. Each contains the path, the expectation, the value and,
    /// for a name, the nearest known name. If the check may take too long, returns one mismatch
    /// that names the limit.
    pub fn check(&self, value: &Value) -> Result<(), ValueMismatches> {
        self.check_at(value, "").map_err(ValueMismatches)
    }

    /// Checks a value that is a part of another value, at the JSON Pointer `at`. The paths of the
    /// mismatches start at the outer value.
    ///
    /// # Errors
    /// The mismatches, as in [`check`](Self::check).
    pub fn check_at(&self, value: &Value, at: &str) -> Result<(), Vec<ValueMismatch>> {
        let ReadSchema { schema, graph, validator, .. } = &*self.0;
        let whole = |limit: LimitError| {
            vec![ValueMismatch { path: String::new(), problem: limit.to_string() }]
        };
        let cost = graph.cost(value).map_err(whole)?;
        // The validity check is cheap. Error places are searched only in an invalid value.
        if validator.is_valid(value) {
            return Ok(());
        }
        if cost.explanation > MOST_EXPLAINED {
            return Err(whole(LimitError::ExplanationSteps));
        }
        let mut complaints = Vec::new();
        for error in validator.iter_errors(value).take(MOST) {
            complain(schema, at, &error, &mut complaints);
        }
        complaints.dedup();
        complaints.truncate(MOST);
        if complaints.is_empty() { Ok(()) } else { Err(complaints) }
    }
}

/// Describes the mistake in a schema and its place.
fn problem_of_schema(error: &ValidationError<'_>) -> Diagnostic {
    let at = error.instance_path().to_string();
    match (error.kind(), error.instance().as_str()) {
        // Of all keywords, only `type` may be a single word or a list of words.
        (Kind::AnyOf { .. }, Some(of)) if at.ends_with("/type") => {
            let known = Suggestion::similar(nearest(of, TYPES))
                .unwrap_or_else(|| Suggestion::advice(format!("there are {}", TYPES.join(", "))));
            let found = Diagnostic::new(schema_codes::UNKNOWN_TYPE).absent("name", head(of, SEEN));
            not_a_schema(&at).nested("problem", &found.suggest(known))
        }
        _ => {
            let found = not_a_schema(&at).text("problem", shortened(&error.to_string(), PROBLEM));
            found.suggest(Suggestion::advice("correct the schema"))
        }
    }
}

/// Creates the problem of a schema at a JSON Pointer. The caller adds the argument `problem`.
fn not_a_schema(at: &str) -> Diagnostic {
    match at {
        "" => Diagnostic::new(schema_codes::NOT_A_SCHEMA),
        at => Diagnostic::new(schema_codes::NOT_A_SCHEMA_AT).source("pointer", at),
    }
}

/// The parts of a value that do not fit its schema. The display has a line for each.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", lines(.0))]
pub struct ValueMismatches(Vec<ValueMismatch>);

impl ValueMismatches {
    /// Returns the mismatches, in the order of the schema.
    pub fn as_slice(&self) -> &[ValueMismatch] {
        &self.0
    }
}

/// A part of a value that does not fit its schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueMismatch {
    /// Path of the part, such as `lines[0].cents`. Empty for the whole value.
    pub path: String,
    /// The expected and the actual value.
    pub problem: String,
}

impl fmt::Display for ValueMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "`{}`: ", self.path)?;
        }
        f.write_str(&self.problem)
    }
}

/// Describes one mismatch, such as `` `size`: value is not of type "string"; seen: 7 ``.
fn complain(
    schema: &Value,
    within: &str,
    error: &ValidationError<'_>,
    complaints: &mut Vec<ValueMismatch>,
) {
    let at = path(&format!("{within}{}", error.instance_path()));
    let of_field =
        |name: &str| if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") };
    let here = |problem: String| ValueMismatch { path: at.clone(), problem };
    match error.kind() {
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            let keyword = error.schema_path().to_string();
            // The known names are in `properties`, next to the keyword that refused the field.
            let of = keyword.rsplit_once('/').map_or("", |(of, _)| of);
            let properties = schema.pointer(&format!("{of}/properties")).and_then(Value::as_object);
            let known: Vec<&str> =
                properties.into_iter().flat_map(|all| all.keys()).map(String::as_str).collect();
            for name in unexpected.iter().take(MOST) {
                let problem = unknown_field(name, &known);
                complaints.push(ValueMismatch { path: of_field(name), problem });
            }
        }
        Kind::Required { property } => {
            let name = property.as_str().map_or_else(|| property.to_string(), ToOwned::to_owned);
            let problem = "this is missing; give it a value".to_owned();
            complaints.push(ValueMismatch { path: of_field(&name), problem });
        }
        // The errors of the most likely alternative are more helpful than "no alternative matches".
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => match meant(context, error) {
            Some(branch) => {
                branch.iter().for_each(|error| complain(schema, within, error, complaints));
            }
            None => {
                let types = types_of(context)
                    .unwrap_or_else(|| "value fits none of the forms that it may have".into());
                complaints.push(here(format!("{types}; seen: {}", seen(error))));
            }
        },
        Kind::Enum { options } => {
            let options: Vec<String> =
                options.as_array().into_iter().flatten().map(ToString::to_string).collect();
            let listed = match options.split_last() {
                Some((last, others)) if !others.is_empty() => {
                    format!("{} or {last}", others.join(", "))
                }
                _ => options.concat(),
            };
            let options = shortened(&listed, PROBLEM);
            let problem = format!("value is not one of {options}; seen: {}", seen(error));
            complaints.push(here(problem));
        }
        _ => {
            let problem = error.masked().to_string();
            let problem = format!("{}; seen: {}", shortened(&problem, PROBLEM), seen(error));
            complaints.push(here(problem));
        }
    }
}

fn unknown_field(name: &str, known: &[&str]) -> String {
    match nearest(name, known.iter().copied()) {
        near @ Some(_) => format!("there is no such field{}", did_you_mean(near)),
        None if known.is_empty() => "there is no such field".to_owned(),
        None => {
            let known: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
            format!("there is no such field; there are {}", shortened(&known.join(", "), PROBLEM))
        }
    }
}

/// Returns the alternative of `anyOf` or `oneOf` that the author most likely intended: its type
/// matches, its constants match, and it has the fewest mistakes.
fn meant<'b>(
    branches: &'b [Vec<ValidationError<'static>>],
    whole: &ValidationError<'_>,
) -> Option<&'b Vec<ValidationError<'static>>> {
    let of_type = |branch: &&Vec<ValidationError<'static>>| {
        !branch.iter().any(|error| {
            matches!(error.kind(), Kind::Type { .. })
                && error.instance_path() == whole.instance_path()
        })
    };
    let other = |branch: &Vec<ValidationError<'static>>| {
        branch
            .iter()
            .filter(|error| matches!(error.kind(), Kind::Constant { .. } | Kind::Enum { .. }))
            .count()
    };
    branches.iter().filter(of_type).min_by_key(|branch| (other(branch), branch.len()))
}

/// Lists the accepted types, if the alternatives only differ in their types.
fn types_of(branches: &[Vec<ValidationError<'static>>]) -> Option<String> {
    let mut types = Vec::new();
    for error in branches.iter().flatten() {
        match error.kind() {
            Kind::Type { kind: TypeKind::Single(one) } => types.push(format!("\"{one}\"")),
            Kind::Type { kind: TypeKind::Multiple(several) } => {
                types.extend(several.iter().map(|one| format!("\"{one}\"")));
            }
            _ => return None,
        }
    }
    Some(format!("value is not of the types {}", types.join(", ")))
}

/// Converts a JSON Pointer to the path of an argument: `/lines/0/cents` becomes `lines[0].cents`.
fn path(pointer: &str) -> String {
    let mut path = String::new();
    for part in pointer.split('/').skip(1) {
        let part = part.replace("~1", "/").replace("~0", "~");
        match part.parse::<usize>() {
            Ok(at) => path.push_str(&format!("[{at}]")),
            Err(_) if path.is_empty() => path.push_str(&part),
            Err(_) => path.push_str(&format!(".{part}")),
        }
    }
    path
}

fn seen(error: &ValidationError<'_>) -> String {
    shortened(&error.instance().to_string(), SEEN)
}

fn shortened(text: &str, most: usize) -> String {
    if text.len() <= most { text.to_owned() } else { format!("{}…", head(text, most)) }
}

impl fmt::Debug for SchemaCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SchemaCheck")
    }
}

#[cfg(test)]
mod limit_tests;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn complaints_name_the_place_and_what_was_seen() {
        let schema = json!({
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "lines": {"type": "array", "items": {"type": "object", "properties": {"cents": {"type": "integer"}}, "required": ["cents"]}}
            },
            "required": ["name"],
            "additionalProperties": false
        });
        let check = SchemaCheck::new(&schema).unwrap();
        check.check(&json!({"name": "a", "lines": [{"cents": 3}]})).unwrap();
        let wrong = check
            .check(&json!({"nane": "a", "lines": [{"cents": "x"}, {}]}))
            .unwrap_err()
            .to_string();
        let lines: Vec<&str> = wrong.lines().collect();
        assert!(
            lines.contains(&"`nane`: there is no such field; did you mean `name`?"),
            "{lines:#?}"
        );
        assert!(lines.contains(&"`name`: this is missing; give it a value"), "{lines:#?}");
        assert!(
            lines.contains(&"`lines[1].cents`: this is missing; give it a value"),
            "{lines:#?}"
        );
        assert!(
            lines
                .iter()
                .any(|line| line.starts_with("`lines[0].cents`: ")
                    && line.ends_with("; seen: \"x\"")),
            "{lines:#?}"
        );
        let problem = SchemaCheck::new(&json!({"type": "strng"})).unwrap_err().to_string();
        assert_eq!(
            problem,
            "this is not a JSON Schema at `/type`: there is no type `strng`; did you mean `string`?"
        );
        let problem = SchemaCheck::new(&json!({"properties": 5})).unwrap_err().to_string();
        let says = "this is not a JSON Schema at `/properties`: 5 is not of type \"object\"; correct the schema";
        assert_eq!(problem, says);
    }

    #[test]
    fn of_several_forms_the_likely_one_is_explained() {
        let check = SchemaCheck::new(&json!({
            "type": "object",
            "properties": {
                "at": {"anyOf": [{"type": "string"}, {"type": ["integer", "null"]}]},
                "shape": {"oneOf": [
                    {"type": "object", "properties": {"kind": {"const": "circle"}, "radius": {"type": "number"}}, "required": ["kind", "radius"]},
                    {"type": "object", "properties": {"kind": {"const": "box"}, "width": {"type": "number"}, "height": {"type": "number"}}, "required": ["kind", "width", "height"]}
                ]}
            },
        }))
        .unwrap();
        let wrong = |value: Value| check.check(&value).unwrap_err().to_string();
        let at = wrong(json!({"at": [1]}));
        assert_eq!(
            at,
            "`at`: value is not of the types \"string\", \"null\", \"integer\"; seen: [1]"
        );
        let shape = wrong(json!({"shape": {"kind": "box", "width": "3", "height": 1}}));
        assert_eq!(shape, "`shape.width`: value is not of type \"number\"; seen: \"3\"");
    }

    #[test]
    fn a_complaint_is_short_whatever_was_given() {
        let check =
            SchemaCheck::new(&json!({"type": "object", "properties": {"name": {"type": "array"}}}))
                .unwrap();
        let problem = check.check(&json!({"name": "é".repeat(100_000)})).unwrap_err().to_string();
        assert!(problem.len() < 300, "{} bytes", problem.len());
    }

    #[test]
    fn a_schema_reads_nothing_from_outside() {
        for uri in ["https://example.com/schema.json", "file:///etc/hostname"] {
            assert!(SchemaCheck::new(&json!({"$ref": uri})).is_err(), "{uri}");
        }
    }
}

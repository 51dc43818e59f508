//! Errors for schemas and checks that exceed a limit, and for references without a target.

use super::check_cost::{MOST_EXPLAINED, MOST_STEPS};
use super::patterns::{MOST_PATTERN, MOST_PATTERNS, MOST_TEXT};
use super::schema_graph::{MOST_DEPTH, MOST_NESTED, MOST_UNFOLDED};
use crate::diagnostic::Diagnostic;
use crate::schema::schema_codes as codes;

/// The reason to refuse a schema, or to refuse a value without a complete check.
#[derive(Debug, thiserror::Error)]
pub(super) enum LimitError {
    #[error("the schema is nested more than {MOST_DEPTH} levels deep; move parts of it to `$defs`")]
    SchemaDepth,
    /// Number of schemas that apply to one value, summed over all parts of the schema.
    #[error(
        "the schema unfolds to more than {MOST_UNFOLDED} schemas; refer to fewer schemas in `allOf`, `anyOf` and `oneOf`"
    )]
    Unfolded,
    #[error("more than {MOST_NESTED} schemas apply to one value, one within another; nest fewer")]
    NestedSchemas,
    #[error(
        "a `$ref` applies a schema to the value that it applies to already; refer to it below a field or an item"
    )]
    EndlessReference,
    /// Contains the shortened reference.
    #[error(
        "the reference `{0}` leads to no schema within the schema; nothing is fetched, so put it in"
    )]
    ReferenceWithoutTarget(String),
    /// Contains the length of the pattern in bytes.
    #[error("a pattern has {0} bytes, and at most {MOST_TEXT} are read; shorten it")]
    PatternLength(usize),
    /// Contains the shortened pattern.
    #[error(
        "the pattern `{0}` is not a regular expression, or has more than {MOST_PATTERN} bytes when it is compiled; correct \
         it, or repeat less in it"
    )]
    UnusablePattern(String),
    #[error(
        "the patterns have more than {MOST_PATTERNS} bytes when they are compiled; use fewer patterns"
    )]
    PatternSizes,
    #[error(
        "a check of this value by its schema may take more than {MOST_STEPS} steps; give a smaller or a flatter value, or \
         use fewer alternatives in the schema"
    )]
    CheckSteps,
    #[error(
        "a check of this value by its schema is nested more than {MOST_NESTED} levels deep; give a flatter value"
    )]
    CheckDepth,
    /// The value does not conform, but finding the mismatches is too expensive.
    #[error(
        "the value does not fit its schema, and finding the place may take more than {MOST_EXPLAINED} steps; give a smaller \
         or a flatter value"
    )]
    ExplanationSteps,
}

/// Converts the reason to refuse a schema. The reasons to refuse a value are mismatches without a
/// code.
impl From<LimitError> for Diagnostic {
    fn from(error: LimitError) -> Self {
        match &error {
            LimitError::SchemaDepth => Self::new(codes::TOO_DEEP).number("most", MOST_DEPTH),
            LimitError::Unfolded => Self::new(codes::UNFOLDED).number("most", MOST_UNFOLDED),
            LimitError::NestedSchemas => {
                Self::new(codes::NESTED_SCHEMAS).number("most", MOST_NESTED)
            }
            LimitError::EndlessReference => Self::new(codes::ENDLESS_REFERENCE),
            LimitError::ReferenceWithoutTarget(reference) => {
                Self::new(codes::REFERENCE_WITHOUT_TARGET).absent("name", reference)
            }
            LimitError::PatternLength(size) => {
                let found = Self::new(codes::PATTERN_LENGTH).number("most", MOST_TEXT);
                found.number("size", *size)
            }
            LimitError::UnusablePattern(pattern) => {
                let found = Self::new(codes::UNUSABLE_PATTERN).number("most", MOST_PATTERN);
                found.absent("pattern", pattern)
            }
            LimitError::PatternSizes => {
                Self::new(codes::PATTERN_SIZES).number("most", MOST_PATTERNS)
            }
            LimitError::CheckSteps | LimitError::CheckDepth | LimitError::ExplanationSteps => {
                Self::new(codes::NOT_A_SCHEMA).text("problem", &error)
            }
        }
    }
}

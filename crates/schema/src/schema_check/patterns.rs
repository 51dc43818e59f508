//! The regular expressions of a JSON Schema, with the size of each compiled expression.

use std::collections::HashMap;

use jsonschema::{PatternOptions, Validator};
use serde_json::{Value, json};

use super::limit_error::LimitError;
use crate::text::head;

/// Size classes of compiled patterns in bytes. The last class is the maximum size of a pattern.
const SIZES: [u64; 4] = [2 << 10, 16 << 10, 128 << 10, MOST_PATTERN];
/// Maximum size of a compiled pattern in bytes.
pub(super) const MOST_PATTERN: u64 = 1 << 20;
/// Maximum total size of the compiled patterns of a schema in bytes.
pub(super) const MOST_PATTERNS: u64 = 16 << 20;
/// Maximum length of a pattern in bytes.
pub(super) const MOST_TEXT: usize = 16 << 10;
/// Memory for each byte of a pattern while it is compiled, for example for the ranges of `\w`.
const READ_BYTES: u64 = 128;
/// Maximum number of bytes of a pattern in an error message.
const SHOWN: usize = 120;

#[derive(Default)]
pub(super) struct Patterns {
    ids: HashMap<String, usize>,
    all: Vec<Pattern>,
    size: u64,
}

struct Pattern {
    /// A validator for a schema that contains only the pattern.
    validator: Validator,
    size: u64,
}

impl Patterns {
    /// Compiles a pattern and returns its index.
    ///
    /// # Errors
    /// Returns an error if the pattern is not a regular expression, or if the pattern or all
    /// patterns together are too large.
    pub(super) fn add(&mut self, pattern: &str) -> Result<usize, LimitError> {
        if let Some(id) = self.ids.get(pattern) {
            return Ok(*id);
        }
        if pattern.len() > MOST_TEXT {
            return Err(LimitError::PatternLength(pattern.len()));
        }
        let schema = json!({"pattern": pattern});
        // The size of a compiled pattern cannot be queried. The smallest limit for which it
        // compiles is its class.
        let compiled = SIZES.into_iter().find_map(|size| Some((compiled(&schema, size)?, size)));
        let Some((validator, size)) = compiled else {
            return Err(LimitError::UnusablePattern(head(pattern, SHOWN).to_owned()));
        };
        self.size = self.size.saturating_add(size.max(READ_BYTES * pattern.len() as u64));
        if self.size > MOST_PATTERNS {
            return Err(LimitError::PatternSizes);
        }
        let id = self.all.len();
        self.ids.insert(pattern.to_owned(), id);
        self.all.push(Pattern { validator, size });
        Ok(id)
    }

    pub(super) fn matches(&self, pattern: usize, name: &str) -> bool {
        self.all
            .get(pattern)
            .is_none_or(|pattern| pattern.validator.is_valid(&Value::String(name.to_owned())))
    }

    /// Returns the number of steps for each 64 bytes of text. The worst case of a match is the
    /// product of the sizes of pattern and text.
    pub(super) fn text_steps(&self, pattern: usize) -> u64 {
        self.all.get(pattern).map_or(0, |pattern| pattern.size >> 7)
    }

    /// Returns the options for a validator with all of the patterns.
    pub(super) fn options(&self) -> PatternOptions<jsonschema::Regex> {
        let most = usize::try_from(MOST_PATTERN).unwrap_or(usize::MAX);
        // Each pattern's lazy DFA has a cache of at most this size.
        let cache = (most << 4) / self.all.len().max(1);
        PatternOptions::regex().size_limit(most).dfa_size_limit(cache.clamp(most >> 4, most << 1))
    }
}

fn compiled(schema: &Value, size: u64) -> Option<Validator> {
    let limit = usize::try_from(size).ok()?;
    let options =
        jsonschema::options().with_pattern_options(PatternOptions::regex().size_limit(limit));
    options.build(schema).ok()
}

//! JSONPath queries (RFC 9535) with bounded work, for the tool `transform` and for described APIs.
//!
//! [`BoundedPath::parse`] refuses queries that are too long, too deep or too wide. A query that can
//! match several places is split into segments (`segments.rs`), and each segment is applied to all
//! matches of the previous one. Before a segment is applied, its possible steps are subtracted
//! from a budget. At the end, the size of all matches is compared with a limit, because a copy of
//! the matches can be larger than the data.

mod segments;

use std::collections::HashMap;
use std::fmt;

use agentflow_schema::text::head;
use serde_json::Value;
use serde_json_path::JsonPath;

use self::segments::{PathSegment, outside_of_quotes, segments};
use agentflow_core::message::ToolStatus;
use agentflow_core::tool::ToolError;

/// Maximum number of bytes of a query.
pub(crate) const LONGEST: usize = 4 << 10;
/// Maximum number of `..` and filters of a query.
pub(crate) const MOST_WIDE: usize = 3;
/// Maximum product of the numbers of selectors in the brackets of a query: each selector may repeat
/// the same place.
pub(crate) const MOST_COPIES: usize = 64;
/// Maximum depth of brackets of a query: parsing nested functions takes twice as long for each
/// level.
pub(crate) const MOST_DEPTH: usize = 12;
/// Maximum number of steps of a query. A step is one place of the data that one part of the query
/// visits.
pub(crate) const MOST_STEPS: u64 = 2_000_000;
/// Maximum number of bytes in memory of all matches of a query. The size of the data is always
/// allowed.
pub(crate) const MOST_COPIED: u64 = 4 << 20;
/// Maximum number of bytes of a query in an error.
const SHOWN: usize = 200;
/// Approximate bytes of a value in memory without its strings.
const VALUE_BYTES: u64 = 32;

#[derive(Clone)]
pub(crate) struct BoundedPath {
    query: JsonPath,
    /// The query in parts, each applied to every match of the previous one. Empty if the query
    /// matches one place at most.
    parts: Vec<(PathSegment, JsonPath)>,
    /// `true` if it can match more than one place.
    #[cfg(feature = "api")]
    is_wide: bool,
}

impl BoundedPath {
    /// Parses a query.
    ///
    /// # Errors
    /// A message, if the text is not a query, is too long, or may cause too much work.
    pub(crate) fn parse(path: &str) -> Result<Self, String> {
        if path.len() > LONGEST {
            return Err(format!(
                "a query has at most {LONGEST} bytes, and this one has {}",
                path.len()
            ));
        }
        let shape = QueryShape::new(path);
        if shape.wide > MOST_WIDE {
            let wide = shape.wide;
            return Err(format!(
                "a query has at most {MOST_WIDE} of `..` and `?`, and this one has {wide}; name the fields"
            ));
        }
        if shape.has_root || shape.copies > MOST_COPIES {
            return Err(format!(
                "a query names one place at most {MOST_COPIES} times, and has no `$` in a filter; ask for less"
            ));
        }
        if shape.depth > MOST_DEPTH {
            return Err(format!(
                "the brackets of a query are nested more than {MOST_DEPTH} levels deep; nest fewer"
            ));
        }
        let shown = head(path, SHOWN);
        let read = |text: &str| {
            JsonPath::parse(text).map_err(|error| {
                format!(
                    "`{shown}` is not a JSONPath query: {error}; write one such as `$.rows[0].name`"
                )
            })
        };
        let query = read(path)?;
        let mut parts = Vec::new();
        if shape.has_many {
            let found = segments(path).ok_or_else(|| {
                format!("`{shown}` is a JSONPath query in an unusual form; write one such as `$.rows[*].name`")
            })?;
            for segment in found {
                let part = read(&format!("${}", segment.text))?;
                parts.push((segment, part));
            }
        }
        Ok(Self {
            query,
            parts,
            #[cfg(feature = "api")]
            is_wide: shape.has_many,
        })
    }

    /// Evaluates the query. Returns a single match itself, several matches as a list, and `null`
    /// without a match.
    ///
    /// # Errors
    /// [`ToolStatus::OutputTooLarge`] if the query may take too many steps or its matches are too
    /// large.
    pub(crate) fn find(&self, data: &Value) -> Result<Value, ToolError> {
        let mut found = self.matches(data)?;
        Ok(match found.len() {
            0 => Value::Null,
            1 => found.pop().cloned().unwrap_or_default(),
            _ => found.into_iter().cloned().collect(),
        })
    }

    /// Returns the items of a list. If the query can match several places, the matches are the
    /// items; otherwise its single match must be a list. Returns `None` if the match is not a list,
    /// and an empty list without a match.
    ///
    /// # Errors
    /// The errors of [`find`](Self::find).
    #[cfg(feature = "api")]
    pub(crate) fn items(&self, data: &Value) -> Result<Option<Vec<Value>>, ToolError> {
        if self.is_wide {
            return Ok(Some(self.matches(data)?.into_iter().cloned().collect()));
        }
        Ok(match self.find(data)? {
            Value::Array(items) => Some(items),
            Value::Null => Some(Vec::new()),
            _ => None,
        })
    }

    fn matches<'d>(&self, data: &'d Value) -> Result<Vec<&'d Value>, ToolError> {
        if self.parts.is_empty() {
            return Ok(self.query.query(data).all());
        }
        let mut work = StepBudget { sizes: HashMap::new(), left: MOST_STEPS };
        let whole = work.measure(data);
        let mut places = vec![data];
        for (segment, query) in &self.parts {
            let mut next = Vec::new();
            for place in places {
                work.spend(segment, place)?;
                next.extend(query.query(place).all());
            }
            places = next;
        }
        let copied =
            places.iter().map(|place| work.size(place).bytes()).fold(0, u64::saturating_add);
        let most = MOST_COPIED.max(whole.bytes());
        if copied > most {
            return Err(too_large(format!(
                "the matches of the query have {copied} bytes, and at most {most} are copied; ask for fewer places"
            )));
        }
        Ok(places)
    }
}

impl fmt::Debug for BoundedPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.query)
    }
}

/// The size of a value including all nested values.
#[derive(Clone, Copy, Debug, Default)]
struct QuerySize {
    values: u64,
    text: u64,
    depth: u64,
}

impl QuerySize {
    fn bytes(self) -> u64 {
        self.values.saturating_mul(VALUE_BYTES).saturating_add(self.text)
    }
}

/// Counts the steps of one evaluation.
struct StepBudget {
    /// Sizes of lists and objects by memory address. The data does not move during an evaluation.
    sizes: HashMap<usize, QuerySize>,
    left: u64,
}

impl StepBudget {
    fn measure(&mut self, value: &Value) -> QuerySize {
        let mut size = own_size(value);
        let mut add = |inner: QuerySize| {
            size.values += inner.values;
            size.text += inner.text;
            size.depth = size.depth.max(1 + inner.depth);
        };
        match value {
            Value::Array(items) => items.iter().for_each(|item| add(self.measure(item))),
            Value::Object(fields) => fields.values().for_each(|value| add(self.measure(value))),
            _ => return size,
        }
        self.sizes.insert(std::ptr::from_ref(value).addr(), size);
        size
    }

    fn size(&self, value: &Value) -> QuerySize {
        let known = self.sizes.get(&std::ptr::from_ref(value).addr());
        known.copied().unwrap_or_else(|| own_size(value))
    }

    /// Counts the steps of a segment at a place, before it is evaluated there.
    fn spend(&mut self, segment: &PathSegment, place: &Value) -> Result<(), ToolError> {
        let size = self.size(place);
        let children = match place {
            Value::Array(items) => items.len() as u64,
            Value::Object(fields) => fields.len() as u64,
            _ => 0,
        };
        let looked_at = if segment.is_descendant { size.values } else { children };
        let mut steps = match segment.is_descendant || segment.has_many {
            true => looked_at.saturating_mul(segment.selectors).saturating_add(1),
            false => segment.selectors,
        };
        if segment.filter_steps > 0 {
            // A filter that looks below a child visits each place once for each of its ancestors.
            let within = match segment.filter_depth {
                0 => looked_at,
                depth => size.values.saturating_mul((1 + size.depth).saturating_pow(depth)),
            };
            steps = steps.saturating_add(within.saturating_mul(segment.filter_steps));
            // A comparison reads a string once, a regular expression once for each of its states.
            let text = size.text / 64;
            let again = if segment.is_descendant { 1 + size.depth } else { 1 };
            let text = text.saturating_mul(again).saturating_mul(segment.pattern_steps.max(1));
            steps = steps.saturating_add(text.saturating_mul(segment.selectors));
        }
        self.left = self.left.checked_sub(steps).ok_or_else(|| {
            too_large(format!(
                "the query may take more than {MOST_STEPS} steps on this data; name the fields in place of `..`, `*` and `?`"
            ))
        })?;
        Ok(())
    }
}

fn too_large(problem: String) -> ToolError {
    ToolError::with_status(ToolStatus::OutputTooLarge, problem)
}

fn own_size(value: &Value) -> QuerySize {
    let text = match value {
        Value::String(text) => text.len(),
        Value::Object(fields) => fields.keys().map(|name| name.len() + 16).sum(),
        _ => 0,
    };
    QuerySize { values: 1, text: text as u64, depth: 0 }
}

/// The properties of a query that determine its work. Text in quotes does not count.
#[derive(Debug, Default)]
struct QueryShape {
    /// Number of `..` and `?`.
    wide: usize,
    /// Product of the numbers of selectors in all brackets.
    copies: usize,
    /// Depth of brackets.
    depth: usize,
    /// `true` if it can match more than one place.
    has_many: bool,
    /// `true` if a filter refers to the root.
    has_root: bool,
}

impl QueryShape {
    fn new(path: &str) -> Self {
        let mut shape = Self { copies: 1, ..Self::default() };
        let (mut open, mut last) = (Vec::<usize>::new(), ' ');
        outside_of_quotes(path.trim_start().get(1..).unwrap_or_default(), |_, letter, depth| {
            shape.depth = shape.depth.max(depth);
            match letter {
                '$' => shape.has_root = true,
                '?' => (shape.wide, shape.has_many) = (shape.wide + 1, true),
                // Three dots count as two pairs.
                '.' if last == '.' => (shape.wide, shape.has_many) = (shape.wide + 1, true),
                '*' | ':' => shape.has_many = true,
                '[' => open.push(1),
                ',' => {
                    shape.has_many = true;
                    open.iter_mut().next_back().into_iter().for_each(|count| *count += 1);
                }
                ']' => shape.copies = shape.copies.saturating_mul(open.pop().unwrap_or(1)),
                _ => {}
            }
            last = letter;
        });
        shape
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{BoundedPath, QueryShape};

    #[test]
    fn text_in_quotes_is_not_counted() {
        for (path, count) in [
            ("$.a.b[0]", 0),
            ("$..a[?@.b == '..?']", 2),
            ("$['..']['?'][\"a\\\"..\"]", 0),
            ("$..a..b[?@..c]", 4),
            ("$['a\\\\']..b", 1),
        ] {
            assert_eq!(QueryShape::new(path).wide, count, "{path}");
        }
    }

    #[test]
    fn a_query_in_parts_finds_the_same_places_in_the_same_order() {
        let data = json!({
            "rows": [{"name": "tea", "price": 3, "tags": ["a", "b"]}, {"name": "rice", "price": 12, "é": {"name": 1}}],
            "name": [["x"], [["y", {"name": null}]]], "a.b": {"]": "]"}
        });
        for path in [
            "$",
            "$.*",
            "$..*",
            "$..name",
            "$..name..*",
            "$.rows[*].name",
            "$.rows[?@.price < 10].name",
            "$..[?@.name]",
            "$..[0]",
            "$..[0, 0, 'name']",
            "$.rows[::-1]['name','price']",
            "$ .rows [0:1] .tags[*]",
            "$..['a.b'][']']",
            "$.rows[?@.tags[?@ == 'b']]",
            "$..[?search(@.name, '^r')].é",
            "$.rows[?count(@.tags.*) > 1 || !@.é]",
            "$[?length(@) == 2][?(@.price > 1 && (@.name == 'tea'))]",
            "$..*..*",
            "$['name'][*][*]",
        ] {
            let path =
                BoundedPath::parse(path).unwrap_or_else(|problem| panic!("{path}: {problem}"));
            assert_eq!(path.matches(&data).unwrap(), path.query.query(&data).all(), "{path:?}");
        }
    }
}

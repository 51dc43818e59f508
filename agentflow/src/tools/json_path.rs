//! `BoundedPath`: a JSONPath query (RFC 9535) whose work is bounded. It reads nothing but the JSON that it is given.

use std::fmt;

use serde_json::Value;
use serde_json_path::JsonPath;

/// The most bytes of a query.
const LONGEST: usize = 4 << 10;
/// Every `..` and every filter may look at all that is below each of its items, so their number bounds the work.
const MOST_WIDE: usize = 3;

/// How many selectors the brackets of a query may have, multiplied: each may give the same place once more.
const MOST_COPIES: usize = 64;

#[derive(Clone)]
pub(super) struct BoundedPath {
    query: JsonPath,
    /// Whether it can match more than one place.
    #[cfg(feature = "tool-api")]
    is_wide: bool,
}

impl BoundedPath {
    /// # Errors
    /// A sentence, when the text is not a query, too long, or one that may look too far.
    pub(super) fn parse(path: &str) -> Result<Self, String> {
        if path.len() > LONGEST {
            return Err(format!("a query has at most {LONGEST} bytes, and this one has {}", path.len()));
        }
        let wide = wide_parts(path);
        if wide > MOST_WIDE {
            return Err(format!(
                "a query has at most {MOST_WIDE} of `..` and `?`, and this one has {wide}; name the fields"
            ));
        }
        if copies(path).is_none_or(|copies| copies > MOST_COPIES) {
            return Err(format!(
                "a query names one place at most {MOST_COPIES} times, and has no `$` in a filter; ask for less"
            ));
        }
        let query = JsonPath::parse(path).map_err(|error| {
            format!("`{path}` is not a JSONPath query: {error}; write one such as `$.rows[0].name`")
        })?;
        Ok(Self {
            query,
            #[cfg(feature = "tool-api")]
            is_wide: is_wide(path),
        })
    }

    /// One match is the answer itself, several are a list, none is `null`.
    pub(super) fn find(&self, data: &Value) -> Value {
        let found = self.query.query(data);
        match found.len() {
            0 => Value::Null,
            1 => found.first().cloned().unwrap_or_default(),
            _ => found.into_iter().cloned().collect(),
        }
    }

    /// The items of a list: those that a query finds which can match several places, else those of the one list that it finds.
    /// `None` when that is not one; nothing is an empty list.
    #[cfg(feature = "tool-api")]
    pub(super) fn items(&self, data: &Value) -> Option<Vec<Value>> {
        if self.is_wide {
            return Some(self.query.query(data).into_iter().cloned().collect());
        }
        match self.find(data) {
            Value::Array(items) => Some(items),
            Value::Null => Some(Vec::new()),
            _ => None,
        }
    }
}

impl fmt::Debug for BoundedPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.query)
    }
}

/// The selectors of all brackets, multiplied; `None` when a filter begins at the root again.
fn copies(path: &str) -> Option<usize> {
    let (mut copies, mut open, mut quote) = (1_usize, Vec::<usize>::new(), None);
    let mut letters = path.trim_start().chars().skip(1);
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(_), '\\') => drop(letters.next()),
            (Some(of), letter) if letter == of => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(letter),
            (None, '$') => return None,
            (None, '[') => open.push(1),
            (None, ',') => open.iter_mut().next_back().into_iter().for_each(|count| *count += 1),
            (None, ']') => copies = copies.saturating_mul(open.pop().unwrap_or(1)),
            _ => {}
        }
    }
    Some(copies)
}

/// Whether a query has a part that can match more than one place, outside of names in quotes.
#[cfg(feature = "tool-api")]
fn is_wide(path: &str) -> bool {
    let (mut quote, mut letters) = (None, path.chars());
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(_), '\\') => drop(letters.next()),
            (Some(open), letter) if letter == open => quote = None,
            (None, '\'' | '"') => quote = Some(letter),
            (None, '*' | '?' | ':' | ',') => return true,
            _ => {}
        }
    }
    path.contains("..")
}

/// How many `..` and `?` a query has, outside of names and texts in quotes.
fn wide_parts(path: &str) -> usize {
    let (mut count, mut quote, mut letters) = (0, None, path.chars().peekable());
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(_), '\\') => drop(letters.next()),
            (Some(open), letter) if letter == open => quote = None,
            (None, '\'' | '"') => quote = Some(letter),
            (None, '?') => count += 1,
            (None, '.') if letters.peek() == Some(&'.') => count += 1,
            _ => {}
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::wide_parts;

    #[test]
    fn what_is_in_quotes_is_not_counted() {
        for (path, count) in [
            ("$.a.b[0]", 0),
            ("$..a[?@.b == '..?']", 2),
            ("$['..']['?'][\"a\\\"..\"]", 0),
            ("$..a..b[?@..c]", 4),
            ("$['a\\\\']..b", 1),
        ] {
            assert_eq!(wide_parts(path), count, "{path}");
        }
    }
}

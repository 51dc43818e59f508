//! Values that differ from run to run, written as tokens in texts, such as `<id.7.00000012>`: what a comparison ignores,
//! and what it counts.

use std::collections::{BTreeMap, BTreeSet};

/// A token of a kind, made at a call in the program's text.
pub fn token(kind: &str, site: u64, value: &str) -> String {
    format!("<{kind}.{site}.{value}>")
}

/// The text without the values of its tokens, which are added to the others, by kind and site.
pub fn strip(text: &str, values: &mut BTreeMap<String, BTreeSet<String>>) -> String {
    let mut stripped = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        stripped.push_str(&rest[..at]);
        rest = &rest[at..];
        match parts(rest) {
            Some((name, value, after)) => {
                stripped.push('<');
                stripped.push_str(name);
                stripped.push('>');
                values.entry(name.to_lowercase()).or_default().insert(value.to_owned());
                rest = after;
            }
            None => {
                stripped.push('<');
                rest = &rest[1..];
            }
        }
    }
    stripped.push_str(rest);
    stripped
}

/// The text without the values of its tokens.
pub fn stripped(text: &str) -> String {
    strip(text, &mut BTreeMap::new())
}

/// `<kind.site.value>rest` as `kind.site`, `value`, `rest`.
fn parts(text: &str) -> Option<(&str, &str, &str)> {
    let end = text.find('>')?;
    let inside = &text[1..end];
    let dot = inside.find('.')?;
    let value = dot + 1 + inside[dot + 1..].find('.')?;
    let fits = inside[..dot].chars().all(char::is_alphabetic) && inside[dot + 1..value].chars().all(char::is_numeric);
    fits.then(|| (&inside[..value], &inside[value + 1..], &text[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_stripped_and_kept() {
        let mut values = BTreeMap::new();
        assert_eq!(strip("a <id.7.0001> <b> <ID.7.0002>, <", &mut values), "a <id.7> <b> <ID.7>, <");
        assert_eq!(values["id.7"].len(), 2);
    }
}

//! Tokens for values that differ between runs, such as `<id.7.00000012>`. A comparison ignores
//! their values but counts the distinct ones.

use std::collections::{BTreeMap, BTreeSet};

/// Formats a token of a kind for a call in the program's text.
pub fn token(kind: &str, site: u64, value: &str) -> String {
    format!("<{kind}.{site}.{value}>")
}

/// Removes the values of all tokens from a text, and adds them to `values` by kind and site.
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

/// Removes the values of all tokens from a text.
pub fn stripped(text: &str) -> String {
    strip(text, &mut BTreeMap::new())
}

/// Splits `<kind.site.value>rest` into `kind.site`, `value` and `rest`.
fn parts(text: &str) -> Option<(&str, &str, &str)> {
    let end = text.find('>')?;
    let inside = &text[1..end];
    let dot = inside.find('.')?;
    let value = dot + 1 + inside[dot + 1..].find('.')?;
    let fits = inside[..dot].chars().all(char::is_alphabetic)
        && inside[dot + 1..value].chars().all(char::is_numeric);
    fits.then(|| (&inside[..value], &inside[value + 1..], &text[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_stripped_and_kept() {
        let mut values = BTreeMap::new();
        assert_eq!(
            strip("a <id.7.0001> <b> <ID.7.0002>, <", &mut values),
            "a <id.7> <b> <ID.7>, <"
        );
        assert_eq!(values["id.7"].len(), 2);
    }
}

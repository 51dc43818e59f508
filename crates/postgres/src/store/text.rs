//! Stores any Rust string in a Postgres `text` column.
//!
//! Postgres refuses NUL in `text`. The encoding replaces NUL by U+0001 U+0001, and U+0001 by U+0001
//! U+0002. It is unambiguous and keeps the order of strings, so the database can sort and compare
//! encoded text. All other text is stored unchanged and readable.

use std::borrow::Cow;

/// Encodes a string for a `text` column.
pub(super) fn encode(text: &str) -> Cow<'_, str> {
    match text.contains(['\0', '\u{1}']) {
        true => Cow::Owned(text.replace('\u{1}', "\u{1}\u{2}").replace('\0', "\u{1}\u{1}")),
        false => Cow::Borrowed(text),
    }
}

/// Decodes the string of a `text` column.
pub(super) fn decode(text: &str) -> String {
    let mut decoded = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(char) = rest.next() {
        match char {
            '\u{1}' => decoded.push(if rest.next() == Some('\u{1}') { '\0' } else { '\u{1}' }),
            char => decoded.push(char),
        }
    }
    decoded
}

#[cfg(test)]
mod tests {
    use super::{decode, encode};

    #[test]
    fn encoded_text_has_no_nul_and_keeps_its_order() {
        let mut texts: Vec<String> = Vec::new();
        for first in ["", "\0", "\u{1}", "\u{2}", "a"] {
            for second in ["", "\0", "\u{1}", "\u{2}", "\u{1F980}"] {
                texts.push(format!("{first}{second}{first}"));
            }
        }
        texts.sort();
        texts.dedup();
        let encoded: Vec<String> = texts.iter().map(|text| encode(text).into_owned()).collect();
        assert!(encoded.is_sorted() && encoded.iter().all(|text| !text.contains('\0')));
        assert!(encoded.iter().map(|text| decode(text)).eq(texts));
    }
}

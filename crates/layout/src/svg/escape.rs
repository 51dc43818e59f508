//! Escapes text for XML.

use crate::text_width::printable;

/// Appends a text to a document, so that it is neither markup nor forbidden in XML. At most
/// `max_chars` characters are written; `…` marks a cut.
pub(super) fn push_text(document: &mut String, text: &str, max_chars: usize) {
    for (index, c) in text.chars().enumerate() {
        if index == max_chars {
            document.push('…');
            return;
        }
        match printable(c) {
            '&' => document.push_str("&amp;"),
            '<' => document.push_str("&lt;"),
            '>' => document.push_str("&gt;"),
            '"' => document.push_str("&quot;"),
            '\'' => document.push_str("&#39;"),
            c => document.push(c),
        }
    }
}

/// Appends an id as the value of an attribute, without a cut. Characters that XML forbids are
/// replaced.
pub(super) fn push_id(document: &mut String, id: &str) {
    push_text(document, id, usize::MAX);
}

/// Returns a word as a part of a class: lower case letters, digits and `-`. `None` if nothing
/// remains.
pub(super) fn class_word(word: &str) -> Option<String> {
    let mut class = String::new();
    for c in word.chars().take(32) {
        match c.to_ascii_lowercase() {
            c @ ('a'..='z' | '0'..='9') => class.push(c),
            '_' | '-' | ' ' => class.push('-'),
            _ => {}
        }
    }
    (!class.is_empty()).then_some(class)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_is_escaped() {
        let mut text = String::new();
        push_text(&mut text, "<a b='1' c=\"2\">&\u{0}", 100);
        assert_eq!(text, "&lt;a b=&#39;1&#39; c=&quot;2&quot;&gt;&amp;\u{fffd}");
    }

    #[test]
    fn a_class_has_no_markup() {
        assert_eq!(class_word("Fan_Out \"><x").as_deref(), Some("fan-out-x"));
        assert_eq!(class_word("\u{202e}"), None);
    }
}

//! Masks secrets in text.
//!
//! [`without`] replaces one secret in a string, also if the string contains it in an escaped form.
//! [`SecretMasker`] (`hidden_texts.rs`) holds all secrets of a client and masks them in strings, in
//! names of fields, and in base64 fields of a JSON value. Tools and protocol clients mask the
//! messages of their servers before the messages are recorded or shown.

#[doc(hidden)]
pub use self::hidden_texts::SecretMasker;

mod hidden_texts;

/// Replaces each occurrence of a secret in a string with `mark`. Also finds escaped forms: JSON
/// escapes at any depth, since JSON text can be nested in JSON text, and Rust escapes. Returns
/// `None` if the text does not contain the secret.
pub fn without(text: &str, secret: &str, mark: &str) -> Option<String> {
    let first = secret.chars().next()?;
    let mut out = String::new();
    let (mut copied, mut at) = (0, 0);
    while let Some(begin) = text[at..].find([first, '\\']).map(|found| at + found) {
        match escaped_prefix(&text[begin..], secret) {
            Some(length) => {
                out.push_str(&text[copied..begin]);
                out.push_str(mark);
                (copied, at) = (begin + length, begin + length);
            }
            // A match from any backslash of a run would end at the same position, so the whole run
            // is skipped after one attempt. This keeps the search linear.
            None => {
                let rest = &text[begin..];
                let after = match rest.trim_start_matches('\\') {
                    after if after.len() == rest.len() => {
                        &rest[rest.chars().next().map_or(1, char::len_utf8)..]
                    }
                    after if first == '\\' => backslashes(after),
                    after => after,
                };
                at = text.len() - after.len();
            }
        }
    }
    (copied > 0).then(|| out + &text[copied..])
}

/// Returns the length in bytes of the `secret` at the beginning of `text`, where each character may
/// be escaped.
///
/// Any number of backslashes is accepted before a character, since each level of nesting adds some.
fn escaped_prefix(text: &str, secret: &str) -> Option<usize> {
    let mut rest = text;
    let mut in_run = false;
    for c in secret.chars() {
        if c == '\\' && in_run {
            // The run of backslashes that was just read includes this backslash.
            continue;
        }
        let after = rest.trim_start_matches('\\');
        #[cfg(test)]
        tests::note_read(rest.len() - after.len() + 1);
        let had = after.len() < rest.len();
        rest = match c {
            '\\' if had => backslashes(after),
            '\\' => return None,
            _ if had => strip_escape(after, c)?,
            // The backslashes of this character's escape belong to the run that was just read.
            _ if in_run => rest.strip_prefix(c).or_else(|| strip_escape(rest, c))?,
            _ => rest.strip_prefix(c)?,
        };
        in_run = c == '\\';
    }
    Some(text.len() - rest.len())
}

/// Returns the text after a run of backslashes. The plain backslashes are already read; this reads
/// the `\u005c` escapes.
fn backslashes(mut text: &str) -> &str {
    while let Some(rest) = text.strip_prefix("u005c").or_else(|| text.strip_prefix("u005C")) {
        #[cfg(test)]
        tests::note_read(1);
        text = rest.trim_start_matches('\\');
    }
    text
}

/// Returns the text after the escape of the character `c`. The backslashes of the escape are
/// already read.
fn strip_escape(text: &str, c: char) -> Option<&str> {
    let short = match c {
        '\n' => 'n',
        '\r' => 'r',
        '\t' => 't',
        '\u{8}' => 'b',
        '\u{c}' => 'f',
        '"' | '\'' | '/' => c,
        _ => 'u',
    };
    if let Some(rest) = text.strip_prefix(short).filter(|_| short != 'u') {
        return Some(rest);
    }
    let number = text.strip_prefix('u')?;
    if let Some((digits, rest)) = number.strip_prefix('{').and_then(|digits| digits.split_once('}'))
    {
        return (u32::from_str_radix(digits, 16) == Ok(c.into())).then_some(rest);
    }
    // Characters outside of the basic plane are escaped as two UTF-16 units.
    let mut units = [0; 2];
    let units = c.encode_utf16(&mut units);
    let mut rest = number;
    for (at, unit) in units.iter().enumerate() {
        if at > 0 {
            rest = rest.trim_start_matches('\\').strip_prefix('u')?;
        }
        let (digits, after) = rest.split_at_checked(4)?;
        (u16::from_str_radix(digits, 16) == Ok(*unit)).then_some(())?;
        rest = after;
    }
    Some(rest)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::without;

    thread_local! {
        /// Number of backslashes and characters that were read.
        static READ: Cell<usize> = const { Cell::new(0) };
    }

    pub(super) fn note_read(many: usize) {
        READ.set(READ.get() + many);
    }

    #[test]
    fn a_text_of_many_backslashes_is_read_in_so_many_steps_as_it_has_bytes() {
        let numbers = "\\u005c".repeat(1 << 12);
        let nested = format!("{}\\u005c", "\\".repeat(64)).repeat(1 << 9);
        for text in
            ["\\".repeat(1 << 15), numbers, nested, "a\\".repeat(1 << 14), "\\a".repeat(1 << 14)]
        {
            for secret in [
                "a-secret-of-ours",
                "\\a-secret",
                "\\\\a-secret",
                "a\\-secret",
                "\u{e9}t\u{e9}-secret",
            ] {
                READ.set(0);
                assert_eq!(without(&text, secret, "#"), None);
                let read = READ.get();
                assert!(
                    read <= 4 * text.len(),
                    "{read} steps for {} bytes: {}, {secret}",
                    text.len(),
                    &text[..12]
                );
                let found = without(&format!("{text}<{secret}>"), secret, "#").unwrap();
                assert!(found.ends_with("<#>") && found.len() == text.len() + 3, "{secret}");
            }
        }
    }

    #[test]
    fn a_secret_is_found_however_deep_it_is_escaped() {
        for secret in [
            "pass-word",
            "a \"quoted\" one",
            "back\\slash \\\\ end",
            "line\n\tfeed",
            "dé/jà \u{1f511}",
            "\\\"\\",
        ] {
            let mut text = format!("<{secret}>");
            for depth in 0..5 {
                let found = without(&text, secret, "#")
                    .unwrap_or_else(|| panic!("{secret:?} at {depth} in {text}"));
                assert!(found.contains("<#>"), "{secret:?} at {depth}: {found}");
                text = serde_json::to_string(&text).unwrap();
            }
            assert_eq!(
                without(&format!("{:?}", format!("<{secret}>")), secret, "#").as_deref(),
                Some("\"<#>\"")
            );
            let numbers: String =
                secret.encode_utf16().map(|unit| format!("\\u{unit:04X}")).collect();
            assert_eq!(without(&numbers, secret, "#").as_deref(), Some("#"), "{numbers}");
        }
    }

    #[test]
    fn what_is_no_secret_stays() {
        for (text, secret) in [
            ("pi\\n code", "pin code"),
            ("pass\\word", "password"),
            ("pass-wor", "pass-word"),
            ("\\u007", "password"),
            ("\\u{", "u{password"),
            ("text", ""),
        ] {
            assert_eq!(without(text, secret, "#"), None, "{text}");
        }
        assert_eq!(without("aab aab", "ab", "#").as_deref(), Some("a# a#"));
        assert_eq!(without("ééb", "éb", "#").as_deref(), Some("é#"));
    }
}

//! Splits a string into words, by which memories are found. Every character except letters and
//! digits is a separator, so a query never contains the syntax of a query language.

/// Maximum number of words of a query that are used; further words are ignored.
pub const MOST_WORDS: usize = 64;

/// Returns the words of a string in lower case. In scripts without spaces between words, each
/// character is a word.
pub fn words(text: &str) -> impl Iterator<Item = String> {
    let mut signs =
        text.chars().filter(|sign| !is_mark(*sign)).flat_map(char::to_lowercase).peekable();
    std::iter::from_fn(move || {
        while signs.next_if(|sign| !sign.is_alphanumeric()).is_some() {}
        let first = signs.next()?;
        let mut word = String::from(first);
        while !is_single_char_word(first)
            && let Some(next) =
                signs.next_if(|next| next.is_alphanumeric() && !is_single_char_word(*next))
        {
            word.push(next);
        }
        Some(word)
    })
}

/// Returns `true` for a combining diacritical mark (U+0300 to U+036F).
fn is_mark(sign: char) -> bool {
    matches!(sign, '\u{300}'..='\u{36f}')
}

/// Returns `true` for a character of a script without spaces between words: Thai to Khmer, and
/// Chinese and Japanese characters.
fn is_single_char_word(sign: char) -> bool {
    matches!(sign,
        '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{3040}'..='\u{30ff}'
        | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn words_of_several_scripts() {
        for (text, expected) in [
            ("Prefers *window* seats!", "prefers window seats"),
            ("\" OR 1=1; NEAR(a b) -- col:x^2", "or 1 1 near a b col x 2"),
            ("喜欢茶 tea2茶", "喜 欢 茶 tea2 茶"),
            ("Ärger cafe\u{301}", "ärger cafe"),
            ("…—\0\"'", ""),
        ] {
            assert_eq!(words(text).collect::<Vec<_>>().join(" "), expected, "{text}");
        }
    }
}

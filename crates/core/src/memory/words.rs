//! The words of a text, by which memories are found. What is no letter and no digit separates words and is in none, so
//! nothing of a query is ever a sign of a query language.

/// More words of a query are not looked at.
pub const MOST_WORDS: usize = 64;

/// The words of a text in lower case. In a script that has no spaces between words, each sign counts as one.
pub fn words(text: &str) -> impl Iterator<Item = String> {
    let mut signs = text.chars().filter(|sign| !is_mark(*sign)).flat_map(char::to_lowercase).peekable();
    std::iter::from_fn(move || {
        while signs.next_if(|sign| !sign.is_alphanumeric()).is_some() {}
        let first = signs.next()?;
        let mut word = String::from(first);
        while !stands_alone(first)
            && let Some(next) = signs.next_if(|next| next.is_alphanumeric() && !stands_alone(*next))
        {
            word.push(next);
        }
        Some(word)
    })
}

/// An accent that follows its letter.
fn is_mark(sign: char) -> bool {
    matches!(sign, '\u{300}'..='\u{36f}')
}

/// Thai to Khmer, the signs and syllables of Chinese and Japanese.
fn stands_alone(sign: char) -> bool {
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

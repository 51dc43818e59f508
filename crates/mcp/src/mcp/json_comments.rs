//! Removes comments and trailing commas from JSON, which editors accept in their settings files.

/// Replaces comments and trailing commas with spaces. Lines and columns in error messages stay
/// correct.
pub(super) fn without_comments(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    // Position of the last comma, as long as only white space and comments followed it.
    let mut comma = None;
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match (letter, letters.peek()) {
            ('"', _) => {
                comma = None;
                plain.push(letter);
                while let Some(letter) = letters.next() {
                    plain.push(letter);
                    match letter {
                        // An escaped quote does not end the text.
                        '\\' => plain.extend(letters.next()),
                        '"' => break,
                        _ => {}
                    }
                }
            }
            ('/', Some('/')) => {
                plain.push(' ');
                while let Some(letter) = letters.next_if(|letter| *letter != '\n') {
                    plain.push(blank(letter));
                }
            }
            ('/', Some('*')) => {
                plain.push_str("  ");
                letters.next();
                let mut before = ' ';
                for letter in letters.by_ref() {
                    plain.push(blank(letter));
                    if (before, letter) == ('*', '/') {
                        break;
                    }
                    before = letter;
                }
            }
            (',', _) => {
                comma = Some(plain.len());
                plain.push(letter);
            }
            ('}' | ']', _) => {
                if let Some(at) = comma.take() {
                    plain.replace_range(at..=at, " ");
                }
                plain.push(letter);
            }
            (letter, _) => {
                if !letter.is_whitespace() {
                    comma = None;
                }
                plain.push(letter);
            }
        }
    }
    plain
}

fn blank(letter: char) -> char {
    if letter == '\n' { letter } else { ' ' }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_last_commas_become_space() {
        for (text, plain) in [
            ("{\"a\": 1, // no\n}", "{\"a\": 1       \n}"),
            ("[1, /* 2,\n */ ]", "[1       \n    ]"),
            (
                r#"{"a//b": "c /* d */, }", "e": "\"//"}"#,
                r#"{"a//b": "c /* d */, }", "e": "\"//"}"#,
            ),
            ("[,1]", "[,1]"),
            ("[1,,]", "[1, ]"),
            ("/", "/"),
        ] {
            assert_eq!(without_comments(text), plain, "{text}");
        }
    }
}

//! Splits text into words, sentences and passages, for the search and for the stand-in model.
//!
//! A passage keeps the line numbers of its text.

/// A sentence, a heading, a table row or a line of code, with its position.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Passage {
    /// Number of the first line, from 1.
    pub(crate) first: usize,
    /// Number of the last line.
    pub(crate) last: usize,
    pub(crate) kind: Kind,
    /// Text with line breaks as single spaces and without markers at the start of lines.
    pub(crate) text: String,
    /// Subject of the passage: the heading above it, or the line of code below a comment.
    pub(crate) about: String,
}

/// Kind of a passage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Heading,
    Sentence,
    Row,
    Code,
}

/// Stop words, sorted.
const STOP: &[&str] = &[
    "a", "about", "all", "also", "an", "and", "any", "are", "as", "at", "be", "been", "but", "by",
    "can", "could", "did", "do", "does", "for", "from", "get", "give", "had", "happen", "happens",
    "has", "have", "how", "i", "if", "in", "into", "is", "it", "its", "me", "my", "no", "not",
    "of", "on", "one", "or", "our", "shall", "should", "so", "some", "tell", "than", "that", "the",
    "their", "them", "then", "there", "these", "they", "this", "those", "to", "us", "use", "used",
    "was", "we", "were", "what", "when", "where", "which", "who", "whom", "whose", "why", "will",
    "with", "would", "you", "your",
];

/// Returns the words of a text in lower case. `camelCase` and `snake_case` are split, endings are
/// removed, and stop words are left out.
pub(crate) fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut was_lower = false;
    for letter in text.chars().chain([' ']) {
        let ends = !letter.is_alphanumeric() || (letter.is_uppercase() && was_lower);
        if ends && !word.is_empty() {
            let lower = std::mem::take(&mut word).to_lowercase();
            if STOP.binary_search(&lower.as_str()).is_err() {
                words.push(stem(&lower));
            }
        }
        if letter.is_alphanumeric() {
            word.push(letter);
        }
        was_lower = letter.is_lowercase();
    }
    words
}

/// Removes the ending of a word, so that `registers`, `registered` and `registering` are equal.
pub(crate) fn stem(word: &str) -> String {
    let mut stem = word;
    for _ in 0..2 {
        let cut = [
            "ations", "ation", "ings", "ing", "ions", "ion", "ies", "ers", "er", "ed", "es", "ly",
            "s", "e", "y",
        ]
        .iter()
        .find_map(|ending| stem.strip_suffix(ending).filter(|rest| rest.chars().count() >= 3));
        match cut {
            Some(rest) => stem = rest,
            None => break,
        }
    }
    // `stopp` becomes `stop`, and `cancell` becomes `cancel`.
    let mut letters = stem.chars().rev();
    match (letters.next(), letters.next()) {
        (Some(a), Some(b)) if a == b && a.is_alphabetic() && stem.chars().count() > 3 => {
            stem[..stem.len() - a.len_utf8()].to_owned()
        }
        _ => stem.to_owned(),
    }
}

/// Removes the marker of a comment, heading, list or quotation from the start of a line.
pub(crate) fn without_marker(line: &str) -> &str {
    let mut rest = line.trim();
    loop {
        let marker = rest.find(|c: char| !"/!#*->+".contains(c)).unwrap_or(rest.len());
        let is_marker = match &rest[..marker] {
            "///" | "//!" | "//" | "/**" | "/*" | "*" | "-" | "+" | ">" | "--" => true,
            hashes => !hashes.is_empty() && hashes.bytes().all(|byte| byte == b'#'),
        };
        if !is_marker
            || !rest[marker..].is_empty() && !rest[marker..].starts_with(char::is_whitespace)
        {
            return rest;
        }
        rest = rest[marker..].trim_start();
    }
}

/// Returns the weight of the subject's words compared with the passage's own words. A comment
/// describes the next line, but a paragraph is only loosely related to its heading.
pub(crate) fn share_of_about(path: &str) -> f32 {
    if is_code(path) { 0.8 } else { 0.5 }
}

/// Returns `true` for a file with code, in which only comments are prose.
fn is_code(path: &str) -> bool {
    const CODE: &[&str] = &[
        "c", "cc", "cpp", "cs", "css", "go", "h", "hpp", "java", "js", "json", "jsonl", "jsx",
        "kt", "lua", "php", "pl", "py", "rb", "rs", "scala", "sh", "sql", "swift", "toml", "ts",
        "tsx", "xml", "yaml", "yml", "zig",
    ];
    let name = path.rsplit('/').next().unwrap_or(path);
    name.rsplit_once('.')
        .is_some_and(|(_, ending)| CODE.contains(&ending.to_ascii_lowercase().as_str()))
}

/// Returns `true` if a line of code is a comment.
fn is_comment(line: &str) -> bool {
    line == "*"
        || line == "#"
        || ["//", "# ", "/*", "* ", "-- "].iter().any(|start| line.starts_with(start))
}

/// Returns the passages in some lines of a document. The first line has the number `first`.
pub(crate) fn passages<'a>(
    path: &str,
    first: usize,
    lines: impl IntoIterator<Item = &'a str>,
) -> Vec<Passage> {
    let code_file = is_code(path);
    let lines: Vec<&str> = lines.into_iter().collect();
    let mut passages = Vec::new();
    let mut paragraph: Vec<(usize, &str)> = Vec::new();
    // An excerpt may start inside of a code block. Then the number of fences is odd and the first
    // one is bare.
    let fences: Vec<&str> =
        lines.iter().map(|line| without_marker(line)).filter(|line| is_fence(line)).collect();
    let mut fenced = first > 1 && fences.len() % 2 == 1 && fences[0].len() == 3;
    let mut heading = String::new();
    // Index of the first passage of the comment that describes the next line of code.
    let mut comment = 0;
    for (number, line) in (first..).zip(lines) {
        let trimmed = line.trim();
        let text = without_marker(trimmed);
        let single = |kind, about: &str| Passage {
            first: number,
            last: number,
            kind,
            text: text.to_owned(),
            about: about.to_owned(),
        };
        let commented =
            ["///", "//!", "//", "*"].iter().find_map(|marker| trimmed.strip_prefix(marker));
        let is_heading = if code_file { commented } else { Some(trimmed) };
        let is_heading = is_heading.is_some_and(|rest| rest.trim_start().starts_with('#'));
        // In a code file, a fenced block cannot extend beyond its comment.
        fenced &= !code_file || is_comment(trimmed);
        if is_fence(text) {
            end_paragraph(&mut paragraph, &mut passages, &heading);
            fenced = !fenced;
        } else if text.is_empty() {
            end_paragraph(&mut paragraph, &mut passages, &heading);
            // A comment followed by an empty line describes no code.
            if trimmed.is_empty() {
                comment = passages.len();
            }
        } else if fenced || (code_file && !is_comment(trimmed)) {
            end_paragraph(&mut paragraph, &mut passages, &heading);
            // Attributes may be between a comment and the item that it describes.
            if code_file && !trimmed.starts_with("#[") && !trimmed.starts_with('@') {
                for passage in &mut passages[comment..] {
                    text.clone_into(&mut passage.about);
                }
                heading.clear();
                comment = passages.len() + 1;
            }
            passages.push(single(Kind::Code, ""));
        } else if is_heading {
            end_paragraph(&mut paragraph, &mut passages, &heading);
            passages.push(single(Kind::Heading, ""));
            text.clone_into(&mut heading);
        } else if text.starts_with('|') {
            end_paragraph(&mut paragraph, &mut passages, &heading);
            passages.push(single(Kind::Row, &heading));
        } else {
            let item = ["- ", "* ", "+ "]
                .iter()
                .any(|marker| text.starts_with(marker) || trimmed.starts_with(marker))
                || text
                    .split_once(['.', ')'])
                    .is_some_and(|(n, rest)| n.parse::<u8>().is_ok() && rest.starts_with(' '));
            if item {
                end_paragraph(&mut paragraph, &mut passages, &heading);
            }
            paragraph.push((number, text));
        }
    }
    end_paragraph(&mut paragraph, &mut passages, &heading);
    passages
}

fn is_fence(text: &str) -> bool {
    text.starts_with("```") || text.starts_with("~~~")
}

/// Splits a paragraph into sentences with their line numbers. A sentence of one or two words is
/// joined to the previous one.
fn end_paragraph(paragraph: &mut Vec<(usize, &str)>, passages: &mut Vec<Passage>, heading: &str) {
    let of_paragraph = passages.len();
    let mut text = String::new();
    let mut starts = Vec::new();
    for (number, line) in paragraph.drain(..) {
        if !text.is_empty() {
            text.push(' ');
        }
        starts.push((text.len(), number));
        text.push_str(line);
    }
    let line_at = |at: usize| {
        let place = starts.partition_point(|(start, _)| *start <= at);
        starts[place.saturating_sub(1)].1
    };
    let mut from = 0;
    for end in sentence_ends(&text) {
        let sentence = text[from..end].trim();
        if !sentence.is_empty() {
            let begin = from + text[from..end].find(sentence).unwrap_or(0);
            let last = line_at(begin + sentence.len() - 1);
            match passages[of_paragraph..].last_mut() {
                Some(before) if sentence.split_whitespace().count() < 4 => {
                    before.text.push(' ');
                    before.text.push_str(sentence);
                    before.last = last;
                }
                _ => passages.push(Passage {
                    first: line_at(begin),
                    last,
                    kind: Kind::Sentence,
                    text: sentence.to_owned(),
                    about: heading.to_owned(),
                }),
            }
        }
        from = end;
    }
}

/// Returns the ends of sentences: after `.`, `!` or `?` with closing characters, if followed by
/// white space and not by a small letter.
fn sentence_ends(text: &str) -> Vec<usize> {
    let mut ends = Vec::new();
    for (at, sign) in text.char_indices().filter(|(_, sign)| ".!?".contains(*sign)) {
        let after = at + sign.len_utf8();
        let rest = text[after..].trim_start_matches(['*', '_', ')', '"', '\'', '`', '”', '’']);
        let before = text[..at].rsplit(char::is_whitespace).next().unwrap_or_default();
        let short =
            matches!(before, "e.g" | "i.e" | "cf" | "vs" | "etc" | "Dr" | "Mr" | "Ms" | "No");
        let number = !before.is_empty()
            && before.len() < 3
            && before.bytes().all(|byte| byte.is_ascii_digit());
        let next = rest.trim_start().chars().next();
        if rest.starts_with(char::is_whitespace)
            && !short
            && !number
            && !next.is_some_and(char::is_lowercase)
        {
            ends.push(text.len() - rest.len());
        }
    }
    ends.push(text.len());
    ends
}

#[cfg(test)]
mod tests {
    use super::{Kind, passages, stem, words};

    #[test]
    fn the_stop_words_are_in_order() {
        assert!(super::STOP.is_sorted());
    }

    #[test]
    fn forms_of_a_word_are_one() {
        for forms in [
            ["register", "registered", "registering"],
            ["panic", "panics", "panicked"],
            ["stop", "stops", "stopped"],
        ] {
            assert_eq!(stem(forms[0]).trim_end_matches('k'), stem(forms[1]).trim_end_matches('k'));
            assert_eq!(stem(forms[0]).trim_end_matches('k'), stem(forms[2]).trim_end_matches('k'));
        }
        assert_eq!(
            words("How are `ToolStatus` and max_steps used?"),
            words("tool status max step")
        );
    }

    #[test]
    fn sentences_keep_their_lines() {
        let text = "# Title\n\nOne is here. Two goes\nover lines, e.g. this. Three.\n- item\n\n| a | b |\n```sh\nrun\n```";
        let found: Vec<_> = passages("a.md", 1, text.lines())
            .into_iter()
            .map(|p| (p.first, p.last, p.kind, p.text))
            .collect();
        let expected = [
            (1, 1, Kind::Heading, "Title"),
            (3, 3, Kind::Sentence, "One is here."),
            (3, 4, Kind::Sentence, "Two goes over lines, e.g. this. Three."),
            (5, 5, Kind::Sentence, "item"),
            (7, 7, Kind::Row, "| a | b |"),
            (9, 9, Kind::Code, "run"),
        ];
        assert_eq!(
            found,
            expected.map(|(first, last, kind, text)| (first, last, kind, text.to_owned()))
        );
    }

    #[test]
    fn an_excerpt_may_begin_inside_of_a_block_of_code() {
        let kinds = |path, text: &str| {
            passages(path, 9, text.lines()).iter().map(|p| p.kind).collect::<Vec<_>>()
        };
        assert_eq!(kinds("a.md", "run it\n```\nThat was it."), [Kind::Code, Kind::Sentence]);
        assert_eq!(
            kinds("a.rs", "/// ```\nfn a() {}\n/// Does nothing at all.\n"),
            [Kind::Code, Kind::Sentence]
        );
    }

    #[test]
    fn in_code_only_comments_are_prose() {
        let text = "/// Adds two. It never ever\n/// overflows.\n///\n/// # Errors\n/// Never.\n#[tool]\nfn add() {}";
        let found = passages("a.rs", 1, text.lines());
        let at = |at: usize| {
            (found[at].first, found[at].kind, found[at].text.as_str(), found[at].about.as_str())
        };
        assert_eq!(at(1), (1, Kind::Sentence, "It never ever overflows.", "fn add() {}"));
        assert_eq!(at(2).1, Kind::Heading);
        assert_eq!(at(5), (7, Kind::Code, "fn add() {}", ""));
    }
}

//! Splits text into words, sentences and passages, for the search and for the stand-in model.
//!
//! It reads no files; a passage keeps the line numbers of its text.

/// A sentence, a heading, a table row or a line of code, and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Passage {
    /// The first line, from 1.
    pub(crate) first: usize,
    /// The last line.
    pub(crate) last: usize,
    pub(crate) kind: Kind,
    /// The words as written, line breaks as single spaces, markers at the start of lines left out.
    pub(crate) text: String,
    /// What it is about: the heading above it, or the line of code that a comment stands before.
    pub(crate) about: String,
}

/// What a passage is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Heading,
    Sentence,
    Row,
    Code,
}

/// Words that say nothing about what is asked, in order.
const STOP: &[&str] = &[
    "a", "about", "all", "also", "an", "and", "any", "are", "as", "at", "be", "been", "but", "by", "can", "could",
    "did", "do", "does", "for", "from", "get", "give", "had", "happen", "happens", "has", "have", "how", "i", "if",
    "in", "into", "is", "it", "its", "me", "my", "no", "not", "of", "on", "one", "or", "our", "shall", "should", "so",
    "some", "tell", "than", "that", "the", "their", "them", "then", "there", "these", "they", "this", "those", "to",
    "us", "use", "used", "was", "we", "were", "what", "when", "where", "which", "who", "whom", "whose", "why", "will",
    "with", "would", "you", "your",
];

/// The words of a text: lower case, `camelCase` and `snake_case` destructured, endings cut off, stop words left out.
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

/// A word without its ending, so that `registers`, `registered` and `registering` are one word.
pub(crate) fn stem(word: &str) -> String {
    let mut stem = word;
    for _ in 0..2 {
        let cut =
            ["ations", "ation", "ings", "ing", "ions", "ion", "ies", "ers", "er", "ed", "es", "ly", "s", "e", "y"]
                .iter()
                .find_map(|ending| stem.strip_suffix(ending).filter(|rest| rest.chars().count() >= 3));
        match cut {
            Some(rest) => stem = rest,
            None => break,
        }
    }
    // `stopp` is `stop`, `cancell` is `cancel`.
    let mut letters = stem.chars().rev();
    match (letters.next(), letters.next()) {
        (Some(a), Some(b)) if a == b && a.is_alphabetic() && stem.chars().count() > 3 => {
            stem[..stem.len() - a.len_utf8()].to_owned()
        }
        _ => stem.to_owned(),
    }
}

/// The marker at the start of a line: of a comment, a heading, a list or a quotation.
pub(crate) fn without_marker(line: &str) -> &str {
    let mut rest = line.trim();
    loop {
        let marker = rest.find(|c: char| !"/!#*->+".contains(c)).unwrap_or(rest.len());
        let is_marker = match &rest[..marker] {
            "///" | "//!" | "//" | "/**" | "/*" | "*" | "-" | "+" | ">" | "--" => true,
            hashes => !hashes.is_empty() && hashes.bytes().all(|byte| byte == b'#'),
        };
        if !is_marker || !rest[marker..].is_empty() && !rest[marker..].starts_with(char::is_whitespace) {
            return rest;
        }
        rest = rest[marker..].trim_start();
    }
}

/// How much of what a passage is about counts as its own words: a comment is about the line it stands before, a
/// paragraph only somewhere under its heading.
pub(crate) fn share_of_about(path: &str) -> f32 {
    if is_code(path) { 0.8 } else { 0.5 }
}

/// Whether a file holds code, so that only its comments are prose.
fn is_code(path: &str) -> bool {
    const CODE: &[&str] = &[
        "c", "cc", "cpp", "cs", "css", "go", "h", "hpp", "java", "js", "json", "jsonl", "jsx", "kt", "lua", "php",
        "pl", "py", "rb", "rs", "scala", "sh", "sql", "swift", "toml", "ts", "tsx", "xml", "yaml", "yml", "zig",
    ];
    let name = path.rsplit('/').next().unwrap_or(path);
    name.rsplit_once('.').is_some_and(|(_, ending)| CODE.contains(&ending.to_ascii_lowercase().as_str()))
}

/// Whether a line of code is a comment.
fn is_comment(line: &str) -> bool {
    line == "*" || line == "#" || ["//", "# ", "/*", "* ", "-- "].iter().any(|start| line.starts_with(start))
}

/// The passages of some lines of a document; the first line has the number `first`.
pub(crate) fn passages<'a>(path: &str, first: usize, lines: impl IntoIterator<Item = &'a str>) -> Vec<Passage> {
    let code_file = is_code(path);
    let lines: Vec<&str> = lines.into_iter().collect();
    let mut passages = Vec::new();
    let mut paragraph: Vec<(usize, &str)> = Vec::new();
    // An excerpt may begin inside of a block of code: then its first fence is a bare one, and their number is odd.
    let fences: Vec<&str> = lines.iter().map(|line| without_marker(line)).filter(|line| is_fence(line)).collect();
    let mut fenced = first > 1 && fences.len() % 2 == 1 && fences[0].len() == 3;
    let mut heading = String::new();
    // Where the comment begins that the next line of code is described by.
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
        let commented = ["///", "//!", "//", "*"].iter().find_map(|marker| trimmed.strip_prefix(marker));
        let is_heading = if code_file { commented } else { Some(trimmed) };
        let is_heading = is_heading.is_some_and(|rest| rest.trim_start().starts_with('#'));
        // In code a block stands inside of one comment.
        fenced &= !code_file || is_comment(trimmed);
        if is_fence(text) {
            end_paragraph(&mut paragraph, &mut passages, &heading);
            fenced = !fenced;
        } else if text.is_empty() {
            end_paragraph(&mut paragraph, &mut passages, &heading);
            // A comment with nothing after it describes no line.
            if trimmed.is_empty() {
                comment = passages.len();
            }
        } else if fenced || (code_file && !is_comment(trimmed)) {
            end_paragraph(&mut paragraph, &mut passages, &heading);
            // Attributes stand between a comment and what it describes.
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
            let item = ["- ", "* ", "+ "].iter().any(|marker| text.starts_with(marker) || trimmed.starts_with(marker))
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

/// Cuts a paragraph into sentences, each with the lines it stands on. A sentence of a word or two stays with the one
/// before it.
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

/// Where sentences end: after `.`, `!` or `?`, closing signs included, when white space and no small letter follow.
fn sentence_ends(text: &str) -> Vec<usize> {
    let mut ends = Vec::new();
    for (at, sign) in text.char_indices().filter(|(_, sign)| ".!?".contains(*sign)) {
        let after = at + sign.len_utf8();
        let rest = text[after..].trim_start_matches(['*', '_', ')', '"', '\'', '`', '”', '’']);
        let before = text[..at].rsplit(char::is_whitespace).next().unwrap_or_default();
        let short = matches!(before, "e.g" | "i.e" | "cf" | "vs" | "etc" | "Dr" | "Mr" | "Ms" | "No");
        let number = !before.is_empty() && before.len() < 3 && before.bytes().all(|byte| byte.is_ascii_digit());
        let next = rest.trim_start().chars().next();
        if rest.starts_with(char::is_whitespace) && !short && !number && !next.is_some_and(char::is_lowercase) {
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
        for forms in
            [["register", "registered", "registering"], ["panic", "panics", "panicked"], ["stop", "stops", "stopped"]]
        {
            assert_eq!(stem(forms[0]).trim_end_matches('k'), stem(forms[1]).trim_end_matches('k'));
            assert_eq!(stem(forms[0]).trim_end_matches('k'), stem(forms[2]).trim_end_matches('k'));
        }
        assert_eq!(words("How are `ToolStatus` and max_steps used?"), words("tool status max step"));
    }

    #[test]
    fn sentences_keep_their_lines() {
        let text =
            "# Title\n\nOne is here. Two goes\nover lines, e.g. this. Three.\n- item\n\n| a | b |\n```sh\nrun\n```";
        let found: Vec<_> =
            passages("a.md", 1, text.lines()).into_iter().map(|p| (p.first, p.last, p.kind, p.text)).collect();
        let expected = [
            (1, 1, Kind::Heading, "Title"),
            (3, 3, Kind::Sentence, "One is here."),
            (3, 4, Kind::Sentence, "Two goes over lines, e.g. this. Three."),
            (5, 5, Kind::Sentence, "item"),
            (7, 7, Kind::Row, "| a | b |"),
            (9, 9, Kind::Code, "run"),
        ];
        assert_eq!(found, expected.map(|(first, last, kind, text)| (first, last, kind, text.to_owned())));
    }

    #[test]
    fn an_excerpt_may_begin_inside_of_a_block_of_code() {
        let kinds = |path, text: &str| passages(path, 9, text.lines()).iter().map(|p| p.kind).collect::<Vec<_>>();
        assert_eq!(kinds("a.md", "run it\n```\nThat was it."), [Kind::Code, Kind::Sentence]);
        assert_eq!(kinds("a.rs", "/// ```\nfn a() {}\n/// Does nothing at all.\n"), [Kind::Code, Kind::Sentence]);
    }

    #[test]
    fn in_code_only_comments_are_prose() {
        let text = "/// Adds two. It never ever\n/// overflows.\n///\n/// # Errors\n/// Never.\n#[tool]\nfn add() {}";
        let found = passages("a.rs", 1, text.lines());
        let at = |at: usize| (found[at].first, found[at].kind, found[at].text.as_str(), found[at].about.as_str());
        assert_eq!(at(1), (1, Kind::Sentence, "It never ever overflows.", "fn add() {}"));
        assert_eq!(at(2).1, Kind::Heading);
        assert_eq!(at(5), (7, Kind::Code, "fn add() {}", ""));
    }
}

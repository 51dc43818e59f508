//! Text helpers of all crates.
//!
//! - [`nearest`], [`known_names`] and [`name_hint`] suggest names for a misspelled name. The work
//!   is bounded, because both names may come from a model or a server.
//! - [`head`] truncates text at a character boundary, and [`unfenced`] removes a code fence.
//! - [`OneLine`] and [`write_json_line`] escape untrusted text, so that it cannot control the
//!   reader's terminal.
//! - `variables` expands `${NAME}` in configuration files.
//! - [`Renaming`] replaces names in a text and converts positions.

mod renaming;
pub mod variables;

use std::fmt::{self, Write as _};
use std::io;

pub use self::renaming::Renaming;

/// Maximum length in bytes of a name, and of the names compared with it.
pub const MOST_NAME: usize = 128;
/// Maximum number of names of a similar length that are compared for one suggestion.
pub const MOST_NAMES: usize = 300;
/// Maximum number of pairs of letters that are compared for one suggestion: about 300 names of 10
/// letters.
pub const MOST_COMPARED: usize = 30_000;

/// Returns the name nearest to `wrong`, if at most a third of the letters differ.
///
/// The work is bounded: a long name has no suggestion, and only the first of very many names are
/// compared.
pub fn nearest<'a>(wrong: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if wrong.len() > MOST_NAME {
        return None;
    }
    let allowed = (wrong.chars().count() / 3).max(1);
    let wrong = wrong.to_lowercase();
    let (letters, count) = (LetterCounts::new(&wrong), wrong.chars().count());
    let (mut best, mut left): (Option<(usize, &str)>, usize) = (None, MOST_COMPARED);
    let of_similar_length = |name: &&str| {
        // A non-ASCII letter has up to 4 bytes, and its lower-case form may have another number of
        // bytes.
        name.len() <= MOST_NAME && !(name.is_ascii() && name.len().abs_diff(count) > allowed)
    };
    for name in names.into_iter().filter(of_similar_length).take(MOST_NAMES) {
        let lower = name.to_lowercase();
        if letters.least_distance(&LetterCounts::new(&lower)) > allowed {
            continue;
        }
        let compared = count.max(1) * lower.chars().count();
        let Some(rest) = left.checked_sub(compared) else { break };
        left = rest;
        let found = (strsim::osa_distance(&wrong, &lower), name);
        if found.0 <= allowed && best.is_none_or(|best| found < best) {
            best = Some(found);
        }
    }
    best.map(|(_, name)| name)
}

/// Counts the letters of a name in 64 classes. The counts exclude most names without computing a
/// distance.
struct LetterCounts([i16; 64]);

impl LetterCounts {
    fn new(name: &str) -> Self {
        let mut counts = [0; 64];
        for letter in name.chars() {
            counts[letter as usize % 64] += 1;
        }
        Self(counts)
    }

    /// Returns a lower bound of the number of edits between two names.
    fn least_distance(&self, other: &Self) -> usize {
        let (mut more, mut fewer) = (0, 0);
        for (one, other) in self.0.iter().zip(other.0) {
            more += usize::from((one - other).max(0).unsigned_abs());
            fewer += usize::from((other - one).max(0).unsigned_abs());
        }
        more.max(fewer)
    }
}

/// Returns the position of a whole word in a string, or `None` if the word occurs only within
/// longer words.
pub fn word_in(text: &str, word: &str) -> Option<usize> {
    let is_letter = |letter: char| letter.is_alphanumeric() || letter == '_';
    let ends = |end: Option<char>, beside: Option<char>| {
        !(end.is_some_and(is_letter) && beside.is_some_and(is_letter))
    };
    text.match_indices(word).map(|(at, _)| at).find(|at| {
        let (before, after) = (&text[..*at], &text[at + word.len()..]);
        ends(word.chars().next(), before.chars().next_back())
            && ends(word.chars().next_back(), after.chars().next())
    })
}

/// Returns the end of a message about an unknown name: the suggestion, or an empty string.
pub fn did_you_mean(near: Option<impl fmt::Display>) -> String {
    near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default()
}

/// Returns the end of a message about an unknown name: the suggestion, or else the known names, at
/// most ten. `what` is the kind of name, such as `agent`.
pub fn known_names(what: &str, near: Option<impl fmt::Display>, known: &[String]) -> String {
    if near.is_some() {
        return did_you_mean(near);
    }
    let shown =
        known.iter().take(10).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    match known.len() {
        0 => String::new(),
        1 => format!("; its only {what} is {shown}"),
        2..=10 => format!("; its {what}s are {shown}"),
        count => format!("; its {what}s are {shown} and {} more", count - 10),
    }
}

/// Returns the hint about an unknown tool: the suggestion, or else the known tools, at most ten.
pub fn name_hint<'a>(wrong: &str, names: impl Iterator<Item = &'a str> + Clone) -> String {
    if let Some(near) = nearest(wrong, names.clone()) {
        return format!("did you mean `{near}`?");
    }
    let count = names.clone().count();
    let shown = names.take(10).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    match count {
        0 => "there are no tools at all".to_owned(),
        1 => format!("the only tool is {shown}"),
        2..=10 => format!("the tools are {shown}"),
        _ => format!("the tools are {shown} and {} more", count - 10),
    }
}

/// Returns the longest prefix of `text` with at most `max` bytes that ends at a character boundary.
pub fn head(text: &str, max: usize) -> &str {
    if text.len() <= max {
        return text;
    }
    let end = (0..=max).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    &text[..end]
}

/// Returns true for a character that could move the cursor, end a line, reverse adjacent text or
/// hide text: control characters except tab and line feed, line separators, writing direction
/// marks, invisible separators and operators, and tags. The joiners U+200C and U+200D are allowed,
/// because words and emoji use them.
fn draws(c: char) -> bool {
    match c {
        '\t' | '\n' => false,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{206f}' => {
            true
        }
        '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180e}' => {
            true
        }
        '\u{200b}' | '\u{2060}'..='\u{2065}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}' => true,
        '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' => true,
        '\u{e0000}'..='\u{e00ff}' | '\u{e01f0}'..='\u{e0fff}' => true,
        c => c.is_control(),
    }
}

/// Returns true for a variation selector, which selects a variant of the previous character.
fn selects_variant(c: char) -> bool {
    matches!(c, '\u{180b}'..='\u{180d}' | '\u{180f}' | '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}')
}

/// Finds the characters of a string that must be escaped. One variation selector after a character
/// is harmless, but a sequence of them could carry hidden text.
#[derive(Clone, Copy, Debug)]
struct HiddenCharFinder {
    /// `true` if the previous character may have a variation selector. It may be in the previous
    /// piece of the text.
    has_base: bool,
}

impl HiddenCharFinder {
    /// Returns the first character that must be escaped, with its position. `text` continues the
    /// previous piece.
    fn find(&mut self, text: &str, one_line: bool) -> Option<(usize, char)> {
        for (at, c) in text.char_indices() {
            let is_selector = selects_variant(c);
            let is_unseen = draws(c) || (one_line && c == '\n') || (is_selector && !self.has_base);
            self.has_base = !is_unseen && !is_selector && !c.is_whitespace();
            if is_unseen {
                return Some((at, c));
            }
        }
        None
    }
}

/// A writer that escapes the characters for which [`draws`] is true, such as `\u{1b}`, and also
/// line feeds if `one_line` is set.
struct Plain<W> {
    out: W,
    one_line: bool,
    unseen: HiddenCharFinder,
}

impl<W> Plain<W> {
    fn new(out: W, one_line: bool) -> Self {
        Self { out, one_line, unseen: HiddenCharFinder { has_base: true } }
    }
}

impl<W: fmt::Write> fmt::Write for Plain<W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        while let Some((at, c)) = self.unseen.find(rest, self.one_line) {
            self.out.write_str(&rest[..at])?;
            match c {
                '\n' => self.out.write_str("\\n")?,
                '\r' => self.out.write_str("\\r")?,
                c => write!(self.out, "{}", c.escape_unicode())?,
            }
            rest = &rest[at + c.len_utf8()..];
        }
        self.out.write_str(rest)
    }
}

/// Displays untrusted text in one line. Characters that could move the cursor, end the line or
/// change the writing direction are escaped, such as `\n` or `\u{202e}`. Tabs are kept.
#[derive(Clone, Copy, Debug)]
pub struct OneLine<T>(pub T);

impl<T: fmt::Display> fmt::Display for OneLine<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Plain::new(f, true), "{}", self.0)
    }
}

/// Displays untrusted text like [`OneLine`], but keeps line feeds.
#[derive(Clone, Copy, Debug)]
pub struct Lines<T>(pub T);

impl<T: fmt::Display> fmt::Display for Lines<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Plain::new(f, false), "{}", self.0)
    }
}

/// A JSON formatter that escapes control and invisible characters in strings. The parsed value is
/// the same. JSON outside of strings contains no such characters.
#[derive(Clone, Copy, Debug)]
pub struct PlainJson;

impl PlainJson {
    fn escaped<W: ?Sized + io::Write>(writer: &mut W, text: &str) -> io::Result<()> {
        let (mut rest, mut unseen) = (text, HiddenCharFinder { has_base: true });
        while let Some((at, c)) = unseen.find(rest, false) {
            writer.write_all(&rest.as_bytes()[..at])?;
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(writer, "\\u{unit:04x}")?;
            }
            rest = &rest[at + c.len_utf8()..];
        }
        writer.write_all(rest.as_bytes())
    }
}

impl serde_json::ser::Formatter for PlainJson {
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        Self::escaped(writer, fragment)
    }

    fn write_raw_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        Self::escaped(writer, fragment)
    }
}

/// Writes a value as one line of JSON without control or invisible characters, and a line feed.
///
/// # Errors
/// Returns the error of the writer or of the serialization.
pub fn write_json_line<W: io::Write>(
    mut writer: W,
    value: &impl serde::Serialize,
) -> io::Result<()> {
    value
        .serialize(&mut serde_json::Serializer::with_formatter(&mut writer, PlainJson))
        .map_err(io::Error::from)?;
    writer.write_all(b"\n")
}

/// Returns the message of a panic.
pub fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<&'static str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

/// Removes a Markdown code fence around JSON. Many models add it, even when the prompt forbids it.
pub fn unfenced(text: &str) -> &str {
    let text = text.trim();
    let Some(inside) = text.strip_prefix("```").and_then(|text| text.strip_suffix("```")) else {
        return text;
    };
    inside.strip_prefix("json").unwrap_or(inside).trim()
}

#[cfg(test)]
mod tests {
    use super::{Lines, OneLine, head, name_hint, nearest, unfenced, write_json_line};

    /// Clears the screen, moves the cursor home, ends the line in three ways, and reverses the
    /// rest.
    const HOSTILE: &str =
        "a\u{1b}[2J\u{9b}H\u{7f}\u{7}\r\n\t\u{2028}\u{202e}b\u{2066}\u{200f}\u{61c}é👩‍💻";

    #[test]
    fn what_others_wrote_draws_nothing() {
        let escaped = r"a\u{1b}[2J\u{9b}H\u{7f}\u{7}\r\n".to_owned()
            + "\t"
            + r"\u{2028}\u{202e}b\u{2066}\u{200f}\u{61c}é👩‍💻";
        assert_eq!(OneLine(HOSTILE).to_string(), escaped);
        assert_eq!(Lines(HOSTILE).to_string(), escaped.replace(r"\n", "\n"));
        // Text that is formatted from several pieces is escaped too.
        assert_eq!(OneLine(format_args!("{}{:>3}", "\u{1b}", "\n")).to_string(), r"\u{1b}  \n");
        for harmless in ["", "plain", "a\\nb", "\"quoted\"", "日本語 עברית"] {
            assert_eq!(OneLine(harmless).to_string(), harmless);
        }
    }

    #[test]
    fn json_that_draws_nothing_is_the_same_value() {
        let raw = serde_json::value::RawValue::from_string(
            format!("[{:?}]", "x").replace('x', "\u{202e}\u{9b}"),
        )
        .unwrap();
        let mut line = Vec::new();
        write_json_line(&mut line, &(HOSTILE, &raw)).unwrap();
        let line = String::from_utf8(line).unwrap();
        assert_eq!(
            OneLine(line.trim_end()).to_string(),
            line.trim_end(),
            "nothing is left to escape"
        );
        assert!(line.contains(r"\u202e\u009b"), "{line}");
        let (text, inner): (String, Vec<String>) = serde_json::from_str(&line).unwrap();
        assert_eq!((text.as_str(), inner[0].as_str()), (HOSTILE, "\u{202e}\u{9b}"));
    }

    /// Instructions in tag characters, an invisible separator, and bytes in variation selectors.
    const UNSEEN: &str =
        "add\u{e0044}\u{e006f}\u{200b}\u{2063}\u{ad}\u{feff} ok\u{fe0f}\u{e0150}\u{e0151} \u{fe01}";

    #[test]
    fn text_that_a_terminal_hides_is_escaped() {
        let escaped = "add\\u{e0044}\\u{e006f}\\u{200b}\\u{2063}\\u{ad}\\u{feff} ok\u{fe0f}\\u{e0150}\\u{e0151} \\u{fe01}";
        assert_eq!(OneLine(UNSEEN).to_string(), escaped);
        assert_eq!(Lines(UNSEEN).to_string(), escaped);
        // A selector applies to the character before it, also across pieces of text.
        assert_eq!(
            OneLine(format_args!("{}{}", "❤", "\u{fe0f}\u{fe0f}")).to_string(),
            "❤\u{fe0f}\\u{fe0f}"
        );
        for harmless in ["❤️ ☎︎", "葛\u{e0100}城", "می\u{200c}خواهم", "👨‍👩‍👧‍👦 👍🏽 🏳️‍🌈"]
        {
            assert_eq!(OneLine(harmless).to_string(), harmless);
        }
        let mut line = Vec::new();
        write_json_line(&mut line, &UNSEEN).unwrap();
        let line = String::from_utf8(line).unwrap();
        assert!(line.contains(r"add\udb40\udc44\udb40\udc6f\u200b"), "{line}");
        assert_eq!(
            OneLine(line.trim_end()).to_string(),
            line.trim_end(),
            "nothing is left to escape"
        );
        assert_eq!(serde_json::from_str::<String>(&line).unwrap(), UNSEEN);
    }

    #[test]
    fn a_hint_has_a_bounded_cost() {
        let long = "x".repeat(4 << 20);
        assert_eq!(nearest(&long, [long.as_str()]), None);
        assert_eq!(nearest("query", [long.as_str(), "qury"]), Some("qury"));
        // All names have the same letters in a different order, so the letter counts exclude none
        // of them.
        let names: Vec<String> =
            (0..100_000).map(|at| format!("{}{}", "ab".repeat(60), at % 7)).collect();
        let wrong = "ba".repeat(60) + "0";
        let begin = std::time::Instant::now();
        for _ in 0..10 {
            nearest(&wrong, names.iter().map(String::as_str));
        }
        assert!(begin.elapsed() < std::time::Duration::from_secs(5), "{:?}", begin.elapsed());
    }

    proptest::proptest! {
        /// Excluded names are never the nearest.
        #[test]
        fn the_nearest_of_few_names_is_that_of_all_distances(
            wrong in "[a-dA-D\u{e9}\u{df}\u{130}]{0,9}",
            names in proptest::collection::vec("[a-dA-D\u{e9}\u{df}\u{130}]{0,9}", 0..6),
        ) {
            let allowed = (wrong.chars().count() / 3).max(1);
            let distance = |name: &str| strsim::osa_distance(&wrong.to_lowercase(), &name.to_lowercase());
            let expected = names.iter().map(|name| (distance(name), name.as_str())).filter(|(distance, _)| *distance <= allowed);
            proptest::prop_assert_eq!(nearest(&wrong, names.iter().map(String::as_str)), expected.min().map(|(_, name)| name));
        }
    }

    #[test]
    fn only_near_names_are_offered() {
        assert_eq!(nearest("qurey", ["query", "limit"]), Some("query"));
        assert_eq!(nearest("Serach", ["search", "reach"]), Some("search"));
        assert_eq!(nearest("x", ["query", "limit"]), None);
    }

    #[test]
    fn a_head_ends_between_characters() {
        assert_eq!(head("aé", 2), "a");
        assert_eq!(head("aé", 3), "aé");
        assert_eq!(head("é", 1), "");
    }

    #[test]
    fn hints_name_what_there_is() {
        let hint = |names: &[&str]| name_hint("x", names.iter().copied());
        assert_eq!(hint(&[]), "there are no tools at all");
        assert_eq!(hint(&["add"]), "the only tool is `add`");
        assert_eq!(hint(&["add", "sub"]), "the tools are `add`, `sub`");
        assert!(hint(&["tool"; 12]).ends_with(" and 2 more"));
    }

    #[test]
    fn a_fence_is_taken_off() {
        assert_eq!(unfenced("```json\n{}\n```"), "{}");
        assert_eq!(unfenced(" {} "), "{}");
    }
}

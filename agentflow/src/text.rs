//! Small questions about texts: the nearest of some names, the start of a long text, and how a text that others wrote
//! is shown without letting it draw on the reader's terminal.

use std::fmt::{self, Write as _};
use std::io;

/// The name nearest to `wrong`, if one is near enough to be what was meant: at most a third of it differs.
pub(crate) fn nearest<'a>(wrong: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let allowed = (wrong.chars().count() / 3).max(1);
    names
        .into_iter()
        .map(|name| (strsim::osa_distance(&wrong.to_lowercase(), &name.to_lowercase()), name))
        .filter(|(distance, _)| *distance <= allowed)
        .min()
        .map(|(_, name)| name)
}

/// Where a word begins in a text, in which it is not a part of a longer word.
#[cfg(feature = "documents")]
pub(crate) fn word_in(text: &str, word: &str) -> Option<usize> {
    let is_letter = |letter: char| letter.is_alphanumeric() || letter == '_';
    let ends = |end: Option<char>, beside: Option<char>| !(end.is_some_and(is_letter) && beside.is_some_and(is_letter));
    text.match_indices(word).map(|(at, _)| at).find(|at| {
        let (before, after) = (&text[..*at], &text[at + word.len()..]);
        ends(word.chars().next(), before.chars().next_back()) && ends(word.chars().next_back(), after.chars().next())
    })
}

/// What is added to a sentence about a name that does not exist: the nearest one, if there is one.
pub(crate) fn did_you_mean(near: Option<impl fmt::Display>) -> String {
    near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default()
}

/// What is added to a sentence about a name that a program does not know: the nearest one, or else those that it knows, at
/// most ten. `what` is their kind, such as `agent`.
pub(crate) fn known_names(what: &str, near: Option<impl fmt::Display>, known: &[String]) -> String {
    if near.is_some() {
        return did_you_mean(near);
    }
    let shown = known.iter().take(10).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    match known.len() {
        0 => String::new(),
        1 => format!("; its only {what} is {shown}"),
        2..=10 => format!("; its {what}s are {shown}"),
        count => format!("; its {what}s are {shown} and {} more", count - 10),
    }
}

/// What to say about a tool's name that does not exist: the nearest one, or those that do, at most ten.
pub(crate) fn name_hint<'a>(wrong: &str, names: impl Iterator<Item = &'a str> + Clone) -> String {
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

/// The longest start of `text` that has at most `max` bytes and ends between two characters.
pub(crate) fn head(text: &str, max: usize) -> &str {
    if text.len() <= max {
        return text;
    }
    let end = (0..=max).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    &text[..end]
}

/// Whether a character could move the cursor, end a line, or turn around what stands beside it: control characters
/// without tab and line feed, line separators, and what sets the direction of writing.
fn draws(c: char) -> bool {
    match c {
        '\t' | '\n' => false,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{206f}' => true,
        '\u{fff9}'..='\u{fffb}' => true,
        c => c.is_control(),
    }
}

/// Passes a text on with what [`draws`] written as an escape, such as `\u{1b}`, and line feeds too when all of it is to
/// stay in one line.
struct Plain<W> {
    out: W,
    one_line: bool,
}

impl<W: fmt::Write> fmt::Write for Plain<W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        while let Some((at, c)) = rest.char_indices().find(|(_, c)| draws(*c) || (self.one_line && *c == '\n')) {
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

/// What others wrote, shown in one line: no character of it moves the cursor, ends the line or turns the writing
/// around; each that would is an escape, such as `\n` or `\u{202e}`. Tabs stay.
#[derive(Clone, Copy, Debug)]
pub struct OneLine<T>(pub T);

impl<T: fmt::Display> fmt::Display for OneLine<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Plain { out: f, one_line: true }, "{}", self.0)
    }
}

/// The same, and its line feeds stay.
#[cfg_attr(not(feature = "cli"), allow(dead_code, reason = "only the command line shows several lines"))]
pub(crate) struct Lines<T>(pub(crate) T);

impl<T: fmt::Display> fmt::Display for Lines<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Plain { out: f, one_line: false }, "{}", self.0)
    }
}

/// Writes JSON in which nothing draws: the same value, with escapes in its strings. Outside of strings there is nothing
/// to escape.
pub(crate) struct PlainJson;

impl PlainJson {
    fn escaped<W: ?Sized + io::Write>(writer: &mut W, text: &str) -> io::Result<()> {
        let mut rest = text;
        while let Some((at, c)) = rest.char_indices().find(|(_, c)| draws(*c)) {
            writer.write_all(&rest.as_bytes()[..at])?;
            // All of them are in the first plane.
            write!(writer, "\\u{:04x}", u32::from(c))?;
            rest = &rest[at + c.len_utf8()..];
        }
        writer.write_all(rest.as_bytes())
    }
}

impl serde_json::ser::Formatter for PlainJson {
    fn write_string_fragment<W: ?Sized + io::Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        Self::escaped(writer, fragment)
    }

    fn write_raw_fragment<W: ?Sized + io::Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        Self::escaped(writer, fragment)
    }
}

/// One line of JSON that draws nothing, with its line feed.
pub(crate) fn write_json_line<W: io::Write>(mut writer: W, value: &impl serde::Serialize) -> io::Result<()> {
    value.serialize(&mut serde_json::Serializer::with_formatter(&mut writer, PlainJson)).map_err(io::Error::from)?;
    writer.write_all(b"\n")
}

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<&'static str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

/// The JSON in a Markdown fence, which many models put around it, whatever the instructions say.
pub(crate) fn unfenced(text: &str) -> &str {
    let text = text.trim();
    let Some(inside) = text.strip_prefix("```").and_then(|text| text.strip_suffix("```")) else { return text };
    inside.strip_prefix("json").unwrap_or(inside).trim()
}

#[cfg(test)]
mod tests {
    use super::{Lines, OneLine, head, name_hint, nearest, unfenced, write_json_line};

    /// Clears the screen, goes to its corner, ends the line three ways, and turns the rest around.
    const HOSTILE: &str = "a\u{1b}[2J\u{9b}H\u{7f}\u{7}\r\n\t\u{2028}\u{202e}b\u{2066}\u{200f}\u{61c}é👩‍💻";

    #[test]
    fn what_others_wrote_draws_nothing() {
        let escaped =
            r"a\u{1b}[2J\u{9b}H\u{7f}\u{7}\r\n".to_owned() + "\t" + r"\u{2028}\u{202e}b\u{2066}\u{200f}\u{61c}é👩‍💻";
        assert_eq!(OneLine(HOSTILE).to_string(), escaped);
        assert_eq!(Lines(HOSTILE).to_string(), escaped.replace(r"\n", "\n"));
        // What is put together from pieces, too.
        assert_eq!(OneLine(format_args!("{}{:>3}", "\u{1b}", "\n")).to_string(), r"\u{1b}  \n");
        for harmless in ["", "plain", "a\\nb", "\"quoted\"", "日本語 עברית"] {
            assert_eq!(OneLine(harmless).to_string(), harmless);
        }
    }

    #[test]
    fn json_that_draws_nothing_is_the_same_value() {
        let raw =
            serde_json::value::RawValue::from_string(format!("[{:?}]", "x").replace('x', "\u{202e}\u{9b}")).unwrap();
        let mut line = Vec::new();
        write_json_line(&mut line, &(HOSTILE, &raw)).unwrap();
        let line = String::from_utf8(line).unwrap();
        assert_eq!(OneLine(line.trim_end()).to_string(), line.trim_end(), "nothing is left to escape");
        assert!(line.contains(r"\u202e\u009b"), "{line}");
        let (text, inner): (String, Vec<String>) = serde_json::from_str(&line).unwrap();
        assert_eq!((text.as_str(), inner[0].as_str()), (HOSTILE, "\u{202e}\u{9b}"));
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

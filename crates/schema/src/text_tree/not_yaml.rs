//! Explains why a string is neither YAML nor JSON: a tab, the indentation, a colon, a bracket. This
//! module parses no values.

use serde::de::IgnoredAny;

use super::codes;
use crate::diagnostic::{Diagnostic, Suggestion};
use crate::text::{head, nearest};

/// Characters that may follow a backslash in double quotes.
const ESCAPES: &str = "0abtnvfre \"/\\N_LPxuU\t\n\r";

/// Maximum number of bytes of a line in an error message.
const MOST_SHOWN: usize = 60;

/// Returns the error with its position and the fix. `at` is the byte where the parser stopped, and
/// `said` is the parser's message: the parser has no codes, so its message is the only data.
pub(super) fn explain(text: &str, at: usize, said: &str) -> Diagnostic {
    let at = at.min(text.len());
    let at = (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    if said.contains("recursion") || said.contains("deep") {
        return Diagnostic::new(codes::PARSER_LIMIT).text("problem", said).at(at..at);
    }
    json_error(text)
        .or_else(|| yaml_error(text, at, said))
        .unwrap_or_else(|| Diagnostic::new(codes::NOT_YAML).text("problem", said).at(at..at))
}

/// Returns the error of a string that is probably meant as JSON.
fn json_error(text: &str) -> Option<Diagnostic> {
    let within = text.trim_start().strip_prefix(['{', '['])?.trim_start();
    let error = serde_json::from_str::<IgnoredAny>(text)
        .err()
        .filter(|_| within.starts_with(['"', '{', '[']))?;
    let lines = text.split_inclusive('\n').take(error.line().saturating_sub(1));
    let at = lines.map(str::len).sum::<usize>() + error.column().saturating_sub(1);
    let at = (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let problem = error.to_string();
    let problem = problem.split(" at line ").next().unwrap_or_default();
    Some(Diagnostic::new(codes::NOT_JSON).text("problem", problem).at(at..at))
}

/// Returns the name of an anchor or an alias at the start of a string.
fn anchor(text: &str) -> &str {
    text.split(|letter: char| {
        letter.is_whitespace() || matches!(letter, ',' | '[' | ']' | '{' | '}')
    })
    .next()
    .unwrap_or_default()
}

/// Finds a field name without a `:` on the line before a position.
fn name_without_colon(text: &str, at: usize) -> Option<Diagnostic> {
    let before = text[..at].trim_end();
    let begin = before.rfind('\n').map_or(0, |line| line + 1);
    let name = before[begin..].trim_start_matches([' ', '-']);
    let is_name =
        !name.is_empty() && !name.contains([':', '#', '"', '\'', '{', '}', '[', ']', '|', '>']);
    let start = before.len() - name.len();
    let found = || Diagnostic::new(codes::MISSING_COLON).source("name", head(name, MOST_SHOWN));
    is_name.then(|| found().at(start..before.len()))
}

/// Finds an escape that YAML does not know, in the double-quoted text at a position.
fn unknown_escape(text: &str, at: usize, said: &str) -> Option<Diagnostic> {
    let is_unknown = said.contains("unknown escape");
    if !is_unknown && !said.contains("hexadecimal") {
        return None;
    }
    let mut letters = text.get(at..)?.strip_prefix('"')?.char_indices();
    while let Some((place, letter)) = letters.next() {
        if letter != '\\' {
            continue;
        }
        let (_, escaped) = letters.next()?;
        let begin = at + 1 + place;
        // The number of hexadecimal digits that YAML requires after this letter.
        let digits = match escaped {
            'x' => 2,
            'u' => 4,
            'U' => 8,
            _ if is_unknown && !ESCAPES.contains(escaped) => {
                let found = Diagnostic::new(codes::UNKNOWN_ESCAPE).text("letter", escaped);
                return Some(found.at(begin..begin + 1 + escaped.len_utf8()));
            }
            _ => continue,
        };
        let is_number =
            text[begin + 2..].chars().take(digits).filter(char::is_ascii_hexdigit).count()
                == digits;
        if !is_unknown && !is_number {
            let found = Diagnostic::new(codes::INCOMPLETE_ESCAPE).text("letter", escaped);
            return Some(found.number("digits", digits).at(begin..begin + 2));
        }
    }
    None
}

/// Finds a string that starts with a bracket and is therefore parsed as a list or an object.
fn text_behind_bracket(text: &str, begin: usize, at: usize) -> Option<Diagnostic> {
    let (before, rest) = (text[begin..at].trim_end(), text[at..].trim_start_matches(' '));
    if rest.is_empty() || rest.starts_with(['\n', '\r', ',', '}', ']', ':', '#']) {
        return None;
    }
    let (open, close) =
        [('{', '}'), ('[', ']')].into_iter().find(|(_, close)| before.ends_with(*close))?;
    let mut depth = 0_usize;
    for (place, letter) in before.char_indices().rev() {
        if letter == close {
            depth += 1;
        } else if letter == open {
            depth = depth.saturating_sub(1);
            if depth == 0 {
                let found = Diagnostic::new(codes::TEXT_BEHIND_BRACKET).source("close", close);
                return Some(found.source("open", open).at(begin + place..begin + before.len()));
            }
        }
    }
    None
}

fn yaml_error(text: &str, at: usize, said: &str) -> Option<Diagnostic> {
    let begin = text[..at].rfind('\n').map_or(0, |line| line + 1);
    let line = text[begin..].lines().next().unwrap_or_default();
    let indent = line.len() - line.trim_start_matches([' ', '\t']).len();
    // A string may continue on the next line, where the tab is.
    let tab = line[..indent].find('\t').map(|tab| begin + tab).or_else(|| {
        let tab = at + text[at..].find('\t').filter(|_| said.contains("tab"))?;
        text[begin..tab]
            .rsplit('\n')
            .next()
            .is_some_and(|before| before.trim().is_empty())
            .then_some(tab)
    });
    if let Some(tab) = tab {
        return Some(Diagnostic::new(codes::TAB_INDENTATION).at(tab..tab + 1));
    }
    let (before, rest) = (&text[begin..at], &text[at..]);
    let written = said.contains("simple key").then(|| name_without_colon(text, at)).flatten();
    let written = written.or_else(|| {
        if said.contains("quoted scalar") { unknown_escape(text, at, said) } else { None }
    });
    let written = written.or_else(|| {
        if said.contains("find expected") { text_behind_bracket(text, begin, at) } else { None }
    });
    if written.is_some() {
        return written;
    }
    if let Some(alias) =
        rest.strip_prefix('*').filter(|_| said.contains("unknown anchor")).map(anchor)
    {
        let near = nearest(
            alias,
            text[..at].split('&').skip(1).map(anchor).filter(|name| !name.is_empty()),
        );
        let found = Diagnostic::new(codes::UNKNOWN_ANCHOR).text("anchor", alias);
        return Some(found.suggest(Suggestion::similar(near)).at(at..at + 1 + alias.len()));
    }
    let tab = if before.ends_with('\t') {
        Some(at - 1)
    } else {
        rest.starts_with(":\t").then_some(at + 1)
    };
    if let Some(tab) = tab {
        return Some(Diagnostic::new(codes::TAB).at(tab..tab + 1));
    }
    if rest.starts_with(':') {
        let code = match before.contains(": ") {
            true => codes::SECOND_COLON,
            false => codes::UNEXPECTED_COLON,
        };
        return Some(Diagnostic::new(code).at(at..at + 1));
    }
    if said.contains("quoted scalar") {
        return Some(Diagnostic::new(codes::OPEN_QUOTE).at(at..at));
    }
    let is_block = said.contains("block") || said.contains("indent") || said.contains("simple key");
    if is_block
        && matches!(before.trim_start(), "" | "- ")
        && !rest.is_empty()
        && indent < line.len()
    {
        let found = Diagnostic::new(codes::INDENTATION).number("spaces", indent);
        return Some(found.at(begin + indent..begin + line.len()));
    }
    said.contains("flow").then(|| Diagnostic::new(codes::OPEN_BRACKET).at(at..at))
}

//! Explains why a string is neither YAML nor JSON: a tab, the indentation, a colon, a bracket. This
//! module parses no values.

use std::ops::Range;

use serde::de::IgnoredAny;

use crate::text::{did_you_mean, head, nearest};

/// Characters that may follow a backslash in double quotes.
const ESCAPES: &str = "0abtnvfre \"/\\N_LPxuU\t\n\r";

/// Maximum number of bytes of a line in an error message.
const MOST_SHOWN: usize = 60;

/// Returns the position of the error, and a message with the fix. `at` is the byte where the parser
/// stopped, and `said` is the parser's message.
pub(super) fn sentence(text: &str, at: usize, said: &str) -> (Range<usize>, String) {
    let at = at.min(text.len());
    let at = (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    if said.contains("recursion") || said.contains("deep") {
        return (at..at, format!("this is not read: {said}"));
    }
    json_error(text).or_else(|| yaml_error(text, at, said)).unwrap_or_else(|| {
        let problem =
            format!("this is neither YAML nor JSON: {said}; put a text with signs such as `@`, `%` and `*` in quotes");
        (at..at, problem)
    })
}

/// Returns the error of a string that is probably meant as JSON.
fn json_error(text: &str) -> Option<(Range<usize>, String)> {
    let within = text.trim_start().strip_prefix(['{', '['])?.trim_start();
    let error = serde_json::from_str::<IgnoredAny>(text)
        .err()
        .filter(|_| within.starts_with(['"', '{', '[']))?;
    let lines = text.split_inclusive('\n').take(error.line().saturating_sub(1));
    let at = lines.map(str::len).sum::<usize>() + error.column().saturating_sub(1);
    let at = (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let problem = error.to_string();
    let problem = problem.split(" at line ").next().unwrap_or_default();
    Some((at..at, format!("this is not JSON: {problem}")))
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
fn name_without_colon(text: &str, at: usize) -> Option<(Range<usize>, String)> {
    let before = text[..at].trim_end();
    let begin = before.rfind('\n').map_or(0, |line| line + 1);
    let name = before[begin..].trim_start_matches([' ', '-']);
    let is_name =
        !name.is_empty() && !name.contains([':', '#', '"', '\'', '{', '}', '[', ']', '|', '>']);
    let start = before.len() - name.len();
    is_name
        .then(|| (start..before.len(), format!("expected `:` after `{}`", head(name, MOST_SHOWN))))
}

/// Finds an escape that YAML does not know, in the double-quoted text at a position.
fn unknown_escape(text: &str, at: usize, said: &str) -> Option<(Range<usize>, String)> {
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
                let problem = "in double quotes; use single quotes or";
                let problem = format!("unknown escape `\\{escaped}` {problem} `\\\\{escaped}`");
                return Some((begin..begin + 1 + escaped.len_utf8(), problem));
            }
            _ => continue,
        };
        let is_number =
            text[begin + 2..].chars().take(digits).filter(char::is_ascii_hexdigit).count()
                == digits;
        if !is_unknown && !is_number {
            let problem = format!(
                "`\\{escaped}` needs {digits} hexadecimal digits in double quotes; use single quotes or `\\\\{escaped}`"
            );
            return Some((begin..begin + 2, problem));
        }
    }
    None
}

/// Finds a string that starts with a bracket and is therefore parsed as a list or an object.
fn text_behind_bracket(text: &str, begin: usize, at: usize) -> Option<(Range<usize>, String)> {
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
                let problem = format!(
                    "the text continues behind `{close}`; quote a text that begins with `{open}`"
                );
                return Some((begin + place..begin + before.len(), problem));
            }
        }
    }
    None
}

fn yaml_error(text: &str, at: usize, said: &str) -> Option<(Range<usize>, String)> {
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
        let problem =
            "this line is indented with a tab, and YAML is indented with spaces; write spaces";
        return Some((tab..tab + 1, problem.to_owned()));
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
        let hint =
            if near.is_some() { did_you_mean(near) } else { "; put a text in quotes".to_owned() };
        return Some((
            at..at + 1 + alias.len(),
            format!("no value above has the anchor `&{alias}`{hint}"),
        ));
    }
    let tab = if before.ends_with('\t') {
        Some(at - 1)
    } else {
        rest.starts_with(":\t").then_some(at + 1)
    };
    if let Some(tab) = tab {
        return Some((
            tab..tab + 1,
            "a tab stands here, where YAML has a space; write a space".to_owned(),
        ));
    }
    if rest.starts_with(':') {
        let problem = match before.contains(": ") {
            true => {
                "a second `:` in one value; put the text in quotes, as in `question: \"what: now\"`, or begin a new line for a \
                 new field"
            }
            false => {
                "this line is read as a part of the one above it; write a `:` after the name there, close its bracket, or indent \
                 both lines alike"
            }
        };
        return Some((at..at + 1, problem.to_owned()));
    }
    if said.contains("quoted scalar") {
        return Some((
            at..at,
            "a text in quotes begins here and does not end; close it with the same quote"
                .to_owned(),
        ));
    }
    let is_block = said.contains("block") || said.contains("indent") || said.contains("simple key");
    if is_block
        && matches!(before.trim_start(), "" | "- ")
        && !rest.is_empty()
        && indent < line.len()
    {
        let problem = format!(
            "this line does not belong to the list or the object above it, since it is indented by {indent} spaces or is not \
             of its kind; indent it like their other lines"
        );
        return Some((begin + indent..begin + line.len(), problem));
    }
    said.contains("flow").then(|| {
        let problem =
            "a list in `[..]` or an object in `{..}` is not complete here; write a `,` between its parts, and close it";
        (at..at, problem.to_owned())
    })
}

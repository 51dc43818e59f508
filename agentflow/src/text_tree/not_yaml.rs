//! Why a text is neither YAML nor JSON, in words of the text: a tab, an indentation, a colon, a bracket. It reads no values.

use std::ops::Range;

use serde::de::IgnoredAny;

use crate::text::{did_you_mean, nearest};

/// The place of the mistake and a sentence with the remedy. `at` is the byte where the reader stopped, `said` its own words.
pub(super) fn sentence(text: &str, at: usize, said: &str) -> (Range<usize>, String) {
    let at = at.min(text.len());
    let at = (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    if said.contains("recursion") || said.contains("deep") {
        return (at..at, format!("this is not read: {said}"));
    }
    of_json(text).or_else(|| of_yaml(text, at, said)).unwrap_or_else(|| {
        let problem =
            format!("this is neither YAML nor JSON: {said}; put a text with signs such as `@`, `%` and `*` in quotes");
        (at..at, problem)
    })
}

/// The mistake of a text that is meant as JSON.
fn of_json(text: &str) -> Option<(Range<usize>, String)> {
    let within = text.trim_start().strip_prefix(['{', '['])?.trim_start();
    let error = serde_json::from_str::<IgnoredAny>(text).err().filter(|_| within.starts_with(['"', '{', '[']))?;
    let lines = text.split_inclusive('\n').take(error.line().saturating_sub(1));
    let at = lines.map(str::len).sum::<usize>() + error.column().saturating_sub(1);
    let at = (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let problem = error.to_string();
    let problem = problem.split(" at line ").next().unwrap_or_default();
    Some((at..at, format!("this is not JSON: {problem}")))
}

/// The name that a text begins with, of an anchor or an alias.
fn anchor(text: &str) -> &str {
    text.split(|letter: char| letter.is_whitespace() || matches!(letter, ',' | '[' | ']' | '{' | '}'))
        .next()
        .unwrap_or_default()
}

fn of_yaml(text: &str, at: usize, said: &str) -> Option<(Range<usize>, String)> {
    let begin = text[..at].rfind('\n').map_or(0, |line| line + 1);
    let line = text[begin..].lines().next().unwrap_or_default();
    let indent = line.len() - line.trim_start_matches([' ', '\t']).len();
    // A text may continue in the next line, where the tab is.
    let tab = line[..indent].find('\t').map(|tab| begin + tab).or_else(|| {
        let tab = at + text[at..].find('\t').filter(|_| said.contains("tab"))?;
        text[begin..tab].rsplit('\n').next().is_some_and(|before| before.trim().is_empty()).then_some(tab)
    });
    if let Some(tab) = tab {
        let problem = "this line is indented with a tab, and YAML is indented with spaces; write spaces";
        return Some((tab..tab + 1, problem.to_owned()));
    }
    let (before, rest) = (&text[begin..at], &text[at..]);
    if let Some(alias) = rest.strip_prefix('*').filter(|_| said.contains("unknown anchor")).map(anchor) {
        let near = nearest(alias, text[..at].split('&').skip(1).map(anchor).filter(|name| !name.is_empty()));
        let hint = if near.is_some() { did_you_mean(near) } else { "; put a text in quotes".to_owned() };
        return Some((at..at + 1 + alias.len(), format!("no value above has the anchor `&{alias}`{hint}")));
    }
    let tab = if before.ends_with('\t') { Some(at - 1) } else { rest.starts_with(":\t").then_some(at + 1) };
    if let Some(tab) = tab {
        return Some((tab..tab + 1, "a tab stands here, where YAML has a space; write a space".to_owned()));
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
            "a text in quotes begins here and does not end; close it with the same quote".to_owned(),
        ));
    }
    let is_block = said.contains("block") || said.contains("indent") || said.contains("simple key");
    if is_block && matches!(before.trim_start(), "" | "- ") && !rest.is_empty() && indent < line.len() {
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

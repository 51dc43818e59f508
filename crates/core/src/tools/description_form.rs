//! Reads the description of a tool from text: JSON, and YAML with the feature `documents`. It notes every mistake of the form.

use agentflow_schema::strict;
use agentflow_schema::text::{did_you_mean, nearest};
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::{Path, Segment};

/// The most mistakes of one text that are reported.
const MOST: usize = 20;

/// The value of a text of at most so many bytes.
///
/// # Errors
/// A sentence for each place where it cannot be read.
pub(super) fn value_of(text: &str, most_bytes: usize) -> Result<Value, Vec<String>> {
    if text.len() > most_bytes {
        return Err(vec![format!("the text has {} bytes, and at most {most_bytes} are read", text.len())]);
    }
    let as_json = || {
        strict::check(text)
            .and_then(|()| serde_json::from_str(text))
            .map_err(|error| format!("this is not JSON: {error}"))
    };
    #[cfg(feature = "documents")]
    if !text.trim_start().starts_with('{') {
        return match agentflow_schema::text_tree::Tree::read(text) {
            Ok(tree) => Ok(tree.to_json()),
            Err(misread) => Err(misread.into_iter().take(MOST).map(|one| one.in_line(text)).collect()),
        };
    }
    as_json().map_err(|problem| {
        let is_yaml = !text.trim_start().starts_with(['{', '[', '"']) && cfg!(not(feature = "documents"));
        vec![if is_yaml { format!("{problem}; YAML is read with the feature `documents`") } else { problem }]
    })
}

/// A description of a type, with all that does not fit.
///
/// # Errors
/// A sentence for each mistake, at most twenty.
pub(super) fn form_of<T: DeserializeOwned>(mut value: Value) -> Result<T, Vec<String>> {
    let mut problems = Vec::new();
    // What is there under another name, or was left out for another mistake, is not missing as well.
    let mut passed = Vec::new();
    loop {
        let error = match serde_path_to_error::deserialize::<_, T>(value.clone()) {
            Ok(form) if problems.is_empty() => return Ok(form),
            Ok(_) => return Err(problems),
            Err(error) => error,
        };
        let (path, message) = (error.path().clone(), error.inner().to_string());
        let (said, near) = said(&path, &message);
        let is_missing = message.strip_prefix("missing field `").and_then(|rest| rest.split('`').next());
        if let Some(name) = is_missing {
            // Where it was left out before, or stands under another name, that was said.
            if !passed.contains(&(place_of(&path, None), name.to_owned())) {
                problems.push(said);
            }
            if problems.len() >= MOST || !fill(&mut value, &path, name) {
                return Err(problems);
            }
            continue;
        }
        problems.push(said);
        let Some((place, name)) = without(&mut value, &path, &message).filter(|_| problems.len() < MOST) else {
            return Err(problems);
        };
        passed.extend(near.map(|near| (place.clone(), near)));
        passed.push((place, name));
    }
}

/// The place of an object, by the names that lead to it; `last` is left out at the end.
fn place_of(path: &Path, last: Option<&str>) -> Vec<String> {
    let parts = path.iter().filter(|part| !matches!(part, Segment::Enum { .. }));
    let mut place: Vec<String> = parts.map(ToString::to_string).collect();
    if last.is_some_and(|last| place.last().is_some_and(|one| one == last)) {
        place.pop();
    }
    place
}

/// A sentence of serde's in our words, and the name that was probably meant.
fn said(path: &Path, message: &str) -> (String, Option<String>) {
    let names: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let of = match path.to_string() {
        path if path == "." || names.first() == Some(&&*path) => String::new(),
        path => format!("`{path}`: "),
    };
    match (message.split(' ').next(), &names[..]) {
        (Some("missing"), [name, ..]) => (format!("{of}`{name}` is missing; give it a value"), None),
        (Some("unknown"), [wrong, known @ ..]) => {
            let near = nearest(wrong, known.iter().copied());
            let known: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
            let hint = match near {
                Some(_) => did_you_mean(near),
                None => format!("; there are {}", known.join(", ")),
            };
            let what = if message.starts_with("unknown variant") { "word" } else { "field" };
            (format!("{of}there is no {what} `{wrong}`{hint}"), near.map(ToOwned::to_owned))
        }
        _ => {
            let words = ["usize", "u64"].iter().fold(message.to_owned(), |message, number| {
                message.replace(&format!("expected {number}"), "expected a whole number, 0 or more")
            });
            (format!("{of}{words}"), None)
        }
    }
}

/// Leaves out what a path leads to, and says the place of its object and its name there.
fn without(value: &mut Value, path: &Path, message: &str) -> Option<(Vec<String>, String)> {
    let mut parts: Vec<&Segment> = path.iter().filter(|part| !matches!(part, Segment::Enum { .. })).collect();
    // Of an unknown field in a tagged form serde says no path to it.
    let unknown = message.strip_prefix("unknown field `").and_then(|rest| rest.split('`').next());
    let last = match unknown {
        Some(name) if !matches!(parts.last(), Some(Segment::Map { key }) if key == name) => name.to_owned(),
        _ => match parts.pop() {
            Some(Segment::Map { key }) => key.clone(),
            _ => return None,
        },
    };
    step_to(value, &parts)?.as_object_mut()?.remove(&last)?;
    Some((place_of(path, Some(&last)), last))
}

fn fill(value: &mut Value, path: &Path, name: &str) -> bool {
    let parts: Vec<&Segment> = path.iter().filter(|part| !matches!(part, Segment::Enum { .. })).collect();
    let place = step_to(value, &parts).and_then(Value::as_object_mut);
    let filler = match name {
        "in" => "query",
        // It says which form the others are read as.
        "kind" => return false,
        _ => "",
    };
    place.is_some_and(|fields| fields.insert(name.to_owned(), filler.into()).is_none())
}

fn step_to<'v>(value: &'v mut Value, parts: &[&Segment]) -> Option<&'v mut Value> {
    parts.iter().try_fold(value, |value, part| match part {
        Segment::Map { key } => value.get_mut(key.as_str()),
        Segment::Seq { index } => value.get_mut(*index),
        _ => None,
    })
}

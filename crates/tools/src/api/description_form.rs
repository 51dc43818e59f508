//! Reads the description of a tool from text: JSON, or YAML with the feature `documents`. Reports
//! all mistakes in its form.

use agentflow_schema::strict;
use agentflow_schema::text::{did_you_mean, nearest};
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::{Path, Segment};

/// Maximum number of mistakes that are reported for one text.
const MOST: usize = 20;

/// Parses a string of at most `most_bytes` bytes.
///
/// # Errors
/// A message for each place that cannot be parsed.
pub(crate) fn value_of(text: &str, most_bytes: usize) -> Result<Value, Vec<String>> {
    if text.len() > most_bytes {
        return Err(vec![format!(
            "the text has {} bytes, and at most {most_bytes} are read",
            text.len()
        )]);
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
            Err(misread) => {
                Err(misread.into_iter().take(MOST).map(|one| one.in_line(text)).collect())
            }
        };
    }
    as_json().map_err(|problem| {
        let is_yaml =
            !text.trim_start().starts_with(['{', '[', '"']) && cfg!(not(feature = "documents"));
        vec![if is_yaml {
            format!("{problem}; YAML is read with the feature `documents`")
        } else {
            problem
        }]
    })
}

/// Deserializes a description and collects all mistakes. Serde stops at the first mistake, so each
/// one is removed or filled in and the value is read again.
///
/// # Errors
/// A message for each mistake, at most twenty.
pub(crate) fn form_of<T: DeserializeOwned>(mut value: Value) -> Result<T, Vec<String>> {
    let mut problems = Vec::new();
    // Fields that were removed because of another mistake, or have a misspelled name, must not be
    // reported as missing too.
    let mut passed = Vec::new();
    loop {
        let error = match serde_path_to_error::deserialize::<_, T>(value.clone()) {
            Ok(form) if problems.is_empty() => return Ok(form),
            Ok(_) => return Err(problems),
            Err(error) => error,
        };
        let (path, message) = (error.path().clone(), error.inner().to_string());
        let (said, near) = said(&path, &message);
        let is_missing =
            message.strip_prefix("missing field `").and_then(|rest| rest.split('`').next());
        if let Some(name) = is_missing {
            // The field was removed or is misspelled, and that mistake is reported already.
            if !passed.contains(&(place_of(&path, None), name.to_owned())) {
                problems.push(said);
            }
            if problems.len() >= MOST || !fill(&mut value, &path, name) {
                return Err(problems);
            }
            continue;
        }
        problems.push(said);
        let Some((place, name)) =
            without(&mut value, &path, &message).filter(|_| problems.len() < MOST)
        else {
            return Err(problems);
        };
        passed.extend(near.map(|near| (place.clone(), near)));
        passed.push((place, name));
    }
}

/// Returns the path of an object. The segment `last` is removed from its end.
fn place_of(path: &Path, last: Option<&str>) -> Vec<String> {
    let parts = path.iter().filter(|part| !matches!(part, Segment::Enum { .. }));
    let mut place: Vec<String> = parts.map(ToString::to_string).collect();
    if last.is_some_and(|last| place.last().is_some_and(|one| one == last)) {
        place.pop();
    }
    place
}

/// Rewrites a message of serde, and returns the name that was probably meant.
fn said(path: &Path, message: &str) -> (String, Option<String>) {
    let names: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let of = match path.to_string() {
        path if path == "." || names.first() == Some(&&*path) => String::new(),
        path => format!("`{path}`: "),
    };
    match (message.split(' ').next(), &names[..]) {
        (Some("missing"), [name, ..]) => {
            (format!("{of}`{name}` is missing; give it a value"), None)
        }
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

/// Removes the value at a path. Returns the path of its object and its name in it.
fn without(value: &mut Value, path: &Path, message: &str) -> Option<(Vec<String>, String)> {
    let mut parts: Vec<&Segment> =
        path.iter().filter(|part| !matches!(part, Segment::Enum { .. })).collect();
    // For an unknown field in a tagged enum, serde's path ends at the enum.
    let unknown = message.strip_prefix("unknown field `").and_then(|rest| rest.split('`').next());
    let last = match unknown {
        Some(name) if !matches!(parts.last(), Some(Segment::Map { key }) if key == name) => {
            name.to_owned()
        }
        _ => match parts.pop() {
            Some(Segment::Map { key }) => key.clone(),
            _ => return None,
        },
    };
    step_to(value, &parts)?.as_object_mut()?.remove(&last)?;
    Some((place_of(path, Some(&last)), last))
}

fn fill(value: &mut Value, path: &Path, name: &str) -> bool {
    let parts: Vec<&Segment> =
        path.iter().filter(|part| !matches!(part, Segment::Enum { .. })).collect();
    let place = step_to(value, &parts).and_then(Value::as_object_mut);
    let filler = match name {
        "in" => "query",
        // `kind` selects the variant, so no filler is valid for the other fields.
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

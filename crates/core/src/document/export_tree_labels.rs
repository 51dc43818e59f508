//! What parts of the form `tree` are called by those around them, and how one is given another name. It reads no graph.

use serde_json::{Value, json};

/// Whether a part can be named so.
pub(super) fn is_plain_name(name: &str) -> bool {
    is_label(name) && !name.starts_with(|letter: char| letter.is_ascii_digit())
}

/// Whether a part is called so by those around it, whether or not it can be named so: a tool may be `2nd`.
pub(super) fn is_label(label: &str) -> bool {
    !label.is_empty() && label.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

/// A name without the number behind it.
pub(super) fn base(name: &str) -> &str {
    match name.rsplit_once('_') {
        Some((base, number)) if !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit()) => base,
        _ => name,
    }
}

/// What a part is called that has no name.
fn label_without_name(part: &Value) -> String {
    let word = |name: &str| part.get(name);
    let of_list = |list: &Value, last: bool| {
        let parts = list.as_array().map(Vec::as_slice).unwrap_or_default();
        if last { parts.last() } else { parts.first() }.map(label).unwrap_or_default()
    };
    if let Some(called) = ["tool", "agent", "workflow"].into_iter().find_map(word).and_then(Value::as_str) {
        return called.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' }).collect();
    }
    if let Some(of) = ["loop", "map_over", "tap"].into_iter().find_map(word) {
        return label(of);
    }
    if let Some(list) = word("sequence") {
        return of_list(list, true);
    }
    if let Some(list) = word("fallback") {
        return of_list(list, false);
    }
    let words = [("value", "value"), ("gate", "gate"), ("transform", "transform"), ("parallel", "together")];
    let words = words.into_iter().chain([("race", "race"), ("route", "choice")]);
    words.filter(|(name, _)| word(name).is_some()).map(|(_, label)| label.to_owned()).next().unwrap_or_default()
}

/// What a part is called.
pub(super) fn label(part: &Value) -> String {
    part.get("as").and_then(Value::as_str).map_or_else(|| label_without_name(part), str::to_owned)
}

/// A part with its own name, which is left out where it is called so anyway.
///
/// # Errors
/// When a part cannot be named so.
pub(super) fn named(mut part: Value, name: &str) -> Result<Value, String> {
    let own = label_without_name(&part);
    // What is called so several times has numbers behind its name.
    if own == name || !is_plain_name(name) && own == base(name) {
        return Ok(part);
    }
    if !is_plain_name(name) {
        return Err(unnamed(name));
    }
    part["as"] = json!(name);
    Ok(part)
}

/// A part that is called so by those around it, whatever the name of its last node. `in_row` puts it into a row, of which
/// nothing is said that is said of the part.
///
/// # Errors
/// When a part cannot be named so.
pub(super) fn labelled(mut part: Value, wanted: &str, in_row: bool) -> Result<Value, String> {
    if in_row {
        part = json!({"sequence": [part]});
    }
    if label(&part) == wanted {
        return Ok(part);
    }
    if !has_only(&part, &["sequence"]) {
        part = json!({"sequence": [part]});
    }
    row_named(part, wanted)
}

/// A row with its own name; its last part keeps the one that it has, which it would lose to a row with a name.
///
/// # Errors
/// When a part cannot be named so.
pub(super) fn row_named(mut row: Value, wanted: &str) -> Result<Value, String> {
    if label(&row) == wanted {
        return Ok(row);
    }
    if let Some(last) = row.get_mut("sequence").and_then(Value::as_array_mut).and_then(|parts| parts.last_mut()) {
        let own = label(last);
        if !is_plain_name(&own) {
            return Err(unnamed(&own));
        }
        last["as"] = json!(own);
    }
    if !is_plain_name(wanted) {
        return Err(unnamed(wanted));
    }
    row["as"] = json!(wanted);
    Ok(row)
}

fn unnamed(name: &str) -> String {
    format!("a part cannot be named `{name}` in a tree; use letters, digits and `_`")
}

/// Whether a part is a call and nothing else is said of it.
pub(super) fn is_plain_call(part: &Value) -> bool {
    has_only(part, &["tool", "agent", "workflow", "as"])
}

/// Whether a part has these fields at most.
pub(super) fn has_only(part: &Value, fields: &[&str]) -> bool {
    part.as_object().is_some_and(|of| of.keys().all(|name| fields.contains(&name.as_str())))
}

/// The name of which two are made, each with a number behind it where it was taken.
pub(super) fn same_label<'n>(one: &'n str, other: &str) -> Option<&'n str> {
    [one, base(one)].into_iter().find(|name| *name == other || *name == base(other))
}

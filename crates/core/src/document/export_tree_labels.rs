//! Labels of parts in the form `tree`, as [`Pipeline`](crate::pipeline::Pipeline) computes them,
//! and the renaming of parts.

use agentflow_schema::diagnostic::Diagnostic;
use serde_json::{Value, json};

use super::export_codes as codes;

/// Returns `true` if a part can have this name in a document.
pub(super) fn is_plain_name(name: &str) -> bool {
    is_label(name) && !name.starts_with(|letter: char| letter.is_ascii_digit())
}

/// Returns `true` if this is a possible label of a part, which need not be a valid name: the label
/// of a tool can be `2nd`.
pub(super) fn is_label(label: &str) -> bool {
    !label.is_empty() && label.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

/// Returns a name without its appended number.
pub(super) fn base(name: &str) -> &str {
    match name.rsplit_once('_') {
        Some((base, number))
            if !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit()) =>
        {
            base
        }
        _ => name,
    }
}

/// Returns the default label of a part without a name.
fn label_without_name(part: &Value) -> String {
    let word = |name: &str| part.get(name);
    let of_list = |list: &Value, last: bool| {
        let parts = list.as_array().map(Vec::as_slice).unwrap_or_default();
        if last { parts.last() } else { parts.first() }.map(label).unwrap_or_default()
    };
    if let Some(called) =
        ["tool", "agent", "workflow"].into_iter().find_map(word).and_then(Value::as_str)
    {
        return called
            .chars()
            .map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' })
            .collect();
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
    let words = [
        ("value", "value"),
        ("gate", "gate"),
        ("transform", "transform"),
        ("parallel", "together"),
    ];
    let words = words.into_iter().chain([("race", "race"), ("route", "choice")]);
    words
        .filter(|(name, _)| word(name).is_some())
        .map(|(_, label)| label.to_owned())
        .next()
        .unwrap_or_default()
}

/// Returns the label of a part: its name, or the default label.
pub(super) fn label(part: &Value) -> String {
    part.get("as").and_then(Value::as_str).map_or_else(|| label_without_name(part), str::to_owned)
}

/// Sets the name of a part, unless it is the default label.
///
/// # Errors
/// If a part cannot have this name.
pub(super) fn named(mut part: Value, name: &str) -> Result<Value, Diagnostic> {
    let own = label_without_name(&part);
    // The default label is enough for a name with a number, since equal labels are numbered when
    // the document is read.
    if own == name || !is_plain_name(name) && own == base(name) {
        return Ok(part);
    }
    if !is_plain_name(name) {
        return Err(unnamed(name));
    }
    part["as"] = json!(name);
    Ok(part)
}

/// Returns a part with this label, whose last node keeps its name. `in_row` first wraps the part in
/// a sequence, so that options of the part do not apply to the sequence.
///
/// # Errors
/// If a part cannot have this name.
pub(super) fn labelled(mut part: Value, wanted: &str, in_row: bool) -> Result<Value, Diagnostic> {
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

/// Sets the name of a sequence. Its last part gets its current label as its name, since it would
/// take the name of the sequence otherwise.
///
/// # Errors
/// If a part cannot have this name.
pub(super) fn row_named(mut row: Value, wanted: &str) -> Result<Value, Diagnostic> {
    if label(&row) == wanted {
        return Ok(row);
    }
    if let Some(last) =
        row.get_mut("sequence").and_then(Value::as_array_mut).and_then(|parts| parts.last_mut())
    {
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

fn unnamed(name: &str) -> Diagnostic {
    Diagnostic::new(codes::PART_NAME).name("name", name)
}

/// Returns `true` if a part is a call without options.
pub(super) fn is_plain_call(part: &Value) -> bool {
    has_only(part, &["tool", "agent", "workflow", "as"])
}

/// Returns `true` if a part has no other fields than these.
pub(super) fn has_only(part: &Value, fields: &[&str]) -> bool {
    part.as_object().is_some_and(|of| of.keys().all(|name| fields.contains(&name.as_str())))
}

/// Returns the common label from which both names follow, each with a number if the label was used
/// already.
pub(super) fn same_label<'n>(one: &'n str, other: &str) -> Option<&'n str> {
    [one, base(one)].into_iter().find(|name| *name == other || *name == base(other))
}

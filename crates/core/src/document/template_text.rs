//! Values of a document with placeholders: conversion to a [`Mapping`], and the names that they
//! read. The syntax of placeholders is defined by [`Template`](crate::template::Template).

use agentflow_schema::diagnostic::Diagnostic;
use agentflow_schema::template::Template;
use agentflow_schema::text_tree::{Datum, Field, Tree};
use serde_json::Value;

use super::document_codes;
use super::object_fields::{Problems, braces};
use crate::workflow::Mapping;

/// Converts a value to a mapping, in which each text is a template. Mistakes in templates are
/// reported. The first names of placeholders are added to `roots`.
pub(super) fn mapping(tree: &Tree, roots: &mut Vec<String>, problems: &mut Problems) -> Mapping {
    match &tree.datum {
        Datum::Text(_) => text(tree, roots, problems),
        Datum::List(items) => {
            let items: Vec<Mapping> =
                items.iter().map(|item| mapping(item, roots, problems)).collect();
            match items.iter().map(constant).collect::<Option<Vec<Value>>>() {
                Some(all) => Mapping::Value(Value::Array(all)),
                None => Mapping::List(items),
            }
        }
        Datum::Object(fields) => {
            if let Some(name) = unquoted(tree, fields) {
                problems.note(
                    &tree.at,
                    Diagnostic::new(document_codes::UNQUOTED_PLACEHOLDER).text("word", name),
                );
                return Mapping::Value(Value::Null);
            }
            let fields = fields
                .iter()
                .map(|field| (field.name.clone(), mapping(&field.value, roots, problems)));
            Mapping::Object(fields.collect())
        }
        _ => Mapping::Value(tree.to_json()),
    }
}

/// Returns the name in an unquoted placeholder, `{name}` or `{ name }`, which YAML reads as an
/// object. An ordinary object with such a field has a `:` after its name.
fn unquoted<'t>(tree: &Tree, fields: &'t [Field]) -> Option<&'t str> {
    let [Field { name, at, value }] = fields else { return None };
    let (before, after) = (at.start.checked_sub(tree.at.start)?, tree.at.end.checked_sub(at.end)?);
    (value.datum == Datum::Null && before == after && (1..=2).contains(&before)).then_some(name)
}

fn constant(mapping: &Mapping) -> Option<Value> {
    match mapping {
        Mapping::Value(value) => Some(value.clone()),
        _ => None,
    }
}

/// Converts a string to a mapping; see [`mapping`].
pub(super) fn text(tree: &Tree, roots: &mut Vec<String>, problems: &mut Problems) -> Mapping {
    let written = tree.text().unwrap_or_default();
    match written.parse::<Template>() {
        Ok(template) => {
            let mut names = template.placeholders().filter_map(|of| of.parts().first()).peekable();
            if names.peek().is_none() {
                return Mapping::Value(
                    template.as_str().replace("{{", "{").replace("}}", "}").into(),
                );
            }
            roots.extend(names.cloned());
            Mapping::Template(template)
        }
        Err(error) => {
            let number = braces(&written[..error.at()]);
            problems.note_at_brace(tree, number, error.into());
            Mapping::Value(Value::Null)
        }
    }
}

//! Renames `input` in templates and conditions of a pipeline. In a part, `input` is the input value
//! of the part; in the graph, it is the output of a node with a different name.

use std::ops::Range;

use agentflow_schema::diagnostic::{Diagnostic, ExcerptKind};
use agentflow_schema::expression::{Expression, ExpressionError};
use agentflow_schema::template::{Template, TemplateError};
use agentflow_schema::text::Renaming;
use serde_json::Value;

use super::drafting::INPUT;
use crate::workflow::{Condition, Mapping};

/// Converts JSON with templates to a mapping. `given` is the name of the node whose output is the
/// input value.
///
/// # Errors
/// The mistake in a template.
pub(super) fn mapping(value: &Value, given: &str) -> Result<Mapping, Diagnostic> {
    Ok(match value {
        Value::String(text) => template(text, given)?,
        Value::Array(items) => {
            Mapping::List(items.iter().map(|item| mapping(item, given)).collect::<Result<_, _>>()?)
        }
        Value::Object(fields) => {
            let fields =
                fields.iter().map(|(name, value)| Ok((name.clone(), mapping(value, given)?)));
            Mapping::Object(fields.collect::<Result<_, Diagnostic>>()?)
        }
        other => Mapping::Value(other.clone()),
    })
}

fn invalid_text(text: &str, error: TemplateError) -> Diagnostic {
    Diagnostic::from(error).within(ExcerptKind::Text, text)
}

fn template(text: &str, given: &str) -> Result<Mapping, Diagnostic> {
    let template: Template = text.parse().map_err(|error| invalid_text(text, error))?;
    if template.placeholders().next().is_none() {
        return Ok(Mapping::Value(text.replace("{{", "{").replace("}}", "}").into()));
    }
    let inputs =
        template.placeholders().filter(|of| of.parts().first().is_some_and(|root| root == INPUT));
    // The position of a placeholder is the position of its brace.
    let places: Vec<usize> = inputs.map(|of| of.at() + 1).collect();
    match (template.only(), places.as_slice()) {
        // If the whole text is the placeholder, the value is copied and not converted to text.
        (Some(only), [_]) if only.parts().len() == 1 && !only.is_optional() => {
            Ok(Mapping::from(given))
        }
        _ => {
            let (text, _) = renamed(text, &places, given);
            let renamed: Template = text.parse().map_err(|error| invalid_text(&text, error))?;
            Ok(Mapping::Template(renamed.shown_as(&template)))
        }
    }
}

/// Replaces `input` in the placeholders of a question with the name of the node whose output is the
/// input value.
///
/// # Errors
/// The mistake in the template.
pub(super) fn question(text: &str, given: &str) -> Result<String, Diagnostic> {
    let template: Template = text.parse().map_err(|error| invalid_text(text, error))?;
    let inputs =
        template.placeholders().filter(|of| of.parts().first().is_some_and(|root| root == INPUT));
    let places: Vec<usize> = inputs.map(|of| of.at() + 1).collect();
    Ok(renamed(text, &places, given).0)
}

/// Converts a condition over `input` to a condition of the graph.
///
/// # Errors
/// The mistake in the condition.
pub(super) fn condition(text: &str, given: &str) -> Result<Condition, Diagnostic> {
    let wrong =
        |error: ExpressionError| Diagnostic::from(error).within(ExcerptKind::Condition, text);
    let expression: Expression = text.parse().map_err(wrong)?;
    let inputs = expression
        .paths()
        .iter()
        .filter(|path| path.parts.first().is_some_and(|root| root == INPUT));
    let mut places: Vec<usize> = inputs.map(|path| path.at).collect();
    places.sort_unstable();
    places.dedup();
    // The name of the node can be a word of CEL, so it is not used as an identifier.
    let name = if given == INPUT { INPUT.to_owned() } else { format!("nodes['{given}']") };
    let (over_node, renaming) = renamed(text, &places, &name);
    let expression: Expression = over_node.parse().map_err(wrong)?;
    Ok(Condition::Cel(expression.shown_as(text, renaming)))
}

/// Replaces `input` at these positions with a different name.
fn renamed(text: &str, places: &[usize], name: &str) -> (String, Renaming) {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for at in places {
        let rest = text[*at..].trim_start();
        if rest.starts_with(INPUT) {
            let at = text.len() - rest.len();
            ranges.push(at..at + INPUT.len());
        }
    }
    Renaming::apply(text, &ranges, name)
}

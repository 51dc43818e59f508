//! Templates and conditions of a pipeline, which call the value that a part is given `input`, with the name of the node that has
//! it. It computes nothing.

use agentflow_schema::expression::Expression;
use agentflow_schema::template::Template;
use serde_json::Value;

use super::drafting::INPUT;
use crate::workflow::{Condition, Mapping};

/// How JSON with templates is made; `given` is the node that has the input.
///
/// # Errors
/// What is wrong with a template.
pub(super) fn mapping(value: &Value, given: &str) -> Result<Mapping, String> {
    Ok(match value {
        Value::String(text) => template(text, given)?,
        Value::Array(items) => Mapping::List(items.iter().map(|item| mapping(item, given)).collect::<Result<_, _>>()?),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| Ok((name.clone(), mapping(value, given)?)));
            Mapping::Object(fields.collect::<Result<_, String>>()?)
        }
        other => Mapping::Value(other.clone()),
    })
}

fn template(text: &str, given: &str) -> Result<Mapping, String> {
    let wrong = |error: &dyn std::fmt::Display| format!("the text `{text}`: {error}");
    let template: Template = text.parse().map_err(|error| wrong(&error))?;
    if template.placeholders().next().is_none() {
        return Ok(Mapping::Value(text.replace("{{", "{").replace("}}", "}").into()));
    }
    let inputs = template.placeholders().filter(|of| of.parts().first().is_some_and(|root| root == INPUT));
    // The brace stands before the name.
    let places: Vec<usize> = inputs.map(|of| of.at() + 1).collect();
    match (template.only(), places.as_slice()) {
        // The whole of it is copied and not read.
        (Some(only), [_]) if only.parts().len() == 1 && !only.is_optional() => Ok(Mapping::from(given)),
        _ => {
            let text = renamed(text, &places, given);
            let renamed: Template = text.parse().map_err(|error| wrong(&error))?;
            Ok(Mapping::Template(renamed.shown_as(&template)))
        }
    }
}

/// Puts the node that has the input into the placeholders of a question.
///
/// # Errors
/// The mistake in the template.
pub(super) fn question(text: &str, given: &str) -> Result<String, String> {
    let template: Template = text.parse().map_err(|error| format!("the text `{text}`: {error}"))?;
    let inputs = template.placeholders().filter(|of| of.parts().first().is_some_and(|root| root == INPUT));
    let places: Vec<usize> = inputs.map(|of| of.at() + 1).collect();
    Ok(renamed(text, &places, given))
}

/// A condition over the input.
///
/// # Errors
/// What is wrong with it.
pub(super) fn condition(text: &str, given: &str) -> Result<Condition, String> {
    let wrong = |error: &dyn std::fmt::Display| format!("the condition `{text}`: {error}");
    let expression: Expression = text.parse().map_err(|error| wrong(&error))?;
    let inputs = expression.paths().iter().filter(|path| path.parts.first().is_some_and(|root| root == INPUT));
    let mut places: Vec<usize> = inputs.map(|path| path.at).collect();
    places.sort_unstable();
    places.dedup();
    // A name may be a word of CEL.
    let name = if given == INPUT { INPUT.to_owned() } else { format!("nodes['{given}']") };
    let renamed = renamed(text, &places, &name);
    let expression: Expression = renamed.parse().map_err(|error| wrong(&error))?;
    Ok(Condition::Cel(expression.shown_as(text)))
}

/// The text with another name at these places, where `input` stands.
fn renamed(text: &str, places: &[usize], name: &str) -> String {
    let mut text = text.to_owned();
    for at in places.iter().rev().filter(|at| text[**at..].trim_start().starts_with(INPUT)).copied().collect::<Vec<_>>()
    {
        let at = at + (text[at..].len() - text[at..].trim_start().len());
        text.replace_range(at..at + INPUT.len(), name);
    }
    text
}

//! Converts the inputs of a workflow to a JSON object with their names, and back. Types are checked
//! elsewhere.

use std::collections::BTreeMap;

use agentflow_schema::diagnostic::{Diagnostic, Suggestion};
use agentflow_schema::text::nearest;

use super::value_codes;
use crate::value::Encoded;

/// Builds a JSON object of the inputs.
pub(crate) fn to_object(names: &[&str], values: &[Encoded]) -> Encoded {
    let mut text = String::from("{");
    for (at, (name, value)) in names.iter().zip(values).enumerate() {
        if at > 0 {
            text.push(',');
        }
        // Names of nodes have no quotes or backslashes, so they need no escaping.
        text.push_str(&format!("\"{name}\":{value}"));
    }
    text.push('}');
    Encoded::from_json(text).unwrap_or_else(|_| Encoded::null())
}

/// Returns the inputs of a JSON object, in the order of their names.
pub(crate) fn from_object(names: &[&str], object: &Encoded) -> Result<Vec<Encoded>, Diagnostic> {
    agentflow_schema::strict::check(object.as_str())
        .map_err(|error| Diagnostic::new(value_codes::INVALID_INPUTS).text("problem", error))?;
    let mut fields: BTreeMap<String, Encoded> = object.decode().map_err(|_| {
        let names = if names.is_empty() { "nothing in it".to_owned() } else { in_quotes(names) };
        Diagnostic::new(value_codes::INPUTS_NOT_AN_OBJECT).text("inputs", names)
    })?;
    // Check for unknown names before missing ones: a mistyped name is both, and only this message
    // has a suggestion.
    if let Some(unknown) = fields.keys().find(|field| !names.contains(&field.as_str())) {
        let hint = match nearest(unknown, names.iter().copied()) {
            None if !names.is_empty() => {
                Some(Suggestion::advice(format!("the inputs are {}", in_quotes(names))))
            }
            near => Suggestion::similar(near),
        };
        let found = Diagnostic::new(value_codes::UNKNOWN_INPUT).name("input", unknown);
        return Err(found.suggest(hint));
    }
    names
        .iter()
        .map(|name| {
            let missing = || Diagnostic::new(value_codes::MISSING_INPUT).name("input", name);
            fields.remove(*name).ok_or_else(missing)
        })
        .collect()
}

fn in_quotes(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workflow::inputs::Inputs;

    #[test]
    fn inputs_go_by_their_names() {
        let values = Inputs::encode(&(1_u8, "a".to_owned())).unwrap();
        let object = to_object(&["n", "text"], &values);
        assert_eq!(object.as_str(), r#"{"n":1,"text":"a"}"#);
        assert_eq!(from_object(&["n", "text"], &object).unwrap(), values);
        let wrong = |text: &str| {
            from_object(&["n"], &Encoded::from_json(text.to_owned()).unwrap())
                .unwrap_err()
                .message()
        };
        assert_eq!(
            wrong(r#"{"n": 1, "n": 2}"#),
            "the inputs are not valid JSON: `n` is given twice; give it once at line 1 column 12"
        );
        assert_eq!(wrong("3"), "write a JSON object with `n`");
        assert_eq!(wrong("{}"), "the input `n` is missing");
        assert!(wrong(r#"{"n": 1, "m": 2}"#).starts_with("there is no input `m`"));
        assert_eq!(wrong(r#"{"colour": 1}"#), "there is no input `colour`; the inputs are `n`");
        assert_eq!(wrong(r#"{"nn": 1}"#), "there is no input `nn`; did you mean `n`?");
    }
}

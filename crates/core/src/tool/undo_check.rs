//! Compares the schemas of two tools: the compensating tool must accept the arguments and the
//! output of the tool that it compensates. This module neither finds nor calls tools.

use agentflow_schema::schema::{Assignable, is_assignable, part_of};
use serde_json::{Value, json};

use super::ToolDefinition;
use crate::run::OUTPUT;

/// Returns the reason why `undoes` cannot compensate calls to `does`, or `None` if no mismatch is
/// known. `answers` is the schema of the answer, if known.
pub(crate) fn compensation_mismatch(
    does: &ToolDefinition,
    answers: Option<&Value>,
    undoes: &ToolDefinition,
) -> Option<String> {
    let output = undoes.parameters.pointer(&format!("/properties/{OUTPUT}"));
    match output {
        None if undoes.parameters["additionalProperties"] == json!(false) => {
            return Some(format!("has no parameter `{OUTPUT}`, which is what the call answered"));
        }
        Some(asked) => {
            let asked = part_of(asked, &undoes.parameters);
            if let Some(Assignable::No(places)) =
                answers.map(|answers| is_assignable(answers, &asked))
            {
                let places: Vec<String> = places.iter().map(ToString::to_string).collect();
                return Some(format!(
                    "does not take what the call answers as `{OUTPUT}`: {}",
                    places.join("; ")
                ));
            }
        }
        None => {}
    }
    // Without declared properties, the arguments are unknown and cannot be checked.
    let given = does.parameters.get("properties")?.as_object()?;
    if given.is_empty() {
        return None;
    }
    // `part_of` makes a schema self-contained, so that the changes below do not affect schemas that
    // it refers to.
    let mut from = part_of(&does.parameters, &does.parameters);
    from["additionalProperties"] = json!(false);
    let mut to = part_of(&undoes.parameters, &undoes.parameters);
    if !given.contains_key(OUTPUT) {
        to.get_mut("properties")
            .and_then(Value::as_object_mut)
            .map(|properties| properties.remove(OUTPUT));
        if let Some(required) = to.get_mut("required").and_then(Value::as_array_mut) {
            required.retain(|name| name != OUTPUT);
        }
    }
    let Assignable::No(places) = is_assignable(&from, &to) else { return None };
    let places: Vec<String> = places.iter().map(ToString::to_string).collect();
    Some(format!("does not take the arguments of the call: {}", places.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(parameters: Value) -> ToolDefinition {
        ToolDefinition::new("t", "A tool.", parameters)
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let charge = tool(
            json!({"type": "object", "properties": {"cents": {"type": "integer"}}, "required": ["cents"]}),
        );
        let receipt = json!({"type": "string"});
        let undo = |cents: &str, output: &str| {
            tool(
                json!({"type": "object", "required": ["cents", "output"], "additionalProperties": false,
                "properties": {"cents": {"type": cents}, "output": {"$ref": "#/$defs/o"}}, "$defs": {"o": {"type": output}}}),
            )
        };
        assert_eq!(
            compensation_mismatch(&charge, Some(&receipt), &undo("integer", "string")),
            None
        );
        assert_eq!(compensation_mismatch(&charge, None, &undo("integer", "boolean")), None);
        let problem =
            compensation_mismatch(&charge, Some(&receipt), &undo("integer", "boolean")).unwrap();
        assert!(
            problem.starts_with(
                "does not take what the call answers as `output`: boolean is expected"
            ),
            "{problem}"
        );
        let problem =
            compensation_mismatch(&charge, Some(&receipt), &undo("string", "string")).unwrap();
        assert!(
            problem.starts_with(
                "does not take the arguments of the call: `cents`: string is expected"
            ),
            "{problem}"
        );
        let none = tool(
            json!({"type": "object", "properties": {"cents": {}}, "additionalProperties": false}),
        );
        assert_eq!(
            compensation_mismatch(&charge, None, &none).unwrap(),
            "has no parameter `output`, which is what the call answered"
        );
        let other =
            tool(json!({"type": "object", "properties": {"euros": {}}, "required": ["euros"]}));
        assert!(compensation_mismatch(&charge, None, &other).unwrap().contains("euros"));
        // The schema declares no arguments, so no mismatch is reported.
        assert_eq!(compensation_mismatch(&tool(json!({"type": "object"})), None, &other), None);
    }
}

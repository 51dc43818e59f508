//! The JSON Schema of a workflow's input: an object with the schemas of the inputs.

use agentflow_schema::schema::Definitions;
use serde_json::{Map, Value, json};

/// Builds the schema of an object with a required property for each input.
pub(super) fn input_object_schema(inputs: impl IntoIterator<Item = (String, Value)>) -> Value {
    let mut properties = Map::new();
    let mut required: Vec<Value> = Vec::new();
    let mut definitions = Definitions::default();
    for (name, schema) in inputs {
        required.push(name.as_str().into());
        properties.insert(name, definitions.embed(&schema));
    }
    let mut object = json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
    definitions.add_to(&mut object);
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note_schema(kind: &str) -> Value {
        json!({"$ref": "#/$defs/Note", "$defs": {"Note": {"type": kind}}})
    }

    #[test]
    fn definitions_stand_where_their_references_point() {
        let inputs = [
            ("a".to_owned(), note_schema("string")),
            ("b".to_owned(), note_schema("string")),
            ("c".to_owned(), note_schema("number")),
        ];
        assert_eq!(
            input_object_schema(inputs),
            json!({
                "type": "object",
                "properties": {
                    "a": {"$ref": "#/$defs/Note"},
                    "b": {"$ref": "#/$defs/Note"},
                    "c": {"$ref": "#/$defs/Note2"},
                },
                "required": ["a", "b", "c"],
                "additionalProperties": false,
                "$defs": {"Note": {"type": "string"}, "Note2": {"type": "number"}},
            })
        );
    }
}

//! The JSON Schema of a workflow's input: one object made of the schemas of its inputs. It knows no node.

use serde_json::{Map, Value, json};

/// An object with a property for each input. Definitions that the inputs' schemas refer to move to the object itself,
/// where their references point; of two that have one name and differ, the second gets another name.
pub(super) fn input_object_schema(inputs: impl IntoIterator<Item = (String, Value)>) -> Value {
    let mut properties = Map::new();
    let mut required: Vec<Value> = Vec::new();
    let mut definitions = Map::new();
    for (name, mut schema) in inputs {
        if let Some(Value::Object(own)) = schema.as_object_mut().and_then(|schema| schema.remove("$defs")) {
            let names: Vec<(String, String)> = own
                .iter()
                .map(|(of, schema)| (of.clone(), free_name(&definitions, of, schema)))
                .filter(|(of, free)| of != free)
                .collect();
            for (of, mut definition) in own {
                let free = names.iter().find(|(old, _)| *old == of).map_or(of, |(_, free)| free.clone());
                rename(&mut definition, &names);
                definitions.insert(free, definition);
            }
            rename(&mut schema, &names);
        }
        required.push(name.as_str().into());
        properties.insert(name, schema);
    }
    let mut object =
        json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
    if !definitions.is_empty() {
        object["$defs"] = definitions.into();
    }
    object
}

/// The name under which a definition stands: its own, unless another one has it.
fn free_name(taken: &Map<String, Value>, name: &str, definition: &Value) -> String {
    let is_free = |name: &str| taken.get(name).is_none_or(|other| other == definition);
    let numbered = (2_u32..).map(|number| format!("{name}{number}"));
    std::iter::once(name.to_owned()).chain(numbered).find(|name| is_free(name)).unwrap_or_default()
}

/// Makes references follow their definitions.
fn rename(schema: &mut Value, names: &[(String, String)]) {
    match schema {
        _ if names.is_empty() => {}
        Value::Array(items) => items.iter_mut().for_each(|item| rename(item, names)),
        Value::Object(fields) => {
            if let Some(Value::String(to)) = fields.get_mut("$ref")
                && let Some(of) = to.strip_prefix("#/$defs/")
                && let Some((_, free)) = names.iter().find(|(old, _)| old == of)
            {
                *to = format!("#/$defs/{free}");
            }
            fields.values_mut().for_each(|field| rename(field, names));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(kind: &str) -> Value {
        json!({"$ref": "#/$defs/Note", "$defs": {"Note": {"type": kind}}})
    }

    #[test]
    fn definitions_stand_where_their_references_point() {
        let inputs = [("a".to_owned(), of("string")), ("b".to_owned(), of("string")), ("c".to_owned(), of("number"))];
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

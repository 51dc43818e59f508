//! Tests of the strict form of a schema.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::strict;

fn of<T: JsonSchema>() -> Value {
    schemars::generate::SchemaSettings::draft2020_12()
        .with(|settings| {
            settings.inline_subschemas = true;
            settings.meta_schema = None;
        })
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value()
}

fn object(property: Value) -> Value {
    json!({"type": "object", "properties": {"a": property}, "required": ["a"]})
}

fn property(property: Value) -> Value {
    strict(&object(property)).expect("expressible").schema["properties"]["a"].take()
}

fn problem(property: Value) -> String {
    strict(&object(property)).expect_err("not expressible")
}

/// Checks that every object in a strict schema is closed and requires all properties.
fn check(schema: &Value) {
    match schema {
        Value::Object(map) => {
            if let Some(properties) = map.get("properties").and_then(Value::as_object) {
                assert_eq!(map["additionalProperties"], false, "{schema}");
                let required = map["required"].as_array().expect("a list");
                assert!(
                    properties.keys().all(|name| required.contains(&name.as_str().into())),
                    "{schema}"
                );
                assert_eq!(required.len(), properties.len(), "{schema}");
                properties.values().for_each(check);
            }
            for keyword in ["oneOf", "allOf", "const", "default", "format"] {
                let known =
                    map.get(keyword).is_some_and(|value| keyword != "format" || value != "date");
                assert!(!known, "{schema}");
            }
            map.iter()
                .filter(|(name, _)| *name != "properties" && *name != "enum")
                .for_each(|(_, value)| check(value));
        }
        Value::Array(list) => list.iter().for_each(check),
        _ => {}
    }
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Book {
    /// As on the cover.
    title: String,
    subtitle: Option<String>,
    pages: u32,
    #[serde(default)]
    copies: u8,
    tags: Vec<String>,
    shelf: Shelf,
    state: State,
    like: Option<Box<Book>>,
    size: (f64, f64),
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind")]
enum Shelf {
    Home { room: String },
    Lent { to: String, until: Option<String> },
}

#[derive(Serialize, Deserialize, JsonSchema)]
enum State {
    New,
    Used,
}

#[test]
fn a_type_of_rust_becomes_strict() {
    let strict = strict(&of::<Book>()).expect("expressible");
    assert!(!strict.nulled, "{}", strict.schema);
    check(&strict.schema);
    let properties = &strict.schema["properties"];
    assert_eq!(properties["title"], json!({"type": "string", "description": "As on the cover."}));
    assert_eq!(properties["subtitle"], json!({"type": ["string", "null"]}));
    assert_eq!(properties["pages"], json!({"type": "integer", "minimum": 0}));
    // The default is not `null`, and a `u8` does not accept `null`.
    assert_eq!(properties["copies"]["type"], "integer");
    assert_eq!(properties["state"], json!({"type": "string", "enum": ["New", "Used"]}));
    let variants = properties["shelf"]["anyOf"].as_array().expect("variants");
    assert_eq!(variants[0]["properties"]["kind"], json!({"type": "string", "enum": ["Home"]}));
    assert_eq!(
        (&properties["size"]["items"]["type"], &properties["size"]["maxItems"]),
        (&json!("number"), &json!(2))
    );
}

#[test]
fn a_strict_schema_stays_as_it_is() {
    let once = strict(&of::<Book>()).expect("expressible");
    assert_eq!(strict(&once.schema).expect("expressible"), once);
}

#[test]
fn what_can_be_left_out_is_null_instead() {
    let schema = json!({
        "type": "object",
        "properties": {
            "a": {"type": "string"},
            "b": {"type": "string", "enum": ["x"]},
            "c": {"$ref": "#/$defs/C", "description": "dropped"},
            "d": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
            "e": {"type": ["string", "null"]},
            "f": {"type": "integer", "default": 3},
        },
        "$defs": {"C": {"type": "object", "properties": {}, "additionalProperties": false}},
    });
    let strict = strict(&schema).expect("expressible");
    assert!(strict.nulled);
    check(&strict.schema);
    let properties = &strict.schema["properties"];
    assert_eq!(properties["a"], json!({"type": ["string", "null"]}));
    assert_eq!(properties["b"], json!({"type": ["string", "null"], "enum": ["x", null]}));
    assert_eq!(properties["c"], json!({"anyOf": [{"$ref": "#/$defs/C"}, {"type": "null"}]}));
    assert_eq!(properties["d"]["anyOf"][2], json!({"type": "null"}));
    assert_eq!(properties["e"], json!({"type": ["string", "null"]}));
    assert_eq!(properties["f"], json!({"type": "integer"}));
}

#[test]
fn keywords_that_only_narrow_become_words_of_the_description() {
    assert_eq!(
        property(
            json!({"type": "string", "minLength": 2, "maxLength": 5, "description": "A code."})
        ),
        json!({"type": "string", "description": "A code. (minLength: 2) (maxLength: 5)"})
    );
    assert_eq!(
        property(json!({"type": "string", "format": "uri"})),
        json!({"type": "string", "description": "format: uri"})
    );
    assert_eq!(
        property(json!({"type": "string", "format": "date"})),
        json!({"type": "string", "format": "date"})
    );
    assert_eq!(property(json!({"type": "integer", "format": "int64"})), json!({"type": "integer"}));
    let list =
        json!({"type": "array", "items": {"type": "string"}, "minItems": 1, "uniqueItems": true});
    assert_eq!(
        property(list),
        json!({"type": "array", "items": {"type": "string"}, "minItems": 1, "description": "uniqueItems: true"})
    );
}

#[test]
fn values_and_variants() {
    assert_eq!(property(json!({"const": 3})), json!({"type": "integer", "enum": [3]}));
    assert_eq!(
        property(json!({"enum": ["a", null]})),
        json!({"type": ["string", "null"], "enum": ["a", null]})
    );
    assert_eq!(
        property(
            json!({"oneOf": [{"type": "string"}, {"const": "b", "description": "B."}], "description": "D."})
        ),
        json!({"anyOf": [{"type": "string"}, {"type": "string", "enum": ["b"], "description": "B."}], "description": "D."})
    );
    assert_eq!(
        property(json!({"allOf": [{"type": "string"}], "description": "D."})),
        json!({"type": "string", "description": "D."})
    );
}

#[test]
fn what_cannot_be_said_names_the_field() {
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Outer {
        inner: Vec<Inner>,
    }
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Inner {
        counts: BTreeMap<String, u32>,
    }
    let problem_of = |schema: Value| strict(&schema).expect_err("not expressible");
    assert_eq!(
        problem_of(of::<Outer>()),
        "the field `inner[].counts` is a map with free keys, which a strict schema of OpenAI cannot say; use a list \
         of structs with a field for the key and one for the value"
    );
    for (schema, part) in [
        (json!(true), "takes any JSON"),
        (json!({}), "takes any JSON"),
        (json!({"type": "object"}), "free keys"),
        (json!({"type": "object", "properties": {}, "additionalProperties": true}), "free keys"),
        (
            json!({"type": "object", "patternProperties": {}, "additionalProperties": false}),
            "free keys",
        ),
        (json!({"type": "array"}), "list of anything"),
        (json!({"type": "array", "prefixItems": [{"type": "string"}, {"type": "null"}]}), "tuple"),
        (json!({"not": {"type": "string"}}), "`not`"),
        (json!({"allOf": [{"type": "string"}, {"type": "null"}]}), "several schemas"),
        (
            json!({"type": "object", "properties": {"x": {"type": "null"}}, "oneOf": []}),
            "fields and variants",
        ),
        (json!({"$ref": "http://elsewhere"}), "refers to"),
    ] {
        let said = problem(schema.clone());
        assert!(said.starts_with("the field `a` ") && said.contains(part), "{schema}: {said}");
    }
    assert!(problem_of(json!({"type": "string"})).contains("must be an object"));
    assert!(problem_of(json!({"type": "object"})).starts_with("the answer as a whole is a map"));
}

#[test]
fn a_recursive_type_refers_to_its_definition() {
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Tree {
        children: Vec<Tree>,
    }
    let tree = strict(&of::<Tree>()).expect("expressible").schema;
    check(&tree);
    assert_eq!(tree["type"], "object");
    assert!(tree.to_string().contains("\"$ref\""), "{}", tree);
    let reference = json!({"$ref": "#/definitions/T", "definitions": {"T": object(json!({"$ref": "#/definitions/T"}))}});
    let root = strict(&reference).expect("expressible").schema;
    assert_eq!(
        (&root["type"], &root["properties"]["a"]["$ref"]),
        (&json!("object"), &json!("#/$defs/T"))
    );
}

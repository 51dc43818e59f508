//! Finds misspelled keywords in the JSON Schemas of documents. JSON Schema allows unknown keywords,
//! so a misspelled one would be ignored silently.

use agentflow_schema::diagnostic::{Diagnostic, Suggestion};
use agentflow_schema::text::nearest;
use agentflow_schema::text_tree::{Datum, Tree};

use super::document_codes;
use super::object_fields::Problems;

/// Keywords whose value is a schema, or a list of schemas.
const SCHEMAS: [&str; 16] = [
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "contains",
    "contentSchema",
    "else",
    "if",
    "items",
    "not",
    "oneOf",
    "prefixItems",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];

/// Keywords whose value is an object of schemas.
const NAMED: [&str; 6] =
    ["properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions"];

/// All other keywords, including those of OpenAPI. Their values are not schemas.
const OTHERS: [&str; 47] = [
    "$anchor",
    "$comment",
    "$dynamicAnchor",
    "$dynamicRef",
    "$id",
    "$recursiveAnchor",
    "$recursiveRef",
    "$ref",
    "$schema",
    "$vocabulary",
    "const",
    "contentEncoding",
    "contentMediaType",
    "default",
    "dependentRequired",
    "deprecated",
    "description",
    "discriminator",
    "enum",
    "example",
    "examples",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "externalDocs",
    "format",
    "id",
    "markdownDescription",
    "maxContains",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minContains",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "nullable",
    "pattern",
    "readOnly",
    "required",
    "title",
    "type",
    "uniqueItems",
    "writeOnly",
    "xml",
];

/// Reports each unknown keyword with a name similar to a known keyword.
pub(super) fn check_keywords(schema: &Tree, problems: &mut Problems) {
    let Datum::Object(fields) = &schema.datum else { return };
    for field in fields {
        let name = field.name.as_str();
        if NAMED.contains(&name) {
            if let Datum::Object(named) = &field.value.datum {
                named.iter().for_each(|of| check_keywords(&of.value, problems));
            }
        } else if SCHEMAS.contains(&name) {
            check_keywords(&field.value, problems);
            field.value.items().iter().for_each(|item| check_keywords(item, problems));
        } else if !OTHERS.contains(&name) && !name.starts_with("x-") {
            let known = SCHEMAS.iter().chain(&NAMED).chain(&OTHERS).copied();
            if let near @ Some(_) = nearest(name, known) {
                problems.note(
                    &field.at,
                    Diagnostic::new(document_codes::UNKNOWN_SCHEMA_KEYWORD)
                        .name("keyword", name)
                        .suggest(Suggestion::similar(near)),
                );
            }
        }
    }
}

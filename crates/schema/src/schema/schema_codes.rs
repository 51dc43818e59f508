//! Codes of the problems of JSON Schemas, and of parts that a schema excludes: `schema.*`.

use crate::diagnostic::codes;

codes! {
    ENDLESS_REFERENCE = "schema.endless-reference",
        "a `$ref` applies a schema to the value that it applies to already"
            => "refer to it below a field or an item";
    FEW_ITEMS = "schema.few-items",
        "it is a list of at most {most} items";
    MAY_BE_MISSING = "schema.may-be-missing",
        "{field} may be missing";
    MAY_BE_NULL = "schema.may-be-null",
        "{holder} may be `null`";
    NESTED_SCHEMAS = "schema.nested-schemas",
        "more than {most} schemas apply to one value, one within another"
            => "nest fewer";
    NO_FIELD = "schema.no-field",
        "it has no {field}";
    NO_FIELDS = "schema.no-fields",
        "it has no fields";
    NO_PARTS = "schema.no-parts",
        "{field} is looked for in a value that has no parts: {found}";
    NOT_A_SCHEMA = "schema.not-a-schema",
        "this is not a JSON Schema: {problem}";
    NOT_A_SCHEMA_AT = "schema.not-a-schema-at",
        "this is not a JSON Schema at {pointer}: {problem}";
    NOT_AN_ITEM = "schema.not-an-item",
        "it is a list, whose items are at numbers from `0`, and not at {field}";
    PATTERN_LENGTH = "schema.pattern-length",
        "a pattern has {size} bytes, and at most {most} are read"
            => "shorten it";
    PATTERN_SIZES = "schema.pattern-sizes",
        "the patterns have more than {most} bytes when they are compiled"
            => "use fewer patterns";
    REFERENCE_WITHOUT_TARGET = "schema.reference-without-target",
        "the reference {name} leads to no schema within the schema"
            => "nothing is fetched, so put it in";
    SEVERAL_FORMS = "schema.several-forms",
        "{holder} has several forms, and not all have {field}";
    TOO_DEEP = "schema.too-deep",
        "the schema is nested more than {most} levels deep"
            => "move parts of it to `$defs`";
    UNFOLDED = "schema.unfolded",
        "the schema unfolds to more than {most} schemas"
            => "refer to fewer schemas in `allOf`, `anyOf` and `oneOf`";
    UNKNOWN_TYPE = "schema.unknown-type",
        "there is no type {name}";
    UNUSABLE_PATTERN = "schema.unusable-pattern",
        "the pattern {pattern} is not a regular expression, or has more than {most} bytes when it is compiled"
            => "correct it, or repeat less in it";
}

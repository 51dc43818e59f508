//! Codes of the problems of the JSON form of mappings: `mapping.*`. `{name}` is replaced by an
//! argument.

use agentflow_schema::diagnostic::codes;

codes! {
    EXTRA_KEY = "mapping.extra-key",
        "a mapping with {key} has no {extra}"
            => "remove it";
    NO_KEY = "mapping.no-key",
        "a mapping has one of the keys {keys}";
    NOT_A_POINTER = "mapping.not-a-pointer",
        "{pointer} is not a JSON Pointer"
            => "it begins with `/`, as in `/{path}`";
    TWO_KEYS = "mapping.two-keys",
        "a mapping has one of {first} and {key}"
            => "remove the other";
    UNKNOWN_KEY = "mapping.unknown-key",
        "a mapping has no {key}"
            => "the fields of an object stand within `object`";
}

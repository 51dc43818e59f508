//! Codes of the problems of templates: `template.*`. `{at}` is the position in bytes.

use crate::diagnostic::codes;

codes! {
    FILLED_TOO_LARGE = "template.filled-too-large",
        "the filled text has more than {most} bytes"
            => "show a part of the value";
    MISSING_VALUE = "template.missing-value",
        "there is no value {name}"
            => "write `?` before the closing brace where it may be missing";
    NO_VALUE = "template.no-value",
        "there is no value for it";
    NOT_A_PLACEHOLDER = "template.not-a-placeholder",
        "{placeholder} at byte {at} is not a placeholder"
            => "write a path, such as `{{word}}`, `{page.title}` or `{page.title?}`, and `{{` for a brace";
    OPEN_BRACE = "template.open-brace",
        "the `{` at byte {at} has no `}` on its line"
            => "write `{{` for a brace";
    SURPLUS_BRACE = "template.surplus-brace",
        "the `}` at byte {at} has no `{` before it"
            => "write `}}` for a brace";
    TOO_LONG = "template.too-long",
        "a template has at most {most} bytes, and this one has {size}";
}

//! Codes of the problems of YAML and JSON texts: `text.*`.

use crate::diagnostic::codes;

codes! {
    TOO_LARGE = "text.too-large",
        "the document has {size} bytes, and at most {most} are read";
    TOO_MANY_VALUES = "text.too-many-values",
        "the document has more than {most} values, repeated aliases included";
    TOO_LONG_TEXTS = "text.too-long-texts",
        "the texts of the document have more than {most} bytes, repeated aliases included"
            => "repeat less";
    TOO_DEEP = "text.too-deep",
        "values stand in each other more than {most} deep here";
    PARSER_LIMIT = "text.parser-limit",
        "this is not read: {problem}";
    EMPTY = "text.empty",
        "the document is empty";
    SECOND_DOCUMENT = "text.second-document",
        "a second document begins here"
            => "give each document a file of its own";
    TAG = "text.tag",
        "tags such as `!!str` are not read"
            => "write the value alone";
    ALIAS_OF_ITSELF = "text.alias-of-itself",
        "this stands for a value that is not complete here";
    MISSING_VALUE = "text.missing-value",
        "a value is expected here";
    MERGE_KEY = "text.merge-key",
        "merge keys are of YAML 1.1 and are not read"
            => "write the fields, or use an alias for a whole value";
    FIELD_NAME_NOT_A_TEXT = "text.field-name-not-a-text",
        "the name of a field is a text, and this is {found}";
    DUPLICATE_FIELD = "text.duplicate-field",
        "the field {field} is here a second time"
            => "remove one";
    INVALID_NUMBER = "text.invalid-number",
        "JSON has no number for {number}"
            => "put it in quotes if it is a text";
    NOT_YAML = "text.not-yaml",
        "this is neither YAML nor JSON: {problem}"
            => "put a text with signs such as `@`, `%` and `*` in quotes";
    NOT_JSON = "text.not-json",
        "this is not JSON: {problem}";
    MISSING_COLON = "text.missing-colon",
        "expected `:` after {name}";
    UNKNOWN_ESCAPE = "text.unknown-escape",
        "unknown escape `\\{letter}` in double quotes"
            => "use single quotes or `\\\\{letter}`";
    INCOMPLETE_ESCAPE = "text.incomplete-escape",
        "`\\{letter}` needs {digits} hexadecimal digits in double quotes"
            => "use single quotes or `\\\\{letter}`";
    TEXT_BEHIND_BRACKET = "text.behind-bracket",
        "the text continues behind {close}"
            => "quote a text that begins with {open}";
    TAB_INDENTATION = "text.tab-indentation",
        "this line is indented with a tab, and YAML is indented with spaces"
            => "write spaces";
    TAB = "text.tab",
        "a tab stands here, where YAML has a space"
            => "write a space";
    UNKNOWN_ANCHOR = "text.unknown-anchor",
        "no value above has the anchor `&{anchor}`"
            => "put a text in quotes";
    SECOND_COLON = "text.second-colon",
        "a second `:` in one value"
            => "put the text in quotes, as in `question: \"what: now\"`, or begin a new line for a new field";
    UNEXPECTED_COLON = "text.unexpected-colon",
        "this line is read as a part of the one above it"
            => "write a `:` after the name there, close its bracket, or indent both lines alike";
    OPEN_QUOTE = "text.open-quote",
        "a text in quotes begins here and does not end"
            => "close it with the same quote";
    INDENTATION = "text.indentation",
        "this line does not belong to the list or the object above it, since it is indented by {spaces} spaces or is not of its kind"
            => "indent it like their other lines";
    OPEN_BRACKET = "text.open-bracket",
        "a list in `[..]` or an object in `{..}` is not complete here"
            => "write a `,` between its parts, and close it";
}

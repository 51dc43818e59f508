//! Codes of the problems of expressions: `expression.*`. `{at}` is the position in bytes.

use crate::diagnostic::codes;

codes! {
    ARGUMENT_COUNT = "expression.argument-count",
        "{function} at byte {at} has {count} arguments, and takes {takes}";
    CONVERTED_TOO_LARGE = "expression.converted-too-large",
        "{number} is too large for an integer at byte {at}";
    DIVISION_BY_ZERO = "expression.division-by-zero",
        "division by zero in {operator} at byte {at}";
    DOUBLE_TOO_LARGE = "expression.double-too-large",
        "the number {number} at byte {at} is too large";
    FUNCTION_ARGUMENTS = "expression.function-arguments",
        "{function} does not take {found} at byte {at}";
    HAS_WITHOUT_FIELD = "expression.has-without-field",
        "`has` at byte {at} takes one field, as in `has(page.title)`";
    INTEGER_OUT_OF_RANGE = "expression.integer-out-of-range",
        "the integer {number} is beyond the range of expressions, whose largest one is {most} at byte {at}";
    INTEGER_TOO_LARGE = "expression.integer-too-large",
        "the number {number} at byte {at} is too large"
            => "write it as a double, with `.0`";
    METHOD_AS_FUNCTION = "expression.method-as-function",
        "{function} at byte {at} stands behind a value, as in `page.title.{word}(..)`";
    NEGATED_TOO_LARGE = "expression.negated-too-large",
        "the number is too large at byte {at}";
    NEVER_EQUAL = "expression.never-equal",
        "{operator} compares {found} with {other}, which are never equal at byte {at}";
    NO_FIELD = "expression.no-field",
        "no field {field} at byte {at}"
            => "where it may be absent, test it with `has(..)` first";
    NO_FIELDS = "expression.no-fields",
        "{found} has no field {field}, which is read at byte {at}";
    NO_ITEM = "expression.no-item",
        "no item {number} at byte {at}, the list has {count}";
    NO_ITEMS = "expression.no-items",
        "{found} has no items at byte {at}"
            => "name a list or an object";
    NOT_A_CONDITION = "expression.not-a-condition",
        "expected `true` or `false`, found {found} at byte {at}"
            => "compare it with a value";
    NOT_A_SELECTOR = "expression.not-a-selector",
        "{found} is neither a field nor the number of an item at byte {at}";
    NOT_AN_ITEM_NUMBER = "expression.not-an-item-number",
        "{number} is not the number of an item at byte {at}";
    NOT_HEXADECIMAL = "expression.not-hexadecimal",
        "the number {number} at byte {at} has no hexadecimal value of 64 bits";
    NUMBER_WITH_LETTERS = "expression.number-with-letters",
        "the number {number} at byte {at} has letters behind it"
            => "write it without them";
    OBJECT = "expression.object",
        "`{` at byte {at}: an expression writes no objects"
            => "compare fields";
    OPEN_TEXT = "expression.open-text",
        "the text that begins at byte {at} has no {quote} at its end";
    OPERATOR_OPERAND = "expression.operator-operand",
        "{operator} cannot be applied to {found} at byte {at}"
            => "it takes {takes}";
    OPERATOR_OPERANDS = "expression.operator-operands",
        "{operator} cannot be applied to {found} and {other} at byte {at}"
            => "it takes {takes}";
    PYTHON_WORD = "expression.python-word",
        "{name} at byte {at} is a word of Python"
            => "write {word}";
    REMAINDER_OF_DOUBLES = "expression.remainder-of-doubles",
        "`%` takes two integers at byte {at}";
    RESULT_NOT_A_NUMBER = "expression.result-not-a-number",
        "the result of {operator} is not a number that JSON has at byte {at}";
    RESULT_TOO_LARGE = "expression.result-too-large",
        "the result of {operator} is too large for an integer at byte {at}";
    SEARCHED_VALUE = "expression.searched-value",
        "`in` cannot search {found} at byte {at}"
            => "it takes a list or an object";
    TEXT_NOT_A_NUMBER = "expression.text-not-a-number",
        "the text is not a number at byte {at}";
    TEXT_NOT_AN_INTEGER = "expression.text-not-an-integer",
        "the text is not an integer at byte {at}";
    TOO_DEEP = "expression.too-deep",
        "the expression is nested more than {most} levels deep at byte {at}";
    TOO_LONG = "expression.too-long",
        "an expression has at most {most} bytes, and this one has {size}";
    TOO_MANY_OPERATORS = "expression.too-many-operators",
        "the expression has too many operators in a row at byte {at}";
    TOO_MANY_STEPS = "expression.too-many-steps",
        "the expression takes more than {most} steps at byte {at}"
            => "look at fewer items";
    UNEXPECTED_END = "expression.unexpected-end",
        "the expression ends at byte {at}, and {expected}";
    UNEXPECTED_KIND = "expression.unexpected-kind",
        "expected {expected}, found {found} at byte {at}";
    UNEXPECTED_TOKEN = "expression.unexpected-token",
        "{token} stands at byte {at}, and {expected}";
    UNKNOWN_ESCAPE = "expression.unknown-escape",
        "`\\` at byte {at} begins none of `\\n`, `\\r`, `\\t`, `\\\\`, `\\'`, `\\\"`, `\\u00e9`"
            => "write a text without escapes as `r'..'`";
    UNKNOWN_FUNCTION = "expression.unknown-function",
        "unknown function {function} at byte {at}";
    UNKNOWN_NAME = "expression.unknown-name",
        "unknown name {name} at byte {at}";
    UNKNOWN_SIGN = "expression.unknown-sign",
        "{sign} at byte {at} has no meaning in an expression";
    UNORDERED = "expression.unordered",
        "{operator} cannot compare {found} with {other} at byte {at}"
            => "it takes two numbers or two texts";
    WRONG_OPERATOR = "expression.wrong-operator",
        "{token} in place of {operator} stands at byte {at}, and {expected}";
}

//! Codes of values and conditions that a run cannot compute: `value.*`. `{name}` is replaced by an
//! argument.

use agentflow_schema::diagnostic::codes;

codes! {
    CONDITION_NOT_A_BOOLEAN = "value.condition-not-a-boolean",
        "the value is {found}, and not `true` or `false`"
            => "compare it with `equals`";
    EXPRESSION_NOT_A_BOOLEAN = "value.expression-not-a-boolean",
        "{expression} is {found}, and not `true` or `false`"
            => "compare it with a value";
    INPUT_MISFIT = "value.input-misfit",
        "the input {input} does not fit: {problem}; {found} was given";
    INPUTS_NOT_AN_OBJECT = "value.inputs-not-an-object",
        "write a JSON object with {inputs}";
    INVALID_INPUTS = "value.invalid-inputs",
        "the inputs are not valid JSON: {problem}";
    INVALID_SAVED_FIELD = "value.invalid-saved-field",
        "its output is saved field by field, and {problem}";
    ITEM_HAS_NO_PART = "value.item-has-no-part",
        "the item has nothing at {pointer}: {found}";
    KEY_HAS_NO_PART = "value.key-has-no-part",
        "the value of {key} in the state has nothing at {path}";
    MISSING_INPUT = "value.missing-input",
        "the input {input} is missing";
    NO_FIRST = "value.no-first",
        "none of the values of `first` is there";
    NO_ITEM = "value.no-item",
        "there is no item";
    NO_KEY = "value.no-key",
        "the state has no {key}";
    NO_LIST = "value.no-list",
        "there is no list of items: {node} gave nothing";
    NO_OUTPUT = "value.no-output",
        "{node} has no output";
    NOT_JSON = "value.not-json",
        "{found} is not JSON: {problem}";
    NOT_A_LIST = "value.not-a-list",
        "a list of items is expected, and {node} is {kind}: {found}";
    NOTHING_AS_KEY = "value.nothing-as-key",
        "there is nothing as the value of {key} in the state"
            => "write `?` before the closing brace where it may be missing";
    NOTHING_AS_OUTPUT = "value.nothing-as-output",
        "there is nothing as the output of {node}"
            => "write `?` before the closing brace where it may be missing";
    OUTPUT_HAS_NO_PART = "value.output-has-no-part",
        "the output of {node} has nothing at {pointer}: {found}";
    OUTPUT_HAS_NO_PATH = "value.output-has-no-path",
        "the output of {node} has nothing at {path}";
    SAVED_PART_NOT_AN_OBJECT = "value.saved-part-not-an-object",
        "its output is saved field by field, and {pointer} of it is not an object: {found}";
    STATE_HAS_NO_PART = "value.state-has-no-part",
        "the state has nothing at {pointer} of {key}";
    UNKNOWN_INPUT = "value.unknown-input",
        "there is no input {input}";
}

//! Codes of the problems of keys and transforms of state: `state.*`. `{name}` is replaced
//! by an argument.

use agentflow_schema::diagnostic::codes;

codes! {
    INVALID_KEY = "state.invalid-key",
        "{key} is not the name of a state key"
            => "a name has 1 to 128 ASCII letters, digits, `_` and `-`, with `user:`, `app:` or `temp:` before it where that is its owner";
    MERGE_OF_NOTHING = "state.merge-of-nothing",
        "nothing is merged into {key}"
            => "name its sources";
    NO_JSON_FORM = "state.no-json-form",
        "the value has no JSON form: {problem}";
    NO_KEY = "state.no-key",
        "the state has no {key}"
            => "write `{{word}?}` where it may be missing";
    NOT_JSON = "state.not-json",
        "the value of {key} is not JSON: {problem}";
    PICK_OF_LASTING_KEY = "state.pick-of-lasting-key",
        "`pick` lists the keys of the session to keep, and {key} is kept in any case"
            => "remove it";
    RENAMED_TWICE = "state.renamed-twice",
        "two keys are renamed to {key}"
            => "give them different names";
    UNMERGEABLE = "state.unmergeable",
        "{keys} are not merged: {kinds}"
            => "all of them must be texts, lists or objects";
    VALUE_HAS_NO_PART = "state.value-has-no-part",
        "the value of {key} has nothing at {path}";
}

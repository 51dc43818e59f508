//! Codes of the problems of keys and transforms of state: `state.*`. `{name}` is replaced
//! by an argument.

use agentflow_schema::diagnostic::codes;

codes! {
    INVALID_KEY = "state.invalid-key",
        "{problem}";
    MERGE_OF_NOTHING = "state.merge-of-nothing",
        "nothing is merged into {key}"
            => "name its sources";
    PICK_OF_LASTING_KEY = "state.pick-of-lasting-key",
        "`pick` lists the keys of the session to keep, and {key} is kept in any case"
            => "remove it";
    RENAMED_TWICE = "state.renamed-twice",
        "two keys are renamed to {key}"
            => "give them different names";
}

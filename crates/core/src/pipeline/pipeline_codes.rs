//! Codes of the problems of pipelines: `pipeline.*`. `{name}` is replaced by an argument.

use agentflow_schema::diagnostic::codes;

codes! {
    ARGUMENT_WITHOUT_CALL = "pipeline.argument-without-call",
        "only a call takes another value"
            => "put `Pipeline::value(..) >>` before it";
    DUPLICATE_NAME = "pipeline.duplicate-name",
        "two parts that run at the same time are named {part}, and their outputs are fields of one object"
            => "name one with `named`";
    INVALID_NAME = "pipeline.invalid-name",
        "a part cannot be named {name}: its name is used in templates and conditions"
            => "use letters, digits and `_`";
    NO_ROUNDS = "pipeline.no-rounds",
        "the part {part} is repeated at most 0 times"
            => "give it at least 1";
    OTHERWISE_WITHOUT_GATE = "pipeline.otherwise-without-gate",
        "only a gate has `otherwise`"
            => "use `Pipeline::when(..).otherwise(..)` for a condition";
}

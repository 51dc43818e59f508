//! Codes of the decisions that a decider must correct: `decision.*`. `{name}` is replaced by an
//! argument.

use agentflow_schema::diagnostic::codes;

codes! {
    ARGUMENT_MISFIT = "decision.argument-misfit",
        "{argument}: {problem}";
    ARGUMENTS_MISFIT = "decision.arguments-misfit",
        "the revised arguments of {node} do not fit: {problem}";
    ARGUMENTS_NOT_AN_OBJECT = "decision.arguments-not-an-object",
        "they are an object of the values that it reads; seen: {found}";
    NEEDED_NODE = "decision.needed-node",
        "{node} cannot be skipped: {reason}"
            => "continue, or revise its arguments";
    NOT_A_DECISION = "decision.not-a-decision",
        "this is not a decision: {problem}";
    UNFITTING_ARGUMENTS = "decision.unfitting-arguments",
        "invalid values: {mismatches}";
    UNKNOWN_ARGUMENT = "decision.unknown-argument",
        "it reads no {argument}";
}

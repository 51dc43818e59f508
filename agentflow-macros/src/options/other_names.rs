//! Names that other libraries use for these options. They are not accepted, but used for hints in
//! errors.

use super::option_tables::{OptionSpec, OptionTable};

/// The probable meaning of an unknown option.
pub(super) enum Meant {
    /// An option of the attribute.
    Option(&'static OptionSpec),
    /// A hint for a setting that is not an option.
    Elsewhere(&'static str),
}

/// The options with their names in other libraries. If several options of an attribute match, the
/// first is used.
const OPTIONS: &[(&str, &[&str])] = &[
    (
        "approve",
        &[
            "approval",
            "ask",
            "confirm",
            "confirmation",
            "human_in_the_loop",
            "needs_approval",
            "require_approval",
            "requires_approval",
        ],
    ),
    ("scopes", &["permission", "permissions", "required_permissions", "requires", "role", "roles", "scope"]),
    ("retry", &["attempts", "max_attempts", "max_retries", "retries", "retry_policy"]),
    ("output_retries", &["attempts", "max_attempts", "max_retries", "retries", "retry"]),
    ("description", &["about", "desc", "doc", "help", "summary"]),
    ("timeout", &["deadline", "time_limit", "timeout_ms", "timeout_seconds", "timeout_secs"]),
    ("idempotent", &["is_idempotent", "repeatable"]),
    ("effects", &["pure", "read_only", "readonly", "side_effects"]),
    ("concurrency", &["concurrency_limit", "max_concurrency", "max_parallel", "parallel", "parallelism", "workers"]),
    ("max_output", &["max_output_bytes", "output_limit"]),
    ("streaming", &["stream", "streams", "supports_streaming"]),
    ("compensate", &["compensation", "rollback", "undo"]),
    ("max_steps", &["max_iterations", "max_rounds", "max_turns", "turns"]),
    ("name", &["id", "title"]),
    ("model", &["llm", "model_name"]),
    ("stop", &["error_policy", "fail_fast", "on_error", "on_failure"]),
    ("decider", &["judge", "router", "supervisor"]),
    ("default", &["default_value", "optional"]),
    ("rename", &["alias", "name"]),
];

/// Hints for words that are not options, by attribute.
const ELSEWHERE: &[(&str, &[&str], &str)] = &[
    (
        "#[agent]",
        &["description", "instruction", "instructions", "preamble", "prompt", "system", "system_prompt"],
        "write the instruction as the function's doc comment, `/// ..`",
    ),
    ("#[agent]", &["output", "output_type", "response_format"], "the answer has the type that the function returns"),
    (
        "#[agent]",
        &["limits", "timeout"],
        "bound the run where it is started, or write the agent as `Agent::new(..).limits(..)`",
    ),
    ("#[workflow]", &["retries", "retry"], "write `#[node(retry = 3)]` on the `let` of the step"),
];

/// Looks up an unknown option.
pub(super) fn meant(given: &str, table: &OptionTable) -> Option<Meant> {
    for (option, words) in OPTIONS {
        let spec = table.specs.iter().find(|spec| spec.name == *option);
        if let Some(spec) = spec.filter(|_| words.contains(&given)) {
            return Some(Meant::Option(spec));
        }
    }
    for (attribute, words, remedy) in ELSEWHERE {
        if *attribute == table.attribute && words.contains(&given) {
            return Some(Meant::Elsewhere(remedy));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::option_tables::{AGENT, NODE, TOOL, TOOL_PARAMETER, WORKFLOW};
    use super::*;

    #[test]
    fn each_word_leads_to_an_option_that_exists() {
        let tables = [TOOL, AGENT, WORKFLOW, NODE, TOOL_PARAMETER];
        for (option, words) in OPTIONS {
            assert!(words.is_sorted(), "{option}");
            let known = tables.iter().any(|table| table.specs.iter().any(|spec| spec.name == *option));
            assert!(known, "`{option}` is the option of no attribute");
        }
        let found = |given, table| match meant(given, table) {
            Some(Meant::Option(spec)) => spec.name,
            Some(Meant::Elsewhere(remedy)) => remedy,
            None => "nothing",
        };
        assert_eq!(found("requires_approval", &TOOL), "approve");
        assert_eq!(found("permission", &TOOL), "scopes");
        assert_eq!(found("retries", &AGENT), "output_retries");
        assert_eq!(found("retries", &TOOL), "retry");
        assert!(found("system_prompt", &AGENT).contains("doc comment"));
        assert_eq!(found("colour", &TOOL), "nothing");
    }
}

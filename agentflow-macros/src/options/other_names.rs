//! Names that other libraries use for the options of the attributes. The macros do not accept these
//! names. They suggest the right option in the error message.

use super::option_tables::{OptionSpec, OptionTable};

/// The probable meaning of an unknown option.
pub(super) enum OptionHint {
    /// An option of the attribute.
    Option(&'static OptionSpec),
    /// The setting exists, but not as an option. Contains a hint where to set it.
    Elsewhere(&'static str),
}

/// The options, each with the names that other libraries use for it. If several options of an
/// attribute match, the first is suggested.
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
    (
        "scopes",
        &[
            "permission",
            "permissions",
            "required_permissions",
            "requires",
            "role",
            "roles",
            "scope",
        ],
    ),
    ("retry", &["attempts", "max_attempts", "max_retries", "retries", "retry_policy"]),
    ("output_retries", &["attempts", "max_attempts", "max_retries", "retries", "retry"]),
    ("description", &["about", "desc", "doc", "help", "summary"]),
    ("timeout", &["deadline", "time_limit", "timeout_ms", "timeout_seconds", "timeout_secs"]),
    ("idempotent", &["is_idempotent", "repeatable"]),
    ("effects", &["pure", "read_only", "readonly", "side_effects"]),
    (
        "concurrency",
        &[
            "concurrency_limit",
            "max_concurrency",
            "max_parallel",
            "parallel",
            "parallelism",
            "workers",
        ],
    ),
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

/// Hints for settings that are not options: attribute, names of the setting, and hint.
const ELSEWHERE: &[(&str, &[&str], &str)] = &[
    (
        "#[agent]",
        &[
            "description",
            "instruction",
            "instructions",
            "preamble",
            "prompt",
            "system",
            "system_prompt",
        ],
        "write the instruction as the function's doc comment, `/// ..`",
    ),
    (
        "#[agent]",
        &["output", "output_type", "response_format"],
        "the answer has the type that the function returns",
    ),
    (
        "#[agent]",
        &["limits", "timeout"],
        "bound the run where it is started, or write the agent as `Agent::new(..).limits(..)`",
    ),
    ("#[workflow]", &["retries", "retry"], "write `#[node(retry = 3)]` on the `let` of the step"),
];

/// Returns the probable meaning of an unknown option of an attribute.
pub(super) fn meant(given: &str, table: &OptionTable) -> Option<OptionHint> {
    for (option, words) in OPTIONS {
        let spec = table.specs.iter().find(|spec| spec.name == *option);
        if let Some(spec) = spec.filter(|_| words.contains(&given)) {
            return Some(OptionHint::Option(spec));
        }
    }
    for (attribute, words, remedy) in ELSEWHERE {
        if *attribute == table.attribute && words.contains(&given) {
            return Some(OptionHint::Elsewhere(remedy));
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
            let known =
                tables.iter().any(|table| table.specs.iter().any(|spec| spec.name == *option));
            assert!(known, "`{option}` is the option of no attribute");
        }
        let found = |given, table| match meant(given, table) {
            Some(OptionHint::Option(spec)) => spec.name,
            Some(OptionHint::Elsewhere(remedy)) => remedy,
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

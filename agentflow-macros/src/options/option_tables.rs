//! Tables of the options of each attribute. The parser, the error messages and the documentation
//! use them.

/// The name and the form of an option.
pub(crate) struct OptionSpec {
    pub(crate) name: &'static str,
    pub(super) form: Form,
    /// An example as a user writes it.
    pub(crate) example: &'static str,
    /// The default, for the table in the documentation.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "the documentation is compared with it by a test")
    )]
    pub(crate) default: &'static str,
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "the documentation is compared with it by a test")
    )]
    pub(crate) meaning: &'static str,
}

/// The options of one attribute in one position.
pub(crate) struct OptionTable {
    /// The attribute as a user writes it, such as `#[tool]`.
    pub(super) attribute: &'static str,
    pub(super) specs: &'static [OptionSpec],
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Flag,
    Text,
    Number,
    /// A number with or without a fraction.
    Decimal,
    Path,
    /// `[path, path]`
    Paths,
    Names,
    /// `name` alone or `name = expression`.
    MaybeExpr,
    /// An expression that each attribute reads as one of its keywords.
    Expr,
}

impl Form {
    /// Returns the type of the value for the documentation.
    #[cfg(test)]
    fn name(self) -> &'static str {
        match self {
            Self::Flag => "flag",
            Self::Text => "string",
            Self::Number => "whole number",
            Self::Decimal => "number",
            Self::Path => "path",
            Self::Paths => "list of paths",
            Self::Names => "words or strings",
            Self::MaybeExpr => "expression, or flag",
            Self::Expr => "word",
        }
    }
}

/// `#[tool(..)]` on a function.
pub(crate) const TOOL: OptionTable = OptionTable { attribute: "#[tool]", specs: FUNCTION };

const FUNCTION: &[OptionSpec] = &[
    OptionSpec {
        name: "name",
        form: Form::Text,
        example: "name = \"find_order\"",
        default: "the function's name",
        meaning: "the name the model calls it by: 1 to 64 letters, digits, `_` and `-`",
    },
    OptionSpec {
        name: "description",
        form: Form::Text,
        example: "description = \"Find an order.\"",
        default: "the function's `///`",
        meaning: "what it does, for the model",
    },
    OptionSpec {
        name: "timeout",
        form: Form::Text,
        example: "timeout = \"5s\"",
        default: "the run's own limit",
        meaning: "the longest time for a call, in ms, s, m, h or d; for `async fn` and `blocking`",
    },
    OptionSpec {
        name: "retry",
        form: Form::Number,
        example: "retry = 3",
        default: "0",
        meaning: "how often a failed call is retried, whoever makes it",
    },
    OptionSpec {
        name: "idempotent",
        form: Form::Flag,
        example: "idempotent",
        default: "off",
        meaning: "two calls with the same idempotency key have the effect of one",
    },
    OptionSpec {
        name: "effects",
        form: Form::Text,
        example: "effects = \"read\"",
        default: "\"write\"",
        meaning: "its effect on the world: \"none\", \"read\" or \"write\"; decides whether an interrupted call is repeated",
    },
    OptionSpec {
        name: "approve",
        form: Form::Flag,
        example: "approve",
        default: "off",
        meaning: "a person must agree before it runs: who starts the run with the grant `approve:NAME`, or who is asked, see below",
    },
    APPROVE_TIMEOUT,
    ON_TIMEOUT,
    OptionSpec {
        name: "scopes",
        form: Form::Names,
        example: "scopes(read, \"billing:write\")",
        default: "none",
        meaning: "the scopes that a run needs to call it",
    },
    OptionSpec {
        name: "blocking",
        form: Form::Flag,
        example: "blocking",
        default: "off",
        meaning: "runs a `fn` on a thread for blocking work instead of an async one",
    },
    OptionSpec {
        name: "max_output",
        form: Form::Number,
        example: "max_output = 1024",
        default: "65536",
        meaning: "the largest output in bytes; a larger one becomes an error for the model",
    },
    OptionSpec {
        name: "concurrency",
        form: Form::Number,
        example: "concurrency = 4",
        default: "any number",
        meaning: "the most calls at once, over all runs of a runtime; a further one waits",
    },
    OptionSpec {
        name: "compensate",
        form: Form::Path,
        example: "compensate = pay_back",
        default: "none",
        meaning: "the `#[tool]` function that undoes a call: the same parameters, then `output`, which the call returned",
    },
    OptionSpec {
        name: "streaming",
        form: Form::Flag,
        example: "streaming",
        default: "off",
        meaning: "calls may report their progress with [`Context::emit`]; `supports_streaming` of the definition",
    },
    CRATE,
];

/// Option of all attributes that can ask a person.
const APPROVE_TIMEOUT: OptionSpec = OptionSpec {
    name: "approve_timeout",
    form: Form::Text,
    example: "approve_timeout = \"2d\"",
    default: "none",
    meaning: "the longest wait for the person's answer, in ms, s, m, h or d",
};

const ON_TIMEOUT: OptionSpec = OptionSpec {
    name: "on_timeout",
    form: Form::Expr,
    example: "on_timeout = deny",
    default: "`fail`",
    meaning: "what happens when nobody has answered in time: `fail`, `skip`, `deny` or `approve`; of a gate also `answer(value)`, a value of the type that it asks for",
};

/// Option of every attribute on a function.
const CRATE: OptionSpec = OptionSpec {
    name: "crate",
    form: Form::Path,
    example: "crate = my_agentflow",
    default: "`::agentflow`",
    meaning: "the path of this library, if the dependency is renamed",
};

/// `#[tool(..)]` on a parameter.
pub(crate) const TOOL_PARAMETER: OptionTable =
    OptionTable { attribute: "#[tool]", specs: PARAMETER };

const PARAMETER: &[OptionSpec] = &[
    OptionSpec {
        name: "default",
        form: Form::MaybeExpr,
        example: "default = 10",
        default: "the argument is required",
        meaning: "the value if the model gives none; `default` alone is `Default::default()`",
    },
    OptionSpec {
        name: "rename",
        form: Form::Text,
        example: "rename = \"type\"",
        default: "the parameter's name",
        meaning: "the name the model sees: 1 to 64 letters, digits, `_`, `-` and `.`",
    },
];

/// `#[agent(..)]` on a function.
pub(crate) const AGENT: OptionTable = OptionTable { attribute: "#[agent]", specs: AGENT_FUNCTION };

const AGENT_FUNCTION: &[OptionSpec] = &[
    OptionSpec {
        name: "model",
        form: Form::Text,
        example: "model = \"anthropic/claude-sonnet-4-5\"",
        default: "the runtime's",
        meaning: "the model, as `provider/model`; a runtime may replace it",
    },
    OptionSpec {
        name: "description",
        form: Form::Text,
        example: "description = \"Judges a risk.\"",
        default: "none",
        meaning: "what the agent is for, for those who call it: clients of a server, which are never shown its instruction, and models that have it as a tool",
    },
    OptionSpec {
        name: "tools",
        form: Form::Paths,
        example: "tools = [search, orders::find]",
        default: "none",
        meaning: "the `#[tool]` functions that the model may call, by their paths",
    },
    OptionSpec {
        name: "temperature",
        form: Form::Decimal,
        example: "temperature = 0.2",
        default: "the provider's",
        meaning: "the sampling temperature, 0 or more",
    },
    OptionSpec {
        name: "max_tokens",
        form: Form::Number,
        example: "max_tokens = 1000",
        default: "the provider's",
        meaning: "the largest number of tokens in one answer",
    },
    OptionSpec {
        name: "prompt_cache",
        form: Form::Text,
        example: "prompt_cache = \"5m\"",
        default: "none",
        meaning: "how long the provider keeps the tools and the instruction for the next call, `\"5m\"` or `\"1h\"`, where its format takes it",
    },
    OptionSpec {
        name: "max_steps",
        form: Form::Number,
        example: "max_steps = 5",
        default: "20",
        meaning: "the largest number of turns, each a model call and its tool calls",
    },
    OptionSpec {
        name: "output_retries",
        form: Form::Number,
        example: "output_retries = 1",
        default: "2",
        meaning: "how often the model is asked again when its answer does not fit the return type",
    },
    OptionSpec {
        name: "output_key",
        form: Form::Path,
        example: "output_key = SUMMARY",
        default: "none",
        meaning: "the `StateKey` under which the answer is saved, by its path; its type is the answer's",
    },
    OptionSpec {
        name: "name",
        form: Form::Text,
        example: "name = \"risk_judge\"",
        default: "the function's name",
        meaning: "the name in events and in a runtime's settings: 1 to 64 letters, digits, `_` and `-`",
    },
    CRATE,
];

/// `#[workflow(..)]` on a function.
pub(crate) const WORKFLOW: OptionTable =
    OptionTable { attribute: "#[workflow]", specs: WORKFLOW_FUNCTION };

const WORKFLOW_FUNCTION: &[OptionSpec] = &[
    OptionSpec {
        name: "name",
        form: Form::Text,
        example: "name = \"code_review\"",
        default: "the function's name",
        meaning: "the name in runs and listings, by which a stored run is resumed",
    },
    OptionSpec {
        name: "concurrency",
        form: Form::Number,
        example: "concurrency = 4",
        default: "16",
        meaning: "the largest number of steps that run at once",
    },
    OptionSpec {
        name: "stop",
        form: Form::Expr,
        example: "stop = best_effort",
        default: "`fail_fast`",
        meaning: "what happens to the other nodes when one fails: `fail_fast` cancels those below it, `best_effort` completes those that do not need it and that no gate or check above holds back",
    },
    OptionSpec {
        name: "max_llm_calls",
        form: Form::Number,
        example: "max_llm_calls = 20",
        default: "that of the runtime",
        meaning: "the most model calls of a run with everything that it starts",
    },
    OptionSpec {
        name: "timeout",
        form: Form::Text,
        example: "timeout = \"10m\"",
        default: "none",
        meaning: "the longest that a run may be executed, in ms, s, m, h or d; the time in which it waits for a person does not count",
    },
    OptionSpec {
        name: "decider",
        form: Form::Path,
        example: "decider = guide",
        default: "none",
        meaning: "an `async fn` or `#[agent]` that is asked before each step, `guide(next: NextNode) -> Result<NodeDecision>`: it runs, is skipped, or reads other values",
    },
    OptionSpec {
        name: "approve",
        form: Form::Text,
        example: "approve = \"deploy it?\"",
        default: "off",
        meaning: "a person must agree before it begins: the node `start`",
    },
    APPROVE_TIMEOUT,
    ON_TIMEOUT,
    CRATE,
];

/// `#[node(..)]` on a `let` of a workflow.
pub(crate) const NODE: OptionTable = OptionTable { attribute: "#[node]", specs: NODE_LET };

const NODE_LET: &[OptionSpec] = &[
    OptionSpec {
        name: "id",
        form: Form::Text,
        example: "id = \"lint\"",
        default: "the name it is bound to",
        meaning: "the node's name, by which a stored run is resumed",
    },
    OptionSpec {
        name: "retry",
        form: Form::Number,
        example: "retry = 3",
        default: "0, or what the tool says",
        meaning: "how often it is retried after a failure that may pass, with growing pauses",
    },
    OptionSpec {
        name: "timeout",
        form: Form::Text,
        example: "timeout = \"30s\"",
        default: "none, or what the tool says",
        meaning: "the longest time for an attempt, in ms, s, m, h or d; for a gate, the longest wait for the answer",
    },
    OptionSpec {
        name: "on_error",
        form: Form::Expr,
        example: "on_error = skip",
        default: "`fail`",
        meaning: "what its failure does: `fail` fails the run, `skip` skips the nodes that read it, `route(other(x))` runs another step instead",
    },
    OptionSpec {
        name: "approve",
        form: Form::MaybeExpr,
        example: "approve = \"send it?\"",
        default: "off, or what the tool says",
        meaning: "a person must agree before it begins; `approve` alone asks with the node's name",
    },
    OptionSpec {
        name: "approve_timeout",
        form: Form::Text,
        example: "approve_timeout = \"2d\"",
        default: "none, or what the tool says",
        meaning: "the longest wait for that person's answer, in ms, s, m, h or d",
    },
    ON_TIMEOUT,
    OptionSpec {
        name: "concurrency",
        form: Form::Number,
        example: "concurrency = 2",
        default: "the workflow's",
        meaning: "the largest number of items of a `map!`, or branches of a `race!`, at once",
    },
    OptionSpec {
        name: "repeatable",
        form: Form::Expr,
        example: "repeatable = false",
        default: "`true`, or what the tool says",
        meaning: "whether it may run again after its process ended during it",
    },
    OptionSpec {
        name: "tap",
        form: Form::Flag,
        example: "tap",
        default: "off",
        meaning: "it observes: it sees the state, and a change of the state in it is an error",
    },
    OptionSpec {
        name: "write",
        form: Form::Flag,
        example: "write",
        default: "off, or what the called tool says",
        meaning: "it changes something outside: it begins when all above it has succeeded",
    },
    OptionSpec {
        name: "unordered",
        form: Form::Flag,
        example: "unordered",
        default: "off",
        meaning: "it writes, and neither waits for what is above it nor lets what is below wait for it",
    },
];

#[cfg(test)]
mod tests {
    use super::{AGENT_FUNCTION, FUNCTION, NODE_LET, OptionSpec, PARAMETER, WORKFLOW_FUNCTION};

    fn rows(table: &[OptionSpec]) -> String {
        let row = |spec: &OptionSpec| {
            format!(
                "| `{}` | {} | {} | {} |\n",
                spec.example,
                spec.form.name(),
                spec.default,
                spec.meaning
            )
        };
        table.iter().map(row).collect()
    }

    #[test]
    #[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
    fn the_documentation_shows_the_tables() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../agentflow/src/docs");
        for (file, table) in [
            ("tool.md", FUNCTION),
            ("tool.md", PARAMETER),
            ("agent.md", AGENT_FUNCTION),
            ("workflow.md", WORKFLOW_FUNCTION),
            ("workflow.md", NODE_LET),
        ] {
            let Ok(documentation) = std::fs::read_to_string(format!("{folder}/{file}")) else {
                eprintln!("skipped: the library's documentation is not beside this crate");
                return;
            };
            assert!(
                documentation.contains(&rows(table)),
                "agentflow/src/docs/{file} should have\n{}",
                rows(table)
            );
        }
    }
}

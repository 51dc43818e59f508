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
        meaning: "name by which the model calls the tool: 1 to 64 letters, digits, `_` and `-`",
    },
    OptionSpec {
        name: "description",
        form: Form::Text,
        example: "description = \"Find an order.\"",
        default: "the function's `///`",
        meaning: "description of the tool for the model",
    },
    OptionSpec {
        name: "timeout",
        form: Form::Text,
        example: "timeout = \"5s\"",
        default: "the run's own limit",
        meaning: "time limit of a call, in ms, s, m, h or d; for `async fn` and `blocking`",
    },
    OptionSpec {
        name: "retry",
        form: Form::Number,
        example: "retry = 3",
        default: "0",
        meaning: "maximum number of retries of a failed call, by a model or by a function",
    },
    OptionSpec {
        name: "idempotent",
        form: Form::Flag,
        example: "idempotent",
        default: "off",
        meaning: "a second call with the same idempotency key has no further effect",
    },
    OptionSpec {
        name: "effects",
        form: Form::Text,
        example: "effects = \"read\"",
        default: "\"write\"",
        meaning: "effects outside of the run: \"none\", \"read\" or \"write\"; they decide if an interrupted call is repeated",
    },
    OptionSpec {
        name: "approve",
        form: Form::Flag,
        example: "approve",
        default: "off",
        meaning: "a call needs a person's approval: the grant `approve:NAME` at the start of the run, or an answer to its question, see below",
    },
    APPROVE_TIMEOUT,
    ON_TIMEOUT,
    OptionSpec {
        name: "scopes",
        form: Form::Names,
        example: "scopes(read, \"billing:write\")",
        default: "none",
        meaning: "scopes that a run needs to call the tool",
    },
    OptionSpec {
        name: "blocking",
        form: Form::Flag,
        example: "blocking",
        default: "off",
        meaning: "runs a `fn` on a thread for blocking work",
    },
    OptionSpec {
        name: "max_output",
        form: Form::Number,
        example: "max_output = 1024",
        default: "65536",
        meaning: "maximum size of the output in bytes; the model gets an error instead of a larger one",
    },
    OptionSpec {
        name: "concurrency",
        form: Form::Number,
        example: "concurrency = 4",
        default: "any number",
        meaning: "maximum number of concurrent calls in all runs of a runtime; further calls wait",
    },
    OptionSpec {
        name: "compensate",
        form: Form::Path,
        example: "compensate = pay_back",
        default: "none",
        meaning: "`#[tool]` function that undoes a call; it has the same parameters, then `output`, the value that the call returned",
    },
    OptionSpec {
        name: "streaming",
        form: Form::Flag,
        example: "streaming",
        default: "off",
        meaning: "calls may report progress with [`Context::emit`]; sets `supports_streaming` of the definition",
    },
    CRATE,
];

/// Option of all attributes that can ask a person.
const APPROVE_TIMEOUT: OptionSpec = OptionSpec {
    name: "approve_timeout",
    form: Form::Text,
    example: "approve_timeout = \"2d\"",
    default: "none",
    meaning: "maximum wait for the person's answer, in ms, s, m, h or d",
};

const ON_TIMEOUT: OptionSpec = OptionSpec {
    name: "on_timeout",
    form: Form::Expr,
    example: "on_timeout = deny",
    default: "`fail`",
    meaning: "outcome of a question without an answer in time: `fail`, `skip`, `deny` or `approve`; for a gate also `answer(value)`, a value of the type of its answer",
};

/// Option of every attribute on a function.
const CRATE: OptionSpec = OptionSpec {
    name: "crate",
    form: Form::Path,
    example: "crate = my_agentflow",
    default: "`::agentflow`",
    meaning: "path of this library, if the dependency is renamed",
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
        meaning: "value if the model omits the argument; `default` alone is `Default::default()`",
    },
    OptionSpec {
        name: "rename",
        form: Form::Text,
        example: "rename = \"type\"",
        default: "the parameter's name",
        meaning: "name that the model sees: 1 to 64 letters, digits, `_`, `-` and `.`",
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
        meaning: "model, as `provider/model`; a runtime may replace it",
    },
    OptionSpec {
        name: "description",
        form: Form::Text,
        example: "description = \"Judges a risk.\"",
        default: "none",
        meaning: "purpose of the agent, for its callers: clients of a server, which never see its instruction, and models that have it as a tool",
    },
    OptionSpec {
        name: "tools",
        form: Form::Paths,
        example: "tools = [search, orders::find]",
        default: "none",
        meaning: "paths of the `#[tool]` functions that the model may call",
    },
    OptionSpec {
        name: "temperature",
        form: Form::Decimal,
        example: "temperature = 0.2",
        default: "the provider's",
        meaning: "sampling temperature, 0 or more",
    },
    OptionSpec {
        name: "max_tokens",
        form: Form::Number,
        example: "max_tokens = 1000",
        default: "the provider's",
        meaning: "maximum number of tokens of an answer",
    },
    OptionSpec {
        name: "prompt_cache",
        form: Form::Text,
        example: "prompt_cache = \"5m\"",
        default: "none",
        meaning: "time for which the provider caches the tools and the instruction, `\"5m\"` or `\"1h\"`, if its format supports it",
    },
    OptionSpec {
        name: "max_steps",
        form: Form::Number,
        example: "max_steps = 5",
        default: "20",
        meaning: "maximum number of turns; a turn is a model call and its tool calls",
    },
    OptionSpec {
        name: "output_retries",
        form: Form::Number,
        example: "output_retries = 1",
        default: "2",
        meaning: "maximum number of further model calls if an answer does not have the return type",
    },
    OptionSpec {
        name: "output_key",
        form: Form::Path,
        example: "output_key = SUMMARY",
        default: "none",
        meaning: "path of the `StateKey` under which the answer is saved; it has the type of the answer",
    },
    OptionSpec {
        name: "name",
        form: Form::Text,
        example: "name = \"risk_judge\"",
        default: "the function's name",
        meaning: "name in events and in a runtime's settings: 1 to 64 letters, digits, `_` and `-`",
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
        meaning: "name in runs and listings; a stored run is resumed by it",
    },
    OptionSpec {
        name: "concurrency",
        form: Form::Number,
        example: "concurrency = 4",
        default: "16",
        meaning: "maximum number of concurrent steps",
    },
    OptionSpec {
        name: "stop",
        form: Form::Expr,
        example: "stop = best_effort",
        default: "`fail_fast`",
        meaning: "effect of a failed node on the others: `fail_fast` cancels the nodes below it, `best_effort` completes the nodes that do not need it and that no gate or check above holds back",
    },
    OptionSpec {
        name: "max_llm_calls",
        form: Form::Number,
        example: "max_llm_calls = 20",
        default: "the runtime's",
        meaning: "maximum number of model calls of a run, including nested agents and workflows",
    },
    OptionSpec {
        name: "timeout",
        form: Form::Text,
        example: "timeout = \"10m\"",
        default: "none",
        meaning: "time limit of a run, in ms, s, m, h or d; time in which it waits for a person does not count",
    },
    OptionSpec {
        name: "decider",
        form: Form::Path,
        example: "decider = guide",
        default: "none",
        meaning: "`async fn` or `#[agent]` that decides before each step, `guide(next: NextNode) -> Result<NodeDecision>`: the step runs, is skipped, or reads other values",
    },
    OptionSpec {
        name: "approve",
        form: Form::Text,
        example: "approve = \"deploy it?\"",
        default: "off",
        meaning: "question that a person must approve before the workflow begins, asked by the node `start`",
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
        default: "name of the binding",
        meaning: "name of the node; a resumed run finds the node's records by it",
    },
    OptionSpec {
        name: "retry",
        form: Form::Number,
        example: "retry = 3",
        default: "0, or the tool's",
        meaning: "maximum number of retries after a temporary failure, with increasing pauses",
    },
    OptionSpec {
        name: "timeout",
        form: Form::Text,
        example: "timeout = \"30s\"",
        default: "none, or the tool's",
        meaning: "time limit of an attempt, in ms, s, m, h or d; for a gate, the maximum wait for the answer",
    },
    OptionSpec {
        name: "on_error",
        form: Form::Expr,
        example: "on_error = skip",
        default: "`fail`",
        meaning: "effect of a failure: `fail` fails the run, `skip` skips the nodes that read the output, `route(other(x))` runs another step instead",
    },
    OptionSpec {
        name: "approve",
        form: Form::MaybeExpr,
        example: "approve = \"send it?\"",
        default: "off, or the tool's",
        meaning: "question that a person must approve before the node begins; `approve` alone asks with the node's name",
    },
    OptionSpec {
        name: "approve_timeout",
        form: Form::Text,
        example: "approve_timeout = \"2d\"",
        default: "none, or the tool's",
        meaning: "maximum wait for that person's answer, in ms, s, m, h or d",
    },
    ON_TIMEOUT,
    OptionSpec {
        name: "concurrency",
        form: Form::Number,
        example: "concurrency = 2",
        default: "the workflow's",
        meaning: "maximum number of concurrent items of a `map!`, or branches of a `race!`",
    },
    OptionSpec {
        name: "repeatable",
        form: Form::Expr,
        example: "repeatable = false",
        default: "`true`, or the tool's",
        meaning: "`true` if the node may run again after a crash interrupted it",
    },
    OptionSpec {
        name: "tap",
        form: Form::Flag,
        example: "tap",
        default: "off",
        meaning: "the node only observes: it may read the state, and changing the state is an error",
    },
    OptionSpec {
        name: "write",
        form: Form::Flag,
        example: "write",
        default: "off, or the tool's",
        meaning: "the node changes something outside of the run: it begins after all steps above it have succeeded",
    },
    OptionSpec {
        name: "unordered",
        form: Form::Flag,
        example: "unordered",
        default: "off",
        meaning: "the node changes something outside of the run, without the written order: it waits only for the nodes that it reads, and later nodes do not wait for it",
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

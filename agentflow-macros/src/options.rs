//! The options of the attributes: one table for the parser, the errors and the documentation. The parser reads from comma to
//! comma, so that a mistake in one option does not hide one in the next. What a value means is left to each attribute.

use proc_macro2::{Delimiter, Group, Ident, TokenStream, TokenTree};
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{Expr, Lit, LitInt, LitStr, Path, Token};

use crate::errors::{Errors, nearest};

/// What an option is called and how it is written.
pub(crate) struct OptionSpec {
    pub(crate) name: &'static str,
    form: Form,
    /// As a user writes it.
    pub(crate) example: &'static str,
    /// For the table of the documentation.
    #[cfg_attr(not(test), expect(dead_code, reason = "the documentation is compared with it by a test"))]
    pub(crate) default: &'static str,
    #[cfg_attr(not(test), expect(dead_code, reason = "the documentation is compared with it by a test"))]
    pub(crate) meaning: &'static str,
}

/// The options of one attribute at one place.
pub(crate) struct OptionTable {
    /// As a user writes it, such as `#[tool]`.
    attribute: &'static str,
    specs: &'static [OptionSpec],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Flag,
    Text,
    Number,
    /// With or without a fraction.
    Decimal,
    Path,
    /// `[path, path]`
    Paths,
    Names,
    /// `name` alone or `name = expression`.
    MaybeExpr,
    /// An expression that each attribute reads as one of its words.
    Expr,
}

impl Form {
    /// The type of the value, for the documentation.
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
    CRATE,
];

/// The options of all that ask a person.
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

/// The option that every attribute has on a function.
const CRATE: OptionSpec = OptionSpec {
    name: "crate",
    form: Form::Path,
    example: "crate = my_agentflow",
    default: "`::agentflow`",
    meaning: "the path of this library, if the dependency is renamed",
};

/// `#[tool(..)]` on a parameter.
pub(crate) const TOOL_PARAMETER: OptionTable = OptionTable { attribute: "#[tool]", specs: PARAMETER };

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
pub(crate) const WORKFLOW: OptionTable = OptionTable { attribute: "#[workflow]", specs: WORKFLOW_FUNCTION };

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

/// One option as it was given.
pub(crate) struct GivenOption {
    pub(crate) name: Ident,
    pub(crate) value: Value,
}

pub(crate) enum Value {
    Flag,
    Text(LitStr),
    Number(LitInt),
    Decimal(Lit),
    Path(Path),
    Paths(Vec<Path>),
    Names(Vec<LitStr>),
    Expr(Box<Expr>),
}

/// The options that are well-formed; everything else went to `errors`.
pub(crate) fn parse(tokens: TokenStream, table: &OptionTable, errors: &mut Errors) -> Vec<GivenOption> {
    let mut all: Vec<GivenOption> = Vec::new();
    let everything = |input: ParseStream<'_>| {
        while !input.is_empty() {
            match option(input, table, errors) {
                Ok(Some(given)) if all.iter().any(|other| other.name == given.name) => {
                    errors.at(&given.name, format!("`{}` is given twice; remove one", given.name));
                }
                Ok(given) => all.extend(given),
                Err(error) => errors.push(error),
            }
            let rest = until_comma(input)?;
            if !rest.is_empty() && errors.is_empty() {
                errors.at(rest, "expected `,` before the next option");
            }
            input.parse::<Option<Token![,]>>()?;
        }
        Ok(())
    };
    if let Err(error) = everything.parse2(tokens) {
        errors.push(error);
    }
    all
}

fn until_comma(input: ParseStream<'_>) -> syn::Result<TokenStream> {
    let mut rest = TokenStream::new();
    while !input.is_empty() && !input.peek(Token![,]) {
        rest.extend([input.parse::<TokenTree>()?]);
    }
    Ok(rest)
}

fn option(input: ParseStream<'_>, table: &OptionTable, errors: &mut Errors) -> syn::Result<Option<GivenOption>> {
    let Ok(name) = input.call(Ident::parse_any) else {
        let wrong = until_comma(input)?;
        let message = format!("expected an option: one of {}", names(table.specs));
        // Between two commas there is only the comma to point at.
        return Err(match wrong.is_empty() {
            true => input.error(message),
            false => syn::Error::new_spanned(wrong, message),
        });
    };
    let Some(spec) = table.specs.iter().find(|spec| name == spec.name) else {
        let hint = match nearest(&name.to_string(), table.specs.iter().map(|spec| spec.name)) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("the options are {}", names(table.specs)),
        };
        errors.at(&name, format!("`{}` has no option `{name}` here; {hint}", table.attribute));
        until_comma(input)?;
        return Ok(None);
    };
    let value = value(input, spec, &name)?;
    Ok(Some(GivenOption { name, value }))
}

fn value(input: ParseStream<'_>, spec: &OptionSpec, name: &Ident) -> syn::Result<Value> {
    let ends = input.is_empty() || input.peek(Token![,]);
    if spec.form == Form::Flag {
        return match ends {
            true => Ok(Value::Flag),
            false => Err(syn::Error::new_spanned(
                until_comma(input)?,
                format!("`{name}` takes no value; write `{name}` alone, or remove it"),
            )),
        };
    }
    if spec.form == Form::MaybeExpr && ends {
        return Ok(Value::Flag);
    }
    if spec.form == Form::Names {
        return match input.parse::<Group>() {
            Ok(group) if group.stream().is_empty() => Err(syn::Error::new_spanned(
                group,
                "name at least one scope, as in `scopes(read)`, or remove the option",
            )),
            Ok(group) if group.delimiter() == Delimiter::Parenthesis => {
                Ok(Value::Names(name_list.parse2(group.stream())?))
            }
            Ok(other) => Err(written(spec, other)),
            Err(_) => Err(written(spec, or_name(until_comma(input)?, name))),
        };
    }
    if input.parse::<Option<Token![=]>>()?.is_none() {
        return Err(written(spec, or_name(until_comma(input)?, name)));
    }
    let ahead = input.fork();
    let parsed = match spec.form {
        Form::Text => input.parse().map(Value::Text),
        Form::Number => input.parse().map(Value::Number),
        Form::Decimal => input.parse::<Lit>().and_then(decimal).map(Value::Decimal),
        Form::Path => input.call(Path::parse_mod_style).map(Value::Path),
        Form::Paths => path_list(input).map(Value::Paths),
        _ => return input.parse().map(Value::Expr).map_err(|error| with_example(error, spec)),
    };
    parsed.or_else(|_| {
        let wrong = until_comma(&ahead)?;
        Err(written(spec, or_name(wrong, name)))
    })
}

fn decimal(literal: Lit) -> syn::Result<Lit> {
    match literal {
        Lit::Int(_) | Lit::Float(_) => Ok(literal),
        other => Err(syn::Error::new_spanned(other, "expected a number")),
    }
}

/// `[search, orders::find]`
fn path_list(input: ParseStream<'_>) -> syn::Result<Vec<Path>> {
    let group = input.parse::<Group>()?;
    if group.delimiter() != Delimiter::Bracket {
        return Err(syn::Error::new(group.span(), "expected `[`"));
    }
    let paths =
        |input: ParseStream<'_>| Punctuated::<_, Token![,]>::parse_terminated_with(input, Path::parse_mod_style);
    Ok(paths.parse2(group.stream())?.into_iter().collect())
}

/// The literal without its suffix, if it is in the range of `u32`.
pub(crate) fn small(number: LitInt, errors: &mut Errors) -> Option<LitInt> {
    match number.base10_parse::<u32>() {
        Ok(_) => Some(LitInt::new(number.base10_digits(), number.span())),
        Err(_) => {
            errors.at(number, "this number is not in the range from 0 to 4294967295; write one that is");
            None
        }
    }
}

/// `read, "billing:write"`
fn name_list(input: ParseStream<'_>) -> syn::Result<Vec<LitStr>> {
    let one = |input: ParseStream<'_>| {
        if input.peek(LitStr) {
            return input.parse::<LitStr>();
        }
        match input.call(Ident::parse_any) {
            Ok(name) => Ok(LitStr::new(&name.unraw().to_string(), name.span())),
            Err(_) => Err(input.error("a scope is a word or a text, as in `scopes(read, \"billing:write\")`")),
        }
    };
    let all = Punctuated::<_, Token![,]>::parse_terminated_with(input, one)?;
    Ok(all.into_iter().collect())
}

fn or_name(tokens: TokenStream, name: &Ident) -> TokenStream {
    if tokens.is_empty() { name.to_token_stream() } else { tokens }
}

fn written(spec: &OptionSpec, at: impl ToTokens) -> syn::Error {
    syn::Error::new_spanned(at, format!("`{}` is not written like this; write `{}`", spec.name, spec.example))
}

fn with_example(error: syn::Error, spec: &OptionSpec) -> syn::Error {
    syn::Error::new(error.span(), format!("{error}; write `{}`", spec.example))
}

fn names(specs: &[OptionSpec]) -> String {
    specs.iter().map(|spec| format!("`{}`", spec.name)).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::{AGENT_FUNCTION, FUNCTION, NODE_LET, OptionSpec, PARAMETER, WORKFLOW_FUNCTION};

    fn rows(table: &[OptionSpec]) -> String {
        let row = |spec: &OptionSpec| {
            format!("| `{}` | {} | {} | {} |\n", spec.example, spec.form.name(), spec.default, spec.meaning)
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
            assert!(documentation.contains(&rows(table)), "agentflow/src/docs/{file} should have\n{}", rows(table));
        }
    }
}

//! Parses the options of `#[agent(..)]` and reports invalid options.

use proc_macro2::{Ident, TokenStream};
use syn::{Lit, LitFloat, LitInt, LitStr, Path};

use crate::errors::Errors;
use crate::options::{self, Value, small};

/// The options of the attribute. An invalid option is reported and ignored.
#[derive(Default)]
pub(super) struct AgentOptions {
    pub(super) model: Option<LitStr>,
    pub(super) description: Option<LitStr>,
    pub(super) tools: Vec<Path>,
    pub(super) temperature: Option<LitFloat>,
    pub(super) max_tokens: Option<LitInt>,
    /// A variant of the library's `PromptCache`.
    pub(super) prompt_cache: Option<Ident>,
    pub(super) max_steps: Option<LitInt>,
    pub(super) output_retries: Option<LitInt>,
    pub(super) output_key: Option<Path>,
    pub(super) name: Option<LitStr>,
    krate: Option<Path>,
}

impl AgentOptions {
    pub(super) fn krate(&self) -> Path {
        self.krate.clone().unwrap_or_else(|| syn::parse_quote!(::agentflow))
    }
}

pub(super) fn options(tokens: TokenStream, errors: &mut Errors) -> AgentOptions {
    let mut options = AgentOptions::default();
    for given in options::parse(tokens, &options::AGENT, errors) {
        let name = given.name.to_string();
        match (name.as_str(), given.value) {
            ("model", Value::Text(text)) => options.model = model_name(text, errors),
            ("description", Value::Text(text)) => options.description = Some(text),
            ("tools", Value::Paths(paths)) => options.tools = paths,
            ("temperature", Value::Decimal(number)) => {
                options.temperature = finite(&number, errors);
            }
            ("max_tokens", Value::Number(number)) => {
                options.max_tokens = some(number, "no answer", errors);
            }
            ("prompt_cache", Value::Text(text)) => {
                options.prompt_cache = prompt_cache(&text, errors);
            }
            ("max_steps", Value::Number(number)) => {
                options.max_steps = some(number, "no model call", errors);
            }
            ("output_retries", Value::Number(number)) => {
                options.output_retries = small(number, errors);
            }
            ("output_key", Value::Path(path)) => options.output_key = Some(path),
            ("name", Value::Text(text)) => options.name = Some(text),
            ("crate", Value::Path(path)) => options.krate = Some(path),
            // Unreachable if this list matches the table in `options`.
            _ => errors.at(&given.name, format!("`{name}` cannot be written like this")),
        }
    }
    options
}

/// Checks that a model name is not empty, has no surrounding spaces, and has text on both sides of
/// its separator (`openai/gpt-5-mini`). A name without a provider, such as `gpt-5-mini`, is checked
/// by a constant in the generated code, because only the library knows the model names.
fn model_name(text: LitStr, errors: &mut Errors) -> Option<LitStr> {
    let name = text.value();
    let halves = name.split_once(['/', ':']);
    let problem = match (name.trim(), halves) {
        ("", _) => {
            "the model has no name; write `model = \"openai/gpt-5-mini\"`, or remove the option to use the runtime's model"
        }
        (trimmed, _) if trimmed != name => {
            "there is a space before or after the model's name; remove it"
        }
        (_, Some(("", _))) => {
            "the provider is missing before the model's name, as in `model = \"openai/gpt-5-mini\"`"
        }
        (_, Some((_, ""))) => {
            "the model's name is missing after its provider, as in `model = \"openai/gpt-5-mini\"`"
        }
        _ => return Some(text),
    };
    errors.at(text, problem);
    None
}

fn prompt_cache(text: &LitStr, errors: &mut Errors) -> Option<Ident> {
    let variant = match &*text.value() {
        "5m" => "FiveMinutes",
        "1h" => "OneHour",
        _ => {
            errors.at(
                text,
                "a prompt is kept for five minutes or for an hour; write `prompt_cache = \"5m\"` or `\"1h\"`",
            );
            return None;
        }
    };
    Some(Ident::new(variant, text.span()))
}

/// Returns the number, or reports an error if it is zero. `nothing` completes the message "zero
/// allows ..".
fn some(number: LitInt, nothing: &str, errors: &mut Errors) -> Option<LitInt> {
    let number = small(number, errors)?;
    if number.base10_digits() == "0" {
        errors.at(&number, format!("zero allows {nothing}; write 1 or more, or remove the option"));
        return None;
    }
    Some(number)
}

fn finite(number: &Lit, errors: &mut Errors) -> Option<LitFloat> {
    let (digits, span) = match number {
        Lit::Int(number) => (number.base10_digits().to_owned(), number.span()),
        Lit::Float(number) => (number.base10_digits().to_owned(), number.span()),
        _ => return None,
    };
    match digits.parse::<f64>() {
        Ok(value) if value.is_finite() && value >= 0.0 => {
            Some(LitFloat::new(&format!("{value:?}"), span))
        }
        _ => {
            errors.at(
                number,
                "a temperature is a number that is not negative, as in `temperature = 0.2`",
            );
            None
        }
    }
}

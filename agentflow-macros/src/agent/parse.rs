//! Reads the options.

use proc_macro2::TokenStream;
use syn::{Lit, LitFloat, LitInt, LitStr, Path};

use crate::errors::Errors;
use crate::options::{self, Value, small};

/// The options on the function; a wrong one is left out and told.
#[derive(Default)]
pub(super) struct Options {
    pub(super) model: Option<LitStr>,
    pub(super) tools: Vec<Path>,
    pub(super) temperature: Option<LitFloat>,
    pub(super) max_tokens: Option<LitInt>,
    pub(super) max_steps: Option<LitInt>,
    pub(super) output_retries: Option<LitInt>,
    pub(super) name: Option<LitStr>,
    krate: Option<Path>,
}

impl Options {
    pub(super) fn krate(&self) -> Path {
        self.krate.clone().unwrap_or_else(|| syn::parse_quote!(::agentflow))
    }
}

pub(super) fn options(tokens: TokenStream, errors: &mut Errors) -> Options {
    let mut options = Options::default();
    for given in options::parse(tokens, &options::AGENT, errors) {
        let name = given.name.to_string();
        match (name.as_str(), given.value) {
            ("model", Value::Text(text)) => options.model = model_name(text, errors),
            ("tools", Value::Paths(paths)) => options.tools = paths,
            ("temperature", Value::Decimal(number)) => options.temperature = finite(&number, errors),
            ("max_tokens", Value::Number(number)) => options.max_tokens = some(number, "no answer", errors),
            ("max_steps", Value::Number(number)) => options.max_steps = some(number, "no model call", errors),
            ("output_retries", Value::Number(number)) => options.output_retries = small(number, errors),
            ("name", Value::Text(text)) => options.name = Some(text),
            ("crate", Value::Path(path)) => options.krate = Some(path),
            // Only a table that says one thing and a list that says another would come here.
            _ => errors.at(&given.name, format!("`{name}` cannot be given like this")),
        }
    }
    options
}

/// A name with its provider. Whether a name alone is known is asked of the library, by a constant of the expansion.
fn model_name(text: LitStr, errors: &mut Errors) -> Option<LitStr> {
    let name = text.value();
    let halves = name.split_once(['/', ':']);
    let problem = match (name.trim(), halves) {
        ("", _) => {
            "a model needs a name, as in `model = \"openai/gpt-5-mini\"`; leave the option out for the runtime's"
        }
        (trimmed, _) if trimmed != name => "there is a space before or behind the model's name; take it away",
        (_, Some(("", _))) => "the provider is missing before the model's name, as in `model = \"openai/gpt-5-mini\"`",
        (_, Some((_, ""))) => "the model's name is missing behind its provider, as in `model = \"openai/gpt-5-mini\"`",
        _ => return Some(text),
    };
    errors.at(text, problem);
    None
}

/// A number that leaves something to be done.
fn some(number: LitInt, nothing: &str, errors: &mut Errors) -> Option<LitInt> {
    let number = small(number, errors)?;
    if number.base10_digits() == "0" {
        errors.at(&number, format!("zero leaves {nothing}; write a larger number, or leave the option out"));
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
        Ok(value) if value.is_finite() && value >= 0.0 => Some(LitFloat::new(&format!("{value:?}"), span)),
        _ => {
            errors.at(number, "a temperature is a number from 0 up, as in `temperature = 0.2`");
            None
        }
    }
}

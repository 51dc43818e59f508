//! Parses the options of `#[tool(..)]` on a function and its parameters, and reports invalid
//! options.

use proc_macro2::{Ident, Span, TokenStream};
use syn::{Attribute, LitInt, LitStr, Path};

use crate::duration;
use crate::errors::{Errors, nearest};
use crate::options::{self, Value, small};
use crate::unanswered::TimeoutAction;

/// The options on the function. A wrong option is reported and ignored.
#[derive(Default)]
pub(super) struct ToolOptions {
    pub(super) name: Option<LitStr>,
    pub(super) description: Option<LitStr>,
    /// Milliseconds, with the span of the option for errors.
    pub(super) timeout: Option<(u64, Span)>,
    pub(super) retry: Option<LitInt>,
    pub(super) idempotent: bool,
    /// A variant of `Effects`.
    pub(super) effects: Option<Ident>,
    pub(super) approve: bool,
    /// Milliseconds, with the span of the option for errors.
    pub(super) approve_timeout: Option<(u64, Span)>,
    pub(super) on_timeout: Option<(Ident, TimeoutAction)>,
    pub(super) scopes: Vec<LitStr>,
    pub(super) blocking: Option<Span>,
    pub(super) max_output: Option<LitInt>,
    pub(super) concurrency: Option<LitInt>,
    pub(super) compensate: Option<Path>,
    pub(super) streaming: bool,
    krate: Option<Path>,
}

impl ToolOptions {
    pub(super) fn krate(&self) -> Path {
        self.krate.clone().unwrap_or_else(|| syn::parse_quote!(::agentflow))
    }
}

const EFFECTS: [(&str, &str); 3] = [("none", "None"), ("read", "Read"), ("write", "Write")];

pub(super) fn options(tokens: TokenStream, errors: &mut Errors) -> ToolOptions {
    let mut options = ToolOptions::default();
    for given in options::parse(tokens, &options::TOOL, errors) {
        let name = given.name.to_string();
        match (name.as_str(), given.value) {
            ("name", Value::Text(text)) => options.name = Some(text),
            ("description", Value::Text(text)) => options.description = Some(text),
            ("timeout", Value::Text(text)) => match duration::milliseconds(&text.value()) {
                Ok(milliseconds) => options.timeout = Some((milliseconds, given.name.span())),
                Err(message) => errors.at(text, message),
            },
            ("approve_timeout", Value::Text(text)) => match duration::milliseconds(&text.value()) {
                Ok(milliseconds) => {
                    options.approve_timeout = Some((milliseconds, given.name.span()));
                }
                Err(message) => errors.at(text, message),
            },
            ("on_timeout", Value::Expr(expr)) => {
                options.on_timeout =
                    TimeoutAction::read(&expr, errors).map(|read| (given.name, read));
            }
            ("effects", Value::Text(text)) => options.effects = effects(&text, errors),
            ("retry", Value::Number(number)) => options.retry = small(number, errors),
            ("max_output", Value::Number(number)) => options.max_output = small(number, errors),
            ("concurrency", Value::Number(number)) => {
                options.concurrency = at_least_one(number, errors);
            }
            ("idempotent", _) => options.idempotent = true,
            ("approve", _) => options.approve = true,
            ("streaming", _) => options.streaming = true,
            ("blocking", _) => options.blocking = Some(given.name.span()),
            ("scopes", Value::Names(scopes)) => options.scopes = distinct(scopes, errors),
            ("compensate", Value::Path(path)) => options.compensate = not_generic(path, errors),
            ("crate", Value::Path(path)) => options.krate = Some(path),
            // Unreachable if this list matches the table in `options`.
            _ => errors.at(&given.name, format!("`{name}` cannot be written like this")),
        }
    }
    options
}

fn at_least_one(number: LitInt, errors: &mut Errors) -> Option<LitInt> {
    let number = small(number, errors)?;
    if matches!(number.base10_parse(), Ok(0_u32)) {
        errors.at(
            &number,
            "a tool that may be called 0 times at once can never be called; give at least 1",
        );
        return None;
    }
    Some(number)
}

fn effects(text: &LitStr, errors: &mut Errors) -> Option<Ident> {
    let wrong = text.value();
    let found = EFFECTS.iter().find(|(name, _)| *name == wrong);
    if found.is_none() {
        let hint = nearest(&wrong, EFFECTS.iter().map(|(name, _)| *name))
            .map_or(String::new(), |near| format!("; did you mean \"{near}\"?"));
        errors.at(text, format!("effects are \"none\", \"read\" or \"write\"{hint}"));
    }
    found.map(|(_, variant)| Ident::new(variant, Span::call_site()))
}

fn not_generic(path: Path, errors: &mut Errors) -> Option<Path> {
    match path.segments.iter().find(|segment| !segment.arguments.is_none()) {
        Some(segment) => {
            errors.at(&segment.arguments, "a tool is not generic; write the function's path alone");
            None
        }
        None => Some(path),
    }
}

fn distinct(scopes: Vec<LitStr>, errors: &mut Errors) -> Vec<LitStr> {
    for (index, scope) in scopes.iter().enumerate() {
        if scope.value().is_empty() {
            errors.at(scope, "a scope cannot be empty; write its name or remove it");
        } else if scopes[..index].iter().any(|other| other.value() == scope.value()) {
            errors.at(scope, format!("the scope `{}` is given twice; remove one", scope.value()));
        }
    }
    scopes
}

/// The options on a parameter.
pub(super) struct ParamOptions {
    pub(super) rename: Option<LitStr>,
    pub(super) default: Option<ParamDefault>,
}

pub(super) enum ParamDefault {
    OfType(Span),
    Expr(Box<syn::Expr>),
}

pub(super) fn param_options(attr: &Attribute, into: &mut ParamOptions, errors: &mut Errors) {
    let tokens = match &attr.meta {
        syn::Meta::List(list) => list.tokens.clone(),
        other => {
            errors.at(
                other,
                "`#[tool]` on a parameter needs an option; write `#[tool(default = 10)]` or `#[tool(rename = \"type\")]`",
            );
            return;
        }
    };
    for given in options::parse(tokens, &options::TOOL_PARAMETER, errors) {
        let name = given.name.to_string();
        // A parameter may have several `#[tool(..)]`, so duplicates are checked across all of them.
        let twice = match name.as_str() {
            "rename" => into.rename.is_some(),
            _ => into.default.is_some(),
        };
        if twice {
            errors.at(&given.name, format!("`{name}` is given twice; remove one"));
        }
        match given.value {
            Value::Text(text) => into.rename = Some(text),
            Value::Expr(expr) => into.default = Some(ParamDefault::Expr(expr)),
            _ => into.default = Some(ParamDefault::OfType(given.name.span())),
        }
    }
}

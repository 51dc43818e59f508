//! Parses the options of the attributes.
//!
//! One table of each attribute (`option_tables.rs`) drives the parser, the errors and the
//! documentation. The result is a list of [`GivenOption`]s, whose values each attribute interprets
//! in its own `parse` module. The parser continues after each comma, so that a mistake in one
//! option does not hide a mistake in the next. `other_names.rs` suggests the right option for a
//! name that other libraries use.

mod option_tables;
mod other_names;

use proc_macro2::{Delimiter, Group, Ident, TokenStream, TokenTree};
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{Expr, Lit, LitInt, LitStr, Path, Token};

pub(crate) use self::option_tables::{AGENT, NODE, TOOL, TOOL_PARAMETER, WORKFLOW};
use self::option_tables::{Form, OptionSpec, OptionTable};
use self::other_names::{OptionHint, meant};
use crate::errors::{Errors, nearest};

/// An option with its parsed value.
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

/// Returns the well-formed options. All mistakes are added to `errors`.
pub(crate) fn parse(
    tokens: TokenStream,
    table: &OptionTable,
    errors: &mut Errors,
) -> Vec<GivenOption> {
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
            // Skips the rest of a wrong option, so that the next option is parsed.
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

fn option(
    input: ParseStream<'_>,
    table: &OptionTable,
    errors: &mut Errors,
) -> syn::Result<Option<GivenOption>> {
    let Ok(name) = input.call(Ident::parse_any) else {
        let wrong = until_comma(input)?;
        let message = format!("expected an option: one of {}", names(table.specs));
        // Nothing is between two commas, so the error is reported at the comma.
        return Err(match wrong.is_empty() {
            true => input.error(message),
            false => syn::Error::new_spanned(wrong, message),
        });
    };
    let Some(spec) = table.specs.iter().find(|spec| name == spec.name) else {
        let given = name.to_string();
        let near = nearest(&given, table.specs.iter().map(|spec| spec.name));
        // A known word of another library is a better hint than a similar name: `max_turns` does
        // not mean `max_tokens`.
        let hint = match (meant(&given, table), near) {
            (Some(OptionHint::Elsewhere(remedy)), _) => remedy.to_owned(),
            (Some(OptionHint::Option(spec)), _) if spec.example == spec.name => {
                format!("did you mean `{}`?", spec.name)
            }
            (Some(OptionHint::Option(spec)), _) => {
                format!("did you mean `{}`, as in `{}`?", spec.name, spec.example)
            }
            (None, Some(near)) => format!("did you mean `{near}`?"),
            (None, None) => format!("the options are {}", names(table.specs)),
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
    // A wrong value is read again from here, so that all of it is underlined.
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

/// Parses `[search, orders::find]`.
fn path_list(input: ParseStream<'_>) -> syn::Result<Vec<Path>> {
    let group = input.parse::<Group>()?;
    if group.delimiter() != Delimiter::Bracket {
        return Err(syn::Error::new(group.span(), "expected `[`"));
    }
    let paths = |input: ParseStream<'_>| {
        Punctuated::<_, Token![,]>::parse_terminated_with(input, Path::parse_mod_style)
    };
    Ok(paths.parse2(group.stream())?.into_iter().collect())
}

/// Returns the literal without its suffix if it fits into `u32`.
pub(crate) fn small(number: LitInt, errors: &mut Errors) -> Option<LitInt> {
    match number.base10_parse::<u32>() {
        Ok(_) => Some(LitInt::new(number.base10_digits(), number.span())),
        Err(_) => {
            errors.at(
                number,
                "this number is outside the range from 0 to 4294967295; write a number within it",
            );
            None
        }
    }
}

/// Parses `read, "billing:write"`.
fn name_list(input: ParseStream<'_>) -> syn::Result<Vec<LitStr>> {
    let one =
        |input: ParseStream<'_>| {
            if input.peek(LitStr) {
                return input.parse::<LitStr>();
            }
            match input.call(Ident::parse_any) {
                Ok(name) => Ok(LitStr::new(&name.unraw().to_string(), name.span())),
                Err(_) => Err(input
                    .error("a scope is a word or a text, as in `scopes(read, \"billing:write\")`")),
            }
        };
    let all = Punctuated::<_, Token![,]>::parse_terminated_with(input, one)?;
    Ok(all.into_iter().collect())
}

fn or_name(tokens: TokenStream, name: &Ident) -> TokenStream {
    if tokens.is_empty() { name.to_token_stream() } else { tokens }
}

fn written(spec: &OptionSpec, at: impl ToTokens) -> syn::Error {
    syn::Error::new_spanned(
        at,
        format!("`{}` is not written like this; write `{}`", spec.name, spec.example),
    )
}

fn with_example(error: syn::Error, spec: &OptionSpec) -> syn::Error {
    syn::Error::new(error.span(), format!("{error}; write `{}`", spec.example))
}

fn names(specs: &[OptionSpec]) -> String {
    specs.iter().map(|spec| format!("`{}`", spec.name)).collect::<Vec<_>>().join(", ")
}

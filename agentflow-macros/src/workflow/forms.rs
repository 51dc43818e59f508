//! Reads the arguments of the forms `gate!`, `race!`, `fallback!`, `map!`, `repeat!` and `timeout!`. The forms are never
//! expanded as macros: `#[workflow]` reads them before the compiler does.

use proc_macro2::{Ident, Span, TokenStream};
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, ExprClosure, LitStr, Macro, ReturnType, Token, Type};

use super::attrs;
use super::model::{Branch, Lambda, Policy, Work};
use super::syntax::{awaits, called, form, plain};
use crate::errors::{Errors, nearest};
use crate::patterns::as_name;

/// The node that the form is; `None` when `errors` holds its mistakes.
pub(super) fn read(name: &str, mac: &Macro, policy: &mut Policy, errors: &mut Errors) -> Option<Work> {
    let before = errors.len();
    let at = &mac.path;
    let work = match name {
        "gate" => gate(mac, errors),
        "race" => branches(mac, errors).map(Work::Race),
        "fallback" => branches(mac, errors).map(Work::Fallback),
        "map" => map(mac, errors),
        "repeat" => repeat(mac, errors),
        _ => timeout(mac, policy, errors),
    };
    if work.is_none() && errors.len() == before {
        errors.at(at, usage(name));
    }
    work
}

fn usage(name: &str) -> &'static str {
    match name {
        "gate" => "`gate!` takes a question and a value, as in `gate!(\"merge this?\", risk).await?`",
        "race" => "`race!` takes branches, as in `race!(fast(x), good(y)).await?`",
        "fallback" => "`fallback!` takes branches, as in `fallback!(first(x), second(y)).await?`",
        "map" => "`map!` takes a list and a step, as in `map!(files, |file| check(file)).await?`",
        "repeat" => {
            "`repeat!` takes a first value, a step and a limit, as in \
             `repeat!(draft, |text| improve(text), until = |text| text.good, max = 5).await?`"
        }
        _ => "`timeout!` takes a duration and a step, as in `timeout!(\"30s\", fetch(url)).await?`",
    }
}

/// The arguments in their order, and those with a name.
struct Arguments {
    places: Vec<Expr>,
    named: Vec<(Ident, TokenStream)>,
}

fn arguments(name: &str, mac: &Macro, known: &[&str], errors: &mut Errors) -> Option<Arguments> {
    let read = |input: ParseStream<'_>| {
        let mut arguments = Arguments { places: Vec::new(), named: Vec::new() };
        while !input.is_empty() {
            if input.peek(Ident::peek_any) && input.peek2(Token![=]) && !input.peek2(Token![==]) {
                let name = input.call(Ident::parse_any)?;
                input.parse::<Token![=]>()?;
                // A type and an expression both end at the comma.
                let value = match name == "answer" {
                    true => input.parse::<Type>()?.into_token_stream(),
                    false => input.parse::<Expr>()?.into_token_stream(),
                };
                arguments.named.push((name, value));
            } else {
                arguments.places.push(input.parse()?);
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(arguments)
    };
    let arguments = match read.parse2(mac.tokens.clone()) {
        Ok(arguments) => arguments,
        Err(error) => {
            let at_end = mac.tokens.is_empty();
            errors.push(match at_end {
                true => syn::Error::new_spanned(&mac.path, usage(name)),
                false => syn::Error::new(error.span(), format!("{error}; {}", usage(name))),
            });
            return None;
        }
    };
    let mut fine = true;
    for place in &arguments.places {
        for attr in before(place) {
            errors.at(attr, format!("attributes within `{name}!` have no meaning; move this before the statement"));
            fine = false;
        }
    }
    for (at, (given, _)) in arguments.named.iter().enumerate() {
        if !known.iter().any(|known| given == known) {
            let hint = match (nearest(&given.to_string(), known.iter().copied()), known) {
                (Some(near), _) => format!("; did you mean `{near}`?"),
                (None, []) => String::new(),
                (None, known) => format!("; the options are `{}`", known.join("` and `")),
            };
            errors.at(given, format!("`{name}!` has no option `{given}`{hint}"));
            fine = false;
        } else if arguments.named[..at].iter().any(|(other, _)| other == given) {
            errors.at(given, format!("`{given}` is given twice; remove one"));
            fine = false;
        }
    }
    fine.then_some(arguments)
}

/// The attributes before an argument, or before the body of a closure.
fn before(argument: &Expr) -> Vec<Attribute> {
    let mut argument = argument.clone();
    let mut attrs = attrs::off(&mut argument);
    if let Expr::Closure(closure) = &mut argument {
        attrs.extend(attrs::off(&mut closure.body));
    }
    attrs
}

impl Arguments {
    fn named<T: syn::parse::Parse>(&self, name: &str) -> Option<T> {
        let (_, tokens) = self.named.iter().find(|(given, _)| given == name)?;
        syn::parse2(tokens.clone()).ok()
    }
}

fn gate(mac: &Macro, errors: &mut Errors) -> Option<Work> {
    let arguments = arguments("gate", mac, &["answer"], errors)?;
    let answer = arguments.named("answer");
    let mut places = arguments.places.into_iter();
    let (question, payload) = (places.next()?, places.next());
    if let Some(more) = places.next() {
        errors.at(more, "`gate!` takes one question and one value; put several values into a tuple or a struct");
        return None;
    }
    for expr in [Some(&question), payload.as_ref()].into_iter().flatten() {
        refuse_await(expr, "`gate!` cannot await its arguments; bind this step to a `let` before it", errors);
    }
    Some(Work::Gate { question, payload, answer })
}

fn branches(mac: &Macro, errors: &mut Errors) -> Option<Vec<Branch>> {
    let name = form(mac)?;
    let arguments = arguments(&name, mac, &[], errors)?;
    if arguments.places.is_empty() {
        return None;
    }
    Some(arguments.places.into_iter().map(|step| branch(step, errors)).collect())
}

/// A future that becomes a branch, named after what it calls.
pub(super) fn branch(step: Expr, errors: &mut Errors) -> Branch {
    refuse_await_of_form(&step, errors);
    Branch { name: as_name(&called(&step)), step, awaited: false }
}

fn map(mac: &Macro, errors: &mut Errors) -> Option<Work> {
    let arguments = arguments("map", mac, &[], errors)?;
    let mut places = arguments.places.into_iter();
    let items = places.next()?;
    let step = lambda(places.next(), "map", &mac.path, errors)?;
    if let Some(more) = places.next() {
        errors
            .at(more, "`map!` takes one step; other values are read in its closure, as in `|file| check(file, rules)`");
        return None;
    }
    refuse_await(&items, "`map!` cannot await its list; bind this step to a `let` before it", errors);
    Some(Work::Map { items, step })
}

fn repeat(mac: &Macro, errors: &mut Errors) -> Option<Work> {
    let arguments = arguments("repeat", mac, &["until", "max"], errors)?;
    let (until, max) = (arguments.named::<Expr>("until"), arguments.named::<Expr>("max"));
    let mut places = arguments.places.into_iter();
    let first = places.next()?;
    let step = lambda(places.next(), "repeat", &mac.path, errors)?;
    if let Some(more) = places.next() {
        errors.at(more, usage("repeat"));
        return None;
    }
    refuse_await(&first, "`repeat!` cannot await its first value; bind this step to a `let` before it", errors);
    if let Some(until) = &until
        && !matches!(until, Expr::Closure(closure) if closure.inputs.len() == 1)
        && !matches!(until, Expr::Path(_))
    {
        errors.at(until, "`until` is a closure over the output of a round, as in `until = |text| text.good`");
        return None;
    }
    let Some(max) = max else {
        errors.at(&mac.path, "`repeat!` needs a limit, so that it always ends; add `max = 5`");
        return None;
    };
    Some(Work::Repeat { first, step, until, max })
}

fn timeout(mac: &Macro, policy: &mut Policy, errors: &mut Errors) -> Option<Work> {
    let arguments = arguments("timeout", mac, &[], errors)?;
    let mut places = arguments.places.into_iter();
    let limit = places.next()?;
    let limit: LitStr = match syn::parse2(limit.to_token_stream()) {
        Ok(limit) => limit,
        Err(_) => {
            errors.at(limit, "the time limit is a string, as in `timeout!(\"30s\", fetch(url))`");
            return None;
        }
    };
    if policy.timeout_ms.is_some() {
        errors.at(&limit, "this node has a second time limit in `#[node(timeout = ..)]`; remove one");
    }
    policy.timeout_ms = attrs::milliseconds(&limit, errors);
    let step = places.next()?;
    if let Some(more) = places.next() {
        errors.at(more, "`timeout!` takes one step; bind the others to `let`s of their own");
        return None;
    }
    if let Expr::Macro(inner) = plain(&step)
        && let Some(name) = form(&inner.mac)
    {
        return read(&name, &inner.mac, policy, errors);
    }
    refuse_await_of_form(&step, errors);
    Some(Work::Future(step))
}

fn lambda(expr: Option<Expr>, form: &str, at: &syn::Path, errors: &mut Errors) -> Option<Lambda> {
    match expr {
        Some(Expr::Closure(ExprClosure { inputs, body, asyncness, output, .. })) if inputs.len() == 1 => {
            if let Some(token) = asyncness {
                errors.at(token, "the form awaits this step; remove `async`");
            }
            if let ReturnType::Type(_, ty) = output {
                errors.at(ty, "a step's closure has no return type; remove it, or give the `let` a type");
            }
            refuse_await_of_form(&body, errors);
            let pat = Punctuated::into_iter(inputs).next()?;
            Some(Lambda { pat, step: *body })
        }
        Some(other) => {
            let what = if form == "map" { "each item" } else { "the last value" };
            errors.at(other, format!("the step is a closure that takes {what}, as in `|x| step(x)`"));
            None
        }
        None => {
            errors.at(at, usage(form));
            None
        }
    }
}

fn refuse_await(expr: &Expr, message: &str, errors: &mut Errors) {
    if let Some(span) = awaits(expr) {
        errors.at_span(span, message);
    }
}

/// The forms await their steps, so `.await` and `?` on a step are mistakes.
fn refuse_await_of_form(step: &Expr, errors: &mut Errors) {
    let inner = match plain(step) {
        Expr::Try(tried) => plain(&tried.expr),
        other => other,
    };
    let span: Option<Span> = match (inner, plain(step)) {
        (Expr::Await(awaited), _) => Some(awaited.await_token.span),
        (_, Expr::Try(tried)) => Some(tried.question_token.spans[0]),
        _ => None,
    };
    if let Some(span) = span {
        errors.at_span(span, "the form awaits this step; move `.await?` from here to after the form");
    }
}

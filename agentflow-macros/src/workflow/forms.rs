//! Parses the arguments of the forms `gate!`, `race!`, `fallback!`, `map!`, `repeat!` and
//! `timeout!`. They are not macros: `#[workflow]` replaces them before the compiler expands macros.

use proc_macro2::{Ident, Span, TokenStream};
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, ExprClosure, LitStr, Macro, ReturnType, Token, Type};

use syn::spanned::Spanned;

use super::body::{Reader, Value};
use super::model::{Branch, BranchBody, Lambda, LambdaBody, Policy, Work};
use super::names::NodeNames;
use super::syntax::{awaits, block_awaits, called, calls, form, plain};
use super::{attrs, refuse};
use crate::errors::{Errors, nearest};
use crate::patterns::{as_name, names};

/// Reads a form as a node. Returns `None` after adding its mistakes to `errors`.
pub(super) fn read(
    reader: &mut Reader<'_>,
    name: &str,
    mac: &Macro,
    policy: &mut Policy,
) -> Option<Work> {
    let before = reader.errors.len();
    let work = match name {
        "gate" => gate(mac, reader.errors),
        "race" => branches(reader, mac).map(Work::Race),
        "fallback" => branches(reader, mac).map(Work::Fallback),
        "map" => map(reader, mac),
        "repeat" => repeat(reader, mac),
        _ => timeout(reader, mac, policy),
    };
    // The form is wrong, but no specific error was added.
    if work.is_none() && reader.errors.len() == before {
        reader.errors.at(&mac.path, usage(name));
    }
    work
}

/// Returns the path or method that a form's step calls, as written.
pub(super) fn calls_of(work: &Work) -> String {
    match work {
        Work::Map { step: Lambda { step: LambdaBody::Future(step), .. }, .. }
        | Work::Repeat { step: Lambda { step: LambdaBody::Future(step), .. }, .. }
        | Work::Future(step) => calls(step),
        _ => String::new(),
    }
}

fn usage(name: &str) -> &'static str {
    match name {
        "gate" => {
            "`gate!` takes a question and a value, as in `gate!(\"merge this?\", risk).await?`"
        }
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

/// Positional and named arguments.
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
            errors.at(
                attr,
                format!(
                    "attributes within `{name}!` have no meaning; move this before the statement"
                ),
            );
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

/// Returns the attributes before an argument, or before the body of a closure.
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
        errors.at(
            more,
            "`gate!` takes one question and one value; put several values into a tuple or a struct",
        );
        return None;
    }
    for expr in [Some(&question), payload.as_ref()].into_iter().flatten() {
        refuse_await(
            expr,
            "`gate!` cannot await its arguments; bind this step to a `let` before it",
            errors,
        );
    }
    Some(Work::Gate { question, payload, answer })
}

fn branches(reader: &mut Reader<'_>, mac: &Macro) -> Option<Vec<Branch>> {
    let name = form(mac)?;
    let arguments = arguments(&name, mac, &[], reader.errors)?;
    if arguments.places.is_empty() {
        return None;
    }
    if let [Expr::MethodCall(_) | Expr::Path(_)] = &arguments.places[..] {
        // A single argument of this kind may be a list of branches.
        reader.errors.at(
            &arguments.places[0],
            format!(
                "`{name}!` takes each branch by itself, as in `{name}!(fast(x), good(y))`; for a list of futures, call a \
                 function such as `futures_util::future::select_ok` in a step"
            ),
        );
        return None;
    }
    Some(arguments.places.into_iter().map(|step| branch(reader, step)).collect())
}

/// Reads a branch of a form. It is a future and named after the function that it calls, or a block
/// of several steps.
pub(super) fn branch(reader: &mut Reader<'_>, step: Expr) -> Branch {
    let span = step.span();
    if let Some(block) = block_of_steps(&step) {
        let body = body(reader, block, &[]);
        let name = match &body.tail.name {
            name if name == "yield" => "block".to_owned(),
            name => name.clone(),
        };
        return Branch { name, span, step: BranchBody::Seq(body) };
    }
    refuse_await_of_form(&step, reader.errors);
    refuse_form(&step, reader.errors);
    Branch { name: as_name(&called(&step)), span, step: BranchBody::Future(step) }
}

/// Returns the block if an expression is a block with steps.
fn block_of_steps(step: &Expr) -> Option<syn::Block> {
    match plain(step) {
        Expr::Block(block) if block.label.is_none() && block_awaits(&block.block).is_some() => {
            Some(block.block.clone())
        }
        _ => None,
    }
}

/// Reads the body of a form whose steps are nodes. The body sees the names in scope and the names
/// in `binds`.
fn body(reader: &mut Reader<'_>, block: syn::Block, binds: &[Ident]) -> super::model::Seq {
    refuse::return_in_a_form(&block, reader.errors);
    let (around, borrowed) = (reader.scope.clone(), reader.borrowed.clone());
    // The body can read outer nodes, but `#[after(..)]` in it cannot refer to them.
    reader.scope.iter_mut().for_each(|(_, node)| *node = false);
    reader.scope.extend(binds.iter().map(|ident| (ident.unraw().to_string(), false)));
    let end = block.brace_token.span.close();
    let seq = reader.seq(block.stmts, end, Value::OfForm, NodeNames::default());
    (reader.scope, reader.borrowed) = (around, borrowed);
    seq
}

fn map(reader: &mut Reader<'_>, mac: &Macro) -> Option<Work> {
    let arguments = arguments("map", mac, &[], reader.errors)?;
    let mut places = arguments.places.into_iter();
    let list = places.next()?;
    let step = lambda(reader, places.next(), "map", &mac.path)?;
    if let Some(more) = places.next() {
        reader
            .errors
            .at(more, "`map!` takes one step; other values are read in its closure, as in `|file| check(file, rules)`");
        return None;
    }
    refuse_await(
        &list,
        "`map!` cannot await its list; bind this step to a `let` before it",
        reader.errors,
    );
    Some(Work::Map { items: reader.items(list), step })
}

fn repeat(reader: &mut Reader<'_>, mac: &Macro) -> Option<Work> {
    let arguments = arguments("repeat", mac, &["until", "max"], reader.errors)?;
    let (until, max) = (arguments.named::<Expr>("until"), arguments.named::<Expr>("max"));
    let mut places = arguments.places.into_iter();
    let first = places.next()?;
    let step = lambda(reader, places.next(), "repeat", &mac.path)?;
    let errors = &mut *reader.errors;
    if let Some(more) = places.next() {
        errors.at(more, usage("repeat"));
        return None;
    }
    refuse_await(
        &first,
        "`repeat!` cannot await its first value; bind this step to a `let` before it",
        errors,
    );
    if let Some(until) = &until
        && !matches!(until, Expr::Closure(closure) if closure.inputs.len() == 1)
        && !matches!(until, Expr::Path(_))
    {
        errors.at(
            until,
            "`until` is a closure over the output of a round, as in `until = |text| text.good`",
        );
        return None;
    }
    let Some(max) = max else {
        errors.at(&mac.path, "`repeat!` needs a limit, so that it always ends; add `max = 5`");
        return None;
    };
    if let Expr::Lit(literal) = plain(&max)
        && let syn::Lit::Int(number) = &literal.lit
        && number.base10_parse::<u64>().is_ok_and(|number| number == 0)
    {
        errors.at(&max, "`max = 0` allows no round, so there would be no output; write 1 or more");
        return None;
    }
    Some(Work::Repeat { first, step, until, max })
}

fn timeout(reader: &mut Reader<'_>, mac: &Macro, policy: &mut Policy) -> Option<Work> {
    let arguments = arguments("timeout", mac, &[], reader.errors)?;
    let mut places = arguments.places.into_iter();
    let limit = places.next()?;
    let limit: LitStr = match syn::parse2(limit.to_token_stream()) {
        Ok(limit) => limit,
        Err(_) => {
            reader
                .errors
                .at(limit, "the time limit is a string, as in `timeout!(\"30s\", fetch(url))`");
            return None;
        }
    };
    if policy.timeout_ms.is_some() {
        reader
            .errors
            .at(&limit, "this node has a second time limit in `#[node(timeout = ..)]`; remove one");
    }
    // `timeout!` sets the time limit of the node that it wraps and is not a node itself.
    policy.timeout_ms = attrs::milliseconds(&limit, reader.errors);
    let step = places.next()?;
    if let Some(more) = places.next() {
        reader.errors.at(more, "`timeout!` takes one step; bind the others to `let`s of their own");
        return None;
    }
    if let Expr::Macro(inner) = plain(&step)
        && let Some(name) = form(&inner.mac)
    {
        return read(reader, &name, &inner.mac, policy);
    }
    refuse_await_of_form(&step, reader.errors);
    Some(Work::Future(step))
}

fn lambda(
    reader: &mut Reader<'_>,
    expr: Option<Expr>,
    form: &str,
    at: &syn::Path,
) -> Option<Lambda> {
    match expr {
        Some(Expr::Closure(ExprClosure { inputs, body: step, asyncness, output, .. }))
            if inputs.len() == 1 =>
        {
            if let Some(token) = asyncness {
                reader.errors.at(token, "the form awaits this step; remove `async`");
            }
            if let ReturnType::Type(_, ty) = output {
                reader.errors.at(
                    ty,
                    "a step's closure has no return type; remove it, or give the `let` a type",
                );
            }
            let pat = Punctuated::into_iter(inputs).next()?;
            refuse::mutable(&pat, &mut reader.reported, reader.errors);
            if let Some(block) = block_of_steps(&step) {
                let seq = body(reader, block, &names(&pat));
                return Some(Lambda { pat, step: LambdaBody::Seq(seq) });
            }
            refuse_await_of_form(&step, reader.errors);
            refuse_form(&step, reader.errors);
            Some(Lambda { pat, step: LambdaBody::Future(*step) })
        }
        Some(other) => {
            let what = if form == "map" { "each item" } else { "the last value" };
            reader
                .errors
                .at(other, format!("the step is a closure that takes {what}, as in `|x| step(x)`"));
            None
        }
        None => {
            reader.errors.at(at, usage(form));
            None
        }
    }
}

fn refuse_await(expr: &Expr, message: &str, errors: &mut Errors) {
    if let Some(span) = awaits(expr) {
        errors.at_span(span, message);
    }
}

/// Reports a form that is directly inside another form. It must be a node in a block.
fn refuse_form(step: &Expr, errors: &mut Errors) {
    if let Expr::Macro(inner) = plain(step)
        && let Some(name) = form(&inner.mac)
    {
        let block = format!("{{ let value = {name}!(..).await?; Ok(value) }}");
        errors.at(
            &inner.mac.path,
            format!("a form within another one is a node of a block; write `{block}`"),
        );
    }
}

/// Reports `.await` and `?` on a step of a form, because forms await their steps.
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
        errors
            .at_span(span, "the form awaits this step; move `.await?` from here to after the form");
    }
}

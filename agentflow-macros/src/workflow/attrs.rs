//! Parses the options of `#[workflow(..)]`, and the attributes of statements: `#[node(..)]`,
//! `#[after(..)]` and lint levels. Unknown attributes are kept for the compiler; none is dropped.

use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::ToTokens;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{AttrStyle, Attribute, Expr, ExprCall, Lit, LitInt, LitStr, Meta, Path, Token};

use super::model::{Approve, Policy};
use crate::duration;
use crate::errors::{Errors, nearest};
use crate::function::any_token;
use crate::options::{self, Value, small};
use crate::unanswered::TimeoutAction;

/// The options on the function. A wrong option is reported and ignored.
#[derive(Default)]
pub(super) struct WorkflowOptions {
    pub(super) name: Option<LitStr>,
    pub(super) concurrency: Option<LitInt>,
    pub(super) max_llm_calls: Option<LitInt>,
    pub(super) timeout_ms: Option<u64>,
    pub(super) stop: Option<Ident>,
    pub(super) first: StartApproval,
    pub(super) decider: Option<Path>,
    krate: Option<Path>,
}

/// The question to a person before the workflow starts.
#[derive(Default)]
pub(super) struct StartApproval {
    pub(super) text: Option<LitStr>,
    pub(super) timeout_ms: Option<u64>,
    pub(super) on_timeout: Option<(Ident, TimeoutAction)>,
}

impl WorkflowOptions {
    pub(super) fn krate(&self) -> Path {
        self.krate.clone().unwrap_or_else(|| syn::parse_quote!(::agentflow))
    }
}

pub(super) fn options(tokens: TokenStream, errors: &mut Errors) -> WorkflowOptions {
    let mut options = WorkflowOptions::default();
    let mut limit = None;
    for given in options::parse(tokens, &options::WORKFLOW, errors) {
        let name = given.name.to_string();
        match (name.as_str(), given.value) {
            ("name", Value::Text(text)) if text.value().trim().is_empty() => {
                errors.at(text, "the name of a workflow cannot be empty; write one, or remove the option to use the function's name");
            }
            ("name", Value::Text(text)) => options.name = Some(text),
            ("concurrency", Value::Number(number)) => {
                options.concurrency = some(number, "step", errors);
            }
            ("max_llm_calls", Value::Number(number)) => {
                options.max_llm_calls = some(number, "model call", errors);
            }
            ("timeout", Value::Text(text)) => options.timeout_ms = milliseconds(&text, errors),
            ("stop", Value::Expr(expr)) => {
                let variants = [("fail_fast", "FailFast"), ("best_effort", "BestEffort")];
                options.stop =
                    word(&expr, &variants, "`stop` is `fail_fast` or `best_effort`", errors);
            }
            ("approve", Value::Text(text)) => options.first.text = Some(text),
            ("approve_timeout", Value::Text(text)) => {
                options.first.timeout_ms = milliseconds(&text, errors);
                limit = Some(given.name);
            }
            ("on_timeout", Value::Expr(expr)) => {
                options.first.on_timeout =
                    TimeoutAction::read(&expr, errors).map(|read| (given.name, read));
            }
            ("decider", Value::Path(path)) => options.decider = Some(path),
            ("crate", Value::Path(path)) => options.krate = Some(path),
            // Unreachable if this list matches the table in `options`.
            _ => errors.at(&given.name, format!("`{name}` cannot be written like this")),
        }
    }
    let StartApproval { text, timeout_ms, on_timeout } = &options.first;
    if let (Some(limit), None, None) = (limit, text, on_timeout) {
        errors.at(
            limit,
            "nobody is asked before this workflow; add `approve = \"run it?\"`, or remove `approve_timeout`",
        );
    }
    match on_timeout {
        Some((option, _)) if text.is_none() || timeout_ms.is_none() => {
            errors.at(
                option,
                "no question before this workflow has an end; add `approve = \"run it?\", approve_timeout = \"7d\"`",
            );
        }
        Some((option, TimeoutAction::Answer(_))) => {
            errors.at(
                option,
                "this question is answered with a yes or a no; write `deny` or `approve`",
            );
        }
        _ => {}
    }
    options
}

fn word(expr: &Expr, words: &[(&str, &str)], message: &str, errors: &mut Errors) -> Option<Ident> {
    let wrong = expr.to_token_stream().to_string();
    let found = words.iter().find(|(word, _)| *word == wrong);
    if found.is_none() {
        let hint = nearest(&wrong, words.iter().map(|(word, _)| *word))
            .map_or(String::new(), |near| format!("; did you mean `{near}`?"));
        errors.at(expr, format!("{message}{hint}"));
    }
    found.map(|(_, variant)| Ident::new(variant, proc_macro2::Span::call_site()))
}

/// Returns a number that is not zero.
fn some(number: LitInt, of: &str, errors: &mut Errors) -> Option<LitInt> {
    let number = small(number, errors)?;
    if number.base10_digits() == "0" {
        errors.at(&number, format!("zero allows no {of}; write 1 or more, or remove the option"));
        return None;
    }
    Some(number)
}

/// The attributes before a `let`, an expression or an arm.
#[derive(Default)]
pub(super) struct StatementAttrs {
    pub(super) policy: Policy,
    /// The first `#[node(..)]` or `#[after(..)]`.
    pub(super) ours: Option<Attribute>,
    /// Attributes for the compiler.
    pub(super) others: Vec<Attribute>,
}

/// Parses the attributes of this crate. The others are returned in a form that is valid before a
/// statement of the expansion.
pub(super) fn read(attrs: Vec<Attribute>, errors: &mut Errors) -> StatementAttrs {
    let mut given = StatementAttrs::default();
    for attr in attrs {
        if attr.path().is_ident("node") {
            node(&attr, &mut given.policy, errors);
        } else if attr.path().is_ident("after") {
            after(&attr, &mut given.policy, errors);
        } else if attr.path().is_ident("cfg_attr") && is_ours(attr.to_token_stream()) {
            errors.at(attr, "a node's options cannot be conditional; write a `let` for each case, under `#[cfg(..)]`");
            continue;
        } else {
            given.others.push(outer(attr));
            continue;
        }
        given.ours.get_or_insert(attr);
    }
    given
}

/// Returns `true` if a `node` or `after` attribute is inside of another attribute.
fn is_ours(attr: TokenStream) -> bool {
    any_token(
        attr,
        &|token| matches!(token, TokenTree::Ident(ident) if ident == "node" || ident == "after"),
    )
}

/// Removes the attributes of an expression that becomes a node, from the whole expression and from
/// its awaited part.
pub(super) fn off(expr: &mut Expr) -> Vec<Attribute> {
    let (attrs, inner) = match expr {
        Expr::Paren(paren) => (&mut paren.attrs, Some(&mut paren.expr)),
        Expr::Group(group) => (&mut group.attrs, Some(&mut group.expr)),
        Expr::Try(tried) => (&mut tried.attrs, Some(&mut tried.expr)),
        Expr::Await(awaited) => (&mut awaited.attrs, Some(&mut awaited.base)),
        Expr::Macro(mac) => (&mut mac.attrs, None),
        Expr::If(test) => (&mut test.attrs, None),
        Expr::Match(cases) => (&mut cases.attrs, None),
        Expr::Call(call) => (&mut call.attrs, None),
        Expr::MethodCall(call) => (&mut call.attrs, None),
        Expr::Path(path) => (&mut path.attrs, None),
        Expr::Block(block) => (&mut block.attrs, None),
        Expr::Async(block) => (&mut block.attrs, None),
        Expr::Closure(closure) => (&mut closure.attrs, None),
        Expr::Lit(literal) => (&mut literal.attrs, None),
        Expr::Field(field) => (&mut field.attrs, None),
        Expr::Reference(reference) => (&mut reference.attrs, None),
        Expr::Tuple(tuple) => (&mut tuple.attrs, None),
        Expr::Struct(built) => (&mut built.attrs, None),
        Expr::ForLoop(repeated) => (&mut repeated.attrs, None),
        // Other expressions keep their attributes, which the compiler checks.
        _ => return Vec::new(),
    };
    let mut all = std::mem::take(attrs);
    all.extend(inner.map(|inner| off(inner)).unwrap_or_default());
    all
}

fn outer(mut attr: Attribute) -> Attribute {
    attr.style = AttrStyle::Outer;
    attr
}

/// Returns the attribute in a form that is valid before several statements of the expansion.
pub(super) fn before_statement(attr: Attribute) -> Attribute {
    let mut attr = outer(attr);
    // An expected lint may be triggered in only some of the statements.
    if attr.path().is_ident("expect")
        && let Meta::List(list) = &mut attr.meta
    {
        list.path = Path::from(Ident::new("allow", list.path.span()));
    }
    attr
}

/// Returns `true` if the attribute sets the level of a lint.
pub(super) fn is_lint(attr: &Attribute) -> bool {
    ["allow", "warn", "deny", "forbid", "expect"].iter().any(|level| attr.path().is_ident(level))
        && matches!(attr.meta, Meta::List(_))
}

/// Lints that apply to a function's signature or its use. All others apply to the code of a body.
const OF_SIGNATURE: [&str; 15] = [
    "async_fn_in_trait",
    "dead_code",
    "missing_docs",
    "missing_errors_doc",
    "missing_panics_doc",
    "module_name_repetitions",
    "must_use_candidate",
    "needless_pass_by_value",
    "private_bounds",
    "private_interfaces",
    "too_many_arguments",
    "type_complexity",
    "unreachable_pub",
    "unused_async",
    "wrong_self_convention",
];

/// Lints that may apply to either, so they are allowed in both.
const OF_BOTH: [&str; 2] = ["deprecated", "non_snake_case"];

/// Splits the lints of an `#[expect(..)]` into three attributes: for the signature, the body, and
/// both.
pub(super) fn expected(attr: &Attribute) -> Option<[Option<Attribute>; 3]> {
    let Meta::List(list) = &attr.meta else { return None };
    let lints = Punctuated::<Meta, Token![,]>::parse_terminated;
    let lints = list.parse_args_with(lints).ok().filter(|_| attr.path().is_ident("expect"))?;
    let (reasons, lints): (Vec<Meta>, Vec<Meta>) =
        lints.into_iter().partition(|meta| meta.path().is_ident("reason"));
    let is_one_of = |lint: &Meta, names: &[&str]| {
        lint.path().segments.last().is_some_and(|last| names.iter().any(|name| last.ident == name))
    };
    let (both, lints): (Vec<Meta>, Vec<Meta>) =
        lints.into_iter().partition(|lint| is_one_of(lint, &OF_BOTH));
    let (signature, body): (Vec<Meta>, Vec<Meta>) =
        lints.into_iter().partition(|lint| is_one_of(lint, &OF_SIGNATURE));
    let with = |lints: Vec<Meta>| {
        let mut list = list.clone();
        let all: Vec<&Meta> = lints.iter().chain(&reasons).collect();
        list.tokens = quote::quote!(#(#all),*);
        (!lints.is_empty()).then(|| Attribute { meta: Meta::List(list), ..attr.clone() })
    };
    Some([with(signature), with(body), with(both)])
}

/// Returns `true` if the attribute can remove the statement.
pub(super) fn is_cfg(attr: &Attribute) -> bool {
    attr.path().is_ident("cfg")
}

fn after(attr: &Attribute, policy: &mut Policy, errors: &mut Errors) {
    let names = match &attr.meta {
        Meta::List(list) => {
            list.parse_args_with(Punctuated::<Ident, Token![,]>::parse_terminated).ok()
        }
        _ => None,
    };
    match names {
        Some(names) if !names.is_empty() => policy.after.extend(names),
        _ => errors.at(
            attr,
            "`#[after(..)]` takes names of earlier nodes; write `#[after(saved)]` or `#[after(saved, sent)]`",
        ),
    }
}

fn node(attr: &Attribute, policy: &mut Policy, errors: &mut Errors) {
    let tokens = match &attr.meta {
        Meta::List(list) => list.tokens.clone(),
        other => {
            errors.at(other, "`#[node]` needs an option; write `#[node(retry = 3)]` or `#[node(timeout = \"30s\")]`");
            return;
        }
    };
    for given in options::parse(tokens, &options::NODE, errors) {
        let name = given.name.to_string();
        match (name.as_str(), given.value) {
            ("id", Value::Text(text)) => match problem_of_id(&text.value()) {
                Some(problem) => errors.at(text, problem),
                None => policy.id = Some(text.value()),
            },
            ("retry", Value::Number(number)) => policy.retry = small(number, errors),
            ("timeout", Value::Text(text)) => policy.timeout_ms = milliseconds(&text, errors),
            ("on_error", Value::Expr(expr)) => on_error(*expr, policy, errors),
            ("approve", Value::Flag) => policy.approve = Some(Approve::Usual),
            ("approve", Value::Expr(expr)) => match &*expr {
                Expr::Lit(literal) if matches!(literal.lit, Lit::Str(_)) => {
                    policy.approve = Some(Approve::Question(*expr));
                }
                other => {
                    errors.at(other, "the question is a string; write `approve = \"send it?\"`");
                }
            },
            ("approve_timeout", Value::Text(text)) => {
                policy.approve_timeout_ms = milliseconds(&text, errors);
            }
            ("on_timeout", Value::Expr(expr)) => {
                policy.on_timeout =
                    TimeoutAction::read(&expr, errors).map(|read| (given.name, read));
            }
            ("concurrency", Value::Number(number)) => {
                policy.concurrency = some(number, "step", errors);
            }
            ("repeatable", Value::Expr(expr)) => match *expr {
                Expr::Lit(syn::ExprLit { lit: Lit::Bool(bool), .. }) => {
                    policy.repeatable = Some(bool);
                }
                other => errors.at(other, "`repeatable` is `true` or `false`"),
            },
            ("tap", Value::Flag) => policy.tap = Some(given.name),
            ("write", Value::Flag) => policy.write = true,
            ("unordered", Value::Flag) => policy.unordered = true,
            _ => errors.at(&given.name, format!("`{name}` cannot be written like this")),
        }
    }
    if policy.write && policy.unordered {
        errors.at(
            attr,
            "`unordered` takes a step out of the order that `write` puts it in; write one of them",
        );
    }
}

pub(super) fn milliseconds(text: &LitStr, errors: &mut Errors) -> Option<u64> {
    match duration::milliseconds(&text.value()) {
        Ok(milliseconds) => Some(milliseconds),
        Err(message) => {
            errors.at(text, message);
            None
        }
    }
}

fn on_error(expr: Expr, policy: &mut Policy, errors: &mut Errors) {
    if let Expr::Call(ExprCall { func, mut args, .. }) = expr.clone()
        && func.to_token_stream().to_string() == "route"
        && args.len() == 1
    {
        policy.route = args.pop();
        return;
    }
    let message = "`on_error` is `fail`, `skip` or `route(other(x))`";
    let found = word(&expr, &[("fail", "Fail"), ("skip", "Skip")], message, errors);
    policy.skip_on_error = found.is_some_and(|variant| variant == "Skip");
}

/// Prefixes of path segments that a run generates, each followed by a number.
const RESERVED: [&str; 6] = ["model#", "tool#", "call#", "attempt#", "undo#", "ask#"];

/// Checks the same rules as the builder.
fn problem_of_id(id: &str) -> Option<&'static str> {
    if id.is_empty() {
        Some("`id` cannot be empty; write a name, or remove it to use the name of the `let`")
    } else if id.contains(['/', '[', ']', '%', '"', '\\']) {
        Some(
            "a node's name is a part of paths such as `notes[3]`; remove `/`, `[`, `]`, `%`, quotes and `\\` from it",
        )
    } else if RESERVED.iter().any(|reserved| id.starts_with(reserved)) {
        Some(
            "a node's name cannot begin with `model#`, `tool#`, `call#`, `attempt#`, `undo#` or `ask#`, which are used in \
             paths; write another one",
        )
    } else if id.ends_with(".items") {
        Some(
            "a node's name cannot end in `.items`, which is the list of a `map!`; write another one",
        )
    } else {
        None
    }
}

//! Questions about the shape of the user's code, asked by all that read or write a body: where an expression awaits, what it
//! calls, which macro is a form. It reports nothing and changes nothing.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::visit::{self, Visit};
use syn::{Expr, ExprAsync, ExprAwait, ExprClosure, Item, Macro};

const FORMS: [&str; 6] = ["gate", "race", "fallback", "map", "repeat", "timeout"];

/// The form's name, when the macro is one: by its last word, so that `agentflow::gate!` is one too.
pub(super) fn form(mac: &Macro) -> Option<String> {
    let name = mac.path.segments.last()?.ident.unraw().to_string();
    FORMS.contains(&name.as_str()).then_some(name)
}

/// The first `.await` of the expression itself, not of a closure or an `async` block in it.
pub(super) fn awaits(expr: &Expr) -> Option<Span> {
    first_await(|visit| visit.visit_expr(expr))
}

/// The expression without parentheses and invisible groups.
pub(super) fn plain(expr: &Expr) -> &Expr {
    match expr {
        Expr::Paren(paren) => plain(&paren.expr),
        Expr::Group(group) => plain(&group.expr),
        other => other,
    }
}

/// The expression without `?` and `.await`.
pub(super) fn future(expr: &Expr) -> &Expr {
    match plain(expr) {
        Expr::Try(tried) => future(&tried.expr),
        Expr::Await(awaited) => future(&awaited.base),
        other => other,
    }
}

/// The name of what an expression calls.
pub(super) fn called(expr: &Expr) -> String {
    match future(expr) {
        Expr::Call(call) => match plain(&call.func) {
            Expr::Path(path) => {
                path.path.segments.last().map(|segment| segment.ident.unraw().to_string()).unwrap_or_default()
            }
            _ => "step".to_owned(),
        },
        Expr::MethodCall(call) => call.method.unraw().to_string(),
        Expr::Path(path) => path.path.segments.last().map(|last| last.ident.unraw().to_string()).unwrap_or_default(),
        Expr::Macro(mac) => mac.mac.path.segments.last().map(|last| last.ident.unraw().to_string()).unwrap_or_default(),
        Expr::Match(_) => "match".to_owned(),
        Expr::If(_) => "if".to_owned(),
        _ => "step".to_owned(),
    }
}

/// The path or method that an expression calls, as written.
pub(super) fn calls(expr: &Expr) -> String {
    match future(expr) {
        Expr::Call(call) => written(&call.func),
        Expr::MethodCall(call) => call.method.to_string(),
        _ => String::new(),
    }
}

pub(super) fn written(tokens: &impl ToTokens) -> String {
    tokens.to_token_stream().to_string().replace(" :: ", "::").replace(":: ", "::")
}

pub(super) fn is_route(expr: &Expr) -> bool {
    matches!(plain(expr), Expr::If(_) | Expr::Match(_))
}

/// `x` of `Ok(x)`.
pub(super) fn in_ok(expr: &Expr) -> Option<&Expr> {
    match plain(expr) {
        Expr::Call(call) if call.args.len() == 1 => match plain(&call.func) {
            Expr::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == "Ok") => call.args.first(),
            _ => None,
        },
        _ => None,
    }
}

/// The first `.await` of the visited code itself, not of a closure or an `async` block in it.
pub(super) fn first_await(look: impl FnOnce(&mut Awaits)) -> Option<Span> {
    let mut awaits = Awaits(None);
    look(&mut awaits);
    awaits.0
}

pub(super) struct Awaits(Option<Span>);

impl<'a> Visit<'a> for Awaits {
    fn visit_expr_await(&mut self, awaited: &'a ExprAwait) {
        visit::visit_expr_await(self, awaited);
        self.0.get_or_insert(awaited.await_token.span);
    }

    fn visit_macro(&mut self, mac: &'a Macro) {
        if let Some(span) = await_in(mac.tokens.clone()) {
            self.0.get_or_insert(span);
        }
    }

    fn visit_expr_async(&mut self, _: &'a ExprAsync) {}

    fn visit_expr_closure(&mut self, _: &'a ExprClosure) {}

    fn visit_item(&mut self, _: &'a Item) {}
}

fn await_in(tokens: TokenStream) -> Option<Span> {
    let mut after_dot = false;
    for token in tokens {
        match &token {
            TokenTree::Ident(ident) if after_dot && ident == "await" => return Some(ident.span()),
            TokenTree::Group(group) => {
                if let Some(span) = await_in(group.stream()) {
                    return Some(span);
                }
            }
            _ => {}
        }
        after_dot = matches!(&token, TokenTree::Punct(punct) if punct.as_char() == '.');
    }
    None
}

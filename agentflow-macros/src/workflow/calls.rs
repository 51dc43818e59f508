//! Rewrites the calls in a step's expression, so that the library learns the type of each function.
//! The type identifies the function as a `#[tool]`, an `#[agent]` or a `#[workflow]`. A macro sees
//! only the path; only the compiler knows the item.
//!
//! `let page = fetch(url).await.context("no page")?;` becomes
//!
//! ```text
//! steps.step(Node::new("page").direct(), (url,), move |args| async move {
//!     let agentflow_call_0 = fetch;
//!     let (cx, (url,)) = args.calling([function_id(&agentflow_call_0)]).await;
//!     Ok(agentflow_call_0(url).await.context("no page")?)
//! })
//! ```
//!
//! While the workflow is built, the library polls this body once: `calling` records the types and
//! stays pending. In a run, it is ready at once. `crates/core/src/workflow/callee.rs` is the
//! counterpart. Calls in closures and `async` blocks are not rewritten; these functions announce
//! themselves when they are called.

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{Expr, ExprAsync, ExprCall, ExprClosure, Item, Macro, Pat, PatIdent, Stmt, Token};

use super::env::Env;
use super::syntax::{about, awaits, plain, takes_expressions, written};

/// The calls of an expression.
pub(super) struct Calls {
    /// Variables for the functions, with their paths.
    pub(super) functions: Vec<(Ident, Expr)>,
    /// The expression, with the variables instead of the paths.
    pub(super) expr: Expr,
    /// The source text of the call, if the expression is a single call. It is the first of the
    /// functions.
    pub(super) direct: Option<String>,
    /// Code in front of the expression.
    pub(super) first: TokenStream,
}

/// Finds the calls of `asking`, an expression with questions to the compiler. `expr` is the
/// original expression.
pub(super) fn asking(expr: &Expr, asking: &Expr, env: &Env) -> Calls {
    let mut calls = calls_of(asking, env);
    calls.direct = direct(expr, env).filter(|_| !calls.functions.is_empty());
    calls
}

/// Finds the calls of an expression.
pub(super) fn calls_of(expr: &Expr, env: &Env) -> Calls {
    let direct = direct(expr, env);
    let mut found = Found { env, own: own_names(expr), functions: Vec::new() };
    let mut expr = expr.clone();
    found.visit_expr_mut(&mut expr);
    let functions = found.functions;
    // The visitor meets an outer call before the calls in its arguments.
    let direct = direct.filter(|_| !functions.is_empty());
    Calls { functions, expr, direct, first: TokenStream::new() }
}

/// Generates the statements that bind the functions.
pub(super) fn bindings(functions: &[(Ident, Expr)]) -> TokenStream {
    functions.iter().map(|(variable, path)| quote!(let #variable = #path;)).collect()
}

/// Returns the text of the call if an expression consists of one call and adaptors of its output.
fn direct(expr: &Expr, env: &Env) -> Option<String> {
    let Expr::Call(call) = about(expr) else { return None };
    function(call, env, &[])?;
    // A step in the arguments is a separate call, which runs first.
    if call.args.iter().any(|argument| awaits(argument).is_some()) {
        return None;
    }
    Some(written(call))
}

/// Returns the path of a call's function if it can have one of the attributes.
fn function<'c>(call: &'c ExprCall, env: &Env, own: &[String]) -> Option<&'c Expr> {
    let path = plain(&call.func);
    let Expr::Path(named) = path else { return None };
    let last = named.path.segments.last()?.ident.unraw().to_string();
    // A name with an upper-case letter constructs a value.
    if last.chars().next().is_some_and(char::is_uppercase) {
        return None;
    }
    let local = |ident: &Ident| {
        let name = ident.unraw().to_string();
        env.is_local(&name) || own.contains(&name)
    };
    (!named.path.get_ident().is_some_and(local)).then_some(path)
}

/// Returns the names of variables and items that an expression declares itself.
fn own_names(expr: &Expr) -> Vec<String> {
    struct Own(Vec<String>);
    impl<'a> syn::visit::Visit<'a> for Own {
        fn visit_pat_ident(&mut self, pat: &'a PatIdent) {
            self.0.push(pat.ident.unraw().to_string());
        }

        fn visit_item(&mut self, item: &'a Item) {
            let mut tokens = item.to_token_stream().into_iter();
            // `fn name`, `use path as name`: all words of the item are collected, which excludes a
            // few names too many but misses none.
            self.0.extend(tokens.by_ref().filter_map(|token| match token {
                proc_macro2::TokenTree::Ident(ident) => Some(ident.unraw().to_string()),
                _ => None,
            }));
        }
    }
    let mut own = Own(Vec::new());
    syn::visit::Visit::visit_expr(&mut own, expr);
    own.0
}

struct Found<'e> {
    env: &'e Env,
    own: Vec<String>,
    functions: Vec<(Ident, Expr)>,
}

impl VisitMut for Found<'_> {
    fn visit_expr_call_mut(&mut self, call: &mut ExprCall) {
        if let Some(path) = function(call, self.env, &self.own) {
            // With the user's span, the compiler reports a mistake in the call as it would without
            // the macro.
            let variable =
                Ident::new(&format!("agentflow_call_{}", self.functions.len()), path.span());
            self.functions.push((variable.clone(), path.clone()));
            *call.func = syn::parse_quote!(#variable);
        }
        visit_mut::visit_expr_call_mut(self, call);
    }

    fn visit_macro_mut(&mut self, mac: &mut Macro) {
        if !takes_expressions(mac) {
            return;
        }
        let Ok(mut arguments) =
            Punctuated::<Expr, Token![,]>::parse_terminated.parse2(mac.tokens.clone())
        else {
            return;
        };
        arguments.iter_mut().for_each(|argument| self.visit_expr_mut(argument));
        mac.tokens = arguments.to_token_stream();
    }

    fn visit_expr_async_mut(&mut self, _: &mut ExprAsync) {}

    fn visit_expr_closure_mut(&mut self, _: &mut ExprClosure) {}

    fn visit_item_mut(&mut self, _: &mut Item) {}

    fn visit_pat_mut(&mut self, _: &mut Pat) {}

    fn visit_stmt_mut(&mut self, statement: &mut Stmt) {
        visit_mut::visit_stmt_mut(self, statement);
    }
}

//! Writes a step that calls a path, so that the library learns the function's type and with it whether it is a `#[tool]`, an
//! `#[agent]` or a `#[workflow]`. A macro sees only the path's spelling; what it names, only the compiler knows.
//!
//! `let page = fetch(url).await?;` becomes
//!
//! ```text
//! steps.call(Node::new("page"), (url,), move |args| async move {
//!     let agentflow_step = fetch;
//!     let (cx, (url,)) = args.calling(&agentflow_step).await;
//!     Ok(agentflow_step(url).await?)
//! })
//! ```
//!
//! While the workflow is built, the library polls this body once: `calling` notes the type and is never ready. In a run it
//! is ready at once. `agentflow/src/workflow/callee.rs` is the other side. A call within another expression is not seen.

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote_spanned;
use syn::ext::IdentExt;
use syn::{Expr, ExprCall};

use super::env::Env;
use super::spans::own;
use super::syntax::{future, plain};

/// A call whose function is a path, in two parts.
pub(super) struct KnownCall {
    /// The function's path.
    pub(super) path: Expr,
    /// The whole expression, with the variable in place of the path.
    pub(super) call: Expr,
}

/// The variable for the function, with the span of the user's expression.
pub(super) fn variable(at: Span) -> Ident {
    Ident::new("agentflow_step", at)
}

/// Splits a call of a path; `None` for any other expression, for local variables and for `Ok(..)` and `Some(..)`.
pub(super) fn known_call(expr: &Expr, variable: &Ident, env: &Env) -> Option<KnownCall> {
    let Expr::Call(ExprCall { func, .. }) = future(expr) else { return None };
    let Expr::Path(path) = plain(func) else { return None };
    let local = path.path.get_ident().is_some_and(|ident| env.is_local(&ident.unraw().to_string()));
    if local || path.path.segments.last().is_some_and(|last| last.ident == "Ok" || last.ident == "Some") {
        return None;
    }
    let path = Expr::Path(path.clone());
    let mut call = expr.clone();
    *called_path(&mut call)? = syn::parse_quote!(#variable);
    Some(KnownCall { path, call })
}

/// The closure of the step, which says what it calls before it waits for its context and its values.
pub(super) fn body(
    variable: &Ident,
    path: &Expr,
    (cx, values): (&Ident, &TokenStream),
    body: &TokenStream,
    at: Span,
) -> TokenStream {
    let args = own("args", at);
    quote_spanned! {at.resolved_at(Span::mixed_site())=>
        move |#args| async move {
            let #variable = #path;
            #[allow(unused_variables, unused_mut)]
            let (#cx, #values) = #args.calling(&#variable).await;
            #body
        }
    }
}

/// The place of the path in the expression.
fn called_path(expr: &mut Expr) -> Option<&mut Expr> {
    match expr {
        Expr::Paren(paren) => called_path(&mut paren.expr),
        Expr::Group(group) => called_path(&mut group.expr),
        Expr::Try(tried) => called_path(&mut tried.expr),
        Expr::Await(awaited) => called_path(&mut awaited.base),
        Expr::Call(call) => Some(&mut call.func),
        _ => None,
    }
}

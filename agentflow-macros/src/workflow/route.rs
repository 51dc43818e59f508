//! Writes an `if` or a `match` with steps in its arms: a router, the arms, and the join of their outputs. A name that a
//! pattern binds is not sent to the arm's nodes: each node matches the router's value again.

use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{Expr, ExprMatch, Token};

use super::env::Env;
use super::model::{Arm, Head, Route};
use super::nodes::Writer;
use super::spans::own;
use crate::function::ends;
use crate::scope;

impl Writer<'_> {
    pub(super) fn route(
        &mut self,
        route: &Route,
        ty: &TokenStream,
        meta: &TokenStream,
        env: &mut Env,
        unread: &[usize],
        span: Span,
    ) -> TokenStream {
        let (private, steps) = self.at(span);
        let (reads_of_head, picked) = match &route.head {
            Head::If(conditions) => (conditions.iter().flat_map(scope::of_expr).collect(), pick_if(conditions)),
            Head::Match(cases) => (reads_of_match(cases), pick_match(cases)),
        };
        let opened = self.open_pure(&reads_of_head, env, unread, span);
        let at = span.resolved_at(Span::mixed_site());
        let (chosen, router, arms) = (own("chosen", at), own("router", at), own("arms", at));
        let end = quote_spanned! {at=>
            #[allow(
                unused_variables, unused_mut, clippy::match_same_arms, clippy::needless_bool
            )]
            let #chosen: usize = #picked;
            #private::Ok::<usize, __AgentflowError>(#chosen)
        };
        let pick = self.pure(&opened, &end, at);
        let names = route.arms.iter().map(|arm| &arm.name);
        let reads = &opened.reads;
        let mut written = quote_spanned! {at=>
            let #router = #steps.route(#meta, [#(#names),*], #reads, #pick);
            let #arms = #private::arms::<#ty>();
        };
        for (index, arm) in route.arms.iter().enumerate() {
            let (nodes, lints) = (self.arm(route, index, arm, &reads_of_head, env), &arm.lints);
            let span = arm.body.tail.span.resolved_at(Span::mixed_site());
            let ((private, steps), one) = (self.at(span), own("arm", span));
            let (arms, router) = (own("arms", span), own("router", span));
            written.extend(quote_spanned! {span=>
                #(#lints)*
                let #one = #steps.arm(#router, #index, |#steps| { #nodes });
                let #arms = #private::Arms::arm(#arms, #one);
            });
        }
        quote_spanned!(at=> { #written #steps.join(#router, #arms) })
    }

    fn arm(&mut self, route: &Route, index: usize, arm: &Arm, reads: &[String], env: &mut Env) -> TokenStream {
        let outside = env.enter();
        if !arm.binds.is_empty() {
            let statement = bind_again(route, index, &arm.binds, &self.at(arm.body.tail.span).0);
            env.arm(arm.binds.clone(), reads, statement);
        }
        let nodes = self.seq(&arm.body, env, outside);
        env.leave(outside);
        nodes
    }
}

fn reads_of_match(cases: &ExprMatch) -> Vec<String> {
    // The guards count, the bodies do not.
    let mut bare = cases.clone();
    for arm in &mut bare.arms {
        *arm.body = syn::parse_quote!(());
    }
    scope::of_expr(&Expr::Match(bare))
}

fn pick_if(conditions: &[Expr]) -> TokenStream {
    let mut picked = TokenStream::new();
    for (index, condition) in conditions.iter().enumerate() {
        picked.extend(quote!(if #condition { #index } else));
    }
    let last = conditions.len();
    quote!(#picked { #last })
}

/// The user's own `match`, with the numbers of the arms as their bodies.
fn pick_match(cases: &ExprMatch) -> TokenStream {
    let mut picked = cases.clone();
    for (index, arm) in picked.arms.iter_mut().enumerate() {
        // The compiler suggests missing arms after the last one, so it must know where that ends.
        let end = ends(&arm.body).1;
        let mut number = Literal::usize_suffixed(index);
        number.set_span(end.resolved_at(Span::mixed_site()));
        *arm.body = syn::parse_quote!(#number);
        arm.comma.get_or_insert(Token![,](end));
    }
    quote!(#picked)
}

/// Binds what the arm's pattern binds, once more.
fn bind_again(route: &Route, index: usize, binds: &[Ident], private: &TokenStream) -> TokenStream {
    let taken = match &route.head {
        Head::If(conditions) => {
            let condition = &conditions[index];
            quote!(if #condition { (#(#binds,)*) } else { #private::not_this_arm() })
        }
        Head::Match(cases) => {
            let (value, pat) = (&cases.expr, &cases.arms[index].pat);
            quote!(match #value { #pat => (#(#binds,)*), _ => #private::not_this_arm() })
        }
    };
    quote! {
        #[allow(
            unreachable_patterns, irrefutable_let_patterns, clippy::single_match_else, clippy::match_wildcard_for_single_variants,
            clippy::manual_let_else, clippy::question_mark, clippy::match_same_arms
        )]
        let (#(#binds,)*) = #taken;
    }
}

//! Generates an `if` or a `match` with steps in its arms: a router, the arms, and the join of their
//! outputs. Names that a pattern binds are not passed to the nodes of the arm: each node matches
//! the recorded value again.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::{Expr, ExprMatch, Pat, Token};

use super::env::{Before, Env};
use super::model::{Arm, Node, Route, RouteHead, Work};
use super::nodes::Writer;
use super::places::Place;
use super::spans::own;
use super::stable::has_temporaries;
use crate::function::ends;
use crate::patterns::unguarded;
use crate::scope;

impl Writer<'_> {
    /// Generates a choice as an expression that evaluates to its handle.
    pub(super) fn route(
        &mut self,
        node: &Node,
        route: &Route,
        ty: &TokenStream,
        env: &mut Env,
    ) -> TokenStream {
        let router = own("router", node.span);
        let (written, handle) = self.route_parts(node, route, &router, ty, env);
        quote!({ #written #handle })
    }

    /// Generates the statements of a choice, which bind its router, and the handle of its value.
    pub(super) fn route_parts(
        &mut self,
        node: &Node,
        route: &Route,
        router: &Ident,
        ty: &TokenStream,
        env: &mut Env,
    ) -> (TokenStream, TokenStream) {
        let span = node.span;
        let (private, steps) = self.at(span);
        let names: Vec<&String> = route.arms.iter().map(|arm| &arm.name).collect();
        let (reads_of_head, picked) = match &route.head {
            RouteHead::If(conditions) => (
                conditions.iter().flat_map(scope::names_read_by_expr).collect(),
                pick_if(conditions, &names),
            ),
            RouteHead::Match(cases) => (reads_of_match(cases), pick_match(cases, &names)),
        };
        let opened = self.open_pure(&reads_of_head, env, span);
        let mut meta = self.meta(node, &[&picked], env);
        let (picked, place) = self.asked_pick(&route.head, &names, env);
        meta.extend(place.method);
        let first = &place.first;
        let at = span.resolved_at(Span::mixed_site());
        let (chosen, arms) = (own("chosen", at), own("arms", at));
        let router = Ident::new(&router.to_string(), at);
        let end = quote_spanned! {at=>
            #[allow(
                unused_variables, unused_mut, clippy::match_same_arms, clippy::needless_bool
            )]
            #first
            let #chosen: &'static str = #picked;
            #private::Ok::<&'static str, __AgentflowError>(#chosen)
        };
        let pick = self.pure(&opened, &end, at);
        let names = route.arms.iter().map(|Arm { name, cfgs, .. }| quote!(#(#cfgs)* #name));
        let reads = &opened.reads;
        let routed = place
            .declared
            .in_front_of(quote_spanned!(at=> #steps.route(#meta, &[#(#names),*], #reads, #pick)));
        let mut written = quote_spanned! {at=>
            let #router = #routed;
            let #arms = #private::arms::<#ty>();
        };
        let mut has_value = false;
        for (index, arm) in route.arms.iter().enumerate() {
            let Arm { lints, cfgs, name, .. } = arm;
            let nodes = self.arm(route, index, arm, &reads_of_head, env);
            let span = arm.body.tail.span.resolved_at(Span::mixed_site());
            let ((private, steps), one) = (self.at(span), own("arm", span));
            let (arms, returns) = (own("arms", span), own("returns", Span::call_site()));
            let router = Ident::new(&router.to_string(), span);
            let taken = match (arm.returns, &arm.body.tail.work) {
                (true, _) => quote_spanned!(span=> #returns.add(#one);),
                (false, Work::Never(_)) => {
                    quote_spanned!(span=> let #arms = #private::Arms::same(#arms, #one);)
                }
                (false, _) => {
                    has_value = true;
                    quote_spanned!(span=> let #arms = #private::Arms::arm(#arms, #one);)
                }
            };
            written.extend(quote_spanned! {span=>
                #(#cfgs)* #(#lints)*
                let #one = #steps.arm(#router, #name, |#steps| { #nodes });
                #(#cfgs)*
                #taken
            });
        }
        // The type of a choice without a value cannot be inferred, so it is annotated.
        let arms_typed = (!has_value && node.ty.is_none() && !node.wrapped)
            .then(|| quote_spanned!(at=> let #arms: #private::Arms<()> = #arms;));
        let arms = own("arms", at);
        (quote!(#written #arms_typed), quote_spanned!(at=> #steps.join(#router, #arms)))
    }

    /// Returns the selection of an arm with questions to the compiler, and its start condition.
    fn asked_pick(&self, head: &RouteHead, names: &[&String], env: &Env) -> (TokenStream, Place) {
        match head {
            RouteHead::If(conditions) => {
                let (asking, place) =
                    self.place_of_value(&conditions.iter().collect::<Vec<_>>(), env);
                (pick_if(&asking, names), place)
            }
            RouteHead::Match(cases) => {
                let mut bare = cases.clone();
                bare.arms.iter_mut().for_each(|arm| *arm.body = syn::parse_quote!(()));
                let (asking, place) = self.place_of_value(&[&Expr::Match(bare)], env);
                match &asking[..] {
                    [Expr::Match(asking)] => {
                        let mut asking = asking.clone();
                        // The compiler suggests missing arms at the end of the last arm, so the
                        // bodies keep their spans.
                        asking
                            .arms
                            .iter_mut()
                            .zip(&cases.arms)
                            .for_each(|(arm, of)| arm.body.clone_from(&of.body));
                        (pick_match(&asking, names), place)
                    }
                    _ => (pick_match(cases, names), place),
                }
            }
        }
    }

    fn arm(
        &mut self,
        route: &Route,
        index: usize,
        arm: &Arm,
        reads: &[String],
        env: &mut Env,
    ) -> TokenStream {
        let outside = env.enter();
        if !arm.binds.is_empty() {
            let (code, pat): (Before, TokenStream) = match &route.head {
                RouteHead::If(conditions) => again_if(&conditions[index], arm, self.private),
                RouteHead::Match(cases) => again_match(cases, index, arm, self.private),
            };
            let of_head = match &route.head {
                RouteHead::If(conditions) => conditions[index].to_token_stream(),
                RouteHead::Match(cases) => cases.arms[index].pat.to_token_stream(),
            };
            // Names that the condition or the guard reads count as used.
            let used = arm
                .binds
                .iter()
                .filter(|bind| words(&of_head).filter(|word| word == *bind).count() > 1);
            let used: Vec<String> = used.map(|bind| bind.unraw().to_string()).collect();
            env.arm(arm.binds.clone(), arm.mutable.clone(), reads, code, &pat);
            env.is_read(used.into_iter());
        }
        let nodes = self.seq(&arm.body, env, outside);
        env.leave(outside);
        nodes
    }
}

fn reads_of_match(cases: &ExprMatch) -> Vec<String> {
    // Guards are part of the selection; bodies are not.
    let mut bare = cases.clone();
    for arm in &mut bare.arms {
        *arm.body = syn::parse_quote!(());
    }
    scope::names_read_by_expr(&Expr::Match(bare))
}

fn pick_if(conditions: &[Expr], names: &[&String]) -> TokenStream {
    let mut picked = TokenStream::new();
    for (condition, name) in conditions.iter().zip(names) {
        picked.extend(quote!(if #condition { #name } else));
    }
    let last = names.last();
    quote!(#picked { #last })
}

/// Generates the user's `match` with the names of the arms as bodies.
fn pick_match(cases: &ExprMatch, names: &[&String]) -> TokenStream {
    let mut picked = cases.clone();
    for (arm, name) in picked.arms.iter_mut().zip(names) {
        // The compiler suggests missing arms after the last one, so it needs the position of its
        // end.
        let end = ends(&arm.body).1;
        let name = syn::LitStr::new(name, end.resolved_at(Span::mixed_site()));
        *arm.body = syn::parse_quote!(#name);
        arm.comma.get_or_insert(Token![,](end));
    }
    quote!(#picked)
}

/// Generates code that binds the names of an arm's conditions again. Conditions without bindings
/// have already been true.
fn again_if(condition: &Expr, arm: &Arm, private: &TokenStream) -> (Before, TokenStream) {
    let binds = &arm.binds;
    let mut lets = Vec::new();
    collect_lets(condition, &mut lets);
    let condition = quote!(#(#lets)&&*);
    let temporaries =
        lets.iter().any(|test| matches!(test, Expr::Let(test) if has_temporaries(&test.expr)));
    let code = match temporaries || arm.is_within() {
        true => Before::InIf { condition: condition.clone(), is_changed: false },
        false => Before::Statement(quote! {
            #[allow(
                unreachable_patterns, irrefutable_let_patterns, clippy::manual_let_else, clippy::question_mark
            )]
            let (#(#binds,)*) = if #condition { (#(#binds,)*) } else { #private::not_this_arm() };
        }),
    };
    (code, condition)
}

fn collect_lets<'e>(condition: &'e Expr, lets: &mut Vec<&'e Expr>) {
    match condition {
        Expr::Let(_) => lets.push(condition),
        Expr::Binary(both) if matches!(both.op, syn::BinOp::And(_)) => {
            collect_lets(&both.left, lets);
            collect_lets(&both.right, lets);
        }
        Expr::Group(group) => collect_lets(&group.expr, lets),
        _ => {}
    }
}

/// Like [`again_if`], for an arm of a `match`. The guard has already been true. It is evaluated
/// again only if it determines the bindings.
fn again_match(
    cases: &ExprMatch,
    index: usize,
    arm: &Arm,
    private: &TokenStream,
) -> (Before, TokenStream) {
    let binds = &arm.binds;
    let (value, whole) = (&cases.expr, &cases.arms[index].pat);
    let pat = match whole {
        Pat::Guard(guard) => {
            let mut lets = Vec::new();
            collect_lets(&guard.guard, &mut lets);
            let inner = unguarded(whole);
            match (&lets[..], inner) {
                ([], Pat::Or(_)) => quote!(#whole),
                ([], inner) => quote!(#inner),
                (lets, inner) => quote!(#inner if #(#lets)&&*),
            }
        }
        whole => quote!(#whole),
    };
    let of = quote!(#value => #pat);
    let code = match has_temporaries(value) || arm.is_within() {
        true => Before::InMatch { value: value.to_token_stream(), pat, is_changed: false },
        false => Before::Statement(quote! {
            #[allow(
                unreachable_patterns, clippy::single_match_else, clippy::match_wildcard_for_single_variants,
                clippy::manual_let_else, clippy::question_mark, clippy::match_same_arms
            )]
            let (#(#binds,)*) = match #value { #pat => (#(#binds,)*), _ => #private::not_this_arm() };
        }),
    };
    (code, of)
}

impl Arm {
    /// Returns `true` if the code of a reader must be inside of the pattern's scope. If the names
    /// were bound again in a tuple, they would not be `mut`, and constants among them would be
    /// compared.
    fn is_within(&self) -> bool {
        !self.mutable.is_empty() || self.uncertain
    }
}

fn words(tokens: &TokenStream) -> impl Iterator<Item = Ident> {
    tokens.clone().into_iter().flat_map(flat)
}

fn flat(token: proc_macro2::TokenTree) -> Vec<Ident> {
    match token {
        proc_macro2::TokenTree::Ident(ident) => vec![ident],
        proc_macro2::TokenTree::Group(group) => group.stream().into_iter().flat_map(flat).collect(),
        _ => Vec::new(),
    }
}

//! Generates the start condition of a node. The condition can depend on types, so it consists of
//! the expression with questions to the compiler and a builder call that depends on the answers.
//! This module also writes values that each reader may compute again.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::Expr;
use syn::spanned::Spanned;

use super::clocks::looks_outside;
use super::env::Env;
use super::model::{Node, Work};
use super::nodes::Writer;
use super::purity::{Judge, Purity, PurityResult};
use super::spans::{located, own};
use crate::scope;

/// The start condition of a node, with the code that determines it.
pub(super) struct Place {
    /// The method of `Node` that sets the condition.
    pub(super) method: TokenStream,
    /// Variables that receive the compiler's answers.
    pub(super) declared: AnswerVariables,
    /// Code in front of the user's code.
    pub(super) first: TokenStream,
    is_unknown: bool,
}

/// Statements in front of a builder call.
pub(super) struct AnswerVariables(TokenStream);

impl Place {
    fn new(judged: PurityResult, method: &str, private: &TokenStream) -> Self {
        let PurityResult { purity, first } = judged;
        let (method, declared) = (purity.place(method), AnswerVariables(purity.declared(private)));
        Self { method, declared, first, is_unknown: matches!(purity, Purity::Unknown) }
    }

    /// Returns the expressions to write with this condition: `asking`, or `exprs` if the compiler
    /// need not be asked.
    fn with_exprs(self, asking: Vec<Expr>, exprs: &[&Expr]) -> (Vec<Expr>, Self) {
        match self.is_unknown {
            true => (exprs.iter().map(|expr| (*expr).clone()).collect(), self),
            false => (asking, self),
        }
    }
}

impl AnswerVariables {
    pub(super) fn in_front_of(&self, call: TokenStream) -> TokenStream {
        let Self(declared) = self;
        if declared.is_empty() { call } else { quote!({ #declared #call }) }
    }
}

impl Writer<'_> {
    /// Generates a value that each reader computes again if all its methods are known. Otherwise a
    /// node computes and records it.
    pub(super) fn look(&mut self, node: &Node, env: &mut Env) -> TokenStream {
        let Node { pat: Some(pat), work: Work::Value(expr), ty, attrs, .. } = node else {
            return TokenStream::new();
        };
        let ty = ty.as_ref().map(|ty| quote!(: #ty));
        let local = quote!(#(#attrs)* let #pat #ty = #expr;);
        let Ok(syn::Stmt::Local(local)) = syn::parse2(local) else { return TokenStream::new() };
        let span = node.span.resolved_at(Span::mixed_site());
        let (private, steps) = self.at(span);
        let is_local = |name: &str| env.is_local(name);
        let mut judge = Judge::new(&is_local, &private, span);
        let asking = judge.value(expr);
        let PurityResult { purity, first } = judge.judged();
        if let Purity::Known = purity {
            env.view(&local, None, self.private);
            return TokenStream::new();
        }
        let opened = self.open_pure(&scope::names_read_by_expr(expr), env, node.span);
        let meta = self.meta(node, &[expr], env);
        let (declared, told) = (purity.declared(&private), purity.as_pairs());
        let told = told.unwrap_or_else(|| quote!(#private::IsOther));
        let value = own("value", span);
        let end = quote_spanned! {span=>
            #declared
            #first
            let #value #ty = #asking;
            #private::Ok::<_, __AgentflowError>((&mut &mut &mut #private::looked(#told, #value)).recorded())
        };
        let closure = self.pure(&opened, &end, span);
        let reads = &opened.reads;
        let recorded = env.hidden("look");
        env.output(None, recorded.clone(), &node.name);
        env.look(&local, &recorded, self.private);
        quote_spanned!(span=> let #recorded = #steps.look(#meta.at_its_place(), #reads, #closure);)
    }

    /// Returns the start condition of a value, and the expressions with questions to the compiler.
    pub(super) fn place_of_value(&self, exprs: &[&Expr], env: &Env) -> (Vec<Expr>, Place) {
        let span = exprs.first().map_or_else(Span::call_site, |expr| expr.span());
        let (private, is_local) = (located(self.private, span), |name: &str| env.is_local(name));
        let mut judge = Judge::new(&is_local, &private, span);
        let asking = exprs.iter().map(|expr| judge.value(expr)).collect();
        let judged = judge.judged();
        Place::new(judged, "at_its_place", &private).with_exprs(asking, exprs)
    }

    /// Returns the start condition of a step. It depends on the code before the first `.await`.
    pub(super) fn place_of_step(&self, steps: &[(&Expr, bool)], env: &Env) -> (Vec<Expr>, Place) {
        let exprs: Vec<&Expr> = steps.iter().map(|(expr, _)| *expr).collect();
        let span = exprs.first().map_or_else(Span::call_site, |expr| expr.span());
        let (private, is_local) = (located(self.private, span), |name: &str| env.is_local(name));
        let mut judge = Judge::new(&is_local, &private, span);
        let asking =
            steps.iter().map(|(expr, is_future)| judge.arguments(expr, *is_future)).collect();
        let judged = judge.judged();
        let mut place = Place::new(judged, "after_effects", &private);
        // A future is a step whose `.await` is added by the expansion.
        let looks = |(expr, is_future): &(&Expr, bool)| match is_future {
            true => looks_outside(&quote!(#expr.await)),
            false => looks_outside(*expr),
        };
        if steps.iter().any(looks) {
            place.method.extend(quote!(.at_its_place()));
        }
        place.with_exprs(asking, &exprs)
    }
}

//! Reads the parts of a condition or a matched value that are computed once before a choice, and
//! values that each reader may compute again. It does not generate code.

use proc_macro2::{Ident, Span};
use quote::format_ident;
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Attribute, Expr, Pat, Type};

use super::body::{Reader, Value};
use super::model::{Node, Policy, Statement, Work};
use super::stable::{calls_methods, computes, hoist_unstable, is_stable};
use super::syntax::{leaves, plain};
use crate::patterns::{as_name, names};

impl Reader<'_> {
    /// Reads a `let` whose value each reader may compute again. Its spelling decides.
    pub(super) fn look(
        &mut self,
        (pat, ty): (Pat, Option<Type>),
        expr: Expr,
        attrs: Vec<Attribute>,
        out: &mut Vec<Statement>,
    ) {
        let bound = names(&pat);
        let words: Vec<String> = bound.iter().map(|ident| ident.unraw().to_string()).collect();
        let name = as_name(words.join("_").trim_start_matches('_'));
        let expr = self.without_temporaries(expr, out);
        self.scope.extend(words.into_iter().map(|word| (word, false)));
        let span = expr.span();
        let rest = Node::tail(Work::Value(expr), span, false);
        out.push(Statement::Look(Node { name, pat: Some(pat), ty, attrs, ..rest }));
    }

    /// Replaces the matched expression with a name if it calls methods, so that it is computed once
    /// if a method is not known.
    pub(super) fn looked(&mut self, expr: Expr, out: &mut Vec<Statement>) -> Expr {
        match calls_methods(&expr) {
            true => self.look_part(expr, out),
            false => expr,
        }
    }

    fn look_part(&mut self, expr: Expr, out: &mut Vec<Statement>) -> Expr {
        let name = self.part_name(&expr);
        let pat = syn::parse_quote!(#name);
        self.look((pat, None), expr, Vec::new(), out);
        if let Some(Statement::Look(node)) = out.last_mut() {
            // The part has no name in the user's code.
            node.name.clear();
        }
        syn::parse_quote!(#name)
    }

    fn part_name(&mut self, part: &Expr) -> Ident {
        self.parts += 1;
        format_ident!(
            "agentflow_part_{}",
            self.parts,
            span = part.span().resolved_at(Span::mixed_site())
        )
    }

    /// Binds each owned part that the rest of the expression borrows from to a name.
    fn without_temporaries(&mut self, mut expr: Expr, out: &mut Vec<Statement>) -> Expr {
        let borrowed = match &mut expr {
            Expr::MethodCall(call) if !computes(&call.method) => &mut call.receiver,
            Expr::Reference(reference) => &mut reference.expr,
            Expr::Paren(inner) => &mut inner.expr,
            _ => return expr,
        };
        let part = std::mem::replace(&mut **borrowed, Expr::PLACEHOLDER);
        **borrowed = match plain(&part) {
            Expr::MethodCall(call) if computes(&call.method) => self.look_part(part, out),
            _ => self.without_temporaries(part, out),
        };
        expr
    }

    /// Replaces the unstable parts of an expression with names of values that are computed once
    /// before it.
    pub(super) fn computed_before(&mut self, expr: Expr, out: &mut Vec<Statement>) -> Expr {
        let mut parts = Vec::new();
        let stable = hoist_unstable(expr, &mut |part| {
            let name = self.part_name(&part);
            parts.push((name.clone(), part));
            name
        });
        for (name, part) in parts {
            let span = part.span();
            let mut policy = Policy::default();
            let Some((work, calls)) = self.work(part, Value::Plain, &mut policy, out) else {
                continue;
            };
            let pat = Some(Pat::Ident(syn::PatIdent {
                attrs: Vec::new(),
                by_ref: None,
                mutability: None,
                ident: name,
                subpat: None,
            }));
            out.push(Statement::Node(Node {
                pat,
                calls,
                policy,
                is_part: true,
                ..Node::tail(work, span, false)
            }));
        }
        debug_assert!(
            is_stable(&stable) || leaves(&stable).is_some(),
            "the rest of the expression is stable"
        );
        self.looked(stable, out)
    }

    /// Computes a whole expression before the choice, in a node that is named after `calls`.
    pub(super) fn part_of(&mut self, expr: Expr, calls: String, out: &mut Vec<Statement>) -> Expr {
        let part = self.computed_before(expr, out);
        if let Some(Statement::Node(node)) = out.last_mut() {
            node.calls = calls;
        }
        part
    }
}

//! Finds collections that several nodes iterate over, such as `counts.keys()` in one node and
//! `counts.values()` in another. Each node decodes its own copy, and two copies of a `HashMap` can
//! iterate in different orders. Therefore the generated code makes the compiler check that the type
//! of the collection has a defined order.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Expr, ExprMethodCall};

use super::env::Env;
use super::model::{LambdaBody, Node, Statement, Work};
use super::nodes::Writer;
use super::syntax::plain;
use crate::scope;

/// Methods that iterate over a collection.
const THROUGH: [&str; 8] =
    ["drain", "into_iter", "into_keys", "into_values", "iter", "keys", "values", "retain"];

impl Writer<'_> {
    /// Generates the checks for the collections that several nodes iterate over.
    pub(super) fn in_one_order(
        &mut self,
        statements: &[Statement],
        tail: &Node,
        env: &mut Env,
    ) -> TokenStream {
        let checks = by_several(statements, tail).into_iter().filter_map(|part| {
            let names = scope::names_read_by_expr(&part);
            names.iter().all(|name| env.is_local(name)).then(|| {
                let opened = self.open(&names, env);
                let (private, steps) = self.at(part.span().resolved_at(Span::mixed_site()));
                let span = part.span();
                let check = quote_spanned!(span=> {
                    #[allow(unused_imports)]
                    use #private::Ordered as _;
                    #private::GoneThrough(&#part).in_one_order()
                });
                let closure = self.pure(&opened, &check, Span::mixed_site());
                let reads = &opened.reads;
                quote!(#steps.unread(#reads, #closure);)
            })
        });
        checks.collect()
    }
}

/// Returns the variables and fields, such as `counts` or `order.prices`, that more than one of
/// these nodes iterates over. The returned expression is the second use, so errors point to it.
fn by_several<'n>(statements: &'n [Statement], tail: &'n Node) -> Vec<Expr> {
    let nodes = statements.iter().filter_map(|statement| match statement {
        Statement::Node(node) => Some(node),
        Statement::View(_) | Statement::Rules(_) | Statement::Look(_) => None,
    });
    let (mut once, mut several): (Vec<String>, Vec<(String, Expr)>) = (Vec::new(), Vec::new());
    for node in nodes.chain([tail]) {
        let mut found = Found(Vec::new());
        found.visit_node(node);
        // Several iterations in one node use the same copy, so they count once.
        let mut own: Vec<String> = Vec::new();
        for part in found.0 {
            let text = part.to_token_stream().to_string();
            if own.contains(&text) {
                continue;
            }
            if once.contains(&text) && !several.iter().any(|(known, _)| *known == text) {
                several.push((text.clone(), part));
            }
            own.push(text);
        }
        once.extend(own);
    }
    several.into_iter().map(|(_, part)| part).collect()
}

/// Variables and fields that an expression iterates over.
struct Found(Vec<Expr>);

impl Found {
    fn visit_node(&mut self, node: &Node) {
        match &node.work {
            Work::Step(expr) | Work::Value(expr) | Work::Check(expr) | Work::Future(expr) => {
                self.visit_expr(expr);
            }
            Work::Map { items, step } => {
                self.whole(&items.expr);
                self.visit_expr(&items.expr);
                if let LambdaBody::Future(expr) = &step.step {
                    self.visit_expr(expr);
                }
            }
            Work::For { items, .. } => {
                self.whole(&items.expr);
                self.visit_expr(&items.expr);
            }
            _ => {}
        }
    }

    /// Adds a list that is iterated without a method call.
    fn whole(&mut self, expr: &Expr) {
        self.0.extend(part(expr).cloned());
    }
}

impl<'e> Visit<'e> for Found {
    fn visit_expr_method_call(&mut self, call: &'e ExprMethodCall) {
        if THROUGH.iter().any(|method| call.method == method) {
            self.0.extend(part(&call.receiver).cloned());
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_for_loop(&mut self, all: &'e syn::ExprForLoop) {
        self.whole(&all.expr);
        visit::visit_expr_for_loop(self, all);
    }
}

/// Returns the variable or field that an expression names, also behind `&` or `.clone()`.
fn part(expr: &Expr) -> Option<&Expr> {
    match plain(expr) {
        Expr::Reference(reference) => part(&reference.expr),
        Expr::MethodCall(call) if call.method == "clone" => part(&call.receiver),
        whole @ (Expr::Path(_) | Expr::Field(_)) => is_part(whole).then_some(whole),
        _ => None,
    }
}

fn is_part(expr: &Expr) -> bool {
    match plain(expr) {
        Expr::Path(path) => path.path.get_ident().is_some(),
        Expr::Field(field) => is_part(&field.base),
        _ => false,
    }
}

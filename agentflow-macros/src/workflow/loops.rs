//! Reads loops: the list that a `for` or a form iterates over, and whether its rounds can be nodes.
//! It also preserves the grouping of expressions that come from macros. It does not generate code.

use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::visit_mut::VisitMut;
use syn::{Block, Expr, Item};

use super::body::{Reader, Value};
use super::model::{Borrowed, Items, Work};
use super::names::NodeNames;
use super::refuse;
use super::stable::is_stable;
use crate::patterns::names;

impl Reader<'_> {
    /// Reads a `for` with steps.
    pub(super) fn each(&mut self, repeated: syn::ExprForLoop) -> Work {
        refuse::return_in_a_form(&repeated.body, self.errors);
        let outside = self.scope.len();
        // The body can read outer nodes, but `#[after(..)]` in it cannot refer to them.
        self.scope.iter_mut().for_each(|(_, node)| *node = false);
        let items = self.items(*repeated.expr.clone());
        let bound = names(&repeated.pat);
        refuse::mutable(&repeated.pat, &mut self.reported, self.errors);
        if items.borrowed != Borrowed::No {
            self.borrowed.extend(outside..outside + bound.len());
        }
        self.scope.extend(bound.iter().map(|ident| (ident.unraw().to_string(), false)));
        refuse::await_in(
            &repeated.expr,
            "a `for` cannot await its list; bind this step to a `let` before it",
            self.errors,
        );
        let end = repeated.body.brace_token.span.close();
        let body = self.seq(repeated.body.stmts, end, Value::Plain, NodeNames::default());
        self.leave(outside);
        Work::For { items, pat: *repeated.pat, body }
    }

    /// Reads the list that a form or a `for` iterates over.
    pub(super) fn items(&self, expr: Expr) -> Items {
        items(expr, &|part| {
            let name = root(part);
            let at = name.and_then(|name| self.scope.iter().rposition(|(known, _)| *known == name));
            at.is_some_and(|at| self.borrowed.contains(&at))
        })
    }
}

/// Returns the variable that an expression is, or is a field of.
pub(super) fn root(mut part: &Expr) -> Option<String> {
    while let Expr::Field(field) = part {
        part = &field.base;
    }
    let Expr::Path(path) = part else { return None };
    path.path.get_ident().map(|name| name.unraw().to_string())
}

/// Converts a borrowed list into an owned list whose items are borrowed. A list behind a reference
/// is cloned.
fn items(expr: Expr, is_borrowed: &dyn Fn(&Expr) -> bool) -> Items {
    let whole = |list: Expr| {
        let expr = match (&list, is_borrowed(&list)) {
            (Expr::Path(_), true) => {
                syn::parse_quote_spanned!(list.span()=> ::core::clone::Clone::clone(#list))
            }
            (_, true) => {
                syn::parse_quote_spanned!(list.span()=> ::core::clone::Clone::clone(&#list))
            }
            (_, false) => list,
        };
        Items { expr, borrowed: Borrowed::Whole }
    };
    match expr {
        Expr::MethodCall(call) if call.method == "enumerate" && call.args.is_empty() => {
            match items(*call.receiver.clone(), is_borrowed) {
                // `files.iter().enumerate()` yields the number and the borrowed item.
                Items { expr, borrowed: Borrowed::Whole } => Items {
                    expr: syn::parse_quote!(::core::iter::Iterator::enumerate(::core::iter::IntoIterator::into_iter(#expr))),
                    borrowed: Borrowed::Second,
                },
                _ => Items { expr: Expr::MethodCall(call), borrowed: Borrowed::No },
            }
        }
        Expr::Reference(reference) if reference.mutability.is_none() => whole(*reference.expr),
        Expr::MethodCall(call)
            if call.method == "iter" && call.args.is_empty() && is_stable(&call.receiver) =>
        {
            whole(*call.receiver)
        }
        Expr::MethodCall(call) if call.method == "into_iter" && call.args.is_empty() => {
            items(*call.receiver, is_borrowed)
        }
        // The name of a reference.
        Expr::Path(_) if is_borrowed(&expr) => whole(expr),
        expr => Items { expr, borrowed: Borrowed::No },
    }
}

/// Replaces the invisible groups of macros with parentheses, because generated code loses these
/// groups.
pub(super) fn keep_groups(block: &mut Block) {
    Grouped.visit_block_mut(block);
}

struct Grouped;

impl VisitMut for Grouped {
    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        syn::visit_mut::visit_expr_mut(self, expr);
        if let Expr::Group(group) = expr {
            let inner = (*group.expr).clone();
            *expr = match inner {
                Expr::Path(_)
                | Expr::Lit(_)
                | Expr::Paren(_)
                | Expr::Call(_)
                | Expr::MethodCall(_)
                | Expr::Macro(_) => inner,
                inner => {
                    let span = inner.span();
                    syn::parse_quote_spanned!(span=> (#inner))
                }
            };
        }
    }

    fn visit_item_mut(&mut self, _: &mut Item) {}
}

/// Returns `true` if a `break` or `continue` leaves a round of a `for` early. The whole loop is
/// then one step.
pub(super) fn leaves_rounds(body: &Block) -> bool {
    struct Leaves {
        found: bool,
        loops: usize,
    }
    impl<'a> syn::visit::Visit<'a> for Leaves {
        fn visit_expr_break(&mut self, expr: &'a syn::ExprBreak) {
            self.found |= self.loops == 0 || expr.label.is_some();
        }

        fn visit_expr_continue(&mut self, expr: &'a syn::ExprContinue) {
            self.found |= self.loops == 0 || expr.label.is_some();
        }

        fn visit_expr_loop(&mut self, expr: &'a syn::ExprLoop) {
            self.loops += 1;
            syn::visit::visit_expr_loop(self, expr);
            self.loops -= 1;
        }

        fn visit_expr_while(&mut self, expr: &'a syn::ExprWhile) {
            self.loops += 1;
            syn::visit::visit_expr_while(self, expr);
            self.loops -= 1;
        }

        fn visit_expr_for_loop(&mut self, expr: &'a syn::ExprForLoop) {
            self.loops += 1;
            syn::visit::visit_expr_for_loop(self, expr);
            self.loops -= 1;
        }

        fn visit_expr_async(&mut self, _: &'a syn::ExprAsync) {}

        fn visit_expr_closure(&mut self, _: &'a syn::ExprClosure) {}

        fn visit_item(&mut self, _: &'a Item) {}
    }
    let mut leaves = Leaves { found: false, loops: 0 };
    syn::visit::Visit::visit_block(&mut leaves, body);
    leaves.found
}

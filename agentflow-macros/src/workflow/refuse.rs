//! Refuses control flow that has no fixed graph and statements whose order would be lost. Each is reported at its keyword,
//! with what to write instead. Code within a step, a closure or an `async` block is not looked at.

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{
    Block, Expr, ExprAsync, ExprBreak, ExprClosure, ExprContinue, ExprForLoop, ExprLoop, ExprReturn, ExprTry,
    ExprWhile, Item, Stmt,
};

use super::syntax::{first_await, form};
use crate::errors::Errors;

const LOOP: &str = "a loop has no fixed graph; repeat a step with `repeat!(first, |x| step(x), until = |x| .., max = 5)`, \
                    or move the loop into a step";
const FOR: &str = "a loop has no fixed graph; run a step for each item with `map!(items, |item| step(item)).await?`, or \
                   move the loop into a step";
const RETURN: &str = "`return` would end the workflow in the middle of its graph; give each arm of an `if` or `match` its \
                      value, or return an error from a step";

/// Reports all control flow in a body that leaves it or repeats a part of it.
pub(super) fn control_flow(block: &Block, errors: &mut Errors) {
    let mut flow = Flow { errors, loops: 0 };
    flow.visit_block(block);
}

struct Flow<'e> {
    errors: &'e mut Errors,
    /// The number of loops around the place that is visited.
    loops: usize,
}

impl Flow<'_> {
    fn within_loop(&mut self, waits: bool, keyword: Span, message: &str, inside: impl FnOnce(&mut Self)) {
        if waits {
            self.errors.at_span(keyword, message);
        }
        self.loops += 1;
        inside(self);
        self.loops -= 1;
    }
}

impl<'a> Visit<'a> for Flow<'_> {
    fn visit_expr_return(&mut self, expr: &'a ExprReturn) {
        self.errors.at_span(expr.return_token.span, RETURN);
        visit::visit_expr_return(self, expr);
    }

    fn visit_expr_loop(&mut self, expr: &'a ExprLoop) {
        let waits = first_await(|awaits| awaits.visit_expr_loop(expr)).is_some();
        self.within_loop(waits, expr.loop_token.span, LOOP, |this| visit::visit_expr_loop(this, expr));
    }

    fn visit_expr_while(&mut self, expr: &'a ExprWhile) {
        let waits = first_await(|awaits| awaits.visit_expr_while(expr)).is_some();
        self.within_loop(waits, expr.while_token.span, LOOP, |this| visit::visit_expr_while(this, expr));
    }

    fn visit_expr_for_loop(&mut self, expr: &'a ExprForLoop) {
        let waits = first_await(|awaits| awaits.visit_expr_for_loop(expr)).is_some();
        self.within_loop(waits, expr.for_token.span, FOR, |this| visit::visit_expr_for_loop(this, expr));
    }

    fn visit_expr_break(&mut self, expr: &'a ExprBreak) {
        if self.loops == 0 && expr.label.is_none() {
            self.errors.at_span(
                expr.break_token.span,
                "`break` is not in a loop; remove it, since a workflow runs from top to bottom",
            );
        }
        visit::visit_expr_break(self, expr);
    }

    fn visit_expr_continue(&mut self, expr: &'a ExprContinue) {
        if self.loops == 0 && expr.label.is_none() {
            self.errors.at_span(
                expr.continue_token.span,
                "`continue` is not in a loop; remove it, since a workflow runs from top to bottom",
            );
        }
    }

    fn visit_expr_async(&mut self, _: &'a ExprAsync) {}

    fn visit_expr_closure(&mut self, _: &'a ExprClosure) {}

    fn visit_item(&mut self, _: &'a Item) {}
}

/// Reports a statement that is not a `let`.
pub(super) fn statement(statement: &Stmt, errors: &mut Errors) {
    match statement {
        Stmt::Local(_) => {}
        Stmt::Item(item) => {
            errors.at_span(item.span(), "a workflow cannot hold items; move this one out of the function");
        }
        Stmt::Macro(mac) => match form(&mac.mac) {
            Some(name) => {
                errors
                    .at(mac, format!("the output of the form is not bound; write `let answer = {name}!(..).await?;`"));
            }
            None => errors.at(&mac.mac.path, "this macro is not a step, so nothing orders it; move it into a step"),
        },
        Stmt::Expr(expr, _) => bare(expr, errors),
    }
}

fn bare(expr: &Expr, errors: &mut Errors) {
    let waits = first_await(|awaits| awaits.visit_expr(expr)).is_some();
    match expr {
        // `control_flow` has reported loops that wait, and `return` and `break`.
        Expr::Loop(_) | Expr::While(_) | Expr::ForLoop(_) if waits => {}
        Expr::Return(_) | Expr::Break(_) | Expr::Continue(_) => {}
        Expr::Loop(repeated) => errors.at(repeated.loop_token, LOOP),
        Expr::While(repeated) => errors.at(repeated.while_token, LOOP),
        Expr::ForLoop(repeated) => errors.at(repeated.for_token, FOR),
        Expr::If(test) => {
            errors.at(test.if_token, "this `if` is not bound, so nothing orders it; write `let outcome = if ..;`");
        }
        Expr::Match(cases) => errors
            .at(cases.match_token, "this `match` is not bound, so nothing orders it; write `let outcome = match ..;`"),
        Expr::Assign(assign) => {
            errors.at(assign, "a value cannot change in a workflow; bind the new value to a `let` of its own");
        }
        other if waits => errors.at(
            other,
            "this step is not bound to a node; write `let _ = ..`, and `#[after(x)]` before it if it must wait \
             for `x`",
        ),
        other => errors
            .at(other, "this statement is not bound, so nothing orders it; bind it to a `let`, or move it into a step"),
    }
}

/// Reports `?` where nothing is awaited.
pub(super) fn question_marks(expr: &Expr, errors: &mut Errors) {
    struct Marks<'e>(&'e mut Errors);
    impl<'a> Visit<'a> for Marks<'_> {
        fn visit_expr_try(&mut self, tried: &'a ExprTry) {
            self.0.at(
                tried,
                "`?` needs a step, and nothing is awaited here; add `.await` before `?`, or write \
                 `async { .. }.await?`",
            );
        }

        fn visit_expr_async(&mut self, _: &'a ExprAsync) {}

        fn visit_expr_closure(&mut self, _: &'a ExprClosure) {}

        fn visit_item(&mut self, _: &'a Item) {}
    }
    Marks(errors).visit_expr(expr);
}

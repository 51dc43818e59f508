//! Reports code that is not supported in a workflow: ends of the workflow inside of a loop, values
//! that change, and statements that would be lost. Each error is at the token and explains what to
//! write instead. Code in steps, closures and `async` blocks is not checked.

use syn::visit::{self, Visit};
use syn::{Block, Expr, ExprAsync, ExprCall, ExprClosure, Item, Pat, PatIdent};

use super::stable::is_stable;
use super::syntax::{awaits, form, future, leaves, plain};
use crate::errors::Errors;
use crate::patterns::{self, binds, has_bindings, unguarded};

pub(super) const RETURN: &str = "`return` can end a workflow only in a statement of its own, or in an arm of an `if`, a \
                                 `match` or a `let .. else`; move it there";
const RETURN_IN_A_LOOP: &str = "`return` cannot end the workflow from within a loop or a form, whose rounds are steps of their \
                                own; collect the outputs, and decide after it";
const ASSIGN: &str = "a value cannot change in a workflow, since each step gets a copy of its own; bind the new value to a \
                      `let` of its own, or put all that changes it into one block: `let x = { let mut x = ..; ..; x };`";

const UNREAD_ANSWER: &str = "nobody reads this answer, so what is below would also run when it is no; read it, as in `if let \
                             Approval::Denied { .. } = gate!(..).await? { return .. }`, or bind it, as in `let _answer = \
                             gate!(..).await?;`";

/// Reports an end of the workflow inside of a form's body.
pub(super) fn return_in_a_form(block: &Block, errors: &mut Errors) {
    if let Some(span) = super::syntax::block_leaves(block) {
        errors.at_span(span, RETURN_IN_A_LOOP);
    }
}

/// Reports a statement that would be lost, or that cannot be a node. Assignments to the names in
/// `reported` are skipped, because these names already have an error. Returns `true` if the body is
/// valid Rust anyway.
pub(super) fn statement(expr: &Expr, reported: &[String], errors: &mut Errors) -> bool {
    match plain(expr) {
        Expr::Macro(mac) => {
            if let Some(name) = form(&mac.mac) {
                errors.at(
                    &mac.mac,
                    format!("add `.await?` after the form, as in `{name}!(..).await?;`"),
                );
            }
        }
        Expr::Assign(assign) => return assigned(&assign.left, assign, reported, errors),
        Expr::Binary(both) if !is_stable(expr) && is_assignment(&both.op) => {
            return assigned(&both.left, both, reported, errors);
        }
        Expr::Return(returned) if !super::syntax::diverges(expr) => {
            errors.at(
                returned,
                "nothing after this `return` would ever run; make it the last statement, or put it into an arm",
            );
        }
        other => {
            if let Some(name) = form_without_await(other) {
                errors.at(
                    other,
                    format!("add `.await?` after the form, as in `{name}!(..).await?;`"),
                );
            } else if let Expr::Macro(mac) = future(other)
                && form(&mac.mac).as_deref() == Some("gate")
            {
                errors.at(&mac.mac.path, UNREAD_ANSWER);
            } else {
                let before = errors.len();
                changes(other, reported, errors);
                return errors.len() == before;
            }
        }
    }
    true
}

/// Reports an assignment to a variable, which cannot change. Returns `false`.
fn assigned(
    left: &Expr,
    whole: &dyn quote::ToTokens,
    reported: &[String],
    errors: &mut Errors,
) -> bool {
    if !root(left).is_some_and(|name| reported.contains(&name)) {
        let mut tokens = proc_macro2::TokenStream::new();
        whole.to_tokens(&mut tokens);
        errors.at(tokens, ASSIGN);
    }
    false
}

/// Returns the variable that an expression is a part of.
fn root(mut part: &Expr) -> Option<String> {
    while let Expr::Field(syn::ExprField { base, .. })
    | Expr::Index(syn::ExprIndex { expr: base, .. }) = part
    {
        part = base;
    }
    let Expr::Path(path) = part else { return None };
    path.path.get_ident().map(ToString::to_string)
}

fn is_assignment(op: &syn::BinOp) -> bool {
    use syn::BinOp as Op;
    !matches!(
        op,
        Op::Add(_)
            | Op::Sub(_)
            | Op::Mul(_)
            | Op::Div(_)
            | Op::Rem(_)
            | Op::And(_)
            | Op::Or(_)
            | Op::BitXor(_)
            | Op::BitAnd(_)
            | Op::BitOr(_)
            | Op::Shl(_)
            | Op::Shr(_)
            | Op::Eq(_)
            | Op::Lt(_)
            | Op::Le(_)
            | Op::Ne(_)
            | Op::Ge(_)
            | Op::Gt(_)
    )
}

fn form_without_await(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Try(tried) => form_without_await(plain(&tried.expr)),
        Expr::Macro(mac) => form(&mac.mac),
        _ => None,
    }
}

/// Reports assignments in a choice or a loop that is a statement, because the assigned value would
/// be lost.
fn changes(expr: &Expr, reported: &[String], errors: &mut Errors) {
    struct Changes<'e> {
        errors: &'e mut Errors,
        bound: Vec<String>,
    }
    impl Changes<'_> {
        fn target(&mut self, left: &Expr, whole: &dyn quote::ToTokens) {
            // Variables that the statement declares itself may change.
            let own = root(left).is_some_and(|name| self.bound.contains(&name));
            if !own {
                let mut tokens = proc_macro2::TokenStream::new();
                whole.to_tokens(&mut tokens);
                self.errors.at(tokens, ASSIGN);
            }
        }
    }
    impl<'a> Visit<'a> for Changes<'_> {
        fn visit_pat_ident(&mut self, pat: &'a PatIdent) {
            self.bound.push(pat.ident.to_string());
        }

        fn visit_expr_assign(&mut self, assign: &'a syn::ExprAssign) {
            self.target(&assign.left, assign);
            visit::visit_expr_assign(self, assign);
        }

        fn visit_expr_binary(&mut self, both: &'a syn::ExprBinary) {
            if is_assignment(&both.op) {
                self.target(&both.left, both);
            }
            visit::visit_expr_binary(self, both);
        }

        fn visit_expr_async(&mut self, _: &'a ExprAsync) {}

        fn visit_expr_closure(&mut self, _: &'a ExprClosure) {}

        fn visit_item(&mut self, _: &'a Item) {}
    }
    // Names with a reported mistake count as declared, so they cause no second error.
    Changes { errors, bound: reported.to_vec() }.visit_expr(expr);
}

/// Reports a value that visibly cannot be recorded.
pub(super) fn value(expr: &Expr, errors: &mut Errors) {
    match plain(expr) {
        Expr::Async(block) => {
            errors.at(
                block.async_token,
                "this block is not awaited, and a future cannot be recorded; add `.await` after it",
            );
        }
        other => cells(other, errors),
    }
}

/// Reports shared state that a later step could change.
fn cells(expr: &Expr, errors: &mut Errors) {
    struct Cells<'e>(&'e mut Errors);
    impl<'a> Visit<'a> for Cells<'_> {
        fn visit_expr_call(&mut self, call: &'a ExprCall) {
            if let Expr::Path(path) = plain(&call.func)
                && let Some(of) = path.path.segments.iter().rev().nth(1)
                && (["Cell", "RefCell", "OnceCell", "Mutex", "RwLock", "OnceLock"]
                    .iter()
                    .any(|cell| of.ident == cell)
                    || of.ident.to_string().starts_with("Atomic"))
            {
                self.0.at(
                    &call.func,
                    "this can change while steps read it, and each step gets a copy of its own; give the value from step \
                     to step, or keep shared state in a resource of the runtime",
                );
            }
            visit::visit_expr_call(self, call);
        }

        // A block computes one value, so cells in it are not shared between steps.
        fn visit_block(&mut self, _: &'a Block) {}

        fn visit_expr_closure(&mut self, _: &'a ExprClosure) {}
    }
    Cells(errors).visit_expr(expr);
}

/// Reports a type that borrows, because a recorded value owns its data.
pub(super) fn borrowed(ty: Option<&syn::Type>, errors: &mut Errors) {
    if let Some(ty) = ty
        && crate::function::has_reference(ty)
    {
        errors
            .at(ty, "a value is recorded, so it owns its data; write `String` for `&str`, or borrow where it is read");
    }
}

/// Detects `tokio::spawn`, `thread::spawn` and `JoinSet::new`.
fn is_spawn(path: &syn::Path) -> bool {
    let mut words = path.segments.iter().rev().map(|segment| &segment.ident);
    match (words.next(), words.next()) {
        (Some(name), Some(_)) if name == "spawn" || name == "spawn_local" => true,
        (Some(name), Some(of)) => name == "new" && of == "JoinSet",
        _ => false,
    }
}

/// Reports spawned tasks, because their calls are outside of the run.
pub(super) fn spawned(expr: &Expr, errors: &mut Errors) {
    struct Spawned<'e>(&'e mut Errors);
    impl<'a> Visit<'a> for Spawned<'_> {
        fn visit_expr_call(&mut self, call: &'a ExprCall) {
            if let Expr::Path(path) = plain(&call.func)
                && path.path.segments.len() > 1
                && is_spawn(&path.path)
            {
                self.0.at(
                    &call.func,
                    "a spawned task leaves the run: what it calls is not recorded, asks nobody, and is done again after a \
                     crash; await it here, several at once with `tokio::join!`, or spawn in a function that a step calls",
                );
            }
            visit::visit_expr_call(self, call);
        }

        fn visit_item(&mut self, _: &'a Item) {}
    }
    Spawned(errors).visit_expr(expr);
}

/// Reports variables that are bound as `mut`, and adds them to `reported`.
pub(super) fn mutable(pat: &Pat, reported: &mut Vec<String>, errors: &mut Errors) {
    reported.extend(patterns::mutable(pat).iter().map(ToString::to_string));
    struct Mutable<'e>(&'e mut Errors);
    impl<'a> Visit<'a> for Mutable<'_> {
        fn visit_pat_ident(&mut self, pat: &'a PatIdent) {
            if let Some(token) = &pat.mutability {
                self.0.at(
                    token,
                    format!(
                        "a value cannot change in a workflow, since each step gets a copy of its own; put all that changes \
                         it into one block: `let {name} = {{ let mut {name} = ..; ..; {name} }};`",
                        name = pat.ident
                    ),
                );
            }
            visit::visit_pat_ident(self, pat);
        }

        fn visit_expr(&mut self, _: &'a Expr) {}
    }
    Mutable(errors).visit_pat(pat);
}

/// Reports a guard that would be evaluated more than once, or that awaits.
pub(super) fn guard(pat: &Pat, errors: &mut Errors) {
    let Pat::Guard(guarded) = pat else { return };
    if let Some(span) = awaits(&guarded.guard) {
        errors.at_span(
            span,
            "a guard cannot await; bind this step to a `let` before the `match`, or ask in the arm",
        );
        return;
    }
    later_condition(&guarded.guard, errors);
    // Only such a guard must be evaluated again, to know which alternative has matched.
    let either = matches!(unguarded(pat), Pat::Or(_)) && has_bindings(unguarded(pat));
    if either && !is_stable(&guarded.guard) {
        errors.at(
            &guarded.guard,
            "this guard decides which side of `|` binds, and would be asked again by each step; write an arm for each side",
        );
    }
}

/// Reports a part of a condition that awaits, or that binds parts of an unrecorded value.
pub(super) fn later_condition(condition: &Expr, errors: &mut Errors) {
    match condition {
        Expr::Let(test) => {
            if awaits(&test.expr).is_some()
                || !binds(&test.pat).is_empty() && !is_stable(&test.expr)
            {
                errors.at(
                    &test.expr,
                    "this would be computed again by each step that reads what it binds; bind it in a `let` in the arm, or \
                     write an `if let` of its own in the arm",
                );
            }
        }
        Expr::Binary(both) if matches!(both.op, syn::BinOp::And(_)) => {
            later_condition(&both.left, errors);
            later_condition(&both.right, errors);
        }
        other => {
            if let Some(span) = awaits(other) {
                errors.at_span(
                    span,
                    "this is awaited only if what is before it holds; write an `if` of its own in the arm, or bind this step \
                     to a `let` before the choice",
                );
            }
        }
    }
}

/// Reports an `.await` or an end of the workflow where neither is allowed.
pub(super) fn await_in(expr: &Expr, message: &str, errors: &mut Errors) {
    if let Some(span) = awaits(expr).or_else(|| leaves(expr)) {
        errors.at_span(span, message);
    }
}

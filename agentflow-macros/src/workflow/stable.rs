//! Detects stable expressions, which may be computed repeatedly: parts of recorded values, such as
//! `order.items`, `&name` and `text.trim()`. Other expressions are computed once, as a node. The
//! spelling decides; `purity` asks the compiler if a method belongs to a type of the standard
//! library.

use proc_macro2::Ident;
use syn::visit::Visit;
use syn::{Block, Expr, ExprMethodCall, Lit, Pat, Stmt, UnOp};

use super::syntax::plain;

/// Methods that return a reference into a value, or a value that contains one.
const BORROWING: [&str; 29] = [
    "as_bytes",
    "as_deref",
    "as_path",
    "as_ref",
    "as_slice",
    "as_str",
    "borrow",
    "extension",
    "file_name",
    "file_stem",
    "first",
    "first_key_value",
    "get",
    "last",
    "last_key_value",
    "rsplit_once",
    "split_at",
    "split_first",
    "split_last",
    "split_once",
    "strip_prefix",
    "strip_suffix",
    "to_str",
    "trim",
    "trim_end",
    "trim_end_matches",
    "trim_matches",
    "trim_start",
    "trim_start_matches",
];

/// Methods that compute an owned value and have no other effect.
const COMPUTING: [&str; 39] = [
    "abs",
    "clone",
    "cloned",
    "cmp",
    "contains",
    "contains_key",
    "copied",
    "ends_with",
    "eq",
    "is_alphabetic",
    "is_empty",
    "is_err",
    "is_negative",
    "is_none",
    "is_ok",
    "is_positive",
    "is_some",
    "len",
    "max",
    "min",
    "ne",
    "not",
    "or",
    "partial_cmp",
    "pow",
    "replace",
    "saturating_add",
    "saturating_sub",
    "signum",
    "starts_with",
    "to_ascii_lowercase",
    "to_ascii_uppercase",
    "to_lowercase",
    "to_owned",
    "to_string",
    "to_uppercase",
    "to_vec",
    "unwrap_or",
    "unwrap_or_default",
];

/// Methods that return a part of the receiver or an alternative value.
const REPLACING: [&str; 6] =
    ["filter", "or", "or_else", "unwrap_or", "unwrap_or_default", "unwrap_or_else"];

/// Methods that call a function with the receiver and have no other effect.
const APPLYING: [&str; 7] =
    ["and_then", "filter", "is_some_and", "map", "map_or", "or_else", "unwrap_or_else"];

/// Methods that return an error for a missing value.
const FAILING: [&str; 4] = ["context", "ok_or", "ok_or_else", "with_context"];

/// Returns `true` if an expression is a part of recorded values, or is computed from them only by
/// arithmetic and methods of the standard library.
pub(super) fn is_stable(expr: &Expr) -> bool {
    match expr {
        Expr::Path(_) | Expr::Lit(_) => true,
        Expr::Paren(inner) => is_stable(&inner.expr),
        Expr::Group(inner) => is_stable(&inner.expr),
        Expr::Field(field) => is_stable(&field.base),
        Expr::Index(index) => is_stable(&index.expr) && is_stable(&index.index),
        Expr::Reference(reference) => reference.mutability.is_none() && is_stable(&reference.expr),
        Expr::Unary(unary) => is_stable(&unary.expr),
        Expr::Cast(cast) => is_stable(&cast.expr),
        Expr::Tuple(tuple) => tuple.elems.iter().all(is_stable),
        Expr::Array(array) => array.elems.iter().all(is_stable),
        Expr::Range(range) => {
            range.start.as_deref().is_none_or(is_stable)
                && range.end.as_deref().is_none_or(is_stable)
        }
        Expr::Binary(both) => {
            !is_assigning(&both.op) && is_stable(&both.left) && is_stable(&both.right)
        }
        Expr::MethodCall(call) => is_stable_method(call) && is_stable(&call.receiver),
        Expr::Let(test) => is_stable(&test.expr),
        Expr::Block(block) => block.label.is_none() && only(&block.block).is_some_and(is_stable),
        Expr::If(test) => {
            is_stable(&test.cond)
                && only(&test.then_branch).is_some_and(is_stable)
                && test.else_branch.as_ref().is_some_and(|(_, other)| is_stable(other))
        }
        Expr::Match(cases) => {
            let guard = |pat: &Pat| !matches!(pat, Pat::Guard(guard) if !is_stable(&guard.guard));
            is_stable(&cases.expr)
                && cases.arms.iter().all(|arm| guard(&arm.pat) && is_stable(&arm.body))
        }
        _ => false,
    }
}

/// Returns the only expression of a block.
fn only(block: &Block) -> Option<&Expr> {
    match &block.stmts[..] {
        [Stmt::Expr(expr, None)] => Some(expr),
        _ => None,
    }
}

fn is_assigning(op: &syn::BinOp) -> bool {
    use syn::BinOp as Op;
    matches!(
        op,
        Op::AddAssign(_)
            | Op::SubAssign(_)
            | Op::MulAssign(_)
            | Op::DivAssign(_)
            | Op::RemAssign(_)
            | Op::BitXorAssign(_)
            | Op::BitAndAssign(_)
            | Op::BitOrAssign(_)
            | Op::ShlAssign(_)
            | Op::ShrAssign(_)
    )
}

fn is_one_of(call: &ExprMethodCall, names: &[&str]) -> bool {
    names.iter().any(|name| call.method == name)
}

fn is_stable_method(call: &ExprMethodCall) -> bool {
    (is_one_of(call, &BORROWING) || is_one_of(call, &COMPUTING)) && call.args.iter().all(is_stable)
        || is_one_of(call, &APPLYING) && call.args.iter().all(is_stable_function)
}

/// Like [`is_stable_method`], for an argument that the method calls: `|x| x.trim()`,
/// `String::as_str`, or an alternative value.
fn is_stable_function(argument: &Expr) -> bool {
    match plain(argument) {
        Expr::Closure(closure) => closure.asyncness.is_none() && is_stable(&closure.body),
        Expr::Path(path) => {
            is_method_of_type(path, &BORROWING) || is_method_of_type(path, &COMPUTING)
        }
        other => is_stable(other),
    }
}

/// Returns `true` if a path is a method of a type with one of these names, such as
/// `String::as_str`.
fn is_method_of_type(path: &syn::ExprPath, names: &[&str]) -> bool {
    let mut words = path.path.segments.iter().rev().map(|segment| &segment.ident);
    let (Some(method), Some(of)) = (words.next(), words.next()) else { return false };
    let is_type = of == "str" || of.to_string().starts_with(char::is_uppercase);
    is_type && names.iter().any(|name| method == name)
}

/// Returns `true` if an expression calls methods or operators, which the program can implement. A
/// closure calls them later.
pub(super) fn calls_methods(expr: &Expr) -> bool {
    struct Calls(bool);
    impl<'a> Visit<'a> for Calls {
        fn visit_expr_method_call(&mut self, _: &'a ExprMethodCall) {
            self.0 = true;
        }

        fn visit_expr_binary(&mut self, both: &'a syn::ExprBinary) {
            self.0 |= !matches!(both.op, syn::BinOp::And(_) | syn::BinOp::Or(_));
            syn::visit::visit_expr_binary(self, both);
        }
    }
    let mut calls = Calls(false);
    if !matches!(plain(expr), Expr::Closure(_)) {
        calls.visit_expr(expr);
    }
    calls.0
}

/// Returns `true` if a method returns an owned value, which is dropped at the end of the
/// expression.
pub(super) fn computes(method: &Ident) -> bool {
    COMPUTING.iter().any(|name| method == name) && !REPLACING.iter().any(|name| method == name)
}

/// Returns `true` if an expression is a view: a reference into recorded values, or a value that
/// contains one. A view cannot be recorded, so each reader repeats it. Closures are views too.
pub(super) fn is_view(expr: &Expr) -> bool {
    matches!(plain(expr), Expr::Closure(_)) || is_stable(expr) && borrows(expr)
}

fn borrows(expr: &Expr) -> bool {
    match plain(expr) {
        Expr::Reference(_) => true,
        // A string literal is a reference, and another name for a value is a view of it.
        Expr::Lit(literal) => matches!(literal.lit, Lit::Str(_) | Lit::ByteStr(_) | Lit::CStr(_)),
        Expr::Path(_) => true,
        Expr::Tuple(tuple) => tuple.elems.iter().any(is_reference),
        Expr::MethodCall(call) => {
            is_one_of(call, &BORROWING)
                || is_one_of(call, &REPLACING)
                    && (is_reference(&call.receiver) || call.args.iter().any(is_reference))
                || is_one_of(call, &APPLYING) && call.args.iter().any(gives_reference)
        }
        Expr::Unary(unary) => matches!(unary.op, UnOp::Deref(_)) && borrows(&unary.expr),
        Expr::Block(block) => only(&block.block).is_some_and(is_reference),
        Expr::If(test) => {
            only(&test.then_branch).is_some_and(is_reference)
                || test.else_branch.as_ref().is_some_and(|(_, other)| is_reference(other))
        }
        Expr::Match(cases) => cases.arms.iter().any(|arm| is_reference(&arm.body)),
        _ => false,
    }
}

/// Like [`borrows`], for a part of an expression. A plain name does not count.
fn is_reference(expr: &Expr) -> bool {
    borrows(expr) && !matches!(plain(expr), Expr::Path(_))
}

/// Returns `true` if a function that a method calls returns a reference. For `filter`, it is a
/// condition.
fn gives_reference(function: &Expr) -> bool {
    match plain(function) {
        Expr::Closure(closure) => is_reference(&closure.body),
        Expr::Path(path) => is_method_of_type(path, &BORROWING),
        other => is_reference(other),
    }
}

/// A view that may be missing, in an expression such as
/// `line.split_once(':').context("no colon")?`.
pub(super) enum PartialView {
    /// The view is present if this variant matches the operand of `?`.
    Tried { of: &'static str },
    /// The view is present unless the expression panics.
    Unwrapped,
}

/// Returns the partial view that a `?` or an `unwrap` accesses.
pub(super) fn partial_view(expr: &Expr) -> Option<PartialView> {
    let method = |expr: &'_ Expr, names: &[&str]| matches!(plain(expr), Expr::MethodCall(call) if is_one_of(call, names));
    match plain(expr) {
        Expr::Try(tried) if method(&tried.expr, &FAILING) => {
            let Expr::MethodCall(call) = plain(&tried.expr) else { return None };
            let of_option = call.method == "ok_or" || call.method == "ok_or_else";
            (is_stable(&call.receiver) && is_reference(&call.receiver))
                .then_some(PartialView::Tried { of: if of_option { "Some" } else { "Ok" } })
        }
        Expr::MethodCall(call) if method(expr, &["expect", "unwrap"]) => {
            let is_view = is_stable(&call.receiver)
                && is_reference(&call.receiver)
                && call.args.iter().all(is_stable);
            is_view.then_some(PartialView::Unwrapped)
        }
        _ => None,
    }
}

/// Returns `true` if matching the expression again creates a temporary that must live as long as
/// the bindings.
pub(super) fn has_temporaries(expr: &Expr) -> bool {
    match plain(expr) {
        Expr::Path(_) | Expr::Lit(_) => false,
        Expr::Field(field) => has_temporaries(&field.base),
        Expr::Index(index) => has_temporaries(&index.expr),
        Expr::Reference(reference) => has_temporaries(&reference.expr),
        Expr::Tuple(tuple) => tuple.elems.iter().any(has_temporaries),
        _ => true,
    }
}

/// Replaces the unstable parts of an expression with names. `hoist` receives each part and returns
/// its name; the part is then computed once. An `&&` or `||` is one part, because its right side is
/// not always evaluated.
pub(super) fn hoist_unstable(expr: Expr, hoist: &mut impl FnMut(Expr) -> Ident) -> Expr {
    if is_stable(&expr) {
        return expr;
    }
    match expr {
        Expr::Paren(mut inner) => {
            *inner.expr = hoist_unstable(*inner.expr, hoist);
            Expr::Paren(inner)
        }
        Expr::Group(mut inner) => {
            *inner.expr = hoist_unstable(*inner.expr, hoist);
            Expr::Group(inner)
        }
        Expr::Field(mut field) => {
            *field.base = hoist_unstable(*field.base, hoist);
            Expr::Field(field)
        }
        Expr::Reference(mut reference) if reference.mutability.is_none() => {
            *reference.expr = hoist_unstable(*reference.expr, hoist);
            Expr::Reference(reference)
        }
        Expr::Tuple(mut tuple) => {
            tuple.elems = tuple.elems.into_iter().map(|one| hoist_unstable(one, hoist)).collect();
            Expr::Tuple(tuple)
        }
        // Only the receiver can be unstable here, so the method itself stays.
        Expr::MethodCall(mut call) if is_stable_method(&call) => {
            *call.receiver = hoist_unstable(*call.receiver, hoist);
            Expr::MethodCall(call)
        }
        other => {
            let name = hoist(other);
            syn::parse_quote!(#name)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{hoist_unstable, is_stable, is_view};

    fn expr(text: &str) -> syn::Expr {
        syn::parse_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn parts_of_values_are_stable() {
        for text in [
            "a",
            "a.b",
            "&a.b[0]",
            "a.name.trim()",
            "a.len() + 1",
            "(a, &b)",
            "!a.is_empty()",
            "x.get(&k)",
        ] {
            assert!(is_stable(&expr(text)), "{text}");
        }
        for text in [
            "f(a)",
            "a.next()",
            "&mut a",
            "a.iter()",
            "now()",
            "a.b.await",
            "format!(\"{a}\")",
            "|x| x",
            "a += 1",
        ] {
            assert!(!is_stable(&expr(text)), "{text}");
        }
    }

    #[test]
    fn views_hold_references() {
        for text in [
            "&a.b",
            "a.name.as_str()",
            "a.note.as_deref().unwrap_or(\"-\")",
            "\"text\"",
            "b",
            "(&a, 1)",
            "|x| x + a",
            "if a > 1 { \"b\" } else { \"c\" }",
            "a.strip_prefix(\"Re: \").unwrap_or(&a)",
            "a.trim_start_matches('[')",
            "a.last().map(String::as_str).unwrap_or(\"\")",
            "a.as_deref().map(|a| a.trim()).filter(|a| !a.is_empty()).unwrap_or_else(|| &b)",
            "a.unwrap_or(\"none\")",
            "a.first().map_or(\"none\", |a| a.name.as_str())",
        ] {
            assert!(is_view(&expr(text)), "{text}");
        }
        for text in [
            "a.len()",
            "a.name.trim().to_owned()",
            "1",
            "(1, 2)",
            "f(&a)",
            "a.b",
            "a.unwrap_or(1)",
            "a.first().map(fetch)",
            "a.first().map(names::get)",
            "a.first().map(|a| fetch(a))",
            "a.first().map(String::len)",
            "a.as_deref().map(|a| a.len()).unwrap_or(0)",
        ] {
            assert!(!is_view(&expr(text)), "{text}");
        }
    }

    #[test]
    fn the_rest_is_computed_once() {
        for (text, parts) in [
            ("find(x).name.as_str()", vec!["find (x)"]),
            ("(a, f(b), &g())", vec!["f (b)", "g ()"]),
            ("a && f()", vec!["a && f ()"]),
            ("a.b", vec![]),
        ] {
            let mut found = Vec::new();
            hoist_unstable(expr(text), &mut |part| {
                found.push(quote::ToTokens::to_token_stream(&part).to_string());
                quote::format_ident!("part")
            });
            assert_eq!(found, parts, "{text}");
        }
    }
}

//! Recognizes expressions that may give the same value each time they are computed: parts of recorded values, such
//! as `order.items`, `&name` and `text.trim()`. Any other expression is computed once, as a node. It judges by spelling; `purity`
//! asks the compiler if a method belongs to a type of the standard library.

use proc_macro2::Ident;
use syn::visit::Visit;
use syn::{Block, Expr, ExprMethodCall, Lit, Pat, Stmt, UnOp};

use super::syntax::plain;

/// Methods that look into a value and give a reference into it, or a value that holds one.
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

/// Methods that compute a value of its own from another one, and nothing else.
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

/// Methods that give a part of what they are called on, or something in its place.
const REPLACING: [&str; 6] = ["filter", "or", "or_else", "unwrap_or", "unwrap_or_default", "unwrap_or_else"];

/// Methods that call a function with what they are called on, and nothing else.
const APPLYING: [&str; 7] = ["and_then", "filter", "is_some_and", "map", "map_or", "or_else", "unwrap_or_else"];

/// Methods that give an error in the place of what is not there.
const FAILING: [&str; 4] = ["context", "ok_or", "ok_or_else", "with_context"];

/// Whether an expression is a part of recorded values, or computed from them by nothing but arithmetic and the methods of
/// the standard library.
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
            range.start.as_deref().is_none_or(is_stable) && range.end.as_deref().is_none_or(is_stable)
        }
        Expr::Binary(both) => !is_assigning(&both.op) && is_stable(&both.left) && is_stable(&both.right),
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
            is_stable(&cases.expr) && cases.arms.iter().all(|arm| guard(&arm.pat) && is_stable(&arm.body))
        }
        _ => false,
    }
}

/// The only expression of a block.
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

/// The same of an argument of a method that calls it: `|x| x.trim()`, `String::as_str`, or what is given in its place.
fn is_stable_function(argument: &Expr) -> bool {
    match plain(argument) {
        Expr::Closure(closure) => closure.asyncness.is_none() && is_stable(&closure.body),
        Expr::Path(path) => is_method_of_type(path, &BORROWING) || is_method_of_type(path, &COMPUTING),
        other => is_stable(other),
    }
}

/// Whether a path is a method of a type, such as `String::as_str`, with one of these names.
fn is_method_of_type(path: &syn::ExprPath, names: &[&str]) -> bool {
    let mut words = path.path.segments.iter().rev().map(|segment| &segment.ident);
    let (Some(method), Some(of)) = (words.next(), words.next()) else { return false };
    let is_type = of == "str" || of.to_string().starts_with(char::is_uppercase);
    is_type && names.iter().any(|name| method == name)
}

/// Returns true if an expression calls methods. A closure calls them later.
pub(super) fn calls_methods(expr: &Expr) -> bool {
    struct Calls(bool);
    impl<'a> Visit<'a> for Calls {
        fn visit_expr_method_call(&mut self, _: &'a ExprMethodCall) {
            self.0 = true;
        }
    }
    let mut calls = Calls(false);
    if !matches!(plain(expr), Expr::Closure(_)) {
        calls.visit_expr(expr);
    }
    calls.0
}

/// Returns true if a method returns an owned value, which is dropped at the end of the expression.
pub(super) fn computes(method: &Ident) -> bool {
    COMPUTING.iter().any(|name| method == name) && !REPLACING.iter().any(|name| method == name)
}

/// Whether an expression gives a reference to what is recorded, or something that holds one, which cannot be recorded and
/// need not be: it is repeated where it is read. So is a closure, whose code runs when it is called.
pub(super) fn is_view(expr: &Expr) -> bool {
    matches!(plain(expr), Expr::Closure(_)) || is_stable(expr) && borrows(expr)
}

fn borrows(expr: &Expr) -> bool {
    match plain(expr) {
        Expr::Reference(_) => true,
        // A literal text is one; another name for a value is a view of it.
        Expr::Lit(literal) => matches!(literal.lit, Lit::Str(_) | Lit::ByteStr(_) | Lit::CStr(_)),
        Expr::Path(_) => true,
        Expr::Tuple(tuple) => tuple.elems.iter().any(is_reference),
        Expr::MethodCall(call) => {
            is_one_of(call, &BORROWING)
                || is_one_of(call, &REPLACING) && (is_reference(&call.receiver) || call.args.iter().any(is_reference))
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

/// The same of a part of an expression, where a name alone says nothing.
fn is_reference(expr: &Expr) -> bool {
    borrows(expr) && !matches!(plain(expr), Expr::Path(_))
}

/// The same of a function that a method calls: whether it gives a reference. Of `filter`, it is a condition.
fn gives_reference(function: &Expr) -> bool {
    match plain(function) {
        Expr::Closure(closure) => is_reference(&closure.body),
        Expr::Path(path) => is_method_of_type(path, &BORROWING),
        other => is_reference(other),
    }
}

/// A view that may not be there, of an expression such as `line.split_once(':').context("no colon")?`.
pub(super) enum PartialView {
    /// It is there when this pattern matches this expression.
    Tried { of: &'static str },
    /// It is there unless the expression panics.
    Unwrapped,
}

/// Finds a view that a `?` or an `unwrap` looks into.
pub(super) fn partial_view(expr: &Expr) -> Option<PartialView> {
    let method =
        |expr: &'_ Expr, names: &[&str]| matches!(plain(expr), Expr::MethodCall(call) if is_one_of(call, names));
    match plain(expr) {
        Expr::Try(tried) if method(&tried.expr, &FAILING) => {
            let Expr::MethodCall(call) = plain(&tried.expr) else { return None };
            let of_option = call.method == "ok_or" || call.method == "ok_or_else";
            (is_stable(&call.receiver) && is_reference(&call.receiver))
                .then_some(PartialView::Tried { of: if of_option { "Some" } else { "Ok" } })
        }
        Expr::MethodCall(call) if method(expr, &["expect", "unwrap"]) => {
            let is_view = is_stable(&call.receiver) && is_reference(&call.receiver) && call.args.iter().all(is_stable);
            is_view.then_some(PartialView::Unwrapped)
        }
        _ => None,
    }
}

/// Whether matching the expression again needs a temporary that lives as long as what is bound.
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

/// Replaces the parts of an expression that are not stable by names, which `hoist` gives for each part and computes once.
/// An `&&` or `||`, whose right side is not always computed, stays whole.
pub(super) fn hoisted(expr: Expr, hoist: &mut impl FnMut(Expr) -> Ident) -> Expr {
    if is_stable(&expr) {
        return expr;
    }
    match expr {
        Expr::Paren(mut inner) => {
            *inner.expr = hoisted(*inner.expr, hoist);
            Expr::Paren(inner)
        }
        Expr::Group(mut inner) => {
            *inner.expr = hoisted(*inner.expr, hoist);
            Expr::Group(inner)
        }
        Expr::Field(mut field) => {
            *field.base = hoisted(*field.base, hoist);
            Expr::Field(field)
        }
        Expr::Reference(mut reference) if reference.mutability.is_none() => {
            *reference.expr = hoisted(*reference.expr, hoist);
            Expr::Reference(reference)
        }
        Expr::Tuple(mut tuple) => {
            tuple.elems = tuple.elems.into_iter().map(|one| hoisted(one, hoist)).collect();
            Expr::Tuple(tuple)
        }
        Expr::MethodCall(mut call) if is_stable_method(&call) => {
            *call.receiver = hoisted(*call.receiver, hoist);
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
    use super::{hoisted, is_stable, is_view};

    fn expr(text: &str) -> syn::Expr {
        syn::parse_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn parts_of_values_are_stable() {
        for text in ["a", "a.b", "&a.b[0]", "a.name.trim()", "a.len() + 1", "(a, &b)", "!a.is_empty()", "x.get(&k)"] {
            assert!(is_stable(&expr(text)), "{text}");
        }
        for text in
            ["f(a)", "a.next()", "&mut a", "a.iter()", "now()", "a.b.await", "format!(\"{a}\")", "|x| x", "a += 1"]
        {
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
            hoisted(expr(text), &mut |part| {
                found.push(quote::ToTokens::to_token_stream(&part).to_string());
                quote::format_ident!("part")
            });
            assert_eq!(found, parts, "{text}");
        }
    }
}

//! Queries on the syntax of the user's code: where an expression awaits, which function it calls,
//! which macro is a form, and whether it ends the workflow. All readers and writers use them. This
//! module reports and changes nothing.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::visit::{self, Visit};
use syn::{Block, Expr, ExprAsync, ExprAwait, ExprClosure, ExprReturn, Item, Macro, Stmt};

const FORMS: [&str; 6] = ["gate", "race", "fallback", "map", "repeat", "timeout"];

/// Macros that await their arguments without a visible `.await`.
const AWAITING: [&str; 3] = ["join", "try_join", "select"];

/// Macros whose arguments are expressions.
const OF_EXPRESSIONS: [&str; 6] = ["join", "try_join", "vec", "dbg", "assert", "ensure"];

/// Macros that are known not to await.
const PLAIN: [&str; 42] = [
    "anyhow",
    "assert",
    "assert_eq",
    "assert_ne",
    "bail",
    "cfg",
    "column",
    "concat",
    "dbg",
    "debug",
    "debug_assert",
    "debug_assert_eq",
    "debug_assert_ne",
    "ensure",
    "env",
    "eprint",
    "eprintln",
    "error",
    "file",
    "format",
    "format_args",
    "include_bytes",
    "include_str",
    "info",
    "json",
    "line",
    "matches",
    "module_path",
    "option_env",
    "panic",
    "print",
    "println",
    "stringify",
    "todo",
    "trace",
    "unimplemented",
    "unreachable",
    "vec",
    "warn",
    "write",
    "writeln",
    "eyre",
];

/// Methods that handle the error or the absence of a value.
const ADAPTORS: [&str; 9] = [
    "context",
    "expect",
    "map_err",
    "ok_or",
    "ok_or_else",
    "unwrap",
    "unwrap_or_default",
    "unwrap_or_else",
    "with_context",
];

/// Macros that end in a panic or an error.
const DIVERGING: [&str; 5] = ["panic", "todo", "unimplemented", "unreachable", "bail"];

/// Returns the last segment of a macro's path.
pub(super) fn macro_name(mac: &Macro) -> String {
    mac.path.segments.last().map(|last| last.ident.unraw().to_string()).unwrap_or_default()
}

fn is_one_of(mac: &Macro, names: &[&str]) -> bool {
    let name = macro_name(mac);
    names.iter().any(|known| *known == name)
}

/// Returns the name of the form if the macro is one. The last segment of the path decides, so
/// `agentflow::gate!` is a form too. A program may have a macro with the same name: with other
/// brackets or with `=>` in its input, it is not a form.
pub(super) fn form(mac: &Macro) -> Option<String> {
    let is_call = matches!(mac.delimiter, syn::MacroDelimiter::Paren(_));
    (is_call && is_one_of(mac, &FORMS) && !has_arrow(mac.tokens.clone())).then(|| macro_name(mac))
}

fn has_arrow(tokens: TokenStream) -> bool {
    let mut before = ' ';
    tokens.into_iter().any(|token| {
        let mark = match token {
            TokenTree::Punct(punct) => punct.as_char(),
            _ => ' ',
        };
        std::mem::replace(&mut before, mark) == '=' && mark == '>'
    })
}

/// Returns the first form that is awaited inside of an expression.
pub(super) fn form_within(expr: &Expr) -> Option<&Macro> {
    struct Within<'a>(Option<&'a Macro>);
    impl<'a> Visit<'a> for Within<'a> {
        fn visit_expr_await(&mut self, awaited: &'a ExprAwait) {
            if let Expr::Macro(mac) = plain(&awaited.base)
                && form(&mac.mac).is_some()
            {
                self.0.get_or_insert(&mac.mac);
            }
            visit::visit_expr_await(self, awaited);
        }

        fn visit_item(&mut self, _: &'a Item) {}
    }
    let mut within = Within(None);
    within.visit_expr(expr);
    within.0
}

/// Returns `true` if the expression is a form, awaited or not.
pub(super) fn is_form(expr: &Expr) -> bool {
    matches!(future(expr), Expr::Macro(mac) if form(&mac.mac).is_some())
}

/// Returns `true` if the arguments of a macro are comma-separated expressions, which may be steps
/// or calls.
pub(super) fn takes_expressions(mac: &Macro) -> bool {
    is_one_of(mac, &OF_EXPRESSIONS)
}

/// Returns the first `.await` of the expression, except in closures and `async` blocks. A macro
/// that may await counts.
pub(super) fn awaits(expr: &Expr) -> Option<Span> {
    first_await(|visit| visit.visit_expr(expr))
}

/// Returns the first `.await` of a block.
pub(super) fn block_awaits(block: &Block) -> Option<Span> {
    first_await(|visit| visit.visit_block(block))
}

/// Returns the expression without parentheses and invisible groups.
pub(super) fn plain(expr: &Expr) -> &Expr {
    match expr {
        Expr::Paren(paren) => plain(&paren.expr),
        Expr::Group(group) => plain(&group.expr),
        other => other,
    }
}

/// Returns the expression without `?` and `.await`.
pub(super) fn future(expr: &Expr) -> &Expr {
    match plain(expr) {
        Expr::Try(tried) => future(&tried.expr),
        Expr::Await(awaited) => future(&awaited.base),
        other => other,
    }
}

/// Returns the essential call of an expression. It removes operations on the output such as
/// `.await`, `?`, `.context("..")` and field access, and a surrounding `Some(..)` or `Ok(..)`.
pub(super) fn about(expr: &Expr) -> &Expr {
    match plain(expr) {
        Expr::Try(tried) => about(&tried.expr),
        Expr::Await(awaited) => about(&awaited.base),
        Expr::Field(field) => about(&field.base),
        Expr::Reference(reference) => about(&reference.expr),
        Expr::MethodCall(call)
            if awaits(&call.receiver).is_some()
                || ADAPTORS.iter().any(|name| call.method == name)
                    && matches!(plain(&call.receiver), Expr::Call(_) | Expr::MethodCall(_)) =>
        {
            about(&call.receiver)
        }
        Expr::Call(call) => match wrapped_in(call, &["Ok", "Some"]) {
            Some(inner) if awaits(inner).is_some() => about(inner),
            _ => plain(expr),
        },
        other => other,
    }
}

fn wrapped_in<'e>(call: &'e syn::ExprCall, names: &[&str]) -> Option<&'e Expr> {
    match plain(&call.func) {
        Expr::Path(path) if call.args.len() == 1 => {
            let last = path.path.segments.last()?;
            names.iter().any(|name| last.ident == name).then(|| call.args.first()).flatten()
        }
        _ => None,
    }
}

/// Returns the name of the essential call of an expression.
pub(super) fn called(expr: &Expr) -> String {
    match about(expr) {
        Expr::Call(call) => match plain(&call.func) {
            Expr::Path(path) => path
                .path
                .segments
                .last()
                .map(|segment| segment.ident.unraw().to_string())
                .unwrap_or_default(),
            _ => "step".to_owned(),
        },
        Expr::MethodCall(call) => call.method.unraw().to_string(),
        Expr::Path(path) => {
            path.path.segments.last().map(|last| last.ident.unraw().to_string()).unwrap_or_default()
        }
        Expr::Macro(mac) => macro_name(&mac.mac),
        Expr::Match(_) => "match".to_owned(),
        Expr::If(_) => "if".to_owned(),
        Expr::ForLoop(_) => "for".to_owned(),
        _ => "step".to_owned(),
    }
}

/// Returns the path or method that an expression calls, as written.
pub(super) fn calls(expr: &Expr) -> String {
    match about(expr) {
        Expr::Call(call) => written(&call.func),
        Expr::MethodCall(call) => call.method.to_string(),
        _ => String::new(),
    }
}

/// Formats tokens approximately like a person would write them.
pub(super) fn written(tokens: &impl ToTokens) -> String {
    let text = tokens.to_token_stream().to_string();
    let mut text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    // Token streams are printed with spaces between all tokens.
    for (from, to) in [
        (" :: ", "::"),
        (":: ", "::"),
        (" . ", "."),
        (" (", "("),
        ("( ", "("),
        (" )", ")"),
        (" ,", ","),
        ("& ", "&"),
        (" ?", "?"),
        (" ;", ";"),
        (" !", "!"),
        ("! (", "!("),
    ] {
        text = text.replace(from, to);
    }
    text
}

pub(super) fn is_route(expr: &Expr) -> bool {
    matches!(plain(expr), Expr::If(_) | Expr::Match(_))
}

/// Returns `x` of `Ok(x)`.
pub(super) fn in_ok(expr: &Expr) -> Option<&Expr> {
    match plain(expr) {
        Expr::Call(call) => wrapped_in(call, &["Ok"]),
        _ => None,
    }
}

/// Returns `true` if the expression is `Err(..)`.
fn is_err(expr: &Expr) -> bool {
    matches!(plain(expr), Expr::Call(call) if wrapped_in(call, &["Err"]).is_some())
}

/// Returns `true` if the only possible effect of a statement is a failure: an assertion, or a
/// choice that returns an error.
pub(super) fn is_assertion(expr: &Expr) -> bool {
    match plain(expr) {
        Expr::Macro(mac) => {
            let name = macro_name(&mac.mac);
            name.starts_with("assert") || name.starts_with("debug_assert") || name == "ensure"
        }
        Expr::Try(_) => true,
        Expr::If(test) => block_diverges(&test.then_branch),
        Expr::Block(block) => match block.block.stmts.last() {
            Some(Stmt::Local(local)) => local.init.as_ref().is_some_and(|init| {
                init.diverge.is_some() || matches!(plain(&init.expr), Expr::Try(_))
            }),
            _ => false,
        },
        _ => false,
    }
}

/// Returns `true` if a block or a loop in an expression contains a check: an assertion, a choice
/// that returns an error, or a `?` in a statement without a step.
pub(super) fn has_check(expr: &Expr) -> bool {
    struct Checks(bool);
    impl<'a> Visit<'a> for Checks {
        fn visit_stmt(&mut self, statement: &'a Stmt) {
            self.0 |= match statement {
                Stmt::Expr(expr, _) => is_assertion(expr) && awaits(expr).is_none(),
                Stmt::Macro(mac) => is_assertion(&Expr::Macro(syn::ExprMacro {
                    attrs: Vec::new(),
                    mac: mac.mac.clone(),
                })),
                Stmt::Local(local) => local.init.as_ref().is_some_and(|init| {
                    let fails = init.diverge.as_ref().is_some_and(|(_, other)| diverges(other))
                        || matches!(local.pat, syn::Pat::Wild(_)) && is_assertion(&init.expr);
                    fails && awaits(&init.expr).is_none()
                }),
                Stmt::Item(_) => false,
            };
            visit::visit_stmt(self, statement);
        }

        fn visit_expr_async(&mut self, _: &'a ExprAsync) {}

        fn visit_expr_closure(&mut self, _: &'a ExprClosure) {}

        fn visit_item(&mut self, _: &'a Item) {}
    }
    let mut checks = Checks(false);
    checks.visit_expr(expr);
    checks.0
}

/// Returns `true` if a macro ends in a panic or an error.
pub(super) fn macro_diverges(mac: &Macro) -> bool {
    is_one_of(mac, &DIVERGING)
}

/// Returns `true` if an expression never has a value: a panic, an error, `return Err(..)`, or a
/// block that ends in one of them.
pub(super) fn diverges(expr: &Expr) -> bool {
    match plain(expr) {
        Expr::Macro(mac) => is_one_of(&mac.mac, &DIVERGING),
        Expr::Return(returned) => returned.expr.as_deref().is_some_and(is_err),
        Expr::Block(block) if block.label.is_none() => block_diverges(&block.block),
        _ => false,
    }
}

/// Like [`diverges`], for a block without steps.
pub(super) fn block_diverges(block: &Block) -> bool {
    match block.stmts.last() {
        Some(Stmt::Expr(last, _)) => diverges(last),
        Some(Stmt::Macro(mac)) => is_one_of(&mac.mac, &DIVERGING),
        _ => false,
    }
}

/// Returns `true` if an expression contains a step, a form, or an end of the workflow with a value.
pub(super) fn has_nodes(expr: &Expr) -> bool {
    awaits(expr).is_some() || leaves(expr).is_some()
}

/// Like [`has_nodes`], for a block.
pub(super) fn block_has_nodes(block: &Block) -> bool {
    block_awaits(block).is_some() || block_leaves(block).is_some()
}

/// Returns the first `return` of a value other than `Err(..)`. The code of one node cannot end the
/// workflow in this way.
pub(super) fn leaves(expr: &Expr) -> Option<Span> {
    let mut leaves = Leaves(None);
    leaves.visit_expr(expr);
    leaves.0
}

/// Like [`leaves`], for a block.
pub(super) fn block_leaves(block: &Block) -> Option<Span> {
    let mut leaves = Leaves(None);
    leaves.visit_block(block);
    leaves.0
}

struct Leaves(Option<Span>);

impl<'a> Visit<'a> for Leaves {
    fn visit_expr_return(&mut self, returned: &'a ExprReturn) {
        if !returned.expr.as_deref().is_some_and(is_err) {
            self.0.get_or_insert(returned.return_token.span);
        }
    }

    fn visit_expr_async(&mut self, _: &'a ExprAsync) {}

    fn visit_expr_closure(&mut self, _: &'a ExprClosure) {}

    fn visit_item(&mut self, _: &'a Item) {}
}

/// Returns the first `.await` of the visited code, except in closures and `async` blocks.
pub(super) fn first_await(look: impl FnOnce(&mut Awaits)) -> Option<Span> {
    let mut awaits = Awaits(None);
    look(&mut awaits);
    awaits.0
}

pub(super) struct Awaits(Option<Span>);

impl<'a> Visit<'a> for Awaits {
    fn visit_expr_await(&mut self, awaited: &'a ExprAwait) {
        // Inner awaits come first in the source, so they are visited before this one is recorded.
        visit::visit_expr_await(self, awaited);
        self.0.get_or_insert(awaited.await_token.span);
    }

    fn visit_macro(&mut self, mac: &'a Macro) {
        // An unknown macro may await its input, so it counts as a step.
        let unknown = is_one_of(mac, &AWAITING) || !is_one_of(mac, &PLAIN);
        let span = mac.path.segments.last().map(|last| last.ident.span());
        if let Some(span) = await_in(mac.tokens.clone()).or(span.filter(|_| unknown)) {
            self.0.get_or_insert(span);
        }
    }

    fn visit_expr_async(&mut self, _: &'a ExprAsync) {}

    fn visit_expr_closure(&mut self, _: &'a ExprClosure) {}

    fn visit_item(&mut self, _: &'a Item) {}
}

/// Returns `true` for a block that consists of one `let .. else`.
pub(super) fn is_let_else(expr: &Expr) -> bool {
    let Expr::Block(block) = expr else { return false };
    let is_else =
        |local: &syn::Local| local.init.as_ref().is_some_and(|init| init.diverge.is_some());
    matches!(&block.block.stmts[..], [Stmt::Local(local)] if is_else(local))
}

/// Returns `true` for a `let` of a `None` without a type, whose type is inferred in its readers.
pub(super) fn is_untyped_none(local: &syn::Local) -> bool {
    let init = local.init.as_ref().map(|init| plain(&init.expr));
    matches!(local.pat, syn::Pat::Ident(_))
        && matches!(init, Some(Expr::Path(path)) if path.path.is_ident("None"))
}

/// Returns the variables that are awaited, directly or as arguments of a macro that awaits them.
pub(super) fn awaited_names(tokens: TokenStream) -> Vec<Ident> {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut names = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match (token, tokens.get(at + 1..at + 3)) {
            (TokenTree::Ident(name), Some([TokenTree::Punct(dot), TokenTree::Ident(word)])) => {
                names.extend((dot.as_char() == '.' && word == "await").then(|| name.clone()));
            }
            (TokenTree::Group(group), _) => names.extend(awaited_names(group.stream())),
            _ => {}
        }
        // `join!(a, b)` awaits its arguments without a visible `.await`.
        if let (TokenTree::Ident(name), Some([TokenTree::Punct(mark), TokenTree::Group(group)])) =
            (token, tokens.get(at + 1..at + 3))
            && mark.as_char() == '!'
            && AWAITING.iter().any(|known| name == known)
        {
            names.extend(group.stream().into_iter().filter_map(|token| match token {
                TokenTree::Ident(name) => Some(name),
                _ => None,
            }));
        }
    }
    names
}

fn await_in(tokens: TokenStream) -> Option<Span> {
    let mut after_dot = false;
    for token in tokens {
        match &token {
            TokenTree::Ident(ident) if after_dot && ident == "await" => return Some(ident.span()),
            TokenTree::Group(group) => {
                if let Some(span) = await_in(group.stream()) {
                    return Some(span);
                }
            }
            _ => {}
        }
        after_dot = matches!(&token, TokenTree::Punct(punct) if punct.as_char() == '.');
    }
    None
}

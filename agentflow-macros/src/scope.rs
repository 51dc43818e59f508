//! Finds the free names of an expression, which are the names that it reads and does not bind. In
//! the arguments of a macro, every word counts as a name, and so does `{name}` in a string. A
//! superfluous name costs an unnecessary edge; a missing name would not compile.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{
    Arm, Block, Expr, ExprCall, ExprClosure, ExprForLoop, ExprIf, ExprPath, ExprWhile, Item, Local,
    Macro, Stmt, Token,
};

use crate::patterns::{binds, binds_of_condition, names};

/// Returns the names that an expression reads, in the order of their first use.
pub(crate) fn names_read_by_expr(expr: &Expr) -> Vec<String> {
    let mut reads = Reads::default();
    reads.visit_expr(expr);
    reads.free
}

/// Returns the names that a `let` reads.
pub(crate) fn names_read_by_let(local: &Local) -> Vec<String> {
    let mut reads = Reads::default();
    reads.visit_let(local);
    reads.free
}

/// Returns the names that the rules of a macro may read.
pub(crate) fn names_read_by_macro(rules: &Macro) -> Vec<String> {
    let mut reads = Reads::default();
    reads.tokens(rules.tokens.clone());
    reads.free
}

/// Returns the name under which a use of a macro of the body is recorded.
pub(crate) fn macro_name(ident: &Ident) -> String {
    format!("{}!", ident.unraw())
}

/// Returns the position at which a block certainly reads a free name. Unknown macros are not
/// searched, and a called name may be a function.
pub(crate) fn surely_reads(block: &Block, name: &str) -> Option<Span> {
    let mut reads = Reads {
        certain: Some(NameSearch { name: name.to_owned(), found: None }),
        ..Reads::default()
    };
    reads.visit_block(block);
    reads.certain.and_then(|certain| certain.found)
}

#[derive(Default)]
struct Reads {
    free: Vec<String>,
    bound: Vec<String>,
    certain: Option<NameSearch>,
}

/// A name to look for.
struct NameSearch {
    name: String,
    found: Option<Span>,
}

/// Macros whose arguments are expressions.
const OF_EXPRESSIONS: [&str; 20] = [
    "assert",
    "assert_eq",
    "assert_ne",
    "debug_assert",
    "eprint",
    "eprintln",
    "fallback",
    "format",
    "gate",
    "map",
    "panic",
    "print",
    "println",
    "race",
    "repeat",
    "timeout",
    "vec",
    "write",
    "writeln",
    "dbg",
];

impl Reads {
    fn read(&mut self, name: String) {
        if !self.bound.contains(&name) && !self.free.contains(&name) {
            self.free.push(name);
        }
    }

    fn bind(&mut self, names: &[Ident]) {
        self.bound.extend(names.iter().map(|ident| ident.unraw().to_string()));
    }

    /// Visits a scope and drops the names that it binds at its end.
    fn scope(&mut self, within: impl FnOnce(&mut Self)) {
        let outside = self.bound.len();
        within(self);
        self.bound.truncate(outside);
    }

    /// Visits the expressions of a `let`, which cannot use the names of its pattern.
    fn visit_let(&mut self, local: &Local) {
        self.visit_pat(&local.pat);
        if let Some(init) = &local.init {
            self.visit_expr(&init.expr);
            if let Some((_, diverge)) = &init.diverge {
                self.visit_expr(diverge);
            }
        }
    }

    fn bind_condition(&mut self, condition: &Expr) {
        self.bind(&binds_of_condition(condition));
    }

    fn tokens(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Ident(ident) => self.read(ident.unraw().to_string()),
                TokenTree::Literal(literal) => {
                    if let syn::Lit::Str(text) = syn::Lit::new(literal) {
                        placeholders(&text.value()).for_each(|name| self.read(name.to_owned()));
                    }
                }
                TokenTree::Punct(_) => {}
            }
        }
    }
}

/// Returns the names in `{name}` and `{name:?}`, and the names of a width or precision as in
/// `{x:0width$.prec$}`.
pub(crate) fn placeholders(text: &str) -> impl Iterator<Item = &str> {
    text.split('{').skip(1).flat_map(|rest| {
        let inside = rest.split('}').next().unwrap_or_default();
        let (name, spec) = inside.split_once(':').unwrap_or((inside, ""));
        // A name precedes each `$`; fill, alignment and zero padding precede the name.
        let sizes =
            spec.split_inclusive('$').filter_map(|part| part.strip_suffix('$')).map(|part| {
                let word = part
                    .rsplit(|c: char| c != '_' && !c.is_alphanumeric())
                    .next()
                    .unwrap_or_default();
                word.trim_start_matches(|c: char| c.is_ascii_digit())
            });
        std::iter::once(name.trim()).chain(sizes).filter(|name| {
            name.chars().next().is_some_and(|first| first == '_' || first.is_alphabetic())
                && name.chars().all(|c| c == '_' || c.is_alphanumeric())
        })
    })
}

impl<'a> Visit<'a> for Reads {
    fn visit_expr_path(&mut self, path: &'a ExprPath) {
        if let Some(ident) = path.path.get_ident().filter(|_| path.qself.is_none()) {
            if let Some(certain) = self.certain.as_mut().filter(|certain| *ident == certain.name)
                && !self.bound.contains(&certain.name)
            {
                certain.found.get_or_insert(ident.span());
            }
            self.read(ident.unraw().to_string());
        }
        visit::visit_expr_path(self, path);
    }

    fn visit_expr_call(&mut self, call: &'a ExprCall) {
        // A called name may be a function item, so it is not certainly a variable.
        if self.certain.is_none() || !matches!(&*call.func, Expr::Path(_)) {
            self.visit_expr(&call.func);
        }
        call.args.iter().for_each(|argument| self.visit_expr(argument));
    }

    fn visit_macro(&mut self, mac: &'a Macro) {
        if self.certain.is_some() {
            let known = mac
                .path
                .segments
                .last()
                .is_some_and(|last| OF_EXPRESSIONS.iter().any(|name| last.ident == name));
            let arguments = Punctuated::<Expr, Token![,]>::parse_terminated;
            if let Some(arguments) =
                known.then(|| arguments.parse2(mac.tokens.clone()).ok()).flatten()
            {
                let mut inner = Reads {
                    bound: self.bound.clone(),
                    certain: self.certain.take(),
                    ..Self::default()
                };
                arguments.iter().for_each(|argument| inner.visit_expr(argument));
                self.certain = inner.certain;
            }
            return;
        }
        if let Some(ident) = mac.path.get_ident() {
            self.read(macro_name(ident));
        }
        self.tokens(mac.tokens.clone());
    }

    fn visit_block(&mut self, block: &'a Block) {
        self.scope(|this| {
            for statement in &block.stmts {
                match statement {
                    Stmt::Local(local) => {
                        this.visit_let(local);
                        this.bind(&names(&local.pat));
                    }
                    other => this.visit_stmt(other),
                }
            }
        });
    }

    fn visit_expr_closure(&mut self, closure: &'a ExprClosure) {
        self.scope(|this| {
            for input in &closure.inputs {
                this.visit_pat(input);
                this.bind(&names(input));
            }
            this.visit_expr(&closure.body);
        });
    }

    fn visit_arm(&mut self, arm: &'a Arm) {
        self.scope(|this| {
            this.bind(&binds(&arm.pat));
            this.visit_pat(&arm.pat);
            this.visit_expr(&arm.body);
        });
    }

    fn visit_expr_if(&mut self, test: &'a ExprIf) {
        self.scope(|this| {
            this.condition(&test.cond);
            this.visit_block(&test.then_branch);
        });
        if let Some((_, other)) = &test.else_branch {
            self.visit_expr(other);
        }
    }

    fn visit_expr_while(&mut self, repeated: &'a ExprWhile) {
        self.scope(|this| {
            this.condition(&repeated.cond);
            this.visit_block(&repeated.body);
        });
    }

    fn visit_expr_for_loop(&mut self, repeated: &'a ExprForLoop) {
        self.visit_expr(&repeated.expr);
        self.scope(|this| {
            this.bind(&names(&repeated.pat));
            this.visit_block(&repeated.body);
        });
    }

    /// Visits only macros, because only their rules can use variables that are bound above.
    fn visit_item(&mut self, item: &'a Item) {
        if let Item::Macro(item) = item
            && self.certain.is_none()
        {
            self.tokens(item.mac.tokens.clone());
        }
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            // Code that syn cannot parse may read any name.
            Expr::Verbatim(tokens) => self.tokens(tokens.to_token_stream()),
            other => visit::visit_expr(self, other),
        }
    }
}

impl Reads {
    /// Visits a condition with `let`s. Each part sees the names that the parts before it bind.
    fn condition(&mut self, condition: &Expr) {
        match condition {
            Expr::Binary(both) if matches!(both.op, syn::BinOp::And(_)) => {
                self.condition(&both.left);
                self.condition(&both.right);
            }
            other => {
                self.visit_expr(other);
                self.bind_condition(other);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{names_read_by_expr, names_read_by_let, surely_reads};

    fn reads(text: &str) -> String {
        names_read_by_expr(&syn::parse_str(text).unwrap_or_else(|error| panic!("{text}: {error}")))
            .join(" ")
    }

    #[test]
    fn what_is_bound_within_is_not_read() {
        for (expr, expected) in [
            ("f(a, b.c, d::e)", "f a b"),
            ("f(|a| a + b)", "f b"),
            ("f(|(a, Some(b)): (u8, Option<u8>)| a + b + c)", "f c"),
            ("{ let a = a; let b = 1; a + b }", "a"),
            ("b + { let a = 1; a } + a", "b a"),
            ("match a { Some(b) if b > c => b, None => d, _ => e }", "a c d e"),
            ("if let Some(a) = b && a > c { a } else { a }", "b c a"),
            ("while let Some(x) = it.next() { x; }", "it"),
            ("{ for x in xs { x; } x }", "xs x"),
            ("S { a, b: c, ..d }", "a c d"),
            ("x.map(|y| y.z(w))", "x w"),
            ("async { a.b.await }", "a"),
            ("{ fn g() -> u8 { a } b }", "b"),
            ("{ macro_rules! m { () => { a } } b }", "a b"),
            ("{ let (A, B) = a; f(A, B) }", "a f"),
            ("f(|(A, b)| A + b)", "f"),
            ("[a; N]", "a N"),
            ("a as T", "a"),
            ("&mut a[b..c]", "a b c"),
            ("r#type + 1", "type"),
        ] {
            assert_eq!(reads(expr), expected, "{expr}");
        }
    }

    #[test]
    fn what_is_surely_read() {
        let reads = |text: &str| surely_reads(&syn::parse_str(text).expect(text), "cx").is_some();
        for text in [
            "{ cx.now() }",
            "{ f(&cx); }",
            "{ format!(\"{}\", cx.now()) }",
            "{ let x = map!(xs, |x| f(cx, x)).await?; }",
            "{ f({ let cx = 1; cx }, cx) }",
            "{ let cx = cx.clone(); }",
        ] {
            assert!(reads(text), "{text}");
        }
        for text in [
            "{ let cx = f(); cx.now() }",
            "{ f(|cx| cx.now()) }",
            "{ cx(); }",
            "{ a.cx }",
            "{ cx::now() }",
            "{ S { cx: 1 } }",
            "{ select! { cx = f() => cx } }",
            "{ for cx in all { f(cx); } }",
            "{ match a { Some(cx) => f(cx), None => g() } }",
            "{ poll_fn(|cx: &mut Context| f(cx)).await }",
            "{ fn g(cx: u8) -> u8 { cx } }",
        ] {
            assert!(!reads(text), "{text}");
        }
    }

    #[test]
    fn format_strings_read_their_names() {
        let text = r#"format!("{a} {b:?} {{c}} {0} {d:>width$.prec$} {f:0size$} {}", e)"#;
        assert_eq!(reads(text), "format! a b c d width prec f size e");
        assert_eq!(reads(r#"vec![a, f(b)]"#), "vec! a f b");
    }

    #[test]
    fn a_let_does_not_see_itself() {
        let local: syn::Stmt = syn::parse_str("let (a, b) = f(a, c);").expect("a statement");
        let syn::Stmt::Local(local) = local else { panic!("not a let") };
        assert_eq!(names_read_by_let(&local).join(" "), "f a c");
    }
}

//! Finds the names that a pattern binds, and derives the name of an arm. In an irrefutable pattern,
//! every name is a binding. In other patterns, a name that starts with a lower-case letter is a
//! binding.

use proc_macro2::Ident;
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::visit::Visit;
use syn::{Expr, Lit, Pat, PatIdent};

/// Returns the names that a pattern binds, each once.
///
/// Only the compiler can distinguish a binding from a constant. By convention, constants and
/// variants start with an upper-case letter.
pub(crate) fn binds(pat: &Pat) -> Vec<Ident> {
    names_in(pat, &is_certain)
}

/// Returns the names that the pattern of a `let`, a loop or a closure binds, each once. Here a name
/// with an upper-case letter is a variable too, because a constant would be refutable.
pub(crate) fn names(pat: &Pat) -> Vec<Ident> {
    names_in(pat, &|pat| is_certain(pat) || pat.ident != "None")
}

/// Returns the upper-case names in a pattern, which may be variables, constants or variants.
pub(crate) fn uncertain(pat: &Pat) -> Vec<Ident> {
    names_in(pat, &|pat| !is_certain(pat) && pat.ident != "None")
}

/// Returns the names that a pattern binds as `mut`.
pub(crate) fn mutable(pat: &Pat) -> Vec<Ident> {
    names_in(pat, &|pat| pat.mutability.is_some())
}

fn names_in(pat: &Pat, is: &dyn Fn(&PatIdent) -> bool) -> Vec<Ident> {
    struct Names<'i> {
        found: Vec<Ident>,
        is: &'i dyn Fn(&PatIdent) -> bool,
    }
    impl<'a> Visit<'a> for Names<'_> {
        fn visit_pat_ident(&mut self, pat: &'a PatIdent) {
            if (self.is)(pat) && !self.found.contains(&pat.ident) {
                self.found.push(pat.ident.clone());
            }
            if let Some((_, inner)) = &pat.subpat {
                self.visit_pat(inner);
            }
        }

        // Expressions in a pattern, such as guards, may contain patterns with a separate scope.
        fn visit_expr(&mut self, _: &'a Expr) {}
    }
    let mut names = Names { found: Vec::new(), is };
    names.visit_pat(pat);
    names.found
}

fn is_certain(pat: &PatIdent) -> bool {
    pat.by_ref.is_some()
        || pat.mutability.is_some()
        || pat.subpat.is_some()
        || is_variable(&pat.ident)
}

/// Letters without case, as in many scripts, start a variable too.
fn is_variable(ident: &Ident) -> bool {
    ident.unraw().to_string().chars().next().is_some_and(|first| !first.is_uppercase())
}

/// Returns `true` if a pattern binds a name.
pub(crate) fn has_bindings(pat: &Pat) -> bool {
    !binds(pat).is_empty()
}

/// Returns the names that `if let` and its chains bind for their block.
pub(crate) fn binds_of_condition(condition: &Expr) -> Vec<Ident> {
    let mut all = Vec::new();
    for pat in patterns_of(condition) {
        for bind in binds(pat) {
            if !all.contains(&bind) {
                all.push(bind);
            }
        }
    }
    all
}

/// Returns the patterns of an `if let` and its chains.
pub(crate) fn patterns_of(condition: &Expr) -> Vec<&Pat> {
    match condition {
        Expr::Let(test) => vec![&test.pat],
        Expr::Binary(both) if matches!(both.op, syn::BinOp::And(_)) => {
            let mut all = patterns_of(&both.left);
            all.extend(patterns_of(&both.right));
            all
        }
        Expr::Group(group) => patterns_of(&group.expr),
        _ => Vec::new(),
    }
}

/// Returns the pattern without its guard.
pub(crate) fn unguarded(pat: &Pat) -> &Pat {
    match pat {
        Pat::Guard(guard) => &guard.pat,
        other => other,
    }
}

/// Returns the name of an arm derived from its pattern: `Granted`, `404`, `else`.
pub(crate) fn arm_name(pat: &Pat) -> String {
    let name = match pat {
        Pat::Guard(guard) => arm_name(&guard.pat),
        Pat::Wild(_) | Pat::Rest(_) => "else".to_owned(),
        Pat::Ident(pat) => pat
            .subpat
            .as_ref()
            .map_or_else(|| pat.ident.unraw().to_string(), |(_, pat)| arm_name(pat)),
        Pat::Path(path) => last_segment(&path.path),
        Pat::Struct(pat) => last_segment(&pat.path),
        Pat::TupleStruct(pat) => last_segment(&pat.path),
        Pat::Reference(pat) => arm_name(&pat.pat),
        Pat::Paren(pat) => arm_name(&pat.pat),
        Pat::Or(pat) => pat.cases.iter().map(arm_name).collect::<Vec<_>>().join("_or_"),
        Pat::Tuple(pat) => pat.elems.iter().map(arm_name).collect::<Vec<_>>().join("_"),
        Pat::Lit(literal) => match &literal.lit {
            Lit::Str(text) => text.value(),
            Lit::Char(character) => character.value().to_string(),
            other => other.to_token_stream().to_string(),
        },
        other => other.to_token_stream().to_string().replace(' ', ""),
    };
    as_name(&name)
}

fn last_segment(path: &syn::Path) -> String {
    path.segments.last().map(|segment| segment.ident.unraw().to_string()).unwrap_or_default()
}

/// Replaces every character that is not allowed in a node's name.
pub(crate) fn as_name(text: &str) -> String {
    let name: String = text
        .chars()
        .map(|c| match c {
            '/' | '[' | ']' | '%' | '"' | '\\' | '#' => '_',
            c if c.is_whitespace() || c.is_control() => '_',
            c => c,
        })
        .collect();
    if name.is_empty() { "empty".to_owned() } else { name }
}

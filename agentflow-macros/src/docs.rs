//! Converts documentation comments into descriptions. It does not interpret placeholders.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Attribute, Expr, Lit, LitStr, Meta};

/// Returns the text of `///` and `#[doc = ".."]` as a string expression.
pub(crate) fn description(attrs: &[Attribute], krate: &syn::Path) -> TokenStream {
    let mut pieces: Vec<Piece> = Vec::new();
    for attr in attrs {
        let Some(value) = doc(attr) else { continue };
        match (value, pieces.last_mut()) {
            (Expr::Lit(syn::ExprLit { lit: Lit::Str(line), .. }), Some(Piece::Text(text))) => {
                text.push('\n');
                text.push_str(&unindented(&line.value()));
            }
            (Expr::Lit(syn::ExprLit { lit: Lit::Str(line), .. }), _) => {
                pieces.push(Piece::Text(unindented(&line.value())));
            }
            (other, _) => pieces.push(Piece::Other(Box::new(other.clone()))),
        }
    }
    match pieces.as_slice() {
        [] => quote!(""),
        [Piece::Text(text)] => {
            let text = trimmed(text);
            quote!(#text)
        }
        // For example `#[doc = include_str!("..")]`, which only the compiler can evaluate.
        pieces => {
            let pieces = pieces.iter().map(|piece| match piece {
                Piece::Text(text) => quote!(#text, "\n"),
                Piece::Other(expr) => quote!(#expr, "\n"),
            });
            quote!(#krate::__private::concat!(#(#pieces),*))
        }
    }
}

enum Piece {
    Text(String),
    Other(Box<Expr>),
}

/// Returns the value of `#[doc = ..]`, and `None` for `#[doc(..)]`.
pub(crate) fn doc(attr: &Attribute) -> Option<&Expr> {
    match &attr.meta {
        Meta::NameValue(meta) if meta.path.is_ident("doc") => Some(&meta.value),
        _ => None,
    }
}

/// Removes the space after `///` from every line, or the stars of `/** */`.
pub(crate) fn unindented(text: &str) -> String {
    let line = |line: &str| line.strip_prefix(' ').unwrap_or(line).trim_end().to_owned();
    if !text.contains('\n') {
        return line(text);
    }
    let starred = |text: &str| {
        let text = text.trim();
        line(text.strip_prefix('*').unwrap_or(text))
    };
    text.lines().map(starred).collect::<Vec<_>>().join("\n")
}

fn trimmed(text: &str) -> LitStr {
    LitStr::new(text.trim(), proc_macro2::Span::call_site())
}

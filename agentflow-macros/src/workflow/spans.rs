//! Spans for generated code. They determine where the compiler reports errors.

use proc_macro2::{Group, Ident, Span, TokenStream, TokenTree};

/// Returns a variable of the expansion. Errors about it are reported at the span.
pub(super) fn own(name: &str, span: Span) -> Ident {
    Ident::new(name, span.resolved_at(Span::mixed_site()))
}

/// Returns the same tokens with this span for error messages.
pub(super) fn located(tokens: &TokenStream, span: Span) -> TokenStream {
    let one = |token: TokenTree| match token {
        TokenTree::Group(group) => {
            let mut moved = Group::new(group.delimiter(), located(&group.stream(), span));
            moved.set_span(span.resolved_at(group.span()));
            TokenTree::Group(moved)
        }
        mut other => {
            other.set_span(span.resolved_at(other.span()));
            other
        }
    };
    tokens.clone().into_iter().map(one).collect()
}

//! Deliberate faults of the macro, which the tests of the meaning must find.

use proc_macro2::TokenStream;

/// A fault of the macro's analysis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutation {
}

/// Expands a function like the macro with this fault.
pub(crate) fn expand(
    options: TokenStream,
    item: TokenStream,
    mutation: Option<Mutation>,
) -> TokenStream {
    let _ = mutation;
    super::expand(options, item)
}

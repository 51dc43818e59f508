//! Generates compile-time checks that bound values own their data. The checks are at the end of
//! straight-line code, where all types are known. They add no nodes.

use proc_macro2::{Span, TokenStream};
use quote::quote_spanned;

use super::nodes::Writer;

impl Writer<'_> {
    /// Generates a check for each value that was bound since `first`.
    pub(super) fn owned(&self, first: usize) -> TokenStream {
        let checks = self.bound[first..].iter().map(|(variable, span)| {
            let (private, _) = self.at(*span);
            let span = span.resolved_at(Span::mixed_site());
            quote_spanned!(span=> #private::Output(&#variable).owned();)
        });
        checks.collect()
    }
}

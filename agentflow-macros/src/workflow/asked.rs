//! Writes what asks the compiler, behind the end of straight-line code, where all types are known, whether what is bound
//! owns its data. It adds no nodes.

use proc_macro2::{Span, TokenStream};
use quote::quote_spanned;

use super::nodes::Writer;

impl Writer<'_> {
    /// Asks the compiler whether what was bound owns its data.
    pub(super) fn owned(&self, first: usize) -> TokenStream {
        let checks = self.bound[first..].iter().map(|(variable, span)| {
            let (private, _) = self.at(*span);
            let span = span.resolved_at(Span::mixed_site());
            quote_spanned!(span=> #private::Output(&#variable).owned();)
        });
        checks.collect()
    }
}

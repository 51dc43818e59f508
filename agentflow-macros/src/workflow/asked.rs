//! Writes what only asks the compiler, at the end of straight-line code, where all types are known: whether what several
//! nodes go through has one order, and whether what is bound owns its data. It adds no nodes.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;

use super::env::Env;
use super::iterated;
use super::model::{Node, Statement};
use super::nodes::Writer;
use crate::scope;

impl Writer<'_> {
    /// Asks the compiler whether what several nodes go through has one order.
    pub(super) fn in_one_order(&mut self, statements: &[Statement], tail: &Node, env: &mut Env) -> TokenStream {
        let checks = iterated::by_several(statements, tail).into_iter().filter_map(|part| {
            let names = scope::of_expr(&part);
            names.iter().all(|name| env.is_local(name)).then(|| {
                let opened = self.open(&names, env);
                let (private, steps) = self.at(part.span().resolved_at(Span::mixed_site()));
                let span = part.span();
                let check = quote_spanned!(span=> {
                    #[allow(unused_imports)]
                    use #private::Ordered as _;
                    #private::GoneThrough(&#part).in_one_order()
                });
                let closure = self.pure(&opened, &check, Span::mixed_site());
                let reads = &opened.reads;
                quote!(#steps.unread(#reads, #closure);)
            })
        });
        checks.collect()
    }

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

//! Paths to tools, as they stand in `tools![..]` and `#[agent(tools = [..])]`.

use proc_macro2::{TokenStream, TokenTree};
use quote::{quote, quote_spanned};
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{Path, PathArguments, Token};

use crate::errors::Errors;
use crate::function::ends;

/// `tools![..]` behind its own crate: `($crate) path, path` becomes a list of `ToolRef`s.
pub(crate) fn tool_refs(input: TokenStream) -> TokenStream {
    let mut input = input.into_iter();
    let Some(TokenTree::Group(krate)) = input.next() else { return quote!([]) };
    let krate = krate.stream();
    let private = quote!(#krate::__private);
    let mut errors = Errors::default();
    let paths = Punctuated::<Path, Token![,]>::parse_terminated.parse2(input.collect()).map_err(|error| {
        syn::Error::new(error.span(), "a tool is named by its path, as in `tools![search, shop::price]`")
    });
    let tools: Vec<_> = match paths {
        Ok(paths) => paths.iter().map(|path| linked(path, &private, &mut errors)).collect(),
        Err(error) => {
            errors.push(error);
            Vec::new()
        }
    };
    match errors.is_empty() {
        true => quote!([#(#krate::ToolRef::linked(#tools)),*]),
        false => quote!({ #errors []}),
    }
}

/// The tool behind a path: an expression.
///
/// A path to a function that is no tool names no type, and the compiler says so in words that help nobody. An import takes
/// whatever a path names: of a tool its struct, and of any other function no type, so that the one of `plain` is seen,
/// which says what is to be done.
pub(crate) fn linked(path: &Path, private: &TokenStream, errors: &mut Errors) -> TokenStream {
    if let Some(segment) = path.segments.iter().find(|segment| !matches!(segment.arguments, PathArguments::None)) {
        errors.at(&segment.arguments, "a tool is not generic; name the function alone");
    }
    let span = ends(path).0;
    quote_spanned! {span=> {
        #[allow(unused_imports)]
        use #path as PlainFunction;
        #[allow(unused_imports, clippy::wildcard_imports)]
        use #private::plain::*;
        <PlainFunction as #private::PathTool>::tool()
    }}
}

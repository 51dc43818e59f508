//! Expands paths to tools in `tools![..]` and `#[agent(tools = [..])]`. The compiler checks that a
//! path names a tool.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{quote, quote_spanned};
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{Path, PathArguments, Token};

use crate::errors::Errors;
use crate::function::ends;

/// Names of the library's own tools.
const OF_AGENTFLOW: [&str; 5] = ["ask_user", "exit_loop", "forget", "recall", "remember"];

/// Names of the tools that were expanded so far in this crate.
static TOOLS: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Records the name of a tool. It affects only error messages.
pub(crate) fn add_tool(name: &Ident) {
    TOOLS.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_string());
}

/// Returns `true` if a tool with this name was expanded before.
fn is_tool(name: &Ident) -> bool {
    TOOLS.lock().unwrap_or_else(PoisonError::into_inner).contains(&name.to_string())
}

/// Expands `tools![..]`: `($crate) path, path` becomes a list of `ToolRef`s.
pub(crate) fn tool_refs(input: TokenStream) -> TokenStream {
    let mut input = input.into_iter();
    let Some(TokenTree::Group(krate)) = input.next() else { return quote!([]) };
    let krate = krate.stream();
    let private = quote!(#krate::__private);
    let mut errors = Errors::default();
    let paths =
        Punctuated::<Path, Token![,]>::parse_terminated.parse2(input.collect()).map_err(|error| {
            syn::Error::new(
                error.span(),
                "`tools!` takes paths of tools, as in `tools![search, shop::price]`",
            )
        });
    let tools: Vec<_> = match paths {
        Ok(paths) => paths.iter().map(|path| linked(path, &private, &mut errors)).collect(),
        Err(error) => {
            errors.push(error);
            Vec::new()
        }
    };
    match errors.is_empty() {
        true => quote!([#(#krate::tool::ToolRef::linked(#tools)),*]),
        false => quote!({ #errors []}),
    }
}

/// Returns an expression for the tool that a path names.
///
/// `<path as PathTool>` would give a poor error for a plain function, because the path does not
/// name a type. Therefore the path is imported as `PlainFunction`. The import of a tool brings its
/// struct. The import of a plain function brings no type, so `PlainFunction` resolves to
/// `__private::plain::PlainFunction`, which does not implement `PathTool` and has a custom error
/// message.
pub(crate) fn linked(path: &Path, private: &TokenStream, errors: &mut Errors) -> TokenStream {
    if let Some(segment) =
        path.segments.iter().find(|segment| !matches!(segment.arguments, PathArguments::None))
    {
        errors.at(&segment.arguments, "a tool is not generic; write the function's path alone");
    }
    let Some(name) = path.get_ident().filter(|name| may_be_misspelt(name)) else {
        return item(path, private, &quote!(tool()));
    };
    // A misspelt name must give only one error: the unresolved value, for which the compiler
    // suggests a similar name. The macro with the same name lets the import succeed. The required
    // trait depends on the type of the value, so the compiler suppresses the error about it.
    let (span, value) = (name.span(), Ident::new("function", Span::mixed_site()));
    let Imports { fallback, import } = Imports::of_path(path, private);
    quote_spanned! {span=> {
        #fallback
        let #value = &#name;
        {
            #[allow(unused_macros)]
            macro_rules! #name { () => {} }
            #import
            <_ as #private::FunctionOf<PlainFunction>>::tool(#value)
        }
    }}
}

/// Generates an associated item of the tool that a path names. The expression may be a constant.
pub(crate) fn item(path: &Path, private: &TokenStream, item: &TokenStream) -> TokenStream {
    let span = ends(path).0;
    let Imports { fallback, import } = Imports::of_path(path, private);
    let found = quote_spanned!(span=> #import <PlainFunction as #private::PathTool>::#item);
    match path.get_ident() {
        // The error message for a plain function suggests to import this tool.
        Some(name) if is_of_agentflow(name) => quote_spanned!(span=> { #fallback #found }),
        // The compiler suggests similar names for an unresolved value, but not for an unresolved
        // import. The inner block prevents an unresolved import from falling back to the plain
        // function.
        Some(name) if may_be_misspelt(name) => {
            quote_spanned!(span=> { #fallback { let _ = #name; #found } })
        }
        _ => quote_spanned!(span=> { #fallback { #found } }),
    }
}

/// Imports of the name `PlainFunction`.
struct Imports {
    /// The glob import that provides the plain function if the path does not name a type.
    fallback: TokenStream,
    import: TokenStream,
}

impl Imports {
    fn of_path(path: &Path, private: &TokenStream) -> Self {
        let fallback = quote! {
            #[allow(unused_imports, clippy::wildcard_imports)]
            use #private::plain::*;
        };
        let import = quote_spanned! {ends(path).0=>
            #[allow(unused_imports)]
            use #path as PlainFunction;
        };
        Self { fallback, import }
    }
}

fn is_of_agentflow(name: &Ident) -> bool {
    OF_AGENTFLOW.iter().any(|known| name == known)
}

/// Returns `true` unless the name is known to be a tool. It may be from another crate or expanded
/// later.
fn may_be_misspelt(name: &Ident) -> bool {
    !is_of_agentflow(name) && !is_tool(name) && !name.to_string().starts_with(char::is_uppercase)
}

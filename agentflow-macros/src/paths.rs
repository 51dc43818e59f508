//! Paths to tools, in `tools![..]` and in `#[agent(tools = [..])]`. Whether a path names a tool is left to the compiler.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{quote, quote_spanned};
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{Path, PathArguments, Token};

use crate::errors::Errors;
use crate::function::ends;

/// The tools of the library.
const OF_AGENTFLOW: [&str; 5] = ["ask_user", "exit_loop", "forget", "recall", "remember"];

/// Names of the tools that were expanded so far.
static TOOLS: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Records the name of a tool. Error messages depend on it.
pub(crate) fn add_tool(name: &Ident) {
    TOOLS.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_string());
}

/// Returns true if a tool of this name was expanded before.
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
    let paths = Punctuated::<Path, Token![,]>::parse_terminated.parse2(input.collect()).map_err(|error| {
        syn::Error::new(error.span(), "`tools!` takes paths of tools, as in `tools![search, shop::price]`")
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

/// An item of a tool in an expansion.
#[derive(Clone, Copy)]
pub(crate) enum ToolItem {
    /// The tool itself.
    Tool,
    /// The types of its parameters.
    Takes,
    /// The names of its parameters.
    Parameters,
}

impl ToolItem {
    /// The item of the trait `PathTool`.
    fn member(self) -> TokenStream {
        match self {
            Self::Tool => quote!(tool()),
            Self::Takes => quote!(TAKES),
            Self::Parameters => quote!(PARAMETERS),
        }
    }

    /// The function that returns the same for a value and a type of one name.
    fn function(self) -> TokenStream {
        match self {
            Self::Tool => quote!(tool_of),
            Self::Takes => quote!(takes_of),
            Self::Parameters => quote!(parameters_of),
        }
    }
}

/// An expression that is the tool of a path.
///
/// `<path as PathTool>` would be a poor error for a plain function: the path names no type. Therefore the path is imported
/// as `PlainFunction`. A tool's import brings its struct. A plain function's import brings no type, so that the name means
/// `__private::plain::PlainFunction`, whose missing `PathTool` has our message.
pub(crate) fn linked(path: &Path, private: &TokenStream, errors: &mut Errors) -> TokenStream {
    if let Some(segment) = path.segments.iter().find(|segment| !matches!(segment.arguments, PathArguments::None)) {
        errors.at(&segment.arguments, "a tool is not generic; write the function's path alone");
    }
    item(path, private, ToolItem::Tool)
}

/// Something of the tool of a path, as an expression.
pub(crate) fn item(path: &Path, private: &TokenStream, item: ToolItem) -> TokenStream {
    let span = ends(path).0;
    let fallback = quote! {
        #[allow(unused_imports, clippy::wildcard_imports)]
        use #private::plain::*;
    };
    let import = quote_spanned! {span=>
        #[allow(unused_imports)]
        use #path as PlainFunction;
    };
    let (member, function) = (item.member(), item.function());
    match path.get_ident() {
        // The message about a plain function suggests an import of this tool.
        Some(name) if OF_AGENTFLOW.iter().any(|known| name == known) => {
            quote_spanned!(span=> { #fallback #import <PlainFunction as #private::PathTool>::#member })
        }
        // The name may be misspelt, and then the unresolved value is the only error, since the compiler suggests a similar name
        // for it. The macro of the same name lets the import succeed, and the required trait depends on the type of the value,
        // so that the compiler leaves its error out.
        Some(name) if !is_tool(name) && !name.to_string().starts_with(char::is_uppercase) => {
            let value = Ident::new("function", Span::mixed_site());
            quote_spanned! {span=> {
                #fallback
                let #value = &#name;
                {
                    #[allow(unused_macros)]
                    macro_rules! #name { () => {} }
                    #import
                    #private::#function::<_, PlainFunction>(#value)
                }
            }}
        }
        // Because of the inner block, an unresolved import does not fall back to the plain function.
        _ => quote_spanned!(span=> { #fallback { #import <PlainFunction as #private::PathTool>::#member } }),
    }
}

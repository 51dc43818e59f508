//! What is written when there are mistakes: the user's item, all mistakes, and a stub of what others may name, so that
//! one mistake does not become three.

use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::quote;
use syn::{Type, Visibility};

use crate::function::Function;

/// The struct of the function's name as a tool that is never called, since the program does not compile.
pub(crate) fn tool_stub(krate: &syn::Path, vis: &Visibility, name: &Ident) -> TokenStream {
    quote! {
        #[doc(hidden)]
        #[allow(non_camel_case_types, dead_code)]
        #vis struct #name {}
        const _: () = {
            impl #krate::__private::PathTool for #name {
                fn tool() -> &'static #krate::__private::LinkedTool {
                    loop {}
                }
            }
        };
    }
}

/// The struct of the function's name as an agent that is never asked, since the program does not compile.
pub(crate) fn agent_stub(krate: &syn::Path, vis: &Visibility, name: &Ident) -> TokenStream {
    quote! {
        #[doc(hidden)]
        #[allow(non_camel_case_types, dead_code)]
        #vis struct #name {}
        const _: () = {
            impl #name {
                #[allow(dead_code)]
                #vis fn definition() -> &'static #krate::__private::AgentDefinition {
                    loop {}
                }
            }
        };
    }
}

/// The struct of the function's name as a workflow that is never run, since the program does not compile. Where its types
/// are known it has them, so that those who use it are not told that they are to be guessed.
pub(crate) fn workflow_stub(
    krate: &syn::Path,
    vis: &Visibility,
    name: &Ident,
    types: Option<(&[&Type], &Type)>,
) -> TokenStream {
    let (generics, types) = match types {
        Some((inputs, output)) => (None, quote!((#(#inputs,)*), <#output as #krate::__private::WorkflowReturn>::Ok)),
        None => (Some(quote!(<In, Out>)), quote!(In, Out)),
    };
    quote! {
        #[doc(hidden)]
        #[allow(non_camel_case_types, dead_code)]
        #vis struct #name {}
        const _: () = {
            impl #name {
                #[allow(dead_code)]
                #vis fn workflow #generics () -> #krate::__private::Workflow<#types> {
                    loop {}
                }
            }
        };
    }
}

/// A workflow's function that is refused. When its body holds what only the macro understands, or what the compiler would
/// complain about once more, the compiler gets it without the body, and the body stands beside it where nothing compiles
/// it: no token of the user's is lost.
pub(crate) fn quiet(function: &Function, is_rust: bool) -> TokenStream {
    let quiet = quote!(#[allow(unused_variables, unused_mut, unused_must_use, clippy::unused_async)]);
    if is_rust && !is_ours(function.body.clone()) {
        return quote!(#quiet #function);
    }
    let Function { attrs, vis, signature, .. } = function;
    quote! {
        #quiet #(#attrs)* #vis #signature { loop {} }
        #[cfg(any())]
        #function
    }
}

fn is_ours(body: TokenStream) -> bool {
    const WORDS: [&str; 8] = ["node", "after", "gate", "race", "fallback", "map", "repeat", "timeout"];
    body.into_iter().any(|token| match token {
        TokenTree::Group(group) => is_ours(group.stream()),
        TokenTree::Ident(ident) => WORDS.iter().any(|word| ident == word),
        _ => false,
    })
}

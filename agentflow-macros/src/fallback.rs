//! Code that replaces the expansion of an item with mistakes: the user's item, and a stub of the
//! struct that other code refers to, so that one mistake causes only one error. This code never
//! runs.

use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::{format_ident, quote};
use syn::{Type, Visibility};

use crate::function::{Function, any_token};

/// Generates a stub of a tool's struct. The program does not compile, so the tool is never called.
pub(crate) fn tool_stub(krate: &syn::Path, vis: &Visibility, name: &Ident) -> TokenStream {
    quote! {
        #[doc(hidden)]
        #[allow(non_camel_case_types, dead_code)]
        #vis struct #name {}
        const _: () = {
            impl #krate::__private::PathTool for #name {
                type Parameters = #krate::__private::AnyParameters;

                const PARAMETERS: &'static [&'static str] = &[];

                fn tool() -> &'static #krate::__private::LinkedTool {
                    loop {}
                }

                fn function() -> #krate::__private::TypeId {
                    loop {}
                }
            }
        };
    }
}

/// Generates a stub of an agent's struct. Its agent takes `params` arguments of any type, if the
/// number is known, and returns text.
pub(crate) fn agent_stub(
    krate: &syn::Path,
    vis: &Visibility,
    name: &Ident,
    params: Option<usize>,
) -> TokenStream {
    let agent = params.map(|params| {
        let types: Vec<Ident> = (0..params).map(|at| format_ident!("T{at}")).collect();
        quote! {
            #[allow(dead_code)]
            #vis fn agent<#(#types),*>(#(_: #types),*) -> #krate::__private::Agent {
                loop {}
            }
        }
    });
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

                #agent
            }
        };
    }
}

/// Generates a stub of a workflow's struct, with the types of the workflow if they are known, so
/// that its uses need no type annotations.
pub(crate) fn workflow_stub(
    krate: &syn::Path,
    vis: &Visibility,
    name: &Ident,
    types: Option<(&[&Type], &Type)>,
) -> TokenStream {
    let (generics, types) = match types {
        Some((inputs, output)) => {
            (None, quote!((#(#inputs,)*), <#output as #krate::__private::WorkflowReturn>::Ok))
        }
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

/// Generates the function of a refused workflow. If its body uses forms that only the macro
/// understands, or would be reported again, the compiler gets the function without its body. The
/// body is kept under `#[cfg(any())]`, so that editors still see every token.
pub(crate) fn quiet(function: &Function, is_rust: bool) -> TokenStream {
    let quiet =
        quote!(#[allow(unused_variables, unused_mut, unused_must_use, clippy::unused_async)]);
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
    const WORDS: [&str; 8] =
        ["node", "after", "gate", "race", "fallback", "map", "repeat", "timeout"];
    any_token(
        body,
        &|token| matches!(token, TokenTree::Ident(ident) if WORDS.iter().any(|word| ident == word)),
    )
}

//! What is written when there are mistakes: the user's item, all mistakes, and a stub of what others may name, so that
//! one mistake does not become three.

use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::Visibility;

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

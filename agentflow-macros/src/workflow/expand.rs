//! Writes the workflow: the function that runs it here, a struct of its name with the workflow, and its registration.
//!
//! Every path is absolute. Each node is one call of the builder whose closure holds the user's expression as it is.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};

use super::env::Env;
use super::model::{Input, Workflow};
use super::nodes::Writer;
use crate::errors::Errors;
use crate::function::{Function, ends};

pub(super) fn workflow(workflow: &Workflow, function: &Function, errors: &mut Errors) -> TokenStream {
    let Workflow { krate, name, description, output, .. } = workflow;
    let private = quote!(#krate::__private);
    let Function { attrs, vis, signature, .. } = function;
    let ident = &signature.ident;
    let types: Vec<_> = workflow.inputs.iter().map(|Input { ty, .. }| ty).collect();
    let names: Vec<_> = workflow.inputs.iter().map(|Input { ident, .. }| ident).collect();
    let strings = workflow.inputs.iter().map(|Input { ident, .. }| syn::ext::IdentExt::unraw(ident).to_string());
    let at_output = ends(output).0.resolved_at(Span::mixed_site());
    let ok = quote_spanned!(at_output=> <#output as #private::WorkflowReturn>::Ok);
    let fails = quote_spanned!(at_output=> <#output as #private::WorkflowReturn>::Error);
    let context = match &workflow.context {
        None => quote!(#private::None),
        Some(context) => {
            let (ty, given) = (&context.ty, context.ident.as_ref());
            let span = ends(ty).0.resolved_at(Span::mixed_site());
            match given {
                Some(given) => quote_spanned!(span=> #private::Some(<#ty as #private::WorkflowContext>::context(#given))),
                None => quote!(#private::None),
            }
        }
    };
    let run = quote_spanned!(at_output=> #private::run::<_, _, #fails>);
    let builder = Ident::new("builder", Span::mixed_site());
    let steps = Ident::new("steps", Span::mixed_site());
    let made = quote_spanned!(at_output=> #private::Steps::<__AgentflowError>::new(#builder));
    let settings = settings(workflow, &steps, &private);
    let mut writer = Writer::new(&private, &steps, workflow, errors);
    let mut env = Env::default();
    if let Some(ident) = workflow.context.as_ref().and_then(|context| context.ident.clone()) {
        env.context(ident);
    }
    for input in &workflow.inputs {
        env.output(Some(input.ident.clone()), input.ident.clone());
    }
    let body = writer.seq(&workflow.body, &mut env, 0);
    let lints = lints(attrs);
    let cx_unused = workflow.context.as_ref().map(|_| quote!(#[allow(clippy::used_underscore_binding)]));
    quote! {
        #(#attrs)*
        #cx_unused
        #vis #signature {
            #run(<#ident>::workflow(), #context, (#(#names,)*)).await
        }

        #[doc(hidden)]
        #[allow(non_camel_case_types, dead_code, missing_debug_implementations, missing_copy_implementations)]
        #vis struct #ident {}

        #[allow(deprecated)]
        const _: () = {
            impl #ident {
                /// The workflow, to start it on a runtime or to look at its graph; built when it is first asked for.
                #[must_use]
                #[allow(dead_code)]
                #lints
                #vis fn workflow() -> #private::Workflow<(#(#types,)*), #ok> {
                    type __AgentflowError = #fails;
                    static __AGENTFLOW_WORKFLOW: #private::OnceLock<#private::Workflow<(#(#types,)*), #ok>> =
                        #private::OnceLock::new();
                    #private::workflow(&__AGENTFLOW_WORKFLOW, #name, [#(#strings),*], |#builder, (#(#names,)*)| {
                        let mut #steps = #made;
                        let #steps = &mut #steps;
                        #settings
                        #body
                    })
                }
            }
            impl #private::PathWorkflow for #ident {
                type In = (#(#types,)*);
                type Out = #ok;
                fn workflow() -> #private::Workflow<Self::In, Self::Out> {
                    <#ident>::workflow()
                }
            }
            #private::inventory::submit! {
                #private::LinkedWorkflow::new::<#ident>(#name, #description, (#private::file!(), #private::line!()))
            }
            #private::inventory::submit! {
                #private::Callee { function: || #private::function_id(&#ident), kind: #private::CalleeKind::Workflow }
            }
        };
    }
}

fn settings(workflow: &Workflow, steps: &Ident, private: &TokenStream) -> TokenStream {
    let mut settings = TokenStream::new();
    let description = &workflow.description;
    settings.extend(quote!(#steps.describe(#description);));
    if let Some(at_once) = &workflow.concurrency {
        settings.extend(quote!(#steps.concurrency(#at_once);));
    }
    if let Some(stop) = &workflow.stop {
        settings.extend(quote!(#steps.stop_policy(#private::StopPolicy::#stop);));
    }
    settings
}

/// The lint levels of the function hold for its steps too.
fn lints(attrs: &[syn::Attribute]) -> TokenStream {
    let mut lints = TokenStream::new();
    for attr in attrs {
        let Some(level) = attr.path().get_ident() else { continue };
        let syn::Meta::List(list) = &attr.meta else { continue };
        let tokens = &list.tokens;
        match level.to_string().as_str() {
            "allow" | "warn" | "deny" | "forbid" => lints.extend(quote!(#attr)),
            // What is expected of the function may not come in its steps, and the other way round.
            "expect" => lints.extend(quote!(#[allow(#tokens)])),
            _ => {}
        }
    }
    lints
}

/// A variable of the expansion.
pub(super) fn own(name: &str) -> Ident {
    format_ident!("{name}", span = Span::mixed_site())
}

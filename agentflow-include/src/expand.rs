//! Writes the function, a struct with its name and a `start` function, and the document's
//! registration. Every path is absolute, and the code only calls functions of the library.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;

use crate::check::Checked;
use crate::parse::{Function, Input, Options};

pub(crate) fn workflow(options: &Options, function: &Function, checked: Checked) -> TokenStream {
    let Options { file, tools, krate } = options;
    let Function { attrs, vis, signature, context, inputs, output } = function;
    let private = quote!(#krate::__private);
    let ident = &signature.ident;
    let ok = quote_spanned!(output.span()=> <#output as #private::WorkflowReturn>::Ok);
    let params = inputs.iter().map(|Input { ident, ty }| quote!(#ident: #ty));
    let given = inputs.iter().map(|input @ Input { ident, .. }| {
        let name = input.name();
        quote!(.with(#name, &#ident))
    });
    let given = quote!(<#private::IncludedInputs as #private::Default>::default() #(#given)*);
    let schemas = inputs.iter().map(|input @ Input { ty, .. }| {
        let name = input.name();
        let schema = quote_spanned!(ty.span()=> <#ty as #private::NodeValue>::schema());
        quote!((#name, #schema))
    });
    let cx = match context {
        Some(cx) => quote!(#private::Some(#cx)),
        None => quote!(#private::None),
    };
    let (call, start, registered, errors) = match checked {
        Ok(name) => (
            quote! {{
                let output = #private::run_included::<#ok>(#cx, #name, #given).await?;
                #private::Ok(output)
            }},
            quote!(#private::start_included::<#ok>(runtime, #name, #given)),
            quote! {
                #private::inventory::submit! {
                    #private::IncludedDocument::new(
                        #file,
                        #private::include_str!(#file),
                        || #private::Vec::from([#(#schemas),*]),
                        || <#ok as #private::NodeValue>::schema(),
                    )
                }
            },
            None,
        ),
        // The function diverges instead of failing, so that its callers cause no further errors.
        Err(errors) => {
            (quote!(loop {}), quote!(loop {}), quote!(), Some(errors.to_compile_error()))
        }
    };
    let tools = tools.as_ref().map(|tools| {
        quote! {
            #[allow(dead_code)]
            fn tools() {
                let _ = #krate::tools![#(#tools),*];
            }
        }
    });
    quote! {
        #(#attrs)*
        #[allow(unused_variables, clippy::needless_pass_by_value, clippy::missing_errors_doc)]
        #vis #signature {
            #call
        }

        #[doc(hidden)]
        #[allow(non_camel_case_types, dead_code, missing_debug_implementations, missing_copy_implementations)]
        #vis struct #ident {}

        const _: () = {
            #tools
            impl #ident {
                /// A run of the workflow that is about to be started; awaiting it starts the run.
                #[allow(dead_code, unused_variables, clippy::needless_pass_by_value, clippy::too_many_arguments)]
                #vis fn start(runtime: &#krate::Runtime, #(#params),*) -> #krate::runtime::StartRun<'_, #ok> {
                    #start
                }
            }
            #registered
        };
        #errors
    }
}

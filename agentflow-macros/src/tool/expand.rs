//! Writes the tool: the function as it was, a struct of its name, one trait impl and one static. Every path is absolute, and
//! the expansion holds no logic: it calls functions of the library. `tests/expansion/tool` shows examples.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::ReturnType;

use super::model::{Param, Tool};
use super::parse::{ParamDefault, ToolOptions};
use crate::function::{Function, ends};

pub(super) fn tool(tool: &Tool, function: &Function) -> TokenStream {
    let Tool { krate, name, description, .. } = tool;
    let private = quote!(#krate::__private);
    let vis = &function.vis;
    let ident = &function.signature.ident;
    let trait_of_arity = format_ident!("ToolFn{}", tool.params.len());
    let types = tool.params.iter().zip('A'..).map(|(param, letter)| {
        let letter = format_ident!("{letter}");
        let ty = &param.ty;
        quote!(type #letter = #ty;)
    });
    let call = call(tool, function, &private);
    let params = tool.params.iter().map(|param| describe(param, &private));
    let options = options(&tool.options, &private);
    quote! {
        // A tool owns its arguments, whatever its body does with them.
        #[allow(clippy::needless_pass_by_value)]
        #function

        #[doc(hidden)]
        #[allow(non_camel_case_types, dead_code, missing_debug_implementations, missing_copy_implementations)]
        #vis struct #ident {}

        #[allow(deprecated, clippy::needless_update)]
        const _: () = {
            #[allow(unused_imports)]
            use #private::Probed as _;
            impl #private::#trait_of_arity for #ident {
                #(#types)*
                #call
            }
            static __AGENTFLOW_TOOL: #private::LinkedTool = #private::LinkedTool::new(
                #name,
                #description,
                (#private::file!(), #private::line!()),
                &[#(#params),*],
                #options,
                <#ident as #private::#trait_of_arity>::BODY,
            );
            impl #private::PathTool for #ident {
                fn tool() -> &'static #private::LinkedTool {
                    &__AGENTFLOW_TOOL
                }
            }
            #private::inventory::submit! {
                #private::Linked {
                    function: || #private::function_id(&#ident),
                    item: || #private::Box::new(#private::linked::<#ident>()),
                }
            }
        };
    }
}

/// The method that calls the function with its decoded arguments.
fn call(tool: &Tool, function: &Function, private: &TokenStream) -> TokenStream {
    let signature = &function.signature;
    let ident = &signature.ident;
    let cx = Ident::new("cx", Span::mixed_site());
    let idents = tool.params.iter().map(|param| &param.ident);
    let types = tool.params.iter().map(|param| &param.ty);
    let context = tool.context.as_ref().map(|ty| {
        let span = ends(ty).0;
        quote_spanned!(span=> <#ty as #private::ContextParam>::of(&#cx),)
    });
    let arguments = tool.params.iter().map(|param| &param.ident);
    let called = quote!(#ident(#context #(#arguments),*));
    // A future that is not `Send` is reported at the function's name.
    let start = signature.asyncness.map(|_| quote_spanned!(ident.span()=> async move));
    let (called, future) = match (&start, tool.options.blocking) {
        (Some(_), _) => (quote!(#called.await), quote_spanned!(ident.span()=> pending)),
        (None, None) => (called, quote!(ready)),
        (None, Some(_)) => (called, quote!(blocking)),
    };
    let answer = answer(&called, &signature.output, ident, private);
    let body = match (start, tool.options.blocking) {
        (Some(start), _) => quote_spanned!(ident.span()=> #start { #answer }),
        (None, None) => answer,
        (None, Some(_)) => quote!(move || { #answer }),
    };
    let owned = (tool.options.blocking.is_some() && tool.context.is_some())
        .then(|| quote!(let #cx = #private::Clone::clone(#cx);));
    let unused = tool.context.is_none().then(|| quote!(#[allow(unused_variables)]));
    let answer = quote_spanned!(ident.span()=> #private::ToolFuture::#future(#body));
    quote! {
        #unused
        fn call(#cx: &#private::Context, (#(#idents,)*): (#(#types,)*)) -> #private::ToolFuture<'_> {
            #owned
            #answer
        }
    }
}

/// The function's value as a tool's answer; a type that cannot be an answer is reported at the return type.
fn answer(called: &TokenStream, output: &ReturnType, ident: &Ident, private: &TokenStream) -> TokenStream {
    let (first, last) = match output {
        ReturnType::Default => (ident.span(), ident.span()),
        ReturnType::Type(_, ty) => ends(ty),
    };
    let site = Span::mixed_site();
    let value = Ident::new("value", site);
    let value_at_type = Ident::new("value", last.resolved_at(site));
    let borrow = quote_spanned!(first.resolved_at(site)=> &);
    quote! {
        {
            use #private::{ResultKind as _, ValueKind as _};
            let #value = #called;
            (&#value).agentflow_kind().finish(#borrow #value_at_type)
        }
    }
}

fn describe(param: &Param, private: &TokenStream) -> TokenStream {
    let Param { ty, name, description, default, .. } = param;
    let default = default.as_ref().map(|default| {
        let expr = match default {
            ParamDefault::Expr(expr) => quote!(#expr),
            ParamDefault::OfType(span) => quote_spanned!(*span=> <#ty as #private::Default>::default()),
        };
        quote!(.with_default::<#ty>(const { &#private::default_fn(|| #expr) }))
    });
    // So that an error about the type is reported at the type.
    let (first, last) = ends(ty);
    let here = private.clone().into_iter().map(|mut token| {
        token.set_span(first.resolved_at(token.span()));
        token
    });
    let here: TokenStream = here.collect();
    let filled = Ident::new("FILLED", last.resolved_at(Span::call_site()));
    let filled = quote!(#here::Probe::<#ty>::#filled);
    quote!(#private::Param::new(#name, #description, #filled) #default)
}

fn options(options: &ToolOptions, private: &TokenStream) -> TokenStream {
    let mut fields = Vec::new();
    if let Some((timeout, _)) = options.timeout {
        fields.push(quote!(timeout_ms: #private::Some(#timeout)));
    }
    if let Some(retry) = &options.retry {
        fields.push(quote!(retry: #retry));
    }
    if options.idempotent {
        fields.push(quote!(idempotent: true));
    }
    if let Some(effects) = &options.effects {
        fields.push(quote!(effects: #private::Effects::#effects));
    }
    if options.approve {
        fields.push(quote!(approve: true));
    }
    if !options.scopes.is_empty() {
        let scopes = &options.scopes;
        fields.push(quote!(scopes: &[#(#scopes),*]));
    }
    if options.blocking.is_some() {
        fields.push(quote!(blocking: true));
    }
    if let Some(max_output) = &options.max_output {
        fields.push(quote!(max_output: #max_output));
    }
    if fields.is_empty() {
        return quote!(#private::Options::DEFAULT);
    }
    quote!(#private::Options { #(#fields,)* ..#private::Options::DEFAULT })
}

//! Generates the tool: the function, a struct with its name, a trait implementation and a static.
//! The function first checks whether it is called in a workflow step, and is unchanged otherwise.
//! Every path is absolute. The expansion contains no logic and calls functions of the library.
//! `tests/expansion/tool` shows examples.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{format_ident, quote, quote_spanned};
use syn::{FnArg, Pat, ReturnType, Type};

use super::model::{Param, Tool};
use super::parse::{ParamDefault, ToolOptions};
use crate::function::{Function, any_token, ends, has_lifetime};
use crate::paths;
use crate::unanswered::TimeoutAction;

pub(super) fn tool(tool: &Tool, function: &Function) -> TokenStream {
    let Tool { krate, name, description, .. } = tool;
    let private = quote!(#krate::__private);
    let Function { attrs, vis, signature, .. } = function;
    let ident = &function.signature.ident;
    let trait_of_arity = format_ident!("ToolFn{}", tool.params.len());
    let types = tool.params.iter().zip('A'..).map(|(param, letter)| {
        let letter = format_ident!("{letter}");
        let ty = &param.ty;
        quote!(type #letter = #ty;)
    });
    let body = body_with_step_check(tool, function, &private);
    let in_step = in_step(tool, function, &private);
    let carries_denial = carries_denial(tool, function, &private);
    let call = call(tool, function, &private);
    let params = tool.params.iter().map(|param| describe(param, &private));
    let answering = answering(function, &private);
    let options = options(&tool.options, signature.asyncness.is_none(), &private);
    let names = tool.params.iter().map(|param| &param.name);
    let compensation = compensation(tool, function, &private);
    let letters = ('A'..).take(tool.params.len()).map(|letter| format_ident!("{letter}"));
    let parameters = letters.map(|letter| quote!(<Self as #private::#trait_of_arity>::#letter));
    quote! {
        // A tool owns its arguments, even if its body only borrows them.
        #[allow(unused_braces, clippy::needless_pass_by_value, clippy::only_used_in_recursion)]
        #(#attrs)* #vis #signature #body

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
            )
            #answering;
            impl #private::PathTool for #ident {
                type Parameters = (#(#parameters,)*);

                const PARAMETERS: &'static [&'static str] = &[#(#names),*];

                fn tool() -> &'static #private::LinkedTool {
                    &__AGENTFLOW_TOOL
                }

                fn function() -> #private::TypeId {
                    #private::function_id(&#ident)
                }
            }
            #in_step
            #carries_denial
            #compensation
            #private::inventory::submit! {
                #private::Linked {
                    function: || #private::function_id(&#ident),
                    item: || #private::Box::new(#private::linked::<#ident>()),
                }
            }
        };
    }
}

/// Generates the schema of the answer, if the return type can be repeated in other code.
fn answering(function: &Function, private: &TokenStream) -> Option<TokenStream> {
    let ReturnType::Type(_, ty) = &function.signature.output else { return None };
    if is_opaque(ty) || has_lifetime(quote!(#ty)) {
        return None;
    }
    Some(quote! {
        .answering(|| {
            #[allow(unused_imports)]
            use #private::answer_schema::*;
            (&&&#private::AnswerType::<#ty>::NEW).agentflow_schema()
        })
    })
}

/// Returns `true` for a type that other code cannot name.
fn is_opaque(ty: &Type) -> bool {
    any_token(quote!(#ty), &|token| matches!(token, TokenTree::Ident(ident) if ident == "impl"))
}

/// Generates a compile-time check that the compensating tool takes the parameters of the tool and
/// its output, with the same types and names. The code is never called.
fn compensation(tool: &Tool, function: &Function, private: &TokenStream) -> Option<TokenStream> {
    let path = tool.options.compensate.as_ref()?;
    let ident = &function.signature.ident;
    let value = local("value");
    let params: Vec<&Ident> = tool.params.iter().map(|param| &param.ident).collect();
    let types = tool.params.iter().map(|param| &param.ty);
    let output = match &function.signature.output {
        ReturnType::Default => quote!(()),
        ReturnType::Type(_, ty) => quote!(#ty),
    };
    let span = ends(path).0;
    let here = located(private, span);
    let takes = paths::item(path, private, &quote!(TAKES));
    let compared = quote_spanned!(span=> #here::is_compensated_by((#(#params,)* #value.agentflow_output(),), #takes));
    let parameters = paths::item(path, private, &quote!(PARAMETERS));
    let checked = quote_spanned!(span=> #here::undoes(#parameters, <#ident as #private::PathTool>::PARAMETERS));
    Some(quote! {
        #[allow(dead_code)]
        fn undone(#(#params: #types,)* #value: #output) {
            #[allow(unused_imports)]
            use #private::{OutputOfResult as _, OutputOfValue as _};
            #compared
        }
        const _: () = #checked;
    })
}

/// Generates the function's body with a check for a workflow step in front. A `const fn` has no
/// effects and gets no check.
fn body_with_step_check(tool: &Tool, function: &Function, private: &TokenStream) -> TokenStream {
    let signature = &function.signature;
    let ident = &signature.ident;
    let mut body = function.body.clone().into_iter();
    let (block, rest) = (body.next(), body);
    if signature.constness.is_some() {
        return quote!(#block #(#rest)*);
    }
    let call = local("call");
    let context = given_context(tool, function).map(|given| quote!(#given,));
    let arguments = tool.params.iter().map(|param| &param.written);
    let called = quote!(<#ident>::__agentflow_in_step(#call, #context (#(#arguments,)*)));
    let called = match signature.asyncness {
        Some(_) => quote!(#private::Box::pin(#called).await),
        None => called,
    };
    quote! {
        {
            if let #private::Some(#call) = #private::announced::<#ident>() {
                return #called;
            }
            #block
        }
        #(#rest)*
    }
}

/// Returns the name of the context parameter, if it has one.
fn given_context<'f>(tool: &Tool, function: &'f Function) -> Option<&'f Ident> {
    match (&tool.context, function.signature.inputs.first()?) {
        (Some(_), FnArg::Typed(input)) => match &*input.pat {
            Pat::Ident(pat) => Some(&pat.ident),
            _ => None,
        },
        _ => None,
    }
}

/// Generates the call in a workflow step. The recorded call invokes the function again, this time
/// as the tool of that record, and then the body runs.
fn in_step(tool: &Tool, function: &Function, private: &TokenStream) -> Option<TokenStream> {
    let signature = &function.signature;
    let (ident, asyncness, output) = (&signature.ident, &signature.asyncness, &signature.output);
    if signature.constness.is_some() {
        return None;
    }
    let (call, given, made, form) = (local("call"), local("given"), local("made"), local("form"));
    let (cx, now) = (local("cx"), local("now"));
    let params: Vec<&Ident> = tool.params.iter().map(|param| &param.ident).collect();
    let types: Vec<&Type> = tool.params.iter().map(|param| &param.ty).collect();
    let names = tool.params.iter().map(|param| &param.name);
    let is_given = given_context(tool, function).is_some();
    let has_reference = matches!(output, ReturnType::Type(_, ty) if has_lifetime(quote!(#ty)));
    let context = tool.context.as_ref().map(|ty| {
        let span = ends(ty).0;
        // An answer that borrows from the context must borrow from the caller's context.
        match has_reference && is_given {
            true => quote!(#given,),
            false => quote_spanned!(span=> <#ty as #private::ContextParam>::of(&#cx),),
        }
    });
    let (given_param, given) = match &tool.context {
        Some(ty) if is_given => {
            let handed =
                quote_spanned!(ends(ty).0=> <#ty as #private::ContextParam>::given(#given));
            (Some(quote!(#given: &#ty,)), quote!(#private::Some(#handed)))
        }
        _ => (None, quote!(#private::None)),
    };
    let called = quote!(#ident(#context #(#params),*));
    let (start, called, of) = match asyncness {
        Some(_) => (Some(quote!(async move)), quote!(#called.await), quote!(of_async)),
        None => (None, called, quote!(of_sync)),
    };
    let answer = answer(&called, output, ident, private);
    let forms = match has_reference {
        // Method resolution ignores lifetimes, and a reference cannot be decoded from the journal.
        true => {
            quote!((#private::OpaqueAnswer::agentflow_answer(&#form), #private::OpaqueError::agentflow_error(&#form)))
        }
        false => quote!(((&&&#form).agentflow_answer(), (&&&#form).agentflow_error())),
    };
    let arguments = quote!((#(#params,)*));
    let names_now = tool.params.iter().map(|param| &param.name);
    let changed = quote! {
        |(#(#params,)*), #now| (#((&#private::GivenArgument(&#params)).agentflow_changed(#now, #names_now).unwrap_or(#params),)*)
    };
    let outcome = match asyncness {
        Some(_) => {
            let again = params
                .iter()
                .map(|param| quote!((&#private::GivenArgument(#param)).agentflow_again()?));
            let again = quote!(|(#(#params,)*)| #private::Some((#(#again,)*)));
            let ways = quote!(#private::ArgumentCopies::new(#again, #changed));
            quote!(#call.run(#given, #arguments, #ways, #made, #forms).await)
        }
        None => {
            let denial = match has_reference {
                true => quote!(#private::OpaqueDenial::agentflow_denial(&#form)),
                false => quote!((&&&#form).agentflow_denial()),
            };
            quote!(#call.run_now(#given, #arguments, #changed, #made, #forms, #denial))
        }
    };
    Some(quote! {
        impl #ident {
            #[doc(hidden)]
            #asyncness fn __agentflow_in_step(
                #call: #private::StepToolCall,
                #given_param
                (#(#params,)*): (#(#types,)*),
            ) #output {
                #[allow(unused_imports)]
                use #private::call_forms::*;
                let #call = #call.given([#((#names, (&#private::GivenArgument(&#params)).agentflow_form())),*]);
                let #made = |#cx: #private::Context, (#(#params,)*): (#(#types,)*)| #start { #answer };
                let #form = #private::ReturnForm::#of(&#made);
                #outcome
            }
        }
    })
}

/// Generates a compile-time check, for programs in which panics abort, that a denied call can be
/// returned. Only such a value can end the step of a function that cannot wait.
fn carries_denial(tool: &Tool, function: &Function, private: &TokenStream) -> Option<TokenStream> {
    let signature = &function.signature;
    let is_guarded = tool.options.approve || !tool.options.scopes.is_empty();
    if !is_guarded || signature.asyncness.is_some() || signature.constness.is_some() {
        return None;
    }
    let check = match &signature.output {
        // A borrowed or opaque type cannot be named here, and cannot be created from an error.
        ReturnType::Type(_, ty) if has_lifetime(quote!(#ty)) || is_opaque(ty) => {
            let message = "a denied call of this tool cannot end its step in a program with \
                           `panic = \"abort\"`; make the function `async`";
            let error = quote_spanned!(ends(ty).0=> #private::compile_error!(#message););
            return Some(quote!(#[cfg(panic = "abort")] #error));
        }
        ReturnType::Type(_, ty) => quote_spanned!(ends(ty).0=> #private::carries_denial::<#ty>()),
        ReturnType::Default => {
            quote_spanned!(signature.ident.span()=> #private::carries_denial::<()>())
        }
    };
    Some(quote! {
        #[cfg(panic = "abort")]
        const _: () = #check;
    })
}

/// Returns a variable that the user's code cannot name.
fn local(name: &str) -> Ident {
    Ident::new(name, Span::mixed_site())
}

/// Generates the method that calls the function with its decoded arguments.
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
    let answer = quote!((#answer).1);
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
        // The lifetime has a name, since `'static` in a parameter's type would make `'_` ambiguous.
        #unused
        #[allow(clippy::needless_lifetimes)]
        fn call<'agentflow>(
            #cx: &'agentflow #private::Context,
            (#(#idents,)*): (#(#types,)*),
        ) -> #private::ToolFuture<'agentflow> {
            #owned
            #answer
        }
    }
}

/// Generates the function's value and the tool's answer made from it. A type that cannot be an
/// answer is reported at the return type.
fn answer(
    called: &TokenStream,
    output: &ReturnType,
    ident: &Ident,
    private: &TokenStream,
) -> TokenStream {
    let (first, last) = match output {
        ReturnType::Default => (ident.span(), ident.span()),
        ReturnType::Type(_, ty) => ends(ty),
    };
    let site = Span::mixed_site();
    let (value, answer) = (Ident::new("value", site), local("answer"));
    let value_at_type = Ident::new("value", last.resolved_at(site));
    let borrow = quote_spanned!(first.resolved_at(site)=> &);
    quote! {
        {
            use #private::{ResultKind as _, ValueKind as _};
            let #value = #called;
            let #answer = (&#value).agentflow_kind().finish(#borrow #value_at_type);
            (#value, #answer)
        }
    }
}

/// Returns the path to the library's private items with this span, so that errors about its items
/// are reported there.
fn located(private: &TokenStream, span: Span) -> TokenStream {
    let one = |mut token: TokenTree| {
        token.set_span(span.resolved_at(token.span()));
        token
    };
    private.clone().into_iter().map(one).collect()
}

fn describe(param: &Param, private: &TokenStream) -> TokenStream {
    let Param { ty, name, description, default, .. } = param;
    let default = default.as_ref().map(|default| {
        let expr = match default {
            ParamDefault::Expr(expr) => quote!(#expr),
            ParamDefault::OfType(span) => {
                quote_spanned!(*span=> <#ty as #private::Default>::default())
            }
        };
        quote!(.with_default::<#ty>(const { &#private::default_fn(|| #expr) }))
    });
    // With these spans, an error about the type is reported at the type.
    let (first, last) = ends(ty);
    let here = located(private, first);
    let filled = Ident::new("FILLED", last.resolved_at(Span::call_site()));
    let filled = quote!(#here::Probe::<#ty>::#filled);
    quote!(#private::Param::new(#name, #description, #filled) #default)
}

fn options(options: &ToolOptions, sync: bool, private: &TokenStream) -> TokenStream {
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
    if let Some((timeout, _)) = options.approve_timeout {
        fields.push(quote!(approve_timeout_ms: #private::Some(#timeout)));
    }
    if let Some((_, TimeoutAction::Word(variant))) = &options.on_timeout {
        fields.push(quote!(on_timeout: #private::OnTimeout::#variant));
    }
    if !options.scopes.is_empty() {
        let scopes = &options.scopes;
        fields.push(quote!(scopes: &[#(#scopes),*]));
    }
    if options.blocking.is_some() {
        fields.push(quote!(blocking: true));
    }
    if sync {
        fields.push(quote!(sync: true));
    }
    if let Some(max_output) = &options.max_output {
        fields.push(quote!(max_output: #max_output));
    }
    if let Some(concurrency) = &options.concurrency {
        fields.push(quote!(concurrency: #private::Some(#concurrency)));
    }
    if let Some(path) = &options.compensate {
        let undo = paths::item(path, private, &quote!(tool()));
        fields.push(quote!(compensate: #private::Some(|| #undo)));
    }
    if options.streaming {
        fields.push(quote!(streaming: true));
    }
    if fields.is_empty() {
        return quote!(#private::Options::DEFAULT);
    }
    quote!(#private::Options { #(#fields,)* ..#private::Options::DEFAULT })
}

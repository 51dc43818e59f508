//! Generates the workflow: the function that runs it, a struct with its name, and its registration.
//! Every path is absolute. Each node is one builder call, whose closure contains the user's
//! expression unchanged. `tests/expansion/workflow` shows examples.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote};
use syn::ext::IdentExt;
use syn::{Attribute, FnArg, Signature};

use super::attrs::{StartApproval, before_statement, expected, is_lint};
use super::env::Env;
use super::model::{Input, Seq, Statement, Workflow};
use super::nodes::Writer;
use super::spans::{located, own};
use super::syntax;
use crate::errors::Errors;
use crate::function::{Function, ends};
use crate::unanswered::TimeoutAction;

pub(super) fn workflow(
    workflow: &Workflow,
    function: &Function,
    errors: &mut Errors,
) -> TokenStream {
    let Workflow { krate, name, output, .. } = workflow;
    let private = quote!(#krate::__private);
    let Function { attrs, vis, signature, .. } = function;
    let ident = &signature.ident;
    let of_arity = format_ident!("WorkflowFn{}", workflow.inputs.len());
    let itself = quote!(<#ident as #private::#of_arity>);
    let types: Vec<_> = workflow.inputs.iter().map(|Input { ty, .. }| ty).collect();
    let names: Vec<_> = workflow.inputs.iter().map(|Input { ident, .. }| ident).collect();
    let count = names.len();
    let strings = names.iter().map(|ident| ident.unraw().to_string());
    let letters: Vec<_> =
        ('A'..).take(types.len()).map(|letter| format_ident!("{letter}")).collect();
    let at_output = ends(output).0;
    let returned = located(&quote!(<#output as #private::WorkflowReturn>), at_output);
    let (ok, fails) =
        (located(&quote!(#returned::Ok), at_output), located(&quote!(#returned::Error), at_output));
    // The compiler reports a return type that is not a `Result` once. Other code uses these two
    // types, so the error is not repeated.
    let (ok_of, error_of) = (
        quote!(<#ident as #private::WorkflowTypes>::Ok),
        quote!(<#ident as #private::WorkflowTypes>::Error),
    );
    let result = located(&quote!(#private::Result<#ok_of, #error_of>), at_output);
    let context = context(workflow, &private);
    let steps = own("steps", Span::mixed_site());
    let settings = settings(workflow, &steps, &private);
    let mut writer =
        Writer::new(&private, workflow, syntax::awaited_names(function.body.clone()), errors);
    let mut env = Env::default();
    if let Some(ident) = workflow.context.as_ref().and_then(|context| context.ident.clone()) {
        env.context(ident);
    }
    for input in &workflow.inputs {
        env.output(
            Some(input.ident.clone()),
            input.ident.clone(),
            &input.ident.unraw().to_string(),
        );
    }
    let body = writer.seq(&workflow.body, &mut env, 0);
    let body = match has_ends(&workflow.body) {
        false => body,
        true => {
            let (returns, rest) =
                (own("returns", Span::call_site()), own("rest", Span::mixed_site()));
            quote! {
                let mut #returns = #private::returns::<#ok_of>();
                let #rest = { #body };
                #steps.either(&#returns, #rest)
            }
        }
    };
    let quiet = workflow
        .inputs
        .iter()
        .filter(|input| !input.lints.is_empty())
        .map(|Input { ident, lints, .. }| quote!(#(#lints)* let #ident = #ident;));
    let (attrs, lints) = divided(attrs);
    let old: Vec<_> = attrs.iter().filter(|attr| attr.path().is_ident("deprecated")).collect();
    let signature = quiet_inputs(signature);
    quote! {
        #(#attrs)*
        #[allow(clippy::used_underscore_binding)]
        #vis #signature {
            #itself::run(#context, (#(#names,)*)).await
        }

        #[doc(hidden)]
        #[allow(non_camel_case_types, dead_code, missing_debug_implementations, missing_copy_implementations)]
        #vis struct #ident {}

        const _: () = {
            #[allow(deprecated)]
            impl #private::WorkflowTypes for #ident {
                type Ok = #ok;
                type Error = #fails;
            }
            #[allow(deprecated)]
            impl #ident {
                /// The workflow, to start it on a runtime or to look at its graph; built when it is first asked for.
                #(#old)*
                #[must_use]
                #[allow(dead_code)]
                #vis fn workflow() -> #private::Workflow<(#(#types,)*), #ok_of> {
                    #itself::workflow()
                }
            }
            impl #private::#of_arity for #ident {
                // A deprecated type is reported in the signature, and a deprecated function in `nodes`.
                #(#[allow(deprecated)] type #letters = #types;)*
                type Return = #result;
                const NAME: &'static str = #name;
                const INPUTS: [&'static str; #count] = [#(#strings),*];

                #[allow(deprecated)]
                fn cell() -> &'static #private::OnceLock<#private::Workflow<(#(#types,)*), #ok_of>> {
                    static WORKFLOW: #private::OnceLock<#private::Workflow<(#(#types,)*), #ok_of>> =
                        #private::OnceLock::new();
                    &WORKFLOW
                }

                fn error_form() -> #private::ErrorForm<#private::Result<(), #error_of>> {
                    #[allow(unused_imports)]
                    use #private::call_forms::*;
                    (&&&#private::ReturnForm::<#private::Result<(), #error_of>>::of_type()).agentflow_error()
                }

                // For the code that we write around the user's expressions.
                #[allow(
                    unused_braces, clippy::needless_question_mark, clippy::no_effect_underscore_binding,
                    clippy::too_many_lines, clippy::used_underscore_binding, clippy::zero_prefixed_literal
                )]
                #lints
                fn nodes(
                    #steps: &mut #private::Steps<'_, #error_of>,
                    (#(#names,)*): (#(#private::Handle<Self::#letters>,)*),
                ) -> #private::Handle<#ok_of> {
                    #[allow(unused_imports)]
                    use #private::{
                        AnyOutput as _, ChosenOnce as _, FutureOutput as _, FutureTried as _, OfAnything as _, OfBorrow as _,
                        OfOwned as _, OfStandard as _, OptionTried as _, OtherNamed as _, OtherOutput as _,
                        OtherReceiver as _, OtherTried as _, PlainStep as _, UnawaitedValue as _,
                    };
                    type __AgentflowError = #error_of;
                    #(#quiet)*
                    #settings
                    #body
                }
            }
            #private::inventory::submit! {
                #private::Linked {
                    function: || {
                        #[allow(deprecated)]
                        #private::function_id(&#ident)
                    },
                    item: || #private::Box::new(#private::LinkedWorkflow::new(
                        #name, (#private::file!(), #private::line!()), #itself::GRAPH
                    )),
                }
            }
        };
    }
}

/// Returns `true` if the workflow can end before its last expression.
fn has_ends(body: &Seq) -> bool {
    let leaves = |one: &Statement| matches!(one, Statement::Node(node) if node.leaves);
    body.statements.iter().any(leaves) || body.tail.leaves
}

/// Generates the context that the function passes on.
fn context(workflow: &Workflow, private: &TokenStream) -> TokenStream {
    let Some(context) = &workflow.context else { return quote!(#private::None) };
    let Some(given) = &context.ident else { return quote!(#private::None) };
    let ty = &context.ty;
    located(
        &quote!(#private::Some(<#ty as #private::WorkflowContext>::context(#given))),
        ends(ty).0,
    )
}

fn settings(workflow: &Workflow, steps: &Ident, private: &TokenStream) -> TokenStream {
    let mut settings = TokenStream::new();
    let description = &workflow.description;
    settings.extend(quote!(#steps.describe(#description);));
    if let Some(at_once) = &workflow.concurrency {
        settings.extend(quote!(#steps.concurrency(#at_once);));
    }
    if workflow.max_llm_calls.is_some() || workflow.timeout_ms.is_some() {
        let given = |option: Option<TokenStream>| match option {
            Some(value) => quote!(#private::Some(#value)),
            None => quote!(#private::None),
        };
        let calls = given(workflow.max_llm_calls.as_ref().map(ToTokens::to_token_stream));
        let timeout = given(workflow.timeout_ms.as_ref().map(ToTokens::to_token_stream));
        settings.extend(quote!(#steps.limits(#calls, #timeout);));
    }
    if let Some(stop) = &workflow.stop {
        settings.extend(quote!(#steps.stop_policy(#private::StopPolicy::#stop);));
    }
    if let Some(decider) = &workflow.decider {
        settings.extend(quote!(#steps.decider(#decider);));
    }
    let StartApproval { text, timeout_ms, on_timeout } = &workflow.first;
    if let Some(question) = text {
        let limit = timeout_ms
            .map(|limit| quote!(.approve_timeout(#private::Duration::from_millis(#limit))));
        let late = match on_timeout {
            Some((_, TimeoutAction::Word(word))) => quote!(.on_timeout(#private::OnTimeout::#word)),
            _ => TokenStream::new(),
        };
        settings.extend(
            quote!(#steps.approve(#private::Node::new("start").approve(#question) #limit #late);),
        );
    }
    settings
}

/// Returns the attributes of the function, and its lint levels for the steps. Each expected lint is
/// expected in only one of them.
fn divided(attrs: &[Attribute]) -> (Vec<Attribute>, TokenStream) {
    let (mut outer, mut inner) = (Vec::new(), TokenStream::new());
    for attr in attrs {
        match expected(attr) {
            Some([of_signature, of_body, of_both]) => {
                let of_both = of_both.map(before_statement);
                let elsewhere = of_signature.clone().map(before_statement);
                inner.extend(
                    elsewhere
                        .into_iter()
                        .chain(of_body.clone())
                        .chain(of_both.clone())
                        .map(ToTokens::into_token_stream),
                );
                outer.extend(
                    of_body.map(before_statement).into_iter().chain(of_signature).chain(of_both),
                );
            }
            None => {
                inner.extend(
                    is_lint(attr).then(|| before_statement(attr.clone()).into_token_stream()),
                );
                outer.push(attr.clone());
            }
        }
    }
    (outer, inner)
}

/// Returns the signature with its expected lints allowed, because they may be triggered where steps
/// read the inputs.
fn quiet_inputs(signature: &Signature) -> Signature {
    let mut signature = signature.clone();
    for input in &mut signature.inputs {
        if let FnArg::Typed(input) = input {
            let attrs = std::mem::take(&mut input.attrs);
            input.attrs = attrs
                .into_iter()
                .map(|attr| if is_lint(&attr) { before_statement(attr) } else { attr })
                .collect();
        }
    }
    signature
}

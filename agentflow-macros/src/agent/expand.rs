//! Generates the agent: the function with its body, a struct with its name, and a static. Every
//! path is absolute. The expansion contains no logic and calls functions of the library.
//! `tests/expansion/agent` shows examples.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::ReturnType;
use syn::spanned::Spanned as _;

use super::model::{Agent, ContextParam, Param};
use super::parse::AgentOptions;
use super::template::{Piece, Shown};
use crate::errors::Errors;
use crate::function::{Function, ends, has_lifetime};
use crate::paths;

pub(super) fn agent(agent: &Agent, function: &Function, errors: &mut Errors) -> TokenStream {
    let Agent { krate, name, description, .. } = agent;
    let private = quote!(#krate::__private);
    let Function { attrs, vis, signature, .. } = function;
    let ident = &signature.ident;
    let (values, call) = call(agent, ident, &private);
    let output = returned(function);
    let arguments = agent.params.iter().map(|Param { ident, .. }| ident);
    let context = match &agent.context {
        None => quote!(#private::None),
        Some(ContextParam { ident, ty }) => {
            let span = ends(ty).0;
            let of = quote_spanned!(span=> <#ty as #private::AgentContext>::context(#ident));
            quote!(#private::Some(#of))
        }
    };
    // All expressions of the agent's type get the span of the return type. The compiler then
    // reports the same mistake at the same position and shows it only once.
    let (first, last) = ends(&output);
    let begin = quote_spanned!(first=> <);
    let (agent_type, agent_fn) = (Ident::new("Agent", last), Ident::new("agent", last));
    let behind = quote!(#begin #output as #private::AgentReturn>::#agent_type);
    let arguments = quote_spanned!(last=> (#(#arguments),*));
    let made = quote!(#begin #ident>::#agent_fn #arguments);
    let made = quote_spanned!(last=> (#made, #context));
    let run = quote_spanned!(first=> <#output as #private::AgentReturn>::run #made);
    let call = quote_spanned!(last=> (#call));
    let make = quote_spanned!(first=> <#output as #private::AgentReturn>::agent #call);
    let params = agent.params.iter().map(|Param { ident, ty, .. }| quote!(#ident: #ty));
    let takes = takes(agent, &made_of(agent, ident, &output, &private), &output, &private);
    let options = options(&agent.options, &returned(function), takes, &private, errors);
    let known_model = known_model(&agent.options, &private);
    let old: Vec<_> = attrs.iter().filter(|attr| attr.path().is_ident("deprecated")).collect();
    quote! {
        // The doc comment is the instruction, so it has no section about errors. The arguments are
        // owned, because they belong to the call.
        #(#attrs)*
        #[allow(clippy::missing_errors_doc, clippy::needless_pass_by_value)]
        #vis #signature {
            #run.await
        }

        #[doc(hidden)]
        #[allow(non_camel_case_types, dead_code, missing_debug_implementations, missing_copy_implementations)]
        #vis struct #ident {}

        #[allow(clippy::needless_update)]
        const _: () = {
            static __AGENTFLOW_AGENT: #private::AgentDefinition = #private::agent_definition(
                #name,
                #description,
                (#private::file!(), #private::line!()),
                #options,
            );
            #[allow(deprecated)]
            impl #ident {
                /// What this agent is: its name, its instruction, its tools.
                #(#old)*
                #[allow(dead_code)]
                #vis fn definition() -> &'static #private::AgentDefinition {
                    &__AGENTFLOW_AGENT
                }

                /// The agent that a call with these arguments runs, to be run with other options: `()` asks what the
                /// call asks.
                #[allow(dead_code, clippy::needless_pass_by_value, clippy::too_many_arguments)]
                #vis fn agent(#(#params),*) -> #behind {
                    #(#values)*
                    #make
                }
            }
            #private::inventory::submit! {
                #private::Linked {
                    function: || {
                        #[allow(deprecated)]
                        #private::function_id(&#ident)
                    },
                    item: || {
                        #[allow(deprecated)]
                        #private::Box::new(<#ident>::definition())
                    },
                }
            }
            #known_model
        };
    }
}

/// Generates the agent of a call, with instruction and message built from its arguments.
fn call(agent: &Agent, ident: &Ident, private: &TokenStream) -> (Vec<TokenStream>, TokenStream) {
    let values = agent.template.values.iter().enumerate().map(|(index, shown)| {
        let name = value_name(index);
        let value = shown_value(&agent.params, shown, private);
        quote!(let #name = #value;)
    });
    let piece = |piece: &Piece| match piece {
        Piece::Text(text) => quote!(.text(#text)),
        Piece::Expr(expr) => quote!(.text(#expr)),
        Piece::App { key, optional } => quote!(.app(#key, #optional)),
        Piece::Value(index) => {
            let (path, name) = (&agent.template.values[*index].path, value_name(*index));
            quote!(.value(#path, &#name))
        }
    };
    let instruction = agent.template.instruction.iter().map(piece);
    let message = agent.template.message.iter().map(piece);
    let message = (!agent.template.message.is_empty()).then(|| quote!(.message() #(#message)*));
    let arguments =
        agent.params.iter().enumerate().filter(|(index, _)| !agent.template.shows(*index)).map(
            |(_, Param { ident, ty, name })| {
                let span = ends(ty).0;
                let value = quote_spanned!(span=> <#ty as #private::AgentParam>::json(&#ident));
                quote!(.argument(#name, &#value))
            },
        );
    let call = quote!(#private::AgentCall::new(<#ident>::definition()) #(#instruction)* #message #(#arguments)*);
    (values.collect(), call)
}

fn returned(function: &Function) -> TokenStream {
    match &function.signature.output {
        ReturnType::Default => quote!(()),
        ReturnType::Type(_, ty) => quote!(#ty),
    }
}

fn value_name(index: usize) -> Ident {
    format_ident!("value{index}", span = Span::mixed_site())
}

/// Generates the JSON of a parameter or a field. If its type has no JSON form, the error is
/// reported at the parameter's type, or for a field at the line of the instruction.
fn shown_value(params: &[Param], shown: &Shown, private: &TokenStream) -> TokenStream {
    let Param { ident, ty, .. } = &params[shown.param];
    if shown.fields.is_empty() {
        let span = ends(ty).0;
        return quote_spanned!(span=> <#ty as #private::AgentParam>::json(&#ident));
    }
    // The name is resolved as the user's parameter, and errors are reported at the placeholder's
    // line.
    let mut param = ident.clone();
    param.set_span(shown.span.resolved_at(ident.span()));
    let fields = &shown.fields;
    quote_spanned!(shown.span=> #private::AgentParam::json(&#param #(.#fields)*))
}

/// Generates the agent of a call whose arguments are read from JSON.
fn made_of(
    agent: &Agent,
    ident: &Ident,
    output: &TokenStream,
    private: &TokenStream,
) -> TokenStream {
    let (first, last) = ends(output);
    let arguments = local("arguments");
    let each =
        (0..agent.params.len()).map(|at| quote!(#private::AgentArguments::take(#arguments, #at)?));
    let begin = quote_spanned!(first=> <);
    let agent_fn = Ident::new("agent", last);
    let given = quote_spanned!(last=> (#(#each),*));
    quote!(#begin #ident>::#agent_fn #given)
}

/// Generates the code that calls the agent by name with JSON arguments.
fn takes(
    agent: &Agent,
    made: &TokenStream,
    output: &TokenStream,
    private: &TokenStream,
) -> TokenStream {
    let parameters = agent.params.iter().map(|Param { ty, name, .. }| {
        // Method resolution ignores lifetimes, and a reference cannot be read from JSON.
        let read = match has_lifetime(quote!(#ty)) {
            true => quote!(#private::None),
            false => quote!(#private::ParameterProbe::<#ty>::READ),
        };
        quote!(#private::AgentParameter::new::<#ty>(#name, #read))
    });
    let taken = match agent.params.is_empty() {
        true => quote!(_),
        false => local("arguments").into_token_stream(),
    };
    quote! {
        parameters: || {
            #[allow(unused_imports)]
            use #private::UndecodableParameter as _;
            #private::agent_parameters([#(#parameters),*])
        },
        asking: |#taken| {
            #[allow(unused_imports)]
            use #private::TextAnswerFallback as _;
            #private::Answers::<#output>::erased(#made)
        }
    }
}

fn local(name: &str) -> Ident {
    Ident::new(name, Span::mixed_site())
}

fn options(
    options: &AgentOptions,
    returned: &TokenStream,
    takes: TokenStream,
    private: &TokenStream,
    errors: &mut Errors,
) -> TokenStream {
    let AgentOptions {
        model,
        description,
        tools,
        temperature,
        max_tokens,
        prompt_cache,
        max_steps,
        output_retries,
        output_key,
        ..
    } = options;
    let mut fields = Vec::new();
    if let Some(model) = model {
        fields.push(quote!(model: #private::Some(#model)));
    }
    if let Some(description) = description {
        fields.push(quote!(description: #private::Some(#description)));
    }
    if !tools.is_empty() {
        // A path that is not a tool is reported at the path.
        let tools = tools.iter().map(|path| paths::linked(path, private, errors));
        fields.push(quote!(tools: || #private::linked_tools([#(#tools),*])));
    }
    if let Some(temperature) = temperature {
        fields.push(quote!(temperature: #private::Some(#temperature)));
    }
    if let Some(max_tokens) = max_tokens {
        fields.push(quote!(max_tokens: #private::Some(#max_tokens)));
    }
    if let Some(kept) = prompt_cache {
        fields.push(quote!(prompt_cache: #private::Some(#private::PromptCache::#kept)));
    }
    if let Some(max_steps) = max_steps {
        fields.push(quote!(max_steps: #private::Some(#max_steps)));
    }
    if let Some(output_retries) = output_retries {
        fields.push(quote!(output_retries: #private::Some(#output_retries)));
    }
    if let Some(key) = output_key {
        fields.push(quote_spanned!(key.span()=> output_key: #private::Some(|| {
            #[allow(unused_imports)]
            use #private::TextAnswerFallback as _;
            #private::Answers::<#returned>::output_key(&#key)
        })));
    }
    fields.push(quote!(answering: |agent| {
        #[allow(unused_imports)]
        use #private::TextAnswerFallback as _;
        #private::Answers::<#returned>::answering(agent)
    }));
    fields.push(takes);
    quote!(#private::AgentOptions { #(#fields,)* ..#private::AgentOptions::DEFAULT })
}

/// Checks a model name without a provider at compile time. Only the library knows which of these
/// names are unambiguous.
fn known_model(options: &AgentOptions, private: &TokenStream) -> Option<TokenStream> {
    let model = options.model.as_ref().filter(|model| !model.value().contains(['/', ':']))?;
    let check = quote_spanned!(model.span()=> const _: () = known_model(#model););
    Some(quote!(use #private::known_model; #check))
}

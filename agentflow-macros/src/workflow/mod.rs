//! Implements `#[workflow]`, which turns an async function into a graph of recorded nodes.
//!
//! - Reading: `signature` reads parameters and output, `attrs` the attributes, and `body` the
//!   statements. `choices`, `loops`, `forms` and `looks` read single constructs. `settings` checks
//!   the options of nodes, and `refuse` reports unsupported code.
//! - Data: `model` is the workflow as data. `names` names its nodes, and `env` resolves the
//!   variables that a step reads.
//! - Code generation: `expand` generates the function and its struct, and `nodes` the nodes.
//!   `gates`, `routes`, `rounds` and `calls` generate single constructs, `places` the start
//!   conditions, `asked` and `iterated` compile-time checks, and `code` the fingerprints.
//! - Leaves, which all of them may use: `syntax`, `stable`, `clocks`, `purity`, `standard_names`,
//!   `judged` and `spans`.

mod asked;
mod attrs;
mod body;
mod calls;
mod choices;
mod clocks;
mod code;
mod env;
mod expand;
mod forms;
mod gates;
mod iterated;
mod judged;
mod looks;
mod loops;
mod model;
#[cfg(test)]
pub(crate) mod mutations;
mod names;
mod nodes;
mod operands;
mod places;
mod purity;
mod refuse;
mod rounds;
mod routes;
mod settings;
mod signature;
mod spans;
mod stable;
mod standard_names;
mod syntax;
#[cfg(test)]
mod tests;

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{Block, Type};

use crate::errors::Errors;
use crate::{docs, fallback, function, place};

const EXPECTED: &str =
    "`#[workflow]` applies to an async function; write `async fn` with a body of steps";

/// Expands the attribute.
pub(crate) fn expand(options: TokenStream, item: TokenStream) -> TokenStream {
    expand_changed(options, item, |_| {})
}

/// Expands the attribute, with a change of the model before code is generated from it. Tests prove
/// with such changes that they find faults.
fn expand_changed(
    options: TokenStream,
    item: TokenStream,
    change: impl FnOnce(&mut model::Workflow),
) -> TokenStream {
    let mut errors = Errors::default();
    let options = attrs::options(options, &mut errors);
    let krate = options.krate();
    let function = match function::function(item.clone(), EXPECTED) {
        Ok(function) => function,
        Err(error) => {
            errors.push(error);
            let stub = function::name(item.clone())
                .map(|(vis, name)| fallback::workflow_stub(&krate, &vis, &name, None));
            return quote!(#item #errors #stub);
        }
    };
    function.plus_after_type(&mut errors);
    let associated = place::refuse_associated(&function, "a workflow", &mut errors);
    // Mistakes in parameter patterns are counted, because they do not affect the types.
    let before = errors.len();
    let (context, inputs, patterns) = signature::parameters(&function, &mut errors);
    // A pattern or a `mut` in a parameter does not affect the types.
    let only_patterns = before == 0 && errors.len() == patterns;
    let output = signature::output(&function, &mut errors);
    let block = match function.semicolon {
        Some(_) => None,
        None => match syn::parse2::<Block>(function.body.clone()) {
            Ok(block) => Some(block),
            Err(error) => {
                errors.push(error);
                return refused(&krate, (&function, associated), &errors, true, None);
            }
        },
    };
    let (Some(output), Some(block)) = (output, block) else {
        return refused(&krate, (&function, associated), &errors, false, None);
    };
    let signature_is_fine = errors.is_empty();
    let types_are_known = only_patterns && errors.len() == patterns;
    if function::context_not_taken(&function, "workflow", &mut errors) {
        let inputs: Vec<_> = inputs.iter().map(|input| &input.ty).collect();
        let types = types_are_known.then_some((&inputs[..], &output));
        return refused(&krate, (&function, associated), &errors, false, types);
    }
    let (body, flow) = body::body(block, &inputs, &mut errors);
    // Statements that a workflow refuses are still valid Rust, and editors complete valid Rust
    // better.
    let is_rust = signature_is_fine && errors.len() == flow;
    let name = match &options.name {
        Some(name) => name.value(),
        None => syn::ext::IdentExt::unraw(&function.signature.ident).to_string(),
    };
    let description = docs::description(&function.attrs, &krate);
    let first = options.first;
    let (max_llm_calls, timeout_ms) = (options.max_llm_calls, options.timeout_ms);
    let concurrency = options.concurrency.map(|number| number.to_token_stream());
    let (stop, decider) = (options.stop, options.decider);
    let mut workflow = model::Workflow {
        krate,
        name,
        description,
        context,
        inputs,
        output,
        concurrency,
        max_llm_calls,
        timeout_ms,
        stop,
        first,
        decider,
        body,
    };
    change(&mut workflow);
    let written = expand::workflow(&workflow, &function, &mut errors);
    match errors.is_empty() {
        true => written,
        false => {
            let inputs: Vec<_> = workflow.inputs.iter().map(|input| &input.ty).collect();
            let types = types_are_known.then_some((&inputs[..], &workflow.output));
            refused(&workflow.krate, (&function, associated), &errors, is_rust, types)
        }
    }
}

/// Generates a refused workflow: the function without code that only the macro understands, all
/// errors, and a stub of its struct.
fn refused(
    krate: &syn::Path,
    (function, associated): (&function::Function, bool),
    errors: &Errors,
    is_rust: bool,
    types: Option<(&[&Type], &Type)>,
) -> TokenStream {
    // A struct cannot be declared in an `impl`.
    let stub = (!associated && function.signature.receiver().is_none())
        .then(|| fallback::workflow_stub(krate, &function.vis, &function.signature.ident, types));
    let function = fallback::quiet(function, is_rust);
    quote!(#function #errors #stub)
}

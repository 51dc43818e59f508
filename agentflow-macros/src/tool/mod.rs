//! Implements `#[tool]`.
//!
//! `parse` reads the options, and `model` combines them with the signature and the doc comments to
//! the tool as data. `validate` reports functions that cannot be a tool, and `expand` generates
//! the code. The function keeps its signature and stays callable. In front of its body, `expand`
//! inserts a check that makes a call in a workflow step a recorded call. The body itself is only
//! searched for the name `cx`.

mod expand;
mod model;
mod parse;
#[cfg(test)]
mod tests;
mod validate;

use proc_macro2::TokenStream;
use quote::quote;

use crate::errors::Errors;
use crate::{fallback, function, paths, place};

const EXPECTED: &str = "`#[tool]` goes on a function; write `fn` or `async fn` with a body";

/// Expands the attribute.
pub(crate) fn expand(options: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let options = parse::options(options, &mut errors);
    let mut function = match function::function(item.clone(), EXPECTED) {
        Ok(function) => function,
        Err(error) => {
            errors.push(error);
            let stub = function::name(item.clone())
                .map(|(vis, name)| fallback::tool_stub(&options.krate(), &vis, &name));
            return quote!(#item #errors #stub);
        }
    };
    function.plus_after_type(&mut errors);
    paths::add_tool(&function.signature.ident);
    // The tool is written even if an option is wrong, so that the compiler checks its types in the
    // same pass.
    let mut shape = Errors::default();
    let tool = model::tool(options, &mut function, &mut errors, &mut shape);
    validate::tool(&tool, &function, &mut errors, &mut shape);
    if function::context_not_taken(&function, "tool", &mut shape) {
        let (quiet, name) = (fallback::quiet(&function, false), &function.signature.ident);
        let stub = fallback::tool_stub(&tool.krate, &function.vis, name);
        return quote!(#quiet #errors #shape #stub);
    }
    let associated = place::refuse_associated(&function, "a tool", &mut shape);
    if shape.is_empty() {
        let tool = expand::tool(&tool, &function);
        return quote!(#tool #errors);
    }
    // A struct cannot be declared in an `impl`.
    let stub = (!associated && function.signature.receiver().is_none())
        .then(|| fallback::tool_stub(&tool.krate, &function.vis, &function.signature.ident));
    quote!(#function #errors #shape #stub)
}

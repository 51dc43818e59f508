//! Implements `#[agent]`.
//!
//! `parse` reads the options, and `template` splits the doc comment into the instruction and the
//! user's message. `model` combines them with the signature to the agent as data. `validate`
//! reports functions that cannot be an agent, and `expand` generates the code. The macro sees only
//! names; the compiler checks types by the bounds of the expansion.

mod expand;
mod model;
mod parse;
mod template;
#[cfg(test)]
mod tests;
mod validate;

use proc_macro2::TokenStream;
use quote::quote;

use crate::errors::Errors;
use crate::{fallback, function, place};

const EXPECTED: &str = "`#[agent]` applies to a function without a body, as in `async fn judge(text: String) -> Result<Risk>;`";

/// Expands the attribute.
pub(crate) fn expand(options: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let options = parse::options(options, &mut errors);
    let function = match function::function(item.clone(), EXPECTED) {
        Ok(function) => function,
        Err(error) => {
            errors.push(error);
            let stub = function::name(item.clone())
                .map(|(vis, name)| fallback::agent_stub(&options.krate(), &vis, &name, None));
            return quote!(#item #errors #stub);
        }
    };
    function.plus_after_type(&mut errors);
    // The agent is written even if an option or a placeholder is wrong, so that the compiler checks
    // its types in the same pass.
    let mut shape = Errors::default();
    let agent = model::agent(options, &function, &mut errors, &mut shape);
    validate::agent(&agent, &function, &mut errors, &mut shape);
    let associated = place::refuse_associated(&function, "an agent", &mut shape);
    if shape.is_empty() {
        let agent = expand::agent(&agent, &function, &mut errors);
        return quote!(#agent #errors);
    }
    // A struct cannot be declared in an `impl`.
    let stub = (!associated && function.signature.receiver().is_none()).then(|| {
        fallback::agent_stub(
            &agent.krate,
            &function.vis,
            &function.signature.ident,
            Some(agent.params.len()),
        )
    });
    quote!(#[allow(unused_variables, unused_mut, clippy::unused_async)] #function #errors #shape #stub)
}

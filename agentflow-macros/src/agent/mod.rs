//! `#[agent]`: `parse` reads the options, `template` the instruction, `model` says what the agent is, `validate` what it
//! may not be, `expand` writes it.

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

const EXPECTED: &str =
    "`#[agent]` goes on a function without a body, as in `async fn judge(text: String) -> Result<Risk>;`";

/// From the attribute's and the item's tokens to the agent.
pub(crate) fn expand(options: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let options = parse::options(options, &mut errors);
    let function = match function::function(item.clone(), EXPECTED) {
        Ok(function) => function,
        Err(error) => {
            errors.push(error);
            let stub =
                function::name(item.clone()).map(|(vis, name)| fallback::agent_stub(&options.krate(), &vis, &name));
            return quote!(#item #errors #stub);
        }
    };
    // With a wrong option or placeholder the agent is still written, so that the compiler judges its types at the same
    // time.
    let mut shape = Errors::default();
    let agent = model::agent(options, &function, &mut errors, &mut shape);
    validate::agent(&agent, &function, &mut errors, &mut shape);
    let associated = place::refuse_associated(&function, "an agent", &mut shape);
    if shape.is_empty() {
        let agent = expand::agent(&agent, &function, &mut errors);
        return quote!(#agent #errors);
    }
    // Within an `impl` there cannot be a struct.
    let stub = (!associated && function.signature.receiver().is_none())
        .then(|| fallback::agent_stub(&agent.krate, &function.vis, &function.signature.ident));
    quote!(#[allow(unused_variables, unused_mut, clippy::unused_async)] #function #errors #shape #stub)
}

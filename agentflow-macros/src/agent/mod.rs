//! `#[agent]`: `parse` reads the options and `template` the comment, `model` holds the agent as data, `validate`
//! refuses what cannot be an agent, `expand` writes the code. It knows names only: types are judged by the compiler.

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
            let stub = function::name(item.clone())
                .map(|(vis, name)| fallback::agent_stub(&options.krate(), &vis, &name, None));
            return quote!(#item #errors #stub);
        }
    };
    function.plus_after_type(&mut errors);
    // With a wrong option or placeholder the agent is still written, so that the compiler checks its types in the same
    // pass.
    let mut shape = Errors::default();
    let agent = model::agent(options, &function, &mut errors, &mut shape);
    validate::agent(&agent, &function, &mut errors, &mut shape);
    let associated = place::refuse_associated(&function, "an agent", &mut shape);
    if shape.is_empty() {
        let agent = expand::agent(&agent, &function, &mut errors);
        return quote!(#agent #errors);
    }
    // An `impl` cannot hold a struct.
    let stub = (!associated && function.signature.receiver().is_none()).then(|| {
        fallback::agent_stub(&agent.krate, &function.vis, &function.signature.ident, Some(agent.params.len()))
    });
    quote!(#[allow(unused_variables, unused_mut, clippy::unused_async)] #function #errors #shape #stub)
}

//! Reports functions that cannot be an agent, where a message of the macro is clearer than the
//! compiler's. The compiler checks types by the bounds in the expansion.

use quote::ToTokens;
use syn::{GenericParam, ReturnType, Safety, Type};

use super::model::Agent;
use crate::errors::Errors;
use crate::function::{Function, bare, borrows, is_name, mutable_context, named_context};

const BORROWED: &str = "only the first parameter of an agent may be a reference, the context; \
    take an owned value, such as `String` instead of `&str`";

pub(super) fn agent(agent: &Agent, function: &Function, errors: &mut Errors, shape: &mut Errors) {
    signature(function, shape);
    if !is_name(&agent.name, "_-") {
        let message = format!(
            "`{}` is not a valid name of an agent; use 1 to 64 letters from a to z, digits, `_` or `-`, as in `#[agent(name = \"risk_judge\")]`",
            agent.name
        );
        errors.at_span(agent.name_span, message);
    }
    if let Some(context) = function.signature.inputs.first().filter(|_| agent.context.is_some()) {
        mutable_context(context, shape);
    }
    for param in &agent.params {
        param_type(&param.ty, shape);
    }
    if agent.template.is_empty() && errors.is_empty() {
        errors.at(
            &function.signature.ident,
            "an agent needs an instruction; describe the model's task in a `///` comment on this function",
        );
    }
}

fn signature(function: &Function, errors: &mut Errors) {
    let signature = &function.signature;
    if signature.asyncness.is_none() {
        errors.at(signature.fn_token, "an agent waits for its model; write `async fn`");
    }
    if let Some(token) = &signature.constness {
        errors.at(token, "an agent cannot be `const`, since it calls a model; remove `const`");
    }
    if let Safety::Unsafe(token) = &signature.safety {
        errors.at(token, "an agent cannot be `unsafe`; remove `unsafe`");
    }
    if let Some(abi) = &signature.abi {
        errors.at(abi, "an agent is an ordinary Rust function; remove `extern`");
    }
    for param in &signature.generics.params {
        if !matches!(param, GenericParam::Lifetime(_)) {
            errors.at(
                param,
                "an agent cannot be generic, since its instruction and answer are fixed; write a function for each type",
            );
        }
    }
    if let Some(receiver) = signature.receiver() {
        errors.at(receiver, "an agent is a free function and has no `self`; pass what the model needs as parameters");
    }
    if let Some(variadic) = &signature.variadic {
        errors.at(variadic, "an agent has a fixed number of parameters; take a `Vec`");
    }
    if matches!(signature.output, ReturnType::Default) {
        errors.at(
            &signature.ident,
            "an agent returns a `Result`, since its model can fail; write `agentflow::Result<String>` for text, or `agentflow::Result<T>`",
        );
    }
    if function.semicolon.is_none() {
        let message = "an agent has no body, since its model does the work; end the function with `;`, or write a `#[tool]`";
        match function.body.is_empty() {
            true => errors.at(signature, "an agent ends with `;`"),
            false => errors.at(&function.body, message),
        }
    } else if !function.body.is_empty() {
        errors.at(&function.body, "an agent ends with its `;`; remove what follows");
    }
}

fn param_type(ty: &Type, errors: &mut Errors) {
    match bare(ty) {
        Type::ImplTrait(opaque) => {
            errors.at(
                opaque,
                "an agent's parameter needs one type; write the type's name instead of `impl`",
            );
        }
        // The type's name selects the message. The parameter is refused in any case.
        Type::Reference(reference) if named_context(&reference.elem) => {
            errors.at(reference, "the context must be the first parameter; move it to the front");
        }
        other if borrows(other.to_token_stream()) => errors.at(other, BORROWED),
        _ => {}
    }
}

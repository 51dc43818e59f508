//! Reports functions that cannot be a tool, where a message of the macro is clearer than the
//! compiler's. The compiler checks types by the bounds in the expansion.

use quote::ToTokens;
use syn::{GenericParam, ReturnType, Safety, Type};

use super::model::{Param, Tool};
use crate::errors::Errors;
use crate::function::{Function, bare, borrows, has_impl, is_name, mutable_context, named_context};
use crate::unanswered::TimeoutAction;

/// Number of `ToolFn..` traits in the library.
const MAX_PARAMS: usize = 16;

const BORROWED: &str = "a tool cannot borrow from the model's arguments; \
    take an owned value, such as `String` instead of `&str`";

pub(super) fn tool(tool: &Tool, function: &Function, errors: &mut Errors, shape: &mut Errors) {
    signature(function, shape);
    name(tool, errors);
    if let Some(context) = function.signature.inputs.first().filter(|_| tool.context.is_some()) {
        mutable_context(context, shape);
    }
    for (index, param) in tool.params.iter().enumerate() {
        param_type(&param.ty, shape);
        param_name(param, &tool.params[..index], errors);
    }
    if let Some(param) = tool.params.get(MAX_PARAMS) {
        shape.at(
            &param.ty,
            format!("a tool has at most {MAX_PARAMS} parameters; put some of them into one struct"),
        );
    }
    if let ReturnType::Type(_, ty) = &function.signature.output
        && has_impl(ty)
    {
        shape.at(
            ty,
            "a tool's return type needs a name, since a recorded answer is read back as it; write it instead of `impl`",
        );
    }
    let options = &tool.options;
    let waits = function.signature.asyncness.is_some();
    if let Some(span) = options.blocking.filter(|_| waits) {
        errors.at_span(span, "`blocking` is for a `fn`, and this is an `async fn`; remove it");
    }
    if let Some(path) = options.compensate.as_ref().filter(|_| !waits) {
        errors.at(
            path,
            "a `fn` cannot wait until its call is recorded, so it could not be undone after a crash; write `async fn`, or \
             remove `compensate`",
        );
    }
    if let Some((_, span)) = options.approve_timeout.filter(|_| !options.approve) {
        errors.at_span(
            span,
            "this tool asks for no approval, so `approve_timeout` has no effect; add `approve`, or remove `approve_timeout`",
        );
    }
    match &options.on_timeout {
        Some((option, TimeoutAction::Answer(_))) => {
            errors.at(option, "the question about a call is answered with a yes or a no; write `deny` or `approve`");
        }
        Some((option, _)) if options.approve_timeout.is_none() => {
            let message = "the question about a call waits for its answer for ever; add `approve_timeout = \"2d\"`";
            errors.at(option, message);
        }
        _ => {}
    }
    if let Some((_, span)) = options.timeout.filter(|_| !waits && options.blocking.is_none()) {
        errors.at_span(
            span,
            "a `fn` that runs in line cannot be stopped after a time; add `blocking`, write `async fn`, or remove `timeout`",
        );
    }
}

fn signature(function: &Function, errors: &mut Errors) {
    let signature = &function.signature;
    for param in &signature.generics.params {
        if !matches!(param, GenericParam::Lifetime(_)) {
            errors.at(
                param,
                "a tool cannot be generic, since the model needs one schema; write one function for each type",
            );
        }
    }
    if let Some(receiver) = signature.receiver() {
        errors.at(
            receiver,
            "a tool is a free function and has no `self`; take what it needs as `Inject<T>` and provide it to the agent",
        );
    }
    if let Safety::Unsafe(token) = &signature.safety {
        errors.at(
            token,
            "a tool cannot be `unsafe`, since a model calls it; check the arguments in a safe function that calls this one",
        );
    }
    if let Some(abi) = &signature.abi {
        errors.at(abi, "a tool is an ordinary Rust function; remove `extern`");
    }
    if let Some(variadic) = &signature.variadic {
        errors.at(variadic, "a tool has a fixed number of parameters; take a `Vec` instead");
    }
    if let Some(semicolon) = &function.semicolon {
        errors.at(semicolon, "a tool needs a body; write one, or use `#[agent]` to ask a model");
    }
}

fn name(tool: &Tool, errors: &mut Errors) {
    if !is_name(&tool.name, "_-") {
        let message = format!(
            "`{}` is not a valid name of a tool; use 1 to 64 letters from a to z, digits, `_` or `-`, as in `#[tool(name = \"find_order\")]`",
            tool.name
        );
        errors.at_span(tool.name_span, message);
    }
}

fn param_name(param: &Param, earlier: &[Param], errors: &mut Errors) {
    if !is_name(&param.name, "_-.") {
        let message = format!(
            "`{}` is not a valid name of a parameter; use 1 to 64 letters from a to z, digits, `_`, `-` or `.`, as in `#[tool(rename = \"size\")]`",
            param.name
        );
        errors.at_span(param.name_span, message);
    } else if earlier.iter().any(|other| other.name == param.name) {
        errors.at_span(
            param.name_span,
            format!("two parameters are named `{}`; rename one of them", param.name),
        );
    }
}

fn param_type(ty: &Type, errors: &mut Errors) {
    match bare(ty) {
        Type::ImplTrait(opaque) => {
            errors.at(
                opaque,
                "a parameter needs one type, since the model needs one schema; write the type's name instead of `impl`",
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

//! Reads the signature and reports parameters and outputs that a workflow cannot have. The compiler
//! checks types by the bounds in the expansion.

use proc_macro2::{Ident, Span};
use quote::ToTokens;
use syn::{FnArg, GenericParam, Pat, PatType, ReturnType, Safety, Type};

use super::attrs::is_lint;
use super::model::{ContextParam, Input};
use crate::errors::Errors;
use crate::function::{
    Function, bare, borrows, has_impl, has_reference, is_plain, mutable_context, named_context,
};

/// Maximum length of a tuple that implements `Inputs`.
const MAX_INPUTS: usize = 12;

const BORROWED: &str = "a workflow cannot borrow an input, since inputs are recorded; take an owned value, such as \
                        `String` instead of `&str`";

/// Returns `true` if a parameter has a name that is typical for a context.
fn is_called_context(pat: &Pat) -> bool {
    let Pat::Ident(pat) = pat else { return false };
    ["cx", "_cx", "ctx", "_ctx"].iter().any(|name| pat.ident == name)
}

/// Returns the context, the inputs, and the number of mistakes in patterns, which do not affect the
/// types.
pub(super) fn parameters(
    function: &Function,
    errors: &mut Errors,
) -> (Option<ContextParam>, Vec<Input>, usize) {
    shape(function, errors);
    let mut context = None;
    let mut inputs: Vec<Input> = Vec::new();
    let mut patterns = 0;
    let is_typed = |input: &&FnArg| matches!(input, FnArg::Typed(_));
    for (index, input) in function.signature.inputs.iter().filter(is_typed).enumerate() {
        let FnArg::Typed(typed) = input else { continue };
        for attr in typed
            .attrs
            .iter()
            .filter(|attr| attr.path().is_ident("cfg") || attr.path().is_ident("cfg_attr"))
        {
            errors
                .at(attr, "a workflow's inputs cannot be conditional; put `#[cfg(..)]` on one function for each case");
        }
        match bare(&typed.ty) {
            Type::Reference(reference) if index == 0 && !is_plain(&reference.elem) => {
                mutable_context(input, errors);
                let ident = match &*typed.pat {
                    Pat::Ident(pat) => Some(pat.ident.clone()),
                    _ => None,
                };
                context = Some(ContextParam { ident, ty: (*reference.elem).clone() });
            }
            // An input type may also be called `Context`, so the variable must look like a context
            // too.
            ty if index == 0 && named_context(ty) && is_called_context(&typed.pat) => errors.at(
                ty,
                "the context is given by reference; write `&Context`, or give an input that is a type of your own another \
                 name",
            ),
            ty => {
                check_type(ty, errors);
                let before = errors.len();
                inputs.push(input_of(typed, errors));
                patterns += errors.len() - before;
            }
        }
    }
    if let Some(input) = inputs.get(MAX_INPUTS) {
        errors.at(
            &input.ty,
            format!("a workflow has at most {MAX_INPUTS} inputs; put some of them into one struct"),
        );
    }
    (context, inputs, patterns)
}

fn input_of(typed: &PatType, errors: &mut Errors) -> Input {
    match &*typed.pat {
        Pat::Ident(pat) if pat.by_ref.is_none() && pat.subpat.is_none() => {
            if let Some(token) = &pat.mutability {
                let name = &pat.ident;
                errors.at(
                    token,
                    format!(
                        "an input cannot change in a workflow; remove `mut`, and put all that changes it into one block: \
                         `let {name} = {{ let mut {name} = {name}; ..; {name} }};`"
                    ),
                );
            }
            let lints = typed.attrs.iter().filter(|attr| is_lint(attr)).cloned().collect();
            Input { ident: pat.ident.clone(), ty: (*typed.ty).clone(), lints }
        }
        pattern => {
            errors.at(pattern, "an input needs a name, since it is recorded; name it, and destructure it in a `let`");
            let ident = Ident::new("agentflow_input", Span::mixed_site());
            Input { ident, ty: (*typed.ty).clone(), lints: Vec::new() }
        }
    }
}

fn check_type(ty: &Type, errors: &mut Errors) {
    match ty {
        Type::ImplTrait(opaque) => {
            errors.at(opaque, "an input needs one type, since it is recorded; write the type's name instead of `impl`");
        }
        // The type's name selects the message. The parameter is refused in any case.
        Type::Reference(reference) if named_context(&reference.elem) => {
            errors.at(reference, "the context must be the first parameter; move it to the front");
        }
        other if borrows(other.to_token_stream()) => errors.at(other, BORROWED),
        _ => {}
    }
}

fn shape(function: &Function, errors: &mut Errors) {
    let signature = &function.signature;
    if signature.asyncness.is_none() {
        errors.at(signature.fn_token, "a workflow awaits its steps; write `async fn`");
    }
    for param in &signature.generics.params {
        if !matches!(param, GenericParam::Lifetime(_)) {
            errors.at(
                param,
                "a workflow cannot be generic, since its values are recorded; write one function for each type",
            );
        }
    }
    if let Some(receiver) = signature.receiver() {
        errors.at(
            receiver,
            "a workflow is a free function and has no `self`; take what it needs from the context, `cx: &Context`",
        );
    }
    if let Safety::Unsafe(token) = &signature.safety {
        errors.at(token, "a workflow cannot be `unsafe`, since a runtime calls it; move the unsafe part into a step");
    }
    if let Some(abi) = &signature.abi {
        errors.at(abi, "a workflow is an ordinary Rust function; remove `extern`");
    }
    if let Some(token) = &signature.constness {
        errors.at(token, "a workflow cannot be `const`, since it runs steps; remove `const`");
    }
    if let Some(variadic) = &signature.variadic {
        errors.at(variadic, "a workflow has a fixed number of inputs; take a `Vec` instead");
    }
    if let Some(semicolon) = &function.semicolon {
        errors.at(
            semicolon,
            "a workflow needs a body; write its steps, or use `#[agent]` to ask a model",
        );
    }
}

/// Returns the return type. Returns `None` if it is missing or was reported.
pub(super) fn output(function: &Function, errors: &mut Errors) -> Option<Type> {
    match &function.signature.output {
        ReturnType::Type(_, ty) => {
            if let Type::ImplTrait(opaque) = bare(ty) {
                errors.at(
                    opaque,
                    "the output needs one type, since it is recorded; write the type's name instead of `impl`",
                );
                return None;
            }
            if is_plain(ty) {
                let written = ty.to_token_stream().to_string().replace(" :: ", "::");
                errors.at(
                    ty,
                    format!(
                        "a workflow can fail, so it returns a `Result`; write `Result<{written}>`"
                    ),
                );
                return None;
            }
            if has_impl(ty) {
                errors
                    .at(ty, "the output needs one type, since it is recorded; write the type's name instead of `impl`");
                return None;
            }
            if has_reference(ty) {
                errors.at(
                    ty,
                    "the output is recorded, so it owns its data; write `String` for `&str`",
                );
                return None;
            }
            Some((**ty).clone())
        }
        ReturnType::Default => {
            let at = function.signature.paren_token.span.close();
            errors.at_span(
                at,
                "a workflow can fail, so it returns a `Result`; write `-> Result<()>` when there is no output",
            );
            None
        }
    }
}

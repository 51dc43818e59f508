//! Reads the signature, and says what a workflow's cannot be. Types are judged by the compiler, by bounds.

use quote::ToTokens;
use syn::{FnArg, GenericParam, Pat, PatType, ReturnType, Safety, Type};

use super::attrs::{before_statement, is_lint};
use super::model::{Context, Input};
use crate::errors::Errors;
use crate::function::{Function, bare, borrows, is_plain, mutable_context, named_context};

/// As many inputs as there are in the longest `Inputs`.
const MAX_INPUTS: usize = 12;

const BORROWED: &str = "inputs are recorded, so a workflow cannot borrow one; take an owned value, such as `String` for \
                        `&str`";

pub(super) fn parameters(function: &Function, errors: &mut Errors) -> (Option<Context>, Vec<Input>) {
    shape(function, errors);
    let mut context = None;
    let mut inputs: Vec<Input> = Vec::new();
    for (index, input) in function.signature.inputs.iter().enumerate() {
        let FnArg::Typed(typed) = input else { continue };
        for attr in typed.attrs.iter().filter(|attr| attr.path().is_ident("cfg") || attr.path().is_ident("cfg_attr")) {
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
                context = Some(Context { ident, ty: (*reference.elem).clone() });
            }
            ty => {
                check_type(ty, errors);
                inputs.extend(input_of(typed, errors));
            }
        }
    }
    if let Some(input) = inputs.get(MAX_INPUTS) {
        errors.at(&input.ty, format!("a workflow has at most {MAX_INPUTS} inputs; put some of them into one struct"));
    }
    (context, inputs)
}

fn input_of(typed: &PatType, errors: &mut Errors) -> Option<Input> {
    match &*typed.pat {
        Pat::Ident(pat) if pat.by_ref.is_none() && pat.subpat.is_none() => {
            if let Some(token) = &pat.mutability {
                errors.at(token, "an input does not change; remove `mut`");
            }
            let lints = typed.attrs.iter().filter(|attr| is_lint(attr)).cloned().map(before_statement).collect();
            Some(Input { ident: pat.ident.clone(), ty: (*typed.ty).clone(), lints })
        }
        pattern => {
            errors.at(pattern, "an input is recorded by its name; name the parameter and take it apart in a `let`");
            None
        }
    }
}

fn check_type(ty: &Type, errors: &mut Errors) {
    match ty {
        Type::ImplTrait(opaque) => {
            errors.at(opaque, "an input needs one type, since it is recorded; write the type's name");
        }
        // The words are a guess by the type's name; the refusal is not.
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
        errors.at(signature.fn_token, "the steps of a workflow are awaited; write `async fn`");
    }
    for param in &signature.generics.params {
        if !matches!(param, GenericParam::Lifetime(_)) {
            errors.at(
                param,
                "a workflow cannot be generic, since its values are recorded with their types; write one for each type",
            );
        }
    }
    if let Some(receiver) = signature.receiver() {
        errors.at(
            receiver,
            "a workflow is a free function and has no `self`; what it needs comes with the context, as in `cx: &Context`",
        );
    }
    if let Safety::Unsafe(token) = &signature.safety {
        errors.at(token, "a workflow cannot be `unsafe`, since a runtime calls it; wrap the unsafe part in a step");
    }
    if let Some(abi) = &signature.abi {
        errors.at(abi, "a workflow is an ordinary Rust function; remove `extern`");
    }
    if let Some(token) = &signature.constness {
        errors.at(token, "a workflow runs, so it cannot be `const`");
    }
    if let Some(variadic) = &signature.variadic {
        errors.at(variadic, "a workflow has a fixed number of inputs; take a `Vec`");
    }
    if let Some(semicolon) = &function.semicolon {
        errors.at(semicolon, "a workflow needs a body of steps; what a model is to answer is an `#[agent]`");
    }
}

/// The return type; `None` when there is none.
pub(super) fn output(function: &Function, errors: &mut Errors) -> Option<Type> {
    match &function.signature.output {
        ReturnType::Type(_, ty) => {
            if let Type::ImplTrait(opaque) = bare(ty) {
                errors.at(opaque, "the output needs one type, since it is recorded; write the type's name");
                return None;
            }
            if is_plain(ty) {
                let written = ty.to_token_stream().to_string().replace(" :: ", "::");
                errors.at(ty, format!("a workflow can fail, so it returns a `Result`; write `Result<{written}>`"));
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

//! The agent as data: name, parameters, instruction and options.

use proc_macro2::{Ident, Span, TokenStream};
use syn::ext::IdentExt;
use syn::{FnArg, Pat, PatType, Path, Type};

use super::parse::AgentOptions;
use super::template::{ParamNames, Template};
use crate::docs;
use crate::errors::Errors;
use crate::function::{Function, bare, is_plain};

pub(super) struct Agent {
    pub(super) krate: Path,
    pub(super) name: String,
    /// Span of the name, for errors.
    pub(super) name_span: Span,
    /// The instruction as written: a string expression.
    pub(super) description: TokenStream,
    pub(super) template: Template,
    pub(super) context: Option<ContextParam>,
    pub(super) params: Vec<Param>,
    pub(super) options: AgentOptions,
}

/// The first parameter, if it is a reference.
pub(super) struct ContextParam {
    pub(super) ident: Ident,
    /// The type after the `&`.
    pub(super) ty: Type,
}

pub(super) struct Param {
    pub(super) ident: Ident,
    pub(super) ty: Type,
    /// The parameter's name for the model and in placeholders.
    pub(super) name: String,
}

/// Builds the model. `shape` collects mistakes that prevent the agent from being written.
pub(super) fn agent(
    options: AgentOptions,
    function: &Function,
    errors: &mut Errors,
    shape: &mut Errors,
) -> Agent {
    let mut context = None;
    let mut params = Vec::new();
    for (index, input) in function.signature.inputs.iter().enumerate() {
        // `validate` reports `self`.
        let FnArg::Typed(input) = input else { continue };
        let Some(ident) = name(input, shape) else { continue };
        match bare(&input.ty) {
            Type::Reference(reference) if index == 0 && !is_plain(&reference.elem) => {
                context = Some(ContextParam { ident, ty: (*reference.elem).clone() });
            }
            _ => params.push(Param {
                name: ident.unraw().to_string(),
                ident,
                ty: (*input.ty).clone(),
            }),
        }
    }
    let ident = &function.signature.ident;
    let (name, name_span) = match &options.name {
        Some(name) => (name.value(), name.span()),
        None => (ident.unraw().to_string(), ident.span()),
    };
    let krate = options.krate();
    let names = ParamNames {
        params: params.iter().map(|param: &Param| param.name.clone()).collect(),
        context: context.as_ref().map(|context| &context.ident),
    };
    let template = Template::read(&function.attrs, &names, errors);
    let description = docs::description(&function.attrs, &krate);
    Agent { krate, name, name_span, description, template, context, params, options }
}

/// Returns the parameter's name. Other elements of a pattern have no meaning without a body.
fn name(input: &PatType, errors: &mut Errors) -> Option<Ident> {
    for attr in &input.attrs {
        if attr.path().is_ident("cfg") || attr.path().is_ident("cfg_attr") {
            errors.at(
                attr,
                "an agent's parameters cannot be conditional; put `#[cfg(..)]` on one function for each case",
            );
        } else if docs::doc(attr).is_some() {
            errors.at(
                attr,
                "an agent's parameters have no documentation of their own; describe them in the instruction, above the function",
            );
        }
    }
    match &*input.pat {
        Pat::Ident(pat) if pat.by_ref.is_none() && pat.subpat.is_none() => {
            if let Some(token) = &pat.mutability {
                errors
                    .at(token, "an agent has no body that could change a parameter; remove `mut`");
            }
            Some(pat.ident.clone())
        }
        Pat::Wild(wild) => {
            errors.at(
                wild,
                "this parameter needs a name, since the model sees it; write one instead of `_`",
            );
            None
        }
        pattern => {
            errors.at(
                pattern,
                "this parameter needs a name, since the model sees it; write a name instead of the pattern",
            );
            None
        }
    }
}

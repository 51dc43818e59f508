//! The tool as data: name, parameters and options.

use proc_macro2::{Ident, Span, TokenStream};
use quote::format_ident;
use syn::ext::IdentExt;
use syn::{Attribute, FnArg, Pat, PatType, Path, Type};

use super::parse::{ParamDefault, ParamOptions, ToolOptions, param_options};
use crate::docs;
use crate::errors::Errors;
use crate::function::{Function, bare, is_plain};

pub(super) struct Tool {
    pub(super) krate: Path,
    pub(super) name: String,
    /// Span of the name, for errors.
    pub(super) name_span: Span,
    /// A string expression.
    pub(super) description: TokenStream,
    /// The type after the `&` of the context parameter.
    pub(super) context: Option<Type>,
    pub(super) params: Vec<Param>,
    pub(super) options: ToolOptions,
}

pub(super) struct Param {
    /// Variable in the expansion, which the user's code cannot name.
    pub(super) ident: Ident,
    /// Name in the function.
    pub(super) written: Ident,
    pub(super) ty: Type,
    /// Name for the model.
    pub(super) name: String,
    pub(super) name_span: Span,
    pub(super) description: TokenStream,
    pub(super) default: Option<ParamDefault>,
}

/// Builds the model and removes the attributes of this crate from the parameters. The rest of the
/// function stays for the compiler.
///
/// `shape` collects mistakes that prevent the tool from being written.
pub(super) fn tool(
    options: ToolOptions,
    function: &mut Function,
    errors: &mut Errors,
    shape: &mut Errors,
) -> Tool {
    let krate = options.krate();
    let mut context = None;
    let mut params = Vec::new();
    for (index, input) in function.signature.inputs.iter_mut().enumerate() {
        // `validate` reports `self`.
        let FnArg::Typed(input) = input else { continue };
        let attrs = ParamAttrs::take(input, &krate, errors);
        match bare(&input.ty) {
            Type::Reference(reference) if index == 0 && !is_plain(&reference.elem) => {
                attrs.refuse_for_context(errors);
                context = Some((*reference.elem).clone());
            }
            _ => params.extend(param(input, attrs, params.len(), shape)),
        }
    }
    let ident = &function.signature.ident;
    let (name, name_span) = match &options.name {
        Some(name) => (name.value(), name.span()),
        None => (ident.unraw().to_string(), ident.span()),
    };
    let description = match &options.description {
        Some(text) => quote::quote!(#text),
        None => docs::description(&function.attrs, &krate),
    };
    Tool { krate, name, name_span, description, context, params, options }
}

fn param(input: &PatType, attrs: ParamAttrs, index: usize, errors: &mut Errors) -> Option<Param> {
    let ident = match &*input.pat {
        Pat::Ident(pat) if pat.by_ref.is_none() && pat.subpat.is_none() => &pat.ident,
        Pat::Wild(wild) => {
            errors.at(
                wild,
                "this parameter needs a name, since the model sees it; write one instead of `_`, such as `_limit`",
            );
            return None;
        }
        pattern => {
            let message = match resource_name(pattern, &input.ty) {
                Some(name) => {
                    let ty = &input.ty;
                    let ty = quote::quote!(#ty).to_string().replace(' ', "");
                    format!("a resource is taken whole; write `{name}: {ty}`, which dereferences to the resource")
                }
                None => "this parameter needs a name, since the model sees it; name it, and destructure it in the body"
                    .to_owned(),
            };
            errors.at(pattern, message);
            return None;
        }
    };
    let (name, name_span) = match attrs.options.rename {
        Some(name) => (name.value(), name.span()),
        None => (ident.unraw().to_string(), ident.span()),
    };
    Some(Param {
        ident: format_ident!("p{index}", span = Span::mixed_site()),
        written: ident.clone(),
        ty: (*input.ty).clone(),
        name,
        name_span,
        description: attrs.description,
        default: attrs.options.default,
    })
}

/// Returns the name in a pattern such as `Inject(db)`, the extractor syntax of web frameworks.
fn resource_name(pattern: &Pat, ty: &Type) -> Option<String> {
    let (Pat::TupleStruct(taken), Type::Path(ty)) = (pattern, bare(ty)) else { return None };
    let is_inject = |path: &Path| path.segments.last().is_some_and(|last| last.ident == "Inject");
    let name = match taken.elems.first() {
        Some(Pat::Ident(name)) if taken.elems.len() == 1 => name.ident.to_string(),
        _ => "resource".to_owned(),
    };
    (is_inject(&taken.path) || is_inject(&ty.path)).then_some(name)
}

/// The `#[tool]` attributes and the documentation of one parameter.
struct ParamAttrs {
    description: TokenStream,
    options: ParamOptions,
    /// The first `#[tool(..)]`.
    ours: Option<Attribute>,
    /// The first line of documentation.
    doc: Option<Attribute>,
}

impl ParamAttrs {
    fn take(input: &mut PatType, krate: &Path, errors: &mut Errors) -> Self {
        let description = docs::description(&input.attrs, krate);
        let mut taken = Self {
            description,
            options: ParamOptions { rename: None, default: None },
            ours: None,
            doc: None,
        };
        // The compiler does not accept these attributes on the parameters of the expanded function.
        input.attrs.retain(|attr| {
            let path = attr.path();
            if path.is_ident("tool") {
                param_options(attr, &mut taken.options, errors);
                taken.ours.get_or_insert_with(|| attr.clone());
            } else if path.is_ident("serde") || path.is_ident("schemars") {
                errors.at(
                    attr,
                    "this attribute is for fields; on a parameter write `#[tool(default = ..)]` or `#[tool(rename = \"..\")]`",
                );
            } else if path.is_ident("cfg") || path.is_ident("cfg_attr") {
                errors.at(attr, "a tool's parameters cannot be conditional; put `#[cfg(..)]` on one function for each case");
            } else if docs::doc(attr).is_some() {
                taken.doc.get_or_insert_with(|| attr.clone());
            } else {
                return true;
            }
            false
        });
        taken
    }

    fn refuse_for_context(self, errors: &mut Errors) {
        if let Some(ours) = self.ours {
            errors.at(
                ours,
                "the context has no options, since the model does not give it; remove this",
            );
        }
        if let Some(doc) = self.doc {
            errors.at(
                doc,
                "the context has no description, since the model does not see it; remove this",
            );
        }
    }
}

//! Parses the options of `#[include_workflow(..)]` and the function below it.

use proc_macro2::TokenStream;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{
    Attribute, FnArg, Ident, LitStr, Pat, Path, ReturnType, Signature, Token, Type, Visibility,
    bracketed,
};

const EXPECTED: &str = "`#[include_workflow]` applies to a function without a body, as in `async fn review(text: String) -> \
                        Result<Verdict>;`";
const OPTIONS: &str = "write `#[include_workflow(\"review.yaml\")]` with the path of the document, and behind it `tools = \
                       [search, shop::price]` if the compiler is to check its tools";

/// The options of the attribute.
pub(crate) struct Options {
    pub(crate) file: LitStr,
    pub(crate) tools: Option<Vec<Path>>,
    pub(crate) krate: Path,
}

/// The function, which declares the types of the document.
pub(crate) struct Function {
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) vis: Visibility,
    pub(crate) signature: Signature,
    pub(crate) context: Option<Ident>,
    pub(crate) inputs: Vec<Input>,
    pub(crate) output: Type,
}

pub(crate) struct Input {
    pub(crate) ident: Ident,
    pub(crate) ty: Type,
}

impl Input {
    pub(crate) fn name(&self) -> String {
        self.ident.unraw().to_string()
    }
}

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        // The attribute has few options, so each error shows the complete syntax.
        let with_example =
            |error: syn::Error| syn::Error::new(error.span(), format!("{error}; {OPTIONS}"));
        let file: LitStr = input.parse().map_err(with_example)?;
        let mut options = Self { file, tools: None, krate: syn::parse_quote!(::agentflow) };
        while !input.is_empty() {
            input.parse::<Token![,]>().map_err(with_example)?;
            if input.is_empty() {
                break;
            }
            let name = input.call(Ident::parse_any).map_err(with_example)?;
            match name.to_string().as_str() {
                "tools" => {
                    input.parse::<Token![=]>().map_err(with_example)?;
                    let list;
                    bracketed!(list in input);
                    let paths = Punctuated::<Path, Token![,]>::parse_terminated(&list)
                        .map_err(with_example)?;
                    options.tools = Some(paths.into_iter().collect());
                }
                "crate" => {
                    input.parse::<Token![=]>().map_err(with_example)?;
                    options.krate = input.parse().map_err(with_example)?;
                }
                other => {
                    let problem =
                        format!("`{other}` is not an option of `#[include_workflow]`; {OPTIONS}");
                    return Err(syn::Error::new(name.span(), problem));
                }
            }
        }
        Ok(options)
    }
}

impl Parse for Function {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let attrs = input.call(Attribute::parse_outer)?;
        let expected = |error: syn::Error| syn::Error::new(error.span(), EXPECTED);
        let vis = input.parse().map_err(expected)?;
        let signature: Signature = input.parse().map_err(expected)?;
        input.parse::<Token![;]>().map_err(expected)?;
        let mut problems: Option<syn::Error> = None;
        let mut wrong = |at: proc_macro2::Span, problem: &str| {
            let error = syn::Error::new(at, problem);
            match &mut problems {
                Some(problems) => problems.combine(error),
                None => problems = Some(error),
            }
        };
        if signature.asyncness.is_none() {
            wrong(signature.fn_token.span(), "a workflow takes time; write `async fn`");
        }
        if !signature.generics.params.is_empty() {
            wrong(
                signature.generics.span(),
                "a document has one form for all types; write the types themselves",
            );
        }
        let (mut context, mut inputs) = (None, Vec::new());
        for (at, argument) in signature.inputs.iter().enumerate() {
            let FnArg::Typed(argument) = argument else {
                wrong(
                    argument.span(),
                    "a document has no `self`; write the workflow outside of the `impl`",
                );
                continue;
            };
            let Pat::Ident(name) = &*argument.pat else {
                wrong(argument.pat.span(), "an input of a document has a name; write `name: Type`");
                continue;
            };
            match &*argument.ty {
                Type::Reference(reference) if at == 0 && is_context(&reference.elem) => {
                    context = Some(name.ident.clone());
                }
                Type::Reference(reference) => {
                    wrong(
                        reference.span(),
                        "an input is recorded, so it owns its data; write `String` for `&str`",
                    );
                }
                ty => inputs.push(Input { ident: name.ident.clone(), ty: ty.clone() }),
            }
        }
        let output = match &signature.output {
            ReturnType::Type(_, output) => {
                if is_plain(output) {
                    wrong(output.span(), "a run can fail; write `Result<..>` around the output");
                }
                (**output).clone()
            }
            ReturnType::Default => {
                wrong(
                    signature.ident.span(),
                    "a run can fail; write the output, as in `-> Result<Verdict>`",
                );
                syn::parse_quote!(())
            }
        };
        match problems {
            Some(problems) => Err(problems),
            None => Ok(Self { attrs, vis, signature, context, inputs, output }),
        }
    }
}

fn is_context(ty: &Type) -> bool {
    matches!(ty, Type::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == "Context"))
}

/// Returns `true` if a type is certainly not a `Result`. Any other name may be an alias of one.
fn is_plain(ty: &Type) -> bool {
    const PLAIN: [&str; 8] = ["String", "bool", "f64", "i32", "i64", "u32", "u64", "usize"];
    match ty {
        Type::Tuple(_) | Type::Array(_) | Type::Reference(_) | Type::Slice(_) => true,
        Type::Path(path) => {
            path.path.get_ident().is_some_and(|ident| PLAIN.iter().any(|plain| ident == plain))
        }
        _ => false,
    }
}

/// Parses both, or returns all mistakes in them.
pub(crate) fn read(options: TokenStream, item: TokenStream) -> syn::Result<(Options, Function)> {
    match (syn::parse2(options), syn::parse2(item)) {
        (Ok(options), Ok(function)) => Ok((options, function)),
        // Mistakes in both are reported in one compilation.
        (Err(mut error), Err(other)) => {
            error.combine(other);
            Err(error)
        }
        (Err(error), Ok(_)) | (Ok(_), Err(error)) => Err(error),
    }
}

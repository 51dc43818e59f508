//! Parses a function without its body, and answers questions about types and names. All attributes
//! use it. The body stays a token stream, because it may be incomplete while the user is typing.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::punctuated::Pair;
use syn::visit_mut::{self, VisitMut};
use syn::{Attribute, FnArg, Signature, Token, Type, TypeParamBound, TypePath, Visibility};

use crate::errors::Errors;
use crate::scope;

/// A function with an unparsed body.
pub(crate) struct Function {
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) vis: Visibility,
    pub(crate) signature: Signature,
    /// `{ .. }` and everything after it; empty for a function that ends in `;`.
    pub(crate) body: TokenStream,
    pub(crate) semicolon: Option<Token![;]>,
    /// Span of each `+` after a type, which would make it a trait object. The signature contains
    /// the type without it.
    plus: Vec<Span>,
}

impl Function {
    /// Reports each `+` after a type. Otherwise the compiler would report a missing `dyn` at every
    /// use of the type in the expansion.
    pub(crate) fn plus_after_type(&self, errors: &mut Errors) {
        for span in &self.plus {
            errors.at_span(
                *span,
                "unexpected `+` after a type; remove it, or write `dyn` before a list of traits",
            );
        }
    }
}

/// Removes each `+` after a type and collects its span.
struct Plus(Vec<Span>);

impl VisitMut for Plus {
    fn visit_type_mut(&mut self, ty: &mut Type) {
        if let Type::TraitObject(object) = ty
            && object.dyn_token.is_none()
            && let Some(Pair::Punctuated(TypeParamBound::Trait(bound), plus)) =
                object.bounds.pairs().next()
        {
            self.0.push(plus.span);
            *ty = Type::Path(TypePath { attrs: Vec::new(), qself: None, path: bound.path.clone() });
        }
        visit_mut::visit_type_mut(self, ty);
    }
}

impl ToTokens for Function {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        let Self { attrs, vis, signature, body, semicolon, .. } = self;
        // The macro reports a missing body where one is required, so the compiler gets a body that
        // it accepts.
        let body = if semicolon.is_some() { quote!({ loop {} }) } else { body.clone() };
        tokens.extend(quote!(#(#attrs)* #vis #signature #body));
    }
}

/// Parses the item. `expected` is the error message for an item that is not a function.
pub(crate) fn function(item: TokenStream, expected: &str) -> syn::Result<Function> {
    let parse = |input: ParseStream<'_>| {
        let attrs = input.call(Attribute::parse_outer)?;
        let vis = input.parse()?;
        // The fork serves to find the reason if the signature cannot be parsed.
        let ahead = input.fork();
        let Ok(mut signature) = input.parse::<Signature>() else {
            return Err(not_a_function(&ahead, expected));
        };
        let mut plus = Plus(Vec::new());
        plus.visit_signature_mut(&mut signature);
        let semicolon = input.parse()?;
        Ok(Function { attrs, vis, signature, body: input.parse()?, semicolon, plus: plus.0 })
    };
    parse.parse2(item)
}

/// Returns the error for an item that is not a function, or whose signature is invalid.
fn not_a_function(input: ParseStream<'_>, expected: &str) -> syn::Error {
    let start = input.fork();
    while !input.is_empty()
        && !input.peek(Token![fn])
        && !input.peek(syn::token::Brace)
        && !input.peek(Token![;])
    {
        let _ = input.parse::<TokenTree>();
    }
    if input.peek(Token![fn]) {
        return start
            .parse::<Signature>()
            .err()
            .unwrap_or_else(|| input.error("expected a function"));
    }
    let at = start.parse::<TokenTree>().map_or_else(|_| Span::call_site(), |token| token.span());
    syn::Error::new(at, expected)
}

/// Returns the visibility and the name of a function whose signature cannot be parsed.
pub(crate) fn name(item: TokenStream) -> Option<(Visibility, Ident)> {
    let parse = |input: ParseStream<'_>| {
        input.call(Attribute::parse_outer)?;
        let vis = input.parse()?;
        while !input.peek(Token![fn]) {
            if input.peek(syn::token::Brace) {
                return Err(input.error("no function"));
            }
            input.parse::<TokenTree>()?;
        }
        input.parse::<Token![fn]>()?;
        let name = input.call(Ident::parse_any)?;
        input.parse::<TokenStream>()?;
        Ok((vis, name))
    };
    parse.parse2(item).ok()
}

/// Returns the spans of the first and the last token, to underline the whole range.
pub(crate) fn ends(tokens: impl ToTokens) -> (Span, Span) {
    let mut tokens =
        tokens.into_token_stream().into_iter().flat_map(inside).map(|token| token.span());
    let first = tokens.next().unwrap_or_else(Span::call_site);
    (first, tokens.last().unwrap_or(first))
}

/// Unwraps a group without delimiters, as `macro_rules!` creates them.
fn inside(token: TokenTree) -> TokenStream {
    match token {
        TokenTree::Group(group) if group.delimiter() == Delimiter::None => group.stream(),
        TokenTree::Group(group) => TokenTree::Group(Group::clone(&group)).into(),
        other => other.into(),
    }
}

/// Returns the type without the invisible groups of `macro_rules!` and without parentheses.
pub(crate) fn bare(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => bare(&group.elem),
        Type::Paren(paren) => bare(&paren.elem),
        other => other,
    }
}

/// Returns `true` if every provider accepts this name. `also` contains the characters that are
/// allowed in addition to letters and digits.
pub(crate) fn is_name(name: &str, also: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || also.contains(c))
}

pub(crate) fn mutable_context(context: &FnArg, errors: &mut Errors) {
    if let FnArg::Typed(context) = context
        && let Type::Reference(reference) = bare(&context.ty)
        && let Some(token) = &reference.mutability
    {
        errors.at(token, "the context is shared, not exclusive; write `&Context`");
    }
}

/// Reports a body that uses `cx` without a parameter of this name, and returns `true` for it. The
/// compiler would only report an unknown name and not explain how to get the context.
pub(crate) fn context_not_taken(function: &Function, what: &str, errors: &mut Errors) -> bool {
    let is = |ident: &Ident| ident == CONTEXT;
    let taken = function.signature.inputs.iter().any(|input| holds(input.to_token_stream(), &is));
    if taken || !holds(function.body.clone(), &is) {
        return false;
    }
    // The token search may have found `cx` in an inner scope, so the body is parsed to be sure.
    let body = syn::parse2::<syn::Block>(function.body.clone());
    let Some(at) = body.ok().and_then(|body| scope::surely_reads(&body, CONTEXT)) else {
        return false;
    };
    errors.at_span(
        at,
        format!(
            "`cx` is not a parameter of this {what}; add `cx: &Context` as the first parameter"
        ),
    );
    true
}

/// Name of the context in the documentation and examples.
const CONTEXT: &str = "cx";

fn holds(tokens: TokenStream, is: &impl Fn(&Ident) -> bool) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => is(&ident),
        TokenTree::Group(group) => holds(group.stream(), is),
        _ => false,
    })
}

/// Returns `true` if the type is certainly neither a context nor a `Result`. Any other name may be
/// a type alias.
pub(crate) fn is_plain(ty: &Type) -> bool {
    const PLAIN: [&str; 18] = [
        "String", "bool", "char", "str", "f32", "f64", "u8", "u16", "u32", "u64", "u128", "usize",
        "i8", "i16", "i32", "i64", "i128", "isize",
    ];
    match bare(ty) {
        Type::Tuple(_) | Type::Array(_) | Type::Reference(_) | Type::Slice(_) => true,
        Type::Path(path) => {
            path.path.get_ident().is_some_and(|ident| PLAIN.iter().any(|plain| ident == plain))
        }
        _ => false,
    }
}

pub(crate) fn named_context(ty: &Type) -> bool {
    matches!(bare(ty), Type::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == "Context"))
}

/// Returns `true` if a token matches, including tokens in groups.
pub(crate) fn any_token(tokens: TokenStream, is: &impl Fn(&TokenTree) -> bool) -> bool {
    tokens.into_iter().any(|token| match &token {
        TokenTree::Group(group) => any_token(group.stream(), is),
        token => is(token),
    })
}

/// Returns `true` if the type contains `impl Trait`.
pub(crate) fn has_impl(ty: &Type) -> bool {
    any_token(
        ty.to_token_stream(),
        &|token| matches!(token, TokenTree::Ident(ident) if ident == "impl"),
    )
}

/// Returns `true` if the type contains a reference with any lifetime.
pub(crate) fn has_reference(ty: &Type) -> bool {
    any_token(
        ty.to_token_stream(),
        &|token| matches!(token, TokenTree::Punct(punct) if punct.as_char() == '&'),
    )
}

/// Returns `true` if the type contains a reference or a lifetime other than `'static`.
pub(crate) fn borrows(tokens: TokenStream) -> bool {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let found = match token {
            TokenTree::Group(group) => borrows(group.stream()),
            TokenTree::Punct(punct) if punct.as_char() == '\'' => {
                !matches!(tokens.peek(), Some(TokenTree::Ident(name)) if name == "static")
            }
            TokenTree::Punct(punct) if punct.as_char() == '&' => {
                !matches!(tokens.peek(), Some(TokenTree::Punct(next)) if next.as_char() == '\'')
            }
            _ => false,
        };
        if found {
            return true;
        }
    }
    false
}

/// Returns `true` if the type contains a reference or a lifetime in its spelling.
pub(crate) fn has_lifetime(tokens: TokenStream) -> bool {
    any_token(
        tokens,
        &|token| matches!(token, TokenTree::Punct(punct) if matches!(punct.as_char(), '&' | '\'')),
    )
}

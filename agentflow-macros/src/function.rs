//! A function whose body is not parsed, and questions about its types and names; shared by all attributes. The body may be
//! half-typed, so it stays tokens here.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::punctuated::Pair;
use syn::visit_mut::{self, VisitMut};
use syn::{Attribute, FnArg, Signature, Token, Type, TypeParamBound, TypePath, Visibility};

use crate::errors::Errors;
use crate::scope;

/// A function whose body is not parsed.
pub(crate) struct Function {
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) vis: Visibility,
    pub(crate) signature: Signature,
    /// `{ .. }` and whatever follows; empty for a function that ends in `;`.
    pub(crate) body: TokenStream,
    pub(crate) semicolon: Option<Token![;]>,
    /// Spans of each `+` after a type, which would make it a trait object. The signature has the type without it.
    plus: Vec<Span>,
}

impl Function {
    /// Reports each `+` after a type. The compiler would report a trait at every use of the type in the expansion.
    pub(crate) fn plus_after_type(&self, errors: &mut Errors) {
        for span in &self.plus {
            errors.at_span(*span, "unexpected `+` after a type; remove it, or write `dyn` before a list of traits");
        }
    }
}

/// Removes each `+` after a type and collects its span.
struct Plus(Vec<Span>);

impl VisitMut for Plus {
    fn visit_type_mut(&mut self, ty: &mut Type) {
        if let Type::TraitObject(object) = ty
            && object.dyn_token.is_none()
            && let Some(Pair::Punctuated(TypeParamBound::Trait(bound), plus)) = object.bounds.pairs().next()
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
        // We report a missing body where one is needed, so the compiler gets one that it accepts.
        let body = if semicolon.is_some() { quote!({ loop {} }) } else { body.clone() };
        tokens.extend(quote!(#(#attrs)* #vis #signature #body));
    }
}

/// Reads the item; `expected` is the message for one that is not a function.
pub(crate) fn function(item: TokenStream, expected: &str) -> syn::Result<Function> {
    let parse = |input: ParseStream<'_>| {
        let attrs = input.call(Attribute::parse_outer)?;
        let vis = input.parse()?;
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

/// The error for an item that is not a function, or whose signature is wrong.
fn not_a_function(input: ParseStream<'_>, expected: &str) -> syn::Error {
    let start = input.fork();
    while !input.is_empty() && !input.peek(Token![fn]) && !input.peek(syn::token::Brace) && !input.peek(Token![;]) {
        let _ = input.parse::<TokenTree>();
    }
    if input.peek(Token![fn]) {
        return start.parse::<Signature>().err().unwrap_or_else(|| input.error("expected a function"));
    }
    let at = start.parse::<TokenTree>().map_or_else(|_| Span::call_site(), |token| token.span());
    syn::Error::new(at, expected)
}

/// The name of a function whose signature cannot be read.
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

/// The first and the last token of something, to underline all of it.
pub(crate) fn ends(tokens: impl ToTokens) -> (Span, Span) {
    let mut tokens = tokens.into_token_stream().into_iter().flat_map(inside).map(|token| token.span());
    let first = tokens.next().unwrap_or_else(Span::call_site);
    (first, tokens.last().unwrap_or(first))
}

/// Unwraps a group without delimiters, as `macro_rules!` makes them.
fn inside(token: TokenTree) -> TokenStream {
    match token {
        TokenTree::Group(group) if group.delimiter() == Delimiter::None => group.stream(),
        TokenTree::Group(group) => TokenTree::Group(Group::clone(&group)).into(),
        other => other.into(),
    }
}

/// The type without the invisible groups of `macro_rules!` and without parentheses.
pub(crate) fn bare(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => bare(&group.elem),
        Type::Paren(paren) => bare(&paren.elem),
        other => other,
    }
}

/// Whether every provider accepts this name; `also` are the characters allowed beside letters and digits.
pub(crate) fn is_name(name: &str, also: &str) -> bool {
    (1..=64).contains(&name.len()) && name.chars().all(|c| c.is_ascii_alphanumeric() || also.contains(c))
}

pub(crate) fn mutable_context(context: &FnArg, errors: &mut Errors) {
    if let FnArg::Typed(context) = context
        && let Type::Reference(reference) = bare(&context.ty)
        && let Some(token) = &reference.mutability
    {
        errors.at(token, "the context is shared, not exclusive; write `&Context`");
    }
}

/// Reports a body that reads `cx` when no parameter has that name; returns whether it does. The compiler would only say
/// that the name is unknown, not how to get the context.
pub(crate) fn context_not_taken(function: &Function, what: &str, errors: &mut Errors) -> bool {
    let is = |ident: &Ident| ident == CONTEXT;
    let taken = function.signature.inputs.iter().any(|input| holds(input.to_token_stream(), &is));
    if taken || !holds(function.body.clone(), &is) {
        return false;
    }
    let body = syn::parse2::<syn::Block>(function.body.clone());
    let Some(at) = body.ok().and_then(|body| scope::surely_reads(&body, CONTEXT)) else { return false };
    errors.at_span(at, format!("`cx` is not a parameter of this {what}; add `cx: &Context` as the first parameter"));
    true
}

/// The context's name in all documentation and examples.
const CONTEXT: &str = "cx";

fn holds(tokens: TokenStream, is: &impl Fn(&Ident) -> bool) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => is(&ident),
        TokenTree::Group(group) => holds(group.stream(), is),
        _ => false,
    })
}

/// Whether the type is certainly neither a context nor a `Result`, as far as that can be said without the compiler: any
/// other name may be an alias.
pub(crate) fn is_plain(ty: &Type) -> bool {
    const PLAIN: [&str; 18] = [
        "String", "bool", "char", "str", "f32", "f64", "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32",
        "i64", "i128", "isize",
    ];
    match bare(ty) {
        Type::Tuple(_) | Type::Array(_) | Type::Reference(_) | Type::Slice(_) => true,
        Type::Path(path) => path.path.get_ident().is_some_and(|ident| PLAIN.iter().any(|plain| ident == plain)),
        _ => false,
    }
}

pub(crate) fn named_context(ty: &Type) -> bool {
    matches!(bare(ty), Type::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == "Context"))
}

/// Whether any token, also within groups, is of a kind.
pub(crate) fn any_token(tokens: TokenStream, is: &impl Fn(&TokenTree) -> bool) -> bool {
    tokens.into_iter().any(|token| match &token {
        TokenTree::Group(group) => any_token(group.stream(), is),
        token => is(token),
    })
}

/// Whether there is an `impl Trait` in the type.
pub(crate) fn has_impl(ty: &Type) -> bool {
    any_token(ty.to_token_stream(), &|token| matches!(token, TokenTree::Ident(ident) if ident == "impl"))
}

/// Whether there is a reference in the type, of whatever lifetime.
pub(crate) fn has_reference(ty: &Type) -> bool {
    any_token(ty.to_token_stream(), &|token| matches!(token, TokenTree::Punct(punct) if punct.as_char() == '&'))
}

/// Whether there is a reference or a lifetime other than `'static` in the type.
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

/// Whether a type has a reference in it, or a lifetime, as far as it is written.
pub(crate) fn has_lifetime(tokens: TokenStream) -> bool {
    any_token(tokens, &|token| matches!(token, TokenTree::Punct(punct) if matches!(punct.as_char(), '&' | '\'')))
}

//! Reads the item and the options. The body stays tokens: nobody here reads it, and it may be half-typed.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{Attribute, LitInt, LitStr, Path, Signature, Token, Visibility};

use crate::duration;
use crate::errors::{Errors, nearest};
use crate::options::{self, Value};

/// A function with its body unread.
pub(super) struct Function {
    pub(super) attrs: Vec<Attribute>,
    pub(super) vis: Visibility,
    pub(super) signature: Signature,
    /// `{ .. }` and whatever follows; empty for a function that ends in `;`.
    pub(super) body: TokenStream,
    pub(super) semicolon: Option<Token![;]>,
}

impl ToTokens for Function {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        let Self { attrs, vis, signature, body, semicolon } = self;
        // That a body is missing is told once, by us.
        let body = if semicolon.is_some() { quote!({ loop {} }) } else { body.clone() };
        tokens.extend(quote!(#(#attrs)* #vis #signature #body));
    }
}

pub(super) fn function(item: TokenStream) -> syn::Result<Function> {
    let parse = |input: ParseStream<'_>| {
        let attrs = input.call(Attribute::parse_outer)?;
        let vis = input.parse()?;
        let ahead = input.fork();
        let Ok(signature) = input.parse::<Signature>() else {
            return Err(not_a_function(&ahead));
        };
        let semicolon = input.parse()?;
        Ok(Function { attrs, vis, signature, body: input.parse()?, semicolon })
    };
    parse.parse2(item)
}

/// What stands there instead of a function, or what is wrong with its signature.
fn not_a_function(input: ParseStream<'_>) -> syn::Error {
    let start = input.fork();
    while !input.is_empty() && !input.peek(Token![fn]) && !input.peek(syn::token::Brace) && !input.peek(Token![;]) {
        let _ = input.parse::<TokenTree>();
    }
    if input.peek(Token![fn]) {
        return start.parse::<Signature>().err().unwrap_or_else(|| input.error("expected a function"));
    }
    let at = start.parse::<TokenTree>().map_or_else(|_| Span::call_site(), |token| token.span());
    syn::Error::new(at, "`#[tool]` goes on a function; write `fn` or `async fn` with a body")
}

/// The name of a function whose signature cannot be read.
pub(super) fn name(item: TokenStream) -> Option<(Visibility, Ident)> {
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

/// The options on the function; a wrong one is left out and told.
#[derive(Default)]
pub(super) struct FunctionOptions {
    pub(super) name: Option<LitStr>,
    pub(super) description: Option<LitStr>,
    /// With the place to complain at.
    pub(super) timeout: Option<(u64, Span)>,
    pub(super) retry: Option<LitInt>,
    pub(super) idempotent: bool,
    /// The variant of `Effects`.
    pub(super) effects: Option<Ident>,
    pub(super) approve: bool,
    pub(super) scopes: Vec<LitStr>,
    pub(super) blocking: Option<Span>,
    pub(super) max_output: Option<LitInt>,
    krate: Option<Path>,
}

impl FunctionOptions {
    pub(super) fn krate(&self) -> Path {
        self.krate.clone().unwrap_or_else(|| syn::parse_quote!(::agentflow))
    }
}

const EFFECTS: [(&str, &str); 3] = [("none", "None"), ("read", "Read"), ("write", "Write")];

pub(super) fn options(tokens: TokenStream, errors: &mut Errors) -> FunctionOptions {
    let mut options = FunctionOptions::default();
    for given in options::parse(tokens, options::FUNCTION, errors) {
        let name = given.name.to_string();
        match (name.as_str(), given.value) {
            ("name", Value::Text(text)) => options.name = Some(text),
            ("description", Value::Text(text)) => options.description = Some(text),
            ("timeout", Value::Text(text)) => match duration::milliseconds(&text.value()) {
                Ok(milliseconds) => options.timeout = Some((milliseconds, given.name.span())),
                Err(message) => errors.at(text, message),
            },
            ("effects", Value::Text(text)) => options.effects = effects(&text, errors),
            ("retry", Value::Number(number)) => options.retry = small(number, errors),
            ("max_output", Value::Number(number)) => options.max_output = small(number, errors),
            ("idempotent", _) => options.idempotent = true,
            ("approve", _) => options.approve = true,
            ("blocking", _) => options.blocking = Some(given.name.span()),
            ("scopes", Value::Names(scopes)) => options.scopes = distinct(scopes, errors),
            ("crate", Value::Path(path)) => options.krate = Some(path),
            // Only a table that says one thing and a list that says another would come here.
            _ => errors.at(&given.name, format!("`{name}` cannot be given like this")),
        }
    }
    options
}

fn effects(text: &LitStr, errors: &mut Errors) -> Option<Ident> {
    let wrong = text.value();
    let found = EFFECTS.iter().find(|(name, _)| *name == wrong);
    if found.is_none() {
        let hint = nearest(&wrong, EFFECTS.iter().map(|(name, _)| *name))
            .map_or(String::new(), |near| format!("; did you mean \"{near}\"?"));
        errors.at(text, format!("effects are \"none\", \"read\" or \"write\"{hint}"));
    }
    found.map(|(_, variant)| Ident::new(variant, Span::call_site()))
}

/// The literal without its suffix, if it is in the range.
fn small(number: LitInt, errors: &mut Errors) -> Option<LitInt> {
    match number.base10_parse::<u32>() {
        Ok(_) => Some(LitInt::new(number.base10_digits(), number.span())),
        Err(_) => {
            errors.at(number, "this number is too large; write one from 0 to 4294967295");
            None
        }
    }
}

fn distinct(scopes: Vec<LitStr>, errors: &mut Errors) -> Vec<LitStr> {
    for (index, scope) in scopes.iter().enumerate() {
        if scope.value().is_empty() {
            errors.at(scope, "a scope needs a name");
        } else if scopes[..index].iter().any(|other| other.value() == scope.value()) {
            errors.at(scope, format!("the scope `{}` is named twice; keep one of them", scope.value()));
        }
    }
    scopes
}

/// The options on one parameter, taken off its attributes together with its documentation.
pub(super) struct ParamOptions {
    pub(super) rename: Option<LitStr>,
    pub(super) default: Option<Default>,
}

pub(super) enum Default {
    OfType(Span),
    Expr(Box<syn::Expr>),
}

pub(super) fn param_options(attr: &Attribute, into: &mut ParamOptions, errors: &mut Errors) {
    let tokens = match &attr.meta {
        syn::Meta::List(list) => list.tokens.clone(),
        other => {
            errors.at(
                other,
                "say what about the parameter, as in `#[tool(default = 10)]` or `#[tool(rename = \"type\")]`",
            );
            return;
        }
    };
    for given in options::parse(tokens, options::PARAMETER, errors) {
        let name = given.name.to_string();
        let twice = match name.as_str() {
            "rename" => into.rename.is_some(),
            _ => into.default.is_some(),
        };
        if twice {
            errors.at(&given.name, format!("`{name}` is given twice; keep one of them"));
        }
        match given.value {
            Value::Text(text) => into.rename = Some(text),
            Value::Expr(expr) => into.default = Some(Default::Expr(expr)),
            _ => into.default = Some(Default::OfType(given.name.span())),
        }
    }
}

/// The first and the last token of something, to underline all of it.
pub(super) fn ends(tokens: impl ToTokens) -> (Span, Span) {
    let mut tokens = tokens.into_token_stream().into_iter().flat_map(inside).map(|token| token.span());
    let first = tokens.next().unwrap_or_else(Span::call_site);
    (first, tokens.last().unwrap_or(first))
}

/// A group without delimiters, as `macro_rules!` makes them, stands for what is in it.
fn inside(token: TokenTree) -> TokenStream {
    match token {
        TokenTree::Group(group) if group.delimiter() == Delimiter::None => group.stream(),
        TokenTree::Group(group) => TokenTree::Group(Group::clone(&group)).into(),
        other => other.into(),
    }
}

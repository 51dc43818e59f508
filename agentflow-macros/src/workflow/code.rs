//! Computes the fingerprint of a node's code, which changes if the meaning of the code changes.
//! Formatting, comments and the names of inner variables do not affect it. A name from outside
//! contributes the node that it refers to. Types are unknown here.

use std::collections::HashMap;

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::visit::{self, Visit};
use syn::{Attribute, Expr, PatIdent};

use super::env::Env;
use crate::scope::{macro_name, placeholders};

/// Computes a 64-bit FNV-1a hash, which is the same on all machines and in all versions.
pub(super) fn fnv(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Computes the fingerprint of several pieces of code. Variables contribute the nodes that they
/// refer to.
pub(super) fn fingerprint(parts: &[&dyn ToTokens], env: &Env) -> u64 {
    let mut text = String::new();
    for part in parts {
        text.push('\u{1f}');
        Normal { env, own: HashMap::new(), text: &mut text }.tokens(part.to_token_stream());
    }
    fnv(&text)
}

/// Returns the normalized text of code that other code repeats.
pub(super) fn normal(code: &dyn ToTokens, env: &Env) -> String {
    let mut text = String::new();
    Normal { env, own: HashMap::new(), text: &mut text }.tokens(code.to_token_stream());
    text
}

struct Normal<'a> {
    env: &'a Env,
    /// Variables that the code binds, numbered by their first appearance.
    own: HashMap<String, usize>,
    text: &'a mut String,
}

impl Normal<'_> {
    fn tokens(&mut self, tokens: TokenStream) {
        // Only expressions bind variables that can be normalized. Other tokens are used as they
        // are.
        if let Ok(expr) = syn::parse2::<Expr>(tokens.clone()) {
            self.bind(&expr);
        }
        self.walk(tokens);
    }

    fn bind(&mut self, expr: &Expr) {
        struct Own<'o>(&'o mut HashMap<String, usize>);
        impl<'a> Visit<'a> for Own<'_> {
            fn visit_pat_ident(&mut self, pat: &'a PatIdent) {
                let number = self.0.len();
                let name = pat.ident.unraw().to_string();
                // A name that starts with an upper-case letter may be a constant.
                if name.chars().next().is_some_and(|first| !first.is_uppercase()) {
                    self.0.entry(name).or_insert(number);
                }
                visit::visit_pat_ident(self, pat);
            }

            fn visit_attribute(&mut self, _: &'a Attribute) {}
        }
        Own(&mut self.own).visit_expr(expr);
    }

    fn name(&self, name: &str) -> String {
        match self.own.get(name) {
            Some(number) => format!("${number}"),
            None => self.env.meaning(name).unwrap_or_else(|| name.to_owned()),
        }
    }

    fn walk(&mut self, tokens: TokenStream) {
        let mut before = ' ';
        let mut all = tokens.into_iter().peekable();
        while let Some(token) = all.next() {
            match token {
                TokenTree::Group(group) => {
                    // A group without delimiters comes from a macro and has no meaning.
                    let mark = match group.delimiter() {
                        proc_macro2::Delimiter::Parenthesis => "()",
                        proc_macro2::Delimiter::Brace => "{}",
                        proc_macro2::Delimiter::Bracket => "[]",
                        proc_macro2::Delimiter::None => "",
                    };
                    self.text.push_str(mark.get(..1).unwrap_or_default());
                    self.walk(group.stream());
                    self.text.push_str(mark.get(1..).unwrap_or_default());
                    before = ' ';
                }
                TokenTree::Ident(ident) => {
                    let name = ident.unraw().to_string();
                    let next = match all.peek() {
                        Some(TokenTree::Punct(punct)) => punct.as_char(),
                        _ => ' ',
                    };
                    // A field, a method, a path segment or a macro is not a variable.
                    let is_variable = before != '.' && before != ':' && !matches!(next, ':' | '!');
                    let name = match next {
                        // The rules of a macro in the body are part of the code.
                        '!' => self.env.meaning(&macro_name(&ident)).unwrap_or(name),
                        _ if is_variable => self.name(&name),
                        _ => name,
                    };
                    self.text.push_str(&name);
                    self.text.push(' ');
                    before = ' ';
                }
                TokenTree::Literal(literal) => {
                    let text = literal.to_string();
                    self.text.push_str(&match syn::Lit::new(literal) {
                        syn::Lit::Str(string) => self.placeholders(&string.value()),
                        _ => text,
                    });
                    self.text.push(' ');
                    before = ' ';
                }
                TokenTree::Punct(punct) => {
                    before = punct.as_char();
                    // A trailing comma is formatting.
                    if before != ',' || all.peek().is_some() {
                        self.text.push(before);
                    }
                }
            }
        }
    }

    /// Returns the text with the meanings of the variables that it shows.
    fn placeholders(&self, text: &str) -> String {
        let mut shown = format!("{text:?}");
        for name in placeholders(text) {
            let meaning = self.name(name);
            if meaning != name {
                shown = shown.replace(&format!("{{{name}"), &format!("{{{meaning}"));
            }
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::{Env, fingerprint};

    fn fingerprint_of(text: &str) -> u64 {
        let expr: syn::Expr =
            syn::parse_str(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        fingerprint(&[&expr], &Env::default())
    }

    #[test]
    fn formatting_and_inner_names_do_not_count() {
        for (one, other) in [
            ("f(a , b)", "f( a,\n b, )"),
            ("xs.map(|x| x + 1)", "xs.map(|item| item + 1)"),
            ("{ let a = f(); g(a) }", "{ let b = f(); g(b) }"),
            ("format!(\"{x}\")", "format!( \"{x}\" )"),
            ("match a { Some(x) => f(x), None => 0 }", "match a { Some(y) => f(y), None => 0 }"),
        ] {
            assert_eq!(fingerprint_of(one), fingerprint_of(other), "{one} and {other}");
        }
    }

    #[test]
    fn everything_else_counts() {
        let all = [
            "f(a, b)",
            "f(b, a)",
            "g(a, b)",
            "f(a, b).await",
            "a.f(b)",
            "f(a, \"b\")",
            "f(a, 1)",
            "f(a, 1.0)",
            "f(a.b)",
        ];
        for (at, one) in all.iter().enumerate() {
            assert!(
                all[at + 1..].iter().all(|other| fingerprint_of(one) != fingerprint_of(other)),
                "{one}"
            );
        }
    }
}

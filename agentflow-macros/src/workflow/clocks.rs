//! Detects calls that read a clock, random numbers or the environment. The names decide, since a
//! macro does not know the called functions. A step with such a call starts after all steps above
//! it. `purity` detects the other expressions that depend on more than the values in them.

use proc_macro2::{Delimiter, Ident, TokenStream, TokenTree};
use quote::ToTokens;
use syn::ext::IdentExt;

/// Functions without arguments that construct the same value on every call.
const MAKING: [&str; 4] = ["default", "empty", "new", "once"];

/// Methods that read a clock or shared state.
const LOOKING: [&str; 6] = ["elapsed", "load", "lock", "now", "random", "recv"];

/// Modules whose functions depend on the environment, with or without arguments.
const MODULES: [&str; 3] = ["env", "fs", "rand"];

/// Returns `true` if the expression contains a call that reads the environment. An awaited step,
/// such as `load().await`, does not count.
pub(super) fn looks_outside(expr: &impl ToTokens) -> bool {
    looks(expr.to_token_stream())
}

fn looks(tokens: TokenStream) -> bool {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let is = |at: usize, mark: char| matches!(tokens.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == mark);
    tokens.iter().enumerate().any(|(at, token)| match token {
        TokenTree::Group(group) => looks(group.stream()),
        TokenTree::Ident(name) => {
            let follows_dot = at > 0 && is(at - 1, '.') && !(at > 1 && is(at - 2, '.'));
            if MODULES.iter().any(|module| name == module) && is(at + 1, ':') && is(at + 2, ':') && !follows_dot {
                return true;
            }
            let Some(arguments) = arguments(&tokens, at + 1) else { return false };
            let is_awaited = is(arguments + 1, '.')
                && matches!(tokens.get(arguments + 2), Some(TokenTree::Ident(next)) if next == "await");
            match follows_dot {
                true => LOOKING.iter().any(|method| name == method),
                false => !is_awaited && is_empty(&tokens[arguments]) && gets(name) && !is_function(&tokens, at),
            }
        }
        _ => false,
    })
}

/// Returns the index of a call's arguments, with or without `::<T>` before them.
fn arguments(tokens: &[TokenTree], mut at: usize) -> Option<usize> {
    let is = |at: usize, mark: char| matches!(tokens.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == mark);
    if is(at, ':') && is(at + 1, ':') && is(at + 2, '<') {
        let end = (at + 3..tokens.len()).find(|end| {
            is(*end, '>') && matches!(tokens.get(end + 1), Some(TokenTree::Group(_)))
        })?;
        at = end + 1;
    }
    match tokens.get(at) {
        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis => Some(at),
        _ => None,
    }
}

fn is_empty(arguments: &TokenTree) -> bool {
    matches!(arguments, TokenTree::Group(group) if group.stream().is_empty())
}

/// Returns `true` if a call to a function with this name and without arguments probably reads the
/// environment. Constructors and names in upper case do not.
fn gets(name: &Ident) -> bool {
    let name = name.unraw().to_string();
    !MAKING.contains(&name.as_str()) && !name.chars().next().is_some_and(char::is_uppercase)
}

/// Returns `true` if the name follows `fn` or `async`, so that it is not a call.
fn is_function(tokens: &[TokenTree], at: usize) -> bool {
    at > 0 && matches!(&tokens[at - 1], TokenTree::Ident(word) if word == "fn" || word == "async")
}

#[cfg(test)]
mod tests {
    use super::looks_outside;

    fn looks(text: &str) -> bool {
        let expr: syn::Expr =
            syn::parse_str(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        looks_outside(&expr)
    }

    #[test]
    fn clocks_and_the_like() {
        for text in [
            "SystemTime::now()",
            "now_ms() - begin",
            "began.elapsed()?",
            "format!(\"{}\", new_id())",
            "std::env::var(\"HOME\").unwrap_or_default()",
            "fs::read_to_string(path)?",
            "Moment { at: clock() }",
            "COUNTER.load(Ordering::SeqCst)",
            "random::<u64>()",
            "step(now()).await?",
        ] {
            assert!(looks(text), "{text}");
        }
    }

    #[test]
    fn what_is_made_of_values() {
        for text in [
            "a + 1",
            "format!(\"{a}\")",
            "prepare(&order)",
            "Vec::<u8>::new()",
            "String::default()",
            "None::<u8>",
            "names.iter().map(|n| n.len()).sum::<usize>()",
            "load().await?",
            "lint::<u8>().await?",
            "0..n",
            "Unit()",
        ] {
            assert!(!looks(text), "{text}");
        }
    }
}

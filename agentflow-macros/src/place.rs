//! Finds out whether a function is in an `impl` or a `trait`, by reading its file. An attribute does not learn that from
//! its tokens, and the struct it writes beside the function cannot be there: without this check the compiler would report
//! each item of the expansion. It refuses nothing that it is not sure of.

use proc_macro2::{Delimiter, Ident, TokenStream, TokenTree};

use crate::errors::Errors;
use crate::function::Function;

/// Reports a function without `self` that is in an `impl` or a `trait`; returns whether it is.
pub(crate) fn refuse_associated(function: &Function, what: &str, errors: &mut Errors) -> bool {
    let name = &function.signature.ident;
    // A function with `self` is refused for its `self`.
    let associated =
        function.signature.receiver().is_none() && source(name).is_some_and(|text| is_associated(&text, name));
    if associated {
        errors.at(name, format!("{what} is a free function, and this one is in an `impl`; move it out"));
    }
    associated
}

/// The file of a function, when the function is indented in it: one that is not indented is not in an `impl`.
fn source(name: &Ident) -> Option<TokenStream> {
    if !proc_macro::is_available() {
        return None;
    }
    let span = name.span().unwrap();
    let text = std::fs::read_to_string(span.local_file()?).ok()?;
    let line = text.lines().nth(span.line().checked_sub(1)?)?;
    // A function made by another macro is not in the file.
    let is_written = line.starts_with([' ', '\t']) && line.contains(&format!("fn {name}"));
    is_written.then(|| text.parse().ok()).flatten()
}

/// Whether all functions of a name in a file are in an `impl` or a `trait`.
fn is_associated(file: &TokenStream, name: &Ident) -> bool {
    let mut found = Found::default();
    found.look(file.clone(), name, false);
    found.within > 0 && found.free == 0
}

#[derive(Default)]
struct Found {
    within: usize,
    free: usize,
}

impl Found {
    fn look(&mut self, tokens: TokenStream, name: &Ident, associated: bool) {
        // The kind of the item that is being read.
        let mut item = Item::Other;
        let mut after_fn = false;
        for token in tokens {
            let was_fn = std::mem::take(&mut after_fn);
            match token {
                TokenTree::Ident(ident) if was_fn && ident == *name && associated => self.within += 1,
                TokenTree::Ident(ident) if was_fn && ident == *name => self.free += 1,
                TokenTree::Ident(ident) if ident == "fn" => (after_fn, item) = (true, Item::Function),
                // The signature of a function may hold an `impl Trait`.
                TokenTree::Ident(ident) if item == Item::Other && (ident == "impl" || ident == "trait") => {
                    item = Item::OfType;
                }
                TokenTree::Punct(punct) if punct.as_char() == ';' => item = Item::Other,
                TokenTree::Group(group) => {
                    let is_body = group.delimiter() == Delimiter::Brace;
                    self.look(group.stream(), name, is_body && item == Item::OfType);
                    if is_body {
                        item = Item::Other;
                    }
                }
                _ => {}
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Item {
    Function,
    /// An `impl` or a `trait`.
    OfType,
    Other,
}

#[cfg(test)]
mod tests {
    use proc_macro2::{Ident, Span};

    fn is_associated(file: &str) -> bool {
        super::is_associated(&file.parse().expect("it lexes"), &Ident::new("add", Span::call_site()))
    }

    #[test]
    fn only_functions_in_an_impl_or_a_trait() {
        for file in [
            "impl Desk { #[tool] fn add(a: u32) -> u32 { a } }",
            "mod desk { impl<T: Into<u8>> Desk<T> where T: Copy { pub async fn add() {} } }",
            "trait Desk { fn add() {} }",
            "fn main() { struct Desk; impl Desk { fn add() {} } }",
            "impl Desk { fn sub() {} fn add() {} } fn sub() {}",
        ] {
            assert!(is_associated(file), "{file}");
        }
        for file in [
            "",
            "fn add() {}",
            "mod tests { fn add() {} }",
            "impl Desk { fn all() { fn add() {} } }",
            "impl Desk { fn add() {} } mod tests { fn add() {} }",
            "fn of(desk: impl Desk) { fn add() {} }",
            "fn of() -> impl Desk { fn add() {} }",
            "impl Desk { fn adding() { add() } } macro_rules! make { () => {} }",
            "impl Desk {} mod tests { fn add() {} }",
            "type F = fn(u32); mod tests { fn add() {} }",
        ] {
            assert!(!is_associated(file), "{file}");
        }
    }
}

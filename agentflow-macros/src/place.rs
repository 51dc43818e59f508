//! Detects whether a function is in an `impl` or a `trait`, by reading its source file. An
//! attribute macro cannot see this in its tokens. The expansion adds a struct next to the function,
//! which is invalid there, and the compiler would report each item of it. In case of doubt, the
//! function is accepted.

use proc_macro2::{Delimiter, Ident, TokenStream, TokenTree};

use crate::errors::Errors;
use crate::function::Function;

/// Reports a function without `self` that is in an `impl` or a `trait`, and returns `true` for it.
pub(crate) fn refuse_associated(function: &Function, what: &str, errors: &mut Errors) -> bool {
    let name = &function.signature.ident;
    // A function with `self` is reported for its `self`.
    let associated = function.signature.receiver().is_none()
        && source(name).is_some_and(|text| is_associated(&text));
    if associated {
        errors.at(
            name,
            format!("{what} is a free function, and this one is in an `impl`; move it out"),
        );
    }
    associated
}

/// Replacement for the function's name in the tokens of the file.
const MARK: &str = "agentflow_the_function";

/// Returns the file of a function as tokens with [`MARK`] as the function's name, or `None` if the
/// function is certainly not in an `impl`.
fn source(name: &Ident) -> Option<TokenStream> {
    if !proc_macro::is_available() {
        return None;
    }
    let span = name.span().unwrap();
    let text = std::fs::read_to_string(span.local_file()?).ok()?;
    marked(&text, (span.line(), span.column()), &name.to_string())?.parse().ok()
}

/// Replaces the name at a line and a column, both counted from 1, with [`MARK`]. Returns `None` if
/// the name is not there, or if no `impl` can surround it because the function is not indented.
fn marked(text: &str, (line, column): (usize, usize), name: &str) -> Option<String> {
    let start: usize = text.split_inclusive('\n').take(line.checked_sub(1)?).map(str::len).sum();
    let (above, rest) = text.split_at_checked(start)?;
    let of_line = rest.lines().next()?;
    let at = of_line.char_indices().nth(column.checked_sub(1)?)?.0;
    let (before, from) = (&rest[..at], rest[at..].strip_prefix(name)?);
    (before.starts_with([' ', '\t']) || before.contains('{'))
        .then(|| format!("{above}{before}{MARK}{from}"))
}

/// Returns `true` if the function named [`MARK`] is in an `impl` or a `trait`.
fn is_associated(file: &TokenStream) -> bool {
    let mut found = Found::default();
    found.look(file.clone(), false);
    found.within
}

#[derive(Default)]
struct Found {
    within: bool,
}

impl Found {
    fn look(&mut self, tokens: TokenStream, associated: bool) {
        // The kind of the item that is being read.
        let mut item = Item::Other;
        let mut after_fn = false;
        for token in tokens {
            let was_fn = std::mem::take(&mut after_fn);
            match token {
                TokenTree::Ident(ident) if was_fn && ident == MARK => self.within = associated,
                TokenTree::Ident(ident) if ident == "fn" => {
                    (after_fn, item) = (true, Item::Function);
                }
                // An `impl Trait` in the signature of a function does not start an item.
                TokenTree::Ident(ident)
                    if item == Item::Other && (ident == "impl" || ident == "trait") =>
                {
                    item = Item::OfType;
                }
                TokenTree::Punct(punct) if punct.as_char() == ';' => item = Item::Other,
                TokenTree::Group(group) => {
                    let is_body = group.delimiter() == Delimiter::Brace;
                    self.look(group.stream(), is_body && item == Item::OfType);
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
    /// Returns `true` if the function `add` after the `|` is in an `impl`.
    fn is_associated(file: &str) -> bool {
        let (before, after) = file.split_once('|').expect("it says which function");
        let line = before.lines().count();
        let column = before.lines().last().unwrap_or_default().chars().count() + 1;
        let marked = super::marked(&format!("{before}{after}"), (line, column), "add");
        marked.is_some_and(|file| super::is_associated(&file.parse().expect("it lexes")))
    }

    #[test]
    fn only_functions_in_an_impl_or_a_trait() {
        for file in [
            "impl Desk { #[tool] fn |add(a: u32) -> u32 { a } }",
            "mod desk { impl<T: Into<u8>> Desk<T> where T: Copy { pub async fn |add() {} } }",
            "trait Desk { fn |add() {} }",
            "fn main() { struct Desk; impl Desk { fn |add() {} } }",
            "impl Desk {\n    fn sub() {}\n    fn |add() {}\n}\nfn sub() {}",
            "impl Desk {\n    async fn\n    |add() {}\n}",
            "impl Desk { const GREETING: &str = \"gr\u{fc}n\"; fn |add() {} } mod tests { fn add() {} }",
            "macro_rules! desk { () => { impl Desk { fn |add() {} } } }",
        ] {
            assert!(is_associated(file), "{file}");
        }
        for file in [
            "fn |add() {}",
            "mod tests { fn |add() {} }",
            "impl Desk { fn all() { fn |add() {} } }",
            "impl Desk { fn add() {} } mod tests { fn |add() {} }",
            "fn of(desk: impl Desk) { fn |add() {} }",
            "fn of() -> impl Desk { fn |add() {} }",
            "impl Desk { fn adding() { |add() } } macro_rules! make { () => {} }",
            "impl Desk {} mod tests { fn |add() {} }",
            "type F = fn(u32); mod tests { fn |add() {} }",
        ] {
            assert!(!is_associated(file), "{file}");
        }
    }

    #[test]
    fn a_name_that_is_not_there_is_not_marked() {
        assert!(super::marked("impl Desk { fn sub() {} }", (1, 16), "add").is_none());
        assert!(super::marked("", (1, 1), "add").is_none());
        assert!(super::marked("impl Desk {\n}", (9, 9), "add").is_none());
    }
}

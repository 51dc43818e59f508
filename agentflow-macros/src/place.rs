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
    let associated = function.signature.receiver().is_none() && source(name).is_some_and(|text| is_associated(&text));
    if associated {
        errors.at(name, format!("{what} is a free function, and this one is in an `impl`; move it out"));
    }
    associated
}

/// Stands in the file's tokens in the place of the function's name.
const MARK: &str = "agentflow_the_function";

/// The file of a function, with [`MARK`] in the place of its name, when the function does not begin its line.
fn source(name: &Ident) -> Option<TokenStream> {
    if !proc_macro::is_available() {
        return None;
    }
    let span = name.span().unwrap();
    let text = std::fs::read_to_string(span.local_file()?).ok()?;
    marked(&text, (span.line(), span.column()), &name.to_string())?.parse().ok()
}

/// The text with [`MARK`] in the place of the name, at a line and a column that count from 1. `None` when no `impl` can be
/// around it, as of a function that is not indented, or when the name is not there.
fn marked(text: &str, (line, column): (usize, usize), name: &str) -> Option<String> {
    let start: usize = text.split_inclusive('\n').take(line.checked_sub(1)?).map(str::len).sum();
    let (above, rest) = text.split_at_checked(start)?;
    let of_line = rest.lines().next()?;
    let at = of_line.char_indices().nth(column.checked_sub(1)?)?.0;
    let (before, from) = (&rest[..at], rest[at..].strip_prefix(name)?);
    (before.starts_with([' ', '\t']) || before.contains('{')).then(|| format!("{above}{before}{MARK}{from}"))
}

/// Whether the function with the [`MARK`] is in an `impl` or a `trait`.
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
                TokenTree::Ident(ident) if ident == "fn" => (after_fn, item) = (true, Item::Function),
                // The signature of a function may hold an `impl Trait`.
                TokenTree::Ident(ident) if item == Item::Other && (ident == "impl" || ident == "trait") => {
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
    /// Whether the function `add` after a `|` is in an `impl`.
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

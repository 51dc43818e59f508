//! The tables of codes. A code is a dotted name, `AREA.PROBLEM`: it can be read without a page, it
//! is found by a search in the source, and new codes need no numbering.

use std::fmt;
use std::hash::{Hash, Hasher};

/// The code of a diagnostic, with the template of its sentence.
#[derive(Clone, Copy)]
pub struct Code {
    name: &'static str,
    problem: &'static str,
    remedy: &'static str,
}

impl Code {
    /// Creates a code. Braces in the templates enclose names of arguments.
    #[doc(hidden)]
    pub const fn new(name: &'static str, problem: &'static str, remedy: &'static str) -> Self {
        Self { name, problem, remedy }
    }

    /// The dotted name, such as `document.unknown-field`.
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// The template of the problem.
    pub const fn problem(self) -> &'static str {
        self.problem
    }

    /// The template of the remedy, or an empty string.
    pub const fn remedy(self) -> &'static str {
        self.remedy
    }

    /// Returns true if the template of the problem names the position in bytes, `{at}`.
    pub(super) fn names_position(self) -> bool {
        pieces(self.problem).contains(&Piece::Argument("at"))
    }

    /// Returns the names of the arguments in the templates, in order.
    pub fn argument_names(self) -> Vec<&'static str> {
        let mut names = Vec::new();
        for piece in pieces(self.problem).into_iter().chain(pieces(self.remedy)) {
            if let Piece::Argument(name) = piece {
                names.push(name);
            }
        }
        names
    }
}

/// Codes are equal if their names are.
impl PartialEq for Code {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Code {}

impl Hash for Code {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// A part of a template.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Text(&'static str),
    Argument(&'static str),
}

/// Splits a template at its arguments: names of lower-case letters and underscores in braces.
/// Other braces are text.
pub(super) fn pieces(template: &'static str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let (mut rest, mut from) = (template, 0);
    while let Some(open) = rest[from..].find('{').map(|at| from + at) {
        let name = rest[open + 1..].find('}').map(|length| &rest[open + 1..open + 1 + length]);
        let is_name = |name: &&str| {
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
        };
        match name.filter(is_name) {
            Some(name) => {
                pieces.push(Piece::Text(&rest[..open]));
                pieces.push(Piece::Argument(name));
                (rest, from) = (&rest[open + name.len() + 2..], 0);
            }
            None => from = open + 1,
        }
    }
    pieces.push(Piece::Text(rest));
    pieces
}

/// Declares the table of an area: a constant for each code, and `ALL`.
#[doc(hidden)]
#[macro_export]
macro_rules! diagnostic_codes {
    ($($name:ident = $code:literal, $problem:literal $(=> $remedy:literal)?;)*) => {
        $(
            #[doc = concat!("`", $code, "`")]
            pub const $name: $crate::diagnostic::Code =
                $crate::diagnostic::Code::new($code, $problem, concat!($($remedy)?));
        )*
        /// All codes of the area, in the order of their declaration.
        pub const ALL: &[$crate::diagnostic::Code] = &[$($name),*];
    };
}

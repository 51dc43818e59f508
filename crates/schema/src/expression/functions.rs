//! The functions of expressions: names, numbers of arguments, and implementations. Each does a
//! bounded amount of work.

use serde_json::Value;

use super::evaluate::{double, kind_of, whole};
use super::expression_codes as codes;
use crate::diagnostic::{Diagnostic, Suggestion};
use crate::text::nearest;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    Size,
    Contains,
    StartsWith,
    EndsWith,
    Int,
    Double,
    Text,
}

/// Functions that are called with their arguments only.
const FUNCTIONS: [(&str, Function); 4] = [
    ("size", Function::Size),
    ("int", Function::Int),
    ("double", Function::Double),
    ("string", Function::Text),
];

/// Functions that are called on a value, with the number of arguments besides that value.
const METHODS: [(&str, Function, usize); 4] = [
    ("size", Function::Size, 0),
    ("contains", Function::Contains, 1),
    ("startsWith", Function::StartsWith, 1),
    ("endsWith", Function::EndsWith, 1),
];

/// Functions of the standard that the parser treats as macros.
const OTHERS: [&str; 6] = ["has", "all", "exists", "exists_one", "filter", "map"];

pub(super) fn function(name: &str, count: usize, at: usize) -> Result<Function, Diagnostic> {
    let found = FUNCTIONS.iter().find(|(of, _)| *of == name).map(|(_, function)| (*function, 1));
    // A method that is called as a function gets a more specific message.
    let found = found.ok_or_else(|| {
        if METHODS.iter().any(|(of, ..)| *of == name) || OTHERS[1..].contains(&name) {
            let found = Diagnostic::new(codes::METHOD_AS_FUNCTION).name("function", name);
            return found.text("word", name).at_byte(at);
        }
        unknown(name, at, FUNCTIONS.iter().map(|(of, _)| *of).chain(OTHERS))
    });
    counted(name, count, at, found?)
}

pub(super) fn method(name: &str, count: usize, at: usize) -> Result<Function, Diagnostic> {
    let found =
        METHODS.iter().find(|(of, ..)| *of == name).map(|(_, function, count)| (*function, *count));
    let names = METHODS.iter().map(|(of, ..)| *of).chain(OTHERS);
    counted(name, count, at, found.ok_or_else(|| unknown(name, at, names))?)
}

fn counted(
    name: &str,
    count: usize,
    at: usize,
    found: (Function, usize),
) -> Result<Function, Diagnostic> {
    let (function, takes) = found;
    if count == takes {
        return Ok(function);
    }
    let takes = if takes == 1 { "one value" } else { "no value" };
    let found = Diagnostic::new(codes::ARGUMENT_COUNT).name("function", name);
    Err(found.number("count", count).text("takes", takes).at_byte(at))
}

fn unknown<'n>(name: &str, at: usize, names: impl Iterator<Item = &'n str> + Clone) -> Diagnostic {
    let suggestion = Suggestion::similar(nearest(name, names.clone())).unwrap_or_else(|| {
        Suggestion::advice(format!("there are `{}`", names.collect::<Vec<_>>().join("`, `")))
    });
    let found = Diagnostic::new(codes::UNKNOWN_FUNCTION).name("function", name);
    found.suggest(suggestion).at_byte(at)
}

impl Function {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Size => "size",
            Self::Contains => "contains",
            Self::StartsWith => "startsWith",
            Self::EndsWith => "endsWith",
            Self::Int => "int",
            Self::Double => "double",
            Self::Text => "string",
        }
    }

    /// Returns the result, or a problem without a position if the function does not accept these
    /// values.
    pub(super) fn apply(self, values: &[&Value]) -> Result<Value, Diagnostic> {
        match (self, values) {
            (Self::Size, [Value::String(text)]) => Ok(text.chars().count().into()),
            (Self::Size, [Value::Array(items)]) => Ok(items.len().into()),
            (Self::Size, [Value::Object(fields)]) => Ok(fields.len().into()),
            (Self::Contains, [Value::String(text), Value::String(part)]) => {
                Ok(text.contains(part.as_str()).into())
            }
            (Self::StartsWith, [Value::String(text), Value::String(part)]) => {
                Ok(text.starts_with(part.as_str()).into())
            }
            (Self::EndsWith, [Value::String(text), Value::String(part)]) => {
                Ok(text.ends_with(part.as_str()).into())
            }
            (Self::Int, [Value::Number(number)]) => match (whole(number), double(number)) {
                (Some(whole), _) => Ok(whole.into()),
                #[allow(
                    clippy::cast_possible_truncation,
                    reason = "it is within the limits of an `i64`"
                )]
                (None, value) if value.abs() < 9.2e18 => Ok((value.trunc() as i64).into()),
                _ => Err(Diagnostic::new(codes::CONVERTED_TOO_LARGE).absent("number", number)),
            },
            (Self::Int, [Value::String(text)]) => text
                .parse::<i64>()
                .map(Value::from)
                .map_err(|_| Diagnostic::new(codes::TEXT_NOT_AN_INTEGER)),
            (Self::Double, [Value::Number(number)]) => Ok(double(number).into()),
            (Self::Double, [Value::String(text)]) => match text.parse::<f64>() {
                Ok(value) if value.is_finite() => Ok(value.into()),
                _ => Err(Diagnostic::new(codes::TEXT_NOT_A_NUMBER)),
            },
            (Self::Text, [Value::String(text)]) => Ok(text.as_str().into()),
            (Self::Text, [other @ (Value::Number(_) | Value::Bool(_))]) => {
                Ok(other.to_string().into())
            }
            (_, values) => {
                let kinds: Vec<&str> = values.iter().map(|value| kind_of(value)).collect();
                let found =
                    Diagnostic::new(codes::FUNCTION_ARGUMENTS).name("function", self.name());
                Err(found.text("found", kinds.join(" and ")))
            }
        }
    }
}

//! The functions of expressions: names, numbers of arguments, and implementations. Each does a
//! bounded amount of work.

use serde_json::Value;

use super::ExpressionError;
use super::evaluate::{double, kind_of, whole};
use crate::text::{did_you_mean, nearest};

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

pub(super) fn function(name: &str, count: usize, at: usize) -> Result<Function, ExpressionError> {
    let found = FUNCTIONS.iter().find(|(of, _)| *of == name).map(|(_, function)| (*function, 1));
    // A method that is called as a function gets a more specific message.
    let found = found.ok_or_else(|| {
        if METHODS.iter().any(|(of, ..)| *of == name) || OTHERS[1..].contains(&name) {
            let problem = format!(
                "`{name}` at byte {at} stands behind a value, as in `page.title.{name}(..)`"
            );
            return ExpressionError::new(at, problem);
        }
        unknown(name, at, FUNCTIONS.iter().map(|(of, _)| *of).chain(OTHERS))
    });
    counted(name, count, at, found?)
}

pub(super) fn method(name: &str, count: usize, at: usize) -> Result<Function, ExpressionError> {
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
) -> Result<Function, ExpressionError> {
    let (function, takes) = found;
    if count == takes {
        return Ok(function);
    }
    let values = if takes == 1 { "one value" } else { "no value" };
    Err(ExpressionError::new(
        at,
        format!("`{name}` at byte {at} has {count} arguments, and takes {values}"),
    ))
}

fn unknown<'n>(
    name: &str,
    at: usize,
    names: impl Iterator<Item = &'n str> + Clone,
) -> ExpressionError {
    let hint = match nearest(name, names.clone()) {
        near @ Some(_) => did_you_mean(near),
        None => format!("; there are `{}`", names.collect::<Vec<_>>().join("`, `")),
    };
    ExpressionError::new(at, format!("unknown function `{name}` at byte {at}{hint}"))
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

    /// Returns the result, or a message if the function does not accept these values.
    pub(super) fn apply(self, values: &[&Value]) -> Result<Value, String> {
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
                _ => Err(format!("`{number}` is too large for an integer")),
            },
            (Self::Int, [Value::String(text)]) => text
                .parse::<i64>()
                .map(Value::from)
                .map_err(|_| "the text is not an integer".to_owned()),
            (Self::Double, [Value::Number(number)]) => Ok(double(number).into()),
            (Self::Double, [Value::String(text)]) => match text.parse::<f64>() {
                Ok(value) if value.is_finite() => Ok(value.into()),
                _ => Err("the text is not a number".to_owned()),
            },
            (Self::Text, [Value::String(text)]) => Ok(text.as_str().into()),
            (Self::Text, [other @ (Value::Number(_) | Value::Bool(_))]) => {
                Ok(other.to_string().into())
            }
            (_, values) => {
                let kinds: Vec<&str> = values.iter().map(|value| kind_of(value)).collect();
                Err(format!("`{}` does not take {}", self.name(), kinds.join(" and ")))
            }
        }
    }
}

//! Methods and functions of the standard library that programs use.

use std::rc::Rc;

use super::eval::{Done, Flow, Interpreter};
use super::step::StepContext;
use super::value::{Name, Value};

/// Converts an error into the error type of the kit.
pub(super) fn into_fault(error: &Value) -> Value {
    match error {
        Value::Text(_) => Value::data("Fault", "Step", vec![("0", error.clone())]),
        Value::Data(data) if data.of == "Fault" => error.clone(),
        other => Value::data("Fault", "Run", vec![("0", Value::text(other.display()))]),
    }
}

/// Calls a function of a type.
pub(super) fn function(of: Name, name: Name, mut arguments: Vec<Value>) -> Done {
    let mut first = || arguments.remove(0);
    Ok(match (of, name) {
        ("Fault", "from") => into_fault(&first()),
        ("String", "new") => Value::text(""),
        ("String" | "u64" | "i64" | "Duration", _) | ("Clone", "clone") => first(),
        ("IntoIterator" | "Iterator", _) => first(),
        ("Vec" | "Numbers", "new") => Value::list(Vec::new()),
        ("Approval", "granted") => Value::data(
            "Approval",
            "Granted",
            vec![("comment", Value::none()), ("arguments", Value::none())],
        ),
        ("Approval", "denied") => {
            Value::data("Approval", "Denied", vec![("comment", Value::some(first()))])
        }
        (_, variant) if variant.starts_with(char::is_uppercase) => {
            let fields = ["0", "1", "2"].into_iter().zip(arguments).collect();
            Value::data(of, variant, fields)
        }
        _ => panic!("the interpreter does not know `{of}::{name}`"),
    })
}

/// Returns the changed receiver if the method changes it.
pub(super) fn changing(value: &Value, name: Name, arguments: &[Value]) -> Option<Value> {
    let Value::List(all) = value else { return None };
    let mut all = Vec::clone(all);
    match name {
        "push" => all.push(arguments[0].clone()),
        "sort_unstable" | "sort" => all.sort_by_key(Value::as_int),
        "extend" => all.extend(arguments[0].as_list().iter().cloned()),
        "clear" => all.clear(),
        _ => return None,
    }
    Some(Value::list(all))
}

/// Calls a method.
pub(super) fn method(
    interpreter: &Interpreter,
    value: Value,
    name: Name,
    arguments: Vec<Value>,
    step: &Option<Rc<StepContext>>,
) -> Done {
    let call = |at: usize, given: Value| interpreter.apply(&arguments[at], vec![given], step);
    // Values are immutable, so a borrow, a copy and an iterator are the same.
    if matches!(
        name,
        "clone"
            | "iter"
            | "into_iter"
            | "collect"
            | "copied"
            | "cloned"
            | "as_str"
            | "to_owned"
            | "into"
            | "as_ref"
            | "failing"
            | "bound"
            | "value"
            | "kind"
            | "recorded"
            | "borrow"
    ) {
        return Ok(value);
    }
    Ok(match (&value, name) {
        (Value::Int(number), "max") => Value::Int(*number.max(&arguments[0].as_int())),
        (Value::Int(number), "min") => Value::Int(*number.min(&arguments[0].as_int())),
        (Value::Int(number), "rem_euclid") => Value::Int(number.rem_euclid(arguments[0].as_int())),
        (Value::Int(number), "abs") => Value::Int(number.abs()),
        (_, "to_string") => Value::text(value.display()),
        (Value::Text(text), "to_uppercase") => Value::text(text.to_uppercase()),
        (Value::Text(text), "to_lowercase") => Value::text(text.to_lowercase()),
        (Value::Text(text), "trim") => Value::text(text.trim()),
        (Value::Text(text), "len") => Value::Int(text.len() as i64),
        (Value::Text(text), "is_empty") => Value::Bool(text.is_empty()),
        (Value::Text(text), "contains") => Value::Bool(text.contains(arguments[0].as_text())),
        (Value::Text(text), "starts_with") => Value::Bool(text.starts_with(arguments[0].as_text())),
        (Value::Text(text), "bytes") => {
            Value::list(text.bytes().map(|byte| Value::Int(i64::from(byte))).collect())
        }
        (Value::List(all), "len" | "count") => Value::Int(all.len() as i64),
        (Value::List(all), "is_empty") => Value::Bool(all.is_empty()),
        (Value::List(all), "first") => Value::option(all.first().cloned()),
        (Value::List(all), "last") => Value::option(all.last().cloned()),
        (Value::List(all), "contains") => Value::Bool(all.contains(&arguments[0])),
        (Value::List(all), "sum") => {
            let sum = all.iter().try_fold(0_i64, |sum, one| sum.checked_add(one.as_int()));
            return sum
                .map(Value::Int)
                .ok_or_else(|| Flow::Panic("attempt to add with overflow".to_owned()));
        }
        (Value::List(all), "join") => {
            let parts: Vec<&str> = all.iter().map(Value::as_text).collect();
            Value::text(parts.join(arguments[0].as_text()))
        }
        (Value::List(all), "map") => {
            let mut mapped = Vec::with_capacity(all.len());
            for one in all.iter() {
                mapped.push(call(0, one.clone())?);
            }
            Value::list(mapped)
        }
        (Value::List(all), "filter") => {
            let mut kept = Vec::new();
            for one in all.iter() {
                if call(0, one.clone())?.as_bool() {
                    kept.push(one.clone());
                }
            }
            Value::list(kept)
        }
        (Value::List(all), "find") => {
            for one in all.iter() {
                if call(0, one.clone())?.as_bool() {
                    return Ok(Value::some(one.clone()));
                }
            }
            Value::none()
        }
        (Value::Bool(yes), "then_some") => Value::option(yes.then(|| arguments[0].clone())),
        (Value::Bool(yes), "then") => match yes {
            true => Value::some(interpreter.apply(&arguments[0], Vec::new(), step)?),
            false => Value::none(),
        },
        (Value::Data(data), "is_granted") => Value::Bool(data.variant == "Granted"),
        (Value::Data(data), _) => {
            let (variant, inner) = value.variant();
            let is_there = matches!(variant, "Some" | "Ok");
            let inner = inner.cloned().unwrap_or(Value::Unit);
            match (name, is_there) {
                ("is_some" | "is_ok", yes) => Value::Bool(yes),
                ("is_none" | "is_err", yes) => Value::Bool(!yes),
                ("unwrap", true) => inner,
                ("unwrap_or", true) | ("unwrap_or_default", true) => inner,
                ("unwrap_or", false) => arguments[0].clone(),
                ("unwrap_or_default", false) => Value::Int(0),
                ("map", true) => Value::data(data.of, variant, vec![("0", call(0, inner)?)]),
                ("map" | "and_then", false) | ("map_err", true) => value.clone(),
                ("and_then", true) => call(0, inner)?,
                ("map_err", false) => Value::err(call(0, inner)?),
                ("map_or", true) => call(1, inner)?,
                ("map_or", false) => arguments[0].clone(),
                ("ok", true) => Value::some(inner),
                ("ok", false) => Value::none(),
                ("ok_or", true) => Value::ok(inner),
                ("ok_or", false) => Value::err(arguments[0].clone()),
                _ => panic!("the interpreter does not know `{name}` of {}", value.debug()),
            }
        }
        _ => panic!("the interpreter does not know `{name}` of {}", value.debug()),
    })
}

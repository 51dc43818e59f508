//! Evaluates an expression within a limited number of steps. The caller provides the variables.

use std::borrow::Cow;
use std::cmp::Ordering;

use serde_json::{Number, Value};

use super::expression_codes as codes;
use super::parse::{Kind, Macro, Node, Operator};
use crate::diagnostic::{Diagnostic, Suggestion};
use crate::text::nearest;

/// Maximum number of steps of one evaluation. Each evaluated part is a step, and so is each item,
/// and every 64 bytes of a string that is compared or created.
pub(super) const STEPS: usize = 100_000;
/// Maximum number of on-demand values that are cached. Each further value costs as many steps as
/// copying it.
const KEPT: usize = 16;
/// Maximum number of errors of one evaluation that include a suggestion. Most errors within `has`
/// and `exists` are never shown.
const HINTS: usize = 8;

/// The source of an expression's variables.
pub trait Variables {
    /// Returns the value of a variable, or `None` if the variable does not exist.
    ///
    /// # Errors
    /// Returns a diagnostic if the variable exists but has no value. Its position is set by the
    /// caller.
    fn variable(&self, name: &str) -> Result<Option<Value>, Diagnostic>;

    /// Returns a field of a namespace, such as `tone` of `state` in `state.tone`. A namespace is a
    /// name that is not a variable, and whose fields are loaded on demand. Returns `None` if the
    /// name is not a namespace.
    ///
    /// # Errors
    /// Returns a diagnostic if the field has no value. Its position is set by the caller.
    fn within(&self, _: &str, _: &str) -> Result<Option<Value>, Diagnostic> {
        Ok(None)
    }

    /// Returns all fields of a namespace as an object.
    fn whole(&self, _: &str) -> Option<Value> {
        None
    }

    /// Returns the names of all variables.
    fn all(&self) -> Vec<String>;
}

pub(super) fn value(root: &Node, names: &dyn Variables) -> Result<Value, Diagnostic> {
    let mut evaluation = Evaluation {
        names,
        items: Vec::new(),
        read: Vec::new(),
        behind: Vec::new(),
        left: STEPS,
        is_over: false,
        hints: HINTS,
    };
    evaluation.value(root).map(Cow::into_owned)
}

struct Evaluation<'e> {
    names: &'e dyn Variables,
    /// The loop variables in scope, with their values. The innermost is the last.
    items: Vec<(&'e str, Value)>,
    /// The variables that were read.
    read: Vec<(&'e str, Value)>,
    /// Values that were loaded on demand.
    behind: Vec<Behind<'e>>,
    left: usize,
    /// `true` once the steps are used up. Then the evaluation fails, even if another operand would
    /// decide.
    is_over: bool,
    /// Number of errors that may still include a suggestion.
    hints: usize,
}

/// A value that was loaded on demand for a variable.
struct Behind<'e> {
    variable: &'e str,
    /// The field of the variable that was read.
    field: Option<String>,
    /// `true` if only the field was loaded, and `false` for the whole variable.
    is_field: bool,
    value: Value,
}

type Found<'e> = Result<Cow<'e, Value>, Diagnostic>;

impl<'e> Evaluation<'e> {
    fn spend(&mut self, steps: usize, at: usize) -> Result<(), Diagnostic> {
        match self.left.checked_sub(steps) {
            Some(left) => self.left = left,
            None => {
                (self.left, self.is_over) = (0, true);
                let found = Diagnostic::new(codes::TOO_MANY_STEPS).number("most", STEPS);
                return Err(found.at_byte(at));
            }
        }
        Ok(())
    }

    fn value(&mut self, node: &'e Node) -> Found<'e> {
        self.spend(1, node.at)?;
        if let Kind::Value(value) = &node.kind {
            // The caller may copy the value.
            self.spend(cost(value), node.at)?;
            return Ok(Cow::Borrowed(value));
        }
        if matches!(node.kind, Kind::Name(_) | Kind::Field(..) | Kind::Index(..)) {
            return self.part(node).map(Cow::Owned);
        }
        let value = match &node.kind {
            Kind::List(all) => {
                let items = all.iter().map(|of| self.value(of).map(Cow::into_owned));
                Value::Array(items.collect::<Result<_, _>>()?)
            }
            Kind::Has(of) => self.has(of)?.into(),
            Kind::Not(of) => (!self.bool(of)?).into(),
            Kind::Minus(of) => {
                let value = self.value(of)?;
                negative(&value).map_err(|problem| problem.at_byte(node.at))?
            }
            Kind::And(one, other) => self.either(one, other, false)?.into(),
            Kind::Or(one, other) => self.either(one, other, true)?.into(),
            Kind::Binary(operator, one, other) => {
                let (one, other) = (self.value(one)?, self.value(other)?);
                self.spend(cost(&one).min(cost(&other)), node.at)?;
                // These operators create a new value or compare one value with many.
                if *operator == Operator::Plus || *operator == Operator::In {
                    self.spend(cost(&one) + cost(&other), node.at)?;
                }
                binary(*operator, &one, &other).map_err(|problem| problem.at_byte(node.at))?
            }
            Kind::Choice(condition, yes, no) => {
                let taken = if self.bool(condition)? { yes } else { no };
                return self.value(taken);
            }
            Kind::Call(function, arguments) => {
                let values =
                    arguments.iter().map(|of| self.value(of)).collect::<Result<Vec<_>, _>>()?;
                let values: Vec<&Value> = values.iter().map(AsRef::as_ref).collect();
                self.spend(values.iter().map(|value| cost(value)).sum(), node.at)?;
                function.apply(&values).map_err(|problem| problem.at_byte(node.at))?
            }
            Kind::Each(each, list, item, body) => self.each(node, *each, list, item, body)?,
            Kind::Value(_) | Kind::Name(_) | Kind::Field(..) | Kind::Index(..) => Value::Null,
        };
        Ok(Cow::Owned(value))
    }

    /// Evaluates a variable, a field or an item. Copies only the selected part.
    fn part(&mut self, node: &'e Node) -> Result<Value, Diagnostic> {
        let mut steps: Vec<Selection<'e>> = Vec::new();
        let mut root = node;
        loop {
            match &root.kind {
                Kind::Field(of, field) => {
                    steps.push(Selection {
                        at: root.at,
                        name: Cow::Borrowed(field.as_str()),
                        number: None,
                    });
                    root = of;
                }
                Kind::Index(of, index) => {
                    let value = self.value(index)?;
                    let step = match value.as_ref() {
                        Value::String(field) => {
                            Selection { at: root.at, name: Cow::Owned(field.clone()), number: None }
                        }
                        Value::Number(number) => match whole(number) {
                            Some(number) => Selection {
                                at: root.at,
                                name: Cow::Owned(number.to_string()),
                                number: Some(number),
                            },
                            None => {
                                let found = Diagnostic::new(codes::NOT_AN_ITEM_NUMBER);
                                return Err(found.name("number", number).at_byte(root.at));
                            }
                        },
                        other => {
                            let found = Diagnostic::new(codes::NOT_A_SELECTOR);
                            return Err(found.text("found", kind_of(other)).at_byte(root.at));
                        }
                    };
                    steps.push(step);
                    root = of;
                }
                _ => break,
            }
        }
        // The path was collected from the outermost part to the root.
        steps.reverse();
        self.spend(steps.len(), node.at)?;
        let mut rest = steps.as_slice();
        let found;
        let mut value: &Value = match &root.kind {
            // Loop variables hide variables of the same name.
            Kind::Name(name) => match self.items.iter().rposition(|(item, _)| item == name) {
                Some(at) => &self.items[at].1,
                None => match self.read.iter().position(|(read, _)| read == name) {
                    Some(at) => &self.read[at].1,
                    None => {
                        match self
                            .names
                            .variable(name)
                            .map_err(|problem| problem.at_byte(root.at))?
                        {
                            Some(value) => {
                                self.read.push((name, value));
                                &self.read[self.read.len() - 1].1
                            }
                            None => {
                                let at = self.behind(root, name, rest.first())?;
                                let behind = &self.behind[at];
                                rest = &rest[usize::from(behind.is_field)..];
                                &behind.value
                            }
                        }
                    }
                },
            },
            _ => {
                found = self.value(root)?.into_owned();
                &found
            }
        };
        for step in rest {
            match step.select(value) {
                Ok(part) => value = part,
                Err(problem) => {
                    let fields = value.as_object().filter(|_| step.number.is_none());
                    let near = fields.filter(|_| self.hints > 0).and_then(|fields| {
                        self.hints -= 1;
                        nearest(&step.name, fields.keys().map(String::as_str))
                    });
                    return Err(problem.suggest(Suggestion::similar(near)).at_byte(step.at));
                }
            }
        }
        let copied = cost(value);
        let value = value.clone();
        self.spend(copied, node.at)?;
        Ok(value)
    }

    /// Loads a value on demand, unless it is loaded already. Returns its index in `behind`.
    fn behind(
        &mut self,
        root: &Node,
        name: &'e str,
        first: Option<&Selection<'_>>,
    ) -> Result<usize, Diagnostic> {
        let field = first.map(|step| &*step.name);
        let is_it = |known: &Behind<'_>| known.variable == name && known.field.as_deref() == field;
        if let Some(at) = self.behind.iter().position(is_it) {
            return Ok(at);
        }
        let within = field.map(|field| self.names.within(name, field)).transpose();
        let within = within.map_err(|problem| problem.at_byte(root.at))?.flatten();
        let is_field = within.is_some();
        let Some(value) = within.or_else(|| self.names.whole(name)) else {
            return Err(self.unknown(root, name));
        };
        if self.behind.len() == KEPT {
            self.spend(cost(&value), root.at)?;
            self.behind.pop();
        }
        self.behind.push(Behind {
            variable: name,
            field: field.map(ToOwned::to_owned),
            is_field,
            value,
        });
        Ok(self.behind.len() - 1)
    }

    fn takes_hint(&mut self) -> bool {
        let left = self.hints.checked_sub(1);
        self.hints = left.unwrap_or(0);
        left.is_some()
    }

    fn unknown(&mut self, root: &Node, name: &str) -> Diagnostic {
        let all = if self.takes_hint() { self.names.all() } else { Vec::new() };
        let near = nearest(name, all.iter().map(String::as_str));
        let found = Diagnostic::new(codes::UNKNOWN_NAME).name("name", name);
        found.suggest(Suggestion::similar(near)).at_byte(root.at)
    }

    /// Returns true if a field exists and is not `null`. A field of a missing value does not exist.
    fn has(&mut self, of: &'e Node) -> Result<bool, Diagnostic> {
        match self.part(of) {
            Ok(value) => Ok(!value.is_null()),
            Err(error) if self.is_over => Err(error),
            Err(_) => Ok(false),
        }
    }

    fn bool(&mut self, of: &'e Node) -> Result<bool, Diagnostic> {
        match self.value(of)?.as_ref() {
            Value::Bool(holds) => Ok(*holds),
            other => {
                let found = Diagnostic::new(codes::NOT_A_CONDITION).text("found", kind_of(other));
                Err(found.at_byte(of.at))
            }
        }
    }

    /// Evaluates `&&` and `||`. If one side decides the result, an error of the other side is
    /// ignored.
    fn either(
        &mut self,
        one: &'e Node,
        other: &'e Node,
        decides: bool,
    ) -> Result<bool, Diagnostic> {
        match self.bool(one) {
            Ok(holds) if holds == decides => Ok(decides),
            Ok(_) => self.bool(other),
            Err(error) if self.is_over => Err(error),
            Err(error) => match self.bool(other) {
                Ok(holds) if holds == decides => Ok(decides),
                Err(late) if self.is_over => Err(late),
                _ => Err(error),
            },
        }
    }

    fn each(
        &mut self,
        node: &'e Node,
        each: Macro,
        list: &'e Node,
        item: &'e str,
        body: &'e Node,
    ) -> Result<Value, Diagnostic> {
        let items = match self.value(list)?.into_owned() {
            Value::Array(items) => items,
            // As in CEL, macros over an object visit its keys.
            Value::Object(fields) => {
                fields.into_iter().map(|(name, _)| Value::String(name)).collect()
            }
            other => {
                let found = Diagnostic::new(codes::NO_ITEMS).text("found", kind_of(&other));
                return Err(found.at_byte(node.at));
            }
        };
        let (mut kept, mut count, mut failed) = (Vec::new(), 0_usize, None);
        for value in items {
            self.items.push((item, value));
            let result = match each {
                Macro::Map => self.value(body).map(|value| Some(value.into_owned())),
                _ => self.bool(body).map(|holds| holds.then_some(Value::Null)),
            };
            let value = self.items.pop().map(|(_, value)| value).unwrap_or_default();
            match (each, result) {
                (Macro::All, Ok(None)) => return Ok(false.into()),
                (Macro::Exists, Ok(Some(_))) => return Ok(true.into()),
                // Another item may decide the result.
                (Macro::All | Macro::Exists, Err(error)) if !self.is_over => {
                    failed = failed.or(Some(error));
                }
                (_, Err(error)) => return Err(error),
                (Macro::Filter, Ok(Some(_))) => kept.push(value),
                (Macro::Map, Ok(Some(made))) => kept.push(made),
                (_, Ok(held)) => count += usize::from(held.is_some()),
            }
        }
        match (each, failed) {
            (_, Some(error)) => Err(error),
            (Macro::All, None) => Ok(true.into()),
            (Macro::Exists, None) => Ok(false.into()),
            (Macro::ExistsOne, None) => Ok((count == 1).into()),
            (Macro::Filter | Macro::Map, None) => Ok(Value::Array(kept)),
        }
    }
}

/// A step from a value to a part of it.
struct Selection<'e> {
    at: usize,
    name: Cow<'e, str>,
    number: Option<i64>,
}

impl Selection<'_> {
    fn select<'v>(&self, value: &'v Value) -> Result<&'v Value, Diagnostic> {
        let name = &*self.name;
        let (found, problem) = match (value, self.number) {
            (Value::Object(fields), None) => {
                (fields.get(name), Diagnostic::new(codes::NO_FIELD).name("field", name))
            }
            (Value::Array(items), Some(number)) => {
                let item = usize::try_from(number).ok().and_then(|number| items.get(number));
                let problem = Diagnostic::new(codes::NO_ITEM).text("number", number);
                (item, problem.number("count", items.len()))
            }
            (other, _) => {
                let problem = Diagnostic::new(codes::NO_FIELDS).text("found", kind_of(other));
                (None, problem.name("field", name))
            }
        };
        found.ok_or(problem)
    }
}

/// Describes the type of a value.
pub(super) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "`null`",
        Value::Bool(_) => "`true` or `false`",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Returns the approximate number of steps to visit the whole value.
fn cost(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() / 64,
        Value::Array(items) => items.len() + items.iter().map(cost).sum::<usize>(),
        Value::Object(fields) => fields.len() + fields.values().map(cost).sum::<usize>(),
        _ => 0,
    }
}

/// Returns an error for an integer that exceeds the range of `i64`. Converting it to a double would
/// change its value.
fn check_range(number: &Number) -> Result<(), Diagnostic> {
    match number.as_i64().is_none() && number.as_u64().is_some() {
        true => {
            let found = Diagnostic::new(codes::INTEGER_OUT_OF_RANGE).text("number", number);
            Err(found.text("most", i64::MAX))
        }
        false => Ok(()),
    }
}

/// Returns the value of a number without a fraction.
pub(super) fn whole(number: &Number) -> Option<i64> {
    number.as_i64()
}

pub(super) fn double(number: &Number) -> f64 {
    number.as_f64().unwrap_or_default()
}

fn negative(value: &Value) -> Result<Value, Diagnostic> {
    match value {
        Value::Number(number) => match whole(number) {
            Some(whole) => whole
                .checked_neg()
                .map(Value::from)
                .ok_or_else(|| Diagnostic::new(codes::NEGATED_TOO_LARGE)),
            None => check_range(number).map(|()| (-double(number)).into()),
        },
        other => {
            let found = Diagnostic::new(codes::OPERATOR_OPERAND).name("operator", "-");
            Err(found.text("found", kind_of(other)).text("takes", "a number"))
        }
    }
}

fn binary(operator: Operator, one: &Value, other: &Value) -> Result<Value, Diagnostic> {
    match operator {
        Operator::Equal => Ok(is_equal(one, other).into()),
        Operator::Unequal => Ok((!is_equal(one, other)).into()),
        Operator::In => match other {
            Value::Array(items) => Ok(items.iter().any(|item| is_equal(item, one)).into()),
            Value::Object(fields) => {
                Ok(one.as_str().is_some_and(|name| fields.contains_key(name)).into())
            }
            other => Err(Diagnostic::new(codes::SEARCHED_VALUE).text("found", kind_of(other))),
        },
        Operator::Less | Operator::LessOrEqual | Operator::Greater | Operator::GreaterOrEqual => {
            // Only numbers and strings are ordered.
            let order = match (one, other) {
                (Value::Number(one), Value::Number(other)) => compared(one, other),
                (Value::String(one), Value::String(other)) => Some(one.cmp(other)),
                _ => {
                    let found = Diagnostic::new(codes::UNORDERED).name("operator", operator.sign());
                    return Err(found.text("found", kind_of(one)).text("other", kind_of(other)));
                }
            };
            let holds = order.is_some_and(|order| match operator {
                Operator::Less => order == Ordering::Less,
                Operator::LessOrEqual => order != Ordering::Greater,
                Operator::Greater => order == Ordering::Greater,
                _ => order != Ordering::Less,
            });
            Ok(holds.into())
        }
        Operator::Plus => match (one, other) {
            (Value::String(one), Value::String(other)) => Ok(format!("{one}{other}").into()),
            (Value::Array(one), Value::Array(other)) => {
                Ok(one.iter().chain(other).cloned().collect())
            }
            _ => computed(operator, one, other),
        },
        Operator::Minus | Operator::Times | Operator::Divided | Operator::Rest => {
            computed(operator, one, other)
        }
    }
}

/// Compares two values. Numbers are compared by their values: 1 equals 1.0.
fn is_equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => compared(one, other) == Some(Ordering::Equal),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len()
                && one.iter().zip(other).all(|(one, other)| is_equal(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let is_in = |(name, value): (&String, &Value)| {
                other.get(name).is_some_and(|other| is_equal(value, other))
            };
            one.len() == other.len() && one.iter().all(is_in)
        }
        _ => one == other,
    }
}

fn compared(one: &Number, other: &Number) -> Option<Ordering> {
    let integer = |number: &Number| {
        number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
    };
    match (integer(one), integer(other)) {
        (Some(one), Some(other)) => Some(one.cmp(&other)),
        _ => double(one).partial_cmp(&double(other)),
    }
}

fn computed(operator: Operator, one: &Value, other: &Value) -> Result<Value, Diagnostic> {
    let problem = |code| Diagnostic::new(code).name("operator", operator.sign());
    let (Value::Number(one), Value::Number(other)) = (one, other) else {
        let what = if operator == Operator::Plus {
            "two numbers, two texts or two lists"
        } else {
            "two numbers"
        };
        let found = problem(codes::OPERATOR_OPERANDS).text("found", kind_of(one));
        return Err(found.text("other", kind_of(other)).text("takes", what));
    };
    // Integer arithmetic is checked. It must not fall back to doubles, which would round large
    // results.
    if let (Some(one), Some(other)) = (whole(one), whole(other)) {
        let result = match operator {
            Operator::Plus => one.checked_add(other),
            Operator::Minus => one.checked_sub(other),
            Operator::Times => one.checked_mul(other),
            _ if other == 0 => return Err(problem(codes::DIVISION_BY_ZERO)),
            Operator::Divided => one.checked_div(other),
            _ => one.checked_rem(other),
        };
        return result.map(Value::from).ok_or_else(|| problem(codes::RESULT_TOO_LARGE));
    }
    check_range(one)?;
    check_range(other)?;
    let (one, other) = (double(one), double(other));
    let result = match operator {
        Operator::Plus => one + other,
        Operator::Minus => one - other,
        Operator::Times => one * other,
        Operator::Divided => one / other,
        _ => return Err(Diagnostic::new(codes::REMAINDER_OF_DOUBLES)),
    };
    match result.is_finite() {
        true => Ok(result.into()),
        false => Err(problem(codes::RESULT_NOT_A_NUMBER)),
    }
}

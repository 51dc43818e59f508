//! Compares our CEL expressions with the crate `cel`. Random expressions over the same values must
//! give the same value, or an error, in both implementations.
//!
//! The expressions use only features that both have. They avoid the documented differences:
//! arithmetic that mixes integers and other numbers, and `has` of `null`.

use std::collections::HashMap;

use agentflow::expression::Expression;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

fn variables() -> Value {
    json!({
        "order": {"total": 120, "kind": "b", "rate": 1.5, "open": true, "note": null, "lines": [3, 7, 7], "by": {"name": "Ada é"}},
        "names": ["ada", "bob", ""],
        "none": [],
        "big": 9_223_372_036_854_775_807_i64,
    })
}

/// Converts a value for the other implementation. Its own conversion from JSON would make integers
/// unsigned.
fn given(value: &Value) -> cel::Value {
    match value {
        Value::Null => cel::Value::Null,
        Value::Bool(value) => (*value).into(),
        Value::Number(number) => {
            number.as_i64().map_or_else(|| number.as_f64().unwrap().into(), Into::into)
        }
        Value::String(text) => text.as_str().into(),
        Value::Array(items) => items.iter().map(given).collect::<Vec<_>>().into(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| (name.clone(), given(value)))
            .collect::<HashMap<_, _>>()
            .into(),
    }
}

/// Evaluates the expression with the other implementation. Returns `None` for an error.
fn other(text: &str) -> Option<Value> {
    let program = cel::Program::compile(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let mut context = cel::Context::default();
    for (name, value) in variables().as_object().unwrap() {
        context.add_variable_from_value(name.as_str(), given(value));
    }
    program.execute(&context).ok().map(|value| value.json().unwrap())
}

fn ours(text: &str) -> Option<Value> {
    let expression: Expression = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
    expression.evaluate(&variables()).ok()
}

fn one_of(all: &'static [&'static str]) -> BoxedStrategy<String> {
    prop::sample::select(all).prop_map(str::to_owned).boxed()
}

fn binary(of: BoxedStrategy<String>, signs: &'static [&'static str]) -> BoxedStrategy<String> {
    (of.clone(), prop::sample::select(signs), of)
        .prop_map(|(one, sign, other)| format!("({one} {sign} {other})"))
        .boxed()
}

fn numbers(depth: u32) -> BoxedStrategy<String> {
    let leaf = one_of(&[
        "0",
        "1",
        "2",
        "7",
        "-3",
        "order.total",
        "order['total']",
        "order.lines[0]",
        "order.lines[7]",
        "order.missing",
        "big",
        "i",
        "0x1F",
        "-9223372036854775808",
    ]);
    if depth == 0 {
        return leaf;
    }
    let of = numbers(depth - 1);
    prop_oneof![
        leaf,
        binary(of.clone(), &["+", "-", "*", "/", "%"]),
        of.clone().prop_map(|of| format!("-({of})")),
        texts(depth - 1).prop_map(|of| format!("size({of})")),
        lists(depth - 1).prop_map(|of| format!("{of}.size()")),
        (lists(depth - 1), of.clone()).prop_map(|(list, at)| format!("{list}[{at}]")),
        (conditions(depth - 1), of.clone(), of)
            .prop_map(|(when, one, other)| format!("({when} ? {one} : {other})")),
    ]
    .boxed()
}

fn texts(depth: u32) -> BoxedStrategy<String> {
    let leaf = one_of(&[
        "''",
        "\"a\"",
        "'é\\n\\''",
        "r'\\d'",
        "'''x'y'''",
        "'\\u00e9'",
        "order.kind",
        "order.by.name",
        "names[1]",
        "names[9]",
    ]);
    if depth == 0 {
        return leaf;
    }
    prop_oneof![
        leaf,
        binary(texts(depth - 1), &["+"]),
        numbers(depth - 1).prop_map(|of| format!("string({of})")),
    ]
    .boxed()
}

/// Lists of whole numbers.
fn lists(depth: u32) -> BoxedStrategy<String> {
    let leaf = one_of(&["[]", "order.lines", "[1, 2, 3]", "none", "[order.total, 3]"]);
    if depth == 0 {
        return leaf;
    }
    let of = lists(depth - 1);
    prop_oneof![
        leaf,
        binary(of.clone(), &["+"]),
        prop::collection::vec(numbers(depth - 1), 0..3)
            .prop_map(|all| format!("[{}]", all.join(", "))),
        (of.clone(), conditions(depth - 1))
            .prop_map(|(list, when)| format!("{list}.filter(i, {when})")),
        (of.clone(), numbers(depth - 1)).prop_map(|(list, made)| format!("{list}.map(i, {made})")),
        (of, conditions(depth - 1), numbers(depth - 1))
            .prop_map(|(list, when, made)| format!("{list}.map(i, {when}, {made})")),
    ]
    .boxed()
}

fn conditions(depth: u32) -> BoxedStrategy<String> {
    let leaf = one_of(&[
        "true",
        "false",
        "order.open",
        "order.missing",
        "has(order.kind)",
        "has(order.missing)",
        "order.note == null",
        "order.rate > 1.25",
        "order.rate * 2.0 == 3.0",
        "order.kind == 1",
        "'kind' in order",
        "order.by == order.by",
        "i > 2",
    ]);
    if depth == 0 {
        return leaf;
    }
    let of = conditions(depth - 1);
    const COMPARED: &[&str] = &["==", "!=", "<", "<=", ">", ">="];
    prop_oneof![
        leaf,
        binary(of.clone(), &["&&", "||", "==", "!="]),
        of.clone().prop_map(|of| format!("!({of})")),
        binary(numbers(depth - 1), COMPARED),
        binary(texts(depth - 1), COMPARED),
        (texts(depth - 1), texts(depth - 1), one_of(&["contains", "startsWith", "endsWith"]))
            .prop_map(|(one, other, method)| format!("{one}.{method}({other})")),
        (numbers(depth - 1), lists(depth - 1)).prop_map(|(one, list)| format!("({one} in {list})")),
        (lists(depth - 1), of.clone(), one_of(&["all", "exists", "exists_one"]))
            .prop_map(|(list, when, each)| format!("{list}.{each}(i, {when})")),
        binary(lists(depth - 1), &["==", "!="]),
    ]
    .boxed()
}

fn any() -> BoxedStrategy<String> {
    prop_oneof![conditions(3), numbers(3), texts(2), lists(2)].boxed()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(2000)))]

    #[test]
    fn both_say_the_same(text in any()) {
        let (theirs, ours) = (other(&text), ours(&text));
        prop_assert_eq!(ours, theirs, "{}", text);
    }
}

/// Checks that the comparison is meaningful: a good share of the random expressions has a value,
/// and a good share fails.
#[test]
fn both_kinds_are_compared() {
    let mut runner = TestRunner::deterministic();
    let all = any();
    let mut has_value = |_| ours(&all.new_tree(&mut runner).unwrap().current()).is_some();
    let count = (0..600).filter(|n| has_value(*n)).count();
    assert!((150..450).contains(&count), "{count} of 600 have a value");
}

//! Property test: the schema and the deserializer of a tool agree. Every value that the schema
//! allows is accepted, every refused value violates the schema, and no value causes a panic. An
//! independent validator applies the schema.
//!
//! Two rules are missing in the schemas of `schemars`: the range of integers that are keys of a
//! map, and that the unit variant of an adjacently tagged enum has no content (it does under
//! `deny_unknown_fields`).

use std::collections::{BTreeMap, HashMap};

use agentflow::message::ToolStatus;
use agentflow::tool::ToolError;
use agentflow::{Context, Tool, tool};
use jsonschema::Validator;
use proptest::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value, json};

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
struct Nested {
    id: u16,
    #[serde(default)]
    label: String,
    #[serde(rename = "childNodes")]
    children: Vec<Self>,
    note: Option<char>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Closed {
    on: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
enum External {
    Unit,
    Newtype(i8),
    Tuple(u8, String),
    Struct { a: u32, b: Option<bool> },
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Internal {
    Unit,
    Struct { size: u64 },
    Newtype(Closed),
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "t", content = "c", deny_unknown_fields)]
enum Adjacent {
    Unit,
    Newtype(f32),
    Struct { list: Vec<i32> },
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Untagged {
    Number(i64),
    Text(String),
    Many(Vec<bool>),
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
struct Wrapper(u8);

#[allow(clippy::too_many_arguments, unused_variables, reason = "only the reading counts")]
#[tool]
fn numbers(
    i8: i8,
    i16: Option<i16>,
    i32: Option<i32>,
    i64: Option<i64>,
    u8: Option<u8>,
    u16: Option<u16>,
    u32: Option<u32>,
    u64: Option<u64>,
    usize: Option<usize>,
    f32: Option<f32>,
    f64: Option<f64>,
    nonzero: Option<std::num::NonZeroU8>,
    #[tool(default = 7)] defaulted: i32,
) {
}

#[allow(clippy::too_many_arguments, unused_variables, reason = "only the reading counts")]
#[tool]
fn shapes(
    flag: bool,
    text: Option<String>,
    letter: Option<char>,
    list: Option<Vec<u8>>,
    pair: Option<(i8, String)>,
    three: Option<[bool; 3]>,
    map: Option<HashMap<String, i16>>,
    nested: Option<Nested>,
    external: Option<External>,
    internal: Option<Internal>,
    adjacent: Option<Adjacent>,
    untagged: Option<Untagged>,
    wrapper: Option<Wrapper>,
    unit: Option<()>,
    anything: Option<Value>,
    by_number: Option<BTreeMap<u64, bool>>,
) {
}

/// Builds a validator that enforces the ranges that schemars expresses only as formats, such as
/// `"format": "int64"`.
fn validator(schema: &Value) -> Validator {
    let mut schema = schema.clone();
    write_ranges(&mut schema);
    jsonschema::validator_for(&schema).expect("the schema is a schema")
}

fn write_ranges(schema: &mut Value) {
    match schema {
        Value::Array(all) => all.iter_mut().for_each(write_ranges),
        Value::Object(all) => {
            let range = match all.get("format").and_then(Value::as_str) {
                Some("int32") => Some((i64::from(i32::MIN), i32::MAX as u64)),
                Some("int64") => Some((i64::MIN, i64::MAX as u64)),
                Some("uint32") => Some((0, u64::from(u32::MAX))),
                Some("uint64" | "uint") => Some((0, u64::MAX)),
                _ => None,
            };
            if let Some((least, most)) = range {
                all.entry("minimum").or_insert(least.into());
                all.entry("maximum").or_insert(most.into());
            }
            all.values_mut().for_each(write_ranges);
        }
        _ => {}
    }
}

fn call(tool: &dyn Tool, arguments: &str) -> Result<(), ToolError> {
    use std::future::Future;
    use std::task::{Context as Poller, Poll, Waker};
    let cx = Context::detached();
    let mut future = Box::pin(tool.call(&cx, arguments));
    match future.as_mut().poll(&mut Poller::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer.map(|_| ()),
        Poll::Pending => panic!("a `fn` answers at once"),
    }
}

/// Generates numbers at the limits of every type, written as integers and as floats.
fn number() -> impl Strategy<Value = Value> {
    let edges = [
        0,
        1,
        -1,
        127,
        128,
        -128,
        -129,
        255,
        256,
        32_767,
        32_768,
        65_535,
        65_536,
        i64::from(i32::MAX),
        1 << 31,
        1 << 32,
    ];
    let edges = prop::sample::select(edges.to_vec());
    prop_oneof![
        4 => edges.clone().prop_map(Value::from),
        2 => edges.prop_map(|edge| json!(edge as f64)),
        2 => any::<i64>().prop_map(Value::from),
        1 => any::<u64>().prop_map(Value::from),
        1 => prop::sample::select(vec![1e18, 9.3e18, -9.3e18, 1.9e19, 1e300, 0.5, -0.0]).prop_map(|float| json!(float)),
        1 => any::<f64>().prop_map(|float| Number::from_f64(float).map_or(Value::Null, Value::Number)),
    ]
}

fn text() -> impl Strategy<Value = String> {
    let known = [
        "Unit", "Newtype", "Tuple", "Struct", "unit", "struct", "newtype", "a", "é", "", "7",
        "007", "-1",
    ];
    prop_oneof![prop::sample::select(known.to_vec()).prop_map(str::to_owned), ".{0,3}"]
}

fn key() -> impl Strategy<Value = String> {
    let known = [
        "Unit",
        "Newtype",
        "Tuple",
        "Struct",
        "a",
        "b",
        "t",
        "c",
        "kind",
        "size",
        "on",
        "list",
        "id",
        "label",
        "childNodes",
        "note",
        "7",
        "007",
    ];
    prop::sample::select(known.to_vec()).prop_map(str::to_owned)
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        number(),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(key(), inner, 0..4)
                .prop_map(|map| map.into_iter().collect()),
        ]
    })
}

/// Generates a value that the schema usually allows, with occasional mistakes.
fn like(schema: &Value) -> BoxedStrategy<Value> {
    let exact = exactly(schema);
    prop_oneof![12 => exact, 1 => any_json()].boxed()
}

fn exactly(schema: &Value) -> BoxedStrategy<Value> {
    let Some(schema) = schema.as_object() else { return any_json().boxed() };
    for word in ["anyOf", "oneOf"] {
        if let Some(Value::Array(choices)) = schema.get(word) {
            let choices: Vec<_> = choices.iter().map(like).collect();
            return prop::strategy::Union::new(choices).boxed();
        }
    }
    if let Some(value) = schema.get("const") {
        return Just(value.clone()).boxed();
    }
    if let Some(Value::Array(values)) = schema.get("enum") {
        return prop::sample::select(values.clone()).boxed();
    }
    let types: Vec<&str> = match schema.get("type") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(many)) => many.iter().filter_map(Value::as_str).collect(),
        _ => return any_json().boxed(),
    };
    prop::strategy::Union::new(types.into_iter().map(|of| typed(of, schema)).collect::<Vec<_>>())
        .boxed()
}

fn typed(of: &str, schema: &Map<String, Value>) -> BoxedStrategy<Value> {
    match of {
        "null" => Just(Value::Null).boxed(),
        "boolean" => any::<bool>().prop_map(Value::from).boxed(),
        // JSON Schema expresses the range of an `f32` only by its format.
        "number" if schema.get("format").is_some_and(|format| format == "float") => {
            let fits = |number: &Value| {
                number.as_f64().is_none_or(|number| number.abs() <= f64::from(f32::MAX))
            };
            number().prop_filter("fits an f32", fits).boxed()
        }
        "integer" | "number" => number().boxed(),
        "string" if schema.contains_key("maxLength") => ".".prop_map(Value::from).boxed(),
        "string" => text().prop_map(Value::from).boxed(),
        "array" => array(schema),
        _ => object(schema),
    }
}

fn array(schema: &Map<String, Value>) -> BoxedStrategy<Value> {
    if let Some(Value::Array(items)) = schema.get("prefixItems") {
        return items.iter().map(like).collect::<Vec<_>>().prop_map(Value::from).boxed();
    }
    let item = schema.get("items").map_or_else(
        || any_json().boxed(),
        |items| match items.get("$ref") {
            Some(_) => Just(json!({"id": 1, "childNodes": []})).boxed(),
            None => like(items),
        },
    );
    let length = schema
        .get("minItems")
        .and_then(Value::as_u64)
        .map_or(0..4, |least| least as usize..least as usize + 1);
    prop::collection::vec(item, length).prop_map(Value::from).boxed()
}

fn object(schema: &Map<String, Value>) -> BoxedStrategy<Value> {
    let required: Vec<&Value> = schema
        .get("required")
        .and_then(Value::as_array)
        .map(|all| all.iter().collect())
        .unwrap_or_default();
    let mut fields = Vec::new();
    for (name, field) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let name = name.clone();
        let likely = if required.contains(&&json!(name)) { 0.97 } else { 0.4 };
        let field = proptest::option::weighted(likely, like(field));
        fields.push(field.prop_map(move |value| value.map(|value| (name.clone(), value))).boxed());
    }
    let extra = schema.get("additionalProperties").filter(|extra| extra.is_object()).map(like);
    let extra = extra.or_else(|| {
        schema.get("patternProperties").and_then(Value::as_object)?.values().next().map(like)
    });
    if let Some(extra) = extra {
        fields.push(proptest::option::of((key(), extra)).boxed());
    }
    fields.push(proptest::option::weighted(0.03, (key(), any_json())).boxed());
    fields.prop_map(|fields| fields.into_iter().flatten().collect()).boxed()
}

/// Checks that a refusal names the place, the expected value and the actual value.
fn check_refusal(error: &ToolError) {
    assert_eq!(error.status(), ToolStatus::InvalidArguments, "{error}");
    for line in error.message().lines().filter(|line| line.starts_with('`')) {
        let told = line.contains("; seen: ")
            || line.contains("is missing")
            || line.contains("no such argument");
        assert!(told, "{line}");
    }
}

fn agree(tool: &dyn Tool, allowed: &Validator, arguments: &Value) {
    match call(tool, &arguments.to_string()) {
        Ok(()) => {}
        Err(error) => {
            check_refusal(&error);
            assert!(!allowed.is_valid(arguments), "the schema allows {arguments}, but: {error}");
        }
    }
}

fn cases(tool: &'static dyn Tool) -> (Validator, BoxedStrategy<Value>) {
    let schema = &tool.definition().parameters;
    (validator(schema), like(schema))
}

fn run(tool: &'static dyn Tool) {
    let (allowed, arguments) = cases(tool);
    let accepted = std::cell::Cell::new(0_u32);
    let refused = std::cell::Cell::new(0_u32);
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 4_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    runner
        .run(&arguments, |arguments| {
            let counter = if allowed.is_valid(&arguments) { &accepted } else { &refused };
            counter.set(counter.get() + 1);
            agree(tool, &allowed, &arguments);
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{error}"));
    // The test is only meaningful if both outcomes are frequent.
    assert!(
        accepted.get() > 100 && refused.get() > 100,
        "{} allowed, {} not",
        accepted.get(),
        refused.get()
    );
}

#[test]
fn numbers_agree() {
    run(&numbers {});
}

#[test]
fn shapes_agree() {
    run(&shapes {});
}

#[test]
fn whole_numbers_are_integers_however_written() {
    for (arguments, ok) in [
        (json!({"i8": 2.0}), true),
        (json!({"i8": -0.0}), true),
        (json!({"i8": 128.0}), false),
        (json!({"i8": 1, "i64": 1e18}), true),
        (json!({"i8": 1, "u64": 1e19}), true),
        (json!({"i8": 1, "u64": 1e20}), false),
        (json!({"i8": 1, "u64": -1.0}), false),
        (json!({"i8": 1, "i64": 0.5}), false),
    ] {
        assert_eq!(call(&numbers {}, &arguments.to_string()).is_ok(), ok, "{arguments}");
        assert_eq!(
            validator(&(numbers {}).definition().parameters).is_valid(&arguments),
            ok,
            "{arguments}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_json_panics(value in any_json()) {
        for tool in [&numbers {} as &dyn Tool, &shapes {}] {
            if let Err(error) = call(tool, &value.to_string()) {
                check_refusal(&error);
            }
        }
    }

    #[test]
    fn no_text_panics(text in "\\PC*", cut in 0..60_usize) {
        let near: String = r#"{"flag": true, "nested": {"id": 1, "childNodes": []}}"#.chars().take(cut).collect();
        for text in [&text, &near, &format!("{near}{text}")] {
            if let Err(error) = call(&shapes {}, text) {
                check_refusal(&error);
            }
        }
    }
}

#[test]
fn deep_json_is_refused_and_not_a_crash() {
    let deep =
        format!(r#"{{"flag": true, "anything": {}1{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    check_refusal(&call(&shapes {}, &deep).expect_err("too deep"));
}

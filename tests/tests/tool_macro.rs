//! What `#[tool]` makes of functions of every shape, seen through the public API.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use agentflow::{Context, Effects, Inject, Registry, Resources, Tool, ToolError, ToolRef, ToolStatus, tool, tools};
use serde_json::{Value, json};

async fn call(tool: &ToolRef, arguments: &str) -> Result<Value, ToolError> {
    call_in(&Context::detached(), tool, arguments).await
}

async fn call_in(cx: &Context, tool: &ToolRef, arguments: &str) -> Result<Value, ToolError> {
    let output = tool.call(cx, arguments).await?;
    Ok(serde_json::from_str(output.as_json()).expect("an answer is JSON"))
}

fn one(tools: Vec<ToolRef>) -> ToolRef {
    tools.into_iter().next().expect("one tool")
}

struct MyErr(&'static str);

impl fmt::Display for MyErr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "my error: {}", self.0)
    }
}

type Answer<T> = Result<T, MyErr>;

/// Add two integers.
#[tool]
async fn add(a: i64, b: i64) -> i64 {
    std::future::ready(a + b).await
}

/// Divide, with an error of our own.
#[tool]
fn divide(a: i64, b: i64) -> Result<i64, MyErr> {
    a.checked_div(b).ok_or(MyErr("division by zero"))
}

/// The same through an alias.
#[tool]
async fn divide_later(a: i64, b: i64) -> Answer<i64> {
    divide(a, b)
}

#[tool]
fn nothing() {}

#[tool]
fn refuse(a: i64) -> Result<(), ToolError> {
    Err(ToolError::invalid_arguments(format!("{a} is not a customer")))
}

#[tokio::test]
async fn plain_parameters_a_result_and_a_sync_function_just_work() {
    let tools = tools![add, divide, divide_later, nothing, refuse];
    assert_eq!(call(&tools[0], r#"{"a": 2, "b": 3}"#).await, Ok(json!(5)));
    assert_eq!(call(&tools[1], r#"{"a": 6, "b": 3}"#).await, Ok(json!(2)));
    for divide in &tools[1..=2] {
        let error = call(divide, r#"{"a": 6, "b": 0}"#).await.expect_err("division by zero");
        assert_eq!((error.status(), error.message()), (ToolStatus::Error, "my error: division by zero"));
    }
    assert_eq!(call(&tools[3], "").await, Ok(Value::Null));
    let error = call(&tools[4], r#"{"a": 1}"#).await.expect_err("refused");
    assert_eq!((error.status(), error.message()), (ToolStatus::InvalidArguments, "1 is not a customer"));
    // The functions are what they were.
    assert_eq!(add(1, 2).await, 3);
    assert!(divide(1, 0).is_err());
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_told_all_at_once() {
    let add = one(tools![add]);
    for (arguments, expected) in [
        ("{}", "`a`: this argument is missing; give it a value\n`b`: this argument is missing; give it a value"),
        (r#"{"a": 1}"#, "`b`: this argument is missing; give it a value"),
        (
            r#"{"a": "x", "b": 1.5}"#,
            "`a`: invalid type: string \"x\", expected i64; seen: \"x\"\n`b`: invalid type: floating point `1.5`, expected i64; seen: 1.5",
        ),
        (r#"{"a": 1, "b": 2, "bb": 3}"#, "`bb`: there is no such argument; did you mean `b`?"),
        ("[1, 2]", "the arguments must be one JSON object, but were [1,2]"),
        ("null", "the arguments must be one JSON object, but were null"),
        ("{\"a\": 1", "the arguments are not valid JSON: EOF while parsing an object at line 1 column 7"),
        ("{} {}", "the arguments are not valid JSON: trailing characters at line 1 column 4"),
    ] {
        let error = call(&add, arguments).await.expect_err(arguments);
        assert_eq!((error.status(), error.message()), (ToolStatus::InvalidArguments, expected), "{arguments}");
    }
    assert_eq!(call(&add, r#"{"a": 2.0, "b": 3e0}"#).await, Ok(json!(5)), "whole numbers are integers");
    assert_eq!(call(&add, r#"{"a": "x", "a": 2, "b": 3}"#).await, Ok(json!(5)), "the last of two counts");
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Order {
    items: Vec<Item>,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Item {
    price: u8,
}

#[tool]
fn total(order: Order) -> u32 {
    order.items.iter().map(|item| u32::from(item.price)).sum()
}

#[tokio::test]
async fn the_place_of_a_mistake_is_told() {
    let total = one(tools![total]);
    let error = call(&total, r#"{"order": {"items": [{"price": 1}, {"price": 300}]}}"#).await.expect_err("too large");
    assert_eq!(error.message(), "`order.items[1].price`: invalid value: integer `300`, expected u8; seen: 300");
    let error = call(&total, r#"{"order": {"items": [{}]}}"#).await.expect_err("missing");
    assert_eq!(error.message(), "`order.items[0]`: missing field `price`; seen: {}");
}

struct Client(u32);

/// Everything at once.
#[tool(
    name = "all-at-once",
    timeout = "5s",
    retry = 3,
    idempotent,
    effects = "read",
    approve,
    scopes(read, "billing:write"),
    max_output = 1024
)]
async fn all(
    cx: &Context,
    client: Inject<Client>,
    /// What kind.
    ///
    /// Two lines.
    #[tool(rename = "type", default = "plain".to_owned())]
    kind: String,
    mut count: Option<u32>,
    #[doc = "How far."]
    #[tool(default)]
    distance: f64,
) -> String {
    let count = count.get_or_insert(1);
    format!("{kind} {count} {distance} {} {}", client.0, cx.is_cancelled())
}

#[tokio::test]
async fn options_and_descriptions_are_in_the_definition() {
    let all = one(tools![all]);
    let definition = all.definition();
    assert_eq!(&*definition.name, "all-at-once");
    assert_eq!(&*definition.description, "Everything at once.");
    let policy = &definition.policy;
    assert_eq!(policy.timeout, Some(Duration::from_secs(5)));
    assert_eq!((policy.retry, policy.max_output), (3, 1024));
    assert_eq!((policy.idempotent, policy.approve, policy.blocking), (true, true, false));
    assert_eq!(policy.effects, Effects::Read);
    assert_eq!(policy.scopes, [Arc::from("read"), Arc::from("billing:write")]);
    let source = definition.source.as_ref().expect("a place");
    assert!(source.file.ends_with("tool_macro.rs") && source.line > 100, "{source}");
    assert_eq!(
        definition.parameters,
        json!({
            "type": "object",
            "properties": {
                "type": {"type": "string", "description": "What kind.\n\nTwo lines.", "default": "plain"},
                "count": {"type": ["integer", "null"], "format": "uint32", "minimum": 0},
                "distance": {"type": "number", "format": "double", "description": "How far.", "default": 0.0},
            },
            "additionalProperties": false,
        })
    );
}

#[tokio::test]
async fn the_program_provides_what_the_model_does_not_see() {
    let all = one(tools![all]);
    assert_eq!(all.resources().len(), 1);
    let mut resources = Resources::default();
    resources.insert(Client(7));
    let cx = Context::detached_with(resources);
    assert_eq!(call_in(&cx, &all, "{}").await, Ok(json!("plain 1 0 7 false")));
    let given = r#"{"type": "x", "count": 2, "distance": 1.5}"#;
    assert_eq!(call_in(&cx, &all, given).await, Ok(json!("x 2 1.5 7 false")));
    let error = call_in(&cx, &all, r#"{"client": 1}"#).await.expect_err("no argument of the model's");
    assert_eq!(error.status(), ToolStatus::InvalidArguments);
    let error = call(&all, "{}").await.expect_err("no client");
    assert!(error.message().contains("no resource of type"), "{error}");
}

/// A name like a keyword, a parameter like the function.
#[tool]
fn r#type(r#type: i64, cx: i64) -> i64 {
    r#type + cx
}

#[tokio::test]
async fn raw_names_lose_their_mark() {
    let tool = one(tools![r#type]);
    assert_eq!(&*tool.definition().name, "type");
    assert_eq!(call(&tool, r#"{"type": 1, "cx": 2}"#).await, Ok(json!(3)));
}

#[tool(blocking)]
fn thread(cx: &Context) -> String {
    format!("{:?} {}", std::thread::current().id(), cx.is_cancelled())
}

#[tokio::test]
async fn blocking_bodies_run_elsewhere() {
    let here = format!("{:?} false", std::thread::current().id());
    let there = call(&one(tools![thread]), "").await.expect("an answer");
    assert_ne!(there, json!(here));
}

#[tool]
#[cfg(any())]
fn left_out() -> Missing {}

/// Doc lines
/// and a file:
#[doc = include_str!("../../README.md")]
#[tool]
fn from_file() {}

#[test]
fn descriptions_may_come_from_a_file() {
    let tool = one(tools![from_file]);
    assert!(tool.definition().description.starts_with("Doc lines\nand a file:\n"));
}

#[allow(clippy::too_many_arguments)]
#[tool]
#[rustfmt::skip]
fn sixteen(
    a: u8, b: u8, c: u8, d: u8, e: u8, f: u8, g: u8, h: u8, i: u8, j: u8, k: u8, l: u8, m: u8, n: u8, o: u8, p: u8,
) -> u8 {
    a + b + c + d + e + f + g + h + i + j + k + l + m + n + o + p
}

#[tokio::test]
async fn sixteen_parameters_are_the_most() {
    let arguments: serde_json::Map<_, _> = ('a'..='p').map(|name| (name.to_string(), json!(2))).collect();
    assert_eq!(call(&one(tools![sixteen]), &Value::Object(arguments).to_string()).await, Ok(json!(32)));
}

#[test]
fn every_tool_is_linked_and_its_struct_is_a_tool() {
    let registry = Registry::linked().expect("no two tools have one name");
    for name in ["add", "divide", "all-at-once", "type", "sixteen"] {
        assert!(registry.get(name).is_ok(), "{name}");
    }
    assert_eq!(&*ToolRef::from(add {}).definition().name, "add");
    assert_eq!(Tool::definition(&add {}).name, tools![add][0].definition().name);
}

/// Find flights.
#[tool]
fn flights(from: String, to: String, day: u8, back: Option<u8>) -> String {
    format!("{from} {to} {day} {back:?}")
}

#[tokio::test]
async fn all_that_is_wrong_with_the_arguments_is_told_at_once() {
    let tool = &tools![flights][0];
    let error = tool.call(&Context::detached(), r#"{"form": "Oslo", "day": 999}"#).await.unwrap_err();
    assert_eq!(
        error.message(),
        "`day`: invalid value: integer `999`, expected u8; seen: 999\n\
         `form`: there is no such argument; did you mean `from`?\n\
         `from`: this argument is missing; give it a value\n\
         `to`: this argument is missing; give it a value"
    );
    let error = tool.call(&Context::detached(), "").await.unwrap_err();
    assert_eq!(error.message().lines().count(), 3, "{error}");
}

#[test]
fn one_tool_given_twice_is_told_as_that() {
    let mut registry = Registry::new();
    registry.register(tools![flights].remove(0)).unwrap();
    let error = registry.register(tools![flights].remove(0)).unwrap_err();
    assert_eq!(error.to_string(), "the tool `flights` is given twice; name it once");
}

/// A tool may be called like a macro, or, with its module, like a crate or a function further out.
#[test]
fn paths_find_tools_of_any_name() {
    let definition = |tools: &[ToolRef]| {
        tools.iter().map(|tool| tool.definition().description.clone()).collect::<Vec<_>>().join(" ")
    };
    /// Inner.
    #[tool(name = "inner_tool")]
    fn inner() {}
    inner();
    let all = tools![self::fastrand, vec, named::serde_json, inner, self::named::inner,];
    assert_eq!(definition(&all), "Random. Vec. Json. Inner. Another.");
    assert!(tools![].is_empty());
}

/// Random.
#[tool(name = "random_tool")]
fn fastrand() {}

/// Vec.
#[tool(name = "vec_tool")]
fn vec() {}

mod named {
    /// Json.
    #[agentflow::tool(name = "json_tool")]
    pub(super) fn serde_json() {}

    /// Another.
    #[agentflow::tool(name = "another_tool")]
    pub(super) fn inner() {}
}

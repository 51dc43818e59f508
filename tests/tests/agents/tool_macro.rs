//! `#[tool]` on functions of every shape, tested through the public API.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentflow::message::ToolStatus;
use agentflow::resource::Resources;
use agentflow::tool::{Effects, FnTool, ToolDefinition, ToolError, ToolRef};
use agentflow::{Agent, Context, Inject, Registry, Tool};
use agentflow::{tool, tools, workflow};
use agentflow_testing::{ScriptedModel, Turn, test_runtime};
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
        assert_eq!(
            (error.status(), error.message()),
            (ToolStatus::Error, "my error: division by zero")
        );
    }
    assert_eq!(call(&tools[3], "").await, Ok(Value::Null));
    let error = call(&tools[4], r#"{"a": 1}"#).await.expect_err("refused");
    assert_eq!(
        (error.status(), error.message()),
        (ToolStatus::InvalidArguments, "1 is not a customer")
    );
    // The functions can still be called directly.
    assert_eq!(add(1, 2).await, 3);
    assert!(divide(1, 0).is_err());
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_told_all_at_once() {
    let add = one(tools![add]);
    for (arguments, expected) in [
        (
            "{}",
            "`a`: this argument is missing; give it a value\n`b`: this argument is missing; give it a value",
        ),
        (r#"{"a": 1}"#, "`b`: this argument is missing; give it a value"),
        (
            r#"{"a": "x", "b": 1.5}"#,
            "`a`: invalid type: string \"x\", expected i64; seen: \"x\"\n`b`: invalid type: floating point `1.5`, expected i64; seen: 1.5",
        ),
        (r#"{"a": 1, "b": 2, "bb": 3}"#, "`bb`: there is no such argument; did you mean `b`?"),
        ("[1, 2]", "the arguments must be one JSON object, but were [1,2]"),
        ("null", "the arguments must be one JSON object, but were null"),
        (
            "{\"a\": 1",
            "the arguments are not valid JSON: EOF while parsing an object at line 1 column 7",
        ),
        ("{} {}", "the arguments are not valid JSON: trailing characters at line 1 column 4"),
    ] {
        let error = call(&add, arguments).await.expect_err(arguments);
        assert_eq!(
            (error.status(), error.message()),
            (ToolStatus::InvalidArguments, expected),
            "{arguments}"
        );
    }
    assert_eq!(
        call(&add, r#"{"a": 2.0, "b": 3e0}"#).await,
        Ok(json!(5)),
        "whole numbers are integers"
    );
}

#[tokio::test]
async fn an_argument_that_is_given_twice_is_refused() {
    let (add, total) = (one(tools![add]), one(tools![total]));
    for (tool, arguments, place) in [
        (
            &add,
            r#"{"a": 1, "a": 2, "b": 3}"#,
            "`a` is given twice; give it once at line 1 column 12",
        ),
        // Also if another argument is invalid, and inside of nested values.
        (
            &add,
            r#"{"a": "x", "a": 2, "b": 3}"#,
            "`a` is given twice; give it once at line 1 column 14",
        ),
        (
            &total,
            r#"{"order": {"items": [{"price": 1, "price": 2.0}]}}"#,
            "`price` is given twice; give it once at line 1 column 41",
        ),
    ] {
        let error = call(tool, arguments).await.expect_err(arguments);
        assert_eq!(error.status(), ToolStatus::InvalidArguments);
        assert_eq!(error.message(), format!("the arguments cannot be read: {place}"));
    }
}

#[tool]
fn sum_of(numbers: Vec<i64>, more: std::collections::BTreeMap<String, u64>) -> String {
    format!("{numbers:?} {more:?}")
}

#[tokio::test]
async fn a_whole_number_is_an_integer_without_losing_a_digit() {
    let sum_of = one(tools![sum_of]);
    let whole = r#"{"numbers": [9007199254740993.0, -1e3, 2.50e1], "more": {"1.0": 18446744073709551615.0}}"#;
    let said = r#"[9007199254740993, -1000, 25] {"1.0": 18446744073709551615}"#;
    assert_eq!(call(&sum_of, whole).await, Ok(json!(said)));
    for number in
        ["9007199254740993.5", "4503599627370497.3", "1e-1", "9223372036854775808.0", "1e19"]
    {
        let error = call(&sum_of, &format!(r#"{{"numbers": [{number}], "more": {{}}}}"#))
            .await
            .expect_err(number);
        assert!(error.message().starts_with("`numbers[0]`: invalid "), "{}", error.message());
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct City {
    name: String,
    #[serde(default)]
    population: u64,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct OpenCity {
    name: String,
    #[serde(flatten)]
    others: std::collections::BTreeMap<String, Value>,
}

#[tokio::test]
async fn a_closure_reads_its_arguments_as_strictly_as_a_function() {
    let city = FnTool::new("city", "A city.", |_, city: City| async move {
        Ok::<_, String>(format!("{} {}", city.name, city.population))
    });
    let open = FnTool::new("open", "A city.", |_, city: OpenCity| async move {
        Ok::<_, String>(format!("{} {:?}", city.name, city.others.keys()))
    });
    let closed =
        json!({"type": "object", "properties": {"name": {}}, "additionalProperties": false});
    let dynamic = |schema: Value| {
        FnTool::dynamic(
            ToolDefinition::new("any", "Anything.", schema),
            |_, any: Value| async move { Ok::<_, String>(any) },
        )
    };
    assert_eq!(city.definition().parameters["additionalProperties"], json!(false));
    let (city, open) = (city.into(), open.into());
    let (closed, any) = (dynamic(closed).into(), dynamic(json!({"type": "object"})).into());
    assert_eq!(
        call(&city, r#"{"name": "Oslo", "population": 7e5}"#).await,
        Ok(json!("Oslo 700000"))
    );
    assert_eq!(call(&open, r#"{"name": "Oslo", "size": 2}"#).await, Ok(json!("Oslo [\"size\"]")));
    assert_eq!(call(&any, r#"{"a": [1, {"b": 2.0}]}"#).await, Ok(json!({"a": [1, {"b": 2.0}]})));
    let not_json = "the arguments are not valid JSON: trailing characters at line 1 column 18";
    for tool in [&city, &open, &closed, &any] {
        for (arguments, message) in [
            (r#"{"name": "Oslo"} {}"#, not_json),
            (
                r#"["Oslo", 700000]"#,
                r#"the arguments must be one JSON object, but were ["Oslo",700000]"#,
            ),
            (
                r#"{"name": "Oslo", "name": "Rome"}"#,
                "the arguments cannot be read: `name` is given twice; give it once at line 1 column 23",
            ),
        ] {
            let error = call(tool, arguments).await.expect_err(arguments);
            assert_eq!((error.status(), error.message()), (ToolStatus::InvalidArguments, message));
        }
    }
    for (tool, message) in [
        (&city, "`populaton`: there is no such argument; did you mean `population`?"),
        (&closed, "`populaton`: there is no such argument; there are `name`"),
    ] {
        let error =
            call(tool, r#"{"name": "Oslo", "populaton": 1}"#).await.expect_err("a mistyped name");
        assert_eq!((error.status(), error.message()), (ToolStatus::InvalidArguments, message));
    }
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
async fn the_place_of_a_mistake_is_reported() {
    let total = one(tools![total]);
    let error = call(&total, r#"{"order": {"items": [{"price": 1}, {"price": 300}]}}"#)
        .await
        .expect_err("too large");
    assert_eq!(
        error.message(),
        "`order.items[1].price`: invalid value: integer `300`, expected u8; seen: 300"
    );
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
    let error =
        call_in(&cx, &all, r#"{"client": 1}"#).await.expect_err("no argument of the model's");
    assert_eq!(error.status(), ToolStatus::InvalidArguments);
    let error = call(&all, "{}").await.expect_err("no client");
    assert!(error.message().contains("no resource of type"), "{error}");
    let mut resources = Resources::default();
    resources.insert(Some(Client(7)));
    let error =
        call_in(&Context::detached_with(resources), &all, "{}").await.expect_err("no client");
    let near = "`agents::tool_macro::Client` (there is a `core::option::Option<agents::tool_macro::Client>`)";
    assert!(error.message().contains(near), "{error}");
}

trait Db: Send + Sync {
    fn find(&self, key: u32) -> String;
}

struct InMemory;

impl Db for InMemory {
    fn find(&self, key: u32) -> String {
        format!("row {key}")
    }
}

/// Find a row.
#[tool]
async fn find(db: Inject<dyn Db>, found: Inject<Mutex<Vec<u32>>>, key: u32) -> String {
    found.lock().unwrap().push(key);
    db.find(key)
}

/// A workflow that calls the function.
#[workflow]
async fn find_two(cx: &Context, key: u32) -> agentflow::Result<String> {
    let one = find(cx.inject()?, cx.inject()?, key).await;
    let two = find(cx.inject()?, cx.inject()?, key + 1).await;
    Ok(format!("{one}, {two}"))
}

#[tokio::test]
async fn a_trait_object_is_provided_in_an_arc_to_agents_and_to_workflows() {
    let db: Arc<dyn Db> = Arc::new(InMemory);
    let found = Arc::new(Mutex::new(Vec::<u32>::new()));
    let model = ScriptedModel::new([Turn::call("find", json!({"key": 3})), Turn::text("row 3")]);
    let agent = Agent::new(model)
        .tools(tools![find])
        .resource(Arc::clone(&db))
        .resource(Arc::clone(&found));
    assert_eq!(agent.run("Find 3.").await.unwrap().output(), "row 3");
    let runtime = test_runtime().resource(db).resource(Arc::clone(&found)).build();
    assert_eq!(find_two(&runtime.context(), 4).await.unwrap(), "row 4, row 5");
    let mut found = found.lock().unwrap().clone();
    found.sort_unstable();
    assert_eq!(found, [3, 4, 5]);
}

#[tokio::test]
async fn a_resource_that_is_not_there_is_named_with_the_one_that_nearly_is() {
    let boxed: Box<dyn Db> = Box::new(InMemory);
    let agent = Agent::new(ScriptedModel::new([]))
        .tools(tools![find])
        .resource(boxed)
        .resource(Mutex::new(vec![1_u32]));
    assert_eq!(
        agent.build().unwrap_err().to_string(),
        "the agent `agent` cannot be built: these resources are missing: `dyn agents::tool_macro::Db` \
         (there is a `alloc::boxed::Box<dyn agents::tool_macro::Db>`) for the tool `find`; give each \
         with `.resource(value)` to the runtime's builder, the agent or the one run where it is started, a trait object as \
         an `Arc<dyn Trait>`; with `run_resource` on the runtime's builder each run has its own, also after a restart"
    );
    let runtime = test_runtime().resource(Mutex::new(Vec::<u32>::new())).build();
    // Missing tool resources are reported before the workflow starts. Resources that only a
    // function body requests are reported when they are used.
    let error = find_two(&runtime.context(), 4).await.unwrap_err();
    let missing = "the run of `find_two` lacks what it needs: these resources are missing: `dyn agents::tool_macro::Db` \
                   for the tool `find`; give each with `.resource(value)`";
    assert!(error.to_string().starts_with(missing), "{error}");
    assert_eq!(error.kind(), "missing_resource");
    let error = runtime.context().inject::<dyn Db>().map(drop).unwrap_err();
    assert_eq!(
        error.to_string(),
        "there is no resource of type `dyn agents::tool_macro::Db`; give the runtime one with \
         `Runtime::builder().resource(value)`"
    );
    assert_eq!(error.kind(), "missing_resource");
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
#[doc = include_str!("../../../README.md")]
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
    let arguments: serde_json::Map<_, _> =
        ('a'..='p').map(|name| (name.to_string(), json!(2))).collect();
    assert_eq!(
        call(&one(tools![sixteen]), &Value::Object(arguments).to_string()).await,
        Ok(json!(32))
    );
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
async fn all_mistakes_in_the_arguments_are_reported_at_once() {
    let tool = &tools![flights][0];
    let error =
        tool.call(&Context::detached(), r#"{"form": "Oslo", "day": 999}"#).await.unwrap_err();
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
fn one_tool_given_twice_is_an_error() {
    let mut registry = Registry::new();
    registry.register(tools![flights].remove(0)).unwrap();
    let error = registry.register(tools![flights].remove(0)).unwrap_err();
    assert_eq!(error.to_string(), "the tool `flights` is given twice; name it once");
}

/// A tool may share its name with a macro, or, with its module path, with a crate or an outer
/// function.
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

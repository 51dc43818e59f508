//! Tests that every caller checks the arguments of an untyped tool against the tool's schema.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use agentflow::async_trait;
use agentflow::error::RegistryError;
use agentflow::message::{ToolCall, ToolStatus};
use agentflow::prelude::*;
use agentflow::runtime::EntryKind;
use agentflow::tool::{
    FnTool, ToolDefinition, ToolFuture, ToolOutput, ToolRef, Toolset, ToolsetRef,
};
use agentflow::value::Encoded;
use agentflow::workflow::Graph;
use agentflow::{Registry, Tool};
use agentflow_testing::{ScriptedModel, Turn, test_runtime};
use serde_json::{Value, json};

fn definition(name: &str) -> ToolDefinition {
    ToolDefinition::new(
        name,
        "Orders things.",
        json!({
            "type": "object",
            "properties": {
                "customer": {"type": "string", "minLength": 1},
                "lines": {"type": "array", "items": {
                    "type": "object",
                    "properties": {"article": {"enum": ["nut", "bolt"]}, "cents": {"type": "integer", "minimum": 1}},
                    "required": ["cents"],
                    "additionalProperties": false,
                }},
            },
            "required": ["customer", "lines"],
            "additionalProperties": false,
        }),
    )
}

/// A tool with its own implementation of the trait `Tool`.
struct ByHand(Arc<ToolDefinition>, Arc<AtomicU32>);

impl Tool for ByHand {
    fn definition(&self) -> &Arc<ToolDefinition> {
        &self.0
    }

    fn call<'a>(&'a self, _: &'a Context, _: &'a str) -> ToolFuture<'a> {
        self.1.fetch_add(1, Ordering::SeqCst);
        ToolFuture::ready(ToolOutput::json("ordered"))
    }
}

fn dynamic(calls: &Arc<AtomicU32>) -> ToolRef {
    let calls = Arc::clone(calls);
    FnTool::dynamic(definition("order"), move |_, _: Value| {
        calls.fetch_add(1, Ordering::SeqCst);
        async { Ok::<_, String>("ordered") }
    })
    .into()
}

fn by_hand(calls: &Arc<AtomicU32>) -> ToolRef {
    ByHand(Arc::new(definition("order")), Arc::clone(calls)).into()
}

struct Shop(ToolRef);

#[async_trait]
impl Toolset for Shop {
    fn name(&self) -> &str {
        "shop"
    }

    async fn tools(&self) -> Result<Vec<ToolRef>, Box<dyn std::error::Error + Send + Sync>> {
        Ok(vec![self.0.clone()])
    }
}

const WRONG: &str = r#"{"custommer": "Ada", "lines": [{"cents": "1"}, {"article": "nutt", "cents": 0}, {"cent": 3}]}"#;

/// The problems of `WRONG`. Every caller gets all of them.
const PROBLEMS: [&str; 7] = [
    "`customer`: this is missing; give it a value",
    "`custommer`: there is no such field; did you mean `customer`?",
    "`lines[0].cents`: value is not of type \"integer\"; seen: \"1\"",
    "`lines[1].article`: value is not one of \"nut\" or \"bolt\"; seen: \"nutt\"",
    "`lines[1].cents`: value is less than the minimum of 1; seen: 0",
    "`lines[2].cent`: there is no such field; did you mean `cents`?",
    "`lines[2].cents`: this is missing; give it a value",
];

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[tokio::test]
async fn every_caller_gets_all_that_does_not_fit_and_the_body_is_not_reached() {
    for make in [dynamic, by_hand] {
        let calls = Arc::new(AtomicU32::new(0));
        let tool = make(&calls);

        let mut registry = Registry::new();
        registry.register(tool.clone()).unwrap();
        let result =
            registry.invoke(&Context::detached(), &ToolCall::new("1", "order", WRONG), &[]).await;
        assert_eq!(result.status, ToolStatus::InvalidArguments);
        assert_eq!(sorted(result.output.as_str()), PROBLEMS);

        for (name, agent) in [
            ("order", Agent::new(asks("order")).tools(tool.clone())),
            (
                "shop__order",
                Agent::new(asks("shop__order")).tools(ToolsetRef::new(Shop(tool.clone()))),
            ),
        ] {
            let run = agent.run("Order.").await.unwrap();
            let told =
                run.conversation().messages().iter().find_map(|message| message.results().next());
            let told = told.unwrap_or_else(|| panic!("{name} has a result"));
            assert_eq!(told.status, ToolStatus::InvalidArguments);
            assert_eq!(sorted(told.output.as_str()), PROBLEMS);
        }

        let with: Value = serde_json::from_str(WRONG).unwrap();
        let graph: Graph = serde_json::from_value(json!({
            "version": 1, "name": "shopping", "output": "out", "concurrency": 1,
            "nodes": [
                {"name": "all", "kind": "input", "schema": {"type": "object"}},
                {"name": "out", "does": {"call": {"kind": "tool", "name": "order", "with": {"from": "all"}}}},
            ],
        }))
        .unwrap();
        let runtime = test_runtime().tools(tool).graph(graph).build();
        let input = Encoded::new(&json!({"all": with})).unwrap();
        let error =
            runtime.start_named("shopping", &input).await.unwrap().result().await.unwrap_err();
        assert_eq!(error.kind().as_str(), "invalid_arguments");
        let error = error.to_string();
        for problem in PROBLEMS {
            assert!(error.contains(problem), "{problem}\n{error}");
        }
        assert_eq!(calls.load(Ordering::SeqCst), 0, "the body was reached");

        let fits = r#"{"customer": "Ada", "lines": [{"article": "nut", "cents": 3.0}]}"#;
        let result =
            registry.invoke(&Context::detached(), &ToolCall::new("1", "order", fits), &[]).await;
        assert_eq!((result.status, result.output.as_str()), (ToolStatus::Success, r#""ordered""#));
        assert_eq!(calls.load(Ordering::SeqCst), 1);
    }
}

fn asks(tool: &str) -> ScriptedModel {
    ScriptedModel::new([
        Turn::call(tool, serde_json::from_str::<Value>(WRONG).unwrap()),
        Turn::text("I give up."),
    ])
}

#[tokio::test]
async fn a_schema_that_does_not_work_is_reported_where_the_tool_is_offered() {
    let broken = || {
        let schema = json!({"type": "object", "properties": {"n": {"type": "strng"}}});
        FnTool::dynamic(ToolDefinition::new("broken", "", schema), |_, any: Value| async move {
            Ok::<_, String>(any)
        })
    };
    let begins =
        "the parameters of the tool `broken`: this is not a JSON Schema at `/properties/n/type`: ";
    let error = Registry::new().register(broken()).unwrap_err();
    assert!(matches!(error, RegistryError::InvalidSchema { .. }), "{error:?}");
    assert!(error.to_string().starts_with(begins), "{error}");
    let error = Agent::new(ScriptedModel::new([])).tools(broken()).build().unwrap_err().to_string();
    assert!(error.contains(begins), "{error}");
    let error = ToolsetRef::new(Shop(broken().into())).tools().await.unwrap_err().to_string();
    assert!(
        error.contains("the parameters of the tool `shop.broken`: this is not a JSON Schema"),
        "{error}"
    );
}

/// Returns a dynamic tool with this parameter schema.
fn with(name: &str, schema: Value) -> FnTool {
    FnTool::dynamic(ToolDefinition::new(name, "", schema), |_, any: Value| async move {
        Ok::<_, String>(any)
    })
}

#[tokio::test]
async fn a_catalogue_reports_each_schema_that_is_not_one() {
    let object = || json!({"type": "object"});
    let graph = |tool: &str| -> Graph {
        let call = json!({"call": {"kind": "tool", "name": tool, "with": {"value": {}}}});
        let nodes = json!([{"name": "out", "does": call}]);
        serde_json::from_value(json!({
            "version": 1, "name": "calls it", "output": "out", "concurrency": 1, "nodes": nodes,
        }))
        .unwrap()
    };
    let runtime = test_runtime()
        .tools(with("desk.typed", json!({"type": "objekt"})))
        .tools(with("desk.sized", json!({"type": "object", "properties": 5})))
        .tools(with("listed", json!({"type": "array"})))
        .tools(with("answers", object()).output_schema(json!({"required": "all"})))
        .tools(with("has spaces", object()))
        .tools(with("fine", object()).output_schema(json!(true)))
        .toolset(Shop(with("deep", json!({"type": "object", "$ref": "#/nowhere"})).into()))
        .schema("note", json!({"properties": {"text": {"type": "strng"}}}))
        .graph(graph("desk.typed"))
        .build();
    let catalogue = runtime.catalogue().snapshot().await;
    let mut said: Vec<String> = catalogue.problems().iter().map(ToString::to_string).collect();
    said.sort_unstable();
    let typed = "the parameters of the tool `desk.typed`: this is not a JSON Schema at `/type`: there is no type `objekt`; did \
                 you mean `object`?";
    let expected = [
        "the answer of the tool `answers`: this is not a JSON Schema at `/required`: ",
        "the parameters of the tool `desk.sized`: this is not a JSON Schema at `/properties`: 5 is not of type \"object\"; \
         correct the schema",
        typed,
        "the parameters of the tool `listed` are not a JSON Schema of an object",
        "the schema `note`: this is not a JSON Schema at `/properties/text/type`: there is no type `strng`; did you mean \
         `string`?",
        "the tool name `has spaces` at ",
        "the workflow `calls it` cannot be built: the node `out`: the parameters of the tool `desk.typed`: this is not",
    ];
    assert_eq!(said.len(), expected.len(), "{said:#?}");
    for (said, expected) in said.iter().zip(expected) {
        assert!(said.starts_with(expected), "{said}\n{expected}");
    }
    let deep = catalogue.get(EntryKind::Tool, "shop.deep").unwrap();
    assert!(deep.unchecked[0].contains("`#/nowhere` leads to no schema"), "{:?}", deep.unchecked);
    assert!(catalogue.check().is_err());
    assert_eq!(runtime.catalogue().tool("desk.typed").await.unwrap_err().to_string(), typed);
    assert_eq!(runtime.catalogue().tool("desk__typed").await.unwrap_err().to_string(), typed);
    let called = runtime.invoke(&ToolCall::new("1", "desk.typed", "{}"), &[]).await.unwrap_err();
    assert_eq!(called.to_string(), typed);
}

/// Returns the problems of a graph with these nodes. The graph can call the tool `order` of this
/// file.
fn refused(nodes: Value) -> Vec<String> {
    let graph: Graph = serde_json::from_value(json!({
        "version": 1, "name": "constant", "output": "out", "concurrency": 1, "nodes": nodes,
    }))
    .unwrap();
    let runtime = test_runtime().tools(dynamic(&Arc::default())).graph(graph).build();
    match runtime.catalogue().workflow_graph("constant") {
        Ok(_) => Vec::new(),
        Err(error) => {
            let error = error.to_string();
            let said =
                error.strip_prefix("the workflow `constant` cannot be built: ").unwrap_or(&error);
            said.lines().map(ToOwned::to_owned).collect()
        }
    }
}

#[test]
fn constants_that_do_not_fit_are_refused_when_the_graph_is_read() {
    let call = |with: Value| json!([{"name": "out", "does": {"call": {"kind": "tool", "name": "order", "with": with}}}]);
    let of = |problem: &&str| format!("the node `out`: an argument of the tool `order`, {problem}");
    let wrong: Value = serde_json::from_str(WRONG).unwrap();
    let all: Vec<String> = PROBLEMS.iter().map(of).collect();
    // A constant object, and constants among the choices of `first`.
    for with in [
        json!({"value": wrong}),
        json!({"first": [{"from": "before", "or": wrong}, {"value": wrong}]}),
    ] {
        let mut nodes = call(with.clone());
        nodes
            .as_array_mut()
            .unwrap()
            .insert(0, json!({"name": "before", "kind": "input", "schema": {"type": "object"}}));
        let mut said = refused(nodes);
        said.sort_unstable();
        assert_eq!(said, all, "{with}");
    }
    let fits = json!({"customer": "Ada", "lines": [{"article": "nut", "cents": 3}]});
    assert_eq!(refused(call(json!({"value": fits}))), Vec::<String>::new());
    // Constants nested in objects, lists, templates and defaults.
    let lines =
        |cents: Value| json!({"list": [{"value": {"cents": 1}}, {"object": {"cents": cents}}]});
    let given = |customer: Value, cents: Value| json!({"object": {"customer": customer, "lines": lines(cents)}});
    for (with, says) in [
        (given(json!({"value": ""}), json!({"value": 1})), "`customer`: "),
        (given(json!({"template": ""}), json!({"value": 1})), "`customer`: "),
        (
            given(json!({"state": "who", "or": 7}), json!({"value": 1})),
            "`customer`: value is not of type \"string\"; seen: 7",
        ),
        (given(json!({"value": "Ada"}), json!({"value": "1"})), "`lines[1].cents`: "),
        (
            given(json!({"value": "Ada"}), json!({"state": "cents", "or": 0})),
            "`lines[1].cents`: value is less than the minimum",
        ),
        (given(json!({"value": "Ada"}), json!({"template": "all"})), "`lines[1].cents`: "),
    ] {
        let said = refused(call(with.clone()));
        assert_eq!(said.len(), 1, "{with}: {said:#?}");
        assert!(said[0].starts_with(&of(&says)), "{with}: {said:#?}");
    }
    let fits = given(json!({"state": "who", "or": "Ada"}), json!({"state": "cents", "or": 2}));
    assert_eq!(refused(call(fits)), Vec::<String>::new());
}

#[test]
fn a_constant_that_is_not_of_its_nodes_own_schema_is_refused() {
    let schema =
        json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let value = |value: Value| json!([{"name": "out", "does": {"value": value}, "schema": schema}]);
    let lead = "the node `out`: its output, by its `schema`, does not fit: ";
    for (given, says) in [
        (json!({"value": {"n": "x"}}), "`n`: value is not of type \"integer\"; seen: \"x\""),
        (json!({"value": {}}), "`n`: this is missing; give it a value"),
        (json!({"value": 5}), "object is expected, and 5 is given"),
        (json!({"object": {"n": {"value": "x"}}}), "`n`: integer is expected, and \"x\" is given"),
        (
            json!({"object": {"n": {"state": "n", "or": {}}}}),
            "`n`: value is not of type \"integer\"; seen: {}",
        ),
    ] {
        assert_eq!(refused(value(given.clone())), [format!("{lead}{says}")], "{given}");
    }
    assert_eq!(refused(value(json!({"value": {"n": 5}}))), Vec::<String>::new());
    let broken =
        json!([{"name": "out", "does": {"value": {"value": 5}}, "schema": {"type": "objekt"}}]);
    let said = refused(broken);
    assert_eq!(
        said,
        [
            "the schema of `out`: this is not a JSON Schema at `/type`: there is no type `objekt`; did you mean `object`?"
        ]
    );
}

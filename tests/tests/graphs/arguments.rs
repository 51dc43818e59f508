//! The arguments of a tool that is not typed Rust are checked against its schema, whoever calls it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use agentflow::async_trait;
use agentflow::error::RegistryError;
use agentflow::message::{ToolCall, ToolStatus};
use agentflow::prelude::*;
use agentflow::tool::{FnTool, ToolDefinition, ToolFuture, ToolOutput, ToolRef, Toolset, ToolsetRef};
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

/// A tool written by hand.
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

/// All that is wrong, whoever asks.
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
        let result = registry.invoke(&Context::detached(), &ToolCall::new("1", "order", WRONG), &[]).await;
        assert_eq!(result.status, ToolStatus::InvalidArguments);
        assert_eq!(sorted(result.output.as_str()), PROBLEMS);

        for (name, agent) in [
            ("order", Agent::new(asks("order")).tools(tool.clone())),
            ("shop__order", Agent::new(asks("shop__order")).tools(ToolsetRef::new(Shop(tool.clone())))),
        ] {
            let run = agent.run("Order.").await.unwrap();
            let told = run.conversation().messages().iter().find_map(|message| message.results().next());
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
        let error = runtime.start_named("shopping", &input).await.unwrap().result().await.unwrap_err();
        assert_eq!(error.kind().as_str(), "invalid_arguments");
        let error = error.to_string();
        for problem in PROBLEMS {
            assert!(error.contains(problem), "{problem}\n{error}");
        }
        assert_eq!(calls.load(Ordering::SeqCst), 0, "the body was reached");

        let fits = r#"{"customer": "Ada", "lines": [{"article": "nut", "cents": 3.0}]}"#;
        let result = registry.invoke(&Context::detached(), &ToolCall::new("1", "order", fits), &[]).await;
        assert_eq!((result.status, result.output.as_str()), (ToolStatus::Success, r#""ordered""#));
        assert_eq!(calls.load(Ordering::SeqCst), 1);
    }
}

fn asks(tool: &str) -> ScriptedModel {
    ScriptedModel::new([Turn::call(tool, serde_json::from_str::<Value>(WRONG).unwrap()), Turn::text("I give up.")])
}

#[tokio::test]
async fn a_schema_that_does_not_work_is_reported_where_the_tool_is_offered() {
    let broken = || {
        let schema = json!({"type": "object", "properties": {"n": {"type": "strng"}}});
        FnTool::dynamic(ToolDefinition::new("broken", "", schema), |_, any: Value| async move { Ok::<_, String>(any) })
    };
    let begins = "the parameters of the tool `broken`: this is not a JSON Schema at `/properties/n/type`: ";
    let error = Registry::new().register(broken()).unwrap_err();
    assert!(matches!(error, RegistryError::InvalidSchema { .. }), "{error:?}");
    assert!(error.to_string().starts_with(begins), "{error}");
    let error = Agent::new(ScriptedModel::new([])).tools(broken()).build().unwrap_err().to_string();
    assert!(error.contains(begins), "{error}");
    let error = ToolsetRef::new(Shop(broken().into())).tools().await.unwrap_err().to_string();
    assert!(error.contains("the parameters of the tool `shop__broken`: this is not a JSON Schema"), "{error}");
}

//! Tests recursive types: their schemas within other schemas, between nodes, as inputs and as
//! answers.

use agentflow::prelude::*;
use agentflow::value::Encoded;
use agentflow::workflow::Graph;
use agentflow_testing::{ScriptedModel, Turn, test_runtime};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Chain {
    name: String,
    next: Option<Box<Chain>>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
enum Nested {
    Plain,
    Deep { deep: Box<Nested> },
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Tree {
    name: String,
    children: Vec<Tree>,
    left: Option<Box<Tree>>,
}

/// Gives a chain.
#[tool(effects = "read")]
fn plans_chain() -> Chain {
    Chain { name: "a".to_owned(), next: None }
}

/// Takes a chain.
#[tool(effects = "read")]
fn plans_takes_chain(chain: Chain) -> String {
    chain.name
}

/// Gives what is nested.
#[tool(effects = "read")]
fn plans_nested() -> Nested {
    Nested::Deep { deep: Box::new(Nested::Plain) }
}

/// Takes what is nested.
#[tool(effects = "read")]
fn plans_takes_nested(nested: Nested) -> Nested {
    nested
}

/// Gives a tree.
#[tool(effects = "read")]
fn plans_tree() -> Tree {
    Tree { name: "t".to_owned(), children: Vec::new(), left: None }
}

/// Takes a tree.
#[tool(effects = "read")]
fn plans_takes_tree(tree: Tree) -> String {
    tree.name
}

#[workflow]
async fn plans_with_chain(chain: Chain, count: u32) -> Result<String> {
    let text = format!("{}{count}", chain.name);
    Ok(text)
}

/// Draw {thing}.
#[agent]
async fn plans_draw_nested(thing: String) -> Result<Nested>;

/// Draw all of {thing}.
#[agent]
async fn plans_draw_chains(thing: String) -> Result<Vec<Chain>>;

/// Draw the tree of {thing}.
#[agent]
async fn plans_draw_tree(thing: String) -> Result<Option<Tree>>;

fn call(name: &str, with: Value) -> Value {
    json!({"call": {"kind": "tool", "name": name, "with": {"object": with}}})
}

async fn output(nodes: Value) -> String {
    let graph =
        json!({"version": 1, "name": "self", "output": "o", "concurrency": 2, "nodes": nodes});
    let graph: Graph = serde_json::from_value(graph).unwrap();
    let runtime = test_runtime().graph(graph).build();
    let run = runtime.start_named("self", Encoded::new(&json!({})).unwrap()).await;
    run.unwrap().result().await.unwrap().as_str().to_owned()
}

#[tokio::test]
async fn a_type_that_contains_itself_goes_along_an_edge() {
    for (gives, takes, argument, says) in [
        ("plans_chain", "plans_takes_chain", "chain", r#""a""#),
        ("plans_nested", "plans_takes_nested", "nested", r#"{"Deep":{"deep":"Plain"}}"#),
        ("plans_tree", "plans_takes_tree", "tree", r#""t""#),
    ] {
        let nodes = json!([
            {"name": "p", "does": call(gives, json!({}))},
            {"name": "o", "does": call(takes, json!({argument: {"from": "p"}}))},
        ]);
        assert_eq!(output(nodes).await, says);
    }
}

#[tokio::test]
async fn a_part_of_it_goes_along_an_edge_where_it_is_there() {
    let nodes = json!([
        {"name": "p", "does": call("plans_tree", json!({}))},
        {"name": "way", "does": {"route": {"arms": [{"arm": "left", "when": {"exists": {"from": "p", "at": "/left"}}}, {"arm": "none"}]}}},
        {"name": "l", "does": call("plans_takes_tree", json!({"tree": {"from": "p", "at": "/left"}})), "edges": [{"from": "way", "arm": "left"}]},
        {"name": "o", "does": {"value": {"from": "l", "or": "none"}}},
    ]);
    assert_eq!(output(nodes).await, r#""none""#);
}

#[tokio::test]
async fn a_workflow_takes_one_among_its_inputs() {
    let schema = plans_with_chain::workflow().graph().input_schema();
    let input = json!({"chain": {"name": "a", "next": {"name": "b", "next": null}}, "count": 1});
    assert!(jsonschema::is_valid(&schema, &input), "{schema}");
    let wrong = json!({"chain": {"name": "a", "next": {"name": 3, "next": null}}, "count": 1});
    assert!(!jsonschema::is_valid(&schema, &wrong), "{schema}");
    let whole = json!({"chain": input, "count": 1});
    assert!(!jsonschema::is_valid(&schema, &whole), "{schema}");

    let turns = [Turn::call("plans_with_chain", input), Turn::text("done")];
    let model = ScriptedModel::new(turns).capturing();
    let runtime = test_runtime().model(model.clone()).build();
    let agent = Agent::new(model.clone()).runtime(&runtime).tools(plans_with_chain::workflow());
    assert_eq!(agent.run("go").await.unwrap().output(), "done");
    let last = model.requests().pop().unwrap();
    assert!(format!("{:?}", last.messages.messages().last()).contains("a1"), "{last:?}");
}

#[tokio::test]
async fn a_model_is_asked_for_one_by_a_schema_that_it_fits() {
    let answers = [
        (
            json!({"value": {"Deep": {"deep": {"Deep": {"deep": "Plain"}}}}}),
            json!({"value": {"Deep": {"deep": {"value": "Plain"}}}}),
        ),
        (
            json!({"value": [{"name": "a", "next": {"name": "b", "next": null}}]}),
            json!({"value": [{"name": "a", "next": {"value": []}}]}),
        ),
        (
            json!({"value": {"name": "a", "children": [{"name": "b", "children": [], "left": null}], "left": null}}),
            json!({"value": {"name": "a", "children": [{"value": null}], "left": null}}),
        ),
    ];
    for (at, (answer, wrong)) in answers.into_iter().enumerate() {
        let model = ScriptedModel::new([Turn::text(answer.to_string())]).capturing();
        let runtime = test_runtime().model(model.clone()).build();
        let thing = || "it".to_owned();
        let given = match at {
            0 => {
                json!({"value": plans_draw_nested::agent(thing()).runtime(&runtime).run(()).await.unwrap().output()})
            }
            1 => {
                json!({"value": plans_draw_chains::agent(thing()).runtime(&runtime).run(()).await.unwrap().output()})
            }
            _ => {
                json!({"value": plans_draw_tree::agent(thing()).runtime(&runtime).run(()).await.unwrap().output()})
            }
        };
        assert_eq!(given, answer);
        let schema =
            model.requests()[0].output.as_ref().map(|output| output.schema.clone()).unwrap();
        assert!(jsonschema::is_valid(&schema, &answer), "{schema}");
        assert!(!jsonschema::is_valid(&schema, &wrong), "{schema}");
    }
}

#[tokio::test]
async fn the_answer_of_an_agent_goes_along_an_edge() {
    let model = ScriptedModel::new([Turn::text(r#"{"value": [{"name": "a", "next": null}]}"#)]);
    let graph = json!({"version": 1, "name": "drawn", "output": "o", "concurrency": 2, "nodes": [
        {"name": "p", "does": {"call": {"kind": "agent", "name": "plans_draw_chains", "with": {"object": {"thing": {"value": "it"}}}}}},
        {"name": "o", "does": {"map": {"items": "p", "call": {"kind": "tool", "name": "plans_takes_chain", "with": {"object": {"chain": {"item": ""}}}}}}},
    ]});
    let graph: Graph = serde_json::from_value(graph).unwrap();
    let runtime = test_runtime().model(model).graph(graph).build();
    let run = runtime.start_named("drawn", Encoded::new(&json!({})).unwrap()).await.unwrap();
    assert_eq!(run.result().await.unwrap().as_str(), r#"["a"]"#);
}

//! Tests calls of `#[agent]` functions by name with JSON arguments: by a graph, and by another
//! agent as a tool.

use agentflow::prelude::*;
use agentflow::runtime::EntryKind;
use agentflow::value::Encoded;
use agentflow::workflow::Graph;
use agentflow_testing::{ScriptedModel, Turn, test_runtime};
use serde_json::{Value, json};

/// What is judged.
#[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
struct Claim {
    text: String,
    cents: u32,
}

/// A verdict.
#[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema, Debug, PartialEq)]
struct Verdict {
    fine: bool,
}

/// Judge {claim.text} for {claim.cents}, {how}.
#[agent]
async fn graphs_judge(claim: Claim, how: Option<String>) -> Result<Verdict>;

/// A type that can be serialized into a prompt but not deserialized from arguments.
#[derive(serde::Serialize)]
struct Opaque {
    text: String,
}

/// Say what {what} is.
#[agent]
async fn graphs_opaque(what: Opaque) -> Result<String>;

/// Say anything.
#[agent]
async fn graphs_anything() -> Result<String>;

fn whole(name: &str, with: Value) -> Graph {
    let call = json!({"call": {"kind": "agent", "name": name, "with": with}});
    let nodes = json!([
        {"name": "cents", "kind": "input", "schema": {"type": "integer", "minimum": 0}},
        {"name": "out", "does": call}
    ]);
    serde_json::from_value(
        json!({"version": 1, "name": "judged", "output": "out", "concurrency": 1, "nodes": nodes}),
    )
    .unwrap()
}

fn claim(cents: Value) -> Value {
    json!({"object": {"claim": {"object": {"text": {"value": "a chair"}, "cents": cents}}}})
}

async fn run(graph: Graph, model: &ScriptedModel) -> Result<Value> {
    let runtime = test_runtime().model(model.clone()).graph(graph).build();
    let input = Encoded::new(&json!({"cents": 7})).unwrap();
    let output = runtime.start_named("judged", &input).await?.result().await?;
    Ok(output.decode().unwrap())
}

fn refused(graph: Graph) -> String {
    test_runtime()
        .graph(graph)
        .build()
        .catalogue()
        .workflow_graph("judged")
        .unwrap_err()
        .to_string()
}

#[tokio::test]
async fn a_graph_calls_an_agent_function_with_its_arguments() {
    let model = ScriptedModel::new([Turn::text(r#"{"fine": true}"#)]).capturing();
    let output = run(whole("graphs_judge", claim(json!({"from": "cents"}))), &model).await.unwrap();
    assert_eq!(output, json!({"fine": true}));
    let asked = format!("{:?}", model.requests()[0]);
    assert!(asked.contains("a chair") && asked.contains('7'), "{asked}");
}

#[tokio::test]
async fn an_agent_function_without_parameters_is_given_an_empty_object() {
    let model = ScriptedModel::new([Turn::text("hello")]);
    let output = run(whole("graphs_anything", json!({"object": {}})), &model).await.unwrap();
    assert_eq!(output, json!("hello"));
}

#[test]
fn wrong_arguments_of_an_agent_function_are_found_when_the_graph_is_read() {
    let missing = refused(whole("graphs_judge", json!({"object": {}})));
    assert!(
        missing
            .contains("the node `out`: the agent `graphs_judge` needs `claim`, which is not given"),
        "{missing}"
    );
    let unknown = json!({"object": {"clam": {"from": "cents"}}});
    let unknown = refused(whole("graphs_judge", unknown));
    assert!(
        unknown.contains("the agent `graphs_judge` has no argument `clam`; did you mean `claim`?"),
        "{unknown}"
    );
    let text = refused(whole("graphs_judge", claim(json!({"value": "seven"}))));
    assert!(
        text.contains("an argument of the agent `graphs_judge`, `claim.cents`: integer"),
        "{text}"
    );
    let whole_text = refused(whole("graphs_judge", json!({"value": "judge it"})));
    assert!(whole_text.contains("the agent `graphs_judge` is given an object"), "{whole_text}");
}

#[test]
fn a_parameter_that_cannot_be_read_is_named_with_what_to_derive() {
    let error = refused(whole("graphs_opaque", json!({"object": {"what": {"value": 1}}})));
    assert!(
        error.contains(
            "the node `out`: the agent `graphs_opaque` cannot be built: it cannot be given arguments as JSON, since its \
             parameter `what` is a `graphs::linked_agents::Opaque`; derive `serde::Deserialize` and \
             `schemars::JsonSchema` for that type"
        ),
        "{error}"
    );
}

#[test]
fn an_agent_that_there_is_not_is_named_with_the_nearest_one() {
    let error = refused(whole("graphs_juge", json!({"object": {}})));
    assert!(
        error.ends_with("this program has no agent `graphs_juge`; did you mean `graphs_judge`?"),
        "{error}"
    );
}

#[tokio::test]
async fn the_catalogue_has_what_an_agent_function_takes_and_gives() {
    let catalogue = test_runtime().build().catalogue().snapshot().await;
    let entry = catalogue.get(EntryKind::Agent, "graphs_judge").unwrap();
    let input = entry.input.as_ref().unwrap();
    assert_eq!(input["required"], json!(["claim"]), "{input}");
    assert_eq!(input["properties"]["claim"]["properties"]["cents"]["type"], "integer", "{input}");
    assert_eq!(entry.output.as_ref().unwrap()["properties"]["fine"]["type"], "boolean");
    assert_eq!(catalogue.get(EntryKind::Agent, "graphs_opaque").unwrap().input, None);
    assert_eq!(&graphs_judge::definition().input_schema().unwrap(), input);
}

#[tokio::test]
async fn a_model_gives_an_agent_function_its_arguments() {
    let given = json!({"claim": {"text": "a table", "cents": 3}, "how": "kindly"});
    let model = ScriptedModel::new([
        Turn::call("graphs_judge", given),
        Turn::text(r#"{"fine": false}"#),
        Turn::call("graphs_judge", json!({"claim": {"text": "a table"}})),
        Turn::text("no"),
    ])
    .capturing();
    let runtime = test_runtime().model(model.clone()).build();
    let agent = Agent::new(model.clone()).runtime(&runtime).tools(graphs_judge::definition());
    assert_eq!(agent.run("Is it fine?").await.unwrap().output(), "no");
    let last = format!("{:?}", model.requests()[3]);
    assert!(last.contains("missing field `cents`"), "{last}");
}

#[tokio::test]
async fn a_tool_of_an_unreadable_parameter_is_reported_with_the_agent() {
    let model = ScriptedModel::new([]);
    let error =
        Agent::new(model).tools(graphs_opaque::definition()).build().unwrap_err().to_string();
    assert!(error.contains("its parameter `what` is a `graphs::linked_agents::Opaque`"), "{error}");
}

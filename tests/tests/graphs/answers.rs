//! Tests tools that return files in addition to JSON, as nodes of a `#[workflow]` and of a graph.

use agentflow::message::{Media, ResourceLink};
use agentflow::prelude::*;
use agentflow::tool::ToolOutput;
use agentflow::value::{Encoded, NodeValue};
use agentflow::workflow::Graph;
use agentflow_testing::{CrashTest, test_runtime};
use serde_json::{Value, json};

/// Draws the sales of a year.
#[tool(effects = "read")]
async fn graphs_chart(year: u16) -> ToolOutput {
    let sales = ToolOutput::json(&json!({"year": year, "sold": 3})).unwrap();
    sales
        .with_media(Media::of_bytes("image/png", [1, 2, 3]))
        .with_link(ResourceLink::new("https://example.com"))
}

/// Draws it, or not.
#[tool(effects = "read")]
async fn graphs_may_chart(year: u16) -> Result<ToolOutput, String> {
    if year < 1900 { Err("there were no sales".to_owned()) } else { Ok(graphs_chart(year).await) }
}

/// How much there is of it.
#[tool(effects = "none")]
async fn graphs_weigh(json: String, parts: usize) -> String {
    format!("{json} and {parts} parts")
}

async fn helper(year: u16) -> Result<ToolOutput, String> {
    graphs_may_chart(year).await
}

fn parts(chart: &ToolOutput) -> usize {
    chart.content().map_or(0, |content| content.parts.len())
}

#[workflow]
async fn graphs_charted(year: u16) -> Result<String, Box<dyn std::error::Error + Send + Sync>> {
    let chart = graphs_chart(year).await;
    let other = helper(year).await?;
    let weight = graphs_weigh(chart.as_json().to_owned(), parts(&chart) + parts(&other)).await;
    Ok(weight)
}

#[tokio::test]
async fn a_workflow_has_a_node_that_answers_with_files() {
    let output = graphs_charted(2026).await.unwrap();
    assert_eq!(output, r#"{"sold":3,"year":2026} and 4 parts"#);
}

#[tokio::test]
async fn its_files_are_there_after_a_crash_anywhere() {
    CrashTest::new(&graphs_charted::workflow(), || 2026).run().await;
}

#[tokio::test]
async fn a_graph_reads_the_json_of_such_a_node() {
    let call = |name: &str| json!({"call": {"kind": "tool", "name": name, "with": {"object": {"year": {"from": "year"}}}}});
    let graph = json!({"version": 1, "name": "drawn", "output": "sold", "concurrency": 2, "nodes": [
        {"name": "year", "kind": "input", "schema": {"type": "integer", "minimum": 0, "maximum": 3000}},
        {"name": "chart", "does": call("graphs_chart")},
        {"name": "may", "does": call("graphs_may_chart")},
        {"name": "sold", "does": {"value": {"list": [{"from": "chart", "at": "/sold"}, {"from": "may"}]}}},
    ]});
    let graph: Graph = serde_json::from_value(graph).unwrap();
    let runtime = test_runtime().graph(graph).build();
    let input = Encoded::new(&json!({"year": 2026})).unwrap();
    let output = runtime.start_named("drawn", &input).await.unwrap().result().await.unwrap();
    assert_eq!(output.decode::<Value>().unwrap(), json!([3, {"year": 2026, "sold": 3}]));
}

#[test]
fn an_answer_is_the_same_after_it_was_recorded() {
    let file = || Media::of_bytes("image/png", [1]);
    let plain = |value: &Value| ToolOutput::json(value).unwrap();
    for answer in [
        ToolOutput::text("a"),
        plain(&Value::Null),
        ToolOutput::media(file()),
        ToolOutput::text("a").with_text("b"),
        plain(&json!({"tool_output": 1, "tool_content": null})),
        plain(&json!({"tool_output": 1, "tool_content": null})).with_media(file()),
        plain(&json!({"other": {"tool_content": [1]}})),
        plain(&json!(["\"tool_content\""])),
    ] {
        let encoded = NodeValue::encode(&answer).unwrap();
        assert_eq!(<ToolOutput as NodeValue>::decode(&encoded).unwrap(), answer, "{encoded}");
    }
    assert_eq!(NodeValue::encode(&plain(&json!({"a": 1}))).unwrap().as_str(), r#"{"a":1}"#);
}

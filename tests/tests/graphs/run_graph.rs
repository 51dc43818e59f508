//! The nodes and edges of a graph that a person sees, and the graph of a run with its status.

use agentflow::document::Document;
use agentflow::prelude::*;
use agentflow::runtime::{NodeStatus, RunGraph, RunGraphNode};
use agentflow::store::MemoryStore;
use agentflow::workflow::{DisplayEdge, DisplayEdgeKind, Graph};
use agentflow_testing::within;
use serde_json::json;

/// Returns the edges as lines such as `a -> b: arm yes`.
fn lines(edges: &[DisplayEdge]) -> Vec<String> {
    let mut lines = Vec::new();
    for edge in edges {
        let kind = serde_json::to_value(edge.kind).unwrap();
        let mut line = format!("{} -> {}: {}", edge.from, edge.to, kind.as_str().unwrap());
        if let Some(label) = &edge.label {
            line = format!("{line} {label}");
        }
        lines.push(line);
    }
    lines
}

/// Asserts that every edge connects two shown nodes.
fn ends_are_shown(graph: &Graph) {
    let nodes: Vec<&str> = graph.display_nodes().iter().map(|node| node.name.as_str()).collect();
    for edge in graph.edges() {
        assert!(nodes.contains(&edge.from.as_str()), "{edge:?}");
        assert!(nodes.contains(&edge.to.as_str()), "{edge:?}");
    }
}

/// Measure a word.
#[tool(idempotent)]
async fn measure_word(word: String) -> Result<usize> {
    match word.as_str() {
        "" => Err(agentflow::Error::other("the word is empty")),
        _ => Ok(word.len()),
    }
}

/// Praise a number.
#[tool(idempotent)]
async fn praise_number(number: usize) -> String {
    format!("{number} is good")
}

#[workflow]
async fn measured_and_asked(words: Vec<String>) -> Result<String> {
    let lengths = map!(words, |word| measure_word(word)).await?;
    let total = lengths.iter().sum::<usize>();
    let approval = gate!("praise {total}?").await?;
    let text = if approval.is_granted() {
        let praise = praise_number(total).await;
        praise
    } else {
        "no".to_owned()
    };
    Ok(text)
}

fn node<'g>(graph: &'g RunGraph, name: &str) -> &'g RunGraphNode {
    let found = graph.nodes.iter().find(|node| node.name == name);
    found.unwrap_or_else(|| panic!("no `{name}` in {:#?}", graph.nodes))
}

#[tokio::test]
async fn a_run_shows_the_status_of_each_node() {
    let runtime = Runtime::builder().store(MemoryStore::new()).build();
    let words = vec!["one".to_owned(), "three".to_owned()];
    let run = runtime.start(measured_and_asked::workflow(), words).await.unwrap();
    let id = run.run_id().clone();
    within("the question", run.asked()).await.unwrap().expect("a question");

    let waiting = runtime.run(&id).graph().await.unwrap();
    ends_are_shown(&measured_and_asked::workflow().graph());
    let lengths = node(&waiting, "lengths");
    assert_eq!(lengths.status, NodeStatus::Success);
    let items = lengths.items.expect("two items");
    assert_eq!((items.started, items.success, items.failed), (2, 2, 0));
    assert!(lengths.started.is_some() && lengths.ended >= lengths.started);
    assert_eq!(node(&waiting, "words").status, NodeStatus::Success);
    let question = node(&waiting, "approval");
    assert_eq!((question.status, question.ended), (NodeStatus::AwaitingApproval, None));
    let praise = waiting.nodes.iter().find(|node| node.name.ends_with("praise")).unwrap();
    assert_eq!((praise.status, praise.attempts, praise.started), (NodeStatus::Pending, 0, None));

    run.approve("approval", Approval::granted(), "ann").await.unwrap();
    assert_eq!(within("the end", run.result()).await.unwrap(), "8 is good");
    let ended = runtime.run(&id).graph().await.unwrap();
    for node in &ended.nodes {
        assert_eq!(node.status, NodeStatus::Success, "{node:?}");
    }
    let mut names: Vec<&str> = waiting.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ended.nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>());
    names.dedup();
    assert_eq!(names.len(), ended.nodes.len(), "a name is there twice");
}

#[tokio::test]
async fn a_failed_item_is_counted() {
    let runtime = Runtime::builder().store(MemoryStore::new()).build();
    let words = vec!["one".to_owned(), String::new()];
    let run = runtime.start(measured_and_asked::workflow(), words).await.unwrap();
    let id = run.run_id().clone();
    within("the failure", run.result()).await.unwrap_err();
    let graph = runtime.run(&id).graph().await.unwrap();
    let lengths = node(&graph, "lengths");
    assert_eq!((lengths.status, lengths.items.unwrap().failed), (NodeStatus::Failed, 1));
    assert_eq!(node(&graph, "approval").status, NodeStatus::Skipped);
}

#[tokio::test]
async fn an_agent_shows_its_calls() {
    let runtime = Runtime::builder().store(MemoryStore::new()).build();
    let model = agentflow_testing::ScriptedModel::new([
        agentflow_testing::Turn::call("praise_number", json!({"number": 3})),
        agentflow_testing::Turn::text("done"),
    ]);
    let agent = Agent::new(model).tools(tools![praise_number]).runtime(&runtime);
    let run = agent.start("praise 3").unwrap();
    let id = run.run_id().clone();
    within("the end", run.result()).await.unwrap();
    let graph = runtime.run(&id).graph().await.unwrap();
    assert!(graph.edges.is_empty());
    assert!(graph.nodes.len() >= 3, "{:#?}", graph.nodes);
    assert!(graph.nodes.iter().all(|node| node.kind.is_none()));
}

#[test]
fn edges_have_their_reason() {
    let document = Document::read(
        "it.yaml",
        r#"
name: it
topology:
  sequence:
    - {tool: find, save: found}
    - route:
        - {when: "input.size > 3", then: {tool: shorten}}
      otherwise: {tool: keep}
    - {tool: store, with: {text: "{state.found}", short: "{input}"}}
"#,
    )
    .unwrap();
    let graph = document.graph();
    ends_are_shown(graph);
    let lines = lines(&graph.edges());
    for line in ["input -> find: output", "find -> store: state found"] {
        assert!(lines.iter().any(|found| found == line), "{line}: {lines:#?}");
    }
    let arms = graph.edges().into_iter().filter(|edge| edge.kind == DisplayEdgeKind::Arm);
    let mut arms: Vec<String> = arms.map(|edge| edge.to).collect();
    arms.sort_unstable();
    assert_eq!(arms, ["keep", "shorten"]);
    for line in ["shorten -> choice: output", "keep -> choice: output", "choice -> store: output"] {
        assert!(lines.contains(&line.to_owned()), "{lines:#?}");
    }
}

#[test]
fn an_edge_after_a_failure_has_its_kind() {
    let document = Document::read(
        "it.yaml",
        r#"
workflow_id: it
nodes:
  - {node_id: risky, kind: mcp, dependencies: [{dependency_id: d, dependency_type: mcp_tool, resolution_mode: fixed, fixed_ref: {server_id: s, tool_name: t}}], on_error: route_to_node, on_error_node_id: repair}
  - {node_id: repair, kind: mcp, dependencies: [{dependency_id: d, dependency_type: mcp_tool, resolution_mode: fixed, fixed_ref: {server_id: s, tool_name: u}}]}
  - {node_id: end, kind: terminal}
edges:
  - {from_node_id: risky, to_node_id: end, edge_type: sequential}
"#,
    )
    .unwrap();
    ends_are_shown(document.graph());
    let lines = lines(&document.graph().edges());
    assert!(lines.contains(&"risky -> repair: failure failed".to_owned()), "{lines:#?}");
}

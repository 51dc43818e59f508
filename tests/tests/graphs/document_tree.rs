//! Documents of parts within parts: they are the graphs that the operators make.

use agentflow::document::DocumentForm;
use agentflow::pipeline::{Pipeline, until};
use agentflow::prelude::*;
use agentflow::store::MemoryStore;
use agentflow::workflow::NodePolicy;
use serde_json::json;

use crate::documents::{LETTERS, after_every_crash, problems, read, run};

/// Write a text twice.
#[tool(effects = "none")]
fn doc_twice(text: String) -> String {
    format!("{text} {text}")
}

/// Write a text with one more letter.
#[tool(effects = "none")]
fn doc_grow(text: serde_json::Value) -> String {
    match text {
        serde_json::Value::String(text) => format!("{text}!"),
        other => format!("{}", other["words"]),
    }
}

/// Note a text.
#[tool(effects = "none")]
fn doc_note(text: usize) -> usize {
    text
}

/// Fail.
#[tool(effects = "none")]
fn doc_broken() -> Result<String, String> {
    Err("it is broken".to_owned())
}

fn letters() -> Pipeline {
    let twice = Pipeline::map_over(Pipeline::tool("doc_twice").with(json!({"text": "{input}"})));
    let words = Pipeline::tool("doc_count").with(json!({"texts": "{input}"})).named("words").save("words");
    let grown = Pipeline::tool("doc_grow").with(json!({"text": "{input}"})) * until("size(item) > 20").max(5);
    let sent = Pipeline::value("sent: {input}").timeout(std::time::Duration::from_secs(5));
    (twice >> (words | Pipeline::value("{input}").named("texts")))
        .tap(Pipeline::tool("doc_note").with(json!({"text": "{input.words}"})))
        >> Pipeline::when("input.words > 100", Pipeline::value("too long")).otherwise(grown)
        >> (Pipeline::tool("doc_broken").with(json!({})) / sent)
}

#[tokio::test]
async fn a_tree_is_the_graphs_of_its_operators() {
    let document = read(LETTERS);
    assert_eq!(document.form(), DocumentForm::Tree);
    let graphs = letters().graphs("letters").unwrap();
    assert_eq!(document.graph(), graphs.last().unwrap());
    let runtime = Runtime::builder().store(MemoryStore::new()).document(document.clone()).build();
    runtime.check(&document).await.unwrap_or_else(|error| panic!("{error}"));
    let output = run(&runtime, "letters", json!({"input": ["a b", "c"]})).await;
    assert_eq!(output, json!("sent: 6!!!!"));
}

#[tokio::test]
async fn a_run_of_a_tree_survives_every_crash() {
    let output = after_every_crash(LETTERS, json!({"input": ["a b", "c"]}), |builder| builder).await;
    assert_eq!(output, json!("sent: 6!!!!"));
}

#[test]
fn each_operator_is_one_of_a_pipeline() {
    let same = |text: &str, pipeline: Pipeline| {
        let document = read(&format!("name: t\nroot: {text}\n"));
        let graphs = pipeline.graphs("t").unwrap();
        assert_eq!(document.graph(), graphs.last().unwrap(), "{text}");
    };
    let (a, b) = (|| Pipeline::tool("a"), || Pipeline::agent("b"));
    same("{sequence: [{tool: a}, {agent: b}]}", a() >> b());
    same("{parallel: [{tool: a}, {agent: b}]}", a() | b());
    same("{fallback: [{tool: a}, {agent: b}]}", a() / b());
    same("{race: [{tool: a}, {agent: b}]}", Pipeline::race([a(), b()]));
    same("{loop: {agent: b}, max: 3}", b() * 3);
    same("{loop: {agent: b}, until: item.done}", b() * until("item.done"));
    same("{map_over: {tool: a}}", Pipeline::map_over(a()));
    same("{tool: a, retry: 2, save: k, as: n}", a().retry(2).save("k").named("n"));
    same("{timeout: {agent: b}, seconds: 1.5}", b().timeout(std::time::Duration::from_millis(1500)));
    same("{gate: 'May it?'}", Pipeline::gate("May it?"));
    same(
        "{gate: 'May it?', when: input.n > 1}",
        Pipeline::when("input.n > 1", Pipeline::gate("May it?")).otherwise(Pipeline::value("{input}")),
    );
    same("{workflow: w, with: {x: '{input.y}'}}", Pipeline::workflow("w").with(json!({"x": "{input.y}"})));
    same("{transform: [{drop: [k]}]}", Pipeline::transform([serde_json::from_value(json!({"drop": ["k"]})).unwrap()]));
    // A row in a row is read as it is written.
    let within = read("name: t\nroot: {parallel: [{parallel: [{tool: a}, {agent: b}]}, {value: 1}]}\n");
    assert!(within.graph().node("together_2").is_some(), "{:?}", within.graph());
}

/// A part that only observes gives what it was given, also as one of several at the same time.
#[tokio::test]
async fn a_branch_may_only_observe() {
    let text = "name: t\nroot:\n  parallel:\n    - {tap: {tool: doc_broken, with: {}}}\n    - {sequence: [{tap: {tool: doc_note, with: {text: '{input}'}}}], as: seen}\n    - {value: 5}\n";
    let document = read(text);
    let runtime = Runtime::builder().document(document.clone()).build();
    runtime.check(&document).await.unwrap_or_else(|error| panic!("{error}"));
    let output = run(&runtime, "t", json!({"input": 7})).await;
    assert_eq!(output, json!({"doc_broken": 7, "seen": 7, "value": 5}));
    let written = document.export(DocumentForm::Tree).unwrap().to_string();
    assert_eq!(read(&written).graph().hash(), document.graph().hash());
}

/// A policy that is written once is that of each part that names it: its mistakes are reported where it is written, and it is
/// exported as what it stands for.
#[test]
fn a_preset_is_read_wherever_it_is_named() {
    let text = |field: &str, alias: &str| {
        format!(
            "name: p\ntopology:\n  sequence:\n    - {{tool: a, policy: &careful {{{field}: 9}}}}\n    - {{tool: b, policy: *{alias}}}\n    - {{fallback: [{{tool: c, policy: *{alias}}}], as: d}}\n"
        )
    };
    let document = read(&text("timeout_ms", "careful"));
    let policy = NodePolicy::default().timeout(std::time::Duration::from_millis(9));
    let calls = [document.graph(), &document.inner()[0]].into_iter().flat_map(|graph| &graph.nodes);
    let of_calls: Vec<_> = calls.filter(|node| ["a", "b", "c"].contains(&&*node.name)).map(|of| &of.policy).collect();
    assert_eq!(of_calls, [&policy; 3]);
    for form in [DocumentForm::Tree, document.form()] {
        let exported = document.export(form).unwrap().to_string();
        assert_eq!(exported.matches(r#""policy":{"timeout_ms":9}"#).count(), 3, "{exported}");
    }
    assert_eq!(
        problems(&text("timout_ms", "careful")),
        ["4:35: unknown field `timout_ms`; did you mean `timeout_ms`?"]
    );
    let unknown = "5:25: no value above has the anchor `&carefull`; did you mean `careful`?";
    assert_eq!(problems(&text("timeout_ms", "carefull")), [unknown]);
    // Of edges and steps, too.
    let edges = "workflow_id: w\nnodes:\n  - {node_id: a, kind: mcp, retry_policy: &often {max_atempts: 9}, dependencies: [{dependency_id: d, dependency_type: mcp_tool, fixed_ref: {server_id: s, tool_name: t}}]}\n  - {node_id: b, kind: mcp, retry_policy: *often, dependencies: [{dependency_id: d, dependency_type: mcp_tool, fixed_ref: {server_id: s, tool_name: t}}]}\nedges: []\n";
    assert_eq!(problems(edges), ["3:51: a retry policy has no `max_atempts`; did you mean `max_attempts`?"]);
}

//! Tests documents of nested parts: each gives the same graphs as the operators of a pipeline.

use agentflow::Approval;
use agentflow::agent::AgentSettings;
use agentflow::document::DocumentForm;
use agentflow::pipeline::{Pipeline, until};
use agentflow::prelude::*;
use agentflow::store::MemoryStore;
use agentflow::workflow::NodePolicy;
use agentflow_testing::within;
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
    let words =
        Pipeline::tool("doc_count").with(json!({"texts": "{input}"})).named("words").save("words");
    let grown = Pipeline::tool("doc_grow").with(json!({"text": "{input}"}))
        * until("size(item) > 20").max(5);
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
    runtime.documents().check(&document).await.unwrap_or_else(|error| panic!("{error}"));
    let output = run(&runtime, "letters", json!({"input": ["a b", "c"]})).await;
    assert_eq!(output, json!("sent: 6!!!!"));
}

#[tokio::test]
async fn a_run_of_a_tree_survives_every_crash() {
    let output =
        after_every_crash(LETTERS, json!({"input": ["a b", "c"]}), |builder| builder).await;
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
    same(
        "{timeout: {agent: b}, seconds: 1.5}",
        b().timeout(std::time::Duration::from_millis(1500)),
    );
    same("{gate: 'May it?'}", Pipeline::gate("May it?"));
    same(
        "{gate: 'May it?', when: input.n > 1}",
        Pipeline::when("input.n > 1", Pipeline::gate("May it?"))
            .otherwise(Pipeline::value("{input}")),
    );
    same(
        "{workflow: w, with: {x: '{input.y}'}}",
        Pipeline::workflow("w").with(json!({"x": "{input.y}"})),
    );
    same(
        "{transform: [{drop: [k]}]}",
        Pipeline::transform([serde_json::from_value(json!({"drop": ["k"]})).unwrap()]),
    );
    // A `parallel` within a `parallel` stays a separate node.
    let within =
        read("name: t\nroot: {parallel: [{parallel: [{tool: a}, {agent: b}]}, {value: 1}]}\n");
    assert!(within.graph().node("together_2").is_some(), "{:?}", within.graph());
}

/// Checks that a tap passes its input on, also as a branch of a `parallel`.
#[tokio::test]
async fn a_branch_may_only_observe() {
    let text = "name: t\nroot:\n  parallel:\n    - {tap: {tool: doc_broken, with: {}}}\n    - {sequence: [{tap: {tool: doc_note, with: {text: '{input}'}}}], as: seen}\n    - {value: 5}\n";
    let document = read(text);
    let runtime = Runtime::builder().document(document.clone()).build();
    runtime.documents().check(&document).await.unwrap_or_else(|error| panic!("{error}"));
    let output = run(&runtime, "t", json!({"input": 7})).await;
    assert_eq!(output, json!({"doc_broken": 7, "seen": 7, "value": 5}));
    let written = document.export(DocumentForm::Tree).unwrap().to_string();
    assert_eq!(read(&written).graph().hash(), document.graph().hash());
}

/// Checks a policy that YAML anchors share. A mistake is reported where the policy is defined, and
/// an export repeats the policy at each use.
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
    let of_calls: Vec<_> =
        calls.filter(|node| ["a", "b", "c"].contains(&&*node.name)).map(|of| &of.policy).collect();
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
    // The same in documents of edges.
    let edges = "workflow_id: w\nnodes:\n  - {node_id: a, kind: mcp, retry_policy: &often {max_atempts: 9}, dependencies: [{dependency_id: d, dependency_type: mcp_tool, fixed_ref: {server_id: s, tool_name: t}}]}\n  - {node_id: b, kind: mcp, retry_policy: *often, dependencies: [{dependency_id: d, dependency_type: mcp_tool, fixed_ref: {server_id: s, tool_name: t}}]}\nedges: []\n";
    assert_eq!(
        problems(edges),
        ["3:51: a retry policy has no `max_atempts`; did you mean `max_attempts`?"]
    );
}

/// Runs the `otherwise` part of a gate when the approval is denied.
#[tokio::test(start_paused = true)]
async fn a_denied_gate_has_a_branch() {
    let text = "name: transfer
topology:
  sequence:
    - value: {amount: \"{input}\"}
    - gate: \"Transfer {input.amount}?\"
      otherwise: {value: \"kept {input.amount}\"}
      save: decided
    - value: \"{state.decided}: {input}\"
";
    let gate = Pipeline::gate("Transfer {input.amount}?")
        .otherwise(Pipeline::value("kept {input.amount}"))
        .save("decided");
    let pipeline = Pipeline::value(json!({"amount": "{input}"}))
        >> gate
        >> Pipeline::value("{state.decided}: {input}");
    let document = read(text);
    assert_eq!(document.graph(), pipeline.graphs("transfer").unwrap().last().unwrap());
    for (answer, output) in [
        (Approval::granted(), "{\"amount\":5}: {\"amount\":5}"),
        (Approval::denied("no"), "kept 5: kept 5"),
    ] {
        let runtime =
            Runtime::builder().store(MemoryStore::new()).document(document.clone()).build();
        let handle = runtime.start_named("transfer", json!({"input": 5})).await.unwrap();
        let question =
            within("the question", handle.asked()).await.unwrap().expect("somebody is asked");
        assert_eq!((&*question.path, &*question.message), ("gate", "Transfer 5?"));
        runtime.run(handle.run_id()).approve(&question.id, answer, "ada").await.unwrap();
        assert_eq!(handle.result().await.unwrap().decode::<String>().unwrap(), output);
    }
    let error =
        Pipeline::value(1).otherwise(Pipeline::value(2)).graphs("made").unwrap_err().to_string();
    assert!(error.starts_with("the part `value`: only a gate has `otherwise`"), "{error}");
}

/// Checks that `input` is the schema of the part's input, wherever the part is, and that `with`
/// builds the arguments from that input.
#[tokio::test]
async fn a_part_with_a_schema_and_arguments_means_one_thing() {
    let part = "{tool: doc_grow, with: {text: '{input}'}, input: {type: string}}";
    for text in [
        format!("name: it\ntopology: {part}\n"),
        format!("name: it\ntopology: {{sequence: [{{value: '{{input}}'}}, {part}]}}\n"),
    ] {
        let document = read(&text);
        let runtime = Runtime::builder().document(document.clone()).build();
        runtime.documents().check(&document).await.unwrap_or_else(|error| panic!("{text}{error}"));
        assert_eq!(run(&runtime, "it", json!({"input": "a"})).await, json!("a!"));
        let again = DocumentForm::Tree
            .export_with(document.graph(), document.inner())
            .unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(read(&again.to_string()).graph(), document.graph());
    }
    let misfit = format!("name: it\ntopology: {{sequence: [{{value: 5}}, {part}]}}\n");
    let runtime = Runtime::builder().build();
    let error = runtime.documents().check(&read(&misfit)).await.unwrap_err();
    assert!(error.problems()[0].message().contains("string is expected"), "{error}");
}

/// Checks that terms of other frameworks lead to a suggestion.
#[test]
fn a_part_in_other_words_says_what_to_write() {
    for (part, says) in [
        (
            "{if: x, then: {value: 1}}",
            "a part has no `if`; a part that depends on a condition is `route: [{when: .., then: ..}]`",
        ),
        (
            "{approval: May it?}",
            "a part has no `approval`; a question that a person must agree to is `gate: ..`",
        ),
        (
            "{http_request: {url: x}}",
            "a part has no `http_request`; a tool is called with `tool: http_request`",
        ),
        ("{toool: x}", "a part has no `toool`; did you mean `tool`?"),
    ] {
        let found = problems(&format!("name: it\ntopology: {part}\n"));
        assert_eq!(found, [format!("2:12: {says}")]);
    }
}

/// Checks that errors quote the author's text and point to the mistake, and that every part can
/// refer to the workflow's input.
#[tokio::test]
async fn sentences_and_places_are_those_of_the_text() {
    let text = "name: it
topology:
  sequence:
    - {value: {total: \"{input.total}\"}, save: order}
    - {value: \"{input.total} to {nodes.input.country}\"}
";
    let runtime = Runtime::builder().document(read(text)).build();
    assert_eq!(
        run(&runtime, "it", json!({"input": {"total": 5, "country": "DE"}})).await,
        json!("5 to DE")
    );
    let typed = text.replace("topology:", "topology:\n  output: {type: string}");
    let found = problems(&typed.replace("{nodes.input.country}", "{input.country}"));
    assert!(found.len() == 1 && found[0].starts_with("6:"), "{found:?}");
    assert!(
        found[0]
            .contains("the placeholder `{input.country}`: the output of `value` has nothing there"),
        "{found:?}"
    );
    let route = |when: &str| {
        format!(
            "name: it\ntopology:\n  sequence:\n    - {{value: {{total: \"{{input.total}}\"}}, save: order}}\n    - route:\n        - when: \
             {when}\n          then: {{value: by truck}}\n      otherwise: {{value: \"{{input.total}} by ship\"}}\n"
        )
    };
    let found = problems(&route("input.country == 'DE'"));
    assert!(found.len() == 1 && found[0].starts_with("6:17: "), "{found:?}");
    assert!(
        found[0]
            .contains("`input.country == 'DE'`: the output of `value` has nothing at `country`"),
        "{found:?}"
    );
    let found = problems(&route("order.country == 'DE'"));
    assert!(
        found.len() == 1 && found[0].ends_with("; the key of the state is `state.order`"),
        "{found:?}"
    );
    read(&route("nodes.input.country == 'DE' && state.order.total > 1"));
}

/// Checks that graphs draw an edge from the node that saves a state key to the node that reads it.
#[test]
fn pictures_show_keys_of_the_state() {
    let text = "name: it\ntopology:\n  sequence:\n    - {value: \"{input}\", save: topic}\n    - {value: x}\n    - {value: \"about {state.topic}\"}\n";
    let (mermaid, dot) = (read(text).graph().to_mermaid(), read(text).graph().to_dot());
    assert!(mermaid.contains("n1(\"value<br/>saves topic\")\n"), "{mermaid}");
    assert!(
        mermaid.contains("n1 -.->|\"topic\"| n3\n") && !mermaid.contains("|\"topic\"| n2"),
        "{mermaid}"
    );
    assert!(dot.contains("n1 -> n3 [label=\"topic\", style=dashed];\n"), "{dot}");
    static TOPIC: StateKey<String> = StateKey::session("topic");
    let agent = Agent::new("openai/gpt-5-mini").settings(AgentSettings::new().output_key(&TOPIC));
    assert_eq!(agentflow::agent::AgentOutline::of(&agent).saves.as_deref(), Some("topic"));
}

//! Tests conditions in CEL: on edges, in the arms of routers and as the end of a repetition. They
//! read outputs and the state, and mistakes in them are reported.

use agentflow::document::Document;
use agentflow::error::Failure;
use agentflow::prelude::*;
use agentflow::store::MemoryStore;
use agentflow::value::Encoded;
use agentflow::workflow::{Condition, Graph, GraphBody, GraphEdge, GraphNode, Mapping};
use agentflow_testing::test_runtime;
use serde_json::{Value, json};

fn graph(output: &str, nodes: Value) -> Graph {
    let graph =
        json!({"version": 1, "name": "cel", "output": output, "concurrency": 4, "nodes": nodes});
    serde_json::from_value(graph).unwrap()
}

async fn run(graph: &Graph, input: Value) -> Result<Value> {
    let runtime = test_runtime().graph(graph.clone()).store(MemoryStore::new()).build();
    let handle = runtime.start_named("cel", Encoded::new(&input).unwrap()).await?;
    Ok(handle.result().await?.decode().unwrap())
}

/// Twice a number.
#[tool(effects = "none")]
async fn cel_twice(n: i64) -> i64 {
    2 * n
}

fn forms() -> Graph {
    let order = json!({"type": "object", "properties": {"total": {"type": "integer"}, "kind": {"type": "string"}},
        "required": ["total", "kind"], "additionalProperties": false});
    let value = |value: &str| json!({"value": {"value": value}});
    let nodes = json!([
        {"name": "order", "kind": "input", "schema": order},
        {"name": "size", "does": {"value": {"from": "order", "at": "/total"}}, "saves": {"size": ""}},
        {"name": "way", "does": {"route": {"arms": [
            {"arm": "large", "when": {"cel": "order.total > 100 && state.size == size"}}, {"arm": "small"}]}},
         "edges": [{"from": "size"}]},
        {"name": "way/large/note", "does": value("large"), "guard": {"router": "way", "arm": "large"}},
        {"name": "edge", "does": value("edge"), "edges": [{"from": "size", "when":
            {"all": [{"cel": "state.size % 2 == 0"}, {"equals": [{"from": "order", "at": "/kind"}, {"value": "a"}]}]}}]},
        {"name": "late", "does": value("late"), "edges": [{"from": "way", "when": {"cel": "has(nodes['way/large/note']) || has(nodes.edge)"}}]},
        {"name": "grown", "does": {"repeat": {"first": "size", "max": 20, "until": {"cel": "item >= 1000"},
            "call": {"kind": "tool", "name": "cel_twice", "with": {"object": {"n": {"item": ""}}}}}}},
        {"name": "out", "does": {"value": {"object": {"way": {"from": "way", "at": "/arm"}, "edge": {"from": "edge", "or": null},
            "late": {"from": "late", "or": null}, "grown": {"from": "grown"}}}}},
    ]);
    graph("out", nodes)
}

#[tokio::test]
async fn conditions_are_lines_of_cel_wherever_they_stand() {
    let order = |total: i64, kind: &str| json!({"order": {"total": total, "kind": kind}});
    let output = run(&forms(), order(120, "a")).await.unwrap();
    assert_eq!(output, json!({"way": "large", "edge": "edge", "late": "late", "grown": 1920}));
    let output = run(&forms(), order(7, "a")).await.unwrap();
    assert_eq!(output, json!({"way": "small", "edge": null, "late": null, "grown": 1792}));
    let output = run(&forms(), order(250, "b")).await.unwrap();
    assert_eq!(output, json!({"way": "large", "edge": null, "late": "late", "grown": 1000}));
}

#[test]
fn they_survive_the_stored_form_and_count_in_the_hash() {
    let described =
        test_runtime().graph(forms()).build().catalogue().workflow_graph("cel").unwrap();
    let text = serde_json::to_string(&described).unwrap();
    assert!(text.contains(r#"{"cel":"order.total > 100 && state.size == size"}"#), "{text}");
    let again: Graph = serde_json::from_str(&text).unwrap();
    assert_eq!(
        test_runtime().graph(again).build().catalogue().workflow_graph("cel").unwrap(),
        described
    );
    let of = |condition: &str| {
        let value = || GraphBody::Value(Mapping::Value(json!(1)));
        let edge = GraphEdge::from("a").when(Condition::Cel(condition.parse().unwrap()));
        Graph::new("h", "b")
            .with(GraphNode::new("a", value()))
            .with(GraphNode::new("b", value()).edge(edge))
            .hash()
    };
    assert_ne!(of("a > 1"), of("a > 2"));
}

#[test]
fn mistakes_are_named_with_their_place() {
    let page = json!({"type": "object", "properties": {"title": {"type": "string"}, "words": {"type": "integer"}},
        "required": ["title"], "additionalProperties": false});
    let found = |condition: &str, place: &str| -> Vec<String> {
        let cel = json!({"cel": condition});
        let value = json!({"value": {"value": 1}});
        let nodes = match place {
            "edge" => json!([
                {"name": "page", "kind": "input", "schema": page}, {"name": "a", "does": value},
                {"name": "out", "does": value, "edges": [{"from": "a", "when": cel}]},
            ]),
            "arm" => json!([
                {"name": "page", "kind": "input", "schema": page},
                {"name": "out", "does": {"route": {"arms": [{"arm": "x", "when": cel}, {"arm": "y"}]}}},
            ]),
            _ => json!([
                {"name": "page", "kind": "input", "schema": page}, {"name": "a", "does": value},
                {"name": "out", "does": {"repeat": {"first": "a", "max": 3, "until": cel,
                    "call": {"kind": "tool", "name": "cel_twice", "with": {"object": {"n": {"item": ""}}}}}}},
            ]),
        };
        let runtime = test_runtime().graph(graph("out", nodes)).build();
        let error = runtime.catalogue().workflow_graph("cel").map(drop).unwrap_err().to_string();
        error.lines().map(ToOwned::to_owned).collect()
    };
    for (place, condition, says) in [
        (
            "arm",
            "page.titel == 'x'",
            "`page.titel == 'x'`: the output of `page` has nothing at `titel`: it has no `titel`; did you mean `title`?",
        ),
        (
            "arm",
            "true && page.words > 'x'",
            "`>` cannot be applied to a number and a text at byte 19; it takes two numbers or two texts",
        ),
        (
            "arm",
            "page.title",
            "`page.title`: expected `true` or `false`, found a text at byte 5; compare it with a value",
        ),
        (
            "arm",
            "pag.title == 'x'",
            "reads or follows `pag`, and there is no such node; did you mean `page`?",
        ),
        (
            "edge",
            "nodes.pag == 'x'",
            "reads or follows `pag`, and there is no such node; did you mean `page`?",
        ),
        ("edge", "nodes.page.title > 3", "`>` cannot be applied to a text and a number"),
        ("edge", "state['temp:x'] == 1", "`temp:x` is gone after a crash"),
        ("arm", "state['user:x'] == 1", "`user:x` cannot be read here, since it is in the store"),
        (
            "arm",
            "item == 1",
            "`item` is the last output of a repetition, in its `until` alone; name a node",
        ),
        (
            "edge",
            "item == 1",
            "`item` is the last output of a repetition, in its `until` alone; name a node",
        ),
        (
            "until",
            "nodes.item == 1",
            "`until` of the node `out` reads `item`, and it sees the last output alone",
        ),
        (
            "until",
            "page.title == 'x'",
            "`until` of the node `out` reads `page`, and it sees the last output alone",
        ),
        (
            "until",
            "item == 1 && state.x == 1",
            "`until` of the node `out` reads `x`, and it sees the last output alone",
        ),
    ] {
        let found = found(condition, place);
        assert_eq!(found.len(), 1, "{condition}: {found:#?}");
        assert!(found[0].contains(says), "{condition}: {found:#?}");
    }
    let text = r#"{"version":1,"name":"g","output":"o","concurrency":1,"nodes":[{"name":"o","edges":[{"from":"o","when":{"cel":"a >"}}]}]}"#;
    let error = serde_json::from_str::<Graph>(text).unwrap_err().to_string();
    assert!(error.contains("`nodes[0].edges[0].when"), "{error}");
    assert!(error.contains("the expression ends at byte 3, and a value should follow"), "{error}");
}

#[tokio::test]
async fn a_condition_without_a_value_fails_its_node_with_the_reason() {
    let nodes = json!([
        {"name": "n", "kind": "input"},
        {"name": "out", "does": {"route": {"arms": [{"arm": "x", "when": {"cel": "n.a > 1"}}, {"arm": "y"}]}}},
    ]);
    let graph = graph("out", nodes);
    assert_eq!(run(&graph, json!({"n": {"a": 2}})).await.unwrap(), json!({"arm": "x"}));
    let error = run(&graph, json!({"n": {"b": 2}})).await.unwrap_err().to_string();
    assert!(
        error.contains("`out` failed: the condition of the arm `x` failed: `n.a > 1` cannot be evaluated: no field `a` at byte 2; did you mean `b`?"),
        "{error}"
    );
    let error = run(&graph, json!({"n": {"other": 2}})).await.unwrap_err().to_string();
    let says = "`n.a > 1` cannot be evaluated: no field `a` at byte 2; where it may be absent, test it with `has(..)` first";
    assert!(error.contains(says), "{error}");
    let error = run(&graph, json!({"n": {"a": "2"}})).await.unwrap_err().to_string();
    let says = "`n.a > 1` cannot be evaluated: `>` cannot compare a text with a number at byte 4; it takes two numbers or two texts";
    assert!(error.contains(says), "{error}");
    let long: Vec<u32> = (0..100_000).collect();
    let error = run(&graph, json!({"n": {"a": long}})).await.unwrap_err().to_string();
    assert!(
        error.contains("takes more than 100000 steps")
            || error.contains("`>` cannot compare a list with a number"),
        "{error}"
    );
}

/// The reason of a failure is data, in the error of the run and for another process that reads it.
#[tokio::test]
async fn the_reason_of_a_failure_is_data() {
    for (does, code, argument, expression, bytes) in [
        (
            json!({"value": {"cel": "n.a > 1"}}),
            "expression.no-field",
            ("field", "a"),
            "n.a > 1",
            2..3,
        ),
        (
            json!({"value": {"cel": "1 + n.b > n.s"}}),
            "expression.unordered",
            ("operator", ">"),
            "1 + n.b > n.s",
            8..9,
        ),
        (
            json!({"value": {"template": "size {n.a}"}}),
            "value.output-has-no-path",
            ("node", "n"),
            "{n.a}",
            0..5,
        ),
        (
            json!({"value": {"from": "n", "at": "/a"}}),
            "value.output-has-no-part",
            ("pointer", "/a"),
            "",
            0..0,
        ),
        (
            json!({"route": {"arms": [{"arm": "x", "when": {"cel": "n.b"}}, {"arm": "y"}]}}),
            "value.expression-not-a-boolean",
            ("found", "2"),
            "",
            0..0,
        ),
    ] {
        let nodes = json!([{"name": "n", "kind": "input"}, {"name": "out", "does": does}]);
        let graph = graph("out", nodes);
        let store = MemoryStore::new();
        let process =
            |graph: &Graph| test_runtime().graph(graph.clone()).store(store.clone()).build();
        let first = process(&graph);
        let input = Encoded::new(&json!({"n": {"b": 2, "s": "x"}})).unwrap();
        let run = first.start_named("cel", input).await.unwrap();
        let id = run.run_id().clone();
        let error = run.result().await.unwrap_err();
        drop(first);
        let run = process(&graph).run(&id).attach().await.unwrap();
        let read = run.result().await.unwrap_err();
        for error in [error, read] {
            let failure = Failure::from(&error);
            let problem = failure.problem().unwrap_or_else(|| panic!("{error}"));
            assert_eq!(&*problem.code, code, "{error}");
            assert_eq!(problem.arguments[argument.0], argument.1, "{problem:?}");
            assert_eq!(problem.expression.as_deref().unwrap_or_default(), expression);
            assert_eq!(problem.bytes.clone().unwrap_or(0..0), bytes, "{problem:?}");
        }
    }
}

#[test]
fn in_a_document_they_are_named_with_their_line() {
    let with = |when: &str| {
        let text = format!(
            "name: g\noutput: out\nnodes:\n  - name: n\n    kind: input\n  - name: out\n    does:\n      route:\n        arms:\n          \
             - {{arm: x, when: {when}}}\n          - {{arm: y}}\n"
        );
        Document::read("g.yaml", text).map(drop).unwrap_err().to_string()
    };
    for (when, says) in [
        (
            "{cel: 'n > '}",
            ["`n > `: the expression ends at byte 4, and a value should follow", "g.yaml:10:39"],
        ),
        (
            "{all: [{cel: 'hass(n.a)'}]}",
            ["unknown function `hass` at byte 0; did you mean `has`?", "g.yaml:10:42"],
        ),
        (
            "n > 3",
            ["a line of CEL is written as `{\"cel\": \"order.total > 100\"}`", "g.yaml:10:28"],
        ),
    ] {
        let error = with(when);
        assert!(says.iter().all(|says| error.contains(says)), "{when}: {error}");
    }
}

//! Workflows written as trees: each tree that is one workflow is read, written and read again as the same one; a plan that is not
//! a tree is refused with its node and the form that can say it.

use agentflow::document::{Document, DocumentForm, to_yaml};
use agentflow::workflow::{Graph, GraphBody, GraphEdge, GraphNode, Mapping, Question, Reference};
use serde_json::{Value, json};

use crate::documents::read;

/// A tree anew, from its graph; it is the same workflow, and is written the same again.
fn written(document: &Document) -> Value {
    let graph = document.graph();
    let written = DocumentForm::Tree.export(graph).unwrap_or_else(|error| panic!("{error}\n{:#}", graph.to_json()));
    for text in [to_yaml(&written), written.to_string()] {
        let again = read(&text);
        assert_eq!(again.form(), DocumentForm::Tree);
        assert_eq!(again.graph().hash(), graph.hash(), "{text}");
        assert_eq!(DocumentForm::Tree.export(again.graph()).unwrap(), written);
    }
    // As the plan itself, and from there.
    let plan = read(&to_yaml(&DocumentForm::Graph.export(graph).unwrap()));
    assert_eq!(plan.export(DocumentForm::Tree).unwrap(), written);
    written
}

fn random_call(rng: &mut fastrand::Rng) -> Value {
    json!({(["tool", "agent", "workflow"][rng.usize(..3)]): "it"})
}

fn random_parts(rng: &mut fastrand::Rng, depth: usize, count: &mut usize) -> Vec<Value> {
    (0..rng.usize(2..4)).map(|_| random_part(rng, depth - 1, count)).collect()
}

/// A part whose graph is one workflow: loops, items, races and fallbacks of calls alone.
fn random_part(rng: &mut fastrand::Rng, depth: usize, count: &mut usize) -> Value {
    *count += 1;
    let number = *count;
    let is_named = rng.u8(..3) > 0;
    let mut part = match rng.usize(..if depth == 0 { 7 } else { 11 }) {
        0 | 1 => {
            let mut part = random_call(rng);
            if rng.bool() {
                part["with"] = json!({"a": "{input}", "b": ["{{x}} {input.y}", 1, null], "c d": {"d": "{state.k?}"}});
            }
            part
        }
        2 => {
            let values = [json!("{input}"), json!("so: {input}"), json!({"a": 1}), json!("c {{}}"), json!([["x"]])];
            json!({"value": (values[rng.usize(..5)])})
        }
        3 => json!({"map_over": random_call(rng)}),
        4 => json!({"loop": random_call(rng), "max": 3, "until": "size(item) > 2"}),
        5 => json!({(["race", "fallback"][rng.usize(..2)]): [random_call(rng), {"tool": "other"}]}),
        6 => json!({"gate": "May: \"it\"?"}),
        7 | 8 => {
            let mut parts = random_parts(rng, depth, count);
            let place = rng.usize(1..=parts.len());
            if rng.bool() {
                parts.insert(place, json!({"tap": random_call(rng), "as": format!("t{number}")}));
            }
            if rng.bool() {
                parts.insert(rng.usize(..=place), json!({"transform": [{"drop": ["k"]}], "as": format!("d{number}")}));
            }
            return json!({"sequence": parts});
        }
        9 => {
            let mut parts = random_parts(rng, depth, count);
            for (at, part) in parts.iter_mut().enumerate() {
                // What runs at the same time has names.
                if part.get("sequence").is_none() {
                    part["as"] = json!(format!("b{number}_{at}"));
                }
            }
            json!({"parallel": parts})
        }
        _ => {
            let when = ["input == 1", "size(input) > 2 && input != 'input'"];
            let arm = |rng: &mut fastrand::Rng, when: &str, count: &mut usize| {
                let then = random_part(rng, depth - 1, count);
                json!({"when": when, "then": then})
            };
            let arms: Vec<Value> = when[..rng.usize(1..3)].iter().map(|when| arm(rng, when, count)).collect();
            let mut part = json!({"route": arms});
            if rng.bool() {
                part["otherwise"] = random_part(rng, depth - 1, count);
            }
            part
        }
    };
    if is_named {
        part["as"] = json!(format!("p{number}"));
    }
    let is_one = part.get("route").is_none() && part.get("parallel").is_none();
    if is_one && rng.u8(..4) == 0 {
        part["save"] = json!(format!("k{number}"));
    }
    if is_one && part.get("gate").is_none() && rng.u8(..4) == 0 {
        part["policy"] = json!({"retry": {"max_attempts": 3}, "timeout_ms": 5});
    }
    part
}

#[test]
fn a_random_tree_is_written_again_and_is_the_same_workflow() {
    let (mut all, mut several) = (0, 0);
    for seed in 0..800 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let topology = random_part(&mut rng, 3, &mut 0);
        let document = json!({"name": "random", "description": "what it is", "topology": topology});
        // Not each name stands once, and not each key is saved once.
        let Ok(first) = Document::read("it.yaml", document.to_string()) else { continue };
        let again = std::panic::catch_unwind(|| written(&first));
        assert!(again.is_ok(), "{seed}: {document:#}");
        all += 1;
        several += usize::from(first.graph().nodes.len() > 5);
    }
    assert!(all > 300 && several > 60, "{all} {several}");
}

#[test]
fn each_operator_is_written_in_its_word() {
    let text = r#"
name: "a: b"
decider: guide
limits: {max_llm_calls: 20}
topology:
  sequence:
    - {tool: mcp.files.read, with: {path: "{input.path}", "a b": "{{}}"}, retry: 2, save: text, output: {type: string}}
    - {gate: "May it?", as: asked}
    - {tap: {agent: watcher}}
    - {timeout: {workflow: inner}, seconds: 2.5}
    - parallel:
        - sequence: [{parallel: [{tool: a}, {tool: b}], as: both}, {tool: c}]
        - {map_over: {tool: each}}
    - {transform: [{drop: [k]}]}
    - route:
        - {when: "input.c > 'nodes'", then: {race: [{tool: x}, {tool: y}]}}
        - {when: size(input) == 2, then: {fallback: [{tool: x}, {agent: y}], as: second}}
      otherwise: {gate: "And now?", when: input.c == 1}
    - {route: [{when: input == 1, then: {value: one}}]}
    - {loop: {tool: again}, until: item > 3, max: 4}
  input: {type: object}
"#;
    let document = read(&text.replace("\n  input: {type: object}\n", "\n"));
    let written = written(&document);
    let words: Vec<&str> = written["topology"]["sequence"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|part| {
            let words = ["tool", "gate", "tap", "workflow", "parallel", "transform", "route", "loop"];
            words.into_iter().find(|word| part.get(word).is_some())
        })
        .collect();
    assert_eq!(words, ["tool", "gate", "tap", "workflow", "parallel", "transform", "route", "route", "loop"]);
    assert_eq!((&written["name"], &written["limits"]["max_llm_calls"]), (&json!("a: b"), &json!(20)));
}

#[test]
fn a_plan_that_is_not_a_tree_is_refused_with_its_node_and_the_form_that_says_it() {
    let call = |name: &str, with: Mapping| GraphNode::new(name, GraphBody::Call(Reference::tool("t", with)));
    let value = |name: &str, of: Mapping| GraphNode::new(name, GraphBody::Value(of));
    let of = |nodes: Vec<GraphNode>| {
        let input = GraphNode::input("input", json!(true));
        nodes.into_iter().fold(Graph::new("g", "last").with(input), Graph::with)
    };
    let from = |name: &str| Mapping::from(name);
    // `d` waits for `a` and `b`, and `c` for `b` alone.
    let diamond = of(vec![
        call("a", from("input")),
        call("b", from("input")),
        call("c", from("b")),
        call("d", Mapping::object([("a", from("a")), ("b", from("b"))])),
        value("last", Mapping::object([("c", from("c")), ("d", from("d"))])),
    ]);
    let ask = GraphNode::new("last", GraphBody::Ask(Question::new("So?")));
    for (graph, says) in [
        (diamond, "the node `b` waits for `input`, and no part of a tree that stands behind `a` does"),
        (
            of(vec![call("a", from("input")), call("last", from("a")).edge(GraphEdge::from("a").failed())]),
            "the node `last` follows `a` when it fails",
        ),
        (
            of(vec![value("last", Mapping::from_part("input", "/x"))]),
            "the node `last` is `{\"at\":\"/x\",\"from\":\"input\"}`, which no template of a tree says",
        ),
        (of(vec![ask]), "the node `last` asks a question of its own"),
        (
            of(vec![call("a-b", from("input")), call("last", from("a-b"))]),
            "the node `a-b` cannot be named so in a tree",
        ),
        (of(vec![call("last", from("input")), call("more", from("last"))]), "its output is that of the node `last`"),
    ] {
        let refused = DocumentForm::Tree.export(&graph).unwrap_err().to_string();
        assert!(
            refused.starts_with(&format!("the workflow `g` cannot be written in the form `tree`: {says}")),
            "{refused}"
        );
        assert!(refused.ends_with("; the form `graph` can say it"), "{refused}");
    }
}

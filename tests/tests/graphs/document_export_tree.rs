//! Tests exports of workflows as trees. A tree that is exported and read again is the same
//! workflow. A graph that is not a tree is refused, with the node and a form that can express it.

use agentflow::document::{Document, DocumentForm, to_yaml};
use agentflow::pipeline::{Pipeline, until};
use agentflow::workflow::{Graph, GraphBody, GraphEdge, GraphNode, Mapping, Question, Reference};
use serde_json::{Value, json};

use crate::documents::read;

const SEEDS: u64 = 800;

/// Exports the document as a tree, and checks that reading the export gives the same workflow and
/// the same export.
fn written(document: &Document) -> Value {
    let graph = document.graph();
    let export =
        |document: &Document| DocumentForm::Tree.export_with(document.graph(), document.inner());
    let written = export(document).unwrap_or_else(|error| panic!("{error}\n{:#}", graph.to_json()));
    for text in [to_yaml(&written), written.to_string()] {
        let again = read(&text);
        assert_eq!(again.form(), DocumentForm::Tree);
        assert_eq!(again.graph().hash(), graph.hash(), "{text}");
        assert_eq!(again.inner(), document.inner(), "{text}");
        assert_eq!(export(&again).unwrap(), written);
    }
    // Exporting the graph form first gives the same tree.
    if document.inner().is_empty() {
        let plan = read(&to_yaml(&DocumentForm::Graph.export(graph).unwrap()));
        assert_eq!(plan.export(DocumentForm::Tree).unwrap(), written);
    }
    written
}

fn random_call(rng: &mut fastrand::Rng) -> Value {
    json!({(["tool", "agent", "workflow"][rng.usize(..3)]): (["it", "2nd", "a.b", "item"][rng.usize(..4)])})
}

fn random_parts(rng: &mut fastrand::Rng, depth: usize, count: &mut usize) -> Vec<Value> {
    (0..rng.usize(2..4)).map(|_| random_part(rng, depth - 1, count)).collect()
}

/// Returns the body of a loop, item, race or tap: a call, or a part that becomes an inner workflow.
fn random_body(rng: &mut fastrand::Rng, depth: usize, count: &mut usize) -> Value {
    match depth == 0 || rng.bool() {
        true => random_call(rng),
        false => random_part(rng, depth - 1, count),
    }
}

/// Returns a random part. `count` gives each part a number for its names and keys.
fn random_part(rng: &mut fastrand::Rng, depth: usize, count: &mut usize) -> Value {
    *count += 1;
    let number = *count;
    let is_named = rng.u8(..3) > 0;
    let mut part = match rng.usize(..if depth == 0 { 7 } else { 12 }) {
        0 | 1 => {
            let mut part = random_call(rng);
            if rng.bool() {
                part["with"] = json!({"a": "{input}", "b": ["{{x}} {input.y}", 1, null], "c d": {"d": "{state.k?}"}});
            }
            part
        }
        2 => {
            let values = [
                json!("{input}"),
                json!("so: {input}"),
                json!({"a": 1}),
                json!("c {{}}"),
                json!([["x"]]),
            ];
            let all = [
                values.as_slice(),
                &[json!({"a": "{input}"}), json!({"a": "{input}", "b": "{input}"})],
            ]
            .concat();
            json!({"value": (all[rng.usize(..7)])})
        }
        3 => json!({"map_over": random_body(rng, depth, count)}),
        4 => json!({"loop": random_body(rng, depth, count), "max": 3, "until": "size(item) > 2"}),
        5 => {
            let bodies = [random_body(rng, depth, count), random_body(rng, depth, count)];
            json!({(["race", "fallback"][rng.usize(..2)]): bodies})
        }
        6 => json!({"gate": "May: \"it\"?"}),
        7 | 8 => {
            let mut parts = random_parts(rng, depth, count);
            let place = rng.usize(..=parts.len());
            if rng.bool() {
                parts.insert(
                    place,
                    json!({"tap": random_body(rng, depth, count), "as": format!("t{number}")}),
                );
            }
            if rng.bool() {
                parts.insert(
                    rng.usize(..=place),
                    json!({"transform": [{"drop": ["k"]}], "as": format!("d{number}")}),
                );
            }
            json!({"sequence": parts})
        }
        9 | 10 => {
            let mut parts = random_parts(rng, depth, count);
            parts.truncate(rng.usize(1..4));
            for (at, part) in parts.iter_mut().enumerate() {
                // Parts that run at the same time need names.
                part["as"] = json!(format!("b{number}_{at}"));
            }
            json!({"parallel": parts})
        }
        _ => {
            let when = ["input == 1", "size(input) > 2 && input != 'input'"];
            let arm = |rng: &mut fastrand::Rng, when: &str, count: &mut usize| {
                let then = random_part(rng, depth - 1, count);
                json!({"when": when, "then": then})
            };
            let arms: Vec<Value> =
                when[..rng.usize(1..3)].iter().map(|when| arm(rng, when, count)).collect();
            let mut part = json!({"route": arms});
            if rng.bool() {
                part["otherwise"] = random_part(rng, depth - 1, count);
            }
            part
        }
    };
    if is_named {
        part["as"] = json!(["p", "p_2", &format!("p{number}")][rng.usize(..3)]);
    }
    if rng.u8(..6) == 0 {
        part["save"] = json!(format!("k{number}"));
    }
    if rng.u8(..6) == 0 {
        let policies = [
            json!({}),
            json!({"retry": {"max_attempts": 3}, "timeout_ms": 5}),
            json!({"on_error": "skip"}),
        ];
        part["policy"] = policies[rng.usize(..3)].clone();
    }
    if rng.u8(..12) == 0 {
        part["input"] = json!({"type": ["object", "null"]});
    }
    if rng.u8(..12) == 0 {
        part["output"] = json!({"type": ["object", "string"]});
    }
    part
}

#[test]
fn a_random_tree_is_written_again_and_is_the_same_workflow() {
    let (mut all, mut several, mut inner) = (0, 0, 0_u64);
    for seed in 0..SEEDS {
        let mut rng = fastrand::Rng::with_seed(seed);
        let topology = random_part(&mut rng, 3, &mut 0);
        let document = json!({"name": "random", "description": "what it is", "topology": topology});
        // Random names and state keys may collide. Such documents are skipped.
        let Ok(first) = Document::read("it.yaml", document.to_string()) else { continue };
        let again = std::panic::catch_unwind(|| written(&first));
        assert!(again.is_ok(), "{seed}: {document:#}");
        all += 1;
        several += u64::from(first.graph().nodes.len() > 5);
        inner += u64::from(first.inner().len() > 1);
    }
    assert!(
        all > SEEDS / 4 && several > SEEDS / 20 && inner > SEEDS / 20,
        "{all} {several} {inner}"
    );
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
            let words =
                ["tool", "gate", "tap", "workflow", "parallel", "transform", "route", "loop"];
            words.into_iter().find(|word| part.get(word).is_some())
        })
        .collect();
    assert_eq!(
        words,
        ["tool", "gate", "tap", "workflow", "parallel", "transform", "route", "route", "loop"]
    );
    assert_eq!(
        (&written["name"], &written["limits"]["max_llm_calls"]),
        (&json!("a: b"), &json!(20))
    );
}

#[test]
fn a_plan_that_is_not_a_tree_is_refused_with_its_node_and_the_form_that_says_it() {
    let call = |name: &str, with: Mapping| {
        GraphNode::new(name, GraphBody::Call(Reference::tool("t", with)))
    };
    let value = |name: &str, of: Mapping| GraphNode::new(name, GraphBody::Value(of));
    let of = |nodes: Vec<GraphNode>| {
        let input = GraphNode::input("input", json!(true));
        nodes.into_iter().fold(Graph::new("g", "last").with(input), Graph::with)
    };
    let from = |name: &str| Mapping::from(name);
    // `d` waits for `a` and `b`, but `c` waits for `b` alone. No nesting of sequences and parallels
    // expresses that.
    let diamond = of(vec![
        call("a", from("input")),
        call("b", from("input")),
        call("c", from("b")),
        call("d", Mapping::object([("a", from("a")), ("b", from("b"))])),
        value("last", Mapping::object([("c", from("c")), ("d", from("d"))])),
    ]);
    let ask = GraphNode::new("last", GraphBody::Ask(Question::new("So?")));
    for (graph, says) in [
        (diamond, "the node `d`: it waits for `a`, `b`, and a part of a tree after `c` does not"),
        (
            of(vec![
                call("a", from("input")),
                call("last", from("a")).edge(GraphEdge::from("a").failed()),
            ]),
            "the node `last`: it starts when `a` fails",
        ),
        (
            of(vec![value("last", Mapping::from_part("input", "/x"))]),
            "the node `last`: it uses the value `{\"at\":\"/x\",\"from\":\"input\"}`, which a template",
        ),
        (of(vec![ask]), "the node `last`: it asks for a value"),
        (
            of(vec![call("a-b", from("input")), call("last", from("a-b"))]),
            "a part of a tree cannot be named `a-b`",
        ),
        (
            of(vec![call("last", from("input")), call("more", from("last"))]),
            "it returns the output of the node `last`",
        ),
    ] {
        let refused = DocumentForm::Tree.export(&graph).unwrap_err().to_string();
        assert!(
            refused.starts_with(&format!(
                "the workflow `g` cannot be exported to the form `tree`: {says}"
            )),
            "{refused}"
        );
        assert!(refused.ends_with("; use the form `graph`"), "{refused}");
    }
}

/// Checks the round trip of a tree with this topology, and returns the exported topology.
fn same(topology: Value) -> Value {
    written(&read(&json!({"name": "it", "topology": topology}).to_string()))["topology"].clone()
}

#[test]
fn parts_that_stand_deep_in_each_other_are_written() {
    let call = |at: usize| json!({"tool": "t", "as": format!("n{at}")});
    let deep = |depth: usize, around: &dyn Fn(usize, Value) -> Value| {
        (1..depth).fold(call(0), |part, at| around(at, part))
    };
    same(deep(30, &|at, part| json!({"parallel": [part, call(at)], "as": format!("p{at}")})));
    same(deep(30, &|at, part| json!({"parallel": [call(at), part], "as": format!("p{at}")})));
    let and_then = |at: usize, part: Value| json!({"sequence": [part, {"value": "{input}", "as": format!("v{at}")}]});
    same(deep(15, &|at, part| {
        and_then(at, json!({"parallel": [call(at), part], "as": format!("p{at}")}))
    }));
    let route = |at: usize, one: Value, other: Value| {
        let arm = json!({"when": format!("input == {at}"), "then": one});
        json!({"route": [arm], "otherwise": other, "as": format!("p{at}")})
    };
    same(deep(20, &|at, part| route(at, part, call(at))));
    same(deep(20, &|at, part| route(at, call(at), part)));
    same(deep(20, &|at, part| json!({"loop": {"sequence": [call(at), part]}, "max": 2})));
    same(deep(
        15,
        &|at, part| json!({"sequence": [{"race": [part, call(at)]}], "save": format!("k{at}")}),
    ));
    same(json!({"sequence": (0..500).map(call).collect::<Vec<_>>()}));
    same(json!({"parallel": (0..500).map(call).collect::<Vec<_>>()}));
}

#[test]
fn parts_keep_the_names_by_which_others_know_them() {
    // The field or the arm is named after the sequence, not after its last part.
    let row = json!({"sequence": [{"tool": "a"}, {"tool": "b", "as": "x"}], "as": "L"});
    assert_eq!(
        same(json!({"parallel": [row, {"tool": "c"}]})),
        json!({"parallel": [row, {"tool": "c"}]})
    );
    same(json!({"route": [{"when": "input == 1", "then": row}], "otherwise": {"tool": "b"}}));
    same(json!({"loop": row, "max": 2, "as": "y"}));
    // A sequence is named after the tap at its end.
    same(
        json!({"parallel": [{"sequence": [{"tool": "a"}, {"tap": {"tool": "b"}}]}, {"tool": "c"}]}),
    );
    // An explicit `null` is a value.
    same(
        json!({"sequence": [{"value": null}, {"agent": "a", "with": null}, {"value": {}}, {"tool": "t", "with": {}}]}),
    );
    assert!(Document::read("it.yaml", "name: it\ntopology:\n  value:\n").is_err());
    // A part's name cannot start with a digit, so this one gets another name.
    let digit = json!({"sequence": [{"tool": "2x"}, {"tool": "b", "with": {"a": "{input}"}}]});
    assert_eq!(same(digit.clone()), digit);
    // Arms with equal names get a number that no other part has.
    let arm = |when: &str, then: Value| json!({"when": when, "then": then});
    same(
        json!({"route": [arm("input == 1", json!({"tool": "t"})), arm("input == 2", json!({"tool": "t"}))]}),
    );
    let last = json!({"sequence": [{"tool": "t", "as": "t"}], "as": "t_2"});
    same(json!({"route": [arm("input == 1", last)], "otherwise": {"tool": "u"}}));
    // A part that may be skipped gives `null` in the object. A sequence around it leaves the field
    // out.
    let skipped = json!({"tool": "a", "policy": {"on_error": "skip"}});
    same(json!({"parallel": [skipped, {"tool": "b"}]}));
    same(json!({"parallel": [{"sequence": [skipped]}, {"tool": "b"}]}));
    same(json!({"parallel": [{"tool": "b"}]}));
    same(
        json!({"sequence": [{"tool": "a"}, {"parallel": [{"tool": "b"}]}, {"value": {"b": "{input}"}}]}),
    );
}

#[test]
fn parts_that_are_workflows_of_their_own_are_written_where_they_are_called() {
    let (draft, check) =
        (|| Pipeline::agent("writer"), || Pipeline::tool("check").with(json!({"text": "{input}"})));
    let rounds = (draft() >> check()) * until("item.score > 8").max(3);
    let each = Pipeline::map_over(Pipeline::race([draft() >> check(), draft()]) / check());
    let report = (rounds | each.save("all"))
        >> (draft() >> check().save("x")).retry(2)
        >> Pipeline::when("input.ok", check() | draft()).otherwise(draft().tap(draft() >> check()));
    let graphs = report.graphs("report").unwrap();
    let (graph, inner) = graphs.split_last().unwrap();
    assert!(inner.len() > 4, "{}", inner.len());
    let tree =
        DocumentForm::Tree.export_with(graph, inner).unwrap_or_else(|error| panic!("{error}"));
    let again = read(&to_yaml(&tree));
    assert_eq!((again.graph(), again.inner()), (graph, inner));
    // Exporting without the inner workflows names the missing one. The form `graph` cannot contain
    // inner workflows.
    let refused = DocumentForm::Tree.export(graph).unwrap_err().to_string();
    let says = "it calls the workflow `report.check` as a part, and that workflow is missing; give the inner workflows to \
                `export_with`; use the form `graph`";
    assert!(refused.ends_with(says), "{refused}");
    let refused = DocumentForm::Graph.export_with(graph, inner).unwrap_err().to_string();
    let says = "and a document of this form describes one workflow; use the form `tree`";
    assert!(refused.ends_with(says), "{refused}");
    // An inner workflow belongs to one part, and its name starts with the name of the workflow.
    let twice = graph.clone().with(graph.nodes.last().unwrap().clone());
    assert!(DocumentForm::Tree.export_with(&twice, inner).is_err());
    for (other, says) in [
        ("other.it", "name it `report.` and the name of its part"),
        ("report.it", "no node calls the inner workflow `report.it`"),
    ] {
        let renamed = |name: &str| {
            let mut graph = inner[0].clone();
            graph.name = name.to_owned();
            graph
        };
        let more = [inner, &[renamed(other)]].concat();
        let refused = DocumentForm::Tree.export_with(graph, &more).unwrap_err().to_string();
        assert!(refused.contains(says), "{refused}");
    }
}

#[test]
fn a_form_is_named_only_where_it_can_say_it() {
    let value =
        GraphNode::new("last", GraphBody::Value(Mapping::Value(json!("x".repeat(5 << 20)))));
    let large = Graph::new("g", "last").with(GraphNode::input("input", json!(true))).with(value);
    let refused = DocumentForm::Tree.export(&large).unwrap_err().to_string();
    assert!(
        refused.contains("the document could not be read: ") && !refused.contains("use the form"),
        "{refused}"
    );
    let loop_ = |name: &str, of: &str| GraphNode::new(name, GraphBody::Value(Mapping::from(of)));
    let circle = Graph::new("g", "a")
        .with(GraphNode::input("input", json!(true)))
        .with(loop_("a", "b"))
        .with(loop_("b", "a"));
    for form in [
        DocumentForm::Tree,
        DocumentForm::Tools,
        DocumentForm::Agents,
        DocumentForm::Edges,
        DocumentForm::Steps,
    ] {
        let refused = form.export(&circle).unwrap_err().to_string();
        assert!(!refused.contains("use the form"), "{refused}");
    }
}

//! Tests facts that conditions establish about outputs: the nodes behind a condition can rely on
//! it, and a router's conditions decide which of its arms can be taken together.

use agentflow::error::FailureKind;
use agentflow::prelude::*;
use agentflow::value::Encoded;
use agentflow::workflow::Graph;
use agentflow_testing::test_runtime;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(Serialize, Deserialize, JsonSchema)]
struct Found {
    name: Option<String>,
    nick: Option<Nick>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Nick {
    text: String,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Shape {
    Circle { radius: u32 },
    Box { width: u32 },
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Loose {
    One { a: u32 },
    Other { b: String },
}

/// Finds a customer.
#[tool(effects = "read")]
fn plans_find(name: String) -> Option<String> {
    (name == "ada").then_some(name)
}

/// Finds more.
#[tool(effects = "read")]
fn plans_find_more(name: String) -> Found {
    Found { name: plans_find(name), nick: None }
}

/// Greets.
#[tool(effects = "read")]
fn plans_greet(customer: String) -> String {
    format!("hello {customer}")
}

/// Gives a shape.
#[tool(effects = "read")]
fn plans_shape(round: bool) -> Shape {
    if round { Shape::Circle { radius: 1 } } else { Shape::Box { width: 2 } }
}

/// Gives one of two forms.
#[tool(effects = "read")]
fn plans_loose(one: bool) -> Loose {
    if one { Loose::One { a: 1 } } else { Loose::Other { b: "b".to_owned() } }
}

/// Takes a number.
#[tool(effects = "read")]
fn plans_double(n: u32) -> u32 {
    n * 2
}

fn call(name: &str, with: Value) -> Value {
    json!({"call": {"kind": "tool", "name": name, "with": {"object": with}}})
}

fn input(name: &str, schema: Value) -> Value {
    json!({"name": name, "kind": "input", "schema": schema})
}

async fn run(nodes: &Value, input: Value) -> Result<String, String> {
    let graph =
        json!({"version": 1, "name": "known", "output": "o", "concurrency": 2, "nodes": nodes});
    let graph: Graph = serde_json::from_value(graph).unwrap();
    let runtime = test_runtime().graph(graph).build();
    let run = runtime
        .start_named("known", Encoded::new(&input).unwrap())
        .await
        .map_err(|error| error.to_string())?;
    run.result().await.map(|output| output.as_str().to_owned()).map_err(|error| error.to_string())
}

fn problem(nodes: &Value) -> String {
    let graph =
        json!({"version": 1, "name": "known", "output": "o", "concurrency": 2, "nodes": nodes});
    let graph: Graph = serde_json::from_value(graph).unwrap();
    test_runtime()
        .graph(graph)
        .build()
        .catalogue()
        .workflow_graph("known")
        .map(drop)
        .unwrap_err()
        .to_string()
}

/// Returns a graph that looks up a customer and greets the customer behind the condition `when`.
fn greeted(when: &Value) -> Value {
    json!([
        input("n", json!({"type": "string"})),
        {"name": "c", "does": call("plans_find", json!({"name": {"from": "n"}}))},
        {"name": "g", "does": call("plans_greet", json!({"customer": {"from": "c"}})), "edges": [{"from": "c", "when": when}]},
        {"name": "o", "does": {"value": {"from": "g", "or": "nobody"}}},
    ])
}

#[tokio::test]
async fn behind_a_condition_that_it_exists_an_option_is_its_value() {
    let c = json!({"from": "c"});
    for when in [
        json!({"exists": c}),
        json!({"not": {"equals": [c, {"value": null}]}}),
        json!({"not": {"not": {"exists": c}}}),
        json!({"equals": [{"value": "ada"}, c]}),
        json!({"all": [{"exists": {"from": "n"}}, {"exists": c}]}),
        json!({"not": {"any": [{"equals": [c, {"value": null}]}, {"equals": [{"from": "n"}, {"value": "x"}]}]}}),
        json!({"any": [{"exists": c}, {"equals": [c, {"value": "ada"}]}, {"not": {"equals": [{"value": null}, c]}}]}),
    ] {
        let nodes = greeted(&when);
        let is_common = !when["any"].is_array();
        if is_common {
            assert_eq!(
                run(&nodes, json!({"n": "ada"})).await.as_deref(),
                Ok(r#""hello ada""#),
                "{when}"
            );
            assert_eq!(
                run(&nodes, json!({"n": "bob"})).await.as_deref(),
                Ok(r#""nobody""#),
                "{when}"
            );
        }
    }
    for when in [
        json!({"exists": {"from": "n"}}),
        json!({"not": {"exists": c}}),
        json!({"equals": [c, {"value": null}]}),
        json!({"not": {"equals": [c, {"value": "x"}]}}),
        json!({"any": [{"exists": c}, {"exists": {"from": "n"}}]}),
        json!({"exists": {"from": "c", "or": "nobody"}}),
        json!({"not": {"all": [{"exists": c}, {"exists": {"from": "n"}}]}}),
    ] {
        let problem = problem(&greeted(&when));
        assert!(
            problem.contains("`customer`: string is expected, and string or null is given"),
            "{when}: {problem}"
        );
    }
}

#[tokio::test]
async fn what_is_known_stays_known_further_down() {
    let found = |at: &str| json!({"from": "f", "at": at});
    let nodes = json!([
        input("n", json!({"type": "string"})),
        {"name": "f", "does": call("plans_find_more", json!({"name": {"from": "n"}}))},
        {"name": "way", "does": {"route": {"arms": [
            {"arm": "none", "when": {"not": {"exists": found("/name")}}},
            {"arm": "ada", "when": {"equals": [found("/name"), {"value": "ada"}]}},
            {"arm": "other"},
        ]}}},
        {"name": "first", "does": {"value": {"value": 1}}, "edges": [{"from": "way", "arm": "ada"}]},
        {"name": "g", "does": call("plans_greet", json!({"customer": found("/name")})), "edges": [{"from": "first"}]},
        {"name": "h", "does": call("plans_greet", json!({"customer": found("/name")})), "edges": [{"from": "way", "arm": "other"}]},
        {"name": "o", "does": {"value": {"list": [{"from": "g", "or": null}, {"from": "h", "or": null}]}}},
    ]);
    assert_eq!(run(&nodes, json!({"n": "ada"})).await.as_deref(), Ok(r#"["hello ada",null]"#));
    assert_eq!(run(&nodes, json!({"n": "bob"})).await.as_deref(), Ok("[null,null]"));
    // With `begins: any` only facts that hold for every edge are known.
    let mut either = nodes;
    either[4]["edges"] = json!([{"from": "way", "arm": "ada"}, {"from": "way", "arm": "none"}]);
    either[4]["begins"] = json!("any");
    let problem = problem(&either);
    assert!(
        problem.contains("the output of `f` has nothing at `/name`")
            || problem.contains("string or null"),
        "{problem}"
    );
}

#[test]
fn a_part_below_null_is_named_when_the_graph_is_built() {
    let nodes = |text: Value| {
        json!([
            {"name": "f", "does": call("plans_find_more", json!({"name": {"value": "ada"}}))},
            {"name": "o", "does": {"value": text}},
        ])
    };
    let problem = problem(&nodes(json!({"from": "f", "at": "/nick/text"})));
    assert!(
        problem.contains(
            "the node `o`: the output of `f` has nothing at `/nick/text`: `nick` may be `null`; say what is read then with \
             `or`, or ask first with `exists`"
        ),
        "{problem}"
    );
}

#[tokio::test]
async fn a_part_below_null_is_read_with_or() {
    let nodes = json!([
        {"name": "f", "does": call("plans_find_more", json!({"name": {"value": "ada"}}))},
        {"name": "o", "does": {"value": {"from": "f", "at": "/nick/text", "or": "no nick"}}},
    ]);
    assert_eq!(run(&nodes, json!({})).await.as_deref(), Ok(r#""no nick""#));
}

#[tokio::test]
async fn a_tag_says_which_parts_there_are() {
    let nodes = |tool: &str, argument: &str, at: &str, when: Value| {
        json!([
            input("which", json!({"type": "boolean"})),
            {"name": "s", "does": call(tool, json!({argument: {"from": "which"}}))},
            {"name": "d", "does": call("plans_double", json!({"n": {"from": "s", "at": at}})), "edges": [{"from": "s", "when": when}]},
            {"name": "o", "does": {"value": {"from": "d", "or": 0}}},
        ])
    };
    let is_circle = json!({"equals": [{"from": "s", "at": "/kind"}, {"value": "circle"}]});
    let circle = nodes("plans_shape", "round", "/radius", is_circle.clone());
    assert_eq!(run(&circle, json!({"which": true})).await.as_deref(), Ok("2"));
    assert_eq!(run(&circle, json!({"which": false})).await.as_deref(), Ok("0"));
    let wrong = problem(&nodes("plans_shape", "round", "/width", is_circle));
    assert!(wrong.contains("has nothing at `/width`: it has no `width`"), "{wrong}");
    let one = nodes("plans_loose", "one", "/a", json!({"exists": {"from": "s", "at": "/a"}}));
    assert_eq!(run(&one, json!({"which": true})).await.as_deref(), Ok("2"));
    let any = problem(&nodes("plans_loose", "one", "/a", json!({"exists": {"from": "s"}})));
    assert!(
        any.contains("has nothing at `/a`: it has several forms, and not all have `a`"),
        "{any}"
    );
    let none = problem(&nodes("plans_loose", "one", "/c", json!({"exists": {"from": "s"}})));
    assert!(none.contains("has nothing at `/c`: it has no `c`"), "{none}");
}

#[test]
fn parts_of_the_answer_of_a_person_are_looked_for() {
    let nodes = |at: &str| {
        json!([
            {"name": "ask", "does": {"ask": {"text": "May it?"}}},
            {"name": "o", "does": {"value": {"from": "ask", "at": at, "or": null}}},
        ])
    };
    let wrong = problem(&nodes("/approved"));
    assert!(
        wrong.contains(
            "the output of `ask` has nothing at `/approved`: it has no `approved`; it has `comment`, `decision`"
        ),
        "{wrong}"
    );
}

/// Returns a router with `all`, one node per arm, and an output that starts after any of the nodes
/// in `output`.
fn set(arms: &[(&str, Value)], output: &[&str]) -> Value {
    let routes: Vec<Value> =
        arms.iter().map(|(arm, when)| json!({"arm": arm, "when": when})).collect();
    let mut nodes = vec![
        input("x", json!({"type": "boolean"})),
        input("y", json!({"type": "boolean"})),
        input("kind", json!({"type": "string"})),
        json!({"name": "r", "does": {"route": {"all": true, "arms": routes}}}),
    ];
    for (arm, _) in arms {
        nodes.push(json!({"name": arm, "does": {"value": {"value": arm}}, "edges": [{"from": "r", "arm": arm}]}));
    }
    let edges: Vec<Value> = output.iter().map(|from| json!({"from": from})).collect();
    let reads: Vec<Value> = arms.iter().map(|(arm, _)| json!({"from": arm, "or": null})).collect();
    nodes.push(json!({"name": "o", "does": {"value": {"list": reads}}, "edges": edges, "begins": {"barrier": 1}}));
    nodes.into()
}

#[tokio::test]
async fn of_a_condition_and_its_contrary_exactly_one_arm_is_taken() {
    let (x, y) = (json!({"is": {"from": "x"}}), json!({"is": {"from": "y"}}));
    let not = |of: &Value| json!({"not": of});
    let given = |x: bool, y: bool| json!({"x": x, "y": y, "kind": "a"});
    let nodes = set(&[("large", x.clone()), ("small", not(&x))], &["large", "small"]);
    assert_eq!(run(&nodes, given(true, true)).await.as_deref(), Ok(r#"["large",null]"#));
    assert_eq!(run(&nodes, given(false, false)).await.as_deref(), Ok(r#"[null,"small"]"#));

    // The check does not prove that several conditions cover all cases.
    let arms = [("large", x.clone()), ("small", not(&x)), ("urgent", y.clone())];
    let wrong = problem(&set(&arms, &["large", "small"]));
    assert!(wrong.contains("when `r` takes `urgent`, the workflow has no output"), "{wrong}");
    let nodes = set(&arms, &["large", "small", "urgent"]);
    assert_eq!(run(&nodes, given(true, true)).await.as_deref(), Ok(r#"["large",null,"urgent"]"#));

    // The four arms cover all combinations of two conditions.
    let both = [
        ("a", json!({"all": [x, y]})),
        ("b", json!({"all": [x, not(&y)]})),
        ("c", json!({"all": [not(&x), y]})),
        ("d", json!({"not": {"any": [x, y]}})),
    ];
    let nodes = set(&both, &["a", "b", "c", "d"]);
    assert_eq!(run(&nodes, given(false, true)).await.as_deref(), Ok(r#"[null,null,"c",null]"#));
    let wrong = problem(&set(&both, &["a", "b", "c"]));
    assert!(wrong.contains("when `r` takes `d`, the workflow has no output"), "{wrong}");

    // A value that equals `a` does not equal `b`, but it may equal neither.
    let kind = |is: &str| json!({"equals": [{"from": "kind"}, {"value": is}]});
    let kinds = [("a", kind("a")), ("b", json!({"any": [kind("b"), not(&kind("a"))]}))];
    assert_eq!(
        run(&set(&kinds, &["a", "b"]), given(true, true)).await.as_deref(),
        Ok(r#"["a",null]"#)
    );
    let mut both_kinds = set(&[("a", kind("a")), ("b", kind("b"))], &["a", "b"]);
    let last = both_kinds.as_array().unwrap().len() - 1;
    both_kinds[last]["begins"] = json!("all");
    assert!(problem(&both_kinds).contains("the node `o` can never begin"), "{both_kinds}");
}

#[test]
fn nodes_in_contrary_arms_never_begin_together() {
    let x = json!({"is": {"from": "x"}});
    let mut nodes = set(&[("large", x.clone()), ("small", json!({"not": x}))], &["large", "small"]);
    nodes[6]["begins"] = json!("all");
    let wrong = problem(&nodes);
    assert!(
        wrong.contains(
            "the node `o` can never begin: no arm of `r` leads to all that it needs, which are"
        ),
        "{wrong}"
    );
}

#[test]
fn an_arm_whose_condition_cannot_hold_is_named() {
    let x = json!({"is": {"from": "x"}});
    let nodes = |arms: Value| {
        json!([
            input("x", json!({"type": "boolean"})),
            {"name": "r", "does": {"route": {"arms": arms}}},
            {"name": "p", "does": {"value": {"value": 1}}, "edges": [{"from": "r", "arm": "b"}]},
            {"name": "o", "does": {"value": {"from": "p", "or": 0}}},
        ])
    };
    for arms in [
        json!([{"arm": "a", "when": x}, {"arm": "b", "when": x}]),
        json!([{"arm": "a"}, {"arm": "b", "when": {"is": {"value": false}}}]),
        json!([{"arm": "a", "when": {"is": {"value": true}}}, {"arm": "b"}]),
    ] {
        let wrong = problem(&nodes(arms));
        assert!(
            wrong.contains("the node `p` can never begin: `r` never takes its arm `b`, whose condition cannot hold when it is asked"),
            "{wrong}"
        );
    }
    // An arm without a condition is accepted, even if the other arms already cover all cases.
    let rest = json!([{"arm": "a", "when": x}, {"arm": "c", "when": {"not": x}}, {"arm": "b"}]);
    let graph = json!({"version": 1, "name": "known", "output": "o", "concurrency": 2, "nodes": nodes(rest)});
    let graph: Graph = serde_json::from_value(graph).unwrap();
    assert!(test_runtime().graph(graph).build().catalogue().workflow_graph("known").is_ok());
}

#[tokio::test]
async fn nodes_that_double_what_was_before_make_no_schema_that_no_memory_holds() {
    let mut nodes = vec![input("n", json!({"type": "integer"}))];
    let mut before = "n".to_owned();
    for at in 0..40 {
        let name = if at == 39 { "o".to_owned() } else { format!("x{at}") };
        let twice = json!({"object": {"a": {"from": before}, "b": {"from": before}}});
        nodes.push(json!({"name": name, "does": {"value": twice}}));
        before = name;
    }
    let graph =
        json!({"version": 1, "name": "known", "output": "o", "concurrency": 2, "nodes": nodes});
    let graph: Graph = serde_json::from_value(graph).unwrap();
    let runtime = test_runtime().graph(graph.clone()).build();
    assert!(
        serde_json::to_string(&runtime.catalogue().workflow_graph("known").unwrap()).unwrap().len()
            < 100_000
    );
    // The value itself is limited too.
    let run = runtime.start_named("known", json!({"n": 1})).await.unwrap();
    let error = run.result().await.unwrap_err();
    assert_eq!(error.kind(), FailureKind::TooLarge, "{error}");
    assert!(
        error.to_string().contains("more than the 16777216 bytes that one step may have"),
        "{error}"
    );
    let small = test_runtime().graph(graph).max_output_bytes(50).build();
    let error =
        small.start_named("known", json!({"n": 1})).await.unwrap().result().await.unwrap_err();
    assert!(error.to_string().contains("more than the 50 bytes that one step may have"), "{error}");
}

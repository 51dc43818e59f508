//! Tests that a workflow has an output for every choice of its routers. Otherwise it is not built,
//! as is a workflow with a node that can never start.

use agentflow::workflow::{Begins, Builder, Graph, Handle, Node, NodeEdge};
use agentflow::{Error, Workflow};
use agentflow_testing::test_runtime;
use serde_json::{Value, json};

fn built(output: &str, nodes: Value) -> Result<(), String> {
    let graph =
        json!({"version": 1, "name": "arms", "output": output, "concurrency": 4, "nodes": nodes});
    let graph: Graph = serde_json::from_value(graph).unwrap();
    test_runtime()
        .graph(graph)
        .build()
        .catalogue()
        .workflow_graph("arms")
        .map(drop)
        .map_err(|error| error.to_string())
}

/// Returns a router with the arms `left` and `right`, one node behind each arm, and the nodes in
/// `more`.
fn with(all: bool, more: Value) -> Value {
    let arm = |name: &str| json!({"name": name, "edges": [{"from": "way", "arm": name}], "does": {"value": {"value": 1}}});
    let when = |at: &str| json!({"is": {"from": "order", "at": at}});
    let arms = match all {
        true => json!([{"arm": "left", "when": when("/l")}, {"arm": "right", "when": when("/r")}]),
        false => json!([{"arm": "left", "when": when("/l")}, {"arm": "right"}]),
    };
    let mut nodes = json!([{"name": "order", "kind": "input"}, {"name": "way", "does": {"route": {"arms": arms, "all": all}}}]);
    let of = nodes.as_array_mut().unwrap();
    of.extend([arm("left"), arm("right")]);
    of.extend(more.as_array().unwrap().clone());
    nodes
}

fn value(name: &str, value: Value) -> Value {
    json!({"name": name, "does": {"value": value}})
}

#[test]
fn an_output_that_reads_one_arm_is_refused_when_the_graph_is_built() {
    for all in [false, true] {
        let out = json!([value("out", json!({"object": {"left": {"from": "left"}}}))]);
        let error = built("out", with(all, out)).unwrap_err();
        assert!(
            error.contains(
                "when `way` takes `right`, the workflow has no output: `out` reads `left`, which is skipped then; read it \
                 with `or`, or mark the node that gives the output then with `\"ends\": true`"
            ),
            "{error}"
        );
    }
}

#[test]
fn one_that_reads_it_with_or_is_built() {
    let read = |arm: &str| json!({"from": arm, "or": null});
    let out = json!([value("out", json!({"list": [read("left"), read("right")]}))]);
    assert_eq!(built("out", with(false, out.clone())), Ok(()));
    assert_eq!(built("out", with(true, out)), Ok(()));
}

#[test]
fn a_read_far_above_the_output_counts() {
    let more =
        json!([value("middle", json!({"from": "left"})), value("out", json!({"from": "middle"}))]);
    let error = built("out", with(false, more)).unwrap_err();
    assert!(error.contains("`out` reads `middle`, which is skipped then"), "{error}");
}

#[test]
fn an_arm_may_end_the_workflow_by_itself() {
    let mut nodes = with(false, json!([value("out", json!({"from": "left"}))]));
    nodes[3]["ends"] = true.into();
    assert_eq!(built("out", nodes), Ok(()));
}

#[test]
fn a_node_that_waits_for_both_arms_of_one_router_can_never_begin() {
    let more = json!([
        {"name": "both", "edges": [{"from": "left"}, {"from": "right"}], "does": {"value": {"value": 1}}},
        value("out", json!({"value": 2})),
    ]);
    let error = built("out", with(false, more.clone())).unwrap_err();
    assert!(
        error.contains(
            "the node `both` can never begin: no arm of `way` leads to all that it needs, which are `left` and `right`"
        ),
        "{error}"
    );
    assert!(error.contains("`\"begins\": \"any\"`"), "{error}");
    // A router with `all` may take both arms.
    assert_eq!(built("out", with(true, more)), Ok(()));
}

#[test]
fn a_node_below_one_that_can_never_begin_is_not_named_too() {
    let more = json!([
        value("both", json!({"list": [{"from": "left"}, {"from": "right"}]})),
        value("out", json!({"from": "both"})),
    ]);
    let error = built("out", with(false, more)).unwrap_err();
    assert!(error.contains("the node `both` can never begin"), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
}

#[test]
fn a_node_may_begin_at_the_first_of_its_edges() {
    let more = json!([{"name": "out", "begins": "any", "edges": [{"from": "left"}, {"from": "right"}],
                       "does": {"value": {"value": 1}}}]);
    assert_eq!(built("out", with(false, more)), Ok(()));
}

#[test]
fn an_arm_that_leads_nowhere_is_one_without_an_output() {
    let mut nodes = with(false, json!([value("out", json!({"from": "left", "or": 0}))]));
    assert_eq!(built("out", nodes.clone()), Ok(()));
    nodes[4]["edges"] = json!([{"from": "left"}]);
    let error = built("out", nodes).unwrap_err();
    assert!(error.contains("when `way` takes `right`"), "{error}");
    assert!(
        error.contains("`out` is skipped then; let the output be a node that every arm leads to"),
        "{error}"
    );
}

#[test]
fn a_router_within_an_arm_is_looked_at_in_that_arm() {
    // `inner` runs only if the router takes `left`. Then its arm `b` leads to no output.
    let more = json!([
        {"name": "inner", "edges": [{"from": "left"}],
         "does": {"route": {"arms": [{"arm": "a", "when": {"is": {"from": "order", "at": "/a"}}}, {"arm": "b"}]}}},
        {"name": "a", "edges": [{"from": "inner", "arm": "a"}], "does": {"value": {"value": "a"}}},
        {"name": "out", "begins": "any", "edges": [{"from": "a"}, {"from": "right"}], "does": {"value": {"value": 1}}},
    ]);
    let error = built("out", with(false, more)).unwrap_err();
    assert!(error.contains("when `inner` takes `b`, the workflow has no output"), "{error}");
}

#[test]
fn an_arm_that_is_always_taken_is_among_those_that_are() {
    let when = |value: Value| json!({"is": value});
    let nodes = |constant: bool| {
        let mut nodes = with(true, json!([value("out", json!({"from": "left"}))]));
        if constant {
            nodes[1]["does"]["route"]["arms"][0]["when"] = when(json!({"value": true}));
        }
        nodes
    };
    assert_eq!(built("out", nodes(true)), Ok(()));
    assert!(built("out", nodes(false)).is_err());
}

/// Builds a graph in which `left` and `right` save the same key. The arms of the router have these
/// two conditions.
fn shared_key_graph(
    left: Value,
    right: Value,
    more: impl FnOnce(&mut Vec<Value>),
) -> Result<(), String> {
    let arms = json!([{"arm": "left", "when": left}, {"arm": "right", "when": right}]);
    let mut nodes = with(true, json!([value("out", json!({"state": "k", "or": 0}))]));
    let nodes = nodes.as_array_mut().unwrap();
    nodes[1]["does"]["route"]["arms"] = arms;
    for node in [2, 3] {
        nodes[node]["saves"] = json!({"k": ""});
    }
    nodes[4]["edges"] = json!([{"from": "left"}, {"from": "right"}]);
    nodes[4]["begins"] = json!({"barrier": 1});
    more(nodes);
    built("out", json!(nodes))
}

#[test]
fn two_arms_of_a_router_save_one_key_where_it_takes_one_of_them() {
    let of = || json!({"from": "order", "at": "/kind"});
    let is = |value: Value| json!({"equals": [of(), {"value": value}]});
    let any = |all: Vec<Value>| json!({"any": all});
    for (left, right, is_built) in [
        (is(json!(true)), is(json!(false)), true),
        (any(vec![is(json!("a")), is(json!(1))]), any(vec![is(json!("b")), is(json!(2))]), true),
        (is(json!(true)), json!({"not": is(json!(true))}), true),
        (any(vec![is(json!("a")), is(json!(1))]), any(vec![is(json!("b")), is(json!(1))]), false),
        (is(json!(true)), json!({"is": {"from": "order", "at": "/other"}}), false),
        (is(json!(true)), json!({"cel": "order.kind == false"}), false),
        // Only required values and negations are compared.
        (json!({"exists": of()}), is(json!(null)), false),
    ] {
        let built = shared_key_graph(left.clone(), right.clone(), |_| {});
        assert_eq!(built.is_ok(), is_built, "{left} {right} {built:?}");
        if let Err(error) = built {
            assert!(
                error.contains(
                    "`left` and `right` may run at the same time, and each of them saves `k`"
                ),
                "{error}"
            );
        }
    }
    // `right` can also start without its arm, so the arms do not exclude each other any more.
    let built = shared_key_graph(is(json!(true)), is(json!(false)), |nodes| {
        nodes[3]["edges"].as_array_mut().unwrap().push(json!({"from": "order"}));
        nodes[3]["begins"] = json!("any");
    });
    assert!(built.unwrap_err().contains("each of them saves `k`"));
}

#[test]
fn what_is_behind_an_arm_for_everything_else_may_run_beside_what_is_behind_later_ones() {
    // `else` is taken if `first` is not. Then `a0` and `a1` may be taken too, so `both` and `else`
    // can run at the same time.
    let is = |at: &str| json!({"is": {"from": "order", "at": at}});
    let nodes = json!([
        {"name": "order", "kind": "input"},
        {"name": "way", "does": {"route": {"all": true, "arms": [
            {"arm": "first", "when": is("/first")},
            {"arm": "else"},
            {"arm": "a0", "when": is("/0")},
            {"arm": "a1", "when": is("/1")},
        ]}}},
        {"name": "else", "edges": [{"from": "way", "arm": "else"}], "does": {"value": {"value": 1}}, "saves": {"k": ""}},
        {"name": "both", "edges": [{"from": "way", "arm": "a0"}, {"from": "way", "arm": "a1"}],
         "does": {"value": {"value": 2}}, "saves": {"k": ""}},
        value("out", json!({"list": [{"from": "else", "or": 0}, {"from": "both", "or": 0}]})),
    ]);
    let error = built("out", nodes).unwrap_err();
    assert!(error.contains("`else` and `both` may run at the same time"), "{error}");
}

fn typed(with: impl FnOnce(&mut Builder, Handle<bool>) -> Handle<i64>) -> Result<(), String> {
    Workflow::<(bool,), i64>::build("typed", ["is"], |b, (is,)| with(b, is))
        .map(drop)
        .map_err(|error| error.to_string())
}

#[test]
fn a_typed_workflow_is_checked_too() {
    let error = typed(|b, is| {
        let way = b.route("way", ["yes", "no"], (is,), |(is,)| Ok::<_, Error>(usize::from(!is)));
        let yes = b.arm(way, 0, |b| b.value("v", (), |()| Ok::<_, Error>(1)));
        b.arm(way, 1, |b| b.value("v", (), |()| Ok::<_, Error>(2_i64)));
        b.value("out", (yes,), |(yes,)| Ok::<_, Error>(yes + 1))
    });
    let error = error.unwrap_err();
    assert!(
        error.contains(
            "when `way` takes `no`, the workflow has no output: `out` reads `way/yes/v`, which is skipped then; put the arms \
             together with `join`, or read it with `optional()`, or mark the node that gives the output then with `Node::ends`"
        ),
        "{error}"
    );
}

#[test]
fn a_typed_join_has_the_end_of_each_arm() {
    let join = |whole: bool| {
        typed(move |b, is| {
            let way =
                b.route("way", ["yes", "no"], (is,), |(is,)| Ok::<_, Error>(usize::from(!is)));
            let yes = b.arm(way, 0, |b| b.value("v", (), |()| Ok::<_, Error>(1)));
            let no = b.arm(way, 1, |b| b.value("v", (), |()| Ok::<_, Error>(2)));
            b.join(way, [yes].into_iter().chain(whole.then_some(no)))
        })
    };
    assert_eq!(join(true), Ok(()));
    let error = join(false).unwrap_err();
    assert!(
        error.contains(
            "no arm that `way/end` puts together is taken then; give `join` the end of each arm"
        ),
        "{error}"
    );
}

#[test]
fn a_typed_node_with_edges_from_both_arms_says_what_begins_it() {
    let of = |begins: Begins| {
        typed(move |b, is| {
            let way =
                b.route("way", ["yes", "no"], (is,), |(is,)| Ok::<_, Error>(usize::from(!is)));
            let node = Node::new("out")
                .edge(NodeEdge::arm(way, 0))
                .edge(NodeEdge::arm(way, 1))
                .begins(begins);
            b.value(node, (), |()| Ok::<_, Error>(1))
        })
    };
    assert_eq!(of(Begins::Any), Ok(()));
    let error = of(Begins::All).unwrap_err();
    assert!(error.contains("the node `out` can never begin"), "{error}");
    assert!(error.contains("or let the node begin with `Begins::Any`"), "{error}");
}

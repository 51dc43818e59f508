//! Tests graph nodes that read and save the run's state in values, texts and conditions: also after
//! a crash at each write, in map items, on a worker, and in a nested workflow.

use agentflow::Event;
use agentflow::prelude::*;
use agentflow::store::MemoryStore;
use agentflow::tool::{Effects, FnTool, ToolDefinition, ToolPolicy};
use agentflow::value::Encoded;
use agentflow::workflow::{Graph, GraphBody, GraphNode, Mapping};
use agentflow_testing::{check_events, test_runtime};
use agentflow_tests::Elsewhere;
use serde_json::{Value, json};

use crate::every_crash::every_crash;

static TONE: StateKey<String> = StateKey::session("tone");

/// Returns a tool that echoes its arguments.
fn says() -> FnTool {
    let definition =
        ToolDefinition::new("state_says", "Says what it is given.", json!({"type": "object"}))
            .policy(ToolPolicy::default().effects(Effects::None));
    FnTool::dynamic(definition, |_, arguments: Value| async move { Ok::<_, String>(arguments) })
}

/// Decide how to write.
#[tool(effects = "none")]
async fn state_sets_tone(cx: &Context, tone: String) -> Result<()> {
    cx.set(&TONE, &tone)
}

pub(super) fn graph(name: &str, output: &str, nodes: Value) -> Graph {
    let graph =
        json!({"version": 1, "name": name, "output": output, "concurrency": 4, "nodes": nodes});
    serde_json::from_value(graph).unwrap()
}

pub(super) fn call(tool: &str, with: Value) -> Value {
    json!({"call": {"kind": "tool", "name": tool, "with": with}})
}

fn known(graph: &Graph) -> agentflow::runtime::RuntimeBuilder {
    test_runtime().tools([says()]).graph(graph.clone())
}

async fn run(runtime: &Runtime, name: &str, input: Value) -> Result<(Value, Value)> {
    let handle = runtime.start_named(name, Encoded::new(&input).unwrap()).caller("ada").await?;
    let id = handle.run_id().clone();
    let output = handle.result().await?.decode().unwrap();
    check_events(&runtime.run(&id).journal().await.unwrap()).unwrap();
    let state = serde_json::to_value(runtime.run(&id).state().await.unwrap()).unwrap();
    Ok((output, state))
}

/// Returns a graph that uses every form of reading and saving.
fn letter() -> Graph {
    let nodes = json!([
        {"name": "order", "kind": "input", "schema": {"type": "object"}},
        {"name": "read", "does": call("state_says", json!({"from": "order"})),
         "saves": {"total": "/total", "whole": "", "missing": "/no/such", "user:name": "/name"}},
        {"name": "tone", "does": call("state_sets_tone", json!({"object": {"tone": {"template": "{order.tone}"}}})),
         "edges": [{"from": "read"}]},
        {"name": "fields", "does": {"value": {"value": {"a": 1, "b": [2]}}}, "saves": {"*": "", "b": "/b/0"},
         "edges": [{"from": "tone"}]},
        {"name": "rich", "does": call("state_says", json!({"object": {
            "tone": {"state": "tone"}, "none": {"state": "none", "or": 7}, "left": {"state": "none", "optional": true},
            "name": {"state": "user:name"}, "part": {"state": "whole", "at": "/name"}, "all": {"state": ""},
            "text": {"template": "{user:name}: {total}{{}} {nodes.order.name} {state.tone} {nothing?}."},
            "kept": {"template": "{total}"}}})),
         "edges": [{"from": "fields", "when": {"equals": [{"state": "total"}, {"value": 120}]}}]},
        {"name": "poor", "does": {"value": {"value": "poor"}},
         "edges": [{"from": "fields", "when": {"not": {"equals": [{"state": "whole", "at": "/total"}, {"value": 120}]}}}]},
        {"name": "way", "does": {"route": {"arms": [
            {"arm": "dry", "when": {"equals": [{"state": "tone"}, {"value": "dry"}]}}, {"arm": "other"}]}},
         "edges": [{"from": "fields"}]},
        {"name": "out", "does": {"value": {"object": {
            "rich": {"from": "rich", "or": null}, "poor": {"from": "poor", "or": null}, "way": {"from": "way"},
            "b": {"state": "b"}, "name": {"state": "user:name"}}}}},
    ]);
    graph("letter", "out", nodes)
}

fn expected(total: u32) -> (Value, Value) {
    let order = json!({"name": "Ada", "tone": "dry", "total": total});
    let state =
        json!({"a": 1, "b": 2, "tone": "dry", "total": total, "user:name": "Ada", "whole": order});
    let all = json!({"a": 1, "b": 2, "tone": "dry", "total": total, "whole": order});
    let rich = json!({"tone": "dry", "none": 7, "name": "Ada", "part": "Ada", "all": all, "text": "Ada: 120{} Ada dry .", "kept": 120});
    let (rich, poor) =
        if total == 120 { (rich, Value::Null) } else { (Value::Null, json!("poor")) };
    (json!({"rich": rich, "poor": poor, "way": {"arm": "dry"}, "b": 2, "name": "Ada"}), state)
}

fn order(total: u32) -> Value {
    json!({"order": {"name": "Ada", "tone": "dry", "total": total}})
}

#[tokio::test]
async fn nodes_read_the_state_and_save_to_it() {
    let runtime = known(&letter()).store(MemoryStore::new()).build();
    assert_eq!(run(&runtime, "letter", order(120)).await.unwrap(), expected(120));
    assert_eq!(run(&runtime, "letter", order(3)).await.unwrap(), expected(3));
}

/// Runs the graph with a crash at each write and passes the results to `check`.
async fn after_every_crash(
    graph: &Graph,
    input: Value,
    check: impl Fn(&Value, &Value, Vec<Event>, &str),
) -> usize {
    every_crash(|store| known(graph).store(store).build(), &graph.name, input, check).await
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_write_changes_nothing_that_is_read_or_saved() {
    let letter = letter();
    for total in [120, 3] {
        let (output, state) = expected(total);
        let crashes = after_every_crash(&letter, order(total), |found, values, journal, how| {
            assert_eq!((found, values), (&output, &state), "{how}");
            check_events(&journal).unwrap();
        });
        let crashes = crashes.await;
        assert!(crashes > 5, "{crashes}");
    }
}

#[tokio::test(start_paused = true)]
async fn lists_rounds_branches_and_nested_workflows_save_with_their_node() {
    let nodes = json!([
        {"name": "list", "kind": "input", "schema": {"type": "array"}},
        {"name": "each", "does": {"map": {"items": "list", "call": {"kind": "tool", "name": "state_says",
            "with": {"object": {"item": {"item": ""}, "text": {"template": "{list.0} of {state.size?}"}}}}}},
         "saves": {"last": "/1/item", "tone": "/0/text"}},
        {"name": "grown", "does": {"repeat": {"first": "list", "max": 2, "call": {"kind": "tool", "name": "state_sets_tone",
            "with": {"object": {"tone": {"template": "{tone}!"}}}}}},
         "edges": [{"from": "each"}], "saves": {"nothing": ""}},
        {"name": "first", "does": {"fallback": [{"kind": "tool", "name": "state_says", "with": {"object": {"t": {"state": "tone"}}}}]},
         "edges": [{"from": "grown"}], "saves": {"*": ""}},
        {"name": "out", "does": {"value": {"state": ""}}, "edges": [{"from": "first"}], "saves": {"all": "/t"}},
    ]);
    let graph = graph("many", "out", nodes);
    let output = json!({"last": "b", "tone": "a of !!", "nothing": null, "t": "a of !!"});
    let mut state = output.clone();
    state["all"] = "a of !!".into();
    let crashes =
        after_every_crash(&graph, json!({"list": ["a", "b"]}), |found, values, _, how| {
            assert_eq!((found, values), (&output, &state), "{how}");
        });
    assert!(crashes.await > 10);
}

#[tokio::test]
async fn a_workflow_within_another_sees_the_state_around_it_also_in_conditions() {
    let inner = graph(
        "inner",
        "out",
        json!([
            {"name": "begin", "does": {"value": {"value": 1}}},
            {"name": "yes", "does": {"value": {"template": "yes {state.tone}"}},
             "edges": [{"from": "begin", "when": {"equals": [{"state": "tone"}, {"value": "wet"}]}}], "saves": {"from_inner": ""}},
            {"name": "out", "does": {"value": {"from": "yes", "or": "no"}}},
        ]),
    );
    let outer = graph(
        "outer",
        "out",
        json!([
            {"name": "tone", "kind": "input"},
            {"name": "set", "does": {"value": {"from": "tone"}}, "saves": {"tone": ""}},
            {"name": "inner", "does": {"call": {"kind": "workflow", "name": "inner", "with": {"value": {}}}}, "edges": [{"from": "set"}]},
            {"name": "out", "does": {"value": {"list": [{"from": "inner"}, {"state": "from_inner", "optional": true}]}}},
        ]),
    );
    let runtime = test_runtime().graph(inner).graph(outer).store(MemoryStore::new()).build();
    assert_eq!(
        run(&runtime, "outer", json!({"tone": "wet"})).await.unwrap().0,
        json!(["yes wet", "yes wet"])
    );
    assert_eq!(run(&runtime, "outer", json!({"tone": "dry"})).await.unwrap().0, json!(["no"]));
}

#[tokio::test]
async fn steps_that_are_executed_elsewhere_read_and_save_the_same() {
    let nodes = json!([
        {"name": "n", "kind": "input"},
        {"name": "kept", "does": call("state_says", json!({"object": {"n": {"from": "n"}}})), "saves": {"*": ""}},
        {"name": "out", "does": call("state_says", json!({"object": {"text": {"template": "{n} and {kept.n}"}, "n": {"state": "n"}}})),
         "edges": [{"from": "kept"}]},
    ]);
    let graph = graph("far-state", "out", nodes);
    let worker = Elsewhere::on_thread(known(&graph).build());
    let runtime = known(&graph).executor(worker).store(MemoryStore::new()).build();
    let (output, state) = run(&runtime, "far-state", json!({"n": 3})).await.unwrap();
    assert_eq!((output, state), (json!({"text": "3 and 3", "n": 3}), json!({"n": 3})));
}

#[tokio::test]
async fn a_node_that_cannot_save_fails_and_nothing_is_saved() {
    let save = |value: Value, saves: Value| {
        let nodes = json!([
            {"name": "v", "kind": "input"},
            {"name": "out", "does": {"value": {"from": "v"}}, "saves": saves},
        ]);
        let runtime = test_runtime().graph(graph("saves", "out", nodes)).build();
        async move {
            let handle = runtime
                .start_named("saves", Encoded::new(&json!({"v": value})).unwrap())
                .await
                .unwrap();
            handle.result().await.unwrap_err().to_string()
        }
    };
    let error = save(json!(3), json!({"*": ""})).await;
    assert!(
        error.contains("its output is saved field by field, and `` of it is not an object: 3"),
        "{error}"
    );
    let error = save(json!({"how many": 3}), json!({"*": ""})).await;
    assert!(error.contains("`how many` is not the name of a state key"), "{error}");
    let error = save(json!(1), json!({"user:n": ""})).await;
    assert!(error.contains("the run has no caller whose value it is"), "{error}");
    let error = save(json!("x".repeat(1 << 20)), json!({"n": ""})).await;
    assert!(error.contains("more than the 1048576 that one step may save"), "{error}");
}

#[test]
fn mistakes_are_found_when_the_graph_is_read() {
    let problems = |nodes: Value| {
        let runtime = known(&graph("wrong", "out", nodes)).build();
        let error = runtime.catalogue().workflow_graph("wrong").unwrap_err().to_string();
        error.lines().map(ToOwned::to_owned).collect::<Vec<_>>()
    };
    let found = problems(json!([
        {"name": "page", "kind": "input", "schema": {"type": "object", "properties": {"title": {"type": "string"}},
            "required": ["title"], "additionalProperties": false}, "saves": {"p": ""}},
        {"name": "a", "does": {"value": {"template": "{pag.title} {page.titel} {toen} {tone} {what} {some?} {state.x}"}}},
        {"name": "b", "does": {"value": {"state": "how many"}}, "saves": {"tone": "/title", "": "title"}},
        {"name": "c", "does": {"value": {"from": "page"}}, "saves": {"t": "/titel"}},
        {"name": "d", "does": {"route": {"arms": [{"arm": "x", "when": {"exists": {"state": "user:name"}}}, {"arm": "y"}]}}},
        {"name": "out", "does": {"value": {"value": 1}},
         "edges": [{"from": "c", "when": {"exists": {"state": "temp:x"}}}]},
        {"name": "r", "does": {"repeat": {"first": "c", "max": 2, "call": {"kind": "tool", "name": "state_says", "with": {"object": {}}},
            "until": {"is": {"state": "over"}}}}},
        {"name": "n", "does": {"value": {"template": "{nodes.pag}"}}},
        {"name": "t", "does": {"value": {"object": {"a": {"template": "{temp:a} {temp:a?} {temp:b}"}, "c": {"state": "temp:c"}}}}},
        {"name": "u", "does": {"transform": [{"map": {"temp:d": "{temp:e}"}}, {"map": {"f": "{temp:d}"}}]}},
        {"name": "v", "does": {"value": {"object": {"a": {"template": "{temp:g?}"}, "b": {"state": "temp:h", "or": 1}}}}},
    ]));
    let expected = [
        "the node `page` saves nothing, since it is an input, a choice or a question",
        "the node `a`: the placeholder `{page.titel}`: the output of `page` has nothing there: it has no `titel`; did you mean `title`?",
        "the node `a` has the placeholder `{pag}`, and no node, no input and no key that is saved is named so; did you mean `page`?",
        "the node `a` has the placeholder `{toen}`, and no node, no input and no key that is saved is named so; did you mean `tone`?",
        "the node `a` has the placeholder `{what}`, and no node, no input and no key that is saved is named so; write `{state.what}` for",
        "the node `b` reads the state: `how many` is not the name of a state key",
        "the node `b` saves to the state: `` is not the name of a state key",
        "the node `b` saves ``: `title` is not a JSON Pointer",
        "the node `c` saves `t`, and its output has nothing at `/titel`: it has no `titel`; did you mean `title`?",
        "the node `d` reads the state: `user:name` cannot be read here, since it is in the store; read it before, in a node or a part that makes a value",
        "an edge to the node `out` reads the state: `temp:x` is gone after a crash",
        "`until` of the node `r` reads `over`",
        "the node `t` needs `temp:a`, which is gone after a crash; save it under a key without `temp:`, or let it be missing: `{temp:a?}` in a text",
        "the node `t` needs `temp:b`, which",
        "the node `t` needs `temp:c`, which",
        "the node `u` needs `temp:e`, which",
        "the node `n` reads or follows `pag`, and there is no such node; did you mean `page`?",
    ];
    for says in expected {
        assert!(found.iter().any(|line| line.contains(says)), "{says}\n{found:#?}");
    }
    assert_eq!(found.len(), expected.len(), "{found:#?}");
}

#[test]
fn two_nodes_at_the_same_time_that_save_one_key_are_refused() {
    let problem = |nodes: Value| {
        known(&graph("twice", "out", nodes)).build().catalogue().workflow_graph("twice").map(drop)
    };
    let saves = |name: &str, edges: Value| json!({"name": name, "does": {"value": {"value": {"tone": 1}}}, "saves": {"tone": "/tone"}, "edges": edges});
    let changes =
        |name: &str| json!({"name": name, "does": {"transform": [{"default": {"tone": "dry"}}]}});
    let out = json!({"name": "out", "does": {"value": {"value": 1}}, "edges": [{"from": "a"}, {"from": "b"}]});
    let fields =
        json!({"name": "b", "does": {"value": {"value": {"tone": 1}}}, "saves": {"*": ""}});
    for second in [saves("b", json!([])), changes("b")] {
        let error = problem(json!([saves("a", json!([])), second, out])).unwrap_err().to_string();
        assert!(
            error.contains(
                "`a` and `b` may run at the same time, and each of them saves `tone` in the state; let an edge lead from the \
                 first to the second, or give one of them its own key"
            ),
            "{error}"
        );
    }
    problem(json!([saves("a", json!([])), saves("b", json!([{"from": "a"}])), out])).unwrap();
    problem(json!([saves("a", json!([])), fields, out])).unwrap();
}

#[test]
fn the_description_and_the_hash_have_what_is_read_and_saved() {
    let described = known(&letter()).build().catalogue().workflow_graph("letter").unwrap();
    assert_eq!(described.node("read").unwrap().saves["total"], "/total");
    let again: Graph = serde_json::from_str(&serde_json::to_string(&described).unwrap()).unwrap();
    assert_eq!(known(&again).build().catalogue().workflow_graph("letter").unwrap(), described);
    let hash = |of: GraphNode| Graph::new("h", "out").with(of).hash();
    let plain = || GraphNode::new("out", GraphBody::Value(Mapping::Value(json!({"a": 1}))));
    let hashes = [
        hash(plain()),
        hash(plain().save("a", "/a")),
        hash(plain().save("a", "")),
        hash(plain().save("b", "/a")),
    ];
    assert!((1..hashes.len()).all(|at| !hashes[..at].contains(&hashes[at])), "{hashes:?}");
    let read = |mapping: Mapping| hash(GraphNode::new("out", GraphBody::Value(mapping)));
    let text = |text: &str| Mapping::Template(text.parse().unwrap());
    assert_ne!(read(Mapping::state("a")), read(Mapping::state("b")));
    assert_ne!(read(text("{a?}")), read(text("{b?}")));
}

static HEARD: StateKey<u32> = StateKey::session("heard");
static TOLD: StateKey<u32> = StateKey::session("told");

/// Looks at the state late.
#[tool(effects = "none")]
async fn state_looks_late(cx: &Context) -> Result<String> {
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    Ok(format!("{:?} {:?}", cx.state(&HEARD).await?, cx.state(&TOLD).await?))
}

/// Takes so long.
#[tool(effects = "none")]
async fn state_takes(millis: u64) -> u64 {
    tokio::time::sleep(std::time::Duration::from_millis(millis)).await;
    millis
}

/// Checks that a step sees the state at its start, even if it reads late. A step that starts after
/// the first of two nodes must not see a key that the second one saves in the meantime.
#[tokio::test(start_paused = true)]
async fn a_step_sees_what_was_there_when_it_began() {
    let takes = |millis: u64| call("state_takes", json!({"value": {"millis": millis}}));
    let nodes = json!([
        {"name": "fast", "does": takes(10), "saves": {"heard": ""}},
        {"name": "slow", "does": takes(50), "saves": {"told": ""}},
        {"name": "first", "does": call("state_looks_late", json!({"value": {}})), "begins": "any",
         "edges": [{"from": "fast"}, {"from": "slow"}]},
        {"name": "last", "does": call("state_looks_late", json!({"value": {}})), "edges": [{"from": "first"}, {"from": "slow"}]},
        {"name": "out", "does": {"value": {"list": [{"from": "first"}, {"from": "last"}]}}},
    ]);
    let runtime = known(&graph("late", "out", nodes)).store(MemoryStore::new()).build();
    let (output, state) = run(&runtime, "late", json!({})).await.unwrap();
    assert_eq!(output, json!(["Some(10) None", "Some(10) Some(50)"]));
    assert_eq!(state, json!({"heard": 10, "told": 50}));
}

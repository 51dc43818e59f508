//! Tests pipelines: the effect of each operator, equality with handwritten graphs, a crash at each
//! write, and mistakes.

use std::time::Duration;

use agentflow::agent::RunRequest;
use agentflow::pipeline::{Pipeline, until};
use agentflow::prelude::*;
use agentflow::state::StateTransform;
use agentflow::store::MemoryStore;
use agentflow::tool::ToolError;
use agentflow::value::Encoded;
use agentflow::workflow::{
    Decider, Graph, GraphBody, GraphNode, Mapping, NextNode, NodeDecision, NodePolicy, OnError,
    Question, Reference, Route, Routes, RunLimits,
};
use agentflow_testing::{EffectLog, ScriptedModel, Turn, test_runtime, within};
use serde_json::{Value, json};

use super::every_crash::every_crash;

/// Add one.
#[tool(effects = "none")]
fn pipelines_add(n: i64) -> i64 {
    n + 1
}

/// Twice a number.
#[tool(effects = "none")]
fn pipelines_twice(n: i64) -> i64 {
    2 * n
}

/// Fails.
#[tool(effects = "none")]
fn pipelines_fails(n: i64) -> Result<i64, ToolError> {
    Err(ToolError::new(format!("{n} is not liked")))
}

/// Notes a number, which is an effect.
#[tool(idempotent)]
async fn pipelines_note(cx: &Context, log: Inject<EffectLog>, n: i64) -> i64 {
    log.note(cx);
    n
}

/// Writes to the state.
#[tool(effects = "none")]
fn pipelines_writes(cx: &Context, n: i64) -> Result<i64> {
    let key: StateKey<i64> = "written".parse().expect("a key");
    cx.set(&key, &n)?;
    Ok(n)
}

fn add() -> Pipeline {
    Pipeline::tool("pipelines_add").with(json!({"n": "{input}"}))
}

fn twice() -> Pipeline {
    Pipeline::tool("pipelines_twice").with(json!({"n": "{input}"}))
}

fn fails() -> Pipeline {
    Pipeline::tool("pipelines_fails").with(json!({"n": "{input}"}))
}

async fn run(pipeline: &Pipeline, input: impl Into<Value>) -> Result<Value> {
    let runtime = test_runtime()
        .pipeline("made", pipeline)
        .store(MemoryStore::new())
        .resource(EffectLog::new())
        .build();
    let input = Encoded::new(&json!({"input": input.into()})).unwrap();
    Ok(runtime.start_named("made", input).await?.result().await?.decode().unwrap())
}

#[tokio::test(start_paused = true)]
async fn each_operator() {
    let sum = || Pipeline::value(json!({"sum": "{input}"}));
    let each: Vec<(&str, Pipeline, Value, Value)> = vec![
        ("a call", add(), json!(1), json!(2)),
        ("after", add() >> twice() >> add(), json!(1), json!(5)),
        ("beside", add() | twice(), json!(5), json!({"pipelines_add": 6, "pipelines_twice": 10})),
        (
            "three beside",
            add() | twice() | add().named("again"),
            json!(1),
            json!({"pipelines_add": 2, "pipelines_twice": 2, "again": 2}),
        ),
        (
            "beside, then after",
            (add() | twice()) >> Pipeline::value("{input.pipelines_add}"),
            json!(7),
            json!(8),
        ),
        ("in place of", fails() / twice(), json!(4), json!(8)),
        ("in place of a row", (add() >> fails()) / (twice() >> twice()), json!(4), json!(16)),
        ("in place of two", fails() / fails() / add(), json!(4), json!(5)),
        ("so often", twice() * 5, json!(1), json!(32)),
        ("a row so often", (twice() >> add()) * 3, json!(0), json!(7)),
        ("until", twice() * until("item > 100").max(20), json!(3), json!(192)),
        ("until, at most", twice() * until("item > 100").max(2), json!(3), json!(12)),
        ("each", Pipeline::map_over(add()), json!([1, 2, 3]), json!([2, 3, 4])),
        ("a row of each", Pipeline::map_over(add() >> twice()), json!([1, 2]), json!([4, 6])),
        ("none of each", Pipeline::map_over(add()), json!([]), json!([])),
        ("a race", Pipeline::race([fails(), add()]), json!(1), json!(2)),
        (
            "the first choice",
            Pipeline::when("input < 10", add()).when("input < 100", twice()).otherwise(sum()),
            json!(3),
            json!(4),
        ),
        (
            "the second",
            Pipeline::when("input < 10", add()).when("input < 100", twice()).otherwise(sum()),
            json!(30),
            json!(60),
        ),
        (
            "neither",
            Pipeline::when("input < 10", add()).when("input < 100", twice()).otherwise(sum()),
            json!(300),
            json!({"sum": 300}),
        ),
        (
            "a choice of rows",
            add()
                >> Pipeline::when("input > 0", twice() >> add()).otherwise(add() | twice())
                >> sum(),
            json!(1),
            json!({"sum": 5}),
        ),
        (
            "the other row",
            add()
                >> Pipeline::when("input > 0", twice() >> add()).otherwise(add() | twice())
                >> sum(),
            json!(-1),
            json!({"sum": {"pipelines_add": 1, "pipelines_twice": 0}}),
        ),
        (
            "a choice in a choice",
            Pipeline::when("input > 0", Pipeline::when("input > 9", add()).otherwise(twice()))
                .otherwise(sum()),
            json!(5),
            json!(10),
        ),
        (
            "none of an inner choice",
            Pipeline::when("input > 0", Pipeline::when("input > 9", add()).otherwise(twice()))
                .otherwise(sum()),
            json!(-5),
            json!({"sum": -5}),
        ),
        (
            "a choice that repeats",
            Pipeline::when("input > 0", twice() * 2).otherwise(add()),
            json!(1),
            json!(4),
        ),
        (
            "a value",
            Pipeline::value(json!({"all": ["{input.a}", 1, {"b": "{input.a} {input.c?}!"}]})),
            json!({"a": 1}),
            json!({"all": [1, 1, {"b": "1 !"}]}),
        ),
        ("braces", Pipeline::value("{{input}}"), json!(1), json!("{input}")),
        ("a tap that fails", add().tap(fails()) >> twice(), json!(1), json!(4)),
        ("a tap at the end", twice().tap(add()), json!(1), json!(2)),
        (
            "a tap at the beginning",
            Pipeline::value("{input}").tap(fails() >> add()),
            json!(1),
            json!(1),
        ),
        (
            "a state",
            add().save("kept") >> twice() >> Pipeline::value("{state.kept} and {input}"),
            json!(1),
            json!("2 and 4"),
        ),
        (
            "a state that changes",
            add().save("kept")
                >> Pipeline::transform([StateTransform::rename([("kept", "moved")])])
                >> Pipeline::value("{state.moved}, {input}"),
            json!(1),
            json!("2, 2"),
        ),
        (
            "a row that saves",
            (add() >> twice()).save("kept") >> Pipeline::value("{state.kept}"),
            json!(1),
            json!(4),
        ),
        (
            "a row beside",
            (add() >> twice()).named("row") | add(),
            json!(1),
            json!({"row": 4, "pipelines_add": 2}),
        ),
        (
            "one that may fail",
            add() | fails().policy(NodePolicy::default().on_error(OnError::Skip)),
            json!(1),
            json!({"pipelines_add": 2, "pipelines_fails": null}),
        ),
        ("a type", add().output::<i64>() >> twice().output::<i64>(), json!(1), json!(4)),
        ("the value itself", Pipeline::value("{input}"), json!({"a": 1}), json!({"a": 1})),
    ];
    for (what, pipeline, input, expected) in each {
        let output = run(&pipeline, input)
            .await
            .unwrap_or_else(|error| panic!("{what}: {error}\n{pipeline:?}"));
        assert_eq!(output, expected, "{what}: {pipeline:?}");
    }
}

#[test]
fn a_pipeline_is_the_graph_that_one_would_write() {
    let call = |tool: &str, given: &str| {
        let with = Mapping::object([("n", Mapping::from(given))]);
        GraphBody::Call(Reference::tool(tool, with))
    };
    let written = Graph::new("made", "pipelines_twice")
        .with(GraphNode::input("input", json!(true)))
        .with(GraphNode::new("pipelines_add", call("pipelines_add", "input")))
        .with(GraphNode::new("pipelines_twice", call("pipelines_twice", "pipelines_add")));
    let graphs = (add() >> twice()).graphs("made").unwrap();
    assert_eq!(graphs, [written]);
    // Grouping the parts differently gives the same graph.
    let (a, b, c) = (add(), twice(), add());
    let left = ((&a >> &b) >> &c).graphs("made").unwrap();
    assert_eq!(left, (&a >> (&b >> &c)).graphs("made").unwrap());
    assert_eq!(
        ((&a | &b) | c.clone().named("c")).graphs("made"),
        (&a | (&b | c.named("c"))).graphs("made")
    );
    // A part that is used three times becomes three nodes.
    let names: Vec<String> = (a.clone() >> &a >> &a).graphs("made").unwrap()[0]
        .nodes
        .iter()
        .map(|node| node.name.clone())
        .collect();
    assert_eq!(names, ["input", "pipelines_add", "pipelines_add_2", "pipelines_add_3"]);
    // The graph can be drawn before a runtime has resolved its names.
    let picture = (a.clone()
        >> Pipeline::when("input > 3", b.clone()).otherwise(Pipeline::value("few")))
    .graphs("made")
    .unwrap()[0]
        .to_mermaid();
    for edge in [
        "n0 --> n1",
        "n1 --> n2",
        "n2 -->|\"pipelines_twice\"| n3",
        "n2 -->|\"value\"| n4",
        "n3 --> n5",
        "n4 --> n5",
    ] {
        assert!(picture.contains(edge), "{edge}\n{picture}");
    }
    // The graph survives the conversion to JSON and back.
    for graph in ((twice() >> add()) * until("item > 5")).graphs("made").unwrap() {
        let again: Graph = serde_json::from_value(graph.to_json()).unwrap();
        assert_eq!(again, graph);
        assert_eq!(again.hash(), graph.hash());
    }
}

#[tokio::test(start_paused = true)]
async fn what_one_writes_of_agents() {
    let model = |text: &'static str| ScriptedModel::from_fn(move |_| Turn::text(text));
    let writer = Agent::new(model("a draft")).name("pipelines_writer");
    let critic = Agent::new(ScriptedModel::from_fn(|request| {
        let asked = request.messages.last().unwrap().text();
        assert_eq!(asked, "Judge: a draft");
        Turn::text("good")
    }))
    .name("pipelines_critic");
    let pipeline = Pipeline::from(&writer) >> Pipeline::from(&critic).with("Judge: {input}");
    let runtime = test_runtime()
        .pipeline("report", &pipeline)
        .pipeline("again", Pipeline::from(&writer))
        .build();
    let run = runtime
        .start_named("report", Encoded::new(&json!({"input": "rust"})).unwrap())
        .await
        .unwrap();
    assert_eq!(run.result().await.unwrap().decode::<String>().unwrap(), "good");
    // The pipelines register the same agent under its name once.
    let run = runtime.start_agent("pipelines_writer", RunRequest::new("go")).await.unwrap();
    assert_eq!(run.result().await.unwrap().decode::<String>().unwrap(), "a draft");
    assert!(
        runtime.catalogue().snapshot().await.problems().is_empty(),
        "{:?}",
        runtime.catalogue().snapshot().await.problems()
    );
}

/// Checks that limits apply to runs of the whole pipeline. Limits of a part have no effect, since a
/// part is not a run.
#[tokio::test(start_paused = true)]
async fn limits_bound_the_runs_of_a_pipeline() {
    let writer =
        Agent::new(ScriptedModel::from_fn(|_| Turn::text("more"))).name("pipelines_limited");
    let rounds = Pipeline::from(&writer) * 3;
    let limits = RunLimits::new().max_llm_calls(2).timeout(Duration::from_secs(60));
    let bounded = rounds.clone().limits(limits);
    let error = run(&bounded, "go").await.unwrap_err().to_string();
    assert!(error.contains("2 model calls"), "{error}");
    assert_eq!(run(&rounds, "go").await.unwrap(), json!("more"));
    // Limits do not change the plan's hash. A part with limits gives the same graphs as one
    // without.
    let (with, without) = (bounded.graphs("made").unwrap(), rounds.graphs("made").unwrap());
    let [.., last] = without.as_slice() else { panic!("there is a workflow") };
    assert_eq!(with.last(), Some(&last.clone().limits(limits)));
    assert_eq!((with.last().unwrap().hash(), with.len()), (last.hash(), without.len()));
    assert_eq!((bounded >> twice()).graphs("made"), (rounds >> twice()).graphs("made"));
    assert_eq!(
        ((add() >> add()).limits(limits) >> twice()).graphs("made"),
        (add() >> add() >> twice()).graphs("made")
    );
}

#[tokio::test(start_paused = true)]
async fn a_gate_waits_for_a_person_and_passes_its_value() {
    let pipeline = add() >> Pipeline::gate("May it be doubled?") >> twice();
    for granted in [true, false] {
        let runtime = test_runtime().pipeline("made", &pipeline).store(MemoryStore::new()).build();
        let handle =
            runtime.start_named("made", Encoded::new(&json!({"input": 1})).unwrap()).await.unwrap();
        let run = handle.run_id().clone();
        let report = loop {
            let report = runtime.run(&run).inspect().await.unwrap();
            if report.run.pause_reason.is_some() {
                break report;
            }
            assert!(!report.run.status.has_ended(), "nobody was asked");
            tokio::task::yield_now().await;
        };
        let asked = report.nodes.iter().find(|node| &*node.name == "gate").unwrap();
        assert_eq!(
            asked.about.as_ref().map(Encoded::as_str),
            Some(r#"{"pipelines_add":2}"#),
            "{asked:?}"
        );
        let answer = if granted { Approval::granted() } else { Approval::denied("no") };
        runtime.run(&run).approve("gate", answer, "ada").await.unwrap();
        let ended = handle.result().await;
        match granted {
            true => assert_eq!(ended.unwrap().as_str(), "4"),
            false => {
                assert!(
                    ended.unwrap_err().to_string().contains("denied"),
                    "a denial fails the run"
                );
            }
        }
    }
}

/// Checks that every kind of node asks the question of its policy before it starts.
#[tokio::test(start_paused = true)]
async fn every_node_that_has_a_question_asks_it() {
    let asks = NodePolicy::default().approve("May it?");
    let value = || GraphBody::Value(Mapping::from("input"));
    let arms = |arm: &str| Routes::first([Route::otherwise(arm)]);
    for (kind, does) in [
        ("value", value()),
        ("router", GraphBody::Route(arms("x"))),
        (
            "call",
            GraphBody::Call(Reference::tool(
                "pipelines_add",
                Mapping::object([("n", Mapping::from("input"))]),
            )),
        ),
        (
            "map",
            GraphBody::Map {
                items: "input".into(),
                call: Reference::tool(
                    "pipelines_add",
                    Mapping::object([("n", Mapping::Item(String::new()))]),
                ),
            },
        ),
        ("transform", GraphBody::Transform(vec![StateTransform::default_value("tone", "dry")])),
    ] {
        let input = if kind == "map" { json!([1]) } else { json!(1) };
        let graph = Graph::new("asks", "asked")
            .with(GraphNode::input("input", json!(true)))
            .with(GraphNode::new("asked", does).policy(asks.clone()));
        let runtime = test_runtime().graph(graph).store(MemoryStore::new()).build();
        let handle = runtime
            .start_named("asks", Encoded::new(&json!({"input": input})).unwrap())
            .await
            .unwrap();
        let run = handle.run_id().clone();
        within("the run to ask", async {
            while runtime.run(&run).inspect().await.unwrap().run.pause_reason.is_none() {
                assert!(
                    !runtime.run(&run).inspect().await.unwrap().run.status.has_ended(),
                    "{kind}: nobody was asked"
                );
                tokio::task::yield_now().await;
            }
        })
        .await;
        runtime.run(&run).approve("asked", Approval::denied("no"), "ada").await.unwrap();
        assert!(
            handle.result().await.unwrap_err().to_string().contains("approval denied: no"),
            "{kind}"
        );
    }
    for (node, says) in [
        (GraphNode::input("asked", json!(true)), "an input is there from the beginning"),
        (
            GraphNode::new("asked", GraphBody::Ask(Question::new("Well?"))),
            "a gate asks one question",
        ),
    ] {
        let graph = Graph::new("asks", "out")
            .with(node.policy(asks.clone()))
            .with(GraphNode::new("out", GraphBody::Value(Mapping::from("asked"))));
        let error = test_runtime()
            .graph(graph)
            .build()
            .catalogue()
            .workflow_graph("asks")
            .map(drop)
            .unwrap_err()
            .to_string();
        assert!(error.contains(says), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_tap_changes_nothing() {
    let writes = Pipeline::tool("pipelines_writes").with(json!({"n": "{input}"}));
    let pipeline = add().tap(writes.clone()) >> Pipeline::value("{state.written?}{input}");
    assert_eq!(run(&pipeline, 1).await.unwrap(), json!("2"));
    let pipeline = add() >> writes >> Pipeline::value("{state.written?}{input}");
    assert_eq!(run(&pipeline, 1).await.unwrap(), json!("22"));
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_each_write() {
    let note = || Pipeline::tool("pipelines_note").with(json!({"n": "{input}"}));
    let pipeline = (add() | note())
        >> Pipeline::value("{input.pipelines_note}").save("noted")
        >> (fails() / (note() >> twice()))
        >> Pipeline::when("input > 3", (twice() >> note()) * until("item > 20")).otherwise(add())
        >> Pipeline::value(json!(["{input}"]))
        >> Pipeline::map_over(note() >> add())
        >> Pipeline::value("{state.noted}: {input}");
    let log = EffectLog::new();
    let crashes = every_crash(
        |store| {
            test_runtime().pipeline("made", &pipeline).resource(log.clone()).store(store).build()
        },
        "made",
        json!({"input": 3}),
        |output, _, _, place| assert_eq!(*output, json!("3: [25]"), "{place}"),
    )
    .await;
    assert!(crashes > 40, "{crashes}");
}

/// Decide about calls.
#[tool(effects = "none")]
fn pipelines_guide(next: NextNode) -> NodeDecision {
    let arguments = match (next.node.as_str(), next.arguments["n"].as_i64()) {
        ("pipelines_note", _) => {
            return NodeDecision::Skip { reason: "nobody needs it".to_owned() };
        }
        ("pipelines_add", Some(n)) if n < 10 => json!({"n": n + 10}),
        _ => return NodeDecision::Continue,
    };
    NodeDecision::Revise { arguments, reason: "it is small".to_owned() }
}

/// Decide that nothing is to be done otherwise.
#[tool(effects = "none")]
fn pipelines_lets(next: NextNode) -> NodeDecision {
    let _ = next;
    NodeDecision::Continue
}

#[tokio::test(start_paused = true)]
async fn a_decider_is_asked_before_each_call() {
    let note = || Pipeline::tool("pipelines_note").with(json!({"n": "{input}"}));
    let guided = Decider::tool("pipelines_guide");
    // 1 + 10 + 1 = 12. The rounds run in an inner workflow, and the decider decides about their
    // calls too.
    let pipeline = add().tap(note()) >> ((twice() >> add()) * 2);
    let all = pipeline.clone().decider(guided.clone());
    let (log, without) = (EffectLog::new(), EffectLog::new());
    let crashes = every_crash(
        |store| test_runtime().pipeline("made", &all).resource(log.clone()).store(store).build(),
        "made",
        json!({"input": 1}),
        |output, _, _, place| assert_eq!(*output, json!(51), "{place}"),
    )
    .await;
    assert!(crashes > 20, "{crashes}");
    assert!(log.counts().is_empty(), "{:?}", log.counts());
    let plain = test_runtime().pipeline("made", &pipeline).resource(without.clone()).build();
    let output =
        plain.start_named("made", json!({"input": 1})).await.unwrap().result().await.unwrap();
    assert_eq!((output.as_str(), without.counts().len()), ("11", 1), "{:?}", without.counts());
    // A part can have its own decider. The other parts have the decider of the whole pipeline, or
    // none.
    for (part, output) in [
        (add() >> add().decider(guided.clone()), json!(13)),
        (add() >> (twice() >> add()).decider(guided.clone()), json!(15)),
        (
            (add() >> add().decider(Decider::tool("pipelines_lets"))).decider(guided.clone()),
            json!(13),
        ),
        (fails() / add().decider(guided.clone()), json!(12)),
        (
            Pipeline::value(json!([1, 2])) >> Pipeline::map_over(add().decider(guided.clone())),
            json!([12, 13]),
        ),
        (add() >> add().named("more").timeout(Duration::from_secs(1)).decider(guided), json!(3)),
    ] {
        assert_eq!(run(&part, 1).await.unwrap(), output, "{part:?}");
    }
}

#[tokio::test]
async fn mistakes_are_named_all_at_once() {
    let pipeline = Pipeline::value("{input").named("a")
        >> Pipeline::when("input >", add()).otherwise(add())
        >> (add() | add())
        >> (twice() * until("item > ").max(3))
        >> twice().times(0)
        >> (add() >> twice()).named("two words")
        >> Pipeline::gate("May it?").with(json!(1));
    let error = pipeline.graphs("made").unwrap_err().to_string();
    for says in [
        "the part `a`: the text `{input`: ",
        "the part `choice`: the condition `input >`: the expression ends at byte 7, and a value should follow",
        "two parts that run at the same time are named `pipelines_add`, and their outputs are fields of one object; name one with `named`",
        "the part `pipelines_twice`: the condition `item > `: ",
        "the part `pipelines_twice` is repeated at most 0 times; give it at least 1",
        "a part cannot be named `two words`: its name is used in templates and conditions; use letters, digits and `_`",
        "the part `gate`: only a call takes another value; put `Pipeline::value(..) >>` before it",
    ] {
        assert!(error.contains(says), "{says}\n{error}");
    }
    let runtime = test_runtime().pipeline("made", &pipeline).build();
    let found = runtime
        .start_named("made", Encoded::new(&json!({"input": 1})).unwrap())
        .await
        .map(drop)
        .unwrap_err();
    assert!(found.to_string().contains("give it at least 1"), "{found}");
    assert!(
        runtime
            .catalogue()
            .snapshot()
            .await
            .problems()
            .iter()
            .any(|problem| problem.to_string().contains("two words"))
    );
    // Mistakes that only the lookup of names and types can find.
    for (pipeline, says) in [
        (Pipeline::tool("pipelines_ad"), "did you mean `pipelines_add`?"),
        (Pipeline::tool("pipelines_add"), "pipelines_add"),
        (Pipeline::tool("pipelines_add").with(json!({"m": "{input}"})), "has no argument `m`"),
        (Pipeline::value("{inputs}"), "did you mean `input`?"),
        (Pipeline::value(json!({"a": 1})) >> Pipeline::value("{input.b}"), "it has no `b`"),
        (Pipeline::value("text") >> twice(), "`n`"),
        (add().output::<String>(), "its output, by its `schema`, does not fit"),
        (Pipeline::value("text") >> Pipeline::map_over(add()), "the list of items"),
        (twice() * until("input > 3"), "it sees the last output alone: `item` in a line of CEL"),
        (Pipeline::race(Vec::<Pipeline>::new()), "has no branches"),
    ] {
        let error = run(&pipeline, "text").await.unwrap_err().to_string();
        assert!(error.contains(says), "{pipeline:?}\n{error}");
    }
    // No condition holds and there is no `otherwise`.
    let error =
        run(&Pipeline::from(Pipeline::when("input > 3", add())), 1).await.unwrap_err().to_string();
    assert!(error.contains("choice"), "{error}");
}

/// Nests pipelines of every kind in each other.
#[test]
fn random_pipelines_are_graphs_that_can_be_read() {
    use proptest::prelude::*;
    let leaf = prop_oneof![
        Just(add()),
        Just(twice().save("kept")),
        Just(fails().retry(1)),
        Just(Pipeline::value(json!({"v": "{input}"}))),
        Just(Pipeline::gate("May it?")),
        Just(Pipeline::transform([StateTransform::default_value("tone", "dry")])),
        Just(Pipeline::agent("somebody")),
    ];
    let pipeline = leaf.prop_recursive(5, 24, 3, |inner| {
        let two = || (inner.clone(), inner.clone());
        prop_oneof![
            two().prop_map(|(a, b)| a >> b),
            two().prop_map(|(a, b)| a.named("one") | b.named("other")),
            two().prop_map(|(a, b)| a / b),
            inner.clone().prop_map(|a| a * 2),
            inner.clone().prop_map(|a| a * until("item == 1")),
            inner.clone().prop_map(Pipeline::map_over),
            two().prop_map(|(a, b)| Pipeline::race([a, b])),
            two().prop_map(|(a, b)| Pipeline::when("input == 1", a).otherwise(b)),
            two().prop_map(|(a, b)| a.tap(b)),
            inner.clone().prop_map(|a| a.save("saved").timeout(Duration::from_secs(1))),
        ]
    });
    let config =
        ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(pipeline in pipeline)| {
        let graphs = pipeline.graphs("made").unwrap();
        for graph in &graphs {
            let again: Graph = serde_json::from_value(graph.to_json()).unwrap();
            prop_assert_eq!(&again, graph);
            let names: std::collections::BTreeSet<_> = graph.nodes.iter().map(|node| &node.name).collect();
            prop_assert_eq!(names.len(), graph.nodes.len());
        }
        let names: std::collections::BTreeSet<_> = graphs.iter().map(|graph| &graph.name).collect();
        prop_assert_eq!(names.len(), graphs.len());
        // The remaining problems are about names and types.
        let runtime = graphs.into_iter().fold(test_runtime(), |runtime, graph| runtime.graph(graph)).build();
        let error = runtime.catalogue().workflow_graph("made").map(drop).err().map(|error| error.to_string()).unwrap_or_default();
        let known = ["no agent `somebody`", "is expected, and", "which are never equal", "both save", "each of them saves", "is a tap, and", "does not fit"];
        for line in error.lines() {
            prop_assert!(known.iter().any(|known| line.contains(known)), "{}", line);
        }
    });
}

#[tokio::test(start_paused = true)]
async fn a_map_over_a_value_that_is_not_a_list_fails() {
    let found = [
        (json!({"names": ["ada"]}), "an object"),
        (json!(7), "a number"),
        (json!("ada"), "a text"),
        (json!(true), "a boolean"),
        (json!(null), "`null`"),
    ];
    for (input, what) in found {
        for each in [Pipeline::map_over(add()), Pipeline::map_over(add() >> twice())] {
            let error = run(&each, input.clone()).await.unwrap_err().to_string();
            assert!(
                error.contains("a list of items is expected") && error.contains(what),
                "{input}: {error}"
            );
        }
    }
    // The same for a handwritten graph.
    let call =
        json!({"kind": "tool", "name": "pipelines_add", "with": {"object": {"n": {"item": ""}}}});
    let graph: Graph = serde_json::from_value(json!({
        "version": 1, "name": "mapped", "output": "out", "concurrency": 1,
        "nodes": [{"name": "all", "kind": "input"}, {"name": "out", "does": {"map": {"items": "all", "call": call}}}],
    }))
    .unwrap();
    let runtime = test_runtime().graph(graph).store(MemoryStore::new()).build();
    let input = Encoded::new(&json!({"all": {"n": 1}})).unwrap();
    let run = runtime.start_named("mapped", input).await.unwrap();
    let error = run.result().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the step `out` failed: a list of items is expected, and `all` is an object: `{\"n\":1}`"
    );
    agentflow_testing::check_events(&runtime.run(run.run_id()).journal().await.unwrap()).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_router_without_a_matching_arm_shows_the_values_that_it_read() {
    let graph: Graph = serde_json::from_value(json!({
        "version": 1, "name": "routed", "output": "out", "concurrency": 1,
        "nodes": [
            {"name": "kind", "kind": "input"},
            {"name": "way", "does": {"route": {"arms": [
                {"arm": "big", "when": {"is": {"from": "kind", "at": "/big"}}},
                {"arm": "toned", "when": {"equals": [{"state": "tone"}, {"value": "dry"}]}}]}}, "edges": [{"from": "set"}]},
            {"name": "set", "does": {"value": {"value": "kind"}}, "saves": {"tone": ""}},
            {"name": "out", "does": {"value": {"from": "way"}}},
        ],
    }))
    .unwrap();
    let runtime = test_runtime().graph(graph).store(MemoryStore::new()).build();
    let input = Encoded::new(&json!({"kind": {"big": false}})).unwrap();
    let error = runtime.start_named("routed", input).await.unwrap().result().await.unwrap_err();
    assert_eq!(error.kind(), "route_unmatched");
    let error = error.to_string();
    for part in
        ["`big` if ", "`toned` if ", r#"`kind` is {"big":false}"#, r#"`state.tone` is "kind""#]
    {
        assert!(error.contains(part), "{part} in {error}");
    }
}

//! Tests nodes that transform the state, and taps, which must not change it: also with a crash at
//! each write, on a worker, and in nested calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use agentflow::prelude::*;
use agentflow::state::StateTransform;
use agentflow::store::MemoryStore;
use agentflow::tool::{Effects, FnTool, ToolDefinition, ToolPolicy};
use agentflow::value::Encoded;
use agentflow::workflow::{Graph, GraphBody, GraphEdge, GraphNode, Mapping, NodePolicy};
use agentflow_testing::{check_events, test_runtime};
use agentflow_tests::Elsewhere;
use serde_json::{Value, json};

use crate::every_crash::every_crash;
use crate::state::{call, graph};

static TONE: StateKey<String> = StateKey::session("tone");

/// Watch what is there.
#[tool(effects = "none")]
async fn transform_watches(cx: &Context) -> Result<String> {
    Ok(cx.state(&TONE).await?.unwrap_or_default())
}

/// Decide how to write.
#[tool(effects = "none")]
async fn transform_sets_tone(cx: &Context, tone: String) -> Result<()> {
    cx.set(&TONE, &tone)
}

/// Returns a graph with every kind of transform, for keys of all scopes.
fn transform_graph() -> Graph {
    let nodes = json!([
        {"name": "notes", "kind": "input", "schema": {"type": "object"}},
        {"name": "found", "does": {"value": {"from": "notes"}}, "saves": {"*": "", "user:name": "/name", "temp:rough": "/mark"}},
        {"name": "change", "edges": [{"from": "found"}], "does": {"transform": [
            {"merge": {"sources": ["law", "market", "nothing"], "into": "text", "separator": "; "}},
            {"rename": {"name": "who", "missing": "elsewhere"}},
            {"default": {"tone": "dry", "who": "nobody"}},
            {"map": {"greeting": "Dear {user:name} ({who}){temp:rough?}", "copy": "{count}"}},
            {"pick": ["text", "who", "tone", "greeting", "copy"]},
            {"drop": ["user:name"]},
        ]}},
        {"name": "out", "edges": [{"from": "change"}],
         "does": {"value": {"object": {"set": {"from": "change"}, "seen": {"state": ""},
            "name": {"state": "user:name", "or": "gone"}}}}},
    ]);
    graph("handed-over", "out", nodes)
}

#[tokio::test(start_paused = true)]
async fn all_transforms_also_with_a_crash_at_every_write() {
    let input = json!({"notes": {"law": "yes", "market": "no", "name": "Ada", "count": 3, "mark": "!", "left": true}});
    let state = json!({"text": "yes; no", "who": "Ada", "tone": "dry", "greeting": "Dear Ada (Ada)!", "copy": 3});
    let crashes = every_crash(
        |store| test_runtime().graph(transform_graph()).store(store).build(),
        "handed-over",
        input,
        |output, values, journal, how| {
            // Temporary keys are lost when another process resumes the run.
            let text = |value: &Value| {
                let mut value = value.clone();
                value.as_object_mut().unwrap().remove("temp:rough");
                value.to_string().replace("(Ada)!", "(Ada)")
            };
            let expected = text(&state);
            let found = [&output["set"], &output["seen"], values].map(text);
            assert!(found.iter().all(|found| *found == expected), "{how}: {found:#?}\n{expected}");
            assert_eq!(output["name"], "gone", "{how}");
            check_events(&journal).unwrap();
        },
    );
    assert!(crashes.await > 4);
}

#[tokio::test]
async fn a_step_changes_the_state_by_data() {
    #[workflow]
    async fn transform_in_code(cx: &Context) -> Result<String> {
        transform_sets_tone(cx, "dry".to_owned()).await?;
        let tone = moves(cx).await?;
        Ok(tone)
    }

    async fn moves(cx: &Context) -> Result<String> {
        cx.transform(&[
            StateTransform::rename([("tone", "voice")]),
            StateTransform::default_value("tone", "wet"),
        ])
        .await?;
        let voice: StateKey<String> = "voice".parse().unwrap();
        let both = (cx.state(&TONE).await?, cx.state(&voice).await?);
        Ok(format!("{both:?}"))
    }

    let runtime = test_runtime().build();
    assert_eq!(
        transform_in_code(&runtime.context()).await.unwrap(),
        r#"(Some("wet"), Some("dry"))"#
    );
    let cx = runtime.context();
    let error = |change| {
        let cx = cx.clone();
        async move { cx.transform(change).await.unwrap_err().to_string() }
    };
    // `transform` accepts one change, a list, or a borrowed list.
    cx.transform(StateTransform::default_value("tone", "dry")).await.unwrap();
    cx.transform(vec![
        StateTransform::rename([("tone", "voice")]),
        StateTransform::map("said", "in a {voice} voice").unwrap(),
    ])
    .await
    .unwrap();
    let said: StateKey<String> = StateKey::session("said");
    assert_eq!(cx.state(&said).await.unwrap().as_deref(), Some("in a dry voice"));
    let wrong = error(StateTransform::merge(["tone"], "how many")).await;
    assert!(
        wrong.contains("the state `merge`: `how many` is not the name of a state key"),
        "{wrong}"
    );
    let wrong = error(StateTransform::default_value("user:name", "Ada")).await;
    assert!(
        wrong.contains("the state `user:name`: the run has no caller whose value it is"),
        "{wrong}"
    );
    let wrong = error(StateTransform::map("text", "{tone}").unwrap()).await;
    assert!(
        wrong.contains("the state `text`: the placeholder `{tone}`: the state has no `tone`"),
        "{wrong}"
    );
}

#[tokio::test]
async fn a_step_that_is_executed_elsewhere_changes_the_same_and_a_tap_changes_nothing() {
    let nodes = json!([
        {"name": "n", "kind": "input"},
        {"name": "kept", "does": call("transform_sets_tone", json!({"object": {"tone": {"from": "n"}}}))},
        {"name": "change", "does": {"transform": [{"rename": {"tone": "voice"}}]}, "edges": [{"from": "kept"}]},
        {"name": "watch", "does": call("transform_watches", json!({"object": {}})), "edges": [{"from": "change"}], "policy": {"tap": true}},
        {"name": "out", "does": {"value": {"list": [{"state": ""}, {"from": "watch"}]}}},
    ]);
    let ok = graph("far-transform", "out", nodes.clone());
    let mut nodes = nodes;
    nodes[1]["policy"] = json!({"tap": true});
    let wrong = graph("far-tap", "out", nodes);
    let build = || {
        test_runtime()
            .tools(tools![transform_sets_tone, transform_watches])
            .graph(ok.clone())
            .graph(wrong.clone())
    };
    for runtime in [build(), build().executor(Elsewhere::on_thread(build().build()))] {
        let runtime = runtime.store(MemoryStore::new()).build();
        let input = || Encoded::new(&json!({"n": "dry"})).unwrap();
        let output =
            runtime.start_named("far-transform", input()).await.unwrap().result().await.unwrap();
        assert_eq!(output.decode::<Value>().unwrap(), json!([{"voice": "dry"}, ""]));
        let handle = runtime.start_named("far-tap", input()).await.unwrap();
        let id = handle.run_id().clone();
        let error = handle.result().await.unwrap_err().to_string();
        assert!(
            error.contains("this step is a tap, which sees the state and changes nothing of it"),
            "{error}"
        );
        assert!(runtime.run(&id).state().await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn what_a_tap_calls_changes_nothing_however_deep() {
    /// Sets a key, and says whether it could.
    #[tool(effects = "none")]
    async fn transform_tries(cx: &Context) -> Result<Vec<String>> {
        let mut refused = Vec::new();
        let mut note =
            |result: Result<()>| refused.extend(result.err().map(|error| error.to_string()));
        note(cx.set(&TONE, &"dry".to_owned()));
        note(cx.remove(&TONE));
        note(cx.exit_loop());
        note(cx.transform(&[StateTransform::drop(["tone"])]).await);
        note(cx.save_artifact("a.txt", "x", "text/plain").await.map(drop));
        Ok(refused)
    }

    #[workflow]
    async fn transform_inner(cx: &Context) -> Result<Vec<String>> {
        let tried = transform_tries(cx).await?;
        Ok(tried)
    }

    #[workflow]
    async fn transform_outer(cx: &Context) -> Result<Vec<String>> {
        #[node(tap)]
        let within = transform_inner(cx).await?;
        #[node(tap)]
        let tried = transform_tries(cx).await?;
        let free = transform_tries(cx).await?;
        Ok([within, tried, free].concat())
    }

    let workflow = transform_outer::workflow();
    let (mermaid, dot) = (workflow.graph().to_mermaid(), workflow.graph().to_dot());
    assert_eq!(mermaid.matches("observes").count(), 2, "{mermaid}");
    assert_eq!(mermaid.matches("stroke-dasharray: 4 4").count(), 2, "{mermaid}");
    assert_eq!(dot.matches("observes\", shape=").count(), 2, "{dot}");
    assert_eq!(dot.matches("style=dashed").count(), 2, "{dot}");

    let runtime = test_runtime().store(MemoryStore::new()).build();
    let handle = runtime.start(transform_outer::workflow(), ()).await.unwrap();
    let id = handle.run_id().clone();
    let refused = handle.result().await.unwrap();
    assert_eq!(refused.len(), 10, "{refused:#?}");
    assert!(refused.iter().all(|error| error.contains("this step is a tap")), "{refused:#?}");
    // Artifacts are refused within taps too. The third call is not a tap and saves one.
    assert_eq!(runtime.run(&id).artifacts().await.unwrap().len(), 1);
}

#[tokio::test]
async fn the_items_the_branches_and_the_rounds_of_a_tap_change_nothing() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let sets = || {
        let counted = Arc::clone(&counted);
        let definition =
            ToolDefinition::new("transform_counts", "Sets a key.", json!({"type": "object"}))
                .policy(ToolPolicy::default().effects(Effects::None));
        FnTool::dynamic(definition, move |cx: Context, _: Value| {
            counted.fetch_add(1, Ordering::SeqCst);
            let set = cx.set(&TONE, &"dry".to_owned()).map_err(|error| error.to_string());
            async move { set.map(|()| 1) }
        })
    };
    let with = json!({"object": {}});
    let one = json!({"kind": "tool", "name": "transform_counts", "with": with});
    for does in [
        json!({"map": {"items": "list", "call": one}}),
        json!({"race": [one]}),
        json!({"fallback": [one, one]}),
        json!({"repeat": {"first": "list", "max": 2, "call": one}}),
    ] {
        let nodes = json!([
            {"name": "list", "kind": "input", "schema": {"type": "array"}},
            {"name": "out", "does": does, "policy": {"tap": true}},
        ]);
        let runtime = test_runtime().tools([sets()]).graph(graph("taps", "out", nodes)).build();
        let handle = runtime
            .start_named("taps", Encoded::new(&json!({"list": [1, 2]})).unwrap())
            .await
            .unwrap();
        let error = handle.result().await.unwrap_err().to_string();
        assert!(error.contains("this step is a tap"), "{does}: {error}");
    }
    assert!(calls.load(Ordering::SeqCst) >= 4);
}

#[test]
fn mistakes_are_found_when_the_graph_is_read() {
    let nodes = json!([
        {"name": "page", "kind": "input", "schema": {"type": "object"}, "policy": {"tap": true}},
        {"name": "a", "does": {"transform": [{"map": {"text": "{page.title} {toen} {tone} {some?} {state.x} {text}"}}]}},
        {"name": "b", "does": {"transform": [{"pick": ["user:x"]}, {"drop": ["how many"]}]}},
        {"name": "c", "does": {"transform": []}},
        {"name": "d", "does": {"transform": [{"default": {"tone": 1}}]}, "policy": {"tap": true}},
        {"name": "e", "does": {"value": {"from": "page"}}, "policy": {"tap": true}},
        {"name": "f", "does": call("transform_watches", json!({"object": {}})), "saves": {"watched": ""}, "policy": {"tap": true}},
        {"name": "out", "does": {"value": {"value": 1}}},
    ]);
    let runtime =
        test_runtime().tools(tools![transform_watches]).graph(graph("wrong", "out", nodes)).build();
    let error = runtime.catalogue().workflow_graph("wrong").unwrap_err().to_string();
    let expected = [
        "the node `a` has the placeholder `{page.title}`, and a change of the state sees the state alone; save the output of \
         `page` with `saves`, or make the text in a node of `value`",
        "the node `a` has the placeholder `{toen}`, and no node, no input and no key that is saved is named so; did you mean `tone`?",
        "the node `b`: `pick` lists the keys of the session to keep, and `user:x` is kept in any case; remove it",
        "the node `b`: `how many` is not the name of a state key",
        "the node `c` changes nothing; name a change",
        "`page` is a tap, and it is not a step",
        "`d` is a tap, and it changes the state itself",
        "`e` is a tap, and it is not a step",
        "`f` is a tap, and it changes the state itself",
    ];
    for says in expected {
        assert!(error.contains(says), "{says}\n{error}");
    }
    assert_eq!(error.lines().count(), expected.len(), "{error}");

    let unknown = json!({"version": 1, "name": "w", "output": "a", "concurrency": 1, "nodes": [
        {"name": "a", "does": {"transform": [{"picks": ["a"]}]}}]});
    let error = serde_json::from_value::<Graph>(unknown).unwrap_err().to_string();
    assert!(error.contains("did you mean `pick`?"), "{error}");
}

#[test]
fn the_hash_and_the_stored_form_have_them() {
    let hash = |does: GraphBody| Graph::new("h", "out").with(GraphNode::new("out", does)).hash();
    let of = |transforms: Vec<StateTransform>| hash(GraphBody::Transform(transforms));
    assert_ne!(of(vec![StateTransform::pick(["a"])]), of(vec![StateTransform::pick(["b"])]));
    assert_ne!(of(vec![StateTransform::pick(["a"])]), of(vec![StateTransform::drop(["a"])]));
    let node = || {
        GraphNode::new("out", GraphBody::Value(Mapping::Value(json!(1))))
            .edge(GraphEdge::from("in"))
    };
    let tapped = |policy| Graph::new("h", "out").with(node().policy(policy)).hash();
    assert_ne!(tapped(NodePolicy::default()), tapped(NodePolicy::default().tap()));
    let read = test_runtime()
        .graph(transform_graph())
        .build()
        .catalogue()
        .workflow_graph("handed-over")
        .unwrap();
    let again: Graph = serde_json::from_str(&serde_json::to_string(&read).unwrap()).unwrap();
    assert_eq!(again, read);
}

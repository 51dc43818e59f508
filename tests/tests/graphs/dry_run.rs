//! Tests dry runs of workflows, graphs and agents: their contents, and that they have no effects.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use agentflow::agent::{AgentOutline, AgentSettings};
use agentflow::error::FailureKind;
use agentflow::prelude::*;
use agentflow::tool::{Effects, FnTool, ToolDefinition, ToolPolicy};
use agentflow::workflow::Graph;
use agentflow_testing::{ScriptedModel, test_runtime, within};
use serde_json::{Value, json};

/// Looks something up.
#[tool(effects = "read", scopes(library))]
async fn dry_look_up(word: String) -> String {
    panic!("{word} is looked up, though nothing is to be done")
}

/// Sends it to somebody.
#[tool(approve, timeout = "3s")]
async fn dry_send_to(to: String, text: String) -> u32 {
    panic!("{text} is sent to {to}, though nothing is to be done")
}

/// Look at {words}.
#[agent(model = "openai/gpt-5-mini", tools = [dry_look_up])]
async fn dry_judge(words: String) -> Result<u8>;

#[workflow]
async fn dry_letter(one: String, other: String, to: String) -> Result<u32> {
    let first = dry_look_up(one).await;
    let second = dry_look_up(other).await;
    let grade = dry_judge(format!("{first} {second}")).await?;
    let all = map!(vec![first.clone(), second.clone()], |word| dry_look_up(word)).await?;
    let sent = if grade > 3 { dry_send_to(to, all.join(" ")).await } else { 0 };
    Ok(sent)
}

fn counting(called: &Arc<AtomicU32>) -> FnTool {
    let called = Arc::clone(called);
    let schema =
        json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let policy = ToolPolicy::default().effects(Effects::None).scopes(["numbers"]);
    FnTool::dynamic(
        ToolDefinition::new("dry_count", "Counts.", schema).policy(policy),
        move |_, _: Value| {
            called.fetch_add(1, Ordering::SeqCst);
            async { Ok::<_, String>(1) }
        },
    )
    .output_schema(json!({"type": "integer", "minimum": 0}))
}

#[test]
fn the_nodes_that_can_begin_follow_from_those_that_have_ended() {
    let graph = dry_letter::workflow().graph();
    let ready = |ended: &[&str]| -> Vec<String> {
        graph.ready_nodes(ended).iter().map(|node| node.name.clone()).collect()
    };
    assert_eq!(ready(&[]), ["first", "second"], "inputs count as ended");
    assert_eq!(ready(&["first"]), ["second"]);
    assert!(ready(&["first", "second"]).contains(&"grade".to_owned()));
    // Repeating this runs through all nodes, each once.
    let mut ended: Vec<String> = Vec::new();
    loop {
        let next: Vec<String> =
            graph.ready_nodes(&ended).iter().map(|node| node.name.clone()).collect();
        if next.is_empty() {
            break;
        }
        ended.extend(next);
    }
    let inputs = graph.inputs().count();
    assert_eq!(ended.len() + inputs, graph.nodes.len(), "{ended:?}");
    let data = json!({
        "version": 1, "name": "hurried", "output": "out", "concurrency": 2,
        "nodes": [
            {"name": "a", "does": {"transform": []}},
            {"name": "b", "does": {"transform": []}},
            {"name": "out", "does": {"transform": []}, "edges": [{"from": "a"}, {"from": "b"}], "begins": "any"},
        ],
    });
    let mut data: Value = data;
    for node in ["a", "b"] {
        let ready = |begins: &str, data: &mut Value| {
            data["nodes"][2]["begins"] = json!(begins);
            let graph: Graph = serde_json::from_value(data.clone()).unwrap();
            graph.ready_nodes(&[node]).iter().any(|ready| ready.name == "out")
        };
        assert!(ready("any", &mut data) && !ready("all", &mut data));
    }
}

#[test]
fn the_steps_of_a_function_are_in_order_with_what_they_need() {
    let dry = dry_letter::workflow().dry_run();
    assert_eq!((dry.what, &*dry.name), ("workflow", "dry_letter"));
    assert_eq!(dry.input["required"], json!(["one", "other", "to"]));
    assert_eq!(dry.stages()[0], ["first", "second"]);
    let grade = dry.step("grade").unwrap();
    assert_eq!(grade.reads.iter().map(|read| &*read.node).collect::<Vec<_>>(), ["first", "second"]);
    assert_eq!(
        (grade.calls[0].what, &*grade.calls[0].name, grade.stage),
        ("agent", "dry_judge", 2)
    );
    assert_eq!(grade.gives["type"], "integer");
    let sent = dry.steps.iter().find(|step| step.asks.is_some()).unwrap();
    assert!(
        sent.name.starts_with("sent/")
            && sent.timeout_ms == Some(3000)
            && sent.writes
            && !sent.repeatable,
        "{sent:#?}"
    );
    assert!(sent.when[0].starts_with("`sent` takes `"), "{sent:#?}");
    assert_eq!(dry.scopes().into_iter().collect::<Vec<_>>(), ["library"]);
    // Each step comes after the steps that it reads or waits for.
    for (at, step) in dry.steps.iter().enumerate() {
        for before in step.reads.iter().map(|read| &read.node).chain(&step.after) {
            let stands = dry.steps.iter().position(|other| other.name == *before);
            assert!(stands.is_none_or(|stands| stands < at), "{} reads {before}", step.name);
        }
    }
    let text = dry.to_string();
    assert!(
        text.starts_with(
            "workflow dry_letter(one: string, other: string, to: string) -> integer from 0"
        ),
        "{text}"
    );
    assert!(text.contains("calls the tool dry_look_up, reads, needs the scopes library"), "{text}");
    let json = serde_json::to_value(&dry).unwrap();
    assert_eq!(json["steps"][0]["calls"][0]["policy"]["effects"], "read");
}

#[tokio::test]
async fn a_graph_is_traced_with_its_conditions_and_schemas() {
    let called = Arc::new(AtomicU32::new(0));
    let call = json!({"call": {"kind": "tool", "name": "dry_count", "with": {"object": {"n": {"from": "n"}}}}});
    let graph: Graph = serde_json::from_value(json!({"version": 1, "name": "dry", "output": "out", "concurrency": 2, "nodes": [
        {"name": "n", "kind": "input", "schema": {"type": "integer"}},
        {"name": "way", "does": {"route": {"arms": [{"arm": "some", "when": {"is": {"value": true}}}, {"arm": "none"}]}}},
        {"name": "one", "does": call, "edges": [{"from": "way", "arm": "some"}]},
        {"name": "two", "does": call, "edges": [{"from": "one", "failed": true}]},
        {"name": "asked", "does": {"ask": {"text": "is it right?"}}},
        {"name": "out", "begins": {"join": 2}, "edges": [{"from": "one"}, {"from": "two"}, {"from": "asked"}],
         "does": {"value": {"list": [{"from": "one", "or": null}, {"from": "two", "or": null}]}}, "ends": true},
    ]}))
    .unwrap();
    let judge = Agent::new(ScriptedModel::new([])).name("dry-agent");
    let runtime = test_runtime().tools(counting(&called)).graph(graph).agent(&judge).build();
    let dry = runtime.catalogue().dry_run("dry").await.unwrap();
    assert_eq!(called.load(Ordering::SeqCst), 0);
    assert_eq!(dry.step("one").unwrap().when, ["`way` takes `some`"]);
    assert_eq!(dry.step("one").unwrap().gives, json!({"type": "integer", "minimum": 0}));
    assert_eq!(dry.step("two").unwrap().when, ["`one` has failed"]);
    assert_eq!(dry.step("asked").unwrap().asks.as_deref(), Some("is it right?"));
    let out = dry.step("out").unwrap();
    assert_eq!((out.enough, out.ends, out.when.len()), (Some(2), true, 3));
    assert!(out.reads.iter().all(|read| read.optional), "{out:#?}");
    assert_eq!(dry.output["prefixItems"].as_array().unwrap().len(), 2);
    assert_eq!(dry.scopes().into_iter().collect::<Vec<_>>(), ["numbers"]);
    // The name may also belong to an agent.
    assert_eq!(runtime.catalogue().dry_run("dry-agent").await.unwrap().what, "agent");
    let unknown = runtime.catalogue().dry_run("dri").await.unwrap_err().to_string();
    assert_eq!(unknown, "this program has no workflow `dri`; did you mean `dry`?");
}

#[tokio::test]
async fn an_agent_is_drawn_with_its_team() {
    let called = Arc::new(AtomicU32::new(0));
    let helper = Agent::new("openai/gpt-5-mini")
        .name("helper")
        .tools(tools![dry_send_to])
        .settings(AgentSettings::new().grant(["money"]));
    let team = Agent::new("anthropic/claude-sonnet-4-5")
        .name("team")
        .tools(counting(&called))
        .tools(helper.clone())
        .tools(Agent::new("openai/gpt-5-mini").name("second").tools(helper))
        .tools(dry_letter::workflow());
    let outline = AgentOutline::of(&team);
    let mermaid = outline.to_mermaid();
    let expected = "flowchart TD
    a0([\"team (agent)\"])
    a1[(\"anthropic/claude-sonnet-4-5\")]
    a2[\"dry_count (tool)<br/>needs the scope numbers\"]
    a3([\"helper (agent)<br/>has effects<br/>granted money\"])
    a4[(\"openai-chat/gpt-5-mini\")]
    a5[\"dry_send_to (tool)<br/>has effects<br/>needs approval\"]
    a6([\"second (agent)<br/>has effects\"])
    a7[[\"dry_letter (workflow)<br/>has effects\"]]
    a0 -->|\"asks\"| a1
    a0 -->|\"may call\"| a2
    a3 -->|\"asks\"| a4
    a3 -->|\"may call\"| a5
    a0 -->|\"may call\"| a3
    a6 -->|\"asks\"| a4
    a6 -->|\"may call\"| a3
    a0 -->|\"may call\"| a6
    a0 -->|\"may call\"| a7
";
    assert_eq!(mermaid, expected);
    assert!(
        outline
            .to_dot()
            .contains("a3 [label=\"helper (agent)\\nhas effects\\ngranted money\", shape=oval];")
    );
    let dry = outline.dry_run();
    assert_eq!(dry.stages(), [vec!["model"], vec!["dry_count", "helper", "second", "dry_letter"]]);
    assert_eq!(dry.step("helper").unwrap().calls[0].what, "agent");
    assert_eq!(dry.limits["max_steps"], 20);
    assert_eq!(called.load(Ordering::SeqCst), 0);
    // An `#[agent]` uses the model of its runtime.
    let runtime = Runtime::builder().model("anthropic/claude-sonnet-4-5").build();
    let outline = runtime.catalogue().agent_outline("dry_judge").unwrap();
    assert_eq!(
        (&*outline.model, &*outline.tools[0].name),
        ("anthropic/claude-sonnet-4-5", "dry_look_up")
    );
    assert_eq!(outline.output["type"], "integer");
}

/// Repeats a text.
#[tool(effects = "none")]
fn dry_say(text: String) -> String {
    text
}

/// Returns the issues of a pipeline, as pairs of node and problem.
async fn issues(pipeline: &agentflow::pipeline::Pipeline) -> Vec<(String, String)> {
    let runtime = test_runtime().pipeline("keys", pipeline).build();
    let dry = runtime.catalogue().dry_run("keys").await.unwrap();
    dry.issues.iter().map(|issue| (issue.node.to_string(), issue.problem.clone())).collect()
}

#[tokio::test]
async fn reads_of_keys_that_nothing_saves_are_reported() {
    use agentflow::pipeline::{Pipeline, until};
    use agentflow::state::StateTransform;
    let say = |text: &str| Pipeline::tool("dry_say").with(json!({"text": text}));
    let reads = || say("{state.summary}").named("reads");
    let saves = || say("a").named("saves").save("summary");

    for (what, pipeline) in [
        ("no part saves it", reads()),
        ("it is saved later", reads() >> saves()),
        ("it is saved beside", saves() | reads()),
        (
            "it is dropped",
            saves() >> Pipeline::transform([StateTransform::drop(["summary"])]) >> reads(),
        ),
        (
            "it is renamed",
            saves()
                >> Pipeline::transform([StateTransform::rename([("summary", "other")])])
                >> reads(),
        ),
        ("a round reads it before it saves it", (reads() >> saves()) * until("item == 'a'").max(2)),
        ("a choice reads it", Pipeline::when("state.summary == 'a'", say("b")).otherwise(say("c"))),
    ] {
        let found = issues(&pipeline).await;
        assert_eq!(found.len(), 1, "{what}: {found:?}");
        let problem = &found[0].1;
        assert!(
            problem.contains("the key `summary` of the state")
                && problem.contains("saved before it"),
            "{what}: {problem}"
        );
    }
    for (what, pipeline) in [
        ("it is saved before", saves() >> reads()),
        ("it may be missing", say("{state.summary?}")),
        ("it is a user's", say("{user:summary}")),
        (
            "it is set again",
            Pipeline::transform([StateTransform::drop(["summary"])]) >> saves() >> reads(),
        ),
        ("it is saved in each round", saves() >> (reads() * 2)),
    ] {
        let found = issues(&pipeline).await;
        assert!(found.is_empty(), "{what}: {found:?}");
    }
    // A run is refused if it would fail in every case. The tool `dry_say` could set more keys, so a
    // part that calls it first is accepted.
    for (what, pipeline, is_refused) in [
        ("no part saves it", reads(), true),
        ("it is saved later", reads() >> saves(), true),
        ("it is saved beside", saves() | reads(), true),
        (
            "it is dropped",
            saves() >> Pipeline::transform([StateTransform::drop(["summary"])]) >> reads(),
            true,
        ),
        (
            "a choice reads it",
            Pipeline::when("state.summary == 'a'", say("b")).otherwise(say("c")),
            true,
        ),
        ("a tool may set it", say("b") >> reads(), false),
        ("an arm reads it", Pipeline::when("input == 'a'", reads()).otherwise(say("c")), false),
        ("another part takes its place", reads().fallback(say("c")), false),
    ] {
        let runtime =
            test_runtime().pipeline("keys", &pipeline).tools(agentflow::tools![dry_say]).build();
        let started = runtime.start_named("keys", json!({"input": "b"})).await;
        match (started, is_refused) {
            (Err(error), true) => {
                let text = error.to_string();
                assert!(text.contains("needs the key `summary` of the state"), "{what}: {text}");
                assert!(
                    text.contains("saved before it") && error.kind() == FailureKind::Build,
                    "{what}: {text}"
                );
            }
            (Ok(run), false) => drop(within(what, run.result()).await),
            (started, _) => panic!("{what}: {:?}", started.map(drop)),
        }
    }
    // A run may be started with the key in its state.
    let summary = StateKey::<String>::session("summary");
    let runtime =
        test_runtime().pipeline("keys", reads()).tools(agentflow::tools![dry_say]).build();
    let started = runtime
        .start_named("keys", json!({"input": "b"}))
        .state(&summary, &"short".to_owned())
        .await;
    within("a run that begins with the key", started.unwrap().result()).await.unwrap();
    let near = issues(&(say("a").save("summery") >> reads())).await;
    assert!(near[0].1.contains("did you mean `summery`?"), "{near:?}");

    let runtime = test_runtime().pipeline("keys", &(saves() >> reads())).build();
    let dry = runtime.catalogue().dry_run("keys").await.unwrap();
    assert_eq!(dry.step("saves").unwrap().saves_state, ["summary".into()]);
    let read = &dry.step("reads").unwrap().reads_state[0];
    assert_eq!((&*read.key, read.optional), ("summary", false));
    let text = dry.to_string();
    assert!(
        text.contains("reads summary of the state") && text.contains("saves summary in the state"),
        "{text}"
    );
}

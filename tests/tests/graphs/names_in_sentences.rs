//! Tests tool names in messages: people read the name in the program, models read the name that
//! they call.

use std::sync::Arc;
use std::time::Duration;

use agentflow::agent::{Limits, RunRequest};
use agentflow::message::ToolCall;
use agentflow::prelude::*;
use agentflow::store::MemoryStore;
use agentflow::tool::{FnTool, ToolDefinition, ToolPolicy};
use agentflow::value::Encoded;
use agentflow::workflow::Graph;
use agentflow::{Context, Registry, RunId};
use agentflow_testing::{ScriptedModel, Turn, test_runtime};
use serde_json::{Value, json};

fn tool(name: &str, policy: ToolPolicy) -> FnTool {
    let schema = json!({"type": "object", "properties": {"how": {"type": "string"}}});
    FnTool::dynamic(ToolDefinition::new(name, "", schema), |_, arguments: Value| async move {
        match arguments["how"].as_str() {
            Some("late") => std::future::pending().await,
            Some("badly") => panic!("not today"),
            _ => Err::<u32, _>("it broke".to_owned()),
        }
    })
    .policy(policy)
}

fn things() -> FnTool {
    tool("count.things", ToolPolicy::default().timeout(Duration::from_secs(1)))
}

fn scoped() -> FnTool {
    tool("count.scoped", ToolPolicy::default().scopes(["desk"]))
}

fn graph(form: &str, tool: &str, how: &str) -> Graph {
    let call = json!({"kind": "tool", "name": tool, "with": {"value": {"how": how}}});
    let does = match form {
        "call" => json!({"call": call}),
        form => json!({form: [call]}),
    };
    let graph = json!({
        "version": 1, "name": "counts", "output": "out", "concurrency": 1, "nodes": [{"name": "out", "does": does}],
    });
    serde_json::from_value(graph).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_person_reads_the_name_in_the_catalogue_and_a_model_the_one_that_it_calls() {
    for (name, how, says) in [
        ("count.things", "late", " did not answer within 1s"),
        ("count.things", "badly", " panicked: not today"),
        ("count.scoped", "", " needs the scope `desk`"),
    ] {
        let (known, wire) = (format!("`{name}`{says}"), name.replace('.', "__"));
        let build = || test_runtime().tools(things()).tools(scoped());
        let arguments = json!({"how": how});
        let call = |name: &str| ToolCall::new("1", name, arguments.to_string());
        for form in ["call", "fallback", "race"] {
            let runtime = build().graph(graph(form, name, how)).build();
            let run =
                runtime.start_named("counts", Encoded::new(&json!({})).unwrap()).await.unwrap();
            let error = run.result().await.unwrap_err().to_string();
            assert!(error.contains(&known) && !error.contains(&wire), "{form}: {error}");
        }
        let runtime = build().build();
        let by_program = runtime.invoke(&call(name), &[]).await.unwrap().output;
        assert!(by_program.starts_with(&known), "{by_program}");
        // The message uses the name in the call.
        let by_wire_name = runtime.invoke(&call(&wire), &[]).await.unwrap().output;
        assert!(by_wire_name.starts_with(&format!("`{wire}`{says}")), "{by_wire_name}");

        let model =
            ScriptedModel::new([Turn::call(&*wire, arguments.clone()), Turn::text("Done.")]);
        let agent = Agent::new(model).tools(things()).tools(scoped());
        let run = agent.runtime(&runtime).run("Count.").await.unwrap();
        let result = run
            .conversation()
            .messages()
            .iter()
            .find_map(|message| message.results().next().cloned())
            .unwrap();
        assert!(result.output.starts_with(&format!("`{wire}`{says}")), "{}", result.output);
    }
}

#[tokio::test(start_paused = true)]
async fn a_program_reads_which_tool_kept_failing() {
    let calls = (0..2).map(|_| Turn::call("count__things", json!({})));
    let agent = Agent::new(ScriptedModel::new(calls))
        .tools(things())
        .settings(Limits::default().max_tool_failures(2));
    let error = agent.run("Count.").await.unwrap_err().to_string();
    assert!(error.contains("the last one of `count.things`"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_question_names_the_tool_as_the_program_does() {
    let asked = || tool("count.asked", ToolPolicy::default().approve());
    let runtime = test_runtime().store(MemoryStore::new()).build();
    let model = ScriptedModel::new([Turn::call("count__asked", json!({"how": "well"}))]);
    let agent = Agent::new(model).tools(asked()).runtime(&runtime);
    let run = agent.start(RunRequest::new("Count.").run_id(RunId::new("asks"))).unwrap();
    let question = run.asked().await.unwrap().unwrap();
    assert!(format!("{question:?}").contains("call `count.asked(how: "), "{question:?}");
    run.cancel("enough").await.unwrap();
}

#[tokio::test]
async fn a_registry_knows_a_tool_by_both_of_its_names() {
    let mut registry = Registry::new();
    registry.register(things()).unwrap();
    registry.register(tool("add", ToolPolicy::default())).unwrap();
    let error = registry.get("count.thing").unwrap_err().to_string();
    assert_eq!(error, "there is no tool `count.thing`; did you mean `count.things`?");
    for name in ["count.things", "count__things"] {
        registry.get(name).unwrap();
        let result =
            registry.invoke(&Context::detached(), &ToolCall::new("1", name, "{}"), &[]).await;
        assert_eq!((result.output.as_str(), result.name.as_str()), ("it broke", name));
    }
    let unknown =
        registry.invoke(&Context::detached(), &ToolCall::new("1", "count.thing", "{}"), &[]).await;
    assert_eq!(unknown.output, error);
    let twice = registry.register(things()).unwrap_err().to_string();
    assert!(twice.contains("`count.things`") && !twice.contains("__"), "{twice}");
    let _: Arc<str> = Arc::clone(registry.get("add").unwrap().catalogue_name());
}

//! Tests that a run of a document keeps its version in every process. A dispatched step runs in the
//! version of its run or is refused. An agent of a document that has its own run is resumed in its
//! version.

use std::sync::{Arc, Mutex};

use agentflow::RunId;
use agentflow::agent::RunRequest;
use agentflow::document::Document;
use agentflow::error::FailureKind;
use agentflow::event::EventKind;
use agentflow::prelude::*;
use agentflow::runtime::Changes;
use agentflow::store::{MemoryStore, RunFilter};
use agentflow::tool::{FnTool, ToolDefinition, ToolError, ToolOutput};
use agentflow_testing::{ScriptedModel, Turn, check_events, within};
use agentflow_tests::Elsewhere;
use serde_json::{Value, json};

fn document(text: &str) -> Document {
    Document::read("flow.yaml", text).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns a document with one agent. The definition hash of the workflow does not cover the
/// instruction.
fn team(instruction: &str) -> Document {
    document(&format!(
        "name: team\nagents:\n  - {{name: writer, model: test/m, instruction: {instruction}}}\norchestration: {{type: \
         sequential, agents: [writer]}}\n"
    ))
}

/// Returns a model that answers with its instructions.
fn echo() -> ScriptedModel {
    ScriptedModel::from_fn(|request| {
        Turn::text(
            request
                .messages
                .messages()
                .first()
                .map(|message| message.text().to_string())
                .unwrap_or_default(),
        )
    })
}

/// Runs the old version of `team` and lets a worker execute the step. Returns the output, or the
/// failure of the step.
async fn executed(
    worker: Runtime,
    with: impl FnOnce(agentflow::runtime::RuntimeBuilder) -> agentflow::runtime::RuntimeBuilder,
) -> std::result::Result<String, (FailureKind, String)> {
    let host = with(Runtime::builder().document(team("In the old way.")).model(echo()));
    let host = host.executor(Elsewhere::on_task(worker)).build();
    let run = host.start_named("team", json!({"message": "Hello."})).await.unwrap();
    let mut events = run.events();
    let outcome = run.result().await;
    let mut why = None;
    while let Some(event) =
        within("the next event", futures_util::StreamExt::next(&mut events)).await
    {
        if let EventKind::NodeFailed { error, .. } = &event.kind {
            why = Some((error.kind.clone(), error.to_string()));
        }
    }
    outcome
        .map(|output| output.as_str().to_owned())
        .map_err(|error| why.unwrap_or_else(|| panic!("{error}")))
}

#[tokio::test]
async fn a_step_is_executed_in_the_version_of_its_run_or_not_at_all() {
    let worker = || Runtime::builder().document(team("In the new way.")).model(echo());
    // The worker cannot load the version of the run.
    let (kind, said) =
        executed(worker().build(), |host| host.store(MemoryStore::new())).await.unwrap_err();
    assert_eq!(kind, FailureKind::DefinitionChanged, "{said}");
    assert!(said.contains("`team`") && said.contains("the store"), "{said}");
    let (kind, said) = executed(worker().build(), |host| host).await.unwrap_err();
    assert_eq!(kind, FailureKind::DefinitionChanged, "{said}");
    // The worker's policy for changes applies only to runs that it resumes itself.
    let accepts = worker().changes(Changes::AcceptAll).build();
    let (kind, said) = executed(accepts, |host| host).await.unwrap_err();
    assert_eq!(kind, FailureKind::DefinitionChanged, "{said}");

    // The worker loads the document from the store of the run.
    let store = MemoryStore::new();
    let output =
        executed(worker().store(store.clone()).build(), |host| host.store(store)).await.unwrap();
    assert!(output.contains("old way"), "{output}");
    // The same for a worker without a document of this name.
    let store = MemoryStore::new();
    let none = Runtime::builder().model(echo()).store(store.clone()).build();
    let output = executed(none, |host| host.store(store)).await.unwrap();
    assert!(output.contains("old way"), "{output}");
    // The worker may use another model.
    let same = Runtime::builder()
        .document(team("In the old way."))
        .model(echo().named("other", "model"))
        .build();
    let output = executed(same, |host| host).await.unwrap();
    assert!(output.contains("old way"), "{output}");
}

#[tokio::test]
async fn a_document_of_another_plan_is_read_from_the_store_of_the_run() {
    let sum = |adds: i64| {
        document(&format!(
            "id: far_sum\nnodes:\n  - {{id: t, tool: far_add, args_template: {{a: 1, b: {adds}}}}}\n"
        ))
    };
    /// Adds two numbers.
    #[tool(effects = "none")]
    fn far_add(a: i64, b: i64) -> i64 {
        a + b
    }
    let store = MemoryStore::new();
    let worker = Runtime::builder().document(sum(1000)).store(store.clone()).build();
    let host = Runtime::builder()
        .document(sum(1))
        .store(store)
        .executor(Elsewhere::on_task(worker))
        .build();
    let run = host.start_named("far_sum", json!({})).await.unwrap();
    assert_eq!(run.result().await.unwrap().as_str(), "2");
}

#[tokio::test]
async fn a_document_with_another_comment_is_kept_beside_the_first() {
    let sum = |comment: &str| {
        document(&format!(
            "# {comment}\nid: far_double\nnodes:\n  - {{id: t, tool: far_twice, args_template: {{a: 4}}}}\n"
        ))
    };
    /// Doubles a number.
    #[tool(effects = "none")]
    fn far_twice(a: i64) -> i64 {
        2 * a
    }
    let store = MemoryStore::new();
    // The workers have no documents, so each step must load the texts of its run.
    for comment in ["First.", "Second.", "First."] {
        let worker = Runtime::builder().store(store.clone()).build();
        let host = Runtime::builder().document(sum(comment)).store(store.clone());
        let host = host.executor(Elsewhere::on_task(worker)).build();
        let run = host.start_named("far_double", json!({})).await.unwrap();
        assert_eq!(
            run.result().await.unwrap_or_else(|error| panic!("{comment}: {error}")).as_str(),
            "8"
        );
    }
}

#[tokio::test]
async fn a_changed_tool_of_the_program_is_compared_where_the_document_is_the_same() {
    let document = || {
        document(
            "name: team\nagents:\n  - {name: writer, model: test/m, instruction: Write., tools: [look]}\norchestration: \
             {type: sequential, agents: [writer]}\n",
        )
    };
    let look = |parameter: &str| {
        let schema = json!({"type": "object", "properties": {parameter: {"type": "string"}}, "required": [parameter]});
        FnTool::dynamic(ToolDefinition::new("look", "Looks.", schema), |_, _: Value| async {
            Ok::<_, ToolError>(ToolOutput::text("seen"))
        })
    };
    // With a document of the worker, and with a document from the store.
    for is_given in [true, false] {
        let outcome = async |parameter: &str| {
            let store = MemoryStore::new();
            let worker =
                Runtime::builder().tools(look(parameter)).model(echo()).store(store.clone());
            let worker = if is_given { worker.document(document()) } else { worker };
            let host = Runtime::builder()
                .document(document())
                .tools(look("at"))
                .model(echo())
                .store(store);
            let host = host.executor(Elsewhere::on_task(worker.build())).build();
            let run = host.start_named("team", json!({"message": "Hello."})).await.unwrap();
            run.result().await.map(drop).map_err(|error| error.to_string())
        };
        outcome("at").await.unwrap_or_else(|error| panic!("{is_given}: {error}"));
        let refused = outcome("where").await.unwrap_err();
        assert!(refused.contains("look"), "{is_given}: {refused}");
    }
}

#[tokio::test]
async fn an_agent_of_a_document_is_resumed_as_it_began() {
    let agent = |tools: &str, instruction: &str| {
        document(&format!(
            "name: team\nagents:\n  - {{name: asker, model: test/m, instruction: {instruction}, tools: [{tools}]}}\n\
             orchestration: {{type: sequential, agents: [asker]}}\n"
        ))
    };
    let offered: Arc<Mutex<Vec<Vec<String>>>> = Arc::default();
    let model = || {
        let offered = Arc::clone(&offered);
        ScriptedModel::from_fn(move |request| {
            let tools =
                request.tools.definitions().iter().map(|tool| tool.name.to_string()).collect();
            offered.lock().unwrap().push(tools);
            match request
                .messages
                .messages()
                .iter()
                .any(|message| message.tool_calls().next().is_some())
            {
                true => Turn::text("done"),
                false => Turn::call("ask_user", json!({"question": "which?"})),
            }
        })
    };
    let store = MemoryStore::new();
    let runtime = || Runtime::builder().store(store.clone()).model(model());
    let first = runtime().document(agent("ask_user", "Ask.")).build();
    for id in ["changed", "gone", "accepted"] {
        let request = RunRequest::new("Hello.").run_id(RunId::new(id));
        let run = first.start_agent("asker", request).await.unwrap();
        within("the run to ask", async {
            while first.run(run.run_id()).inspect().await.unwrap().run.pause_reason.is_none() {
                tokio::task::yield_now().await;
            }
        })
        .await;
        run.abandon();
    }
    let answered = async |runtime: &Runtime, id: &str| {
        let run = runtime
            .run(&RunId::new(id))
            .resume()
            .await
            .unwrap_or_else(|error| panic!("{id}: {error}"));
        let open = runtime.runs().questions(RunFilter::new()).await.unwrap();
        let question = open.iter().find(|question| question.run.as_str() == id).unwrap();
        runtime.run(&question.run).answer(&question.path, "this", "ada").await.unwrap();
        assert_eq!(run.result().await.unwrap().as_str(), "\"done\"");
        check_events(&runtime.run(&RunId::new(id)).journal().await.unwrap()).unwrap();
        offered.lock().unwrap().last().cloned().unwrap()
    };
    // The second process has no tool that can ask. The third has no document, so the agent is
    // unknown there.
    let second = runtime().document(agent("", "Ask nobody.")).build();
    let report = second.run(&RunId::new("changed")).inspect().await.unwrap();
    assert!(report.differences.is_empty(), "{:?}", report.differences);
    assert_eq!(answered(&second, "changed").await, ["ask_user"]);
    assert_eq!(answered(&runtime().build(), "gone").await, ["ask_user"]);
    // An operator accepts the current version.
    let moved = second.with_changes(Changes::AcceptAll);
    assert!(answered(&moved, "accepted").await.is_empty());
}

//! Tests documents whose nodes choose from a pool: the candidates in the model's prompt, the
//! candidate called for each answer, and that a resumed run does not choose again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use agentflow::document::{Document, DocumentForm};
use agentflow::event::EventKind;
use agentflow::mcp::McpClient;
use agentflow::message::{Part, Role, ToolCall};
use agentflow::model::{Model, ModelEvent, ModelInfo, ModelRequest, ModelResponse, ModelStream};
use agentflow::prelude::*;
use agentflow::runtime::NodeStatus;
use agentflow::store::{MemoryStore, Store};
use agentflow::tool::{FnTool, ToolPolicy, ToolsetRef};
use agentflow::value::Encoded;
use agentflow_testing::{McpAnswer, ScriptedMcp, ScriptedModel, Turn, within};
use serde_json::{Map, Value, json};

use crate::document_edges::{Far, calls, with_far};
use crate::documents::{after_every_crash, places, read, run};
use crate::store::MortalStore;

/// Returns a node with a pool of these candidates.
fn pool(candidates: &str, more: &str) -> String {
    format!(
        "workflow_id: it\nnodes:\n  - {{node_id: n, kind: mcp, capability: 'Keep {{it}}.', dependencies: [{{dependency_id: d, \
         dependency_type: mcp_tool, resolution_mode: pool, pool_refs: [{candidates}]}}]{more}}}\nedges: []\n"
    )
}

const THREE: &str = "{server_id: code, tool_name: echo}, {server_id: notes, tool_name: note, endpoint: 'http://n'}, \
                     {server_id: code_review, tool_name: review}";

/// A model that gives the same answer to every request and counts the requests.
#[derive(Debug, Clone)]
struct ConstantModel(&'static str, ModelInfo, Arc<AtomicUsize>);

impl ConstantModel {
    fn new(text: &'static str) -> Self {
        Self(text, ModelInfo::new("test", "always"), Arc::default())
    }

    fn asked(&self) -> usize {
        self.2.load(Ordering::SeqCst)
    }
}

impl Model for ConstantModel {
    fn info(&self) -> &ModelInfo {
        &self.1
    }

    fn stream(&self, _: ModelRequest) -> ModelStream {
        self.2.fetch_add(1, Ordering::SeqCst);
        let completed = ModelEvent::Completed(Box::new(ModelResponse::new(Arc::new(
            Message::assistant(self.0),
        ))));
        ModelStream::new(futures_util::stream::iter([Ok(completed)]))
    }
}

async fn output_with(text: &str, model: &ConstantModel, input: Value) -> Value {
    let document = read(text);
    let runtime =
        with_far(Runtime::builder()).model(model.clone()).document(document.clone()).build();
    runtime.documents().check(&document).await.unwrap_or_else(|error| panic!("{error}"));
    run(&runtime, "it", json!({"input": input})).await
}

#[tokio::test]
async fn a_model_picks_one_of_the_candidates() {
    let document =
        read(&pool(THREE, ", output_mapping: {got: output, used: tool_used, server: server_id}"));
    assert_eq!(document.form(), DocumentForm::Edges);
    let model = ScriptedModel::new([Turn::text("1")]).capturing();
    let runtime =
        with_far(Runtime::builder()).model(model.clone()).document(document.clone()).build();
    runtime.documents().check(&document).await.unwrap();
    let output = run(&runtime, "it", json!({"input": {"x": 1}})).await;
    assert_eq!(output, json!({"x": 1, "got": {"x": 1}, "used": "note", "server": "notes"}));
    let [asked] = &model.requests()[..] else { panic!("one call") };
    let texts: Vec<String> =
        asked.messages.messages().iter().map(|message| message.text().to_string()).collect();
    assert!(texts[0].starts_with("You choose which one of several candidates"), "{texts:?}");
    assert_eq!(
        texts[1],
        "Keep {it}.\n\n0: server=code tool=echo agent=- endpoint=-\n1: server=notes tool=note agent=- endpoint=http://n\n2: \
         server=code_review tool=review agent=- endpoint=-\n\n{\"x\":1}"
    );
    assert_eq!(asked.tools.definitions().len(), 0);
}

#[tokio::test]
async fn an_index_is_clamped_and_a_bad_answer_is_the_first() {
    for (answer, used) in [
        ("0", "echo"),
        ("2", "review"),
        ("7", "review"),
        ("-1", "echo"),
        ("99999999999999999999", "echo"),
        ("the second", "echo"),
        ("{\"index\": 2}", "echo"),
    ] {
        let model = ConstantModel::new(answer);
        let output = output_with(&pool(THREE, ""), &model, json!({})).await;
        assert_eq!((&output["tool_used"], model.asked()), (&json!(used), 1), "{answer}");
    }
}

/// Checks that the journal records the chosen candidate and an answer that is not a number.
#[tokio::test]
async fn the_choice_is_recorded() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    // `pool_index` counts all candidates in the document, including candidates that the permissions
    // exclude.
    let two = ", permissions: {acl_server_ids: [notes, code_review]}";
    for (answer, index, place, server, more) in [
        ("1", 1, 1, "notes", ""),
        ("neither", 0, 0, "code", ""),
        ("0", 0, 1, "notes", two),
        ("1", 1, 2, "code_review", two),
    ] {
        let runtime = with_far(Runtime::builder())
            .store(MortalStore::new(&store, None))
            .model(ConstantModel::new(answer))
            .document(read(&pool(THREE, more)))
            .build();
        let handle =
            runtime.start_named("it", Encoded::new(&json!({"input": {}})).unwrap()).await.unwrap();
        let id = handle.run_id().clone();
        handle.result().await.unwrap();
        let events = store.read(&id, 0, usize::MAX).await.unwrap();
        let resolved = events.iter().find_map(|event| match &event.kind {
            EventKind::NodeCompleted { output, .. }
                if event.path.to_string().ends_with(&format!("resolved_{index}")) =>
            {
                Some(output.decode::<Value>().unwrap())
            }
            _ => None,
        });
        let resolved = resolved.unwrap_or_else(|| panic!("{answer}: {events:#?}"));
        assert_eq!(
            (&resolved["dependency_id"], &resolved["server_id"]),
            (&json!("d"), &json!(server))
        );
        assert_eq!(resolved["pool_index"], place, "{answer}");
        let warned = events.iter().any(|event| {
            event.path.to_string().ends_with("number")
                && matches!(&event.kind, EventKind::NodeFailed { .. })
                && format!("{:?}", event.kind).contains("the text is not an integer")
        });
        assert_eq!(warned, answer == "neither", "{events:#?}");
    }
}

#[tokio::test]
async fn one_candidate_is_called_without_a_model() {
    let asks_nobody = ConstantModel::new("1");
    let one = "{server_id: notes, tool_name: note}";
    let output = output_with(&pool(one, ""), &asks_nobody, json!({})).await;
    assert_eq!(output["server_id"], "notes");
    // Permissions exclude the other candidates.
    for permissions in [
        ", permissions: {acl_server_ids: [notes]}",
        ", permissions: {acl_server_ids: [notes, other]}",
    ] {
        let output = output_with(&pool(THREE, permissions), &asks_nobody, json!({})).await;
        assert_eq!(output["server_id"], "notes", "{permissions}");
    }
    let scoped =
        pool(THREE, "").replace("edges: []", "permissions: {acl_scope: [notes]}\nedges: []");
    assert_eq!(output_with(&scoped, &asks_nobody, json!({})).await["server_id"], "notes");
    assert_eq!(asks_nobody.asked(), 0);
    // The model sees only the candidates that the permissions allow.
    let two = pool(THREE, ", permissions: {acl_server_ids: [notes, code_review]}");
    let model = ScriptedModel::new([Turn::text("1")]).capturing();
    let runtime = with_far(Runtime::builder()).model(model.clone()).document(read(&two)).build();
    assert_eq!(run(&runtime, "it", json!({"input": {}})).await["tool_used"], "review");
    let asked = model.requests()[0].messages.messages()[1].text().to_string();
    assert!(
        asked.contains("0: server=notes") && asked.contains("1: server=code_review"),
        "{asked}"
    );
    assert!(!asked.contains("server=code "), "{asked}");
}

#[tokio::test]
async fn a_model_picks_a_resource_or_a_prompt() {
    let server = ScriptedMcp::new([])
        .resources([
            json!({"uri": "note://a", "name": "a"}),
            json!({"uri": "note://b", "name": "b"}),
        ])
        .answers_reads([("note://b", McpAnswer::contents("note://b", "two"))]);
    let client = McpClient::in_memory("notes", move || server.connect())
        .resources_as_tools()
        .build()
        .unwrap();
    let both = "{server_id: notes, resource_uri: 'note://a'}, {server_id: notes, resource_uri: 'note://b'}";
    let document = read(&pool(both, "").replace("mcp_tool", "mcp_resource"));
    let model = ScriptedModel::new([Turn::text("1")]).capturing();
    let runtime = Runtime::builder()
        .toolset(client.toolset())
        .model(model.clone())
        .document(document.clone())
        .build();
    runtime.documents().check(&document).await.unwrap_or_else(|error| panic!("{error}"));
    let output = run(&runtime, "it", json!({"input": {}})).await;
    assert_eq!(
        output,
        json!({"output": "two", "tool_used": "read_resource", "server_id": "notes"})
    );
    let asked = model.requests()[0].messages.messages()[1].text().to_string();
    assert!(
        asked.contains("1: server=notes tool=read_resource agent=- endpoint=- resource=note://b"),
        "{asked}"
    );
    // The call contains the name of the chosen prompt.
    let prompts = "{server_id: notes, prompt_name: brief}, {server_id: notes, prompt_name: long}";
    let document = read(&pool(prompts, "").replace("mcp_tool", "mcp_prompt"));
    let server = ScriptedMcp::new([])
        .prompts([json!({"name": "brief"}), json!({"name": "long"})])
        .answers_prompts([("long", McpAnswer::prompt("two"))]);
    let client =
        McpClient::in_memory("notes", move || server.connect()).prompts_as_tools().build().unwrap();
    let model = ScriptedModel::new([Turn::text("1")]);
    let runtime =
        Runtime::builder().toolset(client.toolset()).model(model).document(document).build();
    let output = run(&runtime, "it", json!({"input": {}})).await;
    assert!(output["output"].to_string().contains("two"), "{output}");
    assert_eq!(output["tool_used"], "get_prompt");
}

#[tokio::test]
async fn a_model_chooses_among_the_tools_of_several_dependencies() {
    let fixed = |id: &str, reference: &str| {
        format!(
            "{{dependency_id: {id}, dependency_type: mcp_tool, resolution_mode: fixed, fixed_ref: {{{reference}}}}}"
        )
    };
    let node = |dependencies: &[String]| {
        format!(
            "workflow_id: it\nnodes:\n  - {{node_id: n, kind: mcp, capability: Echo it., dependencies: [{}]}}\nedges: []\n",
            dependencies.join(", ")
        )
    };
    let echo = fixed("a", "server_id: code, tool_name: echo");
    let note = fixed("b", "server_id: notes, tool_name: note");
    let all = fixed("c", "server_id: code");
    for (dependencies, tools) in [
        (vec![echo.clone(), note.clone()], vec!["mcp__code__echo", "mcp__notes__note"]),
        (vec![echo.clone(), all], vec!["mcp__code__echo", "mcp__code__read"]),
    ] {
        let model = ScriptedModel::new([
            Turn::call("mcp__code__echo", json!({"x": 1})),
            Turn::text("done"),
        ])
        .capturing();
        let document = read(&node(&dependencies));
        let runtime =
            with_far(Runtime::builder()).model(model.clone()).document(document.clone()).build();
        runtime.documents().check(&document).await.unwrap_or_else(|error| panic!("{error}"));
        let output = run(&runtime, "it", json!({"input": {}})).await;
        assert_eq!(output, json!({"output": "done", "tool_used": "echo", "server_id": "code"}));
        let requests = model.requests();
        let named: Vec<String> =
            requests[0].tools.definitions().iter().map(|tool| tool.name.to_string()).collect();
        assert_eq!(named, tools);
        assert!(
            requests[1]
                .messages
                .messages()
                .iter()
                .flat_map(|message| message.results())
                .all(|result| result.status.is_success())
        );
    }
    let unknown = read(&node(&[echo, fixed("b", "server_id: notes, tool_name: noet")]));
    let runtime =
        with_far(Runtime::builder()).model(ScriptedModel::new([])).document(unknown).build();
    let started = runtime.start_named("it", json!({"input": {}})).await.unwrap();
    let error = started.result().await.unwrap_err().to_string();
    assert!(error.contains("has no tool of this name; did you mean `mcp.notes.note`?"), "{error}");
    let resource = fixed("r", "server_id: notes, resource_uri: 'note://a'")
        .replace("mcp_tool", "mcp_resource");
    let error = Document::read("it.yaml", node(&[note, resource])).unwrap_err();
    assert!(
        error.problems()[0].message().ends_with("bind `note://a` in a separate node"),
        "{error}"
    );
}

#[test]
fn pools_that_cannot_be_read() {
    let six = ["{server_id: s, tool_name: t}"; 6].join(", ");
    for (text, problem) in [
        (pool(&six, ""), "pool_refs must contain at most 5 candidates"),
        (
            pool("", ""),
            "the dependency `d` is required, and its pool has no candidates; name some, or say `required: false`",
        ),
        (
            pool(THREE, ", permissions: {acl_server_ids: [other]}"),
            "the dependency `d` is required, and none of its candidates is among the servers that may be bound, by \
             `acl_server_ids` or `acl_scope`",
        ),
        (
            pool("{tool_name: t}, {server_id: s}", ""),
            "a candidate of a tool needs `server_id`, the name that the program gave the server",
        ),
        (
            pool("{server_id: s}, {server_id: t}", "").replace("capability: 'Keep {it}.', ", ""),
            "`n` needs `capability`, by which a model chooses among the tools of a server, or a `tool_name` in each candidate",
        ),
        (
            pool(THREE, "").replace(
                "resolution_mode: pool",
                "resolution_mode: pool, fixed_ref: {server_id: s}",
            ),
            "`fixed_ref` belongs to `resolution_mode: fixed`; say so, or remove it",
        ),
        (
            pool("{server_id: s}, {server_id: t}", "").replace("mcp_tool", "mcp_resource"),
            "`n` needs `resource_uri`, the address of the resource, or an `input_mapping` that gives `uri`",
        ),
        (
            pool(THREE, "").replace("kind: mcp, capability", "kind: a2a, task"),
            "`n` is bound to a server, and a node of the kind `a2a` to an agent",
        ),
    ] {
        let error = Document::read("it.yaml", text.as_str()).unwrap_err();
        let found = places(&error);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].ends_with(problem), "{found:?}");
    }
}

/// Lets an optional dependency have an empty pool. The model then works without tools.
#[tokio::test]
async fn an_empty_pool_that_is_not_required_is_no_dependency() {
    let text =
        pool("", "").replace("resolution_mode: pool", "required: false, resolution_mode: pool");
    let model = ScriptedModel::new([Turn::text("by myself")]).capturing();
    let runtime = with_far(Runtime::builder()).model(model.clone()).document(read(&text)).build();
    let output = run(&runtime, "it", json!({"input": {}})).await;
    assert_eq!(output, json!({"output": "by myself", "tool_used": null, "server_id": null}));
    assert_eq!(model.requests()[0].tools.definitions().len(), 0);
}

#[tokio::test]
async fn a_model_picks_among_agents_and_servers() {
    let agents = "workflow_id: it\nnodes:\n  - {node_id: n, kind: a2a, task: Say it., dependencies: [{dependency_id: d, \
                  dependency_type: a2a_agent, resolution_mode: pool, pool_refs: [{agent_id: reviewer}, {agent_id: \
                  summarize_findings}]}]}\nedges: []\n";
    let output = output_with(agents, &ConstantModel::new("1"), json!({"x": 1})).await;
    assert_eq!(output["agent_id"], "summarize_findings");
    assert_eq!(output["output"], "[Say it.\n\n{\"x\":1}]");
    // One choice selects the server, and the next one selects a tool of that server.
    let model = ScriptedModel::new([
        Turn::text("1"),
        Turn::call("mcp__notes__note", json!({"text": "small"})),
        Turn::text("noted"),
    ]);
    let text = pool("{server_id: code}, {server_id: notes}", "");
    let runtime = with_far(Runtime::builder()).model(model).document(read(&text)).build();
    let output = run(&runtime, "it", json!({"input": {}})).await;
    assert_eq!(output, json!({"output": "noted", "tool_used": "note", "server_id": "notes"}));
}

/// Checks that `tool_used` is the last tool that the model called successfully.
#[tokio::test]
async fn the_chosen_tool_is_named() {
    let edges = "workflow_id: it\nnodes:\n  - {node_id: n, kind: mcp, capability: Read it., dependencies: [{dependency_id: d, \
                 dependency_type: mcp_tool, fixed_ref: {server_id: code}}]}\nedges: []\n";
    let steps = "workflow_id: it\nsteps:\n  - {node_id: n, kind: mcp, capability: Read it., server_id: code}\n";
    let named = |output: &Value| (output["tool_used"].clone(), output["server_id"].clone());
    let calls = |path: &str| Turn::call("mcp__code__read", json!({ "path": path }));
    for text in [edges, steps] {
        for (turns, tool) in [
            (vec![calls("small"), Turn::text("done")], json!("read")),
            (
                vec![Turn::call("mcp__code__echo", json!({})), calls("broken"), Turn::text("done")],
                json!("echo"),
            ),
            (vec![calls("broken"), Turn::text("done")], json!(null)),
            (vec![Turn::text("done")], json!(null)),
        ] {
            let model = ScriptedModel::new(turns);
            let runtime =
                with_far(Runtime::builder()).model(model.clone()).document(read(text)).build();
            let output = run(&runtime, "it", json!({"input": {}})).await;
            assert_eq!(named(&output), (tool, json!("code")), "{output}");
            model.finish();
        }
    }
}

/// Checks that `tool_used` survives a crash between the agent's answer and the node's output.
#[tokio::test]
async fn the_chosen_tool_is_named_after_every_crash() {
    let text = "workflow_id: it\nnodes:\n  - {node_id: n, kind: mcp, capability: Echo it., dependencies: [{dependency_id: d, \
                dependency_type: mcp_tool, fixed_ref: {server_id: code}}]}\nedges: []\n";
    let output = after_every_crash(text, json!({"input": {"x": 1}}), |builder| {
        with_far(builder).model(SingleCallModel)
    });
    assert_eq!(
        output.await,
        json!({"x": 1, "output": "called", "tool_used": "echo", "server_id": "code"})
    );
}

/// A model that calls the tool `echo` of the server `code` once, then answers.
#[derive(Debug)]
struct SingleCallModel;

impl Model for SingleCallModel {
    fn info(&self) -> &ModelInfo {
        static INFO: std::sync::LazyLock<ModelInfo> =
            std::sync::LazyLock::new(|| ModelInfo::new("test", "calls once"));
        &INFO
    }

    fn stream(&self, request: ModelRequest) -> ModelStream {
        let has_result =
            request.messages.messages().iter().any(|message| message.results().next().is_some());
        let answer = match has_result {
            true => Message::assistant("called"),
            false => {
                let call = ToolCall::new("1", "mcp__code__echo", "{}");
                Message::new(Role::Assistant, vec![Part::ToolCall(Arc::new(call))])
            }
        };
        let completed = ModelEvent::Completed(Box::new(ModelResponse::new(Arc::new(answer))));
        ModelStream::new(futures_util::stream::iter([Ok(completed)]))
    }
}

/// Checks the report of a run: the resolved dependencies, and the status of a node while the model
/// chooses.
#[tokio::test]
async fn resolved_dependencies_are_reported() {
    let one = "{server_id: notes, tool_name: note}";
    let fixed = pool(one, "")
        .replace("resolution_mode: pool, pool_refs: [", "fixed_ref: ")
        .replace("}]}]", "}}]");
    let two = ", permissions: {acl_server_ids: [notes, code_review]}";
    let only = ", permissions: {acl_server_ids: [notes]}";
    for (text, server, place) in [
        (fixed, "notes", json!(null)),
        (pool(one, ""), "notes", json!(0)),
        (pool(THREE, only), "notes", json!(1)),
        (pool(THREE, two), "code_review", json!(2)),
        (pool(THREE, ""), "notes", json!(1)),
    ] {
        let builder =
            with_far(Runtime::builder()).store(MemoryStore::new()).model(ConstantModel::new("1"));
        let runtime = builder.document(read(&text)).build();
        let handle = runtime.start_named("it", json!({"input": {}})).await.unwrap();
        handle.result().await.unwrap();
        let report = runtime.run(handle.run_id()).inspect().await.unwrap();
        let node = report.nodes.iter().find(|node| node.name == "n").unwrap();
        assert_eq!(node.status, NodeStatus::Success);
        let resolved = serde_json::to_value(&node.resolved_dependencies).unwrap();
        let endpoint = if server == "notes" && text.contains("http://n") {
            json!("http://n")
        } else {
            json!(null)
        };
        let tool = if server == "notes" { "note" } else { "review" };
        assert_eq!(
            resolved,
            json!([{
                "dependency_id": "d", "server_id": server, "tool_name": tool, "resource_uri": null, "agent_id": null,
                "endpoint": endpoint, "score": null, "pool_index": place
            }]),
            "{text}"
        );
    }
    // While the model chooses, no dependency is resolved.
    let begun = Arc::new(tokio::sync::Notify::new());
    let builder = with_far(Runtime::builder())
        .store(MemoryStore::new())
        .model(PendingChoiceModel(Arc::clone(&begun)));
    let runtime = builder.document(read(&pool(THREE, ""))).build();
    let handle = runtime.start_named("it", json!({"input": {}})).await.unwrap();
    within("the choice", begun.notified()).await;
    let report = runtime.run(handle.run_id()).inspect().await.unwrap();
    let node = report.nodes.iter().find(|node| node.name == "n").unwrap();
    assert_eq!(
        (node.status, node.status.as_str()),
        (NodeStatus::ResolvingDependencies, "resolving_dependencies")
    );
    assert!(node.resolved_dependencies.is_empty(), "{node:?}");
    handle.cancel("it is never chosen").await.unwrap();
}

/// A model that notifies about a request and never answers.
#[derive(Debug)]
struct PendingChoiceModel(Arc<tokio::sync::Notify>);

impl Model for PendingChoiceModel {
    fn info(&self) -> &ModelInfo {
        static INFO: std::sync::LazyLock<ModelInfo> =
            std::sync::LazyLock::new(|| ModelInfo::new("test", "chooses"));
        &INFO
    }

    fn stream(&self, _: ModelRequest) -> ModelStream {
        self.0.notify_one();
        ModelStream::new(futures_util::stream::pending())
    }
}

#[tokio::test]
async fn the_failure_of_a_candidate_is_that_of_its_node() {
    let candidates = "{server_id: code, tool_name: read}, {server_id: notes, tool_name: note}";
    let routed = ", input_mapping: {path: path}, on_error: route_to_node, on_error_node_id: b";
    let instead = calls("b", "echo", ", output_mapping: {instead: tool_used}");
    let text = pool(candidates, routed).replace("edges: []", &format!("{instead}edges: []"));
    let output = output_with(&text, &ConstantModel::new("0"), json!({"path": "broken"})).await;
    assert_eq!(output, json!({"path": "broken", "instead": "echo"}));
}

#[tokio::test]
async fn a_run_with_a_pool_survives_every_crash() {
    let text = pool(THREE, "");
    let output = after_every_crash(&text, json!({"input": {"x": 1}}), |builder| {
        with_far(builder).model(ConstantModel::new("2"))
    });
    assert_eq!(output.await["tool_used"], "review");
}

/// Stops the process while the chosen candidate runs. The resumed run has a model that would choose
/// another candidate.
#[tokio::test]
async fn a_run_that_is_resumed_does_not_choose_again() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let (begun, hangs) = (Arc::new(tokio::sync::Notify::new()), Arc::new(AtomicBool::new(true)));
    let slow = || {
        let (begun, hangs) = (Arc::clone(&begun), Arc::clone(&hangs));
        FnTool::new("slow", "Wait.", move |_: Context, _: Map<String, Value>| {
            let (begun, hangs) = (Arc::clone(&begun), Arc::clone(&hangs));
            async move {
                begun.notify_one();
                if hangs.load(Ordering::SeqCst) {
                    std::future::pending::<()>().await;
                }
                Ok::<_, String>("done")
            }
        })
        .policy(ToolPolicy::default().idempotent())
    };
    let text = pool("{server_id: code, tool_name: echo}, {server_id: far, tool_name: slow}", "");
    let build = |model: &ConstantModel| {
        let far = ToolsetRef::new(Far("mcp.far", vec![slow().into()]));
        let runtime = with_far(Runtime::builder())
            .toolset(far)
            .store(MortalStore::new(&store, None))
            .model(model.clone());
        runtime.document(read(&text)).build()
    };
    let first = build(&ConstantModel::new("1"));
    let handle =
        first.start_named("it", Encoded::new(&json!({"input": {}})).unwrap()).await.unwrap();
    let id = handle.run_id().clone();
    within("`begun`", begun.notified()).await;
    drop((handle, first));
    hangs.store(false, Ordering::SeqCst);
    let other = ConstantModel::new("0");
    let output = build(&other).run(&id).resume().await.unwrap().result().await.unwrap();
    assert_eq!(output.decode::<Value>().unwrap()["tool_used"], "slow");
    assert_eq!(other.asked(), 0);
}

/// Reports the mistake at the candidate and ignores candidates that the permissions exclude.
#[tokio::test]
async fn a_mistake_in_a_candidate_is_reported_at_it() {
    let text = "workflow_id: w
nodes:
  - node_id: a
    kind: mcp
    permissions: {acl_server_ids: [code, notes]}
    dependencies:
      - dependency_id: d
        dependency_type: mcp_tool
        resolution_mode: pool
        pool_refs:
          - {server_id: other, tool_name: read}
          - {server_id: code, tool_name: read}
          - {server_id: notes, tool_name: nothing}
edges: []
model: openai/gpt-5-mini
";
    let runtime = with_far(Runtime::builder()).build();
    let error = runtime.documents().check(&read(text)).await.unwrap_err();
    let found = places(&error);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].starts_with("13:43: ") && found[0].contains("`mcp.notes.nothing`"),
        "{found:?}"
    );
}

/// The argument's name also occurs in a template. The problem must be reported at the call.
#[tokio::test]
async fn a_missing_argument_is_reported_at_the_call() {
    let text = "id: w\nnodes:\n  - {id: a, args_template: {most: \"{query}\"}, tool: doc_search}\n";
    let error = Runtime::builder().build().documents().check(&read(text)).await.unwrap_err();
    let found = places(&error);
    assert_eq!(
        found,
        ["3:53: the node `a`: the tool `doc_search` needs `query`, which is not given"]
    );
}

//! Tests tools of toolsets that a graph names: the time of the fetch, and the effect of changed
//! tools on a run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use agentflow::a2a::A2aClient;
use agentflow::error::FailureKind;
use agentflow::pipeline::Pipeline;
use agentflow::prelude::*;
use agentflow::store::MemoryStore;
use agentflow::tool::{FnTool, ToolPolicy, ToolRef, Toolset, ToolsetRef};
use agentflow::value::Encoded;
use agentflow::workflow::Graph;
use agentflow::{Approval, Error, RunId, async_trait};
use agentflow_testing::{test_runtime, within};
use agentflow_tests::Elsewhere;
use serde_json::{Value, json};
use tokio::sync::Notify;

/// A toolset that changes. With version 1 `read` answers differently, with version 2 `read` is
/// missing, with version 3 it needs approval.
#[derive(Clone, Default)]
struct Files {
    version: Arc<AtomicU64>,
    away: Arc<AtomicBool>,
    fetches: Arc<AtomicU64>,
    began: Arc<Notify>,
    may_end: Arc<Notify>,
}

#[async_trait]
impl Toolset for Files {
    fn name(&self) -> &str {
        "mcp.files"
    }

    fn version(&self) -> u64 {
        self.version.load(Ordering::SeqCst)
    }

    async fn tools(&self) -> Result<Vec<ToolRef>, Box<dyn std::error::Error + Send + Sync>> {
        self.fetches.fetch_add(1, Ordering::SeqCst);
        if self.away.load(Ordering::SeqCst) {
            return Err("nobody is at home".into());
        }
        let version = self.version();
        let (began, may_end) = (Arc::clone(&self.began), Arc::clone(&self.may_end));
        let policy = ToolPolicy::default().idempotent();
        let read = FnTool::new("read", "Read a file.", move |_: Context, (): ()| async move {
            Ok::<_, String>(format!("read of version {version}"))
        });
        let slow = FnTool::new("slow", "Read a large file.", move |_: Context, (): ()| {
            let (began, may_end) = (Arc::clone(&began), Arc::clone(&may_end));
            async move {
                began.notify_one();
                within("`may_end`", may_end.notified()).await;
                Ok::<_, String>(format!("slow of version {version}"))
            }
        });
        let change = Arc::clone(&self.version);
        let change = FnTool::new("change", "Change the server.", move |_: Context, (): ()| {
            change.store(2, Ordering::SeqCst);
            async { Ok::<_, String>(()) }
        });
        let read =
            read.policy(if version == 3 { policy.clone().approve() } else { policy.clone() });
        let mut tools: Vec<ToolRef> =
            vec![slow.policy(policy.clone()).into(), change.policy(policy).into()];
        if version != 2 {
            tools.push(read.into());
        }
        Ok(tools)
    }
}

fn tool(name: &str) -> Value {
    json!({"call": {"kind": "tool", "name": name, "with": {"object": {}}}})
}

fn graph(nodes: Value) -> Graph {
    serde_json::from_value(
        json!({"version": 1, "name": "tidy", "output": "out", "concurrency": 4, "nodes": nodes}),
    )
    .unwrap()
}

fn runtime(files: &Files, nodes: Value) -> Runtime {
    test_runtime().toolset(files.clone()).graph(graph(nodes)).build()
}

fn empty() -> Encoded {
    Encoded::new(&json!({})).unwrap()
}

async fn run(runtime: &Runtime) -> Result<String> {
    Ok(runtime.start_named("tidy", empty()).await?.result().await?.decode().unwrap())
}

#[tokio::test]
async fn they_are_fetched_before_a_run_begins() {
    let files = Files::default();
    let runtime = runtime(&files, json!([{"name": "out", "does": tool("mcp.files.read")}]));
    let error = runtime.catalogue().workflow_graph("tidy").unwrap_err().to_string();
    let expected = "the node `out`: the tools of the toolset `mcp.files` were not fetched yet, and `mcp.files.read` may be \
                    one; start the workflow, or await `runtime.catalogue().snapshot()`, which fetch them";
    assert!(error.ends_with(expected), "{error}");
    assert_eq!(run(&runtime).await.unwrap(), "read of version 0");
    assert_eq!(files.fetches.load(Ordering::SeqCst), 1);
    runtime.catalogue().workflow_graph("tidy").unwrap();
    runtime.catalogue().snapshot().await.check().unwrap();
    // An unknown tool of the toolset is reported when the graph is read.
    let other = self::runtime(&files, json!([{"name": "out", "does": tool("mcp.files.raed")}]));
    let error = run(&other).await.unwrap_err().to_string();
    let expected =
        "the node `out`: this program has no tool `mcp.files.raed`; did you mean `mcp.files.read`?";
    assert!(error.ends_with(expected), "{error}");
    // An unknown server is reported too.
    for (name, server) in
        [("mcp.flies.get_weather", "`flies`; did you mean `files`?"), ("mcp.mail.send", "`mail`")]
    {
        let other = self::runtime(&files, json!([{"name": "out", "does": tool(name)}]));
        let error = run(&other).await.unwrap_err().to_string();
        let expected = format!(
            "the node `out`: this program has no tool `{name}`, since it has no MCP server {server}; give its runtime an \
             `McpClient` of this name, or its configuration an entry in `mcp_servers`"
        );
        assert!(error.ends_with(&expected), "{error}");
    }
}

/// Documents that name an unknown server, each with an additional mistake. The additional mistake
/// makes another pass check the names.
const NAMES_A_SERVER: &[(&str, &str)] = &[
    ("id: w\nnodes: [{id: a, tool: mcp.flies.read}]\n", "retry_limit: x"),
    ("name: w\ntopology: {sequence: [{tool: mcp.flies.read}]}\n", "descripton: x"),
    ("name: w\ntopology: {sequence: [{tool: 'mcp.flies.get_weather'}]}\n", "descripton: x"),
    (
        "name: w\noutput: a\nnodes:\n  - {name: a, does: {call: {kind: tool, name: mcp.flies.read, with: {object: {}}}}}\n",
        "descripton: x",
    ),
    (
        "name: w\nagents: [{name: a, model: openai/x, instruction: Go., tools: [mcp.flies]}]\norchestration: {type: sequential, agents: [a]}\n",
        "a2a: {skils: 1}",
    ),
    (
        "name: w\nagents: [{name: a, model: openai/x, instruction: Go., tools: [mcp.flies.read]}]\norchestration: {type: sequential, agents: [a]}\n",
        "a2a: {skils: 1}",
    ),
    (
        "workflow_id: w\nsteps: [{node_id: a, kind: mcp, capability: flies, tool_name: read}]\n",
        "modl: x",
    ),
    (
        "workflow_id: w\nsteps: [{node_id: a, kind: mcp, capability: Read., server_id: flies, tool_name: read}]\n",
        "modl: x",
    ),
    (
        "workflow_id: w\nmodel: openai/x\nsteps: [{node_id: a, kind: mcp, capability: flies}]\n",
        "modl: x",
    ),
    // The node has the same name as the server.
    (
        "workflow_id: w\nsteps: [{node_id: flies, kind: mcp, capability: flies, tool_name: read}]\n",
        "modl: x",
    ),
    (
        "workflow_id: w\nnodes: [{node_id: a, kind: mcp, dependencies: [{dependency_id: d, dependency_type: mcp_tool, fixed_ref: {tool_name: read, server_id: flies}}]}]\nedges: []\n",
        "modl: x",
    ),
    (
        "workflow_id: w\nnodes: [{node_id: a, kind: mcp, dependencies: [{dependency_id: d, dependency_type: mcp_resource, fixed_ref: {server_id: flies, resource_uri: 'a://b'}}]}]\nedges: []\n",
        "modl: x",
    ),
    (
        "workflow_id: w\nmodel: openai/x\nnodes: [{node_id: a, kind: mcp, capability: Read., dependencies: [{dependency_id: d, dependency_type: mcp_tool, fixed_ref: {server_id: flies}}]}]\nedges: []\n",
        "modl: x",
    ),
    (
        "workflow_id: w\nmodel: openai/x\nnodes: [{node_id: a, kind: mcp, capability: Read., dependencies: [{dependency_id: d, dependency_type: mcp_tool, resolution_mode: pool, pool_refs: [{server_id: files, tool_name: read}, {server_id: flies, tool_name: read}]}]}]\nedges: []\n",
        "modl: x",
    ),
];

#[tokio::test]
async fn an_unknown_server_is_shown_where_it_is_named() {
    let runtime = test_runtime().toolset(Files::default()).build();
    let mut wrong = Vec::new();
    for (text, mistake) in NAMES_A_SERVER {
        for text in [(*text).to_owned(), format!("{text}{mistake}\n")] {
            let error = runtime.documents().read("w.yaml", text.as_str()).await.unwrap_err();
            let of_server: Vec<_> =
                error.problems().iter().filter(|of| of.message().contains("flies")).collect();
            let says = "no MCP server `flies`; did you mean `files`?";
            match of_server.as_slice() {
                [one]
                    if text.get(one.span()) == Some("flies")
                        && !text[..one.span().start].ends_with("node_id: ")
                        && one.message().contains(says) => {}
                _ => wrong.push(error.to_string()),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn a_toolset_that_cannot_be_fetched_is_named() {
    let files = Files::default();
    files.away.store(true, Ordering::SeqCst);
    let runtime = runtime(&files, json!([{"name": "out", "does": tool("mcp.files.read")}]));
    let error = run(&runtime).await.unwrap_err().to_string();
    assert!(error.contains("`out`"), "{error}");
    assert!(
        error.contains("the tools of `mcp.files` could not be fetched: nobody is at home"),
        "{error}"
    );
    assert!(runtime.catalogue().snapshot().await.check().is_err());
    files.away.store(false, Ordering::SeqCst);
    assert_eq!(run(&runtime).await.unwrap(), "read of version 0");
    // If a fetch fails, the tools of the previous fetch stay in use.
    files.away.store(true, Ordering::SeqCst);
    files.version.store(1, Ordering::SeqCst);
    assert_eq!(run(&runtime).await.unwrap(), "read of version 0");
}

#[tokio::test]
async fn a_tool_that_is_gone_fails_its_node() {
    let files = Files::default();
    let nodes = json!([
        {"name": "changed", "does": tool("mcp.files.change")},
        {"name": "out", "does": tool("mcp.files.read"), "edges": [{"from": "changed"}]},
    ]);
    let runtime = runtime(&files, nodes);
    let error = run(&runtime).await.unwrap_err();
    assert_eq!(error.kind(), FailureKind::NotFound);
    let gone = "the toolset `mcp.files` has no tool `mcp.files.read` now";
    assert!(error.to_string().contains(gone), "{error}");
    // A new run resolves the graph with the current tools.
    let error = run(&runtime).await.unwrap_err().to_string();
    assert!(error.contains("this program has no tool `mcp.files.read`"), "{error}");
}

#[tokio::test]
async fn a_change_does_not_disturb_a_call() {
    let files = Files::default();
    let nodes = json!([
        {"name": "slow", "does": tool("mcp.files.slow")},
        {"name": "read", "does": tool("mcp.files.read"), "edges": [{"from": "slow"}]},
        {"name": "out", "does": {"value": {"list": [{"from": "slow"}, {"from": "read"}]}}},
    ]);
    let runtime = runtime(&files, nodes);
    let handle = runtime.start_named("tidy", empty()).await.unwrap();
    within("`files.began`", files.began.notified()).await;
    files.version.store(1, Ordering::SeqCst);
    runtime.catalogue().snapshot().await.check().unwrap();
    files.may_end.notify_one();
    let output: Value = handle.result().await.unwrap().decode().unwrap();
    assert_eq!(output, json!(["slow of version 0", "read of version 1"]));
}

#[tokio::test]
async fn a_tool_of_another_policy_is_not_called_as_the_one_before() {
    let files = Files::default();
    let nodes = json!([
        {"name": "asked", "does": {"ask": {"text": "now?"}}},
        {"name": "out", "does": tool("mcp.files.read"), "edges": [{"from": "asked"}]},
    ]);
    let store = MemoryStore::new();
    let runtime = test_runtime().toolset(files.clone()).graph(graph(nodes)).store(store).build();
    let handle = runtime.start_named("tidy", empty()).await.unwrap();
    let run = handle.run_id().clone();
    within("the run to ask", async {
        while runtime.run(&run).inspect().await.unwrap().run.pause_reason.is_none() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    files.version.store(3, Ordering::SeqCst);
    runtime.run(&run).approve("asked", Approval::granted(), "ada").await.unwrap();
    let error = handle.result().await.unwrap_err().to_string();
    let changed = "the policy of the tool `mcp.files.read` has changed since the workflow was read; start a new run";
    assert!(error.contains(changed), "{error}");
    // After the toolset was fetched again, the node asks for approval.
    runtime.catalogue().snapshot().await.check().unwrap();
    let policy =
        runtime.catalogue().workflow_graph("tidy").unwrap().node("out").unwrap().policy.clone();
    assert_eq!(policy.approve.as_deref(), Some("call `mcp.files.read`?"));
}

#[tokio::test]
async fn a_run_is_recovered_with_the_tools_of_a_toolset() {
    let store = MemoryStore::new();
    let build = |files: &Files| {
        let nodes = json!([
            {"name": "asked", "does": {"ask": {"text": "now?"}}},
            {"name": "out", "does": tool("mcp.files.read"), "edges": [{"from": "asked"}]},
        ]);
        test_runtime()
            .toolset(ToolsetRef::new(files.clone()))
            .graph(graph(nodes))
            .store(store.clone())
            .build()
    };
    let first = build(&Files::default());
    let handle = first.start_named("tidy", empty()).await.unwrap();
    let run = handle.run_id().clone();
    within("the run to ask", async {
        while first.run(&run).inspect().await.unwrap().run.pause_reason.is_none() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    handle.abandon();
    drop(first);
    let files = Files::default();
    files.away.store(true, Ordering::SeqCst);
    let second = build(&files);
    let mut recovered = second.recover().await.unwrap();
    within("the other runtime to end", async {
        while !recovered.elsewhere.is_empty() {
            tokio::task::yield_now().await;
            recovered = second.recover().await.unwrap();
        }
    })
    .await;
    assert!(
        matches!(recovered.left.as_slice(), [(left, Error::Toolset { .. })] if *left == run),
        "{recovered:?}"
    );
    files.away.store(false, Ordering::SeqCst);
    let mut recovered = second.recover().await.unwrap();
    let handle = recovered.resumed.pop().unwrap();
    second.run(&run).approve("asked", Approval::granted(), "ada").await.unwrap();
    assert_eq!(handle.result().await.unwrap().decode::<String>().unwrap(), "read of version 0");
}

/// A tool that needs no server.
#[tool(effects = "read")]
fn read_a_copy() -> &'static str {
    "read of a copy"
}

/// Returns a runtime with a pipeline, an unreachable toolset and a remote agent whose port refuses
/// connections.
fn without_servers(files: &Files, pipeline: Pipeline) -> Runtime {
    files.away.store(true, Ordering::SeqCst);
    let agent = A2aClient::at("gone", "http://127.0.0.1:1").build().unwrap();
    test_runtime().toolset(files.clone()).toolset(agent).pipeline("tidy", pipeline).build()
}

async fn run_pipeline(runtime: &Runtime) -> Result<String> {
    let input = Encoded::new(&json!({"input": {}})).unwrap();
    Ok(runtime.start_named("tidy", input).await?.result().await?.decode().unwrap())
}

#[tokio::test]
async fn only_the_branch_fails_that_calls_a_tool_which_cannot_be_fetched() {
    let own = || Pipeline::tool("read_a_copy");
    let pipelines = [
        Pipeline::tool("mcp.files.read") / own(),
        Pipeline::tool("a2a.gone") / own(),
        // The first branch succeeds, so this one is never tried.
        own() / Pipeline::tool("mcp.files.read"),
    ];
    for pipeline in pipelines {
        let runtime = without_servers(&Files::default(), pipeline);
        assert_eq!(run_pipeline(&runtime).await.unwrap(), "read of a copy");
    }
    let files = Files::default();
    let runtime = without_servers(
        &files,
        Pipeline::tool("mcp.files.read") / Pipeline::tool("mcp.files.slow"),
    );
    let error = run_pipeline(&runtime).await.unwrap_err().to_string();
    assert!(error.contains("nobody is at home"), "{error}");
}

#[tokio::test]
async fn a_node_fetches_the_tools_again_that_could_not_be_fetched_before() {
    let nodes = json!([
        {"name": "asked", "does": {"ask": {"text": "now?"}}},
        {"name": "out", "does": tool("mcp.files.read"), "edges": [{"from": "asked"}]},
    ]);
    for (version, outcome) in [
        (0, Ok("read of version 0")),
        (2, Err("the toolset `mcp.files` has no tool `mcp.files.read` now")),
        (3, Err("the tool `mcp.files.read` needs an approval, which was not known")),
    ] {
        let files = Files::default();
        files.away.store(true, Ordering::SeqCst);
        files.version.store(version, Ordering::SeqCst);
        let runtime = test_runtime()
            .toolset(files.clone())
            .graph(graph(nodes.clone()))
            .store(MemoryStore::new())
            .build();
        let handle = runtime.start_named("tidy", empty()).await.unwrap();
        let run: RunId = handle.run_id().clone();
        let question = within("the question", handle.asked()).await.unwrap().unwrap();
        files.away.store(false, Ordering::SeqCst);
        runtime.run(&run).answer(&question.path, &Approval::granted(), "ada").await.unwrap();
        let ended = within("the end", handle.result()).await;
        match outcome {
            Ok(text) => assert_eq!(ended.unwrap().decode::<String>().unwrap(), text),
            Err(text) => {
                let error = ended.unwrap_err().to_string();
                assert!(error.contains(text), "{error}");
            }
        }
    }
}

/// Returns a graph that asks a question, calls a tool of the toolset, and falls back to a copy if
/// the call fails.
fn asks_then_reads() -> Graph {
    let read = |name: &str| json!({"kind": "tool", "name": name, "with": {"object": {}}});
    graph(json!([
        {"name": "asked", "does": {"ask": {"text": "now?"}}},
        {"name": "read", "does": {"call": read("mcp.files.read")}, "edges": [{"from": "asked"}]},
        {"name": "copy", "does": {"call": read("read_a_copy")}, "edges": [{"from": "read", "failed": true}]},
        {"name": "out", "does": {"value": {"first": [{"from": "read"}, {"from": "copy"}]}}},
    ]))
}

/// Starts a run with or without a reachable toolset, and abandons it at its question.
async fn abandon_at_question(store: &MemoryStore, graph: &Graph, is_away: bool) -> RunId {
    let files = Files::default();
    files.away.store(is_away, Ordering::SeqCst);
    let runtime = test_runtime().toolset(files).graph(graph.clone()).store(store.clone()).build();
    let handle = runtime.start_named("tidy", empty()).await.unwrap();
    within("the question", handle.asked()).await.unwrap().unwrap();
    let run = handle.run_id().clone();
    handle.abandon();
    run
}

/// Returns another process that can resume the run, with the default policy for changes.
fn next_process(store: &MemoryStore, graph: &Graph, is_away: bool) -> (Files, Runtime) {
    let files = Files::default();
    files.away.store(is_away, Ordering::SeqCst);
    let store = store.as_another_process();
    (files.clone(), test_runtime().toolset(files).graph(graph.clone()).store(store).build())
}

#[tokio::test]
async fn a_run_that_began_without_a_toolset_is_resumed_when_it_is_back() {
    for (is_away, expected) in [(false, "read of version 0"), (true, "read of a copy")] {
        let (store, graph) = (MemoryStore::new(), asks_then_reads());
        let run = abandon_at_question(&store, &graph, true).await;
        let (files, runtime) = next_process(&store, &graph, is_away);
        // Fetching the tools for another purpose does not change the plan of the run.
        if !is_away {
            runtime.catalogue().snapshot().await.check().unwrap();
            assert_eq!(runtime.run(&run).inspect().await.unwrap().changed, None);
        }
        let handle = runtime.run(&run).resume().await.unwrap();
        let question = within("the question", handle.asked()).await.unwrap().unwrap();
        runtime.run(&run).answer(&question.path, &Approval::granted(), "ada").await.unwrap();
        let output = within("the end", handle.result()).await.unwrap().decode::<String>().unwrap();
        assert_eq!((output.as_str(), files.away.load(Ordering::SeqCst)), (expected, is_away));
    }
}

#[tokio::test]
async fn a_run_that_began_with_a_toolset_waits_until_it_is_back() {
    let (store, graph) = (MemoryStore::new(), asks_then_reads());
    let run = abandon_at_question(&store, &graph, false).await;
    let (files, runtime) = next_process(&store, &graph, true);
    let error = runtime.run(&run).resume().await.map(drop).unwrap_err();
    assert!(matches!(error, Error::Toolset { .. }), "{error}");
    files.away.store(false, Ordering::SeqCst);
    let handle = runtime.run(&run).resume().await.unwrap();
    let question = within("the question", handle.asked()).await.unwrap().unwrap();
    runtime.run(&run).answer(&question.path, &Approval::granted(), "ada").await.unwrap();
    let output = within("the end", handle.result()).await.unwrap();
    assert_eq!(output.decode::<String>().unwrap(), "read of version 0");
}

/// Checks that only the missing tools are tolerated. A changed graph is still a changed definition.
#[tokio::test]
async fn only_the_tools_of_the_toolset_are_excepted() {
    let (store, graph) = (MemoryStore::new(), asks_then_reads());
    let run = abandon_at_question(&store, &graph, true).await;
    let other = json!({"value": {"list": [{"from": "read"}]}});
    let mut changed = serde_json::to_value(&graph).unwrap();
    changed["nodes"][3]["does"] = other;
    let (_, runtime) = next_process(&store, &serde_json::from_value(changed).unwrap(), false);
    let error = runtime.run(&run).resume().await.map(drop).unwrap_err();
    assert_eq!(error.kind(), FailureKind::DefinitionChanged, "{error}");
    assert!(
        error.to_string().contains("`out`") && !error.to_string().contains("`read`"),
        "{error}"
    );
}

#[tokio::test]
async fn a_worker_with_the_toolset_executes_steps_of_a_run_that_began_without_it() {
    let (store, files) = (MemoryStore::new(), Files::default());
    files.away.store(true, Ordering::SeqCst);
    let read = graph(json!([{"name": "out", "does": tool("mcp.files.read")}]));
    let worker =
        test_runtime().toolset(Files::default()).graph(read.clone()).store(store.clone()).build();
    worker.catalogue().snapshot().await.check().unwrap();
    let executor = Elsewhere::on_task(worker);
    let runtime = test_runtime().toolset(files).graph(read).store(store).executor(executor).build();
    assert_eq!(run(&runtime).await.unwrap(), "read of version 0");
}

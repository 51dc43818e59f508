//! Adding tools to a runtime that is in use, listing tools by scopes, and the lifecycle of
//! toolsets.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use agentflow::error::RegistryError;
use agentflow::message::ToolCall;
use agentflow::prelude::*;
use agentflow::serde_json::{self, json};
use agentflow::tool::{FnTool, ToolPolicy, ToolRef, Toolset, ToolsetRef};
use agentflow::value::Encoded;
use agentflow::workflow::Graph;
use agentflow::{Error, async_trait};
use agentflow_testing::{ScriptedModel, Turn, test_runtime};

fn ping(name: &str) -> FnTool {
    FnTool::new(name, "Answer.", |_, (): ()| async { Ok::<_, String>("pong") })
}

fn call(name: &str) -> ToolCall {
    ToolCall::new("1", name, "{}")
}

/// A toolset that counts how often it was prepared, queried and released.
#[derive(Clone, Default)]
struct Library {
    prepared: Arc<AtomicU64>,
    released: Arc<AtomicU64>,
    is_closed: Arc<AtomicBool>,
}

impl Library {
    fn counts(&self) -> (u64, u64) {
        (self.prepared.load(Ordering::SeqCst), self.released.load(Ordering::SeqCst))
    }
}

#[async_trait]
impl Toolset for Library {
    fn name(&self) -> &str {
        "library"
    }

    async fn initialize(&self) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        self.prepared.fetch_add(1, Ordering::SeqCst);
        if self.is_closed.load(Ordering::SeqCst) {
            Err("the library is closed".into())
        } else {
            Ok(())
        }
    }

    async fn cleanup(&self) {
        self.released.fetch_add(1, Ordering::SeqCst);
    }

    async fn tools(&self) -> Result<Vec<ToolRef>, Box<dyn std::error::Error + Send + Sync>> {
        let secret = ping("secret").policy(ToolPolicy::default().scopes(["staff"]));
        Ok(vec![ping("open").into(), secret.into()])
    }
}

#[tokio::test(start_paused = true)]
async fn a_built_runtime_takes_further_tools() {
    let call_of = json!({"call": {"kind": "tool", "name": "later_ping", "with": {"object": {}}}});
    let nodes = json!([{"name": "out", "does": call_of}]);
    let graph = json!({"version": 1, "name": "later_graph", "output": "out", "concurrency": 1, "nodes": nodes});
    let graph: Graph = serde_json::from_value(graph).unwrap();
    let runtime = test_runtime().graph(graph).build();
    let empty = Encoded::new(&json!({})).unwrap();
    let clone = runtime.clone();
    // The graph names a tool that does not exist yet.
    let error = runtime.start_named("later_graph", &empty).await.err().unwrap();
    assert!(error.to_string().contains("later_ping"), "{error}");
    runtime.add_tools(ping("later_ping")).await.unwrap();
    assert_eq!(clone.invoke(&call("later_ping"), &[]).await.unwrap().text(), "pong");
    let run = runtime.start_named("later_graph", &empty).await.unwrap();
    assert_eq!(run.result().await.unwrap().as_str(), r#""pong""#);
    assert!(runtime.catalogue().snapshot().await.problems().is_empty());

    // A name can be registered once. If one tool of a list is refused, none is added.
    let error = runtime.add_tools([ping("other_ping"), ping("later_ping")]).await.unwrap_err();
    assert!(
        matches!(&error, Error::Registry(RegistryError::NameTaken { what: "tool", .. })),
        "{error}"
    );
    assert!(error.to_string().contains("added_tools.rs"), "{error}");
    assert!(runtime.catalogue().tool("other_ping").await.is_err());
    runtime.add_tools(ToolsetRef::new(Library::default())).await.unwrap();
    assert_eq!(runtime.invoke(&call("library.open"), &[]).await.unwrap().text(), "pong");
    let error = runtime.add_tools(ToolsetRef::new(Library::default())).await.unwrap_err();
    assert!(error.to_string().contains("library"), "{error}");
    let error = Runtime::default().add_tools(ping("later_ping")).await.unwrap_err();
    assert!(error.to_string().contains("Runtime::builder()"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn added_tools_survive_documents_that_are_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = test_runtime().document_folder(folder.path()).build();
    runtime.add_tools(ping("kept_ping")).await.unwrap();
    let reloaded = runtime.documents().reload().await.unwrap();
    assert!(reloaded.errors.is_empty());
    assert_eq!(runtime.invoke(&call("kept_ping"), &[]).await.unwrap().text(), "pong");
}

#[tokio::test(start_paused = true)]
async fn the_list_of_a_caller_has_the_tools_of_toolsets() {
    let granted = ping("granted").policy(ToolPolicy::default().scopes(["house"]));
    let runtime =
        test_runtime().tools([granted]).toolset(Library::default()).grant(["house"]).build();
    let names = async |scopes: &[&str]| {
        let tools = runtime.catalogue().tools_with_scopes(scopes.iter().copied()).await.unwrap();
        let mut names: Vec<String> =
            tools.iter().map(|tool| tool.catalogue_name().to_string()).collect();
        names.retain(|name| name.starts_with("library.") || name == "granted");
        names
    };
    assert_eq!(names(&[]).await, ["granted", "library.open"]);
    assert_eq!(names(&["staff"]).await, ["granted", "library.open", "library.secret"]);
}

#[tokio::test(start_paused = true)]
async fn a_toolset_is_prepared_once_and_released_when_the_runtime_is_drained() {
    let library = Library::default();
    let runtime = test_runtime().toolset(library.clone()).build();
    assert_eq!(library.counts(), (0, 0));
    for _ in 0..3 {
        runtime.invoke(&call("library.open"), &[]).await.unwrap();
    }
    runtime.catalogue().snapshot().await;
    assert_eq!(library.counts(), (1, 0));
    let _ = runtime.drain(Duration::from_secs(5)).await;
    let _ = runtime.drain(Duration::from_secs(5)).await;
    assert_eq!(library.counts(), (1, 1));

    // An unused toolset has nothing to release; after a failed preparation the next use prepares it again.
    let unused = Library::default();
    let _ = test_runtime().toolset(unused.clone()).build().drain(Duration::from_secs(5)).await;
    assert_eq!(unused.counts(), (0, 0));
    let closed = Library::default();
    closed.is_closed.store(true, Ordering::SeqCst);
    let set = ToolsetRef::new(closed.clone());
    assert!(set.tools().await.unwrap_err().to_string().contains("the library is closed"));
    closed.is_closed.store(false, Ordering::SeqCst);
    let model = ScriptedModel::new([Turn::call("library__open", json!({})), Turn::text("Done.")]);
    Agent::new(model).tools(set.clone()).run("Go.").await.unwrap();
    set.cleanup().await;
    assert_eq!(closed.counts(), (2, 1));
    set.tools().await.unwrap();
    assert_eq!(closed.counts(), (3, 1));
}

//! A process for the kill test. It runs a workflow document over a store file and a folder of
//! documents.
//!
//! `kill-documents STORE EFFECTS FOLDER` writes the first version of the document into FOLDER and
//! starts a run of it. If the store already has a run, it replaces the document by the second
//! version, resumes the run, and prints the outcomes of that run and of a new one. Every effect
//! adds a line to the file EFFECTS. The process retries interrupted calls, as an operator would.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agentflow::event::EventKind;
use agentflow::prelude::*;
use agentflow::store::{SqliteStore, Store};
use agentflow::tool::{FnTool, ToolDefinition};
use agentflow::value::Encoded;
use agentflow::{Result, RunId};
use futures_util::StreamExt;
use serde_json::{Value, json};

/// Number that the nodes of each document version add.
const VERSIONS: [u64; 2] = [1, 100];
const NODES: u64 = 6;

/// Creates a tool that adds and logs the call. Calling it twice for one step would be an error.
fn add(effects: Arc<PathBuf>) -> FnTool {
    let number = json!({"type": "integer"});
    let schema = json!({
        "type": "object",
        "properties": {"a": number, "b": number},
        "required": ["a", "b"],
        "additionalProperties": false
    });
    let body = move |cx: Context, arguments: Value| {
        let effects = Arc::clone(&effects);
        async move {
            let sum = arguments["a"].as_u64().unwrap_or_default()
                + arguments["b"].as_u64().unwrap_or_default();
            let mut file = OpenOptions::new()
                .create(true)
                .append(true)
                .open(&*effects)
                .expect("the file opens");
            // A single write, so that a kill never leaves half a line.
            file.write_all(format!("add {} {} {sum}\n", cx.run_id(), cx.path()).as_bytes())
                .expect("it is written");
            tokio::time::sleep(Duration::from_millis(2)).await;
            Ok::<_, String>(json!(sum))
        }
    };
    FnTool::dynamic(ToolDefinition::new("add", "Adds.", schema), body)
}

/// Writes the outer and the inner document. The outer document is a chain of additions, and each of
/// its nodes calls the inner one. The second version lacks the last node.
fn write(folder: &Path, version: usize) {
    let adds = VERSIONS[version];
    let mut outer =
        "name: sums\noutput: n6\nnodes:\n  - {name: n0, does: {value: {value: 0}}}\n".to_owned();
    for node in 1..=NODES {
        let last =
            if version == 1 && node == 3 { "n1".to_owned() } else { format!("n{}", node - 1) };
        if version == 1 && node == 2 {
            continue;
        }
        outer += &format!(
            "  - {{name: n{node}, does: {{call: {{kind: workflow, name: inner, with: {{object: {{n: {{from: {last}}}}}}}}}}}}}\n"
        );
    }
    let inner = format!(
        "id: inner\nnodes:\n  - {{id: sum, tool: add, args_template: {{a: '{{n}}', b: {adds}}}, retry_limit: 0}}\n"
    );
    // A rename is atomic, as in an editor: no reader sees half a document.
    for (name, text) in [("outer.yaml", outer), ("inner.yaml", inner)] {
        let new = folder.join(format!("{name}.new"));
        fs::write(&new, text).expect("it is written");
        fs::rename(new, folder.join(name)).expect("it is replaced");
    }
}

async fn runtime(effects: &str, folder: &Path, store: SqliteStore) -> Runtime {
    let described = Runtime::builder().store(store).tools(add(Arc::new(PathBuf::from(effects))));
    described.document_folder(folder).boot().await.unwrap_or_else(|error| panic!("{error}"))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [store, effects, folder] = arguments.as_slice() else {
        panic!("kill-documents STORE EFFECTS FOLDER")
    };
    let folder = Path::new(folder);
    fs::create_dir_all(folder).expect("there is a folder");
    let store = SqliteStore::open(store).await?;
    let old = RunId::new("old");
    let runtime = match store.record(&old).await? {
        // The run of the earlier process uses the first version.
        Some(_) => {
            write(folder, 1);
            runtime(effects, folder, store.clone()).await
        }
        None => {
            write(folder, 0);
            let runtime = runtime(effects, folder, store.clone()).await;
            let _ = runtime.start_named("sums", json!({})).run_id(old.clone()).await?;
            // Documents are also replaced while the run is executed.
            write(folder, 1);
            let reloaded =
                runtime.documents().reload().await.unwrap_or_else(|error| panic!("{error}"));
            assert!(reloaded.errors.is_empty() && reloaded.changed.len() == 2, "{reloaded:?}");
            runtime
        }
    };
    let first = outcome(&runtime, &store, &old).await?;
    let new = RunId::new("new");
    if store.record(&new).await?.is_none() {
        let _ = runtime.start_named("sums", json!({})).run_id(new.clone()).await?;
    }
    let second = outcome(&runtime, &store, &new).await?;
    print(&first, &second);
    Ok(())
}

/// Returns the outcome of a run. The run may be executed here, have ended in an earlier process, or
/// be unfinished.
async fn outcome(runtime: &Runtime, store: &SqliteStore, id: &RunId) -> Result<Encoded> {
    if store.record(id).await?.is_some_and(|record| record.status.has_ended()) {
        return runtime.run(id).output().await;
    }
    let run = runtime.run(id).resume().await?;
    let mut events = run.events();
    while let Some(event) = events.next().await {
        if let EventKind::NodeFailed { error, .. } = &event.kind
            && error.kind == "interrupted"
        {
            // An earlier process may have retried the node already, so a refusal is fine.
            let _ = runtime.run(id).retry(&event.path.to_string(), "the worker").await;
        }
    }
    run.result().await
}

#[expect(clippy::print_stdout, reason = "this program prints the outcomes of its runs")]
fn print(first: &Encoded, second: &Encoded) {
    println!("{first} {second}");
}

//! A process that the kill test kills: a run of a document, over a store file and a folder of documents.
//!
//! `kill-documents STORE EFFECTS FOLDER` writes the first version of the document into FOLDER and starts a run of it, or, when
//! there is one, replaces the document by the second version, resumes the run, and prints its outcome and that of a new run.
//! Every effect adds a line to the file EFFECTS. It lets interrupted calls run again, as an operator would.

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

/// What the nodes of each version add.
const VERSIONS: [u64; 2] = [1, 100];
const NODES: u64 = 6;

/// Adds, and writes that down: doing it twice would be wrong.
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
            let sum = arguments["a"].as_u64().unwrap_or_default() + arguments["b"].as_u64().unwrap_or_default();
            let mut file = OpenOptions::new().create(true).append(true).open(&*effects).expect("the file opens");
            // One write, so that a line is there whole or not at all.
            file.write_all(format!("add {} {} {sum}\n", cx.run_id(), cx.path()).as_bytes()).expect("it is written");
            tokio::time::sleep(Duration::from_millis(2)).await;
            Ok::<_, String>(json!(sum))
        }
    };
    FnTool::dynamic(ToolDefinition::new("add", "Adds.", schema), body)
}

/// A document that adds in a row: an inner one is called for each step. In the second version a node is gone, too.
fn write(folder: &Path, version: usize) {
    let adds = VERSIONS[version];
    let mut outer = "name: sums\noutput: n6\nnodes:\n  - {name: n0, does: {value: {value: 0}}}\n".to_owned();
    for node in 1..=NODES {
        let last = if version == 1 && node == 3 { "n1".to_owned() } else { format!("n{}", node - 1) };
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
    // Whole or not at all, as an editor does it; not a document until then.
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
    let [store, effects, folder] = arguments.as_slice() else { panic!("kill-documents STORE EFFECTS FOLDER") };
    let folder = Path::new(folder);
    fs::create_dir_all(folder).expect("there is a folder");
    let store = SqliteStore::open(store).await?;
    let old = RunId::new("old");
    let runtime = match store.record(&old).await? {
        // The run of an earlier life is of the first version.
        Some(_) => {
            write(folder, 1);
            runtime(effects, folder, store.clone()).await
        }
        None => {
            write(folder, 0);
            let runtime = runtime(effects, folder, store.clone()).await;
            let _ = runtime.start_named("sums", json!({})).run_id(old.clone()).await?;
            // While it is executed, too.
            write(folder, 1);
            let reloaded = runtime.reload_documents().await.unwrap_or_else(|error| panic!("{error}"));
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

/// The outcome of a run that this process executes, or another one ended, or left unfinished.
async fn outcome(runtime: &Runtime, store: &SqliteStore, id: &RunId) -> Result<Encoded> {
    if store.record(id).await?.is_some_and(|record| record.status.has_ended()) {
        return runtime.output(id).await;
    }
    let run = runtime.resume(id).await?;
    let mut events = run.events();
    while let Some(event) = events.next().await {
        if let EventKind::NodeFailed { error, .. } = &event.kind
            && error.kind == "interrupted"
        {
            // One of an earlier life was decided on then.
            let _ = runtime.retry(id, &event.path.to_string(), "the worker").await;
        }
    }
    run.result().await
}

#[expect(clippy::print_stdout, reason = "this program prints the outcomes of its runs")]
fn print(first: &Encoded, second: &Encoded) {
    println!("{first} {second}");
}

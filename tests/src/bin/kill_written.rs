//! A process for the kill test. It runs one workflow, written in one of several ways, over a store
//! file.
//!
//! `kill-written WAY STORE EFFECTS` starts the run or resumes it, and prints its outcome and, for a
//! workflow that is data, the hash of its graph. Every effect adds a line to the file EFFECTS. The
//! process retries interrupted calls, as an operator would.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use agentflow::document::Document;
use agentflow::event::EventKind;
use agentflow::pipeline::Pipeline;
use agentflow::prelude::*;
use agentflow::store::{SqliteStore, Store};
use agentflow::{Result, RunId};
use futures_util::StreamExt;
use serde_json::{Value, json};

/// Path of the file that records the side effects.
struct Effects(PathBuf);

/// Adds a word, and writes that down: doing it twice would be wrong.
#[tool]
async fn written_grow(cx: &Context, text: String) -> std::result::Result<String, String> {
    let effects = cx.resource::<Effects>().ok_or("nobody said where effects are written")?;
    let mut file =
        OpenOptions::new().create(true).append(true).open(&effects.0).expect("the file opens");
    // A single write, so that a kill never leaves half a line.
    file.write_all(format!("grow {}\n", cx.path()).as_bytes()).expect("it is written");
    tokio::time::sleep(Duration::from_millis(2)).await;
    Ok(format!("{text}!"))
}

#[workflow]
async fn grown(
    cx: &Context,
    input: String,
) -> std::result::Result<String, Box<dyn std::error::Error + Send + Sync>> {
    let n1 = written_grow(cx, format!("1 {input}")).await?;
    let n2 = written_grow(cx, format!("2 {n1}")).await?;
    let n3 = written_grow(cx, format!("3 {n2}")).await?;
    let n4 = written_grow(cx, format!("4 {n3}")).await?;
    let n5 = written_grow(cx, format!("5 {n4}")).await?;
    let n6 = written_grow(cx, format!("6 {n5}")).await?;
    Ok(n6)
}

fn operators() -> Pipeline {
    let node = |at: u32| {
        let text = json!({"text": format!("{at} {{input}}")});
        Pipeline::tool("written_grow").named(format!("n{at}")).with(text).save(format!("n{at}"))
    };
    (2..=6).fold(node(1), |all, at| all >> node(at))
}

fn tree() -> Value {
    let node = |at: u32| json!({"tool": "written_grow", "as": format!("n{at}"), "with": {"text": format!("{at} {{input}}")}, "save": format!("n{at}")});
    json!({"name": "written", "topology": {"sequence": ((1..=6).map(node).collect::<Vec<_>>())}})
}

fn tools() -> Value {
    let node = |at: u32| {
        let before = if at == 1 { "input".to_owned() } else { format!("n{}", at - 1) };
        json!({"id": format!("n{at}"), "tool": "written_grow", "args_template": {"text": format!("{at} {{{before}}}")}, "retry_limit": 0})
    };
    json!({"id": "written", "nodes": ((1..=6).map(node).collect::<Vec<_>>())})
}

fn graph() -> Value {
    let node = |at: u32| {
        let before = if at == 1 { "input".to_owned() } else { format!("n{}", at - 1) };
        let with = json!({"object": {"text": {"template": format!("{at} {{{before}}}")}}});
        let call = json!({"call": {"kind": "tool", "name": "written_grow", "with": with}});
        json!({"name": format!("n{at}"), "does": call, "saves": {format!("n{at}"): ""}})
    };
    let nodes: Vec<Value> =
        [json!({"name": "input", "kind": "input"})].into_iter().chain((1..=6).map(node)).collect();
    json!({"name": "written", "output": "n6", "nodes": nodes})
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [way, store, effects] = arguments.as_slice() else {
        panic!("kill-written WAY STORE EFFECTS")
    };
    let store = SqliteStore::open(store).await?;
    let builder = Runtime::builder().store(store.clone()).resource(Effects(effects.into()));
    let document = |written: Value| {
        Document::read("written.json", written.to_string()).expect("it has no mistakes")
    };
    let (builder, hash) = match way.as_str() {
        "code" => (builder, String::new()),
        "operators" => {
            let graphs = operators().graphs("written").expect("it has no mistakes");
            (builder.pipeline("written", operators()), graphs[0].hash())
        }
        form => {
            let document = document(match form {
                "tree" => tree(),
                "tools" => tools(),
                _ => graph(),
            });
            assert_eq!(document.form().as_str(), form);
            (builder.document(document.clone()), document.graph().hash())
        }
    };
    let (runtime, id) = (builder.build(), RunId::new("run"));
    let run = match store.record(&id).await? {
        Some(record) if record.status.has_ended() => {
            return print(&runtime.run(&id).output().await?, &hash);
        }
        Some(_) => runtime.run(&id).resume().await?,
        None => {
            let name = if way == "code" { "grown" } else { "written" };
            runtime.start_named(name, json!({"input": "it"})).run_id(id.clone()).await?
        }
    };
    let mut events = run.events();
    while let Some(event) = events.next().await {
        if let EventKind::NodeFailed { error, .. } = &event.kind
            && error.kind == "interrupted"
        {
            // An earlier process may have retried the node already, so a refusal is fine.
            let _ = runtime.run(&id).retry(&event.path.to_string(), "the worker").await;
        }
    }
    print(&run.result().await?, &hash)
}

#[expect(
    clippy::print_stdout,
    clippy::unnecessary_wraps,
    reason = "this program prints the outcome of its run"
)]
fn print(output: &agentflow::value::Encoded, hash: &str) -> Result<()> {
    println!("{output} {hash}");
    Ok(())
}

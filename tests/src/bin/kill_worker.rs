//! A process for the kill test. It runs a workflow of thirty nodes over a store file, with tools,
//! an agent and a map.
//!
//! `kill-worker STORE EFFECTS` starts the run or resumes it, and prints its outcome. Every effect
//! adds a line to the file EFFECTS. The process retries interrupted steps that may have taken
//! effect, as an operator would.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agentflow::event::EventKind;
use agentflow::prelude::*;
use agentflow::store::{SqliteStore, Store, StoreErrorKind};
use agentflow::{Error, Result, RunId};
use agentflow_testing::{ScriptedModel, Turn};
use futures_util::StreamExt;
use serde_json::json;

/// Path of the file that records the side effects.
struct Effects(PathBuf);

fn effect(path: &Path, key: &str) {
    let mut file = OpenOptions::new().create(true).append(true).open(path).expect("the file opens");
    // A single write, so that a kill never leaves half a line.
    file.write_all(format!("{key}\n").as_bytes()).expect("it is written");
}

async fn work(cx: &Context, n: u64) -> Result<u64> {
    tokio::time::sleep(Duration::from_micros(500)).await;
    let _ = cx.attempt();
    Ok(n + 1)
}

/// Sends something; doing it twice would be wrong.
#[tool]
async fn send(cx: &Context, effects: Inject<Effects>, n: u64) -> std::result::Result<u64, String> {
    effect(&effects.0, &format!("send {}", cx.path()));
    tokio::time::sleep(Duration::from_millis(1)).await;
    Ok(n * 2)
}

/// Books something; the same key books once.
#[tool(idempotent)]
async fn book(cx: &Context, effects: Inject<Effects>, n: u64) -> std::result::Result<u64, String> {
    effect(&effects.0, &format!("book {}", cx.idempotency_key()));
    tokio::time::sleep(Duration::from_millis(1)).await;
    Ok(n + 3)
}

/// Notes a thing that the agent found out.
#[tool]
async fn note(
    cx: &Context,
    effects: Inject<Effects>,
    text: String,
) -> std::result::Result<String, String> {
    effect(&effects.0, &format!("note {}", cx.path()));
    tokio::time::sleep(Duration::from_millis(1)).await;
    Ok(text)
}

/// Note what is worth noting about {n}, then say how it looks.
#[agent(tools = [note])]
async fn look(cx: &Context, n: u64) -> Result<String>;

async fn send_it(cx: &Context, n: u64) -> Result<u64> {
    let effects = cx.resource::<Effects>().expect("the runtime has it");
    Ok(send(cx, Inject::from(effects), n).await.expect("it does not fail"))
}

async fn book_it(cx: &Context, n: u64) -> Result<u64> {
    let effects = cx.resource::<Effects>().expect("the runtime has it");
    Ok(book(cx, Inject::from(effects), n).await.expect("it does not fail"))
}

/// Runs thirty nodes.
#[workflow]
async fn thirty(cx: &Context, n: u64) -> Result<String> {
    let a1 = work(cx, n).await?;
    let a2 = work(cx, a1).await?;
    let a3 = work(cx, a1).await?;
    let a4 = work(cx, a2 + a3).await?;
    #[node(repeatable = false)]
    let s1 = send_it(cx, a4).await?;
    let b1 = work(cx, a4).await?;
    let b2 = work(cx, b1).await?;
    let b3 = work(cx, b1).await?;
    let b4 = work(cx, b2).await?;
    let b5 = work(cx, b3 + b4).await?;
    #[node(repeatable = false)]
    let s2 = send_it(cx, b5).await?;
    let looks = look(cx, a4).await?;
    #[node(concurrency = 3)]
    let items = map!(vec![a1, a2, a3, a4, b1, b2], |x| work(cx, x)).await?;
    let c1 = work(cx, items[0]).await?;
    let c2 = work(cx, items[1] + s1).await?;
    let c3 = work(cx, c1 + c2).await?;
    let way = if c3 % 2 == 0 {
        let even = work(cx, c3).await?;
        work(cx, even).await?
    } else {
        let odd = work(cx, c3).await?;
        #[node(repeatable = false)]
        let sent = send_it(cx, odd).await?;
        work(cx, sent).await?
    };
    let d1 = work(cx, way).await?;
    let d2 = work(cx, way).await?;
    let booked = book_it(cx, d2).await?;
    let d3 = work(cx, d1 + booked).await?;
    let raced = race!(work(cx, d3), work(cx, d3)).await?;
    let e1 = work(cx, raced).await?;
    let e2 = work(cx, e1).await?;
    #[node(repeatable = false)]
    let s3 = send_it(cx, e2).await?;
    let last = work(cx, s3 + s2).await?;
    Ok(format!("{last} {items:?} {looks}"))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [store, effects] = arguments.as_slice() else { panic!("kill-worker STORE EFFECTS") };
    // Calls `note` once, then gives the same answer for every result of the call.
    let model = ScriptedModel::from_fn(|request| match request.messages.len() {
        2 => Turn::call("note", json!({"text": "it is a number"})),
        _ => Turn::text("fine"),
    });
    let store = SqliteStore::open(store).await?;
    let runtime = Runtime::builder()
        .store(store.clone())
        .resource(Effects(effects.into()))
        .model(model)
        .workflow(&thirty::workflow())
        .build();
    let id = RunId::new("run");
    let run = match runtime.start(thirty::workflow(), 1).run_id(id.clone()).await {
        Ok(run) => run,
        Err(Error::Store(error)) if error.kind() == StoreErrorKind::Exists => {
            if let Some(output) = ended(&store, &id).await? {
                print(&output);
                return Ok(());
            }
            runtime.run(&id).resume_as(&thirty::workflow()).await?
        }
        Err(error) => return Err(error),
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
    print(&run.result().await?);
    Ok(())
}

#[expect(clippy::print_stdout, reason = "this program prints the outcome of its run")]
fn print(output: &str) {
    println!("{output}");
}

/// Returns the outcome of the run if an earlier process finished it.
async fn ended(store: &SqliteStore, id: &RunId) -> Result<Option<String>> {
    let events = store.read(id, 0, usize::MAX).await?;
    let last = events.iter().rev().find_map(|event| match &event.kind {
        EventKind::RunCompleted(completed) => {
            completed.workflow().map(|workflow| workflow.output.clone())
        }
        _ => None,
    });
    Ok(last.map(|output| output.decode().expect("the output is text")))
}

//! A node with external code between two agents: `draft >> post >> gate >> thank`.
//!
//! The engine cannot inspect external code, so the node declares its properties: it has side
//! effects, it is idempotent per key, and a failed call may be retried. The ledger here books an
//! entry and then loses its response, once. The retry uses the same key, so nothing is booked
//! twice. Then the process stops while the run waits for a person, and a second runtime resumes it.
//! The completed node is not called again. `opaque` works offline with scripted models.

mod ledger;

use std::error::Error;
use std::time::Duration;

use agentflow::pipeline::Pipeline;
use agentflow::prelude::*;
use agentflow::serde_json::json;
use agentflow::store::MemoryStore;
use agentflow::tool::{Effects, FnTool, ToolPolicy, ToolRef};
use agentflow_testing::{ScriptedModel, Turn};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::ledger::Ledger;

#[derive(Deserialize, JsonSchema)]
struct Entry {
    text: String,
}

/// Wraps the external code as a tool and declares its effects.
fn post(ledger: &Ledger) -> ToolRef {
    let ledger = ledger.clone();
    let tool = FnTool::new("post", "Book an entry.", move |cx: Context, entry: Entry| {
        let ledger = ledger.clone();
        async move { ledger.book(&cx.idempotency_key(), &entry.text) }
    });
    tool.policy(ToolPolicy::default().effects(Effects::Write).idempotent().retry(2)).into()
}

fn runtime(store: &MemoryStore, ledger: &Ledger) -> Runtime {
    let agent = |name: &str, answer: &'static str| {
        Agent::new(ScriptedModel::from_fn(move |_| Turn::text(answer))).name(name)
    };
    let pipeline = Pipeline::from(agent("draft", "700 cents for tea"))
        >> Pipeline::from(post(ledger)).with(json!({"text": "{input}"}))
        >> Pipeline::gate("Send the thanks?")
        >> Pipeline::from(agent("thank", "Thank you for the tea."));
    Runtime::builder().store(store.clone()).pipeline("booked", pipeline).build()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (store, ledger) = (MemoryStore::new(), Ledger::default());

    let first = runtime(&store, &ledger);
    let run = first.start_named("booked", json!({"input": "tea"})).await?;
    let id = run.run_id().clone();
    run.asked().await?;
    first.drain(Duration::from_secs(10)).await;
    println!("the first process: {} calls, {} entries", ledger.calls(), ledger.entries());

    let second = runtime(&store, &ledger);
    let run = second.run(&id).resume().await?;
    while let Some(question) = run.asked().await? {
        run.approve(&question.path, Approval::granted(), "ada").await?;
    }
    let answer: String = run.result().await?.decode()?;
    println!("the second process: {answer}");
    println!("in the end: {} calls, {} entries", ledger.calls(), ledger.entries());
    Ok(())
}

//! Calls within a step: however a call of a tool, an agent or a workflow is wrapped, its policy holds, it has a record of
//! its own, and it is not made again when its step is.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use agentflow::event::{EventKind, PauseReason};
use agentflow::prelude::*;
use agentflow::run::Approval;
use agentflow::store::{MemoryStore, SqliteStore, Store};
use agentflow::{Error, Event, Result, RunId};
use agentflow_testing::{CrashTest, EffectLog, check_events, trace};

/// Sends a letter; nobody knows what a second one does.
#[tool]
async fn mail(cx: &Context, log: Inject<EffectLog>, to: String) -> Result<String, String> {
    log.note(cx);
    if to == "nobody" { Err(format!("{to} does not exist")) } else { Ok(format!("mailed {to}")) }
}

/// Charges a customer.
#[tool(idempotent)]
async fn charge(cx: &Context, cents: u64) -> String {
    format!("{cents} under {}", cx.idempotency_key())
}

/// Refunds a customer, which a person must agree to.
#[tool(approve)]
async fn refund(cx: &Context, log: Inject<EffectLog>, cents: u64) -> Result<u64, String> {
    log.note(cx);
    Ok(cents)
}

/// What is there.
#[tool(effects = "read")]
async fn look(log: Inject<Count>, what: String) -> String {
    log.0.fetch_add(1, Ordering::Relaxed);
    format!("{what}!")
}

#[derive(Default)]
struct Count(AtomicU32);

/// Mails everybody, in a loop in a function that is no tool.
async fn mail_all(cx: &Context, names: Vec<String>) -> Result<Vec<String>, String> {
    let mut done = Vec::new();
    for name in names {
        done.push(mail(cx, cx.inject().map_err(|error| error.to_string())?, name).await?);
    }
    Ok(done)
}

fn failed(problem: String) -> Error {
    Error::Lost { reason: problem }
}

fn lines(events: &[Event]) -> Vec<String> {
    check_events(events).unwrap();
    trace(events)
}

async fn events(store: &MemoryStore, run: &str) -> Vec<Event> {
    store.read(&RunId::new(run), 0, usize::MAX).await.unwrap()
}

#[workflow(name = "letters")]
async fn letters(cx: &Context, names: Vec<String>) -> Result<Vec<String>> {
    let sent = mail_all(cx, names).await.map_err(failed)?;
    Ok(sent)
}

#[tokio::test(start_paused = true)]
async fn calls_in_a_helper_have_records_of_their_own_and_none_is_made_twice() {
    let effects = EffectLog::new();
    let resource = effects.clone();
    let names = || vec!["ada".to_owned(), "bob".to_owned(), "eve".to_owned()];
    let report = CrashTest::new(&letters::workflow(), names)
        .runtime(move |runtime| runtime.resource(resource.clone()))
        .effects(&effects)
        .twice()
        .run()
        .await;
    assert!(report.crashes() > 10, "{report:?}");
    let counts = effects.counts();
    let paths: Vec<&String> = counts.keys().collect();
    assert_eq!(paths, ["sent/tool#1.mail", "sent/tool#2.mail", "sent/tool#3.mail"]);
}

//! Tests a call that a step no longer polls while a slow store processes its write. Other records
//! of the run must not wait for it. Also tests a call that is dropped at that point, and a
//! compensation that is given up there.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentflow::agent::RunRequest;
use agentflow::event::{EventKind, PauseReason};
use agentflow::prelude::*;
use agentflow::store::{Append, Epoch, MemoryStore, SqliteStore, Store, StoreError};
use agentflow::tool::ToolError;
use agentflow::{Agent, Result, RunId, async_trait};
use agentflow_testing::{ScriptedModel, Turn, check_events, test_runtime};
use serde_json::json;
use tokio::sync::Notify;

/// A store that delays one of the tests' writes, selected by its number.
#[derive(Clone)]
struct Slow {
    inner: Arc<dyn Store>,
    held: Held,
}

#[derive(Clone, Default)]
struct Held(Arc<DelayedWriteState>);

#[derive(Default)]
struct DelayedWriteState {
    /// Number of writes before the delayed one.
    before: AtomicUsize,
    /// Duration of the delay.
    lasts: Duration,
    is_held: AtomicBool,
    begins: Notify,
    charged: Mutex<Vec<String>>,
}

impl std::fmt::Debug for Slow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Slow")
    }
}

#[async_trait]
impl agentflow::store::StoreLayer for Slow {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    async fn append(&self, run: &RunId, epoch: Epoch, append: Append) -> Result<(), StoreError> {
        let below = |path: &str| {
            ["chosen/", "unpolled_dawdles/", "unpolled_withdraw"].iter().any(|of| path.contains(of))
        };
        if append.events.iter().any(|event| below(&event.path.to_string())) && self.held.is_next() {
            self.held.0.is_held.store(true, Ordering::SeqCst);
            self.held.0.begins.notify_waiters();
            tokio::time::sleep(self.held.0.lasts).await;
        }
        self.inner.append(run, epoch, append).await
    }
}

impl Held {
    fn at(before: usize, lasts: Duration) -> Self {
        Self(Arc::new(DelayedWriteState {
            before: before.into(),
            lasts,
            ..DelayedWriteState::default()
        }))
    }

    fn is_next(&self) -> bool {
        self.0.before.fetch_sub(1, Ordering::SeqCst) == 0
    }

    fn is_held(&self) -> bool {
        self.0.is_held.load(Ordering::SeqCst)
    }

    /// Waits until the delayed write has started.
    async fn begins(&self) {
        loop {
            let begins = self.0.begins.notified();
            if self.is_held() {
                return;
            }
            begins.await;
        }
    }

    fn note(&self, what: &str) {
        self.0.charged.lock().unwrap().push(what.to_owned());
    }

    fn charged(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.charged.lock().unwrap())
    }
}

/// Charges.
#[tool(compensate = unpolled_refund)]
async fn unpolled_charge(held: Inject<Held>, what: String) -> String {
    held.note(&what);
    what
}

/// Pays back.
#[tool(idempotent)]
async fn unpolled_refund(held: Inject<Held>, what: String, output: String) -> bool {
    held.note(&format!("refund {what}"));
    what == output
}

/// Charge once.
#[agent(tools = [unpolled_charge])]
async fn unpolled_agent(cx: &Context, what: String) -> Result<String>;

#[workflow(name = "unpolled-workflow")]
async fn unpolled_workflow(cx: &Context, what: String) -> Result<String> {
    let charged = unpolled_charge(cx.inject()?, what).await;
    Ok(charged)
}

async fn first(cx: &Context, callee: &str) -> Result<String> {
    let what = "first".to_owned();
    match callee {
        "agent" => unpolled_agent(cx, what).await,
        "workflow" => unpolled_workflow(cx, what).await,
        _ => Ok(unpolled_charge(cx.inject()?, what).await),
    }
}

async fn second(cx: &Context, callee: &str) -> Result<String> {
    match callee {
        "agent" => unpolled_agent(cx, "second".to_owned()).await,
        "workflow" => unpolled_workflow(cx, "second".to_owned()).await,
        _ => Ok(unpolled_charge(cx.inject()?, "second".to_owned()).await),
    }
}

/// Handling of the first call after its write has started.
#[derive(
    Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
enum Then {
    /// Polls it again after the second call has ended.
    Kept,
    /// Drops it before the second call.
    Dropped,
    /// Keeps it until the step ends without polling it again.
    Forgotten,
}

async fn choose(cx: &Context, callee: String, then: Then) -> Result<String> {
    let held = cx.inject::<Held>()?;
    let mut call = Some(Box::pin(first(cx, &callee)));
    let ended = tokio::select! {
        ended = call.as_mut().unwrap() => Some(ended?),
        () = held.begins() => None,
    };
    if let Some(ended) = ended {
        return Ok(ended);
    }
    if then == Then::Dropped {
        call = None;
    }
    let second = second(cx, &callee).await?;
    match call {
        Some(call) if then == Then::Kept => Ok(format!("{} {second}", call.await?)),
        _ => Ok(second),
    }
}

#[workflow(name = "unpolled-choice")]
async fn unpolled_choice(cx: &Context, callee: String, then: Then) -> Result<String> {
    let chosen = choose(cx, callee, then).await?;
    Ok(chosen)
}

fn model() -> ScriptedModel {
    ScriptedModel::from_fn(move |request| {
        let messages = request.messages.messages();
        match messages.iter().any(|message| message.results().next().is_some()) {
            true => Turn::text("charged"),
            false => {
                let what = if messages.last().unwrap().text().contains("first") {
                    "first"
                } else {
                    "second"
                };
                Turn::call("unpolled_charge", json!({"what": what}))
            }
        }
    })
}

fn runtime(store: &Arc<dyn Store>, held: &Held) -> Runtime {
    let slow = Slow { inner: Arc::clone(store), held: held.clone() };
    test_runtime().store(slow).resource(held.clone()).model(model()).build()
}

async fn in_time<T>(what: &str, waits: impl IntoFuture<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), waits)
        .await
        .unwrap_or_else(|_| panic!("{what}: it waits for ever"))
}

/// Delays each write of the first call in turn.
async fn hold_each_write(lasts: Duration, store: impl AsyncFn() -> Arc<dyn Store>) {
    for callee in ["tool", "agent", "workflow"] {
        for then in [Then::Kept, Then::Dropped, Then::Forgotten] {
            let mut writes = 0;
            loop {
                let held = Held::at(writes, lasts);
                let what = format!("{callee} {then:?} write {writes}");
                let store = store().await;
                let runtime = runtime(&store, &held);
                let run = runtime
                    .start(unpolled_choice::workflow(), (callee.to_owned(), then))
                    .await
                    .unwrap();
                let output = in_time(&what, run.result())
                    .await
                    .unwrap_or_else(|error| panic!("{what}: {error}"));
                check_events(&runtime.run(run.run_id()).journal().await.unwrap())
                    .unwrap_or_else(|bad| panic!("{what}: {bad}"));
                let charged = held.charged();
                let of = |name: &str| charged.iter().filter(|charged| *charged == name).count();
                if of("second") == 0 {
                    // The first call had ended before this write.
                    assert_eq!(charged, ["first"], "{what}");
                    break;
                }
                assert_eq!(of("second"), 1, "{what}: {charged:?}");
                match then {
                    Then::Kept => {
                        assert!(output.contains(' '), "{what}: {output}");
                        assert_eq!(of("first"), 1, "{what}: {charged:?}");
                    }
                    _ => assert!(of("first") <= 1, "{what}: {charged:?}"),
                }
                writes += 1;
            }
            assert!(writes >= if callee == "tool" { 1 } else { 3 }, "{callee} {then:?}: {writes}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_not_polled_holds_up_no_other_call() {
    let store = async || Arc::new(MemoryStore::new()) as Arc<dyn Store>;
    hold_each_write(Duration::from_secs(5), store).await;
}

#[tokio::test]
async fn the_same_with_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let files = AtomicUsize::new(0);
    let store = async || {
        let file = format!("{}.db", files.fetch_add(1, Ordering::SeqCst));
        Arc::new(SqliteStore::open(folder.path().join(file)).await.unwrap()) as Arc<dyn Store>
    };
    hold_each_write(Duration::from_millis(1), store).await;
}

/// Has a write in progress and waits for something unrelated.
async fn dawdle(cx: &Context, callee: String) -> Result<u32> {
    let held = cx.inject::<Held>()?;
    let mut call = pin!(first(cx, &callee));
    tokio::select! {
        _ = &mut call => {}
        () = held.begins() => tokio::time::sleep(Duration::from_secs(1000)).await,
    }
    Ok(1)
}

#[workflow(name = "unpolled-dawdle")]
async fn unpolled_dawdle(cx: &Context, callee: String) -> Result<u32> {
    let chosen = dawdle(cx, callee).await?;
    Ok(chosen)
}

/// Has a write in progress and waits for something unrelated.
#[tool(idempotent)]
async fn unpolled_dawdles(cx: &Context, callee: String) -> Result<u32> {
    dawdle(cx, callee).await
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_not_polled_holds_up_no_request_to_the_run() {
    for (of_agent, callees) in
        [(false, &["tool", "agent", "workflow"][..]), (true, &["agent", "workflow"])]
    {
        for &callee in callees {
            let held = Held::at(0, Duration::from_secs(5));
            let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
            let runtime = runtime(&store, &held);
            let id = RunId::new("r");
            let agent =
                Agent::new(ScriptedModel::from_fn(move |request| match request.messages.len() {
                    1 => Turn::call("unpolled_dawdles", json!({"callee": callee})),
                    _ => Turn::text("done"),
                }))
                .tools(tools![unpolled_dawdles])
                .runtime(&runtime);
            let (of_agents, of_workflows) = match of_agent {
                true => {
                    (Some(agent.start(RunRequest::new("go").run_id(id.clone())).unwrap()), None)
                }
                false => {
                    let run = runtime
                        .start(unpolled_dawdle::workflow(), callee.to_owned())
                        .run_id(id.clone());
                    (None, Some(run.await.unwrap()))
                }
            };
            in_time(callee, held.begins()).await;
            let what = format!("{callee}, of an agent: {of_agent}");
            in_time(&what, runtime.run(&id).pause())
                .await
                .unwrap_or_else(|error| panic!("{what}: {error}"));
            in_time(&what, runtime.run(&id).unpause())
                .await
                .unwrap_or_else(|error| panic!("{what}: {error}"));
            let journal = runtime.run(&id).journal().await.unwrap();
            let paused = |kind: &EventKind| {
                matches!(kind, EventKind::RunPaused { reason: PauseReason::Operator, .. })
            };
            assert!(journal.iter().any(|event| paused(&event.kind)), "{what}");
            in_time(&what, runtime.run(&id).cancel("enough"))
                .await
                .unwrap_or_else(|error| panic!("{what}: {error}"));
            check_events(&runtime.run(&id).journal().await.unwrap()).unwrap();
            drop((of_agents, of_workflows));
        }
    }
}

/// Takes out money.
#[tool(compensate = unpolled_withdraw_back)]
async fn unpolled_withdraw(cx: &Context, what: String) -> Result<String> {
    cx.inject::<Held>()?.note(&what);
    Ok(what)
}

/// Pays it in, when a person agrees.
#[tool(idempotent)]
async fn unpolled_withdraw_back(cx: &Context, what: String, output: String) -> Result<bool> {
    Ok(unpolled_asked(cx, what).await? == output)
}

#[workflow(name = "unpolled-asked")]
async fn unpolled_asked(cx: &Context, what: String) -> Result<String> {
    let approval = gate!("pay {what} in?", what).await?;
    let paid = paid_in(what, approval).await?;
    Ok(paid)
}

async fn paid_in(what: String, _: Approval) -> Result<String> {
    Ok(what)
}

#[workflow(name = "unpolled-withdraws")]
async fn unpolled_withdraws(
    cx: &Context,
    what: String,
) -> Result<String, Box<dyn std::error::Error + Send + Sync>> {
    let earlier = unpolled_charge(cx.inject()?, what.clone()).await;
    let out = unpolled_withdraw(cx, what).await?;
    let over = is_over(earlier, out).await?;
    Ok(over)
}

async fn is_over(_: String, _: String) -> Result<String, ToolError> {
    Err(ToolError::new("it is over"))
}

#[tokio::test(start_paused = true)]
async fn an_undoing_that_is_given_up_at_any_write_holds_up_no_other() {
    let mut writes = 0;
    loop {
        let held = Held::at(writes, Duration::from_secs(5));
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let runtime = runtime(&store, &held);
        let run = runtime
            .start(unpolled_withdraws::workflow(), "five".to_owned())
            .compensate()
            .await
            .unwrap();
        let id = run.run_id().clone();
        tokio::select! {
            () = held.begins() => {}
            () = tokio::time::sleep(Duration::from_secs(100)) => {}
        }
        let what = format!("write {writes}");
        // The first cancellation waits for the person, or is refused because the run is already
        // compensating. The next one gives up the current compensation.
        let _ =
            tokio::time::timeout(Duration::from_millis(1), runtime.run(&id).cancel("enough")).await;
        let _ =
            tokio::time::timeout(Duration::from_millis(1), runtime.run(&id).cancel("enough")).await;
        let gives_up = async {
            loop {
                tokio::time::sleep(Duration::from_secs(7)).await;
                let _ = runtime.run(&id).cancel("more than enough").await;
            }
        };
        let error = tokio::select! {
            ended = in_time(&what, run.result()) => ended.unwrap_err().to_string(),
            () = gives_up => unreachable!("it asks for ever"),
        };
        let charged = held.charged();
        let of = |name: &str| charged.iter().filter(|charged| *charged == name).count();
        assert_eq!(of("refund five"), 1, "{what}: {charged:?}; {error}");
        check_events(&runtime.run(&id).journal().await.unwrap())
            .unwrap_or_else(|bad| panic!("{what}: {bad}"));
        if !held.is_held() {
            break;
        }
        writes += 1;
    }
    assert!(writes >= 5, "{writes}");
}

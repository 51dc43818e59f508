//! Calls of a step that is retried, routes to another step, waits for a person or is stopped. No
//! completed call is repeated, and the time of a person does not count as the step's.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use agentflow::event::EventKind;
use agentflow::prelude::*;
use agentflow::run::Approval;
use agentflow::store::{MemoryStore, Store};
use agentflow::{Error, Result, RunId};
use agentflow_testing::{CrashTest, EffectLog, check_events, test_runtime, trace, within};
use futures_util::StreamExt;

use crate::calls::run_of;

/// Ships a parcel. It is not idempotent.
#[tool]
async fn ship(cx: &Context, log: Inject<EffectLog>, parcel: String) -> Result<String, String> {
    log.note(cx);
    Ok(format!("shipped {parcel}"))
}

/// Sends a letter to a service that takes each only once.
#[tool(idempotent)]
async fn send(cx: &Context, log: Inject<EffectLog>, letter: String) -> String {
    log.note(cx);
    format!("sent {letter}")
}

/// Ships a parcel that a person has agreed to.
#[tool(approve)]
async fn ship_asked(
    cx: &Context,
    log: Inject<EffectLog>,
    parcel: String,
) -> Result<String, String> {
    log.note(cx);
    Ok(format!("shipped {parcel}"))
}

/// Ships a parcel after approval, within ten seconds.
#[tool(timeout = "10s")]
async fn ship_waiting(
    cx: &Context,
    log: Inject<EffectLog>,
    parcel: String,
) -> Result<String, String> {
    ship_asked(cx, log, parcel).await
}

/// Counts the looks at the stock.
#[tool(effects = "read")]
async fn stock(looks: Inject<AtomicU32>) -> u32 {
    looks.fetch_add(1, Ordering::Relaxed)
}

#[derive(Debug)]
struct Failed(String);

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self(error.to_string())
    }
}

impl From<String> for Failed {
    fn from(problem: String) -> Self {
        Self(problem)
    }
}

// Time limits and a person's time.

async fn ship_after_question(cx: &Context, parcel: &str) -> Result<String, Failed> {
    let shipped = ship_asked(cx, cx.inject()?, parcel.to_owned()).await?;
    tokio::time::sleep(Duration::from_secs(5)).await;
    Ok(shipped)
}

#[workflow(name = "asked-in-time")]
async fn asked_in_time(cx: &Context, _cents: u64) -> Result<String, Failed> {
    #[node(timeout = "10s")]
    let shipped = ship_after_question(cx, "a").await?;
    Ok(shipped)
}

#[workflow(name = "asked-in-a-tool")]
async fn asked_in_a_tool(cx: &Context, _cents: u64) -> Result<(String, u32), Failed> {
    let shipped = (ship_waiting(cx, cx.inject()?, "b".to_owned()).await?, 1);
    Ok(shipped)
}

#[workflow(name = "asks-of-retried-calls")]
async fn asks(parcel: String) -> Result<String, Failed> {
    let answer = gate!("ship {parcel}?").await?;
    Ok(format!("{parcel} {}", answer.is_granted()))
}

async fn ask_nested(parcel: &str) -> Result<String, Failed> {
    let asked = asks(parcel.to_owned()).await?;
    tokio::time::sleep(Duration::from_secs(5)).await;
    Ok(asked)
}

#[workflow(name = "asked-in-a-workflow")]
async fn asked_in_a_workflow(_cents: u64) -> Result<String, Failed> {
    #[node(timeout = "10s")]
    let shipped = ask_nested("c").await?;
    Ok(shipped)
}

/// Runs a workflow and answers its question after a day. Returns its outcome and duration.
async fn answered_after_a_day<Out>(
    workflow: &agentflow::Workflow<(u64,), Out>,
    path: &str,
    answer: Approval,
) -> (Result<Out>, Duration)
where
    Out: agentflow::value::NodeValue,
{
    let began = tokio::time::Instant::now();
    let runtime = test_runtime().resource(EffectLog::new()).store(MemoryStore::new()).build();
    let handle = runtime.start(workflow.clone(), 7).await.unwrap();
    let mut events = handle.events();
    while let Some(event) = within("the next event", events.next()).await {
        if matches!(event.kind, EventKind::ApprovalRequested(_)) {
            assert_eq!(event.path.to_string(), path);
            break;
        }
    }
    tokio::time::sleep(Duration::from_secs(24 * 3600)).await;
    runtime.run(handle.run_id()).approve(path, answer, "ada").await.unwrap();
    (handle.result().await, began.elapsed())
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_person_is_not_the_steps() {
    let day = Duration::from_secs(24 * 3600);
    let (ended, took) = answered_after_a_day(
        &asked_in_time::workflow(),
        "shipped/tool#1.ship_asked",
        Approval::granted(),
    )
    .await;
    assert_eq!(ended.unwrap(), "shipped a");
    assert!(took >= day + Duration::from_secs(5), "{took:?}");
    let path = "shipped/tool#1.ship_waiting/tool#1.ship_asked";
    let (ended, _) =
        answered_after_a_day(&asked_in_a_tool::workflow(), path, Approval::granted()).await;
    assert_eq!(ended.unwrap().0, "shipped b");
    let (ended, _) = answered_after_a_day(
        &asked_in_a_workflow::workflow(),
        "shipped/answer",
        Approval::granted(),
    )
    .await;
    assert_eq!(ended.unwrap(), "c true");
}

async fn ship_too_late(cx: &Context) -> Result<String, Failed> {
    tokio::time::sleep(Duration::from_secs(6)).await;
    let shipped = ship_asked(cx, cx.inject()?, "d".to_owned()).await?;
    tokio::time::sleep(Duration::from_secs(6)).await;
    Ok(shipped)
}

#[workflow(name = "asked-too-late")]
async fn asked_too_late(cx: &Context, _cents: u64) -> Result<String, Failed> {
    #[node(timeout = "10s")]
    let shipped = ship_too_late(cx).await?;
    Ok(shipped)
}

#[tokio::test(start_paused = true)]
async fn the_time_before_and_after_a_question_is_the_steps() {
    let path = "shipped/tool#1.ship_asked";
    let (ended, took) =
        answered_after_a_day(&asked_too_late::workflow(), path, Approval::granted()).await;
    assert_eq!(ended.unwrap_err().kind(), "timeout");
    assert_eq!(took.as_secs(), 24 * 3600 + 10);
}

// A step that routes its failure to another one.

async fn ship_then_fail(cx: &Context) -> Result<String, Failed> {
    ship(cx, cx.inject()?, "first".to_owned()).await?;
    Err(Failed("the carrier is gone".to_owned()))
}

async fn ship_elsewhere(cx: &Context) -> Result<String, Failed> {
    let first = send(cx, cx.inject()?, "first".to_owned()).await;
    let second = ship_asked(cx, cx.inject()?, "second".to_owned()).await?;
    Ok(format!("{first}, {second}"))
}

#[workflow(name = "routed-ship")]
async fn routed(cx: &Context, _cents: u64) -> Result<String, Failed> {
    #[node(on_error = route(ship_elsewhere(cx)))]
    let shipped = ship_then_fail(cx).await?;
    Ok(shipped)
}

#[tokio::test(start_paused = true)]
async fn the_calls_of_a_step_that_is_routed_to_have_their_policy() {
    let effects = EffectLog::new();
    let resource = effects.clone();
    let report = CrashTest::new(&routed::workflow(), || 7)
        .runtime(move |runtime| runtime.resource(resource.clone()))
        .effects(&effects)
        .answer("shipped/ship_elsewhere/tool#1.ship_asked", Approval::granted())
        .run()
        .await;
    assert!(report.crashes() > 10, "{report:?}");
    let paths: Vec<String> = effects.counts().into_keys().collect();
    let expected = [
        "shipped/ship_elsewhere/tool#1.send",
        "shipped/ship_elsewhere/tool#1.ship_asked",
        "shipped/ship_then_fail/tool#1.ship",
    ];
    assert_eq!(paths, expected);
}

#[workflow(name = "routed-to-tool")]
async fn routed_to_tool(cx: &Context, _cents: u64) -> Result<String, Failed> {
    #[node(on_error = route(ship_asked(cx, cx.inject()?, "third".to_owned())))]
    let shipped = ship_then_fail(cx).await?;
    Ok(shipped)
}

#[tokio::test(start_paused = true)]
async fn a_denied_call_is_not_routed_around() {
    let store = MemoryStore::new();
    let effects = EffectLog::new();
    let runtime = test_runtime().resource(effects.clone()).store(store.clone()).build();
    let handle = runtime.start(routed_to_tool::workflow(), 7).await.unwrap();
    let path = "shipped/ship_asked/tool#1.ship_asked";
    let mut events = handle.events();
    while let Some(event) = within("the next event", events.next()).await {
        if matches!(event.kind, EventKind::ApprovalRequested(_)) {
            break;
        }
    }
    runtime.run(handle.run_id()).approve(path, Approval::denied("no"), "ada").await.unwrap();
    let error = handle.result().await.unwrap_err().to_string();
    assert!(
        error.contains("approval of `shipped/ship_asked/tool#1.ship_asked` denied: no"),
        "{error}"
    );
    assert_eq!(
        effects.counts().into_keys().collect::<Vec<_>>(),
        ["shipped/ship_then_fail/tool#1.ship"]
    );
    let events = store.read(handle.run_id(), 0, usize::MAX).await.unwrap();
    check_events(&events).unwrap();
}

// Workflows in a step that is retried.

#[derive(Default)]
struct Times(AtomicU32);

async fn fails_once(cx: &Context) -> Result<u32, Failed> {
    match cx.inject::<Times>()?.0.fetch_add(1, Ordering::Relaxed) {
        0 => Err(Failed("not yet".to_owned())),
        times => Ok(times),
    }
}

#[workflow(name = "ships-two")]
async fn ships_two(cx: &Context, parcel: String) -> Result<String, Failed> {
    let first = ship(cx, cx.inject()?, format!("{parcel}1")).await?;
    let _times = fails_once(cx).await?;
    let second = ship(cx, cx.inject()?, format!("{first} and {parcel}2")).await?;
    Ok(second)
}

#[workflow(name = "nested-retried")]
async fn nested_retried(cx: &Context, _cents: u64) -> Result<String, Failed> {
    #[node(retry = 2)]
    let shipped = ships_two(cx, "p".to_owned()).await?;
    Ok(shipped)
}

async fn ship_both(cx: &Context) -> Result<String, Failed> {
    let done = ships_done(cx, "q".to_owned()).await?;
    let looked = looks(cx, 1).await?;
    fails_once(cx).await?;
    let other = ships_done(cx, "q".to_owned()).await?;
    Ok(format!("{done}, {other}, {}", looked < 9))
}

#[workflow(name = "ships-done")]
async fn ships_done(cx: &Context, parcel: String) -> Result<String, Failed> {
    let done = ship(cx, cx.inject()?, parcel).await?;
    Ok(done)
}

#[workflow(name = "looks-at-stock")]
async fn looks(cx: &Context, _n: u32) -> Result<u32, Failed> {
    let looked = stock(cx.inject()?).await;
    Ok(looked)
}

#[workflow(name = "nested-in-helper")]
async fn nested_in_helper(cx: &Context, _cents: u64) -> Result<String, Failed> {
    #[node(retry = 2)]
    let shipped = ship_both(cx).await?;
    Ok(shipped)
}

fn world(
    effects: &EffectLog,
) -> impl Fn(agentflow::runtime::RuntimeBuilder) -> agentflow::runtime::RuntimeBuilder {
    let effects = effects.clone();
    move |runtime| {
        runtime.resource(effects.clone()).resource(AtomicU32::new(0)).resource(Times::default())
    }
}

#[tokio::test(start_paused = true)]
async fn a_workflow_in_a_retried_step_continues() {
    let effects = EffectLog::new();
    let (lines, ended) = run_of(&nested_retried::workflow(), world(&effects)).await;
    assert_eq!(ended.unwrap(), "shipped shipped p1 and p2", "{lines:#?}");
    let counts: Vec<_> = effects.counts().into_iter().collect();
    assert_eq!(
        counts,
        [("shipped/first".to_owned(), 1), ("shipped/second".to_owned(), 1)],
        "{lines:#?}"
    );
}

#[tokio::test(start_paused = true)]
async fn workflows_in_a_retried_step_are_known_by_their_inputs() {
    let effects = EffectLog::new();
    let (lines, ended) = run_of(&nested_in_helper::workflow(), world(&effects)).await;
    // The first call is reused and the second one is a different call. Reads are repeated.
    assert_eq!(ended.unwrap(), "shipped q, shipped q, true", "{lines:#?}");
    assert!(lines.iter().any(|line| line == "shipped/attempt#2/looked completed 1"), "{lines:#?}");
    assert_eq!(effects.counts().values().sum::<usize>(), 2, "{lines:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_continued_workflow_survives_a_crash_at_every_write() {
    for workflow in [nested_retried::workflow(), nested_in_helper::workflow()] {
        let effects = EffectLog::new();
        let resource = effects.clone();
        let report = CrashTest::new(&workflow, || 7)
            .runtime(move |runtime| {
                runtime
                    .resource(resource.clone())
                    .resource(AtomicU32::new(0))
                    .resource(Times::default())
            })
            .effects(&effects)
            .run()
            .await;
        assert!(report.crashes() > 5, "{report:?}");
    }
}

/// Presses a button once; it takes long.
#[tool]
async fn press(cx: &Context, log: Inject<EffectLog>) -> u32 {
    log.note(cx);
    tokio::time::sleep(Duration::from_secs(60)).await;
    1
}

#[workflow(name = "presses")]
async fn presses(cx: &Context, _n: u32) -> Result<u32, Failed> {
    let pressed = press(cx, cx.inject()?).await;
    Ok(pressed)
}

#[workflow(name = "pressed-in-a-workflow")]
async fn pressed_in_a_workflow(cx: &Context, _cents: u64) -> Result<u32, Failed> {
    #[node(timeout = "10s", retry = 1)]
    let pressed = presses(cx, 1).await?;
    Ok(pressed)
}

#[workflow(name = "pressed-in-a-for")]
async fn pressed_in_a_for(cx: &Context, _cents: u64) -> Result<u32, Failed> {
    #[node(timeout = "10s", retry = 1)]
    for _ in vec![1_u32] {
        press(cx, cx.inject()?).await;
    }
    Ok(1)
}

#[tokio::test(start_paused = true)]
async fn what_a_time_limit_stopped_in_the_middle_is_not_done_again_by_itself() {
    for workflow in [pressed_in_a_workflow::workflow(), pressed_in_a_for::workflow()] {
        let effects = EffectLog::new();
        let store = MemoryStore::new();
        let runtime = test_runtime().resource(effects.clone()).store(store.clone()).build();
        let handle = runtime.start(workflow.clone(), 7).run_id(RunId::new("run-1")).await.unwrap();
        let mut events = handle.events();
        let paused = async {
            while let Some(event) = within("the next event", events.next()).await {
                if matches!(event.kind, EventKind::RunPaused { .. }) {
                    return;
                }
            }
        };
        tokio::select! {
            ended = handle.result() => drop(ended),
            () = paused => {}
        }
        let lines = trace(store.read(&RunId::new("run-1"), 0, usize::MAX).await.unwrap());
        assert_eq!(effects.counts().values().sum::<usize>(), 1, "{} {lines:#?}", workflow.name());
        assert!(
            lines.iter().any(|line| line.contains("interrupted")),
            "{} {lines:#?}",
            workflow.name()
        );
    }
}

// Calls of sync tools.

static BOOK: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Appends a word to a book, which is shut when the third one comes first.
#[tool(retry = 1)]
fn append(text: String) -> Result<u32, String> {
    let mut book = BOOK.lock().unwrap();
    book.push(text);
    match book.len() {
        3 => Err("the book is shut".to_owned()),
        _ => Ok(1),
    }
}

#[workflow(name = "appends")]
async fn appends(_cents: u64) -> Result<u32, Failed> {
    let sum = {
        let mut sum = 0;
        for text in ["one", "two", "three"] {
            sum += append(text.to_owned())?;
        }
        sum
    };
    Ok(sum)
}

#[tokio::test(start_paused = true)]
async fn each_of_several_sync_writes_has_its_own_record() {
    let (lines, ended) = run_of(&appends::workflow(), |runtime| runtime).await;
    assert_eq!(ended.map_err(|error| error.to_string()), Ok(3), "{lines:#?}");
    assert_eq!(*BOOK.lock().unwrap(), ["one", "two", "three", "three"], "{lines:#?}");
    let ends = lines.iter().filter(|line| line.contains("append completed")).collect::<Vec<_>>();
    let paths = ["sum/tool#1.append", "sum/tool#2.append", "sum/attempt#2/tool#3.append"];
    assert_eq!(ends, paths.map(|path| format!("{path} completed 1")).iter().collect::<Vec<_>>());
}

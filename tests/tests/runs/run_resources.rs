//! Tests resources of runs and sessions: they are closed and dropped at the end of their run, or
//! when their session is idle.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentflow::agent::RunRequest;
use agentflow::event::EventKind;
use agentflow::prelude::*;
use agentflow::runtime::RuntimeBuilder;
use agentflow::serde_json::json;
use agentflow::session::Session;
use agentflow::store::MemoryStore;
use agentflow_testing::{ScriptedModel, Turn, test_runtime, within};

const MINUTE: Duration = Duration::from_secs(60);

/// A connection that records when it is closed and dropped.
struct Line {
    number: u32,
    seen: Seen,
}

#[derive(Clone, Default)]
struct Seen {
    made: Arc<AtomicU32>,
    events: Arc<Mutex<Vec<String>>>,
}

impl Seen {
    fn line(&self) -> Line {
        Line { number: self.made.fetch_add(1, Ordering::SeqCst) + 1, seen: self.clone() }
    }

    fn say(&self, event: String) {
        self.events.lock().unwrap().push(event);
    }

    fn events(&self) -> Vec<String> {
        self.events.lock().unwrap().clone()
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.seen.say(format!("drop {}", self.number));
    }
}

async fn close(line: Arc<Line>) {
    tokio::time::sleep(Duration::from_secs(1)).await;
    line.seen.say(format!("close {}", line.number));
}

/// Prices in a static.
struct Prices {
    tea: u32,
}

static PRICES: Prices = Prices { tea: 3 };

/// The price of tea, by a reference to a static.
#[tool(effects = "read")]
fn static_price(prices: Inject<&'static Prices>) -> u32 {
    prices.tea
}

/// The same, awaited and beside the context.
#[tool(effects = "read")]
async fn awaited_price(cx: &Context, prices: Inject<&'static Prices>) -> u32 {
    if cx.is_cancelled() { 0 } else { prices.tea }
}

/// The same on a separate thread.
#[tool(effects = "read", blocking)]
fn blocking_price(prices: Inject<&'static Prices>, times: u32) -> u32 {
    prices.tea * times
}

/// The price of tea, by a value.
#[tool(effects = "read")]
fn owned_price(prices: Inject<Prices>) -> u32 {
    prices.tea
}

/// Asks for the price in a step.
#[workflow]
async fn price_in_a_step(cx: &Context) -> Result<u32> {
    let price = awaited_price(cx, cx.inject()?).await;
    Ok(price)
}

/// Looks up `&'static T` as a resource, which is a different type from `T`.
#[tokio::test]
async fn a_reference_to_a_static_is_a_resource() {
    let calls = |tool: &str| {
        let arguments = if tool == "blocking_price" { json!({"times": 1}) } else { json!({}) };
        Agent::new(ScriptedModel::new([Turn::call(tool, arguments), Turn::text("done")]))
    };
    let referring = || tools![static_price, awaited_price, blocking_price];
    let runtime = test_runtime().resource(&PRICES).build();
    for tool in ["static_price", "awaited_price", "blocking_price"] {
        let run = calls(tool).tools(referring()).runtime(&runtime).run("go").await.unwrap();
        let answers = run.events().into_iter().filter_map(|event| match event.kind {
            EventKind::ToolCompleted { result, .. } => Some(result.output.clone()),
            _ => None,
        });
        assert_eq!(answers.collect::<Vec<_>>(), ["3"], "{tool}");
    }
    assert_eq!(price_in_a_step::workflow().run(&runtime, ()).await.unwrap(), 3);
    let unasked = || Agent::new(ScriptedModel::from_fn(|_| Turn::text("done")));
    let owned = test_runtime().resource(Prices { tea: 4 }).build();
    let error =
        unasked().tools(referring()).runtime(&owned).run("go").await.unwrap_err().to_string();
    assert!(
        error.contains("`&runs::run_resources::Prices` (there is a `runs::run_resources::Prices`)"),
        "{error}"
    );
    let error = unasked()
        .tools(tools![owned_price])
        .runtime(&runtime)
        .run("go")
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("`runs::run_resources::Prices` (there is a `&runs::run_resources::Prices`)"),
        "{error}"
    );
}

/// The number of the line.
#[tool(effects = "read")]
async fn line_number(line: Inject<Line>) -> Result<u32, String> {
    match line.number {
        13 => Err("the line is dead".to_owned()),
        number => Ok(number),
    }
}

#[workflow]
async fn asks_line(
    cx: &Context,
    fails: bool,
) -> Result<u32, Box<dyn std::error::Error + Send + Sync>> {
    let number = line_number(cx.inject()?).await?;
    let number = accepted(number, fails)?;
    Ok(number)
}

fn accepted(number: u32, fails: bool) -> Result<u32, String> {
    if fails { Err("no".to_owned()) } else { Ok(number) }
}

/// Returns a model that calls the tool once per run and answers with its output.
fn asking() -> ScriptedModel {
    ScriptedModel::from_fn(|request| match request.messages.last() {
        Some(last) if last.role() == agentflow::message::Role::User => {
            Turn::call("line_number", json!({}))
        }
        Some(last) => {
            Turn::text(last.results().map(|result| result.output.to_string()).collect::<String>())
        }
        None => Turn::text("nobody asks"),
    })
}

fn with_lines(seen: &Seen) -> RuntimeBuilder {
    let makes = seen.clone();
    test_runtime().run_resource(move |_| Ok::<_, String>(makes.line())).close_resource(close)
}

#[tokio::test(start_paused = true)]
async fn a_resource_is_closed_and_dropped_before_the_result_while_the_handle_is_kept() {
    let seen = Seen::default();
    let runtime = with_lines(&seen).build();
    let agent = Agent::new(asking()).tools(tools![line_number]).runtime(&runtime);
    let mut handles = Vec::new();
    for _ in 0..3 {
        let run = agent.start("which?").unwrap();
        run.result().await.unwrap();
        handles.push(run);
    }
    assert_eq!(seen.events(), ["close 1", "drop 1", "close 2", "drop 2", "close 3", "drop 3"]);
    drop(handles);
    let result = agent.run("which?").await.unwrap();
    assert_eq!(seen.events()[6..], ["close 4", "drop 4"]);
    drop(result);
    let seen = Seen::default();
    let runtime = with_lines(&seen).store(MemoryStore::new()).build();
    let run = runtime.start(asks_line::workflow(), false).await.unwrap();
    assert_eq!(run.result().await.unwrap(), 1);
    assert_eq!(seen.events(), ["close 1", "drop 1"]);
}

#[tokio::test(start_paused = true)]
async fn a_failed_and_a_cancelled_run_close_what_was_made_for_them() {
    let seen = Seen::default();
    let runtime = with_lines(&seen).build();
    let failing =
        Agent::new(ScriptedModel::new([Turn::fails(agentflow::model::ModelErrorKind::Auth)]));
    let failed = failing.tools(tools![line_number]).runtime(&runtime).start("which?").unwrap();
    failed.result().await.unwrap_err();
    assert_eq!(seen.events(), ["close 1", "drop 1"]);
    let run = runtime.start(asks_line::workflow(), true).await.unwrap();
    run.result().await.unwrap_err();
    assert_eq!(seen.events()[2..], ["close 2", "drop 2"]);
    let stalling = Agent::new(ScriptedModel::new([Turn::stall()]))
        .tools(tools![line_number])
        .runtime(&runtime);
    let cancelled = stalling.start("which?").unwrap();
    within("the model is asked", tokio::task::yield_now()).await;
    cancelled.cancel("enough").await.unwrap();
    cancelled.result().await.unwrap_err();
    assert_eq!(seen.events()[4..], ["close 3", "drop 3"]);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_does_not_begin_or_is_dropped_closes_its_resource_and_draining_waits() {
    struct Missing;
    /// Needs a resource that is missing.
    #[tool(name = "needs_missing")]
    fn needs_missing(missing: Inject<Missing>) -> usize {
        size_of_val(&*missing)
    }

    let seen = Seen::default();
    let runtime = with_lines(&seen).build();
    let agent = Agent::new(asking()).tools(tools![line_number, needs_missing]).runtime(&runtime);
    agent.start("which?").unwrap_err();
    let stalling = Agent::new(ScriptedModel::new([Turn::stall()]))
        .tools(tools![line_number])
        .runtime(&runtime);
    {
        let mut run = Box::pin(stalling.run("which?"));
        let waited = tokio::time::timeout(Duration::from_millis(1), &mut run).await;
        assert!(waited.is_err());
    }
    let events = seen.events();
    assert!(events.is_empty(), "closing takes a second: {events:?}");
    runtime.drain(MINUTE).await;
    let mut events = seen.events();
    events.sort();
    assert_eq!(events, ["close 1", "close 2", "drop 1", "drop 2"]);
}

#[tokio::test(start_paused = true)]
async fn what_the_program_gave_is_dropped_with_the_run_and_not_closed() {
    let (seen, given) = (Seen::default(), Seen::default());
    let runtime = with_lines(&seen).build();
    let run = runtime.start(asks_line::workflow(), false).resource(given.line()).await.unwrap();
    run.result().await.unwrap();
    assert_eq!(given.events(), ["drop 1"]);
    assert!(seen.events().is_empty());
    let agent = Agent::new(asking()).tools(tools![line_number]).runtime(&runtime);
    let run = agent.start(RunRequest::new("which?").resource(given.line())).unwrap();
    run.result().await.unwrap();
    assert_eq!(given.events(), ["drop 1", "drop 2"]);
}

#[tokio::test(start_paused = true)]
async fn the_runs_of_a_session_share_a_resource_until_the_session_is_idle() {
    let seen = Seen::default();
    let makes = seen.clone();
    let runtime = test_runtime()
        .store(MemoryStore::new())
        .session_resource(MINUTE, move |_| Ok::<_, String>(makes.line()))
        .close_resource(close)
        .build();
    let agent = Agent::new(asking()).tools(tools![line_number]).runtime(&runtime);
    let ask = async |session: &str, caller: &str| {
        let request = RunRequest::new("which?").session(Session::new(session)).caller(caller);
        agent.run(request).await.unwrap().output().clone()
    };
    let first = ask("a", "ada").await;
    tokio::time::sleep(MINUTE / 2).await;
    assert_eq!(ask("a", "ada").await, first, "one line for both runs");
    // The idle time of the first run would have ended here.
    tokio::time::sleep(MINUTE / 2 + Duration::from_secs(2)).await;
    assert!(seen.events().is_empty(), "{:?}", seen.events());
    assert_eq!((&*first, &*ask("b", "ada").await), ("1", "2"), "another session");
    tokio::time::sleep(MINUTE / 2).await;
    assert_eq!(seen.events(), ["close 1", "drop 1"]);
    runtime.sessions().delete("b").await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(seen.events()[2..], ["close 2", "drop 2"]);
    ask("a", "ada").await;
    // A run without a session has its own resource.
    agent.run("which?").await.unwrap();
    assert_eq!(seen.events()[4..], ["close 4", "drop 4"]);
    runtime.drain(MINUTE).await;
    assert_eq!(seen.events()[6..], ["close 3", "drop 3"]);
}

#[tokio::test(start_paused = true)]
async fn a_session_of_another_caller_gets_no_resource_of_its_owner() {
    let seen = Seen::default();
    let makes = seen.clone();
    let runtime = test_runtime()
        .store(MemoryStore::new())
        .session_resource(Duration::ZERO, move |began| {
            makes.say(format!(
                "make for {}",
                began.caller().map_or("nobody", agentflow::Caller::name)
            ));
            Ok::<_, String>(makes.line())
        })
        .build();
    let agent = Agent::new(asking()).tools(tools![line_number]).runtime(&runtime);
    let ask = |caller: &str| {
        agent.run(RunRequest::new("which?").session(Session::new("a")).caller(caller))
    };
    ask("ada").await.unwrap();
    ask("eve").await.unwrap_err();
    assert_eq!(
        seen.events(),
        ["make for ada", "drop 1", "make for eve", "drop 2"],
        "no time: dropped when unused"
    );
}

//! Tests the automatic retries of model calls in durable runs, and the log message of a failed run.
//!
//! This is a separate test program, since it installs the process-wide `tracing` subscriber.

use std::fmt::Debug;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use agentflow::agent::Limits;
use agentflow::event::EventKind;
use agentflow::middleware::{Flow, fallback_models, redact, retry};
use agentflow::model::openai_chat::OpenAiChat;
use agentflow::model::{HttpSettings, ModelError, ModelErrorKind, ModelRequest, TimeoutKind};
use agentflow::prelude::*;
use agentflow::store::{MemoryStore, Store};
use agentflow::{Error, Event, Model, Workflow};
use agentflow_testing::{ScriptedModel, Turn, check_events, test_runtime, within};
use tokio::time::Instant;
use tracing::field::Field;
use tracing_subscriber::layer::{Context as LayerContext, SubscriberExt};
use tracing_subscriber::{Layer, Registry};

/// Maximum number of retries in a durable run.
const RETRIES: usize = 6;

/// Returns a model that fails `times` times and then answers, and its counter of calls.
fn failing(
    times: usize,
    error: impl Fn() -> ModelError + Send + Sync + 'static,
) -> (ScriptedModel, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&calls);
    let model = ScriptedModel::from_fn(move |_| match count.fetch_add(1, Ordering::SeqCst) {
        made if made < times => Turn::error(error()),
        _ => Turn::text("done"),
    });
    (model, calls)
}

fn refused() -> ModelError {
    ModelError::new(ModelErrorKind::Transport, "no connection")
}

fn delays(events: &[Event]) -> Vec<u64> {
    let delay = |event: &Event| match &event.kind {
        EventKind::ModelRetrying { delay_ms, .. } => Some(*delay_ms),
        _ => None,
    };
    events.iter().filter_map(delay).collect()
}

/// Runs an agent with a store. Returns its result, its events and its duration.
async fn durable(
    builder: agentflow::runtime::RuntimeBuilder,
    agent: Agent,
) -> (Result<String, String>, Vec<Event>, Duration) {
    let began = Instant::now();
    let handle = agent.runtime(&builder.store(MemoryStore::new()).build()).start("go").unwrap();
    let outcome = handle.result().await;
    let events = handle.recorded();
    check_events(&events).unwrap();
    let outcome = outcome
        .map(agentflow::run::RunResult::into_output)
        .map_err(|error| error.kind().as_str().to_owned());
    (outcome, events, began.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_model_that_is_away_for_a_while_does_not_fail_a_durable_run() {
    let (model, calls) = failing(2, refused);
    let (outcome, events, took) = durable(test_runtime(), Agent::new(model)).await;
    assert_eq!((outcome, calls.load(Ordering::SeqCst)), (Ok("done".to_owned()), 3));
    assert_eq!(delays(&events).len(), 2);
    assert!(took >= Duration::from_millis(2_250) && took <= Duration::from_secs(3), "{took:?}");

    // The same with middleware that does not decide about errors, and for an agent within a step.
    let (model, calls) = failing(2, refused);
    let agent = Agent::new(model).with(Hooks::new().before_model(|_| Ok(Flow::Continue)));
    let (outcome, events, _) = durable(test_runtime(), agent).await;
    assert_eq!(
        (outcome, calls.load(Ordering::SeqCst), delays(&events).len()),
        (Ok("done".to_owned()), 3, 2)
    );
    let (model, calls) = failing(2, refused);
    let agent = Agent::new(model);
    let workflow = Workflow::build("w", ["task"], |b, (task,)| {
        b.node("ask", (task,), move |cx, (task,): (String,)| {
            let agent = agent.clone();
            async move { Ok::<_, Error>(agent.run_in(&cx, task).await?.into_output()) }
        })
    })
    .unwrap();
    let runtime = test_runtime().store(MemoryStore::new()).build();
    let handle = runtime.start(workflow, "go".to_owned()).await.unwrap();
    assert_eq!(
        (handle.result().await.unwrap().as_str(), calls.load(Ordering::SeqCst)),
        ("done", 3)
    );
    check_events(&handle.recorded()).unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_retries_of_a_durable_run_are_bounded_and_grow_apart() {
    for hooked in [false, true] {
        let (model, calls) = failing(usize::MAX, refused);
        let agent = Agent::new(model);
        let agent = if hooked {
            agent.with(Hooks::new().before_model(|_| Ok(Flow::Continue)))
        } else {
            agent
        };
        let (outcome, events, took) = durable(test_runtime(), agent).await;
        assert_eq!(
            (outcome, calls.load(Ordering::SeqCst)),
            (Err("transport".to_owned()), 1 + RETRIES)
        );
        let delays = delays(&events);
        assert_eq!(delays.len(), RETRIES);
        for (delay, whole) in delays.iter().zip([1_000, 2_000, 4_000, 8_000, 16_000, 32_000]) {
            assert!(*delay <= whole && *delay >= whole * 3 / 4, "{delays:?}");
        }
        assert!(took.as_millis() >= u128::from(delays.iter().sum::<u64>()), "{took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_help_is_not_retried() {
    // A run without a store does not retry unless it is configured.
    let (model, calls) = failing(1, refused);
    let error = Agent::new(model).runtime(&test_runtime().build()).run("go").await.unwrap_err();
    assert_eq!((error.kind().as_str(), calls.load(Ordering::SeqCst)), ("transport", 1));
    for error in [
        || ModelError::new(ModelErrorKind::Auth, "x"),
        || ModelError::new(ModelErrorKind::BadRequest, "x"),
        || ModelError::new(ModelErrorKind::AnswerTooLarge, "x"),
        || ModelError::new(ModelErrorKind::Timeout(TimeoutKind::Total), "x"),
        || ModelError::new(ModelErrorKind::RateLimited, "x").permanent(),
        || {
            ModelError::new(ModelErrorKind::RateLimited, "x")
                .with_retry_after(Duration::from_secs(121))
        },
    ] {
        let (model, calls) = failing(1, error);
        let (outcome, _, took) = durable(test_runtime(), Agent::new(model)).await;
        assert!(
            outcome.is_err() && calls.load(Ordering::SeqCst) == 1 && took.is_zero(),
            "{:?}",
            error()
        );
    }
    // If the provider specifies a delay, that delay is used.
    let (model, _) = failing(1, || {
        ModelError::new(ModelErrorKind::RateLimited, "x").with_retry_after(Duration::from_secs(7))
    });
    let (outcome, events, _) = durable(test_runtime(), Agent::new(model)).await;
    assert_eq!((outcome, delays(&events)), (Ok("done".to_owned()), vec![7_000]));
}

#[tokio::test(start_paused = true)]
async fn middleware_that_retries_decides_alone() {
    for (retries, made) in [(0, 1), (1, 2), (7, 8)] {
        let (model, calls) = failing(usize::MAX, refused);
        let (outcome, _, _) = durable(test_runtime().with(retry(retries)), Agent::new(model)).await;
        assert_eq!((outcome, calls.load(Ordering::SeqCst)), (Err("transport".to_owned()), made));
    }
    // The same for middleware of a single agent.
    let (model, calls) = failing(usize::MAX, refused);
    let (outcome, _, _) = durable(test_runtime(), Agent::new(model).with(retry(2))).await;
    assert_eq!((outcome, calls.load(Ordering::SeqCst)), (Err("transport".to_owned()), 3));
    // Attempts with fallback models count as attempts of the same call.
    let ((first, firsts), (second, seconds)) =
        (failing(usize::MAX, refused), failing(usize::MAX, refused));
    let agent =
        Agent::new(first.named("one", "m")).with(fallback_models([second.named("two", "m")]));
    let (outcome, _, _) = durable(test_runtime(), agent).await;
    assert_eq!(outcome, Err("transport".to_owned()));
    assert_eq!((firsts.load(Ordering::SeqCst), seconds.load(Ordering::SeqCst)), (1, RETRIES));
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_calls_holds_for_retries() {
    for hooked in [false, true] {
        let (model, calls) = failing(usize::MAX, refused);
        let agent = Agent::new(model).settings(Limits::default().max_llm_calls(3));
        let agent = if hooked {
            agent.with(Hooks::new().before_model(|_| Ok(Flow::Continue)))
        } else {
            agent
        };
        let (outcome, _, _) = durable(test_runtime(), agent).await;
        assert_eq!((outcome, calls.load(Ordering::SeqCst)), (Err("llm_call_limit".to_owned()), 3));
    }
}

#[tokio::test(start_paused = true)]
async fn retries_are_counted_over_a_crash() {
    let (model, _) = failing(usize::MAX, refused);
    let (_, events, _) = durable(test_runtime(), Agent::new(model)).await;
    for cut in 1..events.len() {
        let store = MemoryStore::new();
        store.create(&events[0].run_id, events[..cut].to_vec()).await.unwrap();
        let runtime = test_runtime().store(store).build();
        let (model, calls) = failing(usize::MAX, refused);
        let agent = Agent::new(model).runtime(&runtime);
        let handle = agent.clone().runtime(&runtime).resume(&events[0].run_id).await.unwrap();
        assert_eq!(handle.result().await.unwrap_err().kind(), "transport", "cut after {cut}");
        let all = handle.recorded();
        check_events(&all).unwrap();
        assert_eq!(delays(&all).len(), RETRIES, "cut after {cut}");
        // The interrupted call is repeated, but that does not count as a retry.
        let made = delays(&events[..cut]).len();
        let failed =
            events[..cut].iter().any(|event| matches!(event.kind, EventKind::ModelFailed { .. }));
        let expected = if failed { 0 } else { 1 + RETRIES - made };
        assert_eq!(calls.load(Ordering::SeqCst), expected, "cut after {cut}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_waits_for_its_model_can_be_cancelled() {
    let (model, calls) = failing(usize::MAX, refused);
    let runtime = test_runtime().store(MemoryStore::new()).build();
    let handle = Agent::new(model).runtime(&runtime).start("go").unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let began = Instant::now();
    handle.cancel("enough").await.unwrap();
    assert_eq!(handle.result().await.unwrap_err().kind(), "cancelled");
    assert!(began.elapsed().is_zero(), "{:?}", began.elapsed());
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    check_events(&handle.recorded()).unwrap();
}

/// Starts a server that refuses the first `refusals` requests with status 503. Returns its counter
/// of requests.
fn serve(listener: TcpListener, refusals: usize) -> Arc<AtomicUsize> {
    let requests = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&requests);
    // The thread ends with the process.
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut request = [0; 64 * 1024];
            let _ = stream.read(&mut request);
            let (status, body) = match count.fetch_add(1, Ordering::SeqCst) {
                made if made < refusals => (503, "{}"),
                _ => {
                    (200, r#"{"choices":[{"message":{"content":"done"},"finish_reason":"stop"}]}"#)
                }
            };
            let length = body.len();
            let _ = write!(
                stream,
                "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
            );
        }
    });
    requests
}

fn chat(port: u16) -> OpenAiChat {
    let http = HttpSettings::default().retry_base(Duration::from_millis(1));
    OpenAiChat::builder("m")
        .base_url(format!("http://127.0.0.1:{port}/v1"))
        .http(http)
        .build()
        .unwrap()
}

#[tokio::test]
async fn the_retries_of_a_run_and_those_of_http_do_not_multiply() {
    for (retried_by_caller, expected) in [(true, 1), (false, 12)] {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = serve(listener, usize::MAX);
        let mut request = ModelRequest::new(Message::user("Hi"));
        request.retried_by_caller = retried_by_caller;
        let error = chat(port).call(request).await.unwrap_err();
        assert_eq!(
            (error.kind(), requests.load(Ordering::SeqCst)),
            (ModelErrorKind::Overloaded, expected)
        );
    }
    // Only a run that retries sets `retried_by_caller`: a durable run without retrying middleware.
    for (durable, retries, expected) in
        [(true, None, true), (false, None, false), (true, Some(0), false)]
    {
        let model = ScriptedModel::new([Turn::text("done")]).capturing();
        let mut builder = test_runtime();
        builder = if durable { builder.store(MemoryStore::new()) } else { builder };
        builder = if let Some(retries) = retries { builder.with(retry(retries)) } else { builder };
        Agent::new(model.clone()).runtime(&builder.build()).run("go").await.unwrap();
        assert_eq!(model.requests()[0].retried_by_caller, expected);
    }
}

/// Runs in real time: the port refuses connections first, then a server listens.
#[tokio::test]
async fn an_endpoint_that_refuses_connections_for_a_while_is_waited_for() {
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
    let runtime = Runtime::builder().store(MemoryStore::new()).build();
    let handle = Agent::new(chat(port)).runtime(&runtime).start("go").unwrap();
    within("the first retry", async {
        while delays(&handle.recorded()).is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    let requests = serve(TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap(), 0);
    assert_eq!(handle.result().await.unwrap().output(), "done");
    assert_eq!((requests.load(Ordering::SeqCst), delays(&handle.recorded()).len()), (1, 1));
}

/// Collects messages of agentflow at level `info` for all tests of the process. `tracing` caches
/// the interest of subscribers for all threads, so a log per thread would lose messages.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl<S: tracing::Subscriber> Layer<S> for Log {
    fn on_event(&self, event: &tracing::Event<'_>, _: LayerContext<'_, S>) {
        if *event.metadata().level() == tracing::Level::INFO
            && event.metadata().target().starts_with("agentflow")
        {
            let mut text = String::new();
            event.record(&mut |field: &Field, value: &dyn Debug| {
                text.push_str(&format!("{}={value:?} ", field.name()));
            });
            self.0.lock().unwrap().push(text);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_run_is_in_the_log_once() {
    let log = Log::default();
    tracing::subscriber::set_global_default(Registry::default().with(log.clone())).unwrap();
    let seen = |name: &str| -> Vec<String> {
        log.0
            .lock()
            .unwrap()
            .iter()
            .filter(|line| line.contains(&format!("name={name:?} ")))
            .cloned()
            .collect()
    };
    let runtime = test_runtime().with(redact().secret("swordfish")).build();
    let failing = |name: &str| {
        let error =
            || ModelError::new(ModelErrorKind::BadRequest, "not\n\u{1b}[2J\u{202e} with swordfish");
        Agent::new(ScriptedModel::from_fn(move |_| Turn::error(error())))
            .name(name)
            .runtime(&runtime)
    };
    failing("wri\nter").run("go").await.unwrap_err();
    let lines = seen("wri\nter");
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("a run failed") && lines[0].contains("bad_request"), "{lines:?}");
    assert!(lines[0].contains("[redacted]") && !lines[0].contains("swordfish"), "{lines:?}");
    assert!(!lines[0].contains(['\n', '\u{1b}', '\u{202e}']), "{lines:?}");

    // A failed agent within a step is not a failed run. Only the run itself is logged, once.
    let agent = failing("a step");
    let workflow = Workflow::build("logged", ["task"], |b, (task,)| {
        b.node("ask", (task,), move |cx, (task,): (String,)| {
            let agent = agent.clone();
            async move { Ok::<_, Error>(agent.run_in(&cx, task).await?.into_output()) }
        })
    })
    .unwrap();
    let handle = runtime.start(workflow, "go".to_owned()).await.unwrap();
    handle.result().await.unwrap_err();
    assert_eq!((seen("logged").len(), seen("a step").len()), (1, 0));

    // Successful and cancelled runs are not logged as failures.
    let named =
        |turn: Turn| Agent::new(ScriptedModel::new([turn])).name("no failure").runtime(&runtime);
    named(Turn::text("fine")).run("go").await.unwrap();
    let handle = named(Turn::stall()).start("go").unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    handle.cancel("enough").await.unwrap();
    handle.result().await.unwrap_err();
    assert_eq!(seen("no failure"), [""; 0]);
}

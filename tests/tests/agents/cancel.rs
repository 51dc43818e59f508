//! Cancelling a run stops all of its work at once, and the journal has exactly one `run.cancelled`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agentflow::agent::RunRequest;
use agentflow::event::EventKind;
use agentflow::message::{Conversation, Part, Role, ToolCall, ToolStatus};
use agentflow::model::{ModelEvent, ModelInfo, ModelRequest, ModelResponse, ModelStream};
use agentflow::tool::FnTool;
use agentflow::{Agent, Context, Error, Event, Message, Model, Runtime};
use agentflow_testing::within;
use futures_util::{FutureExt, StreamExt, stream};
use tokio::time::Instant;

/// A counter of live values. A value lives as long as a connection or a tool call.
#[derive(Clone, Default)]
struct Alive(Arc<AtomicUsize>);

struct Guard(Alive);

impl Alive {
    fn enter(&self) -> Guard {
        self.0.fetch_add(1, Ordering::SeqCst);
        Guard(self.clone())
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A model that calls the tool `slow` twice in its first turn and then streams forever.
struct Slow {
    info: ModelInfo,
    connections: Alive,
}

impl Model for Slow {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, request: ModelRequest) -> ModelStream {
        let guard = self.connections.enter();
        if request.messages.last().is_some_and(|message| message.role() == Role::User) {
            let calls =
                ["a", "b"].map(|id| Part::ToolCall(Arc::new(ToolCall::new(id, "slow", "{}"))));
            let response = ModelResponse::new(Message::new(Role::Assistant, calls.to_vec()));
            return ModelStream::new(stream::once(async move {
                tokio::time::sleep(Duration::from_millis(100)).await;
                drop(guard);
                Ok(ModelEvent::Completed(Box::new(response)))
            }));
        }
        ModelStream::new(stream::unfold(guard, |guard| async move {
            tokio::time::sleep(Duration::from_millis(100)).await;
            Some((Ok(ModelEvent::Text("and ".to_owned())), guard))
        }))
    }
}

fn agent(connections: &Alive, tools: &Alive) -> Agent {
    let tools = tools.clone();
    let slow = FnTool::new("slow", "Takes a second.", move |_: Context, (): ()| {
        let guard = tools.enter();
        async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            drop(guard);
            Ok::<_, String>(())
        }
    });
    let model = Slow { info: ModelInfo::new("test", "slow"), connections: connections.clone() };
    Agent::new(model).tools([slow])
}

/// Checks the journal of a cancelled run.
fn check_cancelled(events: &[Event]) {
    let names: Vec<_> = events.iter().map(Event::name).collect();
    assert_eq!(names.first(), Some(&"run.started"));
    assert_eq!(names.last(), Some(&"run.cancelled"));
    assert_eq!(names.iter().filter(|name| **name == "run.cancelled").count(), 1);
    for kind in ["model", "tool"] {
        let started: Vec<_> = events
            .iter()
            .filter(|event| event.name() == format!("{kind}.started"))
            .map(|event| &event.path)
            .collect();
        let ended: Vec<_> = events
            .iter()
            .filter(|event| {
                [format!("{kind}.completed"), format!("{kind}.failed")]
                    .contains(&event.name().to_owned())
            })
            .map(|event| &event.path)
            .collect();
        assert_eq!(started, ended, "every {kind} that started has one end");
    }
    for end in 0..=events.len() {
        let conversation = Conversation::from_events(&events[..end]);
        assert_eq!(conversation.open_calls(), Vec::<&str>::new(), "after {end} events");
    }
    let seqs: Vec<_> = events.iter().map(|event| event.seq).collect();
    assert_eq!(seqs, (1..=events.len() as u64).collect::<Vec<_>>());
}

/// Cancels a run after this many milliseconds and returns its journal.
async fn cancelled_after(millis: u64) -> Vec<Event> {
    let (connections, tools) = (Alive::default(), Alive::default());
    let run = agent(&connections, &tools).start("go").unwrap();
    let live = run.events();
    tokio::time::sleep(Duration::from_millis(millis)).await;
    let asked = Instant::now();
    run.cancel("enough").await.unwrap();
    let error = run.result().await.unwrap_err();
    assert!(asked.elapsed() < Duration::from_millis(50), "took {:?}", asked.elapsed());
    assert!(matches!(error, Error::Cancelled { ref reason } if &**reason == "enough"), "{error}");
    assert_eq!((connections.count(), tools.count()), (0, 0), "something outlived the run");
    let events = run.recorded();
    check_cancelled(&events);
    // Subscribers received the same events, and their stream ended.
    let seen: Vec<_> = live.collect().await;
    let seen: Vec<_> = seen.into_iter().filter(Event::is_recorded).collect();
    assert_eq!(seen, events);
    events
}

fn end_of(events: &[Event], path: &str) -> Option<EventKind> {
    events
        .iter()
        .rev()
        .find(|event| {
            event.path.to_string() == path
                && event.name() != "tool.started"
                && event.name() != "model.started"
        })
        .map(|event| event.kind.clone())
}

#[tokio::test(start_paused = true)]
async fn in_the_middle_of_an_answer() {
    let events = cancelled_after(1350).await;
    assert!(
        matches!(end_of(&events, "model#2"), Some(EventKind::ModelFailed { error }) if error.kind == "cancelled"),
        "{events:#?}"
    );
}

#[tokio::test(start_paused = true)]
async fn in_the_middle_of_two_tools() {
    let events = cancelled_after(600).await;
    for path in ["tool#1.slow", "tool#1.slow[1]"] {
        let end = end_of(&events, path);
        assert!(
            matches!(&end, Some(EventKind::ToolFailed { result, .. }) if result.status == ToolStatus::Cancelled),
            "{end:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn at_every_moment() {
    for millis in (0..1500).step_by(50) {
        cancelled_after(millis).await;
    }
}

#[tokio::test(start_paused = true)]
async fn before_the_first_poll() {
    let (connections, tools) = (Alive::default(), Alive::default());
    let run = agent(&connections, &tools).start("go").unwrap();
    run.cancel("at once").await.unwrap();
    assert!(matches!(run.result().await, Err(Error::Cancelled { .. })));
    let recorded = run.recorded();
    let names: Vec<_> = recorded.iter().map(Event::name).collect();
    assert_eq!(names, ["run.started", "run.cancelled"]);
    assert!(
        matches!(run.result().await, Err(Error::Cancelled { .. })),
        "a handle can be asked again"
    );
}

#[tokio::test(start_paused = true)]
async fn after_the_end_it_changes_nothing() {
    let (connections, tools) = (Alive::default(), Alive::default());
    let run = agent(&connections, &tools).start(RunRequest::new("go").max_steps(1)).unwrap();
    let error = run.result().await.unwrap_err();
    assert!(matches!(error, Error::MaxStepsReached { steps: 1 }), "{error}");
    let refused = run.cancel("too late").await.unwrap_err();
    assert_eq!(refused.to_string(), "the run cannot be cancelled: it is over (failed)");
    assert_eq!(run.recorded().last().map(Event::name), Some("run.failed"));
}

#[tokio::test(start_paused = true)]
async fn by_dropping_the_future_the_handle_or_the_stream() {
    let seen: Arc<std::sync::Mutex<Vec<Event>>> = Arc::default();
    let sink = {
        let seen = Arc::clone(&seen);
        move |event: &Event| seen.lock().unwrap().push(event.clone())
    };
    let runtime = Runtime::builder().sink(sink).build();
    let (connections, tools) = (Alive::default(), Alive::default());
    let agent = agent(&connections, &tools).runtime(&runtime);

    let mut future = Box::pin(agent.run("go"));
    assert!((&mut future).now_or_never().is_none());
    drop(future);
    check_cancelled(&std::mem::take(&mut *seen.lock().unwrap()));

    let handle = agent.start("go").unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    drop(handle);
    tokio::time::sleep(Duration::from_millis(1)).await;
    check_cancelled(&std::mem::take(&mut *seen.lock().unwrap()));

    let mut stream = agent.stream("go").unwrap();
    assert_eq!(within("the next event", stream.next()).await.unwrap().name(), "run.started");
    drop(stream);
    tokio::time::sleep(Duration::from_millis(1)).await;
    check_cancelled(&std::mem::take(&mut *seen.lock().unwrap()));
    assert_eq!((connections.count(), tools.count()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn the_time_limit_ends_a_run_as_failed() {
    let (connections, tools) = (Alive::default(), Alive::default());
    let run = agent(&connections, &tools)
        .start(RunRequest::new("go").timeout(Duration::from_millis(600)))
        .unwrap();
    let error = run.result().await.unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    assert_eq!((connections.count(), tools.count()), (0, 0));
    let events = run.recorded();
    assert_eq!(events.last().map(Event::name), Some("run.failed"));
    assert_eq!(run.conversation().open_calls(), Vec::<&str>::new());
    let started = events.iter().filter(|event| event.name().ends_with(".started")).count();
    let ended = events
        .iter()
        .filter(|event| event.name().ends_with(".completed") || event.name().ends_with(".failed"))
        .count();
    assert_eq!(started, ended, "{events:#?}");
}

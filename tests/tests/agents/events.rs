//! Events as they are stored and displayed: names, numbers, JSON, sinks.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentflow::agent::RunRequest;
use agentflow::event::{EventKind, JsonlSink, ModelDelta};
use agentflow::message::Conversation;
use agentflow::message::Role;
use agentflow::model::{ModelErrorKind, Usage};
use agentflow::store::MemoryStore;
use agentflow::store::Store;
use agentflow::tool::FnTool;
use agentflow::{Agent, Context, Error, Event, Workflow};
use agentflow_testing::{ScriptedModel, Turn, test_runtime, within};
use futures_util::StreamExt;
use serde_json::{Value, json};

#[derive(Clone, Default)]
struct Buffer(Arc<Mutex<Vec<u8>>>);

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Buffer {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

fn double() -> FnTool {
    #[derive(agentflow::serde::Deserialize, agentflow::schemars::JsonSchema)]
    #[serde(crate = "agentflow::serde")]
    #[schemars(crate = "agentflow::schemars")]
    struct Args {
        n: i64,
    }
    FnTool::new("double", "Doubles.", |_: Context, args: Args| async move {
        Ok::<_, String>(2 * args.n)
    })
}

/// Compares text with a file of `tests/golden`. `BLESS=1` rewrites the file.
pub(crate) fn golden(name: &str, text: &str) {
    let path = format!("{}/golden/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        text, expected,
        "{name} differs; a stored format changed: raise its version or put it back"
    );
}

/// Checks the stored form of the journal. If this test fails, existing journals on disk may have
/// become unreadable.
#[tokio::test(start_paused = true)]
async fn the_stored_form_is_the_golden_one() {
    let written = Buffer::default();
    let runtime = test_runtime().sink(JsonlSink::new(written.clone())).build();
    let model = ScriptedModel::new([
        Turn::call("double", json!({"n": 4}))
            .and_call("dubble", json!({}))
            .reasoning("twice four")
            .usage(Usage::new(9, 5)),
        Turn::text("8"),
        Turn::fails(ModelErrorKind::RateLimited),
        Turn::stall(),
    ]);
    let agent =
        Agent::new(model).name("sums").instruct("Count.").tools([double()]).runtime(&runtime);
    let result = agent.run("Twice 4?").await.unwrap();
    agent.run("Again?").await.unwrap_err();
    let stalled = agent.start("And again?").unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    stalled.cancel("nobody waits any more").await.unwrap();
    stalled.result().await.unwrap_err();
    golden("events.jsonl", &written.text());
    let read: Vec<Event> =
        written.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of_first: Vec<Event> =
        read.iter().filter(|event| event.run_id == *result.run_id()).cloned().collect();
    assert_eq!(of_first, result.events());
    assert_eq!(Conversation::from_events(&of_first), *result.conversation());
}

/// A journal from a version that recorded instructions as part of the input.
const OLD: &str = include_str!("../../golden/events-instructions-in-input.jsonl");

fn of_run(text: &str, run: &str) -> Vec<Event> {
    let events = text.lines().map(|line| serde_json::from_str::<Event>(line).unwrap());
    events.filter(|event| event.run_id.as_str() == run).collect()
}

#[tokio::test(start_paused = true)]
async fn an_old_journal_with_the_instructions_in_its_input_is_resumed() {
    let events = of_run(OLD, "run-1");
    let conversation = Conversation::from_events(&events);
    assert_eq!(conversation.messages()[0].text(), "Count.");
    assert!(conversation.open_calls().is_empty());
    // Cuts the journal before the last turn.
    let cut = events.iter().position(|event| event.path.to_string() == "model#2").unwrap();
    let (store, run) = (MemoryStore::new(), events[0].run_id.clone());
    store.create(&run, events[..cut].to_vec()).await.unwrap();
    let said = ["system: Count.", "user: Twice 4?"];
    let model = ScriptedModel::new([Turn::with(move |request| {
        let first: Vec<String> =
            request.messages.messages()[..2].iter().map(|one| one.text().into_owned()).collect();
        assert_eq!(first, said.map(|line| line.split_once(": ").unwrap().1));
        assert!(
            request.messages.messages()[1..].iter().all(|message| message.role() != Role::System)
        );
        Turn::text("8")
    })]);
    let runtime = test_runtime().store(store).build();
    let agent =
        Agent::new(model).name("sums").instruct("Count.").tools([double()]).runtime(&runtime);
    let result =
        agent.clone().runtime(&runtime).resume(&run).await.unwrap().result().await.unwrap();
    assert_eq!(result.output(), "8");
    assert_eq!(result.conversation().messages()[0].text(), "Twice 4?");
}

#[test]
fn every_name_is_the_one_in_its_json() {
    let text = include_str!("../../golden/events.jsonl");
    for line in text.lines().chain(OLD.lines()) {
        let value: Value = serde_json::from_str(line).unwrap();
        let event: Event = serde_json::from_str(line).unwrap();
        assert_eq!(value["name"], event.name());
        assert_eq!(value["id"], event.id());
        assert_eq!(serde_json::to_value(&event).unwrap(), value);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_has_deltas_between_the_recorded_events() {
    let model = ScriptedModel::new([Turn::pieces(["It ", "is ", "8."])]);
    let agent = Agent::new(model);
    let mut stream = agent.stream("Twice 4?").unwrap();
    let mut events = Vec::new();
    while let Some(event) = within("the next event", stream.next()).await {
        events.push(event);
    }
    let ids: Vec<_> = events.iter().map(|event| (event.seq, event.part)).collect();
    assert_eq!(ids, [(1, 0), (2, 0), (2, 1), (2, 2), (2, 3), (3, 0), (4, 0), (5, 0)]);
    let text: String = events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::ModelDelta(ModelDelta::Text(text)) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(text, "It is 8.");
    assert_eq!(stream.result().await.unwrap().output(), "It is 8.");
    let delta = serde_json::to_value(&events[3]).unwrap();
    assert_eq!((&delta["part"], &delta["payload"]), (&json!(2), &json!({"text": "is "})));
}

#[tokio::test(start_paused = true)]
async fn who_comes_late_or_never_reads_misses_nothing_recorded() {
    let pieces: Vec<String> = (0..5000).map(|n| format!("{n} ")).collect();
    let model = ScriptedModel::new([Turn::pieces(pieces)]);
    let run = Agent::new(model).start("count").unwrap();
    let never_read = run.events();
    run.result().await.unwrap();
    let late: Vec<Event> = run.events().collect().await;
    assert_eq!(late, run.recorded());
    let slow: Vec<Event> = never_read.collect().await;
    let recorded: Vec<Event> = slow.iter().filter(|event| event.is_recorded()).cloned().collect();
    assert_eq!(recorded, run.recorded());
    let deltas = slow.len() - recorded.len();
    assert!((1..=1024).contains(&deltas), "the queue of deltas is bounded: {deltas}");
}

#[tokio::test(start_paused = true)]
async fn without_a_listener_there_are_no_deltas() {
    let model =
        ScriptedModel::new([Turn::pieces(["a", "b"]).check(|request| assert!(!request.stream))]);
    let result = Agent::new(model.clone()).run("go").await.unwrap();
    assert!(result.events().iter().all(Event::is_recorded));
    model.finish();
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_wants_deltas_gets_them_in_order() {
    let written = Buffer::default();
    let runtime = test_runtime().sink(JsonlSink::new(written.clone()).with_deltas()).build();
    let model = ScriptedModel::new([Turn::pieces(["a", "b"])]);
    Agent::new(model).runtime(&runtime).run("go").await.unwrap();
    let events: Vec<Event> =
        written.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<_> = events.iter().map(Event::name).collect();
    let expected = [
        "run.started",
        "model.started",
        "model.delta",
        "model.delta",
        "model.completed",
        "run.step",
        "run.completed",
    ];
    assert_eq!(names, expected);
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_recorded_with_its_class() {
    let model = ScriptedModel::new([Turn::fails(ModelErrorKind::Overloaded)]);
    let run = Agent::new(model).start("go").unwrap();
    run.result().await.unwrap_err();
    let last = serde_json::to_value(run.recorded().last().unwrap()).unwrap();
    assert_eq!(last["name"], "run.failed");
    assert_eq!(last["payload"]["error"]["kind"], "overloaded");
    assert_eq!(last["payload"]["error"]["retryable"], true);
}

/// Model output may reach an operator's terminal, as a line or as JSON in a file, so control
/// characters are escaped.
#[tokio::test(start_paused = true)]
async fn no_line_of_an_event_draws() {
    let hostile = "a\u{1b}[2J\u{9b}H\r\n\u{7}\u{202e}\u{2028}b";
    let draws =
        |text: &str| text.chars().any(|c| c.is_control() || matches!(c, '\u{202e}' | '\u{2028}'));
    let written = Buffer::default();
    let runtime = test_runtime().sink(JsonlSink::new(written.clone()).with_deltas()).build();
    let model = ScriptedModel::new([
        Turn::call(hostile, json!({ hostile: hostile })).reasoning(hostile),
        Turn::text(hostile),
        Turn::error(agentflow::model::ModelError::new(ModelErrorKind::Auth, hostile)),
    ]);
    let agent = Agent::new(model).runtime(&runtime).name(hostile).tools([double()]);
    let mut events = agent.run(hostile).await.unwrap().events().to_vec();
    let failed = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&failed);
    let runtime =
        test_runtime().sink(move |event: &Event| sink.lock().unwrap().push(event.clone())).build();
    agent.runtime(&runtime).run(hostile).await.unwrap_err();
    events.extend(failed.lock().unwrap().drain(..));
    for event in &events {
        assert!(!draws(&event.line().to_string()), "{}", event.line());
    }
    for line in agentflow_testing::trace(&events)
        .iter()
        .chain(written.text().lines().map(String::from).collect::<Vec<_>>().iter())
    {
        assert!(!draws(line), "{line}");
    }
    assert!(events.iter().any(|event| {
        event.line().to_string().contains(r"tool#1.a\u{1b}[2J\u{9b}H\r\n\u{7}\u{202e}\u{2028}b")
    }));
    let read: Vec<Value> =
        written.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let started = read.iter().find(|event| event["name"] == "tool.failed").unwrap();
    assert_eq!(started["payload"]["result"]["name"], hostile, "it is the same text in JSON");
}

#[tokio::test(start_paused = true)]
async fn a_late_listener_receives_deltas_of_a_streamed_run() {
    const PAUSE: Duration = Duration::from_secs(1);
    for streamed in [false, true] {
        let model = ScriptedModel::new([Turn::pieces(["Te", "a", "."]).after(PAUSE).paced(PAUSE)])
            .capturing();
        let runtime = test_runtime().agent(&Agent::new(model.clone()).name("late_chat")).build();
        let request = RunRequest::new("hi");
        let request = if streamed { request.stream() } else { request };
        let run = runtime.start_agent("late_chat", request).await.unwrap();
        // The model has been called before this point.
        tokio::task::yield_now().await;
        let mut pieces = String::new();
        let mut events = std::pin::pin!(run.events());
        within("the end of the run", async {
            while let Some(event) = events.next().await {
                if let EventKind::ModelDelta(ModelDelta::Text(text)) = event.kind {
                    pieces.push_str(&text);
                }
            }
        })
        .await;
        assert_eq!(
            (model.requests()[0].stream, pieces.as_str()),
            (streamed, if streamed { "Tea." } else { "" })
        );
    }
}

#[tokio::test]
async fn a_streamed_workflow_streams_the_calls_of_its_agents() {
    let flow = |agent: Agent| {
        Workflow::build("late_flow", ["task"], |b, (task,)| {
            b.node("ask", (task,), move |cx, (task,): (String,)| {
                let agent = agent.clone();
                async move { Ok::<_, Error>(agent.run_in(&cx, task).await?.into_output()) }
            })
        })
        .unwrap()
    };
    for streamed in [false, true] {
        let model = ScriptedModel::new([Turn::text("Tea.")]).capturing();
        let runtime = test_runtime().build();
        let start = runtime.start(flow(Agent::new(model.clone())), "hi".to_owned());
        let run = if streamed { start.stream() } else { start }.await.unwrap();
        assert_eq!(run.result().await.unwrap(), "Tea.");
        assert_eq!(model.requests()[0].stream, streamed);
    }
}

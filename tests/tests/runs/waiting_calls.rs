//! A toolset that is written with the public API only. Its tool asks a person during the call, and
//! the call waits across restarts on a SQLite file.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentflow::event::EventKind;
use agentflow::message::ToolStatus;
use agentflow::prelude::*;
use agentflow::runtime::OpenQuestion;
use agentflow::serde_json::json;
use agentflow::store::{RunFilter, RunStatus, SqliteStore};
use agentflow::tool::{FnTool, ToolError, ToolRef, Toolset, ToolsetRef, UserQuestion, WaitingCall};
use agentflow::{Approval, Event, RunId, async_trait};
use agentflow_testing::{ScriptedModel, Turn, check_events, within};
use agentflow_tests::{Process, test_as_process};
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};

/// The effects of the tool outside of the program: `held 1`, `booked 1`, `released 1`.
#[derive(Clone, Default)]
struct Hotel(Arc<Mutex<Vec<String>>>);

impl Hotel {
    fn note(&self, line: String) {
        self.0.lock().unwrap().push(line);
    }

    fn notes(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    /// Holds a room, asks which one and for an approval, and books it.
    async fn book(&self, cx: &Context) -> Result<String, ToolError> {
        let waiting = match WaitingCall::resumed(cx) {
            Some(waiting) => waiting,
            None if !WaitingCall::can_begin(cx, "hotel.book") => {
                return Err(ToolError::new("no person can be asked here"));
            }
            None => {
                self.note("held".to_owned());
                let approval = serde_json::to_value(schemars::schema_for!(Approval)).unwrap();
                let questions = vec![
                    UserQuestion::choice("Which bed?", ["one", "two"])
                        .kind("hotel.bed")
                        .about(json!({"floor": 3})),
                    UserQuestion::new("Pay 70?", approval).kind("hotel.payment"),
                ];
                WaitingCall::begin(cx, &Held { room: 12 }, questions).await?
            }
        };
        let held: Held = waiting.decode_state()?;
        let release = Release { hotel: self, cx, is_armed: true };
        let answers = waiting.answers(false).await?;
        release.disarm();
        if !answers[1].approval.is_granted() {
            self.note("released".to_owned());
            return Err(ToolError::new(format!("the person denied room {}", held.room)));
        }
        let bed: String = answers[0].decode()?;
        self.note("booked".to_owned());
        Ok(format!("room {} with {bed} bed", held.room))
    }
}

/// State of the waiting call.
#[derive(Serialize, Deserialize)]
struct Held {
    room: u32,
}

/// Releases the room if the call is cancelled, and keeps it if another process continues the call.
struct Release<'h> {
    hotel: &'h Hotel,
    cx: &'h Context,
    is_armed: bool,
}

impl Release<'_> {
    fn disarm(mut self) {
        self.is_armed = false;
    }
}

impl Drop for Release<'_> {
    fn drop(&mut self) {
        if self.is_armed && !self.cx.is_draining() {
            self.hotel.note("released".to_owned());
        }
    }
}

#[async_trait]
impl Toolset for Hotel {
    fn name(&self) -> &str {
        "hotel"
    }

    async fn tools(&self) -> Result<Vec<ToolRef>, Box<dyn std::error::Error + Send + Sync>> {
        let hotel = self.clone();
        let book = FnTool::new("book", "Book a room.", move |cx: Context, (): ()| {
            let hotel = hotel.clone();
            async move { hotel.book(&cx).await }
        });
        Ok(vec![book.into()])
    }
}

/// Builds the runtime of one process on the file, with an agent that calls the tool and answers
/// with the result.
async fn process(store: &Path, hotel: &Hotel) -> Runtime {
    let model = ScriptedModel::from_fn(|request| match request.messages.len() {
        1 => Turn::call("hotel__book", json!({})),
        _ => Turn::text(
            request
                .messages
                .last()
                .map(|last| last.results().map(|of| of.text().into_owned()).collect::<String>())
                .unwrap_or_default(),
        ),
    });
    let agent = Agent::new(model).name("hotel_clerk").tools(ToolsetRef::new(hotel.clone()));
    Runtime::builder().store(SqliteStore::open(store).await.unwrap()).agent(&agent).build()
}

/// Waits for both questions of the run.
async fn questions(runtime: &Runtime) -> Vec<OpenQuestion> {
    within("the questions", async {
        loop {
            let questions = runtime.runs().questions(RunFilter::new()).await.unwrap();
            if questions.len() == 2 {
                return questions;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
}

/// Starts the run in a first process, waits for its question, and drains that process. Returns a
/// second process that has resumed the run.
async fn restarted(store: &Path, hotel: &Hotel, id: &RunId) -> Runtime {
    let first = process(store, hotel).await;
    let request = agentflow::agent::RunRequest::new("A room.").run_id(id.clone());
    let run = first.start_agent("hotel_clerk", request).await.unwrap();
    let asked = questions(&first).await;
    assert_eq!((&*asked[0].message, &*asked[0].kind), ("Which bed?", "hotel.bed"));
    assert_eq!(asked[0].about.as_str(), r#"{"floor":3}"#);
    drop(run);
    within("draining", first.drain(Duration::from_millis(10))).await;
    drop(first);
    assert_eq!(hotel.notes(), ["held"], "a drained call is not cancelled");
    let second = process(store, hotel).await;
    let resumed = within("resuming", second.run(id).resume()).await.unwrap();
    drop(resumed);
    assert_eq!(questions(&second).await[0].id, asked[0].id, "the question is the same");
    second
}

async fn journal(runtime: &Runtime, id: &RunId) -> Vec<Event> {
    let events = runtime.run(id).events(0).await.unwrap();
    let events: Vec<Event> = within("the events", events.collect()).await;
    events.into_iter().filter(Event::is_recorded).collect()
}

fn tool_status(events: &[Event]) -> Vec<ToolStatus> {
    let mut all = Vec::new();
    for event in events {
        match &event.kind {
            EventKind::ToolCompleted { result, .. } | EventKind::ToolFailed { result, .. } => {
                all.push(result.status);
            }
            _ => {}
        }
    }
    all
}

async fn answer(runtime: &Runtime, id: &RunId, bed: &str, approval: Approval) -> String {
    let open = questions(runtime).await;
    runtime.run(id).answer(&open[0].id, bed, "ada").await.unwrap();
    // A second answer to the same question is refused.
    let again = runtime.run(id).answer(&open[0].id, bed, "bob").await.unwrap_err();
    assert!(matches!(again, agentflow::Error::Control(_)), "{again}");
    runtime.run(id).approve(&open[1].id, approval, "ada").await.unwrap();
    let run = runtime.run(id).attach().await.unwrap();
    let result = within("the result", run.result()).await.unwrap();
    result.as_str().to_owned()
}

#[tokio::test]
async fn a_waiting_call_is_answered_once_after_a_restart() {
    let (folder, hotel, id) = (tempfile::tempdir().unwrap(), Hotel::default(), RunId::new("r-1"));
    let store = folder.path().join("runs.db");
    let second = restarted(&store, &hotel, &id).await;
    let output = answer(&second, &id, "two", Approval::granted()).await;
    assert!(output.contains("room 12 with two bed"), "{output}");
    assert_eq!(hotel.notes(), ["held", "booked"]);
    let events = journal(&second, &id).await;
    check_events(&events).unwrap();
    assert_eq!(tool_status(&events), [ToolStatus::Success]);
}

#[tokio::test]
async fn a_waiting_call_is_denied_once_after_a_restart() {
    let (folder, hotel, id) = (tempfile::tempdir().unwrap(), Hotel::default(), RunId::new("r-2"));
    let store = folder.path().join("runs.db");
    let second = restarted(&store, &hotel, &id).await;
    let output = answer(&second, &id, "one", Approval::denied("too dear")).await;
    assert!(output.contains("the person denied room 12"), "{output}");
    assert_eq!(hotel.notes(), ["held", "released"]);
    let events = journal(&second, &id).await;
    check_events(&events).unwrap();
    assert_eq!(tool_status(&events), [ToolStatus::Error]);
}

#[tokio::test]
async fn a_waiting_call_is_cancelled_once_after_a_restart() {
    let (folder, hotel, id) = (tempfile::tempdir().unwrap(), Hotel::default(), RunId::new("r-3"));
    let store = folder.path().join("runs.db");
    let second = restarted(&store, &hotel, &id).await;
    let question = questions(&second).await.remove(0);
    let run = second.run(&id).attach().await.unwrap();
    within("cancelling", second.run(&id).cancel("not any more").into_future()).await.unwrap();
    assert!(within("the end", run.result()).await.is_err());
    assert_eq!(hotel.notes(), ["held", "released"]);
    let late = second.run(&id).answer(&question.id, "one", "ada").await.unwrap_err();
    assert!(matches!(late, agentflow::Error::Control(_)), "{late}");
    assert!(second.runs().questions(RunFilter::new()).await.unwrap().is_empty());
    let records = second.runs().list(RunFilter::new()).await.unwrap();
    assert_eq!(records[0].status, RunStatus::Cancelled);
    check_events(&journal(&second, &id).await).unwrap();
}

/// A process that starts the run, or resumes the run of an earlier process, and prints its steps.
#[tokio::test]
#[ignore = "it is a process of another test"]
#[expect(clippy::print_stdout, reason = "the other test reads it")]
async fn hotel_process() {
    let Ok(store) = std::env::var("HOTEL_STORE") else { return };
    let hotel = Hotel::default();
    let runtime = process(Path::new(&store), &hotel).await;
    runtime.recover().await.unwrap();
    let id = RunId::new("r-4");
    let run = match runtime.run(&id).attach().await {
        Ok(run) => run,
        Err(_) => {
            let request = agentflow::agent::RunRequest::new("A room.").run_id(id);
            runtime.start_agent("hotel_clerk", request).await.unwrap()
        }
    };
    let question = run.asked().await.unwrap().unwrap();
    println!("asks {} after {:?}", question.message, hotel.notes());
    let output = run.result().await.unwrap();
    println!("answers {} after {:?}", output.as_str(), hotel.notes());
}

/// Waits for an output line with this prefix and returns the rest of it.
async fn line(mut process: Process, begins: &'static str) -> (Process, String) {
    let waited = tokio::task::spawn_blocking(move || {
        let line = process.wait_until(begins, |process| {
            process.output().lines().find_map(|line| line.strip_prefix(begins)).map(str::to_owned)
        });
        (process, line)
    });
    waited.await.unwrap()
}

#[tokio::test]
async fn a_waiting_call_survives_a_killed_process() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("runs.db");
    let started = || {
        let mut command = test_as_process(module_path!(), "hotel_process");
        command.arg("--ignored").env("HOTEL_STORE", &store);
        Process::start(&mut command).unwrap()
    };
    let (first, asked) = line(started(), "asks ").await;
    assert_eq!(asked, r#"Which bed? after ["held"]"#);
    drop(first); // It is killed.
    let (second, asked) = line(started(), "asks ").await;
    assert_eq!(asked, "Which bed? after []", "the room is not held a second time");
    // A third process answers.
    let operator = Runtime::builder().store(SqliteStore::open(&store).await.unwrap()).build();
    let id = RunId::new("r-4");
    let open = questions(&operator).await;
    operator.run(&id).answer(&open[0].id, "two", "ada").await.unwrap();
    operator.run(&id).approve(&open[1].id, Approval::granted(), "ada").await.unwrap();
    let (second, answer) = line(second, "answers ").await;
    assert!(answer.contains("room 12 with two bed"), "{answer}");
    assert!(answer.ends_with(r#"after ["booked"]"#), "{answer}");
    drop(second);
}

/// Calls the body of a tool within the call of another tool, which is the recorded one.
#[tokio::test]
async fn a_tool_within_another_call_or_without_a_store_cannot_wait() {
    let hotel = Hotel::default();
    let own = hotel.clone();
    let outer = FnTool::new("trip", "Plan a trip.", move |cx: Context, (): ()| {
        let hotel = own.clone();
        async move { hotel.book(&cx).await }
    });
    let model = || {
        ScriptedModel::new([
            Turn::calls([("trip", json!({})), ("hotel__book", json!({}))]),
            Turn::text("done"),
        ])
    };
    let tools = |agent: Agent| agent.tools(outer).tools(ToolsetRef::new(hotel.clone()));
    let run = tools(Agent::new(model())).run("Go.").await.unwrap();
    let mut texts = Vec::new();
    for message in run.conversation().messages() {
        texts.extend(message.results().map(|result| result.text().into_owned()));
    }
    assert_eq!(texts, ["no person can be asked here"; 2], "{texts:?}");
    // `begin` refuses as well.
    let cx = Context::detached();
    let refused = WaitingCall::begin(&cx, &(), vec![UserQuestion::text("Why?")]).await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.starts_with("this call cannot wait for a person"), "{refused}");
    assert!(hotel.notes().is_empty());
}

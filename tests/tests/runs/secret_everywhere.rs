//! Puts a secret into every text that a run accepts. Afterwards no file of the store, view, list,
//! export or log may contain the secret, and each text must have been seen in its redacted form.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentflow::agent::RunRequest;
use agentflow::event::EventSink;
use agentflow::mailbox::Mailbox;
use agentflow::middleware::redact;
use agentflow::model::{ModelError, ModelErrorKind};
use agentflow::prelude::*;
use agentflow::runtime::OpenQuestion;
use agentflow::serde_json::{self, json};
use agentflow::session::{Session, SessionWindow, Summary};
use agentflow::store::{RunFilter, RunStatus, SessionFilter, SqliteStore};
use agentflow::tool::ToolError;
use agentflow::views::{AgentEvents, ScreenEvent, TaskChunks, TaskResult};
use agentflow::{Error, Event, RunId};
use agentflow_testing::{ScriptedModel, Turn, test_runtime, within};

use crate::redacted_logs::Log;

const SECRET: &str = "swordfish";

/// Returns the secret with the name of a place.
fn at(place: &str) -> String {
    format!("{SECRET} <{place}>")
}

/// Collects the names of places that follow `before` in a text.
fn places(text: &str, before: &str, found: &mut BTreeSet<String>) {
    for (begin, _) in text.match_indices(before) {
        let rest = &text[begin + before.len()..];
        let place = rest
            .strip_prefix(" <")
            .and_then(|rest| rest.split_once('>'))
            .map_or("?", |(place, _)| place);
        found.insert(place.to_owned());
    }
}

static KEPT: StateKey<String> = StateKey::session("secret_kept");
static OF_USER: StateKey<String> = StateKey::user("secret_of_user");
static OF_APP: StateKey<String> = StateKey::app("secret_of_app");
static MAIL: Mailbox<String> = Mailbox::new("secret_mail", &["a", "b"]);

/// Says it wherever it can.
#[tool(idempotent)]
async fn secret_says(cx: &Context, what: String) -> Result<String> {
    assert!(what.starts_with(SECRET), "a tool sees everything: {what}");
    cx.set(&KEPT, &at("session state"))?;
    cx.set(&OF_USER, &at("user state"))?;
    cx.set(&OF_APP, &at("app state"))?;
    cx.emit(&at("progress"));
    cx.send_mail(&MAIL, "a", "b", &at("mail"))?;
    cx.save_artifact("note.txt", "of the program's own", "text/plain").await?;
    cx.save_artifact("swordfish of a name.txt", "of the program's own", "text/swordfish").await?;
    Ok(at("tool output"))
}

/// Fails at first.
#[tool(retry = 1, idempotent)]
async fn secret_fails(cx: &Context) -> Result<String, ToolError> {
    match cx.attempt() {
        1 => Err(ToolError::new(at("error of an attempt"))),
        _ => Err(ToolError::new(at("tool error"))),
    }
}

/// Never allowed.
#[tool(approve)]
async fn secret_denied(what: String) -> String {
    what
}

/// Returns an agent that uses the secret in every kind of model output.
fn talker() -> Agent {
    let failed = std::sync::atomic::AtomicBool::new(false);
    let model = ScriptedModel::from_fn(move |request| {
        let messages = request.messages.messages();
        if messages[0].text().contains("summary") {
            return Turn::text(at("summary"));
        }
        if !failed.swap(true, std::sync::atomic::Ordering::Relaxed) {
            return Turn::error(ModelError::new(ModelErrorKind::Overloaded, at("model error")));
        }
        let last = messages.last().unwrap();
        match last.results().next() {
            None => Turn::calls([
                ("secret_says", json!({"what": at("argument")})),
                ("secret_fails", json!({})),
                ("secret_unknown", json!({at("argument name"): 1})),
                ("secret_denied", json!({"what": at("denied argument")})),
                (
                    "ask_user",
                    json!({"question": at("question"), "choices": [at("choice"), "other"]}),
                ),
            ]),
            Some(_) => Turn::text(at("answer")),
        }
    });
    Agent::new(model).name("secret_talker").tools(tools![
        secret_says,
        secret_fails,
        secret_denied,
        agentflow::ask_user
    ])
}

#[workflow]
async fn secret_flow(cx: &Context, what: String) -> Result<String> {
    let made = secret_step(cx, what).await?;
    let asked = gate!("{made} swordfish <gate>?", answer = String).await?;
    let many = map!(vec![asked, made], |one| secret_item(one)).await?;
    let last = secret_fail(many).await?;
    Ok(last)
}

async fn secret_step(cx: &Context, what: String) -> Result<String> {
    assert!(what.starts_with(SECRET));
    cx.emit(&json!({"deep": [at("step progress")]}));
    Ok(at("step output"))
}

async fn secret_item(_: String) -> Result<String> {
    Ok(at("item output"))
}

async fn secret_fail(_: Vec<String>) -> Result<String> {
    Err(Error::Lost { reason: at("step error") })
}

/// Collects all events as JSON.
#[derive(Clone, Default)]
struct EventText(Arc<Mutex<String>>);

impl EventSink for EventText {
    fn emit(&self, event: &Event) {
        *self.0.lock().unwrap() += &serde_json::to_string(event).unwrap();
    }

    fn wants_deltas(&self) -> bool {
        true
    }
}

/// Answers the questions of a run until it has ended.
async fn answer(runtime: &Runtime, run: &RunId) {
    while matches!(
        runtime.run(run).record().await.unwrap().status,
        RunStatus::Running | RunStatus::Paused | RunStatus::Queued
    ) {
        for OpenQuestion { run, path, .. } in
            runtime.runs().questions(RunFilter::new()).await.unwrap()
        {
            let by = at("by");
            match &*path {
                path if path.ends_with("secret_denied") => {
                    let denied = Approval::denied(at("denial"));
                    runtime.run(&run).approve(path, denied, &by).await.unwrap();
                }
                path if path.ends_with("ask_user") => {
                    // The error for a wrong answer quotes it, since the author of the answer reads
                    // the error.
                    let refused = runtime
                        .run(&run)
                        .answer(path, &json!({at("refused answer"): 7}), &by)
                        .await
                        .unwrap_err();
                    assert!(refused.to_string().contains("<refused answer>"), "{refused}");
                    // The choices in the question are redacted, so the answer is too.
                    runtime
                        .run(&run)
                        .answer(path, &at("choice").replace(SECRET, "[redacted]"), &by)
                        .await
                        .unwrap();
                }
                path => runtime.run(&run).answer(path, &at("gate answer"), &by).await.unwrap(),
            }
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Returns the contents of all files in a folder as text.
fn bytes(folder: &Path) -> String {
    let mut all = String::new();
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        all += &match entry.path() {
            path if path.is_dir() => bytes(&path),
            path => String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned(),
        };
    }
    all
}

/// Returns all reports and views of a runtime as text.
async fn told(runtime: &Runtime) -> String {
    let mut all = String::new();
    let mut say = |what: &dyn std::fmt::Debug| all += &format!("{what:?}\n");
    for record in runtime.runs().list(RunFilter::new()).await.unwrap() {
        let run = &record.run_id;
        say(&record);
        say(&runtime.run(run).inspect().await.unwrap());
        say(&runtime.run(run).state().await.unwrap());
        say(&runtime.run(run).artifacts().await.unwrap());
        let events = runtime.run(run).journal().await.unwrap();
        say(&serde_json::to_string(&events).unwrap());
        say(&AgentEvents::of(&events));
        say(&TaskChunks::of(&events));
        say(&TaskResult::of(&events));
        say(&events.iter().filter_map(ScreenEvent::of).collect::<Vec<_>>());
    }
    for session in runtime.sessions().list(SessionFilter::new()).await.unwrap() {
        say(&runtime.sessions().history(&session.id, 99).await.unwrap());
        say(&runtime.sessions().state(&session.id).await.unwrap());
        say(&runtime.sessions().artifacts(&session.id).await.unwrap());
        say(&serde_json::to_string(&runtime.sessions().export(&session.id).await.unwrap()).unwrap());
        say(&session);
    }
    say(&runtime.persistent_state().app().await.unwrap());
    say(&runtime.persistent_state().user("ada").await.unwrap());
    all
}

#[tokio::test]
async fn no_byte_has_it() {
    let (log, _guard) = Log::for_this_thread();
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("runs.db")).await.unwrap();
    let emitted = EventText::default();
    let runtime =
        test_runtime().store(store.clone()).with(redact().secret(SECRET)).agent(&talker());
    let runtime = runtime.sink(emitted.clone()).build();
    // Another process answers through the store.
    let desk = SqliteStore::open(folder.path().join("runs.db")).await.unwrap();
    let desk = test_runtime().store(desk).with(redact().secret(SECRET)).build();

    for turn in 0..4 {
        let session = Session::from("s")
            .window(SessionWindow::default().runs(1))
            .summarized(Summary::default());
        let request = RunRequest::new(at("input"))
            .session(session)
            .tag("tag", at("tag"))
            .caller("ada")
            .max_steps(9 + turn);
        let run = runtime.start_agent("secret_talker", request).await.unwrap();
        answer(&desk, run.run_id()).await;
        run.result().await.unwrap();
    }
    let run =
        runtime.start_agent("secret_talker", RunRequest::new(at("input")).live()).await.unwrap();
    within("the run to ask", async {
        while !desk
            .runs()
            .questions(RunFilter::new())
            .await
            .unwrap()
            .iter()
            .any(|asked| asked.path.ends_with("ask_user"))
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    desk.run(run.run_id()).send_message(at("message")).await.unwrap();
    desk.run(run.run_id()).cancel(&at("cancelled")).await.unwrap();
    run.result().await.unwrap_err();

    let run = runtime.start(secret_flow::workflow(), at("workflow input")).await.unwrap();
    answer(&desk, run.run_id()).await;
    run.result().await.unwrap_err();

    let told = format!(
        "{}{}{}{}",
        told(&runtime).await,
        told(&desk).await,
        emitted.0.lock().unwrap(),
        log.lines().join("\n")
    );
    drop((run, runtime, desk, store));
    tokio::time::sleep(Duration::from_millis(200)).await;
    let all = told + &bytes(folder.path());

    let (mut left, mut masked) = (BTreeSet::new(), BTreeSet::new());
    places(&all, SECRET, &mut left);
    places(&all, "[redacted]", &mut masked);
    assert_eq!(left, BTreeSet::new());
    let given = [
        "answer",
        "app state",
        "argument",
        "argument name",
        "by",
        "cancelled",
        "choice",
        "denial",
        "denied argument",
        "error of an attempt",
        "gate",
        "gate answer",
        "input",
        "item output",
        "mail",
        "message",
        "model error",
        "question",
        "session state",
        "step error",
        "step output",
        "summary",
        "tag",
        "tool error",
        "tool output",
        "user state",
        "workflow input",
    ];
    let masked: Vec<&str> =
        masked.iter().map(String::as_str).filter(|place| *place != "?").collect();
    assert_eq!(masked, given);
}

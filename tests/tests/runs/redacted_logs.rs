//! Tests redaction in the program's log, and in the outcome of a request, which waits in a store
//! for the process that sent the request.

use std::fmt::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentflow::agent::RunRequest;
use agentflow::executor::{ExecutorError, StepCall, StepExecutor, StepHost, StepOutcome};
use agentflow::message::ToolCall;
use agentflow::middleware::redact;
use agentflow::model::ModelErrorKind;
use agentflow::prelude::*;
use agentflow::runtime::RuntimeBuilder;
use agentflow::serde_json::json;
use agentflow::session::{Session, SessionWindow, Summary};
use agentflow::store::{MemoryStore, MessageStore, RunFilter, SqliteStore, Store};
use agentflow::{Error, RunId, async_trait};
use agentflow_testing::{ScriptedModel, Turn, test_runtime, within};
use tracing::field::{Field, Visit};
use tracing_subscriber::layer::{Context as LayerContext, Layer, SubscriberExt};

/// Collects the log lines of one test's thread.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<String>>>);

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        write!(self.0, "{}={value:?} ", field.name()).unwrap();
    }
}

impl<S: tracing::Subscriber> Layer<S> for Log {
    fn on_event(&self, event: &tracing::Event<'_>, _: LayerContext<'_, S>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }
}

impl Log {
    /// Collects the log lines of this thread as long as the guard exists.
    pub(crate) fn for_this_thread() -> (Self, tracing::subscriber::DefaultGuard) {
        let log = Self::default();
        let guard = tracing::subscriber::set_default(
            tracing_subscriber::Registry::default().with(log.clone()),
        );
        (log, guard)
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    /// Checks that all lines with this text are redacted and that no line contains the secret.
    fn says(&self, text: &str) {
        let lines = self.0.lock().unwrap();
        let of: Vec<_> = lines.iter().filter(|line| line.contains(text)).collect();
        assert!(
            !of.is_empty() && of.iter().all(|line| line.contains("[redacted]")),
            "{text}: {lines:#?}"
        );
        assert!(!lines.iter().any(|line| line.contains("swordfish")), "{lines:#?}");
    }
}

fn discreet() -> RuntimeBuilder {
    test_runtime().with(redact().secret("swordfish"))
}

/// Fails, and may pass another time.
#[tool(retry = 2, effects = "read")]
async fn redacted_fails() -> Result<String, String> {
    Err("it wants swordfish".to_owned())
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_retried_outside_of_a_run() {
    let (log, _guard) = Log::for_this_thread();
    let call = ToolCall::new("1", "redacted_fails", json!({}).to_string());
    let result = discreet().build().invoke(&call, &[]).await.unwrap();
    assert!(result.text().contains("swordfish"), "the caller sees it as it is: {result:?}");
    log.says("a tool call is retried");
}

#[tokio::test(start_paused = true)]
async fn a_summary_that_fails() {
    let (log, _guard) = Log::for_this_thread();
    let model = ScriptedModel::from_fn(|request| {
        match request.messages.messages()[0].text().contains("summary") {
            true => Turn::error(agentflow::model::ModelError::new(
                ModelErrorKind::BadRequest,
                "no swordfish",
            )),
            false => Turn::text("yes"),
        }
    });
    let runtime = discreet().store(MemoryStore::new()).build();
    let agent = Agent::new(model).name("redacted_summed").runtime(&runtime);
    for text in ["1", "2", "3", "4"] {
        let session = Session::from("s")
            .window(SessionWindow::default().runs(2))
            .summarized(Summary::default());
        agent.run(RunRequest::new(text).session(session)).await.unwrap();
    }
    log.says("was not summed up");
}

#[workflow]
async fn redacted_step(cx: &Context) -> Result<String> {
    let said = redacted_says(cx).await?;
    Ok(said)
}

async fn redacted_says(_: &Context) -> Result<String> {
    Ok("said".to_owned())
}

/// Loses every step.
struct Loses;

#[async_trait]
impl StepExecutor for Loses {
    async fn execute(&self, _: StepCall, _: StepHost) -> Result<StepOutcome, ExecutorError> {
        Err(ExecutorError::lost("the worker swordfish is gone"))
    }
}

#[tokio::test(start_paused = true)]
async fn a_step_that_an_executor_loses() {
    let (log, _guard) = Log::for_this_thread();
    let runtime = discreet().executor(Loses).build();
    runtime.start(redacted_step::workflow(), ()).await.unwrap().result().await.unwrap_err();
    log.says("has no outcome");
    log.says("a run failed");
}

struct Door;

/// Returns a runtime that cannot start a run, since its resource factory fails.
fn without_a_door(store: impl Store) -> Runtime {
    discreet().store(store).run_resource(|_| Err::<Door, _>("swordfish has no door")).build()
}

#[workflow]
async fn redacted_doors(cx: &Context) -> Result<String> {
    let open = closed_door(cx).await?;
    Ok(open)
}

async fn closed_door(_: &Context) -> Result<String> {
    Err(Error::Lost { reason: "it is closed".to_owned() })
}

#[workflow]
async fn redacted_asks(cx: &Context) -> Result<String> {
    let asked = gate!("enter?").await?;
    Ok(format!("{asked:?}"))
}

#[tokio::test(start_paused = true)]
async fn a_run_that_cannot_be_resumed() {
    let (log, _guard) = Log::for_this_thread();
    let store = MemoryStore::new();
    let run =
        discreet().store(store.clone()).build().start(redacted_asks::workflow(), ()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    run.abandon();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let recovered = without_a_door(store).recover().await.unwrap();
    assert!(
        recovered.left[0].1.to_string().contains("swordfish"),
        "whoever asked sees it: {recovered:?}"
    );
    log.says("a run could not be resumed");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_retried_and_cannot_be_resumed() {
    let (log, _guard) = Log::for_this_thread();
    let store = MemoryStore::new();
    let runtime = discreet().store(store.clone()).build();
    let run = runtime.start(redacted_doors::workflow(), ()).await.unwrap();
    run.result().await.unwrap_err();
    without_a_door(store).run(run.run_id()).retry("open", "ada").await.unwrap();
    log.says("could not be resumed here");
}

/// Starts a run that asks, with a store in a file.
async fn asking(folder: &tempfile::TempDir) -> (SqliteStore, RunId, agentflow::RunHandle<String>) {
    let store = SqliteStore::open(folder.path().join("runs.db")).await.unwrap();
    let runtime = discreet().store(store.clone()).build();
    let run = runtime.start(redacted_asks::workflow(), ()).await.unwrap();
    within("the run to ask", async {
        while runtime.runs().questions(RunFilter::new()).await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    (store, run.run_id().clone(), run)
}

async fn outcome(store: &SqliteStore, run: &RunId, message: &str) -> String {
    let message = store.send(run, message.to_owned()).await.unwrap();
    within("the message to be answered", async {
        loop {
            match store.outcome(message).await.unwrap() {
                Some(outcome) => return outcome,
                None => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    })
    .await
}

#[tokio::test]
async fn a_message_that_is_not_understood() {
    let (log, _guard) = Log::for_this_thread();
    let folder = tempfile::tempdir().unwrap();
    let (store, id, _run) = asking(&folder).await;
    outcome(&store, &id, r#"{"swordfish": 1}"#).await;
    log.says("is not understood");
}

/// Checks that the stored outcome of a request does not contain the secret. The outcome may stay in
/// the store if the requesting process has ended.
#[tokio::test]
async fn the_outcome_of_a_request() {
    let folder = tempfile::tempdir().unwrap();
    let (store, id, _run) = asking(&folder).await;
    let answer = json!({"answer": {"node": "asked", "answer": {"swordfish": true}, "by": "ada"}});
    let outcome = outcome(&store, &id, &answer.to_string()).await;
    assert!(outcome.contains("wrong_answer") && !outcome.contains("swordfish"), "{outcome}");
    let error: Error = test_runtime()
        .store(store.clone())
        .build()
        .run(&id)
        .answer("asked", &"swordfish", "ada")
        .await
        .expect_err("it is not an approval");
    assert!(error.to_string().contains("does not fit"), "{error}");
}

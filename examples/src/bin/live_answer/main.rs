//! Streams an answer to a browser while the model writes it, as server-sent events. After a lost
//! connection the stream continues at `Last-Event-ID`. The agent is started by name.
//!
//! `live_answer [--port N]` works offline with a scripted model, unless `AGENTFLOW_MODEL` names a
//! real one. The program prints its address; open it in a browser.

mod answers;

use std::convert::Infallible;
use std::io::Write;
use std::net::Ipv4Addr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use agentflow::Error;
use agentflow::agent::RunRequest;
use agentflow::error::RegistryError;
use agentflow::event::RunId;
use agentflow::model::ModelSource;
use agentflow::prelude::*;
use agentflow::serde_json::{Value, json};
use agentflow::store::{MemoryStore, StoreErrorKind};
use agentflow_testing::{ScriptedModel, Turn};
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use tokio::net::TcpListener;

use crate::answers::{Answers, Seen};

const USAGE: &str = "usage: live_answer [--port N]
  Listens on 127.0.0.1, on port 8080 if not said otherwise; 0 takes any free one.
  AGENTFLOW_MODEL names a model, such as openai-chat/gpt-5-mini; without it a stand-in answers.";

/// Time for unfinished answers when the program is stopped.
const REST: Duration = Duration::from_secs(5);

#[derive(Clone)]
struct Service {
    runtime: Runtime,
    answers: Arc<Answers>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let given: Vec<&str> = given.iter().map(String::as_str).collect();
    let port = match given[..] {
        [] => 8080,
        ["--port", port] if port.parse::<u16>().is_ok() => port.parse().unwrap_or_default(),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match serve(port).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("live_answer: {problem}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(port: u16) -> Result<(), Box<dyn std::error::Error>> {
    let model = match std::env::var("AGENTFLOW_MODEL") {
        Ok(model) if !model.is_empty() => ModelSource::from(model),
        _ => {
            eprintln!("no model is configured (AGENTFLOW_MODEL), so a stand-in answers");
            ModelSource::from(ScriptedModel::from_fn(|_| stand_in()))
        }
    };
    let poet = Agent::new(model).name("poet").instruct("Answer in some short sentences.");
    let runtime = Runtime::builder().store(MemoryStore::new()).agent(&poet).build();
    let service = Service { runtime: runtime.clone(), answers: Arc::default() };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
    println!("http://{}", listener.local_addr()?);
    std::io::stdout().flush()?;
    let routes = Router::new()
        .route("/", get(async || Html(include_str!("page.html"))))
        .route("/agents/{agent}/questions", post(ask))
        .route("/runs/{run}/answer", get(answer))
        .with_state(service);
    let stopped = async {
        let _ = tokio::signal::ctrl_c().await;
    };
    axum::serve(listener, routes).with_graceful_shutdown(stopped).await?;
    runtime.drain(REST).await;
    Ok(())
}

/// Writes one word at a time, like a model.
fn stand_in() -> Turn {
    let text = "The tide comes in. It lifts the boats, one by one. Then it goes, and leaves them where they were.";
    Turn::pieces(text.split_inclusive(' ')).paced(Duration::from_millis(60))
}

#[derive(Deserialize)]
struct Question {
    text: String,
}

/// Asks an agent by name. The response contains the run id.
async fn ask(
    State(service): State<Service>,
    Path(agent): Path<String>,
    Json(question): Json<Question>,
) -> Result<(StatusCode, Json<Value>), Refused> {
    // Streaming from the first call on, because the browser connects while the model is already
    // writing.
    let run = service.runtime.start_agent(&agent, RunRequest::new(question.text).stream()).await?;
    let id = run.run_id().clone();
    service.answers.follow(run);
    Ok((StatusCode::ACCEPTED, Json(json!({"run": id}))))
}

/// Streams the answer of a run as server-sent events, starting after `Last-Event-ID`.
async fn answer(
    State(service): State<Service>,
    Path(run): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let seen = headers
        .get("last-event-id")
        .and_then(|id| Seen::read(id.to_str().ok()?))
        .unwrap_or_default();
    let body = match service.answers.events(&run, seen) {
        Some(events) => Body::from_stream(events),
        // The run ended some time ago, so the complete answer is read from the store.
        None => {
            let output = service.runtime.run(&RunId::new(run)).output().await?;
            let event = answers::end_event(&json!({"text": output}));
            Body::from_stream(futures_util::stream::iter([Ok::<_, Infallible>(event)]))
        }
    };
    let headers =
        [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    Ok((headers, body).into_response())
}

/// An error that is converted to a response.
struct Refused(Error);

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self(error)
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let status = match &self.0 {
            Error::Registry(RegistryError::Unknown { .. }) => StatusCode::NOT_FOUND,
            Error::Store(error) if error.kind() == StoreErrorKind::NotFound => {
                StatusCode::NOT_FOUND
            }
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        (status, Json(json!({"error": self.0.to_string()}))).into_response()
    }
}

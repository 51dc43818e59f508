//! The HTTP interface of the desk: receives letters, shows runs, and accepts answers to the
//! questions in the inbox. It is stateless; all data comes from the store.

use std::convert::Infallible;

use agentflow::Error;
use agentflow::agent::RunRequest;
use agentflow::error::ControlErrorKind;
use agentflow::event::RunId;
use agentflow::prelude::*;
use agentflow::serde_json::{Value, json};
use agentflow::session::Session;
use agentflow::store::{RunFilter, StoreErrorKind};
use agentflow::views::ScreenEvents;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures_util::StreamExt;
use serde::Deserialize;

/// Returns the routes of the desk.
pub(crate) fn service(runtime: Runtime) -> Router {
    Router::new()
        .route("/customers/{customer}/letters", post(receive))
        .route("/customers/{customer}/history", get(history))
        .route("/runs/{run}", get(show))
        .route("/runs/{run}/events", get(events))
        .route("/inbox", get(inbox).post(answer))
        .with_state(runtime)
}

/// An error as an HTTP response.
struct Refused(StatusCode, String);

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        (self.0, Json(json!({"error": self.1}))).into_response()
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        let status = match &error {
            Error::Store(error) if error.kind() == StoreErrorKind::NotFound => {
                StatusCode::NOT_FOUND
            }
            Error::Store(error) if error.kind() == StoreErrorKind::Exists => StatusCode::CONFLICT,
            Error::Control(error) => match error.kind() {
                ControlErrorKind::UnknownNode => StatusCode::NOT_FOUND,
                ControlErrorKind::WrongAnswer => StatusCode::UNPROCESSABLE_ENTITY,
                _ => StatusCode::CONFLICT,
            },
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self(status, error.to_string())
    }
}

type Answer<T> = Result<T, Refused>;

#[derive(Deserialize)]
struct Letter {
    text: String,
}

/// Receives a letter and starts a run in the customer's session. A client that did not get the
/// response repeats the letter with the same `Idempotency-Key`. The key determines the run id, so
/// no letter is answered twice.
async fn receive(
    State(runtime): State<Runtime>,
    Path(customer): Path<String>,
    headers: HeaderMap,
    Json(letter): Json<Letter>,
) -> Answer<Response> {
    // The letters of a customer are answered one after the other.
    let mut request = RunRequest::new(letter.text)
        .session(Session::from(customer.as_str()).waiting())
        .caller(customer.as_str());
    if let Some(key) = headers.get("idempotency-key").and_then(|key| key.to_str().ok()) {
        let id = RunId::new(format!("{customer}.{key}"));
        if runtime.run(&id).record().await.is_ok() {
            return Ok(accepted(&id));
        }
        request = request.run_id(id);
    }
    let run = runtime.start_agent("support", request).await?;
    // The run is in the store after its first event.
    if run.events().next().await.is_none() {
        run.result().await?;
    }
    Ok(accepted(run.run_id()))
}

fn accepted(run: &RunId) -> Response {
    (StatusCode::ACCEPTED, Json(json!({"run": run}))).into_response()
}

/// Returns the conversation of a customer with the desk.
async fn history(
    State(runtime): State<Runtime>,
    Path(customer): Path<String>,
) -> Answer<Json<Value>> {
    let runs = runtime.sessions().history(&customer, 100).await?;
    Ok(Json(json!(runs)))
}

/// Returns the current state of a run.
async fn show(State(runtime): State<Runtime>, Path(run): Path<String>) -> Answer<Json<Value>> {
    let run = RunId::new(run);
    let record = runtime.run(&run).record().await?;
    let answer = match record.status.has_ended() {
        true => Some(runtime.run(&run).output().await?),
        false => None,
    };
    Ok(Json(json!({"run": run, "status": record.status, "answer": answer})))
}

/// Streams the events of a run as server-sent events: first the past ones, then each new one. A
/// client that reconnects continues after `Last-Event-ID`.
async fn events(
    State(runtime): State<Runtime>,
    Path(run): Path<String>,
    headers: HeaderMap,
) -> Answer<Response> {
    let seen =
        headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse().ok()).unwrap_or(0);
    let events = runtime.run(&RunId::new(run)).events(0).await?;
    let mut screen = ScreenEvents::default();
    let shown = events.filter_map(move |event| {
        std::future::ready(screen.next(&event).filter(|event| event.id > seen))
    });
    let body = Body::from_stream(shown.map(|event| Ok::<_, Infallible>(event.to_string())));
    Ok(([(header::CONTENT_TYPE, "text/event-stream")], body).into_response())
}

/// Returns the open questions of all runs, oldest first.
async fn inbox(State(runtime): State<Runtime>) -> Answer<Json<Value>> {
    let questions = runtime.runs().questions(RunFilter::new()).await?;
    Ok(Json(json!(questions)))
}

/// An answer to a question in the inbox: `{"run": .., "path": .., "by": "ada", "decision":
/// "granted"}`, optionally with `arguments` that replace the model's, or `"decision": "denied"`
/// with a `comment`.
#[derive(Deserialize)]
struct Decision {
    run: RunId,
    path: String,
    by: String,
    #[serde(flatten)]
    approval: Approval,
}

async fn answer(
    State(runtime): State<Runtime>,
    Json(decision): Json<Decision>,
) -> Answer<StatusCode> {
    runtime.run(&decision.run).approve(&decision.path, decision.approval, &decision.by).await?;
    Ok(StatusCode::NO_CONTENT)
}

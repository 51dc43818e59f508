//! `follow_live`: a WebSocket that sends the progress of a run as chunks of a task, and receives
//! answers, messages and cancellations.

use std::sync::Arc;

use agentflow_core::RunId;
use agentflow_core::run::Events;
use agentflow_core::runtime::CallerRuntime;
use agentflow_core::value::Encoded;
use agentflow_front::StreamSlot;
use agentflow_views::TaskChunks;
use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::response::Response;
use futures_util::StreamExt;
use http::StatusCode;
use http::request::Parts;
use serde::Deserialize;
use serde_json::{Value, json};

use super::run_stream::stream_slot;
use crate::api_error::{ApiError, ApiResult};
use crate::continue_run::continue_run;
use crate::extract::{Acting, PathParams};
use crate::server_options::ServerState;

/// Maximum size in bytes of a message from the client.
const MAX_MESSAGE: usize = 1 << 20;

/// A message from the client.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum LiveRequest {
    /// Answers an open question, named by the `id` of its chunk or by its node.
    Answer { id: String, answer: Value },
    /// Sends a message to the agent of the run.
    Message { text: String },
    /// Cancels the run.
    Cancel { reason: Option<String> },
}

/// Opens the WebSocket.
pub(crate) async fn follow_live(
    State(state): State<ServerState>,
    acting: Acting,
    PathParams(run): PathParams<Arc<str>>,
    parts: Parts,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> ApiResult<Response> {
    let run = RunId::new(run);
    acting.runtime.run(&run).record().await?;
    let upgrade = upgrade.map_err(|rejection| {
        let detail = format!("expected a WebSocket handshake: {}", rejection.body_text());
        ApiError::new(StatusCode::UPGRADE_REQUIRED, "upgrade_required", detail)
    })?;
    let slot = stream_slot(&state, &acting, &parts)?;
    let events = acting.runtime.run(&run).events(0).await?;
    let by = acting.caller.name().to_owned();
    let live = LiveRun { runtime: acting.runtime, run, by, state, _slot: slot };
    Ok(upgrade.max_message_size(MAX_MESSAGE).on_upgrade(move |socket| live.serve(socket, events)))
}

/// A WebSocket of a run.
struct LiveRun {
    runtime: CallerRuntime,
    run: RunId,
    by: String,
    state: ServerState,
    /// Held until the socket closes.
    _slot: StreamSlot,
}

impl LiveRun {
    /// Sends chunks and handles messages until the run ends, the client disconnects, or the server
    /// stops.
    async fn serve(self, mut socket: WebSocket, mut events: Events) {
        let mut chunks = TaskChunks::default();
        let mut stop_signal = self.state.stop_signal();
        let settings = self.state.settings();
        loop {
            let message = tokio::select! {
                event = events.next() => match event {
                    Some(event) => match chunks.next(&event) {
                        Some(chunk) => text(&chunk),
                        None => continue,
                    },
                    None => break,
                },
                received = socket.recv() => match received {
                    Some(Ok(Message::Text(request))) => match self.handle(&request).await {
                        Ok(()) => continue,
                        // The socket stays open, since the client can correct its request.
                        Err(problem) => text(&problem),
                    },
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                    Some(Ok(_)) => continue,
                },
                () = tokio::time::sleep(settings.heartbeat) => Message::Ping(Default::default()),
                () = stop_signal.stopped() => break,
            };
            // A client that does not read must not keep its slot for ever.
            let sent = tokio::time::timeout(settings.write_timeout, socket.send(message)).await;
            if !matches!(sent, Ok(Ok(()))) {
                return;
            }
        }
        let _ =
            tokio::time::timeout(settings.write_timeout, socket.send(Message::Close(None))).await;
    }

    /// Handles a message of the client. Returns the problem as a message to the client.
    async fn handle(&self, request: &str) -> Result<(), Value> {
        let request: LiveRequest = serde_json::from_str(request)
            .map_err(|error| problem("invalid_request", &error.to_string()))?;
        let run = self.runtime.run(&self.run);
        let handled = match request {
            LiveRequest::Answer { id, answer } => match Encoded::new(&answer) {
                Ok(answer) => run.answer_encoded(&id, answer, &self.by).await,
                Err(error) => return Err(problem("invalid_request", &error.to_string())),
            },
            LiveRequest::Message { text } => run.send_message(text).await,
            LiveRequest::Cancel { reason } => {
                let reason = reason.unwrap_or_else(|| format!("cancelled by {}", self.by));
                run.cancel(&reason).await
            }
        };
        let handled = match handled {
            Ok(()) => continue_run(&self.runtime, &self.run).await,
            Err(error) => Err(ApiError::from(error)),
        };
        handled.map_err(|error| problem(error.code(), error.detail()))
    }
}

fn text(value: &impl serde::Serialize) -> Message {
    Message::Text(serde_json::to_string(value).unwrap_or_default().into())
}

fn problem(code: &str, detail: &str) -> Value {
    json!({"error": {"code": code, "detail": detail}})
}

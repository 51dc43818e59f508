//! `follow_run`: the events of a run as server-sent events.

use std::sync::Arc;
use std::time::Duration;

use agentflow_core::event::RunId;
use agentflow_core::run::Events;
use agentflow_front::{PeerAddress, StreamSlot};
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::mpsc;

use super::event_frames::{EventFrames, StreamForm};
use crate::api_error::{ApiError, ApiResult};
use crate::extract::{Acting, PathParams, QueryParams};
use crate::server_options::{ServerState, StopSignal};

/// Number of frames that wait for a slow client. The events themselves stay in the log of the run.
const WAITING_FRAMES: usize = 64;
/// A comment, which keeps proxies from closing an idle connection.
const HEARTBEAT: Bytes = Bytes::from_static(b": heartbeat\n\n");

/// Parameters of a stream.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
pub(crate) struct StreamQuery {
    /// Form of the events. Default: `screen`.
    #[serde(default)]
    form: StreamForm,
    /// Number of the last event that the client has received. The header `Last-Event-ID` has
    /// precedence. Default: 0.
    #[serde(default)]
    after: u64,
}

/// Follows the events of a run.
pub(crate) async fn follow_run(
    State(state): State<ServerState>,
    acting: Acting,
    PathParams(run): PathParams<Arc<str>>,
    QueryParams(query): QueryParams<StreamQuery>,
    parts: Parts,
) -> ApiResult<Response> {
    let after = last_event_id(&parts.headers)?.unwrap_or(query.after);
    let run = RunId::new(run);
    let found = acting.runtime.run(&run);
    let record = found.record().await?;
    if record.status.has_ended() && record.events <= after {
        // A browser reconnects after the end of every stream, except after this status.
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let slot = stream_slot(&state, &acting, &parts)?;
    let frames = EventFrames::new(query.form, after);
    let events = found.events(frames.unneeded()).await?;
    let (sender, receiver) = mpsc::channel(WAITING_FRAMES);
    let follower = StreamFollower {
        events,
        frames,
        sender,
        heartbeat: state.settings().heartbeat,
        write_timeout: state.settings().write_timeout,
        stop_signal: state.stop_signal(),
        _slot: slot,
    };
    tokio::spawn(follower.follow());
    let frames = stream::unfold(receiver, |mut receiver| async {
        receiver.recv().await.map(|frame| (Ok::<_, std::convert::Infallible>(frame), receiver))
    });
    let head = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        // Asks nginx not to collect the frames.
        (header::HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ];
    Ok((StatusCode::OK, head, Body::from_stream(frames)).into_response())
}

fn last_event_id(headers: &HeaderMap) -> ApiResult<Option<u64>> {
    let Some(value) = headers.get("last-event-id") else { return Ok(None) };
    let text = value.to_str().unwrap_or_default();
    // A client that has received no event sends an empty id.
    if text.is_empty() {
        return Ok(Some(0));
    }
    match text.parse() {
        Ok(number) => Ok(Some(number)),
        Err(_) => Err(ApiError::new(
            StatusCode::BAD_REQUEST,
            "invalid_last_event_id",
            "`Last-Event-ID` must be the number of an event",
        )),
    }
}

/// Takes the slot of a stream.
pub(super) fn stream_slot(
    state: &ServerState,
    acting: &Acting,
    parts: &Parts,
) -> ApiResult<StreamSlot> {
    let remedy = "close one first";
    state.front().stream_slot(parts, Some(&acting.caller), remedy).map_err(|rejection| {
        let detail = String::from_utf8_lossy(rejection.body()).into_owned();
        let has_peer = parts.extensions.get::<PeerAddress>().is_some();
        tracing::debug!(has_peer, %detail, "a stream was refused");
        ApiError::new(rejection.status(), "too_many_streams", detail)
    })
}

/// Sends the frames of a run to one client.
struct StreamFollower {
    events: Events,
    frames: EventFrames,
    sender: mpsc::Sender<Bytes>,
    heartbeat: Duration,
    write_timeout: Duration,
    stop_signal: StopSignal,
    /// Held until the stream ends.
    _slot: StreamSlot,
}

impl StreamFollower {
    /// Sends frames until the run ends, the client disconnects or reads too slowly, or the server
    /// stops. A client that reconnects with the id of its last frame misses nothing.
    async fn follow(mut self) {
        loop {
            let frame = tokio::select! {
                event = self.events.next() => match event {
                    Some(event) => match self.frames.next(&event) {
                        Some(frame) => frame,
                        None => continue,
                    },
                    None => return,
                },
                () = tokio::time::sleep(self.heartbeat) => HEARTBEAT,
                () = self.sender.closed() => return,
                () = self.stop_signal.stopped() => return,
            };
            // A client that does not read must not keep its slot for ever.
            if self.sender.send_timeout(frame, self.write_timeout).await.is_err() {
                return;
            }
        }
    }
}

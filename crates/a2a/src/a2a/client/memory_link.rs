//! The transport of requests: HTTP, or a function in this process that answers the same requests.

use std::io;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::stream::{BoxStream, StreamExt};
use futures_util::{Stream, stream};
use http_body_util::StreamBody;
use reqwest::header::{CONTENT_TYPE, HeaderValue};
use reqwest::{Request, RequestBuilder, Response};
use serde_json::{Value, json};

use agentflow_tools::AddressGuard;

/// Address of an in-memory agent in requests.
pub(super) const MEMORY: &str = "http://in-memory.invalid/";

/// Transport to an agent.
pub(super) enum Link {
    Http,
    /// HTTP to an address that a document has chosen, restricted by a guard.
    Guarded(AddressGuard),
    Memory {
        card: Value,
        respond: Box<dyn Fn(Value) -> BoxStream<'static, Value> + Send + Sync>,
    },
}

impl Link {
    /// Creates a transport to an agent in this process. Replaces the interfaces of its card.
    pub(super) fn memory<S>(
        mut card: Value,
        respond: impl Fn(Value) -> S + Send + Sync + 'static,
    ) -> Self
    where
        S: Stream<Item = Value> + Send + 'static,
    {
        if let Value::Object(card) = &mut card {
            let interface =
                json!({"url": MEMORY, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"});
            card.insert("supportedInterfaces".to_owned(), json!([interface]));
        }
        Self::Memory { card, respond: Box::new(move |request| respond(request).boxed()) }
    }

    /// Sends a request and returns the response before its body is read. Has no time limit.
    pub(super) async fn send(&self, request: RequestBuilder) -> Result<Response, reqwest::Error> {
        match self {
            Self::Http | Self::Guarded(_) => request.send().await,
            Self::Memory { card, respond } => Ok(answer(request.build()?, card, respond).await),
        }
    }
}

async fn answer(
    request: Request,
    card: &Value,
    respond: &(dyn Fn(Value) -> BoxStream<'static, Value> + Send + Sync),
) -> Response {
    let sent = request.body().and_then(reqwest::Body::as_bytes);
    // A request without a body is the request for the card.
    let Some(asked) = sent.and_then(|sent| serde_json::from_slice::<Value>(sent).ok()) else {
        return response("application/json", stream::iter([Ok(card.to_string().into())]));
    };
    let streams =
        matches!(asked["method"].as_str(), Some("SendStreamingMessage" | "SubscribeToTask"));
    let mut answers = respond(asked);
    let first = answers.next().await;
    match first {
        // An agent without a response simulates a broken connection.
        None => {
            response("application/json", stream::iter([Err(io::ErrorKind::ConnectionReset.into())]))
        }
        Some(first) if !streams || !first["error"].is_null() => {
            response("application/json", stream::iter([Ok(first.to_string().into())]))
        }
        Some(first) => {
            let events = stream::iter([first]).chain(answers);
            response(
                "text/event-stream",
                events.map(|event| Ok(format!("data: {event}\n\n").into())),
            )
        }
    }
}

fn response(
    kind: &'static str,
    pieces: impl Stream<Item = io::Result<Bytes>> + Send + 'static,
) -> Response {
    let frames =
        SyncStream(Mutex::new(pieces.map(|piece| piece.map(http_body::Frame::data)).boxed()));
    let mut response = http::Response::new(reqwest::Body::wrap(StreamBody::new(frames)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response.into()
}

/// Makes a stream `Sync`, as HTTP bodies require. Only one task polls it, so the lock is never
/// contended.
struct SyncStream<T>(Mutex<BoxStream<'static, T>>);

impl<T> Stream for SyncStream<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner).poll_next_unpin(cx)
    }
}

//! Executes one call over HTTP as a stream: sends it, waits, retries, and reads the response.
//!
//! The stream owns the state and the connection, so dropping the stream closes the connection. A
//! call is retried if the server refused it, if no byte of the response arrived, or if the body
//! contains an error instead of a response. A call is never retried after a piece was yielded or
//! after the response broke off, because the provider may have charged for it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use agentflow_core::__private::adapters::{map_error_texts, without_secret};
use agentflow_core::model::{
    HttpSettings, ModelError, ModelErrorKind, ModelEvent, ModelRequest, ModelStream, Secret,
    TimeoutKind,
};
use agentflow_http::could_not_connect;
use agentflow_http::sse::{self, EventTooLarge, SseReader};
use agentflow_schema::text;
use bytes::Bytes;
use futures_util::{TryStreamExt, stream};
use reqwest::Response;
use reqwest::header::CONTENT_TYPE;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use super::http_error::{Refusal, no_client, request_id, timed_out, transport};
use super::{Decode, Deltas, EncodedRequest, HttpAdapter, SseEvent, SseFlow, WireFormat};

/// Maximum number of bytes of a refusal that are read.
const MAX_REFUSAL: usize = 64 * 1024;
/// Maximum number of bytes of each text in an error, including the body.
const MAX_ERROR_TEXT: usize = 4 * 1024;
/// Time limit for the rest of the body after the provider's end marker. The rest usually arrives
/// together with the marker. A connection can be reused only if its body was read to the end.
const DRAIN: Duration = Duration::from_millis(100);
/// Time limit for the rest of a response after its stop reason, which is usually the usage. Some
/// servers send the end of the stream late or never, and keep the connection open.
const LINGER: Duration = Duration::from_secs(3);
/// Maximum number of bytes that are read after the provider's end marker.
const MAX_DRAIN: usize = 1024 * 1024;

/// Returns the stream of one call. No work is done before the stream is polled.
pub(crate) fn exchange<F: WireFormat>(
    adapter: Arc<HttpAdapter<F>>,
    request: ModelRequest,
) -> ModelStream {
    let state = Box::new(Exchange {
        deltas: Deltas::new(request.stream).finding_thinking(adapter.may_think_in_tags()),
        retried_by_caller: request.retried_by_caller,
        adapter,
        stage: Stage::New(request),
        prepared: None,
        deadline: Limit::never(),
        retries: 0,
        handed_on: false,
        failed: None,
    });
    // One future per chunk of the body instead of one per event, because the future is large and
    // expensive to create.
    let batches =
        stream::unfold(state, |mut state| async move { Some((state.next().await?, state)) });
    ModelStream::new(
        batches.map_ok(|pieces| stream::iter(pieces.into_iter().map(Ok))).try_flatten(),
    )
}

struct Exchange<F: WireFormat> {
    adapter: Arc<HttpAdapter<F>>,
    stage: Stage<F::Decoder>,
    prepared: Option<(EncodedRequest, F::Decoder)>,
    deltas: Deltas,
    /// Deadline of the whole call.
    deadline: Limit,
    retried_by_caller: bool,
    retries: u32,
    handed_on: bool,
    /// The error that ends the stream, after the pieces before it were yielded.
    failed: Option<ModelError>,
}

enum Stage<D> {
    New(ModelRequest),
    Send,
    Read(Box<OpenExchange<D>>),
    Done,
}

/// A response whose body is being read.
struct OpenExchange<D> {
    response: Response,
    host: Box<str>,
    /// The first chunk of the body, until it is processed.
    first: Option<Bytes>,
    body: Body,
    /// Number of bytes read from the body.
    taken: u64,
    /// Deadline after which a response with a stop reason is complete, even without the end of the
    /// stream.
    linger: Limit,
    decoder: D,
}

enum Body {
    Events(SseReader),
    Document(Vec<u8>),
}

impl Body {
    fn take(
        &mut self,
        bytes: &[u8],
        decoder: &mut impl Decode,
        deltas: &mut Deltas,
    ) -> Result<SseFlow, ModelError> {
        // Some servers send a JSON document with the content type of a stream.
        if let Self::Events(reader) = self
            && reader.is_document(bytes)
        {
            *self = Self::Document(Vec::new());
        }
        match self {
            Self::Events(reader) => reader
                .feed(bytes, |event| take_event(event, decoder, deltas).map_err(Unread))
                .map_err(|Unread(error)| error),
            Self::Document(document) => {
                document.extend_from_slice(bytes);
                Ok(SseFlow::More)
            }
        }
    }

    /// Processes the end of the body.
    fn finish(&mut self, decoder: &mut impl Decode, deltas: &mut Deltas) -> Result<(), ModelError> {
        match self {
            // An incomplete event only means that the response was truncated, which is reported by
            // the caller.
            Self::Events(reader) => match reader.finish(|event| take_event(event, decoder, deltas))
            {
                Err(error) if error.kind() != ModelErrorKind::InvalidResponse => Err(error),
                _ => Ok(()),
            },
            // Some servers send events with the content type of a document.
            Self::Document(document) if sse::is_events(document) => {
                let (mut events, document) =
                    (Self::Events(SseReader::default()), std::mem::take(document));
                match events.take(&document, decoder, deltas)? {
                    SseFlow::End => Ok(()),
                    SseFlow::More | SseFlow::Finishing => events.finish(decoder, deltas),
                }
            }
            Self::Document(document) => decoder.document(sse::without_end(document), deltas),
        }
    }
}

/// The error of an event that is too large, or the error of the decoder.
struct Unread(ModelError);

impl From<EventTooLarge> for Unread {
    fn from(error: EventTooLarge) -> Self {
        Self(ModelError::new(ModelErrorKind::AnswerTooLarge, error.to_string()))
    }
}

/// Passes an event to the decoder. Skips pings and server-specific events, which have a name and
/// often no object as data.
fn take_event(
    event: SseEvent<'_>,
    decoder: &mut impl Decode,
    deltas: &mut Deltas,
) -> Result<SseFlow, ModelError> {
    let is_object = matches!(event.data.trim_ascii_start().first(), Some(b'{' | b'['));
    match is_object || matches!(event.name, b"" | b"error" | b"message") {
        true => decoder.event(event, deltas),
        false => Ok(SseFlow::More),
    }
}

/// Decodes a body of server-sent events as one response, without a server.
#[cfg(test)]
pub(super) fn read_events(
    body: &[u8],
    mut decoder: impl Decode,
) -> Result<agentflow_core::model::ModelResponse, ModelError> {
    let (mut events, mut deltas) = (Body::Events(SseReader::default()), Deltas::new(true));
    if events.take(body, &mut decoder, &mut deltas)? != SseFlow::End {
        events.finish(&mut decoder, &mut deltas)?;
    }
    decoder.complete().ok_or_else(ModelError::truncated)
}

impl<F: WireFormat> Exchange<F> {
    /// Returns all available pieces, or an error.
    async fn next(&mut self) -> Option<Result<VecDeque<ModelEvent>, ModelError>> {
        loop {
            if !self.deltas.is_empty() {
                self.handed_on = true;
                return Some(Ok(self.deltas.take()));
            }
            if let Some(error) = self.failed.take() {
                let hidden =
                    self.prepared.as_ref().map_or(&[][..], |(outgoing, _)| &outgoing.hidden);
                return Some(Err(sealed(error, hidden)));
            }
            let advanced = match std::mem::replace(&mut self.stage, Stage::Done) {
                Stage::New(request) => self.prepare(request).await,
                Stage::Send => self.send().await,
                Stage::Read(reading) => self.read(reading).await,
                Stage::Done => return None,
            };
            match advanced {
                Ok(stage) => self.stage = stage,
                Err(error) => self.failed = Some(error),
            }
        }
    }

    async fn prepare(&mut self, request: ModelRequest) -> Result<Stage<F::Decoder>, ModelError> {
        // The total time starts when the stream is first polled, and includes the request of the
        // key and all retries.
        self.deadline =
            Limit::after(self.adapter.settings().get_total_timeout(), TimeoutKind::Total);
        let prepared = self.deadline.hold(self.adapter.prepare(request)).await??;
        let url = &prepared.0.url;
        record_server(url);
        self.prepared = Some(prepared);
        Ok(Stage::Send)
    }

    async fn send(&mut self) -> Result<Stage<F::Decoder>, ModelError> {
        let Some((outgoing, decoder)) = &self.prepared else { return Ok(Stage::Done) };
        match attempt(&self.adapter, outgoing, self.deadline).await {
            Ok((response, first)) => {
                let body = body_of(&response, outgoing.stream)?;
                let (host, decoder) = (host_of(outgoing), decoder.clone());
                let linger = Limit::never();
                Ok(Stage::Read(Box::new(OpenExchange {
                    response,
                    host,
                    first,
                    body,
                    taken: 0,
                    linger,
                    decoder,
                })))
            }
            Err(error) => self.again(error).await,
        }
    }

    /// Waits and retries the call, or returns the error if no retry is allowed.
    async fn again(&mut self, error: ModelError) -> Result<Stage<F::Decoder>, ModelError> {
        if self.retried_by_caller {
            return Err(error);
        }
        let Some(wait) = self.adapter.settings().wait_before_retry(
            self.retries,
            &error,
            could_not_connect(&error),
        ) else {
            return Err(error);
        };
        let until = Limit::after(wait, TimeoutKind::Total).at;
        // A retry that would exceed the deadline is pointless.
        if until >= self.deadline.at {
            return Err(error);
        }
        tracing::debug!(
            kind = error.kind().as_str(),
            status = error.status(),
            ?wait,
            "the model call is retried"
        );
        sleep_until(until).await;
        self.retries += 1;
        Ok(Stage::Send)
    }

    async fn read(
        &mut self,
        mut reading: Box<OpenExchange<F::Decoder>>,
    ) -> Result<Stage<F::Decoder>, ModelError> {
        let settings = self.adapter.settings();
        let piece = match reading.first.take() {
            Some(first) => Ok(Some(first)),
            None => reading.piece(settings, self.deadline).await,
        };
        match piece {
            Ok(Some(bytes)) => {
                match reading.take(&bytes, settings.get_max_answer_bytes(), &mut self.deltas) {
                    Ok(SseFlow::More) => Ok(Stage::Read(reading)),
                    Ok(SseFlow::Finishing) => {
                        reading.linger = Limit::after(LINGER, TimeoutKind::Idle);
                        Ok(Stage::Read(reading))
                    }
                    Ok(SseFlow::End) => {
                        reading.drain().await;
                        self.complete(&mut reading)
                    }
                    Err(error) => self.unanswered(reading.signed(error)).await,
                }
            }
            Ok(None) => match reading.finish(&mut self.deltas) {
                Ok(()) => self.complete(&mut reading),
                Err(error) => self.unanswered(error).await,
            },
            // After the provider's end marker, the response is complete, and only the end of the
            // body is missing.
            Err(error) => self.complete(&mut reading).map_err(|_| error),
        }
    }

    /// Handles an error in the body. The call may be retried only if the body contained no piece of
    /// a response.
    async fn unanswered(&mut self, error: ModelError) -> Result<Stage<F::Decoder>, ModelError> {
        match self.handed_on || !self.deltas.is_empty() || error.kind() == ModelErrorKind::Truncated
        {
            true => Err(error),
            false => self.again(error).await,
        }
    }

    fn complete(
        &mut self,
        reading: &mut OpenExchange<F::Decoder>,
    ) -> Result<Stage<F::Decoder>, ModelError> {
        let Some(response) = reading.decoder.complete() else {
            return Err(reading.signed(ModelError::truncated()));
        };
        self.deltas.complete(response);
        Ok(Stage::Done)
    }
}

impl<D: Decode> OpenExchange<D> {
    async fn piece(
        &mut self,
        settings: &HttpSettings,
        deadline: Limit,
    ) -> Result<Option<Bytes>, ModelError> {
        let limit = Limit::after(settings.get_idle_timeout(), TimeoutKind::Idle)
            .or(self.linger)
            .or(deadline);
        match limit.hold(self.response.chunk()).await {
            Ok(Ok(piece)) => Ok(piece),
            Ok(Err(error)) => {
                Err(self.signed(transport(error, &self.host, settings.get_connect_timeout())))
            }
            Err(error) => Err(self.signed(error)),
        }
    }

    fn take(
        &mut self,
        bytes: &[u8],
        most: u64,
        deltas: &mut Deltas,
    ) -> Result<SseFlow, ModelError> {
        let Self { body, decoder, taken, .. } = self;
        *taken = taken.saturating_add(bytes.len() as u64);
        if *taken > most {
            let problem = format!(
                "the answer is larger than {most} bytes, the limit `max_answer_bytes` of `HttpSettings`"
            );
            return Err(ModelError::new(ModelErrorKind::AnswerTooLarge, problem));
        }
        body.take(bytes, decoder, deltas)
    }

    /// Processes the end of the body.
    fn finish(&mut self, deltas: &mut Deltas) -> Result<(), ModelError> {
        self.body.finish(&mut self.decoder, deltas).map_err(|error| self.signed(error))
    }

    /// Reads the rest of the body, so that the connection can be reused.
    async fn drain(&mut self) {
        let mut left = MAX_DRAIN;
        let rest = async {
            while let Ok(Some(piece)) = self.response.chunk().await
                && piece.len() <= left
            {
                left -= piece.len();
            }
        };
        let _ = timeout(DRAIN, rest).await;
    }

    /// Adds the status and the request id of the response to an error.
    fn signed(&self, error: ModelError) -> ModelError {
        let error = match error.status() {
            None => error.with_status(self.response.status().as_u16()),
            Some(_) => error,
        };
        match (error.request_id(), request_id(self.response.headers())) {
            (None, Some(id)) => error.with_request_id(id),
            _ => error,
        }
    }
}

/// Sends the request once, and waits for the first chunk of the response body.
async fn attempt<F: WireFormat>(
    adapter: &HttpAdapter<F>,
    outgoing: &EncodedRequest,
    deadline: Limit,
) -> Result<(Response, Option<Bytes>), ModelError> {
    let settings = adapter.settings();
    let broken = |error| transport(error, &host_of(outgoing), settings.get_connect_timeout());
    let client =
        agentflow_http::client(&outgoing.url, settings.get_connect_timeout()).map_err(no_client)?;
    let request = client
        .post(outgoing.url.clone())
        .headers(outgoing.headers.clone())
        .body(outgoing.body.clone())
        .send();
    let limit =
        Limit::after(settings.get_first_byte_timeout(), TimeoutKind::FirstByte).or(deadline);
    let mut response = limit.hold(request).await?.map_err(broken)?;
    if !response.status().is_success() {
        return Err(refusal::<F>(settings, outgoing, response, deadline).await);
    }
    let first = limit.hold(response.chunk()).await?.map_err(broken)?;
    Ok((response, first))
}

/// Reads the body of a refusal, as much as arrives, and converts it to an error.
async fn refusal<F: WireFormat>(
    settings: &HttpSettings,
    outgoing: &EncodedRequest,
    mut response: Response,
    deadline: Limit,
) -> ModelError {
    let mut body = Vec::new();
    loop {
        let limit = Limit::after(settings.get_idle_timeout(), TimeoutKind::Idle).or(deadline);
        match limit.hold(response.chunk()).await {
            Ok(Ok(Some(piece))) if body.len() < MAX_REFUSAL => body.extend_from_slice(&piece),
            _ => break,
        }
    }
    let body =
        redacted(String::from_utf8_lossy(sse::without_bom(&body)).into_owned(), &outgoing.hidden);
    let (status, headers) = (response.status().as_u16(), response.headers());
    F::refused(&Refusal { status, headers, body: &body })
}

/// Determines the format of the body: by its content type, or else by the type of the request.
fn body_of(response: &Response, stream: bool) -> Result<Body, ModelError> {
    let kind = response
        .headers()
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let events = match kind.as_str() {
        "text/event-stream" => true,
        json if json.ends_with("json") => false,
        "" | "text/plain" | "application/octet-stream" => stream,
        other => {
            let message = format!(
                "the server answered with `{other}`, which no model does; check the base URL"
            );
            return Err(ModelError::new(ModelErrorKind::InvalidResponse, message)
                .with_status(response.status().as_u16()));
        }
    };
    Ok(if events { Body::Events(SseReader::default()) } else { Body::Document(Vec::new()) })
}

fn host_of(outgoing: &EncodedRequest) -> Box<str> {
    let host = outgoing.url.host_str().unwrap_or_default();
    match outgoing.url.port() {
        Some(port) => format!("{host}:{port}").into(),
        None => host.into(),
    }
}

/// Removes keys from an error and shortens its messages.
fn sealed(error: ModelError, hidden: &[Secret]) -> ModelError {
    map_error_texts(
        error,
        |text| redacted(text, hidden),
        |text| text::head(&text, MAX_ERROR_TEXT).to_owned(),
    )
}

fn redacted(mut text: String, hidden: &[Secret]) -> String {
    for secret in hidden {
        // A very short value is not a key, and would occur in many strings.
        if secret.expose().len() >= 6
            && let Some(without) = without_secret(&text, secret.expose(), "[hidden]")
        {
            text = without;
        }
    }
    text
}

/// A deadline, with the kind of time-out that it causes.
#[derive(Clone, Copy)]
struct Limit {
    at: Instant,
    kind: TimeoutKind,
    length: Duration,
}

impl Limit {
    fn never() -> Self {
        Self::after(Duration::MAX, TimeoutKind::Total)
    }

    fn after(length: Duration, kind: TimeoutKind) -> Self {
        /// Longer than any program runs, but within the range of `Instant`.
        const FAR: Duration = Duration::from_secs(30 * 365 * 24 * 3600);
        Self { at: Instant::now() + length.min(FAR), kind, length }
    }

    fn or(self, other: Self) -> Self {
        if other.at < self.at { other } else { self }
    }

    async fn hold<T>(self, future: impl Future<Output = T>) -> Result<T, ModelError> {
        timeout_at(self.at, future).await.map_err(|_| timed_out(self.kind, self.length))
    }
}

/// Records the server in the current span, if it is the span of a model call.
fn record_server(url: &reqwest::Url) {
    let span = tracing::Span::current();
    if !span.is_disabled() {
        span.record("server.address", url.host_str().unwrap_or_default());
        if let Some(port) = url.port_or_known_default() {
            span.record("server.port", i64::from(port));
        }
    }
}

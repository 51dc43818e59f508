//! What the adapters share: one HTTP client, time-outs, retries, server-sent events.
//!
//! An adapter says how a call is written ([`WireFormat`]) and how an answer is read ([`Decode`]); everything between
//! happens here. This module knows no provider, and no key leaves it in an error.

mod client;
mod exchange;
mod failure;
mod retry;
mod server;
mod sse;

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use reqwest::Url;
use reqwest::header::HeaderMap;

pub(crate) use self::exchange::exchange;
pub(crate) use self::failure::{Refusal, kind_of_status};
pub(crate) use self::server::{Provider, Server, ServerBuilder};
pub(crate) use self::sse::SseEvent;
use crate::model::{ModelError, ModelEvent, ModelRequest, ModelResponse, Secret};

/// Time-outs, retries and limits of an adapter's HTTP calls.
///
/// ```
/// use std::time::Duration;
/// use agentflow::HttpSettings;
///
/// let mut http = HttpSettings::default();
/// http.max_retries = 0;
/// http.idle_timeout = Duration::from_secs(30);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpSettings {
    /// The longest for opening a connection. Default 10 s.
    pub connect_timeout: Duration,
    /// The longest from sending a request to the first byte of its answer's body, thinking included. Default 10 min, as
    /// in OpenAI's own client.
    pub first_byte_timeout: Duration,
    /// The longest between two pieces of an answer's body. Default 5 min: OpenAI's own client waits 10 min because it
    /// has one figure for this and the first byte, and a model may think between two pieces that it shows.
    pub idle_timeout: Duration,
    /// The longest for a call as a whole, retries and waits included. Default 1 h.
    pub total_timeout: Duration,
    /// How often a call is made again. Default 2.
    ///
    /// Only a call that was refused or of whose answer nothing arrived is made again, and only when that can help: never
    /// after the statuses 400, 401, 403, 404 and 422. An answer that broke off is an error at once.
    ///
    /// A durable run retries failed calls by itself, with events; the adapter then makes no retries. See
    /// [`retry`](crate::middleware::retry).
    pub max_retries: u32,
    /// The wait before the first retry, doubled for each further one and shortened by chance by up to a quarter.
    /// Default 0.5 s. A provider's own `Retry-After` takes its place.
    pub retry_base: Duration,
    /// The longest such wait. Default 8 s.
    pub retry_cap: Duration,
    /// The longest `Retry-After` that is waited for; a longer one ends the call with an error that carries it.
    /// Default 2 min.
    pub retry_after_cap: Duration,
    /// The most bytes of one answer's body as it comes over the wire, streamed or not. Default 64 MiB: more than the
    /// longest answers take, whose every token is an event of some 300 bytes. A longer one ends with
    /// [`ModelErrorKind::AnswerTooLarge`](crate::ModelErrorKind), and what came of it is dropped.
    ///
    /// What is not to be set: one event of a stream has at most 16 MiB, an answer at most 4,096 parts.
    pub max_answer_bytes: u64,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            first_byte_timeout: Duration::from_secs(600),
            idle_timeout: Duration::from_secs(300),
            total_timeout: Duration::from_secs(3600),
            max_retries: 2,
            retry_base: Duration::from_millis(500),
            retry_cap: Duration::from_secs(8),
            retry_after_cap: Duration::from_secs(120),
            max_answer_bytes: 64 * 1024 * 1024,
        }
    }
}

/// How one provider's calls are written and its refusals read.
pub(crate) trait WireFormat: Send + Sync + 'static {
    /// Reads this provider's answers.
    type Decoder: Decode;

    /// Time-outs and retries.
    fn settings(&self) -> &HttpSettings;

    /// Writes a call; keys are asked for here. The request is dropped before anything is sent.
    fn prepare(
        &self,
        request: ModelRequest,
    ) -> impl Future<Output = Result<(Outgoing, Self::Decoder), ModelError>> + Send;

    /// What an answer means whose status is not 2xx. Build the error with [`Refusal::error`].
    fn refused(&self, refusal: &Refusal<'_>) -> ModelError;
}

/// Reads one answer. It is cloned before each attempt.
pub(crate) trait Decode: Clone + Send + Sync + 'static {
    /// Takes one server-sent event. What it does not know it skips.
    fn event(&mut self, event: SseEvent<'_>, deltas: &mut Deltas) -> Result<Flow, ModelError>;

    /// Takes an answer that is one JSON document.
    fn document(&mut self, body: &[u8], deltas: &mut Deltas) -> Result<(), ModelError>;

    /// The whole answer; `None` when the provider's own sign of its end has not been seen.
    fn complete(&mut self) -> Option<ModelResponse>;
}

/// Whether more events follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// More may follow.
    More,
    /// The provider has said that this was the last one.
    End,
}

/// A request as it goes over the wire, as often as it takes.
pub(crate) struct Outgoing {
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// Whether a stream was asked for; decides how an answer is read that does not say what it is.
    pub(crate) stream: bool,
    /// What must not be seen in an error, should the server send it back.
    pub(crate) hidden: Vec<Secret>,
}

/// The pieces that a decoder hands on.
#[derive(Debug, Default)]
pub(crate) struct Deltas {
    wanted: bool,
    queue: VecDeque<ModelEvent>,
}

impl Deltas {
    /// A queue that keeps pieces only when somebody wants them.
    pub(crate) fn new(wanted: bool) -> Self {
        Self { wanted, queue: VecDeque::new() }
    }

    /// Hands on a piece; it is not even made when nobody wants it.
    pub(crate) fn push(&mut self, piece: impl FnOnce() -> ModelEvent) {
        if self.wanted {
            self.queue.push_back(piece());
        }
    }

    /// Everything that is there.
    fn take(&mut self) -> VecDeque<ModelEvent> {
        std::mem::take(&mut self.queue)
    }

    fn complete(&mut self, response: ModelResponse) {
        self.queue.push_back(ModelEvent::Completed(Box::new(response)));
    }

    fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    #[cfg(test)]
    pub(crate) fn drain(&mut self) -> Vec<ModelEvent> {
        self.queue.drain(..).collect()
    }
}

//! The HTTP client of all adapters: time-outs, retries and server-sent events.
//!
//! Data flow: a [`WireFormat`] encodes a call, `exchange.rs` sends it and reads the body, and the
//! provider's [`Decode`] implementation converts events to [`Deltas`] and finally to a
//! `ModelResponse`. `adapter.rs` contains the model and its builder, `server.rs` the URL, key and
//! headers, `http_error.rs` the errors, and `think_tags.rs` extracts thinking from text. This
//! module does not depend on providers, and its errors contain no keys.

mod adapter;
mod exchange;
mod http_error;
mod server;
mod think_tags;

use std::collections::VecDeque;

use agentflow_core::model::{ModelError, ModelEvent, ModelResponse, Secret};
pub(crate) use agentflow_http::sse::{SseEvent, SseFlow};
use bytes::Bytes;
use reqwest::Url;
use reqwest::header::HeaderMap;

#[cfg(test)]
pub(crate) use self::adapter::decode;
pub(crate) use self::adapter::{FromParts, HttpAdapter, WireFormat, http_model, open};
pub use self::adapter::{HttpModel, HttpModelBuilder};
use self::exchange::exchange;
#[cfg(test)]
use self::exchange::read_events;
pub(crate) use self::http_error::Refusal;
pub(crate) use self::server::{Server, check};
use self::think_tags::{ThinkTags, separated};

/// Decodes one response. Each attempt uses a clone.
pub(crate) trait Decode: Clone + Send + Sync + 'static {
    /// Processes one server-sent event. Unknown events are skipped.
    fn event(&mut self, event: SseEvent<'_>, deltas: &mut Deltas) -> Result<SseFlow, ModelError>;

    /// Processes a response that is one JSON document.
    fn document(&mut self, body: &[u8], deltas: &mut Deltas) -> Result<(), ModelError>;

    /// Returns the complete response, or `None` if the provider has not marked its end.
    fn complete(&mut self) -> Option<ModelResponse>;
}

/// An encoded request, which may be sent several times.
pub(crate) struct EncodedRequest {
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// `true` if the request asks for a stream. Determines how a response without a content type is
    /// parsed.
    pub(crate) stream: bool,
    /// Secrets that are removed from error messages, in case the server echoes them.
    pub(crate) hidden: Vec<Secret>,
}

/// The pieces that a decoder has read but the stream has not yielded yet.
#[derive(Debug, Default)]
pub(crate) struct Deltas {
    wanted: bool,
    queue: VecDeque<ModelEvent>,
    /// `Some` if text may contain thinking in tags.
    tags: Option<ThinkTags>,
}

impl Deltas {
    /// Creates a queue. Pieces are kept only if `wanted` is set.
    pub(crate) fn new(wanted: bool) -> Self {
        Self { wanted, queue: VecDeque::new(), tags: None }
    }

    /// If `finds` is set, thinking in tags at the start of the text becomes reasoning.
    fn finding_thinking(mut self, finds: bool) -> Self {
        self.tags = finds.then(ThinkTags::default);
        self
    }

    /// Adds a piece. The closure is not called if pieces are not wanted.
    pub(crate) fn push(&mut self, piece: impl FnOnce() -> ModelEvent) {
        if !self.wanted {
            return;
        }
        let queue = &mut self.queue;
        match (piece(), &mut self.tags) {
            (ModelEvent::Text(text), Some(tags)) => tags.take(text, |piece| queue.push_back(piece)),
            // Held text precedes the tool call.
            (piece @ ModelEvent::ToolCall(_), Some(tags)) => {
                tags.finish(|held| queue.push_back(held));
                queue.push_back(piece);
            }
            (piece, _) => queue.push_back(piece),
        }
    }

    /// Returns and removes all pieces.
    fn take(&mut self) -> VecDeque<ModelEvent> {
        std::mem::take(&mut self.queue)
    }

    fn complete(&mut self, mut response: ModelResponse) {
        if let Some(tags) = &mut self.tags {
            if self.wanted {
                tags.finish(|held| self.queue.push_back(held));
            }
            response = separated(response);
        }
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

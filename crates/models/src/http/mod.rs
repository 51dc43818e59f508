//! What the adapters share: one HTTP client, time-outs, retries, server-sent events.
//!
//! A [`WireFormat`] writes a call and its [`Decode`] reads the answer; everything between happens here. This module
//! knows no provider, and no key leaves it in an error.

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

/// Reads one answer. It is cloned before each attempt.
pub(crate) trait Decode: Clone + Send + Sync + 'static {
    /// Takes one server-sent event. It skips events that it does not know.
    fn event(&mut self, event: SseEvent<'_>, deltas: &mut Deltas) -> Result<SseFlow, ModelError>;

    /// Takes an answer that is one JSON document.
    fn document(&mut self, body: &[u8], deltas: &mut Deltas) -> Result<(), ModelError>;

    /// The whole answer; `None` when the provider's own sign of its end has not been seen.
    fn complete(&mut self) -> Option<ModelResponse>;
}

/// A request as it goes over the wire, as often as it takes.
pub(crate) struct Outgoing {
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// Whether a stream was asked for; decides how an answer without a content type is read.
    pub(crate) stream: bool,
    /// Texts that must not be seen in an error, should the server send them back.
    pub(crate) hidden: Vec<Secret>,
}

/// The pieces that a decoder has read and the stream has not yielded yet.
#[derive(Debug, Default)]
pub(crate) struct Deltas {
    wanted: bool,
    queue: VecDeque<ModelEvent>,
    /// `Some` if text may contain thinking in tags.
    tags: Option<ThinkTags>,
}

impl Deltas {
    /// A queue that keeps pieces only when they are wanted.
    pub(crate) fn new(wanted: bool) -> Self {
        Self { wanted, queue: VecDeque::new(), tags: None }
    }

    /// If `finds`, turns thinking in tags at the start of the text into reasoning.
    fn finding_thinking(mut self, finds: bool) -> Self {
        self.tags = finds.then(ThinkTags::default);
        self
    }

    /// Adds a piece; it is not even made when pieces are not wanted.
    pub(crate) fn push(&mut self, piece: impl FnOnce() -> ModelEvent) {
        if !self.wanted {
            return;
        }
        let queue = &mut self.queue;
        match (piece(), &mut self.tags) {
            (ModelEvent::Text(text), Some(tags)) => tags.take(text, |piece| queue.push_back(piece)),
            (piece @ ModelEvent::ToolCall(_), Some(tags)) => {
                tags.finish(|held| queue.push_back(held));
                queue.push_back(piece);
            }
            (piece, _) => queue.push_back(piece),
        }
    }

    /// Everything that is there.
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

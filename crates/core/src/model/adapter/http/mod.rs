//! What the adapters share: one HTTP client, time-outs, retries, server-sent events.
//!
//! A [`WireFormat`] writes a call and its [`Decode`] reads the answer; everything between happens here. This module
//! knows no provider, and no key leaves it in an error.

mod adapter;
mod client;
mod exchange;
#[cfg(any(feature = "a2a-client", feature = "mcp-http"))]
mod http_address;
mod http_error;
mod http_retry;
#[cfg(any(feature = "a2a-client", feature = "mcp-http", feature = "tool-http"))]
mod secret_header;
mod server;
mod settings;
mod sse;
mod think_tags;
#[cfg(feature = "tool-http")]
mod trusted_roots;

use std::collections::VecDeque;

use bytes::Bytes;
use reqwest::Url;
use reqwest::header::HeaderMap;

pub(crate) use self::adapter::{FromParts, HttpAdapter, WireFormat, decode, http_model, open};
pub use self::adapter::{HttpModel, HttpModelBuilder};
#[cfg(any(feature = "a2a-client", feature = "mcp-http"))]
pub(crate) use self::client::client as http_client;
#[cfg(feature = "tool-http")]
pub(crate) use self::client::pinned_client;
use self::exchange::{exchange, read_events};
#[cfg(any(feature = "a2a-client", feature = "mcp-http"))]
pub(crate) use self::http_address::HttpAddress;
#[cfg(feature = "tool-http")]
pub(crate) use self::http_error::reason;
pub(crate) use self::http_error::{Refusal, kind_of_status};
#[cfg(feature = "tool-api")]
pub(crate) use self::http_retry::{retry_after, wait as wait_before_retry};
#[cfg(feature = "tool-http")]
pub(crate) use self::secret_header::secret_header;
pub(crate) use self::server::{Server, ServerBuilder};
pub use self::settings::HttpSettings;
pub(crate) use self::sse::SseEvent;
#[cfg(feature = "a2a-client")]
pub(crate) use self::sse::SseReader;
use self::think_tags::{ThinkTags, separated};
#[cfg(feature = "tool-http")]
pub(crate) use self::trusted_roots::TrustedRoots;
use crate::model::{ModelError, ModelEvent, ModelResponse, Secret};

/// Reads one answer. It is cloned before each attempt.
pub(crate) trait Decode: Clone + Send + Sync + 'static {
    /// Takes one server-sent event. It skips events that it does not know.
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
    /// The answer has its stop reason: the rest follows at once or never.
    Finishing,
    /// This was the last one, by the provider's own sign.
    End,
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

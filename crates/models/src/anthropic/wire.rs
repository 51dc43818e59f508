//! Types of responses that borrow from the received bytes.
//!
//! Parsing is lenient: unknown fields are skipped, known fields may be absent or `null`, and a
//! number or an object in place of a string is converted to its JSON. Blocks are kept as raw JSON.
//! Other modules interpret the values.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::loose::{Loose, index, list};

/// The fields of a block as raw JSON.
pub(super) type Fields = BTreeMap<String, Box<RawValue>>;

/// An event of a stream, with the fields of all event types. Large fields that occur only once
/// stay raw JSON, because every event has the size of all fields together.
#[derive(Debug, Deserialize)]
pub(super) struct Event<'a> {
    #[serde(rename = "type", borrow, default)]
    pub(super) kind: Loose<'a>,
    #[serde(default, deserialize_with = "index")]
    pub(super) index: Option<u64>,
    #[serde(borrow, default)]
    pub(super) delta: Option<Delta<'a>>,
    #[serde(borrow, default)]
    pub(super) content_block: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
}

/// The content that an event adds to a block, or to the message at its end.
#[derive(Debug, Deserialize)]
pub(super) struct Delta<'a> {
    #[serde(rename = "type", borrow, default)]
    pub(super) kind: Loose<'a>,
    #[serde(borrow, default)]
    pub(super) text: Loose<'a>,
    #[serde(borrow, default)]
    pub(super) thinking: Loose<'a>,
    #[serde(borrow, default)]
    pub(super) signature: Loose<'a>,
    #[serde(borrow, default)]
    pub(super) partial_json: Loose<'a>,
    #[serde(borrow, default)]
    pub(super) citation: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) stop_reason: Loose<'a>,
}

/// An event with a delta of unknown type.
#[derive(Debug, Deserialize)]
pub(super) struct OtherDelta {
    #[serde(default, deserialize_with = "index")]
    pub(super) index: Option<u64>,
    pub(super) delta: Fields,
}

impl OtherDelta {
    /// Returns true if the type of the delta is unknown.
    pub(super) fn is_new(&self) -> bool {
        const KNOWN: [&str; 5] = [
            "text_delta",
            "thinking_delta",
            "signature_delta",
            "input_json_delta",
            "citations_delta",
        ];
        let kind =
            self.delta.get("type").and_then(|raw| serde_json::from_str::<String>(raw.get()).ok());
        kind.is_some_and(|kind| !KNOWN.contains(&&*kind))
    }
}

/// An event for which only the type could be parsed.
#[derive(Debug, Deserialize)]
pub(super) struct OtherEvent<'a> {
    #[serde(rename = "type", borrow, default)]
    pub(super) kind: Loose<'a>,
}

/// The blocks of a response.
#[derive(Debug, Deserialize)]
pub(super) struct Blocks<'a>(
    #[serde(borrow, deserialize_with = "list")] pub(super) Option<Vec<&'a RawValue>>,
);

/// A complete response, or the head of a response at the start of a stream.
#[derive(Debug, Deserialize)]
pub(super) struct WireMessage<'a> {
    #[serde(rename = "type", borrow, default)]
    pub(super) kind: Loose<'a>,
    #[serde(borrow, default)]
    pub(super) id: Loose<'a>,
    #[serde(borrow, default)]
    pub(super) model: Loose<'a>,
    /// A list of blocks, or a string.
    #[serde(borrow, default)]
    pub(super) content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) stop_reason: Loose<'a>,
    #[serde(borrow, default)]
    pub(super) usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
}

//! The shapes of answers, read straight out of the received bytes.
//!
//! Lenient: unknown fields are skipped, known ones may be absent or `null`, and where a text is expected a number or an
//! object counts as its JSON. Blocks are kept as the raw text that they arrived as. Their meaning is decided elsewhere.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::loose::{Loose, index, list};

/// The fields of a block, each as its unchanged text.
pub(super) type Fields = BTreeMap<String, Box<RawValue>>;

/// One event of a stream. The kinds differ in which fields they have; a large one that comes once is left as it came,
/// since every event is as large as all fields together.
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

/// The part that an event adds to a block, or at the end to the message.
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

/// An event whose delta is of a kind that has no meaning here.
#[derive(Debug, Deserialize)]
pub(super) struct OtherDelta {
    #[serde(default, deserialize_with = "index")]
    pub(super) index: Option<u64>,
    pub(super) delta: Fields,
}

impl OtherDelta {
    /// Whether the delta is of none of the kinds that have a meaning here.
    pub(super) fn is_new(&self) -> bool {
        const KNOWN: [&str; 5] =
            ["text_delta", "thinking_delta", "signature_delta", "input_json_delta", "citations_delta"];
        let kind = self.delta.get("type").and_then(|raw| serde_json::from_str::<String>(raw.get()).ok());
        kind.is_some_and(|kind| !KNOWN.contains(&&*kind))
    }
}

/// An event of which only the kind can be read.
#[derive(Debug, Deserialize)]
pub(super) struct OtherEvent<'a> {
    #[serde(rename = "type", borrow, default)]
    pub(super) kind: Loose<'a>,
}

/// The blocks of an answer.
#[derive(Debug, Deserialize)]
pub(super) struct Blocks<'a>(#[serde(borrow, deserialize_with = "list")] pub(super) Option<Vec<&'a RawValue>>);

/// A whole answer, or the head of one at the beginning of a stream.
#[derive(Debug, Deserialize)]
pub(super) struct WireMessage<'a> {
    #[serde(rename = "type", borrow, default)]
    pub(super) kind: Loose<'a>,
    #[serde(borrow, default)]
    pub(super) id: Loose<'a>,
    #[serde(borrow, default)]
    pub(super) model: Loose<'a>,
    /// A list of blocks, or a text.
    #[serde(borrow, default)]
    pub(super) content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) stop_reason: Loose<'a>,
    #[serde(borrow, default)]
    pub(super) usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
}

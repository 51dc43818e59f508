//! The shapes of answers, read straight out of the received bytes.
//!
//! Lenient on purpose: unknown fields are skipped, known ones may be absent or `null`. Items are kept as they lie in
//! the input until their turn comes.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::model::adapter::loose::{Loose, count};

/// One event of a stream; what it holds depends on its type.
#[derive(Debug, Deserialize)]
pub(super) struct Event<'a> {
    #[serde(rename = "type", borrow, default)]
    pub(super) kind: Loose<'a>,
    #[serde(default)]
    pub(super) output_index: Option<u64>,
    #[serde(borrow, default)]
    pub(super) item_id: Loose<'a>,
    #[serde(borrow, default)]
    pub(super) delta: Loose<'a>,
    #[serde(borrow, default)]
    pub(super) arguments: Loose<'a>,
    #[serde(borrow, default)]
    pub(super) input: Loose<'a>,
    #[serde(borrow, default)]
    pub(super) item: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) response: Option<&'a RawValue>,
    /// Where some servers put what went wrong, in an event without a type too.
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
}

/// The answer as a whole: a document, or the end of a stream.
#[derive(Debug, Deserialize)]
pub(super) struct Response<'a> {
    #[serde(borrow, default)]
    pub(super) id: Loose<'a>,
    #[serde(borrow, default)]
    pub(super) model: Loose<'a>,
    #[serde(borrow, default)]
    pub(super) status: Loose<'a>,
    #[serde(borrow, default)]
    pub(super) output: Option<Vec<&'a RawValue>>,
    #[serde(borrow, default)]
    pub(super) usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) incomplete_details: Option<Incomplete<'a>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Incomplete<'a> {
    #[serde(borrow, default)]
    pub(super) reason: Loose<'a>,
}

/// One item of the output, of any type.
#[derive(Debug, Deserialize)]
pub(super) struct Item<'a> {
    #[serde(rename = "type", borrow, default)]
    pub(super) kind: Loose<'a>,
    #[serde(borrow, default)]
    pub(super) id: Loose<'a>,
    #[serde(borrow, default)]
    pub(super) call_id: Loose<'a>,
    #[serde(borrow, default)]
    pub(super) name: Loose<'a>,
    #[serde(borrow, default)]
    pub(super) arguments: Loose<'a>,
    #[serde(borrow, default)]
    pub(super) input: Loose<'a>,
    #[serde(borrow, default)]
    pub(super) phase: Loose<'a>,
    /// A list of [`Piece`]s in what is read here; in items of other types it may be anything.
    #[serde(borrow, default)]
    pub(super) content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) summary: Option<&'a RawValue>,
}

/// A part of a message's content or of a reasoning's summary.
#[derive(Debug, Deserialize)]
pub(super) struct Piece<'a> {
    #[serde(rename = "type", borrow, default)]
    pub(super) kind: Loose<'a>,
    #[serde(borrow, default)]
    pub(super) text: Loose<'a>,
    #[serde(borrow, default)]
    pub(super) refusal: Loose<'a>,
}

#[derive(Debug, Deserialize)]
pub(super) struct WireUsage {
    #[serde(default, deserialize_with = "count")]
    pub(super) input_tokens: Option<u64>,
    #[serde(default, deserialize_with = "count")]
    pub(super) output_tokens: Option<u64>,
    #[serde(default)]
    pub(super) input_tokens_details: Option<InputDetails>,
    #[serde(default)]
    pub(super) output_tokens_details: Option<OutputDetails>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct InputDetails {
    #[serde(default, deserialize_with = "count")]
    pub(super) cached_tokens: Option<u64>,
    #[serde(default, deserialize_with = "count")]
    pub(super) cache_write_tokens: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct OutputDetails {
    #[serde(default, deserialize_with = "count")]
    pub(super) reasoning_tokens: Option<u64>,
}

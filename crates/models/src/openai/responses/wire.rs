//! Types of responses that borrow from the received bytes.
//!
//! Parsing is lenient: unknown fields are skipped, and known fields may be absent or `null`. Items
//! are kept as raw JSON until they are processed.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor, value};
use serde_json::value::RawValue;

use crate::loose::{Loose, LooseVisitor, count, index, list, or_none};

/// An event of a stream. Its type determines the fields.
#[derive(Debug, Deserialize)]
pub(super) struct Event<'a> {
    #[serde(rename = "type", borrow, default)]
    pub(super) kind: Loose<'a>,
    #[serde(default, deserialize_with = "index")]
    pub(super) output_index: Option<u64>,
    #[serde(borrow, default)]
    pub(super) item_id: Loose<'a>,
    #[serde(borrow, default)]
    pub(super) delta: DeltaText<'a>,
    #[serde(borrow, default)]
    pub(super) text: Loose<'a>,
    #[serde(borrow, default)]
    pub(super) arguments: Loose<'a>,
    #[serde(borrow, default)]
    pub(super) input: Loose<'a>,
    #[serde(borrow, default)]
    pub(super) item: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) response: Option<&'a RawValue>,
    /// The error, for some servers also in an event without a type.
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
}

/// The complete response: a document, or the end of a stream.
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
    /// The combined text of all items. Some servers send it without any item.
    #[serde(borrow, default)]
    pub(super) output_text: Loose<'a>,
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

/// An item of the output, of any type.
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
    /// A list of [`Piece`]s for known item types. Items of other types may contain any value.
    #[serde(borrow, default)]
    pub(super) content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) summary: Option<&'a RawValue>,
}

/// A part of the content of a message, or of the summary of reasoning.
#[derive(Debug, Deserialize)]
pub(super) struct Piece<'a> {
    #[serde(rename = "type", borrow, default)]
    pub(super) kind: Loose<'a>,
    #[serde(borrow, default)]
    pub(super) text: Loose<'a>,
    #[serde(borrow, default)]
    pub(super) refusal: Loose<'a>,
    /// The text of an audio part.
    #[serde(borrow, default)]
    pub(super) transcript: Loose<'a>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Pieces<'a>(
    #[serde(borrow, deserialize_with = "list")] pub(super) Option<Vec<Piece<'a>>>,
);

/// A piece of text. Some servers send it as a part.
#[derive(Debug, Default)]
pub(super) struct DeltaText<'a>(Loose<'a>);

impl std::ops::Deref for DeltaText<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for DeltaText<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(DeltaVisitor)
    }
}

struct DeltaVisitor;

impl<'de> Visitor<'de> for DeltaVisitor {
    type Value = DeltaText<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or a part")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        LooseVisitor.visit_borrowed_str(text).map(DeltaText)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        LooseVisitor.visit_str(text).map(DeltaText)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Self::Value, E> {
        LooseVisitor.visit_bool(value).map(DeltaText)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
        LooseVisitor.visit_u64(value).map(DeltaText)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
        LooseVisitor.visit_i64(value).map(DeltaText)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Self::Value, E> {
        LooseVisitor.visit_f64(value).map(DeltaText)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
        LooseVisitor.visit_seq(seq).map(DeltaText)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(DeltaText::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        let part = Piece::deserialize(value::MapAccessDeserializer::new(map))?;
        Ok(DeltaText(part.text))
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct WireUsage {
    #[serde(default, deserialize_with = "count")]
    pub(super) input_tokens: Option<u64>,
    #[serde(default, deserialize_with = "count")]
    pub(super) output_tokens: Option<u64>,
    /// Names of the Chat format, which some servers use here.
    #[serde(default, deserialize_with = "count")]
    pub(super) prompt_tokens: Option<u64>,
    #[serde(default, deserialize_with = "count")]
    pub(super) completion_tokens: Option<u64>,
    #[serde(default, deserialize_with = "or_none")]
    pub(super) input_tokens_details: Option<InputDetails>,
    #[serde(default, deserialize_with = "or_none")]
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

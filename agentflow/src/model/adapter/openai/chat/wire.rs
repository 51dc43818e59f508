//! The shapes of answers, read straight out of the received bytes.
//!
//! Lenient on purpose: unknown fields are skipped, known ones may be absent or `null`, and where a text is expected a
//! number or an object is taken as its JSON. Text that cannot be read at all is an error of the decoder.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::model::adapter::loose::{Loose, LooseVisitor, count, items, list};

/// A chunk of a stream, or a whole answer: they differ in `delta` and `message` only.
#[derive(Debug, Deserialize)]
pub(super) struct Chunk<'a> {
    #[serde(borrow, default)]
    pub(super) id: Loose<'a>,
    #[serde(borrow, default)]
    pub(super) model: Loose<'a>,
    #[serde(borrow, default, deserialize_with = "list")]
    pub(super) choices: Option<Vec<Choice<'a>>>,
    #[serde(borrow, default)]
    pub(super) usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
    /// `error` in vLLM's answers, which have the error's fields beside it.
    #[serde(borrow, default)]
    pub(super) object: Loose<'a>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Choice<'a> {
    #[serde(default)]
    pub(super) index: Option<u64>,
    #[serde(borrow, default)]
    pub(super) delta: Option<Delta<'a>>,
    #[serde(borrow, default)]
    pub(super) message: Option<Delta<'a>>,
    #[serde(borrow, default)]
    pub(super) finish_reason: Loose<'a>,
    /// Where Moonshot puts it.
    #[serde(borrow, default)]
    pub(super) usage: Option<&'a RawValue>,
    /// Where OpenRouter puts the upstream provider's error.
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Delta<'a> {
    #[serde(borrow, default)]
    pub(super) content: Content<'a>,
    #[serde(borrow, default)]
    pub(super) refusal: Loose<'a>,
    #[serde(borrow, default)]
    pub(super) reasoning_content: Loose<'a>,
    #[serde(borrow, default)]
    pub(super) reasoning: Loose<'a>,
    #[serde(default, deserialize_with = "list")]
    pub(super) reasoning_details: Option<Vec<Value>>,
    #[serde(borrow, default, deserialize_with = "list")]
    pub(super) tool_calls: Option<Vec<Call<'a>>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Call<'a> {
    #[serde(default)]
    pub(super) index: Option<u64>,
    #[serde(borrow, default)]
    pub(super) id: Loose<'a>,
    #[serde(borrow, default)]
    pub(super) function: Option<Function<'a>>,
    #[serde(default)]
    pub(super) extra_content: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Function<'a> {
    #[serde(borrow, default)]
    pub(super) name: Loose<'a>,
    #[serde(borrow, default)]
    pub(super) arguments: Loose<'a>,
}

/// A part of a `content` that is a list.
#[derive(Debug, Deserialize)]
pub(super) struct ContentPart<'a> {
    #[serde(rename = "type", borrow, default)]
    pub(super) kind: Loose<'a>,
    #[serde(borrow, default)]
    pub(super) text: Loose<'a>,
    #[serde(borrow, default)]
    pub(super) refusal: Loose<'a>,
    #[serde(borrow, default)]
    pub(super) thinking: Content<'a>,
}

#[derive(Debug, Deserialize)]
pub(super) struct WireUsage {
    #[serde(default, deserialize_with = "count")]
    pub(super) prompt_tokens: Option<u64>,
    #[serde(default, deserialize_with = "count")]
    pub(super) completion_tokens: Option<u64>,
    #[serde(default)]
    pub(super) prompt_tokens_details: Option<InputDetails>,
    #[serde(default)]
    pub(super) completion_tokens_details: Option<OutputDetails>,
    /// DeepSeek's name for cached tokens.
    #[serde(default, deserialize_with = "count")]
    pub(super) prompt_cache_hit_tokens: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct InputDetails {
    #[serde(default, deserialize_with = "count")]
    pub(super) cached_tokens: Option<u64>,
    /// OpenRouter's.
    #[serde(default, deserialize_with = "count")]
    pub(super) cache_write_tokens: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct OutputDetails {
    #[serde(default, deserialize_with = "count")]
    pub(super) reasoning_tokens: Option<u64>,
}

/// A `content`: a text or a list of parts.
#[derive(Debug)]
pub(super) enum Content<'a> {
    Text(Loose<'a>),
    Parts(Vec<ContentPart<'a>>),
}

impl Default for Content<'_> {
    fn default() -> Self {
        Self::Text(Loose::default())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Content<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor)
    }
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Content<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or a list of parts")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        LooseVisitor.visit_borrowed_str(text).map(Content::Text)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        LooseVisitor.visit_str(text).map(Content::Text)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Content::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
        items(seq).map(Content::Parts)
    }
}

//! Types of responses that borrow from the received bytes.
//!
//! Parsing is lenient: unknown fields are skipped, known fields may be absent or `null`, and a
//! number or an object in place of a string is converted to its JSON. Text that cannot be parsed at
//! all is an error of the decoder.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor, value};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::loose::{Loose, LooseVisitor, count, index, items, list, or_none};

/// A chunk of a stream, or a complete response. They differ only in `delta` and `message`.
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
    /// `error` in vLLM's errors, which have the fields of the error at the top level.
    #[serde(borrow, default)]
    pub(super) object: Loose<'a>,
    /// Fields specific to Groq.
    #[serde(borrow, default)]
    pub(super) x_groq: Option<&'a RawValue>,
}

/// Server-specific fields.
#[derive(Debug, Deserialize)]
pub(super) struct ServerFields<'a> {
    #[serde(borrow, default)]
    pub(super) usage: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Choice<'a> {
    #[serde(default, deserialize_with = "index")]
    pub(super) index: Option<u64>,
    #[serde(borrow, default)]
    pub(super) delta: Option<Delta<'a>>,
    #[serde(borrow, default)]
    pub(super) message: Option<Delta<'a>>,
    #[serde(borrow, default)]
    pub(super) finish_reason: Loose<'a>,
    /// The usage, for Moonshot.
    #[serde(borrow, default)]
    pub(super) usage: Option<&'a RawValue>,
    /// The error of the upstream provider, for OpenRouter.
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
    /// GitHub Copilot's name for reasoning.
    #[serde(borrow, default)]
    pub(super) reasoning_text: Loose<'a>,
    #[serde(default, deserialize_with = "list")]
    pub(super) reasoning_details: Option<Vec<Value>>,
    #[serde(borrow, default, deserialize_with = "list")]
    pub(super) tool_calls: Option<Vec<Call<'a>>>,
    /// A [`Function`]. This legacy field can contain only one call.
    #[serde(borrow, default)]
    pub(super) function_call: Option<&'a RawValue>,
    /// An [`Audio`].
    #[serde(borrow, default)]
    pub(super) audio: Option<&'a RawValue>,
    /// A list of [`Image`]s, sent by OpenRouter and LiteLLM.
    #[serde(borrow, default)]
    pub(super) images: Option<&'a RawValue>,
}

/// A response as audio, or a piece of it.
#[derive(Debug, Deserialize)]
pub(super) struct Audio<'a> {
    #[serde(borrow, default)]
    pub(super) transcript: Loose<'a>,
}

/// An image that the model generated.
#[derive(Debug, Deserialize)]
pub(super) struct Image<'a> {
    #[serde(borrow)]
    pub(super) image_url: ImageUrl<'a>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ImageUrl<'a> {
    #[serde(borrow)]
    pub(super) url: Loose<'a>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Call<'a> {
    #[serde(default, deserialize_with = "index")]
    pub(super) index: Option<u64>,
    #[serde(borrow, default)]
    pub(super) id: Loose<'a>,
    #[serde(borrow, default)]
    pub(super) function: Option<Function<'a>>,
    /// Replaces `function` for a custom tool, which accepts free text.
    #[serde(borrow, default)]
    pub(super) custom: Option<Function<'a>>,
    #[serde(default)]
    pub(super) extra_content: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Function<'a> {
    #[serde(borrow, default)]
    pub(super) name: Loose<'a>,
    #[serde(borrow, default)]
    pub(super) arguments: Loose<'a>,
    /// The arguments of a custom tool.
    #[serde(borrow, default)]
    pub(super) input: Loose<'a>,
}

/// A part of a `content` that is a list.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ContentPart<'a> {
    #[serde(rename = "type", borrow, default)]
    pub(super) kind: Loose<'a>,
    #[serde(borrow, default)]
    pub(super) text: Loose<'a>,
    #[serde(borrow, default)]
    pub(super) refusal: Loose<'a>,
    #[serde(borrow, default)]
    pub(super) thinking: Content<'a>,
    /// The thinking in Databricks' parts of the type `reasoning`.
    #[serde(borrow, default)]
    pub(super) summary: Content<'a>,
}

#[derive(Debug, Deserialize)]
pub(super) struct WireUsage {
    #[serde(default, deserialize_with = "count")]
    pub(super) prompt_tokens: Option<u64>,
    #[serde(default, deserialize_with = "count")]
    pub(super) completion_tokens: Option<u64>,
    #[serde(default, deserialize_with = "count")]
    pub(super) total_tokens: Option<u64>,
    /// Names of the Responses API, which some servers use here.
    #[serde(default, deserialize_with = "count")]
    pub(super) input_tokens: Option<u64>,
    #[serde(default, deserialize_with = "count")]
    pub(super) output_tokens: Option<u64>,
    #[serde(default, deserialize_with = "or_none")]
    pub(super) prompt_tokens_details: Option<InputDetails>,
    #[serde(default, deserialize_with = "or_none")]
    pub(super) completion_tokens_details: Option<OutputDetails>,
    /// DeepSeek's name for cached tokens.
    #[serde(default, deserialize_with = "count")]
    pub(super) prompt_cache_hit_tokens: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct InputDetails {
    #[serde(default, deserialize_with = "count")]
    pub(super) cached_tokens: Option<u64>,
    /// Sent by OpenRouter.
    #[serde(default, deserialize_with = "count")]
    pub(super) cache_write_tokens: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct OutputDetails {
    #[serde(default, deserialize_with = "count")]
    pub(super) reasoning_tokens: Option<u64>,
}

/// A `content`: a string or a list of parts. A single part counts as a list. Any other value is
/// converted to its JSON.
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

    fn visit_bool<E: Error>(self, value: bool) -> Result<Self::Value, E> {
        LooseVisitor.visit_bool(value).map(Content::Text)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
        LooseVisitor.visit_u64(value).map(Content::Text)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
        LooseVisitor.visit_i64(value).map(Content::Text)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Self::Value, E> {
        LooseVisitor.visit_f64(value).map(Content::Text)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Content::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        let part = ContentPart::deserialize(value::MapAccessDeserializer::new(map))?;
        Ok(Content::Parts(vec![part]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
        let parts: Vec<Item<'de>> = items(seq)?;
        Ok(Content::Parts(parts.into_iter().map(|item| item.0).collect()))
    }
}

/// An item of a list of parts: a part, or only its text.
struct Item<'a>(ContentPart<'a>);

impl<'de: 'a, 'a> Deserialize<'de> for Item<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ItemVisitor)
    }
}

struct ItemVisitor;

impl<'de> Visitor<'de> for ItemVisitor {
    type Value = Item<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a part or a text")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        let text = LooseVisitor.visit_borrowed_str(text)?;
        Ok(Item(ContentPart { text, ..ContentPart::default() }))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        let text = LooseVisitor.visit_str(text)?;
        Ok(Item(ContentPart { text, ..ContentPart::default() }))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Item(ContentPart::default()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        ContentPart::deserialize(value::MapAccessDeserializer::new(map)).map(Item)
    }
}

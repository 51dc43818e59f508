//! The shapes of answers, read straight out of the received bytes.
//!
//! Lenient: unknown fields are skipped, known ones may be absent or `null`. Blocks are kept as the raw text that they
//! arrived as; what they mean is decided elsewhere.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};
use serde_json::value::RawValue;

/// The fields of a block, each as its unchanged text.
pub(super) type Fields = BTreeMap<String, Box<RawValue>>;

/// One event of a stream. The kinds differ in which fields they have; a large one that comes once is left as it came,
/// since every event is as large as all fields together.
#[derive(Debug, Deserialize)]
pub(super) struct Event<'a> {
    #[serde(rename = "type", borrow, default)]
    pub(super) kind: Text<'a>,
    #[serde(default)]
    pub(super) index: u64,
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
    pub(super) kind: Text<'a>,
    #[serde(borrow, default)]
    pub(super) text: Text<'a>,
    #[serde(borrow, default)]
    pub(super) thinking: Text<'a>,
    #[serde(borrow, default)]
    pub(super) signature: Text<'a>,
    #[serde(borrow, default)]
    pub(super) partial_json: Text<'a>,
    #[serde(borrow, default)]
    pub(super) citation: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) stop_reason: Text<'a>,
}

/// An event whose delta is of a kind that has no meaning here.
#[derive(Debug, Deserialize)]
pub(super) struct OtherDelta {
    #[serde(default)]
    pub(super) index: u64,
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
    pub(super) kind: Text<'a>,
}

/// A whole answer, or the head of one at the beginning of a stream.
#[derive(Debug, Deserialize)]
pub(super) struct WireMessage<'a> {
    #[serde(rename = "type", borrow, default)]
    pub(super) kind: Text<'a>,
    #[serde(borrow, default)]
    pub(super) id: Text<'a>,
    #[serde(borrow, default)]
    pub(super) model: Text<'a>,
    #[serde(borrow, default)]
    pub(super) content: Option<Vec<&'a RawValue>>,
    #[serde(borrow, default)]
    pub(super) stop_reason: Text<'a>,
    #[serde(borrow, default)]
    pub(super) usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
}

/// A text, taken as it lies in the input where it holds no escapes; absent and `null` are the empty text.
#[derive(Debug, Default)]
pub(super) struct Text<'a>(Cow<'a, str>);

impl std::ops::Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_option(TextVisitor)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_none<E>(self) -> Result<Self::Value, E> {
        Ok(Text::default())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Text(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Text(Cow::Owned(text.to_owned())))
    }
}

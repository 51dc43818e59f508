//! Types of responses that borrow from the received bytes.
//!
//! Parsing is lenient: unknown fields are skipped, and known fields may be absent or `null`. Names
//! may be in snake case, as the JSON mapping of protocol buffers allows. An unknown part is kept
//! unchanged, because it must be sent back.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::loose::{Loose, LooseVisitor, count, index, list};

/// A complete response or a piece of a stream. Both have the same fields.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Answer<'a> {
    #[serde(borrow, default, deserialize_with = "list")]
    pub(super) candidates: Option<Vec<Candidate<'a>>>,
    #[serde(alias = "usage_metadata", borrow, default)]
    pub(super) usage_metadata: Option<&'a RawValue>,
    #[serde(alias = "model_version", borrow, default)]
    pub(super) model_version: Loose<'a>,
    #[serde(alias = "response_id", borrow, default)]
    pub(super) response_id: Loose<'a>,
    #[serde(alias = "prompt_feedback", borrow, default)]
    pub(super) prompt_feedback: Option<Feedback<'a>>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Feedback<'a> {
    #[serde(alias = "block_reason", borrow, default)]
    pub(super) block_reason: Loose<'a>,
    #[serde(alias = "block_reason_message", borrow, default)]
    pub(super) block_reason_message: Loose<'a>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Candidate<'a> {
    #[serde(default, deserialize_with = "index")]
    pub(super) index: Option<u64>,
    #[serde(borrow, default)]
    pub(super) content: Option<Content<'a>>,
    #[serde(alias = "finish_reason", borrow, default)]
    pub(super) finish_reason: Loose<'a>,
    #[serde(alias = "finish_message", borrow, default)]
    pub(super) finish_message: Loose<'a>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Content<'a> {
    #[serde(borrow, default, deserialize_with = "list")]
    pub(super) parts: Option<Vec<WirePart<'a>>>,
}

/// A part of a message. At most one of text, call and file is set.
#[derive(Debug, Default)]
pub(super) struct WirePart<'a> {
    pub(super) text: Option<Loose<'a>>,
    pub(super) thought: bool,
    pub(super) signature: Loose<'a>,
    pub(super) call: Option<Call<'a>>,
    pub(super) inline: Option<Inline<'a>>,
    pub(super) file: Option<File<'a>>,
    /// All other fields.
    pub(super) rest: Map<String, Value>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Call<'a> {
    #[serde(borrow, default)]
    pub(super) id: Loose<'a>,
    #[serde(borrow, default)]
    pub(super) name: Loose<'a>,
    #[serde(borrow, default)]
    pub(super) args: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Inline<'a> {
    #[serde(alias = "mime_type", borrow, default)]
    pub(super) mime_type: Loose<'a>,
    #[serde(borrow, default)]
    pub(super) data: Loose<'a>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct File<'a> {
    #[serde(alias = "mime_type", borrow, default)]
    pub(super) mime_type: Loose<'a>,
    #[serde(alias = "file_uri", borrow, default)]
    pub(super) file_uri: Loose<'a>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WireUsage {
    #[serde(alias = "prompt_token_count", default, deserialize_with = "count")]
    pub(super) prompt_token_count: Option<u64>,
    #[serde(alias = "candidates_token_count", default, deserialize_with = "count")]
    pub(super) candidates_token_count: Option<u64>,
    #[serde(alias = "total_token_count", default, deserialize_with = "count")]
    pub(super) total_token_count: Option<u64>,
    #[serde(alias = "thoughts_token_count", default, deserialize_with = "count")]
    pub(super) thoughts_token_count: Option<u64>,
    #[serde(alias = "cached_content_token_count", default, deserialize_with = "count")]
    pub(super) cached_content_token_count: Option<u64>,
    /// Tokens of the results of tools that Google executes.
    #[serde(alias = "tool_use_prompt_token_count", default, deserialize_with = "count")]
    pub(super) tool_use_prompt_token_count: Option<u64>,
}

impl<'de: 'a, 'a> Deserialize<'de> for WirePart<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PartVisitor)
    }
}

struct PartVisitor;

impl<'de> Visitor<'de> for PartVisitor {
    type Value = WirePart<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a part")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(WirePart::default())
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        let text = LooseVisitor.visit_borrowed_str(text)?;
        Ok(WirePart { text: Some(text), ..WirePart::default() })
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        let text = LooseVisitor.visit_str(text)?;
        Ok(WirePart { text: Some(text), ..WirePart::default() })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut part = WirePart::default();
        while let Some(name) = map.next_key::<Loose<'de>>()? {
            match &*name {
                "text" => part.text = map.next_value()?,
                "thought" => part.thought = &*map.next_value::<Loose<'de>>()? == "true",
                "thoughtSignature" | "thought_signature" => part.signature = map.next_value()?,
                "functionCall" | "function_call" => part.call = map.next_value()?,
                "inlineData" | "inline_data" => part.inline = map.next_value()?,
                "fileData" | "file_data" => part.file = map.next_value()?,
                _ => drop(part.rest.insert(name.to_string(), map.next_value()?)),
            }
        }
        Ok(part)
    }
}

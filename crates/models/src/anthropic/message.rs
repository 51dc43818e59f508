//! Encodes one message as content blocks.
//!
//! Content that the service would refuse is omitted or rewritten, so that a conversation with
//! another provider can continue: empty text blocks, thinking of other models, ids and names with
//! invalid characters.

use std::borrow::Cow;
use std::collections::BTreeMap;

use agentflow_core::message::{Media, Message, Part, Reasoning, Role, ToolCall, ToolResult};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::PROVIDER;
use super::blocks::{BLOCK, CITATIONS, SIGNATURE};
use super::encode::write;
use crate::sent_call::{arguments, identifier, tool_name};

/// Returns the blocks of a message, separated by commas. Returns no bytes if there are no blocks.
pub(super) fn blocks(message: &Message, model: &str) -> Vec<u8> {
    let mut blocks = Blocks { out: Vec::new() };
    let assistant = message.role() == Role::Assistant;
    if !assistant {
        for result in message.results() {
            blocks.put(&tool_result(result));
        }
    }
    let parts = message.parts();
    for (at, part) in parts.iter().enumerate() {
        match part {
            Part::Text { text } => {
                let citations = parts.get(at + 1).filter(|_| assistant).and_then(citations);
                blocks.text(text, citations.as_deref());
            }
            Part::Reasoning(reasoning) if assistant => blocks.reasoning(reasoning, model),
            Part::ToolCall(call) if assistant => blocks.call(call),
            Part::Media(file) => match media(file).filter(|_| message.role() == Role::User) {
                Some(wire) => blocks.put(&wire),
                None => {
                    blocks.text(&format!("[a file of type {} is left out]", file.mime_type), None);
                }
            },
            _ => {}
        }
    }
    blocks.out
}

struct Blocks {
    out: Vec<u8>,
}

impl Blocks {
    fn put(&mut self, block: &impl Serialize) {
        if !self.out.is_empty() {
            self.out.push(b',');
        }
        write(&mut self.out, block);
    }

    /// Writes a text block. The service refuses text without visible characters, so it is omitted.
    fn text(&mut self, text: &str, citations: Option<&RawValue>) {
        if !text.trim().is_empty() {
            self.put(&Block::Text { text: Cow::Borrowed(text), citations });
        }
    }

    /// Writes reasoning. A signature is valid only for the model that created it. The service
    /// refuses thinking without a signature, which occurs if a response was cut off.
    fn reasoning(&mut self, reasoning: &Reasoning, model: &str) {
        let Some(opaque) =
            reasoning.opaque.as_deref().filter(|_| reasoning.provider == PROVIDER.name)
        else {
            return;
        };
        let same_model = reasoning.model == model;
        if let Some(signature) = opaque[SIGNATURE].as_str() {
            if same_model {
                self.put(&Block::Thinking { thinking: &reasoning.text, signature });
            }
        } else if let Some(block) = opaque[BLOCK].as_str().and_then(raw) {
            #[derive(Deserialize)]
            struct Kind<'a> {
                #[serde(rename = "type", borrow)]
                kind: Cow<'a, str>,
            }
            let kind = serde_json::from_str::<Kind<'_>>(block.get());
            if kind.is_ok_and(|kind| same_model || kind.kind != "redacted_thinking") {
                self.put(&block);
            }
        }
    }

    fn call(&mut self, call: &ToolCall) {
        let opaque = call.opaque.as_deref().filter(|opaque| opaque["provider"] == PROVIDER.name);
        let rest = opaque
            .and_then(|opaque| serde_json::from_str(opaque[BLOCK].as_str()?).ok())
            .unwrap_or_default();
        let (id, name, input) = (call_id(&call.id), tool_name(&call.name), arguments(call));
        self.put(&Block::ToolUse { id, name, input, rest });
    }
}

fn raw(json: &str) -> Option<Box<RawValue>> {
    RawValue::from_string(json.to_owned()).ok()
}

/// Returns the citations of the text before a part.
fn citations(part: &Part) -> Option<Box<RawValue>> {
    match part {
        Part::Reasoning(reasoning) if reasoning.provider == PROVIDER.name => {
            raw(reasoning.opaque.as_deref()?.get(CITATIONS)?.as_str()?)
        }
        _ => None,
    }
}

/// Returns the id of a call with letters, digits, `_` and `-`, the only characters that the service
/// accepts.
fn call_id(id: &str) -> Cow<'_, str> {
    identifier(id, usize::MAX)
}

fn tool_result(result: &ToolResult) -> Block<'_> {
    let failed = !result.status.is_success();
    let content = match result.text_beside(|file| media(file).is_some()) {
        // The service requires text for an error.
        text if failed && text.trim().is_empty() => Cow::Borrowed(result.status.as_str()),
        text => text,
    };
    let is_empty = content.is_empty();
    Block::ToolResult {
        tool_use_id: call_id(&result.call_id),
        content: match result.media().filter_map(media).collect::<Vec<_>>() {
            files if files.is_empty() => Some(ResultContent::Text(content)).filter(|_| !is_empty),
            files => {
                let text = Block::Text { text: content, citations: None };
                Some(ResultContent::Blocks(
                    Some(text).filter(|_| !is_empty).into_iter().chain(files).collect(),
                ))
            }
        },
        is_error: failed,
    }
}

/// Encodes an image, a PDF or a text file. Returns `None` for media that the service does not read.
fn media(file: &Media) -> Option<Block<'_>> {
    let base64 = file
        .url
        .split_once(";base64,")
        .filter(|(head, _)| head.starts_with("data:"))
        .map(|(_, data)| data);
    let media_type = &*file.mime_type;
    let title = file.name.as_deref();
    let source = match base64 {
        Some(data) => Source::Base64 { media_type, data },
        None if file.url.starts_with("data:") => return None,
        None => Source::Url { url: &file.url },
    };
    match (media_type, &source) {
        ("image/jpeg" | "image/png" | "image/gif" | "image/webp", _) => {
            Some(Block::Image { source })
        }
        ("application/pdf", _) => Some(Block::Document { source, title }),
        (text, Source::Base64 { data, .. }) if text.starts_with("text/") => {
            let data = String::from_utf8(STANDARD.decode(data).ok()?).ok()?;
            Some(Block::Document { source: Source::Text { media_type: "text/plain", data }, title })
        }
        _ => None,
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block<'a> {
    Text {
        text: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        citations: Option<&'a RawValue>,
    },
    Thinking {
        thinking: &'a str,
        signature: &'a str,
    },
    ToolUse {
        id: Cow<'a, str>,
        name: Cow<'a, str>,
        input: Cow<'a, RawValue>,
        #[serde(flatten)]
        rest: BTreeMap<String, Value>,
    },
    ToolResult {
        tool_use_id: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        content: Option<ResultContent<'a>>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
    Image {
        source: Source<'a>,
    },
    Document {
        source: Source<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<&'a str>,
    },
}

/// The content of a tool result. A single text needs no block.
#[derive(Serialize)]
#[serde(untagged)]
enum ResultContent<'a> {
    Text(Cow<'a, str>),
    Blocks(Vec<Block<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Source<'a> {
    Base64 { media_type: &'a str, data: &'a str },
    Url { url: &'a str },
    Text { media_type: &'static str, data: String },
}

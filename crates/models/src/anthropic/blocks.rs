//! Assembles the blocks of one answer from their pieces and turns them into message parts.
//!
//! Text, thinking and calls of our tools become parts of their own kind. Every other block (a server's tool call and
//! its result, redacted thinking, a compaction, any future kind) is kept as its unchanged text, in its place.

use std::sync::Arc;

use agentflow_core::message::{Part, ToolCall};
use agentflow_core::model::{ModelEvent, ToolCallDelta};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::PROVIDER;
use super::wire::{Delta, Fields};
use crate::assembly::{call_delta, reasoning};
use crate::http::Deltas;
use crate::loose::unquoted;

/// The field of [`Reasoning::opaque`] that holds the JSON text of a block, byte for byte within each of its fields.
pub(super) const BLOCK: &str = "block";
/// The field of [`Reasoning::opaque`] that holds the JSON text of the citations of the text before it.
pub(super) const CITATIONS: &str = "citations";

/// The field of [`Reasoning::opaque`] that holds the signature of thinking.
pub(super) const SIGNATURE: &str = "signature";

/// One block.
#[derive(Clone, Debug)]
pub(super) enum Block {
    Text {
        text: String,
        citations: Vec<Box<RawValue>>,
    },
    Thinking {
        text: String,
        signature: String,
    },
    Call {
        call: ToolCall,
        /// Which call of the answer, from 0.
        number: usize,
        /// The input that came with the block's beginning: all of it when no pieces follow.
        whole: Option<Box<RawValue>>,
        rest: Fields,
    },
    Other {
        fields: Fields,
        /// The pieces of its input.
        input: String,
    },
}

impl Block {
    /// A block as it begins; `number` counts the calls before it.
    pub(super) fn begin(mut fields: Fields, number: usize, deltas: &mut Deltas) -> Self {
        match &*text_of(&fields, "type") {
            "text" => {
                let text = text_of(&fields, "text");
                if !text.is_empty() {
                    deltas.push(|| ModelEvent::Text(text.clone()));
                }
                let citations = fields.get("citations").and_then(|raw| serde_json::from_str(raw.get()).ok());
                Self::Text { text, citations: citations.unwrap_or_default() }
            }
            "thinking" => {
                let text = text_of(&fields, "thinking");
                if !text.is_empty() {
                    deltas.push(|| ModelEvent::Reasoning(text.clone()));
                }
                Self::Thinking { text, signature: text_of(&fields, "signature") }
            }
            "tool_use" => {
                let call = ToolCall::new(text_of(&fields, "id"), text_of(&fields, "name"), "");
                deltas.push(|| {
                    let (id, name) = (Some(call.id.clone()), Some(call.name.clone()));
                    ModelEvent::ToolCall(call_delta(number, id, name, ""))
                });
                let whole = fields.remove("input").filter(|input| !is_empty(input));
                for known in ["type", "id", "name"] {
                    fields.remove(known);
                }
                Self::Call { call, number, whole, rest: fields }
            }
            _ => Self::Other { fields, input: String::new() },
        }
    }

    /// Returns true if pieces of this kind are a part of the block.
    pub(super) fn takes(&self, kind: &str) -> bool {
        match self {
            Self::Text { .. } => matches!(kind, "text_delta" | "citations_delta"),
            Self::Thinking { .. } => matches!(kind, "thinking_delta" | "signature_delta"),
            Self::Call { .. } | Self::Other { .. } => kind == "input_json_delta",
        }
    }

    /// More of the block, of a kind that it takes.
    pub(super) fn more(&mut self, delta: &Delta<'_>, deltas: &mut Deltas) {
        match (self, &*delta.kind) {
            (Self::Text { text, .. }, "text_delta") if !delta.text.is_empty() => {
                text.push_str(&delta.text);
                deltas.push(|| ModelEvent::Text((*delta.text).to_owned()));
            }
            (Self::Text { citations, .. }, "citations_delta") => {
                citations.extend(delta.citation.map(ToOwned::to_owned));
            }
            (Self::Thinking { text, .. }, "thinking_delta") if !delta.thinking.is_empty() => {
                text.push_str(&delta.thinking);
                deltas.push(|| ModelEvent::Reasoning((*delta.thinking).to_owned()));
            }
            (Self::Thinking { signature, .. }, "signature_delta") => signature.push_str(&delta.signature),
            (Self::Call { call, number, .. }, "input_json_delta") if !delta.partial_json.is_empty() => {
                call.arguments.push_str(&delta.partial_json);
                deltas.push(|| arguments(*number, &delta.partial_json));
            }
            (Self::Other { input, .. }, "input_json_delta") => input.push_str(&delta.partial_json),
            _ => {}
        }
    }

    /// More of a block that is only kept: texts grow, everything else is replaced.
    pub(super) fn more_fields(&mut self, delta: Fields) {
        let Self::Other { fields, .. } = self else { return };
        for (name, said) in delta.into_iter().filter(|(name, _)| name != "type") {
            let known = fields.get(&name).and_then(|raw| serde_json::from_str::<String>(raw.get()).ok());
            let joined = match (known, serde_json::from_str::<String>(said.get())) {
                (Some(known), Ok(more)) => to_raw_value(&(known + &more)).ok(),
                _ => None,
            };
            fields.insert(name, joined.unwrap_or(said));
        }
    }

    /// The block is over.
    pub(super) fn end(&mut self, deltas: &mut Deltas) {
        match self {
            Self::Call { call, number, whole, .. } => {
                if let Some(whole) = whole.take().filter(|_| call.arguments.is_empty()) {
                    // Some servers send the object as a text.
                    let whole = unquoted(whole.get()).unwrap_or_else(|| whole.get().to_owned());
                    call.arguments.push_str(&whole);
                    deltas.push(|| arguments(*number, &whole));
                }
                if call.arguments.is_empty() {
                    call.arguments.push_str("{}");
                }
            }
            Self::Other { fields, input } => {
                if let Ok(input) = RawValue::from_string(std::mem::take(input)) {
                    fields.insert("input".to_owned(), input);
                }
            }
            Self::Text { .. } | Self::Thinking { .. } => {}
        }
    }

    /// Gives a tool call an id when the server gave it none: two calls without one could not be distinguished.
    pub(super) fn name_call(&mut self, turn: usize) {
        if let Self::Call { call, number, .. } = self
            && call.id.is_empty()
        {
            call.id = format!("call_{turn}_{number}");
        }
    }

    /// The parts of a message that the block becomes. `model` is the one that was asked.
    pub(super) fn into_parts(self, model: &str) -> Vec<Part> {
        let kept = |text: String, opaque: Option<Value>| {
            let (provider, model) = (PROVIDER.name.to_owned(), model.to_owned());
            Part::Reasoning(reasoning(text, provider, model, opaque))
        };
        match self {
            Self::Text { text, .. } if text.is_empty() => Vec::new(),
            Self::Text { text, citations } => {
                let mut parts = vec![Part::Text { text }];
                if !citations.is_empty() {
                    parts.push(kept(String::new(), Some(json!({ CITATIONS: json_text(&citations) }))));
                }
                parts
            }
            Self::Thinking { text, signature } if signature.is_empty() && text.is_empty() => Vec::new(),
            Self::Thinking { text, signature } if signature.is_empty() => vec![kept(text, None)],
            Self::Thinking { text, signature } => vec![kept(text, Some(json!({ SIGNATURE: signature })))],
            Self::Call { mut call, rest, .. } => {
                if !rest.is_empty() {
                    call.opaque = Some(Box::new(json!({ "provider": PROVIDER.name, BLOCK: json_text(&rest) })));
                }
                vec![Part::ToolCall(Arc::new(call))]
            }
            Self::Other { fields, .. } => vec![kept(String::new(), Some(json!({ BLOCK: json_text(&fields) })))],
        }
    }
}

fn arguments(index: usize, more: &str) -> ModelEvent {
    ModelEvent::ToolCall(ToolCallDelta::new(index, more))
}

fn text_of(fields: &Fields, name: &str) -> String {
    fields.get(name).and_then(|raw| unquoted(raw.get())).unwrap_or_default()
}

fn is_empty(input: &RawValue) -> bool {
    matches!(serde_json::from_str::<Fields>(input.get()), Ok(fields) if fields.is_empty())
        || matches!(input.get(), "null" | "\"\"")
}

fn json_text(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("JSON texts are written into memory without fail")
}

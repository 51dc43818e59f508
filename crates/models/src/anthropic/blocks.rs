//! Assembles the content blocks of a response and converts them to message parts.
//!
//! Text, thinking and tool calls become parts of these kinds. Any other block (a server tool call
//! and its result, redacted thinking, a compaction, future kinds) is kept as unchanged JSON text at
//! its position.

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

/// Field of [`Reasoning::opaque`] with the JSON text of a block. Each field of the block is kept
/// byte for byte.
pub(super) const BLOCK: &str = "block";
/// Field of [`Reasoning::opaque`] with the JSON text of the citations for the preceding text.
pub(super) const CITATIONS: &str = "citations";

/// Field of [`Reasoning::opaque`] with the signature of the thinking.
pub(super) const SIGNATURE: &str = "signature";

/// A content block.
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
        /// Number of the call in the response, from 0.
        number: usize,
        /// The input in the start event. It is complete if no pieces follow.
        whole: Option<Box<RawValue>>,
        rest: Fields,
    },
    Other {
        fields: Fields,
        /// The pieces of the block's input.
        input: String,
    },
}

impl Block {
    /// Creates a block from its start event. `number` is the number of calls before it.
    pub(super) fn begin(mut fields: Fields, number: usize, deltas: &mut Deltas) -> Self {
        match &*text_of(&fields, "type") {
            "text" => {
                let text = text_of(&fields, "text");
                if !text.is_empty() {
                    deltas.push(|| ModelEvent::Text(text.clone()));
                }
                let citations =
                    fields.get("citations").and_then(|raw| serde_json::from_str(raw.get()).ok());
                Self::Text { text, citations: citations.unwrap_or_default() }
            }
            "thinking" => {
                let text = text_of(&fields, "thinking");
                if !text.is_empty() {
                    deltas.push(|| ModelEvent::Reasoning(text.clone()));
                }
                Self::Thinking { text, signature: text_of(&fields, "signature") }
            }
            // Fields without a meaning here stay in `rest` and are sent back with the call.
            "tool_use" => {
                let call = ToolCall::new(text_of(&fields, "id"), text_of(&fields, "name"), "");
                deltas.push(|| {
                    let (id, name) = (Some(call.id.clone()), Some(call.name.clone()));
                    ModelEvent::ToolCall(call_delta(number, id, name, ""))
                });
                // A stream starts with an empty input and sends the arguments as deltas.
                let whole = fields.remove("input").filter(|input| !is_empty(input));
                for known in ["type", "id", "name"] {
                    fields.remove(known);
                }
                Self::Call { call, number, whole, rest: fields }
            }
            _ => Self::Other { fields, input: String::new() },
        }
    }

    /// Returns true if the block accepts deltas of this type.
    pub(super) fn takes(&self, kind: &str) -> bool {
        match self {
            Self::Text { .. } => matches!(kind, "text_delta" | "citations_delta"),
            Self::Thinking { .. } => matches!(kind, "thinking_delta" | "signature_delta"),
            Self::Call { .. } | Self::Other { .. } => kind == "input_json_delta",
        }
    }

    /// Adds a delta of a type that the block accepts.
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
            (Self::Thinking { signature, .. }, "signature_delta") => {
                signature.push_str(&delta.signature);
            }
            (Self::Call { call, number, .. }, "input_json_delta")
                if !delta.partial_json.is_empty() =>
            {
                call.arguments.push_str(&delta.partial_json);
                deltas.push(|| arguments(*number, &delta.partial_json));
            }
            (Self::Other { input, .. }, "input_json_delta") => input.push_str(&delta.partial_json),
            _ => {}
        }
    }

    /// Merges a delta into a block of unknown type: strings are appended, other fields are
    /// replaced.
    pub(super) fn more_fields(&mut self, delta: Fields) {
        let Self::Other { fields, .. } = self else { return };
        for (name, said) in delta.into_iter().filter(|(name, _)| name != "type") {
            let known =
                fields.get(&name).and_then(|raw| serde_json::from_str::<String>(raw.get()).ok());
            let joined = match (known, serde_json::from_str::<String>(said.get())) {
                (Some(known), Ok(more)) => to_raw_value(&(known + &more)).ok(),
                _ => None,
            };
            fields.insert(name, joined.unwrap_or(said));
        }
    }

    /// Completes the block.
    pub(super) fn end(&mut self, deltas: &mut Deltas) {
        match self {
            Self::Call { call, number, whole, .. } => {
                if let Some(whole) = whole.take().filter(|_| call.arguments.is_empty()) {
                    // Some servers send the object as a string.
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

    /// Assigns an id to a tool call if the server sent none. Otherwise two such calls could not be
    /// distinguished.
    pub(super) fn name_call(&mut self, turn: usize) {
        if let Self::Call { call, number, .. } = self
            && call.id.is_empty()
        {
            call.id = format!("call_{turn}_{number}");
        }
    }

    /// Converts the block to message parts. `model` is the requested model.
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
                    parts.push(kept(
                        String::new(),
                        Some(json!({ CITATIONS: json_text(&citations) })),
                    ));
                }
                parts
            }
            Self::Thinking { text, signature } if signature.is_empty() && text.is_empty() => {
                Vec::new()
            }
            Self::Thinking { text, signature } if signature.is_empty() => vec![kept(text, None)],
            Self::Thinking { text, signature } => {
                vec![kept(text, Some(json!({ SIGNATURE: signature })))]
            }
            Self::Call { mut call, rest, .. } => {
                if !rest.is_empty() {
                    call.opaque = Some(Box::new(
                        json!({ "provider": PROVIDER.name, BLOCK: json_text(&rest) }),
                    ));
                }
                vec![Part::ToolCall(Arc::new(call))]
            }
            Self::Other { fields, .. } => {
                vec![kept(String::new(), Some(json!({ BLOCK: json_text(&fields) })))]
            }
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

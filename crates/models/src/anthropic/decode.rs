//! Decodes the bytes of a response into streamed pieces and the complete response.
//!
//! A streamed response ends with `message_stop`, or with its stop reason if the server omits that
//! event.

use std::sync::Arc;

use agentflow_core::message::{Message, Role};
use agentflow_core::model::{ModelError, ModelResponse, StopReason, Usage};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use super::blocks::Block;
use super::error_body;
use super::wire::{Blocks, Event, Fields, OtherDelta, OtherEvent, WireMessage};
use crate::http::{Decode, Deltas, SseEvent, SseFlow};
use crate::loose::{MAX_RAW_USAGE, bounded, count_of, invalid, read, unquoted, unread};

/// Maximum number of fields in a usage object. Real usage objects have fewer.
const MAX_USAGE_FIELDS: usize = 64;

#[derive(Clone, Debug)]
pub(crate) struct MessagesDecoder {
    /// The requested model. Its thinking is sent back only to the same model.
    asked: Arc<str>,
    /// Number of messages in the request. It makes the ids unique that are assigned to calls
    /// without an id.
    turn: usize,
    blocks: Vec<Block>,
    /// Maps each index in the stream to a block.
    slots: Vec<(u64, usize)>,
    calls: usize,
    started: bool,
    ended: bool,
    stop_reason: String,
    usage: Map<String, Value>,
    id: String,
    model: String,
}

impl Decode for MessagesDecoder {
    fn event(&mut self, event: SseEvent<'_>, deltas: &mut Deltas) -> Result<SseFlow, ModelError> {
        let data = event.data.trim_ascii();
        if event.name == b"error" {
            return Err(error_body::in_answer(data));
        }
        // Some gateways send the end marker of other wire formats.
        if data.is_empty() || data == b"[DONE]" {
            return Ok(SseFlow::More);
        }
        let mut mended = Vec::new();
        let event: Event<'_> = match read(data, &mut mended) {
            Ok(event) => event,
            Err(error) => return self.other(error, data),
        };
        match &*event.kind {
            "content_block_delta" => {
                self.more(&event, data, deltas);
                bounded(self.blocks.len())?;
            }
            "content_block_start" => {
                if let Some(raw) = event.content_block {
                    let index = event.index.unwrap_or(self.blocks.len() as u64);
                    self.begin(index, block(raw, data)?, deltas);
                    bounded(self.blocks.len())?;
                }
            }
            "content_block_stop" => {
                if let Some(at) = self.slot(event.index, |_| true) {
                    self.blocks[at].end(deltas);
                }
            }
            "message_start" => {
                self.started = true;
                if let Some(raw) = event.message {
                    let mut mended = Vec::new();
                    let message: WireMessage<'_> = read(raw.get().as_bytes(), &mut mended)
                        .map_err(|error| unread("the head of the answer", error, data))?;
                    self.head(&message);
                    self.count(message.usage);
                }
            }
            "message_delta" => {
                if let Some(delta) =
                    event.delta.as_ref().filter(|delta| !delta.stop_reason.is_empty())
                {
                    (*delta.stop_reason).clone_into(&mut self.stop_reason);
                }
                self.count(event.usage);
            }
            "message_stop" => {
                self.blocks.iter_mut().for_each(|block| block.end(deltas));
                self.ended = self.started;
                return Ok(SseFlow::End);
            }
            "error" => return Err(error_body::in_answer(data)),
            // Some gateways omit the type of an error event.
            _ if event.error.is_some() => return Err(error_body::in_answer(data)),
            // A ping, or an event type that this release does not know.
            _ => return Ok(SseFlow::More),
        }
        Ok(if self.has_reason() { SseFlow::Finishing } else { SseFlow::More })
    }

    fn document(&mut self, body: &[u8], deltas: &mut Deltas) -> Result<(), ModelError> {
        let mut mended = Vec::new();
        let message: WireMessage<'_> =
            read(body, &mut mended).map_err(|error| unread("the answer", error, body))?;
        if &*message.kind == "error" || message.error.is_some_and(|error| error.get() != "null") {
            return Err(error_body::in_answer(body));
        }
        // A response that was cut off before its content starts may have `null`.
        if message.content.is_none() && message.stop_reason.is_empty() {
            return Err(invalid("the answer", "it has no content; check the base URL", body));
        }
        self.head(&message);
        self.count(message.usage);
        (*message.stop_reason).clone_into(&mut self.stop_reason);
        let text = message.content.filter(|content| content.get().starts_with('"'));
        let blocks = match (message.content, text) {
            (_, Some(text)) => vec![text],
            (Some(content), None) => {
                let read: serde_json::Result<Blocks<'_>> = serde_json::from_str(content.get());
                read.map_err(|error| unread("the content of the answer", error, body))?
                    .0
                    .unwrap_or_default()
            }
            (None, None) => Vec::new(),
        };
        for (index, raw) in (0..).zip(blocks) {
            self.begin(index, block(raw, body)?, deltas);
        }
        self.blocks.iter_mut().for_each(|block| block.end(deltas));
        self.ended = true;
        Ok(())
    }

    fn complete(&mut self) -> Option<ModelResponse> {
        if !std::mem::take(&mut self.ended) && !self.has_reason() {
            return None;
        }
        let mut blocks = std::mem::take(&mut self.blocks);
        for block in &mut blocks {
            // Without `message_stop`, some blocks may be incomplete. Their remaining pieces are not
            // reported to the caller.
            block.end(&mut Deltas::new(false));
            block.name_call(self.turn);
        }
        let parts: Vec<_> =
            blocks.into_iter().flat_map(|block| block.into_parts(&self.asked)).collect();
        let mut response = ModelResponse::new(Message::new(Role::Assistant, parts));
        response.stop_reason = stop_reason(&self.stop_reason, self.calls > 0);
        response.usage = usage(std::mem::take(&mut self.usage));
        response.id = std::mem::take(&mut self.id);
        response.model = std::mem::take(&mut self.model);
        Some(response)
    }
}

impl MessagesDecoder {
    pub(super) fn new(asked: Arc<str>, turn: usize) -> Self {
        Self {
            asked,
            turn,
            blocks: Vec::new(),
            slots: Vec::new(),
            calls: 0,
            started: false,
            ended: false,
            stop_reason: String::new(),
            usage: Map::new(),
            id: String::new(),
            model: String::new(),
        }
    }

    /// Returns true if the stop reason of a streamed response has arrived. Only the usage and the
    /// end of the stream follow.
    fn has_reason(&self) -> bool {
        self.started && !self.stop_reason.is_empty()
    }

    fn head(&mut self, message: &WireMessage<'_>) {
        (*message.id).clone_into(&mut self.id);
        (*message.model).clone_into(&mut self.model);
    }

    /// Merges a usage object. Counts are cumulative, so later values replace earlier ones.
    /// Oversized objects and other values are ignored.
    fn count(&mut self, usage: Option<&RawValue>) {
        let Some(raw) = usage.filter(|raw| raw.get().len() <= MAX_RAW_USAGE) else { return };
        let usage: Option<Map<String, Value>> = serde_json::from_str(raw.get()).ok();
        for (name, value) in usage.into_iter().flatten() {
            let known = self.usage.contains_key(&name);
            if known && !value.is_null() || !known && self.usage.len() < MAX_USAGE_FIELDS {
                self.usage.insert(name, value);
            }
        }
    }

    /// Returns the last block with this index for which `fits` is true. Without an index, considers
    /// all blocks.
    fn slot(&self, index: Option<u64>, fits: impl Fn(&Block) -> bool) -> Option<usize> {
        let slots =
            self.slots.iter().rev().filter(|(of, _)| index.is_none_or(|index| *of == index));
        slots.map(|(_, at)| *at).find(|at| fits(&self.blocks[*at]))
    }

    fn begin(&mut self, index: u64, fields: Fields, deltas: &mut Deltas) {
        self.started = true;
        let block = Block::begin(fields, self.calls, deltas);
        self.calls += usize::from(matches!(block, Block::Call { .. }));
        self.slots.push((index, self.blocks.len()));
        self.blocks.push(block);
    }

    fn more(&mut self, event: &Event<'_>, data: &[u8], deltas: &mut Deltas) {
        let Some(delta) = &event.delta else { return };
        if let Some(at) = self.slot(event.index, |block| block.takes(&delta.kind)) {
            self.blocks[at].more(delta, deltas);
            return;
        }
        // No open block accepts the delta. A block of unknown type merges any delta.
        let kept = self.slot(event.index, |block| matches!(block, Block::Other { .. }));
        match (&*delta.kind, kept) {
            (_, Some(at)) => {
                if let Ok(other) = serde_json::from_slice::<OtherDelta>(data) {
                    self.blocks[at].more_fields(other.delta);
                }
            }
            // Some servers send a text delta for a block of a different type, or without a start
            // event.
            ("text_delta" | "thinking_delta", None) => {
                let kind = delta.kind.trim_end_matches("_delta");
                let fields = [("type".to_owned(), to_raw_value(kind).expect("a text is JSON"))];
                let index = event.index.unwrap_or(self.blocks.len() as u64);
                self.begin(index, fields.into(), deltas);
                if let Some(begun) = self.blocks.last_mut() {
                    begun.more(delta, deltas);
                }
            }
            _ => {}
        }
    }

    /// Handles an event that could not be parsed. An event of unknown type is skipped.
    fn other(&mut self, error: serde_json::Error, data: &[u8]) -> Result<SseFlow, ModelError> {
        let delta = match serde_json::from_slice::<OtherEvent<'_>>(data) {
            Ok(other) => match &*other.kind {
                "content_block_delta" => {
                    serde_json::from_slice::<OtherDelta>(data).ok().filter(OtherDelta::is_new)
                }
                "content_block_start"
                | "content_block_stop"
                | "message_start"
                | "message_delta"
                | "message_stop" => None,
                _ => return Ok(SseFlow::More),
            },
            Err(_) => None,
        };
        let delta = delta.ok_or_else(|| unread("an event of the answer", error, data))?;
        if let Some(at) = self.slot(delta.index, |_| true) {
            self.blocks[at].more_fields(delta.delta);
        }
        Ok(SseFlow::More)
    }
}

/// Parses the fields of a block. Some servers send only the text instead of a text block.
fn block(raw: &RawValue, data: &[u8]) -> Result<Fields, ModelError> {
    let mut mended = Vec::new();
    if unquoted(raw.get()).is_some() {
        let kind = to_raw_value("text").expect("a text is JSON");
        return Ok([("type".to_owned(), kind), ("text".to_owned(), raw.to_owned())].into());
    }
    read(raw.get().as_bytes(), &mut mended)
        .map_err(|error| unread("a block of the answer", error, data))
}

fn stop_reason(reason: &str, calls: bool) -> StopReason {
    match reason {
        "tool_use" | "tool_calls" => StopReason::ToolCalls,
        // Some compatible servers also send these reasons when the model calls tools.
        "end_turn" | "stop_sequence" | "stop" | "" if calls => StopReason::ToolCalls,
        "end_turn" | "stop_sequence" | "stop" | "" => StopReason::Stop,
        "max_tokens" | "model_context_window_exceeded" | "length" => StopReason::Length,
        "refusal" => StopReason::Refusal,
        // Reasons of Bedrock and of other formats.
        "guardrail_intervened" | "content_filtered" | "content_filter" => StopReason::ContentFilter,
        "pause_turn" => StopReason::PauseTurn,
        other => StopReason::Other(other.to_owned()),
    }
}

/// Converts the usage. Anthropic's `input_tokens` excludes tokens that were read from or written to
/// the cache; ours includes them.
fn usage(raw: Map<String, Value>) -> Usage {
    let count = |name: &str| raw.get(name).and_then(count_of);
    let (cached, written) =
        (count("cache_read_input_tokens"), count("cache_creation_input_tokens"));
    let inputs = [count("input_tokens"), cached, written];
    let mut usage =
        Usage::new(inputs.into_iter().flatten().sum(), count("output_tokens").unwrap_or_default());
    usage.cached_tokens = cached;
    usage.cache_write_tokens = written;
    usage.reasoning_tokens =
        raw.get("output_tokens_details").and_then(|details| count_of(&details["thinking_tokens"]));
    if !raw.is_empty() {
        usage.raw = Some(Box::new(Value::Object(raw)));
    }
    usage
}

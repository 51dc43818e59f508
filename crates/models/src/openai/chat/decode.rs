//! Decodes the bytes of a response into streamed pieces and the complete response.
//!
//! Only a `finish_reason` completes a response. The usage may follow it, until `[DONE]` or the end
//! of the body.

use std::sync::Arc;

use agentflow_core::message::{Media, Message, Part, Role};
use agentflow_core::model::{ModelError, ModelErrorKind, ModelResponse, StopReason, Usage};
use serde_json::Value;

use super::PROVIDER;
use super::wire::{
    Audio, Call, Choice, Chunk, Content, ContentPart, Delta, Function, Image, ServerFields,
    WireUsage,
};
use crate::assembly::ResponseAssembly;
use crate::http::{Decode, Deltas, SseEvent, SseFlow};
use crate::loose::{bounded, invalid, list, raw_usage, read, unread};
use crate::openai::error_body;

/// Index of the call in `function_call`. No list of calls has this index.
const LEGACY_CALL: u64 = u64::MAX;

#[derive(Clone, Debug)]
pub(crate) struct ChatDecoder {
    /// The requested model. Its reasoning is sent back only to the same model.
    asked: Arc<str>,
    /// Length of the conversation, for the ids of calls without an id.
    turn: usize,
    answer: ResponseAssembly,
    /// Maps each index in the stream to the call to which its pieces currently belong.
    slots: Vec<(u64, usize)>,
    details: Vec<Value>,
    reasoning_content: bool,
    refused: bool,
    finish_reason: Option<Box<str>>,
    usage: Option<Box<str>>,
    id: String,
    model: String,
}

impl Decode for ChatDecoder {
    fn event(&mut self, event: SseEvent<'_>, deltas: &mut Deltas) -> Result<SseFlow, ModelError> {
        if event.name == b"error" {
            return Err(error_body::in_answer(&String::from_utf8_lossy(event.data)));
        }
        match event.data.trim_ascii() {
            b"[DONE]" => return Ok(SseFlow::End),
            // Some servers send an empty event as a ping.
            b"" => return Ok(SseFlow::More),
            _ => {}
        }
        let has_choice = self.chunk(event.data, deltas, "an event of the answer")?;
        Ok(if has_choice && self.finish_reason.is_some() {
            SseFlow::Finishing
        } else {
            SseFlow::More
        })
    }

    fn document(&mut self, body: &[u8], deltas: &mut Deltas) -> Result<(), ModelError> {
        let choices = self.chunk(body, deltas, "the answer")?;
        if !choices {
            return Err(invalid("the answer", "it has no choices; check the base URL", body));
        }
        // A complete document needs no finish reason. Some servers omit it.
        self.finish_reason.get_or_insert_default();
        Ok(())
    }

    fn complete(&mut self) -> Option<ModelResponse> {
        let reason = self.finish_reason.take()?;
        self.keep_reasoning();
        for number in 0..self.answer.calls() {
            let made = format!("call_{}_{number}", self.turn);
            if let Some(call) = self.answer.call_mut(number).filter(|call| call.id.is_empty()) {
                call.id = made;
            }
        }
        let stop_reason = stop_reason(&reason, self.answer.calls() > 0, self.refused);
        let message = Message::new(Role::Assistant, std::mem::take(&mut self.answer).into_parts());
        let mut response = ModelResponse::new(message);
        response.stop_reason = stop_reason;
        response.usage = self.usage.take().map(|raw| usage(&raw)).unwrap_or_default();
        response.id = std::mem::take(&mut self.id);
        response.model = std::mem::take(&mut self.model);
        Some(response)
    }
}

impl ChatDecoder {
    pub(super) fn new(asked: Arc<str>, turn: usize) -> Self {
        Self {
            asked,
            turn,
            answer: ResponseAssembly::default(),
            slots: Vec::new(),
            details: Vec::new(),
            reasoning_content: false,
            refused: false,
            finish_reason: None,
            usage: None,
            id: String::new(),
            model: String::new(),
        }
    }

    /// Reads one object. Returns true if the first choice was present. Other choices are ignored.
    fn chunk(&mut self, data: &[u8], deltas: &mut Deltas, what: &str) -> Result<bool, ModelError> {
        // Only an error is wrapped in a list, by Gemini's compatible endpoint.
        if data.trim_ascii_start().starts_with(b"[") {
            return Err(error_body::in_answer(&String::from_utf8_lossy(data)));
        }
        let mut mended = Vec::new();
        let chunk: Chunk<'_> =
            read(data, &mut mended).map_err(|error| unread(what, error, data))?;
        if let Some(error) = chunk.error {
            return Err(error_body::in_answer(error.get()));
        }
        if &*chunk.object == "error" {
            return Err(error_body::in_answer(&String::from_utf8_lossy(data)));
        }
        for (known, said) in [(&mut self.id, &chunk.id), (&mut self.model, &chunk.model)] {
            if known.is_empty() {
                known.push_str(said);
            }
        }
        // Groq may send the usage in a separate field.
        let own = chunk
            .x_groq
            .and_then(|own| serde_json::from_str::<ServerFields<'_>>(own.get()).ok()?.usage);
        if let Some(usage) = chunk.usage.or(own) {
            self.usage = Some(usage.get().into());
        }
        let choices = chunk.choices.unwrap_or_default().into_iter();
        let mut choices = choices.filter(|choice| choice.index.unwrap_or(0) == 0);
        let Some(first) = choices.next() else { return Ok(false) };
        self.choice(first, deltas, data)?;
        // GitHub Copilot sends the text and the calls of one response in two choices with the same
        // index.
        for more in choices {
            let calls = more.delta.or(more.message).and_then(|delta| delta.tool_calls);
            if self.answer.calls() == 0 {
                self.tool_calls(calls, deltas);
            }
        }
        bounded(self.answer.parts() + self.details.len())?;
        Ok(true)
    }

    fn choice(
        &mut self,
        choice: Choice<'_>,
        deltas: &mut Deltas,
        data: &[u8],
    ) -> Result<(), ModelError> {
        if let Some(error) = choice.error {
            return Err(error_body::in_answer(error.get()));
        }
        if let Some(usage) = choice.usage {
            self.usage = Some(usage.get().into());
        }
        if let Some(delta) = choice.delta.or(choice.message) {
            self.delta(delta, deltas);
        }
        let reason = &*choice.finish_reason;
        // Some servers write Python's `None` into each chunk.
        if !matches!(reason, "" | "None" | "null") {
            if let Some(error) = incomplete_error(reason, self.answer.calls() > 0) {
                return Err(error.with_body(String::from_utf8_lossy(data)));
            }
            self.finish_reason = Some(reason.into());
        }
        Ok(())
    }

    fn delta(&mut self, delta: Delta<'_>, deltas: &mut Deltas) {
        self.reasoning(&delta, deltas);
        self.details(delta.reasoning_details.unwrap_or_default());
        self.content(&delta.content, deltas);
        self.refusal(&delta.refusal, deltas);
        if let Some(Ok(audio)) = delta.audio.map(|raw| serde_json::from_str::<Audio<'_>>(raw.get()))
        {
            self.answer.text(&audio.transcript, deltas);
        }
        let images = delta
            .images
            .and_then(|raw| list(&mut serde_json::Deserializer::from_str(raw.get())).ok()?);
        for image in images.unwrap_or_default() {
            self.image(&image);
        }
        self.tool_calls(delta.tool_calls, deltas);
        let function = delta
            .function_call
            .and_then(|raw| serde_json::from_str::<Function<'_>>(raw.get()).ok());
        if let Some(function) =
            function.filter(|function| !function.name.is_empty() || !function.arguments.is_empty())
        {
            self.function_call(function, deltas);
        }
    }

    fn image(&mut self, image: &Image<'_>) {
        let url = &*image.image_url.url;
        let mime_type = url
            .strip_prefix("data:")
            .and_then(|data| data.split([';', ',']).next())
            .unwrap_or("image/*");
        self.answer.part(Part::Media(Media::new(mime_type, url)));
    }

    fn tool_calls(&mut self, calls: Option<Vec<Call<'_>>>, deltas: &mut Deltas) {
        for (at, call) in calls.into_iter().flatten().enumerate() {
            self.call(call, at > 0, deltas);
        }
    }

    /// Adds the call of the legacy field `function_call`, which can contain only one call. Some
    /// servers send both forms.
    fn function_call(&mut self, function: Function<'_>, deltas: &mut Deltas) {
        let begun = self.slots.iter().any(|(index, _)| *index == LEGACY_CALL);
        if begun || self.answer.calls() == 0 {
            let call =
                Call { index: Some(LEGACY_CALL), function: Some(function), ..Call::default() };
            self.call(call, false, deltas);
        }
    }

    /// Adds reasoning. Servers that use several fields send the same text in each of them.
    fn reasoning(&mut self, delta: &Delta<'_>, deltas: &mut Deltas) {
        self.reasoning_content |= !delta.reasoning_content.is_empty();
        let names = [&delta.reasoning_content, &delta.reasoning, &delta.reasoning_text];
        if let Some(said) = names.into_iter().find(|text| !text.is_empty()) {
            self.answer.reasoning(said, deltas);
            return;
        }
        for detail in delta.reasoning_details.iter().flatten() {
            let readable = ["text", "summary"].iter().find_map(|name| detail.get(name)?.as_str());
            self.answer.reasoning(readable.unwrap_or_default(), deltas);
        }
    }

    /// Collects the reasoning details, which must be sent back. The pieces of a readable block are
    /// merged.
    fn details(&mut self, details: Vec<Value>) {
        for detail in details {
            let same = |other: &Value, name: &str| other.get(name) == detail.get(name);
            let block =
                self.details.last_mut().filter(|last| same(last, "type") && same(last, "index"));
            let readable = ["text", "summary"]
                .into_iter()
                .find(|name| detail.get(name).is_some_and(Value::is_string));
            match (block.and_then(Value::as_object_mut), readable) {
                (Some(block), Some(readable)) => {
                    let Value::Object(detail) = detail else { continue };
                    for (name, said) in detail {
                        match (block.get_mut(&name), said) {
                            (_, Value::Null) => {}
                            (Some(Value::String(text)), Value::String(more))
                                if name == readable =>
                            {
                                text.push_str(&more);
                            }
                            (_, said) => drop(block.insert(name, said)),
                        }
                    }
                }
                _ => self.details.push(detail),
            }
        }
    }

    fn content(&mut self, content: &Content<'_>, deltas: &mut Deltas) {
        match content {
            Content::Text(text) => self.answer.text(text, deltas),
            Content::Parts(parts) => parts.iter().for_each(|part| self.content_part(part, deltas)),
        }
    }

    fn content_part(&mut self, part: &ContentPart<'_>, deltas: &mut Deltas) {
        match &*part.kind {
            "thinking" => self.thinking(&part.thinking, deltas),
            "reasoning" => self.thinking(&part.summary, deltas),
            "refusal" => self.refusal(&part.refusal, deltas),
            _ => self.answer.text(&part.text, deltas),
        }
    }

    fn thinking(&mut self, content: &Content<'_>, deltas: &mut Deltas) {
        match content {
            Content::Text(text) => self.answer.reasoning(text, deltas),
            Content::Parts(parts) => {
                parts.iter().for_each(|part| self.answer.reasoning(&part.text, deltas));
            }
        }
    }

    fn refusal(&mut self, text: &str, deltas: &mut Deltas) {
        self.refused |= !text.is_empty();
        self.answer.text(text, deltas);
    }

    /// Adds a piece of a call. `follows` is false for the first piece of its list.
    fn call(&mut self, piece: Call<'_>, follows: bool, deltas: &mut Deltas) {
        let function = piece.function.or(piece.custom).unwrap_or_default();
        let arguments =
            [&function.arguments, &function.input].into_iter().find(|text| !text.is_empty());
        let (name, arguments) = (&*function.name, arguments.map_or("", |text| text));
        let known = self.known_call(piece.index, &piece.id, name);
        let number = match known {
            Some(number)
                if self.belongs(
                    number,
                    &piece.id,
                    name,
                    arguments,
                    follows && piece.index.is_none(),
                ) =>
            {
                number
            }
            _ => self.answer.begin_call(),
        };
        self.place(piece.index, number);
        let call = self.answer.call_mut(number);
        // Some servers repeat the complete call at the end.
        if call.is_none_or(|call| call.arguments != arguments || !is_whole(arguments)) {
            self.answer.call(number, &piece.id, name, arguments, deltas);
        }
        if let Some(extra) = piece.extra_content.filter(|extra| !extra.is_null())
            && let Some(known) = self.answer.call_mut(number)
        {
            let opaque = serde_json::json!({"provider": PROVIDER.name, "model": &*self.asked, "extra_content": extra});
            known.opaque = Some(Box::new(opaque));
        }
    }

    /// Returns the call to which a piece refers: by its index, or else by its id, or else the last
    /// call. If a piece without a name does not refer to a call, it continues the last call while
    /// its arguments are incomplete, because some servers give each piece of a call a different
    /// index or id.
    fn known_call(&mut self, index: Option<u64>, id: &str, name: &str) -> Option<usize> {
        let last = self.answer.calls().checked_sub(1);
        let known = match index {
            Some(index) => {
                self.slots.iter().find(|(of, _)| *of == index).map(|(_, number)| *number)
            }
            None if id.is_empty() => return last,
            None => (0..self.answer.calls())
                .rev()
                .find(|at| self.answer.call_mut(*at).is_some_and(|call| call.id == id)),
        };
        // The arguments are parsed only for such a piece. Parsing them for every piece would have
        // quadratic cost.
        known.or_else(|| {
            last.filter(|at| {
                name.is_empty()
                    && self.answer.call_mut(*at).is_some_and(|call| !is_whole(&call.arguments))
            })
        })
    }

    /// Returns true if a piece belongs to the call to which it refers. Otherwise the piece starts
    /// another call: some servers give all calls the same index or id, or neither, and then only a
    /// name marks the start of a call.
    fn belongs(
        &mut self,
        number: usize,
        id: &str,
        name: &str,
        arguments: &str,
        follows: bool,
    ) -> bool {
        let Some(call) = self.answer.call_mut(number) else { return false };
        let other_id = !id.is_empty() && !call.id.is_empty() && call.id != id;
        let same_id = !id.is_empty() && call.id == id;
        let same_call = same_id && call.name == name;
        match &*call.arguments {
            // A piece without a name starts another call only if its id differs and the previous
            // arguments are complete.
            whole if name.is_empty() => !other_id || arguments.is_empty() || !is_whole(whole),
            _ if follows && !same_call => false,
            "" => !other_id && !follows,
            whole if is_whole(whole) => same_call && (arguments.is_empty() || arguments == whole),
            // The arguments are incomplete. Some servers repeat the name in each piece.
            _ => call.name == name || same_id,
        }
    }

    /// Assigns further pieces with this index to this call.
    fn place(&mut self, index: Option<u64>, number: usize) {
        let Some(index) = index else { return };
        match self.slots.iter_mut().find(|(of, _)| *of == index) {
            Some((_, known)) => *known = number,
            None => self.slots.push((index, number)),
        }
    }

    /// Stores the values that are needed to send the reasoning back.
    fn keep_reasoning(&mut self) {
        let opaque = match (std::mem::take(&mut self.details), self.reasoning_content) {
            (details, _) if !details.is_empty() => {
                Some(serde_json::json!({"reasoning_details": details}))
            }
            (_, true) => Some(serde_json::json!({"reasoning_content": true})),
            _ => None,
        };
        self.answer.keep_reasoning(PROVIDER.name, &self.asked, opaque);
    }
}

/// Returns true if a string is complete JSON. An object is parsed only if it ends with a brace.
fn is_whole(arguments: &str) -> bool {
    let text = arguments.trim_ascii();
    (!text.starts_with('{') || text.ends_with('}'))
        && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

/// Converts a finish reason, ignoring case. Some servers use the reasons of Gemini or Anthropic, or
/// the names of the model's tokens. Gemini's compatible endpoint appends its native reason after a
/// colon.
fn stop_reason(reason: &str, calls: bool, refused: bool) -> StopReason {
    let lower = reason.to_ascii_lowercase();
    match lower.split(':').next().unwrap_or_default() {
        "length" | "max_tokens" | "model_length" => StopReason::Length,
        "content_filter"
        | "guardrail_intervened"
        | "content_filtered"
        | "sensitive"
        | "safety"
        | "recitation" => StopReason::ContentFilter,
        "tool_calls" | "function_call" | "tool_use" => StopReason::ToolCalls,
        "stop" | "" | "end" | "eos" | "eos_token" | "end_turn" | "stop_sequence" => {
            match (calls, refused) {
                // Ollama sends `stop` when the model calls tools.
                (true, _) => StopReason::ToolCalls,
                (false, true) => StopReason::Refusal,
                (false, false) => StopReason::Stop,
            }
        }
        _ => StopReason::Other(reason.to_owned()),
    }
}

/// Returns the error for a finish reason that means an incomplete response.
fn incomplete_error(reason: &str, calls: bool) -> Option<ModelError> {
    let kind = match reason.split(':').next().unwrap_or_default() {
        // OpenRouter and Mistral, and Z.ai.
        "error" | "network_error" => ModelErrorKind::Server,
        // DeepSeek.
        "insufficient_system_resource" => ModelErrorKind::Overloaded,
        // The model wrote a call that Gemini's compatible endpoint could not parse. A retry usually
        // succeeds.
        "function_call_filter" if !calls => ModelErrorKind::Server,
        _ => return None,
    };
    Some(
        ModelError::new(kind, format!("the server broke its answer off ({reason})"))
            .with_provider_code(reason),
    )
}

/// Converts the usage. Invalid counts are treated as missing, because the response must not fail
/// for them.
fn usage(raw: &str) -> Usage {
    let mut usage = Usage::default();
    usage.raw = raw_usage(raw);
    if let Ok(wire) = serde_json::from_str::<WireUsage>(raw) {
        let (input, output) = (
            wire.prompt_tokens_details.unwrap_or_default(),
            wire.completion_tokens_details.unwrap_or_default(),
        );
        usage.input_tokens = wire.prompt_tokens.or(wire.input_tokens).unwrap_or_default();
        // Some servers omit the output count. Then it is computed from the total.
        let rest = wire.total_tokens.map(|total| total.saturating_sub(usage.input_tokens));
        usage.output_tokens =
            wire.completion_tokens.or(wire.output_tokens).or(rest).unwrap_or_default();
        usage.cached_tokens = input.cached_tokens.or(wire.prompt_cache_hit_tokens);
        usage.cache_write_tokens = input.cache_write_tokens;
        usage.reasoning_tokens = output.reasoning_tokens;
    }
    usage
}

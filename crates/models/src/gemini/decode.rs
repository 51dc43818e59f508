//! Decodes the bytes of a response into streamed pieces and the complete response.
//!
//! Only a `finishReason` completes a response. More pieces and the usage may follow it, until the
//! end of the body.

use std::sync::Arc;

use agentflow_core::message::{Media, Message, Part, Role};
use agentflow_core::model::{ModelError, ModelEvent, ModelResponse, StopReason, Usage};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::wire::{Answer, Call, Candidate, WirePart, WireUsage};
use super::{MADE_ID, PROVIDER, error_body};
use crate::assembly::{ResponseAssembly, reasoning};
use crate::http::{Decode, Deltas, SseEvent, SseFlow};
use crate::loose::{Loose, bounded, invalid, raw_usage, read, unquoted, unread};

#[derive(Clone, Debug)]
pub(crate) struct GeminiDecoder {
    /// The requested model. Its signatures are sent back only to the same model.
    asked: Arc<str>,
    /// Length of the conversation, for the ids of calls without an id.
    turn: usize,
    answer: ResponseAssembly,
    finish_reason: Option<Box<str>>,
    usage: Option<Box<str>>,
    id: String,
    model: String,
}

impl Decode for GeminiDecoder {
    fn event(&mut self, event: SseEvent<'_>, deltas: &mut Deltas) -> Result<SseFlow, ModelError> {
        if event.name == b"error" {
            return Err(error_body::in_answer(&String::from_utf8_lossy(event.data)));
        }
        match event.data.trim_ascii() {
            // Google sends neither of these, but some proxies do.
            b"[DONE]" => return Ok(SseFlow::End),
            b"" => return Ok(SseFlow::More),
            _ => {}
        }
        let has_candidate = self.pieces(event.data, deltas, "an event of the answer")?;
        Ok(if has_candidate && self.finish_reason.is_some() {
            SseFlow::Finishing
        } else {
            SseFlow::More
        })
    }

    fn document(&mut self, body: &[u8], deltas: &mut Deltas) -> Result<(), ModelError> {
        let is_list = body.trim_ascii_start().starts_with(b"[");
        let has_candidate = self.pieces(body, deltas, "the answer")?;
        // A server that does not support `alt=sse` streams a list. Its end is marked by a finish
        // reason.
        if is_list {
            return Ok(());
        }
        if !has_candidate {
            return Err(invalid("the answer", "it has no candidates; check the base URL", body));
        }
        // A complete document needs no finish reason. Some servers omit it.
        self.finish_reason.get_or_insert_default();
        Ok(())
    }

    fn complete(&mut self) -> Option<ModelResponse> {
        let reason = self.finish_reason.take()?;
        self.answer.keep_reasoning(PROVIDER.name, &self.asked, None);
        for number in 0..self.answer.calls() {
            if let Some(call) =
                self.answer.call_mut(number).filter(|call| call.arguments.is_empty())
            {
                call.arguments.push_str("{}");
            }
        }
        let stop_reason = stop_reason(&reason, self.answer.calls() > 0);
        let message = Message::new(Role::Assistant, std::mem::take(&mut self.answer).into_parts());
        let mut response = ModelResponse::new(message);
        response.stop_reason = stop_reason;
        response.usage = self.usage.take().map(|raw| usage(&raw)).unwrap_or_default();
        response.id = std::mem::take(&mut self.id);
        response.model = std::mem::take(&mut self.model);
        Some(response)
    }
}

impl GeminiDecoder {
    pub(super) fn new(asked: Arc<str>, turn: usize) -> Self {
        Self {
            asked,
            turn,
            answer: ResponseAssembly::default(),
            finish_reason: None,
            usage: None,
            id: String::new(),
            model: String::new(),
        }
    }

    /// Reads one object or a list of objects. Returns true if the first candidate was present.
    fn pieces(&mut self, data: &[u8], deltas: &mut Deltas, what: &str) -> Result<bool, ModelError> {
        if !data.trim_ascii_start().starts_with(b"[") {
            return self.piece(data, deltas, what);
        }
        let pieces: Vec<&RawValue> =
            serde_json::from_slice(data).map_err(|error| unread(what, error, data))?;
        let mut has_candidate = false;
        for piece in pieces {
            has_candidate |= self.piece(piece.get().as_bytes(), deltas, "a piece of the answer")?;
        }
        Ok(has_candidate)
    }

    /// Reads one object. Returns true if the first candidate was present. Other candidates are
    /// ignored.
    fn piece(&mut self, data: &[u8], deltas: &mut Deltas, what: &str) -> Result<bool, ModelError> {
        let mut mended = Vec::new();
        let piece: Answer<'_> =
            read(data, &mut mended).map_err(|error| unread(what, error, data))?;
        if piece.error.is_some() {
            return Err(error_body::in_answer(&String::from_utf8_lossy(data)));
        }
        for (known, said) in
            [(&mut self.id, &piece.response_id), (&mut self.model, &piece.model_version)]
        {
            if known.is_empty() {
                known.push_str(said);
            }
        }
        // The usage is cumulative, so the last object is complete.
        if let Some(usage) = piece.usage_metadata {
            self.usage = Some(usage.get().into());
        }
        if let Some(feedback) =
            piece.prompt_feedback.filter(|feedback| is_said(&feedback.block_reason))
        {
            return Err(error_body::blocked(
                &feedback.block_reason,
                &feedback.block_reason_message,
                data,
            ));
        }
        let mut candidates = piece.candidates.unwrap_or_default().into_iter();
        let Some(candidate) = candidates.find(|candidate| candidate.index.unwrap_or(0) == 0) else {
            return Ok(false);
        };
        self.candidate(candidate, deltas, data)?;
        Ok(true)
    }

    fn candidate(
        &mut self,
        candidate: Candidate<'_>,
        deltas: &mut Deltas,
        data: &[u8],
    ) -> Result<(), ModelError> {
        for part in candidate.content.and_then(|content| content.parts).unwrap_or_default() {
            self.part(part, deltas);
        }
        bounded(self.answer.parts())?;
        if is_said(&candidate.finish_reason) {
            if self.answer.calls() == 0
                && let Some(error) =
                    error_body::unusable(&candidate.finish_reason, &candidate.finish_message)
            {
                return Err(error.with_body(String::from_utf8_lossy(data)));
            }
            self.finish_reason = Some((*candidate.finish_reason).into());
        }
        Ok(())
    }

    fn part(&mut self, part: WirePart<'_>, deltas: &mut Deltas) {
        let WirePart { text, thought, signature, call, inline, file, rest } = part;
        if let Some(call) = call {
            return self.call(&call, &signature, deltas);
        }
        let media = inline.map(|inline| {
            (format!("data:{};base64,{}", &*inline.mime_type, &*inline.data), inline.mime_type)
        });
        let media = media.or_else(|| file.map(|file| (file.file_uri.to_string(), file.mime_type)));
        match (text.filter(|text| !text.is_empty()), media) {
            (Some(text), _) if thought => self.thought(&text, &signature, deltas),
            (Some(text), _) if signature.is_empty() => self.answer.text(&text, deltas),
            (Some(text), _) => {
                self.sign_next(&signature);
                deltas.push(|| ModelEvent::Text(text.to_string()));
                self.answer.part(Part::Text { text: text.to_string() });
            }
            (None, Some((url, mime_type))) => {
                self.sign_next(&signature);
                self.answer.part(Part::Media(Media::new(mime_type.to_string(), url)));
            }
            // An empty text part with a signature, code that Google executed, or an unknown part.
            // It is kept unchanged.
            (None, None) if !signature.is_empty() || !rest.is_empty() => {
                let mut whole = rest;
                if !signature.is_empty() {
                    whole.entry("text").or_insert_with(|| "".into());
                    whole.insert("thoughtSignature".to_owned(), (*signature).into());
                }
                if thought {
                    whole.insert("thought".to_owned(), true.into());
                }
                self.keep(String::new(), json!({"part": whole}));
            }
            (None, None) => {}
        }
    }

    fn thought(&mut self, text: &str, signature: &str, deltas: &mut Deltas) {
        if signature.is_empty() {
            return self.answer.reasoning(text, deltas);
        }
        deltas.push(|| ModelEvent::Reasoning(text.to_owned()));
        self.keep(text.to_owned(), json!({"thoughtSignature": signature}));
    }

    /// Keeps the signature of the next part. Text and files have no field for a signature, so it is
    /// stored in a reasoning part before it.
    fn sign_next(&mut self, signature: &Loose<'_>) {
        if !signature.is_empty() {
            self.keep(String::new(), json!({"next": {"thoughtSignature": &**signature}}));
        }
    }

    fn keep(&mut self, text: String, opaque: Value) {
        let (provider, model) = (PROVIDER.name.to_owned(), self.asked.to_string());
        self.answer.part(Part::Reasoning(reasoning(text, provider, model, Some(opaque))));
    }

    fn call(&mut self, call: &Call<'_>, signature: &str, deltas: &mut Deltas) {
        // Some servers send the object as a string.
        let text = call.args.and_then(|args| unquoted(args.get()));
        let arguments = text.as_deref().or(call.args.map(RawValue::get)).unwrap_or_default();
        // Some servers send the name and the arguments of a call in two pieces, so empty arguments
        // are not final.
        let arguments = if is_empty(arguments) { "" } else { arguments };
        let last = self.answer.calls().checked_sub(1);
        let begun = |answer: &mut ResponseAssembly, at: usize| {
            answer.call_mut(at).is_some_and(|call| call.arguments.is_empty())
        };
        if call.name.is_empty()
            && let Some(last) = last
            && begun(&mut self.answer, last)
        {
            return self.answer.call(last, &call.id, "", arguments, deltas);
        }
        let number = self.answer.begin_call();
        let made = format!("{MADE_ID}{}_{number}", self.turn);
        let id = if call.id.is_empty() { &made } else { &*call.id };
        self.answer.call(number, id, &call.name, arguments, deltas);
        if !signature.is_empty()
            && let Some(known) = self.answer.call_mut(number)
        {
            let opaque = json!({"provider": PROVIDER.name, "model": &*self.asked, "thoughtSignature": signature});
            known.opaque = Some(Box::new(opaque));
        }
    }
}

/// Returns true if a reason is set. The first value of each enumeration, `.._UNSPECIFIED`, has no
/// meaning.
fn is_said(reason: &str) -> bool {
    !reason.is_empty() && !reason.ends_with("_UNSPECIFIED")
}

/// Returns true if the arguments are absent or an empty object.
fn is_empty(arguments: &str) -> bool {
    let inner = arguments.trim().strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    matches!(arguments, "" | "null") || inner.is_some_and(|inner| inner.trim().is_empty())
}

fn stop_reason(reason: &str, calls: bool) -> StopReason {
    // Some proxies use the spelling of other formats, or special finish reasons for function calls.
    match &*reason.to_ascii_uppercase() {
        "STOP" | "" if calls => StopReason::ToolCalls,
        "STOP" | "" => StopReason::Stop,
        "MAX_TOKENS" | "LENGTH" | "CONTINUATION" => StopReason::Length,
        "SAFETY"
        | "RECITATION"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "ESCALATION"
        | "MODEL_ARMOR"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION" => StopReason::ContentFilter,
        _ if calls => StopReason::ToolCalls,
        _ => StopReason::Other(reason.to_owned()),
    }
}

/// Converts the usage. Invalid counts are treated as missing, because the response must not fail
/// for them.
fn usage(raw: &str) -> Usage {
    let mut usage = Usage::default();
    usage.raw = raw_usage(raw);
    if let Ok(wire) = serde_json::from_str::<WireUsage>(raw) {
        let count = Option::unwrap_or_default;
        usage.input_tokens =
            count(wire.prompt_token_count) + count(wire.tool_use_prompt_token_count);
        // Some servers omit the candidates' count. Then it is computed from the total.
        let rest = wire.total_token_count.map(|total| total.saturating_sub(usage.input_tokens));
        usage.output_tokens = match (wire.candidates_token_count, rest) {
            (None, Some(rest)) => rest.max(count(wire.thoughts_token_count)),
            (written, _) => count(written) + count(wire.thoughts_token_count),
        };
        usage.cached_tokens = wire.cached_content_token_count;
        usage.reasoning_tokens = wire.thoughts_token_count;
    }
    usage
}

#[cfg(test)]
mod tests {
    use agentflow_core::model::{ModelError, ModelErrorKind, ModelResponse, StopReason};
    use serde_json::{Value, json};

    use super::GeminiDecoder;
    use crate::http::{Decode, Deltas, SseEvent};

    /// Reads a streamed response. Returns `None` if the stream was cut off.
    fn read(events: &[Value]) -> Result<Option<ModelResponse>, ModelError> {
        let mut decoder = GeminiDecoder::new("m".into(), 1);
        for event in events {
            let data = event.to_string();
            decoder.event(SseEvent { name: b"", data: data.as_bytes() }, &mut Deltas::new(true))?;
        }
        Ok(decoder.complete())
    }

    fn piece(parts: Value, reason: &str) -> Value {
        json!({"candidates": [{"content": {"parts": parts, "role": "model"}, "finishReason": reason}]})
    }

    fn said() -> Value {
        json!([{"text": "So far"}])
    }

    fn call() -> Value {
        json!([{"functionCall": {"name": "f", "args": {}}}])
    }

    #[test]
    fn every_finish_reason_has_its_meaning() {
        let stop = |parts: Value, reason: &str| {
            read(&[piece(parts, reason)]).expect("no error").expect("an end").stop_reason
        };
        assert_eq!(stop(said(), "STOP"), StopReason::Stop);
        assert_eq!(stop(said(), "MAX_TOKENS"), StopReason::Length);
        for reason in [
            "SAFETY",
            "RECITATION",
            "BLOCKLIST",
            "PROHIBITED_CONTENT",
            "SPII",
            "MODEL_ARMOR",
            "IMAGE_SAFETY",
            "IMAGE_PROHIBITED_CONTENT",
            "IMAGE_RECITATION",
        ] {
            assert_eq!(stop(said(), reason), StopReason::ContentFilter, "{reason}");
            // A response may be empty.
            let bare = json!({"candidates": [{"finishReason": reason, "index": 0}]});
            let response = read(&[bare]).expect("no error").expect("an end");
            assert_eq!(
                (response.stop_reason, response.message.parts()),
                (StopReason::ContentFilter, &[][..])
            );
        }
        for reason in ["LANGUAGE", "OTHER", "NO_IMAGE", "TOO_MANY_TOOL_CALLS", "NEW"] {
            assert_eq!(stop(said(), reason), StopReason::Other(reason.to_owned()));
        }
        // A tool call is executed with any finish reason, unless the response was cut off or
        // withheld.
        for (reason, meant) in [
            ("STOP", StopReason::ToolCalls),
            ("FUNCTION_CALL", StopReason::ToolCalls),
            ("MAX_TOKENS", StopReason::Length),
            ("SAFETY", StopReason::ContentFilter),
        ] {
            assert_eq!(stop(call(), reason), meant, "{reason}");
        }
    }

    #[test]
    fn an_end_that_is_not_an_answer_is_an_error() {
        for (reason, kind) in [
            ("MALFORMED_FUNCTION_CALL", ModelErrorKind::Server),
            ("MALFORMED_RESPONSE", ModelErrorKind::Server),
            ("UNEXPECTED_TOOL_CALL", ModelErrorKind::Server),
            ("MISSING_THOUGHT_SIGNATURE", ModelErrorKind::BadRequest),
        ] {
            let mut end = piece(json!([]), reason);
            end["candidates"][0]["finishMessage"] = "print(f())".into();
            let error = read(std::slice::from_ref(&end)).expect_err(reason);
            assert_eq!((error.kind(), error.provider_code()), (kind, Some(reason)));
            assert_eq!(
                error.message(),
                format!("the answer cannot be used ({reason}): print(f())")
            );
            assert_eq!(error.is_retryable(), kind == ModelErrorKind::Server, "{reason}");
            // A readable call is not lost because of an unreadable one.
            let calls = json!({"candidates": [{"content": {"parts": call()}}]});
            let response = read(&[calls, end]).expect("no error").expect("an end");
            assert_eq!(response.stop_reason, StopReason::ToolCalls, "{reason}");
        }
    }

    #[test]
    fn a_prompt_that_is_blocked_is_an_error() {
        let blocked = |feedback: Value| json!({"promptFeedback": feedback, "usageMetadata": {"promptTokenCount": 3}});
        for reason in ["SAFETY", "OTHER", "BLOCKLIST", "PROHIBITED_CONTENT", "IMAGE_SAFETY", "NEW"]
        {
            let answer = blocked(json!({"blockReason": reason, "safetyRatings": []}));
            let streamed = read(std::slice::from_ref(&answer)).expect_err(reason);
            let mut decoder = GeminiDecoder::new("m".into(), 1);
            let whole = decoder
                .document(answer.to_string().as_bytes(), &mut Deltas::new(false))
                .expect_err(reason);
            for error in [streamed, whole] {
                assert_eq!(
                    (error.kind(), error.provider_code()),
                    (ModelErrorKind::ContentFilter, Some(reason))
                );
                assert_eq!(error.message(), format!("the prompt was blocked ({reason})"));
                assert!(!error.is_retryable());
            }
        }
        let error = read(&[blocked(json!({"blockReason": "SAFETY", "blockReasonMessage": "No."}))])
            .expect_err("blocked");
        assert_eq!(error.message(), "the prompt was blocked (SAFETY): No.");
        // Safety ratings without a reason do not block.
        let rated = blocked(json!({"safetyRatings": [{"category": "HARM_CATEGORY_HARASSMENT"}]}));
        let response = read(&[rated, piece(said(), "STOP")]).expect("no error").expect("an end");
        assert_eq!(&*response.text(), "So far");
    }

    #[test]
    fn without_a_finish_reason_there_is_no_end() {
        let more = json!({"candidates": [{"content": {"parts": said()}}]});
        assert_eq!(read(std::slice::from_ref(&more)).expect("no error"), None);
        // The usage may follow the end.
        let usage = json!({"usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 2, "thoughtsTokenCount": 4}});
        let response =
            read(&[more, piece(json!([]), "STOP"), usage]).expect("no error").expect("an end");
        let usage = response.usage;
        assert_eq!(
            (usage.input_tokens, usage.output_tokens, usage.reasoning_tokens),
            (3, 6, Some(4))
        );
    }
}

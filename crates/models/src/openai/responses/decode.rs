//! Decodes the bytes of a response into streamed pieces and the complete response.
//!
//! Only `response.completed`, `response.incomplete` or `response.failed` ends a response.

use std::sync::Arc;

use agentflow_core::message::{Message, Role};
use agentflow_core::model::{ModelError, ModelResponse, StopReason, Usage};

use super::items::{Items, Kind};
use super::wire::{Event, Response, WireUsage};
use crate::http::{Decode, Deltas, SseEvent, SseFlow};
use crate::loose::{bounded, invalid, raw_usage, read, unread};
use crate::openai::error_body;

#[derive(Clone, Debug)]
pub(crate) struct ResponsesDecoder {
    /// The requested model. Its reasoning is sent back only to the same model.
    asked: Arc<str>,
    /// Length of the conversation, for the ids of calls without an id.
    turn: usize,
    items: Items,
    end: Option<End>,
}

#[derive(Clone, Debug)]
struct End {
    /// The reason that the response is incomplete. Empty for a complete response, and `incomplete`
    /// if the server does not give a reason.
    cut: String,
    usage: Option<Box<str>>,
    id: String,
    model: String,
}

impl Decode for ResponsesDecoder {
    fn event(&mut self, event: SseEvent<'_>, deltas: &mut Deltas) -> Result<SseFlow, ModelError> {
        if is_redundant_event(event.name) {
            return Ok(SseFlow::More);
        }
        if event.name == b"error" {
            return Err(error_body::in_answer(&String::from_utf8_lossy(event.data)));
        }
        match event.data.trim_ascii() {
            b"[DONE]" => return Ok(SseFlow::End),
            // Some servers send an empty event as a ping.
            b"" => return Ok(SseFlow::More),
            _ => {}
        }
        let said = |error| unread("an event of the answer", error, event.data);
        let mut mended = Vec::new();
        let read: Event<'_> = read(event.data, &mut mended).map_err(said)?;
        let kind = if read.kind.is_empty() {
            std::str::from_utf8(event.name).unwrap_or_default()
        } else {
            &read.kind
        };
        let (index, id) = (read.output_index, &*read.item_id);
        match kind {
            "response.output_text.delta" => {
                self.items.more(Kind::Message, index, id, &read.delta, deltas);
            }
            "response.refusal.delta" => {
                self.items.refused = true;
                self.items.more(Kind::Message, index, id, &read.delta, deltas);
            }
            "response.output_text.done" => self.items.whole_text(index, id, &read.text, deltas),
            "response.reasoning_summary_text.delta"
            | "response.reasoning_text.delta"
            | "response.reasoning_summary.delta"
            | "response.reasoning.delta" => {
                self.items.more(Kind::Reasoning, index, id, &read.delta, deltas);
            }
            "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta" => {
                self.items.more(Kind::Call, index, id, &read.delta, deltas);
            }
            "response.function_call_arguments.done" => {
                self.items.arguments(index, id, &read.arguments, deltas);
            }
            "response.custom_tool_call_input.done" => {
                self.items.arguments(index, id, &read.input, deltas);
            }
            "response.output_item.added" => {
                if let Some(item) = read.item {
                    self.items.added(index, item, deltas).map_err(said)?;
                }
            }
            "response.output_item.done" => {
                if let Some(item) = read.item {
                    self.items.done(index, item, deltas).map_err(said)?;
                }
            }
            "response.completed"
            | "response.done"
            | "response.incomplete"
            | "response.failed"
            | "response.cancelled" => {
                // Some servers omit the object around the fields of the response.
                let raw = read.response.map_or(event.data, |raw| raw.get().as_bytes());
                self.end(raw, kind, deltas)?;
                return Ok(SseFlow::End);
            }
            "error" | "response.error" => {
                return Err(error_body::in_answer(&String::from_utf8_lossy(event.data)));
            }
            _ => {
                if let Some(error) = read.error {
                    return Err(error_body::in_answer(error.get()));
                }
            }
        }
        bounded(self.items.len())?;
        Ok(SseFlow::More)
    }

    fn document(&mut self, body: &[u8], deltas: &mut Deltas) -> Result<(), ModelError> {
        self.end(body, "", deltas)
    }

    fn complete(&mut self) -> Option<ModelResponse> {
        let End { cut, usage: raw, id, model } = self.end.take()?;
        let items = std::mem::take(&mut self.items);
        let stop_reason = match cut.as_str() {
            "" if items.calls() > 0 => StopReason::ToolCalls,
            "" if items.refused => StopReason::Refusal,
            "" => StopReason::Stop,
            "max_output_tokens" | "max_tokens" => StopReason::Length,
            "content_filter" => StopReason::ContentFilter,
            _ => StopReason::Other(cut),
        };
        let message = Message::new(Role::Assistant, items.into_parts(&self.asked, self.turn));
        let mut response = ModelResponse::new(message);
        response.stop_reason = stop_reason;
        response.usage = raw.map(|raw| usage(&raw)).unwrap_or_default();
        response.id = id;
        response.model = model;
        Some(response)
    }
}

impl ResponsesDecoder {
    pub(super) fn new(asked: Arc<str>, turn: usize) -> Self {
        Self { asked, turn, items: Items::default(), end: None }
    }

    /// Reads the complete response, at the end of a stream or as a document. `event` is empty for a
    /// document.
    fn end(&mut self, body: &[u8], event: &str, deltas: &mut Deltas) -> Result<(), ModelError> {
        let what = if event.is_empty() { "the answer" } else { "the last event of the answer" };
        let said = |error| unread(what, error, body);
        let mut mended = Vec::new();
        let read: Response<'_> = read(body, &mut mended).map_err(said)?;
        if let Some(error) = read.error {
            return Err(error_body::in_answer(error.get()));
        }
        let status = if read.status.is_empty() {
            event.trim_start_matches("response.")
        } else {
            &read.status
        };
        let reason = read.incomplete_details.as_ref().map_or("", |details| &details.reason);
        let cut = match status {
            "completed" | "done" => reason,
            "incomplete" if reason.is_empty() => "incomplete",
            "incomplete" => reason,
            "failed" => {
                return Err(error_body::in_answer(
                    r#"{"message": "the model failed and the server does not say why"}"#,
                ));
            }
            "" if read.output.is_some() || !read.output_text.is_empty() => "",
            "" => return Err(invalid(what, "it has no output; check the base URL", body)),
            "in_progress" | "queued" => {
                return Err(invalid(
                    what,
                    "it is not there yet; do not set `background` by `ModelSettings::extra`",
                    body,
                ));
            }
            other => other,
        };
        // Some servers omit the output in the last event. Then the earlier items are kept. If both
        // are present and differ, the last event is correct.
        let output = read.output.unwrap_or_default();
        bounded(output.len())?;
        self.items.all(&output, deltas).map_err(said)?;
        if !self.items.has_text() {
            self.items.whole_text(None, "", &read.output_text, deltas);
        }
        bounded(self.items.len())?;
        self.end = Some(End {
            cut: cut.to_owned(),
            usage: read.usage.map(|raw| raw.get().into()),
            id: read.id.to_string(),
            model: read.model.to_string(),
        });
        Ok(())
    }
}

/// Returns true for events that only repeat others. The first of them repeat the whole request, so
/// they are not parsed.
fn is_redundant_event(name: &[u8]) -> bool {
    matches!(
        name,
        b"response.created"
            | b"response.in_progress"
            | b"response.queued"
            | b"response.content_part.added"
            | b"response.content_part.done"
            | b"response.output_text.annotation.added"
            | b"response.reasoning_summary_part.added"
            | b"response.reasoning_summary_part.done"
            | b"response.reasoning_summary_text.done"
            | b"response.reasoning_text.done"
            | b"response.refusal.done"
    )
}

/// Converts the usage. Invalid counts are treated as missing, because the response must not fail
/// for them.
fn usage(raw: &str) -> Usage {
    let mut usage = Usage::default();
    usage.raw = raw_usage(raw);
    if let Ok(wire) = serde_json::from_str::<WireUsage>(raw) {
        let (input, output) = (
            wire.input_tokens_details.unwrap_or_default(),
            wire.output_tokens_details.unwrap_or_default(),
        );
        usage.input_tokens = wire.input_tokens.or(wire.prompt_tokens).unwrap_or_default();
        usage.output_tokens = wire.output_tokens.or(wire.completion_tokens).unwrap_or_default();
        usage.cached_tokens = input.cached_tokens;
        usage.cache_write_tokens = input.cache_write_tokens;
        usage.reasoning_tokens = output.reasoning_tokens;
    }
    usage
}

#[cfg(test)]
mod tests {
    use agentflow_core::message::Part;
    use agentflow_core::model::{
        ModelError, ModelErrorKind, ModelEvent, ModelResponse, StopReason,
    };
    use serde_json::{Value, json};

    use super::ResponsesDecoder;
    use crate::http::{Decode, Deltas, SseEvent, SseFlow};

    fn feed(events: &[Value]) -> (Vec<ModelEvent>, Result<Option<ModelResponse>, ModelError>) {
        let mut decoder = ResponsesDecoder::new("m".into(), 3);
        let mut deltas = Deltas::new(true);
        for event in events {
            let data = event.to_string();
            match decoder.event(SseEvent { name: b"", data: data.as_bytes() }, &mut deltas) {
                Ok(SseFlow::More | SseFlow::Finishing) => {}
                Ok(SseFlow::End) => break,
                Err(error) => return (deltas.drain(), Err(error)),
            }
        }
        (deltas.drain(), Ok(decoder.complete()))
    }

    fn whole(events: &[Value]) -> (Vec<ModelEvent>, ModelResponse) {
        let (deltas, ended) = feed(events);
        (deltas, ended.expect("no error").expect("an end"))
    }

    fn completed(output: Value) -> Value {
        json!({"type": "response.completed", "response": {"status": "completed", "output": output}})
    }

    fn texts(events: &[ModelEvent]) -> String {
        events
            .iter()
            .map(|event| if let ModelEvent::Text(text) = event { text.as_str() } else { "" })
            .collect()
    }

    #[test]
    fn only_the_end_ends() {
        let delta = json!({"type": "response.output_text.delta", "output_index": 0, "delta": "Hi"});
        let (deltas, ended) = feed(std::slice::from_ref(&delta));
        assert_eq!((texts(&deltas).as_str(), ended.expect("no error")), ("Hi", None));
        let (_, response) = whole(&[delta, completed(json!([]))]);
        assert_eq!((&*response.text(), &response.stop_reason), ("Hi", &StopReason::Stop));
    }

    #[test]
    fn a_text_is_handed_on_once_whoever_says_it() {
        let message = json!({"type": "message", "id": "a", "content": [{"type": "output_text", "text": "Hello"}]});
        let delta = |text| json!({"type": "response.output_text.delta", "item_id": "a", "output_index": 0, "delta": text});
        let done = json!({"type": "response.output_item.done", "output_index": 0, "item": message});
        let end = completed(json!([message]));
        for events in [
            vec![delta("Hel"), delta("lo"), done.clone(), end.clone()],
            vec![delta("Hel"), done.clone(), end.clone()],
            vec![delta("Hel"), end.clone()],
            vec![done.clone(), end.clone()],
            vec![done, completed(json!([]))],
            vec![end],
        ] {
            let (deltas, response) = whole(&events);
            assert_eq!(
                (texts(&deltas).as_str(), &*response.text()),
                ("Hello", "Hello"),
                "{events:?}"
            );
            assert_eq!(response.message.parts().len(), 1, "{events:?}");
        }
    }

    #[test]
    fn items_keep_their_place_and_their_kind() {
        let reasoning = json!({"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "Hm."}],
            "encrypted_content": "gAAA", "status": null});
        let search = json!({"type": "web_search_call", "id": "ws", "action": {"query": "x"}, "content": "odd"});
        let output = json!([
            reasoning,
            search,
            {"type": "message", "id": "msg", "phase": "commentary", "content": [{"type": "output_text", "text": "Look:"}]},
            {"type": "function_call", "id": "fc", "call_id": "c1", "name": "add", "arguments": "{}", "namespace": "n"},
            {"type": "custom_tool_call", "id": "ctc", "call_id": "c2", "name": "run", "input": "1+1"},
        ]);
        let (deltas, response) = whole(&[completed(output)]);
        assert_eq!(response.stop_reason, StopReason::ToolCalls);
        let parts: Vec<Value> = response
            .message
            .parts()
            .iter()
            .map(|part| serde_json::to_value(part).expect("JSON"))
            .collect();
        let of = |text: &str, opaque: &Value| {
            json!({"type": "reasoning", "text": text, "provider": "openai-responses",
            "model": "m", "opaque": opaque})
        };
        assert_eq!(parts[0], of("Hm.", &reasoning));
        assert_eq!(parts[1], of("", &search));
        assert_eq!(parts[2], of("", &json!({"type": "message", "phase": "commentary"})));
        assert_eq!(parts[3], json!({"type": "text", "text": "Look:"}));
        assert_eq!(
            parts[4]["opaque"],
            json!({"provider": "openai-responses", "item": {"namespace": "n"}})
        );
        assert_eq!((&parts[5]["id"], &parts[5]["arguments"]), (&json!("c2"), &json!("1+1")));
        assert_eq!(parts[5]["opaque"]["item"], json!({"type": "custom_tool_call"}));
        assert!(deltas.contains(&ModelEvent::Reasoning("Hm.".into())), "{deltas:?}");
    }

    #[test]
    fn pieces_that_come_mixed_are_kept_apart() {
        let call = |index: u64, id: &str| {
            json!({"type": "response.output_item.added", "output_index": index,
                "item": {"type": "function_call", "call_id": id, "name": "f", "arguments": ""}})
        };
        let more = |index: u64, text: &str| json!({"type": "response.function_call_arguments.delta", "output_index": index, "item_id": "changes", "delta": text});
        let (deltas, response) = whole(&[
            call(1, "b"),
            call(0, "a"),
            more(1, "[1"),
            more(0, "[0"),
            more(1, "]"),
            more(0, "]"),
            completed(json!([])),
        ]);
        let calls: Vec<_> =
            response.tool_calls().map(|call| (&*call.id, &*call.arguments)).collect();
        assert_eq!(calls, [("a", "[0]"), ("b", "[1]")]);
        let said: String = deltas
            .iter()
            .filter_map(|event| match event {
                ModelEvent::ToolCall(delta) if delta.index == 0 => Some(delta.arguments.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(said, "[1]", "the first call that began");
    }

    #[test]
    fn a_server_that_changes_ids_or_counts_nothing_is_understood() {
        let item = |id: &str, call: &str, arguments: &str| {
            json!({"type": "function_call", "id": id, "call_id": call, "name": "f",
            "arguments": arguments})
        };
        let added = |id: &str, call: &str| json!({"type": "response.output_item.added", "output_index": 0, "item": item(id, call, "")});
        let done = |id: &str, call: &str| json!({"type": "response.output_item.done", "output_index": 0, "item": item(id, call, "{}")});
        // Every item has the index 0.
        let (_, response) = whole(&[
            added("1", "a"),
            done("1", "a"),
            added("2", "b"),
            done("2", "b"),
            completed(json!([])),
        ]);
        assert_eq!(response.tool_calls().map(|call| &*call.id).collect::<Vec<_>>(), ["a", "b"]);
        // The id in the end event differs.
        let (_, response) =
            whole(&[added("1", "a"), done("2", "a"), completed(json!([item("3", "a", "{}")]))]);
        assert_eq!(response.tool_calls().count(), 1);
        // Without index, id and call id.
        let delta = json!({"type": "response.function_call_arguments.delta", "delta": "{}"});
        let (_, response) = whole(&[delta, completed(json!([]))]);
        assert_eq!(response.tool_calls().map(|call| &*call.id).collect::<Vec<_>>(), ["call_3_0"]);
    }

    #[test]
    fn why_it_stopped() {
        let end = |kind: &str, response: Value| {
            whole(&[json!({"type": kind, "response": response})]).1.stop_reason
        };
        let cut = |reason: Value| {
            end(
                "response.incomplete",
                json!({"status": "incomplete", "incomplete_details": reason}),
            )
        };
        assert_eq!(cut(json!({"reason": "max_output_tokens"})), StopReason::Length);
        assert_eq!(cut(json!({"reason": "content_filter"})), StopReason::ContentFilter);
        assert_eq!(cut(json!({"reason": "new"})), StopReason::Other("new".into()));
        assert_eq!(cut(Value::Null), StopReason::Other("incomplete".into()));
        assert_eq!(end("response.completed", json!({})), StopReason::Stop);
        let refusal =
            json!([{"type": "message", "content": [{"type": "refusal", "refusal": "No."}]}]);
        let (_, response) = whole(&[completed(refusal)]);
        assert_eq!((&*response.text(), &response.stop_reason), ("No.", &StopReason::Refusal));
        let (_, response) = whole(&[
            json!({"type": "response.refusal.delta", "output_index": 0, "delta": "No."}),
            completed(json!([])),
        ]);
        assert_eq!((&*response.text(), &response.stop_reason), ("No.", &StopReason::Refusal));
    }

    #[test]
    fn errors_in_the_answer() {
        let kind = |event: Value| feed(&[event]).1.expect_err("an error").kind();
        let failed = |error: Value| json!({"type": "response.failed", "response": {"status": "failed", "error": error}});
        assert_eq!(
            kind(failed(json!({"code": "rate_limit_exceeded", "message": "x"}))),
            ModelErrorKind::RateLimited
        );
        assert_eq!(
            kind(failed(json!({"code": "server_error", "message": "x"}))),
            ModelErrorKind::Server
        );
        assert_eq!(kind(failed(Value::Null)), ModelErrorKind::Server);
        assert_eq!(
            kind(json!({"type": "error", "code": "context_length_exceeded"})),
            ModelErrorKind::ContextOverflow
        );
        assert_eq!(
            kind(json!({"error": {"message": "x", "code": 503}})),
            ModelErrorKind::Overloaded
        );
        assert_eq!(
            kind(json!({"type": "response.output_item.done", "item": 3})),
            ModelErrorKind::InvalidResponse
        );
    }

    #[test]
    fn what_is_not_known_is_skipped() {
        let (deltas, response) = whole(&[
            json!({"type": "response.something.new", "delta": {"a": 1}, "item": [3]}),
            json!({"type": "keepalive", "sequence_number": 4}),
            json!({"type": "response.mcp_call_arguments.delta", "output_index": 0, "delta": "{}"}),
            completed(json!([{"type": "new_item", "arguments": {"x": 1}}])),
        ]);
        assert!(deltas.is_empty(), "{deltas:?}");
        assert!(matches!(response.message.parts(), [Part::Reasoning(_)]), "{response:?}");
    }

    #[test]
    fn a_document_must_be_an_answer() {
        let read = |document: Value| {
            let mut decoder = ResponsesDecoder::new("m".into(), 0);
            let read = decoder.document(document.to_string().as_bytes(), &mut Deltas::new(false));
            read.map(|()| decoder.complete().expect("an answer"))
        };
        let kind = |document: Value| read(document).expect_err("no answer").kind();
        assert_eq!(kind(json!({})), ModelErrorKind::InvalidResponse);
        assert_eq!(
            kind(json!({"status": "queued", "output": []})),
            ModelErrorKind::InvalidResponse
        );
        assert_eq!(
            kind(json!({"error": {"message": "x", "type": "server_error"}})),
            ModelErrorKind::Server
        );
        let usage = json!({"input_tokens": 9, "output_tokens": 7, "input_tokens_details": {"cached_tokens": 4},
            "output_tokens_details": {"reasoning_tokens": 2}});
        let response =
            read(json!({"id": "r", "model": "m-1", "output": [], "usage": usage, "error": null}))
                .expect("one");
        let got = &response.usage;
        assert_eq!(
            (got.input_tokens, got.output_tokens, got.cached_tokens, got.reasoning_tokens),
            (9, 7, Some(4), Some(2))
        );
        assert_eq!(
            (response.id.as_str(), response.model.as_str(), got.raw.as_deref()),
            ("r", "m-1", Some(&usage))
        );
    }
}

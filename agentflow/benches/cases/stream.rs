//! Benchmark case: a streamed answer of one megabyte with reasoning, text and a tool call, in the
//! documented events of each provider.
//!
//! The hand-written version has the body in memory and parses each `data:` line into a
//! `serde_json::Value`. Agentflow receives the same bytes from a server on loopback and forwards
//! every piece, so its time includes the HTTP client.

use std::fmt::Write;
use std::sync::Arc;

use agentflow::model::{ModelEvent, ModelRequest, Secret};
use agentflow::{Model, serde_json};
use futures_util::StreamExt;
use serde_json::{Value, json};

use super::{Case, server};

const TARGET: f64 = 2.0;
/// Approximate total size of a stream in bytes.
const SIZE: usize = 1_000_000;
/// The result is shown per 1,000 bytes.
const UNITS: u32 = 1000;

/// The kind of content that an event adds.
#[derive(Clone, Copy)]
enum Kind {
    Reasoning,
    Text,
    Call,
}

/// The event format of one provider.
struct Shape {
    /// `true` if events have a name in addition to their data.
    named: bool,
    /// Creates the events before the pieces of a kind; for `None`, the start of the stream.
    begin: fn(Option<Kind>) -> Vec<Value>,
    /// Creates one piece. The number counts events.
    piece: fn(Kind, &str, u64) -> Value,
    /// Creates the events after the pieces of a kind; for `None`, the end of the stream. The text
    /// is the complete text.
    end: fn(Option<Kind>, &str) -> Vec<Value>,
    last: &'static str,
}

pub(crate) fn cases() -> Vec<Case> {
    let key = || Secret::new("key");
    vec![
        case("openai-chat", &CHAT, |url| {
            let builder = agentflow::model::openai_chat::OpenAiChat::builder("bench")
                .base_url(url)
                .api_key(key());
            Arc::new(builder.build().expect("the address is one"))
        }),
        case("openai-responses", &RESPONSES, |url| {
            let builder = agentflow::model::openai_responses::OpenAiResponses::builder("bench")
                .base_url(url)
                .api_key(key());
            Arc::new(builder.build().expect("the address is one"))
        }),
        case("anthropic", &ANTHROPIC, |url| {
            let builder = agentflow::model::anthropic::Anthropic::builder("bench")
                .base_url(url)
                .api_key(key());
            Arc::new(builder.build().expect("the address is one"))
        }),
        case("gemini", &GEMINI, |url| {
            let builder =
                agentflow::model::gemini::Gemini::builder("bench").base_url(url).api_key(key());
            Arc::new(builder.build().expect("the address is one"))
        }),
    ]
}

fn case(name: &str, shape: &Shape, model: impl Fn(String) -> Arc<dyn Model>) -> Case {
    let body: Arc<str> = body(shape).into();
    let served = Arc::clone(&body);
    let model = model(server::serve("text/event-stream", move || Arc::clone(&served)));
    let tokio =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    Case {
        name: format!("stream of 1 MB, {name}"),
        units: UNITS,
        target: TARGET,
        floor: Box::new(move || by_hand(&body)),
        ours: Box::new(move || tokio.block_on(handed_on(&*model))),
    }
}

fn by_hand(body: &str) -> usize {
    let data = body.lines().filter_map(|line| line.strip_prefix("data: "));
    let values = data.filter(|data| *data != "[DONE]").map(|data| {
        let value: Value = serde_json::from_str(data).expect("the data is JSON");
        value.as_object().map_or(0, serde_json::Map::len)
    });
    values.sum()
}

async fn handed_on(model: &dyn Model) -> usize {
    let mut stream = model.stream(ModelRequest::new("Go on.").streamed());
    let mut pieces = 0;
    while let Some(event) = stream.next().await {
        match event.expect("the answer is whole") {
            ModelEvent::Completed(answer) => return pieces + answer.text().len(),
            _ => pieces += 1,
        }
    }
    unreachable!("the answer has an end");
}

/// Creates a stream: a quarter reasoning, half text, a quarter arguments of a call.
fn body(shape: &Shape) -> String {
    let mut body = String::new();
    let mut number = 0;
    let put = |body: &mut String, events: Vec<Value>| {
        for event in events {
            if shape.named {
                let name = event["type"].as_str().expect("a named event has a type");
                writeln!(body, "event: {name}").expect("a text takes text");
            }
            write!(body, "data: {event}\n\n").expect("a text takes text");
        }
    };
    put(&mut body, (shape.begin)(None));
    let mut text = String::new();
    for (kind, until) in
        [(Kind::Reasoning, SIZE / 4), (Kind::Text, SIZE / 4 * 3), (Kind::Call, SIZE)]
    {
        put(&mut body, (shape.begin)(Some(kind)));
        let mut said = String::new();
        while body.len() < until {
            number += 1;
            let piece = piece(number);
            said.push_str(&piece);
            put(&mut body, vec![(shape.piece)(kind, &piece, number)]);
        }
        put(&mut body, (shape.end)(Some(kind), &said));
        if matches!(kind, Kind::Text) {
            text = said;
        }
    }
    put(&mut body, (shape.end)(None, &text));
    body.push_str(shape.last);
    body
}

/// Returns a typical piece: mostly a word, sometimes with characters that need escapes or are not
/// ASCII.
fn piece(number: u64) -> String {
    const WORDS: [&str; 8] = [" the", " number", " of", " orders", " is", " late", ",", " and"];
    match number % 16 {
        3 => ".\n\n".to_owned(),
        7 => " \"quoted\"".to_owned(),
        11 => " für".to_owned(),
        at => WORDS[at as usize % WORDS.len()].to_owned(),
    }
}

const CHAT: Shape = Shape {
    named: false,
    begin: |kind| match kind {
        Some(Kind::Call) => vec![chat(
            json!({"tool_calls": [{"index": 0, "id": "call_1", "type": "function",
                "function": {"name": "write", "arguments": ""}}]}),
            Value::Null,
        )],
        Some(_) => Vec::new(),
        None => vec![chat(json!({"role": "assistant", "content": ""}), Value::Null)],
    },
    piece: |kind, text, _| {
        let delta = match kind {
            Kind::Reasoning => json!({"reasoning_content": text}),
            Kind::Text => json!({"content": text}),
            Kind::Call => json!({"tool_calls": [{"index": 0, "function": {"arguments": text}}]}),
        };
        chat(delta, Value::Null)
    },
    end: |kind, _| match kind {
        Some(_) => Vec::new(),
        None => {
            let mut usage = chat(json!({}), Value::Null);
            usage["choices"] = json!([]);
            usage["usage"] =
                json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15});
            vec![chat(json!({}), "tool_calls".into()), usage]
        }
    },
    last: "data: [DONE]\n\n",
};

fn chat(delta: Value, reason: Value) -> Value {
    json!({
        "id": "chatcmpl-0123456789", "object": "chat.completion.chunk", "created": 1_766_084_439, "model": "bench",
        "service_tier": "default", "system_fingerprint": "fp_0123456789", "usage": null,
        "choices": [{"index": 0, "delta": delta, "logprobs": null, "finish_reason": reason}],
        "obfuscation": "x1y2z3",
    })
}

const RESPONSES: Shape = Shape {
    named: true,
    begin: |kind| match kind {
        None => vec![json!({"type": "response.created", "sequence_number": 0,
            "response": {"id": "resp_1", "status": "in_progress", "model": "bench", "output": []}})],
        Some(kind) => {
            vec![json!({"type": "response.output_item.added", "output_index": place(kind),
            "sequence_number": 1, "item": item(kind, "")})]
        }
    },
    piece: |kind, text, number| {
        let event = match kind {
            Kind::Reasoning => "response.reasoning_summary_text.delta",
            Kind::Text => "response.output_text.delta",
            Kind::Call => "response.function_call_arguments.delta",
        };
        json!({
            "type": event, "item_id": "item_0123456789abcdef0123456789abcdef", "output_index": place(kind),
            "content_index": 0, "delta": text, "logprobs": [], "obfuscation": "x1y2z3", "sequence_number": number,
        })
    },
    end: |kind, text| match kind {
        Some(Kind::Text) => vec![
            json!({"type": "response.output_text.done", "item_id": "item_0123456789abcdef0123456789abcdef",
                "output_index": 1, "content_index": 0, "text": text, "logprobs": [], "sequence_number": 2}),
            json!({"type": "response.output_item.done", "output_index": 1, "sequence_number": 2,
                "item": item(Kind::Text, text)}),
        ],
        Some(kind) => {
            vec![json!({"type": "response.output_item.done", "output_index": place(kind),
            "sequence_number": 2, "item": item(kind, text)})]
        }
        None => vec![json!({"type": "response.completed", "sequence_number": 3, "response": {
            "id": "resp_1", "status": "completed", "model": "bench", "output": [item(Kind::Text, text)],
            "usage": {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15},
        }})],
    },
    last: "",
};

fn place(kind: Kind) -> u64 {
    match kind {
        Kind::Reasoning => 0,
        Kind::Text => 1,
        Kind::Call => 2,
    }
}

fn item(kind: Kind, text: &str) -> Value {
    let id = format!("item_{}", place(kind));
    match kind {
        Kind::Reasoning => json!({"id": id, "type": "reasoning", "encrypted_content": "gAAAAABp",
            "summary": [{"type": "summary_text", "text": text}]}),
        Kind::Text => {
            json!({"id": id, "type": "message", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}]})
        }
        Kind::Call => {
            json!({"id": id, "type": "function_call", "call_id": "call_1", "name": "write",
            "arguments": text, "status": "completed"})
        }
    }
}

const ANTHROPIC: Shape = Shape {
    named: true,
    begin: |kind| match kind {
        None => vec![json!({"type": "message_start", "message": {
            "id": "msg_1", "type": "message", "role": "assistant", "model": "bench", "content": [],
            "stop_reason": null, "stop_sequence": null, "usage": {"input_tokens": 10, "output_tokens": 1},
        }})],
        Some(kind) => {
            let block = match kind {
                Kind::Reasoning => json!({"type": "thinking", "thinking": "", "signature": ""}),
                Kind::Text => json!({"type": "text", "text": ""}),
                Kind::Call => {
                    json!({"type": "tool_use", "id": "toolu_1", "name": "write", "input": {}})
                }
            };
            vec![
                json!({"type": "content_block_start", "index": place(kind), "content_block": block}),
            ]
        }
    },
    piece: |kind, text, _| {
        let delta = match kind {
            Kind::Reasoning => json!({"type": "thinking_delta", "thinking": text}),
            Kind::Text => json!({"type": "text_delta", "text": text}),
            Kind::Call => json!({"type": "input_json_delta", "partial_json": text}),
        };
        json!({"type": "content_block_delta", "index": place(kind), "delta": delta})
    },
    end: |kind, _| match kind {
        Some(kind) => vec![json!({"type": "content_block_stop", "index": place(kind)})],
        None => vec![
            json!({"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": null},
                "usage": {"output_tokens": 5}}),
            json!({"type": "message_stop"}),
        ],
    },
    last: "",
};

const GEMINI: Shape = Shape {
    named: false,
    begin: |_| Vec::new(),
    piece: |kind, text, number| {
        let part = match kind {
            Kind::Reasoning => json!({"text": text, "thought": true}),
            Kind::Text => json!({"text": text}),
            // This provider sends each call in one piece.
            Kind::Call => {
                json!({"functionCall": {"name": "write", "args": {"text": text, "number": number}}})
            }
        };
        gemini(json!([part]), Value::Null)
    },
    end: |kind, _| match kind {
        Some(_) => Vec::new(),
        None => vec![gemini(json!([{"text": ""}]), "STOP".into())],
    },
    last: "",
};

fn gemini(parts: Value, reason: Value) -> Value {
    let mut candidate = json!({"content": {"parts": parts, "role": "model"}, "index": 0});
    if !reason.is_null() {
        candidate["finishReason"] = reason;
    }
    json!({
        "candidates": [candidate],
        "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15,
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 10}], "thoughtsTokenCount": 3},
        "modelVersion": "bench", "responseId": "0123456789abcdef",
    })
}

//! Adapters yield each delta before the server sends more. The server sends its first delta byte by
//! byte, and the rest only after the test has received it. An adapter that waits for more data
//! hangs.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use agentflow::event::{EventKind, ModelDelta};
use agentflow::model::anthropic::Anthropic;
use agentflow::model::gemini::Gemini;
use agentflow::model::openai_chat::OpenAiChat;
use agentflow::model::openai_responses::OpenAiResponses;
use agentflow::model::{ModelEvent, ModelRequest, Secret};
use agentflow::{Agent, Model};
use agentflow_testing::within;
use futures_util::StreamExt;

/// Time limit for a delta that must arrive at once. It only determines how long a failing test
/// takes.
const HANGS: Duration = Duration::from_secs(60);

/// An answer: the events up to the first delta, the later events, and the kind of the first delta.
struct Answer {
    format: &'static str,
    first: &'static [&'static str],
    rest: &'static [&'static str],
    piece: Piece,
}

/// Kind of the first delta.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece {
    Text,
    Reasoning,
    Call,
}

const ANTHROPIC: [&str; 2] = [
    r#"{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"usage":{"input_tokens":3,"output_tokens":1}}}"#,
    r#"{"type":"ping"}"#,
];
const ANTHROPIC_END: [&str; 3] = [
    r#"{"type":"content_block_stop","index":0}"#,
    r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":4}}"#,
    r#"{"type":"message_stop"}"#,
];
const CHAT_END: [&str; 2] = [
    r#"{"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
    "[DONE]",
];
const RESPONSES: &str =
    r#"{"type":"response.created","response":{"id":"r","status":"in_progress","output":[]}}"#;
const RESPONSES_END: &str =
    r#"{"type":"response.completed","response":{"id":"r","model":"m","status":"completed"}}"#;

const ANSWERS: [Answer; 12] = [
    Answer {
        format: "openai-chat",
        first: &[
            r#"{"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#,
            r#"{"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"Hé"}}]}"#,
        ],
        rest: &[
            r#"{"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":" there"}}]}"#,
            CHAT_END[0],
            CHAT_END[1],
        ],
        piece: Piece::Text,
    },
    Answer {
        format: "openai-chat",
        first: &[r#"{"id":"c","choices":[{"index":0,"delta":{"reasoning_content":"Hm"}}]}"#],
        rest: &[
            r#"{"id":"c","choices":[{"index":0,"delta":{"content":"Hi"}}]}"#,
            CHAT_END[0],
            CHAT_END[1],
        ],
        piece: Piece::Reasoning,
    },
    Answer {
        format: "openai-chat",
        first: &[
            r#"{"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}]}}]}"#,
        ],
        rest: &[
            r#"{"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}}]}"#,
            r#"{"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#,
            CHAT_END[1],
        ],
        piece: Piece::Call,
    },
    Answer {
        format: "openai-responses",
        first: &[
            RESPONSES,
            r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"message","id":"i","role":"assistant","content":[]}}"#,
            r#"{"type":"response.output_text.delta","output_index":0,"item_id":"i","content_index":0,"delta":"Hé"}"#,
        ],
        rest: &[
            r#"{"type":"response.output_text.delta","output_index":0,"item_id":"i","content_index":0,"delta":" there"}"#,
            RESPONSES_END,
        ],
        piece: Piece::Text,
    },
    Answer {
        format: "openai-responses",
        first: &[
            RESPONSES,
            r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"reasoning","id":"i","summary":[]}}"#,
            r#"{"type":"response.reasoning_summary_text.delta","output_index":0,"item_id":"i","summary_index":0,"delta":"Hm"}"#,
        ],
        rest: &[
            r#"{"type":"response.output_text.delta","output_index":1,"item_id":"j","content_index":0,"delta":"Hi"}"#,
            RESPONSES_END,
        ],
        piece: Piece::Reasoning,
    },
    Answer {
        format: "openai-responses",
        first: &[
            RESPONSES,
            r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","id":"i","call_id":"a","name":"f","arguments":""}}"#,
        ],
        rest: &[
            r#"{"type":"response.function_call_arguments.delta","output_index":0,"item_id":"i","delta":"{}"}"#,
            RESPONSES_END,
        ],
        piece: Piece::Call,
    },
    Answer {
        format: "anthropic",
        first: &[
            ANTHROPIC[0],
            ANTHROPIC[1],
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hé"}}"#,
        ],
        rest: &[
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" there"}}"#,
            ANTHROPIC_END[0],
            ANTHROPIC_END[1],
            ANTHROPIC_END[2],
        ],
        piece: Piece::Text,
    },
    Answer {
        format: "anthropic",
        first: &[
            ANTHROPIC[0],
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hm"}}"#,
        ],
        rest: &[
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"s"}}"#,
            ANTHROPIC_END[0],
            r#"{"type":"content_block_start","index":1,"content_block":{"type":"text","text":"Hi"}}"#,
            ANTHROPIC_END[1],
            ANTHROPIC_END[2],
        ],
        piece: Piece::Reasoning,
    },
    Answer {
        format: "anthropic",
        first: &[
            ANTHROPIC[0],
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"f","input":{}}}"#,
        ],
        rest: &[
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{}"}}"#,
            ANTHROPIC_END[0],
            r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":4}}"#,
            ANTHROPIC_END[2],
        ],
        piece: Piece::Call,
    },
    Answer {
        format: "gemini",
        first: &[
            r#"{"candidates":[{"content":{"parts":[{"text":"Hé"}],"role":"model"}}],"modelVersion":"m"}"#,
        ],
        rest: &[
            r#"{"candidates":[{"content":{"parts":[{"text":" there"}],"role":"model"},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":4}}"#,
        ],
        piece: Piece::Text,
    },
    Answer {
        format: "gemini",
        first: &[
            r#"{"candidates":[{"content":{"parts":[{"text":"Hm","thought":true}],"role":"model"}}]}"#,
        ],
        rest: &[
            r#"{"candidates":[{"content":{"parts":[{"text":"Hi"}],"role":"model"},"finishReason":"STOP"}]}"#,
        ],
        piece: Piece::Reasoning,
    },
    Answer {
        format: "gemini",
        first: &[
            r#"{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{}}}],"role":"model"}}]}"#,
        ],
        rest: &[r#"{"candidates":[{"content":{"parts":[]},"finishReason":"STOP"}]}"#],
        piece: Piece::Call,
    },
];

/// Size of each write.
#[derive(Clone, Copy, Debug)]
enum Writes {
    Event,
    Byte,
}

/// Answers one request, and waits before the second part. Returns its address and the sender that
/// lets it continue.
fn serve(answer: &Answer, writes: Writes) -> (String, Sender<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (first, rest) = (events(answer.first), events(answer.rest));
    let (seen, wait) = mpsc::channel();
    thread::spawn(move || respond(&listener, &first, &rest, writes, &wait));
    (url, seen)
}

fn events(data: &[&str]) -> String {
    data.iter().map(|data| format!("data: {data}\n\n")).collect()
}

/// Responds to one connection. An error means that the client has given up, which the test reports.
fn respond(
    listener: &TcpListener,
    first: &str,
    rest: &str,
    writes: Writes,
    wait: &Receiver<()>,
) -> Option<()> {
    let (mut stream, _) = listener.accept().ok()?;
    stream.set_nodelay(true).ok()?;
    read_request(&stream)?;
    stream
        .write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        .ok()?;
    let mut send = |text: &str| {
        let size = if matches!(writes, Writes::Byte) { 1 } else { text.len() };
        for piece in text.as_bytes().chunks(size) {
            stream.write_all(format!("{size:x}\r\n").as_bytes()).ok()?;
            stream.write_all(piece).ok()?;
            stream.write_all(b"\r\n").ok()?;
        }
        Some(())
    };
    send(first)?;
    wait.recv_timeout(HANGS).ok()?;
    send(rest)?;
    stream.write_all(b"0\r\n\r\n").ok()
}

fn read_request(stream: &TcpStream) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line.trim().is_empty() {
            break;
        }
    }
    reader.read_exact(&mut vec![0; length]).ok()
}

fn model(format: &str, url: &str) -> Arc<dyn Model> {
    let key = Secret::new("test");
    match format {
        "openai-chat" => {
            Arc::new(OpenAiChat::builder("m").base_url(url).api_key(key).build().unwrap())
        }
        "openai-responses" => {
            Arc::new(OpenAiResponses::builder("m").base_url(url).api_key(key).build().unwrap())
        }
        "anthropic" => {
            Arc::new(Anthropic::builder("m").base_url(url).api_key(key).build().unwrap())
        }
        _ => Arc::new(Gemini::builder("m").base_url(url).api_key(key).build().unwrap()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_hands_on_a_piece_before_the_next_one_has_arrived() {
    for answer in &ANSWERS {
        for writes in [Writes::Event, Writes::Byte] {
            let case = format!("{} {:?} {writes:?}", answer.format, answer.piece);
            let (url, seen) = serve(answer, writes);
            let mut stream = model(answer.format, &url).stream(ModelRequest::new("Hi").streamed());
            let first = tokio::time::timeout(HANGS, stream.next())
                .await
                .unwrap_or_else(|_| panic!("{case}: held back"));
            let piece = match first.unwrap().unwrap_or_else(|error| panic!("{case}: {error}")) {
                ModelEvent::Text(text) if text == "Hé" => Piece::Text,
                ModelEvent::Reasoning(text) if text == "Hm" => Piece::Reasoning,
                ModelEvent::ToolCall(call) if call.name.as_deref() == Some("f") => Piece::Call,
                other => panic!("{case}: {other:?}"),
            };
            assert_eq!(piece, answer.piece, "{case}");
            seen.send(()).unwrap();
            let rest: Vec<_> = stream
                .map(|event| event.unwrap_or_else(|error| panic!("{case}: {error}")))
                .collect()
                .await;
            assert!(matches!(rest.last(), Some(ModelEvent::Completed(_))), "{case}: {rest:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_shows_a_piece_before_the_next_one_has_arrived() {
    for answer in ANSWERS.iter().filter(|answer| answer.piece == Piece::Text) {
        let (url, seen) = serve(answer, Writes::Byte);
        let mut run = Agent::new(model(answer.format, &url)).stream("Hi").unwrap();
        let delta = async {
            loop {
                let event = within("the next event", run.next())
                    .await
                    .expect("a piece comes before the end");
                if let EventKind::ModelDelta(delta) = &event.kind {
                    return delta.clone();
                }
            }
        };
        let delta = tokio::time::timeout(HANGS, delta)
            .await
            .unwrap_or_else(|_| panic!("{}: held back", answer.format));
        assert!(
            matches!(&delta, ModelDelta::Text(text) if text == "Hé"),
            "{}: {delta:?}",
            answer.format
        );
        seen.send(()).unwrap();
        assert_eq!(run.result().await.unwrap().output(), "Hé there", "{}", answer.format);
    }
}

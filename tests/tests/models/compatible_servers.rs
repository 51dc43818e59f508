//! Servers with their own interpretation of a wire format. Their answers are read as intended, and
//! the strictest server accepts each request.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agentflow::agent::Agent;
use agentflow::error::FailureKind;
use agentflow::message::{Conversation, Message, Part, Role, ToolCall, ToolResult, ToolStatus};
use agentflow::model::{ModelError, ModelErrorKind, ModelEvent, ModelRequest, StopReason};
use agentflow::{Error, tool, tools};
use futures_util::TryStreamExt;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::scripted_server::{After, Format, Reply, ScriptedServer};

/// Time limit of a wait. It only determines how long a failing test takes.
const HANGS: Duration = Duration::from_secs(60);

fn answered(format: Format, text: &str) -> Value {
    match format {
        Format::Chat => {
            json!({"choices": [{"message": {"content": text}, "finish_reason": "stop"}]})
        }
        Format::Responses => json!({"status": "completed",
            "output": [{"type": "message", "content": [{"type": "output_text", "text": text}]}]}),
        Format::Anthropic => {
            json!({"type": "message", "content": [{"type": "text", "text": text}], "stop_reason": "end_turn"})
        }
        Format::Gemini => {
            json!({"candidates": [{"content": {"parts": [{"text": text}]}, "finishReason": "STOP"}]})
        }
    }
}

/// A conversation in which a model made these calls successfully.
fn history(calls: &[(&str, &str)], output: &str) -> Conversation {
    let calls: Vec<Arc<ToolCall>> = calls
        .iter()
        .enumerate()
        .map(|(at, (name, arguments))| {
            Arc::new(ToolCall::new(format!("id-{at}"), *name, *arguments))
        })
        .collect();
    let results =
        calls.iter().map(|call| Arc::new(ToolResult::new(call, ToolStatus::Success, output)));
    let results = Message::tool_results(results.collect::<Vec<_>>());
    let asked =
        Message::new(Role::Assistant, calls.into_iter().map(Part::ToolCall).collect::<Vec<_>>());
    [Message::user("Hi"), asked, results].into_iter().collect()
}

/// Returns the request for a conversation.
async fn sent(format: Format, conversation: Conversation) -> Value {
    let server = ScriptedServer::start([Reply::document(&answered(format, "Ok"))]);
    format.model(&server).call(ModelRequest::new(conversation)).await.unwrap();
    server.requests().remove(0)
}

/// Returns the names and arguments of the calls in a request. Arguments that are sent as text are
/// parsed.
fn calls_in(format: Format, request: &Value) -> Vec<(String, Value)> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let read = |value: &Value| serde_json::from_str(value.as_str().unwrap()).unwrap_or(Value::Null);
    match format {
        Format::Chat => list(&request["messages"][1]["tool_calls"])
            .iter()
            .map(|call| (text(&call["function"]["name"]), read(&call["function"]["arguments"])))
            .collect(),
        Format::Responses => list(&request["input"])
            .iter()
            .filter(|item| item["type"] == "function_call")
            .map(|call| (text(&call["name"]), read(&call["arguments"])))
            .collect(),
        Format::Anthropic => list(&request["messages"][1]["content"])
            .iter()
            .map(|call| (text(&call["name"]), call["input"].clone()))
            .collect(),
        Format::Gemini => list(&request["contents"][1]["parts"])
            .iter()
            .map(|part| (text(&part["functionCall"]["name"]), part["functionCall"]["args"].clone()))
            .collect(),
    }
}

#[tokio::test]
async fn tool_names_in_a_history_are_valid_for_every_provider() {
    let long = "x".repeat(90);
    let longer = "x".repeat(91);
    let names = [
        "web.search",
        "web_search",
        "web search",
        "web/search",
        "",
        "größe",
        "2fa",
        "a-b",
        &long,
        &longer,
    ];
    let takes = |name: &str| {
        (1..=64).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
    };
    for format in Format::ALL {
        let request = sent(format, history(&names.map(|name| (name, "{}")), "1")).await;
        let calls = calls_in(format, &request);
        assert_eq!(calls.len(), names.len(), "{request}");
        assert!(calls.iter().all(|(name, _)| takes(name)), "{format:?}: {calls:?}");
        let different: BTreeSet<&str> = calls.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(different.len(), names.len(), "{format:?}: {calls:?}");
        for (name, (written, _)) in names.iter().zip(&calls) {
            assert!(!takes(name) || name == written, "{format:?}: {name} {written}");
        }
        match format {
            // A result is also matched to its call by name.
            Format::Gemini => {
                let results = request["contents"][2]["parts"].as_array().unwrap();
                for (result, (name, _)) in results.iter().zip(&calls) {
                    assert_eq!(result["functionResponse"]["name"], **name);
                }
            }
            // A request without its own tools declares the called ones.
            Format::Anthropic => {
                let tools = request["tools"].as_array().unwrap();
                let tools: BTreeSet<&str> =
                    tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
                assert_eq!(tools, different);
            }
            Format::Chat | Format::Responses => {}
        }
    }
}

#[tokio::test]
async fn arguments_in_a_history_are_json_objects() {
    let broken =
        ["{\"expression\": \"1 <", "\"1 < 2\"", "[1]", "null", "{} {}", "{'a': 1}", "1 < 2"];
    let whole = ["{\"b\": 1,  \"a\": 2.50}", "{}", "", " \n"];
    for format in Format::ALL {
        let arguments: Vec<&str> = broken.into_iter().chain(whole).collect();
        let calls: Vec<(&str, &str)> =
            arguments.iter().map(|arguments| ("condition", *arguments)).collect();
        let request = sent(format, history(&calls, "1")).await;
        let calls = calls_in(format, &request);
        assert!(calls.iter().all(|(_, arguments)| arguments.is_object()), "{format:?}: {calls:?}");
        for (written, (_, arguments)) in broken.iter().zip(&calls) {
            // The model sees its invalid arguments.
            assert_eq!(arguments, &json!({"INVALID_JSON": written}), "{format:?}");
        }
        let whole: Vec<&Value> =
            calls[broken.len()..].iter().map(|(_, arguments)| arguments).collect();
        assert_eq!(
            whole,
            [&json!({"b": 1, "a": 2.5}), &json!({}), &json!({}), &json!({})],
            "{format:?}"
        );
        assert!(request.to_string().contains("2.5"), "{format:?}");
    }
    let request = sent(Format::Chat, history(&[("condition", whole[0])], "1")).await;
    assert_eq!(
        request["messages"][1]["tool_calls"][0]["function"]["arguments"], whole[0],
        "byte for byte"
    );
}

#[tokio::test]
async fn results_with_references_are_texts_for_gemini() {
    let result = async |output: &str| {
        let request = sent(Format::Gemini, history(&[("look", "{}")], output)).await;
        request["contents"][2]["parts"][0]["functionResponse"]["response"]["output"].clone()
    };
    for output in [
        r##"{"$ref": "#/parts/lamp"}"##,
        r##"{"parts": [{"lamp": [{"$ref": "#/parts/lamp"}]}]}"##,
        r##"[[{"\u0024ref": "#/parts/lamp"}]]"##,
    ] {
        assert_eq!(result(output).await, output);
    }
    // Text that only mentions a reference, and other keys, stay unchanged.
    for output in [r#"{"text": "a $ref", "$id": 1, "ref": {"$refs": 2}}"#, r#"["$ref"]"#] {
        assert_eq!(result(output).await, serde_json::from_str::<Value>(output).unwrap());
    }
}

/// A chunk of the Chat format with these pieces of calls.
fn pieces(calls: Value) -> Value {
    json!({"choices": [{"index": 0, "delta": {"tool_calls": calls}}]})
}

/// Returns the names and arguments of the calls of a Chat stream. The answer and the sum of its deltas must agree.
async fn calls_of(chunks: &[Value]) -> Vec<(String, String)> {
    let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]});
    let chunks: Vec<Value> = chunks.iter().cloned().chain([end]).collect();
    let server = ScriptedServer::start([Reply::events(&chunks)]);
    let stream = Format::Chat.model(&server).stream(ModelRequest::new("Hi").streamed());
    let events: Vec<ModelEvent> = stream.try_collect().await.unwrap();
    let (mut shown, mut answer) = (Vec::<(String, String)>::new(), None);
    for event in events {
        match event {
            ModelEvent::ToolCall(delta) => {
                shown.resize(shown.len().max(delta.index + 1), Default::default());
                let (name, arguments) = &mut shown[delta.index];
                if let Some(known) = delta.name {
                    *name = known;
                }
                arguments.push_str(&delta.arguments);
            }
            ModelEvent::Completed(response) => answer = Some(response),
            _ => {}
        }
    }
    let answer = answer.unwrap();
    let calls: Vec<_> =
        answer.tool_calls().map(|call| (call.name.clone(), call.arguments.clone())).collect();
    assert_eq!(shown, calls, "the pieces of {chunks:?}");
    calls
}

#[tokio::test]
async fn pieces_of_calls_are_joined_as_the_server_means_them() {
    let function = |name: &str, arguments: &str| json!({"name": name, "arguments": arguments});
    let one = [("condition", r#"{"expression":"1 < 2"}"#)];
    let two = [("condition", r#"{"expression":"1"}"#), ("look_up", r#"{"what":"tea"}"#)];
    let twice = [two[0], two[0]];
    let (first, second) = (function(two[0].0, two[0].1), function(two[1].0, two[1].1));
    for (what, chunks, expected) in [
        (
            "each piece has another id",
            vec![
                pieces(json!([{"index": 0, "id": "a", "function": function("condition", "")}])),
                pieces(
                    json!([{"index": 0, "id": "b", "function": {"arguments": "{\"expression\":"}}]),
                ),
                pieces(
                    json!([{"index": 0, "id": "c", "function": {"name": null, "arguments": "\"1 < 2\"}"}}]),
                ),
            ],
            &one[..],
        ),
        (
            "each piece has another id and the name",
            vec![
                pieces(
                    json!([{"index": 0, "id": "a", "function": function("condition", "{\"expression\":")}]),
                ),
                pieces(
                    json!([{"index": 0, "id": "b", "function": function("condition", "\"1 < 2\"}")}]),
                ),
            ],
            &one[..],
        ),
        (
            "a name in two pieces",
            vec![
                pieces(json!([{"index": 0, "id": "a", "function": function("condi", "")}])),
                pieces(json!([{"index": 0, "function": function("tion", "")}])),
                pieces(
                    json!([{"index": 0, "function": {"arguments": "{\"expression\":\"1 < 2\"}"}}]),
                ),
            ],
            &one[..],
        ),
        (
            "a name in two pieces, with the id and without an index",
            vec![
                pieces(json!([{"id": "a", "function": {"name": "condi"}}])),
                pieces(
                    json!([{"id": "a", "function": function("tion", "{\"expression\":\"1 < 2\"}")}]),
                ),
            ],
            &one[..],
        ),
        (
            "the name in each piece",
            vec![
                pieces(json!([{"index": 0, "id": "a", "function": function("condition", "")}])),
                pieces(
                    json!([{"index": 0, "id": "a", "function": function("condition", "{\"expression\":")}]),
                ),
                pieces(
                    json!([{"index": 0, "id": "a", "function": function("condition", "\"1 < 2\"}")}]),
                ),
                pieces(json!([{"index": 0, "id": "a", "function": function("condition", "")}])),
            ],
            &one[..],
        ),
        (
            "a name that grows with each piece",
            vec![
                pieces(json!([{"index": 0, "id": "a", "function": function("condi", "")}])),
                pieces(json!([{"index": 0, "id": "a", "function": function("condition", "")}])),
                pieces(
                    json!([{"index": 0, "function": {"arguments": "{\"expression\":\"1 < 2\"}"}}]),
                ),
            ],
            &one[..],
        ),
        (
            "the name at another index than the arguments",
            vec![
                pieces(json!([{"index": 0, "id": "a", "function": first}])),
                pieces(json!([{"index": 0, "id": "b", "function": function("look_up", "")}])),
                pieces(json!([{"index": 1, "function": {"arguments": "{\"what\":"}}])),
                pieces(json!([{"index": 1, "function": {"arguments": "\"tea\"}"}}])),
            ],
            &two[..],
        ),
        (
            "two whole calls with one id and no index",
            vec![pieces(json!([{"id": "a", "function": first}, {"id": "a", "function": second}]))],
            &two[..],
        ),
        (
            "the same in two chunks",
            vec![
                pieces(json!([{"id": "a", "function": first}])),
                pieces(json!([{"id": "a", "function": second}])),
            ],
            &two[..],
        ),
        (
            "two whole calls with one id and one index",
            vec![pieces(
                json!([{"index": 0, "id": "a", "function": first}, {"index": 0, "id": "a", "function": second}]),
            )],
            &two[..],
        ),
        (
            "two whole calls of one tool without id and index",
            vec![pieces(json!([{"function": first}, {"function": first}]))],
            &twice[..],
        ),
        (
            "two calls without arguments",
            vec![pieces(
                json!([{"id": "a", "function": {"name": "one"}}, {"id": "a", "function": {"name": "two"}}]),
            )],
            &[("one", ""), ("two", "")][..],
        ),
        (
            "two calls side by side",
            vec![
                pieces(json!([{"index": 0, "id": "a", "function": function("condition", "")}])),
                pieces(json!([{"index": 1, "id": "b", "function": function("look_up", "")}])),
                pieces(json!([{"index": 1, "function": {"arguments": "{\"what\":\"tea\"}"}}])),
                pieces(json!([{"index": 0, "function": {"arguments": "{\"expression\":\"1\"}"}}])),
            ],
            &two[..],
        ),
    ] {
        let calls = calls_of(&chunks).await;
        let calls: Vec<(&str, &str)> =
            calls.iter().map(|(name, arguments)| (&**name, &**arguments)).collect();
        assert_eq!(calls, expected, "{what}");
    }
}

/// Returns the events of an answer up to its stop reason, without the end marker of the format.
fn finished(format: Format) -> Vec<Value> {
    match format {
        Format::Chat => vec![
            json!({"choices": [{"index": 0, "delta": {"content": "Done."}}]}),
            json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}),
        ],
        Format::Anthropic => vec![
            json!({"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 7}}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Done."}}),
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}}),
        ],
        Format::Gemini => {
            vec![
                json!({"candidates": [{"content": {"parts": [{"text": "Done."}]}, "finishReason": "STOP"}]}),
            ]
        }
        // In this format the stop reason is part of the end event.
        Format::Responses => {
            vec![json!({"type": "response.completed", "response": answered(format, "Done.")})]
        }
    }
}

#[tokio::test]
async fn a_finished_answer_is_not_held_until_the_connection_ends() {
    let after = |format| {
        let ping = match format {
            Format::Anthropic => "event: ping\ndata: {\"type\": \"ping\"}\n\n",
            _ => ": still here\n\n",
        };
        [After::Close, After::Silence, After::Repeat(ping)]
    };
    let cases =
        Format::ALL.into_iter().flat_map(|format| after(format).map(|after| (format, after)));
    let asked = cases.map(|(format, after)| async move {
        let server = ScriptedServer::start([Reply::events(&finished(format)).then(after)]);
        let model = format.model(&server);
        let began = Instant::now();
        let answer =
            tokio::time::timeout(HANGS, model.call(ModelRequest::new("Hi").streamed())).await;
        let answer = answer
            .unwrap_or_else(|_| panic!("{format:?} {after:?} is held for {:?}", began.elapsed()));
        let answer = answer.unwrap_or_else(|error| panic!("{format:?} {after:?}: {error}"));
        assert_eq!(
            (&*answer.text(), &answer.stop_reason),
            ("Done.", &StopReason::Stop),
            "{format:?} {after:?}"
        );
    });
    futures_util::future::join_all(asked).await;
}

#[tokio::test]
async fn usage_after_the_reason_is_counted_and_text_after_it_is_kept() {
    let mut chunks = finished(Format::Chat);
    chunks.push(json!({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}}));
    let server = ScriptedServer::start([Reply::events(&chunks).then(After::Silence)]);
    let answer =
        Format::Chat.model(&server).call(ModelRequest::new("Hi").streamed()).await.unwrap();
    assert_eq!((answer.usage.input_tokens, answer.usage.output_tokens), (5, 2));
    // Some servers send a stop reason with each chunk.
    let piece = |text: &str| json!({"candidates": [{"content": {"parts": [{"text": text}]}, "finishReason": "STOP"}]});
    let server =
        ScriptedServer::start([Reply::events(&[piece("Do"), piece("ne.")]).then(After::Silence)]);
    let answer =
        Format::Gemini.model(&server).call(ModelRequest::new("Hi").streamed()).await.unwrap();
    assert_eq!(answer.text(), "Done.");
}

async fn failed(format: Format, reply: Reply) -> ModelError {
    let server = ScriptedServer::start([reply]);
    format.model(&server).call(ModelRequest::new("Hi").streamed()).await.unwrap_err()
}

#[tokio::test]
async fn the_text_of_an_error_in_a_stream_is_shown() {
    let object = |format| match format {
        Format::Chat | Format::Responses => {
            json!({"message": "prompt too long", "code": "context_length_exceeded"})
        }
        Format::Anthropic => {
            json!({"message": "prompt is too long", "type": "invalid_request_error"})
        }
        Format::Gemini => {
            json!({"message": "The input token count (2) exceeds the maximum number of tokens allowed (1).",
            "code": 400, "status": "INVALID_ARGUMENT"})
        }
    };
    for format in Format::ALL {
        let (error, begun) = (json!({"error": object(format)}), finished(format).remove(0));
        let indented = format!("{error:#}");
        let mut replies = vec![
            ("the whole body", format!("{error}")),
            ("the whole body, on several lines", format!("\r\n{indented}\n")),
            ("an event without a name", format!("data: {error}\n\n")),
            ("an event that is called so", format!("event: error\ndata: {error}\n\n")),
            (
                "an event that is called so, with the object alone",
                format!("event: error\ndata: {}\n\n", object(format)),
            ),
            ("no event and no end", format!("data: {error}")),
        ];
        if format != Format::Responses {
            replies.push(("behind an event", format!("data: {begun}\n\n{error}\n")));
            replies.push((
                "behind an event, on several lines",
                format!("data: {begun}\n\n{indented}\n\n"),
            ));
        }
        for (what, body) in replies {
            let error = failed(format, Reply::stream(body)).await;
            assert_eq!(
                error.kind(),
                ModelErrorKind::ContextOverflow,
                "{format:?}, {what}: {error}"
            );
            assert_eq!(error.message(), object(format)["message"], "{format:?}, {what}");
            assert!(error.provider_code().is_some(), "{format:?}, {what}: {error}");
        }
        let error =
            failed(format, Reply::stream("event: error\ndata: upstream went away\n\n")).await;
        assert_eq!(error.message(), "upstream went away", "{format:?}");
    }
}

#[tokio::test]
async fn an_answer_that_is_called_a_stream_is_read() {
    for format in Format::ALL {
        let body = format!("{:#}", answered(format, "Ok."));
        let server = ScriptedServer::start([Reply::stream(body)]);
        let answer = format.model(&server).call(ModelRequest::new("Hi").streamed()).await;
        assert_eq!(
            answer.unwrap_or_else(|error| panic!("{format:?}: {error}")).text(),
            "Ok.",
            "{format:?}"
        );
    }
}

/// Points for a word.
#[derive(Debug, PartialEq, Eq, Deserialize, JsonSchema)]
struct Score {
    points: u8,
}

/// Looks a word up.
#[tool(effects = "none")]
fn look_up_word(word: String) -> String {
    word
}

#[tokio::test]
async fn a_typed_answer_in_text_is_an_answer_also_beside_tools() {
    for format in Format::ALL {
        for text in [r#"{"points": 7}"#, "```json\n{\"points\": 7}\n```"] {
            let server = ScriptedServer::start([Reply::document(&answered(format, text))]);
            let agent =
                Agent::new(format.model(&server)).tools(tools![look_up_word]).output::<Score>();
            assert_eq!(
                agent.run("tea").await.unwrap().into_output(),
                Score { points: 7 },
                "{format:?}"
            );
            assert_eq!(server.requests().len(), 1, "{format:?}");
        }
    }
}

#[tokio::test]
async fn a_text_that_does_not_fit_is_refused_with_the_name_of_the_tool() {
    let replies = ["Seven.", r#"{"points": "seven"}"#, r#"{"points": 7}"#];
    let replies = replies.map(|text| Reply::document(&answered(Format::Chat, text)));
    let server = ScriptedServer::start(replies);
    let agent =
        Agent::new(Format::Chat.model(&server)).tools(tools![look_up_word]).output::<Score>();
    assert_eq!(agent.run("tea").await.unwrap().into_output(), Score { points: 7 });
    let requests = server.requests();
    let told = |request: usize| {
        let messages = requests[request]["messages"].as_array().unwrap();
        messages.last().unwrap()["content"].as_str().unwrap().to_owned()
    };
    assert!(told(1).contains("`final_answer`"), "{}", told(1));
    assert!(told(2).contains("`final_answer`") && told(2).contains("`points`"), "{}", told(2));
}

fn refused(format: Format) -> Value {
    const TEXT: &str = "I cannot help.";
    match format {
        Format::Chat => {
            json!({"choices": [{"message": {"content": null, "refusal": TEXT}, "finish_reason": "stop"}]})
        }
        Format::Responses => json!({"status": "completed",
            "output": [{"type": "message", "content": [{"type": "refusal", "refusal": TEXT}]}]}),
        Format::Anthropic => {
            json!({"type": "message", "content": [{"type": "text", "text": TEXT}], "stop_reason": "refusal"})
        }
        Format::Gemini => {
            json!({"candidates": [{"content": {"parts": [{"text": TEXT}]}, "finishReason": "SAFETY"}]})
        }
    }
}

#[tokio::test]
async fn a_refusal_ends_a_run_with_a_typed_answer_at_once() {
    for format in Format::ALL {
        for with_tools in [false, true] {
            let server = ScriptedServer::start([Reply::document(&refused(format))]);
            let tools = if with_tools { tools![look_up_word] } else { tools![] };
            let agent = Agent::new(format.model(&server)).tools(tools).output::<Score>();
            let error = agent.run("tea").await.unwrap_err();
            assert_eq!(server.requests().len(), 1, "{format:?}: {error}");
            assert!(error.to_string().contains("I cannot help."), "{format:?}: {error}");
            let Error::Refused { refusal, stop_reason, .. } = &error else {
                panic!("{format:?}: {error:?}")
            };
            let reason = if format == Format::Gemini { "content_filter" } else { "refusal" };
            assert_eq!((&**refusal, &**stop_reason), ("I cannot help.", reason), "{format:?}");
            assert_eq!(
                (error.kind(), error.is_retryable()),
                (FailureKind::Refused, false),
                "{format:?}"
            );
        }
    }
}

fn shown(events: &[ModelEvent]) -> (String, String) {
    let (mut text, mut reasoning) = (String::new(), String::new());
    for event in events {
        match event {
            ModelEvent::Text(more) => text.push_str(more),
            ModelEvent::Reasoning(more) => reasoning.push_str(more),
            _ => {}
        }
    }
    (text, reasoning)
}

/// Returns a stream whose text is split into these pieces.
fn streamed(format: Format, pieces: &[&str]) -> Vec<Value> {
    let mut events = finished(format);
    let more = |text: &str| match format {
        Format::Chat => json!({"choices": [{"index": 0, "delta": {"content": text}}]}),
        Format::Responses => {
            json!({"type": "response.output_text.delta", "output_index": 0, "delta": text})
        }
        Format::Anthropic => {
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}})
        }
        Format::Gemini => json!({"candidates": [{"content": {"parts": [{"text": text}]}}]}),
    };
    let pieces: Vec<Value> = pieces.iter().map(|text| more(text)).collect();
    let text = match format {
        Format::Chat => 0..1,
        Format::Anthropic => 2..3,
        Format::Gemini => {
            events =
                vec![json!({"candidates": [{"content": {"parts": []}, "finishReason": "STOP"}]})];
            0..0
        }
        Format::Responses => {
            events =
                vec![json!({"type": "response.completed", "response": {"status": "completed"}})];
            0..0
        }
    };
    events.splice(text, pieces);
    events
}

#[tokio::test]
async fn thinking_in_tags_at_the_start_of_a_text_is_reasoning() {
    for format in Format::ALL {
        for (pieces, reasoning, text) in [
            (&["<think>Hm.</think>\n\nTea."][..], "Hm.", "Tea."),
            (&["\n<th", "ink>", "H", "m.\n</", "think", ">", "\n", "Te", "a."], "Hm.\n", "Tea."),
            (&["<think>", "</think>Tea."], "", "Tea."),
            (&["<", "b>Tea</b>"], "", "<b>Tea</b>"),
            (&["<thin"], "", "<thin"),
            (&["Tea. <think>Hm.</think>"], "", "Tea. <think>Hm.</think>"),
            // Without a closing tag the text is not reasoning.
            (&["<think> is a tag"], "", "<think> is a tag"),
        ] {
            let server = ScriptedServer::start([Reply::events(&streamed(format, pieces))]);
            let stream = format.model(&server).stream(ModelRequest::new("Hi").streamed());
            let mut events: Vec<ModelEvent> = stream.try_collect().await.unwrap();
            let Some(ModelEvent::Completed(response)) = events.pop() else {
                panic!("{format:?} {pieces:?}")
            };
            assert_eq!(
                (&*response.text(), &*response.message.reasoning()),
                (text, reasoning),
                "{format:?} {pieces:?}"
            );
            if !text.contains("<think> is") {
                assert_eq!(
                    shown(&events),
                    (text.to_owned(), reasoning.to_owned()),
                    "{format:?} {pieces:?}"
                );
            }
        }
        // Reasoning in tags is not sent back, because such models expect a conversation without it.
        let first = Reply::document(&answered(format, "<think>Hm.</think>Tea."));
        let server = ScriptedServer::start([first, Reply::document(&answered(format, "Ok."))]);
        let model = format.model(&server);
        let answer = model.call(ModelRequest::new("Hi")).await.unwrap();
        assert_eq!(answer.text(), "Tea.", "{format:?}");
        let conversation: Conversation =
            [Message::user("Hi"), Message::clone(&answer.message), Message::user("And?")]
                .into_iter()
                .collect();
        model.call(ModelRequest::new(conversation)).await.unwrap();
        assert!(!server.requests()[1].to_string().contains("Hm."), "{format:?}");
    }
}

#[tokio::test]
async fn a_typed_answer_behind_thinking_in_tags_is_read() {
    let text = "<think>{\"points\": 1}?</think>\n{\"points\": 7}";
    let server = ScriptedServer::start([Reply::document(&answered(Format::Chat, text))]);
    let agent = Agent::new(Format::Chat.model(&server)).output::<Score>();
    assert_eq!(agent.run("tea").await.unwrap().into_output(), Score { points: 7 });
}

/// An answer is complete only with an end marker that the format defines.
#[tokio::test]
async fn an_answer_without_a_reason_is_not_whole() {
    for format in Format::ALL {
        let mut events = finished(format);
        match format {
            Format::Gemini => {
                events = vec![json!({"candidates": [{"content": {"parts": [{"text": "Do"}]}}]})];
            }
            Format::Responses => {
                events = vec![
                    json!({"type": "response.output_text.delta", "output_index": 0, "delta": "Do"}),
                ];
            }
            Format::Chat | Format::Anthropic => drop(events.pop()),
        }
        let error = failed(format, Reply::events(&events)).await;
        assert_eq!(error.kind(), ModelErrorKind::Truncated, "{format:?}: {error}");
    }
}

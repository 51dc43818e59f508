//! A conversation that changes its provider, with reasoning and tool calls before and after the
//! change, for each ordered pair of the four wire formats. The answers are recorded traffic.
//!
//! The request to the second provider matches the types of its SDK, contains every call with its
//! result, and contains no reasoning of the first provider. When the first provider is called
//! again, it gets its own reasoning unchanged, and none of the second provider's.

use std::sync::Arc;

use agentflow::message::{Conversation, Part, ToolResult, ToolStatus};
use agentflow::model::anthropic::Anthropic;
use agentflow::model::gemini::Gemini;
use agentflow::model::openai_chat::OpenAiChat;
use agentflow::model::openai_responses::OpenAiResponses;
use agentflow::model::{ModelRequest, Secret};
use agentflow::tool::{ToolDefinition, ToolManifest};
use agentflow::{Message, Model};
use agentflow_tests::{Replay, WireCase, sdk_types, wire_cases};
use serde_json::{Value, json};

pub(super) const CHAT: &str = "openai-chat";
pub(super) const RESPONSES: &str = "openai-responses";
pub(super) const ANTHROPIC: &str = "anthropic";
pub(super) const GEMINI: &str = "gemini";

/// Each ordered pair with the model names. Gemini 3 requires signatures, unlike 2.5.
const PAIRS: [(&str, &str, &str, &str); 12] = [
    (CHAT, "gpt-5-mini", RESPONSES, "gpt-5-mini"),
    (CHAT, "qwen3", ANTHROPIC, "claude-sonnet-4-5"),
    (CHAT, "deepseek-reasoner", GEMINI, "gemini-3-pro-preview"),
    (RESPONSES, "gpt-5-mini", CHAT, "gpt-5-mini"),
    (RESPONSES, "gpt-5", ANTHROPIC, "claude-sonnet-4-5"),
    (RESPONSES, "gpt-5", GEMINI, "gemini-2.5-flash"),
    (ANTHROPIC, "claude-sonnet-4-5", CHAT, "qwen3"),
    (ANTHROPIC, "claude-sonnet-4-5", RESPONSES, "gpt-5-mini"),
    (ANTHROPIC, "claude-opus-4-1", GEMINI, "gemini-3-pro-preview"),
    (GEMINI, "gemini-2.5-flash", CHAT, "qwen3"),
    (GEMINI, "gemini-2.5-pro", RESPONSES, "gpt-5"),
    (GEMINI, "gemini-3-pro-preview", ANTHROPIC, "claude-sonnet-4-5"),
];

/// Returns recorded first turns of a format: a turn with reasoning and a call, and a turn with two
/// parallel calls.
pub(super) fn turns(format: &str) -> [&'static str; 2] {
    match format {
        CHAT => ["oai-openrouter-reasoning-details", "oai-parallel-tools-sync"],
        RESPONSES => ["resp-reasoning-tools-stream", "resp-tools-loop-sync"],
        ANTHROPIC => ["gem-resume-thinking-tools", "ant-tools-loop-stream"],
        _ => ["resp-resume-thinking-tools", "gem-tools-loop-stream"],
    }
}

pub(super) fn model(replay: &Replay, format: &str, name: &str, key: &str) -> Arc<dyn Model> {
    let (openai, root, secret) = (replay.base_url(key), replay.root_url(key), Secret::new("test"));
    match format {
        CHAT => {
            Arc::new(OpenAiChat::builder(name).base_url(openai).api_key(secret).build().unwrap())
        }
        RESPONSES => Arc::new(
            OpenAiResponses::builder(name).base_url(openai).api_key(secret).build().unwrap(),
        ),
        ANTHROPIC => {
            Arc::new(Anthropic::builder(name).base_url(root).api_key(secret).build().unwrap())
        }
        _ => Arc::new(Gemini::builder(name).base_url(root).api_key(secret).build().unwrap()),
    }
}

/// A conversation, and the results of its calls.
struct Talk {
    conversation: Conversation,
    results: Vec<String>,
}

impl Talk {
    fn new() -> Self {
        Self { conversation: Conversation::from("Find it out."), results: Vec::new() }
    }

    /// Requests the next turn from a model. Returns the request that its server received, and the
    /// answer.
    async fn ask(
        &self,
        replay: &Replay,
        format: &str,
        name: &str,
        case: &str,
        session: &str,
    ) -> (Value, Arc<Message>) {
        let key = format!("{case}~{session}");
        let tools: ToolManifest = ["lookup", "read_file"]
            .map(|name| ToolDefinition::new(name, "", json!({"type": "object"})))
            .into_iter()
            .collect();
        let request = ModelRequest::new(self.conversation.clone()).tools(tools);
        let answer = model(replay, format, name, &key).call(request).await;
        let answer =
            answer.unwrap_or_else(|error| panic!("{session}: {format} does not answer: {error}"));
        (replay.log_of(&key)[0]["body"].clone(), answer.message)
    }

    /// Adds an answer and a result for each of its calls. Every second result is a failure.
    fn take(&mut self, answer: Arc<Message>) {
        let results: Vec<_> = answer
            .tool_calls()
            .map(|call| {
                let number = self.results.len();
                let said = format!("what came of call {number}");
                let (status, output) = match number % 2 {
                    0 => (ToolStatus::Success, json!(said).to_string()),
                    _ => (ToolStatus::Timeout, said.clone()),
                };
                self.results.push(said);
                Arc::new(ToolResult::new(call, status, output))
            })
            .collect();
        assert!(!results.is_empty(), "an answer without calls");
        self.conversation.push(answer);
        self.conversation.push(Message::tool_results(results));
    }
}

/// Returns the calls of a request, and its results with the id and text of each.
pub(super) fn calls_and_results(
    format: &str,
    body: &Value,
) -> (Vec<String>, Vec<(String, String)>) {
    let (mut calls, mut results) = (Vec::new(), Vec::new());
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let entries = match format {
        RESPONSES => &body["input"],
        GEMINI => &body["contents"],
        _ => &body["messages"],
    };
    for entry in entries.as_array().unwrap() {
        match format {
            CHAT => {
                calls.extend(
                    entry["tool_calls"]
                        .as_array()
                        .into_iter()
                        .flatten()
                        .map(|call| text(&call["id"])),
                );
                if entry["role"] == "tool" {
                    results.push((text(&entry["tool_call_id"]), text(&entry["content"])));
                }
            }
            RESPONSES => match entry["type"].as_str().unwrap() {
                "function_call" => calls.push(text(&entry["call_id"])),
                "function_call_output" => {
                    results.push((text(&entry["call_id"]), text(&entry["output"])));
                }
                _ => {}
            },
            ANTHROPIC => {
                for block in entry["content"].as_array().unwrap() {
                    match block["type"].as_str().unwrap() {
                        "tool_use" => calls.push(text(&block["id"])),
                        "tool_result" => {
                            results.push((text(&block["tool_use_id"]), text(&block["content"])));
                        }
                        _ => {}
                    }
                }
            }
            _ => {
                // A call without an id is identified by its function name and its position.
                let name = |part: &Value| text(part.get("id").unwrap_or(&part["name"]));
                for part in entry["parts"].as_array().unwrap() {
                    if let Some(call) = part.get("functionCall") {
                        calls.push(name(call));
                    }
                    if let Some(response) = part.get("functionResponse") {
                        results.push((name(response), text(&response["response"])));
                    }
                }
            }
        }
    }
    (calls, results)
}

/// Returns the part of the recorded first turn that the provider must get back.
fn recorded(format: &str, case: &WireCase) -> Value {
    let body = &case.turns[0].body;
    let document = || serde_json::from_slice::<Value>(body).unwrap();
    match format {
        CHAT => document()["choices"][0]["message"]["reasoning_details"].take(),
        RESPONSES => {
            let text = String::from_utf8(body.clone()).unwrap();
            let events = text.lines().filter_map(|line| line.strip_prefix("data:"));
            let mut events = events.filter_map(|data| serde_json::from_str::<Value>(data).ok());
            events.find(|event| event["type"] == "response.completed").unwrap()["response"]["output"][0].take()
        }
        ANTHROPIC => document()["content"].take(),
        _ => document()["candidates"][0]["content"]["parts"].take(),
    }
}

/// Returns the same part of a request, which directly follows the question.
fn sent(format: &str, body: &Value) -> Value {
    match format {
        CHAT => body["messages"][1]["reasoning_details"].clone(),
        RESPONSES => body["input"][1].clone(),
        ANTHROPIC => body["messages"][1]["content"].clone(),
        _ => body["contents"][1]["parts"].clone(),
    }
}

/// Returns all texts that may only be sent back to the model that wrote them.
fn thoughts(messages: &[Arc<Message>]) -> Vec<String> {
    let mut found = Vec::new();
    for part in messages.iter().flat_map(|message| message.parts()) {
        match part {
            Part::Reasoning(reasoning) => {
                found.push(reasoning.text.clone());
                reasoning.opaque.iter().for_each(|opaque| texts(opaque, &mut found));
            }
            Part::ToolCall(call) => call.opaque.iter().for_each(|opaque| texts(opaque, &mut found)),
            _ => {}
        }
    }
    found.retain(|text| !text.is_empty());
    found
}

/// Collects all texts of a value, except those that only name a kind.
fn texts(value: &Value, found: &mut Vec<String>) {
    const KINDS: [&str; 5] = ["type", "format", "provider", "model", "status"];
    match value {
        Value::String(text) => found.push(text.clone()),
        Value::Array(values) => values.iter().for_each(|value| texts(value, found)),
        Value::Object(fields) => {
            fields
                .iter()
                .filter(|(name, _)| !KINDS.contains(&name.as_str()))
                .for_each(|(_, value)| texts(value, found));
        }
        _ => {}
    }
}

#[track_caller]
fn assert_without(pair: &str, body: &Value, thoughts: &[String]) {
    assert!(!thoughts.is_empty(), "{pair}: the answers hold no reasoning");
    let mut said = Vec::new();
    texts(body, &mut said);
    for thought in thoughts {
        assert!(
            !said.iter().any(|text| text.contains(thought)),
            "{pair}: {thought:?} was sent: {body:#}"
        );
    }
}

#[track_caller]
fn assert_answered(pair: &str, format: &str, body: &Value, expected: &[String]) {
    let (calls, results) = calls_and_results(format, body);
    let ids: Vec<&String> = results.iter().map(|(id, _)| id).collect();
    assert_eq!(calls.iter().collect::<Vec<_>>(), ids, "{pair}: {body:#}");
    assert_eq!(results.len(), expected.len(), "{pair}: {body:#}");
    for ((_, text), expected) in results.iter().zip(expected) {
        assert!(text.contains(expected), "{pair}: {text:?} is not {expected:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_continues_with_another_provider_and_back() {
    let (Some(cases), Some(replay)) = (wire_cases(""), Replay::start()) else { return };
    for (one, one_model, other, other_model) in PAIRS {
        let pair = format!("{one}-{other}");
        let mut talk = Talk::new();
        for (at, case) in turns(one).into_iter().enumerate() {
            let (_, answer) =
                talk.ask(&replay, one, one_model, case, &format!("{pair}-{at}")).await;
            talk.take(answer);
        }
        let thoughts_of_one = thoughts(talk.conversation.messages());
        let of_one = talk.conversation.len();

        for (at, case) in turns(other).into_iter().enumerate() {
            let session = format!("{pair}-other-{at}");
            let (body, answer) = talk.ask(&replay, other, other_model, case, &session).await;
            assert_without(&pair, &body, &thoughts_of_one);
            assert_answered(&pair, other, &body, &talk.results);
            talk.take(answer);
        }
        let thoughts_of_other = thoughts(&talk.conversation.messages()[of_one..]);

        let case = turns(one)[0];
        let (body, _) = talk.ask(&replay, one, one_model, case, &format!("{pair}-back")).await;
        assert_without(&pair, &body, &thoughts_of_other);
        assert_answered(&pair, one, &body, &talk.results);
        let case = cases.iter().find(|known| known.id == case).unwrap();
        let (sent, recorded) = (sent(one, &body), recorded(one, case));
        assert!(!recorded.is_null(), "{pair}: nothing was recorded");
        assert_eq!(sent, recorded, "{pair}");
    }
    if let Some(python) = sdk_types() {
        replay.validate(&python);
    }
}

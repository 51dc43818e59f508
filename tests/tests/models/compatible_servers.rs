//! Servers that speak a wire format in their own way: what they send is read as they mean it, and what they are sent is
//! what the strictest of them takes.

use std::collections::BTreeSet;
use std::sync::Arc;

use agentflow::message::{Conversation, Message, Part, Role, ToolCall, ToolResult, ToolStatus};
use agentflow::model::ModelRequest;
use serde_json::{Value, json};

use super::scripted_server::{Format, Reply, ScriptedServer};

fn answered(format: Format, text: &str) -> Value {
    match format {
        Format::Chat => json!({"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}),
        Format::Responses => json!({"status": "completed",
            "output": [{"type": "message", "content": [{"type": "output_text", "text": text}]}]}),
        Format::Anthropic => {
            json!({"type": "message", "content": [{"type": "text", "text": text}], "stop_reason": "end_turn"})
        }
        Format::Gemini => json!({"candidates": [{"content": {"parts": [{"text": text}]}, "finishReason": "STOP"}]}),
    }
}

/// A conversation in which a model made these calls, each of which succeeded.
fn history(calls: &[(&str, &str)], output: &str) -> Conversation {
    let calls: Vec<Arc<ToolCall>> = calls
        .iter()
        .enumerate()
        .map(|(at, (name, arguments))| Arc::new(ToolCall::new(format!("id-{at}"), *name, *arguments)))
        .collect();
    let results = calls.iter().map(|call| Arc::new(ToolResult::new(call, ToolStatus::Success, output)));
    let results = Message::tool_results(results.collect::<Vec<_>>());
    let asked = Message::new(Role::Assistant, calls.into_iter().map(Part::ToolCall).collect::<Vec<_>>());
    [Message::user("Hi"), asked, results].into_iter().collect()
}

/// The request that a conversation becomes.
async fn sent(format: Format, conversation: Conversation) -> Value {
    let server = ScriptedServer::start([Reply::document(&answered(format, "Ok"))]);
    format.model(&server).call(ModelRequest::new(conversation)).await.unwrap();
    server.requests().remove(0)
}

/// The names and the arguments of the calls in a request. Arguments that are sent as a text are read.
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
async fn names_of_tools_in_a_history_are_ones_that_every_provider_takes() {
    let long = "x".repeat(90);
    let longer = "x".repeat(91);
    let names = ["web.search", "web_search", "web search", "web/search", "", "größe", "2fa", "a-b", &long, &longer];
    let takes = |name: &str| {
        (1..=64).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
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
            // A result is matched to its call by the name too.
            Format::Gemini => {
                let results = request["contents"][2]["parts"].as_array().unwrap();
                for (result, (name, _)) in results.iter().zip(&calls) {
                    assert_eq!(result["functionResponse"]["name"], **name);
                }
            }
            // Without tools of its own a request has those that were called.
            Format::Anthropic => {
                let tools = request["tools"].as_array().unwrap();
                let tools: BTreeSet<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
                assert_eq!(tools, different);
            }
            Format::Chat | Format::Responses => {}
        }
    }
}

#[tokio::test]
async fn arguments_in_a_history_are_json_objects() {
    let broken = ["{\"expression\": \"1 <", "\"1 < 2\"", "[1]", "null", "{} {}", "{'a': 1}", "1 < 2"];
    let whole = ["{\"b\": 1,  \"a\": 2.50}", "{}", "", " \n"];
    for format in Format::ALL {
        let arguments: Vec<&str> = broken.into_iter().chain(whole).collect();
        let calls: Vec<(&str, &str)> = arguments.iter().map(|arguments| ("condition", *arguments)).collect();
        let request = sent(format, history(&calls, "1")).await;
        let calls = calls_in(format, &request);
        assert!(calls.iter().all(|(_, arguments)| arguments.is_object()), "{format:?}: {calls:?}");
        for (written, (_, arguments)) in broken.iter().zip(&calls) {
            // The model sees what it wrote.
            assert_eq!(arguments, &json!({"INVALID_JSON": written}), "{format:?}");
        }
        let whole: Vec<&Value> = calls[broken.len()..].iter().map(|(_, arguments)| arguments).collect();
        assert_eq!(whole, [&json!({"b": 1, "a": 2.5}), &json!({}), &json!({}), &json!({})], "{format:?}");
        assert!(request.to_string().contains("2.5"), "{format:?}");
    }
    let request = sent(Format::Chat, history(&[("condition", whole[0])], "1")).await;
    assert_eq!(request["messages"][1]["tool_calls"][0]["function"]["arguments"], whole[0], "byte for byte");
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
    // A text that only mentions one, and other keys, stay as they are.
    for output in [r#"{"text": "a $ref", "$id": 1, "ref": {"$refs": 2}}"#, r#"["$ref"]"#] {
        assert_eq!(result(output).await, serde_json::from_str::<Value>(output).unwrap());
    }
}

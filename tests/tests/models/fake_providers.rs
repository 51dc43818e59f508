//! Fake providers refuse the requests that real providers refuse, and accept all requests of the
//! adapters.

use std::sync::Arc;

use agentflow::model::anthropic::Anthropic;
use agentflow::model::gemini::Gemini;
use agentflow::model::openai_chat::OpenAiChat;
use agentflow::model::openai_responses::OpenAiResponses;
use agentflow::model::{HttpSettings, ModelErrorKind, ModelRequest};
use agentflow::{Agent, Model, tool, tools};
use agentflow_testing::{FakeProvider, FakeReply, ProviderFormat};
use agentflow_tests::post;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

const ALL: [ProviderFormat; 4] = [
    ProviderFormat::OpenAiChat,
    ProviderFormat::OpenAiResponses,
    ProviderFormat::Anthropic,
    ProviderFormat::Gemini,
];

fn model(format: ProviderFormat, provider: &FakeProvider) -> Arc<dyn Model> {
    let (url, http) = (provider.base_url(), HttpSettings::default().max_retries(0));
    match format {
        ProviderFormat::OpenAiChat => {
            Arc::new(OpenAiChat::builder("m").base_url(url).http(http).build().unwrap())
        }
        ProviderFormat::OpenAiResponses => {
            Arc::new(OpenAiResponses::builder("m").base_url(url).http(http).build().unwrap())
        }
        ProviderFormat::Anthropic => {
            let url = url.trim_end_matches("/v1");
            Arc::new(Anthropic::builder("m").base_url(url).http(http).build().unwrap())
        }
        ProviderFormat::Gemini => {
            Arc::new(Gemini::builder("m").base_url(url).http(http).build().unwrap())
        }
        other => panic!("{other:?}"),
    }
}

/// Looks a lamp up.
#[tool(effects = "none")]
fn fake_lamp(#[allow(unused)] name: String, watts: Option<u8>) -> Value {
    json!({"$ref": "#/parts/lamp", "watts": watts})
}

/// Points for a lamp.
#[derive(Debug, PartialEq, Eq, Deserialize, JsonSchema)]
struct Points {
    points: u8,
    why: Option<String>,
}

#[tokio::test]
async fn all_requests_of_the_adapters_are_accepted() {
    for format in ALL {
        let replies = [
            FakeReply::text("Let me see.")
                .and_call("web.search", json!({}))
                .and_call("", json!({"a": 1})),
            FakeReply::call("fake_lamp", json!({"name": "a"}))
                .and_call("fake_lamp", json!({"name": "b", "watts": 7})),
            FakeReply::call("fake_lamp", "{\"name\": ").and_call("fake_lamp", "\"b\""),
            FakeReply::text("It has 7 watts."),
        ];
        let provider = FakeProvider::start(format, replies).unwrap();
        let agent =
            Agent::new(model(format, &provider)).instruct("Be brief.").tools(tools![fake_lamp]);
        let answer = agent.run("How bright is the lamp?").await;
        assert_eq!(provider.refusals(), [""; 0], "{format:?}");
        assert_eq!(answer.unwrap().output(), "It has 7 watts.", "{format:?}");
        assert_eq!(provider.requests().len(), 4, "{format:?}");
        // With a typed answer, and with a stream.
        let replies = [
            FakeReply::call("fake_lamp", json!({"name": "a"})),
            FakeReply::text(r#"{"points": 7, "why": null}"#),
        ];
        let provider = FakeProvider::start(format, replies).unwrap();
        let agent =
            Agent::new(model(format, &provider)).tools(tools![fake_lamp]).output::<Points>();
        let run = agent.start(agentflow::agent::RunRequest::new("How bright?").stream()).unwrap();
        assert_eq!(
            run.result().await.unwrap().into_output(),
            Points { points: 7, why: None },
            "{format:?}"
        );
        assert_eq!(provider.refusals(), [""; 0], "{format:?}");
    }
}

#[tokio::test]
async fn a_refusal_is_the_error_of_the_provider() {
    for format in ALL {
        let provider = FakeProvider::start(format, [FakeReply::text("Ok.")]).unwrap();
        let request = ModelRequest::new(agentflow::message::Conversation::new());
        let error = model(format, &provider).call(request).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.status()),
            (ModelErrorKind::BadRequest, Some(400)),
            "{format:?}: {error}"
        );
        assert_eq!(provider.refusals().len(), 1);
        let provider = FakeProvider::start(format, [FakeReply::text("Ok.")]).unwrap().lenient();
        let request = ModelRequest::new(agentflow::message::Conversation::new());
        assert_eq!(
            model(format, &provider).call(request).await.unwrap().text(),
            "Ok.",
            "{format:?}"
        );
    }
}

/// Builds a request of the Chat format with a call and its results.
fn chat(name: &str, arguments: &str, results: &[&str]) -> Value {
    let call =
        json!({"id": "a", "type": "function", "function": {"name": name, "arguments": arguments}});
    let mut messages = vec![
        json!({"role": "user", "content": "Hi"}),
        json!({"role": "assistant", "content": null, "tool_calls": [call]}),
    ];
    messages.extend(
        results.iter().map(|id| json!({"role": "tool", "content": "1", "tool_call_id": id})),
    );
    json!({"model": "m", "messages": messages})
}

fn gemini(contents: Value) -> Value {
    json!({"contents": contents})
}

#[test]
fn requests_that_providers_refuse_are_refused() {
    use ProviderFormat::{Anthropic, Gemini, OpenAiChat, OpenAiResponses};
    let user = json!({"role": "user", "parts": [{"text": "Hi"}]});
    let called = json!({"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]});
    let result = |value: Value| json!({"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"output": value}}}]});
    let tool = |schema: Value| {
        json!({"messages": [{"role": "user", "content": "Hi"}],
            "tools": [{"type": "function", "function": {"name": "f", "parameters": schema}}]})
    };
    let blocks = |content: Value| json!({"messages": [{"role": "user", "content": content}]});
    for (format, body, said) in [
        (OpenAiChat, chat("web.search", "{}", &["a"]), "does not match the pattern"),
        (OpenAiChat, chat("f", "{\"a\": 1 <", &["a"]), "must be a JSON object"),
        (OpenAiChat, chat("f", "\"{}\"", &["a"]), "must be a JSON object"),
        (OpenAiChat, chat("f", "{}", &[]), "has no result"),
        (OpenAiChat, chat("f", "{}", &["b"]), "has no call before it"),
        (OpenAiChat, chat("f", "{}", &["a", "a"]), "has no call before it"),
        (OpenAiChat, json!({"messages": []}), "at least one message"),
        (OpenAiChat, json!({"messages": [{"role": "user"}]}), "must have content"),
        (
            OpenAiChat,
            json!({"messages": [{"role": "system", "content": "Be brief."}]}),
            "a message of the user",
        ),
        (OpenAiChat, tool(json!({"type": "array"})), "type 'object'"),
        (OpenAiChat, tool(json!({"type": "object", "anyOf": []})), "'anyOf' at the top level"),
        (
            OpenAiChat,
            json!({"messages": [{"role": "user", "content": "Hi"}], "response_format": {"type": "json_schema",
                "json_schema": {"schema": {"type": "object", "properties": {"a": {"type": "string"}}}}}}),
            "'additionalProperties'",
        ),
        (
            OpenAiResponses,
            json!({"input": [{"role": "user", "content": "Hi"},
                {"type": "function_call", "call_id": "a", "name": "f", "arguments": "[]"},
                {"type": "function_call_output", "call_id": "a", "output": "1"}]}),
            "must be a JSON object",
        ),
        (
            OpenAiResponses,
            json!({"input": [{"role": "user", "content": "Hi"},
                {"type": "function_call_output", "call_id": "a", "output": "1"}]}),
            "has no call before it",
        ),
        (Anthropic, blocks(json!([{"type": "text", "text": " "}])), "must have content"),
        (Anthropic, blocks(json!([])), "must have content"),
        (
            Anthropic,
            json!({"messages": [{"role": "assistant", "content": "Hi"}]}),
            "role of the user",
        ),
        (
            Anthropic,
            json!({"messages": [{"role": "user", "content": "Hi"},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "a.b", "name": "f", "input": {}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a.b", "content": "1"}]}]}),
            "does not match the pattern",
        ),
        (Gemini, gemini(json!([user, called, result(json!({"a": [{"$ref": "#/b"}]}))])), "`$ref`"),
        (Gemini, gemini(json!([called, result(json!(1))])), "role of the user"),
        (
            Gemini,
            gemini(
                json!([user, {"role": "model", "parts": [{"text": "a"}]}, called, result(json!(1))]),
            ),
            "a function call turn",
        ),
        (Gemini, gemini(json!([user, called])), "has no result"),
        (
            Gemini,
            json!({"contents": [user], "tools": [{"functionDeclarations": [
                {"name": "f", "parametersJsonSchema": {"type": "object", "patternProperties": {}}}]}]}),
            "'patternProperties' is not supported",
        ),
    ] {
        let provider = FakeProvider::start(format, [FakeReply::text("Ok.")]).unwrap();
        let answer = post(&format!("{}/x", provider.base_url()), &body).unwrap();
        assert_eq!(answer.status, 400, "{format:?} {body}");
        let [refusal] = &*provider.refusals() else { panic!("{format:?} {body}") };
        assert!(refusal.contains(said), "{format:?} {body}: {refusal}");
        let message = answer.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains(said), "{message}");
        let provider = provider.lenient();
        assert_eq!(post(&format!("{}/x", provider.base_url()), &body).unwrap().status, 200);
    }
    // A valid request.
    let provider = FakeProvider::start(OpenAiChat, [FakeReply::text("Ok.")]).unwrap();
    let answer = post(&format!("{}/x", provider.base_url()), &chat("f", "{}", &["a"])).unwrap();
    assert_eq!(
        (answer.status, answer.json()["choices"][0]["message"]["content"].as_str()),
        (200, Some("Ok."))
    );
}

//! Benchmark case: one turn of an agent over HTTP. It builds the request, sends it to a server in
//! this process and reads the answer.
//!
//! The hand-written loop encodes each message once and appends it to the body, which is the minimum
//! for a turn.

use std::sync::Once;

use agentflow::model::Secret;
use agentflow::model::openai_chat::OpenAiChat;
use agentflow::serde::{Deserialize, Serialize};
use agentflow::{Runtime, serde_json, tools};

use super::{Case, dispatch, server, step};

const TARGET: f64 = 1.3;
const QUESTION: &str = "Add the numbers.";

pub(crate) fn cases() -> Vec<Case> {
    [10, 100, 1000].map(case).into_iter().collect()
}

fn case(steps: u32) -> Case {
    let tokio =
        || tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (for_floor, for_ours) = (tokio(), tokio());
    let by_hand = ByHand::new(serve(steps));
    let model = OpenAiChat::builder("bench").base_url(serve(steps)).api_key(Secret::new("key"));
    let agent =
        step::agent(model.build().expect("the address is one"), 1, &Runtime::builder().build());
    Case {
        name: format!("HTTP step, {steps} steps"),
        units: steps,
        target: TARGET,
        floor: Box::new(move || for_floor.block_on(by_hand.run())),
        ours: Box::new(move || {
            let result = for_ours.block_on(agent.run(QUESTION)).expect("the run has an answer");
            result.conversation().len() + result.output().len()
        }),
    }
}

/// A typical hand-written loop over reqwest.
struct ByHand {
    client: reqwest::Client,
    url: String,
    tools: String,
}

#[derive(Deserialize)]
struct Answer {
    choices: Vec<Choice>,
}

#[derive(Deserialize)]
struct Choice {
    message: Said,
}

#[derive(Deserialize, Serialize)]
struct Said {
    role: String,
    content: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Call>,
}

#[derive(Deserialize, Serialize)]
struct Call {
    id: String,
    r#type: String,
    function: Function,
}

#[derive(Deserialize, Serialize)]
struct Function {
    name: String,
    arguments: String,
}

#[derive(Serialize)]
struct ToolMessage<'a> {
    role: &'static str,
    tool_call_id: &'a str,
    content: String,
}

#[derive(Deserialize)]
struct Add {
    a: i64,
    b: i64,
}

impl ByHand {
    fn new(base_url: String) -> Self {
        static PROVIDER: Once = Once::new();
        PROVIDER.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
        let definition = &tools![dispatch::add][0];
        let definition = definition.definition();
        let tools = serde_json::json!([{"type": "function", "function": {
            "name": definition.name, "description": definition.description, "parameters": definition.parameters,
        }}]);
        Self {
            client: reqwest::Client::new(),
            url: format!("{base_url}/chat/completions"),
            tools: tools.to_string(),
        }
    }

    async fn run(&self) -> usize {
        let mut messages = format!(r#"{{"role":"user","content":"{QUESTION}"}}"#).into_bytes();
        let mut count = 1;
        loop {
            let tools = self.tools.as_bytes();
            let body = [
                br#"{"model":"bench","messages":["#,
                messages.as_slice(),
                br#"],"tools":"#,
                tools,
                b"}",
            ]
            .concat();
            let request = self
                .client
                .post(&self.url)
                .bearer_auth("key")
                .header("content-type", "application/json");
            let response = request.body(body).send().await.expect("the server answers");
            let bytes = response.bytes().await.expect("the answer has an end");
            let Answer { mut choices } = serde_json::from_slice(&bytes).expect("the answer is one");
            let said = choices.remove(0).message;
            append(&mut messages, &said);
            count += 1;
            if said.tool_calls.is_empty() {
                return count + said.content.map_or(0, |text| text.len());
            }
            for call in &said.tool_calls {
                let Add { a, b } =
                    serde_json::from_str(&call.function.arguments).expect("the arguments fit");
                let content = serde_json::to_string(&(a + b)).expect("a number has a JSON form");
                append(
                    &mut messages,
                    &ToolMessage { role: "tool", tool_call_id: &call.id, content },
                );
                count += 1;
            }
        }
    }
}

fn append(messages: &mut Vec<u8>, message: &impl Serialize) {
    messages.push(b',');
    serde_json::to_writer(messages, message).expect("a message has a JSON form");
}

/// Starts a server for one case. It answers runs with this number of steps, one after another.
fn serve(steps: u32) -> String {
    let mut answered = 0;
    let base = server::serve("application/json", move || {
        answered += 1;
        let turn = (answered - 1) % steps + 1;
        completion(turn, turn == steps).into()
    });
    format!("{base}/v1")
}

fn completion(turn: u32, last: bool) -> String {
    let (message, reason) = if last {
        (serde_json::json!({"role": "assistant", "content": "That is the sum."}), "stop")
    } else {
        let arguments = format!(r#"{{"a": {turn}, "b": 3}}"#);
        let call = serde_json::json!({
            "id": format!("call_{turn}"), "type": "function", "function": {"name": "add", "arguments": arguments},
        });
        (
            serde_json::json!({"role": "assistant", "content": null, "tool_calls": [call]}),
            "tool_calls",
        )
    };
    serde_json::json!({
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "bench",
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    })
    .to_string()
}
